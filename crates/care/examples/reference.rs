//! Writes the reference of the checks, `docs/doctor-checks.md` and `docs/doctor-schema.json`: `cargo run -p millrace-care --example reference`.

use std::path::Path;

use millrace_care::report;

const HEAD: &str = "# The doctor's checks

Generated from the table in `crates/care/src/checks`; a test compares. [doctor.md](doctor.md) shows how to use `millrace doctor`.
`millrace doctor --explain CHECK` prints one of them.

";

fn main() -> std::io::Result<()> {
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
    std::fs::write(docs.join("doctor-checks.md"), format!("{HEAD}{}", report::page()))?;
    std::fs::write(docs.join("doctor-schema.json"), format!("{:#}\n", report::schema()))
}

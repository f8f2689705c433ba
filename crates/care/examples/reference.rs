//! Writes the references `docs/doctor-checks.md`, `docs/doctor-schema.json` and `docs/tune-settings.md`: `cargo run -p millrace-care --example reference`.

use std::path::Path;

use millrace_care::{report, tune};

const HEAD: &str = "# The doctor's checks

Generated from the table in `crates/care/src/checks`; a test compares. [doctor.md](doctor.md) shows how to use `millrace doctor`.
`millrace doctor --explain CHECK` prints one of them.

";

const TUNE_HEAD: &str = "# Settings of `millrace tune`

Generated from the table in `crates/care/src/tune/table.rs`; a test compares. [tune.md](tune.md) shows how to use `millrace tune`.

The sources are three published systems - WordPress for 10,000 clients a second on a server with 2 cores and 2 GB (nginx, PHP 7, MySQL), a LAMP server
for 4,250 concurrent users, WordPress with WooCommerce and a million connections on a server with 128 cores and 512 GB -, the profiles of
[tuned](https://tuned-project.org), and the budget itself.

";

fn main() -> std::io::Result<()> {
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
    std::fs::write(docs.join("doctor-checks.md"), format!("{HEAD}{}", report::page()))?;
    std::fs::write(docs.join("tune-settings.md"), format!("{TUNE_HEAD}{}", tune::report::page()))?;
    std::fs::write(docs.join("doctor-schema.json"), format!("{:#}\n", report::schema()))
}

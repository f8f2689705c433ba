//! Writes the reference pages, `docs/settings.md`, `docs/settings/` and the table in `docs/rules.md`: `cargo run -p millrace-settings --example reference`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
    std::fs::create_dir_all(docs.join("settings"))?;
    for (path, text) in millrace_settings::reference() {
        std::fs::write(docs.join(path), text)?;
    }
    let rules = docs.join("rules.md");
    std::fs::write(&rules, millrace_settings::with_rule_keys(&std::fs::read_to_string(&rules)?))
}

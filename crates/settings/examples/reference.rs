//! Writes the reference pages, `docs/settings.md` and `docs/settings/`: `cargo run -p millrace-settings --example reference`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
    std::fs::create_dir_all(docs.join("settings"))?;
    for (path, text) in millrace_settings::reference() {
        std::fs::write(docs.join(path), text)?;
    }
    Ok(())
}

//! Writes the table of directives in `docs/htaccess.md`: `cargo run -p millrace-htaccess --example reference`.

use std::path::Path;

use millrace_htaccess::directives::table;

fn main() -> std::io::Result<()> {
    let page = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/htaccess.md"));
    let text = std::fs::read_to_string(page)?;
    let marks = text
        .split_once("<!-- the directives -->\n")
        .and_then(|(before, after)| Some((before, after.split_once("<!-- end of the directives -->")?.1)));
    let (before, after) = marks.ok_or_else(|| std::io::Error::other("the marks of the table are missing"))?;
    let text = format!("{before}<!-- the directives -->\n{}<!-- end of the directives -->{after}", table());
    std::fs::write(page, text)
}

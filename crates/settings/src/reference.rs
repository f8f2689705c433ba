//! The reference, made from the table: an index, `docs/settings.md`, and a page for each task in `docs/settings/`.

use std::fmt::Write as _;

use crate::explain::summary;
use crate::table::{GROUPS, PAGES, Page, Setting};

/// The pages, each with its path in `docs/`: `settings.md` and `settings/NAME.md`.
#[must_use]
pub fn reference() -> Vec<(String, String)> {
    let index = ("settings.md".to_owned(), index());
    let pages = PAGES.iter().map(|page| (format!("settings/{}.md", page.name), of_task(page)));
    std::iter::once(index).chain(pages).collect()
}

/// `docs/rules.md` with the table of the keys of rules in its current form.
///
/// # Panics
/// If `page` has no place for the table.
#[must_use]
pub fn with_rule_keys(page: &str) -> String {
    let (before, rest) = page.split_once(RULES_BEGIN).expect("the place of the table");
    let (_, after) = rest.split_once(RULES_END).expect("the end of the table");
    format!("{before}{RULES_BEGIN}{}{RULES_END}{after}", crate::rule::table())
}

/// Where the table of the keys of rules begins in `docs/rules.md`.
const RULES_BEGIN: &str = "<!-- the keys -->\n";
/// Where it ends.
const RULES_END: &str = "<!-- end of the keys -->\n";

const INTRODUCTION: &str = r#"# Settings

`cargo run -p millrace-settings --example reference` writes these pages from the table in `crates/settings/src/table/rows/`;
a test fails if they differ. `millrace explain SETTING` shows the same in a terminal, with the values for this machine.

The configuration is a TOML file. `--config FILE` names it; without that, Millrace looks for `millrace.toml` in the
current directory, then for `/etc/millrace/millrace.toml`. `millrace serve DIR` needs no file.

```toml
[http]
keep_alive = "30s"

[[site]]
names = ["example.com", "www.example.com"]
root = "/srv/www/example"

[site.php]
user = "example"
```

- Check: `millrace check --config FILE` reports every problem of a file, with its line and how to fix it.
- Reload: `millrace reload` or SIGHUP applies a change, unless the setting says that it needs a restart.
- Durations: `"500ms"`, `"10s"`, `"2m"`, `"1h"`, `"1d"`, or several parts as in `"1h30m"`.
- Sizes: `"512B"`, `"16KB"`, `"64MB"`, `"2GB"`. KB is 1024 bytes, MB is 1024 KB; KiB, K and kb mean the same.
- Paths: relative ones start at the directory of the configuration file, on the command line at the current directory.
- Rules: `[[site.rule]]` after a `[[site]]` has its redirects, access, header fields and the like: [rules.md](rules.md).
- Sites: a setting in `[php]` applies to all sites, in `[site.php]` to one. The same holds for `[php.pool.admin]` and
  `[site.php.pool.admin]`.
- Command line: `--set SETTING=VALUE` overrides a setting for one run: `--set http.keep_alive=5s`,
  `--set php.ini.memory_limit=256M`, `--set site.root=DIR` for every site, `--set site.example.com.root=DIR` for one.
"#;

fn index() -> String {
    let mut text = INTRODUCTION.to_owned();
    text.push_str("\n## By task\n\n| Page | Settings |\n| --- | --- |\n");
    for page in PAGES {
        let _ = writeln!(text, "| [{}](settings/{}.md) | {} |", page.title, page.name, page.line);
    }
    text.push_str("\n## By table\n\n| Table | Contents |\n| --- | --- |\n");
    for group in GROUPS {
        let _ = writeln!(text, "| `{}` | {} |", group.header, group.line);
    }
    text.push_str("\n## By name\n\n| Setting | Effect |\n| --- | --- |\n");
    let mut rows: Vec<_> =
        PAGES.iter().flat_map(|page| page.rows.iter().map(|row| (row.key, page.name, row.line))).collect();
    rows.sort_unstable();
    for (key, page, line) in rows {
        let _ = writeln!(text, "| [`{key}`](settings/{page}.md#{}) | {} |", anchor(key), summary(line));
    }
    text
}

/// The anchor of a setting's heading, as GitHub makes it.
fn anchor(key: &str) -> String {
    key.replace('.', "").to_lowercase()
}

fn of_task(page: &Page) -> String {
    let Page { title, line, guide, .. } = page;
    let mut text = format!(
        "# {title}\n\n{line} [{guide}](../{guide}) explains the subject; [settings.md](../settings.md) lists all settings.\n"
    );
    for row in page.rows {
        setting(&mut text, row);
    }
    text
}

fn setting(text: &mut String, row: &Setting) {
    let _ = write!(text, "\n## `{}`\n\n{}\n\n", row.key, row.line);
    let _ = writeln!(text, "- Value: {}", row.kind.bounds());
    let _ = writeln!(text, "- Default: {}", row.default_text());
    let _ = writeln!(text, "- Table: {}", row.header());
    let _ = writeln!(text, "- Example: `{} = {}`", row.last(), row.example);
    if row.restart.is_some() {
        let _ = writeln!(text, "- A change needs a restart.");
    }
    let _ = write!(text, "\n{}\n", row.reason);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::table;

    const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    const COMMAND: &str = "cargo run -p millrace-settings --example reference";

    #[test]
    fn the_pages_are_the_table() {
        for (path, text) in reference() {
            let written = fs::read_to_string(Path::new(DOCS).join(&path)).unwrap_or_default();
            assert!(written == text, "docs/{path} differs from the table; write it again:\n    {COMMAND}");
        }
        let made: BTreeSet<String> = PAGES.iter().map(|page| format!("{}.md", page.name)).collect();
        let names = fs::read_dir(Path::new(DOCS).join("settings")).unwrap();
        let there = names.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(made, there, "docs/settings/ has other pages than the table");
    }

    #[test]
    fn the_table_of_rules_has_all_keys() {
        let page = fs::read_to_string(Path::new(DOCS).join("rules.md")).unwrap();
        assert!(with_rule_keys(&page) == page, "docs/rules.md differs; write it again:\n    {COMMAND}");
        for key in crate::rule::KEYS {
            assert!(
                key.line.ends_with('.') && key.line.len() > 10 && !key.line.contains("  "),
                "{}",
                key.name
            );
        }
    }

    #[test]
    fn every_setting_is_on_one_page_and_in_the_index() {
        let pages = reference();
        for row in table::rows() {
            let heading = format!("\n## `{}`\n", row.key);
            assert_eq!(pages.iter().filter(|(_, text)| text.contains(&heading)).count(), 1, "{}", row.key);
            assert!(pages[0].1.contains(&format!("| [`{}`](settings/", row.key)), "{}", row.key);
        }
    }

    /// Links to the reference from the other documents lead to a page and to a setting on it.
    #[test]
    fn links_to_settings_lead_somewhere() {
        let pages = reference();
        for page in PAGES {
            assert!(Path::new(DOCS).join(page.guide).is_file(), "{}", page.guide);
        }
        let mut found = 0;
        for file in fs::read_dir(DOCS).unwrap().map(|file| file.unwrap().path()) {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            for link in text.split("](settings").skip(1).filter_map(|rest| rest.split(')').next()) {
                let (path, heading) = link.split_once('#').unwrap_or((link, ""));
                let page = pages.iter().find(|(name, _)| *name == format!("settings{path}"));
                let (_, page) = page.unwrap_or_else(|| panic!("{}: settings{link}", file.display()));
                let mut headings = page.lines().filter_map(|line| line.strip_prefix("## "));
                let is_there = heading.is_empty()
                    || headings.any(|line| anchor(&line.replace(['`', ' '], "")) == heading);
                assert!(is_there, "{}: settings{link}", file.display());
                found += 1;
            }
        }
        assert!(found > table::rows().count());
    }
}

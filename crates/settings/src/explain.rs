//! `millrace explain` and `docs/settings.md`: the table, for people.

use std::fmt::Write as _;

use crate::environment::Environment;
use crate::plan::Network;
use crate::resolve::View;
use crate::suggest::{self, Suggestion};
use crate::table::{self, Default, Group, Kind, Place, Setting, TABLE};
use crate::value::{Value, duration_text, number_text, size_text};
use crate::written::Written;

/// Width of a terminal's line.
const WIDTH: usize = 90;

/// All about a setting (`http.head_timeout`, or `head_timeout` if there is one of that name), a line each for the
/// settings of a section (`http`, `site.redirect`), or for all of them (`all`, or nothing).
///
/// # Errors
/// What to ask for instead, if there is no such setting.
pub fn explain(key: &str) -> Result<String, Suggestion> {
    explain_on(key, &Environment::of_this_machine())
}

/// [`explain`], for a machine that is passed in.
///
/// # Errors
/// As [`explain`].
pub fn explain_on(key: &str, environment: &Environment<'_>) -> Result<String, Suggestion> {
    let key = key.trim().trim_matches(['[', ']']).trim();
    if matches!(key, "" | "all" | "settings") {
        return Ok(overview(TABLE.iter().flat_map(|group| group.rows)));
    }
    if let Some(row) = row(key) {
        return Ok(detail(row, environment));
    }
    let below = |row: &&Setting| {
        starts_below(row.key, key) || row.key_in_site().is_some_and(|row| starts_below(row, strip(key)))
    };
    let section: Vec<&Setting> = table::rows().filter(below).collect();
    if !section.is_empty() {
        let line = TABLE
            .iter()
            .find(|group| group.name == key)
            .map(|group| format!("{} {}\n\n", group.header, group.line));
        return Ok(line.unwrap_or_default() + &overview(section));
    }
    if let Some(row) =
        table::rows().find(|row| row.elsewhere.iter().any(|name| name.eq_ignore_ascii_case(key)))
    {
        return Ok(format!("{key} is called {} here.\n\n{}", row.key, detail(row, environment)));
    }
    let last = key.rsplit('.').next().unwrap_or(key);
    let near = suggest::nearest(key, table::rows().map(|row| row.key))
        .or_else(|| suggest::nearest(last, table::rows().map(Setting::last)));
    let cure = match near {
        Some(word) => format!("did you mean `millrace explain {word}`?"),
        None => "`millrace explain all` lists all".to_owned(),
    };
    Err(Suggestion(format!("no setting is named `{}`; {cure}", crate::problem::shown(key))))
}

/// The reference page, `docs/settings.md`.
#[must_use]
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    for group in TABLE {
        let _ = write!(page, "\n## `{}`\n\n{}\n", group.header, group.line);
        for row in group.rows {
            section(&mut page, row);
        }
    }
    page
}

const INTRODUCTION: &str = r#"# Settings

This page is made from the settings table in `crates/settings/src/table/rows.rs`; a test fails if it differs.
`millrace explain SETTING` says the same in a terminal, with the values for the machine at hand.

A configuration is a TOML file, named by `--config FILE`; without one `millrace.toml` in the current directory and then
`/etc/millrace/millrace.toml` are looked for. `millrace serve DIR` needs none. `millrace check` lists every problem of
a file with its line and its cure.

```toml
[http]
keep_alive = "30s"

[[site]]
names = ["example.com", "www.example.com"]
root = "/srv/www/example"

[site.php]
user = "example"
```

- Durations: `"500ms"`, `"10s"`, `"2m"`, `"1h"`, `"1d"`, or several parts as in `"1h30m"`.
- Sizes: `"512B"`, `"16KB"`, `"64MB"`, `"2GB"`. KB is 1024 bytes, MB is 1024 KB; KiB, K and kb mean the same.
- Relative paths start at the folder of the configuration file; on the command line at the current directory.
- A setting of `[php]` holds for all sites, and in `[site.php]` for one; so do those of `[php.pool.admin]` and
  `[site.php.pool.admin]`.
- `--set SETTING=VALUE` overrides a setting for one run: `--set http.keep_alive=5s`, `--set php.ini.memory_limit=256M`,
  `--set site.root=DIR` for every site, `--set site.example.com.root=DIR` for one.
- A change takes effect on a reload (`millrace reload`, SIGHUP) unless "restart" stands here.
"#;

fn section(page: &mut String, row: &Setting) {
    let _ = write!(page, "\n### `{}`\n\n{}\n\n", row.key, row.line);
    let _ = writeln!(page, "- Value: {}", row.kind.bounds());
    let _ = writeln!(page, "- Default: {}", row.default_text());
    if row.place == Place::Both || row.header().contains(" of ") {
        let _ = writeln!(page, "- Stands in: {}", row.header());
    }
    let _ = writeln!(page, "- Example: `{} = {}`", row.last(), row.example);
    if row.restart.is_some() {
        let _ = writeln!(page, "- A change needs a restart.");
    }
    let _ = write!(page, "\n{}\n", row.reason);
}

/// The row that `key` means: its full name, its name in a site, or a last part that no other has.
fn row(key: &str) -> Option<&'static Setting> {
    let (key_of_row, _) = table::unnamed(strip(key));
    let exact = table::rows()
        .find(|row| row.key == key || row.key == key_of_row || row.key_in_site() == Some(&*key_of_row));
    exact.or_else(|| {
        // A pool has again what PHP has as a whole.
        let mut same = table::rows().filter(|row| row.last() == key && !row.is_named());
        let is_section = TABLE.iter().any(|group: &Group| group.name == key);
        same.next().filter(|_| !is_section && same.next().is_none())
    })
}

/// `php.workers` of `site.php.workers`.
fn strip(key: &str) -> &str {
    key.strip_prefix("site.").unwrap_or(key)
}

fn starts_below(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}

/// A line each: name, default, what it does.
fn overview<'a>(rows: impl IntoIterator<Item = &'a Setting>) -> String {
    let rows: Vec<&Setting> = rows.into_iter().collect();
    let width = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let end = [". ", ": ", "; "].iter().filter_map(|stop| row.line.find(stop)).min();
        let first = end.map_or(row.line, |end| &row.line[..end]);
        let _ = writeln!(text, "{:width$}  {}", row.key, first.trim_end_matches('.'));
    }
    text.push_str("\n`millrace explain SETTING` says more of one.\n");
    text
}

fn detail(row: &Setting, environment: &Environment<'_>) -> String {
    let mut text = format!("{}\n", row.key);
    wrap(&mut text, "  ", row.line);
    text.push('\n');
    let mut line = |name: &str, value: &str| {
        let first = format!("  {name:<13}");
        wrap_hanging(&mut text, &first, &" ".repeat(first.len()), value);
    };
    line("value", &row.kind.bounds());
    line("default", &row.default_text());
    if let Some(here) = default_here(row, environment) {
        line("here", &here);
    }
    line("stands in", &row.header());
    line("example", &format!("{} = {}", row.last(), row.example));
    line("for one run", &format!("--set {}", for_one_run(row)));
    let change = if row.restart.is_some() { "needs a restart" } else { "takes effect on a reload" };
    line("a change", change);
    text.push('\n');
    wrap(&mut text, "  ", row.reason);
    text
}

/// The example as an argument.
fn for_one_run(row: &Setting) -> String {
    let plain = row.example.trim_matches('"');
    let is_plain = !plain.contains(['"', ' ', '{', '[']);
    let key = row.key.replace(".NAME.", ".admin.");
    if is_plain { format!("{key}={plain}") } else { format!("'{key}={}'", row.example) }
}

/// What a computed default comes to on this machine.
fn default_here(row: &Setting, environment: &Environment<'_>) -> Option<String> {
    if !matches!(row.default, Default::Computed { .. }) || row.place == Place::Site || row.is_named() {
        return None;
    }
    let written = Written::default();
    let value = View::new(&written, None, environment).default_of(row);
    let text = shown(&row.kind, &value);
    if !matches!((row.kind, &value), (Kind::Count { .. }, Value::Number(_))) {
        return Some(text);
    }
    let (cores, plural) = (environment.cores, if environment.cores == 1 { "" } else { "s" });
    let gigabytes = environment.memory as f64 / f64::from(1 << 30);
    Some(format!("{text} ({cores} core{plural}, {gigabytes:.1}GB of memory)"))
}

fn shown(kind: &Kind, value: &Value) -> String {
    match value {
        Value::Number(number) if matches!(kind, Kind::Size { .. }) => size_text(*number),
        Value::Number(number) => number_text(*number),
        Value::Duration(duration) => duration_text(*duration),
        Value::Switch(on) => on.to_string(),
        Value::Choice(word) => (*word).to_owned(),
        Value::Address(Some(address)) => crate::check::address_text(address),
        Value::Text(Some(text)) => text.clone(),
        Value::Path(Some(path)) => path.display().to_string(),
        Value::Networks(networks) if !networks.is_empty() => {
            let text = |network: &Network| match network {
                Network::Block(ip, length) => format!("{ip}/{length}"),
                Network::Unix => "unix".to_owned(),
            };
            networks.iter().map(text).collect::<Vec<_>>().join(", ")
        }
        _ => "none".to_owned(),
    }
}

fn wrap(text: &mut String, indent: &str, paragraph: &str) {
    wrap_hanging(text, indent, indent, paragraph);
}

/// Adds a paragraph with line breaks.
fn wrap_hanging(text: &mut String, first: &str, indent: &str, paragraph: &str) {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in paragraph.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = indent.to_owned();
            empty = true;
        }
        line.push_str(if empty { "" } else { " " });
        line.push_str(word);
        empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

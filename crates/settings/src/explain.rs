//! `millrace explain`: the table, in a terminal.

use std::fmt::Write as _;

use crate::environment::Environment;
use crate::php_ini;
use crate::plan::Peers;
use crate::resolve::View;
use crate::suggest::{self, Suggestion};
use crate::table::{self, Default, GROUPS, Kind, PAGES, Place, Setting};
use crate::value::{Value, duration_text, number_text, size_text};
use crate::written::Written;

/// Width of a line in the terminal.
const WIDTH: usize = 90;

/// Explains a setting (`http.head_timeout`, or `head_timeout` if only one has that name). Lists the settings of a table
/// (`http`, `site.redirect`), or all of them by task (`all`, or nothing), one per line.
///
/// # Errors
/// A suggestion, if there is no such setting.
pub fn explain(key: &str) -> Result<String, Suggestion> {
    explain_on(key, &Environment::of_this_machine())
}

/// [`explain`] for the given machine.
///
/// # Errors
/// As [`explain`].
pub fn explain_on(key: &str, environment: &Environment<'_>) -> Result<String, Suggestion> {
    let key = key.trim().trim_matches(['[', ']']).trim();
    if matches!(key, "" | "all" | "settings") {
        let by_task = |page: &&table::Page| format!("{}\n\n{}\n", page.title, overview(page.rows));
        return Ok(PAGES.iter().map(by_task).collect::<String>() + MORE);
    }
    if let Some(row) = row(key) {
        return Ok(detail(row, environment));
    }
    let below = |row: &&Setting| {
        starts_below(row.key, key) || row.key_in_site().is_some_and(|row| starts_below(row, strip(key)))
    };
    let section: Vec<&Setting> = table::rows().filter(below).collect();
    if !section.is_empty() {
        let line = GROUPS
            .iter()
            .find(|group| group.name == key)
            .map(|group| format!("{} {}\n\n", group.header, group.line));
        return Ok(line.unwrap_or_default() + &overview(section) + "\n" + MORE);
    }
    if let Some(name) = php_ini::known(key.strip_prefix("php.ini.").unwrap_or(key)) {
        let row = table::find("php.ini").expect("a row");
        return Ok(format!(
            "{name} is a setting of PHP's own: {name} under [php.ini] sets it.\n\n{}",
            detail(row, environment)
        ));
    }
    let same: Vec<&Setting> = table::rows().filter(|row| row.last() == key).collect();
    if same.len() > 1 {
        return Ok(format!(
            "{} settings are called {key}:\n\n{}\n{MORE}",
            same.len(),
            overview(same.iter().copied())
        ));
    }
    if let Some(row) =
        table::rows().find(|row| row.elsewhere.iter().any(|name| name.eq_ignore_ascii_case(key)))
    {
        return Ok(format!("{key} is called {} here.\n\n{}", row.key, detail(row, environment)));
    }
    if let Some(why) = table::gone(strip(key)) {
        return Err(Suggestion(format!("`{key}` has gone: {why}")));
    }
    let last = key.rsplit('.').next().unwrap_or(key);
    let near = php_ini::misspelt(key)
        .or_else(|| suggest::nearest(key, table::rows().map(|row| row.key)))
        .or_else(|| suggest::nearest(last, table::rows().map(Setting::last)).filter(|word| *word != key));
    let cure = match near {
        Some(word) => format!("did you mean `millrace explain {word}`?"),
        None => "`millrace explain all` lists all settings".to_owned(),
    };
    Err(Suggestion(format!("no setting is named `{}`; {cure}", crate::problem::shown(key))))
}

/// The row of `key`: its full name, its name in a site, or a last part that no other setting has.
fn row(key: &str) -> Option<&'static Setting> {
    let (key_of_row, _) = table::unnamed(strip(key));
    let exact = table::rows()
        .find(|row| row.key == key || row.key == key_of_row || row.key_in_site() == Some(&*key_of_row));
    exact.or_else(|| {
        // Pools repeat names of `[php]`.
        let mut same = table::rows().filter(|row| row.last() == key && !row.is_named());
        let is_section = GROUPS.iter().any(|group| group.name == key);
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

const MORE: &str = "`millrace explain SETTING` explains one.\n";

/// One line per setting: its name and a summary.
fn overview<'a>(rows: impl IntoIterator<Item = &'a Setting>) -> String {
    let rows: Vec<&Setting> = rows.into_iter().collect();
    let width = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    let mut text = String::new();
    for row in rows {
        let _ = writeln!(text, "{:width$}  {}", row.key, summary(row.line));
    }
    text
}

/// The first clause of a row's line, without a full stop.
pub(crate) fn summary(line: &str) -> &str {
    let is_open = |end: usize| line[..end].matches('(').count() > line[..end].matches(')').count();
    let stops = [". ", ": ", "; "].into_iter().flat_map(|stop| line.match_indices(stop));
    let end = stops.map(|(end, _)| end).filter(|end| !is_open(*end)).min();
    line[..end.unwrap_or(line.len())].trim_end_matches('.')
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
    line("table", &row.header());
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

/// The value of a computed default on this machine.
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
            let text = |peers: &Peers| match peers {
                Peers::In(network) => format!("{}/{}", network.first(), network.bits()),
                Peers::Unix => "unix".to_owned(),
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

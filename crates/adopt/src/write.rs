//! Writes `millrace.toml`.

use std::fmt::Write;

use crate::value::{Adopted, Block, Note, Php, Site, Toml};

/// The configuration, with a comment for each directive that it lacks.
#[must_use]
pub fn toml(adopted: &Adopted) -> String {
    let mut out = String::from(
        "# Written by `millrace adopt`. Read the comments: they name what is not carried over. Then: millrace check\n",
    );
    lost(&mut out, &adopted.notes.lost);
    global(&mut out, adopted);
    for (cert, key) in &adopted.certificates {
        let _ = write!(out, "\n[[tls]]\ncert = {}\nkey = {}\n", quoted(cert), quoted(key));
    }
    for site in &adopted.sites {
        write_site(&mut out, site);
    }
    needless(&mut out, &adopted.all_notes().needless);
    out
}

/// Settings of all sites, a table for each first part of their names.
fn global(out: &mut String, adopted: &Adopted) {
    let mut tables: Vec<&str> = Vec::new();
    let parts = || adopted.settings.0.iter().filter_map(|(key, value)| Some((key.split_once('.')?, value)));
    for ((table, _), _) in parts() {
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    for table in tables {
        let _ = write!(out, "\n[{table}]\n");
        for ((_, key), value) in parts().filter(|((of, _), _)| *of == table) {
            let _ = writeln!(out, "{key} = {}", text(value));
        }
    }
}

fn write_site(out: &mut String, site: &Site) {
    let _ = write!(out, "\n# {}: {}\n[[site]]\n", site.source.place, shown(&site.source.text));
    if !site.names.is_empty() {
        let _ = writeln!(out, "names = {}", list(&site.names));
    }
    if site.default {
        out.push_str("default = true\n");
    }
    if let Some(root) = &site.root {
        let _ = writeln!(out, "root = {}", quoted(root));
    }
    match &site.php {
        Php::Own => {}
        Php::Off => out.push_str("php.enabled = false\n"),
        Php::Fastcgi(addresses) => {
            let _ = writeln!(out, "php.fastcgi = {}", list(addresses));
        }
    }
    for (key, value) in &site.settings.0 {
        let _ = writeln!(out, "{key} = {}", text(value));
    }
    lost(out, &site.notes.lost);
    for (table, blocks) in [("site.rule", &site.rules), ("site.proxy", &site.proxies)] {
        for block in blocks {
            write_block(out, table, block);
        }
    }
}

fn write_block(out: &mut String, table: &str, block: &Block) {
    let _ = write!(out, "\n# {}: {}\n", block.source.place, shown(&block.source.text));
    if let Some(caveat) = &block.caveat {
        let _ = writeln!(out, "# {}", shown(caveat));
    }
    let _ = writeln!(out, "[[{table}]]");
    for (key, value) in &block.keys {
        let _ = writeln!(out, "{key} = {}", text(value));
    }
}

fn lost(out: &mut String, notes: &[Note]) {
    for Note { source, why } in notes {
        let _ =
            writeln!(out, "# {}: {}: not carried over: {}", source.place, shown(&source.text), shown(why));
    }
}

/// The directives that Millrace does not need, together by reason.
fn needless(out: &mut String, notes: &[Note]) {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for Note { source, why } in notes {
        let name = source.text.split(' ').next().unwrap_or_default();
        let place = format!("{name} ({})", source.place);
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, places)) if places.contains(&place) => {}
            Some((_, places)) => places.push(place),
            None => reasons.push((why, vec![place])),
        }
    }
    if !reasons.is_empty() {
        out.push_str("\n# Not needed here:\n");
    }
    for (why, places) in reasons {
        let _ = writeln!(out, "# {}: {}", shown(&places.join(", ")), shown(why));
    }
}

/// Text for a comment: one line, no control characters, and not endless.
fn shown(text: &str) -> String {
    const LONGEST: usize = 300;
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut line: String = line.chars().filter(|c| !c.is_control()).collect();
    if let Some((end, _)) = line.char_indices().nth(LONGEST) {
        line.truncate(end);
        line.push_str("...");
    }
    line
}

fn text(value: &Toml) -> String {
    match value {
        Toml::Text(text) => quoted(text),
        Toml::Regex(text) if text.contains('\'') || text.chars().any(char::is_control) => quoted(text),
        Toml::Regex(text) => format!("'{text}'"),
        Toml::Number(number) => number.to_string(),
        Toml::Switch(switch) => switch.to_string(),
        Toml::Numbers(numbers) => {
            format!("[{}]", numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
        }
        Toml::List(texts) => list(texts),
        Toml::Table(entries) => {
            let entry = |(key, value): &(String, Toml)| format!("{} = {}", name(key), text(value));
            format!("{{ {} }}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A list; a single text needs no brackets in rules, but lists read the same everywhere.
fn list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// A key, quoted if it must be.
pub(crate) fn name(key: &str) -> String {
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !key.is_empty() && key.bytes().all(bare) { key.to_owned() } else { quoted(key) }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

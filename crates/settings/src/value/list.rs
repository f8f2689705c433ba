//! Lists and open tables. Every wrong element is reported, not only the first.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{Entry, Form, Raw, Read, Wrong, joined, name, number_text};
use crate::php_ini;
use crate::plan::{Address, Backend, Peers};
use crate::problem::{What, shown};

/// Header fields that the server writes or that frame a message; a second one would break the message (RFC 9110 section 7.6.1,
/// RFC 9112 section 6).
const OURS: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "date",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether only the server writes this header field.
pub(crate) fn is_ours(name: &str) -> bool {
    OURS.contains(&name.to_ascii_lowercase().as_str())
}

/// Listening addresses; a single one needs no brackets.
pub(super) fn addresses(raw: &Raw, base: &Path) -> Read<Vec<(Address, Range<usize>)>> {
    let list = elements(raw, "an address in quotes, like \"127.0.0.1:8080\"", |raw, text| {
        name::address(raw, text, base).map(|address| (address, raw.span.clone()))
    })?;
    not_empty(raw, list, "write at least one address, like [\"127.0.0.1:8080\"]")
}

/// Addresses to connect to; a single one needs no brackets, and `word` means none.
pub(super) fn backends(raw: &Raw, word: &str, base: &Path) -> Read<Vec<Backend>> {
    if raw.text() == Some(word) {
        return Ok(Vec::new());
    }
    let example = "an address in quotes, like \"unix:/run/php/php8.2-fpm.sock\"";
    let list = elements(raw, example, |raw, text| name::backend(raw, text, base))?;
    not_empty(raw, list, &format!("write at least one address, or \"{word}\""))
}

/// Address blocks.
pub(super) fn networks(raw: &Raw) -> Read<Vec<Peers>> {
    elements(raw, "an address block in quotes, like \"10.0.0.0/8\"", name::peers)
}

/// Names of files in a directory.
pub(super) fn file_names(raw: &Raw) -> Read<Vec<(String, Range<usize>)>> {
    let list = elements(raw, "a file name in quotes, like \"index.html\"", |raw, text| {
        if text.is_empty() || text.starts_with('.') || text.contains(['/', '\\', '\0']) {
            let title = format!("cannot contain \"{}\"", shown(text));
            let cure = "write the name of a file in the directory, without a path or a leading dot";
            return Err(raw.wrong(What::Malformed, title, "not a plain file name", cure));
        }
        Ok((text.to_owned(), raw.span.clone()))
    })?;
    not_empty(raw, list, "write at least one name, like [\"index.html\"]")
}

/// Host names.
pub(super) fn host_names(raw: &Raw) -> Read<Vec<(String, Range<usize>)>> {
    let list = elements(raw, "a host name in quotes, like \"example.com\"", |raw, text| {
        name::host(raw, text).map(|name| (name, raw.span.clone()))
    })?;
    not_empty(raw, list, "write a host name, or remove the line for a site that answers for every host")
}

/// Response header fields (RFC 9110 section 5.1 and 5.5).
pub(super) fn fields(raw: &Raw) -> Read<Vec<(String, String)>> {
    let mut wrongs = Vec::new();
    let mut fields = Vec::new();
    for entry in entries(raw, "{ X-Frame-Options = \"SAMEORIGIN\" }")? {
        match field(entry) {
            Ok(field) => fields.push(field),
            Err(more) => wrongs.extend(more),
        }
    }
    if wrongs.is_empty() { Ok(fields) } else { Err(wrongs) }
}

/// What a name is that can't be one of a directory, and the cure.
const NO_FOLDER: (&str, &str) = ("not a directory", "write a directory, like \"/srv/private\"");

/// Directories, made absolute; relative ones start at `base`.
pub(super) fn folders(raw: &Raw, base: &Path) -> Read<Vec<PathBuf>> {
    let list = elements(raw, "a directory in quotes, like \"/srv/private\"", |raw, text| {
        absolute(raw, text, base, NO_FOLDER.0, NO_FOLDER.1)
    })?;
    not_too_long(raw, list)
}

/// Files, made absolute; relative ones start at `base`.
pub(super) fn files(raw: &Raw, base: &Path) -> Read<Vec<PathBuf>> {
    let cure = "write a file, like \"/etc/millrace/cdn.txt\"";
    let list = elements(raw, "a file in quotes, like \"/etc/millrace/cdn.txt\"", |raw, text| {
        absolute(raw, text, base, "not a file", cure)
    })?;
    not_too_long(raw, list)
}

/// URL path prefixes, with a slash at the start and the end, and the directory of each.
pub(super) fn places(raw: &Raw, base: &Path) -> Read<Vec<(String, String)>> {
    let mut wrongs = Vec::new();
    let mut places: Vec<(String, String)> = Vec::new();
    for entry in entries(raw, "{ \"/protected/\" = \"/srv/private\" }")? {
        match place(entry, base) {
            Ok(place) if places.iter().any(|(path, _)| *path == place.0) => {
                let at_name = Raw { form: Form::Text(String::new()), span: entry.span.clone() };
                let title = format!("contains {} twice", place.0);
                wrongs.extend(at_name.wrong(What::Duplicate, title, "again", "remove one of the two"));
            }
            Ok(place) => places.push(place),
            Err(more) => wrongs.extend(more),
        }
    }
    if wrongs.is_empty() { Ok(places) } else { Err(wrongs) }
}

fn place(entry: &Entry, base: &Path) -> Read<(String, String)> {
    let at_name = Raw { form: Form::Text(String::new()), span: entry.span.clone() };
    let path = name::url_path(&at_name, entry.name.strip_suffix('/').unwrap_or(&entry.name))?;
    let Some(text) = entry.value.text() else {
        return Err(entry
            .value
            .wrong_type(format!("needs a directory for {path}/"), "write the directory in quotes"));
    };
    let folder = absolute(&entry.value, text, base, NO_FOLDER.0, NO_FOLDER.1)?;
    // The path was a string in the source, so nothing is lost.
    Ok((format!("{path}/"), folder.to_string_lossy().into_owned()))
}

fn absolute(raw: &Raw, text: &str, base: &Path, wrong: &str, cure: &str) -> Read<PathBuf> {
    if text.is_empty() || text.contains('\0') {
        let title = format!("cannot contain \"{}\"", shown(text));
        return Err(raw.wrong(What::Malformed, title, wrong, cure));
    }
    Ok(joined(base, text))
}

/// PHP ini values. In TOML `opcache.enable = 1` is a table in a table; this restores the name.
pub(super) fn ini(raw: &Raw) -> Read<Vec<(String, String)>> {
    let mut wrongs = Vec::new();
    let mut values = Vec::new();
    for entry in entries(raw, "{ memory_limit = \"256M\" }")? {
        ini_value(entry, &entry.name, &mut values, &mut wrongs);
    }
    if wrongs.is_empty() { Ok(values) } else { Err(wrongs) }
}

/// Environment variables of scripts.
pub(super) fn variables(raw: &Raw) -> Read<Vec<(String, String)>> {
    let (mut wrongs, mut values) = (Vec::new(), Vec::new());
    for entry in entries(raw, "{ WORDPRESS_DB_HOST = \"db\" }")? {
        match variable(entry) {
            Ok(pair) => values.push(pair),
            Err(wrong) => wrongs.extend(wrong),
        }
    }
    if wrongs.is_empty() { Ok(values) } else { Err(wrongs) }
}

fn variable(entry: &Entry) -> Read<(String, String)> {
    let name = &entry.name;
    if let Some((label, cure)) = super::word::reserved_variable(name) {
        let at_name = Raw { form: Form::Text(String::new()), span: entry.span.clone() };
        let title = format!("cannot set \"{}\"", shown(name));
        return Err(at_name.wrong(What::Malformed, title, label, cure));
    }
    let text = match &entry.value.form {
        Form::Text(text) | Form::Bare(text) => text.clone(),
        Form::Integer(number) => number.to_string(),
        _ => {
            return Err(entry
                .value
                .wrong_type(format!("needs a string for {name}"), "write the value in quotes"));
        }
    };
    if text.contains('\0') {
        let title = format!("has an invalid value for {name}");
        return Err(entry.value.wrong(
            What::Malformed,
            title,
            "contains a NUL byte",
            "remove it: it would end the value",
        ));
    }
    Ok((name.clone(), text))
}

fn field(entry: &Entry) -> Read<(String, String)> {
    let name = &entry.name;
    let at_name = Raw { form: Form::Text(String::new()), span: entry.span.clone() };
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        let title = format!("has an invalid field name \"{}\"", shown(name));
        let cure = "a field name has letters, digits and hyphens, like X-Frame-Options";
        return Err(at_name.wrong(What::Malformed, title, "invalid", cure));
    }
    if is_ours(name) {
        let title = format!("cannot set {name}");
        let cure = "remove it: the server writes this field itself, and a second one would break responses";
        return Err(at_name.wrong(What::Conflict, title, "written by the server", cure));
    }
    let Some(text) = entry.value.text() else {
        return Err(entry
            .value
            .wrong_type(format!("needs a string for {name}"), "write the value in quotes"));
    };
    if text.contains(|c: char| c.is_control() && c != '\t') {
        let title = format!("has an invalid value for {name}");
        let cure = "write the value on one line: line breaks and control characters would end the field";
        return Err(entry.value.wrong(What::Malformed, title, "a control character", cure));
    }
    Ok((name.clone(), text.trim().to_owned()))
}

fn ini_value(entry: &Entry, name: &str, values: &mut Vec<(String, String)>, wrongs: &mut Vec<Wrong>) {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if name.is_empty() || !name.bytes().all(legal) {
        let at_name = Raw { form: Form::Text(String::new()), span: entry.span.clone() };
        let title = format!("has an invalid ini name \"{}\"", shown(name));
        let cure = "write the name as in php.ini, like memory_limit or opcache.enable";
        wrongs.extend(at_name.wrong(What::Malformed, title, "invalid", cure));
        return;
    }
    let text = match &entry.value.form {
        Form::Text(text) | Form::Bare(text) => text.clone(),
        Form::Integer(number) => number.to_string(),
        Form::Float(number) => number.to_string(),
        Form::Switch(on) => if *on { "1" } else { "0" }.to_owned(),
        Form::Table(inner) => {
            for entry in inner {
                ini_value(entry, &format!("{name}.{}", entry.name), values, wrongs);
            }
            return;
        }
        Form::List(_) => {
            let cure = "write a string in quotes, with the parts in it as in php.ini";
            wrongs.extend(
                entry.value.wrong_type(format!("needs a string, number or boolean for {name}"), cure),
            );
            return;
        }
    };
    if matches!(name, "extension" | "zend_extension") {
        let cure = "put extension lines into an ini file and name it in php.ini_file";
        let title = format!("cannot contain {name} lines");
        wrongs.extend(entry.value.wrong(
            What::Conflict,
            title,
            "an ini file may repeat it, this table may not",
            cure,
        ));
    } else if text.contains(['\0', '\n', '\r']) {
        let cure = "write the value on one line";
        let title = format!("has an invalid value for {name}");
        wrongs.extend(entry.value.wrong(What::Malformed, title, "a line break or NUL", cure));
    } else if let Some(near) = php_ini::misspelt(name) {
        let at_name = Raw { form: Form::Text(String::new()), span: entry.span.clone() };
        let title = format!("has a name that PHP does not know: {}", shown(name));
        wrongs.extend(at_name.wrong(What::UnknownKey, title, "PHP ignores it", format!("write {near}")));
    } else if let Some((title, cure)) = php_ini::wrong(name, &text) {
        wrongs.extend(entry.value.wrong(
            What::Malformed,
            format!("has a wrong value: {title}"),
            "PHP's own setting",
            cure,
        ));
    } else {
        values.push((name.to_owned(), text));
    }
}

/// Reads each element; a single string is a list of one, and `--set` takes commas.
pub(crate) fn elements<T>(raw: &Raw, example: &str, read: impl Fn(&Raw, &str) -> Read<T>) -> Read<Vec<T>> {
    let parts;
    let elements = match &raw.form {
        Form::List(elements) => elements.as_slice(),
        Form::Text(_) => std::slice::from_ref(raw),
        Form::Bare(text) => {
            parts = comma_separated(text, raw.span.start);
            parts.as_slice()
        }
        _ => return Err(raw.wrong_type("must be a list", format!("write {example}, or several in [ ]"))),
    };
    let mut wrongs = Vec::new();
    let mut values = Vec::new();
    for element in elements {
        let value = match element.text() {
            Some(text) => read(element, text),
            None => Err(element.wrong_type("must be a list of strings", format!("write {example}"))),
        };
        match value {
            Ok(value) => values.push(value),
            Err(more) => wrongs.extend(more),
        }
    }
    if wrongs.is_empty() { Ok(values) } else { Err(wrongs) }
}

/// The parts of `a, b`, each with its span.
fn comma_separated(text: &str, start: usize) -> Vec<Raw> {
    let mut at = start;
    let mut parts = Vec::new();
    for part in text.split(',') {
        let lead = part.len() - part.trim_start().len();
        let word = part.trim();
        if !word.is_empty() {
            parts.push(Raw::bare(word, at + lead..at + lead + word.len()));
        }
        at += part.len() + 1;
    }
    parts
}

/// Maximum elements of a list.
const ELEMENTS_MAX: usize = 1000;

pub(super) fn not_empty<T>(raw: &Raw, list: Vec<T>, cure: &str) -> Read<Vec<T>> {
    if list.is_empty() {
        return Err(raw.wrong(What::OutOfBounds, "is empty", "no entry", cure));
    }
    not_too_long(raw, list)
}

/// `list`, unless it has too many elements.
pub(super) fn not_too_long<T>(raw: &Raw, list: Vec<T>) -> Read<Vec<T>> {
    if list.len() > ELEMENTS_MAX {
        let label =
            format!("{} of at most {}", number_text(list.len() as u64), number_text(ELEMENTS_MAX as u64));
        return Err(raw.wrong(What::OutOfBounds, "is too long", label, "remove some"));
    }
    Ok(list)
}

fn entries<'a>(raw: &'a Raw, example: &str) -> Read<&'a [Entry]> {
    match &raw.form {
        Form::Table(entries) => Ok(entries),
        _ => Err(raw.wrong_type("must be a table", format!("write it like {example}"))),
    }
}

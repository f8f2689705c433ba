//! TOML to [`Written`]: looks up every key in the table, reads every value by its row's kind, collects every mistake.

mod unknown;

use std::sync::Arc;

use toml_span::value::ValueInner;
use toml_span::{ErrorKind, Span};

use crate::problem::{At, Origin, Problem, What, shown};
use crate::rule;
use crate::table::{self, Setting};
use crate::value::{Entry, Form, Raw, Wrong};
use crate::written::{Section, Typed, Written, WrittenTable};
pub(crate) use unknown::unknown_key;

/// Reads a file's text into `written`. Returns false if it isn't TOML: then missing settings can't be reported.
pub(crate) fn toml(origin: &Arc<Origin>, written: &mut Written, problems: &mut Vec<Problem>) -> bool {
    let entries = match parse(&origin.text) {
        Ok(entries) => entries,
        Err(error) => {
            problems.push(syntax(origin, 0, &error));
            return false;
        }
    };
    let mut reader = Reader { origin, problems };
    for entry in entries {
        if entry.name == "site" {
            reader.tables(Scope::Site, &entry, &mut written.sites);
        } else if entry.name == "tls" {
            reader.tables(Scope::Tls, &entry, &mut written.tls);
        } else {
            reader.entry(Scope::Global, "", &entry, &mut written.global);
        }
    }
    true
}

/// Reads one value for `row`, as written in `origin`, and reports its problems under the name `key`.
pub(crate) fn value(
    origin: &Arc<Origin>,
    key: &str,
    row: &'static Setting,
    raw: &Raw,
    problems: &mut Vec<Problem>,
) -> Typed {
    let at = At::new(origin, raw.span.clone());
    match row.kind.read(raw, &origin.base) {
        Ok(value) => Typed { value: Some(value), at },
        Err(wrongs) => {
            problems.extend(wrongs.into_iter().map(|wrong| wrong_value(origin, key, row, wrong)));
            Typed { value: None, at }
        }
    }
}

/// `php = "fastcgi:..."` is short for `php.fastcgi = "..."`.
pub(crate) const SHORT: &str = "php";
/// The full form of [`SHORT`].
pub(crate) const SHORT_FOR: &str = "php.fastcgi";
/// Prefix of the value of [`SHORT`].
pub(crate) const SHORT_LEAD: &str = "fastcgi:";

/// The value of a short form: addresses, with commas between them.
fn short_form(value: &Raw) -> Option<Raw> {
    let Form::Text(text) = &value.form else { return None };
    text.starts_with(SHORT_LEAD).then(|| Raw::bare(text, value.span.clone()))
}

/// Reads the TOML value in `origin.text[start..]`: a list, table or quoted text after `--set KEY=`.
pub(crate) fn toml_value(origin: &Arc<Origin>, start: usize) -> Result<Raw, Problem> {
    const LEAD: &str = "v=";
    let text = format!("{LEAD}{}", &origin.text[start..]);
    let moved = |span: usize| (span + start).saturating_sub(LEAD.len());
    match parse(&text) {
        Ok(mut entries) if entries.len() == 1 => {
            let mut raw = entries.remove(0).value;
            raw.move_spans(&moved);
            Ok(raw)
        }
        Ok(_) => {
            Err(Problem::error(What::Syntax, "expected one value", "write a single TOML value after the =")
                .at(Some(&At::new(origin, start..origin.text.len())), "more than one"))
        }
        Err(error) => Err(syntax(origin, start as isize - LEAD.len() as isize, &error)),
    }
}

/// Where a key is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Outside of sites.
    Global,
    /// In a `[[site]]`.
    Site,
    /// In a `[[tls]]`.
    Tls,
    /// In a `[[site.proxy]]`.
    Proxy,
}

impl Scope {
    /// The key of the row here, if it is allowed here.
    pub fn key_of(self, row: &'static Setting) -> Option<&'static str> {
        match self {
            Self::Global => row.key_global(),
            Self::Site => row.key_in_site(),
            Self::Tls => row.key_in_tls(),
            Self::Proxy => row.key_in_proxy(),
        }
    }

    /// The row of a path.
    pub fn row(self, path: &str) -> Option<&'static Setting> {
        let (path, _) = table::unnamed(path);
        table::rows().find(|row| self.key_of(row) == Some(&*path))
    }

    fn other(self) -> Self {
        match self {
            Self::Global => Self::Site,
            Self::Site | Self::Tls | Self::Proxy => Self::Global,
        }
    }

    /// The header of such a table, without brackets.
    fn header(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Proxy => "site.proxy",
            Self::Global | Self::Site => "site",
        }
    }

    /// The last part of the header.
    fn last(self) -> &'static str {
        self.header().rsplit('.').next().unwrap_or_default()
    }

    fn is_table(self, path: &str) -> bool {
        table::rows().any(|row| self.key_of(row).and_then(|key| below(key, path)).is_some())
    }

    /// A path as messages show it.
    pub fn display(self, path: &str) -> String {
        match self {
            Self::Global => path.to_owned(),
            Self::Site => format!("site.{path}"),
            Self::Tls => format!("tls.{path}"),
            Self::Proxy => format!("proxy.{path}"),
        }
    }
}

/// The rest of `key` below `path`: `head_timeout` for `http.head_timeout` below `http`.
fn below<'a>(key: &'a str, path: &str) -> Option<&'a str> {
    let (path, _) = table::unnamed(path);
    if path.is_empty() { Some(key) } else { key.strip_prefix(&*path)?.strip_prefix('.') }
}

struct Reader<'a> {
    origin: &'a Arc<Origin>,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    /// Reads the tables of a header that may be repeated.
    fn tables(&mut self, scope: Scope, entry: &Entry, into: &mut Vec<WrittenTable>) {
        let header = scope.header();
        let title = format!("`{header}` is a list of tables");
        let one;
        let tables = match &entry.value.form {
            Form::List(tables) => tables.as_slice(),
            Form::Table(_) => {
                let cure = format!("write the header as [[{header}]], with two brackets");
                let problem = Problem::error(What::WrongType, title.clone(), cure);
                self.problems.push(problem.at(Some(&self.at(&entry.value)), "one table"));
                one = [entry.value.clone()];
                one.as_slice()
            }
            _ => return self.no_table(header, title, &entry.value),
        };
        for raw in tables {
            let mut table =
                WrittenTable { at: Some(self.at(raw)), values: Section::default(), rules: Vec::new() };
            if let Form::Table(entries) = &raw.form {
                for entry in entries {
                    if scope == Scope::Site && entry.name == rule::NAME {
                        table.rules = rule::read(self.origin, entry, self.problems);
                    } else {
                        self.entry(scope, "", entry, &mut table.values);
                    }
                }
            } else {
                self.no_table(header, title.clone(), raw);
            }
            into.push(table);
        }
    }

    fn no_table(&mut self, header: &str, title: String, raw: &Raw) {
        let one = match header {
            "site" => "a site",
            "tls" => "a certificate",
            _ => "a part of the site that an application serves",
        };
        let cure = format!("start {one} with the header [[{header}]]");
        let problem = Problem::error(What::WrongType, title, cure);
        self.problems.push(problem.at(Some(&self.at(raw)), "not a table"));
    }

    fn entry(&mut self, scope: Scope, prefix: &str, entry: &Entry, section: &mut Section) {
        let path = if prefix.is_empty() { entry.name.clone() } else { format!("{prefix}.{}", entry.name) };
        let at_name = At::new(self.origin, entry.span.clone());
        if (scope, &*path) == (Scope::Site, Scope::Proxy.last()) {
            self.tables(Scope::Proxy, entry, &mut section.proxies);
        } else if let (SHORT, Some(value)) = (&*path, short_form(&entry.value)) {
            let row = table::find(SHORT_FOR).expect("a row");
            let typed = self::value(self.origin, &scope.display(&path), row, &value, self.problems);
            section.set(row, typed);
        } else if let Some(row) = scope.row(&path) {
            let typed = value(self.origin, &scope.display(&path), row, &entry.value, self.problems);
            match table::unnamed(&path).1 {
                Some(name) => section.set_named(name, row, typed),
                None => section.set(row, typed),
            }
        } else if !scope.is_table(&path) {
            self.problems.push(unknown_key(scope, &path, &at_name));
        } else if let Form::Table(entries) = &entry.value.form {
            if prefix == table::NAMED.trim_end_matches('.') {
                if let Some(problem) = wrong_name(&scope.display(&path), &entry.name, &at_name) {
                    return self.problems.push(problem);
                }
                section.add_name(&entry.name, &at_name);
            }
            for entry in entries {
                self.entry(scope, &path, entry, section);
            }
        } else {
            let name = scope.display(&path);
            let of_one = if path == table::NAMED.trim_end_matches('.') { ".NAME" } else { "" };
            let mut cure = format!("write the settings under the header [{name}{of_one}]");
            if path == SHORT {
                cure.push_str(", or `php = \"fastcgi:unix:/path\"` for an existing php-fpm");
            }
            let problem = Problem::error(What::WrongType, format!("`{name}` is a table of settings"), cure);
            self.problems.push(problem.at(Some(&self.at(&entry.value)), "not a table"));
        }
    }

    fn at(&self, raw: &Raw) -> At {
        At::new(self.origin, raw.span.clone())
    }
}

/// The problem of a name that a named table can't have.
pub(crate) fn wrong_name(key: &str, name: &str, at: &At) -> Option<Problem> {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    if (1..=32).contains(&name.len()) && name.bytes().all(legal) {
        return None;
    }
    let title = format!("`{}` cannot be the name of a pool", shown(name));
    let cure = "use at most 32 lower-case letters, digits, _ and -: [php.pool.api]";
    Some(Problem::error(What::Malformed, title, cure).at(Some(at), shown(key)))
}

fn wrong_value(origin: &Arc<Origin>, key: &str, row: &Setting, wrong: Wrong) -> Problem {
    Problem::error(wrong.what, format!("`{key}` {}", wrong.title), wrong.cure)
        .at(Some(&At::new(origin, wrong.span)), wrong.label)
        .note(format!("`{key}` takes {}; default: {}", row.kind.bounds(), row.default_text()))
}

/// The entries of the document, in the order written.
fn parse(text: &str) -> Result<Vec<Entry>, toml_span::Error> {
    let mut document = toml_span::parse(text)?;
    match form(document.take()) {
        Form::Table(entries) => Ok(entries),
        _ => unreachable!("a TOML document is a table"),
    }
}

fn form(value: ValueInner<'_>) -> Form {
    let raw = |mut value: toml_span::Value<'_>| Raw { span: value.span.into(), form: form(value.take()) };
    match value {
        ValueInner::String(text) => Form::Text(text.into_owned()),
        ValueInner::Integer(number) => Form::Integer(number),
        ValueInner::Float(number) => Form::Float(number),
        ValueInner::Boolean(on) => Form::Switch(on),
        ValueInner::Array(values) => Form::List(values.into_iter().map(raw).collect()),
        ValueInner::Table(table) => {
            let entry = |(key, value): (toml_span::value::Key<'_>, _)| Entry {
                name: key.name.into_owned(),
                span: key.span.into(),
                value: raw(value),
            };
            let mut entries: Vec<Entry> = table.into_iter().map(entry).collect();
            entries.sort_by_key(|entry| entry.span.start);
            Form::Table(entries)
        }
    }
}

fn syntax(origin: &Arc<Origin>, moved: isize, error: &toml_span::Error) -> Problem {
    let at = |span: Span| {
        let place = |byte: usize| byte.saturating_add_signed(moved).min(origin.text.len());
        At::new(origin, place(span.start)..place(span.end.max(span.start + 1)))
    };
    let here = at(error.span);
    let problem = |title: String, label: &str, cure: &str| {
        Problem::error(What::Syntax, title, cure).at(Some(&here), label)
    };
    match &error.kind {
        ErrorKind::DuplicateKey { key, first } => {
            Problem::error(What::Duplicate, format!("`{}` is set twice", shown(key)), "remove one of the two")
                .at(Some(&here), "again")
                .at(Some(&at(*first)), "first here")
        }
        ErrorKind::DuplicateTable { name, first } => {
            let cure = match name.as_str() {
                "site" => "write [[site]], with two brackets, for every site",
                "tls" => "write [[tls]], with two brackets, for every certificate",
                "proxy" => "write [[site.proxy]], with two brackets, for every application",
                _ => {
                    "put the settings of both under one header; only [[site]], [[site.proxy]] and [[tls]] may be \
                     repeated"
                }
            };
            Problem::error(What::Duplicate, format!("the header [{}] is used twice", shown(name)), cure)
                .at(Some(&here), "again")
                .at(Some(&at(*first)), "first here")
        }
        ErrorKind::RedefineAsArray => {
            problem("both [site] and [[site]] are used".into(), "again", "write [[site]] for every site")
        }
        ErrorKind::UnquotedString
        | ErrorKind::InvalidNumber
        | ErrorKind::Wanted { expected: "a value", .. } => problem(
            "this is not a number, true, false or a quoted string".into(),
            "not a TOML value",
            "put strings, durations, sizes and addresses in quotes: \"10s\", \"64MB\", \"127.0.0.1:8080\"",
        ),
        ErrorKind::UnterminatedString | ErrorKind::InvalidCharInString('\n' | '\r') => {
            problem("a string has no end".into(), "starts here", "close it with a quote")
        }
        ErrorKind::InvalidEscape(_) | ErrorKind::InvalidHexEscape(_) | ErrorKind::InvalidEscapeValue(_) => {
            problem(
                format!("{error}"),
                "not an escape",
                "write \\\\ for a backslash, or use single quotes, which take it literally",
            )
        }
        ErrorKind::ExceededDepthLimit => problem(
            "tables or lists are nested too deeply".into(),
            "too deep",
            "no setting needs more than three levels",
        ),
        ErrorKind::DottedKeyInvalidType { first } => problem(
            "a key continues below a value that is not a table".into(),
            "continues",
            "remove one of the two",
        )
        .at(Some(&at(*first)), "the value"),
        ErrorKind::UnexpectedEof => problem(
            "the text ends in the middle of a value".into(),
            "end",
            "finish the value or remove its key",
        ),
        _ => problem(
            format!("not TOML: {error}"),
            "here",
            "a setting is a line `name = value` under a [header]; see https://toml.io",
        ),
    }
}

impl Raw {
    /// Moves the span of this value and of all values in it.
    fn move_spans(&mut self, to: &impl Fn(usize) -> usize) {
        self.span = to(self.span.start)..to(self.span.end);
        match &mut self.form {
            Form::List(elements) => elements.iter_mut().for_each(|element| element.move_spans(to)),
            Form::Table(entries) => {
                for entry in entries {
                    entry.span = to(entry.span.start)..to(entry.span.end);
                    entry.value.move_spans(to);
                }
            }
            _ => {}
        }
    }
}

//! Reads a written value: the [`Kind`] of its setting turns a [`Raw`] (TOML, or the text after `--set KEY=`) into a
//! [`Value`] within bounds, or into what is [`Wrong`] with it.

mod amount;
mod application;
mod list;
mod name;
mod word;

pub(crate) use word::reserved_variable;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::plan::{Address, AppUrl, Backend, Peers};
use crate::problem::{What, shown};
use crate::table::Kind;

pub(crate) use amount::{duration_text, number_text, size_text};
pub(crate) use list::{elements, is_ours};
pub(crate) use name::{is_loopback, overlap};

/// A value as written.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    /// Its form.
    pub form: Form,
    /// Its bytes in the source text.
    pub span: Range<usize>,
}

/// Form of a written value.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// A quoted string in TOML.
    Text(String),
    /// Text after `--set KEY=`: whether it means a number or a word depends on the setting.
    Bare(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Switch(bool),
    /// `[...]`
    List(Vec<Raw>),
    /// `{...}` or a table under a header.
    Table(Vec<Entry>),
}

/// `name = value` in a table.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The name.
    pub name: String,
    /// Its bytes in the text.
    pub span: Range<usize>,
    /// The value.
    pub value: Raw,
}

/// A value of its kind, within bounds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Of [`Kind::Switch`].
    Switch(bool),
    /// Of [`Kind::Count`] and [`Kind::Size`].
    Number(u64),
    /// Of [`Kind::Duration`].
    Duration(Duration),
    /// Of [`Kind::Choice`].
    Choice(&'static str),
    /// Of [`Kind::Name`], [`Kind::UrlPath`], [`Kind::Url`], [`Kind::Email`], [`Kind::Label`], [`Kind::Secret`], [`Kind::Host`] and
    /// [`Kind::Location`]; `None` is the word for none, or unset.
    Text(Option<String>),
    /// Of [`Kind::Path`].
    Path(Option<PathBuf>),
    /// Of [`Kind::Address`].
    Address(Option<Address>),
    /// Of [`Kind::Addresses`], each with its place.
    Addresses(Vec<(Address, Range<usize>)>),
    /// Of [`Kind::Backends`] and [`Kind::Backend`].
    Backends(Vec<Backend>),
    /// Of [`Kind::Applications`].
    Applications(Vec<AppUrl>),
    /// Of [`Kind::Networks`].
    Networks(Vec<Peers>),
    /// Of [`Kind::FileNames`], [`Kind::HostNames`] and [`Kind::Words`], each with its place.
    Texts(Vec<(String, Range<usize>)>),
    /// Of [`Kind::Folders`] and [`Kind::Files`].
    Folders(Vec<PathBuf>),
    /// Of [`Kind::Fields`], [`Kind::Ini`], [`Kind::Environment`] and [`Kind::Places`]: name and value, in the order written.
    Pairs(Vec<(String, String)>),
}

/// What is wrong with a written value.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// Which kind of problem.
    pub what: What,
    /// Where: bytes of the source text.
    pub span: Range<usize>,
    /// End of a sentence that starts with the setting's name: `is not a duration`.
    pub title: String,
    /// At the place: `10 seconds? or minutes?`
    pub label: String,
    /// What to write.
    pub cure: String,
}

/// Several things can be wrong with a list.
pub(crate) type Read<T> = Result<T, Vec<Wrong>>;

impl Kind {
    /// Reads a written value. Relative paths start at `base`.
    pub(crate) fn read(&self, raw: &Raw, base: &Path) -> Read<Value> {
        match *self {
            Self::Switch => self.switch(raw).map(Value::Switch),
            Self::Count { min, max, zero } => amount::count(raw, min, max, zero).map(Value::Number),
            Self::Size { min, max, zero } => amount::size(raw, min, max, zero).map(Value::Number),
            Self::Duration { min, max, zero } => amount::duration(raw, min, max, zero).map(Value::Duration),
            Self::Choice(words) => self.choice(raw, words).map(Value::Choice),
            Self::Name => name::account(raw, self.text(raw)?).map(|name| Value::Text(Some(name))),
            Self::Path { word } => self.path(raw, word, base).map(Value::Path),
            Self::Address { word } => {
                let text = self.text(raw)?;
                if word == Some(text) {
                    return Ok(Value::Address(None));
                }
                name::address(raw, text, base).map(|address| Value::Address(Some(address)))
            }
            Self::Addresses => list::addresses(raw, base).map(Value::Addresses),
            Self::Backends { word } => list::backends(raw, word, base).map(Value::Backends),
            Self::Applications => application::urls(raw, base).map(Value::Applications),
            Self::Host { words } => {
                application::host(raw, self.text(raw)?, words).map(|host| Value::Text(Some(host)))
            }
            Self::Location => application::location(raw, self.text(raw)?).map(|path| Value::Text(Some(path))),
            Self::Backend { word } => {
                let text = self.text(raw)?;
                if text == word {
                    return Ok(Value::Backends(Vec::new()));
                }
                name::backend(raw, text, base).map(|backend| Value::Backends(vec![backend]))
            }
            Self::Networks => list::networks(raw).map(Value::Networks),
            Self::FileNames => list::file_names(raw).map(Value::Texts),
            Self::HostNames => list::host_names(raw).map(Value::Texts),
            Self::Words(word) => word::list(raw, word).map(Value::Texts),
            Self::UrlPath { word } => {
                let text = self.text(raw)?;
                if text == word {
                    return Ok(Value::Text(None));
                }
                name::url_path(raw, text).map(|path| Value::Text(Some(path)))
            }
            Self::Url { words } => name::url(raw, self.text(raw)?, words).map(|url| Value::Text(Some(url))),
            Self::Email => name::email(raw, self.text(raw)?).map(|email| Value::Text(Some(email))),
            Self::Fields => list::fields(raw).map(Value::Pairs),
            Self::Ini => list::ini(raw).map(Value::Pairs),
            Self::Environment => list::variables(raw).map(Value::Pairs),
            Self::Label => name::label(raw, self.text(raw)?).map(|label| Value::Text(Some(label))),
            Self::Secret { least } => {
                name::secret(raw, self.text(raw)?, least).map(|secret| Value::Text(Some(secret)))
            }
            Self::Folders => list::folders(raw, base).map(Value::Folders),
            Self::Files => list::files(raw, base).map(Value::Folders),
            Self::Places => list::places(raw, base).map(Value::Pairs),
        }
    }

    /// Type and bounds of a value: `a duration from 100ms to 10m`.
    pub(crate) fn bounds(&self) -> String {
        let with_zero = |zero: Option<&str>, rest: String| match zero {
            Some(meaning) => format!("{rest}, or 0 ({meaning})"),
            None => rest,
        };
        match *self {
            Self::Switch => "true or false".to_owned(),
            Self::Count { min, max, zero } if max > 1 << 60 => {
                with_zero(zero, format!("a whole number from {}", number_text(min)))
            }
            Self::Count { min, max, zero } => {
                with_zero(zero, format!("a whole number from {} to {}", number_text(min), number_text(max)))
            }
            Self::Size { min, max, zero } => with_zero(
                zero,
                format!("a size from {} to {} (1KB is 1024 bytes)", size_text(min), size_text(max)),
            ),
            Self::Duration { min, max, zero } => {
                let text = |milliseconds| duration_text(Duration::from_millis(milliseconds));
                with_zero(zero, format!("a duration from {} to {} (ms, s, m, h, d)", text(min), text(max)))
            }
            Self::Choice(words) => {
                let words: Vec<String> =
                    words.iter().map(|(word, means)| format!("\"{word}\" ({means})")).collect();
                format!("one of {}", words.join(", "))
            }
            Self::Name => "a user or group name".to_owned(),
            Self::Path { word: None } => "a path".to_owned(),
            Self::Path { word: Some(word) } => format!("a path, or \"{word}\""),
            Self::Address { word } => {
                let word = word.map(|word| format!(", or \"{word}\"")).unwrap_or_default();
                format!("an address like \"127.0.0.1:9180\" or \"unix:/path\"{word}")
            }
            Self::Addresses => {
                "one or more addresses like \":80\", \"127.0.0.1:8080\", \"[::1]:80\", \"unix:/path\"".into()
            }
            Self::Backends { word } => {
                format!(
                    "one or more addresses like \"unix:/path\", \"127.0.0.1:9000\", \"name:9000\", or \"{word}\""
                )
            }
            Self::Applications => {
                "one or more of \"http://127.0.0.1:3000\", \"https://name\", \"unix:/path.sock\"; with a path \
                 like \"http://127.0.0.1:3000/base\", or \"unix:/path.sock:/base\""
                    .to_owned()
            }
            Self::Host { words } => {
                let words: Vec<String> =
                    words.iter().map(|(word, means)| format!("\"{word}\" ({means})")).collect();
                format!("{}, or a host like \"app.example.com\"", words.join(", "))
            }
            Self::Location => "a path like \"/api/\" (and everything below it) or \"/feed\" (only this one)".to_owned(),
            Self::Backend { word } => {
                format!("an address like \"unix:/path\", \"127.0.0.1:6379\", \"name:6379\", or \"{word}\"")
            }
            Self::Networks => "addresses and blocks like \"10.0.0.0/8\", \"::1\", or \"unix\"".to_owned(),
            Self::FileNames => "one or more file names without a path".to_owned(),
            Self::HostNames => "host names like \"example.com\" or \"*.example.com\"".to_owned(),
            Self::Words(word) => word.bounds().to_owned(),
            Self::UrlPath { word } => format!("a path below the root, starting with /, or \"{word}\""),
            Self::Url { words } => {
                let words: Vec<String> =
                    words.iter().map(|(word, url)| format!("\"{word}\" ({url})")).collect();
                format!("{}, or a URL that starts with https://", words.join(", "))
            }
            Self::Email => "a mail address like \"me@example.com\"".to_owned(),
            Self::Fields => "a table of field names and strings".to_owned(),
            Self::Ini => "a table of ini names and strings, numbers or booleans".to_owned(),
            Self::Environment => "a table of environment variables and strings or numbers".to_owned(),
            Self::Label => "up to 64 letters, digits, `.`, `_` and `-`".to_owned(),
            Self::Secret { least: 1 } => "a secret".to_owned(),
            Self::Secret { least } => format!("a secret of {least} characters or more"),
            Self::Files => "files like \"/etc/millrace/cdn.txt\"".to_owned(),
            Self::Folders => "directories like \"/srv/private\"".to_owned(),
            Self::Places => "a table of URL paths like \"/protected/\" and their directories".to_owned(),
        }
    }

    /// The kind in one or two words, for a table's column.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Switch => "true/false",
            Self::Count { .. } => "count",
            Self::Size { .. } => "size",
            Self::Duration { .. } => "duration",
            Self::Choice(_) => "word",
            Self::Name => "name",
            Self::Path { .. } => "path",
            Self::Address { .. } | Self::Backend { .. } => "address",
            Self::Addresses | Self::Backends { .. } => "addresses",
            Self::Applications => "URLs",
            Self::Host { .. } => "host",
            Self::Location => "URL path",
            Self::Networks => "addresses",
            Self::FileNames => "file names",
            Self::HostNames => "host names",
            Self::Words(word) => word.noun(),
            Self::UrlPath { .. } => "URL path",
            Self::Url { .. } => "URL",
            Self::Email => "mail address",
            Self::Folders => "directories",
            Self::Files => "files",
            Self::Fields | Self::Ini | Self::Environment | Self::Places => "table",
            Self::Label => "label",
            Self::Secret { .. } => "secret",
        }
    }

    /// Whether the value is a table of names that the user chooses, so that a key can continue below it.
    pub(crate) fn is_open_table(&self) -> bool {
        matches!(self, Self::Fields | Self::Ini | Self::Environment | Self::Places)
    }

    fn switch(&self, raw: &Raw) -> Read<bool> {
        match &raw.form {
            Form::Switch(on) => Ok(*on),
            Form::Bare(text) if text == "true" => Ok(true),
            Form::Bare(text) if text == "false" => Ok(false),
            Form::Text(text) | Form::Bare(text) => {
                let meant = matches!(text.as_str(), "true" | "on" | "yes" | "1");
                let quotes = if matches!(raw.form, Form::Text(_)) { ", without quotes" } else { "" };
                Err(raw.wrong_type("must be true or false", format!("write {meant}{quotes}")))
            }
            Form::Integer(number) => {
                Err(raw.wrong_type("must be true or false", format!("write {}", *number != 0)))
            }
            _ => Err(raw.wrong_type("must be true or false", "write true or false")),
        }
    }

    fn choice(&self, raw: &Raw, words: &'static [(&'static str, &'static str)]) -> Read<&'static str> {
        let text = match &raw.form {
            Form::Text(text) | Form::Bare(text) => text.as_str(),
            _ => {
                return Err(
                    raw.wrong_type("must be a word", format!("write \"{}\", with quotes", words[0].0))
                );
            }
        };
        if let Some((word, _)) = words.iter().find(|(word, _)| *word == text) {
            return Ok(word);
        }
        let all: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let cure = match crate::suggest::nearest(text, words.iter().map(|(word, _)| *word)) {
            Some(word) => format!("did you mean \"{word}\"?"),
            None => format!("write one of {}", all.join(", ")),
        };
        Err(raw.wrong(
            What::Malformed,
            format!("cannot be \"{}\"", shown(text)),
            "not one of its values",
            cure,
        ))
    }

    fn path(&self, raw: &Raw, word: Option<&str>, base: &Path) -> Read<Option<PathBuf>> {
        let text = self.text(raw)?;
        if word == Some(text) {
            return Ok(None);
        }
        if text.is_empty() {
            return Err(raw.wrong(
                What::Malformed,
                "is empty",
                "no path",
                "write a path, or remove the line",
            ));
        }
        if text.contains('\0') {
            return Err(raw.wrong(
                What::Malformed,
                "contains a NUL byte",
                "not allowed in a path",
                "remove it",
            ));
        }
        Ok(Some(joined(base, text)))
    }

    fn text<'a>(&self, raw: &'a Raw) -> Read<&'a str> {
        let example = match self {
            Self::Name => "write a name in quotes, like \"www-data\"",
            Self::Path { .. } => "write a path in quotes, like \"/srv/www\"",
            Self::Address { .. } => "write an address in quotes, like \"127.0.0.1:9180\"",
            _ => "write it in quotes",
        };
        raw.text().ok_or_else(|| raw.wrong_type(format!("must be {}", article(self.noun())), example))
    }
}

impl Raw {
    /// A text after `--set KEY=`, or a default of the table.
    pub(crate) fn bare(text: &str, span: Range<usize>) -> Self {
        Self { form: Form::Bare(text.to_owned()), span }
    }

    /// The text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.form {
            Form::Text(text) | Form::Bare(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, if it is a list.
    pub(crate) fn list(&self) -> Option<&[Raw]> {
        if let Form::List(elements) = &self.form { Some(elements) } else { None }
    }

    /// The entries, if it is a table.
    pub(crate) fn table(&self) -> Option<&[Entry]> {
        if let Form::Table(entries) = &self.form { Some(entries) } else { None }
    }

    /// The type of the written value: `a number`.
    fn noun(&self) -> &'static str {
        match &self.form {
            Form::Text(_) | Form::Bare(_) => "a string",
            Form::Integer(_) => "a number",
            Form::Float(_) => "a number with a fraction",
            Form::Switch(_) => "true or false",
            Form::List(_) => "a list",
            Form::Table(_) => "a table",
        }
    }

    /// What is wrong with it.
    pub(crate) fn wrong(
        &self,
        what: What,
        title: impl Into<String>,
        label: impl Into<String>,
        cure: impl Into<String>,
    ) -> Vec<Wrong> {
        vec![Wrong {
            what,
            span: self.span.clone(),
            title: title.into(),
            label: label.into(),
            cure: cure.into(),
        }]
    }

    /// It has the wrong type.
    pub(crate) fn wrong_type(&self, title: impl Into<String>, cure: impl Into<String>) -> Vec<Wrong> {
        self.wrong(What::WrongType, title, format!("this is {}", self.noun()), cure)
    }
}

/// `base/path` without `.` parts; `..` stays, because only the disk can resolve it.
pub(crate) fn joined(base: &Path, path: impl AsRef<Path>) -> PathBuf {
    base.join(path).components().filter(|part| *part != std::path::Component::CurDir).collect()
}

/// `a path`, `an address`.
fn article(noun: &str) -> String {
    let vowel = noun.starts_with(['a', 'e', 'i', 'o']);
    format!("{} {noun}", if vowel { "an" } else { "a" })
}

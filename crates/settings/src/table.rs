//! The one list of settings. A row says everything about a setting: where it may stand, what a value looks like, its
//! bounds, its default and why, and whether a running server can take a change. The TOML reader, `--set`,
//! `millrace check`, `millrace explain` and `docs/settings.md` all work from these rows; there is no second list.
//!
//! To add a setting: a field in [`crate::plan`], a row in [`rows`](self::rows), and one line in `resolve.rs` that the
//! compiler asks for. A test feeds every row's example in and wants to see the plan change.

mod rows;

use std::borrow::Cow;

use crate::Plan;
use crate::resolve::View;
use crate::value::Value;

/// The settings in the order of the reference page.
pub(crate) static TABLE: &[Group] = rows::GROUPS;

/// A TOML table and its settings.
pub(crate) struct Group {
    /// First part of the keys: `http`.
    pub name: &'static str,
    /// The TOML header: `[http]`, `[[site]]`.
    pub header: &'static str,
    /// What the settings of this table are about, one sentence.
    pub line: &'static str,
    /// The settings.
    pub rows: &'static [Setting],
}

/// One setting.
pub(crate) struct Setting {
    /// Full name, `http.head_timeout`; for settings of a site `site.root`.
    pub key: &'static str,
    /// Where it may stand.
    pub place: Place,
    /// What a value looks like, and its bounds.
    pub kind: Kind,
    /// Value if none is written.
    pub default: Default,
    /// What it does, one sentence.
    pub line: &'static str,
    /// Why it exists and why the default is what it is.
    pub reason: &'static str,
    /// A value other than the default, as it stands after `=` in TOML.
    pub example: &'static str,
    /// What other servers call it: these names are suggested from, never accepted.
    pub elsewhere: &'static [&'static str],
    /// For a setting that only a restart changes: whether two plans differ in it.
    pub restart: Option<fn(&Plan, &Plan) -> bool>,
}

/// Where a setting may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In its own table only.
    Global,
    /// In a `[[site]]` only.
    Site,
    /// In its own table, and in a site's table of the same name, which wins.
    Both,
    /// In a `[[tls]]` only.
    Tls,
}

/// Value of a setting that is not written.
pub(crate) enum Default {
    /// This text, read like a typed one.
    Fixed(&'static str),
    /// Worked out when the plan is made.
    Computed {
        /// How, for people.
        says: &'static str,
        /// How, in code.
        from: fn(&View<'_>) -> Value,
    },
    /// No value; the text says what that means.
    Unset(&'static str),
}

/// What a value looks like. Bounds are inclusive; `zero` names what `0` means where it stands outside them.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Count { min: u64, max: u64, zero: Option<&'static str> },
    /// Bytes: `"64MB"`.
    Size { min: u64, max: u64, zero: Option<&'static str> },
    /// Milliseconds: `"500ms"`, `"10s"`.
    Duration { min: u64, max: u64, zero: Option<&'static str> },
    /// One of some words, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
    /// A user or group name.
    Name,
    /// A file or folder; `word` stands for none.
    Path { word: Option<&'static str> },
    /// A listening address; `word` stands for none.
    Address { word: Option<&'static str> },
    /// Listening addresses.
    Addresses,
    /// Addresses to connect to by FastCGI; `word` stands for none.
    Backends { word: &'static str },
    /// Address blocks.
    Networks,
    /// Names of files, without a path.
    FileNames,
    /// Names of one sort, with `*` for a variable part. May be empty.
    Words(Word),
    /// Host names, `*.` in front of one allowed.
    HostNames,
    /// A path below the root as in a URL; `word` stands for none.
    UrlPath { word: &'static str },
    /// An https URL, or one of some words that stand for one.
    Url { words: &'static [(&'static str, &'static str)] },
    /// An address for mail.
    Email,
    /// Folders. May be empty.
    Folders,
    /// A table of response fields.
    Fields,
    /// A table of PHP ini values.
    Ini,
    /// A table of environment variables.
    Environment,
    /// A secret text.
    Secret,
    /// A table of beginnings of URL paths and the folders that they stand for.
    Places,
}

/// A sort of names that a list is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Arguments of a query, `*` at either end allowed.
    Argument,
    /// Cookies, `*` at either end allowed.
    Cookie,
    /// Paths, `*/` in front and `*` at the end allowed.
    Path,
    /// Request fields.
    Field,
    /// Arguments as before, or a name with its value.
    ArgumentValue,
    /// Request methods.
    Method,
    /// PHP functions.
    Function,
    /// Environment variables, `*` at either end allowed.
    Variable,
}

/// Tables of which there is one a name: `[php.pool.admin]`. In keys of rows [`NAME`] stands for the name.
pub(crate) const NAMED: &str = "php.pool.";
/// What stands for a name in the keys of rows.
const NAME: &str = "NAME";

/// A path as rows have it, and the name in it: `php.pool.NAME.workers` and `admin` for `php.pool.admin.workers`.
pub(crate) fn unnamed(path: &str) -> (Cow<'_, str>, Option<&str>) {
    let Some(rest) = path.strip_prefix(NAMED) else { return (path.into(), None) };
    let (name, tail) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    (format!("{NAMED}{NAME}{tail}").into(), Some(name))
}

/// The row of `key`.
pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    rows().find(|row| row.key == key)
}

/// All rows, in the order of the reference page.
pub(crate) fn rows() -> impl Iterator<Item = &'static Setting> {
    TABLE.iter().flat_map(|group| group.rows)
}

impl Setting {
    /// The name inside a `[[site]]`: `root` of `site.root`, `php.workers` of `php.workers`. `None` if the setting
    /// cannot stand there.
    pub fn key_in_site(&self) -> Option<&'static str> {
        match self.place {
            Place::Global | Place::Tls => None,
            Place::Both => Some(self.key),
            Place::Site => Some(self.key.strip_prefix("site.").expect("a site's row is named site.*")),
        }
    }

    /// The name inside a `[[tls]]`: `cert` of `tls.cert`. `None` if the setting cannot stand there.
    pub fn key_in_tls(&self) -> Option<&'static str> {
        self.key.strip_prefix("tls.").filter(|_| self.place == Place::Tls)
    }

    /// The name outside of sites. `None` if the setting cannot stand there.
    pub fn key_global(&self) -> Option<&'static str> {
        matches!(self.place, Place::Global | Place::Both).then_some(self.key)
    }

    /// Whether there is one a name.
    pub fn is_named(&self) -> bool {
        self.key.starts_with(NAMED)
    }

    /// The last part of the key: `head_timeout`.
    pub fn last(&self) -> &'static str {
        self.key.rsplit('.').next().unwrap_or(self.key)
    }

    /// The header it stands under: `[http]`, `[[site]]`, `[site.redirect]`, `[php] or [site.php]`.
    pub fn header(&self) -> String {
        let table = self.key.rsplit_once('.').map_or("", |(table, _)| table);
        match self.place {
            Place::Global => format!("[{table}]"),
            Place::Site if table == "site" => "[[site]]".to_owned(),
            Place::Tls => "[[tls]]".to_owned(),
            Place::Site => format!("[{table}] of a [[site]]"),
            Place::Both => format!("[{table}], or [site.{table}] of a [[site]]"),
        }
    }

    /// A sentence that shows how to write it.
    pub fn where_to_write(&self) -> String {
        format!("write `{} = {}` under {}", self.last(), self.example, self.header())
    }

    /// The default for people: `10s`, `one a core`.
    pub fn default_text(&self) -> String {
        match &self.default {
            Default::Fixed(text) => (*text).to_owned(),
            Default::Computed { says, .. } => (*says).to_owned(),
            Default::Unset(means) => format!("none: {means}"),
        }
    }
}

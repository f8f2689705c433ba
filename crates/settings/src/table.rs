//! The only list of settings. A row describes a setting completely: where it may be written, its type and bounds, its
//! default and the reason, and whether a change needs a restart. The TOML reader, `--set`, `millrace check`,
//! `millrace explain` and the reference pages (`docs/settings.md`, `docs/settings/`) all work from these rows.
//!
//! To remove a setting: a row in [`gone`](self::gone) instead.
//!
//! To add a setting: a field in [`crate::plan`], a row in the module of its page in [`rows`](self::rows), and one line in
//! `resolve.rs` that the compiler requires. A test loads every row's example and checks that the plan changes.

mod gone;
mod rows;

use std::borrow::Cow;

use crate::Plan;
use crate::resolve::View;
use crate::value::Value;
pub(crate) use gone::GONE;

/// The settings by task, in the order of the reference.
pub(crate) static PAGES: &[&Page] = rows::PAGES;

/// The TOML tables.
pub(crate) static GROUPS: &[Group] = rows::GROUPS;

/// A page of the reference: the settings for one task.
pub(crate) struct Page {
    /// Name of its file in `docs/settings/`, without `.md`.
    pub name: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// What a user does with these settings, one sentence.
    pub line: &'static str,
    /// The file in `docs/` that explains the subject.
    pub guide: &'static str,
    /// The settings.
    pub rows: &'static [Setting],
}

/// A TOML table.
pub(crate) struct Group {
    /// First part of the keys: `http`.
    pub name: &'static str,
    /// The TOML header: `[http]`, `[[site]]`.
    pub header: &'static str,
    /// What the table configures, one or two sentences.
    pub line: &'static str,
}

/// One setting.
pub(crate) struct Setting {
    /// Full name, `http.head_timeout`; for settings of a site `site.root`.
    pub key: &'static str,
    /// Where it may be written.
    pub place: Place,
    /// Type and bounds of its value.
    pub kind: Kind,
    /// Value if the configuration has none.
    pub default: Default,
    /// What it does, one sentence.
    pub line: &'static str,
    /// Why it exists, and why it has this default.
    pub reason: &'static str,
    /// A value other than the default, as written after `=` in TOML.
    pub example: &'static str,
    /// Names of other servers for it: suggestions use them, the parser never accepts them.
    pub elsewhere: &'static [&'static str],
    /// For a setting that needs a restart: whether two plans differ in it.
    pub restart: Option<fn(&Plan, &Plan) -> bool>,
}

/// Where a setting may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In its own table only.
    Global,
    /// In a `[[site]]` only.
    Site,
    /// In its own table, and in a site's table of the same name, which overrides it.
    Both,
    /// In a `[[tls]]` only.
    Tls,
    /// In a `[[site.proxy]]` only.
    Proxy,
}

/// Value of a setting that the configuration does not have.
pub(crate) enum Default {
    /// This text, read like a written value.
    Fixed(&'static str),
    /// Computed when the plan is made.
    Computed {
        /// The rule, for users.
        says: &'static str,
        /// The rule, in code.
        from: fn(&View<'_>) -> Value,
    },
    /// No value; the text explains the effect, as in `default: HTTPS is off`.
    Unset(&'static str),
}

/// Type of a value. Bounds are inclusive; `zero` is the meaning of `0` if the bounds exclude it.
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
    /// One word of a list, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
    /// A user or group name.
    Name,
    /// A file or directory; `word` stands for none.
    Path { word: Option<&'static str> },
    /// A listening address; `word` stands for none.
    Address { word: Option<&'static str> },
    /// Listening addresses.
    Addresses,
    /// Addresses to connect to by FastCGI; `word` stands for none.
    Backends { word: &'static str },
    /// URLs of applications: `http://host:port`, `https://host`, `unix:/path.sock`.
    Applications,
    /// A host with or without a port, or a word.
    Host { words: &'static [(&'static str, &'static str)] },
    /// A path as in a URL: exactly this one, or with a slash at its end everything below it.
    Location,
    /// One such address of another server; `word` stands for none.
    Backend { word: &'static str },
    /// Address blocks.
    Networks,
    /// Names of files, without a path.
    FileNames,
    /// Names of one type, with `*` for a variable part. May be empty.
    Words(Word),
    /// Host names, `*.` in front of one allowed.
    HostNames,
    /// A path below the root as in a URL; `word` stands for none.
    UrlPath { word: &'static str },
    /// An https URL, or a word that stands for one.
    Url { words: &'static [(&'static str, &'static str)] },
    /// A mail address.
    Email,
    /// Directories. May be empty.
    Folders,
    /// Files. May be empty.
    Files,
    /// A table of response header fields.
    Fields,
    /// A table of PHP ini values.
    Ini,
    /// A table of environment variables.
    Environment,
    /// A label of letters, digits, `.`, `_` and `-`.
    Label,
    /// A secret text of this length or more.
    Secret { least: usize },
    /// A table of URL path prefixes and their directories.
    Places,
}

/// The type of names in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Query arguments, `*` at either end allowed.
    Argument,
    /// The same, or one that is not ignored: `!gclid`.
    IgnoredArgument,
    /// Cookies, `*` at either end allowed.
    Cookie,
    /// Paths, `*/` in front and `*` at the end allowed.
    Path,
    /// Request header fields.
    Field,
    /// Request header fields and PHP's variables about the client, `*` at either end allowed.
    ReadField,
    /// Query arguments, or a name with its value.
    ArgumentValue,
    /// Request methods.
    Method,
    /// PHP functions.
    Function,
    /// Functions and methods of PHP scripts, or files.
    Code,
    /// Environment variables, `*` at either end allowed.
    Variable,
}

/// Prefix of named tables: `[php.pool.admin]`. The keys of rows have [`NAME`] for the name.
pub(crate) const NAMED: &str = "php.pool.";
/// Placeholder for the name in the keys of rows.
const NAME: &str = "NAME";

/// The key of a path, and the name in it: `php.pool.NAME.workers` and `admin` for `php.pool.admin.workers`.
pub(crate) fn unnamed(path: &str) -> (Cow<'_, str>, Option<&str>) {
    let Some(rest) = path.strip_prefix(NAMED) else { return (path.into(), None) };
    let (name, tail) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    (format!("{NAMED}{NAME}{tail}").into(), Some(name))
}

/// Returns the row of `key`.
pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    rows().find(|row| row.key == key)
}

/// Why an earlier version's setting has gone.
pub(crate) fn gone(key: &str) -> Option<&'static str> {
    GONE.iter().find(|(name, _)| *name == key).map(|(_, why)| *why)
}

/// All rows, in the order of the reference.
pub(crate) fn rows() -> impl Iterator<Item = &'static Setting> {
    PAGES.iter().flat_map(|page| page.rows)
}

impl Setting {
    /// The key inside a `[[site]]`: `root` for `site.root`, `php.workers` for `php.workers`. `None` if the setting is not
    /// allowed there.
    pub fn key_in_site(&self) -> Option<&'static str> {
        match self.place {
            Place::Global | Place::Tls | Place::Proxy => None,
            Place::Both => Some(self.key),
            Place::Site => Some(self.key.strip_prefix("site.").expect("a site's row is named site.*")),
        }
    }

    /// The key inside a `[[tls]]`: `cert` for `tls.cert`. `None` if the setting is not allowed there.
    pub fn key_in_tls(&self) -> Option<&'static str> {
        self.key.strip_prefix("tls.").filter(|_| self.place == Place::Tls)
    }

    /// The key inside a `[[site.proxy]]`: `path` for `proxy.path`. `None` if the setting is not allowed there.
    pub fn key_in_proxy(&self) -> Option<&'static str> {
        self.key.strip_prefix("proxy.").filter(|_| self.place == Place::Proxy)
    }

    /// The key outside of sites. `None` if the setting is not allowed there.
    pub fn key_global(&self) -> Option<&'static str> {
        matches!(self.place, Place::Global | Place::Both).then_some(self.key)
    }

    /// Whether the setting belongs to a named table.
    pub fn is_named(&self) -> bool {
        self.key.starts_with(NAMED)
    }

    /// The last part of the key: `head_timeout`.
    pub fn last(&self) -> &'static str {
        self.key.rsplit('.').next().unwrap_or(self.key)
    }

    /// The header above it, in backticks: `[php]`, or `[site.php]` of a `[[site]]`.
    pub fn header(&self) -> String {
        let table = self.key.rsplit_once('.').map_or("", |(table, _)| table);
        match self.place {
            Place::Global => format!("`[{table}]`"),
            Place::Site if table == "site" => "`[[site]]`".to_owned(),
            Place::Tls => "`[[tls]]`".to_owned(),
            Place::Proxy if table == "proxy" => "`[[site.proxy]]`".to_owned(),
            Place::Proxy => format!("`[site.{table}]` of a `[[site.proxy]]`"),
            Place::Site => format!("`[{table}]` of a `[[site]]`"),
            Place::Both => format!("`[{table}]`, or `[site.{table}]` of a `[[site]]`"),
        }
    }

    /// How to write it, as the end of a help text.
    pub fn where_to_write(&self) -> String {
        format!("write `{} = {}` under {}", self.last(), self.example, self.header())
    }

    /// The default for users: `10s`, `one per core`, `0 (no limit)`.
    pub fn default_text(&self) -> String {
        let (Default::Fixed(text) | Default::Unset(text) | Default::Computed { says: text, .. }) =
            &self.default;
        let (Kind::Count { zero, .. } | Kind::Size { zero, .. } | Kind::Duration { zero, .. }) = self.kind
        else {
            return (*text).to_owned();
        };
        match zero {
            Some(means) if *text == "0" => format!("0 ({means})"),
            _ => (*text).to_owned(),
        }
    }
}

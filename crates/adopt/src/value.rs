//! The common value of all converters: what a configuration says, in Millrace's terms, each item with its place.

use std::fmt;
use std::sync::Arc;

/// What the caller wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// PHP stays in the php-fpm that the configuration names.
    pub keep_fpm: bool,
}

/// Why files of another folder are not carried over.
pub const ONE_FOLDER: &str = "write a rule with `root` for its files (docs/rules.md), or link the folder into the site's (ln -s, as root)";

/// Where certificate authorities ask (RFC 8555 section 8.3).
pub const CHALLENGES: &str = "/.well-known/acme-challenge";

/// Why no OCSP response is stapled.
pub const STAPLING: &str = "no OCSP response is stapled: Let's Encrypt has ended OCSP, and browsers use lists of revoked certificates; \
                            a certificate with must-staple has to be issued anew without it";

/// The names of `files.index`.
pub const INDEX: [&str; 3] = ["index.php", "index.html", "index.htm"];

/// Added to the reason where the lost directives restrict access.
pub const OPEN: &str = "; until you write it, what it closes is open";

/// Fields that a rule does not copy: the client's, or the server's own.
const NOT_COPIED: &[&str] = &[
    "accept-encoding",
    "authorization",
    "connection",
    "cookie",
    "host",
    "origin",
    "range",
    "referer",
    "user-agent",
    "via",
    "x-real-ip",
];
const NOT_COPIED_BEGIN: &[&str] =
    &["content-", "if-", "x-forwarded-", "x-original-", "x-litespeed-", "proxy-"];

/// Whether `auth.copy` takes a header field.
#[must_use]
pub fn is_copied(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name
        && !NOT_COPIED.contains(&name.as_str())
        && !NOT_COPIED_BEGIN.iter().any(|start| name.starts_with(start))
}

/// Where something is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A directive as written, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// Where it is.
    pub place: Place,
    /// Its text, in one line.
    pub text: String,
}

/// A directive that isn't carried over, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The directive.
    pub source: Source,
    /// Why, and what to do instead.
    pub why: String,
}

/// What became of each directive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Those that the result has.
    pub carried: Vec<Source>,
    /// Those that Millrace does by itself, or does not need.
    pub needless: Vec<Note>,
    /// Those that the result lacks.
    pub lost: Vec<Note>,
}

impl Notes {
    /// The result has it.
    pub fn carried(&mut self, source: &Source) {
        self.carried.push(source.clone());
    }

    /// Millrace does not need it.
    pub fn needless(&mut self, source: &Source, why: impl Into<String>) {
        self.needless.push(Note { source: source.clone(), why: why.into() });
    }

    /// The result lacks it.
    pub fn lost(&mut self, source: &Source, why: impl Into<String>) {
        let note = Note { source: source.clone(), why: why.into() };
        if !self.lost.contains(&note) {
            self.lost.push(note);
        }
    }

    /// Adds other notes.
    pub fn append(&mut self, mut other: Notes) {
        self.carried.append(&mut other.carried);
        self.needless.append(&mut other.needless);
        other.lost.retain(|note| !self.lost.contains(note));
        self.lost.append(&mut other.lost);
    }
}

/// A value of TOML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Toml {
    /// A string.
    Text(String),
    /// A regular expression: a string that is easier to read in single quotes.
    Regex(String),
    /// A number.
    Number(u64),
    /// `true` or `false`.
    Switch(bool),
    /// Numbers.
    Numbers(Vec<u64>),
    /// Strings.
    List(Vec<String>),
    /// Names and values.
    Table(Vec<(String, Toml)>),
}

impl Toml {
    /// A text, or a list if there are several.
    #[must_use]
    pub fn one_or_list(mut texts: Vec<String>) -> Toml {
        if texts.len() == 1 { Toml::Text(texts.remove(0)) } else { Toml::List(texts) }
    }
}

impl From<&str> for Toml {
    fn from(text: &str) -> Self {
        Toml::Text(text.to_owned())
    }
}

impl From<String> for Toml {
    fn from(text: String) -> Self {
        Toml::Text(text)
    }
}

/// Settings by their dotted names, in the order in which they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(pub Vec<(String, Toml)>);

impl Settings {
    /// Sets a value; the last one counts.
    pub fn set(&mut self, key: &str, value: impl Into<Toml>) {
        let value = value.into();
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some(entry) => entry.1 = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Toml> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Adds `text` to a list, once.
    pub fn add(&mut self, key: &str, text: &str) {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, Toml::List(list))) if list.iter().any(|known| known == text) => {}
            Some((_, Toml::List(list))) => list.push(text.to_owned()),
            _ => self.set(key, Toml::List(vec![text.to_owned()])),
        }
    }
}

/// Conditions of a rule: its keys that say which requests it matches.
pub type When = Vec<(&'static str, Toml)>;

/// A `[[site.rule]]` or a `[[site.proxy]]`: its keys in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What it comes from.
    pub source: Source,
    /// Its keys.
    pub keys: Vec<(&'static str, Toml)>,
    /// In what it differs from the directive.
    pub caveat: Option<String>,
}

impl Block {
    /// The value of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Toml> {
        self.keys.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Whether it is only for certificate authorities.
    #[must_use]
    pub fn is_challenge(&self) -> bool {
        self.get("path").is_some_and(is_challenges)
    }
}

/// Whether paths are those of certificate authorities only.
#[must_use]
pub fn is_challenges(paths: &Toml) -> bool {
    match paths {
        Toml::Text(path) => path.starts_with(CHALLENGES),
        Toml::List(paths) => paths.iter().all(|path| path.starts_with(CHALLENGES)),
        _ => false,
    }
}

/// How a site runs PHP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Php {
    /// It has no PHP.
    #[default]
    Off,
    /// Millrace's own workers.
    Own,
    /// A php-fpm at these addresses.
    Fastcgi(Vec<String>),
}

/// A site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// What it comes from.
    pub source: Source,
    /// Host names.
    pub names: Vec<String>,
    /// Whether it answers for unknown names.
    pub default: bool,
    /// Whether it is reached over HTTP.
    pub plain: bool,
    /// Whether it is reached over HTTPS.
    pub secure: bool,
    /// The folder.
    pub root: Option<String>,
    /// PHP.
    pub php: Php,
    /// Other settings.
    pub settings: Settings,
    /// Rules, in their order.
    pub rules: Vec<Block>,
    /// Applications.
    pub proxies: Vec<Block>,
    /// What became of its directives.
    pub notes: Notes,
}

impl Site {
    /// A site without anything.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Site {
            source,
            names: Vec::new(),
            default: false,
            plain: false,
            secure: false,
            root: None,
            php: Php::Off,
            settings: Settings::default(),
            rules: Vec::new(),
            proxies: Vec::new(),
            notes: Notes::default(),
        }
    }

    /// Adds an application, unless another one has its path.
    pub fn proxy(&mut self, block: Block) {
        let is_known = self.proxies.iter().any(|known| known.get("path") == block.get("path"));
        match is_known {
            true if self.proxies.iter().any(|known| known.keys == block.keys) => {}
            true => self.notes.lost(&block.source, "another application has this path"),
            false => self.proxies.push(block),
        }
    }

    /// Adds a name, once.
    pub fn name(&mut self, name: &str) {
        if !self.names.iter().any(|known| known == name) {
            self.names.push(name.to_owned());
        }
    }
}

/// A configuration in Millrace's terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopted {
    /// Settings of all sites: `server.listen`, `log.access`.
    pub settings: Settings,
    /// Certificates and their keys.
    pub certificates: Vec<(String, String)>,
    /// The sites.
    pub sites: Vec<Site>,
    /// What became of the directives outside of sites.
    pub notes: Notes,
}

impl Adopted {
    /// Adds a certificate, once.
    pub fn certificate(&mut self, cert: &str, key: &str) {
        let pair = (cert.to_owned(), key.to_owned());
        if !self.certificates.contains(&pair) {
            self.certificates.push(pair);
        }
    }

    /// The notes of everything, each directive once.
    #[must_use]
    pub fn all_notes(&self) -> Notes {
        let mut all = self.notes.clone();
        for site in &self.sites {
            all.append(site.notes.clone());
        }
        all.carried.sort();
        all.carried.dedup();
        let order = |note: &Note| (note.source.clone(), note.why.clone());
        for notes in [&mut all.needless, &mut all.lost] {
            notes.sort_by_key(order);
            notes.dedup();
        }
        all
    }
}

//! Locations: which requests one covers, in the words of a rule, and which of several decides.

use super::lex::Directive;
use crate::pattern;
use crate::value::{Toml, When};

/// How a location is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server itself, or `/`.
    Whole,
    /// `= /path`
    Exact(String),
    /// `^~ /path`: before regular expressions.
    First(String),
    /// `/path`
    Prefix(String),
    /// `~` and `~*`, as Millrace takes it.
    Regex(String),
    /// `@name`
    Named(String),
}

/// A location.
#[derive(Clone, Debug)]
pub struct Location<'a> {
    pub kind: Kind,
    /// Names of the groups of its expression, by their numbers.
    pub groups: Vec<Option<String>>,
    /// Paths that its expression excepts.
    unless: Vec<String>,
    pub directive: &'a Directive,
    /// The locations that it is in, the innermost first.
    pub outer: Vec<&'a Directive>,
}

impl<'a> Location<'a> {
    /// Reads a location; `outer` is the one that it is in.
    pub fn read(directive: &'a Directive, outer: Option<&Location<'a>>) -> Result<Self, String> {
        let (modifier, text) = match directive.args.as_slice() {
            [one] => split(one),
            [modifier, text] => (modifier.as_str(), text.as_str()),
            _ => return Err("a location has one pattern".to_owned()),
        };
        let (mut groups, mut unless) = (Vec::new(), Vec::new());
        let kind = match modifier {
            "=" => Kind::Exact(plain(text)?),
            "^~" => Kind::First(plain(text)?),
            "~" | "~*" => {
                let within = match outer.map(|outer| &outer.kind) {
                    Some(Kind::First(prefix) | Kind::Prefix(prefix)) if !text.starts_with('^') => {
                        format!("^{}.*(?:{text})", pattern::escaped(prefix))
                    }
                    _ => text.to_owned(),
                };
                let carried = pattern::carried(&within, modifier == "~*")?;
                (groups, unless) = (carried.groups, carried.unless);
                Kind::Regex(carried.text)
            }
            _ if text.starts_with('@') => Kind::Named(text.to_owned()),
            _ if text == "/" => Kind::Whole,
            _ => Kind::Prefix(plain(text)?),
        };
        let outer = outer.map(|outer| [&[outer.directive], outer.outer.as_slice()].concat());
        Ok(Location { kind, groups, unless, directive, outer: outer.unwrap_or_default() })
    }

    /// As [`Location::when`], for what restricts access: a script also runs with something after its name, as `/x.php/y`.
    pub fn guarded(&self) -> When {
        let mut when = self.when();
        for (_, value) in &mut when {
            match value {
                Toml::Text(path) if path.ends_with(".php") => {
                    *value = Toml::List(vec![path.clone(), format!("{path}/*")]);
                }
                Toml::Regex(regex)
                    if regex.contains("php") && regex.ends_with('$') && !regex.ends_with("\\$") =>
                {
                    regex.truncate(regex.len() - 1);
                    regex.push_str("(?:/|$)");
                }
                _ => {}
            }
        }
        when
    }

    /// The conditions of a rule for its requests.
    pub fn when(&self) -> When {
        match &self.kind {
            Kind::Whole | Kind::Named(_) => Vec::new(),
            Kind::Exact(path) => vec![("path", path.as_str().into())],
            Kind::First(path) | Kind::Prefix(path) => vec![("path", format!("{path}*").into())],
            Kind::Regex(regex) => {
                let unless =
                    (!self.unless.is_empty()).then(|| ("unless_path", Toml::List(self.unless.clone())));
                [("regex", Toml::Regex(regex.clone()))].into_iter().chain(unless).collect()
            }
        }
    }

    /// Which decides: lower ones before higher ones. `number` is its place in the server.
    pub fn rank(&self, number: usize) -> (u8, usize) {
        let long = |path: &str| usize::MAX - path.len();
        match &self.kind {
            Kind::Exact(_) => (0, number),
            Kind::First(path) => (1, long(path)),
            Kind::Regex(_) => (2, number),
            Kind::Prefix(path) => (3, long(path)),
            Kind::Whole | Kind::Named(_) => (4, number),
        }
    }

    /// The prefix of its paths, if it is one.
    pub fn prefix(&self) -> Option<&str> {
        match &self.kind {
            Kind::Whole => Some("/"),
            Kind::Exact(path) | Kind::First(path) | Kind::Prefix(path) => Some(path),
            Kind::Regex(_) | Kind::Named(_) => None,
        }
    }
}

/// `~^/x` and `=/x` are written without a space, too.
fn split(text: &str) -> (&str, &str) {
    for modifier in ["~*", "^~", "~", "="] {
        if let Some(rest) = text.strip_prefix(modifier) {
            return (modifier, rest);
        }
    }
    ("", text)
}

/// A path of a rule.
fn plain(text: &str) -> Result<String, String> {
    let odd = text.contains(['%', '?', '#', '*'])
        || text.contains("//")
        || text.contains("/../")
        || text.contains("/./");
    match text.starts_with('/') && !odd {
        true => Ok(text.to_owned()),
        false => Err("no request has such a path after it is decoded and normalised".to_owned()),
    }
}

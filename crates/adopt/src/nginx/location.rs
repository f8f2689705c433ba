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
    /// Their ranks, the outermost first.
    around: Vec<Rank>,
}

/// What decides between locations of one level: lower ones before higher ones.
type Rank = (u8, usize);

/// Which location decides: lower ones before higher ones, those in a location before it.
pub type Precedence = Vec<Rank>;

/// Of what is in no location, and the end of each precedence.
pub const LAST: Rank = (u8::MAX, usize::MAX);

impl<'a> Location<'a> {
    /// Reads a location; `outer` is the one that it is in, with its number in the server.
    pub fn read(directive: &'a Directive, outer: Option<(&Location<'a>, usize)>) -> Result<Self, String> {
        let around = outer.map(|(outer, number)| [&outer.around[..], &[outer.rank(number)]].concat());
        let outer = outer.map(|(outer, _)| outer);
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
                let within = within(text, outer.map(|outer| &outer.kind))?;
                let carried = pattern::carried(&within, modifier == "~*")?;
                (groups, unless) = (carried.groups, carried.unless);
                Kind::Regex(carried.text)
            }
            _ if text.starts_with('@') => Kind::Named(text.to_owned()),
            _ if text == "/" => Kind::Whole,
            _ => Kind::Prefix(plain(text)?),
        };
        let outer = outer.map(|outer| [&[outer.directive], outer.outer.as_slice()].concat());
        let (outer, around) = (outer.unwrap_or_default(), around.unwrap_or_default());
        Ok(Location { kind, groups, unless, directive, outer, around })
    }

    /// Which location decides. `number` is its place in the server.
    pub fn precedence(&self, number: usize) -> Precedence {
        let own = self.rank(number);
        let is_in_prefix = self.around.first().is_some_and(|outer| outer.0 >= PREFIX);
        // nginx looks at expressions in a location with a prefix before those outside of it.
        let before = (own.0 == REGEX && is_in_prefix).then_some((REGEX, 0));
        before.into_iter().chain(self.around.iter().copied()).chain([own, LAST]).collect()
    }

    /// As [`Location::when`], for what restricts access: a script also runs with something after its name, as `/x.php/y`.
    ///
    /// A folder is served by its index file, one of `index`, for which nginx looks for a location again.
    pub fn guarded(&self, index: &[String]) -> When {
        let mut when = self.when();
        for (_, value) in &mut when {
            if let Toml::Regex(regex) = value
                && let Some(with_folders) = pattern::with_folders(regex, index)
            {
                *regex = with_folders;
                continue;
            }
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

    fn rank(&self, number: usize) -> Rank {
        let long = |path: &str| usize::MAX - path.len();
        match &self.kind {
            Kind::Exact(_) => (0, number),
            Kind::First(path) => (1, long(path)),
            Kind::Regex(_) => (REGEX, number + 1),
            Kind::Prefix(path) => (PREFIX, long(path)),
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

/// Ranks of expressions, and of plain prefixes.
const REGEX: u8 = 2;
const PREFIX: u8 = 3;

/// An expression that only matches within the location around it.
fn within(text: &str, outer: Option<&Kind>) -> Result<String, String> {
    let apart = || Err("no rule has two expressions: write one with `regex` for both".to_owned());
    match outer {
        Some(Kind::First(prefix) | Kind::Prefix(prefix)) => {
            let Some(rest) = text.strip_prefix('^') else {
                return Ok(format!("^{}.*(?:{text})", pattern::escaped(prefix)));
            };
            let start: String =
                rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "/-_".contains(*c)).collect();
            match start.starts_with(prefix.as_str()) || prefix.starts_with(&start) {
                true => Ok(text.to_owned()),
                false => Err(format!("no request of {prefix} matches this expression")),
            }
        }
        Some(Kind::Regex(own))
            if own.starts_with('^') && !own.contains(['$', '|']) && !text.starts_with('^') =>
        {
            Ok(format!("{own}.*(?:{text})"))
        }
        Some(Kind::Regex(_)) => apart(),
        _ => Ok(text.to_owned()),
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

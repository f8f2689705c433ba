//! What an application's published rules do with a path besides "a file, or else the front controller": images under
//! readable names, a second front controller, paths that become an argument of a query.
//!
//! The rules are data in the application's table; they are compiled when a site is made. They apply after those of
//! the site and of `.htaccess` files. A rule that one of those has applied already finds nothing to do: its path is
//! a script by then.

use millrace_wire::percent;
use regex::bytes::{Captures, Regex, RegexBuilder};

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    /// Normalised paths, as a regular expression.
    pub path: &'static str,
    /// Which of them.
    pub when: When,
    /// What becomes of the request.
    pub then: Then,
}

/// Which of the paths that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// All.
    Always,
    /// Those at which there is neither file nor directory, and that name no script.
    Missing,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    /// It is for another path; arguments behind a `?` come before its own. `$1` is a group, `$/1` a group with a
    /// slash behind each character. A script must exist, or else the rule does not apply. The rules that follow apply
    /// to the new path.
    Serve(&'static str),
    /// A redirect to this path, with the query of the request.
    Redirect(u16, &'static str),
    /// 404.
    Refuse,
    /// The rules that follow do not apply.
    Stay,
}

/// What the rules make of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rewritten {
    /// Nothing.
    Same,
    /// Another path and query.
    Path(Vec<u8>, Option<Vec<u8>>),
    /// A redirect.
    Redirect(u16, &'static str),
    /// 404.
    Refuse,
}

/// The rules of an application, compiled.
#[derive(Debug)]
pub struct Rewrites(Vec<(Regex, &'static Rewrite)>);

impl Rewrites {
    /// Compiles rules; `None`: there are none.
    pub fn new(rules: &'static [Rewrite]) -> Option<Rewrites> {
        let compiled = |rule: &'static Rewrite| (regex(rule.path), rule);
        (!rules.is_empty()).then(|| Rewrites(rules.iter().map(compiled).collect()))
    }

    /// What the rules make of a path and its query. `look`: what is at a path.
    pub fn apply(&self, path: &[u8], query: Option<&[u8]>, look: impl Fn(&[u8]) -> AtPath) -> Rewritten {
        let mut now: Option<(Vec<u8>, Option<Vec<u8>>)> = None;
        for (regex, rule) in &self.0 {
            let (path, query) = match &now {
                Some((path, query)) => (&path[..], query.as_deref()),
                None => (path, query),
            };
            let Some(groups) = regex.captures(path) else { continue };
            if rule.when == When::Missing && look(path) != AtPath::Missing {
                continue;
            }
            match rule.then {
                Then::Serve(target) => {
                    let (target, arguments) = target.split_once('?').unwrap_or((target, ""));
                    let to = filled(target, &groups, |group, out| out.extend_from_slice(group));
                    if to.ends_with(b".php") && look(&to) != AtPath::Script {
                        continue;
                    }
                    let mut arguments = filled(arguments, &groups, encode);
                    let own = query.filter(|own| !own.is_empty());
                    if !arguments.is_empty() && own.is_some() {
                        arguments.push(b'&');
                    }
                    arguments.extend_from_slice(own.unwrap_or_default());
                    let is_empty = arguments.is_empty() && query.is_none();
                    now = Some((to, (!is_empty).then_some(arguments)));
                }
                Then::Redirect(status, to) => return Rewritten::Redirect(status, to),
                Then::Refuse => return Rewritten::Refuse,
                Then::Stay => break,
            }
        }
        now.map_or(Rewritten::Same, |(path, query)| Rewritten::Path(path, query))
    }
}

/// A path is bytes: its letters are those of ASCII.
pub(super) fn regex(path: &str) -> Regex {
    RegexBuilder::new(path).unicode(false).build().expect("a test compiles all")
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtPath {
    /// A script.
    Script,
    /// Something else, or a path that names a script.
    Other,
    /// Nothing.
    Missing,
}

/// A target with its groups.
fn filled(target: &str, groups: &Captures<'_>, put: impl Fn(&[u8], &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut bytes = target.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'$' {
            out.push(byte);
            continue;
        }
        let in_folders = bytes.next_if_eq(&b'/').is_some();
        let number = bytes.next().map_or(0, |digit| usize::from(digit.wrapping_sub(b'0')));
        let group = groups.get(number).map_or(&[][..], |group| group.as_bytes());
        match in_folders {
            true => group.iter().for_each(|byte| put(&[*byte, b'/'], &mut out)),
            false => put(group, &mut out),
        }
    }
    out
}

/// A part of the value of an argument.
fn encode(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(percent::encode(text, b"-._~/:,@").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &[Rewrite] = &[
        Rewrite { path: "^/s/v[0-9]+/(.*)$", when: When::Always, then: Then::Serve("/s/$1") },
        Rewrite { path: "^/s/(.+)$", when: When::Missing, then: Then::Serve("/s.php?of=$1") },
        Rewrite {
            path: r"^/([0-9]+)(-[a-z]+)?/.+\.jpg$",
            when: When::Always,
            then: Then::Serve("/i/$/1$1$2.jpg"),
        },
        Rewrite { path: "^/none/", when: When::Always, then: Then::Serve("/none.php") },
        Rewrite { path: "^/old$", when: When::Always, then: Then::Redirect(301, "/new/") },
        Rewrite { path: "^/lib/.*[.]css$", when: When::Always, then: Then::Stay },
        Rewrite { path: "^/lib(/|$)", when: When::Always, then: Then::Refuse },
    ];

    fn apply(url: &str) -> Rewritten {
        let (path, query) =
            url.split_once('?').map_or((url, None), |(path, query)| (path, Some(query.as_bytes())));
        let look = |path: &[u8]| match path {
            b"/s.php" => AtPath::Script,
            b"/s/there" => AtPath::Other,
            _ => AtPath::Missing,
        };
        Rewrites::new(RULES).unwrap().apply(path.as_bytes(), query, look)
    }

    fn path(path: &str, query: Option<&str>) -> Rewritten {
        Rewritten::Path(path.into(), query.map(|query| query.into()))
    }

    #[test]
    fn rules_apply_one_after_another() {
        assert_eq!(apply("/s/v12/there"), path("/s/there", None));
        assert_eq!(apply("/s/v12/a/b c&d.css?x=1"), path("/s.php", Some("of=a/b%20c%26d.css&x=1")));
        assert_eq!(apply("/s/there"), Rewritten::Same);
        assert_eq!(apply("/s/v1/there?x=%20"), path("/s/there", Some("x=%20")));
        assert_eq!(apply("/123-home/a.jpg"), path("/i/1/2/3/123-home.jpg", None));
        assert_eq!(apply("/7/a.jpg?"), path("/i/7/7.jpg", Some("")));
        assert_eq!(apply("/none/x"), Rewritten::Same, "there is no such script");
        assert_eq!(apply("/old"), Rewritten::Redirect(301, "/new/"));
        assert_eq!(apply("/lib/a.css"), Rewritten::Same);
        assert_eq!(apply("/lib"), Rewritten::Refuse);
        assert_eq!(apply("/lib/a.php"), Rewritten::Refuse);
        assert_eq!(apply("/library"), Rewritten::Same);
    }
}

//! A scenario as plain data: what a user does, not how many of them there are.
//!
//! A user picks one of the weighted [`Flow`]s, does its [`Step`]s, and picks again. One URL is a flow of one step;
//! many URLs with weights are many flows of one step; logging in and buying is one flow of many steps. All requests
//! go to one origin: a load test is for one server.

use std::time::Duration;

/// Default maximum of redirects in sequence: pages have one or two, a circle has no end.
pub const MOST_REDIRECTS: u8 = 10;

/// The server under test.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// Name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// The actions of a run's users.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name in reports.
    pub name: String,
    /// Where all requests go.
    pub origin: Origin,
    /// The flows to choose from; at least one.
    pub flows: Vec<Flow>,
    /// A replay: which flow starts when, counted from the start, in order of time. Arrivals are these and no others.
    pub timeline: Option<Vec<(Duration, usize)>>,
    /// Whether users store cookies.
    pub cookies: bool,
    /// Whether users have a browser cache: `If-None-Match`, `If-Modified-Since`, and no request for fresh content.
    pub browser_cache: bool,
    /// Fields of every request, after the engine's (`Host`, `User-Agent`, `Accept-Encoding`); a field with the same
    /// name replaces the engine's, and one without a value is not sent.
    pub fields: Vec<(String, String)>,
    /// Parts that differ between two right responses; sameness passes over them.
    pub dynamic: Vec<Dynamic>,
}

/// A series of steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its name in reports.
    pub name: String,
    /// How often it is chosen, relative to the others.
    pub weight: u32,
    /// The steps, in order; at least one. A step that fails ends the flow.
    pub steps: Vec<Step>,
}

/// A request, the checks of its response, and the values taken out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The request.
    pub request: Request,
    /// Whether the page's parts are fetched too, as a browser would: a full page load.
    pub page: bool,
    /// The checks of the response.
    pub checks: Vec<Check>,
    /// Values for later steps.
    pub extract: Vec<Extract>,
    /// How long the user thinks afterwards: between these two, evenly.
    pub think: Option<(Duration, Duration)>,
    /// How many redirects to follow in sequence; `None`: as for a page, like a browser.
    pub redirects: Option<u8>,
}

/// A request as written: `{name}` in the target, a field's value or the body stands for an extracted value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, ...
    pub method: String,
    /// Path and query: `/shop/?p=1`.
    pub target: String,
    /// Fields of this request; they replace the scenario's of the same name.
    pub fields: Vec<(String, String)>,
    /// Content; `Content-Length` is added by the engine, `Content-Type` is not.
    pub body: Vec<u8>,
}

/// A check of a response. Without a status check, a status of 200-399 is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The status is one of these.
    Status(Vec<u16>),
    /// The content, decoded, has this many bytes.
    Length(u64),
    /// This text is in the content.
    Text(String),
    /// This text is not in the content.
    NoText(String),
}

/// A value taken out of a response, used as `{name}` by later steps. A value that isn't there fails the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extract {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub from: Place,
}

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the content, between these two texts; the first such place.
    Between {
        /// The text before it.
        before: String,
        /// The text after it.
        after: String,
    },
    /// In the content, where this expression matches first: its first group, or all of it.
    Regex(Pattern),
    /// The value of the field of this name.
    Field(String),
    /// The value of the cookie of this name.
    Cookie(String),
}

/// A regular expression, in the syntax of the crate `regex`.
#[derive(Clone, Debug)]
pub struct Pattern(regex_lite::Regex);

impl Pattern {
    /// Reads `text`.
    ///
    /// # Errors
    /// The parser's error.
    pub fn new(text: &str) -> Result<Pattern, regex_lite::Error> {
        let limited = regex_lite::RegexBuilder::new(text).size_limit(1 << 20).build();
        limited.map(Pattern)
    }

    /// The value in `content`: the first group, or, without groups, the whole match.
    pub fn take<'a>(&self, content: &'a str) -> Option<&'a str> {
        let groups = self.0.captures(content)?;
        groups.get(1).or_else(|| groups.get(0)).map(|found| found.as_str())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

/// A part of pages that differs each time: from the end of one text to the start of the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dynamic {
    /// The text before it.
    pub before: String,
    /// The text after it; empty: to the end of the line.
    pub after: String,
}

impl Scenario {
    /// One URL, again and again.
    pub fn one(origin: Origin, target: &str) -> Scenario {
        Scenario::weighted(origin, vec![(1, target.to_owned())])
    }

    /// Several targets, chosen in proportion to their weights.
    pub fn weighted(origin: Origin, targets: Vec<(u32, String)>) -> Scenario {
        let name = match targets.as_slice() {
            [(_, only)] => only.clone(),
            many => format!("{} URLs", many.len()),
        };
        let flows = targets.into_iter().map(|(weight, target)| Flow::get(weight, target)).collect();
        Scenario {
            name,
            origin,
            flows,
            timeline: None,
            cookies: false,
            browser_cache: false,
            fields: Vec::new(),
            dynamic: Vec::new(),
        }
    }
}

impl Flow {
    /// One `GET`.
    pub fn get(weight: u32, target: String) -> Flow {
        let name = target.clone();
        let request = Request { method: "GET".to_owned(), target, ..Request::default() };
        Flow { name, weight, steps: vec![Step::new(request)] }
    }
}

impl Step {
    /// A request without special expectations.
    pub fn new(request: Request) -> Step {
        Step { request, page: false, checks: Vec::new(), extract: Vec::new(), think: None, redirects: None }
    }

    /// How many redirects to follow; `None`: the response to the request itself counts, whatever it is. A step that
    /// checks for a redirect needs to see it.
    pub fn follows(&self) -> Option<u8> {
        let wants_it = self.checks.iter().any(
            |check| matches!(check, Check::Status(all) if all.iter().any(|status| is_redirect(*status))),
        );
        let most = self.redirects.unwrap_or(if self.page { MOST_REDIRECTS } else { 0 });
        (most > 0 && !wants_it).then_some(most)
    }
}

/// Whether a response with this status may redirect (RFC 9110 section 15.4).
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

impl std::fmt::Display for Origin {
    /// As in a URL: without the default port.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (scheme, usual) = if self.tls { ("https", 443) } else { ("http", 80) };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]", self.host)?;
        } else {
            write!(f, "{scheme}://{}", self.host)?;
        }
        if self.port == usual { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_checks_for_a_redirect_wants_to_see_it() {
        let step =
            |page, redirects, checks| Step { page, redirects, checks, ..Step::new(Request::default()) };
        assert_eq!(step(true, None, vec![Check::Status(vec![200])]).follows(), Some(MOST_REDIRECTS));
        assert_eq!(step(false, None, Vec::new()).follows(), None);
        assert_eq!(step(false, Some(3), Vec::new()).follows(), Some(3));
        assert_eq!(step(true, Some(0), Vec::new()).follows(), None);
        assert_eq!(step(true, Some(3), vec![Check::Status(vec![200, 302])]).follows(), None);
    }

    #[test]
    fn what_a_pattern_takes() {
        let take = |pattern, content| Pattern::new(pattern).unwrap().take(content).map(str::to_owned);
        assert_eq!(take("nonce\":\"([0-9a-f]+)", "x nonce\":\"12ab\""), Some("12ab".to_owned()));
        assert_eq!(take("[0-9]+", "a 42"), Some("42".to_owned()));
        assert_eq!(take("b", "a"), None);
        assert!(Pattern::new("(").is_err() && Pattern::new("(a{1000}){1000}").is_err());
    }
}

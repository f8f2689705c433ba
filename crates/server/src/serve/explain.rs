//! Why a page is or isn't cached, for `millrace cache explain`: takes a request down its route without answering it.
//! Runs on an event loop, like the request itself would; no script runs.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use millrace_pages::ask::PLAIN_ACCEPT;
use millrace_pages::visitors::{CookieState, Proof};
use millrace_settings::plan::RuleAction;
use millrace_wire::head::{Head, Limits};
use tokio::sync::oneshot;

use super::page_url::PageUrl;
use super::walk::{Make, Maker, Trail, Walk, WalkPurpose, WalkStep};
use super::{ServeThread, Setup, SiteWorkers};
use crate::audience;
use crate::cache::{Preview, purge::OrderError};
use millrace_base::context::stats::{ResponseClass, SiteCauses};
use millrace_base::message::Step;
use millrace_base::message::reply::Reply;
use millrace_base::message::request::{Ends, Request};
use millrace_base::site::Profile;

/// What a browser sends, unless the request has a field of its own by this name.
const USUAL: [(&str, &str); 2] =
    [("Accept", PLAIN_ACCEPT), ("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Millrace")];

/// Limits of the request that is asked about: what the admin address accepts.
const LIMITS: Limits = Limits { bytes: 64 << 10, fields: 128, target: 16 << 10 };

/// A request that is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainRequest {
    url: PageUrl,
    /// Its fields, cookies included.
    fields: Vec<(String, String)>,
    /// Its client's address.
    client: IpAddr,
}

/// The question can't be answered; the text says what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainError {
    /// Of the URL.
    Url(OrderError),
    /// The form has no URL, or more than one.
    NoUrl,
    /// The form has an unknown field.
    UnknownField(String),
    /// Not `NAME=VALUE`.
    Cookie(String),
    /// Not `Name: value`.
    Field(String),
    /// Not an address.
    Client(String),
    /// The request would be rejected.
    Rejected(&'static str),
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(why) => why.fmt(f),
            Self::NoUrl => {
                f.write_str("name one page: https://host/path, or /path if there is only one site")
            }
            Self::UnknownField(name) => {
                write!(f, "unknown field \"{name}\"; the fields are url, cookie, field, client and json")
            }
            Self::Cookie(text) => {
                write!(f, "\"{}\" is not a cookie: write NAME=VALUE", text.escape_debug())
            }
            Self::Field(text) => {
                let text = text.escape_debug();
                write!(
                    f,
                    "\"{text}\" is not a header field: write 'Name: value'; the host comes from the URL"
                )
            }
            Self::Client(text) => {
                let text = text.escape_debug();
                write!(f, "\"{text}\" is not an IP address: write 192.0.2.1 or 2001:db8::1")
            }
            Self::Rejected(rule) => write!(f, "the server would reject this request: {rule}"),
        }
    }
}

impl std::error::Error for ExplainError {}

impl ExplainRequest {
    /// Reads the form that `millrace cache explain` sends: `url`, `cookie`, `field`, `json`.
    ///
    /// # Errors
    /// What is wrong, and what to write instead.
    pub fn from_form(setup: &Setup, form: &[(String, String)]) -> Result<ExplainRequest, ExplainError> {
        let (mut urls, mut cookies, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        let mut client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for (name, value) in form {
            match name.as_str() {
                "url" => urls.push(value),
                "cookie" => cookies.push(cookie(value)?),
                "field" => fields.push(field(value)?),
                "client" => client = value.parse().map_err(|_| ExplainError::Client(value.clone()))?,
                "json" => {}
                _ => return Err(ExplainError::UnknownField(name.clone())),
            }
        }
        let [url] = urls[..] else { return Err(ExplainError::NoUrl) };
        let url = PageUrl::read(setup, url).map_err(ExplainError::Url)?;
        if !cookies.is_empty() {
            fields.push(("Cookie".to_owned(), cookies.join("; ")));
        }
        let asked = ExplainRequest { url, fields, client };
        asked.request().map(|_| asked)
    }

    /// The request, as a browser at the client's address sends it.
    fn request(&self) -> Result<Request, ExplainError> {
        let PageUrl { scheme, authority, target } = &self.url;
        let is_given = |name: &str| self.fields.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let usual = USUAL.iter().filter(|(name, _)| !is_given(name)).copied();
        let given = self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut text = format!("GET {target} HTTP/1.1\r\nHost: {authority}\r\n");
        usual.chain(given).for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
        text += "\r\n";
        let mut head = Head::default();
        match head.parse(text.as_bytes(), &LIMITS) {
            Ok(Some(_)) => {}
            Ok(None) => return Err(ExplainError::Rejected("it has no end")),
            Err(refusal) => return Err(ExplainError::Rejected(refusal.rule())),
        }
        let here = Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
        let client = Some(SocketAddr::new(self.client, 0));
        Ok(Request::direct(head, Ends { client, local: here, scheme: *scheme, tls: None }))
    }
}

fn is_line(text: &str) -> bool {
    !text.bytes().any(|b| b.is_ascii_control())
}

fn cookie(text: &str) -> Result<&str, ExplainError> {
    let is_cookie = text.find('=').is_some_and(|at| at > 0) && is_line(text) && !text.contains(';');
    if is_cookie { Ok(text) } else { Err(ExplainError::Cookie(text.to_owned())) }
}

fn field(text: &str) -> Result<(String, String), ExplainError> {
    let wrong = || ExplainError::Field(text.to_owned());
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let is_name = !name.is_empty() && name.bytes().all(is_token) && !name.eq_ignore_ascii_case("host");
    if !is_name || !is_line(value) {
        return Err(wrong());
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

/// A question to an event loop, and the channel for its answer.
#[derive(Debug)]
pub struct Question {
    /// The request.
    pub asked: ExplainRequest,
    /// Receives the answer.
    pub asker: oneshot::Sender<Explanation>,
}

/// Why a page is or isn't cached.
#[derive(Debug)]
pub struct Explanation {
    /// The page.
    pub url: String,
    /// Name of its site; empty for a site without one.
    pub site: String,
    /// The rules of the site's application.
    pub profile: &'static Profile,
    /// The row of the walk at which the request ends.
    pub row: &'static str,
    /// What responds, in a word for programs: `page`, `file`, `proxy`, `redirect`, `asks`, `refused` or `error-page`.
    pub result: &'static str,
    /// The same in a sentence.
    pub result_text: String,
    /// What the page cache would do; `None`: it has no part in the response.
    pub page: Option<Box<Preview>>,
    /// What differs for visitors with a cart; true: on this page, false: on another one of its kind.
    pub cart_differences: Vec<(bool, Box<str>)>,
    /// The request's cookies that may identify a visitor, and what PHP has found out about them.
    pub cookies: Vec<(String, &'static str)>,
    /// The rules of the site (`[[site.rule]]`) that match the request, and what they say to the page cache.
    pub rules: Vec<String>,
    /// The rows of the walk, and what each has found; empty if nothing.
    pub trail: Trail,
    /// The settings that name the patterns of this site.
    pub chosen: ChosenRules,
    /// What bypassed the cache at this site, of all event loops.
    pub causes: SiteCauses,
    /// The time of all this, on the cache's clock and on the monotonic one.
    pub now: (millrace_pages::Millis, std::time::Instant),
}

/// Patterns that come from the settings, not from the profile.
#[derive(Clone, Debug, Default)]
pub struct ChosenRules {
    /// `cache.bypass_cookies`
    pub cookies: Vec<String>,
    /// `cache.bypass_paths`
    pub paths: Vec<String>,
    /// `cache.bypass_arguments`
    pub arguments: Vec<String>,
}

/// How often a request may have to wait for what is found out first, one thing after another.
const MOST_WAITS: usize = 64;

/// Answers a question, on an event loop.
pub async fn run(thread: Rc<ServeThread>, question: Question) {
    thread.context.clock.read();
    if let Ok(answer) = explain(&thread, &question.asked).await {
        // The asker may have gone.
        let _ = question.asker.send(answer);
    }
}

/// Why a page is or isn't cached.
///
/// # Errors
/// The server would reject the request.
async fn explain(thread: &Rc<ServeThread>, asked: &ExplainRequest) -> Result<Explanation, ExplainError> {
    let (setup, mut request) = (thread.setup(), asked.request()?);
    let site = setup.workers_for(&asked.url.authority);
    let PageUrl { scheme, authority, target } = &asked.url;
    let name = |cookie: Box<[u8]>| String::from_utf8_lossy(&cookie).into_owned();
    let states = site.visitors.states(&thread.context, &request).into_iter();
    let cache = &site.plan.cache;
    let ExplainedWalk { row, result: (result, result_text), page, rules, trail } =
        walked(thread, site, &mut request).await;
    let differences = |preview: &Preview| audience::cart_differences(&thread.pages, site, preview);
    Ok(Explanation {
        url: format!("{}://{authority}{target}", scheme.text()),
        site: site.name().unwrap_or("").to_owned(),
        profile: site.profile,
        row,
        result,
        result_text,
        cart_differences: page.as_deref().map(differences).unwrap_or_default(),
        page,
        rules,
        trail,
        cookies: states.map(|(cookie, state)| (name(cookie), in_words(state))).collect(),
        chosen: ChosenRules {
            cookies: cache.bypass_cookies.clone(),
            paths: cache.bypass_paths.clone(),
            arguments: cache.bypass_arguments.clone(),
        },
        causes: thread.context.process.stats.causes_of(site.name().unwrap_or(""), thread.context.clock.now()),
        now: (thread.pages.cache.now(&thread.context), thread.context.clock.now()),
    })
}

/// The end of a walk.
struct ExplainedWalk {
    row: &'static str,
    result: (&'static str, String),
    page: Option<Box<Preview>>,
    /// The rules of the site that match the request.
    rules: Vec<String>,
    trail: Trail,
}

/// Takes the request down the way that a visitor's takes: what has to be found out first is awaited, as for the visitor.
async fn walked(thread: &Rc<ServeThread>, site: &Arc<SiteWorkers>, request: &mut Request) -> ExplainedWalk {
    for _ in 0..MOST_WAITS {
        let mut walk = Walk::new(thread, site, request, WalkPurpose::Explain);
        let step = walk.run();
        match step {
            // A file that is compressed first is known to be the response.
            Step::Wait(waiting) if walk.class != ResponseClass::File => {
                waiting.await;
                thread.context.clock.read();
            }
            step => return ended(walk, &step),
        }
    }
    ExplainedWalk { row: "", result: refused(503), page: None, rules: Vec::new(), trail: Trail::new() }
}

fn ended(mut walk: Walk<'_>, step: &WalkStep) -> ExplainedWalk {
    let page = walk.preview.take().filter(|_| walk.error.is_none()).map(Box::new);
    let result = match (walk.error, step) {
        (Some(status), _) => error_page(status),
        (_, Step::Make(Make { maker: Maker::Permission(rule), .. })) => asks(walk.site, *rule),
        (_, Step::Make(Make { maker: Maker::Application(number), .. })) => application(walk.site, *number),
        (_, Step::Make(Make { maker: Maker::Script(_), .. })) if page.is_some() => ("page", String::new()),
        _ if walk.class == ResponseClass::File => {
            ("file", "a file: PHP and the page cache have no part in it".to_owned())
        }
        (_, Step::Answer(reply)) => of_reply(reply),
        // PHP is off for the site.
        _ => refused(503),
    };
    let rules = matching_rules(walk.site, walk.request, &walk.path);
    ExplainedWalk { row: walk.row, result, page, rules, trail: walk.trail }
}

/// The rules of the site that match a request, and what they say to the page cache.
fn matching_rules(site: &SiteWorkers, request: &Request, path: &[u8]) -> Vec<String> {
    let mut rules = Vec::new();
    // Before the front door nothing is compared with a path.
    let Some(own) = site.rules.as_ref().filter(|_| !path.is_empty()) else { return rules };
    own.each(request, path, |_, rule| {
        let bypasses = match &rule.plan.action {
            Some(RuleAction::AuthScript(auth)) => {
                format!(" (asks {}; who passes bypasses the page cache)", auth.script)
            }
            _ if rule.plan.effects.cache.bypass => " (bypasses the page cache)".to_owned(),
            _ => String::new(),
        };
        rules.push(format!("{}{bypasses}", rule.plan.place));
    });
    rules
}

fn error_page(status: u16) -> (&'static str, String) {
    ("error-page", format!("the site's own page for status {status}, which is not cached"))
}

fn refused(status: u16) -> (&'static str, String) {
    ("refused", format!("the server responds with status {status}, without PHP"))
}

fn application(site: &SiteWorkers, number: usize) -> (&'static str, String) {
    let path = &site.plan.proxies[number].path;
    let text = format!(
        "an application responds, by the [[site.proxy]] with path = \"{path}\"; with cache = true its standard header fields decide"
    );
    ("proxy", text)
}

/// The script that the rule with this number asks; none runs for an explanation.
fn asks(site: &SiteWorkers, rule: u32) -> (&'static str, String) {
    let action = site.rules.as_ref().and_then(|rules| rules.get(rule).plan.action.as_ref());
    let script = match action {
        Some(RuleAction::AuthScript(auth)) => &*auth.script,
        _ => "",
    };
    let text = format!(
        "the script {script} decides whether the request may pass; what passes bypasses the page cache"
    );
    ("asks", text)
}

fn of_reply(reply: &Reply) -> (&'static str, String) {
    match reply.fields.iter().find(|(name, _)| *name == "Location") {
        Some((_, to)) => {
            let (status, to) = (reply.status, String::from_utf8_lossy(to));
            ("redirect", format!("the server redirects to {to} with status {status}: explain that URL"))
        }
        None => refused(reply.status),
    }
}

/// What PHP has found out about a cookie.
fn in_words(state: Option<CookieState>) -> &'static str {
    match state {
        Some(CookieState::Proven(Proof::LoggedIn | Proof::Editor)) => "logged in",
        Some(CookieState::Proven(Proof::Cart)) => "something is in the cart",
        Some(CookieState::Proven(Proof::Session)) => "a session with something in it",
        Some(CookieState::Own) => "personal, without a login or a cart",
        Some(CookieState::Anonymous) => "means nothing",
        Some(CookieState::Unjudged) => "PHP has said nothing about it",
        None => "PHP has not seen it lately",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_base::site::Site;
    use std::sync::Arc;

    fn setup() -> Arc<Setup> {
        let sites = crate::cache::purge::tests::setup(true);
        let workers = |site: &Arc<Site>| super::super::SiteWorkers {
            site: site.clone(),
            service: None,
            persistent: None,
        };
        Setup::new(sites.plan.clone(), sites.sites.iter().map(workers).collect())
    }

    fn read(form: &[(&str, &str)]) -> Result<ExplainRequest, String> {
        let form: Vec<_> = form.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        ExplainRequest::from_form(&setup(), &form).map_err(|why| why.to_string())
    }

    #[test]
    fn the_request_of_a_question() {
        let asked = read(&[
            ("url", "https://a.example/x?y"),
            ("cookie", "a=1"),
            ("cookie", "b="),
            ("field", "accept:  text/plain "),
            ("json", "1"),
        ]);
        let request = asked.unwrap().request().unwrap();
        let value = |name: &str| {
            request.head.field(name).map(String::from_utf8_lossy).unwrap_or_default().into_owned()
        };
        assert_eq!(
            (value("cookie"), value("accept"), value("host")),
            ("a=1; b=".into(), "text/plain".into(), "a.example".into())
        );
        assert!(value("user-agent").contains("Mozilla"));
        assert_eq!(request.head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("accept")).count(), 1);
    }

    #[test]
    fn wrong_questions_say_what_to_write() {
        let page = ("url", "http://a.example/");
        for (form, expected) in [
            (&[][..], "name one page"),
            (&[page, page], "name one page"),
            (&[("url", "http://c.example/")], "no site answers for c.example"),
            (&[("url", "a.example")], "write https://host/path"),
            (&[("url", "/x")], "needs a host"),
            (&[page, ("cookie", "a")], "write NAME=VALUE"),
            (&[page, ("cookie", "a=1\r\nX: y")], "write NAME=VALUE"),
            (&[page, ("field", "x")], "write 'Name: value'"),
            (&[page, ("field", "Host: b")], "the host comes from the URL"),
            (&[page, ("field", "a: b\nc: d")], "write 'Name: value'"),
            (&[page, ("what", "x")], "the fields are url, cookie, field, client and json"),
        ] {
            let why = read(form).expect_err(expected);
            assert!(why.contains(expected), "{why}");
        }
        let long = "x".repeat(70_000);
        assert!(read(&[page, ("field", &format!("a: {long}"))]).expect_err("long").contains("would reject"));
    }
}

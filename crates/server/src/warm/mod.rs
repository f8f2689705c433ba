//! Warms up pages: the server fetches them itself, as a visitor without cookies would, while PHP is idle. `millrace
//! warm` names them, through the admin address; and [`refill`] chooses the pages that were most wanted before they
//! were purged, and those that the page cache wishes for.

mod refill;

pub use refill::refill;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_pages::ask::PLAIN_ACCEPT;
use millrace_wire::head::{Head, Limits};
use tokio::sync::oneshot;

use crate::cache::purge::OrderError;
use crate::serve::{self, Make, PageUrl, ServeThread, Setup, SiteWorkers, Step, Waited};
use millrace_base::context::WorkKind;
use millrace_base::message::reply::{Body, Reply};
use millrace_base::message::request::{Ends, Request, Scheme};

/// Maximum time for a page.
const PATIENCE: Duration = Duration::from_secs(45);

/// Maximum length of a returned sitemap, bytes; sitemaps.org allows 50 MB, real ones are a tenth of that.
const MOST_CONTENT: usize = 16 << 20;

/// The User-Agent header field, for the application's statistics.
const AGENT: &str = concat!("Millrace/", env!("CARGO_PKG_VERSION"), " (warm-up)");

/// A page to fetch, and the channel for the outcome.
#[derive(Debug)]
pub struct Errand {
    /// The page.
    pub wanted: WarmRequest,
    /// Receives the outcome.
    pub asker: oneshot::Sender<Fetched>,
}

/// A page to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmRequest {
    page: PageUrl,
    /// Whether the content is wanted as well, if it can be a sitemap.
    content: bool,
}

/// The outcome.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// `stored`, `hit`, `not cached`, `busy` or `failed`.
    pub outcome: &'static str,
    /// Status code of the response; 0 without a response.
    pub status: u16,
    /// Why it is not cached.
    pub detail: String,
    /// Its content, if it was wanted.
    pub content: String,
}

impl Fetched {
    fn because(outcome: &'static str, status: u16, detail: &str) -> Fetched {
        Fetched { outcome, status, detail: detail.to_owned(), content: String::new() }
    }

    /// As lines, followed by an empty line and the content.
    pub fn text(&self) -> String {
        let Fetched { outcome, status, detail, content } = self;
        format!("outcome: {outcome}\nstatus: {status}\ndetail: {detail}\n\n{content}")
    }
}

impl WarmRequest {
    /// The page that a URL names, on a site whose cache is on.
    ///
    /// # Errors
    /// The URL is invalid, or belongs to no site, or to one whose cache is off.
    pub fn from_url(setup: &Setup, url: &str, content: bool) -> Result<WarmRequest, OrderError> {
        let page = PageUrl::read(setup, url)?;
        Ok(WarmRequest { page, content })
    }

    /// The page that is stored under `key`, if a visitor without cookies gets it.
    fn from_key(key: &[u8]) -> Option<WarmRequest> {
        let mut parts = key.splitn(6, |b| *b == 0).map(|part| std::str::from_utf8(part).ok());
        let (_site, scheme, authority) = (parts.next()??, parts.next()??, parts.next()??);
        let (path, query, extra) = (parts.next()??, parts.next()??, parts.next()??);
        // The path as it was sent, if it differs; other extra parts are not for every visitor.
        let path = match extra.strip_prefix('p').and_then(|rest| rest.strip_suffix('\0')) {
            Some(sent) if !sent.contains('\0') => sent,
            _ if extra.is_empty() => path,
            _ => return None,
        };
        let scheme = if scheme == "https" { Scheme::Https } else { Scheme::Http };
        let (authority, target) = (authority.to_owned(), format!("{path}{query}"));
        Some(WarmRequest { page: PageUrl { scheme, authority, target }, content: false })
    }

    /// The request of a visitor without cookies.
    fn request(&self) -> Option<Request> {
        let PageUrl { scheme, authority, target } = &self.page;
        let text = format!(
            "GET {target} HTTP/1.1\r\nHost: {authority}\r\nAccept: {PLAIN_ACCEPT}\r\nUser-Agent: {AGENT}\r\n\r\n"
        );
        let mut head = Head::default();
        let limits = Limits { bytes: 16 << 10, fields: 8, target: 8 << 10 };
        head.parse(text.as_bytes(), &limits).ok().flatten()?;
        let here = Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
        Some(Request::direct(head, Ends { client: here, local: here, scheme: *scheme, tls: None }))
    }
}

/// Fetches a page, on an event loop.
pub async fn run(thread: Rc<ServeThread>, errand: Errand) {
    let _open = thread.context.begin(WorkKind::Visit);
    let fetched = match tokio::time::timeout(PATIENCE, fetch(&thread, &errand.wanted)).await {
        Ok(fetched) => fetched,
        Err(_) => Fetched::because("failed", 0, &format!("timed out after {} s", PATIENCE.as_secs())),
    };
    // The asker may have gone.
    let _ = errand.asker.send(fetched);
}

async fn fetch(thread: &Rc<ServeThread>, wanted: &WarmRequest) -> Fetched {
    thread.context.clock.read();
    let setup = thread.setup();
    let site = setup.workers_for(&wanted.page.authority);
    if site.pages_service().is_some_and(|service| !service.is_at_leisure()) {
        return Fetched::because("busy", 0, "");
    }
    let first = ask(thread, site, wanted).await;
    // A page that was sent while it was being made is stored when it is complete, which was unknown when its head was
    // sent.
    if first.outcome == UNDECIDED {
        let second = ask(thread, site, wanted).await;
        let outcome = match second.outcome {
            "hit" => "stored",
            UNDECIDED => "not cached",
            other => other,
        };
        return Fetched { outcome, detail: second.detail, ..first };
    }
    first
}

/// Made by PHP, and not yet known whether it is stored.
const UNDECIDED: &str = "made";

async fn ask(thread: &Rc<ServeThread>, site: &Arc<SiteWorkers>, wanted: &WarmRequest) -> Fetched {
    let Some(mut request) = wanted.request() else { return Fetched::because("failed", 0, "not a URL") };
    let reply = loop {
        match serve::respond(thread, site, &mut request).1 {
            Step::Answer(reply) => break reply,
            Step::Wait(waiting) => match waiting.await {
                Some(reply) => break reply,
                None => continue,
            },
            Step::Make(Make { page: Some(page), .. }) => match page.await {
                Waited::Reply(reply) | Waited::Late(reply) => break reply,
                Waited::Again => {
                    return Fetched::because("not cached", 0, "another request for the page was running");
                }
                Waited::Alone => return Fetched::because("not cached", 0, "its response is private"),
            },
            // It would be made and dropped.
            _ => return Fetched::because("not cached", 0, "the request bypasses the page cache"),
        }
    };
    let mut fetched = judged(&reply);
    let content = read(reply, wanted.content).await;
    fetched.content = content.unwrap_or_default();
    fetched
}

/// The outcome according to a response's `Cache-Status` (RFC 9211).
fn judged(reply: &Reply) -> Fetched {
    let status = reply.status;
    let value = |name: &str| {
        let field = reply.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        field.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let Some(said) = value("Cache-Status") else {
        let why = match (status, value("Location")) {
            (300..400, Some(location)) => format!("redirects to {location}"),
            _ => format!("not generated by PHP, status {status}"),
        };
        return Fetched::because("not cached", status, &why);
    };
    let has = |word: &str| said.split(';').any(|part| part.trim() == word);
    let detail = said.split(';').find_map(|part| part.trim().strip_prefix("detail=")).unwrap_or_default();
    let outcome = match status {
        500.. => "failed",
        _ if has("hit") => "hit",
        _ if has("stored") => "stored",
        _ if detail.is_empty() => UNDECIDED,
        _ => "not cached",
    };
    let detail = if outcome == "failed" { format!("status {status}") } else { detail.to_owned() };
    Fetched::because(outcome, status, &detail)
}

/// Reads a response to its end. Returns it if it is `wanted` and may be a sitemap.
async fn read(reply: Reply, wanted: bool) -> Option<String> {
    let media_type = reply.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let may_be = media_type.is_some_and(|(_, value)| {
        let value = String::from_utf8_lossy(value).to_ascii_lowercase();
        value.contains("xml") || value.starts_with("text/plain")
    });
    let wanted = wanted && may_be && reply.status == 200;
    let bytes = match reply.body {
        Body::Bytes(bytes) => bytes,
        Body::Shared { bytes, start, end } => bytes.get(start..end.min(start + MOST_CONTENT))?.to_vec(),
        Body::File { file, offset, length } if wanted => {
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(MOST_CONTENT).min(MOST_CONTENT)];
            file.read_exact_at(&mut bytes, offset).ok()?;
            bytes
        }
        Body::Stream(mut stream) => {
            let mut bytes = Vec::new();
            while stream.next(&mut bytes).await.ok()? {
                if !wanted || bytes.len() > MOST_CONTENT {
                    bytes.clear();
                }
            }
            bytes
        }
        Body::Empty | Body::File { .. } | Body::Parts(_) | Body::Omitted(_) => return None,
    };
    wanted.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(named: bool) -> Arc<Setup> {
        let sites = crate::cache::purge::tests::setup(named);
        let workers = |site: &Arc<millrace_base::site::Site>| SiteWorkers {
            site: site.clone(),
            service: None,
            persistent: None,
        };
        Setup::new(sites.plan.clone(), sites.sites.iter().map(workers).collect())
    }

    #[test]
    fn urls_of_ours() {
        let named = setup(true);
        let wanted = |url: &str| WarmRequest::from_url(&named, url, false);
        let page = wanted("https://WWW.a.example:443/x?y=1#z").unwrap();
        assert_eq!(
            (page.page.scheme, &*page.page.authority, &*page.page.target),
            (Scheme::Https, "www.a.example", "/x?y=1")
        );
        let request = page.request().unwrap();
        assert_eq!((request.authority(), request.query()), ("www.a.example", Some(&b"y=1"[..])));
        assert_eq!(wanted("http://b.example").unwrap().page.target, "/");
        assert_eq!(wanted("http://b.example?x").unwrap().page.target, "/?x");
        assert!(matches!(
            wanted("http://c.example/"),
            Err(OrderError::UnknownHost { authority, .. }) if authority == "c.example"
        ));
        assert_eq!(wanted("/x"), Err(OrderError::WhichHost("/x".to_owned())));
        for bad in ["http://a.example/\r\nX: y", "http://a.example/a b", "http://b.example/\u{e9}"] {
            assert_eq!(wanted(bad), Err(OrderError::IllegalUrl(bad.to_owned())));
        }
        let unnamed = setup(false);
        assert_eq!(WarmRequest::from_url(&unnamed, "/x", false).unwrap().page.authority, "localhost:8080");
    }

    #[test]
    fn pages_by_their_keys() {
        let of =
            |key: &[u8]| WarmRequest::from_key(key).map(|w| (w.page.scheme, w.page.authority, w.page.target));
        let (http, host) = (Scheme::Http, "a.example:8080".to_owned());
        assert_eq!(
            of(b"a\0http\0a.example:8080\0/x/\0?y=1\0"),
            Some((http, host.clone(), "/x/?y=1".to_owned()))
        );
        assert_eq!(
            of(b"a\0\0a.example:8080\0/\xc3\xa9/\0\0p/%C3%A9/\0"),
            Some((http, host, "/%C3%A9/".to_owned()))
        );
        assert_eq!(of(b"a\0https\0a.example\0/\0\0dmobile\0"), None);
        assert_eq!(of(b"a\0https\0a.example\0/\0\0p//\0clang=de\0"), None);
        assert_eq!(of(b"nonsense"), None);
    }

    #[test]
    fn answers_say_what_became_of_them() {
        let of = |status: u16, said: &str| {
            let fetched = judged(&Reply::new(status).with("Cache-Status", said));
            (fetched.outcome, fetched.detail)
        };
        assert_eq!(of(200, "millrace; hit; ttl=30"), ("hit", String::new()));
        assert_eq!(of(404, "millrace; fwd=uri-miss; stored"), ("stored", String::new()));
        assert_eq!(of(200, "millrace; fwd=uri-miss; detail=private"), ("not cached", "private".to_owned()));
        assert_eq!(of(200, "millrace; fwd=uri-miss"), (UNDECIDED, String::new()));
        assert_eq!(of(503, "millrace; fwd=uri-miss"), ("failed", "status 503".to_owned()));
        let redirect = judged(&Reply::new(301).with("Location", "/x/"));
        assert_eq!((redirect.outcome, &*redirect.detail), ("not cached", "redirects to /x/"));
        assert_eq!(redirect.text(), "outcome: not cached\nstatus: 301\ndetail: redirects to /x/\n\n");
    }

    #[tokio::test]
    async fn content_that_may_be_a_sitemap() {
        let reply = |media_type: &str, body| Reply::new(200).with("Content-Type", media_type).body(body);
        let bytes = || Body::Bytes(b"<urlset/>".to_vec());
        assert_eq!(read(reply("text/xml; charset=UTF-8", bytes()), true).await.as_deref(), Some("<urlset/>"));
        assert_eq!(read(reply("application/xml", bytes()), false).await, None);
        assert_eq!(read(reply("text/html", bytes()), true).await, None);
        let shared = Body::Shared { bytes: b"xhttp://ax".as_slice().into(), start: 1, end: 9 };
        assert_eq!(read(reply("text/plain", shared), true).await.as_deref(), Some("http://a"));
    }
}

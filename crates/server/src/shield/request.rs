//! What the shield has to know of a request. It is read before the cache makes the request anonymous.

use std::net::IpAddr;
use std::os::unix::fs::FileExt;

use millrace_pages::visitors::Proof;
use millrace_shield::{Class, Form, Target};
use millrace_wire::path;

use super::attend::CrawlerList;
use super::names::HostNames;
use millrace_base::context::Context;
use millrace_base::message::Request;
use millrace_base::message::request::Content;
use millrace_base::site::{Script, Site};

/// A form that is too long for memory is read again up to this length, bytes: what is longer may hide anything.
const FORM_BYTES: u64 = 16 << 20;

/// A request that needs PHP, as the shield sees it.
#[derive(Clone, Copy, Debug)]
pub struct ShieldRequest {
    /// Its client.
    pub(super) address: IpAddr,
    /// Which limit it falls under.
    pub(super) class: Class,
    /// Who sends it.
    pub(super) standpoint: Standpoint,
    /// A page of another site has made a browser send it: what its visitors do not know of is not held against them.
    pub(super) is_foreign: bool,
    /// It has a password in `Authorization` that only the script can check.
    pub(super) tries_password: bool,
    /// It says that it comes from others, by way of its address, which is no trusted proxy: perhaps a CDN that the configuration does
    /// not name. A program can say so, too.
    pub(super) is_relayed: bool,
    /// The application has its path for programs: WebDAV and the like.
    pub(super) is_for_programs: bool,
    /// The shield has banned its address.
    pub(super) is_banned: bool,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standpoint {
    /// Nothing is known.
    Stranger,
    /// It comes from a link or form of the site itself, as it says.
    FromHere,
    /// PHP has found that it is logged in, or has a cart or a session.
    Proven,
    /// PHP has found that it is logged in with the right to edit: it has no need to guess passwords.
    Editor,
    /// A crawler with an address or a host name that its operator publishes.
    Crawler,
    /// It says that it is a crawler, and is not.
    FalseCrawler,
}

impl ShieldRequest {
    /// What is known of a request, for which `script` runs.
    pub(super) fn of(
        context: &Context,
        site: &Site,
        request: &Request,
        script: &Script,
        address: IpAddr,
        crawlers: (&[CrawlerList], &HostNames),
    ) -> ShieldRequest {
        let seen = ShieldRequest::without_script(context, site, request, address, crawlers);
        let is_editor = seen.standpoint == Standpoint::Editor;
        ShieldRequest { class: if is_editor { Class::Php } else { class(request, script) }, ..seen }
    }

    /// The same of a request for which no script runs.
    pub(super) fn without_script(
        context: &Context,
        site: &Site,
        request: &Request,
        address: IpAddr,
        crawlers: (&[CrawlerList], &HostNames),
    ) -> ShieldRequest {
        ShieldRequest {
            address,
            class: Class::Php,
            standpoint: Standpoint::of(context, site, request, address, crawlers),
            is_foreign: is_foreign(request),
            tries_password: tries_password(request),
            is_relayed: is_relayed(request),
            is_for_programs: is_for_programs(site, request),
            is_banned: false,
        }
    }

    /// Its class, for tests of other rooms.
    #[cfg(test)]
    pub fn class(&self) -> Class {
        self.class
    }

    /// Whether the limit of its class does not apply to it. A cart or a customer's account says nothing about whose password is tried.
    pub(super) fn is_free(&self) -> bool {
        match self.standpoint {
            Standpoint::Editor => true,
            Standpoint::Proven => !self.class.is_guessing(),
            _ => false,
        }
    }
}

impl Standpoint {
    pub(super) fn of(
        context: &Context,
        site: &Site,
        request: &Request,
        address: IpAddr,
        crawlers: (&[CrawlerList], &HostNames),
    ) -> Standpoint {
        match site.visitors.proven(context, request) {
            Some(Proof::Editor) => return Standpoint::Editor,
            Some(_) => return Standpoint::Proven,
            None => {}
        }
        match claims_to_crawl(context, request, address, crawlers) {
            Some(true) => Standpoint::Crawler,
            Some(false) => Standpoint::FalseCrawler,
            None if comes_from_here(request) => Standpoint::FromHere,
            None => Standpoint::Stranger,
        }
    }
}

/// The class of a request, by what PHP will see of it.
fn class(request: &Request, script: &Script) -> Class {
    let (decoded, mut content) = (decoded_path(request), Vec::new());
    Class::of(&Target {
        method: request.head.method(),
        scripts: [&script.name, &script.filename],
        path: &decoded,
        query: request.script_query().unwrap_or_default(),
        form: form(request, &mut content),
    })
}

/// The request's form; `content`: for what is read from a file.
fn form<'a>(request: &'a Request, content: &'a mut Vec<u8>) -> Form<'a> {
    let kind = request.head.field("content-type").unwrap_or_default();
    // As PHP reads it (`sapi_read_post_data()`).
    let kind = kind.split(|byte| matches!(byte, b';' | b',' | b' ')).next().unwrap_or_default();
    let read: fn(&'a [u8]) -> Form<'a> = match kind.to_ascii_lowercase().as_slice() {
        b"application/x-www-form-urlencoded" => Form::Encoded,
        b"multipart/form-data" => Form::Parts,
        kind if kind.ends_with(b"json") => Form::Json,
        _ => return Form::None,
    };
    match &request.content {
        Content::Empty => Form::None,
        Content::Memory(content) => read(content),
        Content::Spooled { length, .. } if *length > FORM_BYTES => Form::Unread,
        Content::Spooled { file, length } => {
            content.resize(*length as usize, 0);
            match file.read_exact_at(content, 0) {
                Ok(()) => read(content),
                Err(_) => Form::Unread,
            }
        }
    }
}

/// Whether the application of a site has the path of a request for programs: WebDAV and the like. For them 404 is a normal answer.
pub(super) fn is_for_programs(site: &Site, request: &Request) -> bool {
    let programs = site.profile.programs;
    if programs.is_empty() {
        return false;
    }
    let path = decoded_path(request);
    programs.iter().any(|start| path.starts_with(start.as_bytes()))
}

/// The path of a request, normalised; empty if it is no path.
pub(super) fn decoded_path(request: &Request) -> Vec<u8> {
    let mut path = Vec::new();
    let _ = path::normalise(request.raw_path(), &mut path);
    path
}

/// Whether a request has a password that the server has not checked itself.
pub(super) fn tries_password(request: &Request) -> bool {
    let is_checked = request.is_private()
        || request.found.ruling.as_ref().is_some_and(|ruling| !ruling.verdict.user.is_empty());
    !is_checked && request.head.field("authorization").is_some()
}

/// Whether a browser says that a page of another site has sent a request, perhaps without its visitor's knowledge: an image, a form, a frame, a
/// script. Browsers send `Sec-Fetch-Site` only to HTTPS. A program can say so, too: then it is limited all the same.
fn is_foreign(request: &Request) -> bool {
    match request.head.field("sec-fetch-site") {
        Some(site) => !matches!(site, b"same-origin" | b"none"),
        None => {
            let pages = ["origin", "referer"].into_iter().filter_map(|name| request.head.field(name));
            pages.count() > 0 && !comes_from_here(request)
        }
    }
}

/// Whether a proxy that is not trusted seems to have sent a request.
fn is_relayed(request: &Request) -> bool {
    const FIELDS: [&str; 4] = ["x-forwarded-for", "forwarded", "cf-connecting-ip", "true-client-ip"];
    !request.is_forwarded && FIELDS.into_iter().any(|name| request.head.field(name).is_some())
}

/// Whether a client that says it is a crawler is it; `None`: it says nothing of the kind, or of no crawler that is known, or DNS has not
/// answered yet.
fn claims_to_crawl(
    context: &Context,
    request: &Request,
    address: IpAddr,
    (crawlers, names): (&[CrawlerList], &HostNames),
) -> Option<bool> {
    if crawlers.is_empty() {
        return None;
    }
    let agent = request.head.field("user-agent")?.to_ascii_lowercase();
    let named: Vec<_> = crawlers.iter().filter(|crawler| crawler.is_named_in(&agent)).collect();
    if named.is_empty() || named.iter().any(|crawler| crawler.has(address)) {
        return (!named.is_empty()).then_some(true);
    }
    let domains =
        named.into_iter().map(|crawler| crawler.domains.as_slice()).find(|domains| !domains.is_empty());
    domains.map_or(Some(false), |domains| names.ask(address, context.clock.now()).is_below(domains))
}

/// Whether a browser says that a link, form or script of the site itself sends the request: by `Sec-Fetch-Site` (Fetch Metadata),
/// or because `Referer` or `Origin` names the requested host. A program can say so, too: it proves nothing, and only sorts those out
/// that don't even try.
fn comes_from_here(request: &Request) -> bool {
    if request.head.field("sec-fetch-site") == Some(b"same-origin") {
        return true;
    }
    let own = request.authority().as_bytes();
    ["referer", "origin"].into_iter().filter_map(|name| request.head.field(name)).any(|url| {
        let rest = url.strip_prefix(b"https://").or_else(|| url.strip_prefix(b"http://"));
        let host = rest.map(|rest| rest.split(|byte| *byte == b'/').next().unwrap_or_default());
        host.is_some_and(|host| !host.is_empty() && host.eq_ignore_ascii_case(own))
    })
}

#[cfg(test)]
mod tests {
    use millrace_wire::head::{Head, Limits};

    use super::*;
    use millrace_base::message::request::{Ends, Scheme};

    #[test]
    fn links_of_the_site_itself() {
        let is = |field: &str| {
            let mut head = Head::default();
            let text = format!("GET / HTTP/1.1\r\nHost: shop.test:81\r\n{field}\r\n\r\n");
            head.parse(text.as_bytes(), &Limits { bytes: 4096, fields: 50, target: 100 }).unwrap().unwrap();
            let ends = Ends { client: None, local: None, scheme: Scheme::Http, tls: None };
            comes_from_here(&Request::direct(head, ends))
        };
        for field in [
            "Referer: http://shop.test:81/a",
            "Origin: https://SHOP.test:81",
            "Referer: https://shop.test:81",
            "Sec-Fetch-Site: same-origin",
        ] {
            assert!(is(field), "{field}");
        }
        for field in [
            "Referer: http://shop.test:81.evil/",
            "Referer: shop.test:81",
            "Referer: http://other/",
            "X: 1",
            "Origin: null",
        ] {
            assert!(!is(field), "{field}");
        }
    }
}

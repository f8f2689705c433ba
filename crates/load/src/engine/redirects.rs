//! Redirects: a user follows them as a browser would, if they lead to the same server.

use std::rc::Rc;

use millrace_wire::response;

use super::connection::{Kept, Pending};
use super::request::{Manner, Personal, Prepared};
use super::thread::Thread;
use super::user::PartRequest;
use crate::record::Failure;
use crate::scenario::{Origin, Request, is_redirect};
use crate::url::Url;

/// Requests that redirects led to that are remembered.
const MOST_KNOWN: usize = 4096;

/// The target of a redirect.
pub enum Lead {
    /// To this request.
    Here(Rc<Prepared>),
    /// To another server, which gets no request.
    Away(Url),
}

impl Thread {
    /// Where a right response to the user's request leads; `None`: nowhere, or redirects are not followed.
    pub(super) fn lead(&mut self, key: u32, pending: &Pending, kept: &Kept) -> Option<Lead> {
        let left = pending.what.follows.filter(|left| *left > 0)?;
        let status = std::str::from_utf8(kept.head.get(9..12)?).ok()?.parse().ok()?;
        let values = self.users[key as usize].memory.as_ref().map_or(&[][..], |memory| &memory.values);
        let from = Manner::target_of(&pending.what.request, Personal { values, ..Personal::default() });
        match after(&self.shared.scenario.origin, &pending.what.request, &from, status, &kept.head)? {
            Ok(request) => Some(Lead::Here(self.redirect(&pending.what, request, left - 1))),
            Err(away) => Some(Lead::Away(away)),
        }
    }

    /// Follows it.
    pub(super) fn follow(&mut self, key: u32, pending: &Pending, lead: Lead) {
        match (lead, pending.part) {
            (Lead::Here(what), None) => {
                self.lent.tally.redirects += 1;
                self.users[key as usize].memory().redirected = Some(what);
                self.request(key);
            }
            (Lead::Here(what), Some(kind)) => {
                self.lent.tally.redirects += 1;
                if let Some(load) = &mut self.users[key as usize].memory().load {
                    load.open -= 1;
                    load.queue.push_front(PartRequest { what, kind });
                }
                self.load_parts(key);
            }
            // A part of a page may be elsewhere, as many are.
            (Lead::Away(_), Some(kind)) => self.on_part(key, pending, kind, false, None),
            (Lead::Away(url), None) => {
                let from = &pending.what.request.target;
                self.lent.note(|| {
                    format!(
                        "{from} redirects to {url}, another server, which is not requested: if that is the site's \
                         own name, test that URL, with --connect-to if the name does not resolve to this server"
                    )
                });
                self.take_back(key, Failure::StatusOther);
                let step = self.step_of(key);
                if step.page {
                    self.lent.tally.pages_failed += 1;
                }
                self.end_step(key, false);
            }
        }
    }

    fn redirect(&mut self, what: &Rc<Prepared>, request: Request, left: u8) -> Rc<Prepared> {
        let name = (Rc::as_ptr(what) as usize, format!("{} {}", request.method, request.target));
        if let Some((_, known)) = self.redirected.get(&name) {
            return known.clone();
        }
        let judge = what.judge.for_redirect();
        let next = self.manner.prepare(request, what.keeps, Some(left), what.extract.clone(), judge);
        if self.redirected.len() >= MOST_KNOWN {
            self.redirected.clear();
        }
        self.redirected.insert(name, (what.clone(), next.clone()));
        next
    }
}

/// The request that follows a redirect of `request` from the target `from`; or the URL if it is on another server.
/// `None`: the response is not a redirect.
pub fn after(
    origin: &Origin,
    request: &Request,
    from: &str,
    status: u16,
    head: &[u8],
) -> Option<Result<Request, Url>> {
    if !is_redirect(status) {
        return None;
    }
    let base = Url { origin: origin.clone(), target: from.to_owned() };
    let url = base.join(&response::field(head, "location")?)?;
    if url.origin != *origin {
        return Some(Err(url));
    }
    let mut next = Request { target: url.target, ..request.clone() };
    // 307 and 308 preserve the method; after the others browsers send GET (Fetch, section 4.4).
    let becomes_get = match status {
        303 => request.method != "HEAD",
        301 | 302 => request.method == "POST",
        _ => false,
    };
    if becomes_get {
        next.method = "GET".to_owned();
        next.body.clear();
        next.fields.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
    }
    Some(Ok(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(method: &str, status: u16, location: &str) -> Option<Result<(String, String, usize), String>> {
        let origin = Origin { tls: false, host: "a.test".to_owned(), port: 80 };
        let request = Request {
            method: method.to_owned(),
            target: "/blog/post?x=1".to_owned(),
            fields: vec![("Content-Type".to_owned(), "text/plain".to_owned())],
            body: b"body".to_vec(),
        };
        let head = format!("HTTP/1.1 {status} X\r\n{location}\r\n\r\n");
        let after = after(&origin, &request, &request.target, status, head.as_bytes());
        after.map(|next| {
            next.map(|next| (next.method, next.target, next.fields.len() + next.body.len()))
                .map_err(|url| url.to_string())
        })
    }

    #[test]
    fn methods_change_as_in_browsers() {
        let of = |method: &str, size| Some(Ok((method.to_owned(), "/blog/next".to_owned(), size)));
        assert_eq!(next("POST", 302, "Location: next"), of("GET", 0));
        assert_eq!(next("PUT", 302, "Location: next"), of("PUT", 5));
        assert_eq!(next("PUT", 303, "Location: next"), of("GET", 0));
        assert_eq!(next("HEAD", 303, "Location: next"), of("HEAD", 5));
        assert_eq!(next("POST", 307, "location: http://a.test/blog/next#top"), of("POST", 5));
    }

    #[test]
    fn some_lead_away_or_nowhere() {
        assert_eq!(next("GET", 301, "Location: https://a.test/"), Some(Err("https://a.test/".to_owned())));
        assert_eq!(next("GET", 301, "Location: //b.test"), Some(Err("http://b.test/".to_owned())));
        assert_eq!(next("GET", 302, "X: y"), None);
        assert_eq!(next("GET", 304, "Location: /"), None);
        assert_eq!(next("GET", 302, "Location: mailto:a"), None);
    }
}

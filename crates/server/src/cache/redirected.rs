//! Redirects for requests with arguments that keys leave out. Such a request may get a redirect that was made without them.

use std::sync::Arc;

use millrace_pages::Rules;
use millrace_pages::redirect::with_arguments;

use super::{CacheStatus, PageRun, Waited, settle};
use millrace_base::message::{Reply, Request, Step};
use millrace_base::site::Site;

/// What is needed of the request while its page is made.
pub struct LeftOut {
    rules: Arc<Rules>,
    site: Arc<Site>,
    query: Vec<u8>,
    host: Box<str>,
}

impl LeftOut {
    /// `None`: the key has all of its arguments.
    fn of(rules: &Arc<Rules>, site: &Arc<Site>, request: &Request) -> Option<LeftOut> {
        let query = request.query().filter(|_| settle::drops_arguments(rules, request))?;
        let authority = request.authority();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).into();
        Some(LeftOut { rules: rules.clone(), site: site.clone(), query: query.to_vec(), host })
    }

    /// The reply with a target that has them; `None`: the script itself must say, for the whole request.
    fn added(&self, mut reply: Reply) -> Option<Reply> {
        let location = reply.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
        let Some((_, location)) = location else { return Some(reply) };
        if self.rules.faithful {
            // The application is unknown: it may have an idea of its own about them.
            return None;
        }
        let is_own = |host: &str| host.eq_ignore_ascii_case(&self.host) || self.site.answers_for(host);
        let location = with_arguments(location, &self.rules.dropped_arguments, &self.query, is_own)?;
        reply.fields.remove("location");
        reply.fields.push("Location", &location);
        Some(reply)
    }
}

/// Adds the arguments to a redirect, or has the script run for this request alone.
pub fn keep_arguments(
    rules: &Arc<Rules>,
    site: &Arc<Site>,
    request: &Request,
    passes_on: bool,
    step: Step<PageRun>,
) -> Step<PageRun> {
    match step {
        Step::Answer(reply) if is_redirect(&reply) => match LeftOut::of(rules, site, request) {
            None => Step::Answer(reply),
            Some(left_out) => match left_out.added(reply) {
                Some(reply) => Step::Answer(reply),
                None if passes_on => Step::Elsewhere,
                None => PageRun::alone(CacheStatus::REQUEST),
            },
        },
        Step::Make(PageRun { status, page: Some(page) }) => match LeftOut::of(rules, site, request) {
            None => Step::Make(PageRun { status, page: Some(page) }),
            Some(left_out) => PageRun::shared(async move {
                match page.await {
                    Waited::Reply(reply) if is_redirect(&reply) => {
                        left_out.added(reply).map_or(Waited::Alone, Waited::Reply)
                    }
                    other => other,
                }
            }),
        },
        other => other,
    }
}

fn is_redirect(reply: &Reply) -> bool {
    matches!(reply.status, 300..=399) && reply.status != 304
}

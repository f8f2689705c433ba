//! Applies the rules of a site's application for paths that are neither a file nor a page, after those of the site and of
//! `.htaccess` files.

use std::sync::Arc;

use millrace_htaccess::Verdict;

use super::ServeThread;
use crate::route;
use millrace_base::message::request::{Request, Ruling};
use millrace_base::site::{AtPath, Rewritten, Site};

/// What the rules make of a request with this normalised path.
pub fn apply(thread: &ServeThread, site: &Site, request: &Request, path: &[u8]) -> Rewritten {
    let Some(rewrites) = &site.rewrites else { return Rewritten::Same };
    let verdict = request.found.ruling.as_ref().map(|ruling| &ruling.verdict);
    let (path, query) = match verdict {
        Some(verdict) => (&verdict.path[..], verdict.query.as_deref()),
        None => (path, request.query()),
    };
    let look = |path: &[u8]| -> AtPath { route::place(&thread.context, &thread.files, site, path) };
    rewrites.apply(path, query, look)
}

/// The ruling of a request, for another path and query. They follow from the request's own, so the page's key stays.
pub fn ruling(request: &Request, path: Vec<u8>, query: Option<Vec<u8>>) -> Arc<Ruling> {
    let before = request.found.ruling.as_deref();
    let verdict = match before {
        Some(before) => Verdict { path, query, ..before.verdict.clone() },
        None => Verdict::serving(path, query),
    };
    Arc::new(Ruling { verdict, key: before.map(|before| before.key.clone()).unwrap_or_default() })
}

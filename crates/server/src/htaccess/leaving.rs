//! Changes of a response by its request's ruling.

use millrace_htaccess::verdict::Leaving;
use millrace_wire::conditional::http_date;

use super::{HtaccessThread, view, world};
use millrace_base::context::Context;
use millrace_base::message::Request;
use millrace_base::message::reply::{Fields, Reply};
use millrace_base::site::Site;

/// What has made a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The server itself: an error or a redirect.
    Server,
    /// A script, now or earlier.
    Script,
    /// A file, modified at this time: seconds since 1970.
    File(u64),
}

/// Applies a request's rules to its response.
pub fn change(
    thread: &HtaccessThread,
    context: &Context,
    site: &Site,
    request: &Request,
    origin: Origin,
    reply: &mut Reply,
) {
    let Some(ruling) = request.found.ruling.as_ref().filter(|ruling| ruling.verdict.changes_responses())
    else {
        return;
    };
    let verdict = &ruling.verdict;
    let fields = reply.fields.iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
    let modified = match origin {
        Origin::File(modified) => Some(modified),
        Origin::Server | Origin::Script => None,
    };
    let mut leaving = Leaving {
        status: reply.status,
        fields,
        is_error: origin == Origin::Server,
        modified,
        date: http_date,
    };
    let world = world::SiteDisk::new(thread, context, site);
    let changed = view::with(context, site, request, &verdict.path, request.query(), |view| {
        verdict.change(view, &world, &mut leaving)
    });
    if changed.is_err() {
        // The rule that takes so long may protect the response.
        *reply = millrace_base::message::reply::plain(500);
        return;
    }
    let mut fields = Fields::default();
    for (name, value) in &leaving.fields {
        let is_name = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
        if is_name && !is_of_connection(name) {
            fields.push(name, value);
        }
    }
    reply.fields = fields;
}

/// Fields that only the protocol sets.
fn is_of_connection(name: &str) -> bool {
    ["content-length", "transfer-encoding", "connection", "server", "keep-alive", "upgrade"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known))
}

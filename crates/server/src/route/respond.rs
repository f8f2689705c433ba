//! Takes a request down its way, as far as that goes without waiting.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use super::{FILE_METHODS, Script, Site, Way, front_door, way};
use crate::cache::{self, Consulted, Told, Waited};
use crate::engine::Thread;
use crate::files::{self, Answer};
use crate::php;
use crate::purge;
use crate::reply::{self, Reply};
use crate::request::Request;
use crate::stats::Class;

/// What a request gets.
pub enum Response {
    /// An answer.
    Ready(Reply),
    /// An answer, after some work that has begun.
    Later(Pin<Box<dyn Future<Output = Reply>>>),
    /// A page of the cache, when it has been made, or else what the script says to this request alone.
    Page(Pin<Box<dyn Future<Output = Waited>>>, Script),
    /// What a script has to say, once the request's content is there; and what the page cache said.
    Script(Script, Told),
    /// Nothing here: the connection has to go to an event loop that runs PHP.
    Elsewhere,
}

/// What `request` gets from `site`, and from whom.
pub fn respond(thread: &Rc<Thread>, site: &Arc<Site>, request: &Request) -> (Class, Response) {
    if let Some(reply) = thread.process.acme.answer(request) {
        return (Class::Other, Response::Ready(reply));
    }
    if let Some(status) = front_door::stranger(thread, site, request) {
        return (Class::Other, Response::Ready(plain(site, status)));
    }
    // A copy of it would do the same once more.
    if request.is_early() && !matches!(request.head.method(), "GET" | "HEAD") {
        return (Class::Other, Response::Ready(plain(site, 425)));
    }
    if purge::is_order(site, request) {
        return (Class::Other, Response::Ready(purge::answer(thread, site, request)));
    }
    let mut path = thread.buffers.path.take();
    let way = way(thread, site, request, &mut path);
    let response = follow(thread, site, request, &path, way);
    thread.buffers.path.replace(path);
    response
}

/// What it gets on its way; `path` is its normalised path.
fn follow(
    thread: &Rc<Thread>,
    site: &Arc<Site>,
    request: &Request,
    path: &[u8],
    way: Way,
) -> (Class, Response) {
    let mut reply = match way {
        Way::Php(script) => return from_script(thread, site, request, path, script),
        Way::File(entry) => {
            let response = match files::answer(thread, request, &entry) {
                Answer::Ready(reply) => Response::Ready(reply),
                Answer::Later(reply) => Response::Later(reply),
            };
            return (Class::File, response);
        }
        Way::Redirect(status, location) => reply::redirect(status, &location),
        Way::Refuse(status) => reply::plain(status),
        Way::Allow(405) => reply::plain(405).with("Allow", FILE_METHODS),
        Way::Allow(status) => Reply::new(status).with("Allow", FILE_METHODS),
    };
    reply.fields.push_block(&site.header_lines);
    (Class::Other, Response::Ready(reply))
}

/// An answer without a word of its own.
fn plain(site: &Site, status: u16) -> Reply {
    let mut reply = reply::plain(status);
    reply.fields.push_block(&site.header_lines);
    reply
}

/// A page that a script has made before, or the script.
fn from_script(
    thread: &Rc<Thread>,
    site: &Arc<Site>,
    request: &Request,
    path: &[u8],
    script: Script,
) -> (Class, Response) {
    // What a script says to who has shown a certificate is for him alone.
    let known = request.ends.tls.as_ref().and_then(|tls| tls.client.as_ref()?.certificate.as_ref());
    if known.is_some() && site.plan.clients.is_some() && !request.is_early() {
        return (Class::Php, Response::Script(script, Told::bypass("client-certificate")));
    }
    match cache::consult(thread, site, request, path, &script, make) {
        Consulted::Run(_) if request.is_early() => (Class::Other, Response::Ready(plain(site, 425))),
        Consulted::Hit(reply) => (Class::Page, Response::Ready(reply)),
        Consulted::Wait(reply) => (Class::Php, Response::Page(reply, script)),
        Consulted::Run(told) => (Class::Php, Response::Script(script, told)),
        Consulted::Elsewhere => (Class::Php, Response::Elsewhere),
    }
}

/// Runs a script for the cache.
fn make(
    thread: Rc<Thread>,
    site: Arc<Site>,
    mut request: Request,
    script: Script,
) -> Pin<Box<dyn Future<Output = Reply>>> {
    Box::pin(async move { php::run(&thread, &site, &mut request, &script).await })
}

//! Takes a request down its way, as far as that goes without waiting.

use std::pin::Pin;
use std::rc::Rc;

use super::{FILE_METHODS, Script, Site, Way, way};
use crate::engine::Thread;
use crate::files::{self, Answer};
use crate::reply::{self, Reply};
use crate::request::Request;
use crate::stats::Class;

/// What a request gets.
pub enum Response {
    /// An answer.
    Ready(Reply),
    /// An answer, after some work that has begun.
    Later(Pin<Box<dyn Future<Output = Reply>>>),
    /// What a script has to say, once the request's content is there.
    Script(Script),
}

/// What `request` gets from `site`, and from whom.
pub fn respond(thread: &Rc<Thread>, site: &Site, request: &Request) -> (Class, Response) {
    let mut reply = match way(thread, site, request) {
        Way::Php(script) => return (Class::Php, Response::Script(script)),
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

//! What one step on the way of a request says.

use std::convert::Infallible;
use std::pin::Pin;

use super::Reply;

/// Something that must be found out first: a response, or `None`, and then the request walks again from the first step.
pub type Waiting = Pin<Box<dyn Future<Output = Option<Reply>>>>;

/// What a step says. `M`: what it knows about how a response is made, if that is its subject.
pub enum Step<M = Infallible> {
    /// The request goes on.
    Next,
    /// This response.
    Answer(Reply),
    /// A status of the server's own; the site may have a page for it.
    Refuse(u16),
    /// Not known yet.
    Wait(Waiting),
    /// The response must be made.
    Make(M),
    /// Not here: on an event loop that runs PHP.
    Elsewhere,
}

impl<M> Step<M> {
    /// The request walks again when this is ready.
    pub fn after(found: impl Future<Output = ()> + 'static) -> Step<M> {
        Step::Wait(Box::pin(async move {
            found.await;
            None
        }))
    }
}

impl Step {
    /// The same among steps that make responses.
    pub fn widen<M>(self) -> Step<M> {
        match self {
            Step::Next => Step::Next,
            Step::Answer(reply) => Step::Answer(reply),
            Step::Refuse(status) => Step::Refuse(status),
            Step::Wait(waiting) => Step::Wait(waiting),
            Step::Make(never) => match never {},
            Step::Elsewhere => Step::Elsewhere,
        }
    }
}

//! Runs an exchange on its connection: reads the content, sends the response, and prepares the next request.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

use millrace_settings::Plan;
use millrace_wire::head::Framing;

use super::content::{H1Content, SharedContent};
use super::{Connection, ConnectionPhase, NextStep, content, send, tunnel};
use crate::serve::{CLIENT_GONE, Exchange, ExchangeClient, ExchangeTrouble, ServeThread};
use millrace_base::context::budget::REQUEST_BYTES;
use millrace_base::message::Request;

/// The client of a connection. `rest` holds the bytes behind the request's head, and afterwards the bytes behind its
/// content.
struct H1Client<'a> {
    connection: &'a Rc<Connection>,
    rest: &'a mut Vec<u8>,
    /// The content, if an application gets it while it arrives.
    streamed: Option<Rc<RefCell<H1Content>>>,
}

impl ExchangeClient for H1Client<'_> {
    async fn read_content(
        &mut self,
        _thread: &Rc<ServeThread>,
        request: &mut Request,
        plan: &Plan,
        most: u64,
    ) -> Result<(), ExchangeTrouble> {
        content::read(self.connection, request, self.rest, plan, most).await?;
        self.connection.enter(ConnectionPhase::Running);
        Ok(())
    }

    async fn stream_content(
        &mut self,
        _thread: &Rc<ServeThread>,
        request: &mut Request,
        plan: &Plan,
        most: u64,
    ) -> Result<(), ExchangeTrouble> {
        self.streamed = H1Content::begin(self.connection, request, self.rest, plan, most).await?;
        if let Some(streamed) = &self.streamed {
            request.stream = Some(Box::new(SharedContent(streamed.clone())));
        }
        Ok(())
    }

    /// Only the client's half of the connection counts, as for nginx: a client that sends a request and closes its
    /// half looks the same as one that has gone.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.connection.stream().poll_gone(cx)
    }
}

/// Serves a request that has to wait for something.
pub(super) async fn run(
    mut exchange: Box<Exchange>,
    connection: &Rc<Connection>,
    rest: &mut Vec<u8>,
) -> NextStep {
    connection.enter(ConnectionPhase::Running);
    connection.works_with(REQUEST_BYTES as usize);
    connection.begin_hints(&exchange.request);
    let thread = connection.thread.clone();
    let mut client = H1Client { connection, rest, streamed: None };
    let answer = exchange.answer(&thread.serve, &mut client).await;
    let streamed = client.streamed;
    let mut reply = match answer {
        Ok(reply) | Err(ExchangeTrouble::Answer(reply)) => reply,
        Err(ExchangeTrouble::Gone) => {
            let status = if connection.is_timed_out() { 408 } else { CLIENT_GONE };
            exchange.log(&thread.serve, status, 0);
            return NextStep::Close;
        }
    };
    let hints = connection.end_hints();
    let unread = match &streamed {
        // Its end may arrive while the response is sent, but only then.
        Some(streamed) if !streamed.borrow().is_done() => true,
        Some(streamed) => {
            *rest = streamed.borrow_mut().take_rest();
            false
        }
        None => !skip_content(&exchange.request, rest),
    };
    reply.close |= unread;
    let tunnel = reply.take_tunnel();
    let close = !connection.keeps(&exchange.request, &reply) && tunnel.is_none();
    let status = reply.status;
    thread.context.clock.read();
    let first_byte = exchange.elapsed(&thread.serve);
    connection.enter(ConnectionPhase::Running);
    let mut sent = send::reply(connection, &exchange.request, hints, reply, close).await;
    let switches = tunnel.is_some() && sent.whole;
    if let Some(tunnel) = tunnel.filter(|_| switches) {
        sent.bytes = tunnel::join(connection, tunnel, std::mem::take(rest)).await;
    }
    thread.context.clock.read();
    exchange.record(&thread.serve, status, sent.bytes, first_byte);
    thread.buffers.give_back(exchange.request.head);
    match (sent.whole, close) {
        // The client may still be sending when the application's end breaks: it should get what came before.
        (true, _) if switches => NextStep::Linger,
        (false, _) => NextStep::Close,
        (true, true) if unread => NextStep::Linger,
        (true, true) => NextStep::Close,
        (true, false) => NextStep::Wait,
    }
}

/// Skips unread content that has already arrived. Returns whether the next request begins at the start of `rest`.
fn skip_content(request: &Request, rest: &mut Vec<u8>) -> bool {
    match request.head.framing() {
        Framing::None | Framing::Length(0) => true,
        _ if request.content_is_read => true,
        Framing::Length(length) if length <= rest.len() as u64 => {
            rest.drain(..length as usize);
            true
        }
        _ => false,
    }
}

//! One request that can't be answered on the spot: its content is still coming, PHP has to run, a file has to be
//! compressed, or the client takes its time.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_wire::head::Framing;

use super::connection::Phase;
use super::content::{self, Trouble};
use super::{Connection, Step, send};
use crate::cache::{self, Told, Waited};
use crate::engine::{SharedSetup, Thread};
use crate::log::{Asked, Entry};
use crate::php;
use crate::reply::{self, Reply};
use crate::request::Request;
use crate::route::{self, Response, Script, Site};
use crate::stats::Class;

/// What the access log says of a request whose client left before its content was here, as nginx does.
const CLIENT_GONE: u16 = 499;

/// So often a request waits for a page of which another variant is made, before the script runs for it alone.
const MOST_WAITS: u32 = 3;

/// A request on its way to its answer.
pub(super) struct Exchange {
    request: Request,
    site: Arc<Site>,
    /// The configuration that it began with.
    setup: SharedSetup,
    started: Instant,
    /// Who answers it.
    class: Class,
    /// What routing said, if it has been asked.
    response: Option<Response>,
}

impl Exchange {
    /// A request that starts now.
    pub(super) fn new(thread: &Thread, setup: &SharedSetup, site: &Arc<Site>, request: Request) -> Exchange {
        let (started, class) = (thread.clock.now(), Class::Other);
        Exchange { request, site: site.clone(), setup: setup.clone(), started, class, response: None }
    }

    /// The same, with what routing said.
    pub(super) fn with(self, class: Class, response: Response) -> Exchange {
        Exchange { class, response: Some(response), ..self }
    }

    /// Answers it. `rest` holds the bytes that have come behind its head, and afterwards those behind its content.
    pub(super) async fn run(mut self: Box<Self>, connection: &Connection, rest: &mut Vec<u8>) -> Step {
        connection.enter(Phase::Running);
        connection.begin_hints(&self.request);
        let thread = connection.thread.clone();
        let mut reply = match self.reply(connection, rest).await {
            Ok(reply) => reply,
            Err(Trouble::Gone) => {
                let status = if connection.is_timed_out() { 408 } else { CLIENT_GONE };
                self.log(&thread, status, 0);
                return Step::Close;
            }
            Err(Trouble::Answer(mut reply)) => {
                reply.fields.push_block(&self.site.header_lines);
                reply
            }
        };
        let hints = connection.end_hints();
        let unread = !self.skip_content(rest);
        reply.close |= unread;
        let close = !connection.keeps(&self.request, &reply);
        let status = reply.status;
        thread.clock.read();
        let first_byte = thread.clock.now().duration_since(self.started);
        connection.enter(Phase::Running);
        let sent = send::reply(connection, &self.request, hints, reply, close).await;
        thread.clock.read();
        self.record(&thread, status, sent.bytes, first_byte);
        thread.buffers.give_back(self.request.head);
        match (sent.whole, close) {
            (false, _) => Step::Close,
            (true, true) if unread => Step::Linger,
            (true, true) => Step::Close,
            (true, false) => Step::Wait,
        }
    }

    /// Counts an answer that began to leave after `first_byte`, and writes it into the access log.
    fn record(&self, thread: &Thread, status: u16, bytes: u64, first_byte: Duration) {
        thread.stats.count_reply(status);
        thread.stats.took(self.class, first_byte, thread.clock.now().duration_since(self.started));
        self.log(thread, status, bytes);
    }

    /// Writes a line of the access log.
    fn log(&self, thread: &Thread, status: u16, bytes: u64) {
        let duration = thread.clock.now().duration_since(self.started);
        let (asked, client) = (Asked::Request(&self.request), self.request.ends.client_ip());
        thread.access.record(thread, &Entry { asked, client, status, bytes, duration });
    }

    async fn reply(&mut self, connection: &Connection, rest: &mut Vec<u8>) -> Result<Reply, Trouble> {
        let mut waits = 0;
        loop {
            let response = match self.response.take() {
                Some(response) => response,
                None => {
                    let (class, response) = route::respond(&connection.thread, &self.site, &self.request);
                    self.class = class;
                    response
                }
            };
            return match response {
                Response::Ready(reply) => Ok(reply),
                Response::Later(reply) => Ok(reply.await),
                Response::Page(page, script) => match page.await {
                    Waited::Reply(reply) => Ok(self.hand_over(connection, &script, reply).await),
                    Waited::Again if waits < MOST_WAITS => {
                        waits += 1;
                        continue;
                    }
                    _ => self.script(connection, rest, &script, Told::PASS).await,
                },
                Response::Script(script, told) => self.script(connection, rest, &script, told).await,
            };
        }
    }

    /// Runs a script for this request alone.
    async fn script(
        &mut self,
        connection: &Connection,
        rest: &mut Vec<u8>,
        script: &Script,
        told: Told,
    ) -> Result<Reply, Trouble> {
        let thread = &connection.thread;
        let most = self.site.plan.body_bytes;
        content::read(connection, &mut self.request, rest, &self.setup.plan, most).await?;
        connection.enter(Phase::Running);
        // A client that goes while it waits for a worker is not worth one. Its half of the connection alone counts, as it does
        // for nginx: who sends a request and closes that half can't be told from who has gone.
        let gone = poll_fn(|cx| connection.stream().poll_gone(cx));
        let reply = php::run_while(thread, &self.site, &mut self.request, script, gone).await;
        let mut reply = reply.ok_or(Trouble::Gone)?;
        cache::settle(thread, &self.site, &self.request, &mut reply, told);
        let mut reply = self.hand_over(connection, script, reply).await;
        reply.fields.push_block(&self.site.header_lines);
        Ok(reply)
    }

    /// The file that a script may have handed over instead of its own answer.
    async fn hand_over(&self, connection: &Connection, script: &Script, reply: Reply) -> Reply {
        match &reply.aside {
            None => reply,
            Some(_) => route::hand_over(&connection.thread, &self.site, &self.request, script, reply).await,
        }
    }

    /// Passes over content that nobody has read, if it is already here. Returns whether the next request begins at
    /// the start of `rest`.
    fn skip_content(&mut self, rest: &mut Vec<u8>) -> bool {
        match self.request.head.framing() {
            Framing::None | Framing::Length(0) => true,
            _ if self.request.content_is_read => true,
            Framing::Length(length) if length <= rest.len() as u64 => {
                rest.drain(..length as usize);
                true
            }
            _ => false,
        }
    }
}

/// An answer to a request whose content can't be taken.
pub(super) fn refusal(status: u16) -> Trouble {
    let mut reply = reply::plain(status);
    reply.close = true;
    Trouble::Answer(reply)
}

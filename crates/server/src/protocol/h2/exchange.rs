//! A request that has to wait for something, in a task of its own: its content, PHP, a file that is compressed.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::RecvStream;
use millrace_settings::Plan;

use super::connection::{Connection, FinishedExchange, PendingRequest};
use super::{head, tunnel};
use crate::message::Request;
use crate::protocol::intake::Intake;
use crate::serve::{CLIENT_GONE, Exchange, ExchangeClient, ExchangeTrouble, ServeThread, refusal};

/// Minimum memory for content before it goes to disk, bytes.
const LEAST_MEMORY: usize = 16 * 1024;

/// Unread content is skipped up to this size: a client that breaks its own announcement is told, and most refused
/// uploads end properly.
const PASSED_OVER: usize = 64 * 1024;
/// Maximum time to wait for it.
const PASSING_TIME: Duration = Duration::from_secs(1);

/// Prepares the response; the connection's driver sends it.
pub(super) fn start(
    connection: Rc<Connection>,
    mut exchange: Box<Exchange>,
    waiting: Rc<PendingRequest>,
    content: RecvStream,
) {
    connection.begin(&waiting);
    tokio::task::spawn_local(async move {
        let thread = connection.thread.clone();
        let mut asker = H2Client { connection: &connection, waiting: &waiting, content };
        let passed = match exchange.is_ready() {
            true => asker.pass_over(&exchange.request).await,
            false => Ok(()),
        };
        let answer = match passed {
            Ok(()) => exchange.answer(thread.serve(), &mut asker).await,
            Err(trouble) => Err(trouble),
        };
        thread.clock.read();
        match answer {
            Ok(mut reply) | Err(ExchangeTrouble::Answer(mut reply)) => {
                if let Some(tunnel) = reply.tunnel.take() {
                    reply.body = tunnel::join(&thread, tunnel, asker.content);
                    return connection.answer(FinishedExchange { waiting, exchange, reply, unread: false });
                }
                let unread = !asker.content.is_end_stream();
                connection.answer(FinishedExchange { waiting, exchange, reply, unread });
            }
            Err(ExchangeTrouble::Gone) => {
                exchange.log(&thread, CLIENT_GONE, 0);
                connection.end(&waiting);
            }
        }
    });
}

struct H2Client<'a> {
    connection: &'a Connection,
    waiting: &'a PendingRequest,
    content: RecvStream,
}

/// One of the connection's uploads: together they get the memory of one.
struct UploadShare<'a> {
    connection: &'a Connection,
    /// Its memory, bytes.
    in_memory: usize,
}

impl<'a> UploadShare<'a> {
    fn begin(connection: &'a Connection) -> UploadShare<'a> {
        connection.uploads.set(connection.uploads.get() + 1);
        UploadShare { connection, in_memory: 0 }
    }

    fn takes(&mut self, bytes: usize) {
        self.connection.upload_bytes.update(|all| all - self.in_memory + bytes);
        self.in_memory = bytes;
    }

    fn memory(&self, plan: &Plan) -> usize {
        (plan.http.body_memory / self.connection.uploads.get().max(1))
            .max(LEAST_MEMORY.min(plan.http.body_memory))
    }
}

impl Drop for UploadShare<'_> {
    fn drop(&mut self) {
        self.takes(0);
        self.connection.uploads.set(self.connection.uploads.get() - 1);
    }
}

impl H2Client<'_> {
    /// Drops content on which the response does not depend.
    async fn pass_over(&mut self, request: &Request) -> Result<(), ExchangeTrouble> {
        if request.head.expects_continue() {
            return Ok(());
        }
        let all = async {
            let mut passed = 0;
            while passed < PASSED_OVER {
                let Some(piece) = poll_fn(|cx| self.content.poll_data(cx)).await else { break };
                let length = piece.map_err(|_| ExchangeTrouble::Gone)?.len();
                passed += length;
                let _ = self.content.flow_control().release_capacity(length);
            }
            Ok(())
        };
        tokio::time::timeout(PASSING_TIME, all).await.unwrap_or(Ok(()))
    }
}

impl ExchangeClient for H2Client<'_> {
    async fn read_content(
        &mut self,
        thread: &Rc<ServeThread>,
        request: &mut Request,
        plan: &Plan,
        most: u64,
    ) -> Result<(), ExchangeTrouble> {
        if self.content.is_end_stream() {
            return Ok(());
        }
        let mut intake = Intake::begin(thread, plan, most, request)?;
        let mut upload = UploadShare::begin(self.connection);
        if request.head.expects_continue() {
            let go_on = self.waiting.respond.borrow_mut().send_informational(head::interim(100, b""));
            go_on.map_err(|_| ExchangeTrouble::Gone)?;
        }
        loop {
            let next = poll_fn(|cx| self.content.poll_data(cx));
            // The library's result shows whether the client pauses or has gone.
            let next = tokio::time::timeout(plan.http.body_timeout, next).await;
            thread.clock.read();
            let Ok(next) = next else { return Err(refusal(408)) };
            let Some(piece) = next else { break };
            let piece = piece.map_err(|_| ExchangeTrouble::Gone)?;
            intake.push(&piece).map_err(|status| intake.refuse(request, status))?;
            intake.make_room(request, upload.memory(plan)).await?;
            upload.takes(intake.in_memory());
            // Only now the client may send more of it.
            let _ = self.content.flow_control().release_capacity(piece.len());
            if intake.is_too_slow() && !self.content.is_end_stream() {
                return Err(refusal(408));
            }
        }
        intake.finish(request).await
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_gone(cx) { Poll::Ready(()) } else { Poll::Pending }
    }
}

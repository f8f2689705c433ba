//! A request that has to wait for something, in a task of its own: its content, PHP, a file that is compressed.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use h2::RecvStream;
use millrace_settings::Plan;

use super::connection::{Connection, FinishedExchange, PendingRequest};
use super::{head, tunnel};
use crate::protocol::intake::{Intake, StreamLimits};
use crate::serve::{CLIENT_GONE, Exchange, ExchangeClient, ExchangeTrouble, ServeThread, refusal};
use millrace_base::message::Request;
use millrace_base::message::request::ContentStream;

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
        let mut asker = H2Client {
            connection: &connection,
            waiting: &waiting,
            content: Some(content),
            ended: Rc::default(),
        };
        let passed = match exchange.is_ready() {
            true => asker.pass_over(&exchange.request).await,
            false => Ok(()),
        };
        let answer = match passed {
            Ok(()) => exchange.answer(&thread.serve, &mut asker).await,
            Err(trouble) => Err(trouble),
        };
        thread.context.clock.read();
        match answer {
            Ok(mut reply) | Err(ExchangeTrouble::Answer(mut reply)) => {
                if let Some(tunnel) = reply.take_tunnel()
                    && let Some(content) = asker.content.take()
                {
                    reply.body = tunnel::join(&thread, tunnel, content);
                    return connection.answer(FinishedExchange { waiting, exchange, reply, unread: false });
                }
                let unread = match &asker.content {
                    Some(content) => !content.is_end_stream(),
                    None => !asker.ended.get(),
                };
                connection.answer(FinishedExchange { waiting, exchange, reply, unread });
            }
            Err(ExchangeTrouble::Gone) => {
                exchange.log(&thread.serve, CLIENT_GONE, 0);
                connection.end(&waiting);
            }
        }
    });
}

struct H2Client<'a> {
    connection: &'a Connection,
    waiting: &'a PendingRequest,
    /// `None`: an application gets it while it arrives.
    content: Option<RecvStream>,
    /// The application has got all of it.
    ended: Rc<Cell<bool>>,
}

/// Content that an application gets while it arrives. The client may send more only when a piece has been taken.
#[derive(Debug)]
struct H2Content {
    content: RecvStream,
    limits: StreamLimits,
    ended: Rc<Cell<bool>>,
}

impl ContentStream for H2Content {
    fn length(&self) -> Option<u64> {
        self.limits.length
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<Result<bool, u16>> {
        match self.content.poll_data(cx) {
            Poll::Ready(Some(Ok(piece))) => {
                buffer.extend_from_slice(&piece);
                // It fails only for more than has arrived.
                let _ = self.content.flow_control().release_capacity(piece.len());
                self.ended.set(self.content.is_end_stream());
                Poll::Ready(self.limits.take(piece.len()).map(|()| true))
            }
            // It has gone, or breaks the rules: nobody reads the response.
            Poll::Ready(Some(Err(_))) => Poll::Ready(Err(400)),
            Poll::Ready(None) => {
                self.ended.set(true);
                Poll::Ready(Ok(false))
            }
            Poll::Pending => self.limits.poll_pause(cx).map(Err),
        }
    }
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
        let Some(content) = self.content.as_mut().filter(|_| !request.head.expects_continue()) else {
            return Ok(());
        };
        let all = async {
            let mut passed = 0;
            while passed < PASSED_OVER {
                let Some(piece) = poll_fn(|cx| content.poll_data(cx)).await else { break };
                let length = piece.map_err(|_| ExchangeTrouble::Gone)?.len();
                passed += length;
                let _ = content.flow_control().release_capacity(length);
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
        let Some(content) = self.content.as_mut().filter(|content| !content.is_end_stream()) else {
            return Ok(());
        };
        let mut intake = Intake::begin(thread, plan, most, request)?;
        let mut upload = UploadShare::begin(self.connection);
        go_on(self.waiting, request)?;
        loop {
            let next = poll_fn(|cx| content.poll_data(cx));
            // The library's result shows whether the client pauses or has gone.
            let next = tokio::time::timeout(plan.http.body_timeout, next).await;
            thread.context.clock.read();
            let Ok(next) = next else { return Err(refusal(408)) };
            let Some(piece) = next else { break };
            let piece = piece.map_err(|_| ExchangeTrouble::Gone)?;
            intake.push(&piece).map_err(|status| intake.refuse(request, status))?;
            intake.make_room(request, upload.memory(plan)).await?;
            upload.takes(intake.in_memory());
            // Only now the client may send more of it.
            let _ = content.flow_control().release_capacity(piece.len());
            if intake.is_too_slow() && !content.is_end_stream() {
                return Err(refusal(408));
            }
        }
        intake.finish(request).await
    }

    async fn stream_content(
        &mut self,
        thread: &Rc<ServeThread>,
        request: &mut Request,
        plan: &Plan,
        most: u64,
    ) -> Result<(), ExchangeTrouble> {
        let Some(content) = self.content.take_if(|content| !content.is_end_stream()) else { return Ok(()) };
        let limits = StreamLimits::begin(thread, plan, most, request);
        match limits.and_then(|limits| go_on(self.waiting, request).map(|()| limits)) {
            Ok(limits) => {
                let ended = self.ended.clone();
                request.stream = Some(Box::new(H2Content { content, limits, ended }));
            }
            Err(trouble) => {
                self.content = Some(content);
                return Err(trouble);
            }
        }
        Ok(())
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_gone(cx) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Tells a client that waits for it to send the content.
fn go_on(waiting: &PendingRequest, request: &Request) -> Result<(), ExchangeTrouble> {
    if !request.head.expects_continue() {
        return Ok(());
    }
    let told = waiting.respond.borrow_mut().send_informational(head::interim(100, b""));
    told.map_err(|_| ExchangeTrouble::Gone)
}

//! Protocols: from the bytes of a connection to [`millrace_base::message::Request`]s, and from
//! [`millrace_base::message::reply::Reply`]s to bytes. The rooms behind this one don't know a request's protocol.
//!
//! [`h1`] and [`h2`] share a few modules: [`intake`], its content; [`framing`], what is added to a response;
//! [`linger`], the end of a connection; [`weight`], what it holds of the memory for connections.

mod buffers;
mod framing;
mod h1;
mod h2;
mod intake;
mod linger;
mod phase;
#[cfg(test)]
mod tests;
mod weight;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;

use buffers::Buffers;
use h2::Flooders;

use crate::connection::{Accepted, ClientStream, Deadlines, Exit, Newcomer};
use crate::serve::ServeThread;
use millrace_base::context::Context;
use millrace_base::context::stats::Counter;

/// An event loop's part for its connections.
pub struct ProtocolThread {
    /// The event loop's part for everything else.
    pub context: Rc<Context>,
    /// Its part for serving sites.
    pub serve: Rc<ServeThread>,
    /// When its connections must be woken or closed.
    pub deadlines: Deadlines,
    /// Buffers that its connections share.
    buffers: Buffers,
    /// Addresses that have flooded its HTTP/2 connections.
    flooders: Flooders,
    /// Only in a crowd loop: takes connections with requests that are not ready.
    pub exit: Option<Rc<Exit>>,
    /// Whether the certificate that a client got for a name covers another host, too.
    covers: Covers,
}

/// Whether the certificate for a name covers a host, too.
pub type Covers = Box<dyn Fn(&str, &str) -> bool>;

impl fmt::Debug for ProtocolThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtocolThread").field("serve", &self.serve).finish_non_exhaustive()
    }
}

impl ProtocolThread {
    /// The part of an event loop; with an `exit`, of a crowd loop.
    pub fn new(serve: Rc<ServeThread>, exit: Option<Rc<Exit>>, covers: Covers) -> Rc<ProtocolThread> {
        Rc::new(ProtocolThread {
            context: serve.context.clone(),
            serve,
            deadlines: Deadlines::default(),
            buffers: Buffers::default(),
            flooders: Flooders::default(),
            exit,
            covers,
        })
    }
}

/// Serves a connection until it ends: with the protocol that TLS has negotiated (RFC 7301), otherwise with the one of
/// the client's first bytes.
pub fn start(thread: &Rc<ProtocolThread>, accepted: Accepted) {
    let thread = thread.clone();
    match &accepted.stream {
        ClientStream::Tls(stream) if stream.is_h2() => serve_h2(thread, accepted, Vec::new()),
        ClientStream::Tls(_) => serve_h1(thread, accepted, Vec::new()),
        _ if thread.serve.setup().plan.http.h2c => {
            tokio::task::spawn_local(find_out(thread, accepted));
        }
        _ => serve_h1(thread, accepted, Vec::new()),
    }
}

/// Continues a connection without TLS from another event loop, which has read `begun`.
pub fn resume(thread: &Rc<ProtocolThread>, accepted: Accepted, begun: Vec<u8>) {
    let is_h2 = thread.serve.setup().plan.http.h2c && h2::is_preface(&begun) == Some(true);
    let serve = if is_h2 { serve_h2 } else { serve_h1 };
    serve(thread.clone(), accepted, begun);
}

fn serve_h1(thread: Rc<ProtocolThread>, accepted: Accepted, begun: Vec<u8>) {
    tokio::task::spawn_local(h1::serve(h1::Connection::new(thread, accepted), begun));
}

fn serve_h2(thread: Rc<ProtocolThread>, accepted: Accepted, begun: Vec<u8>) {
    tokio::task::spawn_local(h2::serve(h2::Connection::new(thread, accepted, begun)));
}

/// Maximum number of bytes read to detect the protocol.
const FIRST_BYTES: usize = 4096;

/// Waits for the first bytes of a connection, which may be HTTP/2 (RFC 9113 section 3.3).
async fn find_out(thread: Rc<ProtocolThread>, accepted: Accepted) {
    let Accepted { mut stream, ends, permit } = accepted;
    let patience = thread.serve.setup().plan.http.head_timeout;
    let newcomer = Newcomer::new(&thread.context, &thread.deadlines, Counter::ConnectionsIdle, permit);
    let begun = tokio::select! {
        biased;
        () = newcomer.gone() => return,
        begun = tokio::time::timeout(patience, first_bytes(&thread, &mut stream)) => begun,
    };
    let Some(permit) = newcomer.take_permit() else { return };
    drop(newcomer);
    let accepted = Accepted { stream, ends, permit };
    match begun {
        Ok(Ok((begun, true))) => match thread.exit.clone() {
            Some(exit) => pass_on(&exit, accepted, begun).await,
            None => serve_h2(thread, accepted, begun),
        },
        Ok(Ok((begun, false))) => serve_h1(thread, accepted, begun),
        Ok(Err(_)) => {}
        Err(_) => thread.context.stats.add(Counter::ConnectionsTimedOut, 1),
    }
}

/// Only event loops that run PHP serve HTTP/2.
async fn pass_on(exit: &Exit, accepted: Accepted, begun: Vec<u8>) {
    let Accepted { stream, ends, permit } = accepted;
    if let Ok(socket) = stream.as_fd().try_clone_to_owned() {
        drop(stream);
        exit.pass(socket, ends, permit, begun).await;
    }
}

/// The first bytes, and whether they are HTTP/2.
async fn first_bytes(thread: &ProtocolThread, stream: &mut ClientStream) -> io::Result<(Vec<u8>, bool)> {
    let mut begun = Vec::new();
    loop {
        let read = poll_fn(|cx| {
            let mut input = thread.buffers.input.borrow_mut();
            stream.poll_read(cx, &mut input[..FIRST_BYTES]).map_ok(|read| {
                begun.extend_from_slice(&input[..read]);
                read
            })
        })
        .await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match h2::is_preface(&begun) {
            Some(is_preface) => {
                thread.context.stats.add(Counter::BytesReceived, begun.len() as u64);
                return Ok((begun, is_preface));
            }
            None if begun.len() >= 4 => return Ok((begun, false)),
            None => {}
        }
    }
}

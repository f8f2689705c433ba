//! Long responses: the connection as the [`ContentMaker`] whose content [`crate::pump`] moves to the client.
//! php-fpm's process is free as soon as its script has finished, as with our own workers.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use millrace_wire::fastcgi::{Record, RequestEnd};

use super::exchange::Connected;
use crate::PhpThread;
use crate::pump::{ContentMaker, MakerEnd};
use crate::stream::Pipe;
use millrace_base::context::stats::Counter;
use millrace_base::context::{OpenWork, WorkKind};

impl Connected {
    /// Reads and drops the unwanted rest, so that the connection can be used again.
    pub(super) fn let_fall(self) {
        let open = self.thread.begin(WorkKind::Response);
        tokio::task::spawn_local(self.drain(open));
    }

    async fn drain(mut self, _open: OpenWork) {
        let result = poll_fn(|cx| {
            loop {
                match self.poll_content(cx, |_| ()) {
                    Poll::Ready(Ok(false)) => (),
                    other => return other,
                }
            }
        })
        .await;
        self.thread.clock.read();
        match result {
            Ok(_) => self.give_back(),
            Err(error) => drop(self.note_loss(error)),
        }
    }

    /// Reads once; true at the end.
    fn poll_content(&mut self, cx: &mut Context<'_>, mut take: impl FnMut(&[u8])) -> Poll<io::Result<bool>> {
        ready!(self.poll(cx, |reading, record| match record {
            Record::Stdout(piece) => take(piece),
            Record::Stderr(piece) => reading.messages.take(piece),
            Record::End(how) => reading.end = Some(how),
        }))?;
        match self.reading.end {
            None => Poll::Ready(Ok(false)),
            Some(RequestEnd::Complete { .. }) => Poll::Ready(Ok(true)),
            Some(_) => Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
        }
    }
}

impl ContentMaker for Connected {
    fn poll_make(&mut self, cx: &mut Context<'_>, pipe: &Pipe) -> Poll<io::Result<bool>> {
        let polled = self.poll_content(cx, |piece| pipe.push(piece));
        if !pipe.has_room() {
            // The server reads nothing until the client has taken some.
            self.expect_nothing();
        }
        polled
    }

    fn set_clock(&mut self, now: Option<Instant>) {
        let now = now.map(|now| self.at(now));
        self.set_time(now);
    }

    fn end(mut self, thread: &PhpThread, pipe: &Pipe, why: MakerEnd) {
        match why {
            MakerEnd::Whole => {
                self.reading.messages.end();
                if self.reading.messages.failed {
                    thread.stats.add(Counter::PhpFailures, 1);
                    pipe.aside().borrow_mut().get_or_insert_default().failed = true;
                }
                self.give_back();
            }
            MakerEnd::Enough => self.let_fall(),
            MakerEnd::Lost(error) => drop(self.note_loss(error)),
            // php-fpm finds out that the client has gone when the connection is closed.
            MakerEnd::Unwanted => {}
        }
    }
}

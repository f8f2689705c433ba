//! The task that moves a long response from its maker into a [`Pipe`]: through memory, and through the disk if its
//! client is slow. It releases the maker at the end of the content, and continues until the client has taken
//! everything.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::stream::{PhpStream, Pipe};
use crate::PhpThread;
use millrace_base::context::budget::Holding;
use millrace_base::context::stats::Counter;
use millrace_base::context::{OpenWork, Spool, WorkKind};

/// Total time for which a script is held up before its content goes to disk.
const PATIENCE: Duration = Duration::from_millis(100);

/// Bytes read from disk at once.
const PIECE: u64 = 256 << 10;

/// A source of content.
pub trait ContentMaker {
    /// Moves available content into `pipe`; true at its end.
    ///
    /// # Errors
    /// The maker has gone, or has sent invalid data.
    fn poll_make(&mut self, cx: &mut Context<'_>, pipe: &Pipe) -> Poll<io::Result<bool>>;

    /// The time limit counts only the maker's own time: it begins anew, because content has come, or stands (`None`),
    /// because the client takes none.
    fn set_clock(&mut self, now: Option<Instant>);

    /// Whether the content is incomplete although the maker has ended: the client must learn of it.
    fn is_cut(&self) -> bool {
        false
    }

    /// The pump releases the maker.
    fn end(self, thread: &PhpThread, pipe: &Pipe, why: MakerEnd);
}

/// Why a pump releases its maker.
#[derive(Debug)]
pub enum MakerEnd {
    /// It has made all content.
    Whole,
    /// It has gone before the end, or has sent invalid data.
    Lost(io::Error),
    /// The client has as much content as was announced.
    Enough,
    /// The client has gone.
    Unwanted,
}

/// A stream that begins with `content`; a local task continues with the content of `maker`.
pub fn start(
    thread: &Rc<PhpThread>,
    maker: impl ContentMaker + 'static,
    content: Vec<u8>,
    length: Option<u64>,
) -> PhpStream {
    let pipe = Pipe::new(content);
    let pump = Pump {
        thread: thread.clone(),
        pipe: pipe.clone(),
        maker: Some(maker),
        whole: false,
        spool: None,
        patience: PATIENCE,
        stands: false,
        refused: false,
        held: Holding::new(&thread.process.budget, 0),
        _open: thread.begin(WorkKind::Response),
    };
    tokio::task::spawn_local(pump.run());
    PhpStream::new(pipe, length)
}

struct Pump<M: ContentMaker> {
    thread: Rc<PhpThread>,
    pipe: Rc<Pipe>,
    /// The source of the content, until its end.
    maker: Option<M>,
    /// Whether the content is complete.
    whole: bool,
    /// The part that is on disk.
    spool: Option<Spooled>,
    /// For how long the script may still be held up before the disk is used.
    patience: Duration,
    /// The client is the one that takes time.
    stands: bool,
    /// The disk accepts no more.
    refused: bool,
    /// The part in memory, counted against the memory budget of connections.
    held: Holding,
    /// It is in progress until it is dropped.
    _open: OpenWork,
}

/// A part of a response on disk.
struct Spooled {
    thread: Rc<PhpThread>,
    file: Spool,
    /// Bytes written, and how many of them have been read back.
    written: u64,
    read: u64,
}

/// What ended a pump's wait.
enum Event {
    /// The client has taken content or has gone, or there is content to move.
    Moved,
    /// The maker has made all.
    Made,
    /// The maker has failed.
    Lost(io::Error),
}

impl<M: ContentMaker> Pump<M> {
    async fn run(mut self) {
        loop {
            self.held.set(self.pipe.in_memory());
            if self.pipe.is_unwanted() {
                let why = if self.pipe.is_closed() { MakerEnd::Unwanted } else { MakerEnd::Enough };
                return self.part(why);
            }
            if self.pipe.wants_front()
                && let Err(error) = self.refill().await
            {
                self.say_broken("read", &error);
                self.part(MakerEnd::Unwanted);
                return self.pipe.end(false);
            }
            if self.has_to_spill() {
                self.spill().await;
                continue;
            }
            if self.maker.is_none() && !self.pipe.is_behind() {
                return self.pipe.end(self.whole);
            }
            match self.wait().await {
                Event::Moved => {}
                Event::Made => {
                    self.whole = !self.maker.as_ref().is_some_and(ContentMaker::is_cut);
                    self.pipe.made(self.whole);
                    self.part(MakerEnd::Whole);
                }
                Event::Lost(error) => {
                    self.pipe.made(false);
                    self.part(MakerEnd::Lost(error));
                }
            }
        }
    }

    /// Releases the maker.
    fn part(&mut self, why: MakerEnd) {
        self.thread.clock.read();
        if let Some(maker) = self.maker.take() {
            self.thread.process.script_speaks();
            maker.end(&self.thread, &self.pipe, why);
        }
    }

    /// Fills the front with the next content.
    async fn refill(&mut self) -> io::Result<()> {
        if let Some(spool) = &mut self.spool {
            if spool.read < spool.written {
                let content = spool.take().await?;
                self.pipe.set_front(content);
                return Ok(());
            }
            spool.clear()?;
            self.refused = false;
        }
        self.pipe.join();
        Ok(())
    }

    /// Whether the tail must go to disk now.
    fn has_to_spill(&self) -> bool {
        self.pipe.is_tail_full() && self.maker.is_some() && self.patience.is_zero() && self.may_spill()
    }

    /// Whether there is disk space for the tail: within the total, and within the half that one response may use.
    fn may_spill(&self) -> bool {
        let most = self.thread.plan().server.spool_bytes;
        let tail = self.pipe.tail().borrow().len() as u64;
        let own = self.spool.as_ref().map_or(0, |spool| spool.written);
        let all = || self.thread.process.stats.value(Counter::PhpSpoolBytes);
        !self.refused && own + tail <= most / 2 && all() + tail <= most
    }

    /// Moves the tail to disk. If the disk does not accept it, the script must wait for its client.
    async fn spill(&mut self) {
        let tail = self.pipe.tail().take();
        self.pipe.goes_to_disk();
        let result = match self.spool() {
            Ok(spool) => spool.put(tail).await,
            Err(error) => Err((tail, error)),
        };
        if let Err((tail, error)) = result {
            *self.pipe.tail().borrow_mut() = tail;
            self.refused = true;
            self.say_broken("spooled", &error);
        }
    }

    fn spool(&mut self) -> io::Result<&mut Spooled> {
        if self.spool.is_none() {
            let file = Spool::create(&self.thread.plan().server.spool_dir)?;
            self.thread.stats.add(Counter::PhpSpooled, 1);
            self.spool = Some(Spooled { thread: self.thread.clone(), file, written: 0, read: 0 });
        }
        // It was created above.
        self.spool.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn say_broken(&self, what: &str, error: &io::Error) {
        self.thread.process.log.error(format_args!(
            "a response to a slow client cannot be {what} in {}: {error}; free some space there, or set \
             server.spool_dir; until then, such responses occupy their PHP workers",
            self.thread.plan().server.spool_dir.display()
        ));
    }

    /// Receives content from the maker while there is room.
    async fn wait(&mut self) -> Event {
        self.pipe.set_short(self.thread.process.budget.is_full());
        let may_spill = self.may_spill();
        let mut held_since = None;
        let mut patience = pin!(None);
        let event = poll_fn(|cx| {
            self.pipe.wake_giver(cx);
            if self.pipe.is_unwanted() || self.pipe.wants_front() {
                return Poll::Ready(Event::Moved);
            }
            let Some(maker) = &mut self.maker else { return Poll::Pending };
            while self.pipe.has_room() {
                match maker.poll_make(cx, &self.pipe) {
                    Poll::Ready(Ok(false)) if self.pipe.ends_turn() => {
                        run_clock(maker, &self.pipe, &mut self.stands, &self.thread);
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(false)) => {}
                    Poll::Ready(Ok(true)) => return Poll::Ready(Event::Made),
                    Poll::Ready(Err(error)) => return Poll::Ready(Event::Lost(error)),
                    Poll::Pending => {
                        run_clock(maker, &self.pipe, &mut self.stands, &self.thread);
                        self.pipe.flush();
                        return Poll::Pending;
                    }
                }
            }
            maker.set_clock(None);
            self.stands = true;
            self.held.set(self.pipe.in_memory());
            if !may_spill {
                return Poll::Pending;
            }
            if held_since.is_none() {
                self.thread.clock.read();
                held_since = Some(self.thread.clock.now());
                patience.set(Some(tokio::time::sleep(self.patience)));
            }
            match patience.as_mut().as_pin_mut() {
                Some(patience) => patience.poll(cx).map(|()| Event::Moved),
                None => Poll::Pending,
            }
        })
        .await;
        if let Some(since) = held_since {
            self.thread.clock.read();
            let held = self.thread.clock.now().saturating_duration_since(since);
            self.patience = self.patience.saturating_sub(held);
        }
        event
    }
}

/// There is no content at the moment: from now on the maker's time counts, from its last content on.
fn run_clock(maker: &mut impl ContentMaker, pipe: &Pipe, stands: &mut bool, thread: &PhpThread) {
    // Both are to be reset.
    if pipe.has_moved() | std::mem::take(stands) {
        thread.clock.read();
        maker.set_clock(Some(thread.clock.now()));
    }
}

impl Spooled {
    /// Appends `bytes`, or returns them with the error.
    async fn put(&mut self, bytes: Vec<u8>) -> Result<(), (Vec<u8>, io::Error)> {
        let length = bytes.len() as u64;
        let (bytes, written) = self.file.write(bytes, self.written).await;
        written.map_err(|error| (bytes, error))?;
        self.written += length;
        self.thread.stats.add(Counter::PhpSpoolBytes, length);
        Ok(())
    }

    /// The next piece.
    async fn take(&mut self) -> io::Result<Vec<u8>> {
        let length = (self.written - self.read).min(PIECE);
        let content = self.file.read(self.read, length as usize).await?;
        self.read += length;
        Ok(content)
    }

    /// Everything has been read: frees the disk space.
    fn clear(&mut self) -> io::Result<()> {
        if self.written > 0 {
            self.file.clear()?;
            self.thread.stats.sub(Counter::PhpSpoolBytes, self.written);
            (self.written, self.read) = (0, 0);
        }
        Ok(())
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        self.thread.stats.sub(Counter::PhpSpoolBytes, self.written);
    }
}

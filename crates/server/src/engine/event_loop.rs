//! One event loop: a thread with its own runtime. It executes the control thread's orders and sweeps deadlines.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_local;

use super::crowd::{self, Ways};
use crate::accept::{self, AcceptThread, Supplied, Unstarted};
use crate::connection::{ConnectionLimits, PassingEntry, SWEEP_MS, Supply};
use crate::serve::{self, Service, code, explain, sql};
use crate::tls::Terms;
use crate::warm;
use millrace_base::context::{Swapped, WorkCount};

/// An order of the control thread.
pub enum LoopOrder {
    /// Accept from this socket, until the flag is set.
    Listen(Unstarted, watch::Receiver<bool>),
    /// The same in a crowd loop, which got the socket separately.
    Supplied(Supplied, watch::Receiver<bool>),
    /// Accept connections that a crowd loop passes on.
    TakeIn(PassingEntry),
    /// Fetch a page for the cache.
    Fetch(warm::Errand),
    /// Say why a page is or isn't cached.
    Explain(explain::Question),
    /// Stop going round for a while: a test of what tells of hung loops.
    Hang(Hang),
    /// Say when all work has ended that began before.
    Settle(Settle),
    /// Close idle connections, finish the others, and end; at `until`, end in any case.
    Drain {
        /// When the grace time ends.
        until: Instant,
    },
}

/// How an event loop hangs.
#[derive(Clone, Copy, Debug)]
pub struct Hang {
    /// How long; if it computes, in its own time on a processor.
    pub lasts: Duration,
    /// It computes; otherwise it sleeps.
    pub computes: bool,
}

impl Hang {
    fn hang(self) {
        if !self.computes {
            return std::thread::sleep(self.lasts);
        }
        let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
        let until = used() + self.lasts;
        while used() < until {}
    }
}

/// An order to wait for the work in progress.
pub struct Settle {
    /// For how long.
    pub patience: Duration,
    /// Receives what is open then; nothing, if all has ended earlier.
    pub done: oneshot::Sender<WorkCount>,
}

/// Threads that may wait for the disk instead of an event loop. A site whose disk does not respond keeps one or two.
const DISK_THREADS: usize = 16;

/// An event loop, as the control thread sees it.
pub struct EventLoop {
    orders: mpsc::UnboundedSender<LoopOrder>,
    /// Only for a crowd loop.
    supply: Option<Supply>,
    thread: JoinHandle<()>,
}

impl EventLoop {
    /// Gives an order; one that comes too late is ignored.
    pub fn order(&self, order: LoopOrder) {
        let _ = self.orders.send(order);
    }

    /// Makes it accept from a socket until the flag is set.
    ///
    /// # Errors
    /// A crowd loop does not accept the socket.
    pub fn listen(&self, socket: Unstarted, closed: watch::Receiver<bool>) -> io::Result<()> {
        self.order(match &self.supply {
            None => LoopOrder::Listen(socket, closed),
            Some(supply) => LoopOrder::Supplied(socket.supply(supply)?, closed),
        });
        Ok(())
    }

    /// Whether it is a crowd loop.
    pub fn is_crowd(&self) -> bool {
        self.supply.is_some()
    }

    /// Channel for orders, which may outlive this value.
    pub fn orders(&self) -> mpsc::UnboundedSender<LoopOrder> {
        self.orders.clone()
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Starts the event loops of the plan, and then `crowd` crowd loops, which together pass on as many connections as
/// `room` allows.
///
/// # Errors
/// No thread, runtime or descriptor is available.
pub fn start(
    service: &Arc<Service>,
    terms: &Arc<Swapped<Option<Terms>>>,
    crowd: usize,
    room: &Arc<ConnectionLimits>,
) -> io::Result<Vec<EventLoop>> {
    let server = service.setup().plan.server.clone();
    let mut loops = Vec::with_capacity(server.threads + crowd);
    for index in 0..server.threads {
        loops.push(start_one(index, service.clone(), terms.clone(), server.pin_threads)?);
    }
    for number in 0..crowd {
        let (event_loop, entry) =
            start_crowd(number, server.threads, crowd, service.clone(), terms.clone(), room.clone())?;
        loops[number % server.threads].order(LoopOrder::TakeIn(entry));
        loops.push(event_loop);
    }
    Ok(loops)
}

/// The runtime of an event loop. A local one spawns futures that are not Send by itself; a LocalSet would be a second
/// scheduler on top.
pub(super) fn runtime() -> io::Result<LocalRuntime> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().max_blocking_threads(DISK_THREADS).build_local(LocalOptions::default())
}

fn start_one(
    index: usize,
    service: Arc<Service>,
    terms: Arc<Swapped<Option<Terms>>>,
    pinned: bool,
) -> io::Result<EventLoop> {
    let (orders, inbox) = mpsc::unbounded_channel();
    let (started, has_started) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(format!("loop-{index}")).spawn(move || {
        if pinned {
            pin(index);
        }
        match runtime() {
            Ok(runtime) => {
                let _ = started.send(Ok(()));
                let loops = service.setup().plan.server.threads;
                runtime.block_on(live(AcceptThread::new(index, loops, service, terms, None), inbox));
            }
            Err(error) => drop(started.send(Err(error))),
        }
    })?;
    has_started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
    Ok(EventLoop { orders, supply: None, thread })
}

fn start_crowd(
    number: usize,
    threads: usize,
    crowd: usize,
    service: Arc<Service>,
    terms: Arc<Swapped<Option<Terms>>>,
    room: Arc<ConnectionLimits>,
) -> io::Result<(EventLoop, PassingEntry)> {
    let (orders, inbox) = mpsc::unbounded_channel();
    let (started, has_started) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(format!("crowd-{number}")).spawn(move || {
        match crowd::secede(&room) {
            Ok((runtime, Ways { exit, entry, supply })) => {
                let _ = started.send(Ok((entry, supply)));
                let thread = AcceptThread::new(threads + number, threads + crowd, service, terms, Some(exit));
                runtime.block_on(live(thread, inbox));
            }
            Err(error) => drop(started.send(Err(error))),
        }
    })?;
    let (entry, supply) = has_started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
    Ok((EventLoop { orders, supply: Some(supply), thread }, entry))
}

/// Binds the thread to one of the cores that the process may use. If that fails, it is only a little slower.
fn pin(index: usize) {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else { return };
    let cores: Vec<usize> =
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
    if cores.is_empty() {
        return;
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(cores[index % cores.len()]);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

async fn live(thread: Rc<AcceptThread>, mut inbox: mpsc::UnboundedReceiver<LoopOrder>) {
    spawn_local(sweep(thread.clone()));
    if thread.protocol.exit.is_none() {
        spawn_local(warm::refill(thread.protocol.serve.clone()));
        if thread.context.index == 0 {
            spawn_local(sql::watch(thread.protocol.serve.clone()));
            spawn_local(code::watch(thread.protocol.serve.clone()));
            spawn_local(serve::watch_applications(thread.protocol.serve.proxy.clone()));
        }
    }
    let mut accepting = Vec::new();
    while let Some(order) = inbox.recv().await {
        match order {
            LoopOrder::Listen(socket, closed) => match socket.start() {
                Ok(listener) => accepting.push(spawn_local(accept::accept(thread.clone(), listener, closed))),
                Err(error) => cannot_accept(&thread, &error),
            },
            LoopOrder::Supplied(supplied, closed) => {
                match thread.protocol.exit.as_ref().map(|exit| exit.listening()) {
                    Some(Ok(socket)) => match supplied.with(socket).start() {
                        Ok(listener) => {
                            accepting.push(spawn_local(accept::accept(thread.clone(), listener, closed)))
                        }
                        Err(error) => cannot_accept(&thread, &error),
                    },
                    Some(Err(error)) => cannot_accept(&thread, &error),
                    None => {}
                }
            }
            LoopOrder::TakeIn(entry) => drop(spawn_local(accept::take_in(thread.clone(), entry))),
            LoopOrder::Fetch(errand) => drop(spawn_local(warm::run(thread.protocol.serve.clone(), errand))),
            LoopOrder::Explain(question) => {
                drop(spawn_local(explain::run(thread.protocol.serve.clone(), question)))
            }
            LoopOrder::Hang(hang) => hang.hang(),
            LoopOrder::Settle(order) => drop(spawn_local(settle(thread.clone(), order))),
            LoopOrder::Drain { until } => {
                drain(&thread, accepting, until).await;
                break;
            }
        }
    }
    thread.context.access.flush(&thread.context);
}

fn cannot_accept(thread: &AcceptThread, error: &io::Error) {
    thread.context.process.log.error(format_args!("cannot accept connections: {error}"));
}

async fn settle(thread: Rc<AcceptThread>, Settle { patience, done }: Settle) {
    let open = match tokio::time::timeout(patience, thread.context.work.settle()).await {
        Ok(()) => WorkCount::default(),
        Err(_) => thread.context.work.count(),
    };
    // Pages that this work has purged are wanted again: their visits begin before the response.
    thread.context.rounds.notify_waiters();
    tokio::task::yield_now().await;
    thread.context.access.flush(&thread.context);
    // The asker may have gone.
    let _ = done.send(open);
}

async fn drain(thread: &Rc<AcceptThread>, accepting: Vec<tokio::task::JoinHandle<()>>, until: Instant) {
    for task in accepting {
        let _ = task.await;
    }
    while Instant::now() < until {
        thread.protocol.deadlines.end_idle();
        tokio::time::sleep(Duration::from_millis(10)).await;
        if thread.protocol.deadlines.is_empty() {
            break;
        }
    }
}

/// Ends connections whose deadline has passed, a few times a second.
async fn sweep(thread: Rc<AcceptThread>) {
    let mut tick = tokio::time::interval(Duration::from_millis(SWEEP_MS));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut setup = thread.protocol.serve.setup();
    loop {
        tick.tick().await;
        thread.context.pulse.beat();
        thread.context.clock.read();
        let now = thread.protocol.serve.setup();
        if !Rc::ptr_eq(&now, &setup) {
            setup = now;
            thread.protocol.deadlines.renew();
        }
        thread.protocol.deadlines.sweep(thread.context.clock.ticks());
        accept::give_way(&thread);
        accept::look_at_queues(&thread);
        thread.context.access.flush(&thread.context);
        thread.context.rounds.notify_waiters();
    }
}

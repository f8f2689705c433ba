//! One event loop: a thread with a runtime of its own. It obeys orders of the control thread and sweeps deadlines.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;

use super::deadlines::SWEEP_MS;
use super::thread::{Process, Thread};
use crate::accept::{self, Unstarted};
use crate::warm;

/// What the control thread wants of an event loop.
pub enum Order {
    /// Accept from this socket, until the flag is set.
    Listen(Unstarted, watch::Receiver<bool>),
    /// Fetch a page for the cache.
    Fetch(warm::Errand),
    /// Close what is idle, finish the rest, and end; at `until` whatever is left.
    Drain {
        /// When patience ends.
        until: Instant,
    },
}

/// Threads that may wait for the disk in the place of an event loop.
const DISK_THREADS: usize = 4;

/// An event loop, as the control thread sees it.
pub struct EventLoop {
    orders: mpsc::UnboundedSender<Order>,
    thread: JoinHandle<()>,
}

impl EventLoop {
    /// Gives an order; one that comes too late is not missed by anybody.
    pub fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    /// Where to send orders to, for somebody who outlives this.
    pub fn orders(&self) -> mpsc::UnboundedSender<Order> {
        self.orders.clone()
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Starts as many event loops as the process's plan says.
///
/// # Errors
/// No thread or runtime can be had.
pub fn start(process: &Arc<Process>) -> io::Result<Vec<EventLoop>> {
    let server = process.setup().plan.server.clone();
    (0..server.threads).map(|index| start_one(index, process.clone(), server.pin_threads)).collect()
}

fn start_one(index: usize, process: Arc<Process>, pinned: bool) -> io::Result<EventLoop> {
    let (orders, inbox) = mpsc::unbounded_channel();
    let (started, has_started) = std::sync::mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name(format!("loop-{index}")).spawn(move || {
        if pinned {
            pin(index);
        }
        // A local runtime spawns what is not Send by itself; a LocalSet would be a second scheduler on top.
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(DISK_THREADS)
            .build_local(LocalOptions::default());
        match runtime {
            Ok(runtime) => {
                let _ = started.send(Ok(()));
                runtime.block_on(live(Thread::new(index, process), inbox));
            }
            Err(error) => drop(started.send(Err(error))),
        }
    })?;
    has_started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))?;
    Ok(EventLoop { orders, thread })
}

/// Binds the thread to one of the cores that the process may use. Without that it is only a little slower.
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

async fn live(thread: Rc<Thread>, mut inbox: mpsc::UnboundedReceiver<Order>) {
    spawn_local(sweep(thread.clone()));
    spawn_local(warm::refill(thread.clone()));
    let mut accepting = Vec::new();
    while let Some(order) = inbox.recv().await {
        match order {
            Order::Listen(socket, closed) => match socket.start() {
                Ok(listener) => accepting.push(spawn_local(accept::accept(thread.clone(), listener, closed))),
                Err(error) => thread.process.log.error(format_args!("cannot accept connections: {error}")),
            },
            Order::Fetch(errand) => drop(spawn_local(warm::run(thread.clone(), errand))),
            Order::Drain { until } => {
                drain(&thread, accepting, until).await;
                break;
            }
        }
    }
    thread.access.flush(&thread);
}

async fn drain(thread: &Rc<Thread>, accepting: Vec<tokio::task::JoinHandle<()>>, until: Instant) {
    for task in accepting {
        let _ = task.await;
    }
    while Instant::now() < until {
        thread.deadlines.end_idle();
        tokio::time::sleep(Duration::from_millis(10)).await;
        if thread.deadlines.is_empty() {
            break;
        }
    }
}

/// Looks a few times a second for connections whose patience has ended.
async fn sweep(thread: Rc<Thread>) {
    let mut tick = tokio::time::interval(Duration::from_millis(SWEEP_MS));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut setup = thread.setup();
    loop {
        tick.tick().await;
        thread.clock.read();
        let now = thread.setup();
        if !Rc::ptr_eq(&now, &setup) {
            setup = now;
            thread.deadlines.renew();
        }
        thread.deadlines.sweep(thread.clock.ticks());
        thread.access.flush(&thread);
    }
}

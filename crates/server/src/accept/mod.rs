//! Accepts connections: listening sockets, one set per thread, and the limits on the number of connections.

//!
//! `handshake.rs` encrypts a connection, `room.rs` makes room when there is none.

mod given;
mod handshake;
mod listener;
mod room;
mod take_in;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

pub use given::GivenSockets;
pub use listener::{Listener, Supplied, Unstarted, bind, look_at_queues};
pub use room::give_way;
pub use take_in::take_in;
use tokio::sync::watch;

use crate::connection::{Accepted, ClientStream, Exit};
use crate::protocol::{self, ProtocolThread};
use crate::serve::{ServeThread, Service};
use crate::tls::Terms;
use handshake::Handshakes;
use millrace_base::context::stats::Counter;
use millrace_base::context::{Context, Swapped};
use millrace_base::message::request::{Ends, Scheme};
use room::Lack;

/// An event loop's part for accepting connections.
#[derive(Debug)]
pub struct AcceptThread {
    /// The event loop's part for everything else.
    pub context: Rc<Context>,
    /// Its part for existing connections.
    pub protocol: Rc<ProtocolThread>,
    /// Handshakes in progress.
    handshakes: Handshakes,
    /// The sockets from which its connections come.
    listeners: RefCell<Vec<Weak<Listener>>>,
    /// All idle connections have been closed: no search for one before this time, in ticks of its clock.
    nobody_idle_until: Cell<u64>,
    /// The terms of encrypted connections in force.
    terms: Arc<Swapped<Option<Terms>>>,
}

impl AcceptThread {
    /// For event loop `index` of `loops`; with an `exit`, for a crowd loop.
    pub fn new(
        index: usize,
        loops: usize,
        service: Arc<Service>,
        terms: Arc<Swapped<Option<Terms>>>,
        exit: Option<Exit>,
    ) -> Rc<AcceptThread> {
        let serve = ServeThread::new(index, loops, service, exit.is_some());
        let known = terms.clone();
        let covers = move |name: &str, host: &str| {
            known.get().as_ref().as_ref().is_none_or(|terms| terms.covers(name, host))
        };
        Rc::new(AcceptThread {
            context: serve.context.clone(),
            protocol: ProtocolThread::new(serve, exit.map(Rc::new), Box::new(covers)),
            handshakes: Handshakes::default(),
            listeners: RefCell::default(),
            nobody_idle_until: Cell::new(0),
            terms,
        })
    }
}

/// Pause of a thread that can't accept.
const PAUSE: Duration = Duration::from_millis(50);
/// The same after it has closed idle connections: they must end first.
const SHORT_PAUSE: Duration = Duration::from_millis(2);

/// Accepts connections and passes each to its protocol, until `closed` is set; then accepts the ones that already
/// wait.
pub async fn accept(thread: Rc<AcceptThread>, listener: Listener, closed: watch::Receiver<bool>) {
    let listener = Rc::new(listener);
    thread.listeners.borrow_mut().push(Rc::downgrade(&listener));
    accept_all(thread, listener, closed).await;
}

async fn accept_all(thread: Rc<AcceptThread>, listener: Rc<Listener>, mut closed: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            biased;
            _ = closed.wait_for(|c| *c) => break,
            () = accept_one(&thread, &listener) => {}
        }
    }
    // Connections in this socket's queue would be reset with it: SO_REUSEPORT does not move them.
    while let Ok(Some((stream, ends))) = listener.try_accept() {
        start(&thread, &listener, stream, ends);
    }
}

async fn accept_one(thread: &Rc<AcceptThread>, listener: &Listener) {
    if let Some(pause) = has_to_wait(thread, listener) {
        return tokio::time::sleep(pause).await;
    }
    if listener.is_secure {
        thread.handshakes.less_than(thread.protocol.serve.setup().plan.https.handshakes).await;
    }
    match listener.accept().await {
        Ok((stream, ends)) => start(thread, listener, stream, ends),
        Err(error) => rest_after(thread, &error).await,
    }
}

/// How long the next connection stays in the kernel's queue before the next check; `None`: it is accepted, if only
/// for a 503 response.
fn has_to_wait(thread: &AcceptThread, listener: &Listener) -> Option<Duration> {
    if listener.limits.is_full() {
        // A configured limit is meant as it is; if descriptors are the limit, idle connections make room.
        let frees = listener.limits.is_natural() && room::free_descriptors(thread) > 0;
        return Some(if frees { SHORT_PAUSE } else { PAUSE });
    }
    (listener.limits.is_at_shed_limit() && !room::make_room(thread)).then_some(PAUSE)
}

fn start(thread: &Rc<AcceptThread>, listener: &Listener, stream: ClientStream, ends: Ends) {
    let Some(permit) = listener.limits.admit(ends.client_ip()) else {
        return thread.context.stats.add(Counter::ConnectionsRefused, 1);
    };
    thread.context.stats.add(Counter::ConnectionsAccepted, 1);
    let permit = match room::make_room(thread) {
        true => permit,
        false => {
            thread.context.stats.add(Counter::ConnectionsShed, 1);
            permit.for_shedding()
        }
    };
    let permit = permit.charged(&thread.context.process.budget);
    match stream {
        ClientStream::Tcp(socket) if listener.is_secure => handshake::begin(thread, socket, ends, permit),
        stream => protocol::start(&thread.protocol, Accepted { stream, ends, permit }),
    }
}

/// A client that has gone before it was accepted is no reason to pause; a lack of descriptors or memory is: idle
/// connections are closed, and others will end.
async fn rest_after(thread: &AcceptThread, error: &io::Error) {
    let Some(lack) = Lack::of(error) else {
        if error.kind() != io::ErrorKind::ConnectionAborted {
            // The next attempt would probably fail in the same way.
            tokio::time::sleep(SHORT_PAUSE).await;
        }
        return;
    };
    let cure = match lack {
        Lack::Descriptors => {
            thread.context.stats.add(Counter::AcceptNoDescriptors, 1);
            "raise the limit of open files (ulimit -n, LimitNOFILE=, fs.file-max), or lower server.connections"
        }
        Lack::Memory => {
            thread.context.stats.add(Counter::AcceptNoMemory, 1);
            "the kernel is out of memory for connections: lower server.connection_memory, or raise net.ipv4.tcp_mem"
        }
    };
    // The log limits repeated messages.
    thread.context.process.log.warn(format_args!(
        "cannot accept a connection: {error}; closing idle connections to make room; {cure}"
    ));
    let pause = if room::free_descriptors(thread) > 0 { SHORT_PAUSE } else { PAUSE };
    tokio::time::sleep(pause).await;
}

/// The ends of a fresh TCP connection.
fn tcp_ends(stream: &tokio::net::TcpStream, client: std::net::SocketAddr) -> Ends {
    Ends { client: Some(client), local: stream.local_addr().ok(), scheme: Scheme::Http, tls: None }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use millrace_settings::plan::Address;
    use rustix::io::Errno;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::task::{LocalSet, spawn_local};

    use super::*;
    use crate::connection::{ConnectionLimits, Most};
    use crate::serve::{Setup, SiteWorkers};
    use millrace_base::context::Process;
    use millrace_base::context::budget::PLAIN_BYTES;
    use millrace_base::context::log::Log;
    use millrace_base::context::stats::Registry;
    use millrace_base::site::Site;

    struct Stage {
        thread: Rc<AcceptThread>,
        listener: Rc<Listener>,
        address: SocketAddr,
        /// Accepts until it is dropped.
        _closed: watch::Sender<bool>,
    }

    impl Stage {
        /// An event loop that accepts connections with this much memory. Its first attempts return `faults`.
        fn new(memory: u64, faults: &[Errno]) -> Stage {
            let source =
                millrace_settings::Source { site_dir: Some("/proc/self/task".into()), ..Default::default() };
            let (mut plan, _) = millrace_settings::load(&source).unwrap();
            plan.server.connection_memory = memory;
            let site = Site::new(0, plan.sites[0].clone());
            let process = Process::new(Registry::new(1), Log::quiet(), memory);
            let setup = Setup::new(plan.into(), vec![SiteWorkers { site, service: None, persistent: None }]);
            let cache = crate::cache::PageCache::new(0, 1);
            let service = Service::new(process, setup, cache);
            let thread = AcceptThread::new(0, 1, service, Swapped::new(Arc::new(None)), None);
            thread.protocol.deadlines.set_idle(50);
            let limits = ConnectionLimits::new(Most { connections: 100, ..Most::default() });
            let any = Address::Tcp("127.0.0.1:0".parse().unwrap());
            let socket = bind(&any, 1, 16, &limits, false, &GivenSockets::default()).unwrap().remove(0);
            let address = socket.local_addr().unwrap();
            let listener = Rc::new(socket.start().unwrap());
            listener.faults.borrow_mut().extend(faults);
            let (closer, closed) = watch::channel(false);
            spawn_local(accept_all(thread.clone(), listener.clone(), closed));
            Stage { thread, listener, address, _closed: closer }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.address).await.unwrap()
        }

        fn count(&self, counter: Counter) -> u64 {
            self.thread.context.process.stats.value(counter)
        }
    }

    fn play<F: Future<Output = ()>>(scene: impl FnOnce() -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async { scene().await });
    }

    /// The status of the response to a request; 0: the connection has ended without one.
    async fn ask(client: &mut TcpStream) -> u16 {
        let _ = client.write_all(b"GET /none HTTP/1.1\r\nHost: a\r\n").await;
        finish(client).await
    }

    /// The same if the head's last line is missing.
    async fn finish(client: &mut TcpStream) -> u16 {
        let _ = client.write_all(b"\r\n").await;
        let mut head = [0; 2000];
        match client.read(&mut head).await {
            Ok(read) if read > 12 => std::str::from_utf8(&head[9..12]).unwrap().parse().unwrap(),
            _ => 0,
        }
    }

    /// Longer than the minimum idle time.
    async fn a_while() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    #[test]
    fn whatever_accept_says_the_next_is_served() {
        use Errno as E;
        play(async || {
            let lacks = [E::MFILE, E::NFILE, E::NOBUFS, E::NOMEM, E::NOSPC];
            let stage = Stage::new(0, &[&lacks[..], &[E::CONNABORTED, E::PERM]].concat());
            assert_eq!(ask(&mut stage.connect().await).await, 404);
            assert_eq!(stage.count(Counter::AcceptNoDescriptors), 2);
            assert_eq!(stage.count(Counter::AcceptNoMemory), 3);
        });
    }

    #[test]
    fn for_want_of_descriptors_idle_connections_are_closed() {
        play(async || {
            let stage = Stage::new(0, &[]);
            let mut idle = stage.connect().await;
            assert_eq!(ask(&mut idle).await, 404);
            a_while().await;
            stage.listener.faults.borrow_mut().push_back(Errno::MFILE);
            let mut new = stage.connect().await;
            assert_eq!(idle.read(&mut [0; 10]).await.unwrap(), 0, "the idle one ends");
            assert_eq!(ask(&mut new).await, 404, "the new one is served");
            assert_eq!(stage.count(Counter::ConnectionsGaveWay), 1);
            assert_eq!(ask(&mut stage.connect().await).await, 404);
        });
    }

    #[test]
    fn an_idle_connection_is_closed_and_without_one_the_new_one_is_shed() {
        play(async || {
            let stage = Stage::new(3 * PLAIN_BYTES, &[]);
            let mut first = stage.connect().await;
            assert_eq!(ask(&mut first).await, 404);
            a_while().await;
            // These are in the middle of a request, and can't be idle however slow the machine is.
            let mut others = [stage.connect().await, stage.connect().await];
            for other in &mut others {
                other.write_all(b"GET /none HTTP/1.1\r\n").await.unwrap();
            }
            while stage.count(Counter::ConnectionsReading) < 2 {
                tokio::task::yield_now().await;
            }
            // The memory is used up, and one is idle.
            let mut fourth = stage.connect().await;
            assert_eq!(first.read(&mut [0; 10]).await.unwrap(), 0, "the idlest ends");
            fourth.write_all(b"GET /none HTTP/1.1\r\n").await.unwrap();
            while stage.count(Counter::ConnectionsReading) < 3 {
                tokio::task::yield_now().await;
            }
            let mut shed_one = stage.connect().await;
            assert_eq!(ask(&mut shed_one).await, 503);
            assert_eq!(shed_one.read(&mut [0; 10]).await.unwrap(), 0);
            for other in others.iter_mut().chain([&mut fourth]) {
                other.write_all(b"Host: a\r\n").await.unwrap();
                assert_eq!(finish(other).await, 404, "who was there before is served");
            }
            let counts = [Counter::ConnectionsGaveWay, Counter::ConnectionsShed].map(|c| stage.count(c));
            assert_eq!(counts, [1, 1]);
        });
    }
}

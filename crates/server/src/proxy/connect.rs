//! Connections to applications. Idle ones belong to the event loop that made them: nothing is shared or locked.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use millrace_settings::plan::{AppAddress, AppUrl, Proxy};
use tokio::net::{TcpStream, UnixStream};

use super::application::{Application, Applications};
use super::h2::LinkPool;
use super::stream::AppStream;
use millrace_base::context::Context;
use millrace_base::context::stats::Counter;

/// Idle connections that have ended at the other end are noticed this often.
const SWEEP: Duration = Duration::from_secs(5);
/// An idle connection is closed after this time, milliseconds: firewalls forget idle connections.
const LONGEST_IDLE_MS: u64 = 60_000;

/// An event loop's part for applications.
#[derive(Debug)]
pub struct ProxyThread {
    /// The event loop's part for everything else.
    pub context: Rc<Context>,
    /// What all event loops know of them.
    pub shared: Arc<Applications>,
    known: RefCell<Vec<Rc<KnownApplication>>>,
    /// A task looks for idle connections that have ended.
    sweeps: Cell<bool>,
}

/// An application, and its idle connections, the one used last at the end.
#[derive(Debug)]
pub struct KnownApplication {
    /// The application.
    pub shared: Arc<Application>,
    idle: RefCell<Vec<AppConnection>>,
    /// Connections that requests share.
    pub links: LinkPool,
}

/// A connection to an application.
#[derive(Debug)]
pub struct AppConnection {
    /// Its socket.
    pub stream: AppStream,
    /// It has carried a request: it may have been closed at the other end before the next one arrives there.
    pub is_used: bool,
    /// When it became idle, a tick of the thread's clock.
    idle_since: u64,
    /// Counts it.
    pub open: Opened,
}

/// Counts a connection while it is open.
#[derive(Debug)]
pub struct Opened(Arc<Application>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl ProxyThread {
    /// The part of an event loop.
    pub fn new(context: &Rc<Context>, shared: &Arc<Applications>) -> Rc<ProxyThread> {
        let (known, sweeps) = Default::default();
        Rc::new(ProxyThread { context: context.clone(), shared: shared.clone(), known, sweeps })
    }

    /// The copy of the application to ask next; `tried`: those that have failed, which are preferred least.
    pub fn choose(&self, proxy: &Proxy, tried: &[Arc<Application>]) -> Rc<KnownApplication> {
        let now = self.shared.at(self.context.clock.now());
        let rank = |application: &Rc<KnownApplication>| {
            let times = tried.iter().filter(|tried| Arc::ptr_eq(tried, &application.shared)).count();
            (times, application.shared.load(now))
        };
        let all = proxy.to.iter().map(|url| self.known(proxy, url));
        // The settings have at least one.
        all.min_by_key(rank).expect("an application")
    }

    /// The application at `url` of this proxy, as this event loop knows it.
    pub fn known(&self, proxy: &Proxy, url: &AppUrl) -> Rc<KnownApplication> {
        let mut known = self.known.borrow_mut();
        if let Some(known) = known.iter().find(|known| known.shared.is(proxy, url)) {
            return known.clone();
        }
        let shared = self.shared.get(proxy, url);
        let (idle, links) = Default::default();
        let new = Rc::new(KnownApplication { shared, idle, links });
        known.push(new.clone());
        new
    }

    /// An idle connection to the application that is still open; `None`: there is none.
    pub fn idle(&self, application: &KnownApplication) -> Option<AppConnection> {
        loop {
            let mut connection = application.idle.borrow_mut().pop()?;
            if connection.stream.is_alive() {
                return Some(connection);
            }
        }
    }

    /// A new connection for HTTP/1.1.
    ///
    /// # Errors
    /// [`ConnectError`]: it could not be made.
    pub async fn connect(
        &self,
        application: &KnownApplication,
        proxy: &Proxy,
    ) -> Result<AppConnection, ConnectError> {
        let connecting = self.socket(application, false);
        tokio::time::timeout(proxy.connect_timeout, connecting).await.map_err(|_| ConnectError::Late)?
    }

    /// A new connection, however long it takes; `http2`: for HTTP/2.
    ///
    /// # Errors
    /// [`ConnectError`]: it could not be made.
    pub async fn socket(
        &self,
        application: &KnownApplication,
        http2: bool,
    ) -> Result<AppConnection, ConnectError> {
        let shared = &application.shared;
        shared.open.fetch_add(1, Relaxed);
        let open = Opened(shared.clone());
        let connected = connect(shared, http2).await;
        self.context.clock.read();
        let stream = connected.map_err(ConnectError::refused)?;
        self.context.stats.add(Counter::ProxyConnections, 1);
        Ok(AppConnection { stream, is_used: false, idle_since: 0, open })
    }

    /// A connection can take another request.
    pub fn keep(self: &Rc<Self>, application: &KnownApplication, most: usize, connection: AppConnection) {
        let mut idle = application.idle.borrow_mut();
        if idle.len() >= most {
            return;
        }
        idle.push(AppConnection { is_used: true, idle_since: self.context.clock.ticks(), ..connection });
        self.begin_sweeps();
    }

    /// There is a connection that may become too old.
    pub fn begin_sweeps(self: &Rc<Self>) {
        if !self.sweeps.replace(true) {
            tokio::task::spawn_local(sweep(self.clone()));
        }
    }
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub enum ConnectError {
    /// It took too long.
    Late,
    /// It was refused, TLS failed, or it speaks no HTTP/2.
    Refused(Rc<io::Error>),
}

impl ConnectError {
    /// It was refused.
    pub fn refused(error: io::Error) -> ConnectError {
        ConnectError::Refused(Rc::new(error))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Late => f.write_str("connecting took too long (proxy.connect_timeout)"),
            ConnectError::Refused(error) => write!(f, "cannot connect: {error}"),
        }
    }
}

async fn connect(application: &Application, http2: bool) -> io::Result<AppStream> {
    let (host, port) = match &application.url.address {
        AppAddress::Unix(path) => return UnixStream::connect(path).await.map(AppStream::Unix),
        AppAddress::Tcp(host, port) => (host, *port),
    };
    let socket = TcpStream::connect((host.as_str(), port)).await?;
    socket.set_nodelay(true)?;
    if !application.url.tls {
        return Ok(AppStream::Tcp(socket));
    }
    let trust = application.trust().map_err(io::Error::other)?;
    let mut stream = Box::new(trust.outgoing(host, socket, http2)?);
    poll_fn(|cx| stream.poll_handshake(cx)).await?;
    if http2 && !stream.speaks_http2() {
        return Err(io::Error::other("it does not agree to HTTP/2 (ALPN h2): remove proxy.http, or let it"));
    }
    Ok(AppStream::Tls(stream))
}

/// Closes idle connections that have ended at the other end, or are old, while there are any.
async fn sweep(thread: Rc<ProxyThread>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        thread.context.clock.read();
        let now = thread.context.clock.ticks();
        let mut left = 0;
        for application in &*thread.known.borrow() {
            let mut idle = application.idle.borrow_mut();
            idle.retain_mut(|one| one.idle_since + LONGEST_IDLE_MS > now && one.stream.is_alive());
            left += idle.len() + application.links.sweep(now.saturating_sub(LONGEST_IDLE_MS));
        }
        if left == 0 {
            return thread.sweeps.set(false);
        }
    }
}

//! Connections to applications. Idle ones belong to the event loop that made them: nothing is shared or locked.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use millrace_settings::plan::{AppAddress, AppUrl, Proxy};
use tokio::net::{TcpStream, UnixStream};

use super::application::{Application, Applications};
use super::stream::AppStream;
use crate::context::Context;
use crate::context::stats::Counter;

/// Idle connections that have ended at the other end are noticed this often.
const SWEEP: Duration = Duration::from_secs(5);
/// An idle connection is closed after this time, milliseconds: firewalls forget idle connections.
const LONGEST_IDLE_MS: u64 = 60_000;

/// An event loop's part for applications.
#[derive(Debug)]
pub struct ProxyThread {
    context: Rc<Context>,
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
    _open: Opened,
}

/// Counts a connection while it is open.
#[derive(Debug)]
struct Opened(Arc<Application>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl Deref for ProxyThread {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
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
        let now = self.shared.at(self.clock.now());
        let rank = |application: &Rc<KnownApplication>| {
            let times = tried.iter().filter(|tried| Arc::ptr_eq(tried, &application.shared)).count();
            (times, application.shared.load(now))
        };
        let all = proxy.to.iter().map(|url| self.known(proxy, url));
        // The settings have at least one.
        all.min_by_key(rank).expect("an application")
    }

    fn known(&self, proxy: &Proxy, url: &AppUrl) -> Rc<KnownApplication> {
        let mut known = self.known.borrow_mut();
        if let Some(known) = known.iter().find(|known| known.shared.is(proxy, url)) {
            return known.clone();
        }
        let new = Rc::new(KnownApplication { shared: self.shared.get(proxy, url), idle: RefCell::default() });
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

    /// A new connection.
    ///
    /// # Errors
    /// [`ConnectError`]: it could not be made.
    pub async fn connect(
        &self,
        application: &KnownApplication,
        proxy: &Proxy,
    ) -> Result<AppConnection, ConnectError> {
        let shared = &application.shared;
        shared.open.fetch_add(1, Relaxed);
        let open = Opened(shared.clone());
        let connected = tokio::time::timeout(proxy.connect_timeout, connect(shared)).await;
        self.clock.read();
        let stream = connected.map_err(|_| ConnectError::Late)?.map_err(ConnectError::Refused)?;
        self.stats.add(Counter::ProxyConnections, 1);
        Ok(AppConnection { stream, is_used: false, idle_since: 0, _open: open })
    }

    /// A connection can take another request.
    pub fn keep(self: &Rc<Self>, application: &KnownApplication, most: usize, connection: AppConnection) {
        let mut idle = application.idle.borrow_mut();
        if idle.len() >= most {
            return;
        }
        idle.push(AppConnection { is_used: true, idle_since: self.clock.ticks(), ..connection });
        if !self.sweeps.replace(true) {
            tokio::task::spawn_local(sweep(self.clone()));
        }
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// It took too long.
    Late,
    /// It was refused, or TLS failed.
    Refused(io::Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Late => f.write_str("connecting took too long (proxy.connect_timeout)"),
            ConnectError::Refused(error) => write!(f, "cannot connect: {error}"),
        }
    }
}

async fn connect(application: &Application) -> io::Result<AppStream> {
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
    let mut stream = Box::new(trust.outgoing(host, socket)?);
    poll_fn(|cx| stream.poll_handshake(cx)).await?;
    Ok(AppStream::Tls(stream))
}

/// Closes idle connections that have ended at the other end, or are old, while there are any.
async fn sweep(thread: Rc<ProxyThread>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        thread.clock.read();
        let now = thread.clock.ticks();
        let mut left = 0;
        for application in &*thread.known.borrow() {
            let mut idle = application.idle.borrow_mut();
            idle.retain_mut(|one| one.idle_since + LONGEST_IDLE_MS > now && one.stream.is_alive());
            left += idle.len();
        }
        if left == 0 {
            return thread.sweeps.set(false);
        }
    }
}

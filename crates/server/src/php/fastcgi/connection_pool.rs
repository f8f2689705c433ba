//! What an event loop keeps: connections that lie idle, for each pool; and its keeper, a task that looks after all
//! connections of the loop several times a second.

use std::cell::RefCell;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::backends::{FastcgiOpening, FastcgiShared, Grant};
use super::capacity;
use super::connection::{FastcgiConnection, Loose, WatchedSocket};
use crate::php::PhpThread;

/// How often the keeper looks: how late a time limit may come.
const LOOK: Duration = Duration::from_millis(250);
/// Nothing has come over a new connection for so long, though others lie idle: all processes may be taken by those.
const STARVED_MS: u64 = 1_000;

/// All connections of an event loop, for each pool that has had any.
#[derive(Debug, Default)]
pub struct ConnectionPool {
    locals: RefCell<Vec<Rc<Local>>>,
}

/// Those of one pool.
#[derive(Debug)]
pub struct Local {
    shared: Arc<FastcgiShared>,
    /// The loop's number.
    thread: usize,
    /// The one that became idle last stands last and is taken first: the others grow old and can be closed.
    idle: RefCell<Vec<FastcgiConnection>>,
    /// For requests that have waited for one: their number, and the connection.
    reserved: RefCell<Vec<(u64, FastcgiConnection)>>,
    sockets: RefCell<Vec<Weak<WatchedSocket>>>,
    called: Arc<Notify>,
}

impl ConnectionPool {
    /// The connections of this loop to these backends.
    pub fn local(thread: &Rc<PhpThread>, shared: &Arc<FastcgiShared>) -> Rc<Local> {
        let mut locals = thread.fastcgi.locals.borrow_mut();
        if let Some(local) = locals.iter().find(|local| Arc::ptr_eq(&local.shared, shared)) {
            return local.clone();
        }
        let local = Rc::new(Local {
            shared: shared.clone(),
            thread: thread.index,
            idle: RefCell::default(),
            reserved: RefCell::default(),
            sockets: RefCell::default(),
            called: Arc::default(),
        });
        locals.push(local.clone());
        shared.add_keeper(local.called.clone());
        tokio::task::spawn_local(keep(thread.clone(), local.clone()));
        local
    }

    fn forget(&self, local: &Rc<Local>) {
        self.locals.borrow_mut().retain(|other| !Rc::ptr_eq(other, local));
    }
}

/// The keeper's work.
async fn keep(thread: Rc<PhpThread>, local: Rc<Local>) {
    loop {
        if local.sockets.borrow().is_empty() {
            local.called.notified().await;
        } else {
            // Called or not, it looks.
            let _ = tokio::time::timeout(LOOK, local.called.notified()).await;
        }
        thread.clock.read();
        local.look(local.shared.at(thread.clock.now()));
        if local.shared.is_retired() && local.sockets.borrow().is_empty() {
            return thread.fastcgi.forget(&local);
        }
    }
}

impl Local {
    /// An idle connection, to the backend that has least to do of those that this loop has one to.
    pub fn take(&self) -> Option<FastcgiConnection> {
        let mut idle = self.idle.borrow_mut();
        let load = |connection: &FastcgiConnection| self.shared.backends[connection.backend()].load();
        let best = match self.shared.backends.len() {
            1 => idle.len().checked_sub(1),
            _ => (0..idle.len()).rev().min_by_key(|at| load(&idle[*at])),
        }?;
        self.shared.count_kept(false);
        Some(idle.swap_remove(best))
    }

    /// Whether one of several backends has less to do than any that this loop has an idle connection to.
    pub fn is_one_sided(&self) -> bool {
        let up = self.shared.backends.iter().filter(|backend| backend.is_up());
        let Some(least) = up.map(|backend| backend.load().0).min() else { return false };
        let idle = self.idle.borrow();
        let mut loads = idle.iter().map(|connection| self.shared.backends[connection.backend()].load().0);
        loads.all(|load| load > least)
    }

    /// Closes one that lies idle, for another that is made in its place.
    pub fn exchange_one(&self) -> Option<FastcgiOpening> {
        let mut idle = self.idle.borrow_mut();
        if idle.is_empty() {
            return None;
        }
        self.shared.count_kept(false);
        Some(idle.remove(0).close())
    }

    /// Closes all that lie idle to a backend: they are no good any more.
    pub fn close_all(&self, backend: usize) {
        let closed: Vec<_> =
            self.idle.borrow_mut().extract_if(.., |connection| connection.backend() == backend).collect();
        closed.iter().for_each(|_| self.shared.count_kept(false));
    }

    /// The one that is reserved for a request that has waited.
    pub fn take_reserved(&self, id: u64) -> Option<FastcgiConnection> {
        let mut reserved = self.reserved.borrow_mut();
        let at = reserved.iter().position(|(other, _)| *other == id)?;
        Some(reserved.swap_remove(at).1)
    }

    /// Looks after a connection that has just been made.
    pub fn adopt(&self, connection: &FastcgiConnection) {
        let mut sockets = self.sockets.borrow_mut();
        if sockets.is_empty() {
            self.called.notify_one();
        }
        sockets.push(Rc::downgrade(&connection.socket));
    }

    /// Takes over a connection of another loop.
    ///
    /// # Errors
    /// The loop can't watch one more.
    pub fn take_over(&self, loose: Loose) -> io::Result<FastcgiConnection> {
        let connection = FastcgiConnection::on_this_loop(loose)?;
        self.adopt(&connection);
        Ok(connection)
    }

    /// A request is over: its connection goes to the next who waits, or is kept, or closed.
    pub fn give_back(&self, mut connection: FastcgiConnection, now: u64) {
        if !connection.end(now) || self.shared.is_retired() {
            return;
        }
        let backend = &self.shared.backends[connection.backend()];
        if let Some(seen) = backend.see_most(now) {
            self.shared.tell_most(connection.backend(), seen);
        }
        // Where a page takes a second, a new connection costs nothing.
        if backend.is_crowded() || !backend.is_up() || backend.is_starved(now, STARVED_MS) {
            return;
        }
        if self.shared.waiting() > 0 {
            self.shared.served(now, connection.took(now));
        }
        self.keep(connection, now);
    }

    /// Gives a connection that nobody uses to the next who waits, or keeps it.
    pub fn keep(&self, mut connection: FastcgiConnection, now: u64) {
        let backend = &self.shared.backends[connection.backend()];
        connection.idle_since = now;
        let Some(connection) = self.pass_on(connection) else { return };
        if backend.is_starved(now, 0) {
            // Its process may be what the new one waits for.
            return;
        }
        self.idle.borrow_mut().push(connection);
        self.shared.count_kept(true);
        // Whoever began to wait before that was counted has not seen it.
        self.serve_waiting();
    }

    /// Gives idle connections to who waits.
    fn serve_waiting(&self) {
        while self.shared.waiting() > 0 {
            let Some(connection) = self.idle.borrow_mut().pop() else { return };
            self.shared.count_kept(false);
            if let Some(connection) = self.pass_on(connection) {
                self.idle.borrow_mut().push(connection);
                self.shared.count_kept(true);
            }
        }
    }

    /// Gives a connection to the next who waits; it is there again if nobody does.
    fn pass_on(&self, mut connection: FastcgiConnection) -> Option<FastcgiConnection> {
        while let Some((thread, wake)) = self.shared.next(Some(self.thread)) {
            if thread != self.thread {
                // If he has gone meanwhile it is closed.
                let loose = connection.loose()?;
                let _ = wake.sender.send(Grant::Loose(Box::new(loose)));
                return None;
            }
            self.reserved.borrow_mut().push((wake.id, connection));
            if wake.sender.send(Grant::Reserved).is_ok() {
                return None;
            }
            connection = self.take_reserved(wake.id)?;
        }
        Some(connection)
    }

    /// Looks at all connections.
    fn look(&self, now: u64) {
        let silence = self.shared.settings.fastcgi_read_timeout.as_millis() as u64;
        self.sockets.borrow_mut().retain(|socket| {
            let Some(socket) = socket.upgrade() else { return false };
            let over = |since: u64, limit: u64| since != 0 && since + limit <= now;
            let late =
                over(socket.deadline.get(), 0) || silence != 0 && over(socket.silent_since.get(), silence);
            if late && !socket.is_late() {
                socket.shut_down();
            }
            true
        });
        let limit = self.shared.settings.idle_timeout.as_millis() as u64;
        let retired = self.shared.is_retired();
        let mut closed: Vec<FastcgiConnection> = self
            .idle
            .borrow_mut()
            .extract_if(.., |c| retired || c.idle_since + limit <= now || !c.is_alive())
            .collect();
        closed.extend(self.starving(now));
        closed.iter().for_each(|_| self.shared.count_kept(false));
        drop(closed);
        self.serve_waiting();
        self.shared.backends.iter().for_each(|backend| backend.forget_old(now));
        if let Some(backend) = self.shared.to_be_tried(now) {
            tokio::task::spawn_local(capacity::probe(self.shared.clone(), backend));
        }
    }

    /// One idle connection to a backend that does not answer new ones, or has more than it takes.
    fn starving(&self, now: u64) -> Option<FastcgiConnection> {
        let mut idle = self.idle.borrow_mut();
        let at = idle.iter().position(|connection| {
            let backend = &self.shared.backends[connection.backend()];
            backend.is_crowded() || backend.is_starved(now, STARVED_MS)
        })?;
        Some(idle.remove(at))
    }
}

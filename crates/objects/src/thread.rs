//! The thread of the object cache: the sites' sockets, and a task for each connection.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{io, thread};

use millrace_settings::plan;
use tokio::net::UnixListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinHandle, JoinSet, LocalSet, spawn_local};

use super::board::{ObjectBoard, ObjectFigures};
use super::connection::{self, FrameBudget};
use super::place::{self, Place, Wanted};
use super::remote::RemoteObjects;
use super::store::{ObjectStore, SiteId};
use super::{Order, Prepared, protocol};
use millrace_base::context::log::Log;

/// Interval at which a place that another server has is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(200);
/// Interval at which a place is tried again after an error.
const AFTER_ERROR: Duration = Duration::from_secs(5);
/// Interval at which figures are written for the status.
const WRITE_FIGURES: Duration = Duration::from_millis(200);
/// Maximum connections of a site.
const CONNECTIONS: usize = 1024;

/// What all tasks of the thread share.
pub struct Shared {
    /// The objects.
    pub store: RefCell<ObjectStore>,
    /// Memory for frames that are being received or sent.
    pub budget: FrameBudget,
    /// The log.
    pub log: Log,
    board: Arc<ObjectBoard>,
    began: Instant,
}

impl Shared {
    /// Milliseconds since the thread's start.
    pub fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Maximum length of a frame.
    pub fn frame_bytes(&self) -> usize {
        self.store.borrow().value_bytes() + protocol::FRAME_ROOM
    }
}

/// A site that is served.
pub struct ServedSite {
    /// Its number in the store.
    pub id: SiteId,
    /// Its figures.
    pub figures: RefCell<ObjectFigures>,
    /// The file of lost reports.
    pub lost: RefCell<place::Lost>,
    /// Its objects, if they are on another server.
    pub remote: Option<RemoteObjects>,
    wanted: Wanted,
    shared: Rc<Shared>,
}

impl ServedSite {
    /// Changes the figures.
    pub fn count(&self, change: impl FnOnce(&mut ObjectFigures)) {
        change(&mut self.figures.borrow_mut());
    }
}

impl Drop for ServedSite {
    fn drop(&mut self) {
        self.shared.store.borrow_mut().close(self.id);
        self.shared.board.forget(&self.wanted.socket);
    }
}

/// Starts the thread.
///
/// # Errors
/// As the system says.
pub fn start(log: &Log, board: &Arc<ObjectBoard>) -> io::Result<UnboundedSender<Order>> {
    let (orders, taken) = unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (log, board) = (log.clone(), board.clone());
    thread::Builder::new().name("objects".to_owned()).spawn(move || {
        // Microseconds since 1970, so that the clocks of a restarted server are higher than the old one's.
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let store = ObjectStore::new(0, 0, u64::try_from(clock).unwrap_or(1) & (u64::MAX >> 2));
        let shared =
            Shared { store: store.into(), budget: FrameBudget::default(), log, board, began: Instant::now() };
        LocalSet::new().block_on(&runtime, obey(taken, Rc::new(shared)));
    })?;
    Ok(orders)
}

async fn obey(mut orders: UnboundedReceiver<Order>, shared: Rc<Shared>) {
    let mut tasks: BTreeMap<PathBuf, (Wanted, JoinHandle<()>)> = BTreeMap::new();
    while let Some(order) = orders.recv().await {
        match order {
            Order::Serve(Prepared { limits, wanted }, done) => {
                serve(&shared, &mut tasks, &limits, wanted).await;
                let _ = done.send(());
            }
            Order::Stop(done) => {
                for (_, task) in std::mem::take(&mut tasks).into_values() {
                    end(task).await;
                }
                let _ = done.send(());
                return;
            }
        }
    }
}

async fn serve(
    shared: &Rc<Shared>,
    tasks: &mut BTreeMap<PathBuf, (Wanted, JoinHandle<()>)>,
    limits: &plan::ObjectCache,
    wanted: Vec<Wanted>,
) {
    shared.store.borrow_mut().set_limits(limits.memory, limits.value_bytes);
    let gone: Vec<PathBuf> =
        tasks.iter().filter(|(_, (old, _))| !wanted.contains(old)).map(|(path, _)| path.clone()).collect();
    for path in gone {
        if let Some((_, task)) = tasks.remove(&path) {
            end(task).await;
        }
    }
    for wanted in wanted {
        if !tasks.contains_key(&wanted.socket) {
            let first = attempt(&wanted, shared, true);
            let task = spawn_local(serve_site(wanted.clone(), first, shared.clone()));
            tasks.insert(wanted.socket.clone(), (wanted, task));
        }
    }
}

/// Ends a site's task, and waits until its socket is gone.
async fn end(task: JoinHandle<()>) {
    task.abort();
    let _ = task.await;
}

/// The place, or how long to wait for it. The log says why once.
fn attempt(wanted: &Wanted, shared: &Shared, is_first: bool) -> Result<Place, Duration> {
    match place::take(wanted) {
        Ok(Some(place)) => Ok(place),
        Ok(None) => Err(TRY_AGAIN),
        Err(error) => {
            if is_first {
                let shown = wanted.socket.display();
                shared.log.warn(format_args!(
                    "no object cache at {shown}: {error}; set object_cache.dir to another directory"
                ));
            }
            Err(AFTER_ERROR)
        }
    }
}

async fn serve_site(wanted: Wanted, mut attempted: Result<Place, Duration>, shared: Rc<Shared>) {
    if attempted.as_ref().is_err_and(|pause| *pause == TRY_AGAIN) {
        let shown = wanted.socket.display();
        shared.log.info(format_args!(
            "another Millrace has the object cache {shown}: its objects are used until it ends"
        ));
    }
    let place = loop {
        match attempted {
            Ok(place) => break place,
            Err(pause) => tokio::time::sleep(pause).await,
        }
        attempted = attempt(&wanted, &shared, false);
    };
    let Place { listener, lost, file } = place;
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            shared.log.error(format_args!("cannot listen at {}: {error}", wanted.socket.display()));
            return;
        }
    };
    let remote = remote(&wanted, &lost, &shared.log);
    let id = shared.store.borrow_mut().open();
    let site = Rc::new(ServedSite {
        id,
        figures: RefCell::default(),
        lost: lost.into(),
        remote,
        wanted,
        shared: shared.clone(),
    });
    accept(&listener, &site, &shared).await;
    drop(file);
}

/// The objects of a site that are on another server. Changes of which it has not heard are reason for a flush.
fn remote(wanted: &Wanted, lost: &place::Lost, log: &Log) -> Option<RemoteObjects> {
    let name = wanted.socket.file_stem()?.to_string_lossy();
    let remote = RemoteObjects::new(wanted, wanted.server.as_ref()?, &name, log);
    if !lost.is_settled(&remote.identity()) {
        remote.must_flush();
    }
    Some(remote)
}

/// Accepts until the task is aborted, which ends the connections, too.
async fn accept(listener: &UnixListener, site: &Rc<ServedSite>, shared: &Rc<Shared>) {
    let mut connections = JoinSet::new();
    let mut write_figures = tokio::time::interval(WRITE_FIGURES);
    let mut written = None;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let user = stream.peer_cred().map(|peer| peer.uid());
                    if user.is_ok_and(|user| site.wanted.users.contains(&user)) && connections.len() < CONNECTIONS {
                        connections.spawn_local(connection::serve(stream, site.clone(), shared.clone()));
                    } else {
                        site.count(|figures| figures.refused_connections += 1);
                    }
                }
                // Out of descriptors: others need the next free one more.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
            _ = write_figures.tick() => {
                site.count(|figures| {
                    figures.connections = connections.len() as u64;
                    figures.set(shared.store.borrow().usage(site.id));
                    figures.server = site.remote.as_ref().map(RemoteObjects::figures);
                });
                let figures = site.figures.borrow().clone();
                if written.as_ref() != Some(&figures) {
                    written = Some(figures.clone());
                    shared.board.write(&site.wanted.socket, figures);
                }
            }
        }
    }
}

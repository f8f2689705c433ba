//! The object cache: what WordPress has read from its database, for the next request, WP-CLI and cron.
//!
//! ```text
//!  PHP worker --\
//!  WP-CLI -------> socket of the site -> connection -> protocol -> store
//!  cron --------/                         (bounds)                 (values: no I/O, no clock)
//! ```
//!
//! The drop-in `php/object-cache/object-cache.php` is the client. One thread owns all of it, so an object needs no lock and
//! a frame of operations is carried out as a whole. The data ends with the process. A site whose drop-in is not installed costs
//! a socket that nobody opens.
//!
//! With `object_cache.redis` or `object_cache.memcached`, another server has the objects: `remote.rs` passes the frames to `redis/`, which has
//! a script on the server carry them out, or to `memcached/`, which carries them out here, on copies of the objects concerned.
//!
//! A change that a client could not report, although this process lives, is noted in the site's file of lost reports
//! ([`place::Lost`]); it is looked at before each frame.

mod board;
mod connection;
mod memcached;
mod place;
mod protocol;
mod redis;
mod remote;
mod store;
mod stream;
mod thread;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use millrace_settings::{Plan, plan};
use tokio::sync::mpsc::UnboundedSender;

use millrace_base::context::Process;
use millrace_base::context::log::Log;

pub use board::{MemcachedFigures, ObjectBoard, ObjectFigures, ServerFigures};
use place::Wanted;

/// How long to wait for the thread: it only binds sockets.
const PATIENCE: Duration = Duration::from_secs(5);

/// The thread of the object cache, as others see it.
#[derive(Debug)]
pub struct Objects {
    orders: Option<UnboundedSender<Order>>,
    /// Figures for the status and the metrics.
    pub board: Arc<ObjectBoard>,
}

/// The sites of a plan, with their files.
#[derive(Debug)]
pub struct Prepared {
    limits: plan::ObjectCache,
    wanted: Vec<Wanted>,
}

/// An order to the thread; it answers when it is done.
#[derive(Debug)]
enum Order {
    /// Serve these sites with these limits.
    Serve(Prepared, Sender<()>),
    /// Remove the sockets and end.
    Stop(Sender<()>),
}

impl Objects {
    /// Starts the thread for the sites of a plan. Called before PHP starts: a worker's sandbox opens the file of lost reports.
    pub fn start(plan: &Plan, process: &Arc<Process>) -> Objects {
        let board = Arc::<ObjectBoard>::default();
        let orders = match thread::start(&process.log, &board) {
            Ok(orders) => Some(orders),
            Err(error) => {
                process
                    .log
                    .error(format_args!("cannot start the object cache: {error}; every lookup is a miss"));
                None
            }
        };
        let objects = Objects { orders, board };
        objects.serve(objects.prepare(plan, &process.log));
        objects
    }

    /// Makes the directory and the files of lost reports for the sites of a plan.
    pub fn prepare(&self, plan: &Plan, log: &Log) -> Prepared {
        let mut wanted: Vec<Wanted> = Vec::new();
        for site in &plan.sites {
            match wanted_by(site) {
                Ok(Some(new)) if wanted.iter().all(|other| other.socket != new.socket) => wanted.push(new),
                Ok(_) => {}
                Err(why) => log.warn(format_args!("no object cache for {}: {why}", site.root.display())),
            }
        }
        if !wanted.is_empty()
            && let Err(error) = place::make_directory(&plan.object_cache.dir)
        {
            log.warn(format_args!("no object cache: {}: {error}", plan.object_cache.dir.display()));
            wanted.clear();
        }
        for one in &wanted {
            if let Err(error) = place::make_lost(one) {
                log.warn(format_args!("cannot create {}: {error}", one.lost.display()));
            }
        }
        Prepared { limits: plan.object_cache.clone(), wanted }
    }

    /// Serves these sites from now on. Sites that stay keep their objects.
    pub fn serve(&self, prepared: Prepared) {
        self.order(|done| Order::Serve(prepared, done));
    }

    /// Removes the sockets. Clients find nothing from then on.
    pub fn stop(&self) {
        self.order(Order::Stop);
    }

    fn order(&self, order: impl FnOnce(Sender<()>) -> Order) {
        let (done, is_done) = channel();
        if let Some(orders) = &self.orders
            && orders.send(order(done)).is_ok()
        {
            let _ = is_done.recv_timeout(PATIENCE);
        }
    }
}

/// The object cache of a site that can use it.
pub fn used_by(site: &plan::Site) -> Option<&plan::SiteObjects> {
    site.objects.as_ref().filter(|_| site.profile == plan::Profile::WordPress)
}

/// What a site wants; an error is a sentence for the log.
fn wanted_by(site: &plan::Site) -> Result<Option<Wanted>, String> {
    let Some(objects) = used_by(site) else { return Ok(None) };
    let own = rustix::process::geteuid().as_raw();
    let account = |name: &str| millrace_sys::user(name).ok_or_else(|| format!("there is no user {name:?}"));
    let php = site.php.as_ref();
    let php_user = php.and_then(|php| php.user.as_deref()).map(account).transpose()?;
    let group = match php.and_then(|php| php.group.as_deref()) {
        Some(name) => {
            Some(millrace_sys::group_id(name).ok_or_else(|| format!("there is no group {name:?}"))?)
        }
        None => php_user.map(|user| user.gid),
    };
    let other = objects.user.as_deref().map(account).transpose()?;
    let root = root_owner(site).unwrap_or(own);
    let mut users = vec![0, own, root];
    users.extend(php_user.iter().chain(&other).map(|user| user.uid));
    users.sort_unstable();
    users.dedup();
    let php_uid = php_user.map_or(own, |user| user.uid);
    // The PHP user has access as owner or by its group, the other one as owner.
    let owner = match other {
        Some(other) => (other.uid, group.unwrap_or(other.gid)),
        None if php_user.is_none() || root == 0 => (php_uid, group.unwrap_or_else(own_group)),
        None => (root, group.unwrap_or_else(own_group)),
    };
    let owner = (own == 0).then_some(owner);
    Ok(Some(Wanted {
        socket: objects.socket.clone(),
        lost: objects.lost.clone(),
        owner,
        users,
        server: objects.server.clone(),
        redis_password: objects.redis_password.clone(),
        label: objects.label.clone(),
    }))
}

fn own_group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// The owner of the site's files could change its scripts, so it may do what its scripts may.
fn root_owner(site: &plan::Site) -> io::Result<u32> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(&site.root)?.uid())
}

//! Purges that PHP processes outside of Millrace leave in a file of the site: WP-CLI, the system's cron. `millrace hooks enable`
//! creates the folder and puts down the plugin that writes there (`php/outside`).
//!
//! ```text
//!   wp-content/.millrace/purges    lines in the grammar of the field Millrace-Purge; the server carries them out and empties the file
//!   wp-content/.millrace/running   the server that does so holds a lock on it
//! ```
//!
//! Writers and the server lock `purges` while they change it. The server reads it before it serves its first request, too: orders
//! wait there while it is down, and pages that outlived it on disk are purged. It empties the file only after the purges are
//! complete.
//!
//! The site's user owns the folder, and the server may be root. So the server follows no symbolic link to the folder or its files,
//! never waits for a lock, and reads a limited number of bytes. Sites with the same file - sites with the same root - all get
//! each order. So a user who makes a link to another site's file cannot take that site's orders away.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use millrace_settings::Plan;
use millrace_settings::plan::Profile;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open, openat};
use rustix::io::Errno;

use super::note;
use crate::cache::PageCache;
use millrace_base::context::{Process, ProcessStage, Swapped};

/// The folder below a site's root.
const FOLDER: &str = "wp-content/.millrace";
const PURGES: &str = "purges";
const RUNNING: &str = "running";
/// How often the file of a site is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How often it is looked for if a site has none.
const SEARCH: u32 = 50;
/// Bytes of orders in one reading. The plugin writes at most a quarter of this.
const MOST: u64 = 1 << 20;

/// The folders of all sites.
#[derive(Debug)]
pub struct LeftOrders {
    process: Arc<Process>,
    cache: Arc<PageCache>,
    folders: Vec<Folder>,
    looks: Arc<LeftLooks>,
}

/// Looks at the files of all sites: how many have begun and ended.
#[derive(Debug, Default)]
pub struct LeftLooks {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl LeftLooks {
    /// Waits until a look has ended that began after the call, if there are any files to look at.
    pub async fn settle(&self, process: &Process) {
        let wanted = self.begun.load(Ordering::Acquire) + 1;
        while wanted > 1
            && self.ended.load(Ordering::Acquire) < wanted
            && process.stage() == ProcessStage::Running
        {
            tokio::time::sleep(LOOK / 2).await;
        }
    }
}

/// The folder of one or more sites.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Names of the sites that it belongs to.
    sites: Vec<String>,
    open: Option<OpenFolder>,
    /// The same problem is reported once.
    problem: Option<String>,
}

/// The two files of a folder that this process has the lock of.
#[derive(Debug)]
struct OpenFolder {
    purges: File,
    /// Holds the lock.
    _running: File,
}

impl LeftOrders {
    /// For the sites of no configuration yet.
    pub fn new(process: Arc<Process>, cache: Arc<PageCache>) -> LeftOrders {
        LeftOrders { process, cache, folders: Vec::new(), looks: Arc::default() }
    }

    /// Its looks, for those who wait for them.
    pub fn looks(&self) -> Arc<LeftLooks> {
        self.looks.clone()
    }

    /// Takes over the sites of a configuration, and carries out what waits for them.
    pub fn take_over(&mut self, plan: &Plan) {
        let mut folders: Vec<Folder> = Vec::new();
        for site in plan.sites.iter().filter(|site| site.profile == Profile::WordPress) {
            let name = site.names.first().cloned().unwrap_or_default();
            let path = site.root.join(FOLDER);
            match folders.iter_mut().find(|folder| folder.path == path) {
                Some(folder) => folder.sites.push(name),
                None => folders.push(Folder { path, sites: vec![name], open: None, problem: None }),
            }
        }
        for folder in &mut folders {
            if let Some(old) = self.folders.iter_mut().find(|old| old.path == folder.path) {
                (folder.open, folder.problem) = (old.open.take(), old.problem.take());
            }
        }
        self.folders = folders;
        self.look(true);
    }

    /// Starts the thread that looks until the server shuts down.
    pub fn attend(mut self, plan: Arc<Swapped<Plan>>, known: u64) {
        let log = self.process.log.clone();
        let (mut known, mut turn) = (known, 0_u32);
        let thread = thread::Builder::new().name("left-purges".to_owned()).spawn(move || {
            while self.process.stage() == ProcessStage::Running {
                let is_any = self.folders.iter().any(|folder| folder.open.is_some());
                thread::sleep(if is_any { LOOK } else { LOOK * SEARCH });
                turn = if is_any { (turn + 1) % SEARCH } else { 0 };
                if plan.generation() != known {
                    known = plan.generation();
                    self.take_over(&plan.get());
                }
                // Without a file, a look comes late and finds nothing.
                let counts = is_any.then(|| self.looks.begun.fetch_add(1, Ordering::AcqRel) + 1);
                self.look(turn == 0);
                if let Some(number) = counts {
                    self.looks.ended.store(number, Ordering::Release);
                }
            }
        });
        if let Err(error) = thread {
            log.error(format_args!("purges of WP-CLI and cron are not read: cannot start a thread: {error}"));
        }
    }

    /// Carries out what waits; `search`: also looks for folders that are new, or have been replaced.
    fn look(&mut self, search: bool) {
        for at in 0..self.folders.len() {
            let Err(error) = self.look_at(at, search) else { continue };
            let (folder, text) = (&mut self.folders[at], error.to_string());
            folder.open = None;
            if folder.problem.as_ref() != Some(&text) {
                self.process.log.warn(format_args!(
                    "cannot read the purges of WP-CLI and cron in {}: {text}; give the user that the server runs as access to it, or \
                     run `millrace hooks disable` there",
                    folder.path.display()
                ));
                folder.problem = Some(text);
            }
        }
    }

    fn look_at(&mut self, at: usize, search: bool) -> io::Result<()> {
        let folder = &mut self.folders[at];
        if search && !folder.open.as_ref().is_some_and(|open| open.is_at(&folder.path)) {
            folder.open = OpenFolder::new(&folder.path)?;
        }
        let Some(open) = &folder.open else { return Ok(()) };
        folder.problem = None;
        let size = open.purges.metadata()?.len();
        if size == 0 || !is_locked(&open.purges)? {
            return Ok(());
        }
        let mut orders = if size > MOST { b"hard, *\n".to_vec() } else { Vec::new() };
        let read = (&open.purges)
            .seek(SeekFrom::Start(0))
            .and_then(|_| (&open.purges).take(MOST).read_to_end(&mut orders));
        self.carry_out(at, &orders);
        let Some(open) = &self.folders[at].open else { return Ok(()) };
        let emptied = read.and_then(|_| open.purges.set_len(0));
        flock(&open.purges, FlockOperation::Unlock)?;
        emptied
    }

    /// Sites have the same file if it is the same, whatever its path.
    fn carry_out(&self, at: usize, orders: &[u8]) {
        let file = |folder: &Folder| number(&folder.path.join(PURGES));
        let here = file(&self.folders[at]);
        let orders =
            || orders.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|order| !order.is_empty());
        let same =
            |(other, folder): &(usize, &Folder)| *other == at || (here.is_some() && file(folder) == here);
        for (_, folder) in self.folders.iter().enumerate().filter(same) {
            for site in &folder.sites {
                for order in orders().filter(|order| !self.cache.hear_written(site, order)) {
                    let pages = self.cache.purge_as_told(site, site, order);
                    let host = if site.is_empty() { "any host" } else { site };
                    let sender = format_args!("a PHP process outside of Millrace ({host})");
                    let shown = order[..order.len().min(200)].escape_ascii();
                    note(&self.process.stats, &self.process.log, &sender, &shown, pages);
                }
            }
        }
    }
}

impl OpenFolder {
    /// Opens the files and takes the lock. `None`: there is no folder, or another server has the lock.
    fn new(path: &Path) -> io::Result<Option<OpenFolder>> {
        let dir = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = match open(path, OFlags::RDONLY | dir, Mode::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let owner = fstat(&folder)?.st_uid;
        let file = |name, how| {
            let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let file = File::from(openat(&folder, name, flags, Mode::empty())?);
            let data = file.metadata()?;
            if !data.is_file() {
                return Err(io::Error::other(format!("{name} is no file")));
            }
            // It will be emptied: a second name of another user's file is not.
            if data.uid() != owner || data.nlink() != 1 {
                return Err(io::Error::other(format!(
                    "{name} is not the folder's own: it belongs to another user, or has another name"
                )));
            }
            Ok(file)
        };
        let (purges, running) = (file(PURGES, OFlags::RDWR)?, file(RUNNING, OFlags::RDONLY)?);
        Ok(is_locked(&running)?.then_some(OpenFolder { purges, _running: running }))
    }

    /// Whether the folder still has this file.
    fn is_at(&self, path: &Path) -> bool {
        let mine = self.purges.metadata().ok().map(|data| (data.dev(), data.ino()));
        mine.is_some() && number(&path.join(PURGES)) == mine
    }
}

/// Locks a file, unless another process has it locked.
fn is_locked(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Device and number of a file.
fn number(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_base::context::log::Log;
    use millrace_base::context::stats::Registry;
    use millrace_settings::Source;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A site with a folder, and what reads it.
    fn scene(name: &str) -> (PathBuf, LeftOrders) {
        let root = std::env::temp_dir().join(format!("millrace-left-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join(FOLDER)).unwrap();
        fs::write(root.join(FOLDER).join(PURGES), "").unwrap();
        fs::write(root.join(FOLDER).join(RUNNING), "").unwrap();
        let process = Process::new(Registry::new(1), Log::quiet(), 0);
        (root, LeftOrders::new(process, PageCache::new(1 << 20, 1)))
    }

    fn plan(root: &Path) -> Plan {
        let source = Source { site_dir: Some(root.to_owned()), ..Source::default() };
        let (mut plan, _) = millrace_settings::load(&source).unwrap();
        plan.sites[0].profile = Profile::WordPress;
        plan
    }

    fn orders(left: &LeftOrders) -> u64 {
        left.process.stats.purges().orders
    }

    #[test]
    fn what_waits_is_carried_out_at_the_start_and_later() {
        let (root, mut left) = scene("waits");
        let purges = root.join(FOLDER).join(PURGES);
        fs::write(&purges, "soft, post-1\n\nhard, *\n").unwrap();
        left.take_over(&plan(&root));
        assert_eq!((orders(&left), fs::read(&purges).unwrap().len()), (2, 0));
        fs::write(&purges, "soft, post-2\n").unwrap();
        let writer = File::open(&purges).unwrap();
        flock(&writer, FlockOperation::LockExclusive).unwrap();
        left.look(false);
        assert_eq!(orders(&left), 2, "read while a process writes");
        drop(writer);
        left.look(false);
        assert_eq!((orders(&left), fs::read(&purges).unwrap().len()), (3, 0));
        // More than the plugin ever writes: everything.
        fs::write(&purges, vec![b'\n'; MOST as usize + 1]).unwrap();
        left.look(false);
        assert_eq!((orders(&left), fs::read(&purges).unwrap().len()), (4, 0));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn one_server_reads_a_folder_and_follows_it_when_it_is_replaced() {
        let (root, mut left) = scene("one");
        let folder = root.join(FOLDER);
        left.take_over(&plan(&root));
        let mut other = LeftOrders::new(left.process.clone(), left.cache.clone());
        other.take_over(&plan(&root));
        assert!(left.folders[0].open.is_some() && other.folders[0].open.is_none());
        fs::remove_dir_all(&folder).unwrap();
        left.look(true);
        assert!(left.folders[0].open.is_none() && left.folders[0].problem.is_none());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(RUNNING), "").unwrap();
        fs::write(folder.join(PURGES), "soft, a\n").unwrap();
        left.look(true);
        assert_eq!(orders(&left), 1);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn links_and_other_things_are_not_read() {
        let (root, mut left) = scene("links");
        let (folder, elsewhere) = (root.join(FOLDER), root.join("elsewhere"));
        fs::rename(&folder, &elsewhere).unwrap();
        fs::write(elsewhere.join(PURGES), "hard, *\n").unwrap();
        symlink(&elsewhere, &folder).unwrap();
        left.take_over(&plan(&root));
        assert_eq!((orders(&left), left.folders[0].open.is_none()), (0, true));
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(RUNNING), "").unwrap();
        symlink(elsewhere.join(PURGES), folder.join(PURGES)).unwrap();
        left.look(true);
        assert_eq!((orders(&left), left.folders[0].problem.is_some()), (0, true));
        fs::remove_file(folder.join(PURGES)).unwrap();
        fs::create_dir(folder.join(PURGES)).unwrap();
        left.look(true);
        assert_eq!((orders(&left), left.folders[0].open.is_none()), (0, true));
        assert_eq!(fs::read(elsewhere.join(PURGES)).unwrap(), b"hard, *\n");
        fs::remove_dir_all(&root).unwrap();
    }
}

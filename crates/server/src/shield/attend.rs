//! What the shield reads from disk and writes there: lists of banned networks, networks of crawlers, and the bans that outlive the
//! process. A thread looks at the directories every two seconds.

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memchr::memmem;
use millrace_settings::Plan;
use millrace_shield::list::{self, List};
use millrace_shield::{Bans, Networks};

use super::{Shield, ShieldView};
use millrace_base::context::{ProcessStage, Swapped};

/// How often bans are written, if they have changed.
const LOOK: Duration = Duration::from_millis(200);
/// How often the directories are looked at, in looks.
const FILES: u32 = 10;
/// Larger files are not read, bytes.
const MOST: u64 = 64 << 20;
/// A list of a crawler's networks that is older is reported: their operators change them.
const OLD: Duration = Duration::from_secs(90 * 24 * 3600);

/// The networks of a crawler.
#[derive(Clone, Debug)]
pub struct CrawlerList {
    /// Its name in `User-Agent`, in lower case: the name of its file.
    pub(super) name: Box<str>,
    /// When the list was made, as it says itself.
    pub(super) date: Option<String>,
    /// Its networks.
    pub(super) networks: Networks<()>,
    /// The domains of its host names.
    pub(super) domains: Vec<Box<str>>,
}

impl CrawlerList {
    /// Whether a client with this `User-Agent`, in lower case, says that it is this crawler.
    pub(super) fn is_named_in(&self, agent: &[u8]) -> bool {
        memmem::find(agent, self.name.as_bytes()).is_some()
    }

    /// Whether the address is one of the crawler's.
    pub(super) fn has(&self, address: IpAddr) -> bool {
        self.networks.find(address, |()| true).is_some()
    }
}

/// The files of a directory, by which a change is noticed: path, number, time, size.
type Signature = Vec<(PathBuf, u64, i64, i64, u64)>;

/// What has been read.
struct Attendant {
    shield: Arc<Shield>,
    lists: (Option<PathBuf>, Signature),
    crawlers: (Option<PathBuf>, Signature),
    state_file: Option<PathBuf>,
    /// The directory that could not be read at the last look: reported once.
    unreadable: Option<PathBuf>,
}

/// Reads bans, lists and crawlers, and starts the thread that keeps them current until the server shuts down.
pub fn attend(shield: &Arc<Shield>, plan: Arc<Swapped<Plan>>) {
    let mut attendant = Attendant {
        shield: shield.clone(),
        lists: Default::default(),
        crawlers: Default::default(),
        state_file: plan.get().shield.state_file.clone(),
        unreadable: None,
    };
    attendant.load_bans();
    attendant.look(&plan.get());
    let process = shield.process.clone();
    let thread = thread::Builder::new().name("shield".to_owned()).spawn(move || {
        let mut turn = 0;
        while attendant.shield.process.stage() == ProcessStage::Running {
            thread::sleep(LOOK);
            turn = (turn + 1) % FILES;
            attendant.write_bans(&plan.get());
            if turn == 0 {
                // The disk may have room again.
                if attendant.shield.is_unsaved.load(Ordering::Relaxed) {
                    attendant.shield.is_dirty.store(true, Ordering::Relaxed);
                }
                attendant.look(&plan.get());
            }
        }
        attendant.write_bans(&plan.get());
    });
    if let Err(error) = thread {
        process.log.error(format_args!("shield: changed lists are not read: cannot start a thread: {error}"));
    }
}

impl Attendant {
    fn load_bans(&self) {
        let Some(path) = &self.state_file else { return };
        let log = &self.shield.process.log;
        match read(path) {
            Ok(text) => {
                let now = unix_time();
                let (bans, problems) = Bans::from_text(&text, now);
                for problem in problems {
                    log.warn(format_args!("shield: {}: {problem}", path.display()));
                }
                let mut own = self.shield.bans();
                *own = bans;
                self.shield.publish(&own, now);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => log.error(format_args!(
                "shield: cannot read the bans in {}: {error}; make it readable for the server's user",
                path.display()
            )),
        }
    }

    /// Writes the bans, if they have changed or the file is another one.
    fn write_bans(&mut self, plan: &Plan) {
        let is_other = self.state_file != plan.shield.state_file;
        self.state_file.clone_from(&plan.shield.state_file);
        let is_dirty = self.shield.is_dirty.swap(false, Ordering::Relaxed);
        if is_dirty || is_other {
            let _ = self.shield.save(self.state_file.as_deref());
        }
    }

    /// Reads directories that have changed, and ends bans.
    fn look(&mut self, plan: &Plan) {
        let now = unix_time();
        let bans = self.shield.bans();
        if bans.in_force(now).len() != self.shield.view.get().banned.len() {
            self.shield.publish(&bans, now);
        }
        drop(bans);
        if let Some(paths) = self.changed(plan.shield.lists.as_ref(), |attendant| &mut attendant.lists) {
            let mut listed = Networks::default();
            for (path, list) in self.read_all(&paths) {
                if let Some(domain) = list.domains.first() {
                    self.shield.process.log.warn(format_args!(
                        "shield: {}: a list of bans has no domains: *.{domain} and the like are left out; write networks",
                        path.display()
                    ));
                }
                for entry in list.entries.into_iter().filter(|entry| entry.until > now) {
                    listed.insert(entry.network, entry.until);
                }
            }
            self.shield.process.log.info(format_args!(
                "shield: {} networks in {} lists of bans",
                listed.len(),
                paths.len()
            ));
            let listed = Arc::new(listed);
            self.renew(|view| ShieldView { listed, ..view });
        }
        if let Some(paths) = self.changed(plan.shield.crawlers.as_ref(), |attendant| &mut attendant.crawlers)
        {
            let crawlers =
                self.read_all(&paths).into_iter().filter_map(|(path, list)| self.crawler(&path, list));
            let crawlers = Arc::new(crawlers.collect::<Vec<_>>());
            self.renew(|view| ShieldView { crawlers, ..view });
        }
    }

    /// Has all threads see another view. With the lock of the bans, as all changes.
    fn renew(&self, change: impl FnOnce(ShieldView) -> ShieldView) {
        let _bans = self.shield.bans();
        let view = change((*self.shield.view.get()).clone());
        self.shield.view.replace(Arc::new(view));
    }

    /// The files of a directory, if they are not those of the last look.
    fn changed(
        &mut self,
        dir: Option<&PathBuf>,
        of: impl Fn(&mut Attendant) -> &mut (Option<PathBuf>, Signature),
    ) -> Option<Vec<PathBuf>> {
        let signature = match dir.map_or(Ok(Vec::new()), |dir| signature(dir)) {
            Ok(signature) => signature,
            // What has been read stays in force.
            Err(error) => {
                if self.unreadable.as_ref() != dir {
                    self.unreadable = dir.cloned();
                    let dir = dir.map(|dir| dir.display().to_string()).unwrap_or_default();
                    self.shield.process.log.error(format_args!(
                        "shield: cannot read {dir}: {error}; its networks stay in force as they were"
                    ));
                }
                return None;
            }
        };
        let new = (dir.cloned(), signature);
        let known = of(self);
        if *known == new {
            return None;
        }
        *known = new;
        Some(known.1.iter().map(|(path, ..)| path.clone()).collect())
    }

    fn read_all(&self, paths: &[PathBuf]) -> Vec<(PathBuf, List)> {
        let log = &self.shield.process.log;
        let mut lists = Vec::new();
        for path in paths {
            match read(path) {
                Ok(text) => {
                    let list = list::parse(&text);
                    for problem in &list.problems {
                        log.warn(format_args!("shield: {}: {problem}; the line is left out", path.display()));
                    }
                    lists.push((path.clone(), list));
                }
                Err(error) => log.warn(format_args!("shield: cannot read {}: {error}", path.display())),
            }
        }
        lists
    }

    fn crawler(&self, path: &Path, list: List) -> Option<CrawlerList> {
        let name = path.file_stem()?.to_str()?.to_ascii_lowercase().into();
        let mut networks = Networks::default();
        for entry in list.entries {
            networks.insert(entry.network, ());
        }
        let age = fs::metadata(path).and_then(|file| file.modified()).ok();
        if age.and_then(|age| age.elapsed().ok()).is_some_and(|age| age > OLD) {
            self.shield.process.log.warn(format_args!(
                "shield: {} is older than 90 days; download the list again: new addresses of the crawler count as strangers",
                path.display()
            ));
        }
        Some(CrawlerList { name, date: list.date, networks, domains: list.domains })
    }
}

impl Shield {
    /// Writes the bans in force to the file in which they outlive the process. The log has the first of several failures.
    ///
    /// # Errors
    /// They are not stored: why, and what to do.
    pub(super) fn save(&self, path: Option<&Path>) -> Result<(), String> {
        let Some(path) = path else { return Ok(()) };
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let text = self.bans().to_text(unix_time());
        let folder = path.parent().unwrap_or(path);
        let written = millrace_sys::is_only_ours(folder).and_then(|()| replace(path, text.as_bytes()));
        let written = written.map_err(|error| {
            format!(
                "cannot write the bans to {}: {error}; they end with the process unless this is cured",
                path.display()
            )
        });
        let was_unsaved = self.is_unsaved.swap(written.is_err(), Ordering::Relaxed);
        match &written {
            Err(why) if !was_unsaved => self.process.log.error(format_args!("shield: {why}")),
            Ok(()) if was_unsaved => {
                self.process
                    .log
                    .info(format_args!("shield: the bans are stored in {} again", path.display()));
            }
            _ => {}
        }
        written
    }
}

/// Replaces a file. Its contents are on disk when this returns: a disk that is full may say so only then.
fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = fs::File::create(&new)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

fn signature(dir: &Path) -> io::Result<Signature> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        // A file may go at any time, and a link may lead nowhere.
        let Some(file) = fs::metadata(&path).ok().filter(|file| file.is_file() && !is_hidden) else {
            continue;
        };
        files.push((path, file.ino(), file.mtime(), file.mtime_nsec(), file.size()));
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> io::Result<String> {
    millrace_sys::read_regular_text(path, MOST)
}

/// Seconds since 1970.
pub(super) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

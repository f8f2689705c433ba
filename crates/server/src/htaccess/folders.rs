//! The files of folders, as an event loop knows them; and compiled files, which all loops share.

use std::io::Read;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use millrace_htaccess::folder::{LARGEST, starts_firewall};
use millrace_htaccess::{Effect, Folder};
use millrace_settings::plan::{self, Profile};
use rustix::io::Errno;
use tokio::sync::Semaphore;
use twox_hash::XxHash3_64;

use super::remembered::Verdicts;
use millrace_base::context::Context;
use millrace_base::context::log::Log;
use millrace_base::message::request::Ruling;
use millrace_base::site::{Reach, Site};

/// The name of the files.
const NAME: &str = ".htaccess";

/// Interval between comparisons of a folder's file with the disk, milliseconds: a change applies within a second.
pub const REVALIDATE: u64 = 500;

/// Maximum number of folders that an event loop remembers for a site. Clients can ask for any number of names.
const MOST_FOLDERS: usize = 10_000;

/// Maximum number of compiled files.
const MOST_FILES: usize = 10_000;

/// Maximum depth of folders whose files count.
const DEEPEST: usize = 64;

/// How often a file may change while a thread compiles it.
const MOST_CHANGES: usize = 4;

/// A file changed less than this before it was read may change again without another stamp, nanoseconds.
const FRESH: i128 = 2_000_000_000;

/// One state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RulesStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: i128,
    changed: i128,
}

impl RulesStamp {
    fn of(meta: &std::fs::Metadata) -> RulesStamp {
        let time = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        RulesStamp {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: time(meta.mtime(), meta.mtime_nsec()),
            changed: time(meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// A folder's file at its last comparison.
#[derive(Debug)]
struct KnownFolder {
    checked: u64,
    file: Option<StampedFolder>,
}

/// Rules with the state of their file; `None`: the file may change without another stamp.
type StampedFolder = (Option<RulesStamp>, Arc<Folder>);

/// Folders by path with a slash at the end.
type ByPath = HashMap<Box<[u8]>, KnownFolder>;

/// The folders of all sites that an event loop has looked at.
#[derive(Debug, Default)]
pub struct Folders {
    /// By position of the site.
    sites: Vec<SiteFolders>,
}

/// What an event loop knows about a site.
#[derive(Debug, Default)]
struct SiteFolders {
    identity: usize,
    folders: ByPath,
    verdicts: Verdicts<Arc<Ruling>>,
}

impl Folders {
    /// What is known about a site.
    fn site(&mut self, site: &Site) -> &mut SiteFolders {
        let identity = std::ptr::from_ref(site).addr();
        if self.sites.len() <= site.index {
            self.sites.resize_with(site.index + 1, Default::default);
        }
        let known = &mut self.sites[site.index];
        if known.identity != identity {
            *known = SiteFolders { identity, ..SiteFolders::default() };
        }
        known
    }

    /// The verdicts that are remembered for a site.
    pub fn verdicts(&mut self, site: &Site) -> &mut Verdicts<Arc<Ruling>> {
        &mut self.site(site).verdicts
    }

    /// Calls `see` for each folder on the way to `path` that has a file, outermost first.
    ///
    /// # Errors
    /// One of the files must be compiled first.
    pub fn each(
        &mut self,
        shared: &SharedFolders,
        context: &Context,
        site: &Site,
        path: &[u8],
        mut see: impl FnMut(usize, &Arc<Folder>),
    ) -> Result<(), Uncompiled> {
        let SiteFolders { folders, verdicts, .. } = self.site(site);
        if folders.len() > MOST_FOLDERS {
            folders.clear();
        }
        let now = context.clock.ticks();
        for end in folders_of(path) {
            let folder = &path[..end];
            match folders.get(folder) {
                Some(known) if now.saturating_sub(known.checked) < REVALIDATE => {
                    known.file.iter().for_each(|(_, folder)| see(end, folder));
                }
                known => {
                    let before = known.and_then(|known| known.file.clone());
                    let rules_before = before.as_ref().map(|(_, folder)| Arc::as_ptr(folder));
                    let (log, wall) = (&context.process.log, context.clock.unix_time().as_nanos());
                    let file = shared.read(log, wall, &site.reach, &name_of(&site.plan, folder), before)?;
                    if rules_before != file.as_ref().map(|(_, folder)| Arc::as_ptr(folder)) {
                        verdicts.clear();
                    }
                    let file = file.filter(|(_, folder)| !(end == 1 && is_superfluous(&site.plan, folder)));
                    file.iter().for_each(|(_, folder)| see(end, folder));
                    folders.insert(folder.into(), KnownFolder { checked: now, file });
                }
            }
        }
        Ok(())
    }
}

/// Whether the file of a site's root says what Millrace does without it: a hit from the page cache would take half as long again.
fn is_superfluous(site: &plan::Site, folder: &Folder) -> bool {
    folder.is_wordpress
        && site.profile == Profile::WordPress
        && site.try_files
        && site.front_controller.as_deref() == Some("/index.php")
}

/// The name of a folder's file.
fn name_of(site: &plan::Site, folder: &[u8]) -> PathBuf {
    let folder = std::ffi::OsStr::from_bytes(folder.strip_prefix(b"/").unwrap_or(folder));
    site.root.join(folder).join(NAME)
}

/// The ends of the folders on the way to a path, which may be one itself.
fn folders_of(path: &[u8]) -> impl Iterator<Item = usize> {
    let ends = memchr::memchr_iter(b'/', path).map(|at| at + 1);
    let last = (!path.ends_with(b"/")).then_some(path.len());
    ends.chain(last).take(DEEPEST)
}

/// Compiled files of all event loops.
#[derive(Debug, Default)]
pub struct SharedFolders {
    files: Mutex<HashMap<PathBuf, Compiled>>,
    /// By root of the site.
    turns: Mutex<HashMap<PathBuf, Arc<Semaphore>>>,
    threads: EvaluationThreads,
}

/// Places for evaluations beside the event loops.
#[derive(Debug)]
struct EvaluationThreads(Arc<Semaphore>);

impl Default for EvaluationThreads {
    fn default() -> EvaluationThreads {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        EvaluationThreads(Arc::new(Semaphore::new((cores / 2).max(1))))
    }
}

/// A file that must be compiled. That may take a second, so event loops leave it to another thread.
#[derive(Debug)]
pub struct Uncompiled(PathBuf, Reach);

/// A compiled file.
#[derive(Debug)]
struct Compiled {
    /// `None`: the file may change without another stamp, or can't be read.
    stamp: Option<RulesStamp>,
    /// A hash of its text, so that a file that is read again is neither compiled nor reported again.
    text: u64,
    folder: Arc<Folder>,
}

/// Lines of `.htaccess` files that are not applied as they are written.
#[derive(Debug, Default)]
pub struct UnappliedLines {
    /// Files that requests have used.
    pub files: usize,
    /// Ignored lines.
    pub ignored: usize,
    /// Lines that close what they cover - it is refused (403), or answered with 500 - or whose firewall is off.
    pub closing: usize,
    /// The first ones, as `FILE:LINE: TEXT`; those that close something first.
    pub lines: Vec<String>,
}

impl SharedFolders {
    /// What is not applied of the files that requests have used, as they were then; of those that are still there. Names at most `most` lines.
    pub fn unapplied(&self, most: usize) -> UnappliedLines {
        let files = self.files();
        let mut all = UnappliedLines { files: files.len(), ..UnappliedLines::default() };
        let has_findings = |(_, compiled): &(&PathBuf, &Compiled)| !compiled.folder.findings.is_empty();
        let found: Vec<(PathBuf, Arc<Folder>)> = files
            .iter()
            .filter(has_findings)
            .map(|(name, compiled)| (name.clone(), compiled.folder.clone()))
            .collect();
        drop(files);
        let mut lines: Vec<(bool, String)> = Vec::new();
        for (name, folder) in found.iter().filter(|(name, _)| name.exists()) {
            for finding in folder.findings.iter().filter(|finding| counts(name, finding.effect)) {
                let is_ignored = finding.effect == Effect::Ignored;
                *(if is_ignored { &mut all.ignored } else { &mut all.closing }) += 1;
                lines.push((is_ignored, format!("{}:{}: {}", name.display(), finding.line, finding.text)));
            }
        }
        lines.sort_unstable();
        all.lines = lines.into_iter().take(most).map(|(_, line)| line).collect();
        all
    }

    /// The file `name` in its current state, if it exists.
    ///
    /// # Errors
    /// It must be compiled first.
    fn read(
        &self,
        log: &Log,
        wall: u128,
        reach: &Reach,
        name: &Path,
        before: Option<StampedFolder>,
    ) -> Result<Option<StampedFolder>, Uncompiled> {
        let _rights = match reach.enter() {
            Ok(rights) => rights,
            Err(error) => return Ok(Some((None, self.unreadable(log, name, &error)))),
        };
        let meta = match std::fs::metadata(name) {
            Ok(meta) if meta.is_file() => meta,
            Ok(_) => return Ok(None),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => return Ok(None),
                // It can't be known whether there are rules.
                _ => return Ok(Some((None, self.unreadable(log, name, &error)))),
            },
        };
        let stamp = Some(RulesStamp::of(&meta));
        if let Some(before) = before.filter(|(known, _)| known.is_some() && *known == stamp) {
            return Ok(Some(before));
        }
        if let Some(known) = self.files().get(name).filter(|known| known.stamp == stamp) {
            return Ok(Some((stamp, known.folder.clone())));
        }
        let text = match read(name) {
            Ok(text) => text,
            Err(error) => return Ok(Some((None, self.unreadable(log, name, &error)))),
        };
        let hash = XxHash3_64::oneshot(&text);
        let wall = i128::try_from(wall).unwrap_or(i128::MAX);
        // A fresh file is read again until its stamp is final.
        let is_fresh = |stamp: &RulesStamp| wall - stamp.modified.max(stamp.changed) < FRESH;
        let stamp = stamp.filter(|stamp| !is_fresh(stamp));
        match self.files().get_mut(name).filter(|known| known.text == hash) {
            Some(known) => {
                known.stamp = stamp;
                Ok(Some((stamp, known.folder.clone())))
            }
            None => Err(Uncompiled(name.to_owned(), reach.clone())),
        }
    }

    /// The files on the way to a path, for a thread that may wait for the disk and compile; with the ends of their folders.
    pub fn all(
        &self,
        log: &Log,
        wall: u128,
        site: &plan::Site,
        reach: &Reach,
        path: &[u8],
    ) -> Vec<(usize, Arc<Folder>)> {
        let one = |end: usize| {
            let folder = self.current(log, wall, reach, &name_of(site, &path[..end]))?;
            (!(end == 1 && is_superfluous(site, &folder))).then_some((end, folder))
        };
        folders_of(path).filter_map(one).collect()
    }

    /// The file in its current state, compiled here if need be.
    fn current(&self, log: &Log, wall: u128, reach: &Reach, name: &Path) -> Option<Arc<Folder>> {
        for _ in 0..MOST_CHANGES {
            match self.read(log, wall, reach, name, None) {
                Ok(found) => return found.map(|(_, folder)| folder),
                Err(uncompiled) => self.compile(log, uncompiled),
            }
        }
        Some(self.unreadable(log, name, &std::io::Error::other("it changes all the time")))
    }

    /// Compiles a file, unless that has been done meanwhile, and keeps it, without a stamp: the next look at it finds its text here.
    pub fn compile(&self, log: &Log, Uncompiled(name, reach): Uncompiled) {
        // Requests that see this, too, say so.
        let Ok(text) = reach.enter().and_then(|_rights| read(&name)) else { return };
        let hash = XxHash3_64::oneshot(&text);
        if self.files().get(&name).is_some_and(|known| known.text == hash) {
            return;
        }
        let compiled = catch_unwind(|| Folder::compile(&text));
        let folder =
            compiled.unwrap_or_else(|_| Folder::shut(500, "Millrace fails on this file: please report it"));
        self.keep(log, name, hash, folder);
    }

    /// What stands for a file that can't be read: it can't be known what it forbids.
    fn unreadable(&self, log: &Log, name: &Path, error: &std::io::Error) -> Arc<Folder> {
        let text = format!("can't be read ({error}): let the site's user read it");
        let hash = XxHash3_64::oneshot(text.as_bytes());
        if let Some(known) = self.files().get(name).filter(|known| known.text == hash) {
            return known.folder.clone();
        }
        self.keep(log, name.to_owned(), hash, Folder::shut(403, &text))
    }

    fn keep(&self, log: &Log, name: PathBuf, text: u64, folder: Folder) -> Arc<Folder> {
        tell(log, &name, &folder);
        let folder = Arc::new(folder);
        let mut files = self.files();
        if files.len() >= MOST_FILES {
            files.clear();
        }
        files.insert(name, Compiled { stamp: None, text, folder: folder.clone() });
        folder
    }

    /// Places for evaluations beside the event loops, for all sites together.
    pub fn threads(&self) -> Arc<Semaphore> {
        self.threads.0.clone()
    }

    fn files(&self) -> MutexGuard<'_, HashMap<PathBuf, Compiled>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One file of a site is compiled at a time: however many slow ones it has, they take one core.
    pub fn turn(&self, site: &Site) -> Arc<Semaphore> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(site.plan.root.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    }
}

/// The file's content; one byte too many if it is too large.
fn read(name: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    millrace_sys::open_regular(name)?.take(LARGEST as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}

/// Whether a finding in the file `name` is one: a firewall is on if `.user.ini` beside it starts it.
fn counts(name: &Path, effect: Effect) -> bool {
    effect != Effect::Off || !read(&name.with_file_name(".user.ini")).is_ok_and(|text| starts_firewall(&text))
}

/// Writes what isn't applied into the log.
fn tell(log: &Log, name: &Path, folder: &Folder) {
    for finding in folder.findings.iter().filter(|finding| counts(name, finding.effect)) {
        let place = format!("{}:{}", name.display(), finding.line);
        match finding.effect {
            Effect::Ignored => log.info(format_args!("{place}: ignored: {}", finding.text)),
            Effect::Off => log.error(format_args!("{place}: {}", finding.text)),
            Effect::Refused => {
                log.warn(format_args!("{place}: {}; what this line covers is refused (403)", finding.text));
            }
            Effect::Broken => {
                log.error(format_args!(
                    "{place}: {}; the folder answers 500 until this is corrected",
                    finding.text
                ));
            }
        }
    }
}

//! Applying and taking back. The journal says what will be changed, and is on disk before the first change.
//!
//! ```text
//!  apply:  journal -> files (new ones, each written beside its place and renamed) -> nginx and php-fpm test them -> values of the kernel
//!  undo:   values of the kernel -> files deleted -> folders that we made -> journal deleted
//! ```
//!
//! Killed at any moment, undo finds a journal that names all that may have been done: what was not done needs no undoing. A lock on the
//! journal's folder keeps two commands apart.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use super::proposal::Proposal;
use super::root::Root;
use super::table::Layer;
use super::{Refusal, STATE, accept};

/// Below the root.
const JOURNAL: &str = "var/lib/millrace/tune/journal.json";

/// What was, or may have been, changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// Deadline of the confirmation, seconds since 1970; `None`: the settings stay.
    pub trial: Option<u64>,
    /// Our files below the root, and their texts.
    files: Vec<(String, String)>,
    /// Folders that were made for them, outer ones first.
    folders: Vec<String>,
    /// Values of the kernel: name, before, after.
    kernel: Vec<(String, String, String)>,
    /// Folders that were made for the journal itself, outer ones first.
    own: Vec<String>,
}

/// A value of the kernel after applying or taking back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelValue {
    /// Its name.
    pub name: String,
    /// The value that it should have.
    pub wanted: String,
    /// Why it does not have it.
    pub problem: Option<String>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Files that were written or deleted, below the root.
    pub files: Vec<String>,
    /// Values of the kernel that were set, and those that could not be.
    pub kernel: Vec<KernelValue>,
}

/// How often, and with which pauses, the lock is tried before another command is said to have it.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// The lock on the journal; released when it is dropped.
pub struct Lock {
    /// Holds the lock.
    _file: File,
    /// Folders that were made for it, outer ones first, below the root.
    made: Vec<String>,
}

impl Lock {
    /// Takes the lock, or waits for it: for a second, if `wait` is false.
    ///
    /// # Errors
    /// Another command has it, or the folder can't be made.
    pub fn take(root: &Root, wait: bool) -> Result<Lock, Refusal> {
        let folder = root.shown(STATE);
        let fail = |error: io::Error| cannot("make", &folder, &error);
        let parts = STATE.match_indices('/').map(|(end, _)| &STATE[..end]).chain([STATE]);
        let made: Vec<String> = parts.filter(|part| !root.has(part)).map(str::to_owned).collect();
        // The journal in it must survive a power failure, so the folders have to.
        made.iter().try_for_each(|part| root.make_folder(part)).map_err(fail)?;
        let file = root.open_folder(STATE).map_err(fail)?;
        match if wait { flock(&file, FlockOperation::LockExclusive) } else { lock_soon(&file) } {
            // Another command may have deleted the folder while this one waited.
            Ok(()) if !is_same(&file, root.open_folder(STATE)) => Lock::take(root, wait),
            Ok(()) => Ok(Lock { _file: file, made }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Refusal::new(
                "another `millrace tune` is at work",
                "wait until it has finished, then run this command again",
            )),
            Err(error) => Err(cannot("lock", &folder, &error.into())),
        }
    }
}

/// Takes the lock of a command that is about to end: it has it for a moment longer than its journal.
fn lock_soon(file: &File) -> rustix::io::Result<()> {
    for _ in 0..TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Whether both are one folder.
fn is_same(one: &File, other: io::Result<File>) -> bool {
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    let other = other.and_then(|other| other.metadata()).map(place);
    matches!((one.metadata().map(place), other), (Ok(a), Ok(b)) if a == b)
}

impl Journal {
    /// Reads the journal; `None`: nothing is applied.
    ///
    /// # Errors
    /// It can't be read or understood.
    pub fn read(root: &Root) -> Result<Option<Journal>, Refusal> {
        let path = root.shown(JOURNAL);
        let text = match root.read(JOURNAL) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(cannot("read", &path, &error)),
            Ok(text) => text,
        };
        let journal = serde_json::from_str(&text).ok().and_then(|value| Journal::from_json(&value));
        journal.map(Some).ok_or_else(|| {
            Refusal::new(
                format!("{} is damaged", path.display()),
                "it lists our files: delete those with millrace in their names, then the journal, and restart the machine",
            )
        })
    }

    /// The value of a kernel setting before it was tuned.
    pub fn before(&self, name: &str) -> Option<&str> {
        self.kernel.iter().find(|(other, ..)| other == name).map(|(_, before, _)| &**before)
    }

    fn from_json(value: &Value) -> Option<Journal> {
        let list = |name: &str| value[name].as_array();
        let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
        Some(Journal {
            trial: value["trial"].as_u64(),
            files: list("files")?
                .iter()
                .map(|file| Some((text(file, "path")?, text(file, "text")?)))
                .collect::<Option<_>>()?,
            folders: list("folders")?
                .iter()
                .map(|folder| folder.as_str().map(str::to_owned))
                .collect::<Option<_>>()?,
            kernel: list("kernel")?
                .iter()
                .map(|one| Some((text(one, "name")?, text(one, "before")?, text(one, "after")?)))
                .collect::<Option<_>>()?,
            // A journal of an earlier version has none.
            own: list("own")
                .into_iter()
                .flatten()
                .filter_map(|own| own.as_str().map(str::to_owned))
                .collect(),
        })
    }

    /// Writes the journal so that after a crash there is the old one or the new one.
    pub(super) fn write(&self, root: &Root) -> Result<(), Refusal> {
        let files: Value =
            self.files.iter().map(|(path, text)| json!({"path": path, "text": text})).collect();
        let kernel: Value = self
            .kernel
            .iter()
            .map(|(name, before, after)| json!({"name": name, "before": before, "after": after}))
            .collect();
        let all = json!({"trial": self.trial, "files": files, "folders": self.folders, "kernel": kernel, "own": self.own});
        let text = format!("{all:#}\n");
        root.write(JOURNAL, text.as_bytes()).map_err(|error| cannot("write", &root.shown(JOURNAL), &error))
    }

    fn of(proposal: &Proposal, trial: Option<u64>) -> Result<Journal, Refusal> {
        let root = &proposal.machine.root;
        let mut journal = Journal { trial, ..Journal::default() };
        for file in &proposal.files {
            let mut folders: Vec<&Path> = Path::new(&file.path).ancestors().skip(1).collect();
            folders.retain(|folder| !root.has(&folder.display().to_string()) && *folder != Path::new(""));
            for folder in folders.into_iter().rev().map(|folder| folder.display().to_string()) {
                if !journal.folders.contains(&folder) {
                    journal.folders.push(folder);
                }
            }
            journal.files.push((file.path.clone(), file.text.clone()));
        }
        if root.is_live() {
            let kernel = proposal.written().into_iter().filter(|(_, row, _)| row.layer == Layer::Kernel);
            journal.kernel = kernel
                .filter_map(|(_, row, value)| {
                    Some((row.name.to_owned(), proposal.machine.kernel_value(row.name)?, value.to_owned()))
                })
                .collect();
        }
        Ok(journal)
    }

    fn is_same(&self, other: &Journal) -> bool {
        let after = |journal: &Journal| -> Vec<(String, String)> {
            journal.kernel.iter().map(|(name, _, after)| (name.clone(), after.clone())).collect()
        };
        self.trial.is_none()
            && other.trial.is_none()
            && self.files == other.files
            && after(self) == after(other)
    }

    /// Files that are there and not as we wrote them.
    fn edited(&self, root: &Root) -> Vec<String> {
        let is_edited = |path: &str, text: &str| {
            root.read(path).is_ok_and(|now| now != text) || (root.read(path).is_err() && root.has(path))
        };
        self.files.iter().filter(|(path, text)| is_edited(path, text)).map(|(path, _)| path.clone()).collect()
    }
}

/// Writes the files and sets the kernel's values. `guard` is called when the journal is written and nothing is changed yet.
///
/// # Errors
/// A file is not ours, was edited, or can't be written: then all is as it was, or, if other values were applied before, those are taken back.
pub fn apply(
    proposal: &Proposal,
    trial: Option<u64>,
    guard: &dyn Fn() -> Result<(), Refusal>,
) -> Result<Done, Refusal> {
    let root = &proposal.machine.root;
    proposal.check_others()?;
    let lock = Lock::take(root, false)?;
    let old = Journal::read(root)?;
    if old.as_ref().is_some_and(|old| old.trial.is_some()) {
        return Err(Refusal::new(
            "the last settings are not confirmed yet",
            "`millrace tune --confirm-now` keeps them, `millrace tune --undo` takes them back",
        ));
    }
    check_ours(proposal, old.as_ref())?;
    let mut journal = Journal::of(proposal, trial)?;
    journal.own = old.as_ref().map_or(&lock.made, |old| &old.own).clone();
    let outcome =
        if old.is_some() { "all settings of Millrace are taken back" } else { "nothing is changed" };
    if let Some(old) = old {
        if old.is_same(&journal) {
            journal = old;
        } else {
            take_back(root, &old)?;
            journal = Journal { own: journal.own, ..Journal::of(proposal, trial)? };
        }
    }
    journal.write(root)?;
    let changed = guard().and_then(|()| write_files(root, &journal)).and_then(|()| accept::check(proposal));
    match changed {
        Err(why) => {
            take_back(root, &journal)?;
            remove_own(root, &journal);
            Err(Refusal::new(format!("{}; {outcome}", why.what), why.next))
        }
        Ok(()) => Ok(Done {
            files: journal.files.iter().map(|(path, _)| path.clone()).collect(),
            kernel: set_kernel(root, journal.kernel.iter().map(|(name, _, after)| (&**name, &**after))),
        }),
    }
}

/// Takes everything back. `None`: nothing was applied.
///
/// # Errors
/// A file was edited, or can't be deleted; the rest is taken back.
pub fn undo(root: &Root) -> Result<Option<Done>, Refusal> {
    if !root.has(STATE) {
        return Ok(None);
    }
    let _lock = Lock::take(root, false)?;
    if let Some(journal) = Journal::read(root)? {
        let done = take_back(root, &journal)?;
        remove_own(root, &journal);
        return Ok(Some(done));
    }
    // A command that was killed while it wrote its journal has changed nothing.
    let torn = root.remove_beside(JOURNAL);
    torn.map_err(|error| cannot("delete", &root.shown(JOURNAL), &error))?;
    let _ = root.remove_folder(STATE);
    Ok(None)
}

/// Deletes the folders that were made for the journal, as far as they are empty.
fn remove_own(root: &Root, journal: &Journal) {
    for folder in journal.own.iter().rev() {
        let _ = root.remove_folder(folder);
    }
}

/// Refuses files at our places that are not as we wrote them.
fn check_ours(proposal: &Proposal, old: Option<&Journal>) -> Result<(), Refusal> {
    let root = &proposal.machine.root;
    if let Some(path) = old.and_then(|old| old.edited(root).into_iter().next()) {
        return Err(Refusal::new(
            format!("/{path} was edited since Millrace wrote it"),
            "move your lines to a file of your own, delete this one, and run the command again",
        ));
    }
    let is_known = |path: &str| old.is_some_and(|old| old.files.iter().any(|(known, _)| known == path));
    match proposal.files.iter().find(|file| root.has(&file.path) && !is_known(&file.path)) {
        None => Ok(()),
        Some(file) => Err(Refusal::new(
            format!("/{} is there, and the journal does not know it", file.path),
            "rename or delete it, and run the command again",
        )),
    }
}

fn write_files(root: &Root, journal: &Journal) -> Result<(), Refusal> {
    for folder in &journal.folders {
        root.make_folder(folder).map_err(|error| cannot("make", &root.shown(folder), &error))?;
    }
    for (name, text) in &journal.files {
        if root.read(name).is_ok_and(|now| now == *text) {
            continue;
        }
        root.write(name, text.as_bytes()).map_err(|error| cannot("write", &root.shown(name), &error))?;
    }
    Ok(())
}

/// Takes back what a journal names; what was edited stays, and stays in the journal.
pub(super) fn take_back(root: &Root, journal: &Journal) -> Result<Done, Refusal> {
    let mut done = Done::default();
    if root.is_live() {
        let is_ours = |name: &str, after: &str| kernel_value(root, name).is_some_and(|now| now == after);
        let ours = journal.kernel.iter().filter(|(name, _, after)| is_ours(name, after));
        done.kernel = set_kernel(root, ours.map(|(name, before, _)| (&**name, &**before)));
    }
    let edited = journal.edited(root);
    for (name, _) in &journal.files {
        let fail = |error: io::Error| cannot("delete", &root.shown(name), &error);
        if edited.contains(name) {
            root.remove_beside(name).map_err(fail)?;
        } else if root.remove(name).map_err(fail)? {
            done.files.push(name.clone());
        }
    }
    for folder in journal.folders.iter().rev() {
        // What others have put there since keeps the folder.
        let _ = root.remove_folder(folder);
    }
    let Some(first) = edited.first() else {
        root.remove(JOURNAL).map_err(|error| cannot("delete", &root.shown(JOURNAL), &error))?;
        return Ok(done);
    };
    let files = journal.files.iter().filter(|(name, _)| edited.contains(name)).cloned().collect();
    Journal { files, kernel: Vec::new(), ..journal.clone() }.write(root)?;
    Err(Refusal::new(
        format!("/{first} was edited since Millrace wrote it and is left alone; all else is taken back"),
        "move your lines to a file of your own, delete this one, and run `millrace tune --undo` again",
    ))
}

/// Sets values, and reads each again: only what is in force is said to be.
fn set_kernel<'a>(root: &Root, values: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<KernelValue> {
    values
        .map(|(name, wanted)| {
            let path = root.path().join("proc/sys").join(name.replace('.', "/"));
            let written = if kernel_value(root, name).as_deref() == Some(wanted) {
                Ok(())
            } else {
                fs::write(&path, format!("{wanted}\n"))
            };
            let problem = match (written, kernel_value(root, name)) {
                (_, Some(now)) if now == wanted => None,
                (Err(error), _) => Some(error.to_string()),
                (Ok(()), now) => Some(format!("the kernel has {} instead", now.unwrap_or_default())),
            };
            KernelValue { name: name.to_owned(), wanted: wanted.to_owned(), problem }
        })
        .collect()
}

fn kernel_value(root: &Root, name: &str) -> Option<String> {
    let text = root.read(&format!("proc/sys/{}", name.replace('.', "/"))).ok()?;
    Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Refusal {
    let next = match error.kind() {
        ErrorKind::PermissionDenied => "run it as root",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room on that disk, and run it again",
        ErrorKind::ReadOnlyFilesystem => {
            "mount it writable; for an image that is made read-only, run `millrace tune --root DIR` when it is built"
        }
        _ => "mend that, and run it again",
    };
    Refusal::new(format!("cannot {what} {}: {error}", path.display()), next)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::proposal::tests::{tree, tree_of, web_tree, wish};
    use std::path::PathBuf;

    use super::super::root::beside;
    use super::*;
    use crate::testing::Tree;

    pub fn etc(tree: &Tree) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let mut all = Vec::new();
        let mut folders = vec![tree.root().join("etc")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("read") {
                let path = entry.expect("an entry").path();
                all.push((path.clone(), fs::read(&path).ok()));
                if path.is_dir() {
                    folders.push(path);
                }
            }
        }
        all.sort();
        all
    }

    pub fn apply_to(tree: &Tree) -> Result<Done, Refusal> {
        apply(&Proposal::of(&wish(tree))?, None, &|| Ok(()))
    }

    #[test]
    fn apply_and_undo() {
        let tree = tree();
        let before = etc(&tree);
        let root = Root::new(tree.root());
        assert_eq!(undo(&root), Ok(None));
        let done = apply_to(&tree).expect("applied");
        assert_eq!((done.files.len(), done.kernel.len()), (3, 0));
        assert_ne!(etc(&tree), before);
        let again = etc(&tree);
        apply_to(&tree).expect("the same again");
        assert_eq!(etc(&tree), again);
        assert_eq!(undo(&root).expect("undone").expect("something").files.len(), 3);
        assert_eq!((etc(&tree), undo(&root)), (before, Ok(None)));
        assert!(!tree.root().join("var/lib/millrace").exists(), "no empty folder is left");
        fs::create_dir_all(tree.root().join("var/lib/millrace")).expect("somebody else's");
        apply_to(&tree).expect("applied");
        undo(&root).expect("undone");
        assert!(tree.root().join("var/lib/millrace").exists() && !tree.root().join(STATE).exists());
    }

    #[test]
    fn another_size_replaces_the_files() {
        let tree = tree();
        let before = etc(&tree);
        apply_to(&tree).expect("applied");
        let larger = tree_of(24 << 20);
        fs::copy(larger.root().join("proc/meminfo"), tree.root().join("proc/meminfo")).expect("copied");
        apply_to(&tree).expect("applied again");
        let text =
            fs::read_to_string(tree.root().join("etc/mysql/mariadb.conf.d/60-millrace.cnf")).expect("read");
        assert!(text.contains("for 24576 MB"), "{text}");
        undo(&Root::new(tree.root())).expect("undone");
        assert_eq!(etc(&tree), before);
    }

    #[test]
    fn edited_and_foreign_files_are_refused() {
        let tree = tree();
        let root = Root::new(tree.root());
        let ours = tree.root().join("etc/sysctl.d/60-millrace.conf");
        fs::write(&ours, "mine").expect("written");
        let why = apply_to(&tree).expect_err("not ours");
        assert!(why.what.contains("the journal does not know it"), "{why}");
        fs::remove_file(&ours).expect("removed");
        let before = etc(&tree);
        apply_to(&tree).expect("applied");
        fs::write(&ours, "edited").expect("written");
        for why in [apply_to(&tree).expect_err("edited"), undo(&root).expect_err("edited")] {
            assert!(why.what.starts_with("/etc/sysctl.d/60-millrace.conf was edited"), "{why}");
        }
        assert!(!tree.root().join("etc/systemd").exists(), "the rest is taken back");
        fs::remove_file(&ours).expect("removed");
        assert!(undo(&root).is_ok());
        assert_eq!((etc(&tree), undo(&root)), (before, Ok(None)));
    }

    #[test]
    fn the_journal_is_below_its_folder() {
        assert_eq!(JOURNAL.rsplit_once('/').map(|(folder, _)| folder), Some(STATE));
    }

    #[test]
    fn stopped_after_each_step() {
        // As a kill would leave it: the journal is there, and so many of the steps after it.
        for steps in 0..14 {
            let tree = web_tree(&[]);
            let before = etc(&tree);
            let root = Root::new(tree.root());
            let _ = fs::create_dir_all(tree.root().join(STATE));
            let journal =
                Journal::of(&Proposal::of(&wish(&tree)).expect("computed"), None).expect("a journal");
            journal.write(&root).expect("written");
            let mut todo: Vec<Box<dyn Fn()>> = Vec::new();
            for folder in &journal.folders {
                let path = tree.root().join(folder);
                todo.push(Box::new(move || fs::create_dir(&path).expect("made")));
            }
            for (name, text) in &journal.files {
                let path = tree.root().join(name);
                let new = path
                    .with_file_name(beside(path.file_name().and_then(|name| name.to_str()).expect("a name")));
                let root = root.clone();
                todo.push(Box::new(move || fs::write(&new, "half").expect("written")));
                todo.push(Box::new(move || root.write(name, text.as_bytes()).expect("written")));
            }
            todo.iter().take(steps).for_each(|step| step());
            undo(&root).expect("undone");
            assert_eq!(etc(&tree), before, "{steps} steps");
        }
    }

    #[test]
    fn a_failed_guard_changes_nothing() {
        let tree = tree();
        let before = etc(&tree);
        let proposal = Proposal::of(&wish(&tree)).expect("computed");
        let why = apply(&proposal, Some(1), &|| Err(Refusal::new("no guardian", "x"))).expect_err("refused");
        assert_eq!(why.what, "no guardian; nothing is changed");
        assert_eq!((etc(&tree), Journal::read(&Root::new(tree.root()))), (before, Ok(None)));
    }

    #[test]
    fn two_at_once_and_a_damaged_journal() {
        let tree = tree();
        let root = Root::new(tree.root());
        let lock = Lock::take(&root, false).expect("locked");
        assert_eq!(apply_to(&tree).expect_err("locked").what, "another `millrace tune` is at work");
        drop(lock);
        fs::write(tree.root().join(JOURNAL), "{").expect("written");
        assert!(undo(&root).expect_err("damaged").what.ends_with("journal.json is damaged"));
    }
}

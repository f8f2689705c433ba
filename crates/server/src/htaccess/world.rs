//! The disk and the passwords, as an evaluation asks for them.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use millrace_htaccess::{Checked, Folder, Node, World};

use super::HtaccessThread;
use super::folders::{REVALIDATE, Uncompiled};
use super::passwords::{Check, PasswordWaiter};
use millrace_base::context::Context;
use millrace_base::message::Request;
use millrace_base::message::request::Ruling;
use millrace_base::site::{Reach, Site};

/// The disk of a site during one evaluation.
pub struct SiteDisk<'a> {
    thread: &'a HtaccessThread,
    context: &'a Context,
    site: &'a Site,
    /// The slow check of a password that has begun.
    check: RefCell<Option<Check>>,
    /// A file that must be compiled first.
    uncompiled: RefCell<Option<Uncompiled>>,
    /// A password or group file that must be read first.
    unread: RefCell<Option<PathBuf>>,
    /// A password or group file has been read: a change of it counts at once.
    has_read_users: Cell<bool>,
}

impl<'a> SiteDisk<'a> {
    /// The disk of `site`.
    pub fn new(thread: &'a HtaccessThread, context: &'a Context, site: &'a Site) -> SiteDisk<'a> {
        let (check, uncompiled, unread) = (RefCell::default(), RefCell::default(), RefCell::default());
        SiteDisk { thread, context, site, check, uncompiled, unread, has_read_users: Cell::new(false) }
    }

    /// Whether a folder on the way to `path` has rules.
    pub fn has_rules(&self, path: &[u8]) -> bool {
        let mut has = false;
        self.each(path, |_, _| has = true);
        has
    }

    /// The slow check that the evaluation waits for. `None`: too many are waiting.
    pub fn into_check(self, request: &Request) -> Option<Pin<Box<dyn Future<Output = ()>>>> {
        let waiter = PasswordWaiter::new(self.site.index, request.ends.client_ip());
        self.thread.passwords.begin(self.check.into_inner()?, waiter)
    }

    /// Compiles or reads the file without which what has been found is not complete, if there is one.
    pub fn missing(&self) -> Option<Pin<Box<dyn Future<Output = ()>>>> {
        let shared = self.thread.shared.clone();
        if let Some(name) = self.unread.take() {
            let now = self.context.clock.ticks();
            return Some(self.thread.user_files.read(self.site, name, shared.turn(self.site), now));
        }
        let uncompiled = self.uncompiled.take()?;
        let log = self.context.process.log.clone();
        let turn = shared.turn(self.site);
        Some(Box::pin(async move {
            let Ok(turn) = turn.acquire_owned().await else { return };
            // A panic is caught there. The turn ends with the work, even if the client goes.
            let work = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                shared.compile(&log, uncompiled);
            });
            let _ = work.await;
        }))
    }

    fn each(&self, path: &[u8], see: impl FnMut(usize, &Arc<Folder>)) {
        let mut folders = self.thread.folders.borrow_mut();
        let seen = folders.each(&self.thread.shared, self.context, self.site, path, see);
        if let Err(uncompiled) = seen {
            *self.uncompiled.borrow_mut() = Some(uncompiled);
        }
    }

    /// The ruling that is remembered for such a request.
    pub fn remembered(&self, request: &Request, path: &[u8]) -> Option<Arc<Ruling>> {
        let mut folders = self.thread.folders.borrow_mut();
        let verdicts = folders.verdicts(self.site);
        let found = verdicts.find(request, path, self.context.clock.ticks());
        found.cloned()
    }

    /// Remembers a ruling, which depends on the fields `reads`, and on what is part of the name of a verdict.
    pub fn remember(&self, request: &Request, path: &[u8], reads: Vec<String>, ruling: &Arc<Ruling>) {
        if self.has_read_users.get() {
            return;
        }
        let mut folders = self.thread.folders.borrow_mut();
        let until = self.context.clock.ticks() + REVALIDATE;
        folders.verdicts(self.site).add(request, path, reads, until, ruling.clone());
    }

    /// The text of a password or group file; `None`: it must be read first. A relative name starts at the site's root.
    fn text(&self, file: &str) -> Option<Result<Arc<str>, String>> {
        self.has_read_users.set(true);
        let name: PathBuf = self.site.plan.root.join(file);
        let found = self.thread.user_files.text(&self.site.plan.root, &name, self.context.clock.ticks());
        if found.is_none() {
            *self.unread.borrow_mut() = Some(name);
        }
        found
    }

    fn failed(&self, why: String) -> Checked {
        self.context.process.log.error(format_args!("basic authentication: {why}"));
        Checked::Failed(why)
    }
}

impl World for SiteDisk<'_> {
    fn folders(&self, path: &[u8]) -> Vec<(usize, Arc<Folder>)> {
        let mut found = Vec::new();
        self.each(path, |end, folder| found.push((end, folder.clone())));
        found
    }

    fn node(&self, absolute: &[u8]) -> Option<Node> {
        node(&self.site.reach, absolute)
    }

    fn is_link(&self, absolute: &[u8]) -> bool {
        is_link(&self.site.reach, absolute)
    }

    fn password(&self, file: &str, user: &str, password: &[u8]) -> Checked {
        let text = match self.text(file) {
            Some(Ok(text)) => text,
            Some(Err(why)) => return self.failed(why),
            None => return Checked::Later,
        };
        let mut lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let hash = lines.find_map(|line| line.strip_prefix(user)?.strip_prefix(':'));
        // Whatever follows another colon is a comment.
        let Some(hash) = hash.map(|hash| hash.split(':').next().unwrap_or(hash)) else { return Checked::No };
        match self.thread.passwords.look(hash, user, password) {
            Ok(Ok(is_right)) => {
                if is_right {
                    Checked::Yes
                } else {
                    Checked::No
                }
            }
            Ok(Err(check)) => {
                *self.check.borrow_mut() = Some(check);
                Checked::Later
            }
            Err(why) => self.failed(format!("{file}: user {user}: {why}")),
        }
    }

    fn in_group(&self, file: &str, user: &str, groups: &[String]) -> Checked {
        let text = match self.text(file) {
            Some(Ok(text)) => text,
            Some(Err(why)) => return self.failed(why),
            None => return Checked::Later,
        };
        let is_member = text.lines().filter_map(|line| line.split_once(':')).any(|(group, members)| {
            groups.iter().any(|known| known == group.trim())
                && members.split_ascii_whitespace().any(|member| member == user)
        });
        if is_member { Checked::Yes } else { Checked::No }
    }
}

/// What is at a place of the disk; what the site's user can't see isn't there.
pub fn node(reach: &Reach, absolute: &[u8]) -> Option<Node> {
    let _rights = reach.enter().ok()?;
    let meta = std::fs::metadata(path_of(absolute)).ok()?;
    Some(if meta.is_file() {
        Node::File { size: meta.size(), executable: meta.mode() & 0o111 != 0 }
    } else if meta.is_dir() {
        Node::Directory
    } else {
        Node::Other
    })
}

/// Whether a symbolic link is there.
pub fn is_link(reach: &Reach, absolute: &[u8]) -> bool {
    let Ok(_rights) = reach.enter() else { return false };
    std::fs::symlink_metadata(path_of(absolute)).is_ok_and(|meta| meta.is_symlink())
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

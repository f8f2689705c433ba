//! Purges the pages of a site whose code has changed: a theme edited by hand, a plugin's folder renamed, a deploy. Cached pages show
//! what the old code has made, and nothing but their lifetime would end that.
//!
//! ```text
//!  PHP worker ──> cache::Code: which files have run, each once ──> CodeFiles: a stat of each, while the site has visitors
//!                                                                   │ changed
//!      PHP still runs the old code for opcache.revalidate_freq <────┘──> later: all pages of the site become stale
//! ```
//!
//! It runs on one event loop; files are looked at on a thread of its own.

mod files;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use millrace_pages::{Hardness, Purge, Tag};
use millrace_settings::plan::{CacheMode, Level, Profile};

use self::files::{CodeFiles, CodeMillis};
use crate::cache::purge;
use crate::serve::rest::{NextLook, rest};
use crate::serve::{ServeThread, SharedSetup};
use millrace_base::context::stats::Counter;
use millrace_base::context::{OpenWork, ProcessStage, WorkKind};
use millrace_pools::SiteWorkers;

/// A site without requests for so long, in seconds, is not looked at.
const IDLE: u64 = 60;
/// Pause after a look, as a multiple of its duration: looks use a tenth of a core at most.
const SHARE: CodeMillis = 9;
/// Added to the time for which PHP may run old code: it counts whole seconds of its requests' beginnings.
const LATER: CodeMillis = 1000;
/// After a reload, how long old workers may finish their requests until pages are purged.
const RELOADED: CodeMillis = 5000;
/// Tags of WordPress's redirects (`php/inject/wordpress/tags.php`): of a single site, and of a network.
const REDIRECTS: [&[u8]; 2] = [b"redirect", b"0.redirect"];
/// CodeFiles that the log names.
const SHOWN: usize = 3;

/// A site whose code is looked at.
struct CodeSite {
    site: Arc<SiteWorkers>,
    state: Rc<RefCell<CodeState>>,
}

#[derive(Default)]
struct CodeState {
    /// Away while a look is in progress.
    files: Option<CodeFiles>,
    is_busy: bool,
    /// When the next look may begin.
    next: CodeMillis,
    /// Seconds for which PHP may run old code; `None`: until the next reload.
    pause: Option<u64>,
    /// When pages are purged: once PHP runs the new code.
    due: Option<CodeMillis>,
    /// PHP runs old code until the next reload.
    waits: bool,
    /// wp-config.php is among the changed files: the site may have another address now.
    is_config: bool,
}

/// Looks at all sites until the server shuts down.
pub async fn watch(thread: Rc<ServeThread>) {
    let mut setup = thread.setup();
    let mut sites = watched(&setup, Vec::new());
    while thread.context.process.stage() == ProcessStage::Running {
        let second = thread.context.clock.unix_time().as_secs();
        rest(&thread, sites.iter().map(|site| site.need(second))).await;
        let (ticks, second) = (thread.context.clock.ticks(), thread.context.clock.unix_time().as_secs());
        let now = thread.setup();
        if !Rc::ptr_eq(&now, &setup) {
            setup = now;
            sites = watched(&setup, sites);
            sites.iter().for_each(|site| site.state.borrow_mut().reloaded(ticks));
        }
        for site in &sites {
            site.purge_if_due(&thread, ticks);
            if site.is_due(ticks, second) {
                tokio::task::spawn_local(
                    site.clone().look(thread.clone(), thread.context.begin(WorkKind::Look)),
                );
            }
        }
    }
}

/// The sites of a setup that are looked at; what is known of those in an older one is kept.
fn watched(setup: &SharedSetup, older: Vec<Rc<CodeSite>>) -> Vec<Rc<CodeSite>> {
    let is_watched = |site: &&Arc<SiteWorkers>| {
        let cache = &site.plan.cache;
        cache.mode != CacheMode::Off && !cache.code_interval.is_zero() && site.runs_own_workers()
    };
    let state = |site: &Arc<SiteWorkers>| {
        let same =
            |old: &&Rc<CodeSite>| old.site.name() == site.name() && old.site.plan.root == site.plan.root;
        older.iter().find(same).map(|old| old.state.clone()).unwrap_or_default()
    };
    setup
        .workers
        .iter()
        .filter(is_watched)
        .map(|site| Rc::new(CodeSite { state: state(site), site: site.clone() }))
        .collect()
}

impl CodeState {
    /// New workers run the code as it is now.
    fn reloaded(&mut self, now: CodeMillis) {
        if std::mem::take(&mut self.waits) {
            self.due = Some(now + RELOADED);
        }
    }

    fn has_changed(&mut self, paths: &[PathBuf], now: CodeMillis) {
        self.is_config |= paths.iter().any(|path| path.ends_with("wp-config.php"));
        match self.pause {
            Some(pause) => self.due = Some(now + pause * 1000 + LATER),
            None => self.waits = true,
        }
    }
}

impl CodeSite {
    /// When it is needed next, in this second since 1970.
    fn need(&self, second: u64) -> NextLook {
        let state = self.state.borrow();
        let is_visited = self.site.was_asked_since(second.saturating_sub(IDLE));
        let look = if is_visited { NextLook::At(state.next) } else { NextLook::None };
        match state.is_busy {
            true => NextLook::Busy,
            false => state.due.map_or(look, |due| look.min(NextLook::At(due))),
        }
    }

    /// At this time of the clock, and in this second since 1970.
    fn is_due(&self, now: CodeMillis, second: u64) -> bool {
        let state = self.state.borrow();
        !state.is_busy && now >= state.next && self.site.was_asked_since(second.saturating_sub(IDLE))
    }

    async fn look(self: Rc<CodeSite>, thread: Rc<ServeThread>, _open: OpenWork) {
        let began = thread.context.clock.ticks();
        let mut files = {
            let mut state = self.state.borrow_mut();
            state.is_busy = true;
            state.files.take().unwrap_or_default()
        };
        let said = thread.service.cache.code.take(self.name());
        if let Some(said) = &said {
            self.state.borrow_mut().pause = said.pause;
        }
        let (root, is_all) = (self.site.plan.root.clone(), self.site.plan.profile == Profile::WordPress);
        let looked = tokio::task::spawn_blocking(move || {
            if let Some(said) = said {
                files.add(&root, said.files, is_all);
            }
            let changed = files.look(began);
            (files, changed)
        });
        // A look that panics loses what it knew.
        let (files, changed) = looked.await.unwrap_or_default();
        thread.context.clock.read();
        let now = thread.context.clock.ticks();
        let mut state = self.state.borrow_mut();
        (state.files, state.is_busy) = (Some(files), false);
        let interval = self.site.plan.cache.code_interval.as_millis() as CodeMillis;
        state.next = (began + interval).max(now + SHARE * (now - began));
        if !changed.is_empty() {
            thread.context.stats.add(Counter::CodeChanges, 1);
            self.note(&thread, &changed, state.pause);
            state.has_changed(&changed, now);
        }
    }

    fn purge_if_due(&self, thread: &ServeThread, now: CodeMillis) {
        let mut state = self.state.borrow_mut();
        if state.due.take_if(|due| *due <= now).is_none() {
            return;
        }
        let mut purges = vec![(Purge::Tag(Tag::site(self.name())), Hardness::Soft)];
        if std::mem::take(&mut state.is_config) {
            let redirects = REDIRECTS.map(|tag| (Purge::Tag(Tag::named(self.name(), tag)), Hardness::Hard));
            purges.extend(redirects);
        }
        let pages = thread.service.cache.purge(&purges);
        let (stats, log) = (&thread.context.process.stats, &thread.context.process.log);
        purge::note(stats, log, &"a change of code", &format_args!("all of {}", self.shown()), pages);
    }

    fn note(&self, thread: &ServeThread, changed: &[PathBuf], pause: Option<u64>) {
        let shown: Vec<_> = changed.iter().take(SHOWN).map(|path| path.display().to_string()).collect();
        let more = if changed.len() > SHOWN { ", ..." } else { "" };
        let then = match pause {
            Some(pause) => format!("pages become stale in {} s, when PHP runs the new code", pause + LATER / 1000),
            None => "PHP runs it after `millrace reload`, because opcache.validate_timestamps is off; then pages become stale".to_owned(),
        };
        thread.context.process.log.message(
            Level::Info,
            format_args!(
                "code of {} has changed: {}{more} ({} in all): {then}",
                self.shown(),
                shown.join(", "),
                changed.len()
            ),
        );
    }

    fn name(&self) -> &str {
        self.site.name().unwrap_or("")
    }

    fn shown(&self) -> &str {
        self.site.name().unwrap_or("any host")
    }
}

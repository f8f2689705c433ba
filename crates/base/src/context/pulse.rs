//! Event loops beat a few times a second: one that does not is hung, and the control thread says so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use millrace_sys::thread_id;

/// The beats of an event loop.
#[derive(Debug)]
pub struct Pulse {
    /// The name of its thread.
    pub name: String,
    /// The number of its thread.
    pub thread: i32,
    beats: AtomicU64,
    /// The index of the site whose request came last, plus 1.
    site: AtomicU64,
}

impl Pulse {
    /// The event loop has come round.
    pub fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it has beaten.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// A request of a site begins.
    pub fn note_site(&self, index: usize) {
        self.site.store(index as u64 + 1, Ordering::Relaxed);
    }

    /// The index of the site whose request began last.
    pub fn site(&self) -> Option<usize> {
        (self.site.load(Ordering::Relaxed) as usize).checked_sub(1)
    }
}

/// An event loop that has not beaten for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HungLoop {
    /// The name of its thread.
    pub name: String,
    /// How long it has not beaten, without the time in which it waited for a processor, seconds.
    pub seconds: u64,
    /// What it is doing.
    pub doing: String,
}

impl HungLoop {
    /// Both in a sentence; only the first line of what it does.
    pub fn text(&self) -> String {
        let doing = self.doing.lines().next().unwrap_or_default();
        format!("the event loop {} has been stuck for {} s: {doing}", self.name, self.seconds)
    }
}

/// The pulses of all event loops, and which are hung.
#[derive(Debug, Default)]
pub struct Pulses {
    living: Mutex<Vec<Weak<Pulse>>>,
    hung: Mutex<Vec<HungLoop>>,
}

impl Pulses {
    /// The pulse of the calling thread; it belongs to an event loop until it is dropped.
    pub fn join(&self) -> Arc<Pulse> {
        let pulse = Arc::new(Pulse {
            name: std::thread::current().name().unwrap_or("event loop").to_owned(),
            thread: thread_id(),
            beats: AtomicU64::new(0),
            site: AtomicU64::new(0),
        });
        let mut living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        living.retain(|other| other.strong_count() > 0);
        living.push(Arc::downgrade(&pulse));
        pulse
    }

    /// Those of all running event loops.
    pub fn living(&self) -> Vec<Arc<Pulse>> {
        let living = self.living.lock().unwrap_or_else(PoisonError::into_inner);
        living.iter().filter_map(Weak::upgrade).collect()
    }

    /// Which event loops are hung.
    pub fn hung(&self) -> Vec<HungLoop> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces what [`Pulses::hung`] returns.
    pub fn set_hung(&self, hung: Vec<HungLoop>) {
        *self.hung.lock().unwrap_or_else(PoisonError::into_inner) = hung;
    }
}

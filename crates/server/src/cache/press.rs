//! Compressing pages off the event loops, each once in each coding.
//!
//! Two threads. The first makes the gzip form that the first visitors of a page wait for, in a millisecond or two;
//! the other one, which runs when the machine has nothing better to do, makes the smaller forms for all who come
//! after them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use millrace_pages::Page;
use millrace_wire::encoding::Coding;
use rustix::process::setpriority_process;
use rustix::thread::gettid;
use tokio::sync::oneshot;

use super::make;
use crate::reply::codec;

/// Jobs that may wait for a thread. Beyond, a page stays as it is.
const QUEUE: usize = 256;

/// Codings that are made in idle moments: those that most browsers like best come first.
const AT_LEISURE: [Coding; 2] = [Coding::Brotli, Coding::Zstd];

/// Somebody who is told when a page has a form more.
pub type Told = Box<dyn FnOnce() + Send>;

/// The two threads; they end with the process.
#[derive(Debug)]
pub struct Press {
    soon: Arc<Queue>,
    at_leisure: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    more: Condvar,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Queue")
    }
}

struct Job {
    page: Arc<Page>,
    codings: &'static [Coding],
    told: Told,
}

impl Press {
    /// Starts the threads. Where none can be had, nothing is compressed.
    pub fn start() -> Press {
        let press = Press { soon: Arc::default(), at_leisure: Arc::default() };
        for (queue, name, nice) in [(&press.soon, "press", 0), (&press.at_leisure, "press-idle", 19)] {
            let queue = queue.clone();
            let thread = std::thread::Builder::new().name(name.to_owned());
            let _ = thread.spawn(move || queue.work(nice));
        }
        press
    }

    /// Makes the gzip form of a page; done when the receiver gets its word or fails.
    pub fn soon(&self, page: &Arc<Page>) -> oneshot::Receiver<()> {
        let (done, is_done) = oneshot::channel();
        let told = Box::new(move || {
            // Nobody may wait any more.
            let _ = done.send(());
        });
        self.soon.push(Job { page: page.clone(), codings: &[Coding::Gzip], told });
        is_done
    }

    /// Makes the other forms when there is time, and calls `told`.
    pub fn at_leisure(&self, page: &Arc<Page>, told: Told) {
        self.at_leisure.push(Job { page: page.clone(), codings: &AT_LEISURE, told });
    }
}

impl Queue {
    fn push(&self, job: Job) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.len() < QUEUE {
            jobs.push_back(job);
            self.more.notify_one();
        }
    }

    fn next(&self) -> Job {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match jobs.pop_front() {
                Some(job) => return job,
                None => jobs = self.more.wait(jobs).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn work(&self, nice: i32) {
        codec::leave_the_core();
        // On Linux this is a thread's own affair. Where it is refused, the thread is in the way a little more.
        let _ = setpriority_process(Some(gettid()), nice);
        loop {
            let Job { page, codings, told } = self.next();
            for coding in codings {
                // A codec that fails costs this form, not the thread.
                let form = catch_unwind(AssertUnwindSafe(|| make::form(&page, *coding)));
                page.put_form(*coding, form.ok().flatten());
            }
            told();
        }
    }
}

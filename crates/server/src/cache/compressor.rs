//! Compresses pages on threads of its own, each page once per coding.
//!
//! There are two threads. The first makes the gzip form for which the first visitors of a page wait, in a millisecond
//! or two; the other one, which runs when the machine is idle, makes the smaller forms for later visitors.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

use millrace_pages::Page;
use millrace_wire::encoding::Coding;
use tokio::sync::oneshot;

use super::make;
use millrace_base::message::reply::codec;

/// Maximum number of pages for which requests wait. Further ones are compressed when the machine is idle, too.
const SOON: usize = 256;
/// Maximum number of pages that wait for an idle moment, for example after warming up a sitemap. Further pages stay
/// as they are. The queue holds weak references: a page that is evicted meanwhile is not compressed.
const AT_LEISURE: usize = 65_536;

/// Codings that are made in idle moments, in the order in which most browsers prefer them.
const BETTER: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

/// Called when a page has got another form.
pub type OnCompressed = Box<dyn FnOnce(&Arc<Page>) + Send>;

/// The two threads; they end with the process.
#[derive(Debug)]
pub struct Compressor {
    soon: Arc<Queue>,
    at_leisure: Arc<Queue>,
}

struct Queue {
    most: usize,
    jobs: Mutex<VecDeque<PageCompression>>,
    more: Condvar,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Queue")
    }
}

struct PageCompression {
    page: Weak<Page>,
    codings: &'static [Coding],
    on_compressed: OnCompressed,
}

impl Compressor {
    /// Starts the threads. If that fails, nothing is compressed.
    pub fn start() -> Compressor {
        let compressor = Compressor { soon: Queue::new(SOON), at_leisure: Queue::new(AT_LEISURE) };
        for (queue, name, is_idle) in
            [(&compressor.soon, "compressor", false), (&compressor.at_leisure, "compressor-idle", true)]
        {
            let queue = queue.clone();
            let thread = std::thread::Builder::new().name(name.to_owned());
            let _ = thread.spawn(move || queue.work(is_idle));
        }
        compressor
    }

    /// Makes the gzip form of a page; the receiver gets a message or an error when this is done.
    pub fn soon(&self, page: &Arc<Page>) -> oneshot::Receiver<()> {
        let (done, is_done) = oneshot::channel();
        let on_compressed = Box::new(move |_: &Arc<Page>| {
            // The receiver may have gone.
            let _ = done.send(());
        });
        self.soon.push(PageCompression {
            page: Arc::downgrade(page),
            codings: &[Coding::Gzip],
            on_compressed,
        });
        is_done
    }

    /// Makes the other forms when the machine is idle, and calls `on_compressed`.
    pub fn at_leisure(&self, page: &Arc<Page>, on_compressed: OnCompressed) {
        self.at_leisure.push(PageCompression { page: Arc::downgrade(page), codings: &BETTER, on_compressed });
    }
}

impl Queue {
    fn new(most: usize) -> Arc<Queue> {
        Arc::new(Queue { most, jobs: Mutex::default(), more: Condvar::new() })
    }

    fn push(&self, job: PageCompression) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.len() < self.most {
            jobs.push_back(job);
            self.more.notify_one();
        }
    }

    fn next(&self) -> PageCompression {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match jobs.pop_front() {
                Some(job) => return job,
                None => jobs = self.more.wait(jobs).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn work(&self, is_idle: bool) {
        codec::leave_the_core();
        if is_idle {
            // If this is refused, the thread competes a little more with the others.
            let _ = millrace_sys::run_when_idle();
        }
        loop {
            let PageCompression { page, codings, on_compressed } = self.next();
            let Some(page) = page.upgrade() else { continue };
            for coding in codings.iter().filter(|coding| page.lacks(**coding)) {
                // A codec that fails costs this form, not the thread.
                let form = catch_unwind(AssertUnwindSafe(|| make::form(&page, *coding)));
                page.put_form(*coding, form.ok().flatten());
            }
            on_compressed(&page);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use millrace_pages::judge::Keep;

    use super::*;

    fn page(number: usize) -> Arc<Page> {
        let content = format!("<p>{number}</p>").repeat(300).into();
        let (fields, keep) = ([&b"Content-Type: text/html\r\n"[..], b""], &Keep::default());
        make::page(make::MadePage { status: 200, reason: None, fields, keep, content, tagged: true }, 7)
    }

    #[test]
    fn a_burst_of_pages_is_compressed_one_after_the_other() {
        let (compressor, on_compressed) = (Compressor::start(), Arc::new(Mutex::new(0)));
        let pages: Vec<_> = (0..300).map(page).collect();
        for page in &pages {
            let on_compressed = on_compressed.clone();
            compressor.at_leisure(page, Box::new(move |_| *on_compressed.lock().unwrap() += 1));
        }
        // The cache no longer has it: it need not be compressed.
        compressor.at_leisure(&page(0), Box::new(|_| panic!("it is gone")));
        let end = Instant::now() + Duration::from_secs(300);
        while *on_compressed.lock().unwrap() < pages.len() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(pages.iter().all(|page| !make::lacks_any(page) && page.form(Coding::Brotli).is_some()));
    }
}

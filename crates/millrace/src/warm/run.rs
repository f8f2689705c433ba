//! Going through a list of URLs that grows while sitemaps are read, with a few threads.

use super::fetch::{Fetched, Outcome};
use crate::failure::Failure;
use millrace_load::source::sitemap::{self, Sitemap};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Sitemaps that are read in one run, and how deep one may name another.
const MOST_SITEMAPS: usize = 1000;
const DEEPEST: u8 = 3;
/// Pauses while PHP is busy: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long one URL waits for an idle worker before it is skipped.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between progress reports.
const TICK: Duration = Duration::from_millis(200);
/// Maximum number of different reasons in a report.
const MOST_REASONS: usize = 20;

/// Fetches a URL through the server, with its content or without.
pub type FetchFn<'a> = dyn Fn(&str, bool) -> Result<Fetched, Failure> + Sync + 'a;

/// A warm-up.
pub struct Run<'a> {
    ask: &'a FetchFn<'a>,
    most: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    seen: HashSet<String>,
    sitemaps: usize,
    at_work: usize,
    counts: Counts,
    failure: Option<Failure>,
}

struct Job {
    url: String,
    /// How deep the sitemap is if it is one; `None`: it is a page.
    sitemap: Option<u8>,
}

/// The results so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    known: usize,
    done: usize,
    stored: usize,
    hits: usize,
    sitemaps: usize,
    left_out: usize,
    reasons: BTreeMap<(&'static str, String), usize>,
}

impl<'a> Run<'a> {
    /// A run over `urls`, each a page or a sitemap, and at most `most` pages.
    pub fn new(urls: &[String], most: usize, ask: &'a FetchFn<'a>) -> Run<'a> {
        let mut state = State::default();
        for url in urls {
            state.add(url.clone(), Some(0), most);
        }
        Run { ask, most, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Works with `threads` threads until the list is empty; calls `tell` with the progress.
    ///
    /// # Errors
    /// The server no longer responds.
    pub fn work(&self, threads: usize, mut tell: impl FnMut(&Counts)) -> Result<Counts, Failure> {
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(|| self.worker())).collect();
            while !workers.iter().all(|worker| worker.is_finished()) {
                let state = self.lock();
                let (state, _) =
                    self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner);
                let counts = state.counts.clone();
                drop(state);
                tell(&counts);
                std::thread::sleep(TICK / 10);
            }
        });
        let mut state = self.lock();
        match state.failure.take() {
            Some(failure) => Err(failure.detail(state.counts.progress())),
            None => Ok(state.counts.clone()),
        }
    }

    fn worker(&self) {
        while let Some(job) = self.next() {
            let result = self.patiently(&job);
            let mut state = self.lock();
            state.at_work -= 1;
            match result {
                Ok(fetched) => state.done(job, fetched, self.most),
                Err(failure) => drop(state.failure.get_or_insert(failure)),
            }
            self.changed.notify_all();
        }
    }

    /// The next job; waits if others at work may still find some.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() {
                return None;
            }
            if let Some(job) = state.waiting.pop_front() {
                state.at_work += 1;
                return Some(job);
            }
            if state.at_work == 0 {
                self.changed.notify_all();
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Repeats the request until PHP has time for it.
    fn patiently(&self, job: &Job) -> Result<Fetched, Failure> {
        let began = Instant::now();
        let mut pause = PAUSE;
        loop {
            let fetched = (self.ask)(&job.url, job.sitemap.is_some())?;
            if fetched.outcome != Outcome::Busy || began.elapsed() > PATIENCE {
                return Ok(fetched);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, url: String, sitemap: Option<u8>, most: usize) {
        if self.seen.contains(&url) {
            return;
        }
        if self.seen.len() >= most.saturating_add(MOST_SITEMAPS) || self.counts.known >= most {
            self.counts.left_out += 1;
            return;
        }
        self.seen.insert(url.clone());
        self.counts.known += 1;
        let job = Job { url, sitemap };
        // Sitemaps first: then the number of pages is known soon.
        if job.sitemap.is_some() { self.waiting.push_front(job) } else { self.waiting.push_back(job) }
    }

    fn done(&mut self, job: Job, fetched: Fetched, most: usize) {
        let content =
            fetched.content.as_deref().filter(|_| job.sitemap.is_some() && self.sitemaps < MOST_SITEMAPS);
        let listed = content.and_then(sitemap::read);
        let Some(listed) = listed else {
            self.counts.done += 1;
            return self.counts.note(fetched);
        };
        self.sitemaps += 1;
        self.counts.sitemaps += 1;
        self.counts.known -= 1;
        let depth = job.sitemap.unwrap_or_default();
        match listed {
            Sitemap::Pages(urls) => urls.into_iter().for_each(|url| self.add(url, None, most)),
            Sitemap::Index(urls) if depth < DEEPEST => {
                urls.into_iter().take(MOST_SITEMAPS).for_each(|url| self.add(url, Some(depth + 1), most));
            }
            Sitemap::Index(_) => self.counts.reason("sitemap not read", "nested too deeply".to_owned()),
        }
    }
}

impl Counts {
    fn note(&mut self, fetched: Fetched) {
        let what = match fetched.outcome {
            Outcome::Stored => return self.stored += 1,
            Outcome::Hit => return self.hits += 1,
            Outcome::NotKept => "not cached",
            Outcome::Busy => "skipped",
            Outcome::Failed => "failed",
            Outcome::Foreign => "not on this server",
        };
        let detail = match fetched.outcome {
            Outcome::Busy => "no PHP worker was idle within a minute".to_owned(),
            _ => fetched.detail,
        };
        self.reason(what, detail);
    }

    fn reason(&mut self, what: &'static str, detail: String) {
        let detail =
            match self.reasons.len() < MOST_REASONS || self.reasons.contains_key(&(what, detail.clone())) {
                true => detail,
                false => "for other reasons".to_owned(),
            };
        *self.reasons.entry((what, detail)).or_default() += 1;
    }

    /// Pages that are cached now.
    pub fn warmed(&self) -> usize {
        self.stored + self.hits
    }

    /// The progress in one line.
    pub fn progress(&self) -> String {
        let others = self.done - self.warmed();
        format!(
            "{} of {} pages: {} generated, {} already cached, {others} not cached",
            self.done, self.known, self.stored, self.hits
        )
    }

    /// Why pages were not warmed, a line a reason.
    pub fn reasons(&self) -> String {
        let lines = self.reasons.iter().map(|((what, detail), count)| format!("{count} {what}: {detail}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The final summary.
    pub fn summary(&self, took: Duration) -> String {
        let warm = if self.warmed() == 1 { "page is" } else { "pages are" };
        let mut text = format!(
            "{} {warm} cached after {:.1} s: {} generated, {} already cached",
            self.warmed(),
            took.as_secs_f64(),
            self.stored,
            self.hits
        );
        if self.sitemaps > 0 {
            text.push_str(&format!(
                "; {} sitemap{} read",
                self.sitemaps,
                if self.sitemaps == 1 { "" } else { "s" }
            ));
        }
        if self.left_out > 0 {
            text.push_str(&format!("; {} more skipped: raise --most", self.left_out));
        }
        let reasons = self.reasons();
        if reasons.is_empty() { text } else { format!("{text}\n{reasons}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn fetched(outcome: Outcome, content: Option<String>) -> Fetched {
        Fetched { outcome, detail: "why".to_owned(), content }
    }

    fn urlset(urls: impl Iterator<Item = String>) -> String {
        format!(
            "<urlset>{}</urlset>",
            urls.map(|url| format!("<url><loc>{url}</loc></url>")).collect::<String>()
        )
    }

    fn index(urls: &[&str]) -> String {
        let entries: String = urls.iter().map(|url| format!("<sitemap><loc>{url}</loc></sitemap>")).collect();
        format!("<sitemapindex>{entries}</sitemapindex>")
    }

    /// A site: /index.xml names two sitemaps of 50 pages each, with some pages in both.
    fn site(url: &str, content: bool) -> Fetched {
        let page = |n: usize| format!("http://a/{n}");
        let content = content.then(|| match url {
            "http://a/index.xml" => Some(index(&["http://a/1.xml", "http://a/2.xml", "http://a/index.xml"])),
            "http://a/1.xml" => Some(urlset((0..50).map(page))),
            "http://a/2.xml" => Some(urlset((25..75).map(page))),
            _ => Some("<html>".to_owned()),
        });
        fetched(if url.ends_with('7') { Outcome::NotKept } else { Outcome::Stored }, content.flatten())
    }

    fn run(urls: &[&str], most: usize, ask: &FetchFn<'_>) -> Result<Counts, Failure> {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        Run::new(&urls, most, ask).work(4, |_| {})
    }

    #[test]
    fn every_page_of_every_sitemap_is_asked_for_once() {
        let asked = AtomicUsize::new(0);
        let ask = |url: &str, content: bool| {
            asked.fetch_add(1, Ordering::Relaxed);
            Ok(site(url, content))
        };
        let counts = run(&["http://a/index.xml", "http://a/"], 1000, &ask).expect("a server");
        assert_eq!(asked.load(Ordering::Relaxed), 3 + 1 + 75);
        assert_eq!((counts.sitemaps, counts.done, counts.known), (3, 76, 76));
        assert_eq!((counts.stored, counts.warmed()), (69, 69));
        let text = counts.summary(Duration::from_millis(1500));
        assert_eq!(
            text,
            "69 pages are cached after 1.5 s: 69 generated, 0 already cached; 3 sitemaps read\n7 not cached: why"
        );
    }

    #[test]
    fn a_run_is_bounded() {
        let counts =
            run(&["http://a/index.xml"], 10, &|url: &str, content| Ok(site(url, content))).expect("a server");
        assert!(counts.done <= 10 && counts.left_out > 0, "{counts:?}");
        // Sitemaps without end.
        let next = AtomicUsize::new(0);
        let ask = |_: &str, _| {
            let urls: Vec<String> =
                (0..10).map(|_| format!("http://a/{}", next.fetch_add(1, Ordering::Relaxed))).collect();
            Ok(fetched(Outcome::Hit, Some(index(&urls.iter().map(String::as_str).collect::<Vec<_>>()))))
        };
        let counts = run(&["http://a/x"], 100_000, &ask).expect("a server");
        assert!(counts.sitemaps <= MOST_SITEMAPS, "{counts:?}");
        assert!(!counts.reasons.is_empty());
    }

    #[test]
    fn a_busy_server_is_asked_again() {
        let tries = AtomicUsize::new(0);
        let ask = |_: &str, _| {
            let busy = tries.fetch_add(1, Ordering::Relaxed) < 3;
            Ok(fetched(if busy { Outcome::Busy } else { Outcome::Stored }, None))
        };
        assert_eq!(run(&["http://a/"], 10, &ask).expect("a server").stored, 1);
    }

    #[test]
    fn a_server_that_goes_ends_it() {
        let ask = |url: &str, content| {
            if url == "http://a/30" { Err(Failure::new("gone")) } else { Ok(site(url, content)) }
        };
        let failure = run(&["http://a/index.xml"], 1000, &ask).expect_err("gone");
        assert_eq!(failure.what(), "gone");
    }

    #[test]
    fn reasons_are_bounded() {
        let mut counts = Counts::default();
        for n in 0..1000 {
            let detail = format!("reason {n}");
            counts.note(Fetched { outcome: Outcome::Failed, detail, content: None });
        }
        assert_eq!(counts.reasons.len(), MOST_REASONS + 1);
        assert!(counts.reasons().contains("980 failed: for other reasons"));
    }
}

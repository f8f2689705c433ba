//! Full page loads: the page, and all it needs, over a few connections at once, as a browser would.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

use millrace_wire::response;
use twox_hash::XxHash3_64;

use super::connection::{Kept, Pending};
use super::decode::decode;
use super::judge::Judge;
use super::request::Prepared;
use super::thread::Thread;
use super::user::{Cached, PageLoad, PartRequest};
use super::walk::Issued;
use crate::page::{self, Kind};
use crate::scenario::{MOST_REDIRECTS, Request};
use crate::url::Url;

/// Maximum number of documents (HTML, CSS) for which a thread remembers the parts.
const MOST_KNOWN: usize = 1024;

impl Thread {
    /// The page itself has arrived: requests its parts.
    pub(super) fn on_page(&mut self, key: u32, pending: &Pending, kept: &Kept) {
        let parts = self.parts_of(key, pending, None, kept);
        let load = PageLoad {
            due: self.users[key as usize].due,
            queue: VecDeque::new(),
            seen: HashSet::new(),
            open: 0,
            has_failed: false,
        };
        self.users[key as usize].memory().load = Some(load);
        self.enqueue(key, &parts);
        self.load_parts(key);
    }

    /// A part has arrived, or failed.
    pub(super) fn on_part(
        &mut self,
        key: u32,
        pending: &Pending,
        kind: Kind,
        has_failed: bool,
        kept: Option<&Kept>,
    ) {
        let named = match kept {
            Some(kept) if !has_failed => Some(self.parts_of(key, pending, Some(kind), kept)),
            _ => None,
        };
        let Some(load) = &mut self.users[key as usize].memory().load else { return };
        load.open -= 1;
        load.has_failed |= has_failed;
        if let Some(named) = named {
            self.enqueue(key, &named);
        }
        self.load_parts(key);
    }

    /// Requests as many parts as connections allow; when all have arrived, the page is complete.
    pub(super) fn load_parts(&mut self, key: u32) {
        loop {
            let Some(load) = &mut self.users[key as usize].memory().load else { return };
            let Some(part) = load.queue.front().cloned() else { break };
            if let Some(parts) = self.fresh(key, &part.what.request.target) {
                self.next_part(key);
                self.lent.tally.cached += 1;
                self.enqueue(key, &parts);
                continue;
            }
            let now = self.lent.clock.now();
            match self.issue(key, part.what, Some(part.kind), now) {
                Issued::Sent => {
                    self.lent.tally.objects += 1;
                    self.next_part(key).open += 1;
                }
                Issued::Waits => return self.wait_for_connection(key),
                Issued::Failed(failure) => {
                    self.lent.tally.begun += 1;
                    self.lent.tally.failures.count(failure);
                    self.row(key, Some(part.kind)).count(Some(failure), None);
                    self.next_part(key).has_failed = true;
                }
                Issued::Over => {
                    self.users[key as usize].memory().load = None;
                    return;
                }
            }
        }
        self.end_page(key);
    }

    fn end_page(&mut self, key: u32) {
        let memory = self.users[key as usize].memory();
        if memory.load.as_ref().is_some_and(|load| load.open > 0) {
            return;
        }
        let Some(load) = memory.load.take() else { return };
        let tally = &mut self.lent.tally;
        if load.has_failed {
            tally.pages_failed += 1;
        } else {
            tally.pages += 1;
            let _ = tally.page.record(self.lent.clock.now().saturating_sub(load.due) / 1000);
        }
        self.end_step(key, !load.has_failed);
    }

    /// Takes the first part out of the queue.
    fn next_part(&mut self, key: u32) -> &mut PageLoad {
        let load =
            self.users[key as usize].memory().load.as_mut().expect("only called while a page is loaded");
        load.queue.pop_front();
        load
    }

    /// If the user has no request in progress, none will tell when a connection is free: it queues.
    fn wait_for_connection(&mut self, key: u32) {
        let user = &mut self.users[key as usize];
        let generation = user.generation;
        if user.memory().load.as_ref().is_some_and(|load| load.open == 0) {
            self.queue.push_back((key, generation));
        }
    }

    fn enqueue(&mut self, key: u32, parts: &[PartRequest]) {
        let Some(load) = &mut self.users[key as usize].memory().load else { return };
        for part in parts {
            if load.seen.insert(part.what.request.target.clone()) {
                load.queue.push_back(part.clone());
            }
        }
    }

    /// Whether the browser's cache has a fresh copy, which needs no request: returns the parts that it names.
    fn fresh(&mut self, key: u32, target: &str) -> Option<Rc<[PartRequest]>> {
        if !self.shared.scenario.browser_cache {
            return None;
        }
        let kept = self.users[key as usize].memory().cache.get(target)?;
        kept.is_fresh().then(|| kept.parts.clone())
    }

    /// The parts that a response names or, if it is a 304, the stored one. Updates the browser's cache.
    fn parts_of(
        &mut self,
        key: u32,
        pending: &Pending,
        kind: Option<Kind>,
        kept: &Kept,
    ) -> Rc<[PartRequest]> {
        let target = &pending.what.request.target;
        let is_unchanged = kept.head.get(9..12) == Some(b"304".as_slice());
        if is_unchanged {
            let cache = &mut self.users[key as usize].memory().cache;
            return cache
                .get(target)
                .map_or_else(|| Rc::new([]) as Rc<[PartRequest]>, |known| known.parts.clone());
        }
        let parts = match kind {
            None | Some(Kind::Style) => self.parts_named(target, kind, kept),
            Some(_) => Rc::new([]),
        };
        if self.shared.scenario.browser_cache
            && let Some(cached) = Cached::of(kept, parts.clone())
        {
            self.users[key as usize].memory().cache.insert(target.clone(), cached);
        }
        parts
    }

    /// The parts that a page or a style sheet names: read once for each content.
    fn parts_named(&mut self, target: &str, kind: Option<Kind>, kept: &Kept) -> Rc<[PartRequest]> {
        let seed = XxHash3_64::oneshot(target.as_bytes());
        let hash = XxHash3_64::oneshot_with_seed(seed, &kept.content);
        if let Some(known) = self.parts.get(&hash) {
            return known.clone();
        }
        let coding = response::field(&kept.head, "content-encoding");
        let content = decode(coding.as_deref(), &kept.content).unwrap_or_default();
        let url = Url { origin: self.shared.scenario.origin.clone(), target: target.to_owned() };
        let found = match kind {
            None => page::parts(&url, &content),
            Some(_) => page::parts_of_style(&url, &content),
        };
        let parts: Rc<[PartRequest]> = found
            .own
            .into_iter()
            .map(|part| PartRequest { what: self.request_for(part.url.target, part.kind), kind: part.kind })
            .collect();
        if self.parts.len() >= MOST_KNOWN {
            self.parts.clear();
        }
        self.parts.insert(hash, parts.clone());
        parts
    }

    fn request_for(&mut self, target: String, kind: Kind) -> Rc<Prepared> {
        if let Some(known) = self.part_requests.get(&target) {
            return known.clone();
        }
        let expected = self.shared.expected.get(&target).cloned();
        let judge = Judge::new(Vec::new(), self.shared.dynamic.clone(), expected);
        let request = Request { method: "GET".to_owned(), target: target.clone(), ..Request::default() };
        let prepared =
            self.manner.prepare(request, kind == Kind::Style, Some(MOST_REDIRECTS), Vec::new(), judge);
        if self.part_requests.len() >= MOST_KNOWN * 16 {
            self.part_requests.clear();
        }
        self.part_requests.insert(target, prepared.clone());
        prepared
    }
}

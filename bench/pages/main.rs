//! The store of the page cache by itself: `hits` (its hit ratio beside a plain LRU), `look` (what a look costs),
//! `memory` (what an entry takes, beside what is counted). Each prints a table.

mod lru;
mod traces;

use std::hint::black_box;
use std::sync::{Arc, Mutex};

use lru::Lru;
use millrace_pages::{Form, Hardness, Key, Lookup, Page, Pages, Purge, StoreOutcome, Tag, Terms};
use traces::{Random, Request, Trace};

const NOW: u64 = 1_000_000;

/// Looks of a round.
const LOOKS: usize = 1 << 18;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("hits") => hits(),
        Some("look") => looks(),
        Some("memory") => memory(),
        _ => eprintln!("pages-bench hits|look|memory"),
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("example.com\0https\0www.example.com\0/2026/11/a-story-with-a-name-{number:06}/\0").into_bytes()
}

fn page(length: usize) -> Arc<Page> {
    let head = "Content-Type: text/html; charset=UTF-8\r\nLink: <https://example.com/wp-json/>; rel=\"https://api.w.org/\"\r\n";
    let identity = Form::new(head.as_bytes(), &vec![b'x'; length]);
    Arc::new(Page::new(200, head.as_bytes(), identity, NOW))
}

/// As a WordPress page carries them: three implicit ones and nine by name, most of them shared.
fn terms(number: u32) -> Terms {
    let number = u64::from(number);
    let own = [number << 8 | 1, number << 8 | 2, number << 8 | 3];
    let shared = (0..9).map(|n| (number % (1 << n)) << 8 | (100 + n));
    Terms { ttl: 86_400_000, tags: own.into_iter().chain(shared).map(Tag).collect(), ..Terms::default() }
}

fn fill(pages: &mut Pages<u32>, key: &[u8], page: Arc<Page>, terms: Terms) {
    let ticket = pages.lead(Key::new(key), &mut |_, _| {}, 0);
    assert_eq!(pages.store(ticket, &mut |_, _| {}, page, terms, NOW), StoreOutcome::Fresh);
}

/// The share of hits, crawlers' requests left out, of S3-FIFO as it is in the store and of an LRU with the same bytes.
fn hits() {
    println!("## Hits\n");
    println!(
        "Requests of visitors that were answered from the cache, %. 100,000 pages asked for by Zipf's law, and a crawler"
    );
    println!(
        "that walks over 400,000 others in bursts. The budget is that of both, each entry's share of the index counted.\n"
    );
    println!("| trace | budget, % of the visitors' pages | plain LRU | Millrace | misses, Millrace / LRU |");
    println!("| --- | --- | --- | --- | --- |");
    for (name, skew, crawled) in [
        ("Zipf 0.8", 0.8, 0),
        ("Zipf 0.8 and scans", 0.8, 30),
        ("Zipf 1.0", 1.0, 0),
        ("Zipf 1.0 and scans", 1.0, 30),
    ] {
        let trace = Trace::new(100_000, 400_000, skew, crawled);
        for percent in [1, 5, 10, 25] {
            let budget = trace.bytes(entry_bytes) * percent / 100;
            let (lru, ours) = (share(&trace, Lru::new(budget)), share(&trace, Pages::new(budget)));
            let misses = (1.0 - ours) / (1.0 - lru);
            let (lru, ours) = (lru * 100.0, ours * 100.0);
            println!("| {name} | {percent} | {lru:.1} | {ours:.1} | {misses:.2} |");
        }
    }
}

/// What an entry of the trace is counted with by the LRU; the store counts the same and its index.
fn entry_bytes(length: usize) -> usize {
    page(length).bytes() + Terms::default().bytes() + key(0).len() + 160
}

/// A cache under test.
trait Cache {
    /// Whether it is there; if not, it is afterwards.
    fn ask(&mut self, number: u32, length: usize) -> bool;
}

impl Cache for Lru {
    fn ask(&mut self, number: u32, length: usize) -> bool {
        self.touch(number, || entry_bytes(length))
    }
}

impl Cache for Pages<u32> {
    fn ask(&mut self, number: u32, length: usize) -> bool {
        let key = key(number);
        match self.look(Key::new(&key), &mut |_, _| {}, NOW) {
            Lookup::Fresh(_) => true,
            _ => {
                fill(self, &key, page(length), Terms { ttl: 1_000_000, ..Terms::default() });
                false
            }
        }
    }
}

fn share(trace: &Trace, mut cache: impl Cache) -> f64 {
    let (mut asked, mut hit) = (0u32, 0u32);
    for (count, request) in trace.requests().enumerate() {
        let is_hit = match request {
            Request::Visitor(number) => cache.ask(number, trace.length(number)),
            Request::Crawler(number) => {
                cache.ask(number, trace.length(number));
                continue;
            }
        };
        // The first third fills the cache.
        if count > trace.count / 3 {
            asked += 1;
            hit += u32::from(is_hit);
        }
    }
    f64::from(hit) / f64::from(asked)
}

/// Nanoseconds of a hit, the key's hash and the page's reference counts included.
fn looks() {
    println!(
        "Nanoseconds of the processor in the best of 25 rounds, with hashing the key, the lock (nobody else wants it), and the\npage's count up and down.\n"
    );
    println!("| entries | by Zipf's law | any entry | any entry, just after a purge of some tag |");
    println!("| --- | --- | --- | --- |");
    for entries in [1, 10, 100, 1_000, 10_000, 100_000] {
        let mut pages = Pages::<u32>::new(4 << 30);
        (0..entries).for_each(|n| fill(&mut pages, &key(n), page(4096), terms(n)));
        // While a fill runs, a purge of a tag that no page carries is a purge.
        let ticket = pages.lead(Key::new(b"other"), &mut |_, _| {}, 0);
        let pages = Mutex::new(pages);
        let mut random = Random(7);
        let zipf = Trace::new(entries, 0, 1.0, 0);
        let popular = Order::new(zipf.requests().map(Request::number).take(LOOKS));
        let any = Order::new((0..LOOKS).map(|_| random.below(entries as usize) as u32));
        let all = Order::new(0..entries);
        let purge = |pages: &mut Pages<u32>, round: u32| {
            pages.purge(&Purge::Tag(Tag(u64::MAX - u64::from(round))), Hardness::Soft);
        };
        let (popular, any) = (popular.time(&pages, |_, _| {}), any.time(&pages, |_, _| {}));
        // A round over fewer is too short to be measured.
        let checked = (entries >= 1_000).then(|| format!("{:.0}", all.time(&pages, purge)));
        println!("| {entries} | {popular:.0} | {any:.0} | {} |", checked.as_deref().unwrap_or("-"));
        pages.lock().unwrap().abandon(ticket);
    }
}

/// The keys in the order in which they are asked for, in one piece of memory: a server has the key of a request in memory
/// that is in use anyway.
struct Order {
    bytes: Vec<u8>,
    length: usize,
}

impl Order {
    fn new(numbers: impl Iterator<Item = u32>) -> Order {
        Order { bytes: numbers.flat_map(key).collect(), length: key(0).len() }
    }

    /// Nanoseconds of the processor a look, in the best of 25 rounds: whoever else uses the machine adds to the others.
    /// `before` each.
    fn time(&self, pages: &Mutex<Pages<u32>>, before: impl Fn(&mut Pages<u32>, u32)) -> f64 {
        let round = |number| {
            before(&mut pages.lock().unwrap(), number);
            let start = cpu_time();
            for key in self.bytes.chunks_exact(self.length) {
                let look = pages.lock().unwrap().look(Key::new(key), &mut |_, _| {}, NOW);
                assert!(matches!(black_box(&look), Lookup::Fresh(_)));
            }
            (cpu_time() - start) as f64 / (self.bytes.len() / self.length) as f64
        };
        (0..25).map(round).fold(f64::INFINITY, f64::min)
    }
}

/// Nanoseconds that this thread has run.
fn cpu_time() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// What the process grew by, beside what the store counts.
fn memory() {
    println!("## Memory\n");
    println!(
        "100,000 entries. Growth of the process's resident memory beside what is counted against the budget. Overhead:"
    );
    println!(
        "what an entry takes beside its page (fields, content), that is slot, index, key, terms and tags.\n"
    );
    println!("| entries | counted, MB | resident, MB | resident / counted | overhead an entry, bytes |");
    println!("| --- | --- | --- | --- | --- |");
    row("pages of 100 bytes", 100, true);
    row("pages of 4 KB", 4096, true);
    row("pages of 20 KB", 20_000, true);
    row("marks \"uncacheable\"", 0, false);
}

fn row(name: &str, length: usize, stored: bool) {
    const ENTRIES: u32 = 100_000;
    let before = resident();
    let mut pages = Pages::<u32>::new(8 << 30);
    let mut content = 0;
    for number in 0..ENTRIES {
        if stored {
            let page = page(length);
            content += page.bytes();
            fill(&mut pages, &key(number), page, terms(number));
        } else {
            let ticket = pages.lead(Key::new(&key(number)), &mut |_, _| {}, 0);
            pages.pass(ticket, terms(number).tags, NOW * 2);
        }
    }
    let (grown, counted) = (resident() - before, pages.usage().bytes);
    let overhead = (counted - content) / ENTRIES as usize;
    let ratio = grown as f64 / counted as f64;
    let mega = |bytes: usize| bytes as f64 / 1e6;
    println!("| {name} | {:.1} | {:.1} | {ratio:.2} | {overhead} |", mega(counted), mega(grown));
    // The next row must find fresh memory: what this one freed would hide its growth.
    std::mem::forget(pages);
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

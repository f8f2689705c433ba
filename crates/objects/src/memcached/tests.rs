use std::collections::BTreeMap;
use std::future::Future;

use tokio::task::{JoinHandle, LocalSet, spawn_local, yield_now};

use super::fake::{Dice, FakeMemcached, Weather};
use super::*;
use millrace_base::testing::Dir;

const LATEST: u64 = i64::MAX as u64;
const GROUP: &[u8] = b"posts";

/// Runs a test with a server.
fn with_server<F: Future<Output = ()>>(
    name: &str,
    version: &'static str,
    seed: u64,
    test: impl FnOnce(Rc<FakeMemcached>) -> F,
) {
    let dir = Dir::new(name);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        test(FakeMemcached::start(dir.path("s"), version, seed)).await;
    });
}

/// A site on a machine.
fn machine(server: &FakeMemcached, site: &str) -> Rc<MemcachedObjects> {
    Rc::new(MemcachedObjects::new(Backend::Unix(server.path.clone()), site))
}

// Frames.

fn name(group: &[u8], key: &str) -> Vec<u8> {
    let mut text = vec![u8::try_from(group.len()).unwrap()];
    text.extend_from_slice(group);
    text.extend_from_slice(&u16::try_from(key.len()).unwrap().to_le_bytes());
    text.extend_from_slice(key.as_bytes());
    text
}

fn value(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
}

const HELLO: &[u8] = &[1, protocol::VERSION];

fn get(key: &str) -> Vec<u8> {
    [vec![2], name(GROUP, key)].concat()
}

fn put(mode: u8, flags: u8, as_of: u64, key: &str, bytes: &[u8]) -> Vec<u8> {
    let head = [&[3, mode, flags][..], &as_of.to_le_bytes(), &[0, 0, 0, 0, 1]].concat();
    [head, name(GROUP, key), value(bytes)].concat()
}

fn set(as_of: u64, key: &str, bytes: &[u8]) -> Vec<u8> {
    put(0, 0, as_of, key, bytes)
}

/// What was read from the database.
fn fill(as_of: u64, key: &str, bytes: &[u8]) -> Vec<u8> {
    put(1, 2, as_of, key, bytes)
}

fn add(key: &str, bytes: &[u8]) -> Vec<u8> {
    put(1, 0, LATEST, key, bytes)
}

fn delete(as_of: u64, key: &str) -> Vec<u8> {
    [vec![4], as_of.to_le_bytes().to_vec(), name(GROUP, key)].concat()
}

fn increment(key: &str) -> Vec<u8> {
    [vec![5], 1_i64.to_le_bytes().to_vec(), name(GROUP, key)].concat()
}

fn unchanged(as_of: u64, had: bool, key: &str) -> Vec<u8> {
    [vec![10, 1, 0, 0, 0], as_of.to_le_bytes().to_vec(), vec![u8::from(had)], name(GROUP, key)].concat()
}

fn field(name: usize) -> Vec<u8> {
    format!("i:{name};").into_bytes()
}

fn text(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
}

fn change_field(key: &str, as_of: u64, which: usize, bytes: &[u8]) -> Vec<u8> {
    let change = [vec![1], as_of.to_le_bytes().to_vec(), text(&field(which)), value(bytes)].concat();
    [vec![9], name(GROUP, key), vec![1, 0, 0, 0], change].concat()
}

fn fill_fields(key: &str, as_of: u64, values: &[u64]) -> Vec<u8> {
    let count = u32::try_from(values.len()).unwrap().to_le_bytes().to_vec();
    let fields = values
        .iter()
        .enumerate()
        .flat_map(|(which, number)| [text(&field(which)), value(format!("i:{number};").as_bytes())].concat());
    [vec![8], as_of.to_le_bytes().to_vec(), name(GROUP, key), count, fields.collect()].concat()
}

/// A result.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    status: u8,
    tick: u64,
    /// The bytes of a hit, a sum.
    bytes: Vec<u8>,
}

impl Answer {
    fn number(&self) -> u64 {
        std::str::from_utf8(&self.bytes).unwrap().parse().unwrap()
    }
}

/// Has a frame carried out; its results.
async fn ask(site: &Rc<MemcachedObjects>, operations: &[Vec<u8>]) -> io::Result<Vec<Answer>> {
    let outcome = site.carry_out(&operations.concat(), 1 << 20, 1 << 20).await?;
    let mut rest = &outcome.answer[4..];
    let mut take = |length: usize| {
        let (taken, after) = rest.split_at(length);
        rest = after;
        taken.to_vec()
    };
    let mut answers = Vec::new();
    for operation in operations {
        let (status, tick) = (take(1)[0], u64::from_le_bytes(take(8).try_into().unwrap()));
        let bytes = match (operation[0], status) {
            (1, _) => take(4),
            (2, 1) => {
                take(1);
                let length = u32::from_le_bytes(take(4).try_into().unwrap());
                take(length as usize)
            }
            (5, 1) => i64::from_le_bytes(take(8).try_into().unwrap()).to_string().into_bytes(),
            _ => Vec::new(),
        };
        answers.push(Answer { status, tick, bytes });
    }
    assert!(rest.is_empty());
    Ok(answers)
}

async fn one(site: &Rc<MemcachedObjects>, operation: Vec<u8>) -> Answer {
    ask(site, &[operation]).await.unwrap().remove(0)
}

#[test]
fn versions() {
    for (version, is_enough) in [
        ("1.4.15", false),
        ("1.5.22", false),
        ("1.6.9", false),
        ("1.6.12", false),
        ("1.6.13", true),
        ("1.6.18", true),
        ("1.6.18_fedora", true),
        ("1.7", true),
        ("2.0.0", true),
        ("", false),
        ("x", false),
    ] {
        assert_eq!(is_new_enough(version), is_enough, "{version}");
    }
    with_server("memcached-old", "1.5.22", 1, |server| async move {
        let why = ask(&machine(&server, "a"), &[get("k")]).await.unwrap_err().to_string();
        assert!(why.contains("memcached 1.5.22") && why.contains("install 1.6.13 or later"), "{why}");
    });
}

#[test]
fn a_frame_of_everything() {
    with_server("memcached-frame", "1.6.18", 1, |server| async move {
        let (here, there, other) = (machine(&server, "a"), machine(&server, "a"), machine(&server, "b"));
        let hello = one(&here, HELLO.to_vec()).await;
        assert_eq!((hello.status, hello.tick), (1, one(&there, HELLO.to_vec()).await.tick));
        let first = hello.tick;
        assert_eq!(hello.bytes, (65536_u32 - 1024).to_le_bytes(), "the largest object is memcached's");
        let frame = [
            get("a"),
            set(first, "a", b"5"),
            get("a"),
            increment("a"),
            delete(first, "x"),
            fill(first, "y", b"7"),
        ];
        let shown: Vec<(u8, u64, String)> = ask(&here, &frame)
            .await
            .unwrap()
            .into_iter()
            .map(|answer| (answer.status, answer.tick - first, String::from_utf8(answer.bytes).unwrap()))
            .collect();
        let shown: Vec<(u8, u64, &str)> = shown.iter().map(|(a, b, c)| (*a, *b, &**c)).collect();
        assert_eq!(shown, [(0, 0, ""), (1, 1, ""), (1, 1, "5"), (1, 2, "6"), (2, 3, ""), (1, 4, "")]);
        assert_eq!(one(&there, get("a")).await.bytes, b"6", "the other machine");
        assert_eq!(one(&other, get("a")).await.status, 0, "another site");
        assert_eq!(one(&there, increment("a")).await.bytes, b"7");
        assert_eq!(one(&there, unchanged(first + 3, false, "x")).await.status, 1);
        assert_eq!(one(&there, unchanged(first + 2, false, "x")).await.status, 0);
        // Flushes: of a group, of all.
        assert_eq!(ask(&there, &[[&[7, 5][..], GROUP].concat()]).await.unwrap()[0].status, 1);
        assert_eq!(one(&here, get("a")).await.status, 0);
        let tick = one(&here, HELLO.to_vec()).await.tick;
        assert_eq!(one(&here, set(tick, "a", b"8")).await.status, 1);
        assert_eq!(one(&other, set(LATEST, "a", b"9")).await.status, 1);
        let flush = one(&there, vec![6]).await;
        assert_eq!(flush.tick, tick + 2);
        assert_eq!((one(&here, get("a")).await.status, one(&other, get("a")).await.status), (0, 1));
        assert_eq!(one(&here, fill(tick, "a", b"old")).await.status, 0, "read before the flush");
        assert_eq!(one(&here, fill(flush.tick, "a", b"1")).await.status, 1);
        let why = here.carry_out(&[99], 1000, 1000).await.unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn what_is_evicted_is_not_forgotten() {
    with_server("memcached-evicted", "1.6.18", 1, |server| async move {
        let (here, there) = (machine(&server, "a"), machine(&server, "a"));
        let missed = one(&here, get("k")).await;
        one(&there, delete(0, "k")).await;
        let state = here.name().to_owned();
        // The tombstone, and each mark; the state stays.
        let evict = |is_state: bool| {
            server.evict_if(|key| (key == state) == is_state);
        };
        evict(false);
        assert_eq!(one(&here, fill(missed.tick, "k", b"old")).await.status, 0);
        evict(false);
        assert_eq!(one(&here, set(missed.tick, "k", b"old")).await.status, 0);
        assert_eq!(one(&here, get("k")).await.status, 0);
        let tick = one(&here, HELLO.to_vec()).await.tick;
        assert_eq!(one(&here, fill(tick, "k", b"new")).await.status, 1);
        many_changes(&there).await;
        evict(false);
        assert_eq!(one(&here, fill(tick, "k", b"old")).await.status, 0, "it may have changed since");
        let tick = one(&here, get("k")).await.tick;
        assert_eq!(one(&here, fill(tick, "k", b"new")).await.status, 1);
        // The state.
        evict(true);
        assert_eq!(one(&here, get("k")).await.status, 0);
        assert_eq!(one(&here, fill(tick, "k", b"old")).await.status, 0, "its ticks are of another state");
        let tick = one(&here, get("k")).await.tick;
        assert_eq!(one(&there, fill(tick, "k", b"new")).await.status, 1);
        server.restart();
        // The connection is closed with the next command.
        assert!(ask(&here, &[get("k")]).await.is_err() && ask(&there, &[get("k")]).await.is_err());
        assert_eq!(
            one(&here, fill(tick, "k", b"old")).await.status,
            0,
            "its CAS numbers are of another process"
        );
    });
}

/// More changes than are remembered.
async fn many_changes(site: &Rc<MemcachedObjects>) {
    let many: Vec<Vec<u8>> = (0..1100).map(|number| delete(0, &format!("other {number}"))).collect();
    let _ = ask(site, &many).await;
}

/// A frame that is held by the server at a command.
async fn held(
    server: &FakeMemcached,
    (command, key): (&'static str, &str),
    site: &Rc<MemcachedObjects>,
    operation: Vec<u8>,
) -> JoinHandle<Answer> {
    // On a connection that knows the state, so that it begins with the objects.
    one(site, HELLO.to_vec()).await;
    while site.idle.borrow().is_empty() {
        yield_now().await;
    }
    server.hold(command, key);
    let site = site.clone();
    let frame = spawn_local(async move { one(&site, operation).await });
    server.holds().await;
    frame
}

#[test]
fn a_change_between_the_lookups_of_a_frame() {
    with_server("memcached-between", "1.6.18", 1, |server| async move {
        let (here, there) = (machine(&server, "a"), machine(&server, "a"));
        for floods in [false, true] {
            one(&there, set(LATEST, "k", b"old")).await;
            assert_eq!(one(&here, get("k")).await.bytes, b"old");
            // The object is read, the state not yet.
            let frame = held(&server, ("mg", here.name()), &here, get("k")).await;
            one(&there, delete(0, "k")).await;
            if floods {
                many_changes(&there).await;
            }
            server.release();
            assert_eq!(frame.await.unwrap().status, 0, "floods: {floods}");
        }
    });
}

#[test]
fn an_addition_that_is_overtaken() {
    with_server("memcached-overtaken", "1.6.18", 1, |server| async move {
        let (here, there) = (machine(&server, "a"), machine(&server, "a"));
        let items = format!("{}:", here.name());
        for (key, is_evicted) in [("lock", false), ("other lock", true)] {
            let frame = held(&server, ("ms", &items), &here, add(key, b"here")).await;
            if is_evicted {
                server.evict_if(|key| key.starts_with(&items));
            }
            assert_eq!(one(&there, add(key, b"there")).await.status, 1, "it does not wait forever");
            server.release();
            assert_ne!(frame.await.unwrap().status, 1, "one of them has it");
            assert_eq!(one(&here, get(key)).await.bytes, b"there");
        }
        // One that is seen before it is given up.
        let frame = held(&server, ("ms", &items), &here, add("third lock", b"here")).await;
        let waits = spawn_local(async move { one(&there, add("third lock", b"there")).await });
        for _ in 0..20 {
            yield_now().await;
        }
        server.release();
        assert_eq!((frame.await.unwrap().status, waits.await.unwrap().status), (1, 2));
    });
}

#[test]
fn a_late_change_lands_on_nothing_newer() {
    with_server("memcached-late", "1.6.18", 1, |server| async move {
        let (here, there) = (machine(&server, "a"), machine(&server, "a"));
        let items = format!("{}:", here.name());
        for evicts in [false, true] {
            one(&there, delete(0, "k")).await;
            let frame = held(&server, ("ms", &items), &here, set(LATEST, "k", b"old")).await;
            one(&there, delete(0, "k")).await;
            if evicts {
                // A mark takes the place of the tombstone; the state forgets the deletion.
                server.evict_if(|key| key.starts_with(&items));
                one(&there, get("k")).await;
                many_changes(&there).await;
            }
            server.release();
            frame.await.unwrap();
            assert_eq!(one(&there, get("k")).await.status, 0, "evicts: {evicts}");
        }
        // A change that finds an older one in its place lands on it.
        let tick = one(&here, HELLO.to_vec()).await.tick;
        server.evict_if(|key| key.starts_with(&items));
        let frame = held(&server, ("ms", &items), &here, set(LATEST, "new", b"1")).await;
        assert_eq!(one(&there, unchanged(tick, false, "other 7")).await.status, 1);
        server.release();
        assert_eq!((frame.await.unwrap().status, one(&there, get("new")).await.bytes), (1, b"1".to_vec()));
    });
}

#[test]
fn too_large() {
    with_server("memcached-large", "1.6.18", 1, |server| async move {
        let site = machine(&server, "a");
        one(&site, set(LATEST, "k", b"small")).await;
        assert_eq!(one(&site, set(LATEST, "k", &[b'x'; 65_000])).await.status, 4);
        assert_eq!(one(&site, get("k")).await.status, 0);
        assert_eq!(one(&site, set(LATEST, "k", &[b'x'; 64_000])).await.status, 1);
        assert_eq!(one(&site, get("k")).await.bytes.len(), 64_000);
        // Fields need more room as an item: it is not stored, and says so.
        let tick = one(&site, get("all")).await.tick;
        assert_eq!(one(&site, fill_fields("all", tick, &[7; 4000])).await.status, 0);
        assert_eq!(one(&site, get("all")).await.status, 0);
    });
}

/// What the database has, and what was complete when.
#[derive(Default)]
struct Rows {
    now: BTreeMap<String, u64>,
    complete: BTreeMap<String, u64>,
    next: u64,
}

const ROWS: u64 = 4;
const FIELDS: usize = 3;

/// One process: reads and changes rows by the rules of the drop-in, and holds each reading against what was complete before.
struct Process {
    site: Rc<MemcachedObjects>,
    rows: Rc<RefCell<Rows>>,
    dice: Dice,
    hits: Cell<u64>,
}

impl Process {
    async fn pause(&self) {
        for _ in 0..self.dice.roll(6) {
            yield_now().await;
        }
    }

    fn row(&self, name: &str) -> u64 {
        self.rows.borrow().now.get(name).copied().unwrap_or(0)
    }

    fn at_least(&self, name: &str) -> u64 {
        self.rows.borrow().complete.get(name).copied().unwrap_or(0)
    }

    fn write(&self, name: &str) -> u64 {
        let mut rows = self.rows.borrow_mut();
        rows.next += 1;
        let next = rows.next;
        rows.now.insert(name.to_owned(), next);
        next
    }

    /// A change is complete when it is reported; where that fails, after a flush.
    async fn complete(&self, name: &str, number: u64, reported: io::Result<Vec<Answer>>) {
        if reported.is_err() {
            while ask(&self.site, &[vec![6]]).await.is_err() {
                self.pause().await;
            }
        }
        let mut rows = self.rows.borrow_mut();
        let complete = rows.complete.entry(name.to_owned()).or_default();
        *complete = number.max(*complete);
    }

    async fn step(&self) {
        let name = format!("row {}", self.dice.roll(ROWS));
        match self.dice.roll(10) {
            0..4 => self.read(&name).await,
            4 => {
                let number = self.write(&name);
                self.pause().await;
                self.complete(&name, number, ask(&self.site, &[delete(0, &name)]).await).await;
            }
            5 => {
                let Ok(known) = ask(&self.site, &[get(&name)]).await else { return };
                self.pause().await;
                let number = self.write(&name);
                self.pause().await;
                let set = set(known[0].tick, &name, number.to_string().as_bytes());
                self.complete(&name, number, ask(&self.site, &[set]).await).await;
            }
            6 | 7 => self.read_fields().await,
            8 => {
                let Ok(hello) = ask(&self.site, &[HELLO.to_vec()]).await else { return };
                self.pause().await;
                let which = self.dice.roll(FIELDS as u64) as usize;
                let name = format!("field {which}");
                let number = self.write(&name);
                self.pause().await;
                let change = change_field("all", hello[0].tick, which, format!("i:{number};").as_bytes());
                self.complete(&name, number, ask(&self.site, &[change]).await).await;
            }
            _ => {
                let operation = if self.dice.roll(8) == 0 { vec![6] } else { delete(0, "all") };
                let _ = ask(&self.site, &[operation]).await;
            }
        }
    }

    async fn read(&self, name: &str) {
        let least = self.at_least(name);
        let Ok(found) = ask(&self.site, &[get(name), get("another")]).await else { return };
        if found[0].status == 1 {
            self.hits.set(self.hits.get() + 1);
            assert!(found[0].number() >= least, "{name} is {}, and {least} was complete", found[0].number());
            return;
        }
        self.pause().await;
        let number = self.row(name);
        self.pause().await;
        let _ = ask(&self.site, &[fill(found[0].tick, name, number.to_string().as_bytes())]).await;
    }

    async fn read_fields(&self) {
        let least: Vec<u64> = (0..FIELDS).map(|which| self.at_least(&format!("field {which}"))).collect();
        let Ok(found) = ask(&self.site, &[get("all")]).await else { return };
        if found[0].status == 1 {
            self.hits.set(self.hits.get() + 1);
            let text = String::from_utf8(found[0].bytes.clone()).unwrap();
            let inner = text.trim_start_matches("a:3:{i:").trim_end_matches(";}");
            let numbers: Vec<u64> = inner.split(";i:").map(|number| number.parse().unwrap()).collect();
            for (which, least) in least.iter().enumerate() {
                let number = numbers[2 * which + 1];
                assert!(number >= *least, "field {which} is {number}, and {least} was complete: {text}");
            }
            return;
        }
        self.pause().await;
        let values: Vec<u64> = (0..FIELDS).map(|which| self.row(&format!("field {which}"))).collect();
        self.pause().await;
        let _ = ask(&self.site, &[fill_fields("all", found[0].tick, &values)]).await;
    }
}

/// Processes on two machines change rows at the same time; none sees a row that is older than what was complete.
fn no_old_row(seed: u64, weather: Weather) -> (u64, u64) {
    let seen = Rc::new(Cell::new((0, 0)));
    let result = seen.clone();
    with_server(&format!("memcached-rows-{seed}"), "1.6.18", seed, |server| async move {
        server.weather.set(weather);
        let rows = Rc::<RefCell<Rows>>::default();
        let machines = [machine(&server, "a"), machine(&server, "a")];
        let processes: Vec<_> = (0..6)
            .map(|number| {
                let (site, rows) = (machines[number % 2].clone(), rows.clone());
                let process =
                    Process { site, rows, dice: Dice::new(seed * 100 + number as u64), hits: Cell::new(0) };
                spawn_local(async move {
                    for _ in 0..100 {
                        process.step().await;
                    }
                    process.hits.get()
                })
            })
            .collect();
        let mut hits = 0;
        for process in processes {
            hits += process.await.unwrap();
        }
        result.set((hits, server.refused.get()));
    });
    seen.get()
}

/// `SEEDS=100` plays other orders, too.
#[test]
fn nobody_sees_an_old_row() {
    let seeds = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let calm = Weather { pauses: 30, ..Weather::default() };
    for seed in 0..seeds {
        for (number, weather) in [
            Weather::default(),
            calm,
            Weather { evicts: 10, ..calm },
            Weather { evicts: 6, pauses: 10, ..calm },
            Weather { is_full: 20, ..calm },
            Weather { evicts: 20, restarts: 400, is_full: 100, ..calm },
        ]
        .into_iter()
        .enumerate()
        {
            let began = Instant::now();
            let (hits, refused) = no_old_row(seed * 10 + number as u64, weather);
            println!("{weather:?}: {hits} hits, {refused} refused, {:?}", began.elapsed());
            assert!(hits > 10 && refused > 0, "{weather:?}: {hits} hits, {refused} refused");
        }
    }
}

#[test]
fn additions_and_sums() {
    with_server("memcached-sums", "1.6.18", 7, |server| async move {
        server.weather.set(Weather { pauses: 20, ..Weather::default() });
        let machines = [machine(&server, "a"), machine(&server, "a")];
        assert_eq!(one(&machines[0], set(LATEST, "sum", b"0")).await.status, 1);
        let processes: Vec<_> = (0..6)
            .map(|number| {
                let site = machines[number % 2].clone();
                spawn_local(async move {
                    let (mut sums, mut locks) = (Vec::new(), 0);
                    for turn in 0..40 {
                        sums.push(one(&site, increment("sum")).await.number());
                        locks += u64::from(one(&site, add(&format!("lock {turn}"), b"1")).await.status == 1);
                        let _ = ask(&site, &[get(&format!("lock {}", turn + 1))]).await;
                    }
                    (sums, locks)
                })
            })
            .collect();
        let (mut sums, mut locks) = (Vec::new(), 0);
        for process in processes {
            let (some, taken) = process.await.unwrap();
            sums.extend(some);
            locks += taken;
        }
        sums.sort_unstable();
        assert_eq!(sums, (1..=240).collect::<Vec<u64>>(), "each sum once");
        assert_eq!(locks, 40, "each lock once");
    });
}

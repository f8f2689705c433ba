//! All orders in which processes can change and read options at the same time, played on the store.
//!
//! A process runs WordPress's get_option(), update_option() and delete_option() over the rules of the drop-in, step by step: a step is
//! a statement to the database or a frame to the server, and between any two steps of a process others may take theirs. All orders are
//! played, but for those that lead to a state that was seen before. Each reading is held against the changes that were complete
//! when it began: it may find what was written last, or what was written since, and never anything older. At the end of each
//! order a new process must find what the database has.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;

type Name = &'static str;
type Value = u32;
type Options = BTreeMap<Name, Value>;

const ALL: Name = "alloptions";
const NOT: Name = "notoptions";
const GROUP: &[u8] = b"options";
/// Options that there are; those that begin with `n` are not loaded on every page.
const NAMES: [Name; 4] = ["f", "g", "n", "x"];

/// What a process does.
#[derive(Clone, Copy, Debug)]
enum Call {
    Update(Name, Value),
    Delete(Name),
    /// As a new page: nothing is known from before.
    Read(Name),
    /// wp_cache_delete('alloptions'), a flush of everything, an eviction of everything.
    Forget,
    Flush,
    Evict,
}
use Call::{Delete, Evict, Flush, Forget, Read, Update};

/// Which rules the processes follow: those of the drop-in, or worse ones, which must be found out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rules {
    Right,
    /// The tick of a write is one that was read after the change of the database.
    LateTick,
    /// What is known not to exist stays known when it comes into being.
    KeepsNotoptions,
    /// An object is written as a whole, whatever others have done.
    WholeObject,
    /// A process that has missed an object takes its tick after it has read the database.
    LateFill,
    /// A change that finds nothing to correct in the cache is not reported.
    OnlyDifferences,
}

/// A step of a process.
#[derive(Clone, Debug)]
enum Step {
    Hello,
    SelectAll,
    Select(Name),
    /// UPDATE, or INSERT if there must be no row yet.
    Write(Name, Value, bool),
    DeleteRow(Name),
    /// Operations, and the change that is complete with them.
    Frame(Vec<Op>, Option<(Name, usize)>),
    /// A reading begins.
    Look(Name),
    /// A reading has found this; it must not be older than this place in the history.
    Found(Name, Option<Value>, usize),
    Evict,
}

#[derive(Clone, Debug)]
enum Op {
    Get(Name),
    Set(Name, Value, u64),
    Add(Name, Value, u64),
    Delete(Name, u64),
    Fill(Name, Options, u64),
    Field(Name, Name, Change, u64),
    Flush,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Set(Value),
    Remove,
    Learn,
}

/// What a step has brought.
#[derive(Clone, Debug, Hash)]
enum Seen {
    Nothing,
    Tick(u64),
    All(Options),
    Row(Option<Value>),
    /// Place in the history of its option; `None`: nothing was written.
    Written(Option<usize>),
    Results(Vec<(u8, u64, String)>),
    AtLeast(usize),
}

#[derive(Clone, Default)]
struct Database {
    rows: Options,
    /// All that each option has been.
    history: BTreeMap<Name, Vec<Option<Value>>>,
}

impl Database {
    fn change(&mut self, name: Name, value: Option<Value>) -> usize {
        match value {
            Some(value) => self.rows.insert(name, value),
            None => self.rows.remove(name),
        };
        let history = self.history.entry(name).or_insert_with(|| vec![None]);
        history.push(value);
        history.len() - 1
    }
}

/// The drop-in's and WordPress's part of a process. It is run again from its beginning for each step, with what the steps before
/// have brought.
struct Client<'a> {
    seen: &'a [Seen],
    rules: Rules,
    latest: u64,
    all: Option<Options>,
    not: Option<BTreeSet<Name>>,
    single: Options,
    missed: BTreeMap<Name, u64>,
    /// The tick before a change of the database.
    before: BTreeMap<Name, u64>,
    /// The tick of this process's last report, if nobody else has changed the option.
    own: BTreeMap<Name, u64>,
    waiting: Vec<Op>,
}

/// An error is the next step.
type Next<T> = Result<T, Step>;

impl Client<'_> {
    fn step(&mut self, step: Step) -> Next<Seen> {
        let Some((seen, rest)) = self.seen.split_first() else { return Err(step) };
        self.seen = rest;
        if let Seen::Results(results) = seen {
            self.latest = results.iter().map(|result| result.1).fold(self.latest, u64::max);
        }
        Ok(seen.clone())
    }

    fn frame(&mut self, ops: Vec<Op>, complete: Option<(Name, usize)>) -> Next<Vec<(u8, u64, String)>> {
        let skip = self.waiting.len();
        let waiting = std::mem::take(&mut self.waiting);
        let Seen::Results(results) = self.step(Step::Frame([waiting, ops].concat(), complete))? else {
            unreachable!()
        };
        Ok(results[skip..].to_vec())
    }

    fn get(&mut self, key: Name) -> Next<Option<String>> {
        let (status, tick, text) = self.frame(vec![Op::Get(key)], None)?.remove(0);
        if status == 0 {
            self.missed.insert(key, tick);
        }
        Ok((status == 1).then_some(text))
    }

    fn load_all(&mut self, force: bool) -> Next<Options> {
        if let Some(all) = self.all.as_ref().filter(|_| !force) {
            return Ok(all.clone());
        }
        let all = match self.get(ALL)? {
            Some(text) => fields_in(&text),
            None => {
                let Seen::All(all) = self.step(Step::SelectAll)? else { unreachable!() };
                let late = self.rules == Rules::LateFill;
                let as_of = if late { u64::MAX } else { self.missed[ALL] };
                self.frame(vec![Op::Fill(ALL, all.clone(), as_of)], None)?;
                all
            }
        };
        self.all = Some(all.clone());
        Ok(all)
    }

    fn notoptions(&mut self) -> Next<BTreeSet<Name>> {
        if self.not.is_none() {
            let not = match self.get(NOT)? {
                Some(text) => fields_in(&text).into_keys().collect(),
                None => {
                    self.frame(vec![Op::Fill(NOT, Options::new(), self.missed[NOT])], None)?;
                    BTreeSet::new()
                }
            };
            self.not = Some(not);
        }
        Ok(self.not.clone().unwrap_or_default())
    }

    fn get_option(&mut self, name: Name) -> Next<Option<Value>> {
        if self.notoptions()?.contains(name) {
            return Ok(None);
        }
        if let Some(value) = self.load_all(false)?.get(name).or_else(|| self.single.get(name)) {
            return Ok(Some(*value));
        }
        if let Some(text) = self.get(name)? {
            let value = text.parse().unwrap();
            self.single.insert(name, value);
            return Ok(Some(value));
        }
        let Seen::Row(row) = self.step(Step::Select(name))? else { unreachable!() };
        match row {
            Some(value) => {
                self.waiting.push(Op::Add(name, value, self.missed[name]));
                self.single.insert(name, value);
            }
            None => {
                let as_of = self.missed[name].max(self.own.get(name).copied().unwrap_or(0));
                self.frame(vec![Op::Field(NOT, name, Change::Learn, as_of)], None)?;
                self.not.get_or_insert_default().insert(name);
            }
        }
        Ok(row)
    }

    fn update(&mut self, name: Name, value: Value) -> Next<()> {
        let old = self.get_option(name)?;
        let is_new = old.is_none();
        self.before.insert(name, self.latest);
        let Seen::Written(place) = self.step(Step::Write(name, value, is_new))? else { unreachable!() };
        let Some(place) = place else { return Ok(()) };
        let all = self.load_all(true)?;
        let change = if is_new && !name.starts_with('n') || all.contains_key(name) {
            let is_same = all.get(name) == Some(&value);
            self.all.get_or_insert_default().insert(name, value);
            Some(is_same)
        } else {
            self.single.insert(name, value);
            None
        };
        if change == Some(true) && self.rules == Rules::OnlyDifferences {
            return self.frame(vec![], Some((name, place))).map(|_| ());
        }
        let had_not = self.not.as_mut().is_some_and(|not| not.remove(name));
        let as_of = if self.rules == Rules::LateTick { self.latest } else { self.before[name] };
        let mut ops = match change {
            Some(_) if self.rules == Rules::WholeObject => {
                let all = self.all.clone().unwrap_or_default();
                vec![Op::Delete(ALL, 0), Op::Fill(ALL, all, u64::MAX)]
            }
            Some(_) => vec![Op::Field(ALL, name, Change::Set(value), as_of), Op::Delete(name, as_of)],
            None => vec![Op::Set(name, value, as_of), Op::Field(ALL, name, Change::Remove, as_of)],
        };
        if had_not || self.rules != Rules::KeepsNotoptions {
            ops.push(Op::Field(NOT, name, Change::Remove, as_of));
        }
        self.report(name, ops, place)
    }

    fn report(&mut self, name: Name, ops: Vec<Op>, place: usize) -> Next<()> {
        let results = self.frame(ops, Some((name, place)))?;
        let last = results.last().unwrap();
        if last.0 == 1 {
            self.own.insert(name, last.1);
        }
        Ok(())
    }

    fn delete(&mut self, name: Name) -> Next<()> {
        let Seen::Row(Some(_)) = self.step(Step::Select(name))? else { return Ok(()) };
        let as_of = self.latest;
        let Seen::Written(Some(place)) = self.step(Step::DeleteRow(name))? else { return Ok(()) };
        if !name.starts_with('n') {
            let is_there = self.load_all(true)?.contains_key(name);
            self.all.get_or_insert_default().remove(name);
            if !is_there && self.rules == Rules::OnlyDifferences {
                return self.frame(vec![], Some((name, place))).map(|_| ());
            }
        }
        self.single.remove(name);
        let ops = vec![
            Op::Field(ALL, name, Change::Remove, as_of),
            Op::Delete(name, as_of),
            Op::Field(NOT, name, Change::Remove, as_of),
        ];
        self.report(name, ops, place)
    }

    fn call(&mut self, call: Call) -> Next<()> {
        match call {
            Update(name, value) => self.update(name, value),
            Delete(name) => self.delete(name),
            Read(name) => {
                (self.all, self.not) = (None, None);
                self.single.clear();
                let Seen::AtLeast(place) = self.step(Step::Look(name))? else { unreachable!() };
                let found = self.get_option(name)?;
                self.step(Step::Found(name, found, place)).map(|_| ())
            }
            Forget => self.frame(vec![Op::Delete(ALL, 0)], None).map(|_| ()),
            Flush => self.frame(vec![Op::Flush], None).map(|_| ()),
            Evict => self.step(Step::Evict).map(|_| ()),
        }
    }
}

/// The next step of a process, if it has not ended.
fn next(script: &[Call], seen: &[Seen], rules: Rules) -> Option<Step> {
    let mut client = Client {
        seen,
        rules,
        latest: 0,
        all: None,
        not: None,
        single: Options::new(),
        missed: BTreeMap::new(),
        before: BTreeMap::new(),
        own: BTreeMap::new(),
        waiting: Vec::new(),
    };
    let mut run = || {
        let Seen::Tick(clock) = client.step(Step::Hello)? else { unreachable!() };
        client.latest = clock;
        script.iter().try_for_each(|call| client.call(*call))?;
        if client.waiting.is_empty() { Ok(()) } else { client.frame(vec![], None).map(|_| ()) }
    };
    run().err()
}

/// The fields of an object in the store: `a:1:{f;7;}`.
fn fields_in(text: &str) -> Options {
    let inner = text.split_once('{').unwrap().1.trim_end_matches('}');
    let parts: Vec<&str> = inner.split_terminator(';').collect();
    let name = |part: &str| *NAMES.iter().find(|name| **name == part).unwrap();
    parts.chunks(2).map(|pair| (name(pair[0]), pair[1].parse().unwrap())).collect()
}

#[derive(Clone)]
struct World {
    store: ObjectStore,
    site: SiteId,
    database: Database,
    /// Place in the history of the last change of each option that is complete.
    complete: BTreeMap<Name, usize>,
    processes: Vec<Vec<Seen>>,
}

impl World {
    fn new(processes: usize, is_warm: bool) -> World {
        let mut store = ObjectStore::new(1 << 20, 1 << 16, 100);
        let site = store.open();
        let mut database = Database::default();
        for name in ["f", "g", "n"] {
            let place = database.change(name, Some(1));
            debug_assert_eq!(place, 1);
        }
        let complete = [("f", 1), ("g", 1), ("n", 1), ("x", 0)].into();
        let mut world = World { store, site, database, complete, processes: vec![vec![]; processes] };
        if is_warm {
            world.warm_up();
        }
        world
    }

    /// One process has read all options that there are.
    fn warm_up(&mut self) {
        let mut seen = vec![];
        while let Some(step) = next(&["f", "g", "n"].map(Read), &seen, Rules::Right) {
            seen.push(self.take(step).expect("it is alone"));
        }
    }

    fn take(&mut self, step: Step) -> Result<Seen, String> {
        Ok(match step {
            Step::Hello => Seen::Tick(self.store.clock(self.site)),
            Step::SelectAll => {
                let is_all = |name: &Name| !name.starts_with('n');
                Seen::All(
                    self.database.rows.iter().filter(|row| is_all(row.0)).map(|(n, v)| (*n, *v)).collect(),
                )
            }
            Step::Select(name) => Seen::Row(self.database.rows.get(name).copied()),
            Step::Write(name, value, is_new) => {
                let is_done = is_new || self.database.rows.contains_key(name);
                Seen::Written(is_done.then(|| self.database.change(name, Some(value))))
            }
            Step::DeleteRow(name) => {
                let is_there = self.database.rows.contains_key(name);
                Seen::Written(is_there.then(|| self.database.change(name, None)))
            }
            Step::Frame(ops, complete) => {
                let results = ops.iter().map(|op| self.operate(op)).collect();
                if let Some((name, place)) = complete {
                    let last = self.complete.entry(name).or_default();
                    *last = place.max(*last);
                }
                Seen::Results(results)
            }
            Step::Look(name) => Seen::AtLeast(self.complete[name]),
            Step::Found(name, value, place) => {
                let none = vec![None];
                let history = self.database.history.get(name).unwrap_or(&none);
                if !history[place..].contains(&value) {
                    return Err(format!("{name} is {value:?}, and was {history:?}, complete to {place}"));
                }
                Seen::Nothing
            }
            Step::Evict => {
                self.store.set_limits(0, 1 << 16);
                self.store.set_limits(1 << 20, 1 << 16);
                Seen::Nothing
            }
        })
    }

    fn operate(&mut self, op: &Op) -> (u8, u64, String) {
        let (store, site) = (&mut self.store, self.site);
        let set = |mode, flags, value: Value, as_of| Set {
            mode,
            flags: SetFlags(flags),
            as_of,
            lifetime: 0,
            object: Object { format: INTEGER, bytes: value.to_string().into_bytes().into() },
        };
        let stored = |stored| match stored {
            Stored::Yes(tick) => (1, tick, String::new()),
            Stored::Refused(tick) | Stored::Condition(tick) | Stored::TooLarge(tick) => {
                (0, tick, String::new())
            }
        };
        match op {
            Op::Get(key) => match store.get(site, GROUP, key.as_bytes(), 0) {
                Lookup::Hit(version, object) => {
                    (1, version, String::from_utf8(object.bytes.to_vec()).unwrap())
                }
                Lookup::Miss(clock) => (0, clock, String::new()),
            },
            Op::Set(key, value, as_of) => {
                stored(store.set(site, GROUP, key.as_bytes(), set(SetMode::Set, 0, *value, *as_of), 0))
            }
            Op::Add(key, value, as_of) => {
                let set = set(SetMode::Add, SetFlags::FILL, *value, *as_of);
                stored(store.set(site, GROUP, key.as_bytes(), set, 0))
            }
            Op::Delete(key, as_of) => {
                (1, store.delete(site, GROUP, key.as_bytes(), *as_of, 0).tick, String::new())
            }
            Op::Fill(key, fields, as_of) => {
                let texts: Vec<(String, String)> =
                    fields.iter().map(|(name, value)| (format!("{name};"), format!("{value};"))).collect();
                let fields = texts.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
                stored(store.fill(site, GROUP, key.as_bytes(), *as_of, &fields, 0))
            }
            Op::Field(key, name, change, as_of) => {
                let (name, text) = (
                    format!("{name};"),
                    if let Change::Set(value) = change { format!("{value};") } else { "1;".into() },
                );
                let change = match change {
                    Change::Set(_) => FieldChange::Set(text.as_bytes()),
                    Change::Remove => FieldChange::Remove,
                    Change::Learn => FieldChange::Learn(text.as_bytes()),
                };
                let change = ChangedField { name: name.as_bytes(), as_of: *as_of, change };
                let changed = store.change_fields(site, GROUP, key.as_bytes(), &[change]);
                (u8::from(changed.is_sure), changed.tick, String::new())
            }
            Op::Flush => (1, store.flush(site).0, String::new()),
        }
    }

    fn state(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let keys = [ALL, NOT].into_iter().chain(NAMES);
        self.store.snapshot(self.site, GROUP, keys).hash(&mut hasher);
        (&self.database.history, &self.complete, &self.processes).hash(&mut hasher);
        hasher.finish()
    }
}

/// What was played.
struct Played {
    states: usize,
    /// The first order that went wrong, as numbers of processes, and why.
    wrong: Option<(Vec<usize>, String)>,
}

/// Plays all orders of these processes' steps.
fn play(scripts: &[&[Call]], is_warm: bool, rules: Rules) -> Played {
    let mut scripts: Vec<Vec<Call>> = scripts.iter().map(|script| script.to_vec()).collect();
    // At the end of each order, alone: a new process reads all.
    let last = NAMES.map(Read).to_vec();
    let processes = scripts.len();
    scripts.push(last);
    let mut open = vec![(World::new(processes + 1, is_warm), vec![])];
    let mut known = HashSet::new();
    while let Some((world, order)) = open.pop() {
        let steps =
            (0..processes).filter_map(|at| Some((at, next(&scripts[at], &world.processes[at], rules)?)));
        let mut steps: Vec<(usize, Step)> = steps.collect();
        // What touches nothing that others see may as well come now.
        if let Some(local) = steps.iter().position(|(_, step)| matches!(step, Step::Hello | Step::Found(..)))
        {
            steps = vec![steps.swap_remove(local)];
        }
        if steps.is_empty() {
            steps.extend(
                next(&scripts[processes], &world.processes[processes], rules).map(|step| (processes, step)),
            );
        }
        for (at, step) in steps {
            let (mut world, mut order) = (world.clone(), order.clone());
            order.push(at);
            // A reading begins with its first step.
            let is_look = matches!(step, Step::Look(_));
            match world.take(step) {
                Ok(seen) => world.processes[at].push(seen),
                Err(why) => return Played { states: known.len(), wrong: Some((order, why)) },
            }
            if is_look && let Some(step) = next(&scripts[at], &world.processes[at], rules) {
                let seen = world.take(step).expect("only a finding can be wrong");
                world.processes[at].push(seen);
            }
            if known.insert(world.state()) {
                open.push((world, order));
            }
        }
    }
    Played { states: known.len(), wrong: None }
}

/// Two or three processes at the same time, each with a few calls.
const PLAYS: &[&[&[Call]]] = &[
    // Core trac 31245: different options.
    &[&[Update("f", 2), Read("f")], &[Update("g", 2), Read("g")]],
    // The same option, and one that reads it.
    &[&[Update("f", 2), Read("f")], &[Update("f", 3), Read("f")]],
    &[&[Update("f", 2)], &[Update("f", 3)], &[Read("f")]],
    &[&[Update("f", 2), Update("f", 3)], &[Read("f"), Read("g")]],
    // One that did not exist.
    &[&[Update("x", 2), Read("x")], &[Read("x"), Read("x")]],
    &[&[Update("x", 2), Read("x")], &[Update("x", 3), Read("x")]],
    // One that is deleted.
    &[&[Delete("f"), Read("f")], &[Update("f", 2), Read("f")]],
    &[&[Delete("f"), Read("f")], &[Read("f"), Read("f")]],
    &[&[Update("x", 2), Delete("x"), Read("x")], &[Read("x")]],
    &[&[Delete("f"), Update("f", 2)], &[Update("g", 2), Read("f")]],
    // One that is not loaded on every page.
    &[&[Update("n", 2), Read("n")], &[Update("n", 3), Read("n")]],
    &[&[Delete("n"), Read("n")], &[Update("n", 2), Read("n")]],
    &[&[Delete("n"), Update("n", 2), Read("n")], &[Read("n"), Read("n")]],
    // The memory of the server is lost.
    &[&[Update("f", 2), Read("f")], &[Update("f", 3)], &[Evict]],
    &[&[Update("f", 2), Read("f")], &[Read("f")], &[Flush]],
    &[&[Update("x", 2), Read("x")], &[Read("x")], &[Evict]],
    &[&[Update("f", 2), Read("f")], &[Update("g", 3)], &[Forget]],
];

/// The same with a server that knows nothing yet; here each process reads the database and fills the objects.
const COLD_PLAYS: &[&[&[Call]]] = &[
    &[&[Update("f", 2), Read("f")], &[Update("g", 2), Read("g")]],
    &[&[Update("f", 2), Update("f", 3)], &[Read("f"), Read("g")]],
    &[&[Delete("f"), Read("f")], &[Read("f"), Read("f")]],
    &[&[Update("x", 2), Read("x")], &[Read("x"), Read("x")]],
];

#[test]
fn no_order_shows_an_old_option() {
    for (scripts, is_warm) in PLAYS.iter().map(|s| (s, true)).chain(COLD_PLAYS.iter().map(|s| (s, false))) {
        let played = play(scripts, is_warm, Rules::Right);
        println!("{scripts:?}: {} states", played.states);
        assert_eq!(played.wrong, None, "{scripts:?}");
        assert!(played.states > 100, "{scripts:?}: only {} states", played.states);
    }
}

/// The model finds out rules that are not enough.
#[test]
fn worse_rules_are_found_out() {
    for rules in
        [Rules::LateTick, Rules::KeepsNotoptions, Rules::WholeObject, Rules::LateFill, Rules::OnlyDifferences]
    {
        let wrong = PLAYS.iter().find_map(|scripts| Some((scripts, play(scripts, true, rules).wrong?)));
        println!("{rules:?}: {wrong:?}");
        assert!(wrong.is_some(), "{rules:?}");
    }
}

//! The objects of a site on a memcached server, for sites on several machines.
//!
//! memcached changes one item at a time, and may lose any item at any moment. So a frame is carried out here, by the same code as
//! with Millrace's own memory ([`ObjectStore`]), on copies of the objects that it is about:
//!
//! ```text
//!  1. read     each object, then the site's state         mg KEY v c t N30 ... mg STATE c
//!  2. work     ObjectStore::of_site(state), protocol::follow
//!  3. commit   the new state, if it is unchanged           ms STATE C...
//!  4. land     the changed objects, if they are unchanged  ms KEY C...
//! ```
//!
//! A frame that changes nothing ends after the second step. The first three make all changes of a site one after the other, on all machines: the state
//! ([`SiteState`]) has the site's clock and the ticks of its last changes, and is one item, which is replaced only where its CAS number is the one that
//! was read. (A CAS number is of one process of memcached; a frame stays on one connection, so that it never takes one to another.)
//!
//! # No stale object
//!
//! - **An object counts only if it is as new as the last change of its key.** The state is read after the objects. An older object is one that is
//!   about to be replaced, or could not be; it is treated as evicted. Changes that the state has no place for have become its `floor`;
//!   where it has risen beyond what was known before the objects were read, they are read again.
//! - **A missing object has changed at the tick in the state, or at the floor.** A change lands as an object or as a tombstone, never as a
//!   missing item; and if memcached evicts either, the state still knows.
//! - **Nothing lands on what its frame has not seen.** A lookup puts a mark where an object is missing (memcached's `N`), so that there is a CAS
//!   number in any case. It differs after each change, deletion, eviction. A frame that finds another number there writes only over an object
//!   that is older than its own change.
//! - **A frame whose object does not land says so**: its addition was refused, its sum is missing ([`OVERTAKEN`]).
//! - **A frame that sees a change that has not landed waits for it**, and makes it impossible if it takes too long ([`WAITS`]), before it commits its own: so of
//!   two additions one is refused.
//!
//! A frame that ends between the third step and the fourth - this process is killed - is not confirmed; its client notes that in the file of lost
//! reports.
//!
//! # Generations
//!
//! The names of all items have the site's generation, so that a flush needs only a new state. If the state itself is evicted, or memcached restarted, the
//! site begins with no objects, and a clock that is ahead of all ticks before: microseconds of memcached's clock, in a second that has begun after
//! the state was found missing ([`MemcachedObjects::begin`]).

mod meta;
mod state;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use data_encoding::BASE64URL_NOPAD;
use millrace_settings::plan::Backend;
use tokio::sync::{Mutex, Notify};
use tokio::time::{sleep, timeout};

use super::board::MemcachedFigures;
use super::protocol::{self, FrameNames, ObjectName, Outcome};
use super::remote::PATIENCE;
use super::store::{EntryContent, KnownEntry, ObjectStore, SiteId};
use meta::{MemcachedConnection, MetaBatch, MetaReply, MetaValue};
use state::{SiteState, read_entry, text_of, write_entry};

/// The oldest version whose meta commands are as they are used here.
const OLDEST: [u32; 3] = [1, 6, 13];
/// Seconds that an object without an expiry stays; the longest time that memcached does not take for a date; a tombstone; a mark.
const LONGEST: u64 = 7 * 86_400;
const MOST: u64 = 30 * 86_400;
const TOMBSTONE: u64 = 86_400;
const MARK: u32 = 30;
/// Keys of one batch of lookups.
const BATCH: usize = 128;
/// Objects of a frame that are in memory beside its answer, bytes.
const BESIDE: usize = 16 << 20;
/// Room in an item for key, numbers and memcached's own data.
const ITEM_ROOM: usize = 1024;
/// Attempts of a frame while other machines change the site.
const ATTEMPTS: u32 = 64;
/// How often a frame waits for a change to land: a millisecond, two, ...
const WAITS: u32 = 6;
/// The version of an object that did not land: later than all ticks.
const OVERTAKEN: u64 = u64::MAX;
/// Placeholder stored while one machine initializes the site.
const BEGINS: &[u8] = b"?";
/// How long it stands there, seconds.
const BEGINS_FOR: u64 = 60;
/// Ticks in a second: more than changes.
const TICKS: u64 = 1_000_000;
/// Interval at which the server is asked for its figures, while it is used.
const FIGURES: Duration = Duration::from_secs(2);

/// The objects of a site on a memcached server.
pub struct MemcachedObjects {
    address: Backend,
    /// The key of the state, and the beginning of all others.
    name: String,
    idle: RefCell<Vec<MemcachedLink>>,
    /// Held by a frame that changes something: those of this process need not repeat each other.
    changing: Mutex<()>,
    is_beginning: Cell<bool>,
    has_begun: Notify,
    /// Why it could not begin.
    cannot_begin: RefCell<Option<io::Error>>,
    /// The last tick that this process has seen.
    latest: Cell<u64>,
    figures: Cell<MemcachedFigures>,
    asked: Cell<Option<Instant>>,
}

/// A connection that is ready for frames.
struct MemcachedLink {
    connection: MemcachedConnection,
    /// Maximum size of an item.
    item_bytes: usize,
    /// The state as this connection has seen it, with its CAS number.
    seen: Option<(u64, Rc<SiteState>)>,
}

/// An object of a frame.
struct KeyInFrame<'a> {
    name: ObjectName<'a>,
    digest: String,
    hash: u64,
}

/// What memcached has of an object.
#[derive(Clone, Debug)]
enum FoundItem {
    /// Nothing can be told or stored: it had no memory, or there was no room to ask.
    Unknown,
    /// Nothing but a mark.
    Mark { cas: u64, is_new: bool },
    /// An object or a tombstone.
    Entry { cas: u64, known: KnownEntry },
}

/// The objects of a frame and the site's state, as they were at one moment.
struct SiteCopy {
    state: Rc<SiteState>,
    cas: u64,
    found: Vec<FoundItem>,
}

impl MemcachedObjects {
    /// The objects of the site `name`.
    pub fn new(address: Backend, name: &str) -> MemcachedObjects {
        let name = &digest::digest(&digest::SHA256, name.as_bytes()).as_ref()[..18].to_vec();
        MemcachedObjects {
            address,
            name: format!("millrace:{}", BASE64URL_NOPAD.encode(name)),
            idle: RefCell::default(),
            changing: Mutex::new(()),
            is_beginning: Cell::new(false),
            has_begun: Notify::new(),
            cannot_begin: RefCell::default(),
            latest: Cell::new(0),
            figures: Cell::default(),
            asked: Cell::new(None),
        }
    }

    /// What identifies the objects at the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the server has told of itself.
    pub fn figures(&self) -> MemcachedFigures {
        self.figures.get()
    }

    /// Whether it was found without the site's state, which is about to be there.
    pub fn is_beginning(&self) -> bool {
        self.is_beginning.get()
    }

    /// Closes idle connections.
    pub fn close_idle(&self) {
        self.idle.take();
    }

    /// Carries out a frame. Objects that would make the answer longer than `room` are skipped.
    ///
    /// # Errors
    /// The frame is malformed, the server says an error, or the connection is lost: then nothing is known about the frame.
    pub async fn carry_out(
        self: &Rc<Self>,
        frame: &[u8],
        room: usize,
        value_bytes: usize,
    ) -> io::Result<Outcome> {
        let malformed = |why| io::Error::new(io::ErrorKind::InvalidInput, format!("{why:?}"));
        let FrameNames { names, only_looks } = protocol::names(frame).map_err(malformed)?;
        let keys: Vec<KeyInFrame<'_>> = names.into_iter().map(KeyInFrame::new).collect();
        let work = FrameWork { site: self, frame, keys, only_looks, room, value_bytes };
        loop {
            // A connection that has made the last change knows the state after it: so the turn comes first.
            let turn = if only_looks { None } else { Some(self.changing.lock().await) };
            let mut link = self.link().await?;
            let done = if only_looks { work.look(&mut link).await } else { work.change(&mut link).await };
            drop(turn);
            match done {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.begun(link).await?,
                Err(error) => return Err(error),
                Ok(outcome) => {
                    self.keep(link);
                    return Ok(outcome);
                }
            }
        }
    }

    /// An idle connection, or a new one.
    async fn link(&self) -> io::Result<MemcachedLink> {
        loop {
            let Some(mut link) = self.idle.borrow_mut().pop() else {
                return MemcachedLink::open(&self.address).await;
            };
            if link.connection.is_usable() {
                return Ok(link);
            }
        }
    }

    /// A connection is free; sometimes it is used to ask for the server's figures.
    fn keep(self: &Rc<Self>, mut link: MemcachedLink) {
        if self.asked.get().is_some_and(|when| when.elapsed() < FIGURES) {
            return self.idle.borrow_mut().push(link);
        }
        self.asked.set(Some(Instant::now()));
        let site = self.clone();
        tokio::task::spawn_local(async move {
            if let Ok(Ok(figures)) = timeout(PATIENCE, link.figures()).await {
                site.figures.set(figures);
                site.idle.borrow_mut().push(link);
            }
        });
    }

    /// Begins the site before the first frame comes. What goes wrong is told when one does.
    pub fn prepare(self: &Rc<Self>) {
        let site = self.clone();
        tokio::task::spawn_local(async move {
            let Ok(Ok(mut link)) = timeout(PATIENCE, site.link()).await else { return };
            let state = link.state(&site.name).await;
            if state.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                let _ = site.begun(link).await;
            }
        });
    }

    /// Waits until the site has begun.
    async fn begun(self: &Rc<Self>, link: MemcachedLink) -> io::Result<()> {
        let has_begun = self.has_begun.notified();
        if !self.is_beginning.replace(true) {
            let site = self.clone();
            tokio::task::spawn_local(async move {
                let done = timeout(3 * PATIENCE, site.begin(link)).await;
                let done = done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                site.cannot_begin.replace(done.err());
                site.is_beginning.set(false);
                site.has_begun.notify_waiters();
            });
        }
        has_begun.await;
        self.cannot_begin.take().map_or(Ok(()), Err)
    }

    /// Gives the site a state. While `BEGINS` stands there unchanged, no machine has given it one; so none has given a tick
    /// later than the second in which it was found there.
    async fn begin(self: &Rc<Self>, mut link: MemcachedLink) -> io::Result<()> {
        let mut batch = MetaBatch::default();
        batch.add(&self.name, BEGINS, BEGINS_FOR);
        batch.get(&self.name, None);
        let replies = link.connection.ask(&batch, usize::MAX).await?;
        let cas = match replies.as_slice() {
            [_, MetaReply::Value(value)] if value.bytes == BEGINS => value.cas,
            // Another machine was first.
            [_, MetaReply::Value(_)] => return Ok(()),
            [MetaReply::Failed(why), _] => return Err(io::Error::other(format!("it stores nothing: {why}"))),
            _ => return Err(io::Error::other("it forgets at once what it stores")),
        };
        let found = link.time().await?;
        let now = loop {
            let now = link.time().await?;
            if now > found {
                break now;
            }
            sleep(Duration::from_millis(20)).await;
        };
        // Its clock may have been set back while it was restarted.
        let first = (now * TICKS).max(self.latest.get() + TICKS);
        let mut batch = MetaBatch::default();
        batch.replace(&self.name, &SiteState::new(first).write(), cas, MOST);
        link.connection.ask(&batch, 0).await?;
        self.idle.borrow_mut().push(link);
        Ok(())
    }
}

impl MemcachedLink {
    async fn open(address: &Backend) -> io::Result<MemcachedLink> {
        let mut connection = MemcachedConnection::open(address).await?;
        let version = connection.version().await?;
        if !is_new_enough(&version) {
            let [a, b, c] = OLDEST;
            return Err(io::Error::other(format!(
                "it is memcached {version}, which lacks the commands with which no change gets lost; install {a}.{b}.{c} or later"
            )));
        }
        let settings = connection.statistics("settings").await?;
        let of = |name: &str| settings.iter().find(|setting| setting.0 == name).map(|setting| &*setting.1);
        if of("cas_enabled") == Some("no") {
            return Err(io::Error::other(
                "it has no CAS numbers, without which changes get lost; start it without -C",
            ));
        }
        let item_bytes = of("item_size_max").and_then(|bytes| bytes.parse().ok()).unwrap_or(1 << 20);
        Ok(MemcachedLink { connection, item_bytes, seen: None })
    }

    /// Its clock, in seconds.
    async fn time(&mut self) -> io::Result<u64> {
        let found = self.connection.statistics("").await?;
        let time = found.iter().find(|(name, _)| name == "time").and_then(|(_, value)| value.parse().ok());
        time.ok_or_else(|| io::Error::other("its statistics have no time"))
    }

    async fn figures(&mut self) -> io::Result<MemcachedFigures> {
        let found = self.connection.statistics("").await?;
        let of = |wanted: &str| {
            let value =
                found.iter().find(|(name, _)| name == wanted).and_then(|(_, value)| value.parse().ok());
            value.unwrap_or(0)
        };
        Ok(MemcachedFigures {
            items: of("curr_items"),
            bytes: of("bytes"),
            limit: of("limit_maxbytes"),
            evicted: of("evictions"),
            lookups: of("cmd_get"),
            hits: of("get_hits"),
        })
    }

    /// The state, asked for with its content.
    async fn state(&mut self, name: &str) -> io::Result<(u64, Rc<SiteState>)> {
        let mut batch = MetaBatch::default();
        batch.get(name, None);
        match self.connection.ask(&batch, usize::MAX).await?.pop() {
            Some(MetaReply::Value(value)) if value.bytes != BEGINS => {
                let state = SiteState::read(&value.bytes).ok_or_else(|| {
                    io::Error::other(
                        "it has the objects of another version of Millrace: use the same on all machines",
                    )
                })?;
                Ok(self.seen.insert((value.cas, Rc::new(state))).clone())
            }
            Some(MetaReply::Value(_) | MetaReply::Missing) => Err(io::ErrorKind::WouldBlock.into()),
            other => Err(unexpected(other)),
        }
    }
}

impl<'a> KeyInFrame<'a> {
    fn new(name: ObjectName<'a>) -> KeyInFrame<'a> {
        let digest = digest::digest(&digest::SHA256, &text_of(name));
        let hash = digest.as_ref().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        KeyInFrame { name, digest: BASE64URL_NOPAD.encode(digest.as_ref()), hash }
    }
}

impl SiteCopy {
    /// The tick of the last change of a key, as the state remembers it.
    fn changed(&self, key: &KeyInFrame<'_>) -> Option<u64> {
        self.state.changes.get(&key.hash).copied()
    }

    /// Whether a change of a key has not landed. Where this frame itself has put the mark, it never will: what was there is gone.
    fn is_on_its_way(&self, at: usize, key: &KeyInFrame<'_>) -> bool {
        let Some(changed) = self.changed(key) else { return false };
        match &self.found[at] {
            FoundItem::Unknown => false,
            FoundItem::Mark { is_new, .. } => !is_new,
            FoundItem::Entry { known, .. } => known.version < changed,
        }
    }

    /// A store with what is valid of it. Objects at `overtaken` are not there.
    fn store(
        &self,
        keys: &[KeyInFrame<'_>],
        value_bytes: usize,
        overtaken: &[usize],
    ) -> (ObjectStore, SiteId) {
        let (mut store, site) = ObjectStore::of_site(value_bytes, self.state.ticks.clone());
        let gone = |version| KnownEntry { content: EntryContent::Nothing, version, expires: 0 };
        for (at, key) in keys.iter().enumerate() {
            let changed = self.changed(key);
            let known = match &self.found[at] {
                _ if overtaken.contains(&at) => Some(gone(OVERTAKEN)),
                FoundItem::Entry { known, .. } if changed.is_none_or(|changed| changed <= known.version) => {
                    Some(known.clone())
                }
                _ => changed.map(gone),
            };
            if let Some(known) = known {
                store.learn(site, key.name.0, key.name.1, known);
            }
        }
        (store, site)
    }
}

/// A frame that is carried out.
struct FrameWork<'a> {
    site: &'a MemcachedObjects,
    frame: &'a [u8],
    keys: Vec<KeyInFrame<'a>>,
    only_looks: bool,
    room: usize,
    value_bytes: usize,
}

impl FrameWork<'_> {
    fn item(&self, state: &SiteState, key: &KeyInFrame<'_>) -> String {
        format!("{}:{:x}:{}", self.site.name, state.generation, key.digest)
    }

    fn value_bytes(&self, link: &MemcachedLink) -> usize {
        self.value_bytes.min(link.item_bytes.saturating_sub(ITEM_ROOM))
    }

    fn follow(&self, store: &mut ObjectStore, site: SiteId) -> io::Result<Outcome> {
        protocol::follow(store, site, self.frame, self.room, 0)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, format!("{why:?}")))
    }

    /// Carries out a frame that changes nothing.
    async fn look(&self, link: &mut MemcachedLink) -> io::Result<Outcome> {
        let copy = self.read(link).await?;
        let (mut store, site) = copy.store(&self.keys, self.value_bytes(link), &[]);
        let outcome = self.follow(&mut store, site)?;
        // That there is nothing is worth knowing, too: until when a key has not changed.
        let mut batch = MetaBatch::default();
        for (key, found) in self.keys.iter().zip(&copy.found) {
            if let FoundItem::Mark { cas, .. } = found
                && copy.changed(key).is_none()
            {
                let version = copy.state.ticks.floor;
                let nothing = KnownEntry { content: EntryContent::Nothing, version, expires: 0 };
                batch.replace(&self.item(&copy.state, key), &write_entry(&nothing), *cas, TOMBSTONE);
            }
        }
        if batch.count() > 0 {
            link.connection.ask(&batch, 0).await?;
        }
        Ok(outcome)
    }

    /// Carries out a frame that may change something.
    async fn change(&self, link: &mut MemcachedLink) -> io::Result<Outcome> {
        let mut waits = 0;
        for attempt in 0..ATTEMPTS {
            if attempt > 2 {
                // Other machines wait for another time.
                let own = u64::from(std::process::id() % 7 + 1);
                sleep(Duration::from_micros(own * u64::from(attempt) * 20)).await;
            }
            let copy = self.read(link).await?;
            if !self.wait_for_others(link, &copy, &mut waits).await? {
                continue;
            }
            let value_bytes = self.value_bytes(link);
            let (mut store, site) = copy.store(&self.keys, value_bytes, &[]);
            let outcome = self.follow(&mut store, site)?;
            let after = store.ticks(site);
            if after.clock == copy.state.ticks.clock {
                return Ok(outcome);
            }
            let changed: Vec<(usize, KnownEntry)> = self.changed(&store, site, copy.state.ticks.clock);
            let ticks = changed.iter().map(|(at, known)| (self.keys[*at].hash, known.version));
            let state = Rc::new(copy.state.after(after, ticks));
            if !self.commit(link, copy.cas, &state).await? {
                continue;
            }
            if state.generation != copy.state.generation {
                return Ok(outcome);
            }
            let overtaken = self.land(link, &copy, changed).await?;
            if overtaken.is_empty() {
                return Ok(outcome);
            }
            let (mut store, site) = copy.store(&self.keys, value_bytes, &overtaken);
            return self.follow(&mut store, site);
        }
        Err(io::Error::other("other machines change the site all the time"))
    }

    /// Reads the objects, and then the state.
    async fn read(&self, link: &mut MemcachedLink) -> io::Result<SiteCopy> {
        let name = &self.site.name;
        let mut before = match link.seen.clone() {
            Some(seen) => seen,
            None => link.state(name).await?,
        };
        loop {
            let (found, cas) = self.read_items(link, &before.1).await?;
            let now = if cas == Some(before.0) { before.clone() } else { link.state(name).await? };
            let (cas, state) = now.clone();
            self.site.latest.set(self.site.latest.get().max(state.ticks.clock));
            // Changes since before are all remembered, so that an object that is not the last one is known as such.
            if state.generation == before.1.generation && state.ticks.floor <= before.1.ticks.clock {
                return Ok(SiteCopy { state, cas, found });
            }
            before = now;
        }
    }

    /// Reads the objects of a generation, and then the CAS number of the state.
    async fn read_items(
        &self,
        link: &mut MemcachedLink,
        state: &SiteState,
    ) -> io::Result<(Vec<FoundItem>, Option<u64>)> {
        let most = self.room.max(self.value_bytes(link)) + BESIDE;
        let (mut found, mut bytes) = (Vec::with_capacity(self.keys.len()), 0);
        loop {
            let rest = &self.keys[found.len()..];
            let is_enough = bytes > self.room && self.only_looks;
            let keys = &rest[..rest.len().min(if is_enough { 0 } else { BATCH })];
            let mut batch = MetaBatch::default();
            for key in keys {
                batch.get(&self.item(state, key), Some(MARK));
            }
            let is_last = is_enough || keys.len() == rest.len();
            if is_last {
                batch.look(&self.site.name);
            }
            let mut replies = link.connection.ask(&batch, most.saturating_sub(bytes)).await?;
            let last = if is_last { replies.pop() } else { None };
            for reply in replies {
                if let MetaReply::Value(value) = &reply {
                    bytes += value.bytes.len();
                }
                found.push(FoundItem::of(reply)?);
            }
            if is_last {
                found.resize(self.keys.len(), FoundItem::Unknown);
                return match last {
                    Some(MetaReply::Done(cas)) => Ok((found, cas)),
                    Some(MetaReply::Missing) => Ok((found, None)),
                    other => Err(unexpected(other)),
                };
            }
        }
    }

    /// Whether all changes of these objects have landed; else this waits for some time, and the objects are to be read again.
    async fn wait_for_others(
        &self,
        link: &mut MemcachedLink,
        copy: &SiteCopy,
        waits: &mut u32,
    ) -> io::Result<bool> {
        let late = || self.keys.iter().enumerate().filter(|(at, key)| copy.is_on_its_way(*at, key));
        if late().next().is_none() {
            return Ok(true);
        }
        *waits += 1;
        if *waits <= WAITS {
            sleep(Duration::from_millis(u64::from(*waits))).await;
            return Ok(false);
        }
        // It never lands behind a tombstone.
        let mut batch = MetaBatch::default();
        for (at, key) in late() {
            let version = copy.changed(key).unwrap_or(OVERTAKEN);
            let nothing = KnownEntry { content: EntryContent::Nothing, version, expires: 0 };
            if let FoundItem::Mark { cas, .. } | FoundItem::Entry { cas, .. } = &copy.found[at] {
                batch.replace(&self.item(&copy.state, key), &write_entry(&nothing), *cas, TOMBSTONE);
            }
        }
        link.connection.ask(&batch, 0).await?;
        Ok(false)
    }

    /// The objects that have changed in a store since a tick.
    fn changed(&self, store: &ObjectStore, site: SiteId, since: u64) -> Vec<(usize, KnownEntry)> {
        let of = |(at, key): (usize, &KeyInFrame<'_>)| {
            let known = store.entry(site, key.name.0, key.name.1)?;
            (known.version > since).then_some((at, known))
        };
        self.keys.iter().enumerate().filter_map(of).collect()
    }

    /// Replaces the state; false: it is another one by now.
    async fn commit(&self, link: &mut MemcachedLink, cas: u64, state: &Rc<SiteState>) -> io::Result<bool> {
        let mut batch = MetaBatch::default();
        batch.replace(&self.site.name, &state.write(), cas, MOST);
        let reply = link.connection.ask(&batch, 0).await?.pop();
        link.seen = match reply {
            Some(MetaReply::Done(cas)) => cas.map(|cas| (cas, state.clone())),
            _ => None,
        };
        match reply {
            Some(MetaReply::Done(_)) => Ok(true),
            Some(MetaReply::Changed | MetaReply::Missing) => Ok(false),
            Some(MetaReply::Failed(why)) => Err(io::Error::other(format!("it stores nothing: {why}"))),
            other => Err(unexpected(other)),
        }
    }

    /// Stores changed objects and tombstones; which objects could not be stored.
    async fn land(
        &self,
        link: &mut MemcachedLink,
        copy: &SiteCopy,
        changed: Vec<(usize, KnownEntry)>,
    ) -> io::Result<Vec<usize>> {
        let mut late = Vec::new();
        let mut waiting: Vec<(usize, KnownEntry, Option<u64>)> = changed
            .into_iter()
            .map(|(at, known)| {
                let cas = match &copy.found[at] {
                    FoundItem::Unknown => None,
                    FoundItem::Mark { cas, .. } | FoundItem::Entry { cas, .. } => Some(*cas),
                };
                (at, known, cas)
            })
            .collect();
        for _ in 0..3 {
            let gone = self.try_to_land(link, &copy.state, &mut waiting).await?;
            late.extend(gone);
            if waiting.is_empty() {
                return Ok(late);
            }
            self.see_what_is_there(link, &copy.state, &mut waiting, &mut late).await?;
        }
        // A missing item is never wrong.
        let mut batch = MetaBatch::default();
        for (at, known, _) in &waiting {
            batch.delete(&self.item(&copy.state, &self.keys[*at]));
            late.extend((!matches!(known.content, EntryContent::Nothing)).then_some(*at));
        }
        match link.connection.ask(&batch, 0).await?.into_iter().find(|reply| !reply.is_deleted()) {
            None => Ok(late),
            other => Err(unexpected(other)),
        }
    }

    /// One attempt. What finds another CAS number stays in `waiting`; returns which objects can't be stored.
    async fn try_to_land(
        &self,
        link: &mut MemcachedLink,
        state: &SiteState,
        waiting: &mut Vec<(usize, KnownEntry, Option<u64>)>,
    ) -> io::Result<Vec<usize>> {
        let most = link.item_bytes.saturating_sub(ITEM_ROOM);
        let mut batch = MetaBatch::default();
        for (at, known, cas) in &*waiting {
            let (item, bytes) = (self.item(state, &self.keys[*at]), write_entry(known));
            match cas {
                Some(cas) if bytes.len() <= most => batch.replace(&item, &bytes, *cas, seconds(known)),
                _ => batch.delete(&item),
            }
        }
        let replies = link.connection.ask(&batch, 0).await?;
        let mut gone = Vec::new();
        let mut again = Vec::new();
        let mut failed = MetaBatch::default();
        for ((at, known, cas), reply) in waiting.drain(..).zip(replies) {
            let is_object = !matches!(known.content, EntryContent::Nothing);
            let is_deletion = cas.is_none() || write_entry(&known).len() > most;
            match reply {
                MetaReply::Changed => again.push((at, known, cas)),
                MetaReply::Done(_) if !is_deletion => {}
                MetaReply::Done(_) | MetaReply::Missing => gone.extend(is_object.then_some(at)),
                MetaReply::Failed(_) => {
                    failed.delete(&self.item(state, &self.keys[at]));
                    gone.extend(is_object.then_some(at));
                }
                other => return Err(unexpected(Some(other))),
            }
        }
        *waiting = again;
        if failed.count() > 0 {
            let replies = link.connection.ask(&failed, 0).await?;
            if let Some(other) = replies.into_iter().find(|reply| !reply.is_deleted()) {
                return Err(unexpected(Some(other)));
            }
        }
        Ok(gone)
    }

    /// Looks at what is where changes found another CAS number: those that it has overtaken, and those whose item is gone, are over.
    async fn see_what_is_there(
        &self,
        link: &mut MemcachedLink,
        state: &SiteState,
        waiting: &mut Vec<(usize, KnownEntry, Option<u64>)>,
        late: &mut Vec<usize>,
    ) -> io::Result<()> {
        let mut batch = MetaBatch::default();
        for (at, ..) in &*waiting {
            batch.get(&self.item(state, &self.keys[*at]), None);
        }
        let replies = link.connection.ask(&batch, usize::MAX).await?;
        let mut again = Vec::new();
        for ((at, known, _), reply) in waiting.drain(..).zip(replies) {
            if let MetaReply::Failed(_) = reply {
                // It can't tell. Without a CAS number it is deleted.
                again.push((at, known, None));
                continue;
            }
            match FoundItem::of(reply)? {
                FoundItem::Entry { cas, known: other } if other.version < known.version => {
                    again.push((at, known, Some(cas)));
                }
                _ => late.extend((!matches!(known.content, EntryContent::Nothing)).then_some(at)),
            }
        }
        *waiting = again;
        Ok(())
    }
}

impl FoundItem {
    fn of(reply: MetaReply) -> io::Result<FoundItem> {
        match reply {
            MetaReply::Value(MetaValue { bytes, cas, seconds, is_new }) => Ok(match read_entry(&bytes) {
                Some(known) => {
                    let expires = seconds.map_or(0, |seconds| seconds.max(1) * 1000);
                    FoundItem::Entry { cas, known: KnownEntry { expires, ..known } }
                }
                None => FoundItem::Mark { cas, is_new },
            }),
            MetaReply::Missing | MetaReply::Failed(_) => Ok(FoundItem::Unknown),
            other => Err(unexpected(Some(other))),
        }
    }
}

impl MetaReply {
    /// After a deletion: the item is not there.
    fn is_deleted(&self) -> bool {
        matches!(self, MetaReply::Done(_) | MetaReply::Missing)
    }
}

/// How long an item stays, seconds. A tombstone is not missed when it goes.
fn seconds(known: &KnownEntry) -> u64 {
    match (&known.content, known.expires) {
        (EntryContent::Nothing, _) => TOMBSTONE,
        (_, 0) => LONGEST,
        (_, expires) => expires.div_ceil(1000).min(MOST),
    }
}

fn is_new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..digits].parse::<u32>().unwrap_or(0)
    });
    let found = [(); 3].map(|()| parts.next().unwrap_or(0));
    found >= OLDEST
}

fn unexpected(reply: Option<MetaReply>) -> io::Error {
    match reply {
        Some(MetaReply::Failed(why)) => io::Error::other(format!("it says {why:?}")),
        other => {
            io::Error::new(io::ErrorKind::InvalidData, format!("its reply is not understood: {other:?}"))
        }
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

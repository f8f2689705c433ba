//! A file that can be served: its identity, its content, and its forms for clients that accept a content coding, each
//! with its complete fields.

use std::cell::{Cell, OnceCell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use millrace_settings::plan;
use millrace_wire::conditional::http_date;
use millrace_wire::encoding::Coding;

use super::compress::{self, FileCompression, PendingCompression};
use super::expiry::{self, UrlVersion};
use super::kinds::{MediaKind, kind_of};
use super::lookup::{self, FileStamp, FoundPath, LinkTarget, LookupFailure, Root};
use super::table::Cost;
use millrace_base::message::reply::Body;
use millrace_base::site::Reach;

/// Settings for all files of a thread.
#[derive(Debug)]
pub struct Rules {
    /// The `[files]` settings.
    pub plan: plan::Files,
    /// Maximum size of files in memory: always below a fraction of the cache. Bytes.
    pub small: u64,
    /// Maximum size of files to compress. Bytes.
    pub compress_to: u64,
}

/// What the files of one state of a site's root have in common. A new state gets a new `Home`.
#[derive(Debug)]
pub struct Home {
    /// Number of the state, unique in the thread.
    pub epoch: u32,
    /// The root as configured.
    pub path: PathBuf,
    /// With whose rights its files are opened, and where links may lead.
    pub reach: Reach,
    /// The root, open; `None` if it can't be.
    pub root: Option<Root>,
    /// The site's own fields, as lines.
    pub lines: Box<[u8]>,
    /// Whether responses say how long the file may be cached, depending on its kind.
    pub expires: bool,
    /// Settings for all files.
    pub rules: Rc<Rules>,
    /// Collects entries that have grown.
    pub ledger: Rc<Ledger>,
}

/// Entries that use more memory than the cache has counted. They grow outside of lookups.
#[derive(Debug, Default)]
pub struct Ledger {
    is_open: Cell<bool>,
    grown: RefCell<Vec<Weak<FileEntry>>>,
}

impl Ledger {
    /// The entries that have grown since the last call.
    pub fn take(&self) -> Vec<Weak<FileEntry>> {
        if self.is_open.replace(false) { self.grown.take() } else { Vec::new() }
    }

    fn note(&self, entry: &Rc<FileEntry>) {
        self.is_open.set(true);
        self.grown.borrow_mut().push(Rc::downgrade(entry));
    }
}

/// A file that can be served.
#[derive(Debug)]
pub struct FileEntry {
    home: Rc<Home>,
    path: Rc<[u8]>,
    target: Option<LinkTarget>,
    pub(super) stamp: FileStamp,
    kind: &'static MediaKind,
    /// `Last-Modified`, seconds since 1970. Never later than the time of the response (RFC 9110 section 8.8.2.1).
    modified: u64,
    version: UrlVersion,
    may_change_unseen: bool,
    plain: Rc<Representation>,
    coded: [CodedForm; 3],
}

/// The content in one coding, with its fields.
#[derive(Debug)]
pub struct Representation {
    /// The coding.
    pub coding: Coding,
    /// The entity-tag, with quotes; strong.
    pub etag: Box<str>,
    /// The content.
    pub content: FormContent,
    /// Field lines for 200 and 304, each by the version in the URL.
    blocks: [OnceCell<Arc<[u8]>>; 6],
}

/// Where a representation's bytes are.
#[derive(Clone, Debug)]
pub enum FormContent {
    /// In memory.
    Memory(Arc<[u8]>),
    /// In an open file.
    Disk {
        /// The file.
        file: Rc<File>,
        /// Its size, bytes.
        length: u64,
    },
}

/// Which field lines a response needs.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// For 304: without the fields that describe the missing content (RFC 9110 section 15.4.5).
    pub not_modified: bool,
    /// What the URL says about the version of the content.
    pub version: UrlVersion,
}

/// The forms in one coding.
#[derive(Debug, Default)]
struct CodedForm {
    sibling: RefCell<Sibling>,
    made: RefCell<MadeForm>,
}

/// A file beside the original with a suffix: `.br`, `.zst`, `.gz`.
#[derive(Debug, Default)]
struct Sibling {
    /// When it was last looked up.
    looked: Option<u64>,
    found: Option<(FileStamp, Rc<Representation>)>,
}

/// A form that this server makes.
#[derive(Debug, Default)]
enum MadeForm {
    /// Not requested yet.
    #[default]
    Not,
    /// Being made.
    Soon(PendingCompression),
    /// Made.
    Ready(Rc<Representation>),
    /// It does not shrink, or the file has changed.
    Useless,
}

/// The state of a form.
#[derive(Debug)]
pub enum CodingOffer {
    /// Available.
    Ready(Rc<Representation>),
    /// Being made; worth waiting for if `soon`.
    Later {
        /// Resolves when it is ready.
        done: PendingCompression,
        /// Whether it takes only milliseconds.
        soon: bool,
    },
    /// Not available in this coding.
    None,
}

impl FileEntry {
    /// Makes an entry of what was found at `path`; `wall` is the current time, in nanoseconds since 1970.
    ///
    /// # Errors
    /// The file can't be read, or has vanished.
    pub fn load(
        home: &Rc<Home>,
        root: &Root,
        path: Rc<[u8]>,
        found: FoundPath,
        wall: i64,
    ) -> Result<FileEntry, LookupFailure> {
        let target = found.target.clone();
        let (stamp, content) = take_in(root, &path, found, home.rules.small)?;
        let kind = kind_of(&path);
        Ok(FileEntry {
            home: home.clone(),
            target,
            stamp,
            kind,
            modified: stamp.modified_seconds().min(u64::try_from(wall / 1_000_000_000).unwrap_or(0)),
            version: if kind.keeps { expiry::version_of_name(&path) } else { UrlVersion::None },
            may_change_unseen: stamp.is_fresh(wall),
            plain: Rc::new(Representation::new(Coding::Identity, &stamp, content)),
            coded: Default::default(),
            path,
        })
    }

    /// State of the root in which it was found.
    pub fn epoch(&self) -> u32 {
        self.home.epoch
    }

    /// The path under which it was found.
    pub fn path(&self) -> &Rc<[u8]> {
        &self.path
    }

    /// The file's own name, starting with `/`, if a symbolic link led to it: its path below the root, or, if it is
    /// outside, the last segment. A name that is never served protects the file under the link's name, too.
    pub fn linked_name(&self) -> Option<&[u8]> {
        match self.target.as_ref()? {
            LinkTarget::Inside(path) => Some(path),
            LinkTarget::Outside(path) => Some(&path[memchr::memrchr(b'/', path).unwrap_or(0)..]),
        }
    }

    /// `Last-Modified`, seconds since 1970.
    pub fn modified(&self) -> u64 {
        self.modified
    }

    /// The uncoded content.
    pub fn plain(&self) -> &Rc<Representation> {
        &self.plain
    }

    /// `Content-Type`.
    pub fn media_type(&self) -> &'static str {
        self.kind.media_type
    }

    /// Whether the response depends on `Accept-Encoding`: true for all kinds that shrink, because a sibling may
    /// appear.
    pub fn varies(&self) -> bool {
        self.kind.shrinks
    }

    /// Whether `stamp` still is the file's state.
    pub fn is_current(&self, stamp: &FileStamp) -> bool {
        self.stamp == *stamp && !self.may_change_unseen
    }

    /// What the URL says about the version of the content.
    pub fn version(&self, query: Option<&[u8]>) -> UrlVersion {
        let query = query.filter(|_| self.kind.keeps && self.version < UrlVersion::Digest);
        query.map_or(self.version, |query| self.version.max(expiry::version_of_query(query)))
    }

    /// Its cost in the cache.
    pub fn cost(&self) -> Cost {
        let mut cost = Cost { entries: 1, bytes: self.overhead(), descriptors: 0 };
        self.plain.add_to(&mut cost);
        for coded in &self.coded {
            if let Some((_, representation)) = &coded.sibling.borrow().found {
                representation.add_to(&mut cost);
            }
            if let MadeForm::Ready(representation) = &*coded.made.borrow() {
                representation.add_to(&mut cost);
            }
        }
        cost
    }

    /// Memory without contents, bytes: the entry, its place in the table, and two blocks of fields.
    fn overhead(&self) -> usize {
        size_of::<FileEntry>() + 256 + self.path.len() + 2 * (self.home.lines.len() + 320)
    }

    /// The form in `coding`, looked up at `tick`.
    pub fn offer(self: &Rc<FileEntry>, coding: Coding, tick: u64) -> CodingOffer {
        let Some(coded) = self.coded.get(coding as usize) else {
            return CodingOffer::Ready(self.plain.clone());
        };
        if let Some(representation) = self.sibling(coded, coding, tick) {
            return CodingOffer::Ready(representation);
        }
        if !self.may_compress() {
            return CodingOffer::None;
        }
        let mut made = coded.made.borrow_mut();
        if let MadeForm::Not = *made {
            match compress::submit(self.job(coding)) {
                Some(done) => *made = MadeForm::Soon(done),
                None => return CodingOffer::None,
            }
        }
        if let MadeForm::Soon(done) = &*made {
            let Some(result) = done.result() else {
                return CodingOffer::Later { done: done.clone(), soon: compress::is_soon(self.stamp.size) };
            };
            drop(made);
            self.install(coding, result);
            made = coded.made.borrow_mut();
        }
        match &*made {
            MadeForm::Ready(representation) => CodingOffer::Ready(representation.clone()),
            _ => CodingOffer::None,
        }
    }

    /// Waits until the form in `coding` is ready; `None` if there will be none.
    pub async fn wait(
        self: &Rc<FileEntry>,
        coding: Coding,
        done: PendingCompression,
    ) -> Option<Rc<Representation>> {
        let result = done.wait().await;
        let coded = self.coded.get(coding as usize)?;
        // The first waiting request stores it for all.
        let is_first = matches!(*coded.made.borrow(), MadeForm::Soon(_));
        if is_first {
            self.install(coding, result);
        }
        coded.made.borrow().ready()
    }

    /// The entity-tag that this server's form in `coding` has, or would have.
    pub fn etag_in(&self, coding: Coding) -> String {
        etag(&self.stamp, coding)
    }

    /// The fields of a representation.
    pub fn fields(&self, representation: &Representation, shape: Shape) -> Arc<[u8]> {
        let block = &representation.blocks[usize::from(shape.not_modified) * 3 + shape.version as usize];
        block.get_or_init(|| self.lines(&representation.etag, representation.coding, shape).into()).clone()
    }

    /// The same for a representation that isn't available now, but whose entity-tag is known. `Content-Type`
    /// comes first.
    pub fn lines(&self, etag: &str, coding: Coding, shape: Shape) -> Vec<u8> {
        let mut lines =
            Lines { text: Vec::with_capacity(320 + self.home.lines.len()), site: &self.home.lines };
        if !shape.not_modified {
            lines.add("Content-Type", self.kind.media_type);
            if coding != Coding::Identity {
                lines.add("Content-Encoding", coding.name());
            }
            lines.add("Last-Modified", &http_date(self.modified));
        }
        lines.add("ETag", etag);
        if coding == Coding::Identity && !shape.not_modified {
            lines.add("Accept-Ranges", "bytes");
        }
        if self.varies() {
            lines.add("Vary", "Accept-Encoding");
        }
        if self.home.expires && self.home.rules.plan.expires {
            lines.add_default("Cache-Control", expiry::cache_control(self.kind, shape.version));
        }
        lines.text
    }

    fn may_compress(&self) -> bool {
        let rules = &self.home.rules;
        self.kind.shrinks
            && rules.plan.compress
            && (rules.plan.compress_from..=rules.compress_to).contains(&self.stamp.size)
            && self.stamp.size > 0
    }

    fn job(&self, coding: Coding) -> FileCompression {
        FileCompression {
            root: self.home.path.clone(),
            symlinks: self.home.rules.plan.symlinks,
            reach: self.home.reach.clone(),
            path: self.path.to_vec(),
            stamp: self.stamp,
            coding,
        }
    }

    fn install(self: &Rc<FileEntry>, coding: Coding, result: Option<Arc<[u8]>>) {
        let Some(coded) = self.coded.get(coding as usize) else { return };
        *coded.made.borrow_mut() = match result {
            Some(bytes) => {
                let content = FormContent::Memory(Arc::from(&*bytes));
                MadeForm::Ready(Rc::new(Representation::new(coding, &self.stamp, content)))
            }
            None => MadeForm::Useless,
        };
        self.home.ledger.note(self);
    }

    /// The file beside this one that contains it in `coding`. It must not be older: then it belongs to another state.
    fn sibling(
        self: &Rc<FileEntry>,
        coded: &CodedForm,
        coding: Coding,
        tick: u64,
    ) -> Option<Rc<Representation>> {
        let mut sibling = coded.sibling.borrow_mut();
        let revalidate = self.home.rules.plan.revalidate.as_millis() as u64;
        if sibling.looked.is_none_or(|looked| tick.saturating_sub(looked) >= revalidate) {
            sibling.looked = Some(tick);
            let before = sibling.found.as_ref().map(|(stamp, _)| *stamp);
            let now = self.find_sibling(coding, before);
            match now {
                Some(stamp) if before == Some(stamp) => {}
                Some(_) => sibling.found = self.load_sibling(coding),
                None => sibling.found = None,
            }
            let after = sibling.found.as_ref().map(|(stamp, _)| *stamp);
            if before != after {
                self.home.ledger.note(self);
            }
        }
        sibling.found.as_ref().map(|(_, representation)| representation.clone())
    }

    /// State of the sibling, if there is a valid one. If the machine can't tell: `before`.
    fn find_sibling(&self, coding: Coding, before: Option<FileStamp>) -> Option<FileStamp> {
        match self.home.root.as_ref()?.look(&self.sibling_path(coding)) {
            Ok(found) => self.is_sibling(&found).then_some(found.stamp),
            Err(LookupFailure::Missing) => None,
            Err(_) => before,
        }
    }

    fn load_sibling(&self, coding: Coding) -> Option<(FileStamp, Rc<Representation>)> {
        let root = self.home.root.as_ref()?;
        let path = self.sibling_path(coding);
        let found = root.open(&path).ok().filter(|found| self.is_sibling(found))?;
        let (stamp, content) = take_in(root, &path, found, self.home.rules.small).ok()?;
        Some((stamp, Rc::new(Representation::new(coding, &stamp, content))))
    }

    fn is_sibling(&self, found: &FoundPath) -> bool {
        found.kind == lookup::PathKind::File
            && found.stamp.modified >= self.stamp.modified
            && (1..self.stamp.size).contains(&found.stamp.size)
    }

    fn sibling_path(&self, coding: Coding) -> Vec<u8> {
        let suffix: &[u8] = match coding {
            Coding::Brotli => b".br",
            Coding::Zstd => b".zst",
            Coding::Gzip => b".gz",
            Coding::Identity => b"",
        };
        [&self.path, suffix].concat()
    }
}

impl MadeForm {
    fn ready(&self) -> Option<Rc<Representation>> {
        match self {
            MadeForm::Ready(representation) => Some(representation.clone()),
            _ => None,
        }
    }
}

impl Representation {
    fn new(coding: Coding, stamp: &FileStamp, content: FormContent) -> Representation {
        Representation { coding, etag: etag(stamp, coding).into(), content, blocks: Default::default() }
    }

    fn add_to(&self, cost: &mut Cost) {
        match &self.content {
            FormContent::Memory(bytes) => cost.bytes += bytes.len(),
            FormContent::Disk { .. } => cost.descriptors += 1,
        }
    }
}

impl FormContent {
    /// Length, bytes.
    pub fn length(&self) -> u64 {
        match self {
            FormContent::Memory(bytes) => bytes.len() as u64,
            FormContent::Disk { length, .. } => *length,
        }
    }

    /// Bytes `start..end`, which must lie within.
    pub fn part(&self, start: u64, end: u64) -> Body {
        debug_assert!(start <= end && end <= self.length());
        match self {
            _ if start == end => Body::Empty,
            FormContent::Memory(bytes) => {
                Body::Shared { bytes: bytes.clone(), start: start as usize, end: end as usize }
            }
            FormContent::Disk { file, .. } => {
                Body::File { file: file.clone(), offset: start, length: end - start }
            }
        }
    }
}

/// Field lines; the site's own take precedence over ours where only one is allowed.
struct Lines<'a> {
    text: Vec<u8>,
    site: &'a [u8],
}

impl Lines<'_> {
    fn add(&mut self, name: &str, value: &str) {
        for part in [name, ": ", value, "\r\n"] {
            self.text.extend_from_slice(part.as_bytes());
        }
    }

    fn add_default(&mut self, name: &str, value: &str) {
        let is_it = |line: &[u8]| {
            line.get(..name.len()).is_some_and(|n| n.eq_ignore_ascii_case(name.as_bytes()))
                && line.get(name.len()) == Some(&b':')
        };
        if !self.site.split(|b| *b == b'\n').any(is_it) {
            self.add(name, value);
        }
    }
}

/// Size and time of modification. Not the inode: machines that serve copies of one site agree on the rest.
fn etag(stamp: &FileStamp, coding: Coding) -> String {
    let suffix = match coding {
        Coding::Identity => "",
        Coding::Brotli => "-br",
        Coding::Zstd => "-zst",
        Coding::Gzip => "-gz",
    };
    format!("\"{:x}-{:x}{suffix}\"", stamp.modified, stamp.size)
}

/// Reads a small file, keeps a large one open. The content always has the length of the file: a file that changes
/// while it is read is read again, and if it changes once more, stays on disk.
fn take_in(
    root: &Root,
    path: &[u8],
    found: FoundPath,
    small: u64,
) -> Result<(FileStamp, FormContent), LookupFailure> {
    let mut found = found;
    for attempt in 0..2 {
        if found.stamp.size > small {
            break;
        }
        if let Some(bytes) = read_unchanged(&found)? {
            return Ok((found.stamp, FormContent::Memory(bytes.into())));
        }
        if attempt == 0 {
            found = root.open(path)?;
            if found.kind != lookup::PathKind::File {
                return Err(LookupFailure::Missing);
            }
        }
    }
    let length = found.stamp.size;
    Ok((found.stamp, FormContent::Disk { file: Rc::new(found.file), length }))
}

/// The content of a file; `None` if it changed meanwhile.
pub fn read_unchanged(found: &FoundPath) -> Result<Option<Vec<u8>>, LookupFailure> {
    let mut bytes = vec![0; found.stamp.size as usize];
    match found.file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok((lookup::stamp_of(&found.file)? == found.stamp).then_some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error.into()),
    }
}

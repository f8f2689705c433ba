//! A folder, a cache and a clock that the test sets.

mod answers;
mod codings;
mod finding;
mod links;
mod ranges;

use std::cell::Cell;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millrace_settings::plan::{self, Symlinks};
use millrace_wire::head::Head;

use super::answer::{FileRequest, respond};
use super::cache::SitePlace;
use super::{FileEntry, FileMoment, FileResponse, Node, OpenFileCache, Purpose};
use millrace_base::message::reply::{Body, Reply};
use millrace_base::site::Reach;

/// A folder that is deleted with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("millrace-files-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(std::fs::canonicalize(path).unwrap())
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        std::fs::write(self.at(path), content).unwrap();
    }

    pub fn link(&self, path: &str, target: impl AsRef<Path>) {
        std::os::unix::fs::symlink(target, self.at(path)).unwrap();
    }

    pub fn remove(&self, path: &str) {
        std::fs::remove_file(self.at(path)).unwrap();
    }

    /// Replaces `path` atomically with another file, by `rename`.
    pub fn replace(&self, path: &str, content: impl AsRef<[u8]>) {
        self.write("new", content);
        std::fs::rename(self.at("new"), self.at(path)).unwrap();
    }

    /// Sets the time of modification to `seconds` ago.
    pub fn age(&self, path: &str, seconds: u64) {
        let file = std::fs::File::options().append(true).open(self.at(path)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits long enough for file systems to notice: their clocks tick in milliseconds.
pub fn settle() {
    std::thread::sleep(Duration::from_millis(30));
}

/// The default `[files]` settings of the tests.
pub fn limits() -> plan::Files {
    plan::Files {
        cache_entries: 1000,
        cache_bytes: 16 << 20,
        small_file: 64 << 10,
        revalidate: Duration::from_secs(1),
        compress: true,
        compress_from: 1100,
        compress_to: 8 << 20,
        index: Vec::new(),
        symlinks: Symlinks::Inside,
        expires: true,
    }
}

/// A site of one folder.
pub struct Site {
    pub folder: Folder,
    pub cache: OpenFileCache,
    pub root: PathBuf,
    pub lines: &'static str,
    pub reach: Reach,
    tick: Cell<u64>,
}

impl Site {
    pub fn new() -> Site {
        Site::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut plan::Files)) -> Site {
        let mut limits = limits();
        change(&mut limits);
        let folder = Folder::new();
        Site {
            root: folder.at(""),
            folder,
            cache: OpenFileCache::new(&limits, 1),
            lines: "",
            reach: Reach::default(),
            tick: Cell::new(5_000),
        }
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        self.folder.write(path, content);
    }

    /// Advances the cache's clock.
    pub fn pass(&self, milliseconds: u64) {
        self.tick.set(self.tick.get() + milliseconds);
    }

    pub fn now(&self) -> FileMoment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
        FileMoment { tick: self.tick.get(), wall, scripts: 0 }
    }

    /// The node, and whether it was a hit.
    pub fn look(&self, path: impl AsRef<[u8]>, purpose: Purpose) -> (Node, bool) {
        let place = SitePlace {
            index: 0,
            identity: 1,
            root: &self.root,
            reach: &self.reach,
            lines: self.lines.as_bytes(),
            expires: true,
        };
        self.cache.find_at(self.now(), &place, path.as_ref(), purpose)
    }

    pub fn find(&self, path: impl AsRef<[u8]>) -> Node {
        self.look(path, Purpose::Serve).0
    }

    pub fn entry(&self, path: &str) -> Rc<FileEntry> {
        match self.find(path) {
            Node::File(entry) => entry,
            other => panic!("{path} is {other:?}"),
        }
    }

    /// The cached content for `path`; `None` if there is no such file.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        match self.find(path) {
            Node::File(entry) => {
                let content = &entry.plain().content;
                Some(bytes_of(&content.part(0, content.length())))
            }
            Node::Missing => None,
            other => panic!("{path} is {other:?}"),
        }
    }

    pub fn ask(&self, method: &str, target: &str, fields: &[(&str, &str)]) -> FileResponse {
        let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q.as_bytes())));
        let entry = self.entry(path);
        let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
        let head = Head::from_parts(method, "example.com", target, fields);
        respond(&entry, FileRequest::read(&head, query, &entry), self.now())
    }

    pub fn get(&self, target: &str, fields: &[(&str, &str)]) -> Reply {
        finish(self.ask("GET", target, fields))
    }
}

/// The reply, after waiting if necessary.
pub fn finish(answer: FileResponse) -> Reply {
    match answer {
        FileResponse::Ready(reply) => reply,
        FileResponse::Later(reply) => {
            wait_for(async { tokio::time::timeout(PATIENCE, reply).await.unwrap() })
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

pub fn wait_for<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Runs the ignored test `name` of these in a process limited to `descriptors` open files.
pub fn in_own_process(name: &str, descriptors: u32) {
    let script = format!("ulimit -n {descriptors}; exec \"$0\" --exact \"$1\" --ignored");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &script]).arg(std::env::current_exe().unwrap()).arg(format!("files::tests::{name}"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

/// The bytes that a client would get.
pub fn bytes_of(body: &Body) -> Vec<u8> {
    match body {
        Body::Empty => Vec::new(),
        Body::Bytes(bytes) => bytes.clone(),
        Body::Shared { bytes, start, end } => bytes[*start..*end].to_vec(),
        Body::File { file, offset, length } => {
            let mut bytes = vec![0; *length as usize];
            file.read_exact_at(&mut bytes, *offset).unwrap();
            bytes
        }
        Body::Parts(parts) => parts.iter().flat_map(bytes_of).collect(),
        other => panic!("not a file's body: {other:?}"),
    }
}

pub fn field(reply: &Reply, name: &str) -> String {
    let values: Vec<String> = reply
        .fields
        .iter()
        .filter(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, value)| String::from_utf8(value.to_vec()).unwrap())
        .collect();
    values.join(" | ")
}

/// Text that compresses well.
pub fn text(length: usize) -> Vec<u8> {
    b"All work and no play makes Jack a dull boy.\n".iter().copied().cycle().take(length).collect()
}

/// Data that doesn't compress.
pub fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

//! `[php]`, `[site.php]` and `[php.pool.NAME]`: how PHP runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::{Backend, Variables};

/// Versions that PHP can have, newest first: there is a program for each.
pub const PHP_VERSIONS: [&str; 4] = ["8.4", "8.3", "8.2", "8.1"];

/// `[php]`, overridden by a site's own `[site.php]`. Sites with equal values share one PHP host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Php {
    /// The program that runs PHP; `None`: the one for `version`.
    pub program: Option<PathBuf>,
    /// `8.2`: the PHP version to run; `None`: the newest, or the only one that there is. Not set with `program`.
    pub version: Option<&'static str>,
    /// Maximum workers. At least 1.
    pub workers: usize,
    /// Whether `workers` is only a ceiling, because the configuration sets none and the server measures their memory.
    pub workers_measured: bool,
    /// Maximum workers until their memory is known; `workers` if it is configured.
    pub workers_first: usize,
    /// Private memory above which a worker is replaced after its request, bytes; 0: no limit; `None`: measured.
    pub worker_memory: Option<u64>,
    /// Workers to start with the server.
    pub workers_start: usize,
    /// Idle workers to keep, however long they are idle.
    pub workers_spare: usize,
    /// How long a worker may be idle before it ends, if more than `workers_spare` are idle.
    pub idle_timeout: Duration,
    /// Requests after which a worker is replaced; 0: never.
    pub max_requests: u64,
    /// Maximum wall-clock time that a script takes until its next content; beyond it the script is ended and the client
    /// gets 504. 0: no limit.
    pub request_timeout: Duration,
    /// Maximum wall-clock time that a script may give itself by `set_time_limit()`. 0: no limit.
    pub time_limit_max: Duration,
    /// Maximum wall-clock time that a script goes on behind its response. 0: no limit.
    pub background_timeout: Duration,
    /// How long a script that has exceeded its time may take to end before its worker is killed. 0: kill at once.
    pub terminate_grace: Duration,
    /// Run time after which a request is reported with PHP's backtrace. 0: only before a timeout.
    pub slow_log: Duration,
    /// How long a request that has killed two workers is not run, and its page is suspect. 0: never.
    pub crash_pause: Duration,
    /// Maximum requests that wait for a worker; beyond: 503.
    pub queue: usize,
    /// How long a request may wait for a worker; beyond: 503.
    pub queue_timeout: Duration,
    /// Ini file that PHP reads instead of the distribution's.
    pub ini_file: Option<PathBuf>,
    /// Ini values that override every ini file, as `php -d` does.
    pub ini: BTreeMap<String, String>,
    /// Environment variables of its scripts.
    pub env: Variables,
    /// User that runs PHP; `None`: the server's own.
    pub user: Option<String>,
    /// Group that runs PHP; `None`: the user's first.
    pub group: Option<String>,
    /// What scripts are denied.
    pub sandbox: Sandbox,
    /// Whether to set PHP's open_basedir to `folders`.
    pub open_basedir: OpenBasedir,
    /// Directories that scripts of all sites with these settings may use, besides the system's and a temporary one.
    pub folders: Vec<Folder>,
    /// PHP functions to disable, besides those of the ini files.
    pub disable_functions: Vec<String>,
    /// Directory for the temporary directory of each set of workers; `None`: they have none.
    pub temp_dir: Option<PathBuf>,
    /// Whether workers put their memory back to a point behind an application's boot, after each request. Experimental: what
    /// the boot has read of the database may be a second old.
    pub rewind: Rewind,
    /// Functions, methods and files of scripts that may call in such a boot what forbids an image.
    pub rewind_except: Vec<String>,
    /// Named shares of the workers; at least one. The first is [`PhpPool::FRONT`] and gets requests that match no other.
    pub pools: Vec<PhpPool>,
    /// FastCGI backends instead of Millrace's workers; empty: none.
    pub fastcgi: Vec<Backend>,
    /// Time limit for a connection to a backend.
    pub fastcgi_connect_timeout: Duration,
    /// Maximum pause between two pieces of a response; beyond it the client gets 504. Zero: no limit.
    pub fastcgi_read_timeout: Duration,
    /// Requests after which a persistent worker is replaced; 0: never.
    pub worker_requests: u64,
    /// Script of persistent workers; `None`: these workers start a script for each request.
    pub worker: Option<WorkerScript>,
}

/// `php.worker_script`: the script that a persistent worker boots once, and that then serves requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerScript {
    /// Its file, absolute.
    pub file: PathBuf,
    /// Its `SCRIPT_NAME`: `/worker.php`.
    pub name: String,
    /// The site's root, its `DOCUMENT_ROOT` while it boots.
    pub root: PathBuf,
}

/// What scripts are denied beyond the limits of their user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// No new privileges, no files outside [`Php::folders`] (Landlock), only the system calls that programs need (seccomp).
    On,
    /// No new privileges.
    Privileges,
    /// Only the limits of the user.
    Off,
}

/// Whether requests begin in an image of their application's boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rewind {
    /// No.
    #[default]
    Off,
    /// Yes, and now and then a request is run both ways, to compare the responses.
    Auto,
    /// Yes.
    On,
}

/// Whether to set open_basedir.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenBasedir {
    /// If the sandbox does not restrict directories.
    Auto,
    /// Always.
    Site,
    /// Never.
    Off,
}

/// A directory that scripts may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Absolute path.
    pub path: PathBuf,
    /// Whether they may write there.
    pub writable: bool,
}

/// `[php.pool.NAME]`: a named share of a site's PHP workers, with its own queue and limits. Numbers of workers that are not
/// configured depend on `workers` of all pools together, which may become known late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpPool {
    /// `front`, `admin`, `background`, or a name of the user's choice.
    pub name: String,
    /// Workers of the pool: requests that run in it at the same time, without borrowing.
    pub workers: Option<usize>,
    /// Reserved workers: no other pool may borrow them, even if they are idle.
    pub keep: Option<usize>,
    /// Maximum workers to borrow from other pools.
    pub borrow: Option<usize>,
    /// Maximum requests that wait for a worker of the pool; beyond: 503.
    pub queue: usize,
    /// How long a request may wait for a worker of the pool; beyond: 503.
    pub queue_timeout: Duration,
    /// Longest expected wait with which a request is admitted; `None`: any.
    pub queue_wait: Option<Duration>,
    /// Whether to run fewer requests at once while more would only make each slower.
    pub adaptive: bool,
    /// Maximum wall-clock time of a request. 0: no limit.
    pub request_timeout: Duration,
    /// Maximum wall-clock time that a script may give itself by `set_time_limit()`. 0: no limit.
    pub time_limit_max: Duration,
    /// How much its workers yield to other processes, 0 to 19, on top of the server's own nice value.
    pub nice: u8,
    /// Paths of its requests, written as the page cache's `bypass_paths`. A request belongs to a pool if it matches one of
    /// the paths, cookies or arguments.
    pub paths: Vec<String>,
    /// Methods of its requests; empty: any.
    pub methods: Vec<String>,
    /// Cookies of its requests.
    pub cookies: Vec<String>,
    /// Arguments of its requests, each a name or `name=value`.
    pub arguments: Vec<String>,
}

impl PhpPool {
    /// The pool of visitors, which every site has.
    pub const FRONT: &str = "front";
    /// The pool of administrators and editors.
    pub const ADMIN: &str = "admin";
    /// The pool of background jobs.
    pub const BACKGROUND: &str = "background";
}

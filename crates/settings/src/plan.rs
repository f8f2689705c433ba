//! The resolved configuration. Every field has a value inside its bounds; nothing here remembers how it was typed.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::memory::Shares;

/// All that a server needs to know to run. Built by [`crate::resolve`], never changed afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// `[server]`: threads, listeners, life cycle.
    pub server: Server,
    /// `[http]`: limits and time-outs of the protocol.
    pub http: Http,
    /// `[https]` and `[[tls]]`: TLS and its certificates.
    pub https: Https,
    /// `[acme]`: whence certificates come by themselves.
    pub acme: Acme,
    /// `[files]`: static files and their cache.
    pub files: Files,
    /// `[cache]`: the page cache, as far as all sites share it.
    pub cache: Cache,
    /// `[log]`: access log and error log.
    pub log: Log,
    /// `[admin]`: where metrics and status are served.
    pub admin: Admin,
    /// `[[site]]`, in the order written; at least one. Exactly one has `default` set.
    pub sites: Vec<Site>,
}

/// Where a listener or the admin address lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// `127.0.0.1:8080`, `[::1]:8080`, `:8080` (every IPv4 and IPv6 address).
    Tcp(SocketAddr),
    /// `unix:/run/millrace.sock`.
    Unix(PathBuf),
}

/// Where php-fpm, or what else speaks FastCGI, takes connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `127.0.0.1:9000`, `[::1]:9000`, `php:9000`: a name is looked up whenever a connection is made.
    Tcp(String),
    /// `unix:/run/php/php8.2-fpm.sock`.
    Unix(PathBuf),
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Backend::Tcp(address) => f.write_str(address),
            Backend::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// `[server]`
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Event loops, one a core. At least 1.
    pub threads: usize,
    /// Whether each event loop is bound to one core.
    pub pin_threads: bool,
    /// Listening addresses; at least one.
    pub listen: Vec<Address>,
    /// Connections waiting to be accepted, for each listening socket.
    pub backlog: u32,
    /// Open client connections a listener; 0: as many as the descriptor limit allows.
    pub connections: usize,
    /// Open connections from one address; 0: no limit.
    pub connections_per_address: usize,
    /// Memory that connections may take together, the kernel's part included. Bytes; 0: no bound.
    pub connection_memory: u64,
    /// Somebody has written that; else it is what the others leave.
    pub connection_memory_is_written: bool,
    /// Who may have how much of the machine's memory.
    pub memory_shares: Shares,
    /// How long running requests may go on after SIGTERM.
    pub shutdown_grace: Duration,
    /// Proxies whose `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host` are believed.
    pub trusted_proxies: Vec<Network>,
    /// Where large request bodies are spooled, and answers that clients take slower than PHP makes them.
    pub spool_dir: PathBuf,
    /// Disk space there for such answers, all together; one of them may take half of it. Bytes; 0: none.
    pub spool_bytes: u64,
}

/// An address block, `10.0.0.0/8`; `unix` stands for every Unix socket peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Address and prefix length in bits.
    Block(std::net::IpAddr, u8),
    /// Peers that came in through a Unix socket listener.
    Unix,
}

/// `[http]`: limits on what a client may send, and how slowly.
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// Request line and fields together, bytes. Beyond: 431.
    pub head_bytes: usize,
    /// Fields in a request head. Beyond: 431.
    pub head_fields: usize,
    /// Request target, bytes. Beyond: 414.
    pub target_bytes: usize,
    /// From a connection's first byte to the end of the head. Beyond: 408.
    pub head_timeout: Duration,
    /// Pause between two pieces of a request body. Beyond: 408.
    pub body_timeout: Duration,
    /// Least mean rate of a request body, bytes a second, after the first `body_timeout`; 0: none.
    pub body_min_rate: u64,
    /// Request body, bytes. Beyond: 413. A site may set its own.
    pub body_bytes: u64,
    /// Part of a request body that is held in memory; beyond it goes to a file in `server.spool_dir`.
    pub body_memory: usize,
    /// An idle connection is closed after this.
    pub keep_alive: Duration,
    /// Requests on one connection; 0: no limit.
    pub keep_alive_requests: u64,
    /// Pause of a client that takes no more of the answer; beyond it the connection is reset.
    pub send_timeout: Duration,
    /// Whether scripts may have 103 (Early Hints) sent.
    pub early_hints: bool,
    /// Whether plain connections may begin with HTTP/2 (prior knowledge).
    pub h2c: bool,
    /// Requests that an HTTP/2 connection has under way at most. At least 1.
    pub h2_streams: u32,
    /// Content that an HTTP/2 client may send before it is read, bytes: each request, and all of a connection.
    pub h2_window: u32,
    /// Frames without use that an HTTP/2 client may send at once; a tenth of it comes back each second.
    pub h2_frames: u32,
    /// Requests that an HTTP/2 client may cancel at once; a tenth of it comes back each second.
    pub h2_resets: u32,
}

/// `[https]` and `[[tls]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Https {
    /// Addresses where connections are encrypted; none: there is no HTTPS.
    pub listen: Vec<Address>,
    /// Certificates, the first for clients that ask for no name or an unknown one.
    pub certificates: Vec<Certificate>,
    /// Whether a certificate of our own serves where there is none.
    pub self_signed: bool,
    /// Handshakes that wait for their turn, each event loop. At least 1.
    pub handshakes: usize,
    /// From a connection's first byte to the end of the handshake.
    pub handshake_timeout: Duration,
    /// Whether HTTP/2 is offered.
    pub http2: bool,
    /// Whether requests may come before the handshake is over (0-RTT).
    pub early_data: bool,
    /// Whether the kernel may encipher large files, if it can.
    pub kernel_tls: bool,
    /// How long browsers shall come by HTTPS only (RFC 6797); zero: nothing is said.
    pub hsts: Duration,
}

/// `[acme]`: an authority that is asked for certificates (RFC 8555), for the sites that have [`Site::acme`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    /// Whether its terms are agreed to; without that it is not asked.
    pub terms_agreed: bool,
    /// Where it may write to.
    pub email: Option<String>,
    /// URL of its directory.
    pub directory: String,
    /// Certificates, in PEM, by which the authority's own server is known; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// Where account and certificates are kept; `None`: nowhere is known.
    pub dir: Option<PathBuf>,
    /// How it is shown that names are ours.
    pub challenge: Challenge,
}

/// How an authority is shown that a name is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// By whichever works.
    Any,
    /// By a file at port 80 (RFC 8555 section 8.3).
    Http,
    /// By a certificate at port 443 (RFC 8737).
    TlsAlpn,
}

/// `[[tls]]`: files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, its chain behind it.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// What its authority says of it (OCSP), in DER.
    pub ocsp: Option<PathBuf>,
}

/// `[files]`
#[derive(Clone, Debug, PartialEq)]
pub struct Files {
    /// Entries of the open-file cache, all threads together.
    pub cache_entries: usize,
    /// Bytes of the open-file cache, all threads together.
    pub cache_bytes: usize,
    /// Files up to this size are kept in memory with their head; larger ones are sent with sendfile. Bytes.
    pub small_file: usize,
    /// A cached file is compared with the disk again after this.
    pub revalidate: Duration,
    /// Whether text types are compressed.
    pub compress: bool,
    /// Least size to compress, bytes.
    pub compress_from: u64,
    /// Largest file that is compressed, bytes.
    pub compress_to: u64,
    /// Names tried in a directory.
    pub index: Vec<String>,
    /// What a symbolic link may point to.
    pub symlinks: Symlinks,
    /// Whether `Cache-Control` by type is sent.
    pub expires: bool,
}

/// What a symbolic link in a site's root may point to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// Only to a place inside the root.
    Inside,
    /// Anywhere.
    Follow,
}

/// `[cache]`, the part that all sites share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Memory for everything that the cache holds, bytes.
    pub memory: usize,
    /// Folder where pages outlive a restart; `None`: they don't.
    pub dir: Option<PathBuf>,
    /// Disk space for the files in `dir`, bytes.
    pub disk_bytes: u64,
    /// How long a request waits for another one that makes the same page; beyond: a stale page, else 503.
    pub fill_wait: Duration,
    /// Variants of one page; beyond: not kept. At least 1.
    pub variants: usize,
    /// Who may send `PURGE` and `BAN`.
    pub purge_from: Vec<Network>,
    /// Who sends this with them may, too.
    pub purge_token: Option<Secret>,
}

/// A secret. Its debug form is not.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

/// Environment variables, by name. Their values are secrets, often: the debug form has the names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(pub BTreeMap<String, String>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// `[cache]` with a site's own `[site.cache]` on top: how its pages are kept. Lists are those written, without what the
/// profile knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteCache {
    /// Who decides what is kept.
    pub mode: CacheMode,
    /// Largest page that is kept, bytes before compression.
    pub page_bytes: usize,
    /// How long it is remembered that a page can't be kept.
    pub hit_for_miss: Duration,
    /// Lifetimes where the answer doesn't say, and their bounds.
    pub ttl: Ttl,
    /// Use after the lifetime while a new page is made, where the answer doesn't say.
    pub stale_while_revalidate: Duration,
    /// Use after the lifetime when PHP fails or is overloaded, where the answer doesn't say.
    pub stale_if_error: Duration,
    /// Upper bound of both, whatever an answer says.
    pub stale_max: Duration,
    /// Arguments that make no other page: names, `*` at either end for anything.
    pub ignore_arguments: Vec<String>,
    /// Arguments with which a request goes to PHP; patterns as in `ignore_arguments`.
    pub bypass_arguments: Vec<String>,
    /// Cookies with which a request goes to PHP; patterns as in `ignore_arguments`.
    pub bypass_cookies: Vec<String>,
    /// Paths that go to PHP: `/a` with all below it, `/a*` whatever begins so, `*/a` at any depth, `*a`
    /// whatever ends so.
    pub bypass_paths: Vec<String>,
    /// Cookies whose values are part of the key; patterns as in `ignore_arguments`.
    pub key_cookies: Vec<String>,
    /// Whether the scheme is part of the key.
    pub key_scheme: bool,
    /// Whether the class of the device is part of the key.
    pub key_device: bool,
    /// Fields that `Vary` may name besides the known ones, lower case.
    pub vary_fields: Vec<String>,
    /// Cookies of visitors that are remembered with what PHP has found about them, of each kind.
    pub visitors: usize,
    /// How long it is remembered that a visitor is logged in, or has a cart or a session.
    pub visitor_time: Duration,
    /// How long it is remembered that a cookie means nothing.
    pub anonymous_time: Duration,
}

/// Who decides what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// The answer, and the application's profile where it says nothing.
    Profile,
    /// The answer's standard fields alone (RFC 9111).
    Standard,
    /// Nothing is kept.
    Off,
}

/// Lifetimes by kind of answer, where it doesn't say; zero: not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// HTML pages.
    pub page: Duration,
    /// 404 and 410.
    pub not_found: Duration,
    /// 301 and 308.
    pub redirect: Duration,
    /// Feeds.
    pub feed: Duration,
    /// Sitemaps.
    pub sitemap: Duration,
    /// GETs of the application's public API.
    pub api: Duration,
    /// Anything else with status 200.
    pub other: Duration,
    /// Upper bound of every lifetime.
    pub max: Duration,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Access log: off, or a file.
    pub access: Option<PathBuf>,
    /// Form of an access log line.
    pub access_format: AccessFormat,
    /// Error log: standard error, or a file.
    pub error: Option<PathBuf>,
    /// Least severity that is logged.
    pub level: Level,
}

/// Form of an access log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// Apache's and nginx's combined format, followed by the time the request took in seconds.
    Combined,
    /// One JSON object a line.
    Json,
}

/// Severity of an error log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something that only a developer of Millrace wants to know.
    Debug,
    /// What the server does.
    Info,
    /// Something is wrong and the server helped itself.
    Warn,
    /// Something failed.
    Error,
}

/// `[admin]`
#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    /// Where metrics, status and reload are served; `None`: nowhere.
    pub listen: Option<Address>,
}

/// `[[site]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Host names without port, lower case; the first is the site's own name (SERVER_NAME). `*.example.com` matches
    /// one or more labels. Empty only for the default site, which then answers for every host.
    pub names: Vec<String>,
    /// Whether requests for unknown hosts come here.
    pub default: bool,
    /// Those of the names for which certificates come by themselves.
    pub acme: Vec<String>,
    /// Document root, absolute, links resolved at the time of use.
    pub root: PathBuf,
    /// Rules of the application.
    pub profile: Profile,
    /// Whether a file or directory of the URL's name is looked for before the front controller.
    pub try_files: bool,
    /// Script, below the root, that answers URLs without a file: `/index.php`. `None`: they are 404.
    pub front_controller: Option<String>,
    /// Whether it is a network of WordPress sites; means nothing to other applications.
    pub network: Multisite,
    /// Files that are served though their names say that visitors must not have them, and scripts below `vendor/` that run
    /// all the same; paths as in [`SiteCache::bypass_paths`].
    pub allow_files: Vec<String>,
    /// Fields added to every answer of the site.
    pub headers: Vec<(String, String)>,
    /// Where requests are sent on before anything else.
    pub redirect: Redirect,
    /// Whether clients are asked for a certificate, and whose certificates count.
    pub clients: Option<Clients>,
    /// Request body, bytes.
    pub body_bytes: u64,
    /// Folders below which a script may have files sent by `X-Sendfile`, besides the root.
    pub sendfile_roots: Vec<PathBuf>,
    /// Paths that only `X-Accel-Redirect` leads to: with a slash in front and at the end, and the folder that each stands for.
    pub internal: Vec<(String, PathBuf)>,
    /// How its pages are kept.
    pub cache: SiteCache,
    /// The file that visitors get for whom there is no PHP worker.
    pub overload_page: Option<PathBuf>,
    /// Whether browsers that have to wait for a worker get a place in the waiting room.
    pub waiting_room: bool,
    /// The page that they get, with marks for what changes; `None`: the server's own.
    pub waiting_page: Option<PathBuf>,
    /// Whether what its scripts say is compressed on its way.
    pub compress_php: bool,
    /// The root as php-fpm sees it, if that is another path.
    pub fastcgi_root: Option<PathBuf>,
    /// How PHP runs; `None`: the site has no PHP.
    pub php: Option<Php>,
    /// The same for its persistent workers; `None`: it has none. [`Php::worker`] is set.
    pub persistent: Option<Php>,
}

/// Rules of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// WordPress and what is built on it.
    WordPress,
    /// Drupal 7 and later, and Backdrop.
    Drupal,
    /// Plain PHP and files.
    Generic,
}

/// A network of WordPress sites (multisite).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multisite {
    /// As `wp-config.php` says, also while the server runs.
    Auto,
    /// It is none.
    Off,
    /// Its sites are `/one/`, `/two/`: what they ask for below these lies in the root.
    Subfolder,
    /// Its sites have host names of their own.
    Subdomain,
}

/// What a site redirects before it looks at the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirect {
    /// `http` requests go to `https`.
    pub https: bool,
    /// The status of redirects; `None`: 301 for GET and HEAD, 308 for other methods.
    pub status: Option<u16>,
    /// What happens with a leading `www.`.
    pub www: Www,
}

/// `site.client_verify` and `site.client_ca`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Clients {
    /// Who has no certificate gets nothing.
    pub required: bool,
    /// The authorities whose certificates count, in PEM.
    pub ca: PathBuf,
}

/// What happens with a leading `www.` in the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Www {
    /// Both are served.
    #[default]
    Keep,
    /// `example.com` is sent to `www.example.com`.
    Add,
    /// `www.example.com` is sent to `example.com`.
    Remove,
}

/// `[php]`, with a site's own `[site.php]` on top. Sites with equal values share one PHP host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Php {
    /// The program `millrace-php`; `None`: beside the server's own program, then in PATH.
    pub program: Option<PathBuf>,
    /// Most workers at once. At least 1.
    pub workers: usize,
    /// Nobody has written that: it is a ceiling, and how many there may be is found by measuring their memory.
    pub workers_measured: bool,
    /// Most workers as long as their memory is not known; `workers` if it need not be.
    pub workers_first: usize,
    /// Memory of its own with which a worker is replaced after its request, bytes; 0: none is; `None`: found by measuring.
    pub worker_memory: Option<u64>,
    /// Workers started with the server.
    pub workers_start: usize,
    /// Idle workers that are kept however long they are idle.
    pub workers_spare: usize,
    /// A worker idle for longer than this ends, if more than `workers_spare` are idle.
    pub idle_timeout: Duration,
    /// Requests after which a worker is replaced; 0: never.
    pub max_requests: u64,
    /// Wall-clock time of one request; beyond it the script is ended and the client gets 504. 0: none.
    pub request_timeout: Duration,
    /// How long a script whose time is up may take to end before its worker is killed. 0: killed at once.
    pub terminate_grace: Duration,
    /// A request that takes longer is noted with PHP's backtrace. 0: only if its time is nearly up.
    pub slow_log: Duration,
    /// How long a request is not run that has killed two workers, and its page is suspect. 0: never.
    pub crash_pause: Duration,
    /// Requests that may wait for a worker; beyond: 503.
    pub queue: usize,
    /// How long a request may wait for a worker; beyond: 503.
    pub queue_timeout: Duration,
    /// The ini file PHP starts with instead of the distribution's.
    pub ini_file: Option<PathBuf>,
    /// ini values on top of every file, as `php -d` sets them.
    pub ini: BTreeMap<String, String>,
    /// Environment variables of its scripts.
    pub env: Variables,
    /// User that PHP runs as; `None`: the server's own.
    pub user: Option<String>,
    /// Group that PHP runs as; `None`: the user's first.
    pub group: Option<String>,
    /// What keeps workers in.
    pub sandbox: Sandbox,
    /// Whether PHP's open_basedir is set to `folders`.
    pub open_basedir: OpenBasedir,
    /// What the scripts of all sites with these settings may use besides the system's own files and a temporary folder.
    pub folders: Vec<Folder>,
    /// PHP functions that there are not, besides those of the ini files.
    pub disable_functions: Vec<String>,
    /// Where each pool gets a temporary folder of its own; `None`: it has none.
    pub temp_dir: Option<PathBuf>,
    /// Whether database connections of mysqli outlive a request.
    pub keep_database_connections: bool,
    /// Named shares of the workers; at least one. The first is [`PhpPool::FRONT`] and gets what is meant for no other.
    pub pools: Vec<PhpPool>,
    /// FastCGI instead of workers of our own; empty: none.
    pub fastcgi: Vec<Backend>,
    /// How long a connection to one may take to be made.
    pub fastcgi_connect_timeout: Duration,
    /// Longest pause between two pieces of an answer; beyond it the client gets 504. Zero: none.
    pub fastcgi_read_timeout: Duration,
    /// Requests after which a persistent worker is replaced; 0: never.
    pub worker_requests: u64,
    /// What persistent workers run; `None`: these start their script anew for each request.
    pub worker: Option<WorkerScript>,
}

/// `php.worker_script`: the script that a persistent worker boots once and that serves requests from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerScript {
    /// Its file, absolute.
    pub file: PathBuf,
    /// Its `SCRIPT_NAME`: `/worker.php`.
    pub name: String,
    /// The site's root, its `DOCUMENT_ROOT` while it boots.
    pub root: PathBuf,
}

/// What keeps workers in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// Nothing gains privileges, files only in [`Php::folders`] (Landlock), no system calls of administrators (seccomp).
    On,
    /// Nothing gains privileges.
    Privileges,
    /// Only their user.
    Off,
}

/// Whether open_basedir is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenBasedir {
    /// Where the sandbox does not watch the folders.
    Auto,
    /// Always.
    Site,
    /// Never.
    Off,
}

/// A folder that scripts may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Absolute path.
    pub path: PathBuf,
    /// Whether they may write there.
    pub writable: bool,
}

/// `[php.pool.NAME]`: a named share of a site's PHP workers, with a queue and limits of its own. Numbers of workers that are
/// not written depend on `workers` of all pools together, which may become known late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpPool {
    /// `front`, `admin`, `background`, or as somebody has named it.
    pub name: String,
    /// Workers that are its own: so many at once without borrowing.
    pub workers: Option<usize>,
    /// Of these, workers that no other pool may borrow, even if they are idle.
    pub keep: Option<usize>,
    /// Most workers that it may borrow of others.
    pub borrow: Option<usize>,
    /// Requests that may wait for a worker of it; beyond: 503.
    pub queue: usize,
    /// How long a request may wait for a worker of it; beyond: 503.
    pub queue_timeout: Duration,
    /// For how long a wait it is admitted when many come at once; `None`: any.
    pub queue_wait: Option<Duration>,
    /// Whether fewer run at once while more would only make each slower.
    pub adaptive: bool,
    /// Wall-clock time of one request. 0: none.
    pub request_timeout: Duration,
    /// How much its workers give way to other processes, 0 to 19, on top of what the server itself does.
    pub nice: u8,
    /// Paths that belong to it, written as for the page cache's `bypass_paths`. A request belongs to a pool if it has one
    /// of the paths, cookies or arguments.
    pub paths: Vec<String>,
    /// Methods that its requests have; empty: any.
    pub methods: Vec<String>,
    /// Cookies of requests that belong to it.
    pub cookies: Vec<String>,
    /// Arguments of requests that belong to it, each a name or `name=value`.
    pub arguments: Vec<String>,
}

impl PhpPool {
    /// The pool of visitors, which every site has.
    pub const FRONT: &str = "front";
    /// The pool of those who work at the site.
    pub const ADMIN: &str = "admin";
    /// The pool of what nobody waits for.
    pub const BACKGROUND: &str = "background";
}

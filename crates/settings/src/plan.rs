//! The resolved configuration. Every field has a value inside its bounds; nothing here depends on how it was written.

mod network_set;
mod php;
mod rules;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use millrace_wire::network::Network;

use crate::application::Application;
use crate::memory::Shares;

pub use network_set::NetworkSet;
pub use php::{Folder, OpenBasedir, PHP_VERSIONS, Php, PhpPool, Rewind, Sandbox, WorkerScript};
pub use rules::{
    BasicAuth, FieldChange, ListedRedirect, OtherFiles, RequestLimit, RuleAction, RuleCache, RuleCondition,
    RuleEffects, RuleTarget, ScriptAuth, SiteRule, TargetPart,
};

/// The complete configuration of a server. Built by [`crate::resolve`], never changed afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// `[server]`: threads, listeners, life cycle.
    pub server: Server,
    /// `[http]`: limits and timeouts of the protocol.
    pub http: Http,
    /// `[https]` and `[[tls]]`: TLS and its certificates.
    pub https: Https,
    /// `[acme]`: the authority for automatic certificates.
    pub acme: Acme,
    /// `[files]`: static files and their cache.
    pub files: Files,
    /// `[cache]`: the page cache settings that all sites share.
    pub cache: Cache,
    /// `[object_cache]`: the object cache settings that all sites share.
    pub object_cache: ObjectCache,
    /// `[shield]`: limits and bans.
    pub shield: Shield,
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

/// Address of php-fpm, another FastCGI server, or a server of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `127.0.0.1:9000`, `[::1]:9000`, `php:9000`: a name is resolved for each connection.
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

/// Address of an application that speaks HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AppUrl {
    /// Where it listens.
    pub address: AppAddress,
    /// Whether it speaks TLS.
    pub tls: bool,
    /// Its host, and its port unless that is the scheme's own: `localhost` for a Unix socket.
    pub authority: String,
    /// What its paths begin with, without a slash at the end; usually empty.
    pub base: String,
}

/// Where an application listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AppAddress {
    /// Host and port: a name is resolved for each connection.
    Tcp(String, u16),
    /// A Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for AppUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.address {
            AppAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            AppAddress::Tcp(..) => {
                write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority)
            }
        }
    }
}

/// `[[site.proxy]]`: requests that an application gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Exactly this path; or, with a slash at its end, everything below it.
    pub path: String,
    /// The applications, with the same content; at least one.
    pub to: Vec<AppUrl>,
    /// Whether they speak HTTP/2.
    pub http2: bool,
    /// Whether they get the content of a request while it arrives.
    pub stream_request: bool,
    /// Whether the application's paths lack `path`.
    pub strip: bool,
    /// The host that the application is asked for.
    pub host: ProxyHost,
    /// Time limit for a connection.
    pub connect_timeout: Duration,
    /// Time limit from the end of the request to the response's header section.
    pub response_timeout: Duration,
    /// Maximum pause between two pieces of a response, or of a request that the application does not take.
    pub read_timeout: Duration,
    /// Whether clients may switch protocols.
    pub websocket: bool,
    /// How long neither side may send anything after that.
    pub websocket_timeout: Duration,
    /// Whether the page cache stores responses that allow it.
    pub cache: bool,
    /// Whether only scripts lead there.
    pub internal: bool,
    /// The path of checks; `None`: there are none.
    pub health_path: Option<String>,
    /// How often to check.
    pub health_interval: Duration,
    /// Idle connections that each event loop keeps to each application.
    pub keepalive: usize,
    /// How often a request is tried again.
    pub retries: usize,
    /// Certificates of the trusted authorities, in PEM; `None`: the system's.
    pub ca: Option<PathBuf>,
}

/// `proxy.host`
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyHost {
    /// The one that the visitor has asked for.
    Visitor,
    /// The one in `proxy.to`.
    Application,
    /// This one.
    Named(String),
}

/// `[server]`
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Number of event loops. At least 1.
    pub threads: usize,
    /// Whether each event loop is bound to one core.
    pub pin_threads: bool,
    /// Listening addresses; at least one.
    pub listen: Vec<Address>,
    /// Maximum connections that wait to be accepted, per listening socket.
    pub backlog: u32,
    /// Maximum client connections per listener; 0: as many as the descriptor limit allows.
    pub connections: usize,
    /// Maximum connections from one client address; 0: no limit.
    pub connections_per_address: usize,
    /// Maximum memory of all connections together, the kernel's buffers included. Bytes; 0: no limit.
    pub connection_memory: u64,
    /// Whether the configuration sets it; otherwise it is what the others leave.
    pub connection_memory_is_written: bool,
    /// Shares of the machine's memory.
    pub memory_shares: Shares,
    /// How long running requests may continue after SIGTERM.
    pub shutdown_grace: Duration,
    /// Proxies to trust for `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    pub trusted_proxies: NetworkSet,
    /// Which hosts of theirs count.
    pub forwarded_host: ForwardedHost,
    /// Directory for large request content, and for responses that clients read more slowly than PHP makes them.
    pub spool_dir: PathBuf,
    /// Maximum disk space there for all such responses; one may take half of it. Bytes; 0: none.
    pub spool_bytes: u64,
}

/// Peers of connections: `10.0.0.0/8`, `unix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Those with an address in this network.
    In(Network),
    /// Those that came in through a Unix socket listener.
    Unix,
}

/// `[http]`: limits on what a client may send, and how slowly.
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// Maximum size of the request line and header fields, bytes. Beyond: 431.
    pub head_bytes: usize,
    /// Maximum number of header fields. Beyond: 431.
    pub head_fields: usize,
    /// Maximum request target, bytes. Beyond: 414.
    pub target_bytes: usize,
    /// Time limit from a request's first byte to the end of its header fields. Beyond: 408.
    pub head_timeout: Duration,
    /// Maximum pause between two pieces of a request's content. Beyond: 408.
    pub body_timeout: Duration,
    /// Minimum average rate of a request's content, bytes per second, after the first `body_timeout`; 0: none.
    pub body_min_rate: u64,
    /// Maximum content of a request, bytes. Beyond: 413. A site may override it.
    pub body_bytes: u64,
    /// Part of a request's content to hold in memory, bytes; larger content goes to a file in `server.spool_dir`.
    pub body_memory: usize,
    /// How long to keep an idle connection open.
    pub keep_alive: Duration,
    /// Maximum requests per connection; 0: no limit.
    pub keep_alive_requests: u64,
    /// Maximum pause of a client that stops reading a response; then the server resets the connection.
    pub send_timeout: Duration,
    /// Whether scripts may send 103 (Early Hints).
    pub early_hints: bool,
    /// Whether connections without TLS may start with HTTP/2 (prior knowledge).
    pub h2c: bool,
    /// Maximum concurrent requests per HTTP/2 connection. At least 1.
    pub h2_streams: u32,
    /// Maximum unread content of an HTTP/2 client, bytes: of each request, and of a connection.
    pub h2_window: u32,
    /// Maximum frames that request nothing, which an HTTP/2 client may send at once; a tenth of it returns each second.
    pub h2_frames: u32,
    /// Maximum requests that an HTTP/2 client may cancel at once; a tenth of it returns each second.
    pub h2_resets: u32,
}

/// `[https]` and `[[tls]]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Https {
    /// Addresses for TLS connections; empty: HTTPS is off.
    pub listen: Vec<Address>,
    /// Certificates; clients that ask for no name or an unknown one get the first.
    pub certificates: Vec<Certificate>,
    /// Whether to create a self-signed certificate if there is none.
    pub self_signed: bool,
    /// Maximum handshakes that wait for their turn, per event loop. At least 1.
    pub handshakes: usize,
    /// Time limit from a connection's first byte to the end of the handshake.
    pub handshake_timeout: Duration,
    /// Whether to offer HTTP/2.
    pub http2: bool,
    /// Whether to accept requests before the handshake ends (0-RTT).
    pub early_data: bool,
    /// Whether the kernel encrypts large files, if it can.
    pub kernel_tls: bool,
    /// How long browsers must use HTTPS only (RFC 6797); zero: not sent.
    pub hsts: Duration,
}

/// `[acme]`: the certificate authority (RFC 8555) for sites with [`Site::acme`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    /// Whether the user agrees to its terms; without that the server does not contact it.
    pub terms_agreed: bool,
    /// Mail address for its messages.
    pub email: Option<String>,
    /// URL of its directory.
    pub directory: String,
    /// Root certificates, in PEM, that verify the authority's server; `None`: the system's.
    pub ca_file: Option<PathBuf>,
    /// Directory for account and certificates; `None`: unknown.
    pub dir: Option<PathBuf>,
    /// How to prove control of the names.
    pub challenge: Challenge,
}

/// How to prove control of a name to an authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Challenge {
    /// Either one.
    Any,
    /// A file at port 80 (RFC 8555 section 8.3).
    Http,
    /// A certificate at port 443 (RFC 8737).
    TlsAlpn,
}

/// `[[tls]]`: files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate, followed by its chain.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// `[files]`
#[derive(Clone, Debug, PartialEq)]
pub struct Files {
    /// Maximum entries of the open-file cache, all threads together.
    pub cache_entries: usize,
    /// Maximum size of the open-file cache, all threads together, bytes.
    pub cache_bytes: usize,
    /// Maximum size of files held in memory with their header fields, bytes; larger ones are sent with sendfile.
    pub small_file: usize,
    /// How long to use a cached file before comparing it with the disk again.
    pub revalidate: Duration,
    /// Whether to compress text types.
    pub compress: bool,
    /// Minimum size to compress, bytes.
    pub compress_from: u64,
    /// Maximum size of a file to compress, bytes.
    pub compress_to: u64,
    /// File names to try in a directory.
    pub index: Vec<String>,
    /// Where symbolic links may lead.
    pub symlinks: Symlinks,
    /// Whether to send `Cache-Control` by type.
    pub expires: bool,
}

/// Which hosts that trusted proxies name in fields count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedHost {
    /// Other names of the site that the proxy asks for, with a port at which the server can be reached.
    SameSite,
    /// Such names, with any port.
    AnyPort,
    /// All.
    Any,
}

/// Where symbolic links in a site's root may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    /// To a place inside the root; out of it if the link belongs to root or to the owner of what it leads to, or to a folder that the
    /// site's scripts may use.
    Owner,
    /// Only to a place inside the root.
    Inside,
    /// Anywhere.
    Follow,
}

/// `[cache]`: the settings that all sites share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Maximum memory of the cache, bytes.
    pub memory: usize,
    /// Directory where pages survive a restart; `None`: they don't.
    pub dir: Option<PathBuf>,
    /// Maximum disk space for the files in `dir`, bytes.
    pub disk_bytes: u64,
    /// How long a request waits for another one that makes the same page; beyond: a stale page, else 503.
    pub fill_wait: Duration,
    /// Maximum variants of one page; further ones are not cached. At least 1.
    pub variants: usize,
    /// Addresses that may send `PURGE` and `BAN`.
    pub purge_from: Vec<Peers>,
    /// Requests with this secret may, too.
    pub purge_token: Option<Secret>,
}

/// `[shield]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shield {
    /// Whether it refuses requests.
    pub mode: ShieldMode,
    /// Clients to which it does not apply.
    pub exempt: Vec<Peers>,
    /// Maximum requests per minute from one address, by class; 0: no limit.
    pub limits: ShieldLimits,
    /// Percentage of the processors' time that a class may use for PHP; 0: no limit.
    pub share: u64,
    /// Number of refusals in ten minutes after which a client is banned; 0: never.
    pub ban_after: u64,
    /// Length of a client's first ban.
    pub ban_time: Duration,
    /// Length of the longest ban.
    pub ban_max: Duration,
    /// Where bans outlive the process.
    pub state_file: Option<PathBuf>,
    /// Directory with lists of banned networks.
    pub lists: Option<PathBuf>,
    /// Directory with the networks of crawlers.
    pub crawlers: Option<PathBuf>,
}

/// Limits of the shield's classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "a class each, as in the settings")]
pub struct ShieldLimits {
    pub login: u64,
    pub xmlrpc: u64,
    pub search: u64,
    pub filter: u64,
    pub cart: u64,
    pub users: u64,
    pub not_found: u64,
    pub php: u64,
}

/// Whether the shield refuses requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShieldMode {
    /// It does.
    On,
    /// It only says what it would refuse.
    Watch,
    /// It is off.
    Off,
}

/// `[object_cache]`: the settings that all sites share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectCache {
    /// Maximum memory for the objects of all sites, bytes.
    pub memory: usize,
    /// Maximum size of an object, bytes.
    pub value_bytes: usize,
    /// Directory of the sockets.
    pub dir: PathBuf,
}

/// The object cache of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteObjects {
    /// Its socket.
    pub socket: PathBuf,
    /// The file in which a process notes that it could not report a change.
    pub lost: PathBuf,
    /// Another user that may use it.
    pub user: Option<String>,
    /// The server that has its objects; `None`: this process has them.
    pub server: Option<ObjectServer>,
    /// The password of a Redis server.
    pub redis_password: Option<Secret>,
    /// The site's name at the server; `None`: a name that no other machine has.
    pub label: Option<String>,
}

/// A server that keeps a site's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectServer {
    /// What it is.
    pub kind: ObjectServerKind,
    /// Where it listens.
    pub address: Backend,
}

/// A kind of server that keeps objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectServerKind {
    /// Redis or Valkey.
    Redis,
    /// memcached.
    Memcached,
}

impl ObjectServerKind {
    /// As people call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ObjectServerKind::Redis => "Redis",
            ObjectServerKind::Memcached => "memcached",
        }
    }

    /// The setting with its address.
    #[must_use]
    pub const fn setting(self) -> &'static str {
        match self {
            ObjectServerKind::Redis => "object_cache.redis",
            ObjectServerKind::Memcached => "object_cache.memcached",
        }
    }
}

/// A secret. Its debug form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl Secret {
    /// Whether a client has said the same. Takes as long whichever bytes differ.
    #[must_use]
    pub fn is(&self, said: &str) -> bool {
        let (own, said) = (self.0.as_bytes(), said.as_bytes());
        let differing = own.iter().zip(said).fold(0, |differing, (own, said)| differing | (own ^ said));
        own.len() == said.len() && std::hint::black_box(differing) == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

/// Environment variables, by name. Their values are often secrets, so the debug form has only the names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(pub BTreeMap<String, String>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// `[cache]`, overridden by a site's own `[site.cache]`: how to cache its pages. Lists are as configured, without those of the
/// profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteCache {
    /// What decides whether a page is cached.
    pub mode: CacheMode,
    /// Maximum size of a cached page, bytes before compression.
    pub page_bytes: usize,
    /// How long to remember that a page is uncacheable.
    pub hit_for_miss: Duration,
    /// Lifetimes if the response sets none, and their bound.
    pub ttl: Ttl,
    /// How long a stale page may be sent while PHP makes a new one, if the response doesn't say.
    pub stale_while_revalidate: Duration,
    /// How long a stale page may be sent when PHP fails or is overloaded, if the response doesn't say.
    pub stale_if_error: Duration,
    /// Upper bound of both, whatever a response says.
    pub stale_max: Duration,
    /// Arguments that don't change the page: names, `*` at either end for anything; with [`NOT`] in front, exceptions from all others.
    pub ignore_arguments: Vec<String>,
    /// Arguments that send a request to PHP; patterns as in `ignore_arguments`.
    pub bypass_arguments: Vec<String>,
    /// Cookies that send a request to PHP; patterns as in `ignore_arguments`.
    pub bypass_cookies: Vec<String>,
    /// Paths that go to PHP: `/a` and everything below it, `/a*` as a prefix, `*/a` at any depth, `*a` as a suffix.
    pub bypass_paths: Vec<String>,
    /// Cookies whose values are part of the key; patterns as in `ignore_arguments`.
    pub key_cookies: Vec<String>,
    /// Whether the scheme is part of the key.
    pub key_scheme: bool,
    /// Whether the class of the device is part of the key.
    pub key_device: bool,
    /// Header fields that `Vary` may name besides the known ones, lower case.
    pub vary_fields: Vec<String>,
    /// Header fields, and variables of PHP about the client, that mean nothing for the site's pages, whatever reads them; as
    /// `user-agent`, `remote-addr`.
    pub ignore_fields: Vec<String>,
    /// Maximum cookies of each kind for which to remember what PHP has found out about their visitors.
    pub visitors: usize,
    /// How long to remember that a visitor is logged in, or has a cart or a session.
    pub visitor_time: Duration,
    /// How long to remember that a cookie means nothing.
    pub anonymous_time: Duration,
    /// How long a visitor with a cart gets public pages until PHP looks at the cart again; zero: never.
    pub cart_time: Duration,
    /// Which pages members - logged-in visitors - may get from the page cache.
    pub members: Members,
    /// How long a member gets pages from the page cache until PHP looks at the user again.
    pub member_time: Duration,
    /// How often to look for changes by plain SQL; zero: never.
    pub sql_interval: Duration,
    /// How often to look whether files of scripts have changed; zero: never.
    pub code_interval: Duration,
}

/// In front of a name of [`SiteCache::ignore_arguments`].
pub const NOT: char = '!';

/// What decides whether a page is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    /// The response, and the application's profile where it says nothing.
    Profile,
    /// Only the response's standard header fields (RFC 9111).
    Standard,
    /// Nothing is cached.
    Off,
}

/// Which pages logged-in visitors may get from the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// None.
    Off,
    /// Those that PHP has made for others with the same rights.
    Roles,
}

/// Lifetimes by kind of response, if it sets none; zero: not cached.
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
    /// Format of the access log.
    pub access_format: AccessFormat,
    /// Error log: standard error, or a file.
    pub error: Option<PathBuf>,
    /// Minimum severity to log.
    pub level: Level,
}

/// Format of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFormat {
    /// Apache's and nginx's combined format, followed by the time the request took in seconds.
    Combined,
    /// One JSON object per line.
    Json,
}

/// Severity of an error log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Details for developers of Millrace.
    Debug,
    /// What the server does.
    Info,
    /// A problem that the server has worked around.
    Warn,
    /// A failure.
    Error,
}

/// `[admin]`
#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    /// Address for metrics, status and reload; `None`: off.
    pub listen: Option<Address>,
    /// Requests that change something over TCP, and the dashboard's, need this secret; `None`: none does, and the dashboard only reads.
    pub token: Option<Secret>,
}

/// `[[site]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// Host names without port, lower case; the first is the site's own name (SERVER_NAME). `*.example.com` matches
    /// one or more labels. Empty only for the default site, which then answers for every host.
    pub names: Vec<String>,
    /// Whether this site answers requests for unknown host names.
    pub default: bool,
    /// The names with automatic certificates.
    pub acme: Vec<String>,
    /// Document root, absolute, links resolved at the time of use.
    pub root: PathBuf,
    /// Rules of the application.
    pub profile: Profile,
    /// Whether to look for a file or directory with the name in the URL before running the front controller.
    pub try_files: bool,
    /// Whether `.htaccess` files have an effect.
    pub htaccess: bool,
    /// Script, below the root, that answers URLs without a file: `/index.php`. `None`: they are 404.
    pub front_controller: Option<String>,
    /// The path below which the front controller answers: `/wiki/`. `None`: everywhere.
    pub pages_below: Option<String>,
    /// Whether it is a network of WordPress sites; no other application uses it.
    pub network: Multisite,
    /// Files to serve although their names suggest a secret, and scripts below `vendor/` to run; paths as in
    /// [`SiteCache::bypass_paths`].
    pub allow_files: Vec<String>,
    /// Header fields to add to every response of the site.
    pub headers: Vec<(String, String)>,
    /// Redirects, before everything else.
    pub redirect: Redirect,
    /// Rules, in their order.
    pub rules: Vec<SiteRule>,
    /// Client certificates; `None`: not requested.
    pub clients: Option<Clients>,
    /// Maximum content of a request, bytes.
    pub body_bytes: u64,
    /// Directories besides the root from which scripts may send files by `X-Sendfile`.
    pub sendfile_roots: Vec<PathBuf>,
    /// Paths reachable only by `X-Accel-Redirect`, with a slash at the start and the end, and their directories.
    pub internal: Vec<(String, PathBuf)>,
    /// How to cache its pages.
    pub cache: SiteCache,
    /// Its object cache, which only [`Profile::WordPress`] uses; `None`: off.
    pub objects: Option<SiteObjects>,
    /// The page that visitors get with a 503 when no PHP worker is free.
    pub overload_page: Option<PathBuf>,
    /// Whether browsers that must wait for a worker get a place in the waiting room.
    pub waiting_room: bool,
    /// The page of the waiting room, with placeholders; `None`: the server's own.
    pub waiting_page: Option<PathBuf>,
    /// Whether to compress PHP's responses that are not in the page cache.
    pub compress_php: bool,
    /// The root as php-fpm sees it, if that path differs.
    pub fastcgi_root: Option<PathBuf>,
    /// The applications that get some of its requests.
    pub proxies: Vec<Proxy>,
    /// How to run PHP; `None`: the site has no PHP.
    pub php: Option<Php>,
    /// The same for its persistent workers, with [`Php::worker`] set; `None`: it has none.
    pub persistent: Option<Php>,
}

/// Rules of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// WordPress and systems built on it.
    WordPress,
    /// Drupal 7 and later, and Backdrop.
    Drupal,
    /// Joomla 3 and later.
    Joomla,
    /// Nextcloud.
    Nextcloud,
    /// MediaWiki.
    MediaWiki,
    /// Matomo.
    Matomo,
    /// phpMyAdmin.
    PhpMyAdmin,
    /// Magento 2, and systems built on it.
    Magento,
    /// PrestaShop.
    PrestaShop,
    /// OpenCart 3 and later.
    OpenCart,
    /// Moodle.
    Moodle,
    /// TYPO3.
    Typo3,
    /// DokuWiki.
    DokuWiki,
    /// Roundcube.
    Roundcube,
    /// Craft CMS.
    Craft,
    /// Projects with CodeIgniter 4.
    CodeIgniter,
    /// Projects with Laravel.
    Laravel,
    /// Projects with Symfony.
    Symfony,
    /// Plain PHP and files.
    Generic,
}

impl Profile {
    /// The word for it in `site.profile`.
    pub fn word(self) -> &'static str {
        Application::of(self).word
    }

    /// The application's name, for people.
    pub fn name(self) -> &'static str {
        Application::of(self).name
    }

    /// Whether Millrace knows how the application's pages may be cached, and more of it than its paths.
    pub fn is_known_inside(self) -> bool {
        matches!(self, Self::WordPress | Self::Drupal)
    }
}

/// A network of WordPress sites (multisite).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multisite {
    /// As `wp-config.php` says, even if it changes while the server runs.
    Auto,
    /// A single site.
    Off,
    /// Sites are `/one/`, `/two/`; their files are in the root.
    Subfolder,
    /// Each site has its own host name.
    Subdomain,
}

/// Redirects of a site, independent of the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirect {
    /// Whether to redirect `http` to `https`.
    pub https: bool,
    /// The status of redirects; `None`: 301 for GET and HEAD, 308 for other methods.
    pub status: Option<u16>,
    /// How to treat a leading `www.`.
    pub www: Www,
}

/// `site.client_verify` and `site.client_ca`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Clients {
    /// Whether to reject clients without a certificate.
    pub required: bool,
    /// Certificates of the accepted authorities, in PEM.
    pub ca: PathBuf,
}

/// How to treat a leading `www.` in the host name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Www {
    /// Serve both.
    #[default]
    Keep,
    /// Redirect `example.com` to `www.example.com`.
    Add,
    /// Redirect `www.example.com` to `example.com`.
    Remove,
}

//! From [`Written`] to [`Plan`]: written values, and the table's defaults for all others. The plan is complete even if
//! values are wrong, so that one mistake hides no other.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use millrace_wire::glob::is_like;

use crate::application::{self, Application};
use crate::environment::{Environment, Found};
use crate::folders;
use crate::memory::Shares;
use crate::object_cache;
use crate::plan::{
    AccessFormat, Acme, Address, Admin, AppUrl, Backend, Cache, CacheMode, Certificate, Challenge, Clients,
    Files, Folder, ForwardedHost, Http, Https, Level, Log, Members, Multisite, NetworkSet, OpenBasedir,
    Peers, Php, PhpPool, Plan, Profile, Proxy, ProxyHost, Redirect, Rewind, Sandbox, Secret, Server, Site,
    SiteCache, SiteRule, Symlinks, Ttl, Variables, WorkerScript, Www,
};
use crate::problem::At;
use crate::public;
use crate::shield;
use crate::table::{self, Default, Setting};
use crate::value::{Raw, Value, reserved_variable};
use crate::written::{Section, Typed, Written, WrittenTable};

/// The plan of `written` on this machine. [`crate::check`] checks settings against each other and against the disk.
pub(crate) fn plan(written: &Written, environment: &Environment<'_>) -> Plan {
    let view = View::new(written, None, environment);
    let mut sites: Vec<Site> =
        written.sites.iter().map(|one| site(&View::new(written, Some(one), environment))).collect();
    folders::share(&mut sites, environment);
    if let Some(first) = sites.first_mut() {
        first.default |= !written
            .sites
            .iter()
            .any(|one| View::new(written, Some(one), environment).switch("site.default"));
    }
    Plan {
        server: server(&view, &sites),
        http: http(&view),
        https: https(&view, written),
        acme: acme(&view),
        files: files(&view),
        cache: cache(&view),
        object_cache: object_cache::shared(&view),
        shield: shield::shield(&view),
        log: log(&view),
        admin: admin(&view),
        sites,
    }
}

fn server(view: &View<'_>, sites: &[Site]) -> Server {
    let written = view.written_count("server.connection_memory");
    let shares = Shares::with(view, sites);
    Server {
        threads: view.count("server.threads"),
        pin_threads: view.switch("server.pin_threads"),
        listen: view.addresses("server.listen").into_iter().map(|(address, _)| address).collect(),
        backlog: u32::try_from(view.number("server.backlog")).unwrap_or(u32::MAX),
        connections: view.count("server.connections"),
        connections_per_address: view.count("server.connections_per_address"),
        connection_memory: written.map_or(shares.connections, |bytes| bytes as u64),
        connection_memory_is_written: written.is_some(),
        memory_shares: shares,
        shutdown_grace: view.duration("server.shutdown_grace"),
        trusted_proxies: NetworkSet::new(&view.networks("server.trusted_proxies")),
        forwarded_host: match view.choice("server.forwarded_host") {
            "any" => ForwardedHost::Any,
            "any-port" => ForwardedHost::AnyPort,
            _ => ForwardedHost::SameSite,
        },
        spool_dir: view.path("server.spool_dir").unwrap_or_default(),
        spool_bytes: view.number("server.spool_bytes"),
    }
}

fn http(view: &View<'_>) -> Http {
    Http {
        head_bytes: view.count("http.head_bytes"),
        head_fields: view.count("http.head_fields"),
        target_bytes: view.count("http.target_bytes"),
        head_timeout: view.duration("http.head_timeout"),
        body_timeout: view.duration("http.body_timeout"),
        body_min_rate: view.number("http.body_min_rate"),
        body_bytes: view.number("http.body_bytes"),
        body_memory: view.count("http.body_memory"),
        keep_alive: view.duration("http.keep_alive"),
        keep_alive_requests: view.number("http.keep_alive_requests"),
        send_timeout: view.duration("http.send_timeout"),
        early_hints: view.switch("http.early_hints"),
        h2c: view.switch("http.h2c"),
        h2_streams: view.number("http.h2_streams") as u32,
        h2_window: view.number("http.h2_window") as u32,
        h2_frames: view.number("http.h2_frames") as u32,
        h2_resets: view.number("http.h2_resets") as u32,
    }
}

fn https(view: &View<'_>, written: &Written) -> Https {
    let certificate = |one| {
        let view = View::new(written, Some(one), view.environment);
        Certificate {
            cert: view.path("tls.cert").unwrap_or_default(),
            key: view.path("tls.key").unwrap_or_default(),
        }
    };
    Https {
        listen: view.addresses("https.listen").into_iter().map(|(address, _)| address).collect(),
        certificates: written.tls.iter().map(certificate).collect(),
        self_signed: view.switch("https.self_signed"),
        handshakes: view.count("https.handshakes"),
        handshake_timeout: view.duration("https.handshake_timeout"),
        http2: view.switch("https.http2"),
        early_data: view.switch("https.early_data"),
        kernel_tls: view.choice("https.kernel_tls") == "auto",
        hsts: view.duration("https.hsts"),
    }
}

fn acme(view: &View<'_>) -> Acme {
    Acme {
        terms_agreed: view.switch("acme.terms_agreed"),
        email: view.text("acme.email"),
        directory: view.text("acme.directory").unwrap_or_default(),
        ca_file: view.path("acme.ca_file"),
        dir: view.path("acme.dir"),
        challenge: match view.choice("acme.challenge") {
            "http-01" => Challenge::Http,
            "tls-alpn-01" => Challenge::TlsAlpn,
            _ => Challenge::Any,
        },
    }
}

/// The names of the site that an authority issues certificates for.
pub(crate) fn acme_names(view: &View<'_>) -> Vec<String> {
    if !view.switch("https.acme") {
        return Vec::new();
    }
    let mut names = words(view, "site.names");
    names.retain(|name| public::why_not(name, view.asks_the_public()).is_none());
    names
}

fn files(view: &View<'_>) -> Files {
    Files {
        cache_entries: view.count("files.cache_entries"),
        cache_bytes: view.count("files.cache_bytes"),
        small_file: view.count("files.small_file"),
        revalidate: view.duration("files.revalidate"),
        compress: view.switch("files.compress"),
        compress_from: view.number("files.compress_from"),
        compress_to: view.number("files.compress_to"),
        index: words(view, "files.index"),
        symlinks: match view.choice("files.symlinks") {
            "follow" => Symlinks::Follow,
            "owner" => Symlinks::Owner,
            _ => Symlinks::Inside,
        },
        expires: view.switch("files.expires"),
    }
}

fn cache(view: &View<'_>) -> Cache {
    Cache {
        memory: view.count("cache.memory"),
        dir: view.path("cache.dir"),
        disk_bytes: view.number("cache.disk_bytes"),
        fill_wait: view.duration("cache.fill_wait"),
        variants: view.count("cache.variants"),
        purge_from: view.networks("cache.purge_from"),
        purge_token: view.text("cache.purge_token").map(Secret),
    }
}

fn site_cache(view: &View<'_>) -> SiteCache {
    let bounded = |key, most| view.duration(key).min(view.duration(most));
    SiteCache {
        mode: match view.choice("cache.mode") {
            "standard" => CacheMode::Standard,
            "off" => CacheMode::Off,
            _ => CacheMode::Profile,
        },
        page_bytes: view.count("cache.page_bytes"),
        hit_for_miss: view.duration("cache.hit_for_miss"),
        ttl: Ttl {
            page: bounded("cache.ttl.page", "cache.ttl.max"),
            not_found: bounded("cache.ttl.not_found", "cache.ttl.max"),
            redirect: bounded("cache.ttl.redirect", "cache.ttl.max"),
            feed: bounded("cache.ttl.feed", "cache.ttl.max"),
            sitemap: bounded("cache.ttl.sitemap", "cache.ttl.max"),
            api: bounded("cache.ttl.api", "cache.ttl.max"),
            other: bounded("cache.ttl.other", "cache.ttl.max"),
            max: view.duration("cache.ttl.max"),
        },
        stale_while_revalidate: bounded("cache.stale_while_revalidate", "cache.stale_max"),
        stale_if_error: bounded("cache.stale_if_error", "cache.stale_max"),
        stale_max: view.duration("cache.stale_max"),
        ignore_arguments: words(view, "cache.ignore_arguments"),
        bypass_arguments: words(view, "cache.bypass_arguments"),
        bypass_cookies: words(view, "cache.bypass_cookies"),
        bypass_paths: words(view, "cache.bypass_paths"),
        key_cookies: words(view, "cache.key_cookies"),
        key_scheme: view.switch("cache.key_scheme"),
        key_device: view.switch("cache.key_device"),
        vary_fields: words(view, "cache.vary_fields"),
        ignore_fields: words(view, "cache.ignore_fields"),
        visitors: view.count("cache.visitors"),
        visitor_time: view.duration("cache.visitor_time"),
        anonymous_time: view.duration("cache.anonymous_time"),
        cart_time: view.duration("cache.cart_time"),
        members: match view.choice("cache.members") {
            "roles" => Members::Roles,
            _ => Members::Off,
        },
        member_time: view.duration("cache.member_time"),
        sql_interval: view.duration("cache.sql_interval"),
        code_interval: view.duration("cache.code_interval"),
    }
}

fn words(view: &View<'_>, key: &str) -> Vec<String> {
    view.texts(key).into_iter().map(|(word, _)| word).collect()
}

fn log(view: &View<'_>) -> Log {
    Log {
        access: view.path("log.access"),
        access_format: match view.choice("log.access_format") {
            "json" => AccessFormat::Json,
            _ => AccessFormat::Combined,
        },
        error: view.path("log.error"),
        level: match view.choice("log.level") {
            "debug" => Level::Debug,
            "warn" => Level::Warn,
            "error" => Level::Error,
            _ => Level::Info,
        },
    }
}

fn admin(view: &View<'_>) -> Admin {
    Admin { listen: view.address("admin.listen"), token: view.text("admin.token").map(Secret) }
}

fn site(view: &View<'_>) -> Site {
    Site {
        names: words(view, "site.names"),
        default: view.switch("site.default"),
        acme: acme_names(view),
        root: view.root().unwrap_or_default(),
        profile: view.profile(),
        try_files: view.switch("site.try_files"),
        htaccess: view.choice("site.htaccess") == "auto",
        front_controller: view.text("site.front_controller"),
        pages_below: view.pages_below(),
        network: match view.choice("site.network") {
            "off" => Multisite::Off,
            "subfolder" => Multisite::Subfolder,
            "subdomain" => Multisite::Subdomain,
            _ => Multisite::Auto,
        },
        allow_files: words(view, "site.allow_files"),
        headers: view.pairs("site.headers"),
        redirect: Redirect {
            https: view.switch("site.redirect.https"),
            status: view.choice("site.redirect.status").parse().ok(),
            www: match view.choice("site.redirect.www") {
                "add" => Www::Add,
                "remove" => Www::Remove,
                _ => Www::Keep,
            },
        },
        rules: view.rules(),
        clients: clients(view),
        body_bytes: view.number("site.body_bytes"),
        sendfile_roots: view.folders("site.sendfile_roots"),
        internal: view.pairs("site.internal").into_iter().map(|(at, folder)| (at, folder.into())).collect(),
        cache: site_cache(view),
        objects: object_cache::of_site(view),
        overload_page: view.path("php.overload_page"),
        waiting_room: view.switch("php.waiting_room"),
        waiting_page: view.path("php.waiting_page"),
        compress_php: view.switch("php.compress"),
        fastcgi_root: view.path("php.fastcgi_root"),
        proxies: view.proxies().map(|view| proxy(&view)).collect(),
        php: view.has_php().then(|| php(view)),
        persistent: if view.has_php() { persistent(view) } else { None },
    }
}

/// An application of a site, from its own view.
fn proxy(view: &View<'_>) -> Proxy {
    let host = view.text("proxy.host").unwrap_or_default();
    Proxy {
        path: view.text("proxy.path").unwrap_or_default(),
        to: view.applications("proxy.to"),
        http2: view.choice("proxy.http") == "2",
        stream_request: view.switch("proxy.stream_request"),
        strip: view.switch("proxy.strip"),
        host: match &*host {
            "visitor" => ProxyHost::Visitor,
            "application" => ProxyHost::Application,
            _ => ProxyHost::Named(host),
        },
        connect_timeout: view.duration("proxy.connect_timeout"),
        response_timeout: view.duration("proxy.response_timeout"),
        read_timeout: view.duration("proxy.read_timeout"),
        websocket: view.switch("proxy.websocket"),
        websocket_timeout: view.duration("proxy.websocket_timeout"),
        cache: view.switch("proxy.cache"),
        internal: view.switch("proxy.internal"),
        health_path: view.text("proxy.health.path"),
        health_interval: view.duration("proxy.health.interval"),
        keepalive: view.count("proxy.keepalive"),
        retries: view.count("proxy.retries"),
        ca: view.path("proxy.ca"),
    }
}

fn clients(view: &View<'_>) -> Option<Clients> {
    let required = match view.choice("site.client_verify") {
        "off" => return None,
        word => word == "required",
    };
    Some(Clients { required, ca: view.path("site.client_ca").unwrap_or_default() })
}

/// PHP settings of the site's persistent workers.
fn persistent(view: &View<'_>) -> Option<Php> {
    let worker = worker_script(view)?;
    let php = php(view);
    if !php.fastcgi.is_empty() {
        return None;
    }
    Some(Php { max_requests: php.worker_requests, worker: Some(worker), ..php })
}

/// The script of the persistent workers: the file below the root, else the file with that absolute path.
pub(crate) fn worker_script(view: &View<'_>) -> Option<WorkerScript> {
    let written = view.text("php.worker_script")?;
    let root = view.root()?;
    let inside = root.join(written.trim_start_matches('/'));
    let outside = PathBuf::from(&written);
    let disk = view.environment().disk;
    if disk.look(&inside) != Found::File && disk.look(&outside) == Found::File {
        let base = outside.file_name()?.to_str()?;
        return Some(WorkerScript { name: format!("/{base}"), file: outside, root });
    }
    Some(WorkerScript { file: inside, name: written, root })
}

fn rewind(view: &View<'_>) -> Rewind {
    match view.choice("php.rewind") {
        "on" => Rewind::On,
        "auto" => Rewind::Auto,
        "wordpress" if view.profile() == Profile::WordPress => Rewind::Auto,
        _ => Rewind::Off,
    }
}

/// The PHP version that is set, unless the site itself names a program.
fn php_version(view: &View<'_>) -> Option<&'static str> {
    let version = Some(view.choice("php.version")).filter(|version| *version != "auto")?;
    let is_overridden = view.is_own("php.program") && !view.is_own("php.version");
    (!is_overridden).then_some(version)
}

fn php(view: &View<'_>) -> Php {
    let version = php_version(view);
    let mut php = Php {
        program: view.path("php.program").filter(|_| version.is_none()),
        version,
        workers: view.count("php.workers"),
        workers_measured: view.written_count("php.workers").is_none(),
        workers_first: view
            .written_count("php.workers")
            .unwrap_or_else(|| workers_unmeasured(view.environment()).min(view.count("php.workers"))),
        worker_memory: view.written_count("php.worker_memory").map(|bytes| bytes as u64),
        workers_start: view.count("php.workers_start"),
        workers_spare: view.count("php.workers_spare"),
        idle_timeout: view.duration("php.idle_timeout"),
        max_requests: view.number("php.max_requests"),
        request_timeout: view.duration("php.request_timeout"),
        time_limit_max: view.duration("php.time_limit_max"),
        background_timeout: view.duration("php.background_timeout"),
        terminate_grace: view.duration("php.terminate_grace"),
        slow_log: view.duration("php.slow_log"),
        crash_pause: view.duration("php.crash_pause"),
        queue: view.count("php.queue"),
        queue_timeout: view.duration("php.queue_timeout"),
        ini_file: view.path("php.ini_file"),
        ini: php_ini(view),
        env: variables(view),
        user: view.text("php.user"),
        group: view.text("php.group"),
        sandbox: match view.choice("php.sandbox") {
            "off" => Sandbox::Off,
            "privileges" => Sandbox::Privileges,
            _ => Sandbox::On,
        },
        open_basedir: match view.choice("php.open_basedir") {
            "off" => OpenBasedir::Off,
            "site" => OpenBasedir::Site,
            _ => OpenBasedir::Auto,
        },
        folders: view
            .folders("php.folders")
            .into_iter()
            .map(|path| Folder { path, writable: true })
            .collect(),
        disable_functions: words(view, "php.disable_functions"),
        temp_dir: view.path("php.temp_dir"),
        rewind: rewind(view),
        rewind_except: words(view, "php.rewind_except"),
        pools: view.pool_names().iter().map(|name| pool(&view.pool(name), name)).collect(),
        worker_requests: view.number("php.worker_requests"),
        worker: None,
        fastcgi: view.backends("php.fastcgi"),
        fastcgi_connect_timeout: view.duration("php.fastcgi_connect_timeout"),
        fastcgi_read_timeout: view.duration("php.fastcgi_read_timeout"),
    };
    if !php.fastcgi.is_empty() {
        // php-fpm has its own of these. Sites that differ only in them share the connections.
        (php.program, php.version, php.ini_file, php.user, php.group) = (None, None, None, None, None);
        php.ini.clear();
        php.folders.clear();
        php.disable_functions.clear();
        php.rewind_except.clear();
        php.temp_dir = None;
        php.workers = php.workers_first;
    }
    php
}

/// Maximum workers until their memory is measured: four per core, with 128 MB for each in 75 % of the memory.
fn workers_unmeasured(environment: &Environment<'_>) -> usize {
    let by_memory = environment.memory / 4 * 3 / (128 << 20);
    (4 * environment.cores).max(4).min(usize::try_from(by_memory).unwrap_or(usize::MAX)).max(1)
}

/// A pool, from its own view.
fn pool(view: &View<'_>, name: &str) -> PhpPool {
    PhpPool {
        name: name.to_owned(),
        workers: view.written_count("php.pool.NAME.workers"),
        keep: view.written_count("php.pool.NAME.keep"),
        borrow: view.written_count("php.pool.NAME.borrow"),
        queue: view.count("php.pool.NAME.queue"),
        queue_timeout: view.duration("php.pool.NAME.queue_timeout"),
        queue_wait: Some(view.duration("php.pool.NAME.queue_wait")).filter(|wait| !wait.is_zero()),
        adaptive: view.switch("php.adaptive"),
        request_timeout: view.duration("php.pool.NAME.request_timeout"),
        time_limit_max: view.duration("php.pool.NAME.time_limit_max"),
        nice: u8::try_from(view.number("php.pool.NAME.nice")).unwrap_or(19),
        paths: words(view, "php.pool.NAME.paths"),
        methods: words(view, "php.pool.NAME.methods"),
        cookies: words(view, "php.pool.NAME.cookies"),
        arguments: words(view, "php.pool.NAME.arguments"),
    }
}

/// The ini values that PHP starts with. Its limits on uploads follow the server's: every guide starts by raising PHP's
/// 2 MB. An ini file of the user stays as it is.
fn php_ini(view: &View<'_>) -> BTreeMap<String, String> {
    let mut ini: BTreeMap<String, String> = view.layered("php.ini").into_iter().collect();
    if view.path("php.ini_file").is_none() {
        let most = view.number("site.body_bytes").to_string();
        for name in ["post_max_size", "upload_max_filesize"] {
            ini.entry(name.to_owned()).or_insert_with(|| most.clone());
        }
    }
    ini
}

/// `php.env`, and the variables of the server's own environment that `php.env_pass` names.
fn variables(view: &View<'_>) -> Variables {
    let wanted = view.texts("php.env_pass");
    let wanted = |name: &str| wanted.iter().any(|(pattern, _)| is_like(pattern, name.as_bytes()));
    let own = view.environment().variables.iter();
    let passed = own.filter(|(name, _)| wanted(name) && reserved_variable(name).is_none()).cloned();
    Variables(passed.chain(view.layered("php.env")).collect())
}

/// The values that apply in one place of the configuration: a site's own, then global ones, then defaults.
pub(crate) struct View<'a> {
    written: &'a Written,
    site: Option<&'a WrittenTable>,
    /// The name of the pool, for a view from inside one.
    pool: Option<&'a str>,
    environment: &'a Environment<'a>,
}

impl<'a> View<'a> {
    /// The view from inside `site`, or from outside of all sites.
    pub fn new(
        written: &'a Written,
        site: Option<&'a WrittenTable>,
        environment: &'a Environment<'a>,
    ) -> Self {
        Self { written, site, pool: None, environment }
    }

    /// The view from inside the pool of this name.
    pub fn pool<'b>(&'b self, name: &'b str) -> View<'b> {
        View { pool: Some(name), ..*self }
    }

    /// The name of the pool, for a view from inside one.
    pub fn pool_name(&self) -> Option<&str> {
        self.pool
    }

    /// The views from inside the site's `[[site.proxy]]` tables.
    pub fn proxies(&self) -> impl Iterator<Item = View<'a>> {
        let tables = self.site.into_iter().flat_map(|site| &site.values.proxies);
        tables.map(|table| View::new(self.written, Some(table), self.environment))
    }

    /// Whether an application serves the whole site.
    pub fn is_all_proxied(&self) -> bool {
        self.proxies().any(|view| view.text("proxy.path").as_deref() == Some("/"))
    }

    /// Whether the site has PHP.
    pub fn has_php(&self) -> bool {
        self.switch("php.enabled") && !self.is_all_proxied()
    }

    /// The names of the pools: the application's own, then configured ones that some rule sends requests to.
    pub fn pool_names(&self) -> Vec<String> {
        let own = self.known_pools().iter().copied();
        let mut names: Vec<String> = own.map(str::to_owned).collect();
        for (name, _) in self.written_pools() {
            if !names.iter().any(|own| own == name) && self.is_reached(name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// The application's own pools.
    fn known_pools(&self) -> &'static [&'static str] {
        match self.profile().is_known_inside() {
            false => &[PhpPool::FRONT],
            true => &[PhpPool::FRONT, PhpPool::ADMIN, PhpPool::BACKGROUND],
        }
    }

    /// Whether a rule of the pool or of the application sends requests of this site to it.
    pub fn is_reached(&self, name: &str) -> bool {
        let rules = ["paths", "methods", "cookies", "arguments"].map(|rule| format!("php.pool.NAME.{rule}"));
        self.known_pools().contains(&name) || rules.iter().any(|key| !self.pool(name).texts(key).is_empty())
    }

    /// Whether a rule sends requests of any site to the pool.
    pub fn is_reached_by_any(&self, name: &str) -> bool {
        let mut sites = self.written.sites.iter();
        sites.any(|site| View::new(self.written, Some(site), self.environment).is_reached(name))
    }

    /// The configured pools and their places: for all sites, then for this one.
    pub fn written_pools(&self) -> impl Iterator<Item = (&'a str, &'a At)> {
        let sections = [Some(&self.written.global), self.site.map(|site| &site.values)];
        sections.into_iter().flatten().flat_map(Section::names)
    }

    /// Whether this site configures the pool.
    pub fn is_own_pool(&self, name: &str) -> bool {
        self.site.is_some_and(|site| site.values.names().any(|(own, _)| own == name))
    }

    /// Whether the site has a value of its own.
    pub fn is_own(&self, key: &str) -> bool {
        self.site.is_some_and(|site| site.values.get(key).is_some())
    }

    /// A number, if the configuration has one.
    pub fn written_count(&self, key: &str) -> Option<usize> {
        match self.typed(key)?.value {
            Some(Value::Number(number)) => usize::try_from(number).ok(),
            _ => None,
        }
    }

    /// The machine.
    pub fn environment(&self) -> &Environment<'a> {
        self.environment
    }

    /// The place of the value of `key`; `None` for a default.
    pub fn at(&self, key: &str) -> Option<&'a At> {
        self.typed(key).map(|typed| &typed.at)
    }

    fn typed(&self, key: &str) -> Option<&'a Typed> {
        let sections = [self.site.map(|site| &site.values), Some(&self.written.global)];
        sections.into_iter().flatten().find_map(|section| match self.pool {
            Some(name) => section.get_named(name, key).or_else(|| section.get(key)),
            None => section.get(key),
        })
    }

    /// The value of `key`.
    ///
    /// # Panics
    /// If there is no such row, which is a bug of the caller.
    pub fn get(&self, key: &str) -> Value {
        let row = table::find(key).unwrap_or_else(|| panic!("no setting is named {key}"));
        let typed = self.typed(key).and_then(|typed| typed.value.clone());
        typed.unwrap_or_else(|| self.default_of(row))
    }

    /// The default of a row.
    pub fn default_of(&self, row: &Setting) -> Value {
        match &row.default {
            Default::Fixed(text) => row
                .kind
                .read(&Raw::bare(text, 0..0), &self.environment.current_dir)
                .unwrap_or_else(|wrong| panic!("default of {}: {wrong:?}", row.key)),
            Default::Computed { from, .. } => from(self),
            Default::Unset(_) => Value::none_of(&row.kind),
        }
    }

    /// The path that identifies the configuration: its file, or the first site's root without one.
    pub fn source(&self) -> Option<PathBuf> {
        let first = || View::new(self.written, self.written.sites.first(), self.environment).root();
        self.written.file.clone().or_else(first)
    }

    /// Whether the certificate authority serves only the public DNS.
    pub fn asks_the_public(&self) -> bool {
        self.text("acme.directory").is_some_and(|url| url.contains(".letsencrypt.org/"))
    }

    /// The rules of the site.
    fn rules(&self) -> Vec<SiteRule> {
        self.site.iter().flat_map(|site| &site.rules).map(|rule| rule.rule.clone()).collect()
    }

    /// The document root of the site: the one that is written, or the public folder of the project there.
    pub fn root(&self) -> Option<PathBuf> {
        let chosen = Application::named(self.choice("site.profile"));
        let written = self.path("site.root")?;
        Some(application::document_root(written, chosen, self.environment.disk))
    }

    /// The application, detected for `auto`.
    pub fn profile(&self) -> Profile {
        let detect =
            || self.root().map_or(Profile::Generic, |root| application::detect(&root, self.environment.disk));
        Application::named(self.choice("site.profile")).map_or_else(detect, |known| known.profile)
    }

    /// The application's front controller, as a value.
    pub fn front_controller(&self) -> Value {
        let known = Application::of(self.profile()).front_controller.map(str::to_owned);
        Value::Text(known.or_else(|| Some(self.articles()?.0)))
    }

    /// The path below which the application's front controller answers.
    fn pages_below(&self) -> Option<String> {
        if self.at("site.front_controller").is_some() { None } else { Some(self.articles()?.1) }
    }

    /// The front controller of a MediaWiki, and the path of its articles.
    fn articles(&self) -> Option<(String, String)> {
        let is_wiki = self.profile() == Profile::MediaWiki;
        application::articles(&self.root().filter(|_| is_wiki)?, self.environment.disk)
    }

    /// The global values of an open table, then the site's, which override them.
    pub fn layered(&self, key: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for section in [Some(&self.written.global), self.site.map(|site| &site.values)].into_iter().flatten()
        {
            if let Some(Value::Pairs(pairs)) = section.get(key).and_then(|typed| typed.value.as_ref()) {
                all.extend(pairs.iter().cloned());
            }
        }
        all
    }
}

/// Getters by type. A wrong type is a bug: the row's kind defines it.
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident -> $type:ty = $variant:ident;)*) => {
        impl View<'_> {
            $($(#[$doc])*
            pub fn $name(&self, key: &str) -> $type {
                match self.get(key) {
                    Value::$variant(value) => value,
                    other => panic!("{key} is {other:?}"),
                }
            })*
        }
    };
}

getters! {
    /// Of a switch.
    switch -> bool = Switch;
    /// Of a count or size.
    number -> u64 = Number;
    /// Of a duration.
    duration -> Duration = Duration;
    /// Of a choice.
    choice -> &'static str = Choice;
    /// Of a name or URL path.
    text -> Option<String> = Text;
    /// Of a path.
    path -> Option<PathBuf> = Path;
    /// Of an address.
    address -> Option<Address> = Address;
    /// Of a list of addresses.
    addresses -> Vec<(Address, std::ops::Range<usize>)> = Addresses;
    /// Of a list of addresses to connect to.
    backends -> Vec<Backend> = Backends;
    /// Of a list of applications.
    applications -> Vec<AppUrl> = Applications;
    /// Of a list of address blocks.
    networks -> Vec<Peers> = Networks;
    /// Of a list of names.
    texts -> Vec<(String, std::ops::Range<usize>)> = Texts;
    /// Of a list of directories.
    folders -> Vec<PathBuf> = Folders;
    /// Of an open table.
    pairs -> Vec<(String, String)> = Pairs;
}

impl View<'_> {
    /// Of a count or size that is used as a length.
    pub fn count(&self, key: &str) -> usize {
        usize::try_from(self.number(key)).unwrap_or(usize::MAX)
    }
}

impl Value {
    /// The value of a setting without one.
    fn none_of(kind: &table::Kind) -> Self {
        use table::Kind;
        match kind {
            Kind::Name
            | Kind::UrlPath { .. }
            | Kind::Url { .. }
            | Kind::Email
            | Kind::Label
            | Kind::Secret { .. }
            | Kind::Host { .. }
            | Kind::Location => Self::Text(None),
            Kind::Path { .. } => Self::Path(None),
            Kind::Address { .. } => Self::Address(None),
            Kind::Addresses => Self::Addresses(Vec::new()),
            Kind::Backends { .. } | Kind::Backend { .. } => Self::Backends(Vec::new()),
            Kind::Applications => Self::Applications(Vec::new()),
            Kind::Networks => Self::Networks(Vec::new()),
            Kind::FileNames | Kind::HostNames | Kind::Words(_) => Self::Texts(Vec::new()),
            Kind::Folders | Kind::Files => Self::Folders(Vec::new()),
            Kind::Fields | Kind::Ini | Kind::Environment | Kind::Places => Self::Pairs(Vec::new()),
            Kind::Count { .. } | Kind::Size { .. } => Self::Number(0),
            Kind::Switch | Kind::Duration { .. } | Kind::Choice(_) => {
                unreachable!("a setting of this kind always has a default")
            }
        }
    }
}

impl Peers {
    /// Whether a peer with the address `ip` is one of them; an IPv4 address mapped into IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        matches!(self, Self::In(network) if network.contains(ip))
    }
}

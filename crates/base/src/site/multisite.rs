//! Networks of WordPress sites (multisite): where a request for one of them finds WordPress's own files.
//!
//! In a network by folders the sites `/one/` and `/two/` have no folders on disk. These are the rules that WordPress
//! tells its users to write into `.htaccess` (network_step2() in wp-admin/includes/network.php) and, in another form,
//! into nginx's configuration; existing files take precedence:
//!
//! ```text
//! ^(/[^/]+)?(/wp-.*)        -> $2      /two/wp-admin/           -> /wp-admin/
//! ^(/[^/]+)?(/.*\.php)$     -> $2      /two/wp-login.php        -> /wp-login.php
//! ```
//!
//! If WordPress is in a folder of its own (to which `index.php` leads), `$2` begins with it. The script sees its own
//! path in `SCRIPT_NAME` and the requested one in `REQUEST_URI`, from which WordPress knows the site.
//!
//! `wp-config.php`, which people edit while the server runs, says whether a site is such a network: one `stat` per
//! second detects changes. A change makes all pages stale, because a network's pages have other tags. The file is the site's: reading it may
//! take its time, or never end, so a thread does it that no request waits for.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millrace_settings::plan;
use millrace_sys::read_regular;

use crate::context::Context;
use crate::context::log::Log;

/// WordPress's own folders: no site has these names.
const OWN: [&[u8]; 3] = [b"wp-admin", b"wp-content", b"wp-includes"];

/// A longer file can't be a wp-config.php, bytes.
const LONGEST: u64 = 1 << 20;

/// How long PHP may run the old wp-config.php (opcache.revalidate_freq), seconds: then pages become stale once more.
const SETTLED: u64 = 5;

/// The state of a site that may be a network.
#[derive(Debug)]
pub struct Multisite {
    /// The folder of the front controller, with slashes at both ends.
    base: Box<[u8]>,
    /// WordPress's folder below it, with a slash at its end; empty: none.
    folder: Box<[u8]>,
    /// Where wp-config.php may be, as wp-load.php searches for it; empty if the settings say what the site is.
    configs: Vec<PathBuf>,
    /// The second (since 1970) of the last check.
    looked: AtomicU64,
    /// A thread is checking it. One that the disk keeps is the only one.
    is_looking: AtomicBool,
    is_network: AtomicBool,
    by_folders: AtomicBool,
    /// It is another network than its stored pages assume.
    has_changed: AtomicBool,
    seen: Mutex<SeenConfig>,
}

/// The last wp-config.php that was read.
#[derive(Debug, Default)]
struct SeenConfig {
    /// Device, inode, size, changed (seconds, nanoseconds); `None`: there was none.
    stamp: Option<(u64, u64, u64, i64, i64)>,
    is_read: bool,
    /// The second from which on pages become stale once more.
    again: Option<u64>,
}

impl Multisite {
    /// For a site of this plan; `None`: its application has no networks.
    pub fn of(plan: &plan::Site) -> Option<Multisite> {
        if plan.profile != plan::Profile::WordPress || plan.network == plan::Multisite::Off {
            return None;
        }
        let front = plan.front_controller.as_deref().unwrap_or("/");
        let base = &front[..=front.rfind('/').unwrap_or(0)];
        let home = plan.root.join(base.trim_start_matches('/'));
        let index = read_regular(&home.join("index.php"), LONGEST).unwrap_or_default();
        let folder = millrace_settings::own_folder(&index);
        let core = home.join(String::from_utf8_lossy(folder).as_ref());
        let configs = match plan.network {
            plan::Multisite::Auto => vec![core.join("wp-config.php"), core.join("../wp-config.php")],
            _ => Vec::new(),
        };
        let multisite = Multisite {
            base: base.as_bytes().into(),
            folder: folder.into(),
            configs,
            looked: AtomicU64::new(0),
            is_looking: AtomicBool::new(false),
            is_network: AtomicBool::new(false),
            by_folders: AtomicBool::new(false),
            has_changed: AtomicBool::new(false),
            seen: Mutex::default(),
        };
        multisite.set(plan.network);
        if !multisite.configs.is_empty() && multisite.read(0).is_err() {
            // The error is logged later, when there is a log.
            multisite.seen.lock().unwrap_or_else(PoisonError::into_inner).is_read = false;
        }
        Some(multisite)
    }

    /// Whether it is a network, as far as known.
    pub fn is_network(&self) -> bool {
        self.is_network.load(Ordering::Relaxed)
    }

    /// Whether its stored pages have become stale since the last call, because it is another network now.
    pub fn take_change(&self) -> bool {
        self.has_changed.load(Ordering::Relaxed) && self.has_changed.swap(false, Ordering::Relaxed)
    }

    /// Another place for the file or script of `path`. `names_script`: a part of the path has a script's name.
    pub fn inner(
        self: &Arc<Multisite>,
        context: &Context,
        path: &[u8],
        names_script: bool,
    ) -> Option<Vec<u8>> {
        self.look(context);
        if !self.is_network() {
            return None;
        }
        self.rewrite(path, names_script, self.by_folders.load(Ordering::Relaxed))
    }

    fn rewrite(&self, path: &[u8], names_script: bool, by_folders: bool) -> Option<Vec<u8>> {
        let rest = path.strip_prefix(&*self.base)?;
        let fits = |rest: &[u8]| names_script || rest.starts_with(b"wp-");
        let below_site = || {
            let (site, rest) = rest.split_at(memchr::memchr(b'/', rest)?);
            let is_site = by_folders && !site.is_empty() && site[0] != b'.' && !OWN.contains(&site);
            Some(&rest[1..]).filter(|rest| is_site && fits(rest))
        };
        let inner = match below_site() {
            Some(inner) => inner,
            // WordPress itself is not in the folder of its first site.
            None if !self.folder.is_empty() && fits(rest) => rest,
            None => return None,
        };
        Some([&*self.base, &*self.folder, inner].concat())
    }

    /// Has wp-config.php checked, once a second at most. The request does not wait: a later one finds the result.
    fn look(self: &Arc<Multisite>, context: &Context) {
        let now = context.clock.unix_time().as_secs();
        let looked = self.looked.load(Ordering::Relaxed);
        if looked == now || self.configs.is_empty() {
            return;
        }
        // One thread checks for all.
        if self.looked.compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        if self.is_looking.swap(true, Ordering::Acquire) {
            return;
        }
        let (multisite, process) = (self.clone(), context.process.clone());
        tokio::task::spawn_blocking(move || {
            multisite.check(now, &process.log);
            multisite.is_looking.store(false, Ordering::Release);
        });
    }

    fn check(&self, now: u64, log: &Log) {
        match self.read(now) {
            Ok(false) => {}
            Ok(true) => self.has_changed.store(true, Ordering::Relaxed),
            Err((path, error)) => log.warn(format_args!(
                "cannot read {} to detect whether the site is a WordPress network: {error}; set site.network",
                path.display()
            )),
        }
    }

    /// Reads wp-config.php if it has changed; returns whether older pages may differ now.
    fn read(&self, now: u64) -> Result<bool, (PathBuf, io::Error)> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.configs.iter().find_map(|path| Some((path, std::fs::metadata(path).ok()?)));
        let stamp = found.as_ref().map(|(_, data)| stamp(data));
        let again = seen.again.take_if(|again| *again <= now).is_some();
        if seen.is_read && seen.stamp == stamp {
            return Ok(again);
        }
        let was = (self.is_network.load(Ordering::Relaxed), self.by_folders.load(Ordering::Relaxed));
        let is_first = !std::mem::replace(&mut seen.is_read, true);
        seen.stamp = stamp;
        let Some((path, _)) = found.filter(|(_, data)| data.is_file() && data.len() <= LONGEST) else {
            self.set(plan::Multisite::Off);
            return Ok(!is_first && was.0);
        };
        let text = read_regular(path, LONGEST).map_err(|error| (path.clone(), error))?;
        self.set(millrace_settings::multisite(&text));
        let is = (self.is_network.load(Ordering::Relaxed), self.by_folders.load(Ordering::Relaxed));
        let is_other = !is_first && is != was;
        if is_other {
            seen.again = Some(now + SETTLED);
        }
        Ok(is_other || again)
    }

    fn set(&self, kind: plan::Multisite) {
        self.is_network.store(
            matches!(kind, plan::Multisite::Subfolder | plan::Multisite::Subdomain),
            Ordering::Relaxed,
        );
        self.by_folders.store(kind == plan::Multisite::Subfolder, Ordering::Relaxed);
    }
}

fn stamp(data: &Metadata) -> (u64, u64, u64, i64, i64) {
    (data.dev(), data.ino(), data.size(), data.ctime(), data.ctime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network of these settings, whose WordPress is in `folder`.
    fn multisite(base: &str, folder: &str) -> Multisite {
        Multisite {
            base: base.as_bytes().into(),
            folder: folder.as_bytes().into(),
            configs: Vec::new(),
            looked: AtomicU64::new(0),
            is_looking: AtomicBool::new(false),
            is_network: AtomicBool::new(true),
            by_folders: AtomicBool::new(true),
            has_changed: AtomicBool::new(false),
            seen: Mutex::default(),
        }
    }

    fn rewritten(multisite: &Multisite, path: &str, by_folders: bool) -> Option<String> {
        let names_script = path.split('/').any(|part| part.ends_with(".php"));
        multisite
            .rewrite(path.as_bytes(), names_script, by_folders)
            .map(|path| String::from_utf8(path).unwrap())
    }

    #[test]
    fn as_wordpress_documents_it() {
        let plain = multisite("/", "");
        for (path, inner) in [
            ("/two/wp-admin/", Some("/wp-admin/")),
            ("/two/wp-admin", Some("/wp-admin")),
            ("/two/wp-login.php", Some("/wp-login.php")),
            ("/two/wp-admin/admin-ajax.php", Some("/wp-admin/admin-ajax.php")),
            ("/two/wp-includes/css/a.min.css", Some("/wp-includes/css/a.min.css")),
            ("/two/wp-content/uploads/a.png", Some("/wp-content/uploads/a.png")),
            ("/two/xmlrpc.php", Some("/xmlrpc.php")),
            ("/two/index.php/2026/a-post/", Some("/index.php/2026/a-post/")),
            ("/two/", None),
            ("/two", None),
            ("/two/a-post/", None),
            ("/two/files/a.png", None),
            ("/wp-admin/", None),
            ("/wp-login.php", None),
            ("/wp-admin/none.php", None),
            ("/wp-content/wp-x.css", None),
            ("/a/b/wp-admin/", None),
            ("/.git/wp-admin/", None),
            ("/", None),
        ] {
            assert_eq!(rewritten(&plain, path, true).as_deref(), inner, "{path}");
            assert_eq!(rewritten(&plain, path, false), None, "{path}: sites have names");
        }
        // No site is two folders deep, but scripts are: the first folder counts as the site, as in nginx and Apache.
        assert_eq!(rewritten(&plain, "/a/b/x.php", true).as_deref(), Some("/b/x.php"));
    }

    #[test]
    fn wordpress_in_a_folder() {
        let own = multisite("/", "wp/");
        for (path, inner) in [
            ("/two/wp-admin/", Some("/wp/wp-admin/")),
            ("/wp-admin/", Some("/wp/wp-admin/")),
            ("/wp-login.php", Some("/wp/wp-login.php")),
            ("/wp/wp-login.php", Some("/wp/wp-login.php")),
            ("/two/a-post/", None),
        ] {
            assert_eq!(rewritten(&own, path, true).as_deref(), inner, "{path}");
        }
        assert_eq!(rewritten(&own, "/wp-login.php", false).as_deref(), Some("/wp/wp-login.php"));
        assert_eq!(rewritten(&own, "/two/wp-admin/", false), None);
        let below = multisite("/blog/", "");
        assert_eq!(rewritten(&below, "/blog/two/wp-admin/", true).as_deref(), Some("/blog/wp-admin/"));
        assert_eq!(rewritten(&below, "/two/wp-admin/", true), None);
    }

    #[test]
    fn a_change_of_the_file_is_seen() {
        let folder = std::env::temp_dir().join(format!("millrace-network-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = folder.join("wp-config.php");
        let multisite =
            Multisite { configs: vec![config.clone(), folder.join("other.php")], ..multisite("/", "") };
        let is =
            || (multisite.is_network.load(Ordering::Relaxed), multisite.by_folders.load(Ordering::Relaxed));
        let read = |now| multisite.read(now).unwrap();
        assert!(!read(0), "nothing was known before");
        assert_eq!(is(), (false, false));
        std::fs::write(&config, "<?php define('WP_ALLOW_MULTISITE', true);").unwrap();
        assert!(!read(1));
        std::fs::write(&config, "<?php define('MULTISITE', true); define('SUBDOMAIN_INSTALL', false);")
            .unwrap();
        assert!(read(2));
        assert_eq!(is(), (true, true));
        assert!(!read(3));
        assert!(read(2 + SETTLED), "PHP may have had the old file for a while");
        assert!(!read(100));
        std::fs::write(
            &config,
            "<?php define('MULTISITE', true); define('SUBDOMAIN_INSTALL', true); // other",
        )
        .unwrap();
        assert!(read(101) && is() == (true, false));
        std::fs::remove_file(&config).unwrap();
        assert!(read(102) && is() == (false, false));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

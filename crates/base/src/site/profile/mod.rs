//! What Millrace knows about applications, one file per application. Data only; `route` contains the rules that use
//! it.

mod caching;
mod dokuwiki;
mod drupal;
mod frameworks;
mod generic;
mod joomla;
mod magento;
mod matomo;
mod mediawiki;
mod moodle;
mod nextcloud;
mod opencart;
mod phpmyadmin;
mod prestashop;
mod rewrite;
mod roundcube;
mod tags;
mod typo3;
mod wordpress;

pub use caching::Caching;
use millrace_settings::plan;
pub use rewrite::{AtPath, Rewrites, Rewritten};
use rewrite::{Rewrite, Then, When};
pub use tags::TagWords;

/// The rules of an application.
#[derive(Debug)]
pub struct Profile {
    /// Folders for visitors' files: nothing in them ever runs. Segments, `*` at the end of one matches anything;
    /// found at any depth, or only in the root if the first is empty.
    pub uploads: &'static [&'static [&'static str]],
    /// Folders, in the same notation, whose files only scripts hand over.
    pub private: &'static [&'static [&'static str]],
    /// Paths that visitors get nothing of, whatever is there, nor of what is below.
    pub closed: &'static [&'static str],
    /// The scripts that run, written as for [`Caching::bypass_paths`]; empty: all but those in `uploads`.
    pub scripts: &'static [&'static str],
    /// Scripts that exist and do not run have the URLs of pages.
    pub others_are_pages: bool,
    /// Folders without an index have the URLs of pages.
    pub folders_are_pages: bool,
    /// What becomes of other paths.
    pub rewrites: &'static [Rewrite],
    /// Variables for its scripts.
    pub variables: &'static [(&'static str, &'static str)],
    /// Scripts that people know by another path: that path, and the real one.
    pub moved: &'static [(&'static str, &'static str)],
    /// File names that are never served, besides those of [`generic`]: whole names, lower case.
    pub never_served_names: &'static [&'static str],
    /// File name beginnings that are never served, lower case.
    pub never_served_prefixes: &'static [&'static str],
    /// Extensions of files that are never served, lower case.
    pub never_served_endings: &'static [&'static str],
    /// What the page cache needs to know.
    pub caching: Caching,
    /// Which requests run in another pool than the visitors'; the first match counts.
    pub pools: &'static [PoolRule],
    /// Steps on the way to an order: they go before requests that only read. Their `pool` is not used.
    pub buying: &'static [PoolRule],
    /// Requests that look like such steps, but that pages make for all readers.
    pub reading: &'static [PoolRule],
    /// Paths of logins, and of pages for logged-in visitors: other visitors' requests for them have the lowest rank.
    pub doors: &'static [&'static str],
    /// Beginnings of paths for programs, such as WebDAV clients: for them 404 is a normal answer.
    pub programs: &'static [&'static str],
    /// Tags of its pages in plain words, for people.
    pub tags: &'static [TagWords],
}

/// Requests that run in this pool. Each list that is not empty must match.
#[derive(Clone, Copy, Debug)]
pub struct PoolRule {
    /// The pool's name.
    pub pool: &'static str,
    /// Paths, written as for [`Caching::bypass_paths`].
    pub paths: &'static [&'static str],
    /// Methods.
    pub methods: &'static [&'static str],
    /// Cookies, `*` at either end matches anything.
    pub cookies: &'static [&'static str],
    /// Arguments of the query or of a short form: a name or `name=value`, `*` at either end matches anything.
    pub arguments: &'static [&'static str],
    /// The application knows visitors only by PHP sessions: a session with data is enough for the pool `admin`.
    /// Otherwise a login is needed.
    pub by_session: bool,
}

impl PoolRule {
    /// Any request.
    const ANY: PoolRule =
        PoolRule { pool: "", paths: &[], methods: &[], cookies: &[], arguments: &[], by_session: false };
    /// Methods that change something.
    const CHANGING: &[&str] = &["POST", "PUT", "PATCH", "DELETE"];
}

/// For a table: the rules that it does not name.
const NONE: Profile = Profile {
    uploads: &[],
    private: &[],
    closed: &[],
    scripts: &[],
    others_are_pages: false,
    folders_are_pages: false,
    rewrites: &[],
    variables: &[],
    moved: &[],
    never_served_names: &[],
    never_served_prefixes: &[],
    never_served_endings: &[],
    caching: generic::NOTHING,
    pools: &[],
    buying: &[],
    reading: &[],
    doors: &[],
    programs: &[],
    tags: &[],
};

impl Profile {
    /// The rules of an application.
    pub fn of(profile: plan::Profile) -> &'static Profile {
        match profile {
            plan::Profile::WordPress => &wordpress::PROFILE,
            plan::Profile::Drupal => &drupal::PROFILE,
            plan::Profile::Joomla => &joomla::PROFILE,
            plan::Profile::Nextcloud => &nextcloud::PROFILE,
            plan::Profile::MediaWiki => &mediawiki::PROFILE,
            plan::Profile::Matomo => &matomo::PROFILE,
            plan::Profile::PhpMyAdmin => &phpmyadmin::PROFILE,
            plan::Profile::Magento => &magento::PROFILE,
            plan::Profile::PrestaShop => &prestashop::PROFILE,
            plan::Profile::OpenCart => &opencart::PROFILE,
            plan::Profile::Moodle => &moodle::PROFILE,
            plan::Profile::Typo3 => &typo3::PROFILE,
            plan::Profile::DokuWiki => &dokuwiki::PROFILE,
            plan::Profile::Roundcube => &roundcube::PROFILE,
            plan::Profile::Craft => &frameworks::CRAFT,
            plan::Profile::CodeIgniter => &frameworks::CODEIGNITER,
            plan::Profile::Laravel => &frameworks::LARAVEL,
            plan::Profile::Symfony => &frameworks::SYMFONY,
            plan::Profile::Generic => &generic::PROFILE,
        }
    }

    /// Whether a path is closed.
    pub fn closes(&self, path: &[u8]) -> Closing {
        let is_below = |closed: &&&str| {
            path.len() >= closed.len()
                && path[..closed.len()].eq_ignore_ascii_case(closed.as_bytes())
                && matches!(path.get(closed.len()), None | Some(b'/'))
        };
        match self.closed.iter().filter(is_below).map(|closed| path.starts_with(closed.as_bytes())).max() {
            None => Closing::Open,
            Some(true) => Closing::Closed,
            Some(false) => Closing::ByCase,
        }
    }

    /// What purges a page with this tag, in plain words; `None`: unknown.
    pub fn tag_in_words(&self, tag: &str) -> Option<String> {
        tags::in_words(self.tags, tag)
    }

    /// Whether a visitor may have a file with this path, whatever it contains.
    ///
    /// `path` is normalised. Not used for scripts that run.
    pub fn secrecy(&self, path: &[u8]) -> Secrecy {
        let hidden = |segment: &[u8]| segment.first() == Some(&b'.') && segment != b".well-known";
        if path.split(|b| *b == b'/').any(hidden) || lies_in(self.private, path) {
            return Secrecy::Closed;
        }
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(&[]);
        if name.is_empty() {
            // A directory, or a page of the front controller: most pages are.
            return Secrecy::Open;
        }
        let mut room = [0u8; 255];
        // No file has such a long name, so there is nothing to hide: it may be a page of the front controller.
        let Some(name) = lower_case(name, &mut room) else { return Secrecy::Open };
        if generic::is_php_source(name) || name.starts_with(b"wp-config") || self.is_named_by_prefix(name) {
            return Secrecy::Closed;
        }
        let ending = memchr::memrchr(b'.', name).map(|dot| &name[dot + 1..]);
        let is_ours = self.never_served_names.iter().any(|n| n.as_bytes() == name)
            || ending.is_some_and(|e| self.never_served_endings.iter().any(|known| known.as_bytes() == e));
        let is_in_root = path.len() == name.len() + 1;
        if is_ours || generic::is_secret(name) || is_in_root && generic::is_backup(name) {
            Secrecy::Named
        } else {
            Secrecy::Open
        }
    }

    /// Whether a script with this path may run; a library's script only if `is_allowed`.
    pub fn lets_run(&self, path: &[u8], is_allowed: impl FnOnce() -> bool) -> bool {
        if memchr::memrchr(b'/', path) == Some(0) {
            // In the root itself, like front controllers.
            return !self.never_runs(path);
        }
        !lies_in(self.uploads, path) && !self.never_runs(path) && (!is_of_library(path) || is_allowed())
    }

    /// Whether a script with this path must not run although it could: it contains secrets and outputs nothing.
    fn never_runs(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(&[]);
        let hidden = path.split(|b| *b == b'/').any(|s| s.first() == Some(&b'.') && s != b".well-known");
        hidden || self.is_named_by_prefix(name)
    }

    fn is_named_by_prefix(&self, name: &[u8]) -> bool {
        self.never_served_prefixes.iter().any(|p| name.starts_with(p.as_bytes()))
    }
}

/// Whether a path is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// It is not.
    Open,
    /// Only without regard to case: on most disks it is another path, and may be a page.
    ByCase,
    /// It is.
    Closed,
}

/// Whether visitors may have a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    /// They may.
    Open,
    /// Its name says that they should not: they may if the site's settings allow it.
    Named,
    /// They may not: it is hidden, private, a script's source.
    Closed,
}

/// Whether a file is below one of these folders.
fn lies_in(folders: &[&[&str]], path: &[u8]) -> bool {
    if folders.is_empty() {
        return false;
    }
    let segments: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
    let fits = |pattern: &str, segment: &[u8]| match pattern.strip_suffix('*') {
        Some(start) => {
            segment.len() >= start.len() && segment[..start.len()].eq_ignore_ascii_case(start.as_bytes())
        }
        None => segment.eq_ignore_ascii_case(pattern.as_bytes()),
    };
    let is_at = |folder: &[&str], at: usize| folder.iter().zip(&segments[at..]).all(|(f, s)| fits(f, s));
    // The last segment is the file itself.
    folders.iter().any(|folder| (0..segments.len().saturating_sub(folder.len())).any(|at| is_at(folder, at)))
}

/// Whether a script is in a library folder of Composer or npm: other scripts include it; visitors request it only to
/// find a hole (CVE-2017-9841).
fn is_of_library(path: &[u8]) -> bool {
    let mut segments = path.split(|b| *b == b'/');
    segments.next_back();
    segments.any(|s| s.eq_ignore_ascii_case(b"vendor") || s.eq_ignore_ascii_case(b"node_modules"))
}

/// `None`: longer than any file name.
fn lower_case<'a>(name: &[u8], room: &'a mut [u8; 255]) -> Option<&'a [u8]> {
    let room = room.get_mut(..name.len())?;
    room.copy_from_slice(name);
    room.make_ascii_lowercase();
    Some(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For WordPress.
    fn secrecy(path: &str) -> Secrecy {
        Profile::of(plan::Profile::WordPress).secrecy(path.as_bytes())
    }

    #[test]
    fn what_no_setting_opens() {
        for path in [
            "/.env",
            "/.git/config",
            "/a/.htaccess",
            "/wp-content/database/.ht.sqlite",
            "/x.php~",
            "/x.PHP.bak",
            "/x.phtml",
            "/x.phar",
            "/x.php.swp",
            "/#x.php#",
            "/x.php5",
            "/x.phps",
            "/wp-config.txt",
            "/WP-CONFIG.bak",
            "/wp-config-backup.zip",
            "/.well-known/../.env",
            "/a/.DS_Store",
        ] {
            assert_eq!(secrecy(path), Secrecy::Closed, "{path}");
        }
        let drupal = Profile::of(plan::Profile::Drupal);
        for path in [
            "/sites/default/private/a.pdf",
            "/sites/a.example.com/files/private/b/a.pdf",
            "/sites/default/files/config_x1/sync/a.txt",
            "/files/config_0123/active/system.core.json",
            "/files/private/a.pdf",
        ] {
            assert_eq!(drupal.secrecy(path.as_bytes()), Secrecy::Closed, "{path}");
            assert_eq!(secrecy(path), Secrecy::Open, "{path}");
        }
        for path in ["/sites/default/files/a.pdf", "/private/a.pdf", "/files/a.pdf", "/files/config_x"] {
            assert_eq!(drupal.secrecy(path.as_bytes()), Secrecy::Open, "{path}");
        }
    }

    #[test]
    fn what_its_name_closes() {
        for path in [
            "/x.inc /dump.sql /dump.sql.gz /a/dump.sql.zip /dump.sql-2026-01-31.xz /wp-content/debug.log /logs/a.log.1 /a.log.2.gz",
            "/a/error.log-20260131 /error_log /access_log /a/access_log.1 /composer.json /composer.lock /a/package.json /yarn.lock",
            "/x.sqlite /x.sqlite3 /x.sqlite-wal /x.db /a/x.db-journal /x.mdb /x.accdb /php.ini /web.config /x.bak /x.html~",
            "/parameters.yml /app/config/parameters.yml /config.yml /app/etc/local.xml /a.pfx /a.P12 /a.jks /a.kdbx /a.ovpn /a.key",
            "/a.pem /id_rsa /id_ed25519 /a.ppk /a.py /a.pl /a/b.sh /cgi-bin/a.cgi /a.twig /a.tpl /a.module /a.key.bak /a.db.zip",
            "/backup.zip /Backup-2026.zip /site-backup.rar /a.tar.gz /a.tgz /a.tar /a.tar.zst /www.zip /wordpress.zip /db_dump.gz",
            "/public_html.7z /example.wpress",
        ]
        .join(" ")
        .split(' ')
        {
            assert_eq!(secrecy(path), Secrecy::Named, "{path}");
        }
        let drupal = Profile::of(plan::Profile::Drupal);
        for path in [
            "/modules/a/a.info",
            "/a.install",
            "/themes/a.theme",
            "/a.info.yml",
            "/a.profile",
            "/a.engine",
            "/a.test",
        ] {
            assert_eq!(drupal.secrecy(path.as_bytes()), Secrecy::Named, "{path}");
        }
    }

    #[test]
    fn what_real_sites_serve() {
        assert_eq!(
            Profile::of(plan::Profile::WordPress).secrecy(&[b"/".as_slice(), &[b'a'; 300]].concat()),
            Secrecy::Open
        );
        for path in [
            "/ /index.html /a.css /.well-known/acme-challenge/x /.well-known/security.txt /php-logo.png /wp-includes/js/a.min.js",
            "/catalogue.logo.svg /theme.json /graph.png /photo.jpg /x.phpsomething/a.css /wp-content/uploads/2026/01/plugin.zip",
            "/downloads/backup.zip /downloads/a.tar.gz /brochure.zip /release-1.2.zip /a.css.gz /app.js.br /robots.txt /sitemap.xml",
            "/wp-content/plugins/a/vendor/chart.min.js /wp-content/plugins/a/node_modules/b/c.css /vendor/a.svg /a.js.map /a.yaml",
            "/wp-content/plugins/a/readme.txt /manifest.webmanifest /a.pdf /a.db.css /error_logo.png /blog.login /about-the-key",
            "/wp-content/languages/a.json /sqlite.js /a.sql.js /log /data.json /fonts/a.woff2 /v1.0 /photo-2 /a.xml /feed.xml",
            "/wp-content/plugins/backup/backup.js /www.css /site.webmanifest /2026-01-31 /tarot.zip",
        ]
        .join(" ")
        .split(' ')
        {
            assert_eq!(secrecy(path), Secrecy::Open, "{path}");
        }
    }

    #[test]
    fn upload_folders() {
        let runs = |profile, path: &str| Profile::of(profile).lets_run(path.as_bytes(), || false);
        let wordpress = |path| runs(plan::Profile::WordPress, path);
        assert!(!wordpress("/wp-content/uploads/x.php"));
        assert!(!wordpress("/blog/wp-content/UPLOADS/2024/01/x.php"));
        assert!(wordpress("/wp-content/uploads.php"));
        assert!(wordpress("/wp-content/plugins/uploads/x.php"));
        let drupal = |path| runs(plan::Profile::Drupal, path);
        assert!(!drupal("/sites/default/files/x.php") && !drupal("/files/x.php"));
        assert!(drupal("/sites/default/settings.php") && drupal("/modules/a/files/x.php"));
        assert!(!runs(plan::Profile::Generic, "/a/uploads/x.php"));
    }

    #[test]
    fn libraries_do_not_run() {
        for profile in [plan::Profile::WordPress, plan::Profile::Drupal, plan::Profile::Generic] {
            for path in [
                "/vendor/phpunit/phpunit/src/Util/PHP/eval-stdin.php",
                "/wp-content/plugins/a/vendor/b/c.php",
                "/Vendor/a.php",
                "/a/node_modules/b/c.php",
            ] {
                assert!(!Profile::of(profile).lets_run(path.as_bytes(), || false), "{path}");
                assert!(Profile::of(profile).lets_run(path.as_bytes(), || true), "{path}");
            }
            for path in ["/vendor.php", "/vendors/a.php", "/index.php", "/a/vendor.php"] {
                assert!(Profile::of(profile).lets_run(path.as_bytes(), || false), "{path}");
            }
        }
        assert!(
            !Profile::of(plan::Profile::WordPress).lets_run(b"/wp-content/uploads/vendor/a.php", || true)
        );
    }

    /// All profiles, with their words.
    fn all() -> impl Iterator<Item = (&'static str, &'static Profile)> {
        millrace_settings::APPLICATIONS.iter().map(|known| (known.word, Profile::of(known.profile)))
    }

    #[test]
    fn tables_are_well_formed() {
        for (word, profile) in all() {
            for path in profile.closed {
                assert!(
                    path.starts_with('/') && !path.ends_with('/') && !path.contains('*'),
                    "{word}: {path}"
                );
            }
            for path in profile.scripts {
                assert!(path.trim_start_matches('*').starts_with('/'), "{word}: {path}");
            }
            for names in
                [profile.never_served_names, profile.never_served_endings, profile.never_served_prefixes]
            {
                assert!(names.iter().all(|name| name.to_lowercase() == *name), "{word}: {names:?}");
            }
            assert_eq!(Rewrites::new(profile.rewrites).is_none(), profile.rewrites.is_empty(), "{word}");
            for rule in profile.rewrites {
                if let Then::Serve(target) = rule.then {
                    assert!(target.starts_with('/'), "{word}: {target}");
                    let groups = rewrite::regex(rule.path).captures_len();
                    let named = target.split('$').skip(1).map(|rest| rest.trim_start_matches('/'));
                    for group in named {
                        assert!(usize::from(group.as_bytes()[0] - b'0') < groups, "{word}: {target}");
                    }
                }
            }
        }
    }

    /// `docs/applications.md` has every closed path, and every script that runs.
    #[test]
    fn the_page_of_applications_is_complete() {
        let page = include_str!("../../../../../docs/applications.md");
        for (word, profile) in all().filter(|(_, profile)| !profile.closed.is_empty()) {
            let name = millrace_settings::APPLICATIONS.iter().find(|known| known.word == word).unwrap().name;
            let starts =
                |line: &&str| line.starts_with(&format!("| {name} | ")) && line.matches('|').count() > 5;
            let line = page.lines().find(starts).unwrap_or_else(|| panic!("{name}"));
            // Those in `/w/` are said to be the same.
            for closed in profile.closed.iter().filter(|path| !path.starts_with("/w/")) {
                assert!(line.contains(&format!("`{closed}`")), "{name}: {closed}");
            }
            for script in profile.scripts.iter().filter(|path| !path.starts_with("/w/")) {
                let names = script.rsplit('/').take(2).filter(|part| !part.contains('*') && !part.is_empty());
                names.for_each(|part| assert!(line.contains(part), "{name}: {script}"));
            }
        }
    }

    #[test]
    fn what_is_closed() {
        let closes = |path: &str| Profile::of(plan::Profile::Nextcloud).closes(path.as_bytes());
        for path in ["/config", "/config/", "/config/config.php", "/data/a/b", "/core/shipped.json"] {
            assert_eq!(closes(path), Closing::Closed, "{path}");
        }
        for path in ["/Config/config.php", "/DATA"] {
            assert_eq!(closes(path), Closing::ByCase, "{path}");
        }
        for path in ["/configs", "/", "/apps/config/a", "/conf", "/datatable/x"] {
            assert_eq!(closes(path), Closing::Open, "{path}");
        }
        // What is known inside closes nothing: it is as it was.
        for profile in [plan::Profile::WordPress, plan::Profile::Drupal, plan::Profile::Generic] {
            let profile = Profile::of(profile);
            let nothing =
                profile.closed.is_empty() && profile.scripts.is_empty() && profile.rewrites.is_empty();
            assert!(nothing && !profile.others_are_pages && !profile.folders_are_pages);
        }
    }

    /// The data follows the grammar of the corresponding settings.
    #[test]
    fn what_pages_depend_on_is_well_formed() {
        let check = |setting: &str, patterns: &[&str]| {
            let list: Vec<String> = patterns.iter().map(|pattern| format!("'{pattern}'")).collect();
            let set = vec![format!("{setting}=[{}]", list.join(", "))];
            let source = millrace_settings::Source { site_dir: Some("/".into()), set, ..Default::default() };
            if let Err(problems) = millrace_settings::load(&source) {
                panic!("{problems}");
            }
            let mut sorted = patterns.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), patterns.len(), "twice in {patterns:?}");
        };
        for (_, profile) in all() {
            let caching = &profile.caching;
            check("cache.bypass_cookies", caching.bypass_cookies);
            check("cache.bypass_arguments", caching.bypass_arguments);
            for paths in [
                caching.bypass_paths,
                caching.open_paths,
                caching.script_paths,
                caching.feeds,
                caching.sitemaps,
                caching.apis,
            ] {
                check("cache.bypass_paths", paths);
            }
        }
    }
}

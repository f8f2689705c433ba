//! What Millrace knows about an application, a file an application. Data only; the rules that use it are in `route`.

mod caching;
mod drupal;
mod generic;
mod wordpress;

pub use caching::Caching;
use millrace_settings::plan;

/// The rules of an application.
#[derive(Debug)]
pub struct Profile {
    /// Folders where visitors' files land: nothing in them is ever run. Segments, `*` stands for any one; found at
    /// any depth.
    pub uploads: &'static [&'static [&'static str]],
    /// File names that are never served, besides those of [`generic::NEVER_SERVED`]: whole names, lower case.
    pub never_served_names: &'static [&'static str],
    /// File name beginnings that are never served, lower case.
    pub never_served_prefixes: &'static [&'static str],
    /// File name endings that are never served, lower case.
    pub never_served_suffixes: &'static [&'static str],
    /// What the page cache has to know.
    pub caching: Caching,
    /// Which requests run in another pool than that of visitors; the first rule that fits counts.
    pub lanes: &'static [LaneRule],
    /// Paths of log-ins, and of pages for those who are logged in: requests for them by others come last of all.
    pub doors: &'static [&'static str],
}

/// Requests that run in this pool. Of each list that is not empty one has to be met.
#[derive(Clone, Copy, Debug)]
pub struct LaneRule {
    /// The pool's name.
    pub pool: &'static str,
    /// Paths, written as for [`Caching::bypass_paths`].
    pub paths: &'static [&'static str],
    /// Methods.
    pub methods: &'static [&'static str],
    /// Cookies, `*` at either end for anything.
    pub cookies: &'static [&'static str],
    /// Arguments of the query or of a short form: a name or `name=value`, `*` at either end for anything.
    pub arguments: &'static [&'static str],
    /// The application knows visitors by sessions of PHP alone: one with something in it will do for the pool `admin`. Otherwise
    /// it takes a log-in.
    pub by_session: bool,
}

impl LaneRule {
    /// Any request.
    const ANY: LaneRule =
        LaneRule { pool: "", paths: &[], methods: &[], cookies: &[], arguments: &[], by_session: false };
    /// Methods that change something.
    const CHANGING: &[&str] = &["POST", "PUT", "PATCH", "DELETE"];
}

impl Profile {
    /// The rules of an application.
    pub fn of(profile: plan::Profile) -> &'static Profile {
        match profile {
            plan::Profile::WordPress => &wordpress::PROFILE,
            plan::Profile::Drupal => &drupal::PROFILE,
            plan::Profile::Generic => &generic::PROFILE,
        }
    }

    /// Whether a file with this path must never be sent to a visitor, whatever it contains.
    ///
    /// `path` is normalised. Scripts that are run are not asked about.
    pub fn never_serves(&self, path: &[u8]) -> bool {
        let hidden = |segment: &[u8]| segment.first() == Some(&b'.') && segment != b".well-known";
        if path.split(|b| *b == b'/').any(hidden) {
            return true;
        }
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(&[]);
        if name.is_empty() {
            // A directory, or a page of the front controller: most pages are.
            return false;
        }
        let mut room = [0u8; 255];
        // No file has so long a name, so there is nothing to hide: it may be a page of the front controller.
        let Some(name) = lower_case(name, &mut room) else { return false };
        generic::is_php_source(name)
            || [&generic::NEVER_SERVED, self].into_iter().any(|rules| {
                rules.never_served_names.iter().any(|n| n.as_bytes() == name)
                    || rules.never_served_prefixes.iter().any(|p| name.starts_with(p.as_bytes()))
                    || rules.never_served_suffixes.iter().any(|s| name.ends_with(s.as_bytes()))
            })
    }

    /// Whether a script with this path may be run.
    pub fn lets_run(&self, path: &[u8]) -> bool {
        !self.is_upload(path) && !self.never_runs(path)
    }

    /// Whether a script with this path must not be run, though it could be: it holds secrets and has nothing to say.
    fn never_runs(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(&[]);
        let hidden = path.split(|b| *b == b'/').any(|s| s.first() == Some(&b'.') && s != b".well-known");
        hidden || self.never_served_prefixes.iter().any(|p| name.starts_with(p.as_bytes()))
    }

    /// Whether the path lies in a folder where visitors' files land.
    fn is_upload(&self, path: &[u8]) -> bool {
        if memchr::memrchr(b'/', path) == Some(0) {
            // In the root itself, as front controllers are.
            return false;
        }
        let segments: Vec<&[u8]> = path.split(|b| *b == b'/').collect();
        let is_at = |folder: &[&str], at: usize| {
            folder.iter().zip(&segments[at..]).all(|(f, s)| *f == "*" || s.eq_ignore_ascii_case(f.as_bytes()))
        };
        // The last segment is the file itself.
        self.uploads
            .iter()
            .any(|folder| (0..segments.len().saturating_sub(folder.len())).any(|at| is_at(folder, at)))
    }
}

/// `None`: longer than a file name can be.
fn lower_case<'a>(name: &[u8], room: &'a mut [u8; 255]) -> Option<&'a [u8]> {
    let room = room.get_mut(..name.len())?;
    room.copy_from_slice(name);
    room.make_ascii_lowercase();
    Some(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_served() {
        let profile = Profile::of(plan::Profile::WordPress);
        assert!(!profile.never_serves(&[b"/".as_slice(), &[b'a'; 300]].concat()));
        for path in [
            "/.env",
            "/.git/config",
            "/a/.htaccess",
            "/wp-content/database/.ht.sqlite",
            "/x.php~",
            "/x.PHP.bak",
            "/x.phtml",
            "/x.phar",
            "/x.inc",
            "/x.php.swp",
            "/#x.php#",
            "/x.php5",
            "/x.phps",
            "/dump.sql",
            "/dump.sql.gz",
            "/wp-content/debug.log",
            "/error_log",
            "/composer.json",
            "/composer.lock",
            "/a/package.json",
            "/yarn.lock",
            "/wp-config.txt",
            "/WP-CONFIG.bak",
            "/wp-config-backup.zip",
            "/x.sqlite",
            "/php.ini",
            "/web.config",
            "/x.bak",
            "/x.html~",
            "/.well-known/../.env",
            "/a/.DS_Store",
        ] {
            assert!(profile.never_serves(path.as_bytes()), "{path}");
        }
        for path in [
            "/",
            "/index.html",
            "/a.css",
            "/.well-known/acme-challenge/x",
            "/php-logo.png",
            "/wp-includes/js/a.min.js",
            "/catalogue.logo.svg",
            "/theme.json",
            "/graph.png",
            "/photo.jpg",
            "/x.phpsomething/a.css",
        ] {
            assert!(!profile.never_serves(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn upload_folders() {
        let wordpress = Profile::of(plan::Profile::WordPress);
        assert!(wordpress.is_upload(b"/wp-content/uploads/x.php"));
        assert!(wordpress.is_upload(b"/blog/wp-content/UPLOADS/2024/01/x.php"));
        assert!(!wordpress.is_upload(b"/wp-content/uploads.php"));
        assert!(!wordpress.is_upload(b"/wp-content/plugins/uploads/x.php"));
        let drupal = Profile::of(plan::Profile::Drupal);
        assert!(drupal.is_upload(b"/sites/default/files/x.php"));
        assert!(!drupal.is_upload(b"/sites/default/settings.php"));
        assert!(Profile::of(plan::Profile::Generic).is_upload(b"/a/uploads/x.php"));
    }

    /// The data keeps to the grammar of the settings that it stands beside.
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
        for profile in [plan::Profile::WordPress, plan::Profile::Drupal, plan::Profile::Generic] {
            let caching = &Profile::of(profile).caching;
            check("cache.bypass_cookies", caching.bypass_cookies);
            check("cache.bypass_arguments", caching.bypass_arguments);
            for paths in [caching.bypass_paths, caching.feeds, caching.sitemaps, caching.apis] {
                check("cache.bypass_paths", paths);
            }
        }
    }
}

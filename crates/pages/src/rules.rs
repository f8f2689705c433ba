//! A site's cache settings, resolved once when the configuration is read.
//!
//! [`Rules::standard`] obeys only the application's responses, as RFC 9111 requires of a shared cache.
//! [`Rules::profile`] adds knowledge about an application that says little about itself: lifetimes by kind, what
//! makes a page personal, arguments that only serve statistics. The settings supply the application's data.

use crate::Millis;

/// A second.
const SECOND: Millis = 1000;
const HOUR: Millis = 3600 * SECOND;

/// Maximum life of a page with a WordPress nonce: a nonce is valid for 12 to 24 hours.
pub const NONCE_LIFE: Millis = 10 * HOUR;

/// Which rules apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The cache is off for this site.
    #[default]
    Off,
    /// The response's own fields, according to RFC 9111.
    Standard,
    /// The same, plus what the application's profile adds. Clients' cache directives are ignored.
    Profile,
}

/// The rules of a site.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Which rules apply.
    pub mode: Mode,
    /// http and https share pages.
    pub schemes_share: bool,
    /// Names of arguments that PHP may see but that don't distinguish pages.
    pub dropped_arguments: Patterns,
    /// A request with such an argument bypasses the cache; of `a[b]` the name is `a`.
    pub bypass_arguments: Patterns,
    /// A request with such a cookie bypasses the cache.
    pub bypass_cookies: Patterns,
    /// A request for such a path bypasses the cache.
    pub bypass_paths: Paths,
    /// Exceptions from the profile's [`bypass_paths`](Rules::bypass_paths).
    pub open_paths: Paths,
    /// Exceptions for requests that the application's own script in the browser sends: [`crate::own_script`].
    pub script_paths: Paths,
    /// The settings' part of [`bypass_paths`](Rules::bypass_paths): there are no exceptions from it.
    pub chosen_paths: Paths,
    /// Cookies that scripts in the browser set for themselves; ignored, and not passed to PHP when it runs for a
    /// shared page: [`Rules::is_harmless`].
    pub harmless_cookies: Patterns,
    /// Cookies that the site's settings name, for bypasses or keys: they matter here, even if they are harmless
    /// elsewhere.
    pub chosen_cookies: Patterns,
    /// Cookies of the application, which says itself what they mean: [`crate::visitors`].
    pub judged_cookies: Patterns,
    /// What is done about all other cookies.
    pub unknown_cookies: UnknownCookies,
    /// What is done about fields of the request that a script reads, and its response does not name in `Vary`.
    pub read_fields: ReadFields,
    /// Fields that mean nothing for the pages of this site, whatever reads them; in lower case, with hyphens.
    pub ignored_fields: Patterns,
    /// Pages differ by the values of these cookies.
    pub key_cookies: Patterns,
    /// Pages differ by the class of device.
    pub key_device: bool,
    /// The cookies by which a page with `Vary: Cookie` differs.
    pub vary_cookies: VaryCookies,
    /// Names of request fields by which pages may vary, besides `Accept-Encoding`; a page that varies by another one
    /// is not stored. Not used in standard mode, where all are allowed.
    pub vary_fields: Patterns,
    /// How long a page is fresh if the application says nothing.
    pub lifetimes: Lifetimes,
    /// How stale pages may be used.
    pub grace: Bounds,
    /// Maximum time for which a page is fresh.
    pub longest_life: Millis,
    /// Maximum content that is stored, bytes.
    pub largest_page: usize,
    /// How long to remember that a page is uncacheable.
    pub remember_refusal: Millis,
    /// Whether the fields of LiteSpeed's cache are obeyed.
    pub litespeed: bool,
    /// PHP sees unchanged requests, even when it runs for a shared page, except clients' addresses and harmless
    /// cookies: the application is unknown, and most of its pages may be uncacheable.
    pub faithful: bool,
    /// Texts in the content that indicate a nonce: such a page lives [`NONCE_LIFE`] at most.
    pub nonce_marks: Vec<Box<str>>,
    /// Paths (in the same form as [`Rules::bypass_paths`]) of sitemaps.
    pub sitemap_paths: Paths,
    /// Paths of feeds.
    pub feed_paths: Paths,
    /// Paths of the REST API.
    pub rest_paths: Paths,
}

/// Lifetimes by kind of response, in milliseconds; 0: not stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// 200 with HTML.
    pub page: Millis,
    /// 200 with RSS or Atom.
    pub feed: Millis,
    /// 200 for a sitemap.
    pub sitemap: Millis,
    /// 200 from the REST API.
    pub rest: Millis,
    /// 200 with anything else.
    pub other: Millis,
    /// 301, 308.
    pub redirect: Millis,
    /// 404, 410. Also the maximum that a function call can set for these.
    pub not_found: Millis,
}

/// How long stale pages may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// During a fill, if the application does not say (RFC 5861 section 3).
    pub while_revalidating: Millis,
    /// If the application fails and has not said anything (RFC 5861 section 4).
    pub on_error: Millis,
    /// Maximum that the application can set.
    pub most: Millis,
}

/// What is done about cookies that neither the rules nor the application know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCookies {
    /// The application says in `Vary` what matters (RFC 9111).
    Ignored,
    /// A request with one bypasses the cache: nobody says what scripts look for.
    Bypass,
    /// A page is not for visitors with a cookie that its script has looked for: [`crate::looked`].
    Observed,
}

/// What is done about fields of the request that a script reads, and its response does not name in `Vary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFields {
    /// The application says in `Vary` what matters (RFC 9111).
    Ignored,
    /// The same, if its response says in a field of its own that others may have it. Otherwise they count.
    Unsaid,
    /// A page has variants by their values, as if `Vary` named them: [`crate::read_fields`].
    Observed,
}

/// The cookies by which a page with `Vary: Cookie` differs.
#[derive(Clone, Debug)]
pub enum VaryCookies {
    /// Only these: an application whose session cookies are known.
    Only(Patterns),
    /// All but the [harmless](Rules::harmless_cookies) ones.
    AllButHarmless,
    /// All.
    All,
}

impl Rules {
    /// The cache is off.
    pub fn off() -> Rules {
        Rules { mode: Mode::Off, ..Rules::standard() }
    }

    /// RFC 9111, and nothing else.
    pub fn standard() -> Rules {
        Rules {
            mode: Mode::Standard,
            schemes_share: false,
            dropped_arguments: Patterns::default(),
            bypass_arguments: Patterns::default(),
            bypass_cookies: Patterns::default(),
            bypass_paths: Paths::default(),
            open_paths: Paths::default(),
            script_paths: Paths::default(),
            chosen_paths: Paths::default(),
            harmless_cookies: Patterns::default(),
            chosen_cookies: Patterns::default(),
            judged_cookies: Patterns::default(),
            unknown_cookies: UnknownCookies::Ignored,
            read_fields: ReadFields::Ignored,
            ignored_fields: Patterns::default(),
            key_cookies: Patterns::default(),
            key_device: false,
            vary_cookies: VaryCookies::All,
            vary_fields: Patterns::default(),
            lifetimes: Lifetimes::default(),
            grace: Bounds { most: 7 * 24 * HOUR, ..Bounds::default() },
            longest_life: 365 * 24 * HOUR,
            largest_page: 16 << 20,
            remember_refusal: 2 * SECOND,
            litespeed: false,
            faithful: false,
            nonce_marks: Vec::new(),
            sitemap_paths: Paths::default(),
            feed_paths: Paths::default(),
            rest_paths: Paths::default(),
        }
    }

    /// Rules for any application: nothing is stored that it forbids, and otherwise visitors get cached pages where
    /// possible.
    pub fn profile() -> Rules {
        Rules {
            mode: Mode::Profile,
            dropped_arguments: Patterns::new(STATISTICS_ARGUMENTS),
            bypass_cookies: Patterns::new(SESSION_COOKIES),
            harmless_cookies: Patterns::new(HARMLESS_COOKIES),
            key_cookies: Patterns::new([LITESPEED_COOKIE]),
            vary_cookies: VaryCookies::AllButHarmless,
            vary_fields: Patterns::new(VARY_FIELDS),
            grace: Bounds { while_revalidating: 60 * SECOND, on_error: 24 * HOUR, most: 7 * 24 * HOUR },
            remember_refusal: 120 * SECOND,
            litespeed: true,
            ..Rules::standard()
        }
    }
}

impl Rules {
    /// The pattern by which a request for a normalised path bypasses the cache; `is_own_script`: whether the application's own
    /// script sends it.
    pub fn bypass_path(&self, path: &[u8], is_own_script: impl FnOnce() -> bool) -> Option<&str> {
        let found = self.bypass_paths.find(path)?;
        let is_excepted =
            self.open_paths.find(path).is_some() || self.script_paths.find(path).is_some() && is_own_script();
        match is_excepted {
            true => self.chosen_paths.find(path),
            false => Some(found),
        }
    }

    /// Whether a cookie of this name (as PHP sees it) is ignored here.
    pub fn is_harmless(&self, name: &[u8]) -> bool {
        self.harmless_cookies.matches(name) && !self.chosen_cookies.matches(name)
    }
}

/// The cookie by which the LiteSpeed Cache plugins distinguish kinds of visitors, each with its own pages:
/// commenters, roles, languages and currencies. LiteSpeed's servers include it in every key.
pub const LITESPEED_COOKIE: &str = "_lscache_vary";

/// Arguments that advertisers and mailers add to links for their statistics.
pub const STATISTICS_ARGUMENTS: &[&str] = &[
    "utm_*",
    "fbclid",
    "gclid",
    "gclsrc",
    "gbraid",
    "wbraid",
    "dclid",
    "msclkid",
    "yclid",
    "ysclid",
    "twclid",
    "ttclid",
    "igshid",
    "li_fat_id",
    "mc_cid",
    "mc_eid",
    "_ga",
    "_gl",
    "_ke",
    "_hsenc",
    "_hsmi",
    "__hstc",
    "__hssc",
    "__hsfp",
    "hsCtaTracking",
    "mkt_tok",
    "vero_id",
    "vero_conv",
    "oly_anon_id",
    "oly_enc_id",
    "srsltid",
    "wickedid",
    "epik",
    "s_kwcid",
    "ef_id",
    "pk_campaign",
    "pk_kwd",
    "pk_source",
    "pk_medium",
    "pk_content",
    "pk_cid",
    "mtm_*",
    "matomo_*",
    "piwik_*",
    "trk_*",
    "hsa_*",
    "sb_referer_host",
    "cn-reloaded",
    "_kx",
    "_openstat",
    "_gac",
    "gad_source",
    "gad_campaignid",
    "fb_action_ids",
    "fb_action_types",
    "fb_source",
    "igsh",
    "rdt_cid",
    "ScCid",
];

/// Session cookies of PHP and frameworks.
pub const SESSION_COOKIES: &[&str] = &[
    "PHPSESSID",
    "*session*",
    "*Session*",
    "*SESSION*",
    "SESS*",
    "SSESS*",
    "remember_*",
    "*_logged_in*",
    "laravel_*",
];

/// Cookies of analytics, advertising and consent, which scripts in the browser read, and the server's own of the
/// waiting room.
pub const HARMLESS_COOKIES: &[&str] = &[
    "millrace_place",
    "_ga",
    "_ga_*",
    "_gid",
    "_gat*",
    "_gcl_*",
    "_gac_*",
    "__gads",
    "__gpi",
    "__utm*",
    "_fbp",
    "_fbc",
    "_hj*",
    "_pk_*",
    "_clck",
    "_clsk",
    "_uet*",
    "_tt_*",
    "_ttp",
    "_pin_*",
    "_scid*",
    "_derived_epik",
    "__hs*",
    "hubspotutk",
    "__cf_bm",
    "__cfruid",
    "_cfuvid",
    "cf_clearance",
    "__stripe_*",
    "ajs_*",
    "amplitude_*",
    "mp_*",
    "optimizely*",
    "_vwo*",
    "_vis_opt*",
    "cookieyes-consent",
    "cookielawinfo-*",
    "CookieConsent",
    "cookie_notice_accepted",
    "cmplz_*",
    "cc_cookie*",
    "borlabs-cookie",
    "OptanonConsent",
    "OptanonAlertBoxClosed",
    "viewed_cookie_policy",
    "euconsent*",
    "moove_gdpr_popup",
    "real_cookie_banner*",
    "wordpress_test_cookie",
    "wp_lang",
    "sbjs_*",
    "tk_ai",
    "tk_qs",
    "tk_lr",
    "tk_or",
    "tk_r3d",
    "_dc_gtm_*",
    "_mkto_trk",
    "intercom-*",
    "crisp-client*",
    "__zlcmid",
    "_lfa",
    "_rdt_uuid",
    "_screload",
    "has_js",
];

/// Fields by which a page may vary. The values of most are normalised (see [`crate::vary`]).
pub const VARY_FIELDS: &[&str] = &[
    "accept",
    "accept-language",
    "cookie",
    "user-agent",
    "origin",
    "save-data",
    "sec-ch-ua-mobile",
    "sec-gpc",
    "dnt",
    "x-forwarded-proto",
    "x-requested-with",
    "host",
    "authorization",
    "sec-fetch-dest",
    "sec-fetch-mode",
];

/// Names, each exact or with a `*` at its start, end or both.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    /// Patterns that begin with text.
    rooted: Vec<Pattern>,
    /// First bytes of `rooted`, one bit each.
    first: [u64; 4],
    /// Patterns that begin with `*`.
    loose: Vec<Pattern>,
    /// Names that match nothing.
    except: Option<Box<Patterns>>,
}

#[derive(Clone, Debug)]
struct Pattern {
    written: Box<str>,
    /// Without stars.
    text: Box<[u8]>,
    open_end: bool,
}

impl Patterns {
    /// The patterns as written; empty ones are ignored.
    pub fn new<S: AsRef<str>>(written: impl IntoIterator<Item = S>) -> Patterns {
        let mut patterns = Patterns::default();
        patterns.extend(written);
        patterns
    }

    /// Adds patterns.
    pub fn extend<S: AsRef<str>>(&mut self, written: impl IntoIterator<Item = S>) {
        for written in written {
            let written = written.as_ref();
            let body = written.strip_prefix('*').unwrap_or(written);
            let open_end = body.ends_with('*') || written == "*";
            let text = body.strip_suffix('*').unwrap_or(body).as_bytes();
            let pattern = Pattern { written: written.into(), text: text.into(), open_end };
            match (written.starts_with('*'), text.first()) {
                (true, _) => self.loose.push(pattern),
                (false, Some(first)) => {
                    self.first[usize::from(first >> 6)] |= 1 << (first & 63);
                    self.rooted.push(pattern);
                }
                (false, None) => {}
            }
        }
    }

    /// Whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.rooted.is_empty() && self.loose.is_empty()
    }

    /// A pattern that `name` matches, as written. Case matters.
    pub fn find(&self, name: &[u8]) -> Option<&str> {
        let first = *name.first()?;
        let mut found = None;
        if self.first[usize::from(first >> 6)] >> (first & 63) & 1 == 1 {
            found = self.rooted.iter().find(|pattern| pattern.begins(name));
        }
        found
            .or_else(|| self.loose.iter().find(|pattern| pattern.is_in(name)))
            .filter(|_| self.except.as_ref().is_none_or(|except| !except.matches(name)))
            .map(|pattern| &*pattern.written)
    }

    /// From now on names that match this pattern match nothing.
    pub fn except(&mut self, written: &str) {
        self.except.get_or_insert_default().extend([written]);
    }

    /// Whether a pattern matches.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.find(name).is_some()
    }
}

impl Pattern {
    fn begins(&self, name: &[u8]) -> bool {
        // The first byte rules out most names without a call.
        name[0] == self.text[0]
            && name.strip_prefix(&*self.text).is_some_and(|rest| self.open_end || rest.is_empty())
    }

    /// Names are short: comparing at each position is faster than preparing a search.
    fn is_in(&self, name: &[u8]) -> bool {
        match self.open_end {
            true => self.text.is_empty() || name.windows(self.text.len()).any(|window| window == &*self.text),
            false => name.ends_with(&self.text),
        }
    }
}

/// Paths in the grammar of the settings: `/a` with all below it, `/a*` all that begin with `/a`, `*/a` at any depth,
/// `*a*` anywhere.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// From the root.
    rooted: Vec<PathPattern>,
    /// From any slash.
    deep: Vec<PathPattern>,
    /// Bytes behind the slash with which one of `deep` begins, one bit each.
    first: [u64; 4],
    /// From anywhere.
    loose: Vec<PathPattern>,
}

#[derive(Clone, Debug)]
struct PathPattern {
    written: Box<str>,
    /// Without stars, and without a slash at its end.
    text: Box<[u8]>,
    open_end: bool,
}

impl Paths {
    /// The paths as written.
    pub fn new<S: AsRef<str>>(written: impl IntoIterator<Item = S>) -> Paths {
        let mut paths = Paths::default();
        paths.extend(written);
        paths
    }

    /// Adds paths.
    pub fn extend<S: AsRef<str>>(&mut self, written: impl IntoIterator<Item = S>) {
        for written in written {
            let written = written.as_ref();
            let body = written.strip_prefix('*').unwrap_or(written);
            let open_end = body.ends_with('*');
            let body = body.strip_suffix('*').unwrap_or(body);
            let text = if open_end { body } else { body.strip_suffix('/').unwrap_or(body) }.as_bytes();
            let pattern = PathPattern { written: written.into(), text: text.into(), open_end };
            match (written.starts_with('*'), text) {
                (false, _) => self.rooted.push(pattern),
                (true, [b'/', first, ..]) => {
                    self.first[usize::from(first >> 6)] |= 1 << (first & 63);
                    self.deep.push(pattern);
                }
                (true, _) => self.loose.push(pattern),
            }
        }
    }

    /// The first pattern that matches a normalised path, as written.
    pub fn find(&self, path: &[u8]) -> Option<&str> {
        let found = self.rooted.iter().find(|pattern| pattern.begins(path));
        let found = found.or_else(|| if self.deep.is_empty() { None } else { self.find_deep(path) });
        let anywhere = |pattern: &&PathPattern| {
            memchr::memmem::find_iter(path, &pattern.text).any(|at| pattern.begins(&path[at..]))
        };
        found.or_else(|| self.loose.iter().find(anywhere)).map(|pattern| &*pattern.written)
    }

    fn find_deep(&self, path: &[u8]) -> Option<&PathPattern> {
        let known = |b: &u8| self.first[usize::from(b >> 6)] >> (b & 63) & 1 == 1;
        memchr::memchr_iter(b'/', path)
            .filter(|at| path.get(at + 1).is_some_and(known))
            .find_map(|at| self.deep.iter().find(|pattern| pattern.begins(&path[at..])))
    }
}

impl PathPattern {
    /// Whether `path` equals it or lies below it.
    fn begins(&self, path: &[u8]) -> bool {
        path.strip_prefix(&*self.text).is_some_and(|rest| self.open_end || matches!(rest, [] | [b'/', ..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_at_either_end() {
        for (pattern, yes, no) in [
            ("utm_*", "utm_source", "xutm_source"),
            ("_ga", "_ga", "_gat"),
            ("*session*", "my_session_id", "sess"),
            ("*sid", "connect.sid", "sidx"),
            ("*", "anything", ""),
        ] {
            let patterns = Patterns::new([pattern]);
            assert_eq!(patterns.find(yes.as_bytes()), Some(pattern));
            assert!(!patterns.matches(no.as_bytes()), "{pattern} {no}");
        }
        assert!(!Patterns::new([""]).matches(b""));
    }

    #[test]
    fn paths_from_the_root_or_at_any_depth() {
        let paths =
            Paths::new(["/user", "/a/b*", "*/wp-admin", "*/wp-json/wc*", "*sitemap.xml", "*/feed/", "*/x"]);
        for yes in [
            "/user",
            "/user/",
            "/user/1",
            "/a/b",
            "/a/bc",
            "/wp-admin/",
            "/blog/wp-admin/x.php",
            "/wp-json/wc/v3",
            "/en/wp-json/wcx",
            "/my-sitemap.xml",
            "/d/sitemap.xml",
            "/feed",
            "/b/feed/atom",
        ] {
            assert!(paths.find(yes.as_bytes()).is_some(), "{yes}");
        }
        for no in [
            "/",
            "/users",
            "/x2",
            "/y/user",
            "/a",
            "/wp-admins",
            "/about-wp-admin/",
            "/wp-json/w",
            "/sitemap.xmlx",
            "/feeds",
        ] {
            assert_eq!(paths.find(no.as_bytes()), None, "{no}");
        }
        assert_eq!(paths.find(b"/blog/wp-admin/"), Some("*/wp-admin"));
        assert_eq!(Paths::new(["/"]).find(b"/anything"), Some("/"));
        assert_eq!(Paths::default().find(b"/anything"), None);
    }

    #[test]
    fn harmless_cookies_never_bypass() {
        let rules = Rules::profile();
        for name in HARMLESS_COOKIES {
            let name = name.trim_end_matches('*').as_bytes();
            assert!(
                rules.harmless_cookies.matches(&[name, b"x"].concat())
                    || rules.harmless_cookies.matches(name)
            );
        }
        for name in ["_ga_GX12", "_hjSession_12", "_hjSessionUser_1", "__stripe_mid", "_pk_ses.1.ab"] {
            assert!(rules.harmless_cookies.matches(name.as_bytes()), "{name}");
        }
    }
}

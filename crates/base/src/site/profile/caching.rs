//! What an application's pages depend on; with a site's settings this gives the rules of the page cache.

use std::time::Duration;

use millrace_pages::Rules;
use millrace_pages::rules::{Bounds, Lifetimes, Paths, Patterns, ReadFields, UnknownCookies, VaryCookies};
use millrace_settings::plan::{self, CacheMode};

/// What an application's pages depend on. Patterns are as in the settings `cache.bypass_cookies`,
/// `cache.bypass_paths` and so on: `*` at an end of a name matches anything; a path includes everything below it, and
/// with `*` in front at any depth. [`Rules::profile`] contains what applies to all applications: arguments and
/// cookies of statistics, sessions of PHP.
#[derive(Debug)]
pub struct Caching {
    /// Cookies that make a page personal.
    pub bypass_cookies: &'static [&'static str],
    /// Arguments of the query that request something personal, or that trigger an action.
    pub bypass_arguments: &'static [&'static str],
    /// Paths whose pages are personal, or that trigger an action.
    pub bypass_paths: &'static [&'static str],
    /// Exceptions from these.
    pub open_paths: &'static [&'static str],
    /// Exceptions for requests that the application's own script in the browser sends ([`millrace_pages::own_script`]).
    pub script_paths: &'static [&'static str],
    /// Paths of feeds.
    pub feeds: &'static [&'static str],
    /// Paths of sitemaps.
    pub sitemaps: &'static [&'static str],
    /// Paths of the API that all visitors may read.
    pub apis: &'static [&'static str],
    /// Texts that indicate a token which is valid for only some hours.
    pub nonce_marks: &'static [&'static str],
    /// The application sends `Vary: Cookie` with every page, and only [`bypass_cookies`](Self::bypass_cookies) matter
    /// to it. If that is unknown, such a page varies by all cookies except harmless ones.
    pub vary_by_known_cookies: bool,
    /// The application is unknown: PHP gets unchanged requests.
    pub faithful: bool,
}

impl Caching {
    /// The rules for a site; `None`: nothing is cached, or it has no cacheable scripts.
    pub fn rules(&self, site: &plan::Site) -> Option<Rules> {
        let plan = &site.cache;
        let mut rules = match plan.mode {
            CacheMode::Off => return None,
            _ if site.php.is_none() => return None,
            CacheMode::Standard => Rules::standard(),
            CacheMode::Profile => self.profile(site),
        };
        apply(plan, &mut rules);
        Some(rules)
    }

    /// The rules for responses of a site's applications; `None`: none of them is cached.
    pub fn proxied(site: &plan::Site) -> Option<Rules> {
        let is_wanted = site.cache.mode != CacheMode::Off && site.proxies.iter().any(|proxy| proxy.cache);
        is_wanted.then(|| {
            let mut rules = Rules::standard();
            apply(&site.cache, &mut rules);
            rules
        })
    }

    /// The application's rules for responses that say nothing.
    fn profile(&self, site: &plan::Site) -> Rules {
        let plan = &site.cache;
        let mut rules = Rules::profile();
        rules.bypass_cookies.extend(self.bypass_cookies);
        rules.judged_cookies.extend(self.bypass_cookies);
        rules.unknown_cookies = match site.php.as_ref().is_none_or(|php| php.fastcgi.is_empty()) {
            true => UnknownCookies::Observed,
            // Nobody says what its scripts look for, but the profile knows what the application looks for.
            false if self.vary_by_known_cookies => UnknownCookies::Ignored,
            false => UnknownCookies::Bypass,
        };
        for rule in &site.rules {
            // Where the rule doesn't match, too: a script that makes a page without it must not see one client's cookie.
            rules.key_cookies.extend(&rule.effects.cache.key_cookies);
            rules.chosen_cookies.extend(&rule.effects.cache.key_cookies);
        }
        rules.bypass_arguments.extend(self.bypass_arguments);
        rules.bypass_paths = Paths::new(self.bypass_paths);
        rules.open_paths = Paths::new(self.open_paths);
        rules.script_paths = Paths::new(self.script_paths);
        rules.feed_paths = Paths::new(self.feeds);
        rules.sitemap_paths = Paths::new(self.sitemaps);
        rules.rest_paths = Paths::new(self.apis);
        rules.nonce_marks = self.nonce_marks.iter().map(|mark| Box::from(*mark)).collect();
        if self.vary_by_known_cookies {
            // A visitor with one of them bypasses the cache; one without them sees what all see.
            let mut telling = Patterns::new(self.bypass_cookies);
            telling.extend(&plan.bypass_cookies);
            telling.extend(&plan.key_cookies);
            rules.vary_cookies = VaryCookies::Only(telling);
        }
        rules.lifetimes = lifetimes(&plan.ttl);
        rules.faithful = self.faithful;
        rules.read_fields = read_fields(site.profile);
        rules.grace = Bounds {
            while_revalidating: milliseconds(plan.stale_while_revalidate),
            on_error: milliseconds(plan.stale_if_error),
            ..rules.grace
        };
        rules
    }
}

/// What is done about fields that scripts read. Applications that say themselves which pages are for all, and by which fields they vary,
/// know what they do; their own code looks at the user agent and the address of each client, to keep out some.
fn read_fields(profile: plan::Profile) -> ReadFields {
    use plan::Profile::*;
    match profile {
        WordPress | CodeIgniter | Laravel | Symfony | Generic => ReadFields::Observed,
        Drupal | Joomla | Nextcloud | MediaWiki | Matomo | PhpMyAdmin | Magento | PrestaShop | OpenCart
        | Moodle | Typo3 | DokuWiki | Roundcube | Craft => ReadFields::Unsaid,
    }
}

/// Adds what the settings say to the rules.
fn apply(plan: &plan::SiteCache, rules: &mut Rules) {
    for name in &plan.ignore_arguments {
        match name.strip_prefix(plan::NOT) {
            Some(name) => rules.dropped_arguments.except(name),
            None => rules.dropped_arguments.extend([name]),
        }
    }
    rules.bypass_arguments.extend(&plan.bypass_arguments);
    rules.bypass_cookies.extend(&plan.bypass_cookies);
    rules.bypass_paths.extend(&plan.bypass_paths);
    rules.chosen_paths.extend(&plan.bypass_paths);
    rules.key_cookies.extend(&plan.key_cookies);
    rules.chosen_cookies.extend(&plan.bypass_cookies);
    rules.chosen_cookies.extend(&plan.key_cookies);
    rules.key_device = plan.key_device;
    rules.schemes_share = !plan.key_scheme;
    rules.vary_fields.extend(&plan.vary_fields);
    rules.ignored_fields.extend(&plan.ignore_fields);
    rules.grace.most = milliseconds(plan.stale_max);
    rules.longest_life = milliseconds(plan.ttl.max);
    rules.largest_page = plan.page_bytes;
    rules.remember_refusal = milliseconds(plan.hit_for_miss);
}

fn lifetimes(ttl: &plan::Ttl) -> Lifetimes {
    Lifetimes {
        page: milliseconds(ttl.page),
        feed: milliseconds(ttl.feed),
        sitemap: milliseconds(ttl.sitemap),
        rest: milliseconds(ttl.api),
        other: milliseconds(ttl.other),
        redirect: milliseconds(ttl.redirect),
        not_found: milliseconds(ttl.not_found),
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::profile::Profile;

    /// Rules of a site of this profile, with these lines under `[cache]`.
    fn rules(profile: &str, set: &[&str]) -> Option<Rules> {
        let set = set.iter().map(|text| (*text).to_owned()).collect();
        let profile = Some(profile.to_owned());
        let source =
            millrace_settings::Source { site_dir: Some("/".into()), profile, set, ..Default::default() };
        let (plan, _) = millrace_settings::load(&source).unwrap_or_else(|problems| panic!("{problems}"));
        Profile::of(plan.sites[0].profile).caching.rules(&plan.sites[0])
    }

    #[test]
    fn paths_are_as_the_settings_say() {
        for (written, yes, no) in [
            ("/api", &["/api", "/api/", "/api/x"][..], &["/", "/apis", "/x/api"][..]),
            ("/api/", &["/api", "/api/x"], &["/apis"]),
            ("/", &["/", "/x"], &[]),
            ("/feed*", &["/feed", "/feeds", "/feed/x"], &["/x/feed"]),
            ("*/cart", &["/cart", "/cart/", "/de/cart/x"], &["/carts", "/x-cart"]),
            ("*/wp-json/wc*", &["/wp-json/wc/store", "/blog/wp-json/wc-admin"], &["/wp-json/wp/v2"]),
            (
                "*/user/login",
                &["/user/login", "/de/user/login", "/de/user/login/x"],
                &["/user/1", "/user/logins"],
            ),
            ("*.pdf", &["/a.pdf", "/b/a.pdf"], &["/a.pdf.html"]),
            ("*sitemap.xml", &["/sitemap.xml", "/blog/post-sitemap.xml"], &["/sitemap.xml.gz"]),
        ] {
            let paths = Paths::new([written]);
            yes.iter().for_each(|path| assert!(paths.find(path.as_bytes()).is_some(), "{written} {path}"));
            no.iter().for_each(|path| assert!(paths.find(path.as_bytes()).is_none(), "{written} {path}"));
        }
    }

    #[test]
    fn wordpress() {
        let rules = rules("wordpress", &[]).unwrap();
        for cookie in [
            "wordpress_logged_in_5f",
            "wordpress_sec_5f",
            "wp-postpass_1",
            "comment_author_1",
            "woocommerce_recently_viewed",
            "PHPSESSID",
        ] {
            assert!(rules.bypass_cookies.matches(cookie.as_bytes()), "{cookie}");
        }
        for cookie in ["wordpress_test_cookie", "_ga", "_ga_1", "_fbp", "cmplz_banner-status"] {
            assert!(!rules.bypass_cookies.matches(cookie.as_bytes()), "{cookie}");
        }
        for path in [
            "/wp-admin/post.php",
            "/blog/wp-admin/",
            "/wp-login.php",
            "/xmlrpc.php",
            "/wp-cron.php",
            "/cart/",
            "/shop/checkout/order-received/7/",
            "/my-account/",
            "/wp-json/wc/store/v1/cart",
        ] {
            assert!(rules.bypass_paths.find(path.as_bytes()).is_some(), "{path}");
        }
        for path in ["/", "/2026/01/a-post/", "/shop/", "/wp-json/wp/v2/posts", "/about-wp-admin/"] {
            assert!(rules.bypass_paths.find(path.as_bytes()).is_none(), "{path}");
        }
        // WooCommerce's Store API: products for all, the cart for its own script.
        let bypasses = |path: &str, own| rules.bypass_path(path.as_bytes(), || own).is_some();
        for path in [
            "/wp-json/wc/store/v1/products",
            "/wp-json/wc/store/products/7",
            "/de/wp-json/wc/store/v1/products/categories",
        ] {
            assert!(!bypasses(path, false), "{path}");
        }
        for path in [
            "/wp-json/wc/v3/products",
            "/wp-json/wc/store/v1/checkout",
            "/wp-json/wc/store/v1/batch",
            "/wp-json/wc-admin/x",
        ] {
            assert!(bypasses(path, true), "{path}");
        }
        assert!(bypasses("/wp-json/wc/store/v1/cart", false) && !bypasses("/wp-json/wc/store/v1/cart", true));
        for argument in [
            "preview",
            "customize_changeset_uuid",
            "add-to-cart",
            "remove_coupon",
            "wc-ajax",
            "unapproved",
            "_method",
        ] {
            assert!(rules.bypass_arguments.matches(argument.as_bytes()), "{argument}");
        }
        for argument in ["utm_source", "fbclid", "gclid", "msclkid", "_ga", "gad_source", "igsh"] {
            assert!(rules.dropped_arguments.matches(argument.as_bytes()), "{argument}");
        }
        for argument in ["p", "s", "paged", "add-to-cart", "lang"] {
            assert!(!rules.dropped_arguments.matches(argument.as_bytes()), "{argument}");
        }
        assert!(rules.feed_paths.find(b"/category/news/feed/").is_some());
        for path in
            ["/wp-sitemap.xml", "/wp-sitemap-posts-post-1.xml", "/sitemap_index.xml", "/post-sitemap.xml"]
        {
            assert!(rules.sitemap_paths.find(path.as_bytes()).is_some(), "{path}");
        }
        assert!(rules.rest_paths.find(b"/wp-json/wp/v2/posts").is_some());
        assert_eq!((rules.lifetimes.page, rules.lifetimes.feed, rules.lifetimes.other), (10_000, 60_000, 0));
        assert!(!rules.nonce_marks.is_empty());
    }

    #[test]
    fn drupal_and_generic() {
        let drupal = rules("drupal", &[]).unwrap();
        for cookie in ["SESS0123", "SSESS0123"] {
            assert!(drupal.bypass_cookies.matches(cookie.as_bytes()), "{cookie}");
        }
        for path in ["/user", "/user/login", "/de/user/login", "/admin/content", "/update.php"] {
            assert!(drupal.bypass_paths.find(path.as_bytes()).is_some(), "{path}");
        }
        assert!(drupal.bypass_paths.find(b"/node/1").is_none());
        assert!(matches!(drupal.vary_cookies, VaryCookies::Only(_)));
        assert_eq!(drupal.lifetimes, Lifetimes::default());
        let generic = rules("generic", &[]).unwrap();
        assert!(matches!(generic.vary_cookies, VaryCookies::AllButHarmless));
        assert!(generic.bypass_cookies.matches(b"PHPSESSID"));
    }

    #[test]
    fn settings_are_laid_over_it() {
        let rules = rules(
            "wordpress",
            &[
                "cache.ttl.page=1m",
                "cache.ttl.max=1h",
                "cache.page_bytes=1MB",
                "cache.hit_for_miss=5s",
                "cache.stale_while_revalidate=2s",
                "cache.stale_if_error=3s",
                "cache.stale_max=1d",
                "cache.ignore_arguments=ref,!gclid,!utm_id*,!*_cid",
                "cache.bypass_arguments=token",
                "cache.bypass_cookies=member_*",
                "cache.bypass_paths=/api",
                "cache.key_cookies=currency",
                "cache.vary_fields=X-Country",
                "cache.key_scheme=false",
                "cache.key_device=true",
            ],
        )
        .unwrap();
        assert_eq!(
            (rules.lifetimes.page, rules.longest_life, rules.largest_page),
            (60_000, 3_600_000, 1 << 20)
        );
        assert_eq!(rules.remember_refusal, 5000);
        let grace = Bounds { while_revalidating: 2000, on_error: 3000, most: 86_400_000 };
        assert_eq!(rules.grace, grace);
        assert!(rules.dropped_arguments.matches(b"ref") && rules.dropped_arguments.matches(b"utm_x"));
        for argument in ["gclid", "utm_id", "utm_idea", "mc_cid", "pk_cid"] {
            assert!(!rules.dropped_arguments.matches(argument.as_bytes()), "{argument}");
        }
        assert!(rules.bypass_arguments.matches(b"token") && rules.bypass_arguments.matches(b"preview"));
        assert!(rules.bypass_cookies.matches(b"member_1") && rules.bypass_cookies.matches(b"wp-postpass_1"));
        assert!(
            rules.bypass_paths.find(b"/api/x").is_some() && rules.bypass_paths.find(b"/wp-admin").is_some()
        );
        assert!(rules.key_cookies.matches(b"currency") && rules.vary_fields.matches(b"x-country"));
        assert!(rules.schemes_share && rules.key_device);
    }

    #[test]
    fn cookies_that_pages_vary_by() {
        let set = &["cache.bypass_cookies=member_*", "cache.key_cookies=currency"];
        let drupal = rules("drupal", set).unwrap();
        let VaryCookies::Only(telling) = &drupal.vary_cookies else { panic!() };
        assert!(telling.matches(b"currency") && telling.matches(b"member_1") && !telling.matches(b"_ga"));
        for profile in ["wordpress", "generic"] {
            let rules = rules(profile, set).unwrap();
            assert!(matches!(rules.vary_cookies, VaryCookies::AllButHarmless), "{profile}");
            assert!(rules.key_cookies.matches(b"_lscache_vary") && rules.key_cookies.matches(b"currency"));
        }
    }

    #[test]
    fn a_site_may_name_a_cookie_that_is_harmless_elsewhere() {
        let rules =
            rules("wordpress", &["cache.bypass_cookies=_vwo_uuid", "cache.key_cookies=CookieConsent"]);
        let rules = rules.unwrap();
        for (name, harmless) in
            [(&b"_ga"[..], true), (b"_vwo_uuid", false), (b"_vwo_ds", true), (b"CookieConsent", false)]
        {
            assert_eq!(rules.is_harmless(name), harmless, "{}", name.escape_ascii());
        }
        // The page that is stored for its value is made with it.
        let mut shown = Vec::new();
        millrace_pages::ask::write_fill_cookies(&rules, b"_ga=1; CookieConsent=yes; _gid=2", &mut shown);
        assert_eq!(shown, b"CookieConsent=yes");
    }

    #[test]
    fn other_modes() {
        assert!(rules("wordpress", &["cache.mode=off"]).is_none());
        assert!(rules("wordpress", &["php.enabled=false"]).is_none());
        let standard = rules("wordpress", &["cache.mode=standard", "cache.bypass_cookies=a"]).unwrap();
        assert!(
            !standard.bypass_cookies.matches(b"wordpress_logged_in_1")
                && standard.bypass_cookies.matches(b"a")
        );
        assert_eq!(standard.lifetimes, Lifetimes::default());
        assert_eq!((standard.grace.while_revalidating, standard.grace.on_error), (0, 0));
    }
}

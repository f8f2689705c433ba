//! The PHP pool and the rank of a request: rules from the configuration, then the application's; the first match
//! counts, and a request without a match is a visitor's.
//!
//! A cookie's name proves nothing. The application's rules send a request to the pool `admin` only if PHP has
//! found its visitor to be logged in ([`Request::standing`]), and so does a configured rule with a cookie of logins or
//! sessions. A configured rule by path, method, argument or any other cookie applies as it is. Priority comes only from proof.

use std::cell::RefCell;

use millrace_pages::rules::{Paths, Patterns};
use millrace_pages::visitors::Standing;
use millrace_settings::plan;
use millrace_wire::path;

use super::profile::{PoolRule, Profile};
use super::visitors::Visitors;
use crate::message::request::{Content, Request};

/// A longer form is not searched for arguments, bytes.
const FORM_BYTES: usize = 64 << 10;

thread_local! {
    /// The path being matched.
    static PATH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A pool, by its position among the pools of equal `[php]` settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolId(u8);

impl PoolId {
    /// The visitors' pool, which always exists.
    pub const FRONT: PoolId = PoolId(0);

    /// The pool at this position.
    pub const fn new(index: usize) -> PoolId {
        PoolId(if index > u8::MAX as usize { 0 } else { index as u8 })
    }

    /// Its bit in a set of pools.
    pub fn bit(self) -> u32 {
        1 << self.0
    }

    /// Its position.
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// The rank of a request. A higher rank is served first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A cookie claims that the site knows this visitor, but this is not verified yet.
    Unproven,
    /// A visitor like any other.
    #[default]
    Visitor,
    /// A step on the way to an order, by a visitor whom the site does not know yet.
    Buying,
    /// A visitor whom the application knows: logged in, or with a cart.
    Known,
}

/// The rules of a site.
#[derive(Debug, Default)]
pub struct PoolRules {
    rules: Vec<RequestRule>,
    /// The pool for requests without a waiting client.
    background: Option<PoolId>,
    /// Steps on the way to an order.
    buying: Vec<RequestRule>,
    /// Requests that look like such a step, but are not.
    reading: Vec<RequestRule>,
    /// Paths that all visitors may request, but that admit only logged-in ones.
    doors: Option<Paths>,
}

/// Matches requests for one pool. Each list that is not empty must match.
#[derive(Debug)]
struct RequestRule {
    pool_id: PoolId,
    methods: Vec<Box<str>>,
    paths: Option<Paths>,
    cookies: Patterns,
    arguments: Patterns,
    needs: Needs,
}

/// The standing that a rule requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// None.
    Nothing,
    /// Something about the visitor is proven.
    Proof,
    /// The visitor is logged in.
    LogIn,
}

impl Needs {
    /// If nothing can be proven, because PHP does not run in our own workers, names must be enough.
    fn are_met(self, standing: Standing) -> bool {
        match (self, standing) {
            (Needs::Nothing, _) | (_, Standing::Unasked) => true,
            (_, Standing::Known(proof)) if proof.is_login() => true,
            (Needs::Proof, standing) => matches!(standing, Standing::Known(_)),
            (Needs::LogIn, _) => false,
        }
    }
}

impl PoolRules {
    /// The rules for a site: its configured pools, and the application's for pools that exist.
    pub fn new(php: Option<&plan::Php>, profile: &Profile, visitors: &Visitors) -> PoolRules {
        let pools = php.map_or(&[][..], |php| &php.pools);
        let written =
            pools.iter().enumerate().flat_map(|(at, pool)| written(PoolId::new(at), pool, visitors));
        let known = profile.pools.iter().filter_map(|rule| {
            let at = pools.iter().position(|pool| pool.name == rule.pool)?;
            Some(RequestRule::of(PoolId::new(at), rule))
        });
        let mut rules: Vec<RequestRule> = written.chain(known).collect();
        if rules.iter().all(|rule| rule.pool_id == PoolId::FRONT) {
            rules.clear();
        }
        let named = |name| pools.iter().position(|pool| pool.name == name).map(PoolId::new);
        let doors = (!profile.doors.is_empty()).then(|| Paths::new(profile.doors));
        let known =
            |rules: &[PoolRule]| rules.iter().map(|rule| RequestRule::of(PoolId::FRONT, rule)).collect();
        let (buying, reading) = (known(profile.buying), known(profile.reading));
        PoolRules { rules, background: named(plan::PhpPool::BACKGROUND), buying, reading, doors }
    }

    /// The rank of a request of this pool, for when workers are short.
    pub fn rank(&self, request: &Request, pool_id: PoolId) -> Rank {
        match request.found.standing {
            Standing::Known(_) => Rank::Known,
            _ if self.is_buying(request) => Rank::Buying,
            Standing::Unproven => Rank::Unproven,
            Standing::Visitor | Standing::Anonymous if pool_id == PoolId::FRONT && self.is_door(request) => {
                Rank::Unproven
            }
            _ => Rank::Visitor,
        }
    }

    /// Whether it is a step on the way to an order.
    fn is_buying(&self, request: &Request) -> bool {
        !self.buying.is_empty()
            && with_path(request, |path| {
                let any = |rules: &[RequestRule]| rules.iter().any(|rule| rule.fits(request, path));
                any(&self.buying) && !any(&self.reading)
            })
    }

    /// Whether the request is for a path of the site's staff: a login, or pages only for them.
    fn is_door(&self, request: &Request) -> bool {
        let Some(doors) = &self.doors else { return false };
        // In WordPress, these two are for all visitors.
        let is_open = |path: &[u8]| path.ends_with(b"/admin-ajax.php") || path.ends_with(b"/admin-post.php");
        with_path(request, |path| doors.find(path).is_some() && !is_open(path))
    }

    /// Whether a request of this pool runs even if its client has gone before a worker had it. WordPress starts its
    /// cron and its queues by a request to itself that it abandons a moment later, and expects to run.
    pub fn outlives_its_client(&self, pool_id: PoolId) -> bool {
        self.background == Some(pool_id)
    }

    /// The pool for a request, whose content has been read.
    pub fn of(&self, request: &Request) -> PoolId {
        if let Some(background) = self.background.filter(|_| request.found.runs_aside) {
            return background;
        }
        if self.rules.is_empty() {
            return PoolId::FRONT;
        }
        with_path(request, |path| {
            let rule = self.rules.iter().find(|rule| rule.fits(request, path));
            rule.map_or(PoolId::FRONT, |rule| rule.pool_id)
        })
    }
}

/// Calls `look` with the request's normalised path.
fn with_path<T>(request: &Request, look: impl FnOnce(&[u8]) -> T) -> T {
    PATH.with_borrow_mut(|path| {
        path.clear();
        // A request that has come this far has a valid path.
        let _ = path::normalise(request.raw_path(), path);
        look(path)
    })
}

/// The configured rules of a pool: any one of paths, cookies and arguments is enough.
fn written(pool_id: PoolId, pool: &plan::PhpPool, visitors: &Visitors) -> Vec<RequestRule> {
    let methods = || pool.methods.iter().map(|method| method.as_str().into()).collect();
    let nothing = || RequestRule {
        pool_id,
        methods: methods(),
        paths: None,
        cookies: Patterns::default(),
        arguments: Patterns::default(),
        needs: Needs::Nothing,
    };
    let mut rules = Vec::new();
    if !pool.paths.is_empty() {
        rules.push(RequestRule { paths: Some(Paths::new(&pool.paths)), ..nothing() });
    }
    let (to_prove, others): (Vec<_>, Vec<_>) =
        pool.cookies.iter().partition(|name| visitors.is_concerned(example_of(name).as_bytes()));
    for (cookies, needs) in [(to_prove, Needs::Proof), (others, Needs::Nothing)] {
        if !cookies.is_empty() {
            rules.push(RequestRule { cookies: Patterns::new(cookies), needs, ..nothing() });
        }
    }
    if !pool.arguments.is_empty() {
        rules.push(RequestRule { arguments: Patterns::new(&pool.arguments), ..nothing() });
    }
    if rules.is_empty() && !pool.methods.is_empty() {
        rules.push(nothing());
    }
    rules
}

/// A name that a pattern matches.
fn example_of(pattern: &str) -> String {
    pattern.replace('*', "0")
}

impl RequestRule {
    fn of(pool_id: PoolId, rule: &PoolRule) -> RequestRule {
        RequestRule {
            pool_id,
            methods: rule.methods.iter().map(|method| (*method).into()).collect(),
            paths: (!rule.paths.is_empty()).then(|| Paths::new(rule.paths)),
            cookies: Patterns::new(rule.cookies),
            arguments: Patterns::new(rule.arguments),
            needs: match (rule.pool == plan::PhpPool::ADMIN, rule.by_session) {
                (false, _) => Needs::Nothing,
                (true, false) => Needs::LogIn,
                (true, true) => Needs::Proof,
            },
        }
    }

    fn fits(&self, request: &Request, path: &[u8]) -> bool {
        let method = request.head.method();
        (self.methods.is_empty() || self.methods.iter().any(|one| **one == *method))
            && self.paths.as_ref().is_none_or(|paths| paths.find(path).is_some())
            && (self.cookies.is_empty() || has_cookie(&self.cookies, request))
            && (self.arguments.is_empty() || has_argument(&self.arguments, request))
            && self.needs.are_met(request.found.standing)
    }
}

fn has_cookie(patterns: &Patterns, request: &Request) -> bool {
    let lines = request.head.fields().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    lines.flat_map(|(_, line)| line.split(|byte| *byte == b';')).any(|cookie| {
        let end = memchr::memchr(b'=', cookie).unwrap_or(cookie.len());
        patterns.matches(cookie[..end].trim_ascii())
    })
}

/// Whether an argument of the query or of a form matches. WordPress's heartbeat identifies itself in a form.
fn has_argument(patterns: &Patterns, request: &Request) -> bool {
    let any = |text: &[u8]| text.split(|byte| *byte == b'&').any(|argument| is_meant(patterns, argument));
    if request.query().is_some_and(any) {
        return true;
    }
    let Content::Memory(content) = &request.content else { return false };
    let kind = request.head.field("content-type").unwrap_or_default();
    let is_form =
        kind.get(..33).is_some_and(|kind| kind.eq_ignore_ascii_case(b"application/x-www-form-urlencoded"));
    is_form && content.len() <= FORM_BYTES && any(content)
}

/// By its name, or by name and value.
fn is_meant(patterns: &Patterns, argument: &[u8]) -> bool {
    let end = argument.iter().position(|byte| matches!(byte, b'=' | b'[' | b'%')).unwrap_or(argument.len());
    patterns.matches(&argument[..end]) || patterns.matches(argument)
}

#[cfg(test)]
mod tests {
    use millrace_pages::visitors::Proof;
    use millrace_wire::head::{Head, Limits};

    use super::*;
    use crate::message::request::{Ends, Scheme};

    fn request_of(request: &str, fields: &str, content: &str) -> Request {
        let text = format!("{request} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut head = Head::default();
        let limits = Limits { bytes: 16384, fields: 100, target: 8192 };
        head.parse(text.as_bytes(), &limits).unwrap().unwrap();
        let ends = Ends { client: None, local: None, scheme: Scheme::Http, tls: None };
        let content = if content.is_empty() { Content::Empty } else { Content::Memory(content.into()) };
        let mut request = Request::direct(head, ends);
        (request.content, request.content_is_read) = (content, true);
        request
    }

    /// A site with this profile and these settings: the name of the pool in which a request runs.
    struct Site(plan::Php, PoolRules);

    impl Site {
        fn new(profile: &str, change: impl FnOnce(&mut Vec<plan::PhpPool>)) -> Site {
            let source = millrace_settings::Source {
                site_dir: Some("/".into()),
                profile: Some(profile.into()),
                ..Default::default()
            };
            let (plan, _) = millrace_settings::load(&source).unwrap_or_else(|problems| panic!("{problems}"));
            let mut php = plan.sites[0].php.clone().unwrap();
            change(&mut php.pools);
            let profile = Profile::of(plan.sites[0].profile);
            let visitors = Visitors::new(profile.caching.bypass_cookies, &plan.sites[0].cache);
            let pools = PoolRules::new(Some(&php), profile, &visitors);
            Site(php, pools)
        }

        /// If nothing can be proven: with php-fpm.
        fn pool(&self, request: &str, fields: &str, content: &str) -> &str {
            self.pool_and_rank(request, fields, content, Standing::Unasked).0
        }

        fn pool_and_rank(
            &self,
            request: &str,
            fields: &str,
            content: &str,
            standing: Standing,
        ) -> (&str, Rank) {
            let mut request = request_of(request, fields, content);
            request.found.standing = standing;
            let pool_id = self.1.of(&request);
            (&self.0.pools[pool_id.index()].name, self.1.rank(&request, pool_id))
        }
    }

    const FORM: &str = "Content-Type: application/x-www-form-urlencoded; charset=UTF-8\r\n";
    const MEMBER: &str = "Cookie: a=1; wordpress_logged_in_5f=x\r\n";

    #[test]
    fn wordpress() {
        let site = Site::new("wordpress", |_| ());
        for (request, fields, content, pool) in [
            ("GET /", "", "", "front"),
            ("GET /", "Cookie: wordpress_test_cookie=1; woocommerce_cart_hash=1\r\n", "", "front"),
            ("GET /", MEMBER, "", "admin"),
            ("GET /checkout/", "", "", "front"),
            ("POST /?wc-ajax=checkout", "", "", "front"),
            ("GET /wp-admin/", "", "", "admin"),
            ("GET /blog/wp-admin/post.php?post=1", "", "", "admin"),
            ("POST /wp-login.php", "", "", "admin"),
            ("GET /about-wp-admin/", "", "", "front"),
            ("POST /wp-admin/admin-ajax.php", FORM, "action=search", "front"),
            ("GET /wp-admin/admin-ajax.php?action=search", MEMBER, "", "admin"),
            ("POST /wp-admin/admin-ajax.php", MEMBER, "action=save", "admin"),
            ("GET /wp-json/wp/v2/posts", "", "", "front"),
            ("POST /wp-json/wp/v2/posts/1", "", "", "admin"),
            ("DELETE /?rest_route=/wp/v2/posts/1", "", "", "admin"),
            ("POST /wp-json/wc/store/v1/cart/add-item", "", "", "front"),
            ("POST /wp-cron.php?doing_wp_cron=1", "", "", "background"),
            ("GET /?doing_wp_cron=1", "", "", "front"),
            ("POST /xmlrpc.php", "", "", "background"),
            ("POST /wc-api/wc_gateway_paypal/", "", "", "background"),
            ("POST /?wc-api=wc_gateway_paypal", "", "", "background"),
        ] {
            assert_eq!(site.pool(request, fields, content), pool, "{request} {fields}{content}");
        }
    }

    #[test]
    fn the_heartbeat_is_known_by_its_form() {
        let site = Site::new("wordpress", |_| ());
        let fields = format!("{FORM}{MEMBER}");
        let beat = "data%5Bwp-refresh%5D=1&interval=60&_nonce=0a&action=heartbeat&screen_id=post";
        let ajax = "POST /wp-admin/admin-ajax.php";
        assert_eq!(site.pool(ajax, &fields, beat), "background");
        assert_eq!(site.pool("GET /wp-admin/admin-ajax.php?action=heartbeat", MEMBER, ""), "background");
        assert_eq!(site.pool(ajax, &fields, "action=heartbeats&xaction=heartbeat"), "admin");
        assert_eq!(site.pool(ajax, MEMBER, beat), "admin", "no form");
        assert_eq!(site.pool("POST /a", FORM, beat), "front");
    }

    const LOGGED_IN: Standing = Standing::Known(Proof::LoggedIn);
    const CART: Standing = Standing::Known(Proof::Cart);
    const SESSION: Standing = Standing::Known(Proof::Session);

    #[test]
    fn only_who_is_logged_in_runs_in_admin() {
        let site = Site::new("wordpress", |_| ());
        for (request, fields, standing, pool, rank) in [
            ("GET /", "", Standing::Visitor, "front", Rank::Visitor),
            ("GET /", MEMBER, LOGGED_IN, "admin", Rank::Known),
            ("GET /", MEMBER, Standing::Unproven, "front", Rank::Unproven),
            ("GET /?x=1", MEMBER, Standing::Anonymous, "front", Rank::Visitor),
            ("GET /?x=1", MEMBER, Standing::Visitor, "front", Rank::Visitor),
            // A visitor with a cart is known, but no added cookie makes the visitor one of the site's staff.
            ("GET /cart/", MEMBER, CART, "front", Rank::Known),
            ("GET /wp-admin/", MEMBER, CART, "front", Rank::Known),
            ("GET /wp-admin/", MEMBER, SESSION, "front", Rank::Known),
            ("GET /wp-admin/", MEMBER, LOGGED_IN, "admin", Rank::Known),
            ("GET /wp-admin/", "", Standing::Visitor, "front", Rank::Unproven),
            ("GET /wp-admin/", MEMBER, Standing::Anonymous, "front", Rank::Unproven),
            ("GET /blog/wp-admin/edit.php", MEMBER, Standing::Unproven, "front", Rank::Unproven),
            ("POST /wp-login.php", "", Standing::Visitor, "front", Rank::Unproven),
            ("GET /wp-login.php?action=logout", MEMBER, LOGGED_IN, "admin", Rank::Known),
            ("POST /wp-admin/admin-ajax.php", "", Standing::Visitor, "front", Rank::Visitor),
            ("POST /wp-admin/admin-post.php", "", Standing::Visitor, "front", Rank::Visitor),
            ("POST /wp-json/wp/v2/posts/1", "", Standing::Visitor, "front", Rank::Visitor),
            ("POST /wp-json/wp/v2/posts/1", "", LOGGED_IN, "admin", Rank::Known),
            ("POST /wp-cron.php?doing_wp_cron=1", "", Standing::Visitor, "background", Rank::Visitor),
        ] {
            let seen = site.pool_and_rank(request, fields, "", standing);
            assert_eq!(seen, (pool, rank), "{request} {fields} {standing:?}");
        }
        let drupal = Site::new("drupal", |_| ());
        let session = "Cookie: SSESS0a=1\r\n";
        for (request, standing, pool, rank) in [
            ("GET /node/1", SESSION, "admin", Rank::Known),
            ("GET /node/1", Standing::Unproven, "front", Rank::Unproven),
            ("GET /node/1", Standing::Anonymous, "front", Rank::Visitor),
            ("GET /admin/content", Standing::Anonymous, "front", Rank::Unproven),
            ("POST /de/user/login", Standing::Visitor, "front", Rank::Unproven),
        ] {
            let seen = drupal.pool_and_rank(request, session, "", standing);
            assert_eq!(seen, (pool, rank), "{request} {standing:?}");
        }
    }

    #[test]
    fn written_rules_by_a_log_in_need_its_proof() {
        let site = Site::new("wordpress", |pools| {
            let mut own = pools[0].clone();
            own.name = "own".into();
            own.cookies = vec!["wordpress_logged_in_*".into(), "beta".into()];
            own.paths = vec!["/wp-admin/report.php".into()];
            pools.push(own);
        });
        let beta = "Cookie: beta=1\r\n";
        for (request, fields, standing, pool) in [
            ("GET /", MEMBER, LOGGED_IN, "own"),
            ("GET /", MEMBER, Standing::Unproven, "front"),
            ("GET /", MEMBER, Standing::Anonymous, "front"),
            ("GET /", beta, Standing::Visitor, "own"),
            ("GET /wp-admin/report.php", "", Standing::Visitor, "own"),
        ] {
            let seen = site.pool_and_rank(request, fields, "", standing).0;
            assert_eq!(seen, pool, "{request} {fields} {standing:?}");
        }
    }

    #[test]
    fn drupal_and_generic() {
        let drupal = Site::new("drupal", |_| ());
        for (request, fields, pool) in [
            ("GET /node/1", "", "front"),
            ("GET /node/1", "Cookie: SSESS0a=1\r\n", "admin"),
            ("GET /admin/content", "", "admin"),
            ("POST /de/user/login", "", "admin"),
            ("GET /cron/abc", "", "background"),
            ("GET /jsonapi/node/article", "", "front"),
            ("PATCH /jsonapi/node/article/1", "", "admin"),
        ] {
            assert_eq!(drupal.pool(request, fields, ""), pool, "{request} {fields}");
        }
        let generic = Site::new("generic", |_| ());
        assert!(generic.1.rules.is_empty());
        assert_eq!(generic.pool("POST /wp-login.php", MEMBER, ""), "front");
    }

    #[test]
    fn what_is_written_comes_first() {
        let site = Site::new("wordpress", |pools| {
            let mut api = pools[0].clone();
            api.name = "api".into();
            api.methods = vec!["POST".into()];
            (api.paths, api.cookies) = (vec!["/api".into()], vec!["key*".into()]);
            pools.push(api);
            pools[0].arguments = vec!["mine".into()];
        });
        assert_eq!(site.pool("POST /api/a", "", ""), "api");
        assert_eq!(site.pool("POST /", "Cookie: key1=2\r\n", ""), "api");
        assert_eq!(site.pool("GET /api/a", "", ""), "front");
        assert_eq!(site.pool("GET /wp-admin/?mine=1", MEMBER, ""), "front");
        let only = Site::new("generic", |pools| {
            pools.push(plan::PhpPool {
                name: "writes".into(),
                methods: vec!["PUT".into()],
                ..pools[0].clone()
            });
        });
        assert_eq!((only.pool("PUT /", "", ""), only.pool("GET /", "", "")), ("writes", "front"));
    }

    #[test]
    fn steps_on_the_way_to_an_order() {
        let rank = |profile: &str, request: &str, fields: &str, content: &str| {
            let site = Site::new(profile, |_| ());
            let request = request_of(request, fields, content);
            site.1.rank(&request, site.1.of(&request))
        };
        let form = "Content-Type: application/x-www-form-urlencoded\r\n";
        for (request, fields, content) in [
            ("GET /shop/?add-to-cart=7", "", ""),
            ("POST /product/a-shirt/", form, "quantity=1&add-to-cart=7"),
            ("POST /product/a-shirt/", "Content-Type: multipart/form-data; boundary=x\r\n", "--x"),
            ("POST /?wc-ajax=add_to_cart", form, "product_id=7"),
            ("POST /?wc-ajax=checkout", form, ""),
            ("GET /cart/", "", ""),
            ("GET /checkout/", "", ""),
            ("GET /blog/checkout/order-pay/7/", "", ""),
            ("POST /wp-json/wc/store/v1/cart/add-item", "", "{}"),
            ("POST /wp-json/wc/store/v1/checkout", "", "{}"),
            ("POST /wp-json/wc/store/v1/batch", "", "{}"),
            ("POST /?edd_action=add_to_cart", "", ""),
        ] {
            assert_eq!(rank("wordpress", request, fields, content), Rank::Buying, "{request} {content}");
            assert_eq!(rank("generic", request, fields, content), Rank::Visitor, "{request} {content}");
        }
        for request in
            ["GET /", "GET /product/a-shirt/", "GET /?s=add-to-cart", "GET /wp-json/wc/store/v1/products"]
        {
            assert_eq!(rank("wordpress", request, "", ""), Rank::Visitor, "{request}");
        }
        // On every page of the catalogue, also for readers without a cart.
        for request in
            ["GET /wp-json/wc/store/v1/cart?_locale=user", "POST /?wc-ajax=get_refreshed_fragments"]
        {
            assert_eq!(rank("wordpress", request, form, "time=1"), Rank::Visitor, "{request}");
        }
    }
}

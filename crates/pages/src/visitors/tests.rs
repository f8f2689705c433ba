use super::*;

pub(super) const LIMITS: Limits =
    Limits { most: 4, proven: 3_600_000, anonymous: 60_000, cart: 300_000, member: 300_000 };
const WORDPRESS: &[&str] =
    &["wordpress_logged_in_*", "comment_author_*", "woocommerce_items_in_cart", "wp_woocommerce_session_*"];

/// A site: its table and its patterns.
pub(super) struct Site {
    pub(super) table: Visitors,
    concern: ConcernedCookies,
    pub(super) key: PrintKey,
}

impl Site {
    pub(super) fn new() -> Site {
        Site {
            table: Visitors::new(LIMITS),
            concern: ConcernedCookies::new(WORDPRESS, &["member".to_owned()]),
            key: PrintKey::default(),
        }
    }

    pub(super) fn cookies(&self, text: &str) -> Cookies {
        self.concern.read([("Cookie", text.as_bytes())].into_iter(), &self.key)
    }

    fn look(&mut self, cookies: &str) -> Standing {
        self.look_at(cookies, 0)
    }

    fn look_at(&mut self, cookies: &str, now: Millis) -> Standing {
        let cookies = self.cookies(cookies);
        self.table.look(&cookies, now)
    }

    pub(super) fn begin(&mut self, cookies: &str, is_write: bool) -> Run {
        let cookies = self.cookies(cookies);
        self.table.begin(&cookies, is_write, 0)
    }

    pub(super) fn end(&mut self, cookies: &str, mut run: Run, notes: &[&str]) {
        let cookies = self.cookies(cookies);
        let mut report = Report::default();
        let mut heard = ReportNote::More;
        for note in notes {
            heard = report.hear(note.as_bytes());
            if let ReportNote::Forget(user) = heard {
                self.table.forget(self.key.tag(user), &mut run);
            }
        }
        let report = Some(&report).filter(|_| heard == ReportNote::End);
        self.table.end(&cookies, &run, report, &self.key);
    }

    /// A GET, or a request that changes something if `is_write`, from its start to its end.
    pub(super) fn run(&mut self, cookies: &str, is_write: bool, notes: &[&str]) {
        let run = self.begin(cookies, is_write);
        self.end(cookies, run, notes);
    }
}

pub(super) const MEMBER: &str = "_ga=1; wordpress_logged_in_5f=anna";
const IS_ANNA: &[&str] = &["login by=wordpress_logged_in_5f user=7 site=5f:k1 profile", "end"];
const IS_NONE: &[&str] = &["none site=5f:k1 profile", "end"];
const FORGED: &str = "wordpress_logged_in_x=1; woocommerce_items_in_cart=1";
const SHOPPER: &str = "wp_woocommerce_session_5f=t1";
const HAS_CART: &[&str] = &["cart by=wp_woocommerce_session_5f site=5f:k1 profile", "end"];

#[test]
fn a_name_proves_nothing() {
    let mut site = Site::new();
    assert_eq!(site.look("_ga=1; theme=dark"), Standing::Visitor);
    assert_eq!((site.look(MEMBER), site.look(FORGED)), (Standing::Unproven, Standing::Unproven));
    site.run(MEMBER, false, IS_ANNA);
    site.run(FORGED, false, IS_NONE);
    assert_eq!(site.look(MEMBER), Standing::Known(Proof::LoggedIn));
    assert_eq!(site.look(FORGED), Standing::Anonymous);
    assert_eq!(site.look("wordpress_logged_in_5f=ann"), Standing::Unproven);
    assert_eq!(site.look("wordpress_logged_in_5f=annaa"), Standing::Unproven);
    assert_eq!(site.look("wordpress_logged_in_5=fanna"), Standing::Unproven);
    // PHP derives the same name from it, and sees the same value.
    assert_eq!(site.look("wordpress.logged.in_5f=anna"), Standing::Known(Proof::LoggedIn));
}

#[test]
fn each_cookie_counts_for_itself() {
    let mut site = Site::new();
    site.run(SHOPPER, true, HAS_CART);
    let next = "woocommerce_items_in_cart=1; wp_woocommerce_session_5f=t1; woocommerce_cart_hash=9";
    assert_eq!(site.look(next), Standing::Known(Proof::Cart), "the other cookies change with each step");
    // A cart is not a login, whatever else is sent with it.
    let mixed = "wordpress_logged_in_5f=x; wp_woocommerce_session_5f=t1";
    assert_eq!(site.look(mixed), Standing::Known(Proof::Cart));
    site.run(FORGED, false, IS_NONE);
    assert_eq!(site.look(&format!("{FORGED}; wordpress_logged_in_y=2")), Standing::Unproven);
}

#[test]
fn of_cookies_with_the_same_name_none_proves_anything() {
    let mut site = Site::new();
    site.run(MEMBER, false, IS_ANNA);
    let tossed = "wordpress_logged_in_5f=forged; wordpress_logged_in_5f=anna";
    assert_eq!(site.look(tossed), Standing::Unproven);
    site.run(tossed, false, IS_NONE);
    assert_eq!(site.look(MEMBER), Standing::Known(Proof::LoggedIn), "PHP did not look at the second one");
    for odd in
        ["wordpress_logged_in_5f[]=anna", "wordpress%5Flogged_in_5f=anna", "wordpress+logged_in_5f=anna"]
    {
        assert_eq!(site.look(odd), Standing::Unproven, "{odd}");
        site.run(odd, false, IS_NONE);
        assert_eq!(site.look(MEMBER), Standing::Known(Proof::LoggedIn), "{odd}");
    }
    let many: String = (0..40).map(|n| format!("wordpress_logged_in_{n}=1; ")).collect();
    site.run(&many, false, IS_NONE);
    assert_eq!(site.look(&many), Standing::Unproven);
}

#[test]
fn only_what_was_looked_at_is_anonymous() {
    let mut site = Site::new();
    for (cookies, standing) in [
        ("wordpress_logged_in_x=1", Standing::Anonymous),
        ("laravel_session=1", Standing::Visitor),
        ("wordpress_logged_in_x=1; my_session=1", Standing::Visitor),
        ("PHPSESSID=1", Standing::Visitor),
        // The site's settings name it.
        ("member=1", Standing::Visitor),
    ] {
        site.run(cookies, false, IS_NONE);
        assert_eq!(site.look(cookies), standing, "{cookies}");
    }
    site.run("comment_author_5f=b", false, &["none profile except=comment_author_5f", "end"]);
    assert_eq!(site.look("comment_author_5f=b"), Standing::Visitor);
    site.run("any_session=1", false, &["none", "end"]);
    assert_eq!(site.look("any_session=1"), Standing::Anonymous, "the application's own word for all of them");
    site.run("other_session=1", false, &["end"]);
    assert_eq!(site.look("other_session=1"), Standing::Visitor, "a script that says nothing");
}

#[test]
fn sessions_of_php() {
    let mut site = Site::new();
    for (state, standing) in [
        ("filled", Standing::Known(Proof::Session)),
        ("empty", Standing::Anonymous),
        ("absent", Standing::Anonymous),
        ("unsure", Standing::Visitor),
    ] {
        let cookie = format!("PHPSESSID={state}");
        site.run(&cookie, false, &[&format!("end session=PHPSESSID:{state}")]);
        assert_eq!(site.look(&cookie), standing, "{state}");
    }
    site.run("PHPSESSID=filled", true, &["end session=PHPSESSID:gone"]);
    assert_eq!(site.look("PHPSESSID=filled"), Standing::Unproven, "it was destroyed");
    // It says nothing about another name.
    site.run("my_session=1", false, &["end session=PHPSESSID:empty"]);
    assert_eq!(site.look("my_session=1"), Standing::Visitor);
}

#[test]
fn sessions_that_are_kept_elsewhere_are_not_absent() {
    let mut site = Site::new();
    site.run("PHPSESSID=a", false, &["end session=PHPSESSID:absent"]);
    assert_eq!(site.look("PHPSESSID=a"), Standing::Anonymous);
    site.run("PHPSESSID=b", false, &["end session=PHPSESSID:filled elsewhere"]);
    assert_ne!(site.look("PHPSESSID=a"), Standing::Anonymous);
    site.run("PHPSESSID=a", false, &["end session=PHPSESSID:absent"]);
    assert_eq!(site.look("PHPSESSID=a"), Standing::Visitor);
    // Who is logged in may be in the handler's row, or something may be stored by the session's name.
    site.run("PHPSESSID=a", false, &["end session=PHPSESSID:empty"]);
    assert_eq!(site.look("PHPSESSID=a"), Standing::Visitor);
}

#[test]
fn after_an_add_to_cart_no_page_of_the_cache() {
    let mut site = Site::new();
    site.run(SHOPPER, false, IS_NONE);
    assert_eq!(site.look(SHOPPER), Standing::Anonymous);
    let add = site.begin(SHOPPER, true);
    assert_eq!(site.look(SHOPPER), Standing::Visitor, "while it runs");
    // A quick page from before the cart was filled.
    site.run(SHOPPER, false, IS_NONE);
    assert_eq!(site.look(SHOPPER), Standing::Visitor);
    site.end(SHOPPER, add, HAS_CART);
    assert_eq!(site.look(SHOPPER), Standing::Known(Proof::Cart));
}

#[test]
fn an_older_run_that_ends_later_does_not_count() {
    let mut site = Site::new();
    site.run(SHOPPER, false, IS_NONE);
    let slow = site.begin(SHOPPER, false);
    site.run(SHOPPER, true, HAS_CART);
    site.end(SHOPPER, slow, IS_NONE);
    assert_eq!(site.look(SHOPPER), Standing::Known(Proof::Cart));
    // The same with a GET that changes something, which can't be known.
    let mut site = Site::new();
    let slow = site.begin(SHOPPER, false);
    site.run(SHOPPER, false, HAS_CART);
    site.end(SHOPPER, slow, IS_NONE);
    assert_eq!(site.look(SHOPPER), Standing::Known(Proof::Cart));
    // And with one that died.
    let mut site = Site::new();
    site.run(SHOPPER, false, IS_NONE);
    let slow = site.begin(SHOPPER, false);
    site.run(SHOPPER, true, &[]);
    assert_eq!(site.look(SHOPPER), Standing::Visitor);
    site.end(SHOPPER, slow, IS_NONE);
    assert_eq!(site.look(SHOPPER), Standing::Visitor);
    site.run(SHOPPER, false, IS_NONE);
    assert_eq!(site.look(SHOPPER), Standing::Anonymous);
    assert!(site.table.running.is_empty());
}

#[test]
fn many_pages_at_once_do_not_keep_each_other_from_being_judged() {
    let mut site = Site::new();
    let mut last = site.begin(FORGED, false);
    for _ in 0..5 {
        let next = site.begin(FORGED, false);
        site.end(FORGED, last, IS_NONE);
        assert_eq!(site.look(FORGED), Standing::Anonymous, "while the next one runs");
        last = next;
    }
    site.end(FORGED, last, IS_NONE);
}

#[test]
fn an_emptied_cart_is_anonymous_again() {
    let mut site = Site::new();
    site.run(SHOPPER, true, HAS_CART);
    site.run(SHOPPER, true, IS_NONE);
    assert_eq!(site.look(SHOPPER), Standing::Anonymous);
    site.run(SHOPPER, true, &["own by=wp_woocommerce_session_5f profile", "end"]);
    assert_eq!(site.look(SHOPPER), Standing::Visitor, "a notice waits");
}

#[test]
fn a_log_out_forgets_what_is_still_to_be_reported() {
    let mut site = Site::new();
    site.run(MEMBER, false, IS_ANNA);
    site.run("wordpress_logged_in_5f=bert", false, &["login by=wordpress_logged_in_5f user=8", "end"]);
    let slow = site.begin(MEMBER, false);
    site.run(MEMBER, true, &["forget user=7", "none site=5f:k1 profile", "end"]);
    site.end(MEMBER, slow, IS_ANNA);
    assert!(!matches!(site.look(MEMBER), Standing::Known(_)));
    assert_eq!(site.look("wordpress_logged_in_5f=bert"), Standing::Known(Proof::LoggedIn));
    // From another device.
    site.run(
        "wordpress_logged_in_5f=anna2",
        true,
        &["forget user=8", "login by=wordpress_logged_in_5f user=7", "end"],
    );
    assert_eq!(site.look("wordpress_logged_in_5f=bert"), Standing::Unproven);
    assert_eq!(site.look("wordpress_logged_in_5f=anna2"), Standing::Known(Proof::LoggedIn));
}

#[test]
fn log_ins_of_others_take_no_proof_away() {
    let mut site = Site::new();
    let slow = site.begin(MEMBER, false);
    for number in 0..200 {
        let said =
            ["forget user=66", &format!("login by=a issued={number} user=66"), "end"].map(str::to_owned);
        site.run("", true, &said.each_ref().map(|text| &text[..]));
    }
    site.end(MEMBER, slow, IS_ANNA);
    assert_eq!(site.look(MEMBER), Standing::Known(Proof::LoggedIn));
    // If so many others come and go that not all are remembered, results that began before are ignored.
    let slow = site.begin("wordpress_logged_in_5f=anna2", false);
    (0..300).for_each(|user| site.run("", true, &[&format!("forget user={user}"), "end"]));
    site.end("wordpress_logged_in_5f=anna2", slow, IS_ANNA);
    assert!(!matches!(site.look("wordpress_logged_in_5f=anna2"), Standing::Known(_)));
}

#[test]
fn a_cookie_that_was_just_issued_is_proven() {
    let mut site = Site::new();
    let said = "login by=wordpress_logged_in_5f issued=carla%7C9 user=9 site=5f:k1 profile";
    site.run(FORGED, true, &["forget user=9", said, "end"]);
    assert_eq!(site.look("wordpress_logged_in_5f=carla%7C9"), Standing::Known(Proof::LoggedIn));
    assert!(!matches!(site.look(FORGED), Standing::Known(_)));
    site.run("", true, &["forget user=9", "end"]);
    assert_eq!(site.look("wordpress_logged_in_5f=carla%7C9"), Standing::Unproven);
}

#[test]
fn other_keys_empty_the_table() {
    let mut site = Site::new();
    site.run(MEMBER, false, IS_ANNA);
    site.run(FORGED, false, &["none site=5f:k2 profile", "end"]);
    assert_eq!(site.look(MEMBER), Standing::Unproven);
    // Another installation in a folder of the same site has its own keys, and says nothing about the others' cookies.
    site.run(MEMBER, false, &["login by=wordpress_logged_in_5f user=7 site=5f:k2 profile", "end"]);
    let elsewhere = "wordpress_logged_in_77=dora";
    site.run(elsewhere, false, &["login by=wordpress_logged_in_77 user=7 site=77:k9 profile", "end"]);
    assert_eq!(site.look(MEMBER), Standing::Known(Proof::LoggedIn));
    let both = "wordpress_logged_in_77=expired; wordpress_logged_in_x=1";
    site.run(both, false, &["none site=5f:k2 profile", "end"]);
    assert_eq!(site.look(both), Standing::Visitor);
    assert_eq!(site.look("wordpress_logged_in_x=1"), Standing::Anonymous);
}

#[test]
fn random_cookies_push_nothing_out_that_is_proven() {
    let mut site = Site::new();
    site.run(MEMBER, false, IS_ANNA);
    site.run(SHOPPER, true, HAS_CART);
    for number in 0..1000 {
        site.run(&format!("wordpress_logged_in_{number}={number}"), false, IS_NONE);
        let cart = format!("wp_woocommerce_session_5f=c{number}");
        site.run(&cart, true, HAS_CART);
        assert_eq!(site.look(SHOPPER), Standing::Known(Proof::Cart), "who comes again stays");
    }
    assert_eq!(site.look(MEMBER), Standing::Known(Proof::LoggedIn));
    let usage = site.table.usage();
    assert_eq!((usage.logins, usage.carts, usage.others), (1, 4, 4));
    assert!(usage.evicted > 1900);
    assert!(site.table.logins.len() == 1 && site.table.running.is_empty());
}

#[test]
fn it_holds_for_a_time() {
    let mut site = Site::new();
    site.run(MEMBER, false, IS_ANNA);
    site.run(FORGED, false, IS_NONE);
    assert_eq!(site.look_at(FORGED, LIMITS.anonymous - 1), Standing::Anonymous);
    assert_eq!(site.look_at(FORGED, LIMITS.anonymous), Standing::Visitor);
    assert_eq!(site.look_at(MEMBER, LIMITS.proven - 1), Standing::Known(Proof::LoggedIn));
    assert_eq!(site.look_at(MEMBER, LIMITS.proven), Standing::Visitor);
}

#[test]
fn a_script_that_fails_proves_nothing() {
    let mut site = Site::new();
    site.run(MEMBER, false, &["login by=wordpress_logged_in_5f user=7", "end failed"]);
    assert_eq!(site.look(MEMBER), Standing::Visitor);
    site.run(FORGED, false, IS_NONE);
    site.run(FORGED, false, &["end failed"]);
    assert_eq!(site.look(FORGED), Standing::Anonymous);
    site.run(FORGED, true, &["end failed"]);
    assert_eq!(site.look(FORGED), Standing::Visitor, "what it changed is not known");
}

#[test]
fn passwords_of_programs() {
    let mut site = Site::new();
    let fields = [("Authorization", &b"Basic YTpi"[..])];
    let cookies = site.concern.read(fields.into_iter(), &site.key);
    let mut report = Report::default();
    assert_eq!(site.table.look(&cookies, 0), Standing::Unproven);
    let run = site.table.begin(&cookies, true, 0);
    report.hear(b"login by=:authorization user=7");
    site.table.end(&cookies, &run, Some(&report), &site.key);
    assert_eq!(site.table.look(&cookies, 0), Standing::Known(Proof::LoggedIn));
    let run = site.table.begin(&cookies, false, 0);
    report.hear(b"none");
    site.table.end(&cookies, &run, Some(&report), &site.key);
    assert_eq!(
        site.table.look(&cookies, 0),
        Standing::Visitor,
        "never anonymous: a page may be for it alone"
    );
}

#[test]
fn what_is_left_of_a_field() {
    let site = Site::new();
    let (mut others, mut sessions) = (Vec::new(), Vec::new());
    site.concern.divide(
        b"a=1; wordpress_logged_in_x=1; PHPSESSID=2; b=2; wp.woocommerce_session_1=x",
        &mut others,
        &mut sessions,
    );
    assert_eq!((&others[..], &sessions[..]), (&b"a=1; b=2"[..], &b"PHPSESSID=2"[..]));
    others.clear();
    site.concern.divide(b"PHPSESSID=2", &mut others, &mut sessions);
    assert!(others.is_empty());
}

// A visitor with a cart: the session's cookie, and its companions.
const BUYER: &str = "wp_woocommerce_session_5f=t1; woocommerce_items_in_cart=h1";
const HAS_PASS: &[&str] = &[
    "cart by=wp_woocommerce_session_5f pass=600 with=woocommerce_items_in_cart:h1 items=post-7,post-8 site=5f:k1",
    "end",
];

impl Site {
    /// Why a visitor gets pages from PHP; `None`: it gets public ones.
    fn held(&mut self, cookies: &str, now: Millis) -> Option<&'static str> {
        let cookies = self.cookies(cookies);
        match self.table.cart(&cookies, now) {
            None => Some("no cart"),
            Some(Ok(_)) => None,
            Some(Err(why)) => Some(why.word()),
        }
    }
}

#[test]
fn a_pass_is_for_exactly_these_cookies_and_for_some_time() {
    let mut site = Site::new();
    assert_eq!(site.held(BUYER, 0), Some("no cart"));
    site.run(BUYER, false, HAS_PASS);
    assert_eq!(site.held(BUYER, 0), None);
    assert_eq!(site.held(&format!("_ga=1; {BUYER}"), LIMITS.cart - 1), None);
    assert_eq!(site.held(BUYER, LIMITS.cart), Some("cart-expired"));
    for (other, why) in [
        ("wp_woocommerce_session_5f=t1", "cart-changed"),
        ("wp_woocommerce_session_5f=t1; woocommerce_items_in_cart=h2", "cart-changed"),
        ("wp_woocommerce_session_5f=t2; woocommerce_items_in_cart=h1", "no cart"),
        ("woocommerce_items_in_cart=h1", "no cart"),
    ] {
        assert_eq!(site.held(other, 0), Some(why), "{other}");
    }
    for more in ["PHPSESSID=x", "wordpress_logged_in_x=1", "comment_author_5f=a"] {
        assert_eq!(site.held(&format!("{BUYER}; {more}"), 0), Some("cart-cookie"), "{more}");
    }
    assert_eq!(site.held(&format!("{BUYER}; woocommerce_items_in_cart=h1"), 0), Some("no cart"), "twice");
    assert_eq!(site.held(&format!("{BUYER}; member=1"), 0), Some("no cart"), "the settings name it");
    // A cookie that means nothing changes nothing.
    site.run("PHPSESSID=x", false, &["end session=PHPSESSID:absent"]);
    assert_eq!(site.held(&format!("{BUYER}; PHPSESSID=x"), 0), None);
}

#[test]
fn a_pass_ends_when_a_change_begins() {
    let mut site = Site::new();
    site.run(BUYER, false, HAS_PASS);
    let post = site.begin(BUYER, true);
    assert_eq!(site.held(BUYER, 0), Some("cart-changing"));
    let page = site.begin(BUYER, false);
    site.end(BUYER, post, HAS_PASS);
    assert_eq!(site.held(BUYER, 0), None, "the change knows");
    // A page that was made meanwhile gives none, whether it ends after the change or before.
    site.end(BUYER, page, HAS_PASS);
    assert_eq!(site.held(BUYER, 0), Some("cart-changing"), "it may have seen the cart of before");
    let post = site.begin(BUYER, true);
    site.run(BUYER, false, HAS_PASS);
    assert_eq!(site.held(BUYER, 0), Some("cart-changing"));
    site.end(BUYER, post, HAS_PASS);
    assert_eq!(site.held(BUYER, 0), Some("cart-changing"), "it may have changed something, too");
    site.run(BUYER, false, HAS_PASS);
    assert_eq!(site.held(BUYER, 0), None);
    // A change that died has perhaps changed something.
    site.run(BUYER, true, &["end failed"]);
    assert_eq!(site.held(BUYER, 0), Some("cart-unknown"));
}

#[test]
fn of_two_runs_that_say_something_else_none_is_believed() {
    let mut site = Site::new();
    for (first, second) in [(0, 1), (1, 0)] {
        let notice = &["cart by=wp_woocommerce_session_5f held=notice site=5f:k1", "end"];
        let says = [HAS_PASS, notice];
        let (one, other) = (site.begin(BUYER, false), site.begin(BUYER, false));
        site.end(BUYER, one, says[first]);
        site.end(BUYER, other, says[second]);
        assert_eq!(site.held(BUYER, 0), Some("cart-changing"));
        let (one, other) = (site.begin(BUYER, false), site.begin(BUYER, false));
        site.end(BUYER, one, HAS_PASS);
        site.end(BUYER, other, HAS_PASS);
        assert_eq!(site.held(BUYER, 0), None, "both say the same");
        site.run(BUYER, false, notice);
        assert_eq!(site.held(BUYER, 0), Some("cart-notice"));
    }
    // A run that says nothing about the cart takes the pass, too.
    for nothing in
        [&["end"][..], &["unsure", "end"], &["none except=wp_woocommerce_session_5f site=5f:k1", "end"]]
    {
        site.run(BUYER, false, HAS_PASS);
        site.run(BUYER, false, nothing);
        assert_eq!(site.held(BUYER, 0), Some("cart-unknown"), "{nothing:?}");
    }
}

#[test]
fn a_new_session_has_its_pass_at_once_and_a_renewed_one_has_not() {
    let issued = &[
        "cart by=wp_woocommerce_session_5f issued=t1 pass=600 with=woocommerce_items_in_cart:h1 items=post-7 site=5f:k1",
        "end",
    ];
    let mut site = Site::new();
    site.run("_ga=1", true, issued);
    assert_eq!(site.held(BUYER, 0), None);
    let mut site = Site::new();
    site.run("wp_woocommerce_session_5f=old; woocommerce_items_in_cart=h1", false, issued);
    assert_eq!(
        site.held(BUYER, 0),
        Some("cart-unknown"),
        "another request may be changing it by the old one"
    );
}

#[test]
fn changed_products_end_passes_of_carts_that_hold_them() {
    let mut site = Site::new();
    site.run(BUYER, false, HAS_PASS);
    site.table.changed(b"post-9,post-77");
    assert_eq!(site.held(BUYER, 0), None);
    for items in [&b"post-9,post-8"[..], b"*"] {
        let page = site.begin(BUYER, false);
        site.table.changed(items);
        assert_eq!(site.held(BUYER, 0), Some("cart-changed"));
        site.end(BUYER, page, HAS_PASS);
        assert_eq!(site.held(BUYER, 0), Some("cart-changing"), "it began before");
        site.run(BUYER, false, HAS_PASS);
        assert_eq!(site.held(BUYER, 0), None);
    }
}

#[test]
fn reports_that_are_no_pass() {
    for (note, why) in [
        ("pass=600 with=woocommerce_items_in_cart:h1", "cart-unknown"),
        ("pass=600 items=post-1", "cart-unknown"),
        ("pass=0 with=woocommerce_items_in_cart:h1 items=post-1", "cart-expired"),
        ("pass=-5 with=woocommerce_items_in_cart:h1 items=post-1", "cart-unknown"),
        ("pass=600 held=customer with=woocommerce_items_in_cart:h1 items=post-1", "cart-customer"),
        ("held=session", "cart-session"),
        ("held=%00", "cart-unknown"),
        ("", "cart-unknown"),
    ] {
        let mut site = Site::new();
        let note = format!("cart by=wp_woocommerce_session_5f {note}");
        site.run(BUYER, false, &[&note, "end"]);
        assert_eq!(site.held(BUYER, 0), Some(why), "{note}");
    }
    let mut site = Site::new();
    site.table.set_limits(Limits { cart: 0, ..LIMITS });
    site.run(BUYER, false, HAS_PASS);
    assert_eq!(site.held(BUYER, 0), Some("no cart"), "turned off");
}

#[test]
fn the_page_of_a_visitor_with_a_pass() {
    let page = |note: &str| {
        let mut report = Report::default();
        report.hear(format!("cart by=x {note}").as_bytes());
        report.hear(b"end");
        let key = PrintKey::default();
        let cookie = Cookie {
            print: key.print(b"x", b"1"),
            name: b"x"[..].into(),
            of_application: true,
            is_chosen: false,
        };
        report.cart_page(&key, [cookie].iter())
    };
    let found = page("pass=9 with=a:1 items=post-7 kind=k-1 blank=a.b%2Cc,%23d%20e,%zz").unwrap();
    assert_eq!((&*found.kind, found.blanks), (&b"k-1"[..], vec!["a.b,c".to_owned(), "#d e".to_owned()]));
    assert_eq!(page("held=notice kind=k-1"), None);
    assert!(
        !found.has_address && page("pass=9 with=a:1 items=post-7 address=1 kind=k-1").unwrap().has_address
    );
    assert_eq!(page("pass=9 with=a:1 items=post-7"), None);
    assert_eq!(page("kind=k-1"), None);
}

#[test]
fn the_right_to_edit_is_as_the_last_run_has_said() {
    const EDITS: &[&str] = &["login by=wordpress_logged_in_5f user=7 rights=edit site=5f:k1 profile", "end"];
    let mut site = Site::new();
    site.run(MEMBER, false, EDITS);
    assert_eq!(site.look(MEMBER), Standing::Known(Proof::Editor));
    site.run(SHOPPER, true, HAS_CART);
    for both in [format!("{MEMBER}; {SHOPPER}"), format!("{SHOPPER}; {MEMBER}")] {
        assert_eq!(site.look(&both), Standing::Known(Proof::Editor), "beside a cart");
    }
    site.run(MEMBER, false, IS_ANNA);
    assert_eq!(site.look(MEMBER), Standing::Known(Proof::LoggedIn), "a role was taken away");
    site.run(MEMBER, false, &["login by=wordpress_logged_in_5f user=7 rights=read", "end"]);
    assert_eq!(site.look(MEMBER), Standing::Known(Proof::LoggedIn));
    site.run(MEMBER, false, EDITS);
    site.run(MEMBER, true, &["forget user=7", "end"]);
    assert_eq!(site.look(MEMBER), Standing::Visitor, "logged out: the run has judged nothing");
}

//! A day of ordinary traffic, from a seed: nobody is limited, held in a line or banned. Beside it attackers of each kind, who are.
//!
//! The day has 24 hours of the clock that the shield sees and takes seconds. Each request goes the way of a real one: through rules and routing, to the
//! shield, and then what the script would answer goes to what the shield hears of answers. Nothing is cached, which is the worst case.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_wire::head::{Head, Limits};
use tokio::task::LocalSet;

use super::spellings::Dice;
use crate::cache::PageCache;
use crate::serve::walk::Maker;
use crate::serve::{Make, ServeThread, Service, Setup, SiteWorkers, Step, respond};
use crate::shield::Missing;
use millrace_base::context::Process;
use millrace_base::context::log::Log;
use millrace_base::context::stats::Registry;
use millrace_base::message::Request;
use millrace_base::message::reply::Reply;
use millrace_base::message::request::{Content, Ends, Scheme};
use millrace_base::site::Site;
use millrace_base::testing::Dir;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// How long PHP works on a request, ms.
const RUN: u64 = 60;

/// A site of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// WordPress with a shop.
    Shop,
    /// Nextcloud.
    Cloud,
    /// Plain PHP with a WebDAV server of its own.
    Plain,
}

/// A request of the day.
#[derive(Clone, Debug)]
struct Visit {
    /// Milliseconds since midnight.
    at: u64,
    /// Who sends it.
    who: &'static str,
    place: Place,
    address: IpAddr,
    method: &'static str,
    target: String,
    /// Header fields, each with its line end.
    fields: String,
    content: String,
    /// What the script answers: status and media type.
    answer: (u16, &'static str),
    /// What PHP reports about the visitor.
    note: &'static str,
}

/// A cookie and what PHP says about it.
type Known = (&'static str, &'static str);
const EDITOR: Known =
    ("wordpress_logged_in_5f", "login by=wordpress_logged_in_5f user=7 rights=edit site=5f:k1 profile");
const CUSTOMER: Known =
    ("wordpress_logged_in_5f", "login by=wordpress_logged_in_5f user=9 site=5f:k1 profile");
const CART: Known = ("wp_woocommerce_session_5f", "cart by=wp_woocommerce_session_5f site=5f:k1 profile");

const HTML: &str = "text/html; charset=UTF-8";
const FORM: &str = "application/x-www-form-urlencoded";

impl Visit {
    fn get(at: u64, who: &'static str, address: IpAddr, target: impl Into<String>) -> Visit {
        Visit {
            at,
            who,
            place: Place::Shop,
            address,
            method: "GET",
            target: target.into(),
            fields: String::new(),
            content: String::new(),
            answer: (200, HTML),
            note: "",
        }
    }

    /// By a browser: from a page of the site, or from elsewhere.
    fn browser(at: u64, who: &'static str, address: IpAddr, target: impl Into<String>) -> Visit {
        Visit::get(at, who, address, target)
            .with("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
            .with("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
    }

    fn with(mut self, name: &str, value: &str) -> Visit {
        self.fields += &format!("{name}: {value}\r\n");
        self
    }

    /// From a link, form or script of the site itself.
    fn clicked(self) -> Visit {
        self.with("Sec-Fetch-Site", "same-origin").with("Referer", "https://a.test/page/")
    }

    fn at(self, place: Place) -> Visit {
        Visit { place, ..self }
    }

    fn sends(self, method: &'static str, kind: &str, content: impl Into<String>) -> Visit {
        let content = content.into();
        Visit { method, content, ..self.with("Content-Type", kind) }
    }

    fn gets(self, status: u16, kind: &'static str) -> Visit {
        Visit { answer: (status, kind), ..self }
    }

    fn is(self, (cookie, note): Known, number: u64) -> Visit {
        Visit { note, ..self.with("Cookie", &format!("{cookie}=visitor{number}%7C9")) }
    }
}

fn ip(a: u8, b: u8, c: u8, d: usize) -> IpAddr {
    Ipv4Addr::new(a, b, c, d as u8).into()
}

/// An address of its own for each number.
fn own(kind: u8, number: u64) -> IpAddr {
    Ipv4Addr::from(u32::from(kind) << 24 | ((number as u32).wrapping_mul(2_654_435_761) >> 8)).into()
}

/// What a person does within a visit: pages with what they load, a search, the shop. `first`: how it comes to the site.
fn person(day: &mut Vec<Visit>, dice: &mut Dice, who: &'static str, address: IpAddr, begin: u64) {
    let mut at = begin;
    let pages = 1 + dice.below(5);
    let number = begin ^ dice.below(1 << 30) as u64;
    for page in 0..pages {
        let target = match dice.below(9) {
            0 => format!("/?s=word{}", dice.below(5000)),
            1 => format!("/shop/?filter_color=red&min_price={}", dice.below(90)),
            2 => format!("/shop/?orderby=price&page={}", dice.below(9)),
            3 => "/search/shoes/".to_owned(),
            n => format!("/post-{}-{n}/", dice.below(3000)),
        };
        let visit = Visit::browser(at, who, address, target);
        let has_left = page == 0 && dice.one_in(25);
        let visit = if page > 0 {
            visit.clicked()
        } else {
            visit.with("Sec-Fetch-Site", ["none", "cross-site"][dice.below(2)])
        };
        // An old link of another site.
        day.push(if has_left { visit.gets(404, HTML) } else { visit });
        for object in 0..1 + dice.below(2) as u64 {
            let name = ["/style.css", "/app.js", "/logo.png"][object as usize % 3];
            day.push(Visit::browser(at + 200 + 30 * object, who, address, name).clicked());
        }
        // What the theme misses, and what telephones ask for without a Referer.
        if dice.one_in(4) {
            day.push(Visit::browser(at + 500, who, address, "/wp-content/uploads/gone.png").clicked());
        }
        if page == 0 && dice.one_in(3) {
            for icon in ["/apple-touch-icon-120x120-precomposed.png", "/apple-touch-icon.png", "/favicon.ico"]
            {
                day.push(Visit::browser(at + 600, who, address, icon));
            }
        }
        at += 4 * SECOND + dice.below(90_000) as u64;
    }
    if dice.one_in(6) {
        buys(day, dice, who, address, at, number);
    }
}

/// A shopper's way: cart, its fragments, the order with a new account.
fn buys(day: &mut Vec<Visit>, dice: &mut Dice, who: &'static str, address: IpAddr, begin: u64, number: u64) {
    let mut at = begin;
    for product in 0..1 + dice.below(3) {
        day.push(
            Visit::browser(at, who, address, format!("/?add-to-cart={product}")).clicked().is(CART, number),
        );
        day.push(
            Visit::browser(at + 300, who, address, "/?wc-ajax=get_refreshed_fragments")
                .clicked()
                .is(CART, number)
                .sends("POST", FORM, "time=1"),
        );
        at += 8 * SECOND + dice.below(20_000) as u64;
    }
    for _ in 0..1 + dice.below(4) {
        let form =
            "payment_method=card&country=DE&postcode=10115&post_data=billing_email%3Da%26account_password%3D";
        let order =
            Visit::browser(at, who, address, "/?wc-ajax=update_order_review").clicked().is(CART, number);
        day.push(order.sends("POST", FORM, form).gets(200, "application/json"));
        at += 5 * SECOND;
    }
    let form = "billing_email=a%40b.test&createaccount=1&account_password=secret&payment_method=card";
    let order = Visit::browser(at, who, address, "/?wc-ajax=checkout").clicked().is(CART, number);
    day.push(order.sends("POST", FORM, form).gets(200, "application/json"));
    day.push(Visit::browser(at + SECOND, who, address, "/order-received/7/").clicked().is(CUSTOMER, number));
}

/// A time of the day as people have it: few at night, most in the evening.
fn hour_of_people(dice: &mut Dice) -> u64 {
    let busy: [usize; 24] =
        [2, 1, 1, 1, 1, 2, 4, 7, 9, 10, 10, 11, 12, 11, 10, 10, 11, 12, 13, 14, 15, 14, 9, 4];
    loop {
        let hour = dice.below(24);
        if dice.below(15) < busy[hour] {
            return hour as u64 * HOUR + dice.below(HOUR as usize) as u64;
        }
    }
}

fn people(day: &mut Vec<Visit>, dice: &mut Dice) {
    for number in 0..300 {
        let at = hour_of_people(dice);
        person(day, dice, "a person at home", own(81, number), at);
    }
    // Many people at one address each.
    for carrier in (0..3).flat_map(|carrier| std::iter::repeat_n(carrier, 120)) {
        let at = hour_of_people(dice);
        person(day, dice, "a mobile carrier's customer", ip(82, 1, 1, carrier), at);
    }
    // An office and a school: all begin within some minutes, and log in.
    for number in 0..48 {
        let address = ip(83, 1, 1, 1);
        let begin = 9 * HOUR + dice.below(4 * MINUTE as usize) as u64;
        for attempt in 0..1 + u64::from(dice.one_in(12)) {
            let form = format!("log=person{number}&pwd=secret&wp-submit=Log+In&testcookie=1");
            let visit =
                Visit::browser(begin + 15 * SECOND * attempt, "an office's log-in", address, "/wp-login.php");
            day.push(visit.clicked().sends("POST", FORM, form));
        }
        for _ in 0..2 {
            let at = begin + dice.below(8 * HOUR as usize) as u64;
            person(day, dice, "a person of an office", address, at);
        }
    }
    for number in 0..28 {
        let at = 10 * HOUR + dice.below(2 * MINUTE as usize) as u64;
        let form = format!("username=pupil{number}&password=secret&woocommerce-login-nonce=n&login=Log+in");
        let visit = Visit::browser(at, "a school's log-in", ip(83, 2, 2, 2), "/my-account/").clicked();
        day.push(visit.sends("POST", FORM, form));
    }
    // A page elsewhere shows images of the site that are gone.
    for number in 0..600 {
        let at = 20 * HOUR + dice.below(HOUR as usize) as u64;
        let address = if number % 3 == 0 { ip(83, 1, 1, 1) } else { own(84, number) };
        let visit = Visit::browser(
            at,
            "a visitor of a page that links images",
            address,
            format!("/old/{}.png", number % 7),
        );
        day.push(visit.with("Sec-Fetch-Site", "cross-site").with("Referer", "https://forum.test/"));
    }
}

/// Those who work on the site.
fn editors(day: &mut Vec<Visit>, dice: &mut Dice) {
    for number in 0..4 {
        let (who, address, begin) = ("an editor", ip(85, 1, 1, number), 8 * HOUR + number as u64 * HOUR);
        let number = number as u64 + 1_000_000;
        day.push(Visit::browser(begin, who, address, "/wp-login.php").clicked().sends(
            "POST",
            FORM,
            "log=a&pwd=b",
        ));
        let seen = |at, target: &str| Visit::browser(at, who, address, target).clicked().is(EDITOR, number);
        // PHP has seen the cookie before anything else.
        day.push(seen(begin + SECOND, "/wp-admin/index.php"));
        for beat in 1..200 {
            let at = begin + beat * 90 * SECOND;
            let ajax = "/wp-admin/admin-ajax.php";
            day.push(
                seen(at, ajax)
                    .sends("POST", FORM, "action=heartbeat&_nonce=a&interval=15")
                    .gets(200, "application/json"),
            );
            match dice.below(6) {
                0 => day.push(seen(at + 5_000, "/wp-json/wp/v2/posts/7/autosaves").sends(
                    "POST",
                    "application/json",
                    "{\"content\":\"x\"}",
                )),
                1 => day.push(seen(at + 6_000, "/wp-json/wp/v2/users?who=authors&per_page=100")),
                2 => day.push(seen(at + 7_000, "/wp-json/wp/v2/users/me?context=edit")),
                3 => day.push(seen(at + 7_000, "/?s=internal")),
                _ => {}
            }
        }
        for upload in 0..40 {
            let at = begin + 2 * HOUR + upload * 700;
            let visit = seen(at, "/wp-admin/async-upload.php");
            day.push(visit.sends("POST", "multipart/form-data; boundary=x", "--x\r\nContent-Disposition: form-data; name=\"async-upload\"; filename=\"a.jpg\"\r\n\r\nx\r\n--x--"));
        }
    }
}

/// Programs of the site's owner, of shops and of payment services.
fn programs(day: &mut Vec<Visit>, dice: &mut Dice) {
    const JSON: &str = "application/json";
    let basic = |visit: Visit| visit.with("Authorization", "Basic YXBwOnNlY3JldCBzZWNyZXQ=");
    for minute in (0..24 * 60).step_by(3) {
        let at = minute * MINUTE + dice.below(MINUTE as usize) as u64;
        let monitor = |number, target| {
            Visit::get(at, "an uptime monitor", ip(86, 1, 1, number), target).with("User-Agent", "Uptime/2")
        };
        day.push(monitor(1, "/"));
        day.push(monitor(2, "/wp-login.php"));
        day.push(Visit { method: "HEAD", ..monitor(3, "/status-page-that-was-removed/").gets(404, HTML) });
        day.push(Visit::get(at, "cron from outside", ip(86, 2, 2, 2), "/wp-cron.php?doing_wp_cron"));
        for _ in 0..dice.below(3) {
            let hook = Visit::get(at + 700, "a payment webhook", ip(86, 3, 3, 3), "/?wc-api=payment");
            day.push(hook.sends("POST", JSON, "{\"id\":1,\"status\":\"paid\"}"));
        }
        // An application that asks for what is new; a shop's stock; an app for writing at xmlrpc.php.
        let app =
            Visit::get(at, "an app", ip(86, 4, 4, 4), format!("/wp-json/app/v1/items/{}", dice.below(500)));
        day.push(basic(app).gets(if dice.one_in(3) { 404 } else { 200 }, JSON));
        if minute % 6 == 0 {
            let words = "<?xml version=\"1.0\"?><methodCall><methodName>metaWeblog.getRecentPosts</methodName></methodCall>";
            day.push(
                Visit::get(at, "an app at xmlrpc.php", ip(86, 5, 5, 5), "/xmlrpc.php")
                    .sends("POST", "text/xml", words),
            );
        }
        if minute % 9 == 0 {
            day.push(basic(Visit::get(
                at,
                "an app that looks who it is",
                ip(86, 6, 6, 6),
                "/wp-json/wp/v2/users/me",
            )));
        }
    }
    // The stock, ten articles a second for ten minutes; customers of an old shop, with their passwords.
    for number in 0..6_000 {
        let visit = Visit::get(
            3 * HOUR + number * 100,
            "a shop's stock",
            ip(86, 7, 7, 7),
            format!("/wp-json/wc/v3/products/{number}"),
        );
        day.push(basic(visit).sends("PUT", JSON, "{\"stock_quantity\":3}").gets(200, JSON));
    }
    for number in 0..600 {
        let visit = Visit::get(
            4 * HOUR + number * 500,
            "customers of an old shop",
            ip(86, 8, 8, 8),
            "/wp-json/wc/v3/customers",
        );
        let words = format!("{{\"email\":\"a{number}@b.test\",\"password\":\"secret{number}\"}}");
        day.push(basic(visit).sends("POST", JSON, words).gets(201, JSON));
    }
    // An app in a thousand pockets, behind the carriers' addresses: what it asks for is often not there.
    for number in 0..1_000 {
        let visit = Visit::get(
            hour_of_people(dice),
            "an app in a pocket",
            ip(82, 1, 1, number % 3),
            format!("/wp-json/app/v1/badges/{number}"),
        );
        day.push(
            visit.with("User-Agent", "ShopApp/7 (iPhone)").gets(if dice.one_in(2) { 404 } else { 200 }, JSON),
        );
    }
}

/// WebDAV, calendars and contacts.
fn files_and_calendars(day: &mut Vec<Visit>, dice: &mut Dice) {
    const XML: &str = "application/xml; charset=utf-8";
    let basic = |visit: Visit| visit.with("Authorization", "Basic YW5uOnNlY3JldA==");
    let clouds = [
        (Place::Cloud, "/remote.php/dav/files/ann", "/remote.php/dav/calendars/ann"),
        (Place::Plain, "/dav.php/files", "/dav.php/calendars"),
    ];
    for (place, files, calendars) in clouds {
        for client in 0..8 {
            let address = if client < 4 { ip(87, 1, 1, 1) } else { own(87, client) };
            let ask = |at, method, target: String, status| {
                let visit = Visit::get(at, "a client of files or calendars", address, target)
                    .at(place)
                    .with("User-Agent", "Mozilla/5.0 (Linux) mirall/3.13");
                basic(visit).sends(method, "application/xml", "<propfind/>").gets(status, XML)
            };
            let mut at = client * MINUTE;
            while at < 24 * HOUR {
                day.push(ask(at, "PROPFIND", format!("{files}/"), 207));
                if place == Place::Cloud {
                    let status =
                        Visit::get(at, "a client of files or calendars", address, "/status.php").at(place);
                    day.push(status.gets(200, "application/json"));
                    day.push(ask(
                        at + 50,
                        "GET",
                        "/ocs/v2.php/apps/notifications/api/v2/notifications?format=json".into(),
                        404,
                    ));
                }
                day.push(ask(at + 300, "REPORT", format!("{calendars}/personal/"), 207));
                at += 20 * MINUTE + dice.below(MINUTE as usize) as u64;
            }
            // The first synchronisation: for each file a look, which is 404, and the file.
            for file in 0..if client % 4 == 0 { 500 } else { 20 } {
                let at = 7 * HOUR + client * HOUR / 2 + file * 150;
                let name = format!("{files}/photo-{file}.jpg");
                day.push(ask(at, "PROPFIND", name.clone(), 404));
                day.push(ask(at + 60, "PUT", name, 201));
            }
        }
        // A Macintosh looks for its own files in each folder; an event that was deleted.
        for folder in 0..70 {
            for name in
                [".DS_Store", "._.", ".hidden", ".localized", ".metadata_never_index", ".Spotlight-V100"]
            {
                let visit = Visit::get(
                    16 * HOUR + folder * 400,
                    "a Macintosh",
                    ip(87, 3, 3, 3),
                    format!("{files}/folder-{folder}/{name}"),
                );
                let visit = visit.at(place).with("User-Agent", "WebDAVFS/3.0.0 (03008000) Darwin/24");
                day.push(basic(visit).sends("PROPFIND", "text/xml", "<propfind/>").gets(404, XML));
            }
        }
        for _ in 0..200 {
            let at = dice.below(24 * HOUR as usize) as u64;
            let visit = Visit::get(
                at,
                "a telephone's calendar",
                ip(82, 1, 1, 0),
                format!("{calendars}/personal/{at}.ics"),
            );
            day.push(basic(visit.at(place)).gets(404, XML));
        }
    }
}

/// Feed readers and search engines.
fn readers(day: &mut Vec<Visit>, dice: &mut Dice) {
    for (reader, hour) in (0..20).flat_map(|reader| (0..24).map(move |hour| (reader, hour))) {
        let at = hour * HOUR + dice.below(HOUR as usize) as u64;
        day.push(Visit::get(at, "a feed reader", own(88, reader), "/feed/").with("User-Agent", "Reader/1"));
        let address = ip(88, 1, 1, 1);
        day.push(
            Visit::get(at, "a service that reads feeds", address, format!("/category/c{reader}/feed/"))
                .with("User-Agent", "FeedService"),
        );
    }
    // Verified by its network: after a move of the site it asks for thousands of old pages.
    for number in 0..2_000 {
        let at = 2 * HOUR + number * 400;
        let target =
            if number % 3 == 0 { format!("/?s=crawl{number}") } else { format!("/old-shop/p{number}.html") };
        let visit = Visit::get(at, "a search engine", ip(89, 1, 1, number as usize % 200), target);
        day.push(
            visit
                .with("User-Agent", "Mozilla/5.0 (compatible; Searchbot/2.1)")
                .gets(if number % 3 == 0 { 200 } else { 404 }, HTML),
        );
    }
    // One that publishes no list, and goes about its way slowly.
    for number in 0..4_000 {
        let visit = Visit::get(
            number * 20 * SECOND,
            "a crawler without a list",
            ip(89, 2, 2, 2),
            format!("/post-{number}/"),
        );
        day.push(visit.with("User-Agent", "Bot/1").gets(if number % 12 == 0 { 404 } else { 200 }, HTML));
    }
}

/// Attackers: each kind begins at some time of the day and does not stop at refusals; more than a third of its requests are refused.
fn attacks() -> Vec<Visit> {
    let mut all = Vec::new();
    let address = |kind: usize| ip(90, 1, kind as u8, 7);
    let basic = |number: u64| format!("Basic {number}YWRtaW46eA==");
    for number in 0..200 {
        let at = 11 * HOUR + number * 300;
        let form = |name: &str| format!("log=admin&{name}=guess{number}");
        let get = |kind: usize, who, target: String| {
            Visit::get(at, who, address(kind), target).with("User-Agent", "curl/8")
        };
        all.push(get(1, "guesses at wp-login.php", "/wp-login.php".into()).sends("POST", FORM, form("pwd")));
        all.push(get(2, "guesses at //wp-login%2ephp", "//wp-login%2ephp/x".into()).sends(
            "POST",
            FORM,
            form("pwd"),
        ));
        all.push(get(3, "guesses at the shop's form", "/my-account/".into()).sends(
            "POST",
            FORM,
            form("password"),
        ));
        let customer = get(4, "guesses of a customer", "/wp-login.php".into()).is(CUSTOMER, 7_000_000);
        all.push(customer.sends("POST", FORM, form("pwd")));
        let call =
            "<?xml version=\"1.0\"?><methodCall><methodName>wp.getUsersBlogs</methodName></methodCall>";
        all.push(get(5, "guesses at xmlrpc.php", "/xmlrpc.php".into()).sends("POST", "text/xml", call));
        let token = format!("{{\"username\":\"admin\",\"password\":\"guess{number}\"}}");
        all.push(
            get(6, "guesses for a token", "/wp-json/jwt-auth/v1/token".into())
                .sends("POST", "application/json", token)
                .gets(403, "application/json"),
        );
        all.push(
            get(7, "guesses of application passwords", "/wp-json/wp/v2/posts".into())
                .with("Authorization", &basic(number))
                .gets(401, "application/json"),
        );
        all.push(get(8, "names of users", format!("/?author={number}")).gets(301, HTML));
        all.push(
            get(9, "names of users by REST", format!("/wp-json/wp/v2/users/{number}"))
                .gets(200, "application/json"),
        );
        all.push(get(10, "a scanner of files", format!("/backup-{number}/.env")));
        all.push(get(11, "a scanner of scripts", format!("/wp-content/plugins/p{number}/shell.php")));
        all.push(
            get(12, "a scanner that says it is a search engine", format!("/a{number}/backup.sql"))
                .with("User-Agent", "Searchbot/2.1"),
        );
        all.push(get(13, "an endless cart", format!("/?add-to-cart={number}")));
        all.push(
            get(14, "guesses at the calendar", "/dav.php/calendars/".into())
                .at(Place::Plain)
                .with("Authorization", &basic(number))
                .gets(401, "application/xml"),
        );
    }
    for number in 0..1_000 {
        let get = |kind: usize, who, target: String| {
            Visit::get(13 * HOUR + number * 60, who, address(kind), target)
        };
        all.push(get(20, "a flood of searches", format!("/?s=flood{number}")));
        all.push(get(21, "a crawl of filters", format!("/shop/?filter_a={number}&query_type_a=or")));
        all.push(get(22, "a scanner of pages", format!("/admin-{number}/")).gets(404, HTML));
    }
    all
}

/// What became of the requests of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sent: u32,
    /// 429 or 403.
    refused: u32,
    /// In a line of low priority, or refused there.
    aside: u32,
}

#[test]
fn an_ordinary_day_limits_attackers_and_nobody_else() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut dice = Dice(0xda1_0f0d_5eed);
        let mut day = Vec::new();
        people(&mut day, &mut dice);
        editors(&mut day, &mut dice);
        programs(&mut day, &mut dice);
        files_and_calendars(&mut day, &mut dice);
        readers(&mut day, &mut dice);
        let ordinary: Vec<&'static str> = day.iter().map(|visit| visit.who).collect();
        day.extend(attacks());
        day.sort_by_key(|visit| visit.at);
        let stage = Stage::new();
        let mut found: std::collections::BTreeMap<&str, Tally> = Default::default();
        for visit in &day {
            let (status, is_aside) = stage.send(visit).await;
            let tally = found.entry(visit.who).or_default();
            tally.sent += 1;
            tally.refused += u32::from(matches!(status, 429 | 403) && status != visit.answer.0);
            tally.aside += u32::from(is_aside || status == 503);
        }
        let is_ordinary = |who: &str| ordinary.contains(&who);
        let limited: Vec<_> =
            found.iter().filter(|(who, tally)| is_ordinary(who) && tally.refused + tally.aside > 0).collect();
        assert!(limited.is_empty(), "people who are limited: {limited:#?}");
        let free: Vec<_> =
            found.iter().filter(|(who, tally)| !is_ordinary(who) && tally.refused * 3 < tally.sent).collect();
        assert!(free.is_empty(), "attackers who are not: {free:#?}");
        assert!(day.len() > 20_000 && ordinary.len() < day.len(), "{} requests", day.len());
    });
}

/// The server with its sites.
struct Stage {
    thread: Rc<ServeThread>,
    sites: Vec<Arc<SiteWorkers>>,
    begun: std::time::Instant,
    _folder: Dir,
}

impl Stage {
    fn new() -> Stage {
        let folder = Dir::new("day");
        let crawlers = folder.path("crawlers");
        fs::create_dir_all(&crawlers).unwrap();
        fs::write(crawlers.join("searchbot.txt"), "# date: 2026-11-01\n89.1.1.0/24\n").unwrap();
        let shop = [
            "index.php",
            "wp-login.php",
            "xmlrpc.php",
            "wp-cron.php",
            "wp-admin/index.php",
            "wp-admin/admin-ajax.php",
            "wp-admin/async-upload.php",
            "style.css",
            "app.js",
            "logo.png",
        ];
        let cloud = ["index.php", "remote.php", "status.php", "ocs/v2.php"];
        let mut sites = Vec::new();
        let mut first = None;
        for (number, (name, profile, files)) in [
            ("shop", "wordpress", &shop[..]),
            ("cloud", "nextcloud", &cloud[..]),
            ("plain", "generic", &["index.php", "dav.php"][..]),
        ]
        .into_iter()
        .enumerate()
        {
            for file in files {
                let path = folder.path(name).join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "<?php").unwrap();
            }
            let source = millrace_settings::Source {
                site_dir: Some(folder.path(name)),
                profile: Some(profile.into()),
                set: vec![format!("shield.crawlers={}", crawlers.display())],
                ..Default::default()
            };
            let (plan, _) = millrace_settings::load(&source).unwrap_or_else(|problems| panic!("{problems}"));
            sites.push(SiteWorkers {
                site: Site::new(number, plan.sites[0].clone()),
                service: None,
                persistent: None,
            });
            first.get_or_insert(plan);
        }
        let process = Process::new(Registry::new(1), Log::quiet(), 0);
        let setup = Setup::new(first.unwrap().into(), sites);
        let sites = setup.workers.clone();
        let service = Service::new(process, setup, PageCache::new(0, 1));
        let thread = ServeThread::new(0, 1, service, false);
        let begun = thread.context.clock.now();
        Stage { thread, sites, begun, _folder: folder }
    }

    /// The status of the response, and whether the request had to wait for a worker of low priority.
    async fn send(&self, visit: &Visit) -> (u16, bool) {
        let (thread, site) = (&self.thread, &self.sites[visit.place as usize]);
        let due = Duration::from_millis(visit.at);
        thread.context.clock.pass(due.saturating_sub(thread.context.clock.now() - self.begun));
        let text =
            format!("{} {} HTTP/1.1\r\nHost: a.test\r\n{}\r\n", visit.method, visit.target, visit.fields);
        let mut head = Head::default();
        let limits = Limits { bytes: 16_384, fields: 50, target: 8_192 };
        head.parse(text.as_bytes(), &limits).unwrap_or_else(|_| panic!("{text}")).unwrap();
        let client = Some((visit.address, 5000).into());
        let ends = Ends { client, local: None, scheme: Scheme::Https, tls: None };
        let mut request = Request::direct(head, ends);
        let script = loop {
            match respond(thread, site, &mut request).1 {
                Step::Make(Make { maker: Maker::Script(script), .. }) => break script,
                Step::Answer(reply) => return (reply.status, false),
                Step::Wait(waiting) => {
                    if let Some(reply) = waiting.await {
                        return (reply.status, false);
                    }
                }
                _ => panic!("{visit:?}: no response"),
            }
        };
        if !visit.content.is_empty() {
            request.content = Content::Memory(visit.content.clone().into());
        }
        let seen = thread.shield.look(&thread.context, site, &request, &script);
        let pass = match thread.shield.admit(&thread.context, site, seen, &mut request).await {
            Ok(pass) => pass,
            Err(reply) => return (reply.status, false),
        };
        site.visitors.begin(&thread.context, &mut request, None);
        if let Some(heard) = request.found.visit.as_ref().filter(|_| !visit.note.is_empty()) {
            heard.hear(visit.note.as_bytes());
            heard.hear(b"end");
        }
        thread.context.clock.pass(Duration::from_millis(RUN));
        drop(pass);
        let (status, kind) = visit.answer;
        thread.shield.checked(&thread.context, seen, status);
        let reply = Reply::new(status).with("Content-Type", kind);
        let missing = Missing::by_script(&reply);
        let refusal =
            (status == 404).then(|| thread.shield.not_found(&thread.context, site, &request, missing));
        (refusal.flatten().map_or(status, |refusal| refusal.status), request.found.runs_aside)
    }
}

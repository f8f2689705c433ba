//! Visitors with a cart.

use std::io;
use std::io::Read;
use std::task::{Context as TaskContext, Poll};

use flate2::read::GzDecoder;
use millrace_wire::encoding::Coding;

use super::super::{cart_differences, recheck};
use super::*;
use crate::cache::preview;
use millrace_base::message::reply::ContentSource;

const COOKIE: &str = "Cookie: wp_woocommerce_session_5f=t1; woocommerce_items_in_cart=1";
const PUBLIC: &[(&str, &str)] =
    &[("Cache-Control", "max-age=600"), ("Millrace-Tag", "post-1, cart-kind-1"), ("ETag", "\"a\"")];
const PASS: &str = "cart by=wp_woocommerce_session_5f pass=600 with=woocommerce_items_in_cart:1 items=post-7";

/// A script's response in pieces; `torn`: its maker dies at the end.
#[derive(Debug)]
struct Pieces {
    left: VecDeque<&'static str>,
    torn: bool,
}

impl ContentSource for Pieces {
    fn length(&self) -> Option<u64> {
        None
    }

    fn poll_next(&mut self, _: &mut TaskContext<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<bool>> {
        let Some(piece) = self.left.pop_front() else {
            return Poll::Ready(if self.torn { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(false) });
        };
        buffer.extend_from_slice(piece.as_bytes());
        Poll::Ready(Ok(true))
    }

    fn take_aside(&mut self) -> Option<Box<Aside>> {
        None
    }
}

fn pieces(left: &[&'static str], torn: bool) -> Body {
    Body::Stream(Box::new(Pieces { left: left.iter().copied().collect(), torn }))
}

impl Scene {
    /// A visitor with a cart asks for the page. If PHP makes it, it responds with `reply` and reports `note`.
    async fn shopper(&self, note: &str, reply: Reply) -> Answer {
        self.shopper_at("/shop", note, reply).await
    }

    /// The same with this target.
    async fn shopper_at(&self, target: &str, note: &str, reply: Reply) -> Answer {
        let run = match self.begins(target, &[COOKIE]) {
            Ok(run) => run,
            Err(reply) => return read(reply, false).await,
        };
        let mut reply = reply;
        let is_late = matches!(reply.body, Body::Stream(_));
        // PHP says last whether the script has read the cart.
        let end: &[u8] = if note.ends_with(" reads") { b"end" } else { b"end unread" };
        if !is_late {
            run.hear(note.as_bytes());
            run.hear(end);
        }
        leaves(self, &run, &mut reply);
        if is_late {
            run.hear(note.as_bytes());
            run.hear(end);
        }
        read(reply, false).await
    }

    /// Makes the public page again with each of these contents, whenever the cache wishes for it.
    async fn refill(&self, contents: &[String]) {
        for content in contents {
            while self.wishes().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            answers(page(PUBLIC, content));
            assert_eq!(&self.get("/shop").await.text, content);
        }
    }

    /// Waits until so many comparisons have had a result.
    async fn until_compared(&self, expected: (u64, u64)) {
        while self.compared() != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A visitor with a cart asks for this page until it comes from the cache; PHP makes it as the public one is. How it came each time.
    async fn ways(&self, target: &str, content: &str) -> Vec<String> {
        let note = format!("{PASS} kind=cart-kind-1 blank=%23cart");
        let mut ways = Vec::new();
        while ways.len() < 5 && !ways.iter().any(|way| way == "cart") {
            let answer = self.shopper_at(target, &note, page(&[], content)).await;
            ways.push(answer.cache().rsplit("detail=").next().unwrap_or_default().to_owned());
        }
        ways
    }

    /// How PHP's page for a visitor with a cart counted: the same as the public one, or not.
    fn compared(&self) -> (u64, u64) {
        (self.count(Counter::CartPagesSame), self.count(Counter::CartPagesDiffer))
    }
}

fn wordpress<F: Future<Output = ()>>(scene: impl FnOnce(Scene) -> F) {
    play(plan::Profile::WordPress, |_| {}, scene);
}

fn shop(cart: &str) -> String {
    format!("<p>shop</p><div id=\"cart\">{cart}</div>")
}

#[test]
fn a_page_is_public_for_a_cart_after_it_was_compared() {
    wordpress(|scene| async move {
        answers(page(PUBLIC, &shop("0")));
        assert_eq!(scene.get("/shop").await.field("ETag"), "\"a\"");
        let note = format!("{PASS} kind=cart-kind-1 blank=%23cart");
        let made = shop("3");
        let cut: &'static str = made.clone().leak();
        let bodies = [
            Body::Bytes(made.clone().into()),
            pieces(&[&cut[..9], &cut[9..]], false),
            pieces(&["", &cut[..20], &cut[20..]], false),
        ];
        for (at, body) in bodies.into_iter().enumerate() {
            let answer = scene.shopper(&note, page(&[], "").body(body)).await;
            assert!(answer.whole && answer.cache().contains("fwd=bypass"), "{at}: {}", answer.cache());
            assert_eq!((answer.text, scene.compared()), (made.clone(), (at as u64 + 1, 0)));
        }
        let answer = scene.shopper("", page(&[], "PHP must not run")).await;
        assert_eq!(answer.text, shop("0"));
        assert!(
            answer.cache().starts_with("millrace; hit; ttl=") && answer.cache().ends_with("; detail=cart")
        );
        assert_eq!((answer.field("Cache-Control"), answer.field("ETag")), ("private, no-store", ""));
        assert_eq!(scene.count(Counter::VisitorsWithCart), 1);
    });
}

#[test]
fn a_coded_page_is_whole_and_a_torn_one_is_not() {
    wordpress(|scene| async move {
        answers(page(PUBLIC, &shop("0")));
        scene.get("/shop").await;
        let note = format!("{PASS} kind=cart-kind-1 blank=%23cart");
        let text: &'static str = shop("5").leak();
        let reply = || page(&[], "").body(pieces(&[&text[..7], &text[7..]], false));
        let run = scene.begins("/shop", &[COOKIE]).expect("PHP does not run");
        let mut reply = reply();
        leaves(&scene, &run, &mut reply);
        let Body::Stream(mut stream) = reply.body else { panic!("no stream") };
        assert!(stream.code(Coding::Gzip) && stream.length().is_none() && !stream.code(Coding::Gzip));
        let mut coded = Vec::new();
        while stream.next(&mut coded).await.unwrap() {}
        let mut found = String::new();
        GzDecoder::new(&coded[..]).read_to_string(&mut found).unwrap();
        assert_eq!(found, text);
        drop(run);
        let torn = page(&[], "").body(pieces(&[text], true));
        assert!(!scene.shopper(&note, torn).await.whole);
        assert_eq!(scene.compared(), (0, 0), "neither was reported, or complete");
    });
}

#[test]
fn every_difference_counts_and_what_cannot_be_compared_does_not() {
    let note = &format!("{PASS} kind=cart-kind-1 blank=%23cart");
    let cookie = &[("Set-Cookie", "seen=1")][..];
    let own = &[("Set-Cookie", "woocommerce_cart_hash=2")][..];
    let redirect = Reply { status: 302, ..page(&[("Location", "/cart")], "") };
    for (what, note, reply, found) in [
        ("the same", note.clone(), page(&[], &shop("1")), (1, 0)),
        ("the cart's cookies", note.clone(), page(own, &shop("1")), (1, 0)),
        ("another cookie", note.clone(), page(cookie, &shop("1")), (0, 1)),
        ("more differs, or is noise", note.clone(), page(&[], &shop("1").replace("shop", "stop")), (0, 0)),
        ("no script, or it is noise", note.replace("blank=%23cart", ""), page(&[], &shop("1")), (0, 0)),
        ("a redirect", note.clone(), redirect, (0, 1)),
        ("the cart was read", format!("{note} reads"), page(&[], &shop("1")), (0, 1)),
        ("another kind", note.replace("kind-1", "kind-2"), page(&[], &shop("1")), (0, 1)),
        ("no kind", PASS.to_owned(), page(&[], "other"), (0, 0)),
        ("a notice", note.replace("pass=600", "held=notice"), page(&[], "other"), (0, 0)),
        ("an error", note.clone(), Reply { status: 500, ..page(&[], "other") }, (0, 0)),
    ] {
        let note = note.clone();
        wordpress(move |scene| async move {
            answers(page(PUBLIC, &shop("0")));
            scene.get("/shop").await;
            scene.shopper(&note, reply).await;
            assert_eq!(scene.compared(), found, "{what}");
        });
    }
}

/// Whatever comparisons have shown: a page that depends on the cart is PHP's, and so is one of which nobody has said that it doesn't.
#[test]
fn a_page_whose_script_has_read_the_cart_is_never_public_for_one() {
    for said in [Some("+ WC_Cart::get_total() by bar() in bar.php"), Some(""), None] {
        wordpress(move |scene| async move {
            let note = format!("{PASS} kind=cart-kind-1 blank=%23cart");
            answers(page(PUBLIC, &shop("0")));
            scene.get("/shop").await;
            for _ in 0..4 {
                scene.shopper(&note, page(&[], &shop("1"))).await;
            }
            assert_eq!(scene.shopper(&note, page(&[], "PHP")).await.text, shop("0"), "the kind is proven");
            let mut other = page(PUBLIC, &shop("0"));
            other.aside.as_mut().unwrap().notes.cart = said.map(|text| text.as_bytes().into());
            answers(other);
            scene.get("/shop?other=1").await;
            let answer = scene.shopper_at("/shop?other=1", &note, page(&[], "PHP")).await;
            assert_eq!(answer.text, "PHP", "{said:?}");
            assert!(answer.cache().contains("detail=cart-reads"), "{}", answer.cache());
        });
    }
}

#[test]
fn a_page_that_was_made_meanwhile_is_not_compared() {
    wordpress(|scene| async move {
        let note = format!("{PASS} kind=cart-kind-1 blank=%23cart");
        scene.shopper(&note, page(&[], "early")).await;
        assert_eq!(scene.compared(), (0, 0), "no public page");
        let run = scene.begins("/shop", &[COOKIE]).expect("PHP does not run");
        tokio::time::sleep(Duration::from_millis(20)).await;
        answers(page(PUBLIC, &shop("0")));
        scene.get("/shop").await;
        run.hear(note.as_bytes());
        run.hear(b"end");
        let mut reply = page(&[], "of before");
        leaves(&scene, &run, &mut reply);
        assert_eq!(scene.compared(), (0, 0), "the public page is newer");
    });
}

#[test]
fn a_page_made_with_arguments_that_are_not_in_the_key_is_not_compared() {
    wordpress(|scene| async move {
        let note = format!("{PASS} kind=cart-kind-1 blank=%23cart");
        answers(page(PUBLIC, &shop("0")));
        scene.get("/shop").await;
        let with_links = page(&[], "<a href=\"/shop?utm_source=mail&add-to-cart=7\">");
        scene.shopper_at("/shop?utm_source=mail", &note, with_links).await;
        assert_eq!(scene.compared(), (0, 0), "PHP has printed the argument");
        for _ in 0..3 {
            scene.shopper(&note, page(&[], &shop("1"))).await;
        }
        let answer = scene.shopper_at("/shop?utm_source=mail", "", page(&[], "PHP must not run")).await;
        assert_eq!(answer.text, shop("0"));
    });
}

/// A page with something at random in it.
fn lucky(banner: &str) -> String {
    shop("0") + banner
}

#[test]
fn what_strangers_get_by_chance_is_no_difference() {
    wordpress(|scene| async move {
        let note = format!("{PASS} kind=cart-kind-1 blank=%23cart");
        answers(page(PUBLIC, &lucky("<i>1</i>")));
        scene.get("/shop").await;
        scene.shopper(&note, page(&[], &lucky("<i>2</i>"))).await;
        assert_eq!(scene.shopper(&note, page(&[], "PHP")).await.text, "PHP", "while it is looked into");
        scene.refill(&["<i>1</i>", "<i>3</i>", "<i>2</i>"].map(lucky)).await;
        scene.until_compared((1, 0)).await;
        // What is known to be noise needs no more pages.
        for (at, banner) in ["<i>3</i>", "<i>1</i>"].map(lucky).into_iter().enumerate() {
            scene.shopper(&note, page(&[], &banner)).await;
            assert_eq!(scene.compared(), (at as u64 + 2, 0));
        }
        assert!(scene.wishes().is_empty());
        assert_eq!(scene.shopper(&note, page(&[], "PHP")).await.text, lucky("<i>2</i>"), "it is proven");
    });
}

#[test]
fn a_difference_is_that_pages_alone() {
    wordpress(|scene| async move {
        let note = format!("{PASS} kind=cart-kind-1 blank=%23cart");
        for target in ["/shop", "/shop?a=1"] {
            answers(page(PUBLIC, &shop("0")));
            scene.get(target).await;
        }
        scene.shopper(&note, page(&[], &(shop("1") + "for you"))).await;
        scene.refill(&[(); 4].map(|()| shop("0"))).await;
        scene.until_compared((0, 1)).await;
        let unproven = ["cart-unproven", "cart-unproven", "cart-unproven", "cart"];
        assert_eq!(scene.ways("/shop?a=1", &shop("1")).await, unproven, "another page of the kind");
        assert_eq!(scene.ways("/shop", &shop("1")).await, ["cart-differs"; 5]);
        let request = scene.request(None, "GET", "/shop", &[COOKIE]);
        let preview = preview(&scene.thread, &scene.site, &request, b"/shop", admit).unwrap();
        let differences = cart_differences(&scene.thread, &scene.site, &preview);
        assert_eq!(differences, [(true, "a text more than on the public page".into())]);
    });
}

/// Noise must not hide anything: what was chosen for the cart is where strangers see something else each time.
#[test]
fn what_strangers_have_never_got_is_a_difference() {
    wordpress(|scene| async move {
        let note = format!("{PASS} kind=cart-kind-1 blank=%23cart");
        answers(page(PUBLIC, &lucky("<i>0</i>")));
        scene.get("/shop").await;
        for turn in 0..3_u32 {
            scene.shopper(&note, page(&[], &lucky("<i>for your bike</i>"))).await;
            let public = (0..8).map(|n| lucky(&format!("<i>{}</i>", 10 * turn + n + 1)));
            scene.refill(&public.collect::<Vec<_>>()).await;
            while recheck::is_running() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        assert_eq!(scene.compared(), (0, 1));
        assert_eq!(scene.ways("/shop", &lucky("<i>for your bike</i>")).await, ["cart-differs"; 5]);
    });
}

/// A mini-cart in the shape of WooCommerce's, whatever version: the browser puts the cart into it.
#[test]
fn what_the_browser_fills_in_may_differ_once_it_is_seen_to_fetch() {
    let shop = |count: u32| {
        format!(
            "<div data-wp-interactive=\"woocommerce/mini-cart\" data-wp-on-document--wc-blocks_added_to_cart=\"woocommerce::actions.refreshCartItems\">\
             <b data-wp-text=\"state.total\">{count}</b></div>"
        )
    };
    wordpress(move |scene| async move {
        let note = format!("{PASS} kind=cart-kind-1");
        answers(page(PUBLIC, &shop(0)));
        scene.get("/shop").await;
        let fetch = |referer: &'static str| {
            let fields = [COOKIE, "Sec-Fetch-Dest: empty", "Sec-Fetch-Site: same-origin", referer];
            let request = scene.request(None, "GET", "/wp-json/wc/store/v1/cart", &fields);
            let mut reply = page(&[], "{}");
            watch(&scene.thread, &scene.site, &request, &mut reply, CacheStatus::NOTHING);
            settle(&scene.thread, &scene.site, &request, &mut reply, CacheStatus::NOTHING);
        };
        for referer in ["Referer: http://elsewhere.example/shop", "Referer: http://a.test/", "X: y"] {
            for _ in 0..4 {
                scene.shopper(&note, page(&[], &shop(1))).await;
                fetch(referer);
            }
            assert_eq!(scene.compared(), (0, 0), "{referer}");
        }
        for _ in 0..4 {
            scene.shopper(&note, page(&[], &shop(1))).await;
            fetch("Referer: http://a.test/shop");
        }
        assert_eq!(scene.compared(), (1, 0));
        for _ in 0..2 {
            scene.shopper(&note, page(&[], &shop(1))).await;
        }
        assert_eq!(scene.shopper(&note, page(&[], "PHP")).await.text, shop(0), "it is proven");
    });
}

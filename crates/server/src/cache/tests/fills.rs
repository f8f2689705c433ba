//! Waiting for fills, and PHP's failures.

use std::cell::Cell;
use std::task::{Context, Poll};

use millrace_settings::plan::Profile;
use tokio::task::JoinHandle;

use super::*;
use millrace_base::message::reply::{ContentSource, plain};
use millrace_base::message::request::PLACE_COOKIE;
use millrace_pages::Tag;

const MINUTE: (&str, &str) = ("Cache-Control", "public, max-age=60");
const A_WHILE: Duration = Duration::from_millis(50);

/// Sends `count` requests at once.
async fn crowd(scene: &Rc<Scene>, count: usize) -> Vec<Answer> {
    all_of(begin(scene, count).await).await
}

/// Sends `count` requests, and returns when each has come as far as it can alone.
async fn begin(scene: &Rc<Scene>, count: usize) -> Vec<JoinHandle<Answer>> {
    let begun = Rc::new(Cell::new(0));
    let ask = |_| {
        let (scene, begun) = (scene.clone(), begun.clone());
        tokio::task::spawn_local(async move {
            begun.set(begun.get() + 1);
            scene.get("/").await
        })
    };
    let asking = (0..count).map(ask).collect();
    while begun.get() < count {
        tokio::task::yield_now().await;
    }
    asking
}

async fn all_of(asking: Vec<JoinHandle<Answer>>) -> Vec<Answer> {
    let mut answers = Vec::new();
    for one in asking {
        answers.push(one.await.unwrap());
    }
    answers
}

/// Asks until the page is this one.
async fn until_text(scene: &Scene, text: &str) {
    while scene.get("/").await.text != text {
        tokio::time::sleep(A_WHILE / 10).await;
    }
}

#[test]
fn a_crowd_waits_for_one_run() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            let scene = Rc::new(scene);
            let gate = gate();
            answers_behind(&gate, page(&[MINUTE], "once"));
            let asking = begin(&scene, 1000).await;
            gate.close();
            let all = all_of(asking).await;
            assert_eq!((runs(), all.iter().filter(|a| a.text == "once").count()), (1, 1000));
            assert_eq!(scene.count(Counter::CacheCollapsed), 999);
            assert_eq!(all[0].cache(), "millrace; fwd=uri-miss; stored");
            assert_eq!(all[999].cache(), "millrace; fwd=uri-miss; stored; collapsed");
        },
    );
}

/// A refusal concerns the address of the client that started the fill, and those that share it.
#[test]
fn a_refused_client_takes_only_its_own_address_with_it() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            let scene = Rc::new(scene);
            let mut refused = plain(503);
            refused.aside = Some(Box::new(Aside { turned_away: true, ..Aside::default() }));
            answers_late(refused, A_WHILE);
            answers_late(page(&[MINUTE], "for the others"), A_WHILE);
            let clients = [
                ("192.0.2.1:1", ""),
                ("192.0.2.1:2", ""),
                ("192.0.2.1:3", "the way in"),
                ("192.0.2.7:1", ""),
            ];
            let asking = clients.map(|(client, place)| {
                let (scene, client) = (scene.clone(), client.parse().ok());
                let cookie = format!("Cookie: {PLACE_COOKIE}={place}");
                let fields = if place.is_empty() { vec![] } else { vec![cookie] };
                tokio::task::spawn_local(async move {
                    let fields: Vec<_> = fields.iter().map(String::as_str).collect();
                    scene.ask_from(client, "GET", "/", &fields).await
                })
            });
            let mut statuses = Vec::new();
            for one in asking {
                statuses.push(one.await.unwrap().status);
            }
            assert_eq!((statuses, runs()), (vec![503, 503, 200, 200], 2));
        },
    );
}

#[test]
fn nobody_queues_for_what_is_for_one_only() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            let scene = Rc::new(scene);
            let (first, others) = (gate(), gate());
            for n in 0..10 {
                let reply = page(&[MINUTE, ("Set-Cookie", &format!("id={n}"))], &n.to_string());
                answers_behind(if n == 0 { &first } else { &others }, reply);
            }
            let asking = begin(&scene, 10).await;
            assert_eq!(runs(), 1);
            first.close();
            // Not one after the other.
            while runs() < 10 {
                tokio::time::sleep(A_WHILE / 10).await;
            }
            others.close();
            let all = all_of(asking).await;
            let mut texts: Vec<_> = all.iter().map(|a| a.text.clone()).collect();
            texts.sort();
            assert_eq!(texts, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
            for answer in &all {
                assert_eq!(answer.field("Set-Cookie"), format!("id={}", answer.text));
            }
            answers(page(&[MINUTE], "public again"));
            let later = scene.get("/").await;
            assert_eq!((&*later.text, runs()), ("public again", 11), "remembered as uncacheable");
            assert_eq!(scene.count(Counter::CacheFills), 1);
        },
    );
}

/// Two visitors with two languages, at once, for an unknown page.
#[test]
fn nobody_gets_the_variant_of_another() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            let scene = Rc::new(scene);
            let in_language = |text| page(&[MINUTE, ("Vary", "Accept-Language")], text);
            answers_late(in_language("hallo"), A_WHILE);
            answers_late(in_language("bonjour"), A_WHILE);
            let asking = ["de", "fr", "fr", "de"].map(|language| {
                let scene = scene.clone();
                tokio::task::spawn_local(async move {
                    scene.ask("GET", "/", &[&format!("Accept-Language: {language}")]).await.text
                })
            });
            let mut texts = Vec::new();
            for one in asking {
                texts.push(one.await.unwrap());
            }
            assert_eq!(texts, ["hallo", "bonjour", "bonjour", "hallo"]);
            assert_eq!(runs(), 2);
            answers(in_language("ciao"));
            let other = scene.ask("GET", "/", &["Accept-Language: it"]).await;
            assert_eq!(other.cache(), "millrace; fwd=vary-miss; stored");
        },
    );
}

#[test]
fn whoever_asked_first_may_leave() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            let scene = Rc::new(scene);
            answers_late(page(&[MINUTE], "made"), A_WHILE);
            let first = tokio::task::spawn_local({
                let scene = scene.clone();
                async move { scene.get("/").await }
            });
            tokio::task::yield_now().await;
            first.abort();
            let second = scene.get("/").await;
            assert_eq!((&*second.text, runs()), ("made", 1));
        },
    );
}

#[test]
fn a_stale_page_is_sent_while_a_new_one_is_made() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            let brief = ("Cache-Control", "public, max-age=1, stale-while-revalidate=60");
            answers(page(&[brief], "old"));
            scene.get("/").await;
            tokio::time::sleep(Duration::from_millis(1300)).await;
            let gate = gate();
            answers_behind(&gate, page(&[MINUTE], "new"));
            for _ in 0..3 {
                let stale = scene.get("/").await;
                assert_eq!((&*stale.text, stale.field("X-Cache")), ("old", "STALE"));
                tokio::task::yield_now().await;
            }
            gate.close();
            until_text(&scene, "new").await;
            assert_eq!(runs(), 2);
        },
    );
}

#[test]
fn after_a_soft_purge_the_very_next_request_gets_the_new_page() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            answers(page(&[("Cache-Control", "public, max-age=60, stale-while-revalidate=60")], "old"));
            scene.get("/").await;
            scene.purge_everything(Hardness::Soft);
            answers(page(&[MINUTE], "new"));
            assert_eq!(scene.get("/").await.text, "new");
            assert_eq!(scene.get("/").await.text, "new");
            assert_eq!(runs(), 2);
        },
    );
}

#[test]
fn a_purge_during_a_run_counts_for_what_it_brings() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            let scene = Rc::new(scene);
            let gate = gate();
            answers_behind(&gate, page(&[MINUTE], "of before the change"));
            let asking = tokio::task::spawn_local({
                let scene = scene.clone();
                async move { scene.get("/").await }
            });
            tokio::task::yield_now().await;
            scene.purge_everything(Hardness::Hard);
            answers(page(&[MINUTE], "of after it"));
            assert_eq!(scene.get("/").await.text, "of after it");
            gate.close();
            let before = asking.await.unwrap();
            // It is superseded, or purged.
            assert_eq!((&*before.text, before.cache().contains("stored")), ("of before the change", false));
            assert_eq!((&*scene.get("/").await.text, runs()), ("of after it", 2));
        },
    );
}

#[test]
fn stale_instead_of_an_error() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            answers(page(&[("Cache-Control", "public, max-age=60, stale-if-error=60")], "old"));
            scene.get("/").await;
            scene.purge_everything(Hardness::Soft);
            answers(plain(503));
            let stale = scene.get("/").await;
            assert_eq!((stale.status, &*stale.text), (200, "old"));
            assert!(stale.cache().contains("fwd=stale; fwd-status=503"), "{}", stale.cache());
            assert_eq!(stale.field("X-Cache"), "STALE");
            scene.purge_everything(Hardness::Hard);
            answers(plain(503));
            let refused = scene.get("/").await;
            assert_eq!((refused.status, refused.field("Retry-After")), (503, "5"));
            answers(page(&[MINUTE], "well again"));
            assert_eq!(scene.get("/").await.text, "well again");
            assert_eq!(scene.count(Counter::CacheFillsFailed), 2);
        },
    );
}

#[test]
fn whoever_waits_too_long_gets_503() {
    let impatient = |plan: &mut plan::Plan| plan.cache.fill_wait = A_WHILE;
    play(Profile::Generic, impatient, async |scene: Scene| {
        let scene = Rc::new(scene);
        let gate = gate();
        answers_behind(&gate, page(&[MINUTE], "late"));
        let asking = begin(&scene, 3).await;
        while scene.count(Counter::CacheWaitTimeouts) < 2 {
            tokio::time::sleep(A_WHILE / 10).await;
        }
        gate.close();
        let all = all_of(asking).await;
        assert_eq!((all[0].status, &*all[0].text), (200, "late"));
        assert_eq!((all[1].status, all[2].status, runs()), (503, 503, 1));
        assert_eq!(all[1].cache(), "millrace; fwd=uri-miss; collapsed; detail=timeout");
        assert_eq!(scene.count(Counter::CacheWaitTimeouts), 2);
    });
}

#[test]
fn nobody_waits_longer_than_that_if_there_is_an_old_page() {
    let impatient = |plan: &mut plan::Plan| plan.cache.fill_wait = A_WHILE;
    play(Profile::Generic, impatient, async |scene: Scene| {
        let scene = Rc::new(scene);
        answers(page(&[("Cache-Control", "public, max-age=60, stale-if-error=60")], "old"));
        scene.get("/").await;
        scene.purge_everything(Hardness::Soft);
        let gate = gate();
        answers_behind(&gate, page(&[MINUTE], "late"));
        // Nor does the first request.
        let all = crowd(&scene, 2).await;
        assert!(all.iter().all(|a| (a.status, &*a.text) == (200, "old")), "{all:?}");
        assert!(all.iter().all(|a| a.cache().ends_with("; detail=timeout")), "{all:?}");
        assert_eq!(scene.count(Counter::CacheWaitTimeouts), 2);
        // The cache now knows that it takes long. A machine that stalls makes some of these slow, not all.
        let mut quickest = A_WHILE;
        for _ in 0..20 {
            let began = std::time::Instant::now();
            assert_eq!(scene.get("/").await.text, "old");
            quickest = quickest.min(began.elapsed());
        }
        assert!(quickest < A_WHILE, "each waited for {quickest:?}");
        gate.close();
        until_text(&scene, "late").await;
        assert_eq!(runs(), 2);
    });
}

#[test]
fn what_an_error_says_is_for_one_only() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            let scene = Rc::new(scene);
            let own = || {
                let reply = Reply::new(503).with("Content-Type", "text/html").with("Retry-After", "7");
                reply.body(Body::Bytes("Dear Alice".into()))
            };
            answers_late(own(), A_WHILE);
            let all = crowd(&scene, 3).await;
            assert_eq!((all[0].status, &*all[0].text), (503, "Dear Alice"));
            assert!(all[1..].iter().all(|a| a.status == 503 && !a.text.contains("Alice")), "{all:?}");
            assert_eq!(runs(), 1);
            // The response is public.
            answers_late(own().with("Cache-Control", "public, max-age=1"), A_WHILE);
            let all = crowd(&scene, 3).await;
            assert!(all.iter().all(|a| a.text == "Dear Alice" && a.field("Retry-After") == "7"), "{all:?}");
        },
    );
}

#[test]
fn php_is_asked_whether_a_page_still_holds() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            let fields = &[("Cache-Control", "public, max-age=1, must-revalidate"), ("ETag", "\"v1\"")];
            answers(page(fields, "the same"));
            scene.get("/").await;
            tokio::time::sleep(Duration::from_millis(1100)).await;
            plays(|request| {
                let asked = request.head.field_text("If-None-Match").map(str::to_owned);
                Box::pin(async move {
                    assert_eq!(asked.as_deref(), Some("\"v1\""));
                    unchanged()
                        .with("ETag", "\"v1\"")
                        .with("X-New", "1")
                        .with("Cache-Control", "public, max-age=60")
                })
            });
            let validated = scene.get("/").await;
            assert_eq!(
                (validated.status, &*validated.text, validated.field("X-New")),
                (200, "the same", "1")
            );
            assert_eq!(scene.get("/").await.cache().split(';').nth(1), Some(" hit"));
            assert_eq!(runs(), 2);
            scene.purge_everything(Hardness::Soft);
            plays(|request| {
                assert!(request.head.field("If-None-Match").is_none(), "a purge says that it has changed");
                Box::pin(std::future::ready(page(&[MINUTE, ("ETag", "\"v1\"")], "changed all the same")))
            });
            assert_eq!(scene.get("/").await.text, "changed all the same");
        },
    );
}

/// Content in pieces, each after a delay; then the end, or an error.
#[derive(Debug)]
struct Slow {
    pieces: VecDeque<Vec<u8>>,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
    breaks: bool,
}

impl ContentSource for Slow {
    fn length(&self) -> Option<u64> {
        None
    }

    fn poll_next(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<std::io::Result<bool>> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(A_WHILE / 10)));
        std::task::ready!(sleep.as_mut().poll(cx));
        self.sleep = None;
        Poll::Ready(match self.pieces.pop_front() {
            Some(piece) => {
                buffer.extend(piece);
                Ok(true)
            }
            None if self.breaks => Err(std::io::ErrorKind::UnexpectedEof.into()),
            None => Ok(false),
        })
    }

    fn take_aside(&mut self) -> Option<Box<Aside>> {
        None
    }
}

fn slow(count: usize, size: usize, breaks: bool) -> Reply {
    let pieces = (0..count).map(|_| vec![b'x'; size]).collect();
    page(&[MINUTE], "").body(Body::Stream(Box::new(Slow { pieces, sleep: None, breaks })))
}

#[test]
fn a_page_that_grows_is_sent_as_it_comes_and_stored_in_the_end() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            let scene = Rc::new(scene);
            answers(slow(5, 1000, false));
            let all = crowd(&scene, 20).await;
            assert!(all.iter().all(|a| a.whole && a.text.len() == 5000));
            while !scene.get("/").await.cache().contains("hit") {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(runs(), 1);
        },
    );
}

#[test]
fn half_a_page_is_not_stored() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            answers(slow(2, 1000, true));
            assert_eq!(scene.get("/").await.status, 502, "nothing of it had left");
            answers(slow(40, 1000, true));
            let half = scene.get("/").await;
            assert!(half.status == 200 && !half.whole);
            tokio::time::sleep(A_WHILE).await;
            answers(page(&[MINUTE], "whole"));
            assert_eq!(scene.get("/").await.text, "whole");
        },
    );
}

#[test]
fn a_page_too_large_is_passed_on_and_not_stored() {
    let small = |plan: &mut plan::Plan| plan.sites[0].cache.page_bytes = 64 << 10;
    play(Profile::Generic, small, async |scene: Scene| {
        answers(slow(20, 40 << 10, false));
        let large = scene.get("/").await;
        assert_eq!((large.whole, large.text.len()), (true, 800 << 10));
        answers(page(&[MINUTE], &"x".repeat(70 << 10)));
        scene.get("/").await;
        answers(page(&[MINUTE], "small"));
        let small = scene.get("/").await.text;
        assert!(small == "small" && runs() == 3);
    });
}

#[test]
fn after_a_purge_an_uncacheable_page_is_tried_again() {
    let tag = |name: &str| Purge::Tag(Tag::named("", name.as_bytes()));
    let path = |path: &str| Purge::Tag(Tag::path("", "a.test", path.as_bytes()));
    let prefix = |path: &str| Purge::Prefix { site: "".into(), host: None, path: path.as_bytes().into() };
    let purges = [
        (path("/a/b"), true),
        (Purge::Tag(Tag::url("", "a.test", b"/a/b", b"")), true),
        (Purge::Tag(Tag::site("")), true),
        (tag("post:1"), true),
        (prefix("/a/"), true),
        (Purge::Everything, true),
        (path("/a"), false),
        (tag("post:2"), false),
        (prefix("/b"), false),
    ];
    play(
        plan::Profile::Generic,
        |_| {},
        async |scene| {
            let private = || page(&[("Cache-Control", "private"), ("Millrace-Tag", "post:1")], "for you");
            for ((what, lifts), how) in
                purges.iter().flat_map(|purge| [(purge, Hardness::Soft), (purge, Hardness::Hard)])
            {
                answers(private());
                assert!(scene.get("/a/b").await.cache().contains("detail=private"), "{what:?}");
                answers(private());
                assert!(scene.get("/a/b").await.cache().contains("detail=uncacheable"), "{what:?}");
                scene.thread.cache.purge(&[(what.clone(), how)]);
                if !lifts {
                    answers(private());
                    assert!(scene.get("/a/b").await.cache().contains("detail=uncacheable"), "{what:?}");
                    scene.purge_everything(how);
                }
                answers(page(&[("Cache-Control", "max-age=60")], "for all"));
                assert_eq!(scene.get("/a/b").await.text, "for all", "{what:?}");
                assert!(scene.get("/a/b").await.cache().contains("; hit"), "{what:?}");
                scene.purge_everything(Hardness::Hard);
            }
        },
    );
}

#[test]
fn what_is_purged_while_it_is_made_is_not_known_to_be_uncacheable() {
    play(
        plan::Profile::Generic,
        |_| {},
        async |scene| {
            let cache = scene.thread.cache.clone();
            plays(move |_| {
                cache.purge(&[(Purge::Tag(Tag::path("", "a.test", b"/")), Hardness::Soft)]);
                Box::pin(std::future::ready(page(&[("Cache-Control", "private")], "old")))
            });
            assert_eq!(scene.get("/").await.text, "old");
            answers(page(&[("Cache-Control", "max-age=60")], "new"));
            scene.get("/").await;
            assert!(scene.get("/").await.cache().contains("; hit"));
        },
    );
}

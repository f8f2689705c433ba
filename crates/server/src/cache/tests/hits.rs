//! Responses from stored pages.

use millrace_settings::plan::Profile;

use super::*;

const MINUTE: (&str, &str) = ("Cache-Control", "public, max-age=60");

fn long() -> String {
    "The quick brown fox jumps over the lazy dog. ".repeat(100)
}

#[test]
fn the_second_request_runs_nothing() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            answers(page(&[MINUTE], "hello"));
            let first = scene.get("/").await;
            let second = scene.get("/").await;
            assert_eq!((runs(), &*first.text, &*second.text), (1, "hello", "hello"));
            assert_eq!(first.cache(), "millrace; fwd=uri-miss; stored");
            assert!(second.cache().starts_with("millrace; hit; ttl="), "{}", second.cache());
            assert_eq!((second.field("Age"), second.field("X-Cache")), ("0", "HIT"));
            assert_eq!(second.field("X-LiteSpeed-Cache"), "hit");
            assert_eq!((scene.count(Counter::CacheHits), scene.count(Counter::CacheMisses)), (1, 1));
        },
    );
}

#[test]
fn every_client_gets_the_coding_it_likes_once_it_is_made() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            answers(page(&[MINUTE], &long()));
            let gzip = &["Accept-Encoding: gzip"];
            let first = scene.ask("GET", "/", gzip).await;
            assert_eq!((first.field("Content-Encoding"), first.field("Vary")), ("gzip", "Accept-Encoding"));
            assert!(first.text.len() < 400);
            let plain = scene.get("/").await;
            assert_eq!(
                (plain.text, plain.fields.iter().any(|(n, _)| n == "Content-Encoding")),
                (long(), false)
            );
            let mut coding = String::new();
            for _ in 0..2000 {
                coding = scene
                    .ask("GET", "/", &["Accept-Encoding: gzip, br, zstd"])
                    .await
                    .field("Content-Encoding")
                    .into();
                if coding == "br" {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert_eq!((&*coding, runs()), ("br", 1));
            // A client with the other form has the page.
            let known = format!("If-None-Match: {}", first.field("ETag"));
            let again = scene.ask("GET", "/", &["Accept-Encoding: gzip, br, zstd", &known]).await;
            assert_eq!((again.status, again.field("ETag")), (304, first.field("ETag")));
            // A client that does not accept it can't use it.
            assert_eq!(scene.ask("GET", "/", &["Accept-Encoding: br", &known]).await.status, 200);
        },
    );
}

#[test]
fn conditions_are_answered_by_form() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            answers(page(&[MINUTE, ("ETag", "\"v1\""), ("X-More", "1")], &long()));
            scene.get("/").await;
            let gzip = scene.ask("GET", "/", &["Accept-Encoding: gzip"]).await;
            assert_eq!(gzip.field("ETag"), "\"v1-gzip\"");
            let known = scene.ask("GET", "/", &["Accept-Encoding: gzip", "If-None-Match: \"v1-gzip\""]).await;
            assert_eq!((known.status, &*known.text, known.field("ETag")), (304, "", "\"v1-gzip\""));
            assert_eq!((known.field("Vary"), known.field("X-More")), ("Accept-Encoding", ""));
            assert_eq!(scene.ask("GET", "/", &["If-None-Match: \"v1-gzip\""]).await.status, 200);
            assert_eq!(scene.ask("GET", "/", &["If-None-Match: W/\"v1\""]).await.status, 304);
            assert_eq!(scene.ask("GET", "/", &["If-Match: \"v2\""]).await.status, 412);
            assert_eq!(runs(), 1);
        },
    );
}

#[test]
fn parts_and_head_come_out_of_the_page() {
    play(
        Profile::WordPress,
        |_| (),
        async |scene: Scene| {
            answers(page(&[MINUTE], "0123456789"));
            let head = scene.ask("HEAD", "/", &[]).await;
            assert_eq!((head.status, runs()), (200, 1));
            assert_eq!(RUNS.with_borrow(|runs| runs[0].clone()), "GET /", "a page is filled by GET");
            let part = scene.ask("GET", "/", &["Range: bytes=2-4"]).await;
            assert_eq!((part.status, &*part.text, part.field("Content-Range")), (206, "234", "bytes 2-4/10"));
            let none = scene.ask("GET", "/", &["Range: bytes=20-"]).await;
            assert_eq!((none.status, none.field("Content-Range")), (416, "bytes */10"));
            let two = scene.ask("GET", "/", &["Range: bytes=0-1,8-"]).await;
            assert_eq!(two.status, 206);
            assert!(two.field("Content-Type").starts_with("multipart/byteranges; boundary="));
            assert!(two.text.contains("Content-Range: bytes 8-9/10\r\n\r\n89\r\n--"), "{}", two.text);
            assert_eq!(runs(), 1);
        },
    );
}

#[test]
fn a_part_of_what_is_not_there_is_left_to_the_script() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            answers(page(&[MINUTE], "all of it"));
            let part = scene.ask("GET", "/", &["Range: bytes=0-1"]).await;
            assert_eq!((part.status, &*part.text), (200, "all of it"));
            answers(page(&[MINUTE], "all of it"));
            scene.get("/").await;
            assert_eq!(runs(), 2, "the first one was not stored");
        },
    );
}

#[test]
fn fields_for_the_server_are_kept_from_clients() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            answers(page(&[("Millrace-Cache-Control", "public, max-age=60"), ("Millrace-Tag", "a, b")], "x"));
            scene.get("/").await;
            let hit = scene.get("/").await;
            assert_eq!(runs(), 1);
            assert!(hit.fields.iter().all(|(name, _)| !name.to_ascii_lowercase().starts_with("millrace-")));
        },
    );
}

#[test]
fn a_script_that_answers_for_everybody_sees_nothing_of_one_client() {
    play(
        Profile::WordPress,
        |_| (),
        async |scene: Scene| {
            let sent = [
                "Cookie: a=1; _ga=2; b=3",
                "cookie: c=4",
                "COOKIE: _gid=5",
                "If-None-Match: \"x\"",
                "Accept-Encoding: br",
                "Cache-Control: no-cache",
                "X-Forwarded-For: 192.0.2.1",
                "X-LSCACHE: on",
                "User-Agent: x",
            ];
            plays(|request| {
                let text = |value| String::from_utf8_lossy(value).into_owned();
                let seen: Vec<_> = request.head.fields().map(|(name, value)| (name, text(value))).collect();
                assert_eq!(seen, [("Host", "a.test".into()), ("User-Agent", "x".into())]);
                assert_eq!(request.withheld, b"a=1; b=3; c=4", "it gets them if it looks for one");
                assert_eq!(request.head.path_query(), b"/?b=2&a=1");
                Box::pin(std::future::ready(page(&[MINUTE], "for all")))
            });
            assert_eq!(scene.ask("GET", "/?b=2&utm_source=x&a=1", &sent).await.text, "for all");
            assert_eq!(scene.get("/?a=1&b=2").await.text, "for all");
        },
    );
}

/// A page that a script has made by looking for this.
fn looked(note: &str, content: &str) -> Reply {
    let mut reply = page(&[MINUTE], content);
    reply.aside.as_mut().unwrap().notes.cookies = Some(note.as_bytes().into());
    reply
}

#[test]
fn a_cookie_that_a_script_looks_for_gets_a_page_of_its_own() {
    play(
        Profile::WordPress,
        |_| (),
        async |scene: Scene| {
            let ask = async |cookie: &str| scene.ask("GET", "/", &[&format!("Cookie: {cookie}")]).await;
            // Stored by a visitor with another cookie, or none.
            for (at, note, own, shared) in [
                (1, "- cur ?lang", "cur=USD", "other=1"),
                (2, "- *", "other=1", "_ga=1"),
                (3, "-", "", "cur=USD"),
                (4, "- CookieConsent", "CookieConsent=1", "_ga=1"),
                (5, "- _ga", "_ga=1", "CookieConsent=1"),
                (6, "- *", "CookieConsent=1", "_ga=1"),
            ] {
                let path = format!("/{at}");
                answers(looked(note, "for all"));
                scene.get(&path).await;
                let get = async |cookie: &str| scene.ask("GET", &path, &[&format!("Cookie: {cookie}")]).await;
                assert_eq!(get(shared).await.text, "for all", "{note} {shared}");
                if !own.is_empty() {
                    answers(looked("- cur", "dollars"));
                    let answer = get(own).await;
                    assert_eq!(
                        (&*answer.text, answer.cache()),
                        ("dollars", "millrace; fwd=bypass; detail=unknown-cookie")
                    );
                }
                assert_eq!(scene.get(&path).await.text, "for all", "{note}");
            }
            // The first visitor has the cookie that is looked for: the response is not a page.
            let before = runs();
            answers(looked("+ cur", "dollars"));
            assert_eq!(ask("cur=USD").await.text, "dollars");
            answers(looked("- cur", "euros"));
            assert_eq!(scene.get("/").await.text, "euros");
            assert_eq!((&*scene.get("/").await.text, runs() - before), ("euros", 2));
        },
    );
}

/// A page that a script has made by reading this of the request; without fields, hooks say that it is public.
fn has_read(note: &str, fields: &[(&str, &str)], content: &str) -> Reply {
    let mut reply = page(fields, content);
    let notes = &mut reply.aside.as_mut().unwrap().notes;
    notes.fields = note.as_bytes().into();
    if fields.is_empty() {
        notes.control = b"public, max-age=60, fallback".to_vec();
    }
    reply
}

#[test]
fn what_a_script_reads_of_the_request_makes_variants() {
    play(
        Profile::WordPress,
        |_| (),
        async |scene: Scene| {
            let ask = async |path: &str, agent: &str| {
                scene.ask("GET", path, &[&format!("User-Agent: {agent}")]).await
            };
            // By name, whether the response says that it is public or not: one for each value.
            for (path, field) in [("/1", &[][..]), ("/2", &[MINUTE])] {
                for (agent, content) in [("phone", "narrow"), ("desk", "wide")] {
                    answers(has_read("HTTP_USER_AGENT /a.php:3", field, content));
                    assert_eq!(ask(path, agent).await.text, content);
                }
                let before = runs();
                assert_eq!(ask(path, "phone").await.text, "narrow");
                assert_eq!((&*ask(path, "desk").await.text, runs() - before), ("wide", 0));
            }
            // A redirect, too.
            let moved = |to: &str| Reply {
                status: 301,
                ..has_read("HTTP_USER_AGENT /a.php:3", &[MINUTE, ("Location", to)], "")
            };
            for (agent, to) in [("phone", "/m"), ("desk", "/d")] {
                answers(moved(to));
                assert_eq!(ask("/3", agent).await.field("location"), to, "{agent}");
            }
            assert_eq!(ask("/3", "phone").await.field("location"), "/m");
            // The address has no variants; nor have all fields, unless the response itself says that it is public.
            for (path, note, field, stored) in [
                ("/4", "REMOTE_ADDR /a.php:3", &[][..], false),
                ("/5", "REMOTE_ADDR /a.php:3", &[MINUTE], false),
                ("/6", "* /a.php:3", &[], false),
                ("/7", "* /a.php:3", &[MINUTE], true),
                ("/8", "SERVER_ADDR /a.php:3", &[], true),
            ] {
                let before = runs();
                answers(has_read(note, field, "a page"));
                scene.get(path).await;
                if !stored {
                    answers(has_read(note, field, "a page"));
                }
                scene.get(path).await;
                assert_eq!(runs() - before, if stored { 1 } else { 2 }, "{note} {field:?}");
            }
        },
    );
}

#[test]
fn an_administrator_knows_which_fields_mean_nothing() {
    play(
        Profile::WordPress,
        |plan| plan.sites[0].cache.ignore_fields = vec!["user-agent".to_owned(), "remote-addr".to_owned()],
        async |scene: Scene| {
            answers(has_read("HTTP_USER_AGENT /a.php:3\nREMOTE_ADDR /a.php:4", &[MINUTE], "for all"));
            scene.get("/").await;
            assert_eq!(
                (scene.ask("GET", "/", &["User-Agent: a"]).await.text, runs()),
                ("for all".to_owned(), 1)
            );
        },
    );
}

#[test]
fn an_application_that_nobody_knows_sees_requests_as_they_came() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            for (method, target, fields) in [
                ("HEAD", "/", &[][..]),
                ("GET", "/", &["If-None-Match: \"v1\""][..]),
                ("GET", "/?utm_source=x", &[][..]),
                ("GET", "/?a=1", &["Accept-Encoding: br", "Cookie: _ga=1; a=2"][..]),
            ] {
                let (fields, sent) = (fields.to_vec(), fields.len());
                plays(move |request| {
                    // A cookie that it has not looked for yet.
                    let seen = request.head.fields().count() + usize::from(!request.withheld.is_empty());
                    Box::pin(async move {
                        assert_eq!(seen, 1 + sent);
                        page(&[MINUTE, ("Content-Encoding", "br")], "coded by PHP")
                    })
                });
                scene.ask(method, target, &fields).await;
            }
            assert_eq!(RUNS.with_borrow(Vec::clone), ["HEAD /", "GET /", "GET /?utm_source=x", "GET /?a=1"]);
            answers(page(&[MINUTE], "plain"));
            assert_eq!(scene.get("/?a=1").await.text, "plain", "what PHP coded for one is not for others");
            // The order of arguments doesn't make a script special.
            answers(page(&[MINUTE], "in any order"));
            scene.get("/?b=1&a=2").await;
            assert_eq!(scene.get("/?a=2&b=1").await.text, "in any order");
        },
    );
}

const PERMANENT: (&str, &str) = ("Cache-Control", "public, max-age=600");

fn moved(location: &str) -> Reply {
    Reply { status: 301, ..page(&[PERMANENT, ("Location", location)], "") }
}

/// What a campaign's links get: `script` is what PHP answers without and with the arguments.
#[test]
fn redirects_keep_the_arguments_that_keys_leave_out() {
    play(
        Profile::WordPress,
        |_| (),
        async |scene: Scene| {
            for _ in 0..2 {
                answers(moved("/new/"));
            }
            let first = scene.get("/old?utm_source=mail&gclid=1").await;
            assert_eq!(
                (first.status, first.field("Location")),
                (301, "/new/?utm_source=mail&gclid=1"),
                "made for it"
            );
            assert_eq!(scene.get("/old").await.field("Location"), "/new/");
            let stored = runs();
            let hit = scene.get("/old?utm_source=news").await;
            assert_eq!(
                (hit.field("Location"), runs()),
                ("/new/?utm_source=news", stored),
                "from the cache: {}",
                hit.cache()
            );
            assert_eq!(scene.get("/old").await.field("Location"), "/new/", "and no other request has them");
        },
    );
}

#[test]
fn a_redirect_to_another_site_is_made_by_the_script_for_the_whole_request() {
    play(
        Profile::WordPress,
        |_| (),
        async |scene: Scene| {
            answers(moved("https://partner.test/?aff=1"));
            answers(page(&[], "alone"));
            let plain = scene.get("/go").await;
            assert_eq!((plain.field("Location"), runs()), ("https://partner.test/?aff=1", 1));
            let campaign = scene.get("/go?gclid=1").await;
            assert_eq!(
                (campaign.text.as_str(), runs()),
                ("alone", 2),
                "the script runs for it alone: {}",
                campaign.cache()
            );
            assert_eq!(scene.get("/go").await.field("Location"), "https://partner.test/?aff=1");
        },
    );
}

#[test]
fn an_unknown_application_decides_about_them_itself() {
    play(
        Profile::Generic,
        |_| (),
        async |scene: Scene| {
            answers(moved("/new/"));
            answers(page(&[], "alone"));
            scene.get("/old").await;
            assert_eq!(scene.get("/old").await.field("Location"), "/new/");
            assert_eq!((scene.get("/old?gclid=1").await.text.as_str(), runs()), ("alone", 2));
        },
    );
}

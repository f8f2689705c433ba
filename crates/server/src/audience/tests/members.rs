//! Members.

use super::*;

const SCRIPT: &[(&str, &str)] =
    &[("Cache-Control", "no-store, private"), ("Expires", "Wed, 11 Jan 1984 05:00:00 GMT")];
const NAMES: [&str; 5] = ["Anna Alt", "Bert Box", "Cora Cox", "Dora Day", "Emil Eck"];

/// What PHP reports about a member, and about the page that it has made.
fn said(number: usize, role: &str, page: &str) -> Vec<String> {
    let name = NAMES[number].replace(' ', "%20");
    let login = format!(
        "login by=wordpress_logged_in_5f user={number} pass=600 role={role} rows=ab values={name},{number}0aabbccdd {page}"
    );
    vec!["tags post-1,list-post".to_owned(), login, "end".to_owned()]
}

const SHARED: &str = "kind=member-kind-1 page=600";

fn text(number: usize) -> String {
    format!(
        "<p>Hello {}</p><a href=\"?n={number}0aabbccdd\">Log out</a>{}",
        NAMES[number],
        "<p>text</p>".repeat(300)
    )
}

fn made(number: usize) -> Reply {
    page(SCRIPT, &text(number))
}

impl Scene {
    /// A member asks for a page. If PHP makes it, it responds with `reply` and reports this.
    async fn member(
        &self,
        number: usize,
        target: &str,
        fields: &[&str],
        notes: &[String],
        reply: Reply,
    ) -> Answer {
        let cookie = format!("Cookie: wordpress_logged_in_5f={number}");
        let fields: Vec<&str> = fields.iter().copied().chain([cookie.as_str()]).collect();
        let run = match self.begins(target, &fields) {
            Ok(run) => run,
            Err(reply) => return read(reply, false).await,
        };
        // Pages are told apart by the millisecond in which they were stored.
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.thread.context.clock.read();
        notes.iter().for_each(|note| run.hear(note.as_bytes()));
        let mut reply = reply;
        leaves(self, &run, &mut reply);
        tokio::time::sleep(Duration::from_millis(2)).await;
        read(reply, false).await
    }

    async fn shared(&self, number: usize) -> Answer {
        self.member(number, "/news", &[], &said(number, "gold", SHARED), made(number)).await
    }

    /// Four members get the page from PHP.
    async fn prove(&self) {
        for number in 0..4 {
            let answer = self.shared(number).await;
            assert!(answer.cache().contains("fwd=bypass"), "{number}: {}", answer.cache());
        }
    }

    fn pages_compared(&self) -> (u64, u64) {
        (self.count(Counter::MemberPagesSame), self.count(Counter::MemberPagesDiffer))
    }
}

fn club<F: Future<Output = ()>>(scene: impl FnOnce(Scene) -> F) {
    play(plan::Profile::WordPress, |plan| plan.sites[0].cache.members = plan::Members::Roles, scene);
}

/// Why PHP made a page.
fn why(answer: &Answer) -> &str {
    answer.cache().rsplit("detail=").next().unwrap_or("")
}

#[test]
fn a_page_is_shared_after_it_was_the_same_for_four_members() {
    club(|scene| async move {
        scene.prove().await;
        assert_eq!(scene.pages_compared(), (3, 0));
        for number in [0, 3, 0] {
            let answer = scene.member(number, "/news", &[], &[], page(&[], "PHP must not run")).await;
            assert_eq!(answer.text, text(number));
            assert!(answer.cache().contains("; hit; ttl=") && answer.cache().ends_with("; detail=member"));
            assert_eq!(
                (answer.field("Cache-Control"), answer.field("ETag"), answer.field("Expires")),
                ("private, no-store", "", "")
            );
        }
        assert_eq!(scene.count(Counter::VisitorsMembers), 3);
        let answer = scene.member(0, "/news", &["Accept-Encoding: gzip"], &[], made(0)).await;
        assert_eq!(answer.field("Content-Encoding"), "gzip");
        let answer = scene.member(0, "/news", &["Range: bytes=0-1"], &[], made(0)).await;
        assert_eq!(why(&answer), "member-range");
        // PHP has not seen the fifth one yet. The public page is another one.
        assert_eq!(why(&scene.shared(4).await), "cookie");
        answers(page(&[("Cache-Control", "max-age=600")], "public"));
        assert_eq!(scene.get("/news").await.text, "public");
    });
}

#[test]
fn a_page_made_with_arguments_that_are_not_in_the_key_is_not_stored() {
    club(|scene| async move {
        for number in 0..4 {
            let reply = page(SCRIPT, "<a href=\"/news?utm_source=mail&page=2\">");
            scene.member(number, "/news?utm_source=mail", &[], &said(number, "gold", SHARED), reply).await;
        }
        assert_eq!(scene.pages_compared(), (0, 0));
        scene.prove().await;
        let reply = page(&[], "PHP must not run");
        assert_eq!(scene.member(0, "/news?utm_source=mail", &[], &[], reply).await.text, text(0));
    });
}

#[test]
fn other_rights_have_other_pages() {
    club(|scene| async move {
        scene.prove().await;
        // The page of this run is the first one for its role; the pass holds from now on.
        let silver = |number| said(number, "silver", "kind=member-kind-2 page=600");
        for number in [0, 0, 1, 2] {
            let cookie = format!("user-{number}");
            scene.site.visitors.member_rows().unwrap().written(cookie.as_bytes());
            let answer = scene.member(number, "/news", &[], &silver(number), page(SCRIPT, "join")).await;
            assert!(
                matches!(why(&answer), "member-changed" | "member-unproven"),
                "{number}: {}",
                answer.cache()
            );
            assert_eq!(answer.text, "join");
        }
        let answer = scene.member(3, "/news", &[], &[], made(3)).await;
        assert!(answer.cache().contains("; hit"), "{}", answer.cache());
    });
}

#[test]
fn what_ends_a_pass() {
    club(|scene| async move {
        let rows = scene.site.visitors.member_rows().unwrap();
        let ask = async |number| {
            why(&scene.member(number, "/news", &[], &said(number, "gold", SHARED), made(number)).await)
                .to_owned()
        };
        scene.prove().await;
        for (items, held) in [
            ("user-1", "member"),
            ("post-0,option-a", "member"),
            (" user-0", "member-changed"),
            ("post-3, user-*", "member-changed"),
            ("option-wp_user_roles", "member-changed"),
            ("option-*", "member-changed"),
        ] {
            rows.written(items.as_bytes());
            assert_eq!(ask(0).await, held, "{items}");
            assert_eq!(ask(0).await, "member", "after {items}");
        }
        // A request that changes something.
        let mut request = scene.request(None, "POST", "/news", &["Cookie: wordpress_logged_in_5f=0"]);
        scene.site.visitors.begin(&scene.thread.context, &mut request, None);
        assert_eq!(ask(0).await, "member-changing");
        drop(request);
        assert_eq!((ask(0).await.as_str(), ask(0).await.as_str()), ("member-changing", "member"));
    });
}

#[test]
fn every_difference_closes_the_kind() {
    let with = |content: &str| page(SCRIPT, &format!("{}{content}", text(4)));
    let cookie = [SCRIPT, &[("Set-Cookie", "seen=1")]].concat();
    let named = [SCRIPT, &[("X-User", "Emil Eck")]].concat();
    let more = [SCRIPT, &[("X-More", "1")]].concat();
    let own = [SCRIPT, &[("Millrace-Cache-Control", "no-store")]].concat();
    for (what, notes, reply, differs) in [
        ("the same", SHARED, made(4), false),
        ("more text", SHARED, with("more"), true),
        ("a nonce", SHARED, with("\"nonce\":\"0123456789\""), true),
        ("another's name", SHARED, page(SCRIPT, &text(4).replace("Emil Eck", "Anna Alt")), true),
        ("a cookie", SHARED, page(&cookie, &text(4)), true),
        ("the name in a field", SHARED, page(&named, &text(4)), true),
        ("another field", SHARED, page(&more, &text(4)), true),
        ("its own word on caching", SHARED, page(&own, &text(4)), true),
        ("personal", "kind=none", made(4), true),
        ("another kind", "kind=member-kind-2 page=600", made(4), true),
        ("a redirect", SHARED, Reply { status: 302, ..made(4) }, true),
        ("an error", SHARED, Reply { status: 500, ..made(4) }, false),
    ] {
        club(move |scene| async move {
            scene.prove().await;
            scene.member(4, "/news", &[], &said(4, "gold", notes), reply).await;
            assert_eq!(scene.pages_compared().1, u64::from(differs), "{what}");
            let answer = scene.shared(0).await;
            assert_eq!(answer.cache().contains("; hit"), !differs, "{what}: {}", answer.cache());
        });
    }
}

#[test]
fn each_page_is_confirmed() {
    club(|scene| async move {
        scene.prove().await;
        // Of a kind that is proven, another page. It has the name of the member who makes it first, and of the second one.
        let other = async |number: usize, more: &str| {
            let text =
                format!("<p>Hello {}</p><p>Anna Alt and Bert Box are members</p>{more}", NAMES[number]);
            scene.member(number, "/about", &[], &said(number, "gold", SHARED), page(SCRIPT, &text)).await
        };
        assert_eq!(why(&other(0, "").await), "member-page");
        assert_eq!(why(&other(0, "").await), "member-unproven", "made once");
        assert_eq!(why(&other(1, "").await), "member-unproven");
        for number in [0, 1, 2, 3] {
            let answer = other(number, "").await;
            assert!(answer.cache().contains("; hit"), "{number}: {}", answer.cache());
            assert!(
                answer.text.ends_with(&format!(
                    "Hello {}</p><p>Anna Alt and Bert Box are members</p>",
                    NAMES[number]
                ))
            );
        }
        assert_eq!(why(&other(4, "for all").await), "cookie");
        assert_eq!(scene.pages_compared().1, 1);
        assert_eq!(why(&other(2, "").await), "member-differs");
    });
}

#[test]
fn a_purge_meanwhile_or_later() {
    club(|scene| async move {
        scene.prove().await;
        scene.purge_everything(Hardness::Soft);
        assert_eq!(why(&scene.shared(0).await), "member-page", "stale pages are not used");
        assert_eq!(why(&scene.shared(1).await), "member-unproven");
        assert!(scene.shared(2).await.cache().contains("; hit"));
        // One that comes while PHP makes the page.
        scene.purge_everything(Hardness::Hard);
        let run = scene.begins("/news", &["Cookie: wordpress_logged_in_5f=0"]).expect("PHP does not run");
        scene.purge_everything(Hardness::Soft);
        said(0, "gold", SHARED).iter().for_each(|note| run.hear(note.as_bytes()));
        leaves(&scene, &run, &mut made(0));
        assert_eq!(why(&scene.shared(1).await), "member-page", "nothing was stored");
    });
}

#[test]
fn without_the_setting_nothing_is_shared() {
    play(
        plan::Profile::WordPress,
        |_| {},
        |scene| async move {
            for number in [0, 1, 2, 3, 0, 1] {
                assert_eq!(why(&scene.shared(number).await), "cookie");
            }
            assert_eq!((scene.pages_compared(), scene.thread.cache.usage().pages), ((0, 0), 0));
        },
    );
}

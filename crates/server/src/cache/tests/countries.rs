//! Pages that differ by the visitor's country.

use millrace_pages::{Notes, PeekEntry};

use super::*;
use crate::audience::admit;
use crate::cache::{Decision, preview};

const GERMAN: &str = "192.0.2.1:1";
const GERMAN_TOO: &str = "192.0.2.2:1";
const FRENCH: &str = "198.51.100.1:1";
const OTHER: &str = "203.0.113.1:1";

impl Scene {
    /// PHP makes the page for this country, and reports that the client's address is in it if `by_address`.
    fn php(&self, country: &'static str, by_address: bool) {
        let (site, thread) = (self.site.clone(), self.thread.clone());
        plays(move |mut request| {
            site.visitors.begin(&thread.context, &mut request, site.cache.as_deref());
            if by_address {
                request
                    .found
                    .visit
                    .as_ref()
                    .expect("a visit")
                    .hear(format!("place country={country}").as_bytes());
            }
            let control = format!("public, max-age=600, country={country}, fallback").into_bytes();
            let notes = Notes { control, ..Notes::default() };
            let mut reply = page(&[], country);
            reply.aside = Some(Box::new(Aside { notes, ..Aside::default() }));
            Box::pin(std::future::ready(reply))
        });
    }

    /// A page, as `hit CONTENT`, or why it is none and its content.
    async fn from(&self, client: &str, is_forwarded: bool, fields: &[&str]) -> String {
        let ask = || Request {
            is_forwarded,
            ..self.request(Some(client.parse().unwrap()), "GET", "/shop", fields)
        };
        self.thread.context.clock.read();
        let (request, same) = (ask(), ask());
        let would = preview(&self.thread, &self.site, &request, b"/shop", admit).expect("the cache is on");
        let would_hit = would.decision == Decision::Lookup && matches!(would.peek.entry, PeekEntry::Page(_));
        let reply = match consult(&self.thread, &self.site, &request, b"/shop", &maker, admit) {
            Step::Answer(reply) => reply,
            Step::Make(PageRun { page: Some(page), .. }) => match page.await {
                Waited::Reply(reply) => reply,
                _ => panic!("it would have to ask again"),
            },
            Step::Make(PageRun { status: cache_status, .. }) => self.alone(request, same, cache_status).await,
            _ => unreachable!("this is no crowd loop"),
        };
        let answer = read(reply, false).await;
        let status = answer.cache();
        let is_hit = status.starts_with("millrace; hit");
        assert_eq!(would_hit, is_hit, "as it is explained: {client} {fields:?}");
        let stored = if status.contains("; stored") { "stored" } else { "passed" };
        format!(
            "{} {}",
            if is_hit {
                "hit"
            } else if status.contains("detail=country") {
                "country"
            } else {
                stored
            },
            answer.text
        )
    }
}

fn countries<F: Future<Output = ()>>(scene: impl FnOnce(Scene) -> F) {
    play(plan::Profile::WordPress, |_| (), scene);
}

#[test]
fn each_country_has_its_page() {
    countries(async |scene| {
        scene.php("DE", true);
        assert_eq!(scene.from(GERMAN, false, &[]).await, "stored DE");
        assert_eq!(scene.from(GERMAN, false, &[]).await, "hit DE");
        // Of another address nothing is known until PHP has run for it.
        for (client, country) in [(FRENCH, "FR"), (GERMAN_TOO, "DE")] {
            scene.php(country, true);
            assert_eq!(scene.from(client, false, &[]).await, format!("country {country}"), "{client}");
        }
        assert_eq!(scene.from(GERMAN_TOO, false, &[]).await, "hit DE");
        scene.php("FR", true);
        assert_eq!(scene.from(FRENCH, false, &[]).await, "stored FR");
        assert_eq!(scene.from(FRENCH, false, &[]).await, "hit FR");
        assert_eq!(scene.from(GERMAN, false, &[]).await, "hit DE");
        // A crawler sees the shop's own country, wherever it is.
        scene.php("US", false);
        assert_eq!(scene.from(FRENCH, false, &["User-Agent: a Crawler"]).await, "country US");
        scene.purge_everything(Hardness::Hard);
        scene.php("FR", true);
        assert_eq!(scene.from(FRENCH, false, &[]).await, "stored FR");
    });
}

#[test]
fn a_field_counts_from_a_trusted_proxy_only() {
    countries(async |scene| {
        let named = ["CF-IPCountry: fr"];
        // The first page of all: PHP believes the field, the server does not.
        scene.php("FR", false);
        assert_eq!(scene.from(GERMAN, false, &named).await, "country FR");
        scene.thread.context.clock.read();
        scene.purge_everything(Hardness::Hard);
        scene.php("FR", false);
        assert_eq!(scene.from(OTHER, true, &named).await, "stored FR");
        assert_eq!(scene.from(GERMAN, true, &named).await, "hit FR");
        scene.php("FR", false);
        assert_eq!(scene.from(GERMAN, false, &named).await, "country FR");
        // What is known of the address, another field, and one that is no country.
        scene.php("DE", true);
        assert_eq!(scene.from(GERMAN, true, &[]).await, "country DE");
        for (fields, expected) in [
            (&["X-Country-Code: FR"][..], "hit FR"),
            (&["X-Country-Code: DE", "CF-IPCountry: FR"], "hit FR"),
            (&["CF-IPCountry: 0", "X-Country-Code: FR"], "hit FR"),
        ] {
            assert_eq!(scene.from(GERMAN, true, fields).await, expected, "{fields:?}");
        }
        for fields in [&["CF-IPCountry: France"][..], &["CF-IPCountry: FR", "CF-IPCountry: FR"]] {
            scene.php("FR", false);
            assert_eq!(scene.from(GERMAN, true, fields).await, "country FR", "{fields:?}");
        }
    });
}

#[test]
fn a_page_for_another_country_than_the_clients_is_not_stored() {
    countries(async |scene| {
        scene.php("DE", true);
        assert_eq!(scene.from(GERMAN, false, &[]).await, "stored DE");
        scene.php("FR", true);
        assert_eq!(scene.from(FRENCH, false, &[]).await, "country FR");
        // PHP has looked up another address for it, or WooCommerce's database is a new one: nothing of it is stored for the French.
        scene.php("DE", false);
        assert_eq!(scene.from(FRENCH, false, &[]).await, "country DE");
        assert_eq!(scene.from(GERMAN, false, &[]).await, "hit DE");
    });
}

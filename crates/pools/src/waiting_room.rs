//! The waiting room: the response to a browser that asks for a page and can't be served within `php.queue_wait`. It
//! is a 503 with `Retry-After` and a small page, made without PHP, that shows the expected wait and reloads itself,
//! with or without JavaScript. A signed cookie stores the time of arrival ([`places`](super::pool::places)), so that
//! the browser that has waited longest goes first. Other clients get the plain 503.

use std::rc::Rc;

use super::SiteWorkers;
use super::job::PhpJob;
use super::pool::places::KeptPlace;
use crate::PhpThread;
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::{Body, Reply};
use millrace_base::message::request::{PLACE_COOKIE, Request, Scheme};
use millrace_base::site::{Script, Site};

/// The page, if the site has no page of its own.
const PAGE: &str = include_str!("waiting_room/page.html");

/// The texts of the page in one language.
struct Words {
    /// Its tag (RFC 5646), without region.
    language: &'static str,
    title: &'static str,
    /// Why the page is not there.
    busy: &'static str,
    /// The expected wait; `{}` is replaced by the number.
    seconds: &'static str,
    minutes: &'static str,
    /// The page reloads itself.
    stay: &'static str,
    /// The visitor must send the form again.
    again: &'static str,
}

const WORDS: [Words; 6] = [
    Words {
        language: "en",
        title: "You are in line",
        busy: "Many people are visiting this site right now.",
        seconds: "Your page should be here in about {} seconds.",
        minutes: "Your page should be here in about {} minutes.",
        stay: "Please leave this page open. It reloads by itself and keeps your place.",
        again: "What you sent has not arrived yet. Please reload this page to send it again; your place is kept.",
    },
    Words {
        language: "de",
        title: "Sie stehen in der Warteschlange",
        busy: "Diese Website hat gerade sehr viele Besucher.",
        seconds: "Ihre Seite sollte in etwa {} Sekunden da sein.",
        minutes: "Ihre Seite sollte in etwa {} Minuten da sein.",
        stay: "Bitte lassen Sie diese Seite offen. Sie lädt von selbst neu und behält Ihren Platz.",
        again: "Ihre Eingabe ist noch nicht angekommen. Bitte laden Sie diese Seite neu, um sie noch einmal zu senden; Ihr Platz bleibt erhalten.",
    },
    Words {
        language: "fr",
        title: "Vous êtes dans la file d’attente",
        busy: "Ce site reçoit actuellement beaucoup de visiteurs.",
        seconds: "Votre page devrait s’afficher dans environ {} secondes.",
        minutes: "Votre page devrait s’afficher dans environ {} minutes.",
        stay: "Laissez cette page ouverte : elle se recharge toute seule et garde votre place.",
        again: "Votre envoi n’est pas encore arrivé. Rechargez cette page pour l’envoyer de nouveau ; votre place est conservée.",
    },
    Words {
        language: "es",
        title: "Está en la cola",
        busy: "Este sitio tiene muchos visitantes en este momento.",
        seconds: "Su página debería aparecer en unos {} segundos.",
        minutes: "Su página debería aparecer en unos {} minutos.",
        stay: "Deje esta página abierta: se recarga sola y conserva su lugar.",
        again: "Lo que envió aún no ha llegado. Recargue esta página para enviarlo de nuevo; su lugar se conserva.",
    },
    Words {
        language: "pt",
        title: "Você está na fila",
        busy: "Este site tem muitos visitantes neste momento.",
        seconds: "Sua página deve aparecer em cerca de {} segundos.",
        minutes: "Sua página deve aparecer em cerca de {} minutos.",
        stay: "Deixe esta página aberta: ela se recarrega sozinha e guarda o seu lugar.",
        again: "O que você enviou ainda não chegou. Recarregue esta página para enviar de novo; o seu lugar está guardado.",
    },
    Words {
        language: "ja",
        title: "順番にご案内しています",
        busy: "ただいまアクセスが集中しています。",
        seconds: "あと約{}秒でページが表示されます。",
        minutes: "あと約{}分でページが表示されます。",
        stay: "このページを開いたままお待ちください。自動的に再読み込みされ、順番は保たれます。",
        again: "送信内容はまだ届いていません。このページを再読み込みしてもう一度送信してください。順番は保たれます。",
    },
];

/// The response to a request that was refused: a place in the waiting room if a browser asks for a page, otherwise
/// `reply` unchanged.
pub fn seat(
    thread: &Rc<PhpThread>,
    site: &SiteWorkers,
    request: &Request,
    script: &Script,
    reply: Reply,
) -> Reply {
    // A client that has sent too many requests need not wait for others.
    if !reply.is_turned_away() || reply.status != 503 || !site.plan.waiting_room || !is_navigation(request) {
        return reply;
    }
    let Some(service) = site.service_of(script.workers) else { return reply };
    let job = PhpJob::new(site, request, script, thread.clock.now());
    let Some(place) = service.keep_place(thread, &job, request) else { return reply };
    thread.stats.add(Counter::PhpWaitingRoom, 1);
    page(site, request, &place, reply)
}

/// Whether a browser asks for a page to display: `Sec-Fetch-Mode` (Fetch Metadata) says so, or the browser is too old
/// for that field and asks for HTML. Frames, images and scripts' own requests get no place.
fn is_navigation(request: &Request) -> bool {
    let field = |name| request.head.field(name);
    let has_html = field("accept")
        .is_some_and(|accept| accept.to_ascii_lowercase().windows(9).any(|window| window == b"text/html"));
    let navigates = match (field("sec-fetch-mode"), field("sec-fetch-dest")) {
        (Some(mode), dest) => mode == b"navigate" && dest.is_none_or(|dest| dest == b"document"),
        (None, _) => field("x-requested-with").is_none(),
    };
    let ahead = |name| field(name).is_some_and(|value: &[u8]| value.starts_with(b"prefetch"));
    matches!(request.head.method(), "GET" | "HEAD" | "POST")
        && has_html
        && navigates
        && !ahead("sec-purpose")
        && !ahead("purpose")
}

fn page(site: &Site, request: &Request, told: &KeptPlace, reply: Reply) -> Reply {
    let words = words(request.head.field("accept-language").unwrap_or_default());
    // A reload would fetch the page with GET, and the visitor's input would be lost.
    let comes_back = matches!(request.head.method(), "GET" | "HEAD");
    let template = site.waiting_page.as_deref().unwrap_or(PAGE);
    let time = match told.wait {
        ..90 => words.seconds.replace("{}", &told.wait.to_string()),
        wait => words.minutes.replace("{}", &wait.div_ceil(60).to_string()),
    };
    let text = fill(
        template,
        &[
            ("language", words.language),
            ("title", words.title),
            ("busy", words.busy),
            ("time", &time),
            ("what_to_do", if comes_back { words.stay } else { words.again }),
            ("wait_seconds", &told.wait.to_string()),
            ("retry_seconds", &told.retry.to_string()),
        ],
    );
    let secure = if request.ends.scheme == Scheme::Https { "; Secure" } else { "" };
    let cookie =
        format!("{PLACE_COOKIE}={}; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax{secure}", told.cookie);
    let retry = told.retry.to_string();
    let mut page = Reply::new(503);
    let own = ["content-type", "cache-control", "retry-after"];
    for (name, value) in
        reply.fields.iter().filter(|(name, _)| !own.iter().any(|own| own.eq_ignore_ascii_case(name)))
    {
        page.fields.push(name, value);
    }
    let page = page
        .with("Content-Type", "text/html; charset=utf-8")
        .with("Content-Language", words.language)
        .with("Cache-Control", "no-store")
        .with("Retry-After", &retry)
        .with("Set-Cookie", &cookie);
    let page = if comes_back { page.with("Refresh", &retry) } else { page };
    Reply { aside: reply.aside, ..page }.body(Body::Bytes(text.into_bytes()))
}

/// Replaces each `{{name}}` of the template by its value. Unknown names stay as they are, so that a mistake is
/// visible.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len() + 512);
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        let Some(end) = rest[at..].find("}}") else { break };
        let name = rest[at + 2..at + end].trim();
        text.push_str(&rest[..at]);
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => text.push_str(value),
            None => text.push_str(&rest[at..at + end + 2]),
        }
        rest = &rest[at + end + 2..];
    }
    text + rest
}

/// The texts in the language that the client prefers (`Accept-Language`, RFC 9110 section 12.5.4); English if none of
/// them is available.
fn words(accepted: &[u8]) -> &'static Words {
    let text = std::str::from_utf8(accepted).unwrap_or_default();
    let mut best = (&WORDS[0], 0);
    for range in text.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let tag = parts.next().unwrap_or_default().split('-').next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1_000, thousandths);
        let known = WORDS.iter().find(|words| words.language.eq_ignore_ascii_case(tag));
        if let Some(words) = known.filter(|_| weight > best.1) {
            best = (words, weight);
        }
    }
    best.0
}

fn thousandths(weight: &str) -> u32 {
    weight.parse::<f32>().map_or(0, |weight| (weight.clamp(0.0, 1.0) * 1e3) as u32)
}

#[cfg(test)]
mod tests {
    use millrace_wire::head::{Head, Limits};

    use super::*;
    use millrace_base::message::request::Ends;

    fn request(text: &str) -> Request {
        let mut head = Head::default();
        let limits = Limits { bytes: 16384, fields: 100, target: 8192 };
        head.parse(format!("{text}\r\n\r\n").as_bytes(), &limits).unwrap().unwrap();
        Request::direct(head, Ends { client: None, local: None, scheme: Scheme::Http, tls: None })
    }

    #[test]
    fn browsers_that_ask_for_a_page() {
        let get = |fields: &str| is_navigation(&request(&format!("GET / HTTP/1.1\r\nHost: a{fields}")));
        let html = "\r\nAccept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
        assert!(get(html), "an old browser");
        assert!(get(&format!("{html}\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document")));
        for other in [
            "",
            "\r\nAccept: */*",
            "\r\nAccept: application/json",
            &format!("{html}\r\nX-Requested-With: XMLHttpRequest"),
            &format!("{html}\r\nSec-Fetch-Mode: cors"),
            &format!("{html}\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe"),
            &format!("{html}\r\nSec-Purpose: prefetch;prerender"),
        ] {
            assert!(!get(other), "{other}");
        }
        assert!(is_navigation(&request(&format!("POST /checkout/ HTTP/1.1\r\nHost: a{html}"))));
        assert!(!is_navigation(&request(&format!("DELETE / HTTP/1.1\r\nHost: a{html}"))));
    }

    #[test]
    fn the_language_that_the_client_likes_best() {
        for (accepted, expected) in [
            ("", "en"),
            ("de", "de"),
            ("DE-at, en;q=0.5", "de"),
            ("nl, fr;q=0.4, ja;q=0.7", "ja"),
            ("nl", "en"),
            ("pt-BR,pt;q=0.9,en;q=0.8", "pt"),
            ("es;q=0, en;q=0.1", "en"),
            ("fr;q=x, es;q=0.2", "es"),
        ] {
            assert_eq!(words(accepted.as_bytes()).language, expected, "{accepted}");
        }
    }

    #[test]
    fn templates_are_filled() {
        let values = [("a", "1"), ("b", "{{a}}")];
        assert_eq!(fill("x{{a}}{{ b }}{{c}}{{", &values), "x1{{a}}{{c}}{{");
        for words in &WORDS {
            let names = ["language", "title", "busy", "time", "what_to_do", "wait_seconds", "retry_seconds"];
            let page = fill(PAGE, &names.map(|name| (name, words.title)));
            assert!(!page.contains("{{"), "{page}");
            assert!(words.seconds.contains("{}") && words.minutes.contains("{}"));
        }
    }
}

//! The decisions of the page cache on a request and an application's response. The input is text: flags, a target, the
//! request's field lines, an empty line, a status, the response's field lines, an empty line, the script's orders.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use millrace_pages::judge::{Validators, freshen};
use millrace_pages::key::{LONGEST_KEY, write_kept};
use millrace_pages::purge::{MOST_PURGES, noted, purges};
use millrace_pages::rules::{Lifetimes, NONCE_LIFE, Paths, Patterns};
use millrace_pages::terms::MOST_TAGS;
use millrace_pages::vary::select;
use millrace_pages::{Answer, Asked, Asking, Form, Key, Note, Notes, Page, Place, Purge, Rules, Terms, Verdict, ask, judge};
use millrace_wire::path;

const NOW: u64 = 784_111_777_000;

fuzz_target!(|input: &[u8]| {
    let mut blocks = input.splitn(2, |b| *b == 0);
    let (asked, answered) = (blocks.next().unwrap_or_default(), blocks.next().unwrap_or_default());
    let Some((&flags, asked)) = asked.split_first() else { return };
    let mut lines = asked.split(|b| *b == b'\n');
    let target = lines.next().unwrap_or_default();
    let request: Vec<_> = lines.filter_map(field).collect();
    let (raw, query) = match target.iter().position(|b| *b == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    let mut normal = Vec::new();
    if path::normalise(raw, &mut normal).is_err() {
        return;
    }
    static RULES: LazyLock<[Rules; 4]> = LazyLock::new(|| [0, 1, 2, 3].map(rules));
    let rules = &RULES[usize::from(flags & 3)];
    let place = Place { site: "s", host: "a.test", path: &normal, query };
    let asking = asks(rules, flags, place, raw, &request);
    answers(rules, flags, &place, asking, answered);
});

fn rules(flags: u8) -> Rules {
    if flags & 1 == 0 {
        return Rules::standard();
    }
    let mut rules = Rules::profile();
    rules.lifetimes = Lifetimes { page: 10_000, not_found: 1000, redirect: 1000, other: 1000, ..Lifetimes::default() };
    rules.key_cookies = Patterns::new(["k*"]);
    rules.key_device = flags & 2 != 0;
    rules.bypass_paths = Paths::new(["/x", "*/y*", "*z"]);
    rules.nonce_marks = vec!["nonce".into()];
    rules
}

fn field(line: &[u8]) -> Option<(&str, &[u8])> {
    let colon = line.iter().position(|b| *b == b':')?;
    let name = std::str::from_utf8(&line[..colon]).ok().filter(|name| name.is_ascii() && !name.is_empty())?;
    Some((name, line[colon + 1..].trim_ascii()))
}

/// The key leads back to its page, and is the same for the request that PHP sees in a fill.
fn asks(rules: &Rules, flags: u8, place: Place<'_>, raw: &[u8], request: &[(&str, &[u8])]) -> Asking {
    let mut asked = Asked {
        method: if flags & 4 == 0 { "GET" } else { "HEAD" },
        scheme: "http",
        place,
        rules: b"",
        raw_path: raw,
        host_is_known: true,
        has_content: false,
        fields: request.iter().copied(),
    };
    let (mut key, mut again) = (Vec::new(), Vec::new());
    let Ok(asking) = ask(rules, &asked, &mut key) else { return Asking::default() };
    assert!(key.len() <= LONGEST_KEY);
    assert_eq!(Key::new(&key).place(), (&b"s"[..], &b"a.test"[..], place.path));
    let mut kept = Vec::new();
    if let Some(query) = place.query
        && write_kept(&rules.dropped_arguments, query, &mut kept)
    {
        asked.place.query = Some(&kept[..]).filter(|kept| !kept.is_empty());
        ask(rules, &asked, &mut again).expect("what is dropped does not bypass");
        assert_eq!(key, again);
    }
    for name in ["accept-language", "cookie", "accept", "user-agent", "x", "cookie=k"] {
        let mut value = Vec::new();
        select(rules, request.iter().copied(), name, &mut value);
    }
    asking
}

fn answers(rules: &Rules, flags: u8, place: &Place<'_>, asking: Asking, answered: &[u8]) {
    let Some((&status, answered)) = answered.split_first() else { return };
    let status = [200, 301, 302, 304, 404, 500, 206, 599][usize::from(status % 8)];
    let mut parts = answered.splitn(2, |b| *b == 0);
    let fields: Vec<_> = parts.next().unwrap_or_default().split(|b| *b == b'\n').filter_map(field).collect();
    let said = parts.next().unwrap_or_default();
    let mut notes = Notes::default();
    said.split(|b| *b == b'\n').enumerate().for_each(|(at, line)| {
        notes.add([Note::Tag, Note::Purge, Note::Control][at % 3], line);
    });
    let method = if flags & 8 == 0 { "GET" } else { "POST" };
    let mut all = purges(rules, place, method, status, fields.iter().copied(), &notes);
    all.extend(noted(rules, place, said));
    assert!(all.len() <= 2 * MOST_PURGES);
    assert!(all.iter().all(|(what, _)| *what != Purge::Everything), "one site never purges another");

    let answer = Answer { status, fields: fields.iter().copied(), notes: &notes, country: None, content: said, failed: false };
    if let Verdict::Store { terms, keep } = judge(rules, place, &asking, &answer, NOW) {
        let has = |wanted: &str| fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        assert!(!has("set-cookie") && !has("cart-token") && !matches!(status, 206 | 304), "stored");
        assert!(!(asking.reduced && status != 200), "a redirect under another request's key");
        check(rules, &terms, said);
        let block: Vec<u8> = fields
            .iter()
            .filter(|(name, value)| keep.keeps(name) && !value.contains(&b'\r'))
            .flat_map(|(name, value)| [name.as_bytes(), b": ", value, b"\r\n"].concat())
            .collect();
        let form = Form::new(b"", said);
        let page = Page::new(status, block, form, NOW);
        let _ = Validators::of(&page).fields().count();
        if let Ok(new) = freshen(rules, place, &asking, (&page, page.identity().body()), &terms, &Answer { status: 304, ..answer }, NOW + 1000) {
            assert_eq!(new.terms.vary, terms.vary, "it is stored under them");
            check(rules, &new.terms, said);
        }
    }
}

fn check(rules: &Rules, terms: &Terms, content: &[u8]) {
    assert!(terms.tags.len() <= MOST_TAGS && terms.tags.is_sorted());
    assert!(terms.ttl <= rules.longest_life && (terms.ttl > 0 || terms.no_cache));
    let stale = terms.stale_while_revalidate.max(terms.stale_if_error);
    assert!(stale == 0 || !terms.must_revalidate && !terms.no_cache);
    assert!(stale <= rules.grace.most.max(rules.grace.on_error));
    if rules.nonce_marks.iter().any(|mark| content.windows(mark.len()).any(|w| w == mark.as_bytes())) {
        assert!(terms.ttl + stale <= NONCE_LIFE);
    }
}

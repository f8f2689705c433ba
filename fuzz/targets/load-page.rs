//! Resources of a page and a style sheet: each once, from the page's own origin, valid in a request, and limited in
//! number.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use millrace_load::page::{MOST_PARTS, Parts, parts, parts_of_style};
use millrace_load::url::Url;

fuzz_target!(|input: &[u8]| {
    let Ok(url) = Url::parse("https://a.test/blog/post?x=1") else { return };
    check(&url, &parts(&url, input));
    check(&url, &parts_of_style(&url, input));
});

fn check(page: &Url, found: &Parts) {
    assert!(found.own.len() <= MOST_PARTS);
    let mut seen = HashSet::new();
    for part in &found.own {
        assert_eq!(part.url.origin, page.origin);
        assert!(part.url.target.starts_with('/') && part.url.target.bytes().all(|b| b.is_ascii_graphic()));
        assert!(part.url != *page && seen.insert(&part.url), "{} twice", part.url);
    }
}

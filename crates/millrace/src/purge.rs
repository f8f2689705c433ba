//! `purge`: has the running server purge cached pages.

use crate::admin;
use crate::args::PurgeArgs;
use crate::failure::Failure;
use crate::http::form;
use crate::serve::say;

/// Bytes of a form; the admin address takes 64 KB. Longer lists go in several.
const FORM_BYTES: usize = 48 << 10;

/// Purges the named pages and prints their number.
///
/// # Errors
/// When no server responds, or it rejects the order.
pub fn purge(args: &PurgeArgs) -> Result<(), Failure> {
    let mut pages = 0;
    for form in forms(args) {
        let answer = admin::ask(&args.admin, "POST", "/purge", &form)?;
        let text = answer.text();
        if answer.status != 200 {
            let failure = Failure::new(format!("cannot purge: {}", text.trim_end()));
            return Err(if pages == 0 {
                failure
            } else {
                failure.detail(format!("{} purged before this error", counted(pages)))
            });
        }
        pages += text.split_ascii_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    let how = if args.hard { "deleted" } else { "stale until the next request refreshes them" };
    match pages {
        0 => say("purged nothing: no matching page is cached"),
        _ => say(&format!("purged {}: {how}", counted(pages))),
    }
}

fn counted(pages: u64) -> String {
    if pages == 1 { "1 page".to_owned() } else { format!("{pages} pages") }
}

/// The order, in pieces that the admin address accepts.
fn forms(args: &PurgeArgs) -> Vec<Vec<u8>> {
    let mut always: Vec<(&str, &str)> = Vec::new();
    always.extend(args.site.as_deref().map(|site| ("site", site)));
    always.extend(args.hard.then_some(("hard", "1")));
    let mut things: Vec<(&str, &str)> = args.urls.iter().map(|url| ("url", url.as_str())).collect();
    things.extend(args.tag.iter().map(|tag| ("tag", tag.as_str())));
    things.extend(args.all.then_some(("all", "1")));
    let mut forms: Vec<Vec<u8>> = Vec::new();
    for thing in things {
        let piece = form(&[thing]);
        match forms.last_mut().filter(|form| form.len() + piece.len() < FORM_BYTES) {
            Some(form) => {
                form.push(b'&');
                form.extend(piece);
            }
            None => {
                let mut first = form(&always);
                if !first.is_empty() {
                    first.push(b'&');
                }
                first.extend(piece);
                forms.push(first);
            }
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(args: &PurgeArgs) -> Vec<String> {
        forms(args).into_iter().map(|form| String::from_utf8(form).expect("ASCII")).collect()
    }

    #[test]
    fn what_is_named_is_sent() {
        let args = PurgeArgs {
            urls: vec!["https://a.example/x?y".to_owned()],
            tag: vec!["post 1".to_owned()],
            all: true,
            site: Some("a.example".to_owned()),
            hard: true,
            ..PurgeArgs::default()
        };
        assert_eq!(
            texts(&args),
            ["site=a.example&hard=1&url=https%3A%2F%2Fa.example%2Fx%3Fy&tag=post+1&all=1"]
        );
    }

    #[test]
    fn long_lists_go_in_pieces_that_each_say_how() {
        let urls = (0..5000).map(|n| format!("/page-{n}")).collect();
        let args = PurgeArgs { urls, hard: true, ..PurgeArgs::default() };
        let forms = texts(&args);
        assert!(forms.len() > 1 && forms.iter().all(|form| form.len() <= FORM_BYTES));
        assert!(forms.iter().all(|form| form.starts_with("hard=1&url=")));
        assert_eq!(forms.iter().map(|form| form.matches("url=").count()).sum::<usize>(), 5000);
    }
}

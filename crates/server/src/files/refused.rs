//! Says in the log which symbolic link was not followed: to a visitor the file is missing, and nothing else tells why.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;
use millrace_base::context::Context;
use millrace_base::context::stats::Counter;
use millrace_base::site::Site;
use millrace_sys::links::{CURE, RefusedLink};

/// A link is reported again after this time, milliseconds.
const PAUSE: u64 = 3_600_000;
/// Maximum number of links that are remembered: scripts can make any number.
const MOST: usize = 1_000;

/// When each link was reported, milliseconds. All event loops see the same links.
static REPORTED: Mutex<Option<HashMap<PathBuf, u64>>> = Mutex::new(None);

/// Reports a link, unless that was done lately.
pub fn report(context: &Context, site: &Site, link: &RefusedLink) {
    context.stats.add(Counter::FileLinksRefused, 1);
    if is_due(context.clock.ticks(), link) {
        let site = site.name().unwrap_or("default");
        context.process.log.warn(format_args!("site {site}: {link}: visitors get 404; {CURE}"));
    }
}

fn is_due(now: u64, link: &RefusedLink) -> bool {
    let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
    let reported = reported.get_or_insert_default();
    if reported.len() >= MOST {
        reported.retain(|_, at| now.saturating_sub(*at) < PAUSE);
    }
    match reported.get(&link.link) {
        Some(at) if now.saturating_sub(*at) < PAUSE => false,
        None if reported.len() >= MOST => false,
        _ => {
            reported.insert(link.link.clone(), now);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_once_an_hour() {
        let link = |name: &str| RefusedLink { link: name.into(), target: "/t".into(), foreign: None };
        assert!(is_due(5, &link("/a")) && !is_due(6, &link("/a")) && is_due(6, &link("/b")));
        assert!(is_due(5 + PAUSE, &link("/a")));
        assert!((0..2 * MOST).filter(|n| is_due(7, &link(&format!("/{n}")))).count() < MOST);
    }
}

//! The dashboard: one page with its style and script, which are part of the program, and the events that keep it up to date. It
//! only reads, unless `admin.token` lets it purge ([`super::token`]).

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;

use super::http::AdminResponse;

/// Distance of the events. The status is gathered once for all watchers, and only if there are any.
pub const EVENTS_EVERY: Duration = Duration::from_secs(2);

/// Maximum number of pages that watch: other clients need connections, too.
const WATCHERS: usize = 8;

/// A file of the page.
pub fn file(path: &str) -> Option<AdminResponse> {
    let (media_type, content) = match path {
        "/dashboard" => ("text/html; charset=utf-8", include_str!("dashboard/page.html")),
        "/dashboard.css" => ("text/css; charset=utf-8", include_str!("dashboard/style.css")),
        "/dashboard.js" => ("text/javascript; charset=utf-8", include_str!("dashboard/page.js")),
        _ => return None,
    };
    Some(AdminResponse::new(200, media_type, content.to_owned()))
}

/// The events for all watchers: each is a status in JSON on one line.
#[derive(Debug)]
pub struct Events(watch::Sender<Rc<str>>);

impl Events {
    /// No watchers.
    pub fn new() -> Events {
        Events(watch::Sender::new("".into()))
    }

    /// Whether an event reaches a page.
    pub fn are_watched(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Sends an event to all watchers.
    pub fn send(&self, status: &str) {
        self.0.send_replace(format!("data: {status}\n\n").into());
    }

    /// A stream of events for one more page, or 503. The caller sends an event next.
    pub fn watch(&self) -> AdminResponse {
        match self.0.receiver_count() < WATCHERS {
            true => AdminResponse::events(self.0.subscribe()),
            false => AdminResponse::text(503, format!("{WATCHERS} pages watch already: close one.\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchers_are_bounded() {
        let events = Events::new();
        let watching: Vec<_> = (0..WATCHERS).map(|_| events.watch()).collect();
        assert!(format!("{:?}", events.watch()).contains("close one"));
        assert!(events.are_watched());
        drop(watching);
        assert!(!events.are_watched());
    }

    /// The content security policy forbids what stands in the page itself.
    #[test]
    fn the_page_has_no_inline_code() {
        let page = include_str!("dashboard/page.html");
        for forbidden in ["style=", "<style", " onclick", "javascript:", "http://fonts", "https://"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(!include_str!("dashboard/page.js").contains("innerHTML"));
    }
}

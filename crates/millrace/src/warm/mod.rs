//! `warm`: makes the running server fetch pages into its cache before visitors request them.
//!
//! The server fetches each page itself, as a visitor without cookies would, and only when a PHP worker is idle; if
//! none is, it responds "busy" and this command waits a while. Nothing else limits the speed, so a warm-up uses the
//! capacity that visitors leave. This side reads the sitemaps: they are fetched like pages, and their URLs go into
//! the same list.

mod fetch;
mod run;

use crate::args::WarmArgs;
use crate::failure::Failure;
use crate::serve::say;
use run::Run;
use std::io::IsTerminal;
use std::time::Instant;

/// Warms the named pages, and prints the results.
///
/// # Errors
/// When no server responds, or not a single page could be made.
pub fn warm(args: &WarmArgs) -> Result<(), Failure> {
    let began = Instant::now();
    let ask = |url: &str, content: bool| fetch::fetch(&args.admin, url, content);
    let run = Run::new(&args.urls, args.most, &ask);
    let terminal = std::io::stderr().is_terminal();
    let mut told = Instant::now();
    let result = run.work(args.jobs, |counts| {
        if terminal {
            eprint!("\r{}\u{1b}[K", counts.progress());
        } else if told.elapsed() >= fetch::TELL_EVERY {
            told = Instant::now();
            eprintln!("{}", counts.progress());
        }
    });
    if terminal {
        eprint!("\r\u{1b}[K");
    }
    let counts = result?;
    if counts.warmed() == 0 {
        let failure = Failure::new("no page was cached").detail(counts.reasons());
        return Err(failure.next(
            "request one of them with curl -I: its Cache-Status header field says why it is not cached",
        ));
    }
    say(&counts.summary(began.elapsed()))
}

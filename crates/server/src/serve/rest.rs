//! The pauses of what watches sites (`code/`, `sql/`): a site that needs no look soon wakes no event loop. Its loop comes round a few times
//! a second anyway.

use std::time::Duration;

use tokio::time::sleep;

use super::ServeThread;

/// Shortest pause, and the one while a look is in progress, milliseconds.
const SHORTEST: u64 = 50;
/// Something that is due earlier than this has a timer of its own, milliseconds.
const SOON: u64 = 250;

/// When a site needs the watcher, by the clock in milliseconds. `Busy`: a look is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A look is in progress.
    Busy,
    /// At this time.
    At(u64),
    /// Not as it is.
    None,
}

/// Waits for what is needed first, or for the loop's next round.
pub async fn rest(thread: &ServeThread, needs: impl Iterator<Item = Need>) {
    match pause(needs.min().unwrap_or(Need::None), thread.clock.ticks()) {
        Some(pause) => sleep(Duration::from_millis(pause)).await,
        None => thread.rounds.notified().await,
    }
    thread.clock.read();
}

/// Milliseconds until it is needed; `None`: not soon.
fn pause(need: Need, now: u64) -> Option<u64> {
    match need {
        Need::Busy => Some(SHORTEST),
        Need::At(at) => Some(at.saturating_sub(now).max(SHORTEST)).filter(|pause| *pause < SOON),
        Need::None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_first_counts() {
        let first = |needs: &[Need]| pause(needs.iter().copied().min().unwrap_or(Need::None), 1_000);
        assert_eq!(first(&[]), None, "no site");
        assert_eq!(first(&[Need::None, Need::None]), None, "nobody visits them");
        assert_eq!(first(&[Need::None, Need::At(1_100), Need::At(1_200)]), Some(100));
        assert_eq!(first(&[Need::At(900)]), Some(SHORTEST), "overdue");
        assert_eq!(first(&[Need::At(1_000 + SOON)]), None, "the loop comes round before");
        assert_eq!(first(&[Need::At(1_240), Need::Busy, Need::None]), Some(SHORTEST));
    }
}

//! The pauses of what watches sites (`code/`, `sql/`): a site that needs no look soon wakes no event loop. Its loop comes round a few times
//! a second anyway.

use std::time::Duration;

use tokio::time::sleep;

use super::ServeThread;

/// Shortest pause, and the one while a look is in progress, milliseconds.
const SHORTEST: u64 = 50;
/// Something that is due earlier than this has a timer of its own, milliseconds.
const SOON: u64 = 250;

/// When a site is to be looked at next, by the clock in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NextLook {
    /// A look is in progress.
    Busy,
    /// At this time.
    At(u64),
    /// Not as it is.
    None,
}

/// Waits for what is needed first, or for the loop's next round.
pub async fn rest(thread: &ServeThread, needs: impl Iterator<Item = NextLook>) {
    match pause(needs.min().unwrap_or(NextLook::None), thread.context.clock.ticks()) {
        Some(pause) => sleep(Duration::from_millis(pause)).await,
        None => thread.context.rounds.notified().await,
    }
    thread.context.clock.read();
}

/// Milliseconds until it is needed; `None`: not soon.
fn pause(need: NextLook, now: u64) -> Option<u64> {
    match need {
        NextLook::Busy => Some(SHORTEST),
        NextLook::At(at) => Some(at.saturating_sub(now).max(SHORTEST)).filter(|pause| *pause < SOON),
        NextLook::None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_first_counts() {
        let first = |needs: &[NextLook]| pause(needs.iter().copied().min().unwrap_or(NextLook::None), 1_000);
        assert_eq!(first(&[]), None, "no site");
        assert_eq!(first(&[NextLook::None, NextLook::None]), None, "nobody visits them");
        assert_eq!(first(&[NextLook::None, NextLook::At(1_100), NextLook::At(1_200)]), Some(100));
        assert_eq!(first(&[NextLook::At(900)]), Some(SHORTEST), "overdue");
        assert_eq!(first(&[NextLook::At(1_000 + SOON)]), None, "the loop comes round before");
        assert_eq!(first(&[NextLook::At(1_240), NextLook::Busy, NextLook::None]), Some(SHORTEST));
    }
}

//! A pool as people see it.

use millrace_wire::frames::{STATE_BACKGROUND, STATE_EXITING, STATE_STARTING};

use super::Pool;
use super::card::Card;
use super::pool::Seat;
use crate::stats::PoolStatus;

impl Pool {
    /// How the pool is; `name` is what people know it by.
    pub fn status(&self, name: &str) -> PoolStatus {
        let shared = self.shared();
        let state = shared.lock();
        let mut status = PoolStatus {
            name: name.to_owned(),
            php_version: state
                .started
                .as_ref()
                .map(|started| started.php_version.clone())
                .unwrap_or_default(),
            most: shared.settings.workers as u64,
            waiting: state.waiters.len() as u64,
            trouble: state.trouble.clone(),
            ..PoolStatus::default()
        };
        for seat in state.seats() {
            match seat {
                Seat::Free => (),
                Seat::Starting(..) => status.starting += 1,
                Seat::Live(card) => {
                    *count(&mut status, card) += 1;
                    status.memory += card.scoreboard.rss(card.slot);
                }
                Seat::Leaving(..) | Seat::Ended(_) => status.exiting += 1,
            }
        }
        status
    }
}

/// Where a worker is counted. Whether it has a request is known here better than by the scoreboard.
fn count<'s>(status: &'s mut PoolStatus, card: &Card) -> &'s mut u64 {
    match (card.scoreboard.state(card.slot), card.is_busy()) {
        (STATE_EXITING, _) => &mut status.exiting,
        (STATE_BACKGROUND, true) => &mut status.background,
        (_, true) => &mut status.running,
        (STATE_STARTING, false) => &mut status.starting,
        (_, false) => &mut status.idle,
    }
}

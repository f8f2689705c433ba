//! What takes too long.

use std::sync::Arc;

use super::super::card::Card;
use super::{Chores, Supervisor};

impl Supervisor {
    pub(super) fn judge(&self, card: &Arc<Card>, killing: bool, chores: &mut Chores) {
        if card.is_late(self.now()) {
            chores.late.push(card.clone());
        } else if killing && card.is_busy() {
            chores.kill.push(card.clone());
        }
    }

    pub(super) fn end_late(&self, card: &Card) {
        if card.set_overdue() {
            let task = card.task();
            self.shared.log.error(format_args!(
                "{} took longer than {:?}: PHP worker {} is killed; see php.request_timeout",
                String::from_utf8_lossy(&task.script),
                self.shared.settings.request_timeout,
                card.pid()
            ));
        }
        card.kill();
    }
}

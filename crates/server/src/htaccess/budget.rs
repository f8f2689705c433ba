//! The share of an event loop that the rules of one site may take while other sites need the loop, too.
//!
//! Each evaluation is paid for in steps (`effort.rs` of the crate `htaccess`), after it has run. A site that has used more than its share waits, with
//! the requests that need an evaluation only: files and pages without rules, and requests whose verdict is remembered, go on. A site that has the loop
//! to itself never waits.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use hashbrown::HashMap;
use millrace_htaccess::effort::MOST_STEPS;

/// Steps that a site may take in a millisecond: a tenth of what a processor can do.
const STEPS_A_TICK: u64 = 40_000;
/// How far a site may be ahead of its share, in ticks: one evaluation at its limit.
const AHEAD: u64 = MOST_STEPS / STEPS_A_TICK;
/// An evaluation that takes more steps than this, 1 ms, is costly: while other sites need the loop, the site's next ones are made beside it.
const COSTLY: u64 = 400_000;
/// How long a site's rules count as costly after such an evaluation, ticks: some requests cost less than others.
const COSTLY_FOR: u64 = 10_000;
/// Evaluations below this cost nothing, so that ordinary rules need no account.
const FREE: u64 = 20_000;
/// The loop is shared if requests of different sites came one after the other within this time, ticks.
const LATELY: u64 = 1_000;
/// Requests of a site that wait; further ones are refused.
const MOST_WAITING: u32 = 64;
/// Sites with an account.
const MOST_SITES: usize = 4_096;

/// The accounts of an event loop. Times are ticks (ms) of its clock.
#[derive(Debug, Default)]
pub struct EvaluationBudget {
    /// The site of the last request, and when the one before it was another site's.
    last: Cell<usize>,
    shared_at: Cell<Option<u64>>,
    accounts: RefCell<HashMap<usize, Account>>,
}

#[derive(Debug, Default)]
struct Account {
    /// When the steps so far are paid for.
    paid_at: u64,
    /// Until when the site's rules count as costly.
    costly_until: u64,
    waiting: Rc<Cell<u32>>,
}

/// Whether a site may have its rules evaluated.
#[derive(Debug)]
pub enum EvaluationTurn {
    /// Now.
    Now,
    /// On a thread beside the event loop.
    Beside(EvaluationPlace),
    /// After this time; the place among the waiting ones is given up on drop.
    Wait(Duration, EvaluationPlace),
    /// Too many requests of the site are waiting.
    Busy,
}

/// A place among the requests of a site that wait.
#[derive(Debug)]
pub struct EvaluationPlace(Rc<Cell<u32>>);

impl Drop for EvaluationPlace {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl EvaluationBudget {
    /// A request of a site has come.
    pub fn see(&self, site: usize, now: u64) {
        if self.last.replace(site) != site {
            self.shared_at.set(Some(now));
        }
    }

    /// Whether the site's turn has come. `may_leave`: the evaluation can be made beside the loop.
    pub fn turn(&self, site: usize, now: u64, may_leave: bool) -> EvaluationTurn {
        let accounts = self.accounts.borrow();
        let Some(account) = accounts.get(&site) else { return EvaluationTurn::Now };
        let is_shared = self.shared_at.get().is_some_and(|at| now < at + LATELY);
        let ahead = account.paid_at.saturating_sub(now);
        let leaves = may_leave && now < account.costly_until;
        if !is_shared || (!leaves && ahead <= AHEAD) {
            return EvaluationTurn::Now;
        }
        if account.waiting.get() >= MOST_WAITING {
            return EvaluationTurn::Busy;
        }
        account.waiting.set(account.waiting.get() + 1);
        let place = EvaluationPlace(account.waiting.clone());
        match leaves {
            true => EvaluationTurn::Beside(place),
            false => EvaluationTurn::Wait(Duration::from_millis(ahead - AHEAD), place),
        }
    }

    /// An evaluation of the site beside the loop has taken so many steps.
    pub fn note(&self, site: usize, steps: u64, now: u64) {
        if let Some(account) = self.accounts.borrow_mut().get_mut(&site).filter(|_| steps > COSTLY) {
            account.costly_until = now + COSTLY_FOR;
        }
    }

    /// An evaluation of the site has taken so many steps.
    pub fn pay(&self, site: usize, steps: u64, now: u64) {
        if steps < FREE {
            return;
        }
        let mut accounts = self.accounts.borrow_mut();
        if accounts.len() >= MOST_SITES {
            accounts.retain(|_, account| {
                account.paid_at.max(account.costly_until) > now || account.waiting.get() > 0
            });
        }
        let account = accounts.entry(site).or_default();
        // What one site does while it is alone is forgotten after a while.
        account.paid_at = account.paid_at.clamp(now, now + 2 * AHEAD) + steps / STEPS_A_TICK;
        if steps > COSTLY {
            account.costly_until = now + COSTLY_FOR;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: usize = 1;
    const OTHER: usize = 2;

    /// Steps that the site gets in ten seconds of requests without pause, each of which takes `cost` steps; `other` requests of another site come in
    /// between, one a tick.
    fn steps_in_ten_seconds(cost: u64, has_other: bool) -> u64 {
        let budget = EvaluationBudget::default();
        let (mut now, mut taken) = (1, 0);
        while now < 10_000 {
            if has_other {
                budget.see(OTHER, now);
            }
            budget.see(RULES, now);
            match budget.turn(RULES, now, false) {
                EvaluationTurn::Now => {
                    budget.pay(RULES, cost, now);
                    taken += cost;
                    // A processor does ten times a site's share.
                    now += (cost / STEPS_A_TICK / 10).max(1);
                }
                _ => now += 1,
            }
        }
        taken
    }

    #[test]
    fn a_site_beside_others_gets_its_share_and_one_alone_everything() {
        let share = 10_000 * STEPS_A_TICK;
        for cost in [FREE, 1_000_000, MOST_STEPS] {
            let beside = steps_in_ten_seconds(cost, true);
            assert!(beside <= share + 2 * MOST_STEPS, "{cost}: {beside} of {share}");
            assert!(steps_in_ten_seconds(cost, false) >= beside, "{cost}");
        }
        assert!(steps_in_ten_seconds(1_000_000, false) > 3 * share);
    }

    #[test]
    fn ordinary_rules_never_wait() {
        let budget = EvaluationBudget::default();
        for now in 0..10_000 {
            budget.see(OTHER, now);
            budget.see(RULES, now);
            assert!(matches!(budget.turn(RULES, now, true), EvaluationTurn::Now));
            budget.pay(RULES, FREE - 1, now);
        }
    }

    #[test]
    fn costly_rules_leave_the_loop_while_it_is_shared() {
        let budget = EvaluationBudget::default();
        let leaves = |now| matches!(budget.turn(RULES, now, true), EvaluationTurn::Beside(_));
        budget.see(OTHER, 5);
        budget.see(RULES, 5);
        budget.pay(RULES, COSTLY, 5);
        assert!(!leaves(6), "not costly");
        budget.pay(RULES, COSTLY + 1, 6);
        assert!(leaves(7) && !leaves(7 + LATELY), "the site has the loop to itself");
        assert!(
            matches!(budget.turn(RULES, 7, false), EvaluationTurn::Now),
            "a password keeps it on the loop"
        );
        let places: Vec<EvaluationTurn> = (0..MOST_WAITING).map(|_| budget.turn(RULES, 7, true)).collect();
        assert!(matches!(budget.turn(RULES, 7, true), EvaluationTurn::Busy));
        drop(places);
        let later = 6 + COSTLY_FOR;
        budget.see(OTHER, later);
        budget.see(RULES, later);
        assert!(!leaves(later), "forgotten");
        budget.note(RULES, COSTLY + 1, later);
        assert!(leaves(later));
    }

    #[test]
    fn waiting_places_are_limited_and_given_back() {
        let budget = EvaluationBudget::default();
        budget.see(OTHER, 5);
        budget.see(RULES, 5);
        for _ in 0..3 {
            budget.pay(RULES, MOST_STEPS, 5);
        }
        let waiting: Vec<EvaluationTurn> = (0..MOST_WAITING).map(|_| budget.turn(RULES, 5, false)).collect();
        assert!(waiting.iter().all(|turn| matches!(turn, EvaluationTurn::Wait(..))));
        assert!(matches!(budget.turn(RULES, 5, false), EvaluationTurn::Busy));
        assert!(
            matches!(budget.turn(OTHER, 5, false), EvaluationTurn::Now),
            "another site's account is its own"
        );
        drop(waiting);
        assert!(matches!(budget.turn(RULES, 5, false), EvaluationTurn::Wait(..)));
        assert!(matches!(budget.turn(RULES, 5 + 3 * AHEAD, false), EvaluationTurn::Now), "all is paid for");
    }
}

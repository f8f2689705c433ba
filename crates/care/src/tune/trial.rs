//! A trial: settings that are taken back unless they are confirmed in time, as `netplan try` does it.
//!
//! A guardian - a process in a session of its own, so that it survives the terminal - waits until then. It is started when the journal is
//! written and nothing is changed yet. If the machine is restarted meanwhile, the next command takes the settings back.

use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Refusal;
use super::journal::{Done, Journal, Lock, take_back};
use super::root::Root;

/// Seconds since 1970, `after` from now.
pub fn deadline(after: Duration) -> u64 {
    (SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + after).as_secs()
}

/// Keeps the settings.
///
/// # Errors
/// None wait for a confirmation, or it is too late: then they are taken back.
pub fn confirm(root: &Root) -> Result<(), Refusal> {
    let none = || {
        Refusal::new("no settings wait for a confirmation", "`millrace tune --apply --confirm 2m` makes such")
    };
    if !root.has(super::STATE) {
        return Err(none());
    }
    let _lock = Lock::take(root, true)?;
    let mut journal = Journal::read(root)?.filter(|journal| journal.trial.is_some()).ok_or_else(none)?;
    if journal.trial.is_some_and(|until| until < deadline(Duration::ZERO)) {
        take_back(root, &journal)?;
        return Err(Refusal::new(
            "it is too late: the settings are taken back",
            "`millrace tune --apply` applies them again",
        ));
    }
    journal.trial = None;
    journal.write(root)
}

/// Takes back an overdue trial after its guardian has died with the machine. `None`: there is none.
///
/// # Errors
/// It can't be taken back.
pub fn settle(root: &Root) -> Result<Option<Done>, Refusal> {
    let overdue = |journal: &Journal| journal.trial.is_some_and(|until| until + 5 < deadline(Duration::ZERO));
    if !Journal::read(root)?.is_some_and(|journal| overdue(&journal)) {
        return Ok(None);
    }
    let _lock = Lock::take(root, true)?;
    Journal::read(root)?.filter(overdue).map(|journal| take_back(root, &journal)).transpose()
}

/// The guardian's work: waits, and takes back the trial with this deadline if it is still one.
///
/// # Errors
/// It can't be taken back.
pub fn watch(root: &Root, after: Duration, until: u64) -> Result<(), Refusal> {
    sleep(after);
    let _lock = Lock::take(root, true)?;
    match Journal::read(root)? {
        Some(journal) if journal.trial == Some(until) => take_back(root, &journal).map(|_| ()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::apply;
    use super::super::journal::tests::{apply_to, etc};
    use super::super::proposal::Proposal;
    use super::super::proposal::tests::{tree, wish};
    use super::*;
    use crate::testing::Tree;

    fn try_until(tree: &Tree, until: u64) {
        let proposal = Proposal::of(&wish(tree)).expect("computed");
        apply(&proposal, Some(until), &|| Ok(())).expect("applied");
    }

    #[test]
    fn unconfirmed_ones_are_taken_back_and_confirmed_ones_stay() {
        let tree = tree();
        let (root, before) = (Root::new(tree.root()), etc(&tree));
        let until = deadline(Duration::from_secs(60));
        try_until(&tree, until);
        assert!(apply_to(&tree).expect_err("a trial").what.contains("not confirmed yet"));
        watch(&root, Duration::ZERO, until + 1).expect("another trial's guardian");
        assert_ne!(etc(&tree), before);
        watch(&root, Duration::ZERO, until).expect("taken back");
        assert_eq!(etc(&tree), before);
        try_until(&tree, until);
        confirm(&root).expect("confirmed");
        watch(&root, Duration::ZERO, until).expect("nothing to do");
        assert_ne!(etc(&tree), before);
        assert!(confirm(&root).expect_err("again").what.starts_with("no settings wait"));
    }

    #[test]
    fn overdue_ones_are_taken_back_by_the_next_command() {
        let tree = tree();
        let (root, before) = (Root::new(tree.root()), etc(&tree));
        assert_eq!(settle(&root), Ok(None));
        try_until(&tree, 1);
        assert!(confirm(&root).expect_err("late").what.contains("too late"));
        try_until(&tree, 1);
        assert_eq!(settle(&root).expect("settled").expect("one").files.len(), 3);
        assert_eq!(etc(&tree), before);
    }
}

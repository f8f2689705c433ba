//! The work for one certificate, as a value: what is due when. The keeper does it and reports the result; time and
//! randomness (`random`, from 0 up to 1) are passed in.

use std::time::{Duration, SystemTime};

use super::WantedCertificate;
use super::board::Standing;
use super::failure::AcmeFailure;
use super::kept::StoredCertificate;
use super::retry::Retry;
use super::schedule::{self, RenewalWindow};

/// Interval between attempts to write to disk.
const SAVE_AGAIN: Duration = Duration::from_secs(60);
/// Bounds for the authority's answer on when to ask again.
const ASK: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateStep {
    /// Write to disk what could not be written before.
    Save,
    /// Ask the authority when the certificate should be renewed.
    Ask,
    /// Order a certificate.
    Order,
}

/// The state of the work for one certificate.
#[derive(Debug)]
pub struct CertificateJob {
    /// The certificate that the configuration asks for.
    pub wanted: WantedCertificate,
    /// The certificate in use.
    pub kept: Option<StoredCertificate>,
    /// The certificate in PEM, if it is not on disk yet.
    pub unsaved: Option<Vec<u8>>,
    /// The last error, if nothing has succeeded since.
    pub problem: Option<String>,
    /// Failed orders since the last success.
    pub failures: u32,
    /// Orders since then that a restart interrupted, including the current one.
    interrupted: u32,
    /// Names that the next order leaves out, so that one that leads elsewhere does not prevent a certificate for the
    /// others.
    without: Vec<String>,
    save_at: SystemTime,
    /// When the next order is due.
    due: SystemTime,
    /// When all names are ordered again, after an order without some of them.
    all_due: SystemTime,
    /// The authority asks not to be contacted before this time.
    held: Option<SystemTime>,
    ask_at: SystemTime,
    window: Option<RenewalWindow>,
    /// When it was renewed at once on the authority's demand.
    urgent: Option<SystemTime>,
    issued: u64,
    failed: u64,
}

impl CertificateJob {
    /// With the stored certificate, if there is one. `old` is a stored one with the same ID for other names.
    pub fn new(
        wanted: WantedCertificate,
        kept: Option<StoredCertificate>,
        old: Option<&CertificateJob>,
        now: SystemTime,
        random: f64,
    ) -> CertificateJob {
        let due = match &kept {
            Some(kept) if kept.covers(&wanted.names) => kept.life.renewal(random),
            _ => now,
        };
        CertificateJob {
            wanted,
            kept,
            unsaved: None,
            problem: None,
            failures: 0,
            interrupted: 0,
            without: Vec::new(),
            save_at: now,
            due,
            all_due: due,
            held: None,
            ask_at: now,
            window: None,
            urgent: None,
            issued: old.map_or(0, |old| old.issued),
            failed: old.map_or(0, |old| old.failed),
        }
    }

    /// After a reload: tries again soon, because the cause of failures may be fixed.
    pub fn again(mut self, now: SystemTime) -> CertificateJob {
        if self.failures > 0 && self.held.is_none_or(|held| held <= now) {
            self.due = now;
        }
        (self.ask_at, self.save_at) = (now, now);
        self
    }

    /// The same after a restart: earlier failures are waited out as if there had been none.
    pub fn resume(&mut self, retry: Retry, now: SystemTime) {
        self.due = retry.due(now);
        self.all_due = self.due;
        self.held = retry.is_held.then_some(self.due);
        (self.failures, self.interrupted, self.problem) = (retry.failures, retry.interrupted, retry.problem);
    }

    /// An order is about to begin. Returns what to store about it in case the server ends during it.
    pub fn begins(&mut self, now: SystemTime, random: f64) -> Retry {
        self.interrupted = self.interrupted.saturating_add(1);
        let next = now + schedule::pause_if_cut_off(self.failures, self.interrupted, random);
        // An order without some names must not make the order for all names come earlier.
        let next = if self.is_partial() { next.max(self.all_due) } else { next };
        Retry { next, ..self.retry(now) }
    }

    /// What to store about failures for a restart.
    pub fn retry(&self, now: SystemTime) -> Retry {
        Retry {
            failures: self.failures,
            interrupted: self.interrupted,
            at: now,
            next: if self.is_partial() { self.all_due } else { self.due },
            is_held: self.held.is_some(),
            problem: self.problem.clone(),
        }
    }

    /// The next step, and when it is due.
    pub fn next(&self) -> (SystemTime, CertificateStep) {
        let save = self.unsaved.is_some().then_some((self.save_at, CertificateStep::Save));
        let has_id = self.kept.as_ref().is_some_and(|kept| kept.id.is_some());
        let ask = has_id.then_some((self.ask_at, CertificateStep::Ask));
        let order = (self.due, CertificateStep::Order);
        [save, ask].into_iter().flatten().fold(order, |one, other| if other.0 <= one.0 { other } else { one })
    }

    /// What to order next.
    pub fn to_order(&self) -> WantedCertificate {
        let names = self.wanted.names.iter().filter(|name| !self.without.contains(name)).cloned();
        WantedCertificate { id: self.wanted.id.clone(), names: names.collect() }
    }

    /// How often proving the names in one way has failed: then the other way is tried.
    pub fn turns(&self) -> u32 {
        self.failures.saturating_sub(u32::from(!self.without.is_empty()))
    }

    /// A certificate was issued.
    pub fn came(&mut self, kept: StoredCertificate, pem: Option<Vec<u8>>, now: SystemTime, random: f64) {
        if self.without.is_empty() {
            (self.due, self.problem, self.failures) = (kept.life.renewal(random), None, 0);
        } else {
            // The other names are still missing, and so is the known reason.
            self.without.clear();
            self.due = self.all_due.min(kept.life.renewal(random));
        }
        self.interrupted = 0;
        self.issued += u64::from(pem.is_some());
        (self.kept, self.unsaved, self.save_at) = (Some(kept), pem, now);
        (self.held, self.window, self.ask_at) = (None, None, now);
    }

    /// No certificate was issued. Returns how long to wait.
    pub fn failed(&mut self, failure: &AcmeFailure, now: SystemTime, random: f64) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.interrupted = 0;
        self.failed += 1;
        let pause = schedule::pause(self.failures, failure.retry_after, random);
        self.due = now + pause;
        self.all_due = self.due;
        self.held = failure.retry_after.map(|_| self.due);
        self.problem = Some(failure.to_string());
        let was_whole = std::mem::take(&mut self.without).is_empty();
        let (bad, good): (Vec<String>, Vec<String>) =
            self.wanted.names.iter().cloned().partition(|name| failure.names.contains(name));
        let has_good =
            self.kept.as_ref().is_some_and(|kept| kept.covers(&good) && kept.life.renewal(0.0) > now);
        if was_whole && !bad.is_empty() && !good.is_empty() && !has_good && failure.retry_after.is_none() {
            (self.without, self.due) = (bad, now);
        }
        pause
    }

    /// Whether the next order leaves out some names.
    pub fn is_partial(&self) -> bool {
        !self.without.is_empty()
    }

    /// The authority has said when it wants the certificate renewed, and when to ask again. Returns whether that is
    /// now.
    pub fn heard(&mut self, window: RenewalWindow, again: Duration, now: SystemTime, random: f64) -> bool {
        self.ask_at = now + again.clamp(ASK.0, ASK.1);
        if self.failures > 0 || self.window.replace(window) == Some(window) {
            return false;
        }
        let Some(kept) = self.kept.as_ref().filter(|kept| kept.covers(&self.wanted.names)) else {
            return false;
        };
        if window.end > now {
            self.due = kept.life.renewal_in(window, random);
            return false;
        }
        // If the authority says so about each new certificate, too, this must not cause endless orders.
        let is_first = self.urgent.is_none_or(|last| now > last + schedule::URGENT_AGAIN);
        if is_first {
            (self.urgent, self.due) = (Some(now), now);
        }
        is_first
    }

    /// The authority gave no renewal information.
    pub fn heard_nothing(&mut self, now: SystemTime) {
        self.ask_at = now + schedule::ASK_EVERY;
    }

    /// It is on disk now, or could not be written.
    pub fn saved(&mut self, result: Result<(), AcmeFailure>, now: SystemTime) {
        match result {
            Ok(()) => self.unsaved = None,
            Err(why) => (self.problem, self.save_at) = (Some(why.text), now + SAVE_AGAIN),
        }
    }

    /// The state for the admin address.
    pub fn standing(&self) -> Standing {
        let is_missing =
            |name: &&String| self.kept.as_ref().is_some_and(|kept| !kept.covers(std::slice::from_ref(*name)));
        Standing {
            file: None,
            names: self.wanted.names.clone(),
            missing: self.wanted.names.iter().filter(is_missing).cloned().collect(),
            ends: self.kept.as_ref().map(|kept| kept.life.ends),
            next: Some(self.due),
            problem: self.problem.clone(),
            failures: self.failures,
            issued: self.issued,
            failed: self.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::failure::Cause;
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const MINUTE: Duration = Duration::from_secs(60);

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn wanted(list: &[&str]) -> WantedCertificate {
        WantedCertificate { id: list[0].to_owned(), names: names(list) }
    }

    /// Valid from 2026-01-01 to 2026-04-01, 90 days.
    fn kept(list: &[&str]) -> StoredCertificate {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(names(list)).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2026, 4, 1);
        StoredCertificate::parse(
            (key.serialize_pem() + &parameters.self_signed(&key).unwrap().pem()).as_bytes(),
        )
        .unwrap()
    }

    fn start() -> SystemTime {
        kept(&["a.example"]).life.begins
    }

    fn refused(list: &[&str]) -> AcmeFailure {
        AcmeFailure { names: names(list), ..AcmeFailure::new(Cause::NotFoundThere, "no") }
    }

    #[test]
    fn what_is_kept_is_ordered_when_it_is_time() {
        let now = start();
        let job = |kept, list: &[&str]| CertificateJob::new(wanted(list), kept, None, now, 0.0);
        assert_eq!(job(None, &["a.example"]).next(), (now, CertificateStep::Order));
        let kept = || Some(kept(&["a.example", "b.example"]));
        assert_eq!(job(kept(), &["a.example"]).due, now + DAY * 60);
        assert_eq!(job(kept(), &["a.example", "c.example"]).due, now);
    }

    #[test]
    fn failures_are_waited_out_and_a_reload_ends_that() {
        let now = start();
        let mut job = CertificateJob::new(wanted(&["a.example"]), None, None, now, 0.0);
        assert_eq!(job.failed(&refused(&["a.example"]), now, 0.5), MINUTE);
        assert_eq!((job.next(), job.is_partial()), ((now + MINUTE, CertificateStep::Order), false));
        let mut job = job.again(now + Duration::from_secs(1));
        assert_eq!(job.due, now + Duration::from_secs(1));
        // But not the authority's own pause.
        let limited = refused(&[]).not_before(Some(DAY));
        assert_eq!(job.failed(&limited, now, 0.0), DAY);
        let mut job = job.again(now + MINUTE);
        assert_eq!(job.due, now + DAY);
        job.came(kept(&["a.example"]), Some(Vec::new()), now, 0.0);
        let standing = job.standing();
        assert_eq!((job.due, job.failures, standing.issued, standing.failed), (now + DAY * 60, 0, 1, 2));
        assert_eq!((standing.problem, job.next()), (None, (now, CertificateStep::Save)));
    }

    #[test]
    fn failures_are_waited_out_over_a_restart() {
        let now = start();
        let new = || CertificateJob::new(wanted(&["a.example", "b.example"]), None, None, now, 0.0);
        let mut job = new();
        job.failed(&AcmeFailure::new(Cause::Refused, "no"), now, 0.5);
        job.failed(&AcmeFailure::new(Cause::Refused, "no"), now, 0.5);
        let mut after = new();
        after.resume(job.retry(now), now + MINUTE / 2);
        assert_eq!((after.due, after.failures), (now + MINUTE * 2, 2));
        assert_eq!((after.standing().problem.as_deref(), after.standing().failed), (Some("no"), 0));
        // A reload tries at once; the next failure continues counting.
        assert_eq!(new().again(now).due, now);
        let mut after = after.again(now + MINUTE);
        assert_eq!(after.due, now + MINUTE);
        assert_eq!(after.failed(&AcmeFailure::new(Cause::Refused, "no"), now, 0.5), MINUTE * 4);
        // The authority's pause applies after both.
        job.failed(&refused(&[]).not_before(Some(DAY)), now, 0.0);
        let mut after = new();
        after.resume(job.retry(now), now + MINUTE);
        assert_eq!(after.again(now + MINUTE).due, now + DAY);
        // One without some names waits for the rest.
        let mut job = new();
        job.failed(&refused(&["b.example"]), now, 0.5);
        assert!(job.is_partial() && job.due == now);
        let mut after = new();
        after.resume(job.begins(now, 0.5), now);
        assert_eq!((after.due, after.is_partial()), (now + MINUTE, false));
    }

    #[test]
    fn an_order_is_taken_up_again_at_once_but_not_for_ever() {
        let now = start();
        let mut minutes = Vec::new();
        let mut retry = None;
        for _ in 0..6 {
            let mut job = CertificateJob::new(wanted(&["a.example"]), None, None, now, 0.0);
            retry.into_iter().for_each(|retry| job.resume(retry, now));
            minutes.push(job.due.duration_since(now).unwrap().as_secs() / 60);
            assert_eq!((job.turns(), job.standing().failures), (0, 0), "it has not failed");
            retry = Some(job.begins(now, 0.5));
        }
        assert_eq!(minutes, [0, 0, 0, 1, 2, 4]);
        let mut job = CertificateJob::new(wanted(&["a.example"]), None, None, now, 0.0);
        job.resume(retry.unwrap(), now);
        job.came(kept(&["a.example"]), Some(Vec::new()), now, 0.0);
        assert_eq!((job.failures, job.begins(now, 0.5).interrupted), (0, 1));
    }

    #[test]
    fn a_name_that_leads_elsewhere_does_not_keep_the_others_from_theirs() {
        let now = start();
        let mut job =
            CertificateJob::new(wanted(&["a.example", "b.example", "c.example"]), None, None, now, 0.0);
        job.failed(&refused(&["b.example"]), now, 0.5);
        assert_eq!((job.next(), job.turns()), ((now, CertificateStep::Order), 0));
        assert_eq!(job.to_order(), wanted(&["a.example", "c.example"]));
        job.came(kept(&["a.example", "c.example"]), None, now, 0.0);
        // All of them are ordered again at the original time.
        assert_eq!(
            (job.due, job.to_order()),
            (now + MINUTE, wanted(&["a.example", "b.example", "c.example"]))
        );
        assert_eq!((job.standing().missing, job.failures), (names(&["b.example"]), 1));
        // The current certificate is enough until its renewal.
        job.failed(&refused(&["b.example"]), now, 0.5);
        assert!(!job.is_partial() && job.due == now + MINUTE * 2);
        job.failed(&refused(&["b.example"]), now + DAY * 61, 0.5);
        assert!(job.is_partial());
        // It fails without them, too.
        job.failed(&refused(&["a.example"]), now + DAY * 61, 0.5);
        assert!(!job.is_partial() && job.due > now + DAY * 61);
    }

    #[test]
    fn renewed_when_the_authority_wants() {
        let now = start() + DAY;
        let mut job = CertificateJob::new(wanted(&["a.example"]), Some(kept(&["a.example"])), None, now, 0.0);
        let window = |start: u32, end: u32| RenewalWindow { start: now + DAY * start, end: now + DAY * end };
        assert!(!job.heard(window(10, 12), DAY / 4, now, 0.5));
        assert_eq!((job.due, job.ask_at), (now + DAY * 11, now + DAY / 4));
        // The same window again must not cause a new random choice.
        job.heard(window(10, 12), Duration::ZERO, now, 0.9);
        assert_eq!((job.due, job.ask_at), (now + DAY * 11, now + MINUTE));
        let over =
            |hours: u32| RenewalWindow { start: start(), end: start() + Duration::from_secs(3600) * hours };
        assert!(job.heard(over(1), DAY, now, 0.5));
        assert_eq!(job.due, now);
        job.came(kept(&["a.example"]), None, now, 0.0);
        assert!(!job.heard(over(1), DAY, now + MINUTE, 0.5), "not for ever");
        assert!(job.heard(over(2), DAY, now + DAY, 0.5));
    }

    #[test]
    fn what_could_not_be_written_is_written_later() {
        let now = start();
        let mut job = CertificateJob::new(wanted(&["a.example"]), None, None, now, 0.0);
        job.came(kept(&["a.example"]), Some(vec![1]), now, 0.0);
        job.saved(Err(AcmeFailure::new(Cause::Disk, "full")), now);
        assert_eq!(
            (job.next(), job.problem.as_deref()),
            ((now + MINUTE, CertificateStep::Save), Some("full"))
        );
        job.saved(Ok(()), now);
        assert_eq!(job.unsaved, None);
    }
}

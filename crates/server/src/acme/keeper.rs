//! The thread that keeps certificates valid: it does what is due for each ([`CertificateJob`]), and logs the results.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime};

use instant_acme::{Account, ChallengeType, Error};
use millrace_settings::Plan;
use millrace_settings::plan::{self, Address, Challenge};

use super::challenges::ChallengeAnswers;
use super::client::AcmeClient;
use super::failure::{AcmeFailure, Cause};
use super::job::{CertificateJob, CertificateStep};
use super::kept::{self, StoredCertificate};
use super::order::{self, Ordering};
use super::retry::{self, Retry};
use super::schedule::RenewalWindow;
use super::store::Store;
use super::{Concern, WantedCertificate, account, certificates};
use crate::tls::Trust;
use millrace_base::context::{Clock, ProcessStage};

/// Maximum time for one certificate.
const ORDER: Duration = Duration::from_secs(600);
/// Maximum sleep: the wall clock may be set meanwhile.
const LOOK: Duration = Duration::from_secs(600);

/// The thread's main function. `is_start`: the server has just started.
pub fn run(concern: Concern, is_start: bool) {
    // One more thread looks names up, see `client`.
    let built = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    match built {
        Ok(runtime) => runtime.block_on(Keeper::new(concern).keep(is_start)),
        Err(error) => concern.process.log.error(format_args!("cannot obtain certificates: {error}")),
    }
}

struct Keeper {
    concern: Concern,
    clock: Clock,
    settings: plan::Acme,
    jobs: Vec<CertificateJob>,
    /// `None` until it is created or loaded.
    account: Option<(Account, AcmeClient)>,
}

impl Keeper {
    fn new(concern: Concern) -> Keeper {
        let settings = concern.plan.get().acme.clone();
        Keeper { concern, clock: Clock::default(), settings, jobs: Vec::new(), account: None }
    }

    async fn keep(mut self, is_start: bool) {
        self.take_over(is_start);
        while self.concern.process.stage() == ProcessStage::Running {
            let now = self.now();
            let next = self.jobs.iter().map(CertificateJob::next).zip(0..).min_by_key(|((at, _), _)| *at);
            match next {
                Some(((at, step), index)) if at <= now => self.step(index, step).await,
                _ => {
                    let pause = next.and_then(|((at, _), _)| at.duration_since(now).ok());
                    tokio::select! {
                        () = tokio::time::sleep(pause.unwrap_or(LOOK).min(LOOK)) => {}
                        () = self.concern.acme.changed.notified() => self.take_over(false),
                    }
                }
            }
            self.show();
        }
    }

    fn now(&self) -> SystemTime {
        self.clock.read();
        self.clock.wall()
    }

    fn show(&self) {
        self.concern.acme.board.write(self.jobs.iter().map(CertificateJob::standing).collect());
    }

    /// Takes the new configuration. `is_start`: the same certificates may have been ordered before the server was
    /// started.
    fn take_over(&mut self, is_start: bool) {
        let (plan, now) = (self.concern.plan.get(), self.now());
        if self.settings != plan.acme {
            (self.account, self.settings) = (None, plan.acme.clone());
            self.jobs.clear();
        }
        let mut old = std::mem::take(&mut self.jobs);
        for wanted in certificates(&plan) {
            let known = old.iter().position(|job| job.wanted.id == wanted.id).map(|at| old.swap_remove(at));
            self.jobs.push(match known {
                Some(job) if job.wanted == wanted => job.again(now),
                known => self.new_job(wanted, known.as_ref(), now, is_start),
            });
        }
        self.serve();
        self.show();
    }

    fn new_job(
        &self,
        wanted: WantedCertificate,
        old: Option<&CertificateJob>,
        now: SystemTime,
        is_start: bool,
    ) -> CertificateJob {
        let store = Store::of(&self.settings);
        // A damaged one was already reported when it was to be used.
        let kept = store.as_ref().and_then(|store| StoredCertificate::load(store, &wanted.id).ok().flatten());
        if kept.is_none() {
            self.concern.process.log.warn(format_args!(
                "no certificate for {} yet: serving a self-signed certificate, which browsers reject, until {} \
                 issues one",
                wanted.names.join(", "),
                self.settings.directory
            ));
        }
        let mut job = CertificateJob::new(wanted, kept, old, now, random());
        match store {
            Some(store) if is_start => self.resume(&store, &mut job, now),
            // It has not been ordered before: it is tried at once, even after a restart.
            Some(store) => retry::forget(&store, &job.wanted.id),
            None => {}
        }
        job
    }

    /// Continues to wait out failures from before the start.
    fn resume(&self, store: &Store, job: &mut CertificateJob, now: SystemTime) {
        let concerns = retry::concerns(&self.settings, &job.wanted, job.kept.as_ref());
        let Some(retry) = Retry::load(store, &job.wanted.id, concerns) else { return };
        let (due, problem) = (retry.due(now), retry.problem.clone());
        job.resume(retry, now);
        if let Ok(pause) = due.duration_since(now)
            && !pause.is_zero()
        {
            let why = problem.map(|problem| format!(": {problem}")).unwrap_or_default();
            self.concern.process.log.warn(format_args!(
                "obtaining a certificate for {} failed before the server was restarted{why}\n  next attempt in {}; \
                 `millrace reload` retries at once, unless the certificate authority asked to wait",
                job.wanted.names.join(", "),
                in_words(pause)
            ));
        }
    }

    /// Stores what a restart must know about a certificate's orders.
    fn remember(&self, store: &Store, job: &CertificateJob, retry: &Retry) -> Result<(), AcmeFailure> {
        let concerns = retry::concerns(&self.settings, &job.wanted, job.kept.as_ref());
        retry.save(store, &job.wanted.id, concerns)
    }

    /// Puts the certificates in force.
    fn serve(&self) {
        let terms = self.concern.terms.get();
        let Some(terms) = terms.as_ref() else { return };
        let pair = |job: &CertificateJob| Some((job.wanted.id.clone(), job.kept.as_ref()?.pair.clone()));
        terms.issued().replace(self.jobs.iter().filter_map(pair).collect());
        terms.refresh();
    }

    /// Does what is due for one certificate.
    async fn step(&mut self, index: usize, step: CertificateStep) {
        match step {
            CertificateStep::Save => self.save(index),
            CertificateStep::Ask => self.ask(index).await,
            CertificateStep::Order => self.order(index).await,
        }
    }

    /// Asks the authority when it wants the certificate renewed (RFC 9773): sooner if it is or will be revoked.
    async fn ask(&mut self, index: usize) {
        let id = self.jobs[index].kept.as_ref().and_then(|kept| kept.id.clone());
        let answer = match (id, self.open().await) {
            (Some(id), Ok((account, _))) => account.renewal_info(&id).await,
            _ => Err(Error::Unsupported("no account")),
        };
        let now = self.now();
        let job = &mut self.jobs[index];
        let (info, again) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.concern
                    .process
                    .log
                    .debug(format_args!("no renewal information from the certificate authority: {error}"));
                return job.heard_nothing(now);
            }
        };
        let (start, end) = (info.suggested_window.start.into(), info.suggested_window.end.into());
        if job.heard(RenewalWindow { start, end }, again, now, random()) {
            let why = info.explanation_url.map(|url| format!(" ({url})")).unwrap_or_default();
            self.concern.process.log.warn(format_args!(
                "the certificate authority requests renewal of the certificate for {} now: it may be revoked{why}",
                job.wanted.names.join(", ")
            ));
        }
    }

    async fn order(&mut self, index: usize) {
        let ordered = tokio::time::timeout(ORDER, self.obtain(index)).await;
        let result = ordered.unwrap_or_else(|_| {
            Err(AcmeFailure::new(
                Cause::Unreachable,
                "the certificate authority takes too long to issue the certificate",
            ))
        });
        match result {
            Ok((pem, kept)) => self.succeeded(index, pem, kept),
            Err(failure) => self.failed(index, &failure),
        }
    }

    /// The certificate; with its PEM, if that must still be stored.
    async fn obtain(&mut self, index: usize) -> Result<(Option<Vec<u8>>, StoredCertificate), AcmeFailure> {
        let terms = self.concern.terms.get();
        let Some(terms) = terms.as_ref() else {
            return Err(AcmeFailure::new(Cause::Refused, "HTTPS is not enabled"));
        };
        let store = self.store()?;
        store.prepare()?;
        let lock = store.lock()?;
        if let Some(kept) = self.of_another_server(index, &store) {
            return Ok((None, kept));
        }
        let (now, random) = (self.now(), random());
        let retry = self.jobs[index].begins(now, random);
        self.remember(&store, &self.jobs[index], &retry)?;
        let (account, client) = self.open().await?;
        let job = &self.jobs[index];
        let ordering = Ordering {
            account: &account,
            store: &store,
            wanted: job.to_order(),
            replaces: job.kept.as_ref().and_then(|kept| kept.id.clone()),
            challenge: challenge(&self.concern.plan.get(), job.turns()),
        };
        let answers = ChallengeAnswers::new(self.concern.acme.challenges.clone(), terms.issued().clone());
        let obtained = ordering.obtain(answers).await;
        let (pem, kept) = obtained.map_err(|failure| failure.not_before(client.pause()))?;
        drop(lock);
        Ok((Some(pem), kept))
    }

    /// A certificate that another server with the same folder has got meanwhile.
    fn of_another_server(&self, index: usize, store: &Store) -> Option<StoredCertificate> {
        let (job, now) = (&self.jobs[index], self.now());
        let kept = StoredCertificate::load(store, &job.wanted.id).ok()??;
        let is_newer = job.kept.as_ref().is_none_or(|old| old.life.begins < kept.life.begins);
        (is_newer && kept.covers(&job.to_order().names) && kept.life.renewal(0.0) > now).then_some(kept)
    }

    /// Opens the account at the authority.
    async fn open(&mut self) -> Result<(Account, AcmeClient), AcmeFailure> {
        if let Some(open) = &self.account {
            return Ok(open.clone());
        }
        let trust = Trust::new(self.settings.ca_file.as_deref());
        let client =
            AcmeClient::new(trust.map_err(|why| AcmeFailure::new(Cause::Unreachable, why.to_string()))?);
        let opened = account::open(&self.settings, &self.store()?, &client).await;
        let account = opened.map_err(|failure| failure.not_before(client.pause()))?;
        Ok(self.account.insert((account, client)).clone())
    }

    fn store(&self) -> Result<Store, AcmeFailure> {
        Store::of(&self.settings).ok_or_else(|| AcmeFailure::new(Cause::Disk, "acme.dir is not a folder"))
    }

    /// Puts it in force, whether it can be stored or not.
    fn succeeded(&mut self, index: usize, pem: Option<Vec<u8>>, kept: StoredCertificate) {
        let now = self.now();
        let job = &mut self.jobs[index];
        self.concern.process.log.info(format_args!(
            "obtained a certificate for {}: valid until {}, renewal is automatic",
            job.to_order().names.join(", "),
            httpdate::fmt_http_date(kept.life.ends)
        ));
        job.came(kept, pem, now, random());
        self.save(index);
        if let (job, Ok(store)) = (&self.jobs[index], self.store()) {
            match job.failures {
                0 => retry::forget(&store, &job.wanted.id),
                // Names are still missing. If this can't be stored, they are ordered too early once, which is
                // harmless.
                _ => drop(self.remember(&store, job, &job.retry(now))),
            }
        }
        self.serve();
    }

    /// Writes what is not on disk yet.
    fn save(&mut self, index: usize) {
        let (now, store) = (self.now(), self.store());
        let job = &mut self.jobs[index];
        let (Some(pem), Ok(store)) = (&job.unsaved, store) else { return };
        let written = store.write(&kept::file(&job.wanted.id), pem);
        match &written {
            Ok(()) => store.remove(&order::pending(&job.wanted.id)),
            Err(why) => self.concern.process.log.error(format_args!(
                "the certificate for {} is in use, but will be lost on restart: {why}",
                job.wanted.names.join(", ")
            )),
        }
        job.saved(written, now);
    }

    fn failed(&mut self, index: usize, failure: &AcmeFailure) {
        if failure.cause == Cause::NoAccount {
            if let Ok(store) = self.store() {
                account::forget(&store);
            }
            self.account = None;
        }
        let now = self.now();
        let job = &mut self.jobs[index];
        let names = job.to_order().names.join(", ");
        let pause = in_words(job.failed(failure, now, random()));
        let job = &self.jobs[index];
        if let Ok(store) = self.store() {
            // The disk may be what has failed; then it counts for this process only.
            let _ = self.remember(&store, job, &job.retry(now));
        }
        let meanwhile = match &job.kept {
            _ if job.is_partial() => {
                format!("; until then, Millrace requests one for {}", job.to_order().names.join(", "))
            }
            Some(kept) if kept.life.ends > now => {
                format!("; the certificate in use is valid until {}", httpdate::fmt_http_date(kept.life.ends))
            }
            _ => String::new(),
        };
        let advice = failure.advice();
        let text = format_args!(
            "cannot obtain a certificate for {names}: {failure}\n  {advice}\n  next attempt in {pause}{meanwhile}"
        );
        match meanwhile.is_empty() {
            true => self.concern.process.log.error(text),
            false => self.concern.process.log.warn(text),
        }
    }
}

/// How names are proven this time. An authority connects to ports 80 and 443, which may lead to other ports of ours.
fn challenge(plan: &Plan, failures: u32) -> ChallengeType {
    let at = |addresses: &[Address], port| {
        addresses.iter().any(|address| matches!(address, Address::Tcp(tcp) if tcp.port() == port))
    };
    let http_first = at(&plan.server.listen, 80) || !at(&plan.https.listen, 443);
    let other = failures % 2 == 1;
    match plan.acme.challenge {
        Challenge::Http => ChallengeType::Http01,
        Challenge::TlsAlpn => ChallengeType::TlsAlpn01,
        Challenge::Any if plan.server.listen.is_empty() => ChallengeType::TlsAlpn01,
        Challenge::Any if http_first != other => ChallengeType::Http01,
        Challenge::Any => ChallengeType::TlsAlpn01,
    }
}

/// From 0 up to 1. Spreads events that would otherwise coincide; need not be unpredictable.
fn random() -> f64 {
    (RandomState::new().build_hasher().finish() >> 11) as f64 / (1_u64 << 53) as f64
}

fn in_words(pause: Duration) -> String {
    match pause.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

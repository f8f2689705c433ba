//! The thread that looks after certificates: what is wanted, what is due, what went wrong and when it is tried again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use instant_acme::{Account, ChallengeType, Error};
use millrace_settings::Plan;
use millrace_settings::plan::{self, Address, Challenge};

use super::board::Standing;
use super::challenges::Answers;
use super::client::Client;
use super::failure::{Cause, Failure};
use super::kept::{self, Kept};
use super::order::Ordering;
use super::schedule::{self, Window};
use super::store::Store;
use super::{Wanted, account, certificates};
use crate::engine::{Clock, Process, Stage};
use crate::tls::Trust;

/// For one certificate, all in all.
const ORDER: Duration = Duration::from_secs(600);
/// The wall clock may be set while we sleep: it is looked at so often.
const LOOK: Duration = Duration::from_secs(600);
/// What could not be written is tried again after this.
const SAVE_AGAIN: Duration = Duration::from_secs(60);
/// What an authority says on when to ask again is held to be in these bounds.
const ASK: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(24 * 3600));

/// The life of the thread.
pub fn run(process: Arc<Process>) {
    // Names are looked up by one more thread, see `client`.
    let built = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    match built {
        Ok(runtime) => runtime.block_on(Keeper::new(process).keep()),
        Err(error) => process.log.error(format_args!("no certificates come: {error}")),
    }
}

struct Keeper {
    process: Arc<Process>,
    clock: Clock,
    settings: plan::Acme,
    jobs: Vec<Job>,
    /// Once it has been made or found.
    account: Option<(Account, Client)>,
}

/// A certificate that is looked after.
struct Job {
    wanted: Wanted,
    kept: Option<Kept>,
    /// The same as it should be on the disk, if it is not.
    unsaved: Option<Vec<u8>>,
    save_at: SystemTime,
    /// When it is ordered.
    due: SystemTime,
    /// The authority does not want to be asked before this.
    held: Option<SystemTime>,
    /// When the authority is asked whether it should be renewed.
    ask_at: SystemTime,
    window: Option<Window>,
    /// When it was renewed at once because the authority wanted that.
    urgent: Option<SystemTime>,
    problem: Option<String>,
    failures: u32,
    issued: u64,
    failed: u64,
}

impl Keeper {
    fn new(process: Arc<Process>) -> Keeper {
        let settings = process.setup().plan.acme.clone();
        Keeper { process, clock: Clock::default(), settings, jobs: Vec::new(), account: None }
    }

    async fn keep(mut self) {
        self.take_over();
        while self.process.stage() == Stage::Running {
            let now = self.now();
            let next = self.jobs.iter().enumerate().map(|(index, job)| (job.next(), index)).min();
            match next {
                Some((at, index)) if at <= now => self.step(index, now).await,
                _ => {
                    let pause =
                        next.and_then(|(at, _)| at.duration_since(now).ok()).unwrap_or(LOOK).min(LOOK);
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.process.acme.changed.notified() => self.take_over(),
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
        self.process.acme.board.write(self.jobs.iter().map(Job::standing).collect());
    }

    /// Learns what is wanted from now on. What has failed is tried again at once: somebody may have helped.
    fn take_over(&mut self) {
        let (setup, now) = (self.process.setup(), self.now());
        if self.settings != setup.plan.acme {
            (self.account, self.settings) = (None, setup.plan.acme.clone());
            self.jobs.clear();
        }
        let mut old = std::mem::take(&mut self.jobs);
        for wanted in certificates(&setup.plan) {
            let known = old.iter().position(|job| job.wanted.id == wanted.id).map(|at| old.swap_remove(at));
            self.jobs.push(match known {
                Some(job) if job.wanted == wanted => job.again(now),
                Some(Job { issued, failed, .. }) => Job { issued, failed, ..self.new_job(wanted, now) },
                None => self.new_job(wanted, now),
            });
        }
        self.serve();
        self.show();
    }

    fn new_job(&self, wanted: Wanted, now: SystemTime) -> Job {
        let store = Store::of(&self.settings);
        // That one is damaged has been said when it was to serve.
        let kept = store.and_then(|store| Kept::load(&store, &wanted.id).ok().flatten());
        let due = match &kept {
            Some(kept) if kept.covers(&wanted.names) => kept.life.renewal(random()),
            _ => now,
        };
        if kept.is_none() {
            self.process.log.warn(format_args!(
                "there is no certificate for {} yet: a self-signed one, which browsers don't believe, serves until it has come from {}",
                wanted.names.join(", "),
                self.settings.directory
            ));
        }
        let (problem, window, unsaved, held, urgent) = (None, None, None, None, None);
        let (failures, issued, failed, ask_at, save_at) = (0, 0, 0, now, now);
        Job {
            wanted,
            kept,
            unsaved,
            save_at,
            due,
            held,
            ask_at,
            window,
            urgent,
            problem,
            failures,
            issued,
            failed,
        }
    }

    /// Puts in force what there is.
    fn serve(&self) {
        let setup = self.process.setup();
        let Some(terms) = &setup.tls else { return };
        let ids: Vec<String> = self.jobs.iter().map(|job| job.wanted.id.clone()).collect();
        terms.issued().retain(&ids);
        for job in &self.jobs {
            if let Some(kept) = &job.kept {
                terms.issued().put(&job.wanted.id, kept.pair.clone());
            }
        }
        terms.refresh();
    }

    /// Does what is due for one certificate.
    async fn step(&mut self, index: usize, now: SystemTime) {
        if self.jobs[index].unsaved.is_some() && self.jobs[index].save_at <= now {
            self.save(index);
        } else if self.jobs[index].asks() && self.jobs[index].ask_at <= now {
            self.ask(index).await;
        } else {
            self.order(index).await;
        }
    }

    /// Asks the authority when it wants the certificate renewed (RFC 9773): sooner if it is or will be revoked.
    async fn ask(&mut self, index: usize) {
        let id = self.jobs[index].kept.as_ref().and_then(|kept| kept.id.clone());
        let answer = match (id, self.open().await) {
            (Some(id), Ok((account, _))) => account.renewal_info(&id).await,
            _ => Err(Error::Unsupported("no account")),
        };
        let (now, dice) = (self.now(), random());
        let job = &mut self.jobs[index];
        let (info, again) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                self.process.log.debug(format_args!("nothing is known of when to renew: {error}"));
                job.ask_at = now + schedule::ASK_EVERY;
                return;
            }
        };
        job.ask_at = now + again.clamp(ASK.0, ASK.1);
        let (start, end) = (info.suggested_window.start.into(), info.suggested_window.end.into());
        let window = Window { start, end };
        if job.failures > 0 || job.window.replace(window) == Some(window) {
            return;
        }
        let Some(kept) = job.kept.as_ref().filter(|kept| kept.covers(&job.wanted.names)) else { return };
        if window.end > now {
            job.due = kept.life.renewal_in(window, dice);
        } else if job.urgent.is_none_or(|last| now > last + schedule::URGENT_AGAIN) {
            let why = info.explanation_url.map(|url| format!(" ({url})")).unwrap_or_default();
            self.process.log.warn(format_args!(
                "the certificate authority wants the certificate for {} renewed now: it may have been revoked{why}",
                job.wanted.names.join(", ")
            ));
            (job.urgent, job.due) = (Some(now), now);
        }
    }

    async fn order(&mut self, index: usize) {
        let ordered = tokio::time::timeout(ORDER, self.obtain(index)).await;
        let result = ordered.unwrap_or_else(|_| {
            Err(Failure::new(Cause::Unreachable, "the certificate authority takes too long, all in all"))
        });
        let now = self.now();
        match result {
            Ok((pem, kept)) => self.succeeded(index, pem, kept, now),
            Err(failure) => self.failed(index, failure, now),
        }
    }

    async fn obtain(&mut self, index: usize) -> Result<(Vec<u8>, Kept), Failure> {
        let setup = self.process.setup();
        let challenge = challenge(&setup.plan, self.jobs[index].failures);
        let Some(terms) = &setup.tls else { return Err(Failure::new(Cause::Refused, "there is no HTTPS")) };
        let answers = Answers::new(self.process.acme.challenges.clone(), terms.issued().clone());
        let store = self.store()?;
        store.prepare().map_err(|why| Failure::new(Cause::Disk, why))?;
        let (account, client) = self.open().await?;
        let job = &self.jobs[index];
        let replaces = job.kept.as_ref().and_then(|kept| kept.id.clone());
        let ordering =
            Ordering { account: &account, store: &store, wanted: &job.wanted, replaces, challenge };
        ordering.obtain(answers).await.map_err(|failure| failure.not_before(client.pause()))
    }

    /// Who we are at the authority.
    async fn open(&mut self) -> Result<(Account, Client), Failure> {
        if let Some(open) = &self.account {
            return Ok(open.clone());
        }
        let trust = Trust::new(self.settings.ca_file.as_deref());
        let client = Client::new(trust.map_err(|why| Failure::new(Cause::Unreachable, why))?);
        let opened = account::open(&self.settings, &self.store()?, &client).await;
        let account = opened.map_err(|failure| failure.not_before(client.pause()))?;
        Ok(self.account.insert((account, client)).clone())
    }

    fn store(&self) -> Result<Store, Failure> {
        Store::of(&self.settings).ok_or_else(|| Failure::new(Cause::Disk, "acme.dir names no folder"))
    }

    /// It serves from now on, whether it can be kept or not.
    fn succeeded(&mut self, index: usize, pem: Vec<u8>, kept: Kept, now: SystemTime) {
        let job = &mut self.jobs[index];
        job.due = kept.life.renewal(random());
        self.process.log.info(format_args!(
            "a certificate for {} has come: it is valid until {} and will be renewed before",
            job.wanted.names.join(", "),
            httpdate::fmt_http_date(kept.life.ends)
        ));
        (job.kept, job.unsaved, job.save_at) = (Some(kept), Some(pem), now);
        (job.problem, job.failures, job.held, job.window, job.ask_at) = (None, 0, None, None, now);
        job.issued += 1;
        self.serve();
        self.save(index);
    }

    fn save(&mut self, index: usize) {
        let now = self.now();
        let store = self.store();
        let job = &mut self.jobs[index];
        let (Some(pem), Ok(store)) = (&job.unsaved, store) else { return };
        match store.write(&kept::file(&job.wanted.id), pem) {
            Ok(()) => {
                (job.unsaved, job.problem) = (None, None);
                store.remove(&super::order::pending(&job.wanted.id));
            }
            Err(why) => {
                self.process.log.error(format_args!(
                    "the certificate for {} serves, but would be lost at a restart: {why}",
                    job.wanted.names.join(", ")
                ));
                (job.problem, job.save_at) = (Some(why), now + SAVE_AGAIN);
            }
        }
    }

    fn failed(&mut self, index: usize, failure: Failure, now: SystemTime) {
        if failure.cause == Cause::NoAccount {
            if let Ok(store) = self.store() {
                account::forget(&store);
            }
            self.account = None;
        }
        let job = &mut self.jobs[index];
        job.failures += 1;
        job.failed += 1;
        let pause = schedule::pause(job.failures, failure.retry_after, random());
        job.due = now + pause;
        job.held = failure.retry_after.map(|_| job.due);
        job.problem = Some(failure.to_string());
        let names = job.wanted.names.join(", ");
        let (advice, pause) = (failure.advice(), in_words(pause));
        let log = &self.process.log;
        match &job.kept {
            Some(kept) if kept.life.ends > now => log.warn(format_args!(
                "the certificate for {names} is not renewed yet: {failure}\n  {advice}\n  tried again in {pause}; the old one is \
                 valid until {}",
                httpdate::fmt_http_date(kept.life.ends)
            )),
            _ => log.error(format_args!(
                "no certificate for {names}: {failure}\n  {advice}\n  tried again in {pause}"
            )),
        }
    }
}

impl Job {
    /// When there is something to do.
    fn next(&self) -> SystemTime {
        let save = self.unsaved.is_some().then_some(self.save_at);
        let ask = self.asks().then_some(self.ask_at);
        [save, ask].into_iter().flatten().fold(self.due, SystemTime::min)
    }

    fn asks(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.id.is_some())
    }

    /// After a reload.
    fn again(mut self, now: SystemTime) -> Job {
        if self.failures > 0 && self.held.is_none_or(|held| held <= now) {
            self.due = now;
        }
        (self.ask_at, self.save_at) = (now, now);
        self
    }

    fn standing(&self) -> Standing {
        Standing {
            names: self.wanted.names.clone(),
            ends: self.kept.as_ref().map(|kept| kept.life.ends),
            next: Some(self.due),
            problem: self.problem.clone(),
            failures: self.failures,
            issued: self.issued,
            failed: self.failed,
        }
    }
}

/// How names are proven this time. An authority asks at ports 80 and 443; what it finds there may be ours on other ports.
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

/// From 0 up to 1. Spreads what would else come at one moment; nobody gains by guessing it.
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

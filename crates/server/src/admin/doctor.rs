//! What the doctor says about the machine now, for the dashboard and `millrace top`.
//!
//! The doctor belongs to the command line, which passes it in as a function: this crate shares no code with it. It reads files of the
//! kernel, which may take a while, so it runs in a thread of its own, at most every [`EVERY`], and only while something asks for its report.
//! Its questions about the server are answered on the control thread, without HTTP and text in between.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// Examines the machine, which takes a few seconds, and returns its report. Its argument answers for a path of the admin address, or says in a
/// sentence why it cannot.
pub type Doctor = Arc<dyn Fn(&dyn Fn(&str) -> Result<Value, String>) -> Value + Send + Sync>;

/// Distance of the examinations.
const EVERY: Duration = Duration::from_secs(10);

/// A question of the doctor, and where its answer goes.
#[derive(Debug)]
pub struct DoctorQuestion {
    /// A path of the admin address.
    pub path: String,
    /// Waits for the answer.
    pub answer: oneshot::Sender<Result<Value, String>>,
}

/// The latest report, and the examination in progress.
pub struct DoctorReports {
    doctor: Option<Doctor>,
    ask: mpsc::UnboundedSender<DoctorQuestion>,
    latest: RefCell<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    /// The report; or why there is none.
    report: Option<Result<Value, String>>,
    /// End of the latest examination.
    ended: Option<Instant>,
    /// Start of the one in progress.
    began: Option<Instant>,
}

impl fmt::Debug for DoctorReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DoctorReports").field("latest", &self.latest).finish_non_exhaustive()
    }
}

impl DoctorReports {
    /// No report yet. The receiver gets the doctor's questions; without a doctor, none come.
    pub fn new(doctor: Option<Doctor>) -> (Rc<DoctorReports>, mpsc::UnboundedReceiver<DoctorQuestion>) {
        let (ask, questions) = mpsc::unbounded_channel();
        (Rc::new(DoctorReports { doctor, ask, latest: RefCell::default() }), questions)
    }

    /// The latest report as JSON; begins an examination if one is due. `state` is one of
    /// - `examining`, for so many `seconds`: there is no report yet, or none that says anything about now;
    /// - `ready`: the `report` as in `docs/doctor-schema.json`, and its `age_seconds`;
    /// - `failed`: `why`, and in how many seconds the next examination begins, `retry_seconds`;
    /// - `unavailable`: `why`.
    ///
    /// # Panics
    /// Outside of a `LocalSet`.
    pub fn json(self: &Rc<Self>, now: Instant) -> Value {
        self.examine_if_due(now);
        let latest = self.latest.borrow();
        let since = |at: Option<Instant>| at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        match (&self.doctor, &latest.report) {
            (None, _) => json!({ "state": "unavailable", "why": "this server has no doctor" }),
            (_, Some(Err(why))) => {
                let left = EVERY.saturating_sub(since(latest.ended));
                json!({ "state": "failed", "why": why, "retry_seconds": left.as_secs_f64().round() })
            }
            (_, None) => {
                json!({ "state": "examining", "seconds": since(latest.began).as_secs_f64().round() })
            }
            (_, Some(Ok(report))) => {
                let age = since(latest.ended).as_secs_f64().round();
                json!({ "state": "ready", "age_seconds": age, "report": report })
            }
        }
    }

    fn examine_if_due(self: &Rc<Self>, now: Instant) {
        let Some(doctor) = &self.doctor else { return };
        let mut latest = self.latest.borrow_mut();
        let age = latest.ended.map(|ended| now.saturating_duration_since(ended));
        if age.is_some_and(|age| age < EVERY) {
            return;
        }
        // A report of long ago says nothing about now, also while an examination hangs, in a file system that does not respond.
        if age.is_some_and(|age| age > 3 * EVERY) {
            latest.report = None;
        }
        if latest.began.is_some() {
            return;
        }
        match start(doctor.clone(), self.ask.clone()) {
            Ok(report) => {
                latest.began = Some(now);
                let reports = self.clone();
                tokio::task::spawn_local(async move {
                    let why =
                        "the examination ended without a report; Millrace's standard error has the reason";
                    let report = report.await.map_err(|_| why.to_owned());
                    *reports.latest.borrow_mut() =
                        Latest { report: Some(report), ended: Some(Instant::now()), began: None };
                });
            }
            Err(error) => {
                latest.report = Some(Err(format!("cannot start the doctor's thread: {error}")));
                latest.ended = Some(now);
            }
        }
    }
}

/// Examines in a thread of its own. The process does not wait for it when it ends.
fn start(
    doctor: Doctor,
    questions: mpsc::UnboundedSender<DoctorQuestion>,
) -> std::io::Result<oneshot::Receiver<Value>> {
    let (done, report) = oneshot::channel();
    let ask = move |path: &str| {
        let (answer, answered) = oneshot::channel();
        let ending = || super::Ending.to_string();
        questions.send(DoctorQuestion { path: path.to_owned(), answer }).map_err(|_| ending())?;
        answered.blocking_recv().map_err(|_| ending())?
    };
    std::thread::Builder::new().name("doctor".to_owned()).spawn(move || {
        // The last page may have been closed meanwhile.
        let _ = done.send(doctor(&ask));
    })?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Runs the examination that is in progress to its end, and answers its questions with `{"pid": 7}`.
    async fn finish(reports: &Rc<DoctorReports>, questions: &mut mpsc::UnboundedReceiver<DoctorQuestion>) {
        while reports.latest.borrow().began.is_some() {
            tokio::select! {
                Some(question) = questions.recv() => drop(question.answer.send(Ok(json!({ "pid": 7 })))),
                () = tokio::task::yield_now() => {}
            }
        }
    }

    #[tokio::test]
    async fn examines_only_when_it_is_asked_and_not_too_often() {
        let times = Arc::new(AtomicU32::new(0));
        let counted = times.clone();
        let doctor: Doctor = Arc::new(move |ask: &dyn Fn(&str) -> Result<Value, String>| {
            let time = counted.fetch_add(1, Ordering::Relaxed);
            json!({ "time": time, "pid": ask("/status.json").expect("an answer")["pid"] })
        });
        let (reports, mut questions) = DoctorReports::new(Some(doctor));
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let now = Instant::now();
                assert_eq!(reports.json(now)["state"], "examining");
                assert_eq!(reports.json(now)["state"], "examining", "one examination at a time");
                finish(&reports, &mut questions).await;
                let ready = reports.json(Instant::now());
                assert_eq!(
                    (&ready["state"], &ready["report"]),
                    (&json!("ready"), &json!({ "time": 0, "pid": 7 }))
                );
                assert!(reports.latest.borrow().began.is_none(), "the next one is not due");
                // The old report is shown until the next one is ready; after a long pause it is not.
                assert_eq!(reports.json(Instant::now() + EVERY)["report"]["time"], 0);
                finish(&reports, &mut questions).await;
                assert_eq!(reports.json(Instant::now())["report"]["time"], 1);
                let due = Instant::now() + EVERY;
                assert_eq!(reports.json(due)["report"]["time"], 1);
                // While that examination hangs, the report gets too old.
                let hangs = reports.json(due + EVERY * 3);
                assert_eq!((&hangs["state"], &hangs["seconds"]), (&json!("examining"), &json!(30.0)));
                finish(&reports, &mut questions).await;
            })
            .await;
        assert_eq!(times.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_failed_examination_says_why_and_is_tried_again() {
        let times = AtomicU32::new(0);
        let fails_once: Doctor = Arc::new(move |_: &dyn Fn(&str) -> Result<Value, String>| {
            assert!(times.fetch_add(1, Ordering::Relaxed) > 0, "a bug of the doctor");
            json!({})
        });
        let (reports, mut questions) = DoctorReports::new(Some(fails_once));
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                reports.json(Instant::now());
                finish(&reports, &mut questions).await;
                let ended = reports.latest.borrow().ended.expect("it has ended");
                let said = reports.json(ended);
                assert!(said["why"].as_str().expect("a sentence").contains("without a report"), "{said}");
                assert_eq!((&said["state"], &said["retry_seconds"]), (&json!("failed"), &json!(10.0)));
                reports.json(ended + EVERY);
                finish(&reports, &mut questions).await;
                assert_eq!(reports.json(Instant::now())["state"], "ready");
            })
            .await;
        let (none, _questions) = DoctorReports::new(None);
        assert_eq!(none.json(Instant::now())["state"], "unavailable");
    }
}

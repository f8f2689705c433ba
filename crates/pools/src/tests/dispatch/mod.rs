//! The steps of a request ([`Dispatcher`]), with canned responses: the effect of each failure, and the number of
//! attempts.

mod canned;

use std::future::{pending, ready};

use canned::CannedAnswers;

use super::super::dispatch::Dispatcher;
use super::super::transport::Transport;
use super::*;

/// A scene, and the transport that its requests use. It has one place.
#[derive(Clone)]
struct Stage {
    scene: Scene,
    canned: Arc<CannedAnswers>,
}

/// Plays `act` with these responses.
fn play<F: Future<Output = ()>>(answers: &str, act: impl FnOnce(Stage) -> F) {
    Rig::new(|php| php.queue = 1).play(|scene| {
        let canned = CannedAnswers::new(scene.site.plan.php.as_ref().unwrap(), answers);
        act(Stage { scene, canned })
    });
}

impl Stage {
    async fn run(&self, method: &str, gone: impl Future<Output = ()>) -> Option<Reply> {
        let mut request = self.scene.request(method, "", Content::Empty);
        self.scene.thread.clock.read();
        let dispatcher = Dispatcher::new(&self.scene.thread, &self.canned);
        dispatcher.run(&self.scene.site, &mut request, &script(), gone).await
    }

    async fn ask(&self, method: &str) -> Answer {
        read(self.run(method, pending()).await.unwrap()).await
    }

    /// Begins a request; returns the status of its response.
    fn begin(&self) -> tokio::task::JoinHandle<u16> {
        let stage = self.clone();
        tokio::task::spawn_local(async move { stage.ask("GET").await.status })
    }

    /// Number of requests that have a place, and that wait for one.
    fn count(&self) -> (usize, usize) {
        let pools = self.canned.lock();
        (pools.running(), pools.waiting())
    }

    /// Waits until this many requests have a place, and this many wait for one.
    async fn until(&self, running: usize, waiting: usize) {
        while self.count() != (running, waiting) {
            tokio::task::yield_now().await;
        }
    }
}

#[test]
fn each_failure_has_its_answer_and_its_number_of_attempts() {
    for (failure, method, status, attempts) in [
        ("not-begun", "POST", 502, 5),
        ("overloaded", "POST", 503, 5),
        ("too-long", "GET", 431, 1),
        ("lost", "GET", 502, 2),
        ("lost", "POST", 502, 1),
        ("late", "GET", 504, 1),
        ("no answer at all", "GET", 502, 1),
        ("down", "GET", 503, 1),
    ] {
        play(failure, async |stage| {
            let answer = stage.ask(method).await;
            assert_eq!((answer.status, stage.canned.taken()), (status, attempts), "{failure} {method}");
            let retried = stage.scene.count(Counter::PhpRetried);
            assert_eq!((retried, stage.count()), (attempts as u64 - 1, (0, 0)), "{failure} {method}");
        });
    }
}

#[test]
fn attempts_that_did_not_begin_do_not_count_as_repeats() {
    play("not-begun\n%%\nlost\n%%\noverloaded\n%%\nA: 1\n\nat last", async |stage| {
        let answer = stage.ask("GET").await;
        assert_eq!((answer.status, &*answer.text, stage.canned.taken()), (200, "at last", 4));
    });
    play("not-begun\n%%\noverloaded\n%%\nA: 1\n\nat last", async |stage| {
        assert_eq!(stage.ask("POST").await.text, "at last", "nothing had begun");
    });
}

#[test]
fn content_comes_in_pieces() {
    play("A: 1\n\none, \n%\ntwo, \n%\nthree\n%%\nA: 1\n\none\n%\nlost", async |stage| {
        let answer = stage.ask("GET").await;
        assert_eq!((&answer.fields[..], &*answer.text), (&["A: 1".to_owned()][..], "one, two, three"));
        assert!(answer.end.is_some_and(|end| end.is_ok()));
        let answer = stage.ask("GET").await;
        assert_eq!(
            (answer.status, &*answer.text, stage.canned.taken()),
            (200, "one", 2),
            "no second attempt"
        );
        assert!(answer.end.is_some_and(|end| end.is_err()), "the client learns that something is missing");
        stage.until(0, 0).await;
    });
}

#[test]
fn a_request_waits_for_a_place_in_a_queue_with_a_bound() {
    play("hold\nA: 1\n\nx", async |stage| {
        let first = stage.begin();
        stage.until(1, 0).await;
        let second = stage.begin();
        stage.until(1, 1).await;
        assert_eq!(stage.ask("GET").await.status, 503);
        assert_eq!(stage.scene.count(Counter::PhpQueueFull), 1);
        stage.canned.release();
        assert_eq!(first.await.unwrap(), 200);
        stage.until(1, 0).await;
        stage.canned.release();
        assert_eq!((second.await.unwrap(), stage.canned.taken(), stage.count()), (200, 2, (0, 0)));
    });
}

#[test]
fn a_client_that_goes_leaves_its_place() {
    play("hold\nA: 1\n\nx", async |stage| {
        let gone = || ready(());
        assert!(stage.run("GET", gone()).await.is_none());
        assert_eq!((stage.count(), stage.scene.count(Counter::PhpGone)), ((0, 0), 1), "it had a place");
        let first = stage.begin();
        stage.until(1, 0).await;
        assert!(stage.run("GET", gone()).await.is_none());
        assert_eq!((stage.count(), stage.scene.count(Counter::PhpGone)), ((1, 0), 2), "it waited for one");
        let second = stage.begin();
        stage.until(1, 1).await;
        second.abort();
        stage.until(1, 0).await;
        stage.canned.release();
        assert_eq!(first.await.unwrap(), 200);
    });
}

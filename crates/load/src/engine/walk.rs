//! How users go through the scenario: from flow to flow, from step to step.

use std::rc::Rc;
use std::sync::Arc;

use millrace_wire::response;

use super::clock::{SECOND, nanoseconds};
use super::connection::{Finished, Kept, Pending, RequestMessage, RequestOutcome};
use super::request::{Manner, Personal, Prepared};
use super::thread::Thread;
use super::user::{Cached, Memory, NONE};
use super::versions::Differing;
use crate::page::Kind;
use crate::plan::ArrivalModel;
use crate::record::Failure;
use crate::scenario::{Request, Step};
use crate::steps::{StepRow, Wrong};

/// How long a user waits at first after the tester or the network had no connection for it, and how often that doubles.
const PATIENCE: (u64, u8) = (SECOND / 100, 6);

/// The result of an attempt to send a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issued {
    /// It is on a connection.
    Sent,
    /// All connections that it may use are busy.
    Waits,
    /// There is no connection for it.
    Failed(Failure),
    /// No more requests may be made.
    Over,
}

impl Thread {
    /// A user begins a flow: this one, or one that is chosen by weight.
    pub(super) fn begin_flow(&mut self, key: u32, due: u64, flow: Option<u32>) {
        let flow = flow.unwrap_or_else(|| self.choose());
        let user = &mut self.users[key as usize];
        (user.flow, user.step, user.due, user.begun) = (flow, 0, due, due);
        user.is_active = true;
        if let Some(memory) = &mut user.memory {
            memory.values.clear();
            memory.redirected = None;
        }
        self.request(key);
    }

    /// The step that a user is in.
    pub(super) fn step_of(&self, key: u32) -> &Step {
        let user = &self.users[key as usize];
        &self.shared.scenario.flows[user.flow as usize].steps[user.step as usize]
    }

    /// A user continues after its think time, or when it is due.
    pub(super) fn wake(&mut self, key: u32, generation: u32, due: u64) {
        if self.is_over {
            return;
        }
        match self.users.get_mut(key as usize) {
            Some(user) if user.generation == generation && user.is_active => {
                user.due = due;
                self.request(key);
            }
            Some(user) if user.generation == generation => self.begin_flow(key, due, None),
            _ => {}
        }
    }

    /// A user continues after it waited for a connection.
    pub(super) fn resume(&mut self, key: u32) {
        let user = &self.users[key as usize];
        if user.memory.as_ref().is_some_and(|memory| memory.load.is_some()) {
            self.load_parts(key);
        } else {
            self.request(key);
        }
    }

    /// Sends the request of the user's step.
    pub(super) fn request(&mut self, key: u32) {
        loop {
            let user = &mut self.users[key as usize];
            let redirected = user.memory.as_mut().and_then(|memory| memory.redirected.take());
            let (what, due) = match &redirected {
                Some(what) => (what.clone(), self.lent.clock.now()),
                None => (self.steps[user.flow as usize][user.step as usize].clone(), user.due),
            };
            match self.issue(key, what, None, due) {
                Issued::Sent if self.shared.pipelines && self.has_room(key) => {
                    let flow = self.choose();
                    self.users[key as usize].flow = flow;
                }
                // The user's pipeline is full: the next response makes room.
                Issued::Waits if self.shared.pipelines && self.users[key as usize].connection != NONE => {
                    return;
                }
                Issued::Waits => {
                    let user = &mut self.users[key as usize];
                    if redirected.is_some() {
                        user.memory().redirected = redirected;
                    }
                    return self.queue.push_back((key, user.generation));
                }
                Issued::Failed(failure) => return self.on_failed(key, failure),
                Issued::Sent | Issued::Over => return,
            }
        }
    }

    /// Sends a request on a connection of the user's.
    pub(super) fn issue(&mut self, key: u32, what: Rc<Prepared>, part: Option<Kind>, due: u64) -> Issued {
        if !self.shared.takes_request() {
            return Issued::Over;
        }
        let issued = self.send(key, what, part, due);
        if issued == Issued::Waits {
            self.shared.gives_request_back();
        }
        issued
    }

    /// The same for a request that was counted already.
    fn send(&mut self, key: u32, what: Rc<Prepared>, part: Option<Kind>, due: u64) -> Issued {
        let connection = match self.connection_for(key) {
            Ok(Some(connection)) => connection,
            Ok(None) => return Issued::Waits,
            Err(failure) => return Issued::Failed(failure),
        };
        let user = &self.users[key as usize];
        let sent = self.lent.clock.now();
        let user_generation = user.generation;
        self.lent.tally.begun += 1;
        let is_personal = part.is_none() && self.has_cookies(key, &what);
        let pending = Pending {
            what: what.clone(),
            user: key,
            user_generation,
            part,
            is_personal,
            due,
            sent,
            first: 0,
        };
        if let Some(message) = &what.message {
            self.submit(connection, pending, RequestMessage::Http2(message.clone()));
        } else if self.manner.is_http2 {
            let message = self.personal(key, &what, Manner::message_of);
            self.submit(connection, pending, RequestMessage::Http2(message));
        } else if what.bytes.is_empty() {
            let bytes = self.personal(key, &what, Manner::bytes_of);
            self.submit(connection, pending, RequestMessage::Bytes(&bytes));
        } else {
            self.submit(connection, pending, RequestMessage::Bytes(&what.bytes));
        }
        Issued::Sent
    }

    fn has_cookies(&self, key: u32, what: &Prepared) -> bool {
        let memory = self.users[key as usize].memory.as_ref();
        let tls = self.shared.scenario.origin.tls;
        self.shared.scenario.cookies
            && memory.is_some_and(|memory| !memory.jar.field(&what.request.target, tls).is_empty())
    }

    /// A request that is this user's alone, as `make` makes it.
    fn personal<T>(&self, key: u32, what: &Prepared, make: fn(&Manner, &Request, Personal<'_>) -> T) -> T {
        let nothing = Memory::default();
        let memory = self.users[key as usize].memory.as_deref().unwrap_or(&nothing);
        let values = memory.values.as_slice();
        let target = Manner::target_of(&what.request, Personal { values, ..Personal::default() });
        let cookies = memory.jar.field(&target, self.shared.scenario.origin.tls);
        // Values are extracted from content, which a 304 does not have.
        let cached = memory.cache.get(&target).filter(|_| what.extract.is_empty());
        let conditions = cached.map(Cached::conditions).unwrap_or_default();
        let personal = Personal { values, cookies: &cookies, conditions: &conditions };
        make(&self.manner, &what.request, personal)
    }

    /// A request has ended.
    pub(super) fn on_finished(&mut self, finished: Finished) {
        let Finished { pending, connection, outcome } = finished;
        if !self.shared.plan.keep_alive
            && self.connections.get(connection as usize).is_some_and(|connection| connection.load() == 0)
        {
            self.remove(connection);
        }
        let is_gone = self
            .users
            .get(pending.user as usize)
            .is_none_or(|user| user.generation != pending.user_generation);
        if is_gone {
            // The tester itself closed the connection of a user that left.
            return;
        }
        let key = pending.user;
        let (failure, kept) = match outcome {
            RequestOutcome::Again => return self.again(pending),
            RequestOutcome::Failed(failure) => {
                self.lent.tally.failures.count(failure);
                self.row(key, pending.part).count(Some(failure), None);
                (Some(failure), None)
            }
            RequestOutcome::Whole { status, failure, last, kept, wrong, differing } => {
                match differing {
                    Some(differing) => self.count_apart(&pending, *differing),
                    None => self.count(&pending, status, failure, last),
                }
                if let Some(wrong) = wrong {
                    self.row(key, pending.part).describe(*wrong);
                }
                (failure, kept)
            }
        };
        let user = &mut self.users[key as usize];
        let is_absent = matches!(failure, Some(Failure::Refused | Failure::Unreachable));
        user.failed = if is_absent { user.failed.saturating_add(1) } else { 0 };
        if let Some(kept) = &kept {
            self.take_cookies(key, &pending, kept);
        }
        if failure.is_none()
            && let Some(kept) = &kept
            && let Some(lead) = self.lead(key, &pending, kept)
        {
            return self.follow(key, &pending, lead);
        }
        if let Some(kind) = pending.part {
            return self.on_part(key, &pending, kind, failure.is_some(), kept.as_deref());
        }
        let is_right = failure.is_none() && self.extract(key, &pending, kept.as_deref());
        let is_page = self.step_of(key).page;
        match kept {
            Some(kept) if is_page && is_right => self.on_page(key, &pending, &kept),
            _ => {
                self.lent.tally.pages_failed += u64::from(is_page && !is_right);
                self.end_step(key, is_right);
            }
        }
    }

    /// Takes the step's values out of its response. False: one isn't there, so the response is wrong.
    fn extract(&mut self, key: u32, pending: &Pending, kept: Option<&Kept>) -> bool {
        let (what, Some(kept)) = (&pending.what, kept) else { return pending.what.extract.is_empty() };
        if what.extract.is_empty() {
            return true;
        }
        let Err(name) = self.users[key as usize].memory().extract(&what.extract, kept) else { return true };
        let (expected, size) = (format!("a value for `{name}`"), kept.content.len());
        let wrong =
            Wrong { target: what.request.target.clone(), expected, found: format!("none in {size} bytes") };
        self.row(key, None).describe(wrong);
        self.take_back(key, Failure::WrongContent);
        false
    }

    fn count(&mut self, pending: &Pending, status: u16, failure: Option<Failure>, last: u64) {
        let tally = &mut self.lent.tally;
        tally.responses += 1;
        tally.statuses[usize::from(status) - 100] += 1;
        let _ = tally.first_byte.record(pending.first.saturating_sub(pending.due) / 1000);
        let last = last.saturating_sub(pending.due) / 1000;
        let _ = tally.last_byte.record(last);
        match failure {
            None => tally.ok += 1,
            Some(failure) => tally.failures.count(failure),
        }
        self.row(pending.user, pending.part).count(failure, Some(last));
    }

    /// Counts a response whose content may be a new version of its page.
    fn count_apart(&mut self, pending: &Pending, differing: Differing) {
        self.lent.tally.responses += 1;
        let row = self.row_of(pending.user, pending.part);
        let same = self.lent.differing.iter_mut().find(|other| {
            other.hash == differing.hash
                && other.row == row
                && Arc::ptr_eq(&other.expected, &differing.expected)
        });
        match same {
            Some(same) => same.count += 1,
            None => self.lent.differing.push(Differing { row, ..differing }),
        }
    }

    /// The row of a user's request: that of its step, or of what pages need.
    pub(super) fn row(&mut self, key: u32, part: Option<Kind>) -> &mut StepRow {
        let row = self.row_of(key, part);
        &mut self.rows[row]
    }

    fn row_of(&self, key: u32, part: Option<Kind>) -> usize {
        let (user, rows) = (&self.users[key as usize], &self.shared.rows);
        if part.is_some() { rows.parts() } else { rows.step(user.flow, user.step) }
    }

    /// The user's last response was counted as right, which it is not.
    pub(super) fn take_back(&mut self, key: u32, failure: Failure) {
        self.row(key, None).take_back(failure);
        self.lent.tally.ok = self.lent.tally.ok.saturating_sub(1);
        self.lent.tally.failures.count(failure);
    }

    fn take_cookies(&mut self, key: u32, pending: &Pending, kept: &Kept) {
        if !self.shared.scenario.cookies {
            return;
        }
        for field in response::values(&kept.head, "set-cookie") {
            let memory = self.users[key as usize].memory();
            memory.jar.take(&String::from_utf8_lossy(field), &pending.what.request.target);
        }
    }

    /// The same request on another connection: the server closed this one as it may.
    fn again(&mut self, pending: Pending) {
        let key = pending.user;
        self.lent.tally.begun = self.lent.tally.begun.saturating_sub(1);
        match self.send(key, pending.what, pending.part, pending.due) {
            Issued::Sent | Issued::Over => {}
            Issued::Waits | Issued::Failed(_) => {
                let is_alone = !self.shared.pipelines || self.users[key as usize].connections().count() == 0;
                if is_alone {
                    self.on_failed(key, Failure::Reset);
                } else {
                    // The pipeline is full, and the next response makes room in it.
                    self.shared.gives_request_back();
                }
            }
        }
    }

    /// There is no connection for the user.
    pub(super) fn on_failed(&mut self, key: u32, failure: Failure) {
        self.lent.tally.begun += 1;
        self.lent.tally.failures.count(failure);
        self.row(key, None).count(Some(failure), None);
        let user = &mut self.users[key as usize];
        user.failed = user.failed.saturating_add(1);
        self.end_step(key, false);
    }

    /// A step is through.
    pub(super) fn end_step(&mut self, key: u32, ok: bool) {
        let user = &self.users[key as usize];
        let steps = &self.shared.scenario.flows[user.flow as usize].steps;
        let think = steps[user.step as usize].think;
        let is_last = user.step as usize + 1 >= steps.len();
        if !ok || is_last {
            return self.end_flow(key, ok, think);
        }
        let now = self.lent.clock.now();
        let pause = think.map_or(0, |think| self.pause(think));
        let user = &mut self.users[key as usize];
        user.step += 1;
        if pause > 0 {
            self.wake_at(key, now + pause);
        } else {
            user.due = now;
            self.request(key);
        }
    }

    /// A flow is complete: the user leaves, or begins again when it is due.
    fn end_flow(&mut self, key: u32, ok: bool, think: Option<(std::time::Duration, std::time::Duration)>) {
        if ok {
            self.lent.tally.flows += 1;
        } else {
            self.lent.tally.flows_failed += 1;
        }
        if self.shared.plan.arrivals == ArrivalModel::Open {
            return self.dismiss(key);
        }
        let user = &mut self.users[key as usize];
        user.is_active = false;
        let (failed, begun) = (user.failed, user.begun);
        if self.is_over {
            return;
        }
        if self.has_surplus() {
            let user = &self.users[key as usize];
            let is_busy = user.connections().any(|key| self.connections[key as usize].load() > 0);
            if !is_busy {
                self.dismiss(key);
            }
            return;
        }
        let now = self.lent.clock.now();
        if let Some(every) = self.shared.plan.every {
            return self.wake_at(key, begun + nanoseconds(every));
        }
        let think = think.or(self.shared.plan.think).map_or(0, |think| self.pause(think));
        let patience = if failed > 0 { PATIENCE.0 << (failed - 1).min(PATIENCE.1) } else { 0 };
        match think.max(patience) {
            0 => self.begin_flow(key, now, None),
            pause => self.wake_at(key, now + pause),
        }
    }

    fn pause(&mut self, (least, most): (std::time::Duration, std::time::Duration)) -> u64 {
        let (least, most) = (nanoseconds(least), nanoseconds(most));
        least + (self.random() * most.saturating_sub(least) as f64) as u64
    }

    /// A flow, by weight.
    fn choose(&mut self) -> u32 {
        if self.steps.len() < 2 {
            return 0;
        }
        let at = (self.random() * self.shared.weights.last().copied().unwrap_or(0) as f64) as u64;
        self.shared.weights.partition_point(|sum| *sum <= at) as u32
    }

    /// Whether the user's connection takes another request.
    fn has_room(&self, key: u32) -> bool {
        let connection = self.users[key as usize].connection;
        self.connections.get(connection as usize).is_some_and(|known| known.load() < self.shared.streams)
    }
}

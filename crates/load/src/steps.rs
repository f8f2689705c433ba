//! What became of each step of a scenario over a whole run: the rows of the table by URL and step.

use hdrhistogram::Histogram;

use crate::record::{Failure, Failures, histogram};
use crate::scenario::Scenario;

/// Steps that have a row of their own; the others share the last but one.
const MOST_ROWS: usize = 200;
/// Responses with wrong content that a row describes.
const MOST_WRONG: usize = 3;

/// Which row each step of a scenario has: its steps flow by flow, then what pages need.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The row of each flow's first step.
    firsts: Vec<usize>,
    names: Vec<String>,
}

/// A row: the requests of a step.
#[derive(Clone, Debug)]
pub struct StepRow {
    /// The flow, and the request: `buyer 2: POST /?wc-ajax=add_to_cart`.
    pub name: String,
    /// Successful responses.
    pub ok: u64,
    /// Failures by kind.
    pub failures: Failures,
    /// Time until the response was complete.
    pub last_byte: Histogram<u64>,
    /// Some responses with wrong content, each kind of mistake once.
    pub wrong: Vec<Wrong>,
}

/// A response whose content was not as expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Path and query of the request.
    pub target: String,
    /// The expected content.
    pub expected: String,
    /// The received content.
    pub found: String,
}

impl Rows {
    /// The rows of a scenario.
    pub fn of(scenario: &Scenario) -> Rows {
        let mut rows = Rows::default();
        for flow in &scenario.flows {
            rows.firsts.push(rows.names.len());
            for (index, step) in flow.steps.iter().enumerate() {
                let request = format!("{} {}", step.request.method, step.request.target);
                rows.names.push(match (scenario.flows.len() > 1, flow.steps.len() > 1) {
                    _ if flow.name == step.request.target => request,
                    (true, true) => format!("{} {}: {request}", flow.name, index + 1),
                    (true, false) => format!("{}: {request}", flow.name),
                    (false, _) => format!("{}: {request}", index + 1),
                });
            }
        }
        if rows.names.len() > MOST_ROWS {
            rows.names.truncate(MOST_ROWS - 1);
            rows.names.push("other steps".to_owned());
        }
        rows.names.push("what pages need".to_owned());
        rows
    }

    /// Empty rows, for a thread or a run.
    pub fn empty(&self) -> Vec<StepRow> {
        self.names.iter().map(|name| StepRow::new(name.clone())).collect()
    }

    /// The row of a step.
    pub fn step(&self, flow: u32, step: u32) -> usize {
        (self.firsts[flow as usize] + step as usize).min(self.names.len() - 2)
    }

    /// The row of what pages need.
    pub fn parts(&self) -> usize {
        self.names.len() - 1
    }
}

impl StepRow {
    fn new(name: String) -> StepRow {
        StepRow { name, ok: 0, failures: Failures::default(), last_byte: histogram(), wrong: Vec::new() }
    }

    /// Counts a response that is complete, or a request that failed: `last` is the time until the end of the response in microseconds.
    pub fn count(&mut self, failure: Option<Failure>, last: Option<u64>) {
        match failure {
            None => self.ok += 1,
            Some(failure) => self.failures.count(failure),
        }
        if let Some(last) = last {
            let _ = self.last_byte.record(last);
        }
    }

    /// A response that was counted as right is not.
    pub fn take_back(&mut self, failure: Failure) {
        self.ok = self.ok.saturating_sub(1);
        self.failures.count(failure);
    }

    /// Describes a response with wrong content, unless there are examples enough.
    pub fn describe(&mut self, wrong: Wrong) {
        let is_known = |known: &Wrong| known.target == wrong.target && known.expected == wrong.expected;
        if self.wrong.len() < MOST_WRONG && !self.wrong.iter().any(is_known) {
            self.wrong.push(wrong);
        }
    }

    /// Requests that have ended.
    pub fn requests(&self) -> u64 {
        self.ok + self.failures.total()
    }

    /// Adds what another thread or run has.
    pub fn add(&mut self, other: &StepRow) {
        self.ok += other.ok;
        self.failures.add(&other.failures);
        self.last_byte.add(&other.last_byte).expect("histograms that grow can hold each other's values");
        other.wrong.iter().cloned().for_each(|wrong| self.describe(wrong));
    }
}

/// Adds rows to the same rows of a run, which may have none yet.
pub fn add(sum: &mut Vec<StepRow>, rows: &[StepRow]) {
    if sum.is_empty() {
        // A thread reports its rows only at its end, and before that none.
        *sum = rows.to_vec();
        return;
    }
    sum.iter_mut().zip(rows).for_each(|(sum, row)| sum.add(row));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Flow, Origin, Request, Step};

    fn scenario(flows: Vec<Flow>) -> Scenario {
        let origin = Origin { tls: false, host: "a.test".to_owned(), port: 80 };
        Scenario { flows, ..Scenario::one(origin, "/") }
    }

    #[test]
    fn each_step_has_its_row() {
        let step = |target: &str| {
            Step::new(Request { method: "GET".to_owned(), target: target.to_owned(), ..Request::default() })
        };
        let buyer = Flow { name: "buyer".to_owned(), weight: 1, steps: vec![step("/shop/"), step("/cart/")] };
        let rows = Rows::of(&scenario(vec![Flow::get(9, "/".to_owned()), buyer]));
        let names: Vec<_> = rows.empty().into_iter().map(|row| row.name).collect();
        assert_eq!(names, ["GET /", "buyer 1: GET /shop/", "buyer 2: GET /cart/", "what pages need"]);
        assert_eq!((rows.step(0, 0), rows.step(1, 1), rows.parts()), (0, 2, 3));
    }

    #[test]
    fn many_steps_share_a_row() {
        let flows = (0..1000).map(|number| Flow::get(1, format!("/{number}"))).collect();
        let rows = Rows::of(&scenario(flows));
        assert_eq!(
            (rows.empty().len(), rows.step(5, 0), rows.step(999, 0), rows.parts()),
            (201, 5, 199, 200)
        );
    }

    #[test]
    fn rows_add_up() {
        let mut row = StepRow::new("GET /".to_owned());
        row.count(None, Some(500));
        row.take_back(Failure::WrongContent);
        let wrong =
            |found: &str| Wrong { target: "/".to_owned(), expected: "a".to_owned(), found: found.to_owned() };
        ["b", "c"].into_iter().for_each(|found| row.describe(wrong(found)));
        let mut sum = Vec::new();
        add(&mut sum, &[row.clone()]);
        add(&mut sum, &[row]);
        assert_eq!((sum[0].ok, sum[0].requests(), sum[0].last_byte.len()), (0, 2, 2));
        assert_eq!(sum[0].wrong, [wrong("b")]);
    }
}

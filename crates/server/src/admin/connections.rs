//! Connections: their states, their memory, and dropped ones.

use std::fmt::Write;

use serde_json::{Value, json};

use super::machine::Machine;
use super::status::{bytes, grouped};
use millrace_base::context::budget::Budget;
use millrace_base::context::stats::Counter;

/// States of connections, with their counters. Every connection is in exactly one of them.
const STATES: [(&str, Counter); 5] = [
    ("idle", Counter::ConnectionsIdle),
    ("reading", Counter::ConnectionsReading),
    ("running", Counter::ConnectionsRunning),
    ("writing", Counter::ConnectionsWriting),
    ("handshaking", Counter::ConnectionsShaking),
];

/// Open connections, in all states; `value` reads a counter.
pub fn open(value: &dyn Fn(Counter) -> u64) -> u64 {
    STATES.iter().map(|(_, counter)| value(*counter)).sum()
}

/// A snapshot of the connections.
pub struct Connections {
    states: [u64; STATES.len()],
    awaiting_php: u64,
    encrypted: u64,
    h2: u64,
    accepted: u64,
    refused: u64,
    timed_out: u64,
    gave_way: u64,
    shed: u64,
    waiting: u64,
    dropped: u64,
    used: u64,
    most: Option<u64>,
    written: Option<u64>,
    /// How `written` was computed, if it is a default.
    how: Option<String>,
}

impl Connections {
    /// Reads the counters and the budget; `how` the budget was computed, if it is a default.
    pub fn gather(value: &dyn Fn(Counter) -> u64, budget: &Budget, how: Option<String>) -> Connections {
        Connections {
            states: STATES.map(|(_, counter)| value(counter)),
            awaiting_php: value(Counter::AwaitPhp),
            encrypted: value(Counter::ConnectionsTls),
            h2: value(Counter::ConnectionsH2),
            accepted: value(Counter::ConnectionsAccepted),
            refused: value(Counter::ConnectionsRefused),
            timed_out: value(Counter::ConnectionsTimedOut),
            gave_way: value(Counter::ConnectionsGaveWay),
            shed: value(Counter::ConnectionsShed),
            waiting: value(Counter::ListenWaiting),
            dropped: value(Counter::ListenDropped),
            used: budget.used(),
            most: budget.most(),
            written: budget.written(),
            how,
        }
    }

    /// Open connections, in all states.
    pub fn open(&self) -> u64 {
        self.states.iter().sum()
    }

    fn each(&self) -> Option<u64> {
        self.used.checked_div(self.open())
    }

    /// Connections by state, as JSON.
    pub fn states_json(&self) -> Value {
        let states = STATES.iter().zip(self.states).map(|((name, _), count)| (*name, count));
        let more = [("awaiting_php", self.awaiting_php), ("tls", self.encrypted), ("h2", self.h2)];
        states.chain(more).collect()
    }

    /// Memory of connections, as JSON.
    pub fn memory_json(&self) -> Value {
        json!({
            "used_bytes": self.used,
            "budget_bytes": self.most,
            "written_bytes": self.written,
            "bytes_each": self.each(),
            "found": self.how,
        })
    }

    /// Listen queues, as JSON.
    pub fn queues_json(&self, machine: &Machine) -> Value {
        json!({
            "waiting": self.waiting,
            "dropped": self.dropped,
            "overflows_of_machine": machine.listen_overflows,
            "drops_of_machine": machine.listen_drops,
        })
    }

    /// Status text; `lately` is the number of connections accepted per second in the last minute.
    pub fn write(&self, text: &mut String, machine: &Machine, lately: f64) -> std::fmt::Result {
        let [idle, reading, running, writing, shaking] = self.states.map(grouped);
        writeln!(
            text,
            "{:<14}{} open: {idle} idle, {reading} reading, {running} running, {writing} writing, {shaking} in a TLS \
             handshake; {} requests waiting for PHP; {} TLS, {} HTTP/2",
            "Connections",
            grouped(self.open()),
            grouped(self.awaiting_php),
            grouped(self.encrypted),
            grouped(self.h2)
        )?;
        writeln!(
            text,
            "{:<14}{} accepted, {lately:.1}/s in the last minute, {} refused, {} timed out; {} closed to make room, \
             {} answered with 503 for lack of memory",
            "",
            grouped(self.accepted),
            grouped(self.refused),
            grouped(self.timed_out),
            grouped(self.gave_way),
            grouped(self.shed)
        )?;
        self.write_memory(text)?;
        self.write_queues(text, machine)
    }

    fn write_memory(&self, text: &mut String) -> std::fmt::Result {
        let each = self.each().map_or(String::new(), |each| format!(", {} each", bytes(each)));
        let Some(most) = self.most else {
            return writeln!(text, "{:<14}{} for connections{each}; no limit", "Memory", bytes(self.used));
        };
        writeln!(text, "{:<14}{} of {} for connections{each}", "Memory", bytes(self.used), bytes(most))?;
        match self.written {
            Some(written) if written > most => writeln!(
                text,
                "{:<14}configured: {}, but other programs use the machine's memory",
                "",
                bytes(written)
            ),
            _ => Ok(()),
        }
    }

    fn write_queues(&self, text: &mut String, machine: &Machine) -> std::fmt::Result {
        write!(text, "{:<14}{} connections waiting to be accepted", "Listen queues", grouped(self.waiting))?;
        if self.dropped > 0 {
            write!(text, "; {} connection attempts lost because a queue was full", grouped(self.dropped))?;
        }
        let of_machine = [("overflows", machine.listen_overflows), ("drops", machine.listen_drops)];
        let of_machine: Vec<String> = of_machine
            .into_iter()
            .filter_map(|(name, count)| {
                Some(format!("{} {name}", grouped(count.filter(|count| *count > 0)?)))
            })
            .collect();
        if !of_machine.is_empty() {
            write!(text, "; of all programs since boot: {}", of_machine.join(", "))?;
        }
        writeln!(text)
    }
}

//! Browsers in front of the waiting room: they come back when they are told to, or give up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::IpAddr;

use super::super::admission::Rank;
use super::super::request_queue::Applicant;
use super::{CAPACITY, Crowd, Machine, PAGE, Tally};

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Browser {
    next: u64,
    first: u64,
    address: IpAddr,
    cookie: Option<Vec<u8>>,
    /// When it gives up.
    leaves: u64,
}

/// Kendall's tau-a of two orders: 1 if they are equal.
fn tau(pairs: &[(u64, u64)]) -> f64 {
    let (mut agree, mut all) = (0i64, 0i64);
    // Every fourth is enough.
    for (at, one) in pairs.iter().enumerate().step_by(4) {
        for other in pairs[at + 1..].iter().step_by(4) {
            if one.0 != other.0 {
                all += 1;
                agree += if (one.0 < other.0) == (one.1 <= other.1) { 1 } else { -1 };
            }
        }
    }
    agree as f64 / all.max(1) as f64
}

/// A crowd of browsers.
struct Rush {
    /// Its request rate, as a multiple of the capacity.
    times: f64,
    /// How long browsers arrive, seconds.
    seconds: u64,
    /// The share of them that comes back at all.
    staying: f64,
    /// How long each one waits before it gives up, seconds.
    patience: u64,
}

/// The result for a crowd.
struct Outcome {
    came: usize,
    /// Number of browsers that came back at all.
    stayed: usize,
    /// Number of these that were served.
    served: usize,
    /// Kendall's tau of their order.
    tau: f64,
    /// The share of the capacity that was used while browsers arrived.
    used: f64,
}

fn crowd(rush: &Rush) -> Outcome {
    let mut machine = Machine::new(16);
    machine.play(5, &Crowd::Open(CAPACITY), &[PAGE]);
    let begin = machine.now;
    let end = begin + rush.seconds * 1_000;
    // The first is the next to come back.
    let mut outside: BinaryHeap<Reverse<Browser>> = BinaryHeap::new();
    let mut inside: Vec<Option<Browser>> = Vec::new();
    let (mut next, mut served, mut came, mut stayed) = (begin as f64, Vec::new(), 0u32, 0);
    let mut in_time = 0;
    while machine.now < end + 300_000
        && !(machine.now > end && outside.is_empty() && machine.running.is_empty())
    {
        while next <= machine.now as f64 && machine.now < end {
            next += -machine.chance().ln() * 1_000.0 / (CAPACITY * rush.times);
            came += 1;
            let address = IpAddr::from((0x0a00_0000 + came * 977).to_be_bytes());
            let first = machine.now;
            let stays = machine.chance() <= rush.staying;
            stayed += usize::from(stays);
            let leaves = if stays { first + rush.patience * 1_000 } else { first };
            outside.push(Reverse(Browser { next: first, first, address, cookie: None, leaves }));
        }
        let now = machine.now;
        while outside.peek().is_some_and(|Reverse(browser)| browser.next <= now) {
            let Some(Reverse(mut browser)) = outside.pop() else { break };
            let from = Applicant {
                rank: Rank::Visitor,
                address: Some(browser.address),
                place: browser.cookie.clone(),
            };
            if machine.enter(inside.len(), &from, &[PAGE]) {
                inside.push(Some(browser));
                continue;
            }
            let capacity = machine.capacity();
            let told = machine.queue.keep_place(now, &from, capacity).expect("there is room");
            // A browser takes a moment to load.
            browser.next = now + told.retry * 1_000 + 50;
            if browser.next <= browser.leaves {
                browser.cookie = Some(told.cookie.into_bytes());
                outside.push(Reverse(browser));
            }
        }
        let running: Vec<usize> = machine.running.iter().map(|run| run.client).collect();
        machine.some(1, &Crowd::Open(0.0), &[PAGE], &mut Tally::default());
        for client in running {
            if client < inside.len() && !machine.running.iter().any(|run| run.client == client) {
                let browser = inside[client].take().expect("each is served once");
                in_time += u32::from(machine.now < end);
                if browser.leaves > browser.first {
                    served.push((browser.first, machine.now));
                }
            }
        }
    }
    let used = f64::from(in_time) / rush.seconds as f64 / CAPACITY;
    Outcome { came: came as usize, stayed, served: served.len(), tau: tau(&served), used }
}

/// Longer than the simulation lasts.
const FOR_EVER: u64 = 3_600;

#[test]
fn all_who_stay_are_served_in_the_order_of_their_arrival() {
    let found = crowd(&Rush { times: 5.0, seconds: 60, staying: 1.0, patience: FOR_EVER });
    assert!(found.stayed > 20_000, "{}", found.stayed);
    assert_eq!((found.came, found.served), (found.stayed, found.stayed));
    // A visitor that was admitted while the queue was short is not overtaken for ever: that costs some of the order.
    assert!(found.tau > 0.945, "{:.3}", found.tau);
    assert!(found.used > 0.95, "{:.2}", found.used);
}

#[test]
fn those_who_leave_keep_no_worker_idle() {
    for staying in [0.0, 0.2, 0.5] {
        let found = crowd(&Rush { times: 5.0, seconds: 60, staying, patience: FOR_EVER });
        assert_eq!(found.served, found.stayed, "{staying}");
        assert!(found.used > 0.95, "{staying}: {:.2}", found.used);
        // If few browsers stay, waits are short, and the order is random.
        assert!(staying < 0.5 || found.tau > 0.9, "{staying}: {:.3}", found.tau);
    }
}

#[test]
fn where_most_give_up_the_order_holds() {
    let found = crowd(&Rush { times: 5.0, seconds: 100, staying: 1.0, patience: 60 });
    // Those that come back late, because their place is far behind, have left by then.
    assert!(found.tau > 0.87, "{:.3}", found.tau);
    assert!(found.used > 0.95, "{:.2}", found.used);
    assert!(found.served > 5_000, "{}", found.served);
}

#[test]
fn people_who_give_up_after_two_minutes_leave_the_order_to_the_others() {
    let found = crowd(&Rush { times: 5.0, seconds: 180, staying: 1.0, patience: 120 });
    assert!(found.used > 0.95, "{:.2}", found.used);
    assert!(found.tau > 0.9, "{:.3}", found.tau);
}

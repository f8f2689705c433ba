//! Browsers before the waiting room: they come back when they are told to, or give up.

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
    /// Whether it waits for as long as it takes.
    stays: bool,
}

/// Kendall's tau-a of two orders: 1 if they are the same.
fn tau(pairs: &[(u64, u64)]) -> f64 {
    let (mut agree, mut all) = (0i64, 0i64);
    // Every fourth says enough.
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

/// So many times the capacity come for a minute; a part of them stays. Returns how many stayed, how many of them were
/// served within five minutes and a half, the order, and the part of the capacity that was used in that minute.
fn crowd(times: f64, staying: f64) -> (usize, usize, f64, f64) {
    let mut machine = Machine::new(16);
    machine.play(5, &Crowd::Open(CAPACITY), &[PAGE]);
    let begin = machine.now;
    // The next to come back first.
    let mut outside: BinaryHeap<Reverse<Browser>> = BinaryHeap::new();
    let mut inside: Vec<Option<Browser>> = Vec::new();
    let (mut next, mut served, mut stayed) = (begin as f64, Vec::new(), 0);
    let mut in_first_minute = 0;
    while machine.now < begin + 330_000 && !(machine.now > begin + 60_000 && outside.is_empty()) {
        while next <= machine.now as f64 && machine.now < begin + 60_000 {
            next += -machine.chance().ln() * 1_000.0 / (CAPACITY * times);
            let (number, stays) = (stayed as u32 + 1, machine.chance() <= staying);
            stayed += 1;
            let address = IpAddr::from((0x0a00_0000 + number * 977).to_be_bytes());
            let first = machine.now;
            outside.push(Reverse(Browser { next: first, first, address, cookie: None, stays }));
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
            if browser.stays {
                // A browser takes a moment to load.
                browser.next = now + told.retry * 1_000 + 50;
                browser.cookie = Some(told.cookie.into_bytes());
                outside.push(Reverse(browser));
            }
        }
        let running: Vec<usize> = machine.running.iter().map(|run| run.client).collect();
        machine.some(1, &Crowd::Open(0.0), &[PAGE], &mut Tally::default());
        for client in running {
            if client < inside.len() && !machine.running.iter().any(|run| run.client == client) {
                let browser = inside[client].take().expect("each is served once");
                in_first_minute += u32::from(machine.now < begin + 60_000);
                if browser.stays {
                    served.push((browser.first, machine.now));
                }
            }
        }
    }
    let left = outside.iter().filter(|Reverse(browser)| browser.stays).count();
    let used = f64::from(in_first_minute) / 60.0 / CAPACITY;
    (served.len() + left, served.len(), tau(&served), used)
}

#[test]
fn all_who_stay_are_served_in_the_order_of_their_arrival() {
    let (stayed, served, tau, used) = crowd(5.0, 1.0);
    assert!(stayed > 20_000, "{stayed}");
    assert_eq!(served, stayed);
    // A visitor that was let in while the queue was short is not overtaken for ever: that costs some of the order.
    assert!(tau > 0.94, "{tau:.3}");
    assert!(used > 0.95, "{used:.2}");
}

#[test]
fn those_who_leave_keep_no_worker_idle() {
    for staying in [0.0, 0.2, 0.5] {
        let (stayed, served, tau, used) = crowd(5.0, staying);
        assert_eq!(served, stayed, "{staying}");
        assert!(used > 0.95, "{staying}: {used:.2}");
        // Where few stay they wait for moments, and the order is that of chance.
        assert!(staying < 0.5 || tau > 0.9, "{staying}: {tau:.3}");
    }
}

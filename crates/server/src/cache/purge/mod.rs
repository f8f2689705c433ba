//! Purge orders from outside of the scripts: `millrace purge` (through the admin address), and the HTTP methods
//! `PURGE` and `BAN`. Scripts' own orders come with their responses (see `cache::settle`).
//!
//! [`PurgeOrder`] is a validated order; [`request`] reads one from a request. The error log gets every purge that
//! covered pages, whatever its source, at level info: source, order, number of pages. That is the purge log; `grep
//! purge` finds it. Purges without pages are logged at level debug.

mod left;
mod order;
mod request;

use std::fmt;

use millrace_settings::plan::Level;

pub use left::{LeftLooks, LeftOrders};
#[cfg(test)]
pub use order::tests;
pub use order::{OrderError, PurgeOrder, key_host, site_and_target};
pub use request::{bearer, is_order};

use super::{CacheThread, PageCache};
use millrace_base::context::Process;
use millrace_base::context::log::Log;
use millrace_base::context::stats::Registry;
use millrace_base::message::{Reply, Request};
use millrace_base::site::{Site, SiteSetup};

/// The response to a request with the method `PURGE` or `BAN`.
pub fn answer(thread: &CacheThread, setup: &SiteSetup, site: &Site, request: &Request) -> Reply {
    match request::read(site, &setup.plan.cache, request) {
        Err(refusal) => {
            if refusal.status == 403 && request::is_worth_a_line(request) {
                let (method, host) = (request.head.method(), request.authority());
                let log = &thread.context.process.log;
                log.message(
                    Level::Warn,
                    format_args!("rejected {method} from this machine for {host}: {}", request::WHAT_TO_DO),
                );
            }
            *refusal
        }
        Ok(order) => {
            let who = match request.ends.client_ip() {
                Some(ip) => format!("{} from {ip}", request.head.method()),
                None => format!("{} from a Unix socket", request.head.method()),
            };
            request::done(follow(&thread.context.process, &thread.cache, setup, &order, &who))
        }
    }
}

/// Executes an order of `who`. Returns roughly the number of pages it covered.
pub fn follow(
    process: &Process,
    cache: &PageCache,
    setup: &SiteSetup,
    order: &PurgeOrder,
    who: &str,
) -> usize {
    let pages = cache.purge(&order.purges(setup));
    note(&process.stats, &process.log, &who, &order.shown(setup), pages);
    pages
}

/// Counts and logs a purge.
pub fn note(stats: &Registry, log: &Log, who: &dyn fmt::Display, what: &dyn fmt::Display, pages: usize) {
    stats.purged(pages);
    let level = if pages == 0 { Level::Debug } else { Level::Info };
    let plural = if pages == 1 { "" } else { "s" };
    log.message(level, format_args!("purge by {who}: {what}: {pages} page{plural}"));
}

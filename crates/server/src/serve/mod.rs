//! The pipeline: from a [`Request`](crate::message::Request) to a [`Reply`](crate::message::Reply), the same for all
//! protocols.
//!
//! ```text
//!   respond ── ACME, bans, rules of the site, PURGE
//!      ├─ a rule with a script ── Ask: PHP decides, then respond again
//!      ├─ an application's path ── cache, proxy: content in, the application for this request
//!      └─ route ── Route ── files ──────────── Ready, or Later
//!                   ├──── redirect, refuse ── Ready
//!                   └──── PHP ── cache ── hit ─── Ready
//!      │                            ├────── miss ── Page: one run of PHP for all waiting requests
//!                                          └────── Script: content in, PHP for this request alone
//!   Exchange ── waits for what is not Ready: files that scripts hand over, compression
//!   leave ───── the site's own header fields, on every response
//! ```
//!
//! A response that is ready is sent without leaving the connection's loop; the rest becomes an [`Exchange`].

mod application_rules;
mod auth_script;
pub mod code;
mod exchange;
pub mod explain;
mod handover;
mod page_url;
mod php_services;
mod respond;
mod rest;
mod rules;
mod service;
mod setup;
mod site_rules;
pub mod sql;
#[cfg(test)]
mod tests;

pub use crate::cache::Waited;
pub use crate::php::{PhpStartError, SiteWorkers};
pub use crate::proxy::{ApplicationStatus, watch as watch_applications};
pub use crate::shield::{BanStatus, CrawlerStatus, ShieldOrder, ShieldReport, ShieldStatus};
pub use exchange::{
    CLIENT_GONE, Exchange, ExchangeClient, ExchangeTrouble, no_room, record_at_once, refusal,
};
pub use page_url::PageUrl;
pub use respond::{Response, respond};
pub use service::{ServeThread, Service, Setup, SharedSetup};
pub use setup::{Built, build};

use handover::hand_over;

use crate::message::Reply;
use crate::site::Site;

/// The only place where a site's own header fields are added: where a reply leaves the pipeline.
pub fn leave(site: &Site, mut reply: Reply) -> Reply {
    if !std::mem::replace(&mut reply.has_site_fields, true) {
        reply.fields.push_block(&site.header_lines);
    }
    reply
}

//! The pipeline: from a [`Request`](millrace_base::message::Request) to a [`Reply`](millrace_base::message::Reply), the same for all
//! protocols.
//!
//! ```text
//!   walk ────── rows: rules, place, cache ── Answer: sent at once
//!      │                                 ├── Wait: then it walks again
//!      │                                 └── Make: by PHP or an application
//!   exchange ── waits for what is not an answer yet: content in, pages that are being made, files that scripts hand over, compression
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
mod rest;
mod service;
mod setup;
mod site_rules;
pub mod sql;
#[cfg(test)]
mod tests;
mod walk;

pub use crate::cache::Waited;
pub use crate::proxy::{ApplicationStatus, watch as watch_applications};
pub use crate::shield::{BanStatus, CrawlerStatus, ShieldOrder, ShieldReport, ShieldStatus};
pub use exchange::{
    CLIENT_GONE, Exchange, ExchangeClient, ExchangeTrouble, no_room, record_at_once, refusal,
};
pub use millrace_base::message::Step;
pub use millrace_pools::{PhpStartError, SiteWorkers};
pub use page_url::PageUrl;
pub use service::{ServeThread, Service, Setup, SharedSetup};
pub use setup::{Built, build};
pub use walk::{Make, respond};

use handover::hand_over;

use millrace_base::message::Reply;
use millrace_base::site::Site;

/// The only place where a site's own header fields are added: where a reply leaves the pipeline.
pub fn leave(site: &Site, reply: &mut Reply) {
    if !std::mem::replace(&mut reply.has_site_fields, true) {
        reply.fields.push_block(&site.header_lines);
    }
}

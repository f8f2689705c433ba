//! The room's rules, with a scripted maker in place of PHP.

mod carts;
mod members;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_pages::Hardness;
use millrace_settings::plan;

use super::{admit, watch};
use crate::cache::tests::{Answer, Scene, answers, maker, page, play, read};
use crate::cache::{CacheStatus, CacheThread, PageRun, consult, settle};
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::{Aside, Body, Reply};
use millrace_base::message::{Request, Step};
use millrace_base::site::Site;

/// A response of PHP's for one visitor leaves.
fn leaves(
    thread: &Rc<CacheThread>,
    site: &Arc<Site>,
    request: &Request,
    reply: &mut Reply,
    cache_status: CacheStatus,
) {
    watch(thread, site, request, reply, cache_status);
    settle(thread, site, request, reply, cache_status);
}

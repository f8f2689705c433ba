//! After a purge or expiry, refills the most wanted pages before visitors have to wait for them - one after the
//! other, and only while PHP has idle workers.

use std::collections::VecDeque;
use std::rc::Rc;

use super::{PATIENCE, WarmRequest, ask};
use crate::serve::ServeThread;
use millrace_base::context::stats::Counter;
use millrace_base::context::{ProcessStage, WorkKind};

/// Maximum number of pages that a thread remembers; the others are made on request.
const MOST: usize = 256;

/// Runs until the server ends. It searches for such pages in each round of its event loop, a few times a second.
pub async fn refill(thread: Rc<ServeThread>) {
    let mut wanted: VecDeque<Box<[u8]>> = VecDeque::new();
    loop {
        thread.context.rounds.notified().await;
        if thread.context.process.stage() != ProcessStage::Running {
            return;
        }
        thread.context.clock.read();
        let found = thread.service.cache.tidy(&thread.context, MOST);
        for key in found {
            if !wanted.contains(&key) {
                wanted.push_back(key);
            }
        }
        wanted.truncate(MOST);
        let _open = (!wanted.is_empty()).then(|| thread.context.begin(WorkKind::Visit));
        while let Some(page) = wanted.front().and_then(|key| WarmRequest::from_key(key)) {
            if !make(&thread, &page).await {
                break;
            }
            wanted.pop_front();
        }
        // Pages that can't be requested by their key alone.
        while wanted.front().is_some_and(|key| WarmRequest::from_key(key).is_none()) {
            wanted.pop_front();
        }
    }
}

/// Makes a page; false if PHP is busy.
async fn make(thread: &Rc<ServeThread>, page: &WarmRequest) -> bool {
    thread.context.clock.read();
    let setup = thread.setup();
    let site = setup.workers_for(&page.page.authority);
    if !site.pages_service().is_some_and(|service| service.is_at_leisure()) {
        return false;
    }
    // The next visitor sees the result.
    if tokio::time::timeout(PATIENCE, ask(thread, site, page)).await.is_ok() {
        thread.context.stats.add(Counter::CacheRefills, 1);
    }
    true
}

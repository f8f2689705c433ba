//! The room's rules, with a scripted maker in place of PHP.

mod carts;
mod members;

use std::collections::VecDeque;
use std::time::Duration;

use millrace_pages::Hardness;
use millrace_settings::plan;

use super::{admit, watch};
use crate::cache::tests::{Answer, Scene, answers, maker, page, play, read};
use crate::cache::{CacheStatus, PageRun, consult, settle};
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::{Aside, Body, Reply};
use millrace_base::message::{Request, Step};

/// A visitor's request that PHP is answering.
struct Run {
    request: Request,
    status: CacheStatus,
}

impl Run {
    /// PHP reports this.
    fn hear(&self, note: &[u8]) {
        self.request.found.visit.as_ref().expect("a visit").hear(note);
    }
}

impl Scene {
    /// A visitor asks for a page, and PHP begins to make it.
    ///
    /// # Errors
    ///
    /// The answer, if it is stored.
    fn begins(&self, target: &str, fields: &[&str]) -> Result<Run, Reply> {
        let mut request = self.request(None, "GET", target, fields);
        self.thread.context.clock.read();
        let path = target.split('?').next().unwrap_or(target).as_bytes();
        let status = match consult(&self.thread, &self.site, &request, path, &maker, admit) {
            Step::Answer(reply) => return Err(reply),
            Step::Make(PageRun { status, page: None }) => status,
            _ => panic!("it waits for a page"),
        };
        self.site.visitors.begin(&self.thread.context, &mut request, self.site.cache.as_deref());
        Ok(Run { request, status })
    }
}

/// A response of PHP's for one visitor leaves.
fn leaves(scene: &Scene, run: &Run, reply: &mut Reply) {
    watch(&scene.thread, &scene.site, &run.request, reply, run.status);
    settle(&scene.thread, &scene.site, &run.request, reply, run.status);
}

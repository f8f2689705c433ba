//! The room's rules, with a scripted maker in place of PHP. The room `audience` plays with it, too.

mod countries;
mod fills;
mod hits;
mod outlive;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_pages::{Hardness, Purge};
use millrace_settings::{Source, plan};
use millrace_wire::head::{Head, Limits};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

use super::{CacheThread, Disk, DiskLimits, PageCache, PageMaker, PageRun, Waited, consult, settle};
use crate::audience;
use millrace_base::context::log::Log;
use millrace_base::context::stats::{Counter, Registry};
use millrace_base::context::{Context, Process};
use millrace_base::message::Step;
use millrace_base::message::reply::{Aside, Body, Fields, Reply};
use millrace_base::message::request::{Ends, Request, Scheme};
use millrace_base::site::Site;

/// What the maker does at its next call.
type Play = Box<dyn FnOnce(Request) -> Pin<Box<dyn Future<Output = Reply>>>>;

thread_local! {
    static PLAYS: RefCell<VecDeque<Play>> = const { RefCell::new(VecDeque::new()) };
    static RUNS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn maker() -> PageMaker {
    Rc::new(make)
}

pub(crate) fn make(request: Request) -> Pin<Box<dyn Future<Output = Reply>>> {
    let asked = format!("{} {}", request.head.method(), String::from_utf8_lossy(request.head.path_query()));
    RUNS.with_borrow_mut(|runs| runs.push(asked));
    let play = PLAYS.with_borrow_mut(VecDeque::pop_front).expect("PHP was not expected to run");
    play(request)
}

/// The maker returns this response at once.
pub(crate) fn answers(reply: Reply) {
    plays(move |_| Box::pin(std::future::ready(reply)));
}

/// The maker returns this response after a delay.
pub(crate) fn answers_late(reply: Reply, after: Duration) {
    plays(move |_| {
        Box::pin(async move {
            tokio::time::sleep(after).await;
            reply
        })
    });
}

/// The maker returns this response when the gate is closed: then nothing waits at it any more.
pub(crate) fn answers_behind(gate: &Rc<Semaphore>, reply: Reply) {
    let gate = gate.clone();
    plays(move |_| {
        Box::pin(async move {
            let _ = gate.acquire().await;
            reply
        })
    });
}

pub(crate) fn gate() -> Rc<Semaphore> {
    Rc::new(Semaphore::new(0))
}

pub(crate) fn plays(play: impl FnOnce(Request) -> Pin<Box<dyn Future<Output = Reply>>> + 'static) {
    PLAYS.with_borrow_mut(|plays| plays.push_back(Box::new(play)));
}

/// How often the maker was called.
pub(crate) fn runs() -> usize {
    RUNS.with_borrow(Vec::len)
}

/// A response of a script: its fields, its content.
pub(crate) fn page(fields: &[(&str, &str)], content: &str) -> Reply {
    let mut reply = Reply::new(200).with("Content-Type", "text/html; charset=utf-8");
    let mut aside = Aside::default();
    // As a worker says of a script that has looked for no cookie, and has read nothing of a cart.
    aside.notes.cookies = Some((*b"-").into());
    aside.notes.cart = Some((*b"-").into());
    for (name, value) in fields {
        let list = if millrace_pages::judge::is_ours(name) { &mut aside.fields } else { &mut reply.fields };
        list.push(name, value.as_bytes());
    }
    reply.aside = Some(Box::new(aside));
    reply.body(Body::Bytes(content.into()))
}

/// A response of a script to a condition that holds.
pub(crate) fn unchanged() -> Reply {
    Reply { status: 304, ..page(&[], "") }.body(Body::Empty)
}

/// An event loop with one site.
pub(crate) struct Scene {
    pub(crate) thread: Rc<CacheThread>,
    pub(crate) site: Arc<Site>,
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) text: String,
    pub(crate) whole: bool,
}

impl Answer {
    pub(crate) fn field(&self, wanted: &str) -> &str {
        let mut values = self.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let value = values.next().map_or("", |(_, value)| std::str::from_utf8(value).unwrap());
        assert!(values.next().is_none(), "{wanted} is there twice");
        value
    }

    pub(crate) fn cache(&self) -> &str {
        self.field("Cache-Status")
    }
}

/// Runs `scene` for a site with this profile.
pub(crate) fn play<F: Future<Output = ()>>(
    profile: plan::Profile,
    change: impl FnOnce(&mut plan::Plan),
    scene: impl FnOnce(Scene) -> F,
) {
    PLAYS.with_borrow_mut(VecDeque::clear);
    RUNS.with_borrow_mut(Vec::clear);
    let source = Source { site_dir: Some(std::env::temp_dir()), ..Source::default() };
    let (mut plan, _) = millrace_settings::load(&source).unwrap();
    plan.sites[0].profile = profile;
    plan.cache.dir = None;
    plan.cache.memory = 16 << 20;
    change(&mut plan);
    let site = Site::new(0, plan.sites[0].clone());
    let disk = match &plan.cache.dir {
        Some(dir) => {
            let limits = DiskLimits { settle: Duration::ZERO, ..DiskLimits::new(plan.cache.disk_bytes) };
            Disk::open(dir, limits, &Log::quiet())
        }
        None => Disk::off(),
    };
    let cache = PageCache::with_disk(plan.cache.memory, 1, disk);
    cache.set_rules([&*site].into_iter());
    cache.begin_to_load();
    let process = Process::new(Registry::new(1), Log::quiet(), 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let context = Context::new(0, 1, process, plan.into());
        let scene = scene(Scene { thread: CacheThread::new(&context, &cache, false), site });
        tokio::time::timeout(Duration::from_secs(30), scene).await.expect("a test takes too long");
    });
    assert!(PLAYS.with_borrow(VecDeque::is_empty), "PHP was expected to run more often");
}

impl Scene {
    pub(crate) fn request(
        &self,
        client: Option<SocketAddr>,
        method: &str,
        target: &str,
        fields: &[&str],
    ) -> Request {
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n");
        fields.iter().for_each(|field| text.extend([field, "\r\n"]));
        text.push_str("\r\n");
        let mut head = Head::default();
        head.parse(text.as_bytes(), &Limits { bytes: 16384, fields: 100, target: 8192 }).unwrap().unwrap();
        let ends = Ends { client, local: None, scheme: Scheme::Http, tls: None };
        Request { content_is_read: true, ..Request::direct(head, ends) }
    }

    /// Sends a request as the protocol does.
    pub(crate) async fn ask(&self, method: &str, target: &str, fields: &[&str]) -> Answer {
        self.ask_from(None, method, target, fields).await
    }

    pub(crate) async fn ask_from(
        &self,
        client: Option<SocketAddr>,
        method: &str,
        target: &str,
        fields: &[&str],
    ) -> Answer {
        let request = self.request(client, method, target, fields);
        let same = self.request(client, method, target, fields);
        self.thread.context.clock.read();
        let reply = loop {
            let mut path = Vec::new();
            millrace_wire::path::normalise(request.raw_path(), &mut path).expect("a path");
            break match consult(&self.thread, &self.site, &request, &path, &maker, audience::admit) {
                Step::Answer(reply) => reply,
                Step::Make(PageRun { page: Some(page), .. }) => match page.await {
                    // No worker is idle.
                    Waited::Reply(reply) | Waited::Late(reply) => reply,
                    Waited::Again => continue,
                    Waited::Alone => self.alone(request, same, super::CacheStatus::PASS).await,
                },
                Step::Make(PageRun { status: cache_status, .. }) => {
                    self.alone(request, same, cache_status).await
                }
                _ => unreachable!("this is no crowd loop"),
            };
        };
        read(reply, method == "HEAD").await
    }

    pub(crate) async fn alone(
        &self,
        request: Request,
        asked: Request,
        cache_status: super::CacheStatus,
    ) -> Reply {
        let mut reply = make(asked).await;
        audience::watch(&self.thread, &self.site, &request, &mut reply, cache_status);
        settle(&self.thread, &self.site, &request, &mut reply, cache_status);
        reply
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[]).await
    }

    pub(crate) fn purge_everything(&self, how: Hardness) {
        self.thread.cache.purge(&[(Purge::Everything, how)]);
    }

    /// Pages that are wished for, from now on no more.
    pub(crate) fn wishes(&self) -> Vec<Box<[u8]>> {
        self.thread.cache.wished.take()
    }

    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.thread.context.process.stats.value(counter)
    }
}

pub(crate) async fn read(reply: Reply, is_head: bool) -> Answer {
    let mut content = Vec::new();
    let mut whole = true;
    match reply.body {
        _ if is_head => (),
        Body::Bytes(bytes) => content = bytes,
        Body::Shared { bytes, start, end } => content.extend_from_slice(&bytes[start..end]),
        Body::Stream(mut stream) => {
            whole = loop {
                match stream.next(&mut content).await {
                    Ok(true) => (),
                    end => break end.is_ok(),
                }
            }
        }
        Body::Empty | Body::Omitted(_) => (),
        Body::Parts(parts) => {
            for part in parts {
                match part {
                    Body::Bytes(bytes) => content.extend(bytes),
                    Body::Shared { bytes, start, end } => content.extend_from_slice(&bytes[start..end]),
                    other => panic!("no such part: {other:?}"),
                }
            }
        }
        other => panic!("a page has no such body: {other:?}"),
    }
    let text = String::from_utf8_lossy(&content).into_owned();
    Answer { status: reply.status, fields: reply.fields, text, whole }
}

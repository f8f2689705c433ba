//! Digests of a request: which request it is, and what it has in common with others.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::IpAddr;

use millrace_wire::network::Network;

use crate::worker_handle::Task;
use millrace_base::message::request::{Content, Request};
use millrace_base::site::Script;

/// Arguments of one request that count; the rest is ignored.
const PAIRS: usize = 8;
/// Number of leading bytes in which two values are compared.
const BEGINS: usize = 3;
/// Number of trailing bytes in which two values are compared.
const ENDS: usize = 3;
/// Bytes of content that enter the digest. Of longer content, these bytes and its length do.
const CONTENT: usize = 64 << 10;
/// Bytes of content that are searched for form fields.
const FORM: usize = 8 << 10;
/// Fields, besides cookies, on which an application's response usually depends. A proxy's own fields, and fields that
/// change with each request, would make a repeated request look like a new one.
const FIELDS: &[&str] = &[
    "Cookie",
    "User-Agent",
    "Accept",
    "Accept-Language",
    "Accept-Encoding",
    "Referer",
    "Authorization",
    "Content-Type",
    "X-Requested-With",
];

/// Digests of a request, under a key that is secret to the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Print {
    /// Of its script.
    pub script: u64,
    /// Of script and path.
    pub page: u64,
    /// Of script and the client's address.
    pub source: u64,
    /// Of exactly this request; `None` if parts of it are no longer known.
    pub exact: Option<u64>,
    /// Of the method and the names of arguments and cookies.
    pub shape: Option<u64>,
    /// Of its arguments: name and value, and name with the start and the end of the value.
    pub traits: Vec<u64>,
}

impl Print {
    /// The digests that it may share with others.
    pub fn common(&self) -> impl Iterator<Item = u64> {
        let all = [self.script, self.page, self.source].into_iter();
        all.chain(self.shape).chain(self.traits.iter().copied())
    }

    /// The digest of a script.
    pub fn script(keys: &RandomState, script: &[u8]) -> u64 {
        keys.hash_one((0u8, script))
    }

    /// What remains of a request if its worker died while crashes were not watched.
    pub fn of_task(keys: &RandomState, task: &Task) -> Print {
        let script = &task.script[..];
        let query = task.target.splitn(2, |byte| *byte == b'?').nth(1);
        Print {
            script: Print::script(keys, script),
            page: page(keys, script, task.path()),
            source: source(keys, script, task.client),
            exact: None,
            shape: None,
            traits: traits(keys, script, query.unwrap_or_default(), &[]),
        }
    }

    /// All digests of a request.
    pub fn of_request(keys: &RandomState, request: &Request, script: &Script) -> Print {
        let filename = &script.filename[..];
        let ip = request.ends.client_ip();
        Print {
            script: Print::script(keys, filename),
            page: page(keys, filename, request.raw_path()),
            source: source(keys, filename, ip),
            exact: Some(exact(keys, request, filename, ip)),
            shape: Some(shape(keys, request, filename)),
            traits: traits(keys, filename, request.query().unwrap_or_default(), form(request)),
        }
    }
}

fn page(keys: &RandomState, script: &[u8], path: &[u8]) -> u64 {
    keys.hash_one((1u8, script, path))
}

/// An IPv6 network counts as one client.
fn source(keys: &RandomState, script: &[u8], ip: Option<IpAddr>) -> u64 {
    keys.hash_one((2u8, script, ip.map(Network::client)))
}

/// The address counts: a client that finds a request which kills only for itself doesn't block it for others.
fn exact(keys: &RandomState, request: &Request, script: &[u8], ip: Option<IpAddr>) -> u64 {
    let mut digest = keys.build_hasher();
    (3u8, script, ip, request.head.method(), request.authority(), request.head.path_query())
        .hash(&mut digest);
    for (number, name) in FIELDS.iter().enumerate() {
        for (_, value) in request.head.fields().filter(|(other, _)| other.eq_ignore_ascii_case(name)) {
            (number, value).hash(&mut digest);
        }
    }
    match &request.content {
        Content::Empty => (),
        Content::Memory(bytes) => (bytes.len(), &bytes[..bytes.len().min(CONTENT)]).hash(&mut digest),
        Content::Spooled { length, .. } => length.hash(&mut digest),
    }
    digest.finish()
}

/// The method with the names of arguments and cookies.
fn shape(keys: &RandomState, request: &Request, script: &[u8]) -> u64 {
    let query = pairs(request.query().unwrap_or_default());
    let mut names: Vec<(u8, &[u8])> = query.chain(pairs(form(request))).map(|pair| (0, name(pair))).collect();
    let cookies = request.head.field("Cookie").unwrap_or_default();
    let cookies = cookies.split(|byte| *byte == b';').map(|cookie| name(cookie.trim_ascii()));
    names.extend(cookies.take(PAIRS).filter(|name| !name.is_empty()).map(|name| (1, name)));
    names.sort_unstable();
    names.dedup();
    keys.hash_one((5u8, script, request.head.method(), names))
}

/// Each argument with its value, and with the first and the last bytes of the value.
fn traits(keys: &RandomState, script: &[u8], query: &[u8], form: &[u8]) -> Vec<u64> {
    let mut traits = Vec::new();
    for pair in pairs(query).chain(pairs(form)).take(PAIRS) {
        traits.push(keys.hash_one((4u8, script, pair)));
        let begins = name(pair).len() + 1 + BEGINS;
        if begins < pair.len() {
            traits.push(keys.hash_one((4u8, script, &pair[..begins])));
            traits.push(keys.hash_one((6u8, script, name(pair), &pair[pair.len() - ENDS..])));
        }
    }
    traits
}

fn form(request: &Request) -> &[u8] {
    let is_form = |kind: &str| kind.trim_start().starts_with("application/x-www-form-urlencoded");
    match &request.content {
        Content::Memory(bytes) if request.head.field_text("Content-Type").is_some_and(is_form) => {
            &bytes[..bytes.len().min(FORM)]
        }
        _ => &[],
    }
}

fn pairs(query: &[u8]) -> impl Iterator<Item = &[u8]> {
    query.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()).take(PAIRS)
}

fn name(pair: &[u8]) -> &[u8] {
    pair.split(|byte| *byte == b'=').next().unwrap_or_default()
}

//! A user: its position in the scenario, and its memory. An idle one takes a few dozen bytes; data that only some
//! scenarios need is in [`Memory`], created on demand.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use millrace_wire::response;

use super::connection::Kept;
use super::cookies::Jar;
use super::decode::decode;
use super::judge::find;
use super::request::Prepared;
use crate::page::Kind;
use crate::scenario::{Extract, Place};

/// No connection.
pub const NONE: u32 = u32::MAX;

/// A user.
#[derive(Debug)]
pub struct User {
    /// Which flow it is in.
    pub flow: u32,
    /// Which step of it.
    pub step: u32,
    /// When the step was due, nanoseconds from the start.
    pub due: u64,
    /// When the flow was due.
    pub begun: u64,
    /// Its connection.
    pub connection: u32,
    /// Which of the users that had this number.
    pub generation: u32,
    /// Flows in a row that failed because of the connection.
    pub failed: u8,
    /// Whether it has a request in progress.
    pub is_active: bool,
    /// Its memory.
    pub memory: Option<Box<Memory>>,
}

/// A user's memory in some scenarios.
#[derive(Debug, Default)]
pub struct Memory {
    /// Its cookies.
    pub jar: Jar,
    /// Values taken out of responses of this flow.
    pub values: Vec<(String, String)>,
    /// The target of a redirect that it has not requested yet.
    pub redirected: Option<Rc<Prepared>>,
    /// The page that it loads.
    pub load: Option<PageLoad>,
    /// Its connections but the first.
    pub more: Vec<u32>,
    /// The contents of its browser cache, by target.
    pub cache: HashMap<String, Cached>,
}

/// A page that is being loaded.
#[derive(Debug)]
pub struct PageLoad {
    /// When it was due.
    pub due: u64,
    /// Parts still to request.
    pub queue: VecDeque<PartRequest>,
    /// Everything that has been in the queue.
    pub seen: HashSet<String>,
    /// Requests in progress.
    pub open: u32,
    /// Whether something failed.
    pub has_failed: bool,
}

/// A part of a page.
#[derive(Clone, Debug)]
pub struct PartRequest {
    /// Its request.
    pub what: Rc<Prepared>,
    /// Its kind.
    pub kind: Kind,
}

/// Something in the browser's cache.
#[derive(Clone, Debug)]
pub struct Cached {
    etag: Option<String>,
    modified: Option<String>,
    /// Until when it is fresh.
    fresh_until: SystemTime,
    /// The parts that it names.
    pub parts: Rc<[PartRequest]>,
}

impl Cached {
    /// What a browser caches of this response; `None`: nothing.
    pub fn of(kept: &Kept, parts: Rc<[PartRequest]>) -> Option<Cached> {
        let control = response::field(&kept.head, "cache-control").unwrap_or_default().to_ascii_lowercase();
        if control.contains("no-store") {
            return None;
        }
        let age =
            control.split(',').find_map(|word| word.trim().strip_prefix("max-age=")?.parse::<u64>().ok());
        let now = SystemTime::now();
        let fresh_until = match age {
            _ if control.contains("no-cache") => now,
            // A year at most: beyond, it makes no difference to a test.
            Some(seconds) => now + Duration::from_secs(seconds.min(31_536_000)),
            None => response::field(&kept.head, "expires")
                .and_then(|date| httpdate::parse_http_date(&date).ok())
                .unwrap_or(now),
        };
        let etag = response::field(&kept.head, "etag");
        let modified = response::field(&kept.head, "last-modified");
        if etag.is_none() && modified.is_none() && fresh_until <= now {
            return None;
        }
        Some(Cached { etag, modified, fresh_until, parts })
    }

    /// Whether it is fresh.
    pub fn is_fresh(&self) -> bool {
        self.fresh_until > SystemTime::now()
    }

    /// The fields of a request that revalidate it.
    pub fn conditions(&self) -> Vec<(&'static str, String)> {
        let etag = self.etag.clone().map(|etag| ("If-None-Match", etag));
        let modified = self.modified.clone().map(|date| ("If-Modified-Since", date));
        etag.into_iter().chain(modified).collect()
    }
}

impl User {
    /// A new one.
    pub fn new(generation: u32) -> User {
        User {
            flow: 0,
            step: 0,
            due: 0,
            begun: 0,
            connection: NONE,
            generation,
            failed: 0,
            is_active: false,
            memory: None,
        }
    }

    /// Its memory, created if there is none yet.
    pub fn memory(&mut self) -> &mut Memory {
        self.memory.get_or_insert_default()
    }

    /// All its connections.
    pub fn connections(&self) -> impl Iterator<Item = u32> + '_ {
        let more = self.memory.iter().flat_map(|memory| memory.more.iter().copied());
        std::iter::once(self.connection).filter(|key| *key != NONE).chain(more)
    }

    /// Forgets a connection that is gone.
    pub fn lose(&mut self, connection: u32) {
        if self.connection == connection {
            self.connection = NONE;
        }
        if let Some(memory) = &mut self.memory {
            memory.more.retain(|key| *key != connection);
        }
    }
}

impl Memory {
    /// Takes values out of a response.
    ///
    /// # Errors
    /// One isn't there: its name.
    pub fn extract<'a>(&mut self, extract: &'a [Extract], kept: &Kept) -> Result<(), &'a str> {
        let coding = response::field(&kept.head, "content-encoding");
        let content = decode(coding.as_deref(), &kept.content).unwrap_or_default();
        for wanted in extract {
            let value = match &wanted.from {
                Place::Between { before, after } => between(&content, before.as_bytes(), after.as_bytes()),
                Place::Regex(pattern) => pattern.take(&String::from_utf8_lossy(&content)).map(str::to_owned),
                Place::Field(name) => response::field(&kept.head, name),
                Place::Cookie(name) => self.jar.value(name).map(str::to_owned),
            };
            let Some(value) = value else { return Err(&wanted.name) };
            self.values.retain(|(name, _)| *name != wanted.name);
            self.values.push((wanted.name.clone(), value));
        }
        Ok(())
    }
}

fn between(content: &[u8], before: &[u8], after: &[u8]) -> Option<String> {
    let start = find(content, before)? + before.len();
    let end = start + find(&content[start..], after)?;
    Some(String::from_utf8_lossy(&content[start..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(fields: &str, content: &str) -> Kept {
        Kept { head: format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes(), content: content.into() }
    }

    #[test]
    fn an_idle_user_is_small() {
        assert!(size_of::<User>() <= 56, "{}", size_of::<User>());
    }

    #[test]
    fn values_are_taken_from_where_they_stand() {
        let mut memory = Memory::default();
        memory.jar.take("id=9", "/");
        let take = |name: &str, from| Extract { name: name.to_owned(), from };
        let all = [
            take("a", Place::Between { before: "value=\"".into(), after: "\"".into() }),
            take("b", Place::Field("X-Token".into())),
            take("c", Place::Cookie("id".into())),
        ];
        assert_eq!(memory.extract(&all, &kept("X-Token: t\r\n", "<i value=\"7\">")), Ok(()));
        assert_eq!(
            memory.values.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(),
            ["7", "t", "9"]
        );
        assert_eq!(memory.extract(&all, &kept("X-Token: t\r\n", "nothing")), Err("a"));
    }

    #[test]
    fn browsers_keep_what_they_may() {
        let of = |fields: &str| Cached::of(&kept(fields, ""), Rc::new([]));
        assert!(of("").is_none() && of("Cache-Control: no-store\r\nETag: \"a\"\r\n").is_none());
        assert!(of("Cache-Control: public, max-age=60\r\n").unwrap().is_fresh());
        let old = of("ETag: \"a\"\r\nCache-Control: no-cache\r\n").unwrap();
        assert!(!old.is_fresh());
        assert_eq!(old.conditions(), [("If-None-Match", "\"a\"".to_owned())]);
    }
}

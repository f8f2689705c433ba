//! The objects of a site on a Redis or Valkey server, for sites on several machines.
//!
//! ```text
//!  socket of the site -> connection -> frame -> EVALSHA objects.lua -> answer
//! ```
//!
//! A frame is carried out there as a whole. What this process adds, besides `remote.rs`:
//!
//! - **A frame belongs to a generation of the site's objects.** One that Redis reads after a flush, because it was stuck, is refused.
//! - **A restarted Redis begins a generation**: it may have read a state from its disk that is older than the last change.

mod resp;

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use millrace_settings::plan::{Backend, Secret};
use tokio::time::timeout;

use super::protocol::Outcome;
use super::remote::PATIENCE;
use resp::{RedisConnection, RedisReply};

const SCRIPT: &str = include_str!("objects.lua");
/// Keys that are looked at in one step when leftovers are removed.
const SCANNED: &str = "500";

/// The objects of a site on a Redis server.
pub struct RedisObjects {
    address: Backend,
    password: Option<Secret>,
    /// Prefix of all its keys.
    name: String,
    idle: RefCell<Vec<RedisLink>>,
    generation: RefCell<Vec<u8>>,
    /// Keys in the server's database.
    keys: Cell<u64>,
}

/// The outcome of a frame, the generation after it, and the keys in the server's database.
type CarriedOut = (Outcome, Vec<u8>, u64);

/// A connection that is ready for frames.
struct RedisLink {
    connection: RedisConnection,
    /// Run id of the server's process.
    run: Vec<u8>,
    script: Vec<u8>,
}

impl RedisObjects {
    /// The objects of the site `name`.
    pub fn new(address: Backend, password: Option<Secret>, name: &str) -> RedisObjects {
        RedisObjects {
            address,
            password,
            name: format!("millrace:{{{name}}}"),
            idle: RefCell::default(),
            generation: RefCell::default(),
            keys: Cell::new(0),
        }
    }

    /// What identifies the objects at the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Keys in the server's database.
    pub fn keys(&self) -> u64 {
        self.keys.get()
    }

    /// Closes idle connections.
    pub fn close_idle(&self) {
        self.idle.take();
    }

    /// Carries out a frame. Objects that would make the answer longer than `room` are skipped.
    ///
    /// # Errors
    /// The server says an error, or the connection is lost: then nothing is known about the frame.
    pub async fn carry_out(
        self: &Rc<Self>,
        frame: &[u8],
        room: usize,
        value_bytes: usize,
    ) -> io::Result<Outcome> {
        let (outcome, generation, keys) = self.try_frame(frame, room, value_bytes).await?;
        self.keys.set(keys);
        // The answer to an earlier frame may come later. All generations have as many digits.
        if generation > *self.generation.borrow() {
            self.generation.replace(generation.clone());
            tokio::task::spawn_local(self.clone().remove_leftovers(generation));
        }
        Ok(outcome)
    }

    async fn try_frame(&self, frame: &[u8], room: usize, value_bytes: usize) -> io::Result<CarriedOut> {
        let mut link = self.link().await?;
        let (room, value_bytes) = (room.to_string(), value_bytes.to_string());
        let mut generation = self.generation.borrow().clone();
        for _ in 0..3 {
            let command: [&[u8]; 8] = [
                b"EVALSHA",
                &link.script,
                b"1",
                self.name.as_bytes(),
                &link.run,
                &generation,
                room.as_bytes(),
                value_bytes.as_bytes(),
            ];
            let reply = link.connection.ask(&[&command[..], &[frame]].concat()).await?;
            // Another machine has flushed the site, or Redis was restarted: nothing of the frame was carried out.
            match &reply {
                RedisReply::Error(why) if why.starts_with("GENERATION ") => {
                    generation = why.as_bytes()["GENERATION ".len()..].to_vec();
                }
                _ => {
                    let outcome = outcome(reply)?;
                    self.idle.borrow_mut().push(link);
                    return Ok(outcome);
                }
            }
        }
        Err(io::Error::other("other machines flush the site all the time"))
    }

    /// An idle connection, or a new one.
    async fn link(&self) -> io::Result<RedisLink> {
        loop {
            let Some(mut link) = self.idle.borrow_mut().pop() else { return self.connect().await };
            if link.connection.is_usable() {
                return Ok(link);
            }
        }
    }

    async fn connect(&self) -> io::Result<RedisLink> {
        let mut connection = RedisConnection::open(&self.address).await?;
        if let Some(password) = &self.password {
            connection.ask(&[b"AUTH", password.0.as_bytes()]).await?.bytes()?;
        }
        let facts = connection.ask(&[b"INFO", b"server"]).await?.bytes()?;
        let facts = String::from_utf8_lossy(&facts);
        let run = facts.lines().find_map(|line| line.strip_prefix("run_id:"));
        let run =
            run.ok_or_else(|| io::Error::other("INFO has no run_id: it is no Redis or Valkey server"))?;
        let script = connection.ask(&[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()]).await?.bytes()?;
        Ok(RedisLink { connection, run: run.as_bytes().to_vec(), script })
    }

    /// Removes objects of generations before this one. They have an expiry, too, for the case that this ends early.
    async fn remove_leftovers(self: Rc<Self>, generation: Vec<u8>) {
        let Ok(mut link) = self.link().await else { return };
        let pattern = format!("{}:*", self.name);
        let own =
            [pattern.as_bytes()[..pattern.len() - 1].to_vec(), generation.clone(), b":".to_vec()].concat();
        let mut cursor = b"0".to_vec();
        while *self.generation.borrow() == generation {
            let command: [&[u8]; 6] =
                [b"SCAN", &cursor, b"MATCH", pattern.as_bytes(), b"COUNT", SCANNED.as_bytes()];
            match timeout(PATIENCE, step(&mut link, &command, &own)).await {
                Ok(Ok(next)) => cursor = next,
                _ => return,
            }
            if cursor == b"0" {
                self.idle.borrow_mut().push(link);
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// One step of a scan: unlinks the keys that do not begin with `own`; the next cursor.
async fn step(link: &mut RedisLink, command: &[&[u8]], own: &[u8]) -> io::Result<Vec<u8>> {
    let mut found = link.connection.ask(command).await?.many()?.into_iter();
    let (next, keys) = (found.next().unwrap_or(RedisReply::Nil), found.next().unwrap_or(RedisReply::Nil));
    let keys: Vec<Vec<u8>> = keys.many()?.into_iter().map(RedisReply::bytes).collect::<io::Result<_>>()?;
    let old: Vec<&[u8]> = keys.iter().map(Vec::as_slice).filter(|key| !key.starts_with(own)).collect();
    if !old.is_empty() {
        link.connection.ask(&[&[&b"UNLINK"[..]], &old[..]].concat()).await?.number()?;
    }
    next.bytes()
}

/// What the script returns.
fn outcome(reply: RedisReply) -> io::Result<CarriedOut> {
    let parts: [RedisReply; 9] = reply.many()?.try_into().map_err(|_| RedisReply::Nil.unexpected())?;
    let [results, generation, lookups, hits, stored, refused, deleted, flushes, keys] = parts;
    let results = results.bytes()?;
    let length = u32::try_from(results.len()).map_err(io::Error::other)?;
    let outcome = Outcome {
        answer: [&length.to_le_bytes()[..], &results].concat(),
        lookups: lookups.number()?,
        hits: hits.number()?,
        stored: stored.number()?,
        refused: refused.number()?,
        deleted: deleted.number()?,
        flushes: flushes.number()?,
        ..Outcome::default()
    };
    Ok((outcome, generation.bytes()?, keys.number()?))
}

//! A memcached for tests, which evicts, pauses and restarts at random.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::{spawn_local, yield_now};

/// Random numbers that are the same in each run.
#[derive(Debug)]
pub struct Dice(Cell<u64>);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Cell::new(seed * 2 + 1))
    }

    /// Below `most`.
    pub fn roll(&self, most: u64) -> u64 {
        let next =
            self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0.set(next);
        (next >> 33) % most
    }
}

/// What goes wrong: once in so many commands; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// An item is evicted.
    pub evicts: u64,
    /// All items are, and all connections are closed.
    pub restarts: u64,
    /// A command waits while others go on.
    pub pauses: u64,
    /// A value finds no memory.
    pub is_full: u64,
}

/// The server.
pub struct FakeMemcached {
    pub path: PathBuf,
    pub version: &'static str,
    pub weather: Cell<Weather>,
    /// Commands that were carried out, evictions, and how often a value was not stored because of its CAS number.
    pub commands: Cell<u64>,
    pub evicted: Cell<u64>,
    pub refused: Cell<u64>,
    items: RefCell<BTreeMap<String, (Vec<u8>, u64)>>,
    /// The next command of this name, for this key, waits.
    hold: RefCell<Option<(&'static str, String)>>,
    is_held: Cell<bool>,
    released: Notify,
    cas: Cell<u64>,
    life: Cell<u64>,
    time: Cell<u64>,
    dice: Dice,
}

impl FakeMemcached {
    /// A server at a socket.
    pub fn start(path: PathBuf, version: &'static str, seed: u64) -> Rc<FakeMemcached> {
        let listener = UnixListener::bind(&path).unwrap();
        let server = Rc::new(FakeMemcached {
            path,
            version,
            weather: Cell::default(),
            commands: Cell::new(0),
            evicted: Cell::new(0),
            refused: Cell::new(0),
            items: RefCell::default(),
            hold: RefCell::default(),
            is_held: Cell::new(false),
            released: Notify::new(),
            cas: Cell::new(0),
            life: Cell::new(0),
            time: Cell::new(1_800_000_000),
            dice: Dice::new(seed),
        });
        let own = server.clone();
        spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = own.clone();
                spawn_local(async move {
                    let _ = server.serve(stream).await;
                });
            }
        });
        server
    }

    /// The next command of this name for this key, or for any key that begins so and has a colon at the end, is held until
    /// [`FakeMemcached::release`].
    pub fn hold(&self, command: &'static str, key: &str) {
        self.hold.replace(Some((command, key.to_owned())));
    }

    /// Waits until a command is held.
    pub async fn holds(&self) {
        while !self.is_held.get() {
            yield_now().await;
        }
    }

    /// Lets it go on.
    pub fn release(&self) {
        self.is_held.set(false);
        self.released.notify_one();
    }

    /// All is forgotten, and the CAS numbers begin again.
    pub fn restart(&self) {
        self.items.borrow_mut().clear();
        self.cas.set(0);
        self.life.set(self.life.get() + 1);
    }

    /// Evicts an item; seldom the state, which is used all the time.
    fn evict(&self) {
        let mut items = self.items.borrow_mut();
        let at = self.dice.roll(items.len().max(1) as u64);
        let key = items.keys().nth(usize::try_from(at).unwrap()).cloned();
        let is_state = |key: &String| key.matches(':').count() == 1;
        if let Some(key) = key.filter(|key| !is_state(key) || self.dice.roll(30) == 0) {
            items.remove(&key);
            self.evicted.set(self.evicted.get() + 1);
        }
    }

    /// Evicts the items whose keys are chosen.
    pub fn evict_if(&self, is_chosen: impl Fn(&str) -> bool) {
        self.items.borrow_mut().retain(|key, _| !is_chosen(key));
    }

    fn happens(&self, one_in: u64) -> bool {
        one_in > 0 && self.dice.roll(one_in) == 0
    }

    async fn serve(&self, stream: UnixStream) -> io::Result<()> {
        let life = self.life.get();
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).await? == 0 {
                return Ok(());
            }
            let words: Vec<&str> = line.trim_end().split(' ').collect();
            let mut value = Vec::new();
            if words[0] == "ms" {
                value = vec![0; words[2].parse::<usize>().unwrap() + 2];
                reader.read_exact(&mut value).await?;
                value.truncate(value.len() - 2);
            }
            let is_it = |(command, key): &mut (&str, String)| {
                words[0] == *command
                    && (words[1] == *key || key.ends_with(':') && words[1].starts_with(&**key))
            };
            if self.hold.borrow_mut().take_if(is_it).is_some() {
                self.is_held.set(true);
                self.released.notified().await;
            }
            let weather = self.weather.get();
            for _ in 0..if self.happens(weather.pauses) { 400 } else { self.dice.roll(3) } {
                yield_now().await;
            }
            if self.happens(weather.evicts) {
                self.evict();
            }
            if self.happens(weather.restarts) {
                self.restart();
            }
            if self.life.get() != life {
                return Ok(());
            }
            self.commands.set(self.commands.get() + 1);
            let reply = self.obey(&words, value);
            writer.write_all(&reply).await?;
        }
    }

    fn obey(&self, words: &[&str], value: Vec<u8>) -> Vec<u8> {
        let flag = |flag: &str| words.iter().skip(2).find_map(|word| word.strip_prefix(flag));
        let next_cas = || {
            self.cas.set(self.cas.get() + 1);
            self.cas.get()
        };
        let mut items = self.items.borrow_mut();
        match words[0] {
            "version" => format!("VERSION {}\r\n", self.version).into_bytes(),
            "stats" if words.get(1) == Some(&"settings") => {
                b"STAT cas_enabled yes\r\nSTAT item_size_max 65536\r\nEND\r\n".to_vec()
            }
            "stats" => {
                self.time.set(self.time.get() + self.dice.roll(2));
                format!("STAT time {}\r\nSTAT curr_items {}\r\nEND\r\n", self.time.get(), items.len())
                    .into_bytes()
            }
            "mg" => {
                let mut is_new = "";
                if !items.contains_key(words[1]) && flag("N").is_some() {
                    items.insert(words[1].to_owned(), (Vec::new(), next_cas()));
                    is_new = " W";
                }
                match items.get(words[1]) {
                    None => b"EN\r\n".to_vec(),
                    Some((_, cas)) if flag("v").is_none() => format!("HD c{cas}\r\n").into_bytes(),
                    Some((bytes, cas)) => {
                        let head = format!("VA {} c{cas} t100{is_new}\r\n", bytes.len());
                        [head.as_bytes(), bytes, b"\r\n"].concat()
                    }
                }
            }
            "ms" => {
                if self.happens(self.weather.get().is_full) {
                    // As memcached does: what was there is gone.
                    items.remove(words[1]);
                    return b"SERVER_ERROR out of memory storing object\r\n".to_vec();
                }
                let wanted = words.iter().skip(3).find_map(|word| word.strip_prefix('C'));
                let found = items.get(words[1]).map(|item| item.1);
                let refusal = match (found, wanted) {
                    (None, Some(_)) => "NF\r\n",
                    (Some(cas), Some(wanted)) if wanted.parse() != Ok(cas) => "EX\r\n",
                    (Some(_), None) if words.contains(&"ME") => "NS\r\n",
                    _ => {
                        let cas = next_cas();
                        items.insert(words[1].to_owned(), (value, cas));
                        return format!("HD c{cas}\r\n").into_bytes();
                    }
                };
                self.refused.set(self.refused.get() + 1);
                refusal.into()
            }
            "md" => if items.remove(words[1]).is_some() { &b"HD O0\r\n"[..] } else { b"NF O0\r\n" }.to_vec(),
            other => panic!("{other}"),
        }
    }
}

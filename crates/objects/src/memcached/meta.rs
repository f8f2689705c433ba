//! A connection to a memcached server, and its meta commands
//! ([protocol.txt](https://github.com/memcached/memcached/blob/master/doc/protocol.txt)): a batch of commands out, as many replies in.

use std::io;

use millrace_settings::plan::Backend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::try_join;

use crate::stream::{ServerReader, ServerStream, read_line};

/// Maximum length of a value in a reply.
const LONGEST: usize = 128 << 20;
/// Maximum lines of statistics.
const STATISTICS: usize = 10_000;

/// A reply to a meta command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetaReply {
    /// VA: there is a value.
    Value(MetaValue),
    /// HD: done; the CAS number, if it was asked for.
    Done(Option<u64>),
    /// EN, NF: there is no such key.
    Missing,
    /// NS: the condition does not hold.
    NotStored,
    /// EX: it has changed.
    Changed,
    /// It could not be done: too large, no memory.
    Failed(String),
}

/// A value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaValue {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its CAS number.
    pub cas: u64,
    /// Seconds until it expires; `None`: never.
    pub seconds: Option<u64>,
    /// It was missing until this command, which has put it there.
    pub is_new: bool,
}

/// Meta commands that are sent together.
#[derive(Debug, Default)]
pub struct MetaBatch {
    text: Vec<u8>,
    count: usize,
}

impl MetaBatch {
    /// Looks a key up, with its value; if `marks` is set, a missing one is put there, without a value, for that many seconds.
    pub fn get(&mut self, key: &str, marks: Option<u32>) {
        self.text.extend_from_slice(format!("mg {key} v c t").as_bytes());
        if let Some(seconds) = marks {
            self.text.extend_from_slice(format!(" N{seconds}").as_bytes());
        }
        self.end(None);
    }

    /// Looks a key up for its CAS number.
    pub fn look(&mut self, key: &str) {
        self.text.extend_from_slice(format!("mg {key} c").as_bytes());
        self.end(None);
    }

    /// Stores a value, if the key still has this CAS number.
    pub fn replace(&mut self, key: &str, value: &[u8], cas: u64, seconds: u64) {
        self.text.extend_from_slice(format!("ms {key} {} C{cas} T{seconds} c", value.len()).as_bytes());
        self.end(Some(value));
    }

    /// Stores a value, if there is none.
    pub fn add(&mut self, key: &str, value: &[u8], seconds: u64) {
        self.text.extend_from_slice(format!("ms {key} {} ME T{seconds} c", value.len()).as_bytes());
        self.end(Some(value));
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: &str) {
        // Without a flag some versions take it for a command of another protocol.
        self.text.extend_from_slice(format!("md {key} O0").as_bytes());
        self.end(None);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    fn end(&mut self, value: Option<&[u8]>) {
        self.text.extend_from_slice(b"\r\n");
        if let Some(value) = value {
            self.text.extend_from_slice(value);
            self.text.extend_from_slice(b"\r\n");
        }
        self.count += 1;
    }
}

/// An open connection.
pub struct MemcachedConnection(ServerStream);

impl MemcachedConnection {
    /// Connects.
    ///
    /// # Errors
    /// As the system says.
    pub async fn open(address: &Backend) -> io::Result<MemcachedConnection> {
        Ok(MemcachedConnection(ServerStream::open(address).await?))
    }

    /// Whether an idle connection is still open, and nothing unexpected has arrived.
    pub fn is_usable(&mut self) -> bool {
        self.0.is_usable()
    }

    /// Sends commands, and waits for the replies to all of them.
    ///
    /// # Errors
    /// The connection is lost, what arrives are no replies to meta commands, or the values have more than `most` bytes.
    pub async fn ask(&mut self, batch: &MetaBatch, most: usize) -> io::Result<Vec<MetaReply>> {
        let ServerStream { reader, writer } = &mut self.0;
        // The server may stop reading until its replies are read.
        let ((), replies) =
            try_join!(async { writer.write_all(&batch.text).await }, replies(reader, batch.count, most))?;
        Ok(replies)
    }

    /// The version of the server.
    ///
    /// # Errors
    /// It is no memcached, or the connection is lost.
    pub async fn version(&mut self) -> io::Result<String> {
        self.0.writer.write_all(b"version\r\n").await?;
        let line = text_line(&mut self.0.reader).await?;
        let version = line.strip_prefix("VERSION ").map(str::to_owned);
        version.ok_or_else(|| unexpected(&line))
    }

    /// Statistics, by name: `stats`, or `stats WHICH`.
    ///
    /// # Errors
    /// As above.
    pub async fn statistics(&mut self, which: &str) -> io::Result<Vec<(String, String)>> {
        self.0.writer.write_all(format!("stats {which}").trim_end().as_bytes()).await?;
        self.0.writer.write_all(b"\r\n").await?;
        let mut found = Vec::new();
        while found.len() < STATISTICS {
            let line = text_line(&mut self.0.reader).await?;
            if line == "END" {
                return Ok(found);
            }
            let words = line.strip_prefix("STAT ").ok_or_else(|| unexpected(&line))?;
            let (name, value) = words.split_once(' ').unwrap_or((words, ""));
            found.push((name.to_owned(), value.to_owned()));
        }
        Err(malformed())
    }
}

async fn replies(reader: &mut ServerReader, count: usize, most: usize) -> io::Result<Vec<MetaReply>> {
    let (mut replies, mut bytes) = (Vec::with_capacity(count), 0);
    for _ in 0..count {
        let reply = reply(reader, most.saturating_sub(bytes)).await?;
        if let MetaReply::Value(value) = &reply {
            bytes += value.bytes.len();
        }
        replies.push(reply);
    }
    Ok(replies)
}

async fn reply(reader: &mut ServerReader, most: usize) -> io::Result<MetaReply> {
    let line = text_line(reader).await?;
    let mut words = line.split(' ');
    match words.next().unwrap_or_default() {
        "VA" => {
            let length = words.next().and_then(|word| word.parse().ok());
            let length: usize = length.filter(|length| *length <= LONGEST).ok_or_else(malformed)?;
            if length > most {
                let why = format!("what it has for one frame has more than {most} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            let mut value = flags(words)?;
            value.bytes = vec![0; length + 2];
            reader.read_exact(&mut value.bytes).await?;
            if !value.bytes.ends_with(b"\r\n") {
                return Err(malformed());
            }
            value.bytes.truncate(length);
            Ok(MetaReply::Value(value))
        }
        "HD" => {
            let cas = flags(words)?.cas;
            Ok(MetaReply::Done(Some(cas).filter(|cas| *cas > 0)))
        }
        "EN" | "NF" => Ok(MetaReply::Missing),
        "NS" => Ok(MetaReply::NotStored),
        "EX" => Ok(MetaReply::Changed),
        "SERVER_ERROR" => Ok(MetaReply::Failed(line["SERVER_ERROR".len()..].trim().to_owned())),
        _ => Err(unexpected(&line)),
    }
}

/// The flags behind a reply.
fn flags<'a>(words: impl Iterator<Item = &'a str>) -> io::Result<MetaValue> {
    let mut value = MetaValue::default();
    for word in words {
        let mut letters = word.chars();
        let flag = letters.next();
        let number = || letters.as_str().parse::<i64>().map_err(|_| malformed());
        match flag {
            Some('c') => value.cas = letters.as_str().parse().map_err(|_| malformed())?,
            Some('t') => value.seconds = u64::try_from(number()?).ok(),
            Some('W') => value.is_new = true,
            _ => {}
        }
    }
    Ok(value)
}

async fn text_line(reader: &mut ServerReader) -> io::Result<String> {
    let line = read_line(reader).await?.ok_or_else(malformed)?;
    String::from_utf8(line).map_err(|_| malformed())
}

/// What the server says instead of a reply.
fn unexpected(line: &str) -> io::Error {
    let shown: String = line.chars().filter(|c| !c.is_control()).take(100).collect();
    if line.contains("unauthenticated") {
        return io::Error::other(
            "it asks for a user and a password, which Millrace does not send: start it without -S and -Y",
        );
    }
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("it does not speak memcached's protocol: it says {shown:?}"),
    )
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it does not speak memcached's protocol")
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;

    use super::*;

    /// A connection to a server that says this.
    async fn to(text: &[u8]) -> MemcachedConnection {
        let (mut server, client) = UnixStream::pair().unwrap();
        server.write_all(text).await.unwrap();
        server.shutdown().await.unwrap();
        tokio::spawn(async move {
            let _ = tokio::io::copy(&mut server, &mut tokio::io::sink()).await;
        });
        MemcachedConnection(ServerStream::new(Box::new(client)))
    }

    async fn read(text: &[u8]) -> io::Result<Vec<MetaReply>> {
        let mut batch = MetaBatch::default();
        batch.look("k");
        to(text).await.ask(&batch, 1000).await
    }

    #[tokio::test]
    async fn replies() {
        let value = |bytes: &[u8], cas, seconds, is_new| {
            MetaReply::Value(MetaValue { bytes: bytes.into(), cas, seconds, is_new })
        };
        for (text, reply) in [
            ("VA 2 c7 t-1\r\nhi\r\n", value(b"hi", 7, None, false)),
            ("VA 2 c7 t30\r\n\r\n\r\n", value(b"\r\n", 7, Some(30), false)),
            ("VA 0 c1 t29 W\r\n\r\n", value(b"", 1, Some(29), true)),
            ("VA 0 c18446744073709551615 t29 Z X\r\n\r\n", value(b"", u64::MAX, Some(29), false)),
            ("HD c3\r\n", MetaReply::Done(Some(3))),
            ("HD\r\n", MetaReply::Done(None)),
            ("EN\r\n", MetaReply::Missing),
            ("NF O0\r\n", MetaReply::Missing),
            ("NS c0\r\n", MetaReply::NotStored),
            ("EX\r\n", MetaReply::Changed),
            (
                "SERVER_ERROR out of memory storing object\r\n",
                MetaReply::Failed("out of memory storing object".into()),
            ),
        ] {
            assert_eq!(read(text.as_bytes()).await.unwrap(), [reply], "{text:?}");
        }
    }

    #[tokio::test]
    async fn broken_replies() {
        for text in [
            "",
            "HD",
            "HD\n",
            "VA 5 c1\r\nab\r\n",
            "VA x c1\r\n",
            "VA\r\n",
            "VA -1\r\n\r\n",
            "VA 2 c1\r\nabc\r\n",
            "VA 2 cx\r\nab\r\n",
            "VA 99999999999999 c1\r\n",
            "VA 2 c1 tx\r\nab\r\n",
            "ERROR\r\n",
            "CLIENT_ERROR bad command line format\r\n",
            "\r\n",
            "+OK\r\n",
            "HTTP/1.1 400 Bad Request\r\n",
            "\u{fffd}\r\n",
        ] {
            assert!(read(text.as_bytes()).await.is_err(), "{text:?}");
        }
        assert!(read(b"\xff\xff\r\n").await.is_err());
        let large = [&b"VA 1001 c1\r\n"[..], &[b'x'; 1003]].concat();
        assert!(read(&large).await.unwrap_err().to_string().contains("more than 1000 bytes"));
        let why = read(b"CLIENT_ERROR unauthenticated\r\n").await.unwrap_err().to_string();
        assert!(why.contains("without -S"), "{why}");
    }

    #[tokio::test]
    async fn versions_and_statistics() {
        assert_eq!(to(b"VERSION 1.6.18\r\n").await.version().await.unwrap(), "1.6.18");
        let why = to(b"-ERR unknown command\r\n").await.version().await.unwrap_err().to_string();
        assert!(why.contains("-ERR unknown command"), "{why}");
        let found = to(b"STAT pid 7\r\nSTAT inter \r\nSTAT x\r\nEND\r\n").await.statistics("").await.unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(found, [("pid", "7"), ("inter", ""), ("x", "")]);
        assert!(to(b"STAT pid 7\r\n").await.statistics("").await.is_err());
        assert!(to(b"ERROR\r\n").await.statistics("").await.is_err());
    }
}

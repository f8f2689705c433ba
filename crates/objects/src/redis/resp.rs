//! A connection to a Redis or Valkey server: commands out, replies in, as [RESP2](https://redis.io/docs/latest/develop/reference/protocol-spec/)
//! has them.

use std::io;

use millrace_settings::plan::Backend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::stream::{ServerStream, read_line};

/// Maximum length of a string or an array in a reply.
const LONGEST: usize = 128 << 20;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisReply {
    /// A string, of either kind.
    Bytes(Vec<u8>),
    /// A number.
    Number(i64),
    /// No such thing.
    Nil,
    /// Several.
    Many(Vec<RedisReply>),
    /// An error of the server: code and text.
    Error(String),
}

impl RedisReply {
    /// The bytes of a string.
    pub fn bytes(self) -> io::Result<Vec<u8>> {
        match self {
            RedisReply::Bytes(bytes) => Ok(bytes),
            other => Err(other.unexpected()),
        }
    }

    /// A number.
    pub fn number(self) -> io::Result<u64> {
        match self {
            RedisReply::Number(number) => Ok(number.try_into().unwrap_or(0)),
            other => Err(other.unexpected()),
        }
    }

    /// The replies of an array.
    pub fn many(self) -> io::Result<Vec<RedisReply>> {
        match self {
            RedisReply::Many(many) => Ok(many),
            other => Err(other.unexpected()),
        }
    }

    /// What the server says instead.
    pub fn unexpected(&self) -> io::Error {
        match self {
            RedisReply::Error(why) => io::Error::other(format!("it says {why:?}")),
            _ => io::Error::new(io::ErrorKind::InvalidData, "its reply is not understood"),
        }
    }
}

/// An open connection.
pub struct RedisConnection(ServerStream);

impl RedisConnection {
    /// Connects.
    ///
    /// # Errors
    /// As the system says.
    pub async fn open(address: &Backend) -> io::Result<RedisConnection> {
        Ok(RedisConnection(ServerStream::open(address).await?))
    }

    /// Whether an idle connection is still open, and nothing unexpected has arrived.
    pub fn is_usable(&mut self) -> bool {
        self.0.is_usable()
    }

    /// Sends a command, and waits for its reply.
    ///
    /// # Errors
    /// The connection is lost, or what arrives is not RESP2. An error of the server is a reply.
    pub async fn ask(&mut self, command: &[&[u8]]) -> io::Result<RedisReply> {
        let mut text = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            text.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            text.extend_from_slice(part);
            text.extend_from_slice(b"\r\n");
        }
        self.0.writer.write_all(&text).await?;
        self.reply().await
    }

    async fn reply(&mut self) -> io::Result<RedisReply> {
        let (kind, line) = self.line().await?;
        if kind != b'*' {
            return self.single(kind, line).await;
        }
        let Some(count) = length(&line)? else { return Ok(RedisReply::Nil) };
        let mut many = Vec::with_capacity(count.min(1024));
        for _ in 0..count {
            many.push(Box::pin(self.reply()).await?);
        }
        Ok(RedisReply::Many(many))
    }

    async fn single(&mut self, kind: u8, line: String) -> io::Result<RedisReply> {
        match kind {
            b'+' => Ok(RedisReply::Bytes(line.into_bytes())),
            b'-' => Ok(RedisReply::Error(line)),
            b':' => line.parse().map(RedisReply::Number).map_err(|_| malformed()),
            b'$' => {
                let Some(length) = length(&line)? else { return Ok(RedisReply::Nil) };
                let mut bytes = vec![0; length + 2];
                self.0.reader.read_exact(&mut bytes).await?;
                bytes.truncate(length);
                Ok(RedisReply::Bytes(bytes))
            }
            _ => Err(malformed()),
        }
    }

    /// The first byte of a line, and the rest of it.
    async fn line(&mut self) -> io::Result<(u8, String)> {
        let text = read_line(&mut self.0.reader).await?.ok_or_else(malformed)?;
        let (kind, rest) = text.split_first().ok_or_else(malformed)?;
        Ok((*kind, String::from_utf8_lossy(rest).into_owned()))
    }
}

/// A length; -1 is none.
fn length(line: &str) -> io::Result<Option<usize>> {
    if line == "-1" {
        return Ok(None);
    }
    line.parse().ok().filter(|length| *length <= LONGEST).map(Some).ok_or_else(malformed)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it does not speak Redis's protocol")
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixStream;

    use super::*;

    async fn read(text: &[u8]) -> io::Result<RedisReply> {
        let (mut server, client) = UnixStream::pair().unwrap();
        server.write_all(text).await.unwrap();
        drop(server);
        RedisConnection(ServerStream::new(Box::new(client))).reply().await
    }

    #[tokio::test]
    async fn replies() {
        let bytes = |text: &str| RedisReply::Bytes(text.into());
        for (text, reply) in [
            ("+OK\r\n", bytes("OK")),
            (":-3\r\n", RedisReply::Number(-3)),
            ("$3\r\na\r\n\r\n", bytes("a\r\n")),
            ("$-1\r\n", RedisReply::Nil),
            ("-ERR no\r\n", RedisReply::Error("ERR no".into())),
            (
                "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n",
                RedisReply::Many(vec![bytes("0"), RedisReply::Many(vec![bytes("k")])]),
            ),
        ] {
            assert_eq!(read(text.as_bytes()).await.unwrap(), reply, "{text:?}");
        }
        for text in ["", "+OK", "$x\r\n", "$9\r\nabc", "HTTP/1.1 400\r\n", "$999999999999\r\n", "*1\r\n"] {
            assert!(read(text.as_bytes()).await.is_err(), "{text:?}");
        }
    }
}

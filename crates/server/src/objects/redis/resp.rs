//! A connection to a Redis or Valkey server: commands out, replies in, as [RESP2](https://redis.io/docs/latest/develop/reference/protocol-spec/)
//! has them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use millrace_settings::plan::Backend;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

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

trait RedisStream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> RedisStream for T {}

/// An open connection.
pub struct RedisConnection(BufReader<Box<dyn RedisStream>>);

impl RedisConnection {
    /// Connects.
    ///
    /// # Errors
    /// As the system says.
    pub async fn open(address: &Backend) -> io::Result<RedisConnection> {
        let stream: Box<dyn RedisStream> = match address {
            Backend::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Backend::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        Ok(RedisConnection(BufReader::with_capacity(16 << 10, stream)))
    }

    /// Whether an idle connection is still open, and nothing unexpected has arrived.
    pub fn is_usable(&mut self) -> bool {
        let mut byte = [0; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut context = Context::from_waker(Waker::noop());
        matches!(Pin::new(&mut self.0).poll_read(&mut context, &mut buffer), Poll::Pending)
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
        self.0.get_mut().write_all(&text).await?;
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
                self.0.read_exact(&mut bytes).await?;
                bytes.truncate(length);
                Ok(RedisReply::Bytes(bytes))
            }
            _ => Err(malformed()),
        }
    }

    /// The first byte of a line, and the rest of it.
    async fn line(&mut self) -> io::Result<(u8, String)> {
        let mut line = Vec::new();
        (&mut self.0).take(64 << 10).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.strip_suffix(b"\r\n").ok_or_else(malformed)?;
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
    use super::*;

    async fn read(text: &[u8]) -> io::Result<RedisReply> {
        let (mut server, client) = UnixStream::pair().unwrap();
        server.write_all(text).await.unwrap();
        drop(server);
        RedisConnection(BufReader::new(Box::new(client))).reply().await
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

    #[tokio::test]
    async fn an_idle_connection() {
        // The runtime hears of an event in one of its next turns.
        async fn becomes_unusable(connection: &mut RedisConnection) {
            while connection.is_usable() {
                tokio::task::yield_now().await;
            }
        }
        let open = |client| RedisConnection(BufReader::new(Box::new(client)));
        let (mut server, client) = UnixStream::pair().unwrap();
        let mut connection = open(client);
        assert!(connection.is_usable());
        server.write_all(b"+late\r\n").await.unwrap();
        becomes_unusable(&mut connection).await;
        let (server, client) = UnixStream::pair().unwrap();
        let mut connection = open(client);
        assert!(connection.is_usable());
        drop(server);
        becomes_unusable(&mut connection).await;
    }
}

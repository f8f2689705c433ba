//! A connection to a server of objects: what the clients of Redis and memcached share.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use millrace_settings::plan::Backend;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, BufReader, ReadBuf, ReadHalf, WriteHalf,
};
use tokio::net::{TcpStream, UnixStream};

/// Maximum length of a line.
const LINE: u64 = 64 << 10;

/// Both directions of a connection.
pub trait BothWays: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> BothWays for T {}

/// What the server says.
pub type ServerReader = BufReader<ReadHalf<Box<dyn BothWays>>>;

/// An open connection.
pub struct ServerStream {
    /// From the server.
    pub reader: ServerReader,
    /// To the server.
    pub writer: WriteHalf<Box<dyn BothWays>>,
}

impl ServerStream {
    /// Connects.
    ///
    /// # Errors
    /// As the system says.
    pub async fn open(address: &Backend) -> io::Result<ServerStream> {
        Ok(ServerStream::new(match address {
            Backend::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Backend::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        }))
    }

    /// A connection that is open.
    pub fn new(stream: Box<dyn BothWays>) -> ServerStream {
        let (reader, writer) = tokio::io::split(stream);
        ServerStream { reader: BufReader::with_capacity(16 << 10, reader), writer }
    }

    /// Whether an idle connection is still open, and nothing unexpected has arrived.
    pub fn is_usable(&mut self) -> bool {
        let mut byte = [0; 1];
        let mut buffer = ReadBuf::new(&mut byte);
        let mut context = Context::from_waker(Waker::noop());
        matches!(Pin::new(&mut self.reader).poll_read(&mut context, &mut buffer), Poll::Pending)
    }
}

/// A line without its end; `None` if it has none.
///
/// # Errors
/// The connection is lost.
pub async fn read_line(reader: &mut ServerReader) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.take(LINE).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let is_whole = line.ends_with(b"\r\n");
    line.truncate(line.len().saturating_sub(2));
    Ok(is_whole.then_some(line))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn an_idle_connection() {
        // The runtime hears of an event in one of its next turns.
        async fn becomes_unusable(stream: &mut ServerStream) {
            while stream.is_usable() {
                tokio::task::yield_now().await;
            }
        }
        let (mut server, client) = UnixStream::pair().unwrap();
        let mut stream = ServerStream::new(Box::new(client));
        assert!(stream.is_usable());
        server.write_all(b"+late\r\n").await.unwrap();
        becomes_unusable(&mut stream).await;
        let (server, client) = UnixStream::pair().unwrap();
        let mut stream = ServerStream::new(Box::new(client));
        assert!(stream.is_usable());
        drop(server);
        becomes_unusable(&mut stream).await;
    }
}

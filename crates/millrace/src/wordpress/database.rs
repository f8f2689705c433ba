//! The database of a new site: `--db`.

use crate::failure::Failure;
use millrace_wire::percent;
use std::fmt;
use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long a database server may take to greet us.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where a site stores its data.
#[derive(Debug, PartialEq, Eq)]
pub enum Database {
    /// A file in `wp-content/database`.
    Sqlite,
    /// A MySQL or MariaDB server.
    Mysql(Mysql),
}

/// `mysql://USER:PASSWORD@HOST[:PORT]/NAME[?socket=PATH]`
#[derive(Debug, PartialEq, Eq)]
pub struct Mysql {
    /// User name at the server.
    pub user: String,
    /// Its password; may be empty.
    pub password: String,
    /// Where the server is.
    pub server: Server,
    /// Name of the database; it must exist.
    pub name: String,
}

/// Where a database server listens.
#[derive(Debug, PartialEq, Eq)]
pub enum Server {
    /// Host name or address (IPv6 in brackets) and port.
    Tcp(String, u16),
    /// Unix socket.
    Socket(PathBuf),
}

/// Why a text is no address of a database.
#[derive(Debug, PartialEq, Eq)]
enum NotDatabase {
    /// It begins with another scheme.
    Scheme(String),
    NoUser,
    NoName,
    /// The name of the database is empty or has a slash in it.
    Name,
    NoHost,
    Port(String),
    /// The path of a socket is relative.
    Socket,
    /// An option other than `socket`.
    Option(String),
    /// A % without two hexadecimal digits.
    Percent,
    NotUtf8,
}

impl fmt::Display for NotDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotDatabase::Scheme(text) => return write!(f, "WordPress cannot use {text}"),
            NotDatabase::NoUser => "the user is missing (USER:PASSWORD@)",
            NotDatabase::NoName => "the name of the database is missing (/NAME)",
            NotDatabase::Name => "the name of the database is missing or has a slash in it",
            NotDatabase::NoHost => "the database's host is missing",
            NotDatabase::Port(port) => return write!(f, "{port} is not a port"),
            NotDatabase::Socket => "socket needs a full path",
            NotDatabase::Option(other) => {
                return write!(f, "{other} is not an option of a database address; the only one is socket");
            }
            NotDatabase::Percent => "a % must be followed by two hexadecimal digits",
            NotDatabase::NotUtf8 => "the user, password and name must be UTF-8",
        })
    }
}

impl Database {
    /// Reads `--db`.
    ///
    /// # Errors
    /// When it is neither `sqlite` nor a `mysql://` address with a user and a database name.
    pub fn parse(text: &str) -> Result<Database, Failure> {
        if text == "sqlite" {
            return Ok(Database::Sqlite);
        }
        parse_mysql(text).map(Database::Mysql).map_err(|why| {
            Failure::new(format!("--db: {why}")).next(
                "write --db sqlite, --db mysql://USER:PASSWORD@HOST/NAME or --db mysql://USER:PASSWORD@localhost/NAME?socket=/PATH\n\
                 (% : / ? @ in user or password as %25 %3A %2F %3F %40)",
            )
        })
    }

    /// Checks that a database server responds before anything is downloaded. Only WordPress's own connection shows
    /// whether it accepts user and password.
    ///
    /// # Errors
    /// When nothing responds, or the server isn't MySQL or MariaDB.
    pub fn probe(&self) -> Result<(), Failure> {
        let Database::Mysql(mysql) = self else { return Ok(()) };
        let (place, greeting) = match &mysql.server {
            Server::Tcp(host, port) => (format!("{host}:{port}"), greet_tcp(host, *port)),
            Server::Socket(path) => (path.display().to_string(), greet_unix(path)),
        };
        let unreachable = |why: io::Error| {
            Failure::new(format!("no MySQL or MariaDB answers at {place}: {why}")).next(
                "is the server running, and does it listen there? (`systemctl status mariadb`); \
                 or try --db sqlite, which needs no server",
            )
        };
        greeting.and_then(|greeting| check_greeting(&greeting)).map_err(unreachable)
    }
}

fn parse_mysql(text: &str) -> Result<Mysql, NotDatabase> {
    let rest = text.strip_prefix("mysql://").ok_or_else(|| NotDatabase::Scheme(text.to_owned()))?;
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(a, b)| (a, Some(b)));
    let (credentials, rest) = rest.rsplit_once('@').ok_or(NotDatabase::NoUser)?;
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let (place, name) = rest.split_once('/').ok_or(NotDatabase::NoName)?;
    let mysql = Mysql {
        user: decode(user)?,
        password: decode(password)?,
        server: parse_server(place, query)?,
        name: decode(name)?,
    };
    if mysql.user.is_empty() {
        return Err(NotDatabase::NoUser);
    }
    if mysql.name.is_empty() || mysql.name.contains('/') {
        return Err(NotDatabase::Name);
    }
    Ok(mysql)
}

fn parse_server(place: &str, query: Option<&str>) -> Result<Server, NotDatabase> {
    match query.map(|q| q.split_once('=').unwrap_or((q, ""))) {
        Some(("socket", path)) => {
            let path = PathBuf::from(decode(path)?);
            let full = path.is_absolute();
            return full.then_some(Server::Socket(path)).ok_or(NotDatabase::Socket);
        }
        Some((other, _)) => {
            return Err(NotDatabase::Option(other.to_owned()));
        }
        None => {}
    }
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let number = port.parse::<u16>().ok().filter(|p| *p > 0);
            (host, number.ok_or_else(|| NotDatabase::Port(port.to_owned()))?)
        }
        _ => (place, 3306),
    };
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '/') {
        return Err(NotDatabase::NoHost);
    }
    Ok(Server::Tcp(host.to_owned(), port))
}

fn decode(text: &str) -> Result<String, NotDatabase> {
    let bytes = percent::decode(text.as_bytes()).ok_or(NotDatabase::Percent)?;
    String::from_utf8(bytes).map_err(|_| NotDatabase::NotUtf8)
}

fn greet_tcp(host: &str, port: u16) -> io::Result<Vec<u8>> {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in (name, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                return read_packet(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn greet_unix(path: &PathBuf) -> io::Result<Vec<u8>> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    read_packet(stream)
}

/// One packet of MySQL's protocol: three bytes length, a sequence number, the payload.
fn read_packet(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let mut head = [0_u8; 4];
    stream.read_exact(&mut head)?;
    let length = usize::from(head[0]) | usize::from(head[1]) << 8;
    if head[2] != 0 {
        return Err(not_mysql());
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

/// The first packet is either the handshake, which starts with the protocol version 10, or an error packet.
fn check_greeting(payload: &[u8]) -> io::Result<()> {
    match payload.first() {
        Some(10) => Ok(()),
        Some(0xff) => Err(io::Error::other(String::from_utf8_lossy(payload.get(3..).unwrap_or_default()))),
        _ => Err(not_mysql()),
    }
}

fn not_mysql() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what answers there isn't MySQL")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    fn mysql(text: &str) -> Mysql {
        match Database::parse(text) {
            Ok(Database::Mysql(mysql)) => mysql,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn database_addresses() {
        assert_eq!(Database::parse("sqlite"), Ok(Database::Sqlite));
        let plain = mysql("mysql://wp:s%40cret%2F:x@db.example:3307/blog");
        assert_eq!(
            (plain.user.as_str(), plain.password.as_str(), plain.name.as_str()),
            ("wp", "s@cret/:x", "blog")
        );
        assert_eq!(plain.server, Server::Tcp("db.example".into(), 3307));
        assert_eq!(mysql("mysql://wp@localhost/blog").server, Server::Tcp("localhost".into(), 3306));
        assert_eq!(mysql("mysql://wp:p@[::1]/blog").server, Server::Tcp("[::1]".into(), 3306));
        let socket = mysql("mysql://wp:p@localhost/blog?socket=/run/mysqld/mysqld.sock");
        assert_eq!(socket.server, Server::Socket("/run/mysqld/mysqld.sock".into()));
    }

    #[test]
    fn wrong_database_addresses() {
        for (bad, why) in [
            ("", NotDatabase::Scheme(String::new())),
            ("postgres://u:p@h/d", NotDatabase::Scheme("postgres://u:p@h/d".to_owned())),
            ("mysql://h/d", NotDatabase::NoUser),
            ("mysql://u:p@h", NotDatabase::NoName),
            ("mysql://u:p@h/", NotDatabase::Name),
            ("mysql://:p@h/d", NotDatabase::NoUser),
            ("mysql://u:p@/d", NotDatabase::NoHost),
            ("mysql://u:p@h:0/d", NotDatabase::Port("0".to_owned())),
            ("mysql://u:p@h:x/d", NotDatabase::Port("x".to_owned())),
            ("mysql://u:%zz@h/d", NotDatabase::Percent),
            ("mysql://u:%ff@h/d", NotDatabase::NotUtf8),
            ("mysql://u:p@h/d/e", NotDatabase::Name),
            ("mysql://u:p@h/d?socket=rel", NotDatabase::Socket),
            ("mysql://u:p@h/d?charset=utf8", NotDatabase::Option("charset".to_owned())),
        ] {
            assert_eq!(parse_mysql(bad), Err(why), "{bad}");
            assert!(Database::parse(bad).is_err(), "{bad} was taken");
        }
    }

    fn probe_what_says(greeting: &'static [u8]) -> Result<(), Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.write_all(greeting).expect("taken");
        });
        let result = mysql_at(port).probe();
        server.join().expect("no panic");
        result
    }

    fn mysql_at(port: u16) -> Database {
        Database::parse(&format!("mysql://u:p@127.0.0.1:{port}/d")).expect("a good address")
    }

    #[test]
    fn only_mysql_passes_for_mysql() {
        assert_eq!(probe_what_says(b"\x05\0\0\0\x0a8.0\0"), Ok(()));
        let refused = probe_what_says(b"\x0b\0\0\0\xff\x10\x04Too many").expect_err("an error packet");
        assert!(refused.to_string().contains("Too many"), "{refused}");
        assert!(probe_what_says(b"SSH-2.0-OpenSSH\r\n").is_err());
        let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
        assert!(mysql_at(free).probe().is_err());
    }
}

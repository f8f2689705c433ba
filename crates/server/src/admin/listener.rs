//! The socket of the admin address, and access to it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net as blocking;
use std::path::{Path, PathBuf};

use millrace_settings::plan::Address;
use tokio::net::{TcpListener, UnixListener};

use super::http::AdminClient;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// A bound admin address. Dropping it removes its socket file.
#[derive(Debug)]
pub struct AdminListener {
    kind: AdminSocket,
}

#[derive(Debug)]
enum AdminSocket {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        /// Held for its drop.
        _file: SocketFile,
    },
}

/// A socket's path, and the identity (device, inode) of the file that this process created there.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have replaced it meanwhile.
        if fs::symlink_metadata(&self.path).is_ok_and(|m| (m.dev(), m.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl AdminListener {
    /// Binds the address, within a tokio runtime. A socket file is made with mode 0600, its folder, if it isn't there
    /// yet, with 0700; a crashed server's leftover file is replaced.
    ///
    /// # Errors
    /// A message for the log: the address is not a loopback address; another server uses it; the folder belongs to
    /// another user; a system call failed.
    pub fn bind(address: &Address) -> io::Result<AdminListener> {
        let kind = match address {
            Address::Tcp(address) => AdminSocket::Tcp(bind_tcp(*address)?),
            Address::Unix(path) => {
                let (listener, file) = bind_unix(path)?;
                AdminSocket::Unix { listener, _file: file }
            }
        };
        Ok(AdminListener { kind })
    }

    /// Whether web browsers can reach it.
    pub fn is_tcp(&self) -> bool {
        matches!(self.kind, AdminSocket::Tcp(_))
    }

    /// The address, if the system chose the port.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.kind {
            AdminSocket::Tcp(listener) => listener.local_addr().ok(),
            AdminSocket::Unix { .. } => None,
        }
    }

    /// The next connection. Cancel-safe.
    pub(super) async fn accept(&self) -> io::Result<AdminClient> {
        match &self.kind {
            AdminSocket::Tcp(listener) => listener.accept().await.map(|(stream, _)| AdminClient::Tcp(stream)),
            AdminSocket::Unix { listener, .. } => {
                listener.accept().await.map(|(stream, _)| AdminClient::Unix(stream))
            }
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    if !address.ip().to_canonical().is_loopback() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the admin address {address} is reachable from other machines; use a loopback address such as \
                 127.0.0.1:{} or a Unix socket",
                address.port()
            ),
        ));
    }
    let bind = || -> io::Result<TcpListener> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    bind().map_err(|error| explained(&error, &format!("cannot listen on the admin address {address}")))
}

fn bind_unix(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    let shown = path.display();
    make_folder(path)?;
    let what = format!("cannot create the admin socket {shown}");
    let address = socket2::SockAddr::unix(path).map_err(|error| explained(&error, &what))?;
    let socket = || socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM.nonblocking(), None);
    let mut made = socket().map_err(|error| explained(&error, &what))?;
    if let Err(error) = made.bind(&address) {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Err(explained(&error, &what));
        }
        remove_stale(path)?;
        made = socket().map_err(|error| explained(&error, &what))?;
        made.bind(&address).map_err(|error| explained(&error, &what))?;
    }
    let finish = || -> io::Result<(UnixListener, SocketFile)> {
        let metadata = fs::symlink_metadata(path)?;
        let file = SocketFile { path: path.to_owned(), identity: (metadata.dev(), metadata.ino()) };
        // Connections are refused before it listens, so there is no moment with other permissions.
        millrace_sys::open_socket_to(path, 0o600)?;
        made.listen(BACKLOG)?;
        Ok((UnixListener::from_std(made.into())?, file))
    };
    finish().map_err(|error| explained(&error, &what))
}

/// Creates the folder of the socket if it does not exist. If other users can write to the folder, the socket could be
/// theirs.
fn make_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let what = || format!("cannot create the folder {} of the admin socket", folder.display());
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(explained(&error, &what())),
        _ => {}
    }
    let metadata = fs::metadata(folder).map_err(|error| explained(&error, &what()))?;
    let ours = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
    let open_to_all = metadata.mode() & 0o002 != 0 && metadata.mode() & 0o1000 == 0;
    if !ours || open_to_all {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "the folder {} of the admin socket {}; set admin.listen to a socket in a folder that only you can \
                 write to",
                folder.display(),
                if ours { "is writable by all users" } else { "belongs to another user" }
            ),
        ));
    }
    Ok(())
}

/// Removes the socket of a server that no longer runs.
fn remove_stale(path: &Path) -> io::Result<()> {
    let shown = path.display();
    let taken = |why: String| Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    if !fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket()) {
        return taken(format!("cannot create the admin socket {shown}: a file with this name exists"));
    }
    match blocking::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| explained(&error, &format!("cannot replace {shown}")))
        }
        Ok(_) => taken(format!(
            "another Millrace is using the admin socket {shown}; stop it, or give this one another with --set \
             admin.listen=unix:PATH, or none with --set admin.listen=off"
        )),
        Err(error) => {
            Err(explained(&error, &format!("cannot check whether a server uses the admin socket {shown}")))
        }
    }
}

fn explained(error: &io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use millrace_base::testing::Dir;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[tokio::test]
    async fn only_the_owner_reaches_the_socket() {
        let dir = Dir::new("admin-rights");
        let path = dir.path("folder/admin.sock");
        let listener = AdminListener::bind(&Address::Unix(path.clone())).unwrap();
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
        assert!(!listener.is_tcp());
        drop(listener);
        assert!(!path.exists(), "the file goes with its listener");
    }

    #[tokio::test]
    async fn a_living_server_is_left_alone_and_a_dead_one_replaced() {
        let dir = Dir::new("admin-stale");
        let path = dir.path("admin.sock");
        let address = Address::Unix(path.clone());
        let living = AdminListener::bind(&address).unwrap();
        let error = AdminListener::bind(&address).unwrap_err();
        assert!(error.to_string().contains("another Millrace is using"), "{error}");

        // After a crash the file remains without a process.
        let AdminSocket::Unix { listener, _file } = living.kind else { unreachable!() };
        std::mem::forget(_file);
        drop(listener);
        let again = AdminListener::bind(&address).unwrap();

        fs::remove_file(&path).unwrap();
        fs::write(&path, "not a socket").unwrap();
        drop(again);
        assert!(path.exists(), "what somebody else put there stays");
        let error = AdminListener::bind(&address).unwrap_err();
        assert!(error.to_string().contains("a file with this name exists"), "{error}");
    }

    #[tokio::test]
    async fn folders_of_others_and_of_everybody_are_refused() {
        let dir = Dir::new("admin-folder");
        let folder = dir.path("open");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let error = AdminListener::bind(&Address::Unix(folder.join("a.sock"))).unwrap_err();
        assert!(error.to_string().contains("is writable by all users"), "{error}");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
        AdminListener::bind(&Address::Unix(folder.join("a.sock"))).unwrap();

        let long = dir.path(&"x".repeat(120));
        assert!(AdminListener::bind(&Address::Unix(long)).unwrap_err().to_string().contains("admin socket"));
        let nowhere = dir.path("a/b/c.sock");
        assert!(
            AdminListener::bind(&Address::Unix(nowhere)).unwrap_err().to_string().contains("cannot create")
        );
    }

    #[tokio::test]
    async fn the_network_is_refused() {
        for address in ["0.0.0.0:0", "192.0.2.1:80", "[::]:0", "[::ffff:192.0.2.1]:80"] {
            let error = AdminListener::bind(&Address::Tcp(address.parse().unwrap())).unwrap_err();
            assert!(error.to_string().contains("from other machines"), "{address}: {error}");
        }
        let listener = AdminListener::bind(&Address::Tcp("127.0.0.1:0".parse().unwrap())).unwrap();
        assert!(listener.is_tcp());
        let taken = Address::Tcp(listener.local_addr().unwrap());
        assert!(AdminListener::bind(&taken).unwrap_err().to_string().contains("cannot listen"));
    }
}

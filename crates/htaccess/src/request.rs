//! What an evaluation sees of a request and of the disk.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;

use crate::folder::Folder;

/// A request. Texts are as HTTP carries them: bytes.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// `GET`
    pub method: &'a str,
    /// The path, decoded and normalised.
    pub path: &'a [u8],
    /// The query, as sent.
    pub query: Option<&'a [u8]>,
    /// Path and query, as sent.
    pub target: &'a [u8],
    /// `HTTP/1.1`
    pub protocol: &'a str,
    /// Requested host and port.
    pub authority: &'a str,
    /// The site's own name, or else the requested host.
    pub server_name: &'a str,
    /// Whether the client's side is encrypted.
    pub https: bool,
    /// The client's address; `None`: a Unix socket.
    pub remote: Watched<Option<IpAddr>>,
    /// Its port.
    pub remote_port: Watched<u16>,
    /// The server's address.
    pub local: Option<IpAddr>,
    /// The server's port.
    pub port: u16,
    /// Header fields.
    pub fields: RequestFields<'a>,
    /// Length of its content, as announced, bytes.
    pub content_length: Watched<Option<u64>>,
    /// Seconds since 1970.
    pub now: Watched<u64>,
    /// The document root, absolute, without a slash at its end.
    pub root: &'a [u8],
    /// `SERVER_SOFTWARE`
    pub software: &'a str,
    /// Names of index files where no `DirectoryIndex` names others.
    pub index: &'a [String],
}

impl Request<'_> {
    /// The first field of this name.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.get(name)
    }

    /// Names of the fields on which the evaluation depends, in lower case; `None`: it depends on something that differs
    /// with each request, such as the client's address or the time.
    pub fn reads(&self) -> Option<Vec<String>> {
        let Request { remote, remote_port, content_length, now, fields, .. } = self;
        let is_one_time = remote.is_seen()
            || remote_port.is_seen()
            || content_length.is_seen()
            || now.is_seen()
            || fields.all_read.get();
        (!is_one_time).then(|| fields.read.borrow().clone())
    }
}

/// A value that notes whether it was looked at.
#[derive(Clone, Debug)]
pub struct Watched<T> {
    value: T,
    is_seen: Cell<bool>,
}

impl<T: Copy> Watched<T> {
    /// Not looked at yet.
    pub fn new(value: T) -> Watched<T> {
        Watched { value, is_seen: Cell::new(false) }
    }

    /// The value.
    pub fn get(&self) -> T {
        self.is_seen.set(true);
        self.value
    }

    fn is_seen(&self) -> bool {
        self.is_seen.get()
    }
}

/// Maximum number of field names that are noted. An evaluation that reads more fields depends on all of them.
const MOST_READ: usize = 64;

/// The header fields of a request. It notes which of them were looked at.
#[derive(Clone, Debug)]
pub struct RequestFields<'a> {
    list: Vec<(&'a str, &'a [u8])>,
    /// Names in lower case.
    read: RefCell<Vec<String>>,
    all_read: Cell<bool>,
}

impl<'a> RequestFields<'a> {
    /// None was looked at yet.
    pub fn new(list: Vec<(&'a str, &'a [u8])>) -> RequestFields<'a> {
        RequestFields { list, read: RefCell::default(), all_read: Cell::new(false) }
    }

    /// The first field of this name.
    fn get(&self, name: &str) -> Option<&'a [u8]> {
        let mut read = self.read.borrow_mut();
        if self.all_read.get() {
            // The list of names is not needed any more.
        } else if read.len() >= MOST_READ {
            self.all_read.set(true);
        } else if !read.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            read.push(name.to_ascii_lowercase());
        }
        self.list.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// All fields.
    pub fn all(&self) -> &[(&'a str, &'a [u8])] {
        self.all_read.set(true);
        &self.list
    }
}

/// What a path of the file system leads to, behind symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A regular file, its size in bytes, and whether it may be executed.
    File {
        /// Bytes.
        size: u64,
        /// It has an execute permission.
        executable: bool,
    },
    /// A directory.
    Directory,
    /// A pipe, a socket, a device.
    Other,
}

/// A password file, or a group file, for one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It is so.
    Yes,
    /// It is not so.
    No,
    /// The answer takes long, and will be known when the request is evaluated again.
    Later,
    /// The file can't be used: what to do.
    Failed(String),
}

/// The disk, as an evaluation needs it.
pub trait World {
    /// The folders with rules on the way to `path` (decoded, from the site's root), outermost first, each with the length
    /// of its own path including the slash at its end. `path` itself may be a folder.
    fn folders(&self, path: &[u8]) -> Vec<(usize, Arc<Folder>)>;
    /// What an absolute path leads to.
    fn node(&self, absolute: &[u8]) -> Option<Node>;
    /// Whether an absolute path is a symbolic link.
    fn is_link(&self, absolute: &[u8]) -> bool;
    /// Whether `password` is that of `user` in the password file `file`.
    fn password(&self, file: &str, user: &str, password: &[u8]) -> Checked;
    /// Whether `user` is in one of `groups` according to the group file `file`.
    fn in_group(&self, file: &str, user: &str, groups: &[String]) -> Checked;
}

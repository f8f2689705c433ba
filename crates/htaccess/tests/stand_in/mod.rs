//! What stands in for a server when files are fuzzed, here and in `fuzz/targets/htaccess.rs`.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use millrace_htaccess::request::{RequestFields, Watched};
use millrace_htaccess::{Checked, Folder, Node, Request, World};

/// A disk with one `.htaccess` file, which counts for `/sub/` twice. The last byte of a path says what is there.
pub struct Disk(pub Arc<Folder>);

impl World for Disk {
    fn folders(&self, path: &[u8]) -> Vec<(usize, Arc<Folder>)> {
        let below = path.starts_with(b"/sub/").then(|| (5, self.0.clone()));
        [Some((1, self.0.clone())), below].into_iter().flatten().collect()
    }

    fn node(&self, absolute: &[u8]) -> Option<Node> {
        match absolute.last() {
            Some(b'/') => Some(Node::Directory),
            Some(b'l' | b'p') => Some(Node::File { size: 1, executable: false }),
            _ => None,
        }
    }

    fn is_link(&self, absolute: &[u8]) -> bool {
        absolute.ends_with(b"l")
    }

    fn password(&self, _: &str, _: &str, password: &[u8]) -> Checked {
        if password.is_empty() { Checked::No } else { Checked::Yes }
    }

    fn in_group(&self, _: &str, user: &str, groups: &[String]) -> Checked {
        if groups.iter().any(|group| group == user) { Checked::Yes } else { Checked::No }
    }
}

/// Index files of the server.
pub fn index() -> [String; 1] {
    ["index.html".to_owned()]
}

/// A request by GET; an empty query is none.
pub fn request<'a>(
    path: &'a [u8],
    query: &'a [u8],
    fields: Vec<(&'a str, &'a [u8])>,
    index: &'a [String],
) -> Request<'a> {
    Request {
        method: "GET",
        path,
        query: (!query.is_empty()).then_some(query),
        target: path,
        protocol: "HTTP/1.1",
        authority: "a.test",
        server_name: "a.test",
        https: false,
        remote: Watched::new(Some(IpAddr::V4(Ipv4Addr::LOCALHOST))),
        remote_port: Watched::new(1),
        local: None,
        port: 80,
        fields: RequestFields::new(fields),
        content_length: Watched::new(None),
        now: Watched::new(0),
        root: b"/srv",
        software: "Millrace",
        index,
    }
}

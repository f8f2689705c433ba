//! `.htaccess` files: any file compiles, and any request to it has a verdict, in bounded time; a malformed file closes its
//! folder.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use millrace_htaccess::request::{RequestFields, Watched};
use millrace_htaccess::{Checked, Folder, Node, Outcome, Request, World, evaluate};

struct Disk(Arc<Folder>);

impl World for Disk {
    fn folders(&self, _: &[u8]) -> Vec<(usize, Arc<Folder>)> {
        vec![(1, self.0.clone())]
    }

    fn node(&self, absolute: &[u8]) -> Option<Node> {
        match absolute.last() {
            Some(b'/') => Some(Node::Directory),
            Some(b'l') => Some(Node::File { size: 1, executable: false }),
            _ => None,
        }
    }

    fn is_link(&self, _: &[u8]) -> bool {
        false
    }

    fn password(&self, _: &str, _: &str, password: &[u8]) -> Checked {
        if password.is_empty() { Checked::No } else { Checked::Yes }
    }

    fn in_group(&self, _: &str, _: &str, _: &[String]) -> Checked {
        Checked::No
    }
}

// The first line is the path, the rest the file.
fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let path = [b"/", &input[..end]].concat();
    let folder = Arc::new(Folder::compile(&input[end..]));
    let closed = folder.closed;
    let index = ["index.html".to_owned()];
    let request = Request {
        method: "GET",
        path: &path,
        query: Some(b"a=b"),
        target: &path,
        protocol: "HTTP/1.1",
        authority: "a.test",
        server_name: "a.test",
        https: false,
        remote: Watched::new(Some(IpAddr::V4(Ipv4Addr::LOCALHOST))),
        remote_port: Watched::new(1),
        local: None,
        port: 80,
        fields: RequestFields::new(vec![("User-Agent", b"agent"), ("Authorization", b"Basic YTpi")]),
        content_length: Watched::new(None),
        now: Watched::new(0),
        root: b"/srv",
        software: "Millrace",
        index: &index,
    };
    let verdict = evaluate(&request, &Disk(folder)).expect("there are rules");
    if let Some(status) = closed {
        assert_eq!(verdict.outcome, Outcome::Refuse(status));
    }
});

//! Verdicts that an event loop remembers, so that a hit from the page cache does not pay for evaluating rules.
//!
//! A verdict depends on the request, on the rules and on the disk.
//!
//! - The **request**: method, protocol, scheme, authority, target, path and the server's address are the name of a verdict.
//!   A request notes which of its header fields an evaluation has read; their values are compared. A verdict that depends
//!   on anything else - the client's address, the time, a user file, all fields, the length of the content - is not
//!   remembered ([`Request::reads`](millrace_htaccess::Request::reads)).
//! - The **rules**: the folders on the way are compared with the disk before a verdict is looked up; a change forgets
//!   all of the site.
//! - The **disk**: a verdict is used for as long as a folder's file is between two comparisons.

use std::cell::RefCell;

use hashbrown::HashMap;

use millrace_base::message::Request;

/// Maximum number of names of verdicts of a site.
const MOST_NAMES: usize = 2000;

/// Maximum number of verdicts under one name, with other values of fields.
const MOST_VARIANTS: usize = 8;

/// Maximum length of a name, and of all values of fields of a verdict, bytes.
const LONGEST: usize = 1024;

thread_local! {
    /// The name that is being built.
    static NAME: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Verdicts by name.
#[derive(Debug)]
pub struct Verdicts<T> {
    by_name: HashMap<Box<[u8]>, Vec<Variant<T>>>,
}

/// A field that an evaluation has read, and its value; `None`: there was none.
type ReadField = (Box<str>, Option<Box<[u8]>>);

/// A verdict for some values of fields.
#[derive(Debug)]
struct Variant<T> {
    /// When it is forgotten, milliseconds of the clock.
    until: u64,
    fields: Box<[ReadField]>,
    verdict: T,
}

impl<T> Default for Verdicts<T> {
    fn default() -> Verdicts<T> {
        Verdicts { by_name: HashMap::new() }
    }
}

impl<T> Verdicts<T> {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.by_name.clear();
    }

    /// The verdict on such a request, `now` in milliseconds.
    pub fn find(&self, request: &Request, path: &[u8], now: u64) -> Option<&T> {
        let variants = NAME.with_borrow_mut(|name| {
            write_name(request, path, name);
            self.by_name.get(&**name)
        })?;
        let is_same = |(name, value): &ReadField| field(request, name) == value.as_deref();
        let fits = |variant: &&Variant<T>| now < variant.until && variant.fields.iter().all(is_same);
        variants.iter().find(fits).map(|variant| &variant.verdict)
    }

    /// Adds a verdict that depends on the fields `reads`, and is valid until `until`.
    pub fn add(&mut self, request: &Request, path: &[u8], reads: Vec<String>, until: u64, verdict: T) {
        let values = |name: &String| field(request, name).map(Box::from);
        let fields: Box<[ReadField]> =
            reads.iter().map(|name| (Box::from(name.as_str()), values(name))).collect();
        let length: usize = fields.iter().filter_map(|(_, value)| Some(value.as_ref()?.len())).sum();
        // A password does not stay in memory.
        let has_password = fields.iter().any(|(name, value)| &**name == "authorization" && value.is_some());
        let name = NAME.with_borrow_mut(|name| {
            write_name(request, path, name);
            (name.len() <= LONGEST).then(|| Box::from(&name[..]))
        });
        let Some(name) = name.filter(|_| length <= LONGEST && !has_password) else { return };
        if self.by_name.len() >= MOST_NAMES && !self.by_name.contains_key(&name) {
            self.clear();
        }
        let variants = self.by_name.entry(name).or_default();
        variants.retain(|variant| variant.until > until.saturating_sub(super::folders::REVALIDATE));
        if variants.len() >= MOST_VARIANTS {
            variants.remove(0);
        }
        variants.push(Variant { until, fields, verdict });
    }
}

/// The field as an evaluation reads it: the first one of this name.
fn field<'r>(request: &'r Request, name: &str) -> Option<&'r [u8]> {
    request.head.fields().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Everything of a request that is compared in any case.
fn write_name(request: &Request, path: &[u8], name: &mut Vec<u8>) {
    let (head, ends) = (&request.head, &request.ends);
    name.clear();
    let parts = [
        head.method().as_bytes(),
        head.version().text().as_bytes(),
        ends.scheme.text().as_bytes(),
        request.authority().as_bytes(),
        head.path_query(),
        path,
    ];
    for part in parts {
        name.extend_from_slice(&part.len().to_ne_bytes());
        name.extend_from_slice(part);
    }
    if let Some(local) = ends.local {
        name.extend_from_slice(&local.port().to_ne_bytes());
        match local.ip() {
            std::net::IpAddr::V4(ip) => name.extend_from_slice(&ip.octets()),
            std::net::IpAddr::V6(ip) => name.extend_from_slice(&ip.octets()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, SocketAddr};
    use std::sync::Arc;

    use millrace_htaccess::request::{RequestFields, Watched};
    use millrace_htaccess::{Checked, Folder, Node, Request as View, Verdict, World, evaluate};
    use millrace_wire::head::{Framing, Head, Limits};

    use super::*;
    use millrace_base::message::request::{Ends, Scheme};

    /// Rules for one folder, and the files that are there.
    struct Disk(Arc<Folder>, Vec<&'static str>);

    impl World for Disk {
        fn folders(&self, _: &[u8]) -> Vec<(usize, Arc<Folder>)> {
            vec![(1, self.0.clone())]
        }

        fn node(&self, absolute: &[u8]) -> Option<Node> {
            let is_file = self.1.iter().any(|file| file.as_bytes() == absolute);
            is_file.then_some(Node::File { size: 1, executable: false })
        }

        fn is_link(&self, _: &[u8]) -> bool {
            false
        }

        fn password(&self, _: &str, _: &str, _: &[u8]) -> Checked {
            Checked::No
        }

        fn in_group(&self, _: &str, _: &str, _: &[String]) -> Checked {
            Checked::No
        }
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, most: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % most
        }

        fn one<T: Copy>(&mut self, of: &[T]) -> T {
            of[self.below(of.len())]
        }
    }

    const LINES: [&str; 34] = [
        "RewriteCond %{REQUEST_FILENAME} !-f",
        "RewriteCond %{REQUEST_FILENAME} -f [OR]",
        "RewriteCond %{HTTP_USER_AGENT} phone [NC]",
        "RewriteCond %{HTTP:X-A} ^1$ [OR]",
        "RewriteCond %{HTTP_COOKIE} lang=(..)",
        "RewriteCond %{HTTPS} on",
        "RewriteCond %{HTTP_HOST} ^b",
        "RewriteCond %{REMOTE_ADDR} ^192",
        "RewriteCond %{TIME_SEC} ^1",
        "RewriteCond %{QUERY_STRING} x=(.)",
        "RewriteCond %{REQUEST_METHOD} POST",
        "RewriteCond %{THE_REQUEST} /a",
        "RewriteCond %{SERVER_PORT} 81",
        "RewriteCond expr \"%{HTTP:X-B} == '1'\"",
        "RewriteRule .* - [E=AUTH:%{HTTP:Authorization}]",
        "RewriteRule ^a /b.php?%1 [QSA]",
        "RewriteRule . /index.php [L]",
        "RewriteRule ^b https://%{HTTP_HOST}/%{HTTP:X-A} [R,L]",
        "RewriteRule ^c - [F]",
        "RewriteRule .* - [E=FROM:%{REMOTE_ADDR},E=NOW:%{TIME}]",
        "RewriteRule .* - [CO=seen:1:a.test]",
        "SetEnvIf User-Agent phone MOBILE=1",
        "SetEnvIf Remote_Addr ^192 LOCAL",
        "SetEnvIf X-A (.) A=$1",
        "SetEnvIf ^X- 1 ANY",
        "Deny from 192.0.2.1",
        "Require not env MOBILE",
        "Require method GET",
        "Require ip 10.0.0.0/8",
        "<If \"%{HTTP:X-B} == '1'\">\nRedirect 302 /a /if\n</If>",
        "RequestHeader set X-From %{REMOTE_ADDR}s",
        "RequestHeader edit X-A 1 2",
        "LimitRequestBody 3",
        "Header set X-A %{MOBILE}e",
    ];

    fn folder(random: &mut Random) -> Folder {
        let mut text = "RewriteEngine on\n".to_owned();
        for _ in 0..1 + random.below(8) {
            text.push_str(random.one(&LINES));
            text.push('\n');
        }
        Folder::compile(text.as_bytes())
    }

    /// Number of choices that make a request.
    const CHOICES: usize = 13;

    fn request(choices: [usize; CHOICES]) -> Request {
        let [method, target, host, length, client, local, scheme, fields @ ..] = choices;
        let method = ["GET", "GET", "GET", "HEAD", "POST"][method % 5];
        let target = ["/a", "/a?x=1", "/a?x=2", "/b", "/c.html", "/%61"][target % 6];
        let host = ["a.test", "b.test"][host % 2];
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        let known = [
            ["X-A: 1\r\n", "X-A: 2\r\n"],
            ["X-B: 1\r\n", "x-b: 2\r\n"],
            ["User-Agent: phone\r\n", "User-Agent: desk\r\n"],
            ["Cookie: lang=de\r\n", "Cookie: lang=fr\r\n"],
            ["Authorization: Basic YTpi\r\n", ""],
            ["X-Other: 1\r\n", ""],
        ];
        for (field, choice) in known.iter().zip(fields) {
            text.push_str(field.get(choice % 3).copied().unwrap_or_default());
        }
        if method == "POST" {
            text.push_str(["Content-Length: 2\r\n", "Content-Length: 9\r\n"][length % 2]);
        }
        text.push_str("\r\n");
        let mut head = Head::default();
        head.parse(text.as_bytes(), &Limits { bytes: 16384, fields: 100, target: 8192 }).unwrap().unwrap();
        let address = |text: &str| Some(text.parse::<SocketAddr>().unwrap());
        let client = address(["192.0.2.1:5", "192.0.2.2:5", "10.0.0.1:6"][client % 3]);
        let local = address(["127.0.0.1:80", "127.0.0.1:81"][local % 2]);
        let scheme = [Scheme::Http, Scheme::Https][scheme % 2];
        Request::direct(head, Ends { client, local, scheme, tls: None })
    }

    /// The verdict, and the fields on which it depends.
    fn judged(request: &Request, path: &[u8], now: u64, disk: &Disk) -> (Verdict, Option<Vec<String>>) {
        let (head, ends) = (&request.head, &request.ends);
        let view = View {
            method: head.method(),
            path,
            query: request.query(),
            target: head.path_query(),
            protocol: "HTTP/1.1",
            authority: request.authority(),
            server_name: request.authority(),
            https: ends.scheme == Scheme::Https,
            remote: Watched::new(ends.client_ip()),
            remote_port: Watched::new(ends.client.map_or(0, |client| client.port())),
            local: ends.local.map(|local| local.ip()),
            port: ends.local.map_or(80, |local| local.port()),
            fields: RequestFields::new(head.fields().collect()),
            content_length: Watched::new(match head.framing() {
                Framing::Length(length) => Some(length),
                Framing::None | Framing::Chunked => None,
            }),
            now: Watched::new(now / 1000),
            root: b"/srv",
            software: "Millrace",
            index: &[],
        };
        let verdict = evaluate(&view, disk).expect("there are rules");
        (verdict, view.reads())
    }

    /// All of a verdict, without the text of the rules.
    fn text(verdict: &Verdict) -> String {
        let layers: Vec<usize> = verdict.active.iter().map(|(_, layer)| *layer).collect();
        format!("{:?} {layers:?}", Verdict { active: Vec::new(), ..verdict.clone() })
    }

    /// Plays requests to folders with random rules, while files come and go and time passes: what is remembered is what
    /// an evaluation says.
    #[test]
    fn remembered_verdicts_are_those_of_an_evaluation() {
        const FILES: [&str; 5] = ["/srv/a", "/srv/b", "/srv/b.php", "/srv/index.php", "/srv/c.html"];
        let (mut found, mut evaluated) = (0, 0);
        for seed in 0..200 {
            let random = &mut Random(seed);
            let mut disk = Disk(Arc::new(folder(random)), vec![]);
            let (mut verdicts, mut now) = (Verdicts::default(), 0);
            let usual: [usize; CHOICES] = std::array::from_fn(|_| random.below(60));
            for _ in 0..40 {
                if random.below(8) == 0 {
                    disk.1 = FILES.into_iter().filter(|_| random.below(2) == 0).collect();
                    now += super::super::folders::REVALIDATE;
                }
                now += random.below(20) as u64;
                // Most requests are alike; the others differ in one thing.
                let mut choices = usual;
                if random.below(2) == 0 {
                    choices[random.below(CHOICES)] = random.below(60);
                }
                let request = request(choices);
                let path = if request.raw_path() == b"/%61" { b"/a" } else { request.raw_path() };
                let (verdict, reads) = judged(&request, path, now, &disk);
                match verdicts.find(&request, path, now) {
                    Some(known) => {
                        found += 1;
                        assert_eq!(text(known), text(&verdict), "seed {seed}: {request:?}\n{:#?}", disk.0);
                    }
                    None => {
                        evaluated += 1;
                        if let Some(reads) = reads {
                            let until = now + super::super::folders::REVALIDATE;
                            verdicts.add(&request, path, reads, until, verdict);
                        }
                    }
                }
            }
        }
        assert!(found > 1000 && evaluated > 1000, "{found} found, {evaluated} evaluated");
    }

    #[test]
    fn bounds() {
        let mut verdicts = Verdicts::default();
        let ask = |target: &str, field: &str| {
            let mut head = Head::default();
            let text = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{field}\r\n\r\n");
            head.parse(text.as_bytes(), &Limits { bytes: 16384, fields: 100, target: 8192 })
                .unwrap()
                .unwrap();
            let here = Some(SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1));
            Request::direct(head, Ends { client: here, local: here, scheme: Scheme::Http, tls: None })
        };
        let reads = || vec!["x-a".to_owned(), "authorization".to_owned()];
        for number in 0..3 * MOST_NAMES {
            verdicts.add(&ask(&format!("/{number}"), "X-A: 1"), b"/", reads(), 10, number);
        }
        assert!(verdicts.by_name.len() <= MOST_NAMES);
        for number in 0..3 * MOST_VARIANTS {
            verdicts.add(&ask("/", &format!("X-A: {number}")), b"/", reads(), 10, number);
        }
        let last = 3 * MOST_VARIANTS - 1;
        assert_eq!(verdicts.find(&ask("/", "X-A: 0"), b"/", 0), None);
        assert_eq!(verdicts.find(&ask("/", &format!("X-A: {last}")), b"/", 0), Some(&last));
        assert_eq!(verdicts.find(&ask("/", &format!("X-A: {last}")), b"/", 10), None, "it is too old");
        for (target, field) in [
            ("/p", "Authorization: Basic YTpi".to_owned()),
            ("/q", format!("X-A: {}", "x".repeat(LONGEST + 1))),
            (&*format!("/{}", "x".repeat(LONGEST)), "X-B: 1".to_owned()),
        ] {
            let request = ask(target, &field);
            verdicts.add(&request, b"/", reads(), 10, 1);
            assert_eq!(verdicts.find(&request, b"/", 0), None, "{target}");
        }
    }
}

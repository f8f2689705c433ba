use super::*;

const LIMITS: Limits = Limits { bytes: 1024, fields: 20, target: 100 };

fn parse(text: &str) -> Result<Option<(usize, Head)>, Refusal> {
    let mut head = Head::default();
    head.parse(text.as_bytes(), &LIMITS).map(|n| n.map(|n| (n, head)))
}

fn accepted(text: &str) -> Head {
    let (length, head) = parse(text).unwrap().expect("a whole head");
    assert_eq!(length, text.len());
    head
}

fn refused(text: &str) -> u16 {
    parse(text).expect_err(text).status()
}

#[test]
fn a_plain_request() {
    let head = accepted("GET /a%20b?c=d HTTP/1.1\r\nHost: example.com:80\r\nX-Empty:\r\n\r\n");
    assert_eq!((head.method(), head.path_query()), ("GET", &b"/a%20b?c=d"[..]));
    assert_eq!(head.authority(), "example.com:80");
    assert_eq!(head.field("x-EMPTY"), Some(&b""[..]));
    assert!(head.keep_alive());
    assert_eq!(head.framing(), Framing::None);
}

#[test]
fn fields_are_replaced() {
    let mut head =
        accepted("POST / HTTP/1.1\r\nHost: a\r\nX-User: forged\r\nContent-Length: 1\r\nx-user: too\r\n\r\n");
    head.replace(|name| name.eq_ignore_ascii_case("X-User"), &[("X-User".to_owned(), b"ann".to_vec())]);
    let fields: Vec<_> = head.fields().collect();
    assert_eq!(fields, [("Host", &b"a"[..]), ("Content-Length", b"1"), ("X-User", b"ann")]);
    assert_eq!((head.framing(), head.method()), (Framing::Length(1), "POST"));
    head.replace(|name| name == "X-User", &[]);
    assert_eq!(head.field("x-user"), None);
}

fn assembled(parts: Parts<'_>, fields: &[(&str, &str)]) -> Result<Head, u16> {
    // Earlier contents leave no trace.
    let mut head =
        accepted("POST /old HTTP/1.1\r\nHost: old\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    head.assemble(&parts, fields, &LIMITS).map(|()| head).map_err(Refusal::status)
}

const GET: Parts<'_> = Parts { method: "GET", authority: "a.test:1", path_query: "/x?y", has_content: false };

#[test]
fn an_http2_request() {
    let head = assembled(GET, &[("accept", "*/*"), ("x", "1")]).unwrap();
    assert_eq!((head.method(), head.authority(), head.path_query()), ("GET", "a.test:1", &b"/x?y"[..]));
    assert_eq!((head.version(), head.framing()), (Version::Http2, Framing::None));
    assert!(head.keep_alive() && !head.expects_continue());
    assert_eq!(head.fields().collect::<Vec<_>>(), [("accept", &b"*/*"[..]), ("x", b"1")]);
    let with_content = Parts { has_content: true, ..GET };
    assert_eq!(assembled(with_content, &[]).unwrap().framing(), Framing::Chunked);
    let head = assembled(with_content, &[("content-length", "7"), ("expect", "100-continue")]).unwrap();
    assert_eq!((head.framing(), head.expects_continue()), (Framing::Length(7), true));
    let host = assembled(Parts { authority: "", ..GET }, &[("host", "b.test")]).unwrap();
    assert_eq!((host.authority(), host.fields().count()), ("b.test", 0));
    let connect = Parts { method: "CONNECT", path_query: "", ..GET };
    assert_eq!(assembled(connect, &[]).unwrap().target(), b"a.test:1");
}

#[test]
fn http2_requests_that_break_rules() {
    for (parts, fields, status) in [
        (Parts { authority: "", ..GET }, &[][..], 400),
        (GET, &[("host", "b.test")], 400),
        (Parts { authority: "a@b", ..GET }, &[], 400),
        (Parts { path_query: "x", ..GET }, &[], 400),
        (Parts { path_query: "*", ..GET }, &[], 400),
        (GET, &[("content-length", "1")], 400),
        (GET, &[("content-length", "0"), ("content-length", "0")], 400),
        (GET, &[("transfer-encoding", "chunked")], 400),
        (GET, &[("expect", "tea")], 417),
        (GET, &[("x", " a")], 400),
        (GET, &[("x", "a\t")], 400),
        (GET, &[("x", " ")], 400),
        (GET, &[("host", "a.test:1 ")], 400),
    ] {
        assert_eq!(assembled(parts, fields).err(), Some(status), "{parts:?} {fields:?}");
    }
    let long = format!("/{}", "a".repeat(LIMITS.target));
    assert_eq!(assembled(Parts { path_query: &long, ..GET }, &[]).err(), Some(414));
    assert_eq!(assembled(GET, &[("a", "1"); 21]).err(), Some(431));
    let large = "a".repeat(700);
    assert_eq!(assembled(GET, &[("a", &large), ("b", &large), ("c", "")]).err(), Some(431));
}

#[test]
fn every_torn_head_asks_for_more() {
    let text = "\r\nPOST http://h/ HTTP/1.1\r\nHost: other\r\nContent-Length: 3\r\n\r\n";
    for cut in 0..text.len() {
        assert!(parse(&text[..cut]).unwrap().is_none(), "cut at {cut}");
    }
    assert_eq!(accepted(text).authority(), "h");
}

#[test]
fn the_authority_of_the_target_wins() {
    for text in
        ["GET http://a:81/?x HTTP/1.1\r\nHost: b\r\n\r\n", "GET http://a:81?x HTTP/1.1\r\nHost: b\r\n\r\n"]
    {
        let head = accepted(text);
        assert_eq!((head.authority(), head.path_query()), ("a:81", &b"/?x"[..]));
    }
    assert_eq!(accepted("GET http://a HTTP/1.1\r\nHost: b\r\n\r\n").path_query(), b"/");
    assert_eq!(accepted("OPTIONS * HTTP/1.1\r\nHost: b\r\n\r\n").path_query(), b"*");
}

#[test]
fn a_path_is_ascii() {
    for target in [&b"/caf\xe9"[..], "/café".as_bytes(), b"/\xc6?a", b"http://a/\xe9", b"\xe9"] {
        let text = [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\nX: \xe9\r\n\r\n"].concat();
        let refusal = Head::default().parse(&text, &LIMITS).unwrap_err();
        assert_eq!(refusal.status(), 400, "{}", target.escape_ascii());
    }
    let mut head = Head::default();
    assert!(head.parse(b"GET /caf%E9 HTTP/1.1\r\nHost: a\r\nX: \xe9\r\n\r\n", &LIMITS).is_ok());
    assert_eq!((head.path_query(), head.field("x")), (&b"/caf%E9"[..], Some(&b"\xe9"[..])));
    // Only the script interprets a query.
    assert!(head.parse(b"GET /?a=\xe9 HTTP/1.1\r\nHost: a\r\n\r\n", &LIMITS).is_ok());
    assert_eq!(head.query(), Some(&b"a=%E9"[..]));
    let parts = Parts { method: "GET", authority: "a", path_query: "/café", has_content: false };
    let refusal = Head::default().assemble(&parts, std::iter::empty(), &LIMITS).unwrap_err();
    assert_eq!(refusal.status(), 400);
}

/// Input that can't be a request is refused before its line ends.
#[test]
fn a_method_is_checked_as_it_comes() {
    for bad in [&b"\x16\x03\x01\x02"[..], b"\x16", b" GET", b"\0", b"(", b"GE\xe9", b"G:T", b"\rG", b"\t"] {
        let refusal = Head::default().parse(bad, &LIMITS).unwrap_err();
        assert_eq!(refusal.status(), 400, "{}", bad.escape_ascii());
        let behind = [b"\r\n", bad].concat();
        assert_eq!(Head::default().parse(&behind, &LIMITS).unwrap_err().status(), 400);
    }
    for begun in ["", "\r", "\r\n", "\r\n\r", "G", "GET", "GET ", "M-SEARCH"] {
        assert_eq!(parse(begun).map(|head| head.is_some()), Ok(false), "{begun:?}");
    }
    let (long, longer) = ("A".repeat(32), "A".repeat(33));
    assert_eq!(accepted(&format!("{long} / HTTP/1.1\r\nHost: a\r\n\r\n")).method(), long);
    assert_eq!(refused(&longer), 501, "before its end");
    assert_eq!(refused(&format!("{longer} / HTTP/1.1\r\nHost: a\r\n\r\n")), 501);
    let parts = Parts { method: &longer, authority: "a", path_query: "/", has_content: false };
    assert_eq!(Head::default().assemble(&parts, std::iter::empty(), &LIMITS), Err(Refusal::Method));
}

#[test]
fn a_target_with_https_is_known() {
    let names = |target: &str| accepted(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).names_https();
    assert!(names("https://a/x") && names("HTTPS://a?x"));
    assert!(!names("http://a/x") && !names("/x") && !names("/https://a/"));
    let mut head = Head::default();
    head.parse(b"GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n", &LIMITS).unwrap();
    head.parse(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &LIMITS).unwrap();
    assert!(!head.names_https(), "nothing is left of the one before");
}

#[test]
fn keep_alive_by_version() {
    assert!(!accepted("GET / HTTP/1.0\r\n\r\n").keep_alive());
    assert!(accepted("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive());
    assert!(!accepted("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n").keep_alive());
}

#[test]
fn framing_is_never_guessed() {
    let post = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    assert_eq!(accepted(&post("Content-Length: 05\r\n")).framing(), Framing::Length(5));
    assert_eq!(accepted(&post("Transfer-Encoding: Chunked\r\n")).framing(), Framing::Chunked);
    for list in [",chunked", "chunked,", ", ,chunked , ,", "\t,\tchunked"] {
        let head = accepted(&post(&format!("Transfer-Encoding: {list}\r\n")));
        assert_eq!(head.framing(), Framing::Chunked, "RFC 9110 section 5.6.1.2: {list:?}");
    }
    for bad in [
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length:\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: chunked, , chunked\r\n",
        "Transfer-Encoding: ,\r\n",
        "Transfer-Encoding:\r\n",
        "Content-Length : 5\r\n",
        "X: a\r\n b\r\n",
        ": 5\r\n",
        "X Y: 5\r\n",
        "X: a\0b\r\n",
        "X: a\rb\r\n",
        "X: a\n",
    ] {
        assert_eq!(refused(&post(bad)), 400, "{bad:?}");
    }
    assert_eq!(refused(&post("Transfer-Encoding: gzip, chunked\r\n")), 501);
    assert_eq!(refused(&post("Transfer-Encoding: identity\r\n")), 501);
    assert_eq!(refused(&post("Expect: 200-maybe\r\n")), 417);
    assert_eq!(refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    assert_eq!(refused("POST / HTTP/1.0\r\n\r\n"), 411);
}

#[test]
fn one_legal_host() {
    for bad in ["", "Host:\r\n", "Host: a\r\nHost: a\r\n", "Host: a b\r\n", "Host: u@a\r\n", "Host: a/b\r\n"]
    {
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\n{bad}\r\n")), 400, "{bad:?}");
    }
    for bad in ["a:b", "a:123456", "a:99999", "[::1", "[::g]", ":80", "a,b", "a:80:80"] {
        assert_eq!(refused(&format!("GET / HTTP/1.1\r\nHost: {bad}\r\n\r\n")), 400, "{bad:?}");
    }
    assert_eq!(refused("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(refused("GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(accepted("GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n").authority(), "[::1]:8080");
}

#[test]
fn request_lines() {
    for bad in [
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET /",
        "GET / http/1.1",
        "G\u{7f}T / HTTP/1.1",
        "/ HTTP/1.1",
    ] {
        assert_eq!(refused(&format!("{bad}\r\nHost: a\r\n\r\n")), 400, "{bad:?}");
    }
    assert_eq!(refused("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(refused("GET * HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(refused("GET a HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
    assert_eq!(refused("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
    assert_eq!(refused("GET / HTTP/1.1\nHost: a\r\n\r\n"), 400);
}

#[test]
fn limits() {
    let long = "x".repeat(101);
    assert_eq!(refused(&format!("GET /{long} HTTP/1.1\r\n")), 414);
    assert_eq!(refused(&format!("GET /{long}")), 414);
    assert_eq!(refused(&format!("GET / HTTP/1.1\r\nX: {}", "y".repeat(1024))), 431);
    let many = "A: b\r\n".repeat(21);
    assert_eq!(refused(&format!("GET / HTTP/1.1\r\n{many}\r\n")), 431);
}

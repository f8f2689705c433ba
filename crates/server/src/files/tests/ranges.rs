//! Parts of a file.

use super::*;

const PLAIN: &str = "/data.bin";

fn digits(length: usize) -> Vec<u8> {
    (0..length).map(|n| b'0' + (n % 10) as u8).collect()
}

/// From memory and from disk.
fn both(test: impl Fn(&Site)) {
    for small in [1 << 20, 10] {
        let site = Site::with(|limits| limits.small_file = small);
        site.write(PLAIN, digits(1000));
        site.folder.age(PLAIN, 3600);
        test(&site);
    }
}

#[test]
fn one_part() {
    both(|site| {
        for (range, content_range, expected) in [
            ("bytes=0-0", "bytes 0-0/1000", &b"0"[..]),
            ("bytes=995-", "bytes 995-999/1000", b"56789"),
            ("bytes=-3", "bytes 997-999/1000", b"789"),
            ("bytes=998-5000", "bytes 998-999/1000", b"89"),
        ] {
            let reply = site.get(PLAIN, &[("Range", range)]);
            assert_eq!(reply.status, 206, "{range}");
            assert_eq!(field(&reply, "Content-Range"), content_range);
            assert_eq!(field(&reply, "Accept-Ranges"), "bytes");
            assert_eq!(field(&reply, "Content-Type"), "application/octet-stream");
            assert_eq!(bytes_of(&reply.body), expected, "{range}");
            assert_eq!(reply.body.length(), Some(expected.len() as u64));
        }
    });
}

#[test]
fn what_is_no_range_gets_the_whole() {
    both(|site| {
        let many: Vec<String> = (0..20).map(|n| format!("{}-{}", n * 20, n * 20)).collect();
        let many = format!("bytes={}", many.join(","));
        for range in ["bytes=5-2", "lines=1-2", "bytes=", "bytes=0-999,0-999", &many] {
            let reply = site.get(PLAIN, &[("Range", range)]);
            assert_eq!((reply.status, reply.body.length()), (200, Some(1000)), "{range}");
        }
        let twice = site.get(PLAIN, &[("Range", "bytes=0-1"), ("Range", "bytes=4-5")]);
        assert_eq!(twice.status, 200);
        let head = finish(site.ask("HEAD", PLAIN, &[("Range", "bytes=0-1")]));
        assert_eq!((head.status, head.body.length()), (200, Some(1000)));
    });
}

#[test]
fn nothing_of_it() {
    both(|site| {
        let reply = site.get(PLAIN, &[("Range", "bytes=1000-")]);
        assert_eq!((reply.status, field(&reply, "Content-Range")), (416, "bytes */1000".to_owned()));
        assert_eq!(field(&reply, "ETag"), "");
    });
}

#[test]
fn several_parts() {
    both(|site| {
        let reply = site.get(PLAIN, &[("Range", "bytes=0-1,500-502,-2")]);
        assert_eq!(reply.status, 206);
        let content_type = field(&reply, "Content-Type");
        let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap();
        assert_eq!(field(&reply, "Content-Range"), "");
        assert!(!field(&reply, "ETag").is_empty());
        let part = |range: &str, content: &str| {
            format!(
                "Content-Type: application/octet-stream\r\nContent-Range: bytes {range}/1000\r\n\r\n{content}"
            )
        };
        let expected = format!(
            "--{boundary}\r\n{}\r\n--{boundary}\r\n{}\r\n--{boundary}\r\n{}\r\n--{boundary}--\r\n",
            part("0-1", "01"),
            part("500-502", "012"),
            part("998-999", "89")
        );
        assert_eq!(String::from_utf8(bytes_of(&reply.body)).unwrap(), expected);
        assert_eq!(reply.body.length(), Some(expected.len() as u64));
        let again = site.get(PLAIN, &[("Range", "bytes=0-1,500-502")]);
        assert!(!field(&again, "Content-Type").contains(boundary), "nobody can know it beforehand");
    });
}

#[test]
fn parts_that_touch_are_one() {
    both(|site| {
        let reply = site.get(PLAIN, &[("Range", "bytes=0-1,2-3")]);
        assert_eq!(field(&reply, "Content-Range"), "bytes 0-3/1000");
        assert_eq!(bytes_of(&reply.body), b"0123");
    });
}

#[test]
fn if_range() {
    both(|site| {
        let whole = site.get(PLAIN, &[]);
        let (etag, date) = (field(&whole, "ETag"), field(&whole, "Last-Modified"));
        let weak = format!("W/{etag}");
        for (value, status) in [
            (&*etag, 206),
            (&*date, 206),
            (&*weak, 200),
            ("\"other\"", 200),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 200),
            ("nonsense", 200),
        ] {
            let reply = site.get(PLAIN, &[("Range", "bytes=0-1"), ("If-Range", value)]);
            assert_eq!(reply.status, status, "{value}");
        }
        let reply = site.get(PLAIN, &[("Range", "bytes=5000-"), ("If-Range", "\"other\"")]);
        assert_eq!(reply.status, 200, "a range that does not count can't be unsatisfiable");
    });
}

#[test]
fn a_date_of_this_second_is_too_weak_for_if_range() {
    let site = Site::new();
    site.write(PLAIN, digits(1000));
    site.folder.age(PLAIN, 0);
    let date = field(&site.get(PLAIN, &[]), "Last-Modified");
    assert_eq!(site.get(PLAIN, &[("Range", "bytes=0-1"), ("If-Range", &date)]).status, 200);
}

#[test]
fn parts_are_of_the_plain_content() {
    let site = Site::new();
    site.write("/a.css", text(5000));
    let accept = ("Accept-Encoding", "br, gzip");
    let coded = site.get("/a.css", &[accept]);
    assert_eq!(field(&coded, "Content-Encoding"), "br");
    assert_eq!(field(&coded, "Accept-Ranges"), "");
    let part = site.get("/a.css", &[accept, ("Range", "bytes=0-7")]);
    assert_eq!((part.status, field(&part, "Content-Encoding")), (206, String::new()));
    assert_eq!(bytes_of(&part.body), b"All work");
    assert_eq!(field(&part, "Vary"), "Accept-Encoding");
    // A client that has the start of the compressed form gets the same form again.
    let etag = field(&coded, "ETag");
    let resumed = site.get("/a.css", &[accept, ("Range", "bytes=9-"), ("If-Range", &etag)]);
    assert_eq!((resumed.status, field(&resumed, "Content-Encoding")), (200, "br".to_owned()));
    let picky = site.get("/a.css", &[("Accept-Encoding", "gzip, identity;q=0"), ("Range", "bytes=0-7")]);
    assert_eq!((picky.status, field(&picky, "Content-Encoding")), (200, "gzip".to_owned()));
}

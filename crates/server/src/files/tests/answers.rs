//! Fields of a response, conditions, expiry.

use super::*;

const PNG: &str = "/pixel.png";

fn modified(site: &Site, path: &str) -> String {
    field(&site.get(path, &[]), "Last-Modified")
}

#[test]
fn a_whole_file() {
    let site = Site::new();
    site.write("/a.html", "<p>A</p>");
    site.folder.age("/a.html", 3600);
    let reply = site.get("/a.html", &[]);
    let names: Vec<&str> = reply.fields.iter().map(|(name, _)| name).collect();
    let expected = ["Content-Type", "Last-Modified", "ETag", "Accept-Ranges", "Vary", "Cache-Control"];
    assert_eq!(names, expected);
    assert_eq!(reply.status, 200);
    assert_eq!(field(&reply, "Content-Type"), "text/html; charset=utf-8");
    assert_eq!(field(&reply, "Cache-Control"), "no-cache");
    assert!(field(&reply, "Last-Modified").ends_with(" GMT"));
    assert_eq!(bytes_of(&reply.body), b"<p>A</p>");
    let head = finish(site.ask("HEAD", "/a.html", &[]));
    assert_eq!(head.fields.blocks(), reply.fields.blocks());
    assert_eq!(head.body.length(), Some(8));
}

#[test]
fn a_hit_shares_everything() {
    let site = Site::new();
    site.write(PNG, noise(3000));
    let (first, second) = (site.get(PNG, &[]), site.get(PNG, &[]));
    match (&first.body, &second.body) {
        (Body::Shared { bytes: a, .. }, Body::Shared { bytes: b, .. }) => {
            assert!(std::sync::Arc::ptr_eq(a, b))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(first.fields.blocks()[0].as_ptr(), second.fields.blocks()[0].as_ptr());
    assert!(first.fields.blocks()[1].is_empty());
}

#[test]
fn an_empty_file() {
    let site = Site::new();
    site.write("/empty.css", "");
    let reply = site.get("/empty.css", &[("Accept-Encoding", "br, gzip;q=0.5, identity;q=0")]);
    assert_eq!((reply.status, reply.body.length()), (200, Some(0)));
    assert_eq!(site.get("/empty.css", &[("Range", "bytes=0-")]).status, 416);
    assert_eq!(site.get("/empty.css", &[("Range", "bytes=-1")]).status, 200);
}

#[test]
fn conditions() {
    let site = Site::new();
    site.write(PNG, noise(300));
    site.folder.age(PNG, 3600);
    let etag = field(&site.get(PNG, &[]), "ETag");
    let date = modified(&site, PNG);
    assert!(etag.starts_with('"') && etag.ends_with('"') && etag.is_ascii(), "{etag}");
    let weak = format!("W/{etag}");
    let long_ago = "Sun, 06 Nov 1994 08:49:37 GMT";
    let table: &[(&[(&str, &str)], u16)] = &[
        (&[("If-None-Match", &etag)], 304),
        (&[("If-None-Match", &weak)], 304),
        (&[("If-None-Match", "*")], 304),
        (&[("If-None-Match", "\"other\"")], 200),
        (&[("If-Modified-Since", &date)], 304),
        (&[("If-Modified-Since", long_ago)], 200),
        (&[("If-None-Match", "\"other\""), ("If-Modified-Since", &date)], 200),
        (&[("If-Match", &etag)], 200),
        (&[("If-Match", &weak)], 412),
        (&[("If-Match", "\"other\"")], 412),
        (&[("If-Unmodified-Since", &date)], 200),
        (&[("If-Unmodified-Since", long_ago)], 412),
        (&[("If-Match", "\"other\""), ("If-None-Match", &etag)], 412),
        (&[("If-Match", &etag), ("Range", "bytes=0-1")], 206),
        (&[("If-Match", "\"other\""), ("Range", "bytes=0-1")], 412),
        (&[("If-None-Match", &etag), ("Range", "bytes=0-1")], 304),
        (&[("If-None-Match", &etag), ("Range", "bytes=999-")], 304),
        (&[("If-None-Match", "\"other\""), ("Range", "bytes=999-")], 416),
    ];
    for (fields, status) in table {
        assert_eq!(site.get(PNG, fields).status, *status, "{fields:?}");
        let head = finish(site.ask("HEAD", PNG, fields)).status;
        let without_range = if matches!(*status, 206 | 416) { 200 } else { *status };
        assert_eq!(head, without_range, "HEAD {fields:?}");
    }
}

#[test]
fn not_modified_says_what_it_must() {
    let site = Site::new();
    site.write("/a.css", text(100));
    let whole = site.get("/a.css", &[]);
    let reply = site.get("/a.css", &[("If-None-Match", &field(&whole, "ETag"))]);
    assert_eq!(reply.status, 304);
    assert!(matches!(reply.body, Body::Empty));
    for name in ["ETag", "Vary", "Cache-Control"] {
        assert_eq!(field(&reply, name), field(&whole, name), "{name}");
        assert!(!field(&reply, name).is_empty(), "{name}");
    }
    for name in ["Content-Type", "Last-Modified", "Accept-Ranges", "Content-Length"] {
        assert_eq!(field(&reply, name), "", "{name}");
    }
}

#[test]
fn errors_are_kept_by_nobody() {
    let site = Site::new();
    site.write(PNG, noise(300));
    for (name, value, status) in [("If-Match", "\"x\"", 412), ("Range", "bytes=300-", 416)] {
        let reply = site.get(PNG, &[(name, value)]);
        assert_eq!(reply.status, status);
        assert_eq!(field(&reply, "Cache-Control"), "", "an error is not kept for a year");
    }
}

#[test]
fn a_change_changes_the_validators() {
    let site = Site::new();
    site.write(PNG, noise(300));
    site.folder.age(PNG, 10);
    settle();
    let before = field(&site.get(PNG, &[]), "ETag");
    site.folder.replace(PNG, noise(300));
    site.pass(1000);
    let after = site.get(PNG, &[("If-None-Match", &before)]);
    assert_eq!(after.status, 200);
    assert_ne!(field(&after, "ETag"), before);
}

#[test]
fn expiry_by_kind_and_name() {
    let site = Site::new();
    let short = "public, max-age=600";
    let table = [
        ("/a.css", "no-cache"),
        ("/a.css?ver=6.4.3", "public, max-age=31536000"),
        ("/a.css?ver=0123456789abcdef0123", "public, max-age=31536000, immutable"),
        ("/app.3f2a9c1b.js", "public, max-age=31536000, immutable"),
        ("/a.woff2", short),
        ("/a.zip", short),
        ("/a.mp4", short),
        ("/a.html", "no-cache"),
        ("/a.html?ver=0123456789abcdef0123", "no-cache"),
        ("/a.pdf", "no-cache"),
        ("/a.json", "no-cache"),
        ("/a", "no-cache"),
    ];
    for (target, expected) in table {
        site.write(target.split('?').next().unwrap(), "x");
        let reply = site.get(target, &[]);
        assert_eq!(field(&reply, "Cache-Control"), expected, "{target}");
        let etag = field(&reply, "ETag");
        let again = site.get(target, &[("If-None-Match", &etag)]);
        assert_eq!((again.status, field(&again, "Cache-Control")), (304, expected.to_owned()), "{target}");
        assert_eq!(field(&reply, "Expires"), "");
    }
}

#[test]
fn the_site_has_the_last_word_on_caching() {
    let mut site = Site::new();
    site.lines = "X-A: b\r\ncache-control: no-store\r\n";
    site.write(PNG, "x");
    // It is added where the response is sent.
    assert_eq!(field(&site.get(PNG, &[]), "Cache-Control"), "");
    let site = Site::with(|limits| limits.expires = false);
    site.write(PNG, "x");
    assert_eq!(field(&site.get(PNG, &[]), "Cache-Control"), "");
}

#[test]
fn old_and_odd_times() {
    let site = Site::new();
    site.write(PNG, "x");
    let file = std::fs::File::options().append(true).open(site.folder.at(PNG)).unwrap();
    for (time, expected) in [
        (UNIX_EPOCH, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (UNIX_EPOCH + Duration::from_nanos(999_999_999), "Thu, 01 Jan 1970 00:00:00 GMT"),
        (UNIX_EPOCH - Duration::from_secs(100), "Thu, 01 Jan 1970 00:00:00 GMT"),
    ] {
        file.set_modified(time).unwrap();
        site.pass(1000);
        assert_eq!(modified(&site, PNG), expected);
        assert!(!field(&site.get(PNG, &[]), "ETag").contains("--"));
    }
    // A file from the future: no date of the future is sent, and it can't validate parts.
    file.set_modified(SystemTime::now() + Duration::from_secs(1_000_000)).unwrap();
    site.pass(1000);
    let date = modified(&site, PNG);
    let said = httpdate::parse_http_date(&date).unwrap();
    assert!(said <= SystemTime::now() && said + PATIENCE > SystemTime::now(), "{date}");
    assert_eq!(site.get(PNG, &[("If-Modified-Since", &date)]).status, 304);
    assert_eq!(site.get(PNG, &[("Range", "bytes=0-0"), ("If-Range", &date)]).status, 200);
}

//! Compressed forms: siblings on disk and forms made by the server.

use super::super::compress;
use super::*;

fn unpack(reply: &Reply, length: usize) -> Vec<u8> {
    let bytes = bytes_of(&reply.body);
    let mut out = vec![0; length];
    match &*field(reply, "Content-Encoding") {
        "br" => {
            out.clear();
            brotli::BrotliDecompress(&mut &*bytes, &mut out).unwrap();
        }
        "zstd" => out = zstd::bulk::decompress(&bytes, length).unwrap(),
        "gzip" => {
            let unpacked = libdeflater::Decompressor::new().gzip_decompress(&bytes, &mut out);
            assert_eq!(unpacked, Ok(length));
        }
        "" => out = bytes,
        other => panic!("{other}"),
    }
    out
}

/// Text that shrinks to a half, with effort.
fn hard_text(length: usize) -> Vec<u8> {
    noise(length).iter().map(|b| b'a' + b % 16).collect()
}

fn accepting(value: &str) -> [(&str, &str); 1] {
    [("Accept-Encoding", value)]
}

#[test]
fn the_client_chooses() {
    let site = Site::new();
    site.write("/a.js", text(5000));
    for (accept, coding) in [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, zstd", "zstd"),
        ("gzip", "gzip"),
        ("br;q=0.5, gzip", "gzip"),
        ("deflate", ""),
        ("", ""),
        ("identity, gzip;q=0.5", ""),
        ("*", "br"),
        ("identity;q=0", ""),
    ] {
        let reply = site.get("/a.js", &accepting(accept));
        assert_eq!((reply.status, field(&reply, "Content-Encoding")), (200, coding.to_owned()), "{accept}");
        assert_eq!(unpack(&reply, 5000), text(5000), "{accept}");
        assert_eq!(field(&reply, "Vary"), "Accept-Encoding", "{accept}");
        assert_eq!(field(&reply, "Content-Type"), "text/javascript; charset=utf-8", "{accept}");
    }
    assert_eq!(field(&site.get("/a.js", &[]), "Content-Encoding"), "");
}

#[test]
fn each_form_has_its_own_entity_tag() {
    let site = Site::new();
    site.write("/a.js", text(5000));
    let etags: Vec<String> =
        ["br", "zstd", "gzip", ""].map(|a| field(&site.get("/a.js", &accepting(a)), "ETag")).into();
    for (index, etag) in etags.iter().enumerate() {
        assert!(!etags[..index].contains(etag), "{etags:?}");
        let reply = site.get("/a.js", &[("Accept-Encoding", "br"), ("If-None-Match", etag)]);
        assert_eq!(reply.status, if index == 0 { 304 } else { 200 });
    }
}

#[test]
fn made_once_for_all_who_wait() {
    let site = Site::new();
    let content = hard_text(200_000);
    site.write("/a.css", &content);
    let [first, second, third] = [(); 3].map(|()| site.ask("GET", "/a.css", &accepting("br")));
    assert!(matches!(first, FileResponse::Later(_)), "it takes tens of milliseconds");
    // A client that goes takes nothing from the others.
    drop(first);
    let waiting = [second, third].map(|answer| match answer {
        FileResponse::Later(reply) => reply,
        FileResponse::Ready(reply) => Box::pin(async { reply }),
    });
    let replies = wait_for(async {
        let mut replies = Vec::new();
        for reply in waiting {
            replies.push(reply.await);
        }
        replies
    });
    let fourth = match site.ask("GET", "/a.css", &accepting("br")) {
        FileResponse::Ready(reply) => reply,
        FileResponse::Later(_) => panic!("it is there"),
    };
    assert_eq!(unpack(&fourth, content.len()), content);
    let place = |reply: &Reply| match &reply.body {
        Body::Shared { bytes, .. } => bytes.as_ptr(),
        other => panic!("{other:?}"),
    };
    assert!(replies.iter().all(|reply| place(reply) == place(&fourth)));
}

#[test]
fn what_is_made_counts_as_memory_of_the_cache() {
    let site = Site::new();
    site.write("/a.css", hard_text(20_000));
    let before = {
        site.find("/a.css");
        site.cache.cost().bytes
    };
    let packed = site.get("/a.css", &accepting("br")).body.length().unwrap() as usize;
    assert!(packed > 5_000 && packed < 20_000);
    site.find("/a.css");
    assert_eq!(site.cache.cost().bytes, before + packed);
}

#[test]
fn what_a_client_has_needs_no_making() {
    let site = Site::new();
    site.write("/a.css", text(5000));
    let whole = site.get("/a.css", &accepting("gzip"));
    let etag = field(&whole, "ETag");
    // As after a restart.
    site.cache.reset(&limits(), 1);
    let fields = [("Accept-Encoding", "gzip"), ("If-None-Match", &*etag)];
    match site.ask("GET", "/a.css", &fields) {
        FileResponse::Ready(reply) => {
            assert_eq!(reply.status, 304);
            assert_eq!(field(&reply, "ETag"), etag);
            assert_eq!(field(&reply, "Vary"), "Accept-Encoding");
            assert_eq!(field(&reply, "Cache-Control"), field(&whole, "Cache-Control"));
        }
        FileResponse::Later(_) => panic!("there is nothing to wait for"),
    }
}

#[test]
fn conditions_are_asked_again_when_it_is_made() {
    let site = Site::new();
    site.write("/a.txt", noise(3000));
    let etag = field(&site.get("/a.txt", &[]), "ETag");
    site.cache.reset(&limits(), 1);
    // It does not shrink, so the client's plain form is the right one.
    let fields = [("Accept-Encoding", "gzip"), ("If-None-Match", &*etag)];
    assert_eq!(site.get("/a.txt", &fields).status, 304);
}

#[test]
fn what_gets_no_smaller_stays() {
    let site = Site::new();
    site.write("/noise.txt", noise(5000));
    for _ in 0..2 {
        let reply = site.get("/noise.txt", &accepting("br, gzip, zstd"));
        assert_eq!(field(&reply, "Content-Encoding"), "");
        assert_eq!(field(&reply, "Vary"), "Accept-Encoding");
        assert_eq!(reply.body.length(), Some(5000));
    }
    assert!(
        matches!(site.ask("GET", "/noise.txt", &accepting("br")), FileResponse::Ready(_)),
        "not tried again"
    );
}

#[test]
fn only_text_of_the_right_size() {
    let site = Site::with(|limits| limits.compress_to = 10_000);
    for (path, length, coded) in [
        ("/a.css", 1099, false),
        ("/b.css", 1100, true),
        ("/c.css", 10_000, true),
        ("/d.css", 10_001, false),
        ("/e.png", 5000, false),
    ] {
        site.write(path, text(length));
        let reply = site.get(path, &accepting("gzip"));
        assert_eq!(field(&reply, "Content-Encoding") == "gzip", coded, "{path}");
        assert_eq!(field(&reply, "Vary").is_empty(), path.ends_with("png"), "{path}");
    }
    let site = Site::with(|limits| limits.compress = false);
    site.write("/a.css", text(5000));
    assert_eq!(field(&site.get("/a.css", &accepting("gzip")), "Content-Encoding"), "");
}

#[test]
fn a_large_file_is_sent_as_it_is_until_its_form_is_made() {
    let site = Site::new();
    let length = 2 << 20;
    site.write("/large.json", text(length));
    let first = match site.ask("GET", "/large.json", &accepting("gzip")) {
        FileResponse::Ready(reply) => reply,
        FileResponse::Later(_) => panic!("nobody waits for so large a file"),
    };
    assert_eq!(
        (field(&first, "Content-Encoding"), first.body.length()),
        (String::new(), Some(length as u64))
    );
    let began = std::time::Instant::now();
    loop {
        let reply = site.get("/large.json", &accepting("gzip"));
        if field(&reply, "Content-Encoding") == "gzip" {
            assert_eq!(unpack(&reply, length), text(length));
            break;
        }
        assert!(began.elapsed() < PATIENCE);
        settle();
    }
    // A client that refuses the plain form waits.
    let reply = site.get("/large.json", &accepting("br, identity;q=0"));
    assert_eq!(field(&reply, "Content-Encoding"), "br");
}

#[test]
fn a_file_that_changed_before_its_turn_is_not_compressed() {
    let site = Site::new();
    site.write("/a.css", text(5000));
    settle();
    site.find("/a.css");
    site.folder.replace("/a.css", text(7000));
    // The entry keeps the old state for another second, and its forms must not come from the new one.
    let reply = site.get("/a.css", &accepting("br"));
    assert_eq!(field(&reply, "Content-Encoding"), "");
    assert_eq!(bytes_of(&reply.body), text(5000));
    site.pass(1000);
    let reply = site.get("/a.css", &accepting("br"));
    assert_eq!(unpack(&reply, 7000), text(7000));
}

#[test]
fn siblings_go_before_what_we_make() {
    let site = Site::with(|limits| limits.compress = false);
    site.write("/a.svg", text(5000));
    for (suffix, content) in [(".br", "BR"), (".zst", "ZST"), (".gz", "GZ")] {
        site.write(&format!("/a.svg{suffix}"), content);
    }
    for (accept, content) in [("br, gzip, zstd", "BR"), ("gzip, zstd", "ZST"), ("gzip", "GZ")] {
        let reply = site.get("/a.svg", &accepting(accept));
        assert_eq!(bytes_of(&reply.body), content.as_bytes());
        assert_eq!(field(&reply, "Content-Type"), "image/svg+xml");
    }
    let plain = site.get("/a.svg.gz", &accepting("gzip"));
    assert_eq!(field(&plain, "Content-Encoding"), "", "asked for by its own name it is a file like any");
    assert_eq!(field(&plain, "Content-Type"), "application/gzip");
}

#[test]
fn siblings_that_do_not_count() {
    let site = Site::with(|limits| limits.compress = false);
    let secret = Folder::new();
    secret.write("/x.gz", "secret");
    for path in ["/older.css", "/larger.css", "/empty.css", "/folder.css", "/out.css", "/picture.png"] {
        site.write(path, text(5000));
        site.folder.age(path, 100);
    }
    site.write("/older.css.gz", "GZ");
    site.folder.age("/older.css.gz", 101);
    site.write("/larger.css.gz", text(5000));
    site.write("/empty.css.gz", "");
    std::fs::create_dir(site.folder.at("/folder.css.gz")).unwrap();
    site.folder.link("out.css.gz", secret.at("x.gz"));
    site.write("/picture.png.gz", "GZ");
    for path in ["/older.css", "/larger.css", "/empty.css", "/folder.css", "/out.css", "/picture.png"] {
        let reply = site.get(path, &accepting("gzip"));
        assert_eq!(field(&reply, "Content-Encoding"), "", "{path}");
        assert_eq!(reply.body.length(), Some(5000), "{path}");
    }
    // Made at the same time as the original, by `gzip --keep`.
    site.write("/older.css.gz", "GZ");
    let original = std::fs::metadata(site.folder.at("/older.css")).unwrap().modified().unwrap();
    let file = std::fs::File::options().append(true).open(site.folder.at("/older.css.gz")).unwrap();
    file.set_modified(original).unwrap();
    site.pass(1000);
    assert_eq!(field(&site.get("/older.css", &accepting("gzip")), "Content-Encoding"), "gzip");
}

#[test]
fn siblings_come_change_and_go() {
    let site = Site::with(|limits| limits.compress = false);
    site.write("/a.css", text(5000));
    settle();
    let get = || {
        let reply = site.get("/a.css", &accepting("gzip"));
        (bytes_of(&reply.body), field(&reply, "ETag"))
    };
    let (plain, plain_etag) = get();
    assert_eq!(plain, text(5000));
    site.write("/a.css.gz", "one");
    assert_eq!(get().0, text(5000), "looked for a moment ago");
    site.pass(1000);
    let (one, one_etag) = get();
    assert_eq!(one, b"one");
    settle();
    site.folder.replace("/a.css.gz", "two");
    site.pass(1000);
    let (two, two_etag) = get();
    assert_eq!(two, b"two");
    assert!(plain_etag != one_etag && one_etag != two_etag);
    site.folder.remove("/a.css.gz");
    site.pass(1000);
    assert_eq!(get(), (text(5000), plain_etag));
}

#[test]
fn a_sibling_of_a_state_that_is_gone_is_not_used() {
    let site = Site::with(|limits| limits.compress = false);
    site.write("/a.css", text(5000));
    site.folder.age("/a.css", 100);
    site.write("/a.css.gz", "GZ");
    site.folder.age("/a.css.gz", 90);
    assert_eq!(bytes_of(&site.get("/a.css", &accepting("gzip")).body), b"GZ");
    settle();
    site.folder.replace("/a.css", text(6000));
    site.pass(1000);
    assert_eq!(bytes_of(&site.get("/a.css", &accepting("gzip")).body), text(6000));
}

#[test]
fn a_large_sibling_is_sent_from_disk() {
    let site = Site::with(|limits| limits.small_file = 1000);
    site.write("/a.css", text(9000));
    let packed = noise(4000);
    site.write("/a.css.br", &packed);
    let reply = site.get("/a.css", &accepting("br"));
    assert!(matches!(reply.body, Body::File { length: 4000, .. }));
    assert_eq!(bytes_of(&reply.body), packed);
    site.find("/a.css");
    assert_eq!(site.cache.cost().descriptors, 2, "the sibling's is counted with the file's");
}

#[test]
fn more_jobs_than_the_queue_holds_cost_nobody_an_answer() {
    in_own_process("codings::more_jobs_than_the_queue_holds_child", 1024);
}

/// The process has only one queue: other tests would find it full.
#[test]
#[ignore = "is run by `more_jobs_than_the_queue_holds_cost_nobody_an_answer`"]
fn more_jobs_than_the_queue_holds_child() {
    let site = Site::new();
    for n in 0..300 {
        site.write(&format!("/{n}.css"), text(20_000));
    }
    let answers: Vec<FileResponse> =
        (0..300).map(|n| site.ask("GET", &format!("/{n}.css"), &accepting("br"))).collect();
    let mut plain = 0;
    for answer in answers {
        plain += usize::from(matches!(answer, FileResponse::Ready(_)));
        let reply = finish(answer);
        assert_eq!(unpack(&reply, 20_000), text(20_000));
    }
    assert!((1..300).contains(&plain), "{plain} of 300 were not made to wait");
}

#[test]
fn a_small_file_is_quick_to_compress() {
    assert!(compress::is_soon(64 << 10) && !compress::is_soon(8 << 20));
}

//! Content codings made once and kept: what is worth coding, and the coding itself.

use millrace_wire::encoding::Coding;

/// Whether content of this type shrinks. Parameters behind `;` don't matter.
pub fn shrinks(media_type: &[u8]) -> bool {
    let end = memchr::memchr(b';', media_type).unwrap_or(media_type.len());
    let Ok(name) = std::str::from_utf8(media_type[..end].trim_ascii()) else { return false };
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    let starts = |start: &str| name.get(..start.len()).is_some_and(|s| s.eq_ignore_ascii_case(start));
    let ends = |end: &str| {
        name.len()
            .checked_sub(end.len())
            .and_then(|at| name.get(at..))
            .is_some_and(|s| s.eq_ignore_ascii_case(end))
    };
    // An event stream is never whole.
    (starts("text/") && !is("text/event-stream"))
        || ends("+xml")
        || ends("+json")
        || [
            "application/json",
            "application/xml",
            "application/javascript",
            "application/x-javascript",
            "application/wasm",
            "application/vnd.ms-fontobject",
            "font/ttf",
            "font/otf",
            "image/bmp",
            "image/x-icon",
        ]
        .into_iter()
        .any(is)
}

/// `bytes` in a coding, once and for many readers: better than a server compresses on the fly, and still tens of
/// megabytes a second.
pub fn compress(bytes: &[u8], coding: Coding) -> Option<Vec<u8>> {
    match coding {
        Coding::Identity => None,
        Coding::Brotli => brotli(bytes),
        // The content's size goes into the frame; at this size no level needs a window that browsers refuse.
        Coding::Zstd => zstd::bulk::compress(bytes, 9).ok(),
        Coding::Gzip => gzip(bytes),
    }
}

fn brotli(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let parameters = brotli::enc::BrotliEncoderParams {
        quality: 5,
        lgwin: 22,
        size_hint: bytes.len(),
        ..Default::default()
    };
    let mut packed = Vec::with_capacity(bytes.len() / 3);
    brotli::BrotliCompress(&mut bytes, &mut packed, &parameters).ok()?;
    Some(packed)
}

fn gzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::new(9).ok()?);
    let mut packed = vec![0; compressor.gzip_compress_bound(bytes.len())];
    let length = compressor.gzip_compress(bytes, &mut packed).ok()?;
    packed.truncate(length);
    Some(packed)
}

/// Lets a thread that compresses run on any core. It starts on the one that its starter is bound to: an event loop's.
pub fn leave_the_core() {
    let mut cores = rustix::thread::CpuSet::new();
    (0..rustix::thread::CpuSet::MAX_CPU).for_each(|core| cores.set(core));
    // Where that is forbidden, it stays.
    let _ = rustix::thread::sched_setaffinity(None, &cores);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coding_can_be_read_again() {
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(300);
        let bytes = text.as_bytes();
        let packed = |coding| compress(bytes, coding).filter(|p| p.len() < bytes.len() / 10).unwrap();

        let mut out = Vec::new();
        brotli::BrotliDecompress(&mut &*packed(Coding::Brotli), &mut out).unwrap();
        assert_eq!(out, bytes);
        assert_eq!(zstd::bulk::decompress(&packed(Coding::Zstd), bytes.len()).unwrap(), bytes);
        let mut out = vec![0; bytes.len()];
        let mut reader = libdeflater::Decompressor::new();
        assert_eq!(reader.gzip_decompress(&packed(Coding::Gzip), &mut out), Ok(bytes.len()));
        assert_eq!(out, bytes);
        assert_eq!(compress(bytes, Coding::Identity), None);
    }

    #[test]
    fn what_shrinks() {
        for yes in [
            "text/html",
            "TEXT/CSS; charset=utf-8",
            "application/rss+xml",
            "image/svg+xml",
            "application/json",
        ] {
            assert!(shrinks(yes.as_bytes()), "{yes}");
        }
        for no in
            ["", "image/png", "application/zip", "text/event-stream", "video/mp4", "applicationjson", "json"]
        {
            assert!(!shrinks(no.as_bytes()), "{no}");
        }
    }
}

//! Content codings: which content is worth coding, and the coding itself: thorough for cached content, fast for one
//! client.

use std::cell::RefCell;

use libdeflater::{CompressionLvl, Compressor};
use millrace_wire::encoding::Coding;

use super::encoder::Encoder;

/// Whether content of this type shrinks. Parameters after `;` don't matter.
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
    // An event stream never ends.
    (starts("text/") && !is("text/event-stream"))
        || ends("+xml")
        || ends("+json")
        || [
            "application/json",
            "application/x-ndjson",
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

/// Whether a value of Cache-Control forbids changing the content on its way (RFC 9111 section 5.2.2.6).
pub fn forbids_change(cache_control: &[u8]) -> bool {
    let mut directives = cache_control.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    directives.any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
}

/// `bytes` in a coding, made once for many readers: better than usual on-the-fly compression, and still tens of
/// megabytes per second.
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
    gzip_by(&mut Compressor::new(CompressionLvl::new(9).ok()?), bytes)
}

fn gzip_by(compressor: &mut Compressor, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut packed = vec![0; compressor.gzip_compress_bound(bytes.len())];
    let length = compressor.gzip_compress(bytes, &mut packed).ok()?;
    packed.truncate(length);
    Some(packed)
}

thread_local! {
    /// For content that is sent once; `None`: not needed so far.
    static FAST_GZIP: RefCell<Option<Compressor>> = const { RefCell::new(None) };
    static FAST_ZSTD: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACK_ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// `bytes` in a coding, for one reader: some hundred megabytes per second.
pub fn compress_fast(bytes: &[u8], coding: Coding) -> Option<Vec<u8>> {
    let mut packed = match coding {
        Coding::Identity => None,
        Coding::Gzip => FAST_GZIP.with_borrow_mut(|kept| {
            if kept.is_none() {
                *kept = Some(Compressor::new(CompressionLvl::new(1).ok()?));
            }
            gzip_by(kept.as_mut()?, bytes)
        }),
        Coding::Zstd => FAST_ZSTD.with_borrow_mut(|kept| {
            if kept.is_none() {
                *kept = Some(zstd::bulk::Compressor::new(1).ok()?);
            }
            kept.as_mut()?.compress(bytes).ok()
        }),
        Coding::Brotli => {
            let (mut encoder, mut packed) = (Encoder::new(coding)?, Vec::new());
            encoder.write(bytes, &mut packed).ok()?;
            encoder.finish(&mut packed).ok()?;
            Some(packed)
        }
    }?;
    // A slow client holds it for a while.
    packed.shrink_to_fit();
    Some(packed)
}

/// Unpacks what [`compress`] made in the Zstandard format: about a gigabyte per second.
pub fn unpack_zstd(packed: &[u8]) -> Option<Vec<u8>> {
    let length = zstd::zstd_safe::get_frame_content_size(packed).ok()??;
    UNPACK_ZSTD.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = Some(zstd::bulk::Decompressor::new().ok()?);
        }
        kept.as_mut()?.decompress(packed, usize::try_from(length).ok()?).ok()
    })
}

/// Lets a compressing thread run on any core. It starts on the core of the event loop that started it.
pub fn leave_the_core() {
    let mut cores = rustix::thread::CpuSet::new();
    (0..rustix::thread::CpuSet::MAX_CPU).for_each(|core| cores.set(core));
    // If that is forbidden, it stays there.
    let _ = rustix::thread::sched_setaffinity(None, &cores);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_coding_can_be_read_again() {
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(300);
        let bytes = text.as_bytes();
        for way in [compress, compress_fast] {
            let packed = |coding| way(bytes, coding).filter(|p| p.len() < bytes.len() / 10).unwrap();

            let mut out = Vec::new();
            brotli::BrotliDecompress(&mut &*packed(Coding::Brotli), &mut out).unwrap();
            assert_eq!(out, bytes);
            assert_eq!(unpack_zstd(&packed(Coding::Zstd)).unwrap(), bytes);
            let mut out = vec![0; bytes.len()];
            let mut reader = libdeflater::Decompressor::new();
            assert_eq!(reader.gzip_decompress(&packed(Coding::Gzip), &mut out), Ok(bytes.len()));
            assert_eq!(out, bytes);
            assert_eq!(way(bytes, Coding::Identity), None);
        }
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

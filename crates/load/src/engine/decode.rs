//! Contents out of their content coding (RFC 9110 section 8.4).

use std::borrow::Cow;
use std::io::Read;

/// Maximum length of content, bytes; no real page is so long, and a server is not trusted.
const MOST: u64 = 256 << 20;

/// Takes `content` out of the coding that `Content-Encoding` names. `None`: it is not that, or the coding is unknown.
pub fn decode<'a>(coding: Option<&str>, content: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let coding = coding.unwrap_or("identity").trim();
    let mut decoded = Vec::new();
    let ok = if coding.eq_ignore_ascii_case("identity") || coding.is_empty() {
        return Some(Cow::Borrowed(content));
    } else if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
        flate2::read::MultiGzDecoder::new(content).take(MOST).read_to_end(&mut decoded)
    } else if coding.eq_ignore_ascii_case("deflate") {
        flate2::read::ZlibDecoder::new(content).take(MOST).read_to_end(&mut decoded)
    } else if coding.eq_ignore_ascii_case("br") {
        brotli::Decompressor::new(content, 16 << 10).take(MOST).read_to_end(&mut decoded)
    } else if coding.eq_ignore_ascii_case("zstd") {
        zstd::stream::read::Decoder::new(content)
            .and_then(|decoder| decoder.take(MOST).read_to_end(&mut decoded))
    } else {
        return None;
    };
    ok.ok().map(|_| Cow::Owned(decoded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_was_coded_comes_out_again() {
        let text = b"the same text again and again, the same text again and again".as_slice();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        let gzip = gzip.finish().unwrap();
        assert_eq!(decode(Some("gzip"), &gzip).unwrap(), text);
        assert_eq!(decode(Some("gzip"), &gzip[..gzip.len() - 4]), None);
        let mut br = Vec::new();
        brotli::CompressorWriter::new(&mut br, 4096, 5, 20).write_all(text).unwrap();
        assert_eq!(decode(Some("BR"), &br).unwrap(), text);
        assert_eq!(decode(Some("zstd"), &zstd::encode_all(text, 1).unwrap()).unwrap(), text);
        assert_eq!(decode(None, text).unwrap(), text);
        assert_eq!(decode(Some("rot13"), text), None);
    }
}

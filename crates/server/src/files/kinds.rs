//! What a file name's extension says about the file: media type, whether it compresses well, how long it may be
//! cached.

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaKind {
    /// The value of `Content-Type`.
    pub media_type: &'static str,
    /// Whether it shrinks when it is compressed.
    pub shrinks: bool,
    /// Whether clients may cache it for a year; otherwise they revalidate it each time.
    pub keeps: bool,
}

/// The kind of files with unknown extensions.
static UNKNOWN: MediaKind = packed("application/octet-stream");

/// The kind of the file at `path`, by the extension of its name.
pub fn kind_of(path: &[u8]) -> &'static MediaKind {
    let name = &path[memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1)..];
    let Some(dot) = memchr::memrchr(b'.', name) else { return &UNKNOWN };
    let mut lower = [0; LONGEST];
    let extension = &name[dot + 1..];
    let Some(lower) = lower.get_mut(..extension.len()) else { return &UNKNOWN };
    lower.copy_from_slice(extension);
    lower.make_ascii_lowercase();
    match TABLE.binary_search_by(|(extension, _)| extension.as_bytes().cmp(lower)) {
        Ok(row) => &TABLE[row].1,
        Err(_) => &UNKNOWN,
    }
}

/// Bytes of the longest extension in the table.
const LONGEST: usize = 11;

/// A document that shrinks.
const fn text(media_type: &'static str) -> MediaKind {
    MediaKind { media_type, shrinks: true, keeps: false }
}

/// A document that doesn't.
const fn packed(media_type: &'static str) -> MediaKind {
    MediaKind { media_type, shrinks: false, keeps: false }
}

/// A part of a page that shrinks.
const fn asset(media_type: &'static str) -> MediaKind {
    MediaKind { media_type, shrinks: true, keeps: true }
}

/// A part of a page, or an archive, that doesn't.
const fn packed_asset(media_type: &'static str) -> MediaKind {
    MediaKind { media_type, shrinks: false, keeps: true }
}

/// Extensions in lower case, sorted. Text has a charset because old clients misread a file without one; XML and JSON
/// declare their encoding themselves.
static TABLE: &[(&str, MediaKind)] = &[
    ("3g2", packed_asset("video/3gpp2")),
    ("3gp", packed_asset("video/3gpp")),
    ("3gpp", packed_asset("video/3gpp")),
    ("7z", packed_asset("application/x-7z-compressed")),
    ("aac", packed_asset("audio/aac")),
    ("ai", text("application/postscript")),
    ("aif", packed_asset("audio/aiff")),
    ("aiff", packed_asset("audio/aiff")),
    ("apk", packed_asset("application/vnd.android.package-archive")),
    ("apng", packed_asset("image/apng")),
    ("appcache", text("text/cache-manifest; charset=utf-8")),
    ("asc", text("application/pgp-keys")),
    ("asf", packed_asset("video/x-ms-asf")),
    ("asx", packed_asset("video/x-ms-asf")),
    ("atom", text("application/atom+xml")),
    ("avi", packed_asset("video/x-msvideo")),
    ("avif", packed_asset("image/avif")),
    ("avifs", packed_asset("image/avif-sequence")),
    ("bin", packed("application/octet-stream")),
    ("bmp", asset("image/bmp")),
    ("br", packed_asset("application/octet-stream")),
    ("bz2", packed_asset("application/x-bzip2")),
    ("cab", packed_asset("application/vnd.ms-cab-compressed")),
    ("cjs", asset("text/javascript; charset=utf-8")),
    ("crl", packed("application/pkix-crl")),
    ("crt", text("application/x-x509-ca-cert")),
    ("crx", packed_asset("application/x-chrome-extension")),
    ("css", asset("text/css; charset=utf-8")),
    ("csv", text("text/csv; charset=utf-8")),
    ("cur", asset("image/x-icon")),
    ("deb", packed_asset("application/vnd.debian.binary-package")),
    ("dmg", packed_asset("application/x-apple-diskimage")),
    ("doc", packed("application/msword")),
    ("docx", packed("application/vnd.openxmlformats-officedocument.wordprocessingml.document")),
    ("dot", packed("application/msword")),
    ("dtd", text("application/xml-dtd")),
    ("ear", packed_asset("application/java-archive")),
    ("eot", asset("application/vnd.ms-fontobject")),
    ("eps", text("application/postscript")),
    ("epub", packed("application/epub+zip")),
    ("exe", packed_asset("application/vnd.microsoft.portable-executable")),
    ("flac", packed_asset("audio/flac")),
    ("flv", packed_asset("video/x-flv")),
    ("geojson", text("application/geo+json")),
    ("gif", packed_asset("image/gif")),
    ("glb", packed_asset("model/gltf-binary")),
    ("gltf", asset("model/gltf+json")),
    ("gpx", text("application/gpx+xml")),
    ("gz", packed_asset("application/gzip")),
    ("heic", packed_asset("image/heic")),
    ("heif", packed_asset("image/heif")),
    ("htc", text("text/x-component")),
    ("htm", text("text/html; charset=utf-8")),
    ("html", text("text/html; charset=utf-8")),
    ("ico", asset("image/x-icon")),
    ("ics", text("text/calendar; charset=utf-8")),
    ("img", packed_asset("application/x-iso9660-image")),
    ("iso", packed_asset("application/x-iso9660-image")),
    ("jar", packed_asset("application/java-archive")),
    ("jfif", packed_asset("image/jpeg")),
    ("jng", packed_asset("image/x-jng")),
    ("jp2", packed_asset("image/jp2")),
    ("jpe", packed_asset("image/jpeg")),
    ("jpeg", packed_asset("image/jpeg")),
    ("jpg", packed_asset("image/jpeg")),
    ("js", asset("text/javascript; charset=utf-8")),
    ("json", text("application/json")),
    ("json5", text("application/json5")),
    ("jsonl", text("application/x-ndjson")),
    ("jsonld", text("application/ld+json")),
    ("jsx", asset("text/jsx; charset=utf-8")),
    ("jxl", packed_asset("image/jxl")),
    ("kar", packed_asset("audio/midi")),
    ("kml", text("application/vnd.google-earth.kml+xml")),
    ("kmz", packed("application/vnd.google-earth.kmz")),
    ("less", asset("text/x-less; charset=utf-8")),
    ("lz4", packed_asset("application/x-lz4")),
    ("m3u", text("audio/x-mpegurl")),
    ("m3u8", text("application/vnd.apple.mpegurl")),
    ("m4a", packed_asset("audio/mp4")),
    ("m4s", packed_asset("video/iso.segment")),
    ("m4v", packed_asset("video/mp4")),
    ("manifest", text("text/cache-manifest; charset=utf-8")),
    ("map", text("application/json")),
    ("markdown", text("text/markdown; charset=utf-8")),
    ("md", text("text/markdown; charset=utf-8")),
    ("mid", packed_asset("audio/midi")),
    ("midi", packed_asset("audio/midi")),
    ("mjs", asset("text/javascript; charset=utf-8")),
    ("mka", packed_asset("audio/x-matroska")),
    ("mkv", packed_asset("video/x-matroska")),
    ("mo", packed("application/x-gettext-translation")),
    ("mobi", packed("application/x-mobipocket-ebook")),
    ("mov", packed_asset("video/quicktime")),
    ("mp3", packed_asset("audio/mpeg")),
    ("mp4", packed_asset("video/mp4")),
    ("mpd", text("application/dash+xml")),
    ("mpeg", packed_asset("video/mpeg")),
    ("mpg", packed_asset("video/mpeg")),
    ("msi", packed_asset("application/x-msi")),
    ("ndjson", text("application/x-ndjson")),
    ("obj", asset("model/obj")),
    ("odg", packed("application/vnd.oasis.opendocument.graphics")),
    ("odp", packed("application/vnd.oasis.opendocument.presentation")),
    ("ods", packed("application/vnd.oasis.opendocument.spreadsheet")),
    ("odt", packed("application/vnd.oasis.opendocument.text")),
    ("oga", packed_asset("audio/ogg")),
    ("ogg", packed_asset("audio/ogg")),
    ("ogv", packed_asset("video/ogg")),
    ("opml", text("text/x-opml")),
    ("opus", packed_asset("audio/ogg")),
    ("otf", asset("font/otf")),
    ("pdf", packed("application/pdf")),
    ("pem", text("application/x-x509-ca-cert")),
    ("png", packed_asset("image/png")),
    ("po", text("text/x-gettext-translation; charset=utf-8")),
    ("pot", text("text/x-gettext-translation; charset=utf-8")),
    ("pps", packed("application/vnd.ms-powerpoint")),
    ("ppsx", packed("application/vnd.openxmlformats-officedocument.presentationml.slideshow")),
    ("ppt", packed("application/vnd.ms-powerpoint")),
    ("pptx", packed("application/vnd.openxmlformats-officedocument.presentationml.presentation")),
    ("ps", text("application/postscript")),
    ("psd", packed_asset("image/vnd.adobe.photoshop")),
    ("qt", packed_asset("video/quicktime")),
    ("ra", packed_asset("audio/x-realaudio")),
    ("rar", packed_asset("application/vnd.rar")),
    ("rdf", text("application/rdf+xml")),
    ("rng", text("application/xml")),
    ("rpm", packed_asset("application/x-rpm")),
    ("rss", text("application/rss+xml")),
    ("rtf", text("application/rtf")),
    ("scss", asset("text/x-scss; charset=utf-8")),
    ("shtml", text("text/html; charset=utf-8")),
    ("sig", packed("application/pgp-signature")),
    ("srt", text("application/x-subrip")),
    ("stl", packed_asset("model/stl")),
    ("svg", asset("image/svg+xml")),
    ("svgz", packed_asset("image/svg+xml")),
    ("swf", packed_asset("application/x-shockwave-flash")),
    ("tar", packed_asset("application/x-tar")),
    ("tbz", packed_asset("application/x-bzip2")),
    ("tex", text("application/x-tex")),
    ("text", text("text/plain; charset=utf-8")),
    ("tgz", packed_asset("application/gzip")),
    ("tif", packed_asset("image/tiff")),
    ("tiff", packed_asset("image/tiff")),
    ("toml", text("application/toml")),
    ("topojson", text("application/json")),
    ("torrent", packed("application/x-bittorrent")),
    ("ts", packed_asset("video/mp2t")),
    ("tsv", text("text/tab-separated-values; charset=utf-8")),
    ("ttc", asset("font/collection")),
    ("ttf", asset("font/ttf")),
    ("txt", text("text/plain; charset=utf-8")),
    ("txz", packed_asset("application/x-xz")),
    ("usdz", packed_asset("model/vnd.usdz+zip")),
    ("vcard", text("text/vcard; charset=utf-8")),
    ("vcf", text("text/vcard; charset=utf-8")),
    ("vtt", text("text/vtt; charset=utf-8")),
    ("war", packed_asset("application/java-archive")),
    ("wasm", asset("application/wasm")),
    ("wav", packed_asset("audio/wav")),
    ("wbmp", packed_asset("image/vnd.wap.wbmp")),
    ("weba", packed_asset("audio/webm")),
    ("webm", packed_asset("video/webm")),
    ("webmanifest", text("application/manifest+json")),
    ("webp", packed_asset("image/webp")),
    ("wma", packed_asset("audio/x-ms-wma")),
    ("wmv", packed_asset("video/x-ms-wmv")),
    ("woff", packed_asset("font/woff")),
    ("woff2", packed_asset("font/woff2")),
    ("xht", text("application/xhtml+xml")),
    ("xhtml", text("application/xhtml+xml")),
    ("xls", packed("application/vnd.ms-excel")),
    ("xlsx", packed("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")),
    ("xml", text("application/xml")),
    ("xpi", packed_asset("application/x-xpinstall")),
    ("xsd", text("application/xml")),
    ("xsl", text("application/xml")),
    ("xslt", text("application/xslt+xml")),
    ("xz", packed_asset("application/x-xz")),
    ("yaml", text("application/yaml")),
    ("yml", text("application/yaml")),
    ("zip", packed_asset("application/zip")),
    ("zst", packed_asset("application/zstd")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_searched() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0), "sorted, without doubles");
        assert_eq!(TABLE.iter().map(|row| row.0.len()).max(), Some(LONGEST));
        for (extension, kind) in TABLE {
            assert_eq!(*extension, extension.to_ascii_lowercase());
            assert_eq!(kind_of(format!("/a.{extension}").as_bytes()), kind);
            assert!(kind.media_type.contains('/') && kind.media_type.is_ascii());
        }
    }

    #[test]
    fn names() {
        let table = [
            ("/index.html", "text/html; charset=utf-8"),
            ("/INDEX.HTM", "text/html; charset=utf-8"),
            ("/a/jquery.min.js", "text/javascript; charset=utf-8"),
            ("/a.tar.gz", "application/gzip"),
            ("/favicon.ico", "image/x-icon"),
            ("/a.woff2", "font/woff2"),
            ("/site.webmanifest", "application/manifest+json"),
            ("/LICENSE", "application/octet-stream"),
            ("/v1.2/file", "application/octet-stream"),
            ("/a.", "application/octet-stream"),
            ("/a.verylongextension", "application/octet-stream"),
            ("/", "application/octet-stream"),
            ("", "application/octet-stream"),
        ];
        for (path, media_type) in table {
            assert_eq!(kind_of(path.as_bytes()).media_type, media_type, "{path}");
        }
    }

    #[test]
    fn what_is_packed_already_is_not_packed_again() {
        for path in ["/a.png", "/a.woff2", "/a.zip", "/a.mp4", "/a.pdf", "/a.svgz", "/a"] {
            assert!(!kind_of(path.as_bytes()).shrinks, "{path}");
        }
        for path in ["/a.css", "/a.svg", "/a.json", "/a.wasm", "/a.html", "/a.ttf"] {
            assert!(kind_of(path.as_bytes()).shrinks, "{path}");
        }
    }
}

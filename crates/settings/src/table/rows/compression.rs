//! Compression.

use super::{BOTH, Default, GB, Kind, Page, ROW, Setting, size};

pub(super) static PAGE: Page = Page {
    name: "compression",
    title: "Compression",
    line: "Which files and responses to compress.",
    guide: "php.md",
    rows: ROWS,
};

static ROWS: &[Setting] = &[
    Setting {
        key: "files.compress",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether to compress text types for clients that support it.",
        reason: "Text shrinks to about a quarter. The server compresses a file once and stores the result; \
                 it uses `.br`, `.zst` and `.gz` files beside the original in any case.",
        example: "false",
        elsewhere: &["gzip", "brotli", "deflate", "gzip_static"],
        ..ROW
    },
    Setting {
        key: "files.compress_from",
        kind: size(0, GB),
        default: Default::Fixed("1100B"),
        line: "Minimum size to compress, of files and of PHP's responses (`php.compress`).",
        reason: "Smaller responses fit into one network packet either way, so compression gains nothing.",
        example: "\"2KB\"",
        elsewhere: &["gzip_min_length", "brotli_min_length"],
        ..ROW
    },
    Setting {
        key: "files.compress_to",
        kind: size(0, GB),
        default: Default::Fixed("8MB"),
        line: "Maximum size of a file to compress.",
        reason: "Compression takes time from other requests, once per file. Put a `.gz` or `.br` beside \
                 larger files.",
        example: "\"1MB\"",
        ..ROW
    },
    Setting {
        key: "php.compress",
        kind: Kind::Switch,
        default: Default::Fixed("true"),
        line: "Whether to compress PHP's responses that are not in the page cache, for clients that support \
               it.",
        reason: "Text shrinks to about a quarter in less time than sending the rest would take. Applies from \
                 `files.compress_from` on. Turn it off if pages show a secret beside input of a stranger \
                 (BREACH), or if scripts compress by themselves.",
        example: "false",
        elsewhere: &[
            "gzip_proxied",
            "gzip_types",
            "gzip_comp_level",
            "mod_deflate",
            "encode",
            "zlib.output_compression",
        ],
        ..BOTH
    },
];

//! The frames between the server, a PHP worker and the PHP host, defined only here.
//!
//! `php/c/frames.h` is generated from the constants of this file ([`c_header`]) and committed; a test compares the two.
//!
//! A worker owns one stream socket to the server. Each frame is an 8-byte header and a payload:
//!
//! ```text
//!   0        4      5       6        8
//!   | length | kind | flags | extra  | payload: length bytes ...
//!   |  u32   |  u8  |  u8   |  u16   |
//! ```
//!
//! Integers are in the machine's own byte order: both ends are on one machine.
//!
//! | sender | kinds | here |
//! | --- | --- | --- |
//! | server to worker | REQUEST | [`RequestFrame`] builds it, [`ParsedFrame`] reads it (for tests and stand-ins) |
//! | worker to server | HEAD, BODY, END, READY, LOG, NOTE, EARLY, HANDLER | [`FrameDecoder`] reads them, [`answer`] writes them (stand-ins) |
//! | server to host | SPAWN, RETIRE, TRACE, LOOK | [`control::spawn`], [`control::retire`], [`control::trace`], [`control::look`] |
//! | host to server | READY, FAILED, STARTED, EXITED, LOG, TRACED, LOOKED | [`control::Message`] |
//!
//! The control socket to the host is `SOCK_SEQPACKET`: one message is one frame. Beside the sockets, server, host and
//! workers share one memory page table, the scoreboard (`SCOREBOARD_*`, `SLOT_*`, `FIGURES_*`: offsets in bytes).

pub mod answer;
pub mod control;
mod request;

pub use answer::{EndFrame, Frame, FrameDecoder, FrameStep, NoteKind, WorkerHead};
pub use request::{Body, ParsedFrame, RequestFrame, add_flags, number};

/// Defines each constant once, for Rust and for the C header.
macro_rules! constants {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $value:expr;)+) => {
        $($(#[doc = $doc])+ pub const $name: $type = $value;)+

        /// Name, value and description of every constant, for the C header.
        const TABLE: &[(&str, u64, &str)] = &[$((stringify!($name), $name as u64, concat!($($doc,)+)),)+];
    };
}

constants! {
    /// Version of all that is defined here; the host says it in READY (`protocol=`), the scoreboard in its head.
    PROTOCOL: u32 = 9;
    /// Bytes of a frame header.
    HEADER_BYTES: usize = 8;

    /// Server to worker: run a script.
    KIND_REQUEST: u8 = 1;
    /// Worker to server: status and fields of the answer. extra: status code.
    KIND_HEAD: u8 = 16;
    /// Worker to server: content of the answer.
    KIND_BODY: u8 = 17;
    /// Worker to server: the answer is complete.
    KIND_END: u8 = 18;
    /// Worker to server: can take a request again, after an END without FLAG_READY.
    KIND_READY: u8 = 19;
    /// Worker or host to server: a message for the error log. extra: syslog priority.
    KIND_LOG: u8 = 20;
    /// Worker to server: what the script says to the page cache, in the grammar of the header of that name. extra: NOTE_*.
    KIND_NOTE: u8 = 21;
    /// Worker to server, before HEAD: fields for 103 Early Hints, at once. Payload as HEAD's, without a reason. extra: 103.
    KIND_EARLY: u8 = 22;
    /// Worker to server, before its first request: a persistent worker's script has come to its loop (FLAG_READY), or has
    /// ended before that (FLAG_FAILED). Payload: why it has ended.
    KIND_HANDLER: u8 = 23;

    /// Server to host: fork a worker; its socket is attached. Payload: u32 slot.
    CONTROL_SPAWN: u8 = 1;
    /// Server to host: end when all workers have ended. No payload.
    CONTROL_RETIRE: u8 = 2;
    /// Server to host: say where a worker is, by TRACED; with FLAG_LET_GO: get it out of what it waits for. Payload: u32
    /// slot.
    CONTROL_TRACE: u8 = 3;
    /// Server to host: report PHP's settings and opcache by LOOKED. No payload.
    CONTROL_LOOK: u8 = 4;
    /// Host to server: PHP is started. Payload: lines key=value.
    CONTROL_READY: u8 = 16;
    /// Host to server: PHP did not start, the host ends. Payload: the message.
    CONTROL_FAILED: u8 = 17;
    /// Host to server: a worker runs. Payload: u32 slot, u32 process id.
    CONTROL_STARTED: u8 = 18;
    /// Host to server: a worker ended. Payload: u32 slot, u32 process id, i32 wait status, u64 greatest resident size in KiB,
    /// then what it left about its crash, as TRACED's text.
    CONTROL_EXITED: u8 = 19;
    /// Host to server: a message for the error log. extra: syslog priority.
    CONTROL_LOG: u8 = 20;
    /// Host to server: where a worker is. Payload: u32 slot, u32 process id, u64 sequence of the request, then lines of text:
    /// first what it waits for, which may be empty, then a line for each PHP frame, the innermost first.
    CONTROL_TRACED: u8 = 21;
    /// Host to server: PHP's settings and opcache as they are now. Payload: lines, each a JSON object; what could not be found out is
    /// left out.
    CONTROL_LOOKED: u8 = 22;

    /// REQUEST: the body follows the variables.
    FLAG_BODY_INLINE: u8 = 1;
    /// REQUEST: the body is in a file, attached to the first byte of the frame, from offset 0.
    FLAG_BODY_DESCRIPTOR: u8 = 2;
    /// REQUEST: sent ahead to a worker that is still busy. It is run only if the worker can take it: SLOT_OFFERED.
    FLAG_OFFERED: u8 = 4;
    /// REQUEST: the script starts from its beginning, not in an image of its boot (php.rewind).
    FLAG_ORDINARY: u8 = 8;
    /// REQUEST: it is run again to compare its responses: the worker ends it before it changes anything, with FLAG_ABORTED.
    FLAG_AGAIN: u8 = 16;
    /// REQUEST: a worker whose image does not fit may decline it (FLAG_DECLINED): another worker gets it.
    FLAG_MAY_DECLINE: u8 = 32;
    /// REQUEST: no image is made of its boot: the worker is kept for requests that fit no image.
    FLAG_NO_IMAGE: u8 = 64;
    /// END: the worker takes the next request now.
    FLAG_READY: u8 = 1;
    /// END, READY: the worker ends now and takes no request any more.
    FLAG_EXITING: u8 = 2;
    /// END: a fatal error ended the script.
    FLAG_FAILED: u8 = 4;
    /// END: the client had gone, the script was aborted.
    FLAG_ABORTED: u8 = 8;
    /// END: the request began in an image of its boot.
    FLAG_REWOUND: u8 = 16;
    /// END: as far as the worker knows, the request has changed nothing outside of its process, so it can be run again to be compared.
    FLAG_REPEATABLE: u8 = 32;
    /// END: the request does not fit the image that the worker had.
    FLAG_MISFIT: u8 = 64;
    /// END, without a HEAD: so the worker has not run it, and has kept its image.
    FLAG_DECLINED: u8 = 128;
    /// TRACE: the time of the worker's request is up; no TRACED comes. Programs that it waits for are asked to end.
    FLAG_LET_GO: u8 = 1;
    /// TRACE, with FLAG_LET_GO: its time of grace is nearly over, too; those programs are killed.
    FLAG_AT_LAST: u8 = 2;

    /// NOTE: tags of the page, `Millrace-Tag`.
    NOTE_TAG: u16 = 1;
    /// NOTE: what to purge, `Millrace-Purge`. Sent when the script says it and again before END and READY.
    NOTE_PURGE: u16 = 2;
    /// NOTE: how the page may be kept, `Millrace-Cache-Control`. The last one of an answer holds.
    NOTE_CONTROL: u16 = 3;
    /// NOTE: what the script or the worker has found out about the visitor: crates/pages/src/visitors/report.rs.
    NOTE_VISITOR: u16 = 4;
    /// NOTE: which call of a script forbids to store its page: crates/pages/src/judge/grounds.rs.
    NOTE_ORIGIN: u16 = 5;
    /// NOTE: which files scripts of the site consist of: crates/server/src/cache/code.rs.
    NOTE_CODE: u16 = 6;
    /// NOTE: which cookies the script has looked for: crates/pages/src/looked.rs.
    NOTE_COOKIES: u16 = 7;
    /// NOTE: which fields of the request the script has read: crates/pages/src/read_fields.rs.
    NOTE_FIELDS: u16 = 8;
    /// NOTE: whether the page depends on what is in its visitor's cart: crates/pages/src/carts.rs.
    NOTE_CART: u16 = 9;

    /// Bytes of the fixed start of a REQUEST: u64 sequence, u64 body length, u32 variables, u32 bytes of variables.
    REQUEST_BYTES: usize = 24;
    /// Bytes before the name of a variable: u16 name length, u16 zero, u32 value length.
    VARIABLE_BYTES: usize = 8;
    /// Most bytes of variables in a REQUEST.
    VARIABLES_MAX: usize = 1 << 20;
    /// Most bytes of a body inside a REQUEST; larger ones go by descriptor.
    INLINE_BODY_MAX: usize = 64 << 10;
    /// Most bytes of a HEAD's payload.
    HEAD_MAX: usize = 1 << 20;
    /// Most bytes of a BODY's payload.
    BODY_MAX: usize = 1 << 20;
    /// Most content that a worker sends in answer to a HEAD request: whether the answer to GET is compressed depends on its start, its
    /// length is known if it is no longer.
    BODY_OF_HEAD_MAX: usize = 64 << 10;
    /// Bytes of END's and READY's payload: u64 peak memory in bytes, u64 class of the image that the request began in: a digest of its
    /// script and of the names in its key; 0: in none.
    END_BYTES: usize = 16;
    /// Most bytes of a LOG's payload.
    LOG_MAX: usize = 64 << 10;
    /// Most bytes of a NOTE's payload.
    NOTE_MAX: usize = 64 << 10;
    /// Most bytes of a HANDLER's payload.
    HANDLER_MAX: usize = 4 << 10;
    /// Most bytes of a control message.
    CONTROL_MAX: usize = 32 << 10;
    /// Most bytes of text about where a worker is, or was when it crashed.
    TRACE_MAX: usize = 4 << 10;

    /// First word of the scoreboard.
    SCOREBOARD_MAGIC: u32 = 0x4d52_5342;
    /// Bytes of the scoreboard's head: u32 magic, u32 PROTOCOL, u32 bytes a slot, u32 slots.
    SCOREBOARD_HEAD: usize = 128;
    /// u64 in the scoreboard's head, written by workers: CLOCK_MONOTONIC in milliseconds when a persistent worker has begun
    /// to end for another to boot in its place; 0 when one has booted. They take turns.
    SCOREBOARD_TURN: usize = 16;
    /// u64 in the scoreboard's head: offset of the figures of rewound workers, FIGURES_BYTES a slot, behind the slots; 0: there are none.
    SCOREBOARD_FIGURES: usize = 24;
    /// SCOREBOARD_OFF_MOST u64 in the scoreboard's head, written by the server: classes of images that are not to be used; 0: none;
    /// SCOREBOARD_OFF_ALL: all.
    SCOREBOARD_OFF: usize = 32;
    /// Number of SCOREBOARD_OFF.
    SCOREBOARD_OFF_MOST: usize = 4;
    /// u64 in the scoreboard's head, written by the server before it sends a request: number of orders to purge pages, by anyone. With a
    /// higher one, something that an image has read may have changed.
    SCOREBOARD_PURGES: usize = 64;
    /// u64 in the scoreboard's head, written by workers: one of RESTART_*, why opcache wants to restart; 0: it does not.
    SCOREBOARD_RESTART: usize = 72;
    /// A script has called `opcache_reset()`.
    RESTART_RESET: u64 = 1;
    /// opcache's memory is full.
    RESTART_MEMORY: u64 = 2;
    /// opcache has no key left.
    RESTART_KEYS: u64 = 3;
    /// In SCOREBOARD_OFF: images of any class are not to be used.
    SCOREBOARD_OFF_ALL: u64 = u64::MAX;
    /// Bytes of a slot.
    SLOT_BYTES: usize = 128;
    /// u32: process id of the worker.
    SLOT_PID: usize = 0;
    /// u32: one of STATE_*.
    SLOT_STATE: usize = 4;
    /// u64: sequence of the last REQUEST read completely: stored before the script runs.
    SLOT_RECEIVED: usize = 8;
    /// u64: sequence of the last request whose END is written.
    SLOT_FINISHED: usize = 16;
    /// u64, written by the server: sequence of a request whose client has gone.
    SLOT_ABORTED: usize = 24;
    /// u64: CLOCK_MONOTONIC in milliseconds when the running request was received.
    SLOT_STARTED_MS: usize = 32;
    /// u64: requests served.
    SLOT_REQUESTS: usize = 40;
    /// u64: resident memory in bytes, from time to time.
    SLOT_RSS: usize = 48;
    /// u64: greatest memory of one request so far, bytes (PHP's allocator).
    SLOT_PEAK: usize = 56;
    /// SLOT_OFFERS u64; word i holds offers whose sequence is i modulo SLOT_OFFERS. Written by both by compare-and-swap: twice the
    /// sequence of a request that is offered. The worker adds 1 and so takes it, before it runs it; the server puts 0
    /// there and so takes it back; whoever is first has it.
    SLOT_OFFERED: usize = 64;
    /// One more than the requests that are sent ahead: those may be on offer before the worker has come to the one before them,
    /// which it is sure to get.
    SLOT_OFFERS: usize = 4;
    /// u64, written by the server: sequence of a request that is to be ended because its time is up. A SIGURG follows. The
    /// worker puts 0 there when it does so.
    SLOT_TERMINATE: usize = 96;
    /// u64: age in milliseconds to which the script of the running request has extended its time (`set_time_limit()`);
    /// 0: it has not; u64::MAX: no limit. The server decides how much of it is allowed.
    SLOT_ASKED_MS: usize = 104;

    /// Bytes of a slot's figures. The next worker in the slot counts on; it begins without images.
    FIGURES_BYTES: usize = 9344;
    /// u64: images that the worker has now.
    FIGURES_IMAGES: usize = 0;
    /// u64: images made.
    FIGURES_MADE: usize = 8;
    /// u64: requests that began at the point.
    FIGURES_REWOUND: usize = 16;
    /// FIGURES_REASONS u64: requests that ran the ordinary way, by REASON_*.
    FIGURES_ORDINARY: usize = 24;
    /// Number of REASON_*.
    FIGURES_REASONS: usize = 9;
    /// u64: how often the worker has put its memory back.
    FIGURES_PUT: usize = 96;
    /// u64: how long that took in all, nanoseconds.
    FIGURES_PUT_NS: usize = 104;
    /// u64: pages that were copied for it.
    FIGURES_PUT_PAGES: usize = 112;
    /// u64: workers that have ended because their memory could not be put back.
    FIGURES_ENDED: usize = 120;
    /// FIGURES_TEXT_BYTES: why the last point was refused.
    FIGURES_REFUSAL: usize = 128;
    /// FIGURES_TEXT_BYTES: why the last worker has ended.
    FIGURES_ENDING: usize = 640;
    /// Bytes of a text: u64 version, odd while the text is written; u64 CLOCK_MONOTONIC in milliseconds when it was; text that ends with
    /// NUL.
    FIGURES_TEXT_BYTES: usize = 512;
    /// FIGURES_KEYS_MOST keys.
    FIGURES_KEYS: usize = 1152;
    /// Maximum number of keys of a slot. Images with the same script and the same names in their keys are counted together.
    FIGURES_KEYS_MOST: usize = 4;
    /// Bytes of a key: u64 images that there are now, u64 requests that began in them, and a text in the remaining bytes: lines, first the
    /// script, then what its boot reads, without the values.
    FIGURES_KEY_BYTES: usize = 2048;
    /// Ordinary: the method, or the request has content.
    REASON_METHOD: u64 = 0;
    /// Ordinary: the worker has no image yet; it gets too few requests to be worth one, or makes it by this one.
    REASON_NO_IMAGE: u64 = 1;
    /// Ordinary: the image was old, or something may have changed.
    REASON_OLD: u64 = 2;
    /// Ordinary: what the boot has read of its request is another one in this request.
    REASON_KEY: u64 = 3;
    /// Ordinary: the script found a difference between the boot and now.
    REASON_LEFT: u64 = 4;
    /// Ordinary: its script comes to no point, or this request did not.
    REASON_NO_POINT: u64 = 5;
    /// Ordinary: the last point was refused.
    REASON_REFUSED: u64 = 6;
    /// Ordinary: the server wants it to be, to compare (FLAG_ORDINARY).
    REASON_COMPARED: u64 = 7;
    /// Ordinary: images of this class are switched off (SCOREBOARD_OFF).
    REASON_OFF: u64 = 8;

    /// Nobody's slot.
    STATE_FREE: u32 = 0;
    /// The worker is being forked.
    STATE_STARTING: u32 = 1;
    /// The worker waits for a request.
    STATE_IDLE: u32 = 2;
    /// The worker runs a script.
    STATE_RUNNING: u32 = 3;
    /// The answer is complete, the script still runs (fastcgi_finish_request).
    STATE_BACKGROUND: u32 = 4;
    /// The worker ends.
    STATE_EXITING: u32 = 5;
}

/// A variable that the worker takes out of the REQUEST: the path of a PHP file to run before the site's script.
/// It never reaches `$_SERVER`.
pub const INJECT_VARIABLE: &str = "MILLRACE_INJECT";

/// A variable that the worker takes out of the REQUEST: the response may become a page for all. Its value: cookies of the
/// client that the script gets only if it looks for one of them.
pub const COOKIES_VARIABLE: &str = "MILLRACE_COOKIES";

/// Descriptor of the control socket in a host.
pub const CONTROL_DESCRIPTOR: i32 = 3;
/// Descriptor of the scoreboard in a host.
pub const SCOREBOARD_DESCRIPTOR: i32 = 4;

/// The first 8 bytes of every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload that follows.
    pub length: u32,
    /// One of `KIND_*` or `CONTROL_*`.
    pub kind: u8,
    /// `FLAG_*`; their meaning depends on the kind.
    pub flags: u8,
    /// HEAD, EARLY: status code; LOG: syslog priority; NOTE: `NOTE_*`; otherwise 0.
    pub extra: u16,
}

impl FrameHeader {
    /// The bytes of the header.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..4].copy_from_slice(&self.length.to_ne_bytes());
        out[4] = self.kind;
        out[5] = self.flags;
        out[6..].copy_from_slice(&self.extra.to_ne_bytes());
        out
    }

    /// The header at the start of `bytes`; `None` while there are fewer than [`HEADER_BYTES`].
    pub fn decode(bytes: &[u8]) -> Option<FrameHeader> {
        let (head, _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        Some(FrameHeader {
            length: u32::from_ne_bytes([head[0], head[1], head[2], head[3]]),
            kind: head[4],
            flags: head[5],
            extra: u16::from_ne_bytes([head[6], head[7]]),
        })
    }
}

/// Why bytes are not a frame. The peer has a bug or its memory is corrupted: its connection is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// A kind that this end does not accept.
    Kind(u8),
    /// A payload longer than its kind permits, or shorter than its content requires.
    Length {
        /// The kind of the frame.
        kind: u8,
        /// The length that its header gives, bytes.
        length: u32,
    },
    /// A status code outside 200 to 999.
    Status(u16),
    /// A field of the response with an invalid name, or with NUL, CR or LF in its value.
    Field,
    /// A NOTE with an unknown `NOTE_*`.
    Note(u16),
    /// A NOTE with NUL, CR or LF in its text.
    NoteText,
    /// A frame in the wrong place: content before a head, a second head, anything after the end.
    Order(u8),
    /// A text that is not UTF-8 or not of the form `key=value`.
    Text,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FrameError::Kind(kind) => write!(f, "unknown frame kind {kind}"),
            FrameError::Length { kind, length } => {
                write!(f, "frame of kind {kind} has the wrong length {length}")
            }
            FrameError::Status(status) => write!(f, "status code {status} is out of range"),
            FrameError::Field => write!(f, "illegal header field in the response"),
            FrameError::Note(what) => write!(f, "note to the page cache has the unknown kind {what}"),
            FrameError::NoteText => write!(f, "illegal text in a note to the page cache"),
            FrameError::Order(kind) => write!(f, "frame of kind {kind} out of order"),
            FrameError::Text => write!(f, "illegal text in a control message"),
        }
    }
}

impl std::error::Error for FrameError {}

/// A value does not fit into a REQUEST: a name over 64 KiB, or more variables or body than [`VARIABLES_MAX`] and
/// [`INLINE_BODY_MAX`] allow. The client causes this: respond with 431 or 413.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTooLong;

impl std::fmt::Display for RequestTooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the request is too large for a PHP worker")
    }
}

impl std::error::Error for RequestTooLong {}

/// The text of `php/c/frames.h`.
pub fn c_header() -> String {
    let mut out = String::from(
        "/* Frames between server, PHP host and PHP workers. Generated from crates/wire/src/frames.rs; do not edit.\n   \
         MILLRACE_UPDATE=1 cargo test -p millrace-wire frames_h  writes it again. */\n\
         #ifndef MILLRACE_FRAMES_H\n#define MILLRACE_FRAMES_H\n\n",
    );
    for (name, value, text) in TABLE {
        out.push_str(&format!("/* {} */\n#define MR_{name} {value}u\n", text.trim()));
    }
    out.push_str(&format!("/* The PHP file to run before the script; never shown to it. */\n#define MR_INJECT_VARIABLE \"{INJECT_VARIABLE}\"\n"));
    out.push_str(&format!("/* Cookies that the script gets only if it looks for one of them. */\n#define MR_COOKIES_VARIABLE \"{COOKIES_VARIABLE}\"\n"));
    out.push_str(&format!(
        "/* Control socket of a host. */\n#define MR_CONTROL_DESCRIPTOR {CONTROL_DESCRIPTOR}\n"
    ));
    out.push_str(&format!(
        "/* Scoreboard of a host. */\n#define MR_SCOREBOARD_DESCRIPTOR {SCOREBOARD_DESCRIPTOR}\n"
    ));
    out.push_str("\n#endif\n");
    out
}

/// The `N` bytes at `at`, if they are there.
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes_at(bytes, at).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes_at(bytes, at).map(u64::from_ne_bytes)
}

// The head of the scoreboard has room for all of it.
const _: () = assert!(
    SCOREBOARD_OFF >= SCOREBOARD_FIGURES + 8
        && SCOREBOARD_OFF + 8 * SCOREBOARD_OFF_MOST <= SCOREBOARD_PURGES
        && SCOREBOARD_PURGES + 8 <= SCOREBOARD_RESTART
        && SCOREBOARD_RESTART + 8 <= SCOREBOARD_HEAD
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_goes_there_and_back() {
        let header = FrameHeader { length: 0x0102_0304, kind: KIND_HEAD, flags: 3, extra: 404 };
        assert_eq!(FrameHeader::decode(&header.encode()), Some(header));
        assert_eq!(FrameHeader::decode(&header.encode()[..7]), None);
    }

    #[test]
    fn frames_h_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../php/c/frames.h");
        if std::env::var_os("MILLRACE_UPDATE").is_some() {
            std::fs::write(path, c_header()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap();
        assert!(
            committed == c_header(),
            "php/c/frames.h is old: MILLRACE_UPDATE=1 cargo test -p millrace-wire frames_h"
        );
    }

    #[test]
    fn slot_fields_do_not_overlap() {
        let fields = [
            (SLOT_PID, 4),
            (SLOT_STATE, 4),
            (SLOT_RECEIVED, 8),
            (SLOT_FINISHED, 8),
            (SLOT_ABORTED, 8),
            (SLOT_STARTED_MS, 8),
            (SLOT_REQUESTS, 8),
            (SLOT_RSS, 8),
            (SLOT_PEAK, 8),
            (SLOT_OFFERED, 8 * SLOT_OFFERS),
            (SLOT_TERMINATE, 8),
            (SLOT_ASKED_MS, 8),
        ];
        let mut end = 0;
        for (at, size) in fields {
            assert!(at >= end && at % size.min(8) == 0);
            end = at + size;
        }
        assert!(end <= SLOT_BYTES);
    }

    #[test]
    fn figures_do_not_overlap() {
        let fields = [
            (FIGURES_IMAGES, 8),
            (FIGURES_MADE, 8),
            (FIGURES_REWOUND, 8),
            (FIGURES_ORDINARY, 8 * FIGURES_REASONS),
            (FIGURES_PUT, 8),
            (FIGURES_PUT_NS, 8),
            (FIGURES_PUT_PAGES, 8),
            (FIGURES_ENDED, 8),
            (FIGURES_REFUSAL, FIGURES_TEXT_BYTES),
            (FIGURES_ENDING, FIGURES_TEXT_BYTES),
            (FIGURES_KEYS, FIGURES_KEYS_MOST * FIGURES_KEY_BYTES),
        ];
        let mut end = 0;
        for (at, size) in fields {
            assert!(at >= end && at % 8 == 0);
            end = at + size;
        }
        assert!(end <= FIGURES_BYTES && FIGURES_BYTES.is_multiple_of(64));
        assert_eq!(REASON_OFF as usize + 1, FIGURES_REASONS);
    }
}

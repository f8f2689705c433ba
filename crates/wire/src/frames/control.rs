//! The messages between server and host on the control socket: one message, one frame.

use super::{
    CONTROL_EXITED, CONTROL_FAILED, CONTROL_LOG, CONTROL_LOOK, CONTROL_LOOKED, CONTROL_READY, CONTROL_RETIRE,
    CONTROL_SPAWN, CONTROL_STARTED, CONTROL_TRACE, CONTROL_TRACED, FLAG_AT_LAST, FLAG_LET_GO, FrameError,
    FrameHeader, HEADER_BYTES, u32_at, u64_at,
};

/// SPAWN: fork a worker for this slot; its socket is attached to the message.
pub fn spawn(slot: u32) -> [u8; HEADER_BYTES + 4] {
    about_slot(CONTROL_SPAWN, 0, slot)
}

/// TRACE: report where the worker of this slot is; the response is TRACED.
pub fn trace(slot: u32) -> [u8; HEADER_BYTES + 4] {
    about_slot(CONTROL_TRACE, 0, slot)
}

/// TRACE: the request of the worker in this slot has reached its time limit, and the worker has been told: interrupt
/// what it waits for. Programs for which it waits are ended; with `at_last`, they are killed.
pub fn let_go(slot: u32, at_last: bool) -> [u8; HEADER_BYTES + 4] {
    about_slot(CONTROL_TRACE, if at_last { FLAG_LET_GO | FLAG_AT_LAST } else { FLAG_LET_GO }, slot)
}

fn about_slot(kind: u8, flags: u8, slot: u32) -> [u8; HEADER_BYTES + 4] {
    let mut out = [0; HEADER_BYTES + 4];
    let header = FrameHeader { length: 4, kind, flags, extra: 0 };
    out[..HEADER_BYTES].copy_from_slice(&header.encode());
    out[HEADER_BYTES..].copy_from_slice(&slot.to_ne_bytes());
    out
}

/// RETIRE: end when all workers have ended. Workers end when their sockets are closed.
pub fn retire() -> [u8; HEADER_BYTES] {
    FrameHeader { length: 0, kind: CONTROL_RETIRE, flags: 0, extra: 0 }.encode()
}

/// LOOK: report PHP's settings and opcache; the response is LOOKED.
pub fn look() -> [u8; HEADER_BYTES] {
    FrameHeader { length: 0, kind: CONTROL_LOOK, flags: 0, extra: 0 }.encode()
}

/// A message of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// PHP is started; workers can be ordered.
    Ready(Started<'a>),
    /// PHP did not start; the host ends. The text gives the reason and advice.
    Failed(&'a str),
    /// A worker runs.
    WorkerStarted {
        /// Its slot in the scoreboard.
        slot: u32,
        /// Its process id.
        pid: u32,
    },
    /// A worker has ended and was reaped.
    WorkerExited {
        /// Its slot in the scoreboard.
        slot: u32,
        /// Its process id.
        pid: u32,
        /// The status of wait(2).
        status: i32,
        /// Its peak resident memory, KiB.
        max_rss_kib: u64,
        /// Its crash report, as the text of `Traced`; empty if it did not crash.
        report: &'a [u8],
    },
    /// Where a worker is: the response to TRACE.
    Traced {
        /// Its slot in the scoreboard.
        slot: u32,
        /// Its process id.
        pid: u32,
        /// The request that it ran at that time.
        sequence: u64,
        /// What it waits for, in a line that may be empty; then one line per PHP frame.
        text: &'a [u8],
    },
    /// PHP's settings and opcache: the response to LOOK. Lines, each a JSON object.
    Looked(&'a str),
    /// A message for the error log.
    Log {
        /// syslog's: 0 emergency to 7 debug.
        priority: u16,
        /// The message.
        message: &'a [u8],
    },
}

/// The content of READY: lines `key=value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started<'a> {
    text: &'a str,
}

impl<'a> Started<'a> {
    /// The value of `key`: `php_version` (8.2.29), `opcache` (on, off), `opcache_reason` (why it is off), `sapi`,
    /// `protocol`, `extensions` (names with commas), `ini_file`.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.lines().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// All keys and values, in the order sent.
    pub fn lines(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.text.lines().filter_map(|line| line.split_once('='))
    }
}

impl<'a> Message<'a> {
    /// The message in one datagram of the control socket.
    pub fn decode(datagram: &'a [u8]) -> Result<Message<'a>, FrameError> {
        let header = FrameHeader::decode(datagram).ok_or(FrameError::Length {
            kind: 0,
            length: u32::try_from(datagram.len()).unwrap_or(u32::MAX),
        })?;
        let broken = FrameError::Length { kind: header.kind, length: header.length };
        let payload = &datagram[HEADER_BYTES..];
        if payload.len() != header.length as usize {
            return Err(broken);
        }
        let text = || std::str::from_utf8(payload).map_err(|_| FrameError::Text);
        let word = |at| u32_at(payload, at).ok_or(broken);
        Ok(match header.kind {
            CONTROL_READY => Message::Ready(Started { text: text()? }),
            CONTROL_FAILED => Message::Failed(text()?),
            CONTROL_STARTED => Message::WorkerStarted { slot: word(0)?, pid: word(4)? },
            CONTROL_EXITED => Message::WorkerExited {
                slot: word(0)?,
                pid: word(4)?,
                status: word(8)? as i32,
                max_rss_kib: u64_at(payload, 12).ok_or(broken)?,
                report: &payload[20..],
            },
            CONTROL_TRACED => Message::Traced {
                slot: word(0)?,
                pid: word(4)?,
                sequence: u64_at(payload, 8).ok_or(broken)?,
                text: &payload[16..],
            },
            CONTROL_LOOKED => Message::Looked(text()?),
            CONTROL_LOG => Message::Log { priority: header.extra, message: payload },
            kind => return Err(FrameError::Kind(kind)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn datagram(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut out =
            FrameHeader { length: payload.len() as u32, kind, flags: 0, extra: 4 }.encode().to_vec();
        out.extend_from_slice(payload);
        out
    }

    #[test]
    fn messages_are_read() {
        let ready = datagram(CONTROL_READY, b"php_version=8.2.36\nopcache=on\nnoise\nextensions=a,b\n");
        let Ok(Message::Ready(started)) = Message::decode(&ready) else { panic!("no READY") };
        assert_eq!(started.get("opcache"), Some("on"));
        assert_eq!(started.get("extensions"), Some("a,b"));
        assert_eq!(started.get("sapi"), None);
        let mut payload = Vec::new();
        for word in [3u32, 77, 9] {
            payload.extend_from_slice(&word.to_ne_bytes());
        }
        payload.extend_from_slice(&1234u64.to_ne_bytes());
        let (slot, pid, report) = (3, 77, &b""[..]);
        let expected = Message::WorkerExited { slot, pid, status: 9, max_rss_kib: 1234, report };
        assert_eq!(Message::decode(&datagram(CONTROL_EXITED, &payload)), Ok(expected));
        let traced = [&payload[..8], &5u64.to_ne_bytes(), b"\n#0 f()"].concat();
        let expected = Message::Traced { slot, pid, sequence: 5, text: b"\n#0 f()" };
        assert_eq!(Message::decode(&datagram(CONTROL_TRACED, &traced)), Ok(expected));
        assert!(Message::decode(&datagram(CONTROL_TRACED, &traced[..15])).is_err());
        assert_eq!(
            Message::decode(&datagram(CONTROL_LOG, b"x")),
            Ok(Message::Log { priority: 4, message: b"x" })
        );
        assert_eq!(Message::decode(&datagram(CONTROL_LOOKED, b"{}\n")), Ok(Message::Looked("{}\n")));
        assert!(Message::decode(&datagram(CONTROL_EXITED, &payload[..19])).is_err());
        assert_eq!(Message::decode(&datagram(CONTROL_FAILED, &[0xff])), Err(FrameError::Text));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(kind in any::<u8>(), bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Message::decode(&bytes);
            let _ = Message::decode(&datagram(kind, &bytes));
        }
    }
}

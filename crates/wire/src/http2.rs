//! Frames of HTTP/2 (RFC 9113 section 4.1) in a stream of bytes: where each begins, and what its header says. For those
//! who watch a connection whose frames a library reads.

/// Bytes of a frame's header.
const HEAD_BYTES: usize = 9;

/// Types of frames.
pub mod kind {
    /// Content.
    pub const DATA: u8 = 0x0;
    /// A header section, or its first part.
    pub const HEADERS: u8 = 0x1;
    /// The end of a stream.
    pub const RST_STREAM: u8 = 0x3;
    /// More of a header section.
    pub const CONTINUATION: u8 = 0x9;
    /// RFC 9218.
    pub const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags of frames.
pub mod flag {
    /// Nothing follows on the stream in this direction.
    pub const END_STREAM: u8 = 0x1;
    /// The header section is complete.
    pub const END_HEADERS: u8 = 0x4;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of its payload.
    pub length: u32,
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// The number of its stream; 0: the connection.
    pub stream: u32,
}

/// A part of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePart<'a> {
    /// A frame begins.
    Head(FrameHead),
    /// Some of its payload.
    Payload(&'a [u8]),
}

/// The position in a stream of frames.
#[derive(Debug, Default)]
pub struct FrameWalker {
    /// The received part of the next frame's header.
    head: [u8; HEAD_BYTES],
    filled: usize,
    payload_left: usize,
}

impl FrameWalker {
    /// Takes the next part from the start of `input`; returns how many bytes it took. `None`: only a part of a frame's
    /// header has arrived.
    pub fn walk<'a>(&mut self, input: &'a [u8]) -> (usize, Option<FramePart<'a>>) {
        if self.payload_left > 0 {
            let taken = self.payload_left.min(input.len());
            self.payload_left -= taken;
            return (taken, Some(FramePart::Payload(&input[..taken])));
        }
        let taken = (HEAD_BYTES - self.filled).min(input.len());
        self.head[self.filled..self.filled + taken].copy_from_slice(&input[..taken]);
        self.filled += taken;
        if self.filled < HEAD_BYTES {
            return (taken, None);
        }
        self.filled = 0;
        let [a, b, c, kind, flags, stream @ ..] = self.head;
        let length = u32::from_be_bytes([0, a, b, c]);
        self.payload_left = length as usize;
        let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        (taken, Some(FramePart::Head(FrameHead { length, kind, flags, stream })))
    }

    /// Bytes of the current frame's payload still to come.
    pub fn payload_left(&self) -> usize {
        self.payload_left
    }

    /// Whether a frame is incomplete.
    pub fn is_torn(&self) -> bool {
        self.payload_left > 0 || self.filled > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_in_any_pieces() {
        let whole = b"\0\0\x03\x01\x04\x80\0\0\x05abc\0\0\0\x03\0\0\0\0\x07\0\0\x01\0\x01\0\0\0\x05x";
        let heads = [
            FrameHead { length: 3, kind: kind::HEADERS, flags: flag::END_HEADERS, stream: 5 },
            FrameHead { length: 0, kind: kind::RST_STREAM, flags: 0, stream: 7 },
            FrameHead { length: 1, kind: kind::DATA, flags: flag::END_STREAM, stream: 5 },
        ];
        for step in 1..whole.len() {
            let (mut walker, mut found, mut payload) = (FrameWalker::default(), Vec::new(), Vec::new());
            for piece in whole.chunks(step) {
                let mut rest = piece;
                while !rest.is_empty() {
                    let (taken, part) = walker.walk(rest);
                    match part {
                        Some(FramePart::Head(head)) => found.push(head),
                        Some(FramePart::Payload(bytes)) => payload.extend_from_slice(bytes),
                        None => assert!(walker.is_torn()),
                    }
                    rest = &rest[taken..];
                }
            }
            assert_eq!(
                (found.as_slice(), payload.as_slice()),
                (&heads[..], &b"abcx"[..]),
                "pieces of {step}"
            );
            assert!(!walker.is_torn() && walker.payload_left() == 0);
        }
    }
}

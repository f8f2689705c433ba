//! Observes a client's frames (RFC 9113 section 4.1) on their way to the library, which reports few of them: counts
//! useless frames, and notes cancelled requests and changed priorities. A value without clock and socket.

use millrace_wire::http2::{FrameHead, FramePart, FrameWalker, flag, kind};

use super::priority::Priority;

/// The first bytes of every connection: `PRI * HTTP/2.0 ...`
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A longer PRIORITY_UPDATE contains nothing that is understood, bytes.
const MOST_UPDATE: usize = 64;

/// Number of frames that belong to a request.
const PER_REQUEST: u32 = 4;
/// Bytes of responses that justify one frame: clients acknowledge them by WINDOW_UPDATE.
const BYTES_PER_FRAME: u64 = 1024;
/// A frame with at least this many bytes of content is useful.
const USEFUL_BYTES: u32 = 16;

/// A client sends too much of what costs it nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flood {
    /// Useless frames.
    Frames,
    /// Cancelled requests.
    Resets,
}

/// A token bucket: a maximum at once, and a tenth of it per second.
#[derive(Debug)]
struct Allowance {
    most: u32,
    left: u32,
    /// When it was last refilled, milliseconds on the thread's clock.
    since: u64,
}

impl Allowance {
    fn new(most: u32, now: u64) -> Allowance {
        Allowance { most, left: most, since: now }
    }

    fn refill(&mut self, now: u64) {
        let more = u64::from(self.most) * now.saturating_sub(self.since) / 10_000;
        if more > 0 {
            self.earn(more.min(u64::from(self.most)) as u32);
            self.since = now;
        }
    }

    fn earn(&mut self, count: u32) {
        self.left = self.left.saturating_add(count).min(self.most);
    }

    /// Takes a token; false if there is none.
    fn spend(&mut self) -> bool {
        let before = self.left;
        self.left = before.saturating_sub(1);
        before > 0
    }
}

/// The position in a client's byte stream.
#[derive(Debug)]
pub(super) struct Watch {
    /// Bytes of the preface still to come.
    preface_left: usize,
    walker: FrameWalker,
    /// The received payload of a PRIORITY_UPDATE.
    update: Option<Vec<u8>>,
    /// In the middle of a request's head: more must follow.
    in_fields: bool,
    frames: Allowance,
    resets: Allowance,
    /// Useless frames and cancelled requests since the last call.
    wasted: u32,
    /// Bytes of responses that have not justified a frame yet.
    written: u64,
    /// Requests cancelled since the last call.
    cancelled: Vec<u32>,
    /// Priorities changed since the last call.
    reordered: Vec<(u32, Priority)>,
}

impl Watch {
    /// A new connection with these allowances.
    pub(super) fn new(frames: u32, resets: u32, now: u64) -> Watch {
        Watch {
            preface_left: PREFACE.len(),
            walker: FrameWalker::default(),
            update: None,
            in_fields: false,
            frames: Allowance::new(frames, now),
            resets: Allowance::new(resets, now),
            wasted: 0,
            written: 0,
            cancelled: Vec::new(),
            reordered: Vec::new(),
        }
    }

    /// Parses received bytes.
    ///
    /// # Errors
    /// It is a flood.
    pub(super) fn see(&mut self, bytes: &[u8], now: u64) -> Result<(), Flood> {
        self.frames.refill(now);
        self.resets.refill(now);
        let skipped = self.preface_left.min(bytes.len());
        self.preface_left -= skipped;
        let mut rest = &bytes[skipped..];
        while !rest.is_empty() {
            let (taken, part) = self.walker.walk(rest);
            rest = &rest[taken..];
            match (part, &mut self.update) {
                (Some(FramePart::Head(head)), _) => self.begin_frame(head)?,
                (Some(FramePart::Payload(payload)), Some(update)) => update.extend_from_slice(payload),
                _ => {}
            }
            if self.walker.payload_left() == 0 {
                self.end_update();
            }
        }
        Ok(())
    }

    /// Counts written bytes of responses.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
        self.frames.earn((self.written / BYTES_PER_FRAME).min(u64::from(u32::MAX)) as u32);
        self.written %= BYTES_PER_FRAME;
    }

    /// Whether the head of a request is incomplete.
    pub(super) fn is_in_fields(&self) -> bool {
        self.in_fields
    }

    /// Whether a frame, or the head of a request, is incomplete.
    pub(super) fn is_torn(&self) -> bool {
        self.in_fields || self.walker.is_torn()
    }

    /// Number of useless frames and cancelled requests since the last call.
    pub(super) fn take_wasted(&mut self) -> u32 {
        std::mem::take(&mut self.wasted)
    }

    /// Whether the request was cancelled since [`Watch::take_cancelled`] was called.
    pub(super) fn is_cancelled(&self, id: u32) -> bool {
        self.cancelled.contains(&id)
    }

    /// The requests that were cancelled since the last call.
    pub(super) fn take_cancelled(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.cancelled)
    }

    /// The priorities that were changed since the last call.
    pub(super) fn take_reordered(&mut self) -> Vec<(u32, Priority)> {
        std::mem::take(&mut self.reordered)
    }

    fn begin_frame(&mut self, head: FrameHead) -> Result<(), Flood> {
        let FrameHead { length, kind, flags, stream } = head;
        match kind {
            kind::HEADERS => {
                self.frames.earn(PER_REQUEST);
                self.in_fields = flags & flag::END_HEADERS == 0;
            }
            kind::CONTINUATION => {
                self.in_fields = flags & flag::END_HEADERS == 0;
                // The library limits their number per head.
                if length == 0 {
                    self.waste()?;
                }
            }
            kind::DATA if length >= USEFUL_BYTES => self.frames.earn(1),
            kind::DATA if flags & flag::END_STREAM != 0 => {}
            kind::RST_STREAM => {
                self.cancelled.push(stream);
                self.wasted += 1;
                if !self.resets.spend() {
                    return Err(Flood::Resets);
                }
            }
            kind::PRIORITY_UPDATE if (4..=MOST_UPDATE).contains(&(length as usize)) => {
                self.update = Some(Vec::with_capacity(length as usize));
                self.waste()?;
            }
            _ => self.waste()?,
        }
        Ok(())
    }

    fn waste(&mut self) -> Result<(), Flood> {
        self.wasted += 1;
        if self.frames.spend() { Ok(()) } else { Err(Flood::Frames) }
    }

    /// RFC 9218 section 7.1: the stream's number, and the field's value.
    fn end_update(&mut self) {
        let Some(update) = self.update.take() else { return };
        if let Some((stream, value)) = update.split_first_chunk::<4>() {
            let stream = u32::from_be_bytes(*stream) & 0x7fff_ffff;
            self.reordered.push((stream, Priority::parse(value).unwrap_or_default()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 0x6;
    const SETTINGS: u8 = 0x4;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        out.extend([kind, flags]);
        out.extend(stream.to_be_bytes());
        out.extend(payload);
        out
    }

    fn watch() -> Watch {
        let mut watch = Watch::new(100, 10, 0);
        watch.see(PREFACE, 0).unwrap();
        watch
    }

    /// How often `bytes` may arrive at once.
    fn most(watch: &mut Watch, bytes: &[u8]) -> (usize, Flood) {
        (0..).find_map(|count| watch.see(bytes, 0).err().map(|flood| (count, flood))).unwrap()
    }

    #[test]
    fn frames_without_use_are_bounded() {
        for kind in [PING, SETTINGS, 0x2, 0x8, 0x77] {
            assert_eq!(most(&mut watch(), &frame(kind, 0, 0, &[0; 8])), (100, Flood::Frames), "{kind}");
        }
        assert_eq!(most(&mut watch(), &frame(kind::DATA, 0, 1, b"")), (100, Flood::Frames));
        assert_eq!(most(&mut watch(), &frame(kind::DATA, 0, 1, b"tiny")), (100, Flood::Frames));
        assert_eq!(most(&mut watch(), &frame(kind::CONTINUATION, 0, 1, b"")), (100, Flood::Frames));
        assert_eq!(
            most(&mut watch(), &frame(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1")),
            (100, Flood::Frames)
        );
    }

    #[test]
    fn cancelled_requests_are_bounded() {
        let both = [frame(kind::HEADERS, 5, 1, b"x"), frame(kind::RST_STREAM, 0, 1, &[0; 4])].concat();
        let mut watch = watch();
        assert_eq!(most(&mut watch, &both), (10, Flood::Resets));
        assert_eq!((watch.take_wasted(), watch.take_wasted()), (11, 0));
        assert!(watch.is_cancelled(1) && !watch.is_cancelled(3));
        assert_eq!(watch.take_cancelled().len(), 11);
        assert!(watch.take_cancelled().is_empty());
    }

    #[test]
    fn time_and_requests_and_answers_earn_more() {
        let mut watch = watch();
        watch.frames.left = 0;
        watch.see(&frame(kind::HEADERS, 5, 1, b"abc"), 0).unwrap();
        assert_eq!(watch.frames.left, 4);
        watch.wrote(10 * 1024 + 1);
        assert_eq!(watch.frames.left, 14);
        watch.see(b"", 2_000).unwrap();
        assert_eq!(watch.frames.left, 34);
        watch.see(b"", 1_000_000).unwrap();
        assert_eq!(watch.frames.left, 100);
    }

    #[test]
    fn slow_time_is_not_lost() {
        let mut watch = Watch::new(100, 10, 0);
        watch.frames.left = 0;
        (1..=1000).for_each(|now| watch.see(b"", now).unwrap());
        assert_eq!(watch.frames.left, 10);
    }

    #[test]
    fn torn_anywhere() {
        let whole = [
            &PREFACE[..],
            &frame(SETTINGS, 0, 0, b""),
            &frame(kind::HEADERS, 1, 3, b"abc"),
            &frame(kind::CONTINUATION, 4, 3, b"de"),
            &frame(kind::PRIORITY_UPDATE, 0, 0, b"\0\0\0\x03u=6, i"),
            &frame(kind::RST_STREAM, 0, 3, &[0; 4]),
        ]
        .concat();
        for cut in 0..whole.len() {
            let mut watch = Watch::new(100, 10, 0);
            watch.see(&whole[..cut], 0).unwrap();
            watch.see(&whole[cut..], 0).unwrap();
            assert!(!watch.is_torn());
            assert_eq!(watch.take_cancelled(), [3]);
            assert_eq!(watch.take_reordered(), [(3, Priority { urgency: 6, incremental: true })]);
            assert!(!watch.is_in_fields());
        }
        let mut watch = watch();
        watch.see(&frame(kind::HEADERS, 1, 3, b"abc"), 0).unwrap();
        assert!(watch.is_in_fields() && watch.is_torn());
        watch.see(&frame(kind::CONTINUATION, 4, 3, b"")[..5], 0).unwrap();
        assert!(watch.is_torn());
    }
}

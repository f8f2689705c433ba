//! Looks at the frames that a client sends (RFC 9113 section 4.1) on their way to the library, which tells nobody about most of
//! them: it counts those that ask for nothing, and notes which requests are cancelled and which priorities are changed.
//! A value without clock and socket.

use super::priority::Priority;

/// What every connection begins with: `PRI * HTTP/2.0 ...`
pub(super) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEAD_BYTES: usize = 9;

/// A PRIORITY_UPDATE longer than this says nothing that is understood.
const MOST_UPDATE: usize = 64;

/// What a request earns: so many frames belong to it.
const PER_REQUEST: u32 = 4;
/// Bytes of an answer that earn a frame: clients acknowledge them by WINDOW_UPDATE.
const BYTES_PER_FRAME: u64 = 1024;
/// Bytes of content in a frame from which on it is no waste.
const USEFUL_BYTES: u32 = 16;

mod kind {
    pub(super) const DATA: u8 = 0x0;
    pub(super) const HEADERS: u8 = 0x1;
    pub(super) const RST_STREAM: u8 = 0x3;
    pub(super) const CONTINUATION: u8 = 0x9;
    pub(super) const PRIORITY_UPDATE: u8 = 0x10;
}

mod flag {
    pub(super) const END_STREAM: u8 = 0x1;
    pub(super) const END_HEADERS: u8 = 0x4;
}

/// A client that sends too much of what costs it nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flood {
    /// Frames that ask for nothing.
    Frames,
    /// Requests that it cancels.
    Resets,
}

/// How much a client may waste: so much at once, a tenth of it more each second.
#[derive(Debug)]
struct Allowance {
    most: u32,
    left: u32,
    /// Milliseconds of the thread's clock at which it was last refilled.
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

    /// Takes one; false if there is none.
    fn spend(&mut self) -> bool {
        let before = self.left;
        self.left = before.saturating_sub(1);
        before > 0
    }
}

/// Where in the bytes of a client it is.
#[derive(Debug)]
pub(super) struct Watch {
    /// Bytes of the preface that have not come.
    preface_left: usize,
    /// The head of the next frame, as far as it has come.
    head: [u8; HEAD_BYTES],
    filled: usize,
    /// Bytes of the present frame's payload that have not come.
    payload_left: usize,
    /// Payload of a PRIORITY_UPDATE, as far as it has come.
    update: Option<Vec<u8>>,
    /// In the middle of a request's head: more has to come.
    in_fields: bool,
    frames: Allowance,
    resets: Allowance,
    /// Frames without use and cancelled requests since somebody asked.
    wasted: u32,
    /// Bytes of answers that have not earned a frame yet.
    written: u64,
    /// Requests that were cancelled since somebody asked.
    cancelled: Vec<u32>,
    /// Priorities that were changed since somebody asked.
    reordered: Vec<(u32, Priority)>,
}

impl Watch {
    /// A connection of which nothing has come, with these allowances.
    pub(super) fn new(frames: u32, resets: u32, now: u64) -> Watch {
        Watch {
            preface_left: PREFACE.len(),
            head: [0; HEAD_BYTES],
            filled: 0,
            payload_left: 0,
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

    /// Looks at bytes that have come.
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
            let payload = self.payload_left.min(rest.len());
            if let Some(update) = &mut self.update {
                update.extend_from_slice(&rest[..payload]);
            }
            self.payload_left -= payload;
            rest = &rest[payload..];
            if self.payload_left > 0 {
                break;
            }
            self.end_update();
            let more = (HEAD_BYTES - self.filled).min(rest.len());
            self.head[self.filled..self.filled + more].copy_from_slice(&rest[..more]);
            self.filled += more;
            rest = &rest[more..];
            if self.filled == HEAD_BYTES {
                self.filled = 0;
                self.begin_frame()?;
            }
        }
        if self.payload_left == 0 {
            self.end_update();
        }
        Ok(())
    }

    /// Bytes of answers have been written.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
        self.frames.earn((self.written / BYTES_PER_FRAME).min(u64::from(u32::MAX)) as u32);
        self.written %= BYTES_PER_FRAME;
    }

    /// Whether a request's head has begun and not ended.
    pub(super) fn is_in_fields(&self) -> bool {
        self.in_fields
    }

    /// Whether a frame, or a request's head, has begun and not ended.
    pub(super) fn is_torn(&self) -> bool {
        self.in_fields || self.payload_left > 0 || self.filled > 0
    }

    /// How many frames have come since the last call that ask for nothing, or cancel a request.
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

    fn begin_frame(&mut self) -> Result<(), Flood> {
        let [a, b, c, kind, flags, stream @ ..] = self.head;
        let length = u32::from_be_bytes([0, a, b, c]);
        let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        self.payload_left = length as usize;
        match kind {
            kind::HEADERS => {
                self.frames.earn(PER_REQUEST);
                self.in_fields = flags & flag::END_HEADERS == 0;
            }
            kind::CONTINUATION => {
                self.in_fields = flags & flag::END_HEADERS == 0;
                // The library bounds how many there are of them in a head.
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

    /// RFC 9218 section 7.1: the number of the request, and the field's value.
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

    /// How many times `bytes` may come at once.
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

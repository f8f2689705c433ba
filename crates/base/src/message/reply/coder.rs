//! Codes a response where it is made: between its script and its readers. So an encoder lives only while a script
//! writes, however slow its clients are, and the waiting data is small.

use millrace_wire::encoding::Coding;

use super::encoder::{ENCODER_BYTES, Encoder, TURN};

/// Codes the rest of a response.
#[derive(Debug)]
pub struct Coder {
    /// `None`: it has ended.
    encoder: Option<Encoder>,
    /// Remaining bytes of the announced length.
    left: Option<u64>,
    /// The encoder holds data that is not readable yet.
    held: bool,
    /// Bytes coded in this turn.
    turn: usize,
    /// It ended successfully.
    whole: bool,
}

impl Coder {
    /// A coder that has coded nothing; `None`: there is no memory for it. `announced`: bytes that the script
    /// announced.
    pub fn new(coding: Coding, announced: Option<u64>) -> Option<Coder> {
        let encoder = Some(Encoder::new(coding)?);
        Some(Coder { encoder, left: announced, held: false, turn: 0, whole: false })
    }

    /// Codes a piece; appends what is ready to `out`. Content beyond the announced length is dropped.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let Some(encoder) = &mut self.encoder else { return };
        let most = self.left.map_or(piece.len(), |left| left.min(piece.len() as u64) as usize);
        if encoder.write(&piece[..most], out).is_err() {
            self.encoder = None;
            return;
        }
        self.held |= most > 0;
        self.turn += most;
        self.left = self.left.map(|left| left - most as u64);
        if self.left == Some(0) {
            self.end(out);
        }
    }

    /// Appends everything coded so far to `out`.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.held)
            && let Some(encoder) = &mut self.encoder
            && encoder.flush(out).is_err()
        {
            self.encoder = None;
        }
    }

    /// The script has finished.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(encoder) = self.encoder.take() {
            // Less than announced: the client must notice.
            self.whole = matches!(self.left, None | Some(0)) && encoder.finish(out).is_ok();
        }
    }

    /// The script will not continue.
    pub fn give_up(&mut self) {
        self.encoder = None;
    }

    /// Whether the complete content has been coded. The script may continue.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether other tasks should run; asked once per turn.
    pub fn ends_turn(&mut self) -> bool {
        let ends = self.turn >= TURN;
        self.turn = if ends { 0 } else { self.turn };
        ends
    }

    /// Its memory, bytes.
    pub fn in_memory(&self) -> usize {
        if self.encoder.is_some() { ENCODER_BYTES } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn coder(announced: Option<u64>) -> Coder {
        Coder::new(Coding::Gzip, announced).unwrap()
    }

    fn text(coded: &[u8]) -> String {
        let mut text = String::new();
        flate2::read::GzDecoder::new(coded).read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn it_ends_where_the_script_said_so() {
        let (mut coder, mut out) = (coder(Some(8)), Vec::new());
        coder.push(b"hello", &mut out);
        assert!(!coder.is_whole() && coder.in_memory() > 0);
        coder.push(b" world", &mut out);
        assert!(coder.is_whole() && coder.in_memory() == 0);
        coder.push(b" and more", &mut out);
        coder.flush(&mut out);
        coder.end(&mut out);
        assert!(coder.is_whole());
        assert_eq!(text(&out), "hello wo");
    }

    #[test]
    fn less_than_was_announced_is_not_whole() {
        let (mut coder, mut out) = (coder(Some(8)), Vec::new());
        coder.push(b"hello", &mut out);
        coder.end(&mut out);
        assert!(!coder.is_whole());
        assert!(flate2::read::GzDecoder::new(&out[..]).read_to_end(&mut Vec::new()).is_err());
    }

    #[test]
    fn nothing_is_flushed_twice() {
        let (mut coder, mut out) = (coder(None), Vec::new());
        coder.push(b"hello", &mut out);
        coder.flush(&mut out);
        let length = out.len();
        coder.push(b"", &mut out);
        coder.flush(&mut out);
        assert_eq!(out.len(), length);
        coder.end(&mut out);
        assert!(coder.is_whole());
        assert_eq!(text(&out), "hello");
    }

    #[test]
    fn others_have_their_turn() {
        let (mut coder, mut out) = (coder(None), Vec::new());
        coder.push(&[0; TURN - 1], &mut out);
        assert!(!coder.ends_turn());
        coder.push(&[0; 1], &mut out);
        assert!(coder.ends_turn() && !coder.ends_turn());
    }
}

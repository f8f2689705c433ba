//! An answer that is coded where it is made: between its script and those who take it. So an encoder lives no longer than a
//! script writes, however slow its clients are, and what waits for them is small.

use millrace_wire::encoding::Coding;

use super::encoder::{ENCODER_BYTES, Encoder, TURN};

/// Codes the rest of an answer.
#[derive(Debug)]
pub struct Coder {
    /// `None`: nothing follows.
    encoder: Option<Encoder>,
    /// Bytes that are still to come, as the script announced.
    left: Option<u64>,
    /// Something is in the encoder that cannot be read yet.
    held: bool,
    /// Bytes that it has coded in this turn.
    turn: usize,
    /// It came to its end well.
    whole: bool,
}

impl Coder {
    /// One that has coded nothing; `None`: there is no memory for it. The script announced so many bytes.
    pub fn new(coding: Coding, announced: Option<u64>) -> Option<Coder> {
        let encoder = Some(Encoder::new(coding)?);
        Some(Coder { encoder, left: announced, held: false, turn: 0, whole: false })
    }

    /// Codes a piece; what is ready of it comes to the end of `out`. What goes beyond the announced length is not sent.
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

    /// Everything so far comes to the end of `out`.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.held)
            && let Some(encoder) = &mut self.encoder
            && encoder.flush(out).is_err()
        {
            self.encoder = None;
        }
    }

    /// The script has made all.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(encoder) = self.encoder.take() {
            // Less than was announced: the client must notice.
            self.whole = matches!(self.left, None | Some(0)) && encoder.finish(out).is_ok();
        }
    }

    /// The script will not go on.
    pub fn give_up(&mut self) {
        self.encoder = None;
    }

    /// Whether all has been coded that is to be sent. The script may go on.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether it is somebody else's turn; asked once a turn.
    pub fn ends_turn(&mut self) -> bool {
        let ends = self.turn >= TURN;
        self.turn = if ends { 0 } else { self.turn };
        ends
    }

    /// Bytes of memory that it takes.
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

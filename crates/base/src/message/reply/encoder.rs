//! Codes content piece by piece as it passes. Levels are chosen so that coding takes less time than sending what it
//! saves, and windows so that an encoder takes little memory, because each running script may have one.

use std::io::{self, Write};

use brotli::enc::BrotliEncoderParams;
use millrace_wire::encoding::Coding;
use zstd::stream::raw::CParameter;

/// Approximate memory of an encoder, bytes.
pub const ENCODER_BYTES: usize = 384 << 10;

/// Bytes coded before other tasks of the thread run: a millisecond or less.
pub const TURN: usize = 128 << 10;

/// Window of zstd and brotli, as a power of two: 64 KiB. That of gzip is 32 KiB.
const WINDOW: u32 = 16;

/// Encodes one content.
pub struct Encoder(EncoderKind);

/// Each writes into its own buffer, which is emptied after every call.
enum EncoderKind {
    Gzip(flate2::write::GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<brotli::CompressorWriter<Vec<u8>>>),
}

impl Encoder {
    /// An encoder; `None` for [`Coding::Identity`], and if there is no memory for it.
    pub fn new(coding: Coding) -> Option<Encoder> {
        Some(Encoder(match coding {
            Coding::Identity => return None,
            Coding::Gzip => {
                EncoderKind::Gzip(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()))
            }
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).ok()?;
                encoder.set_parameter(CParameter::WindowLog(WINDOW)).ok()?;
                EncoderKind::Zstd(encoder)
            }
            Coding::Brotli => {
                let parameters =
                    BrotliEncoderParams { quality: 1, lgwin: WINDOW as i32, ..Default::default() };
                EncoderKind::Brotli(Box::new(brotli::CompressorWriter::with_params(
                    Vec::new(),
                    4096,
                    &parameters,
                )))
            }
        }))
    }

    /// Codes a piece. Appends the ready part of the result to `out`, perhaps nothing.
    ///
    /// # Errors
    /// The encoder has no memory; it is unusable.
    pub fn write(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.writer().write_all(piece)?;
        out.append(self.made());
        Ok(())
    }

    /// Appends the rest of the pieces so far to `out`: a reader can then decode all of them.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.writer().flush()?;
        out.append(self.made());
        Ok(())
    }

    /// The content is complete: appends the rest to `out`.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        let mut rest = match self.0 {
            EncoderKind::Gzip(encoder) => encoder.finish()?,
            EncoderKind::Zstd(encoder) => encoder.finish()?,
            EncoderKind::Brotli(encoder) => encoder.into_inner(),
        };
        out.append(&mut rest);
        Ok(())
    }

    fn writer(&mut self) -> &mut dyn Write {
        match &mut self.0 {
            EncoderKind::Gzip(encoder) => encoder,
            EncoderKind::Zstd(encoder) => encoder,
            EncoderKind::Brotli(encoder) => encoder,
        }
    }

    fn made(&mut self) -> &mut Vec<u8> {
        match &mut self.0 {
            EncoderKind::Gzip(encoder) => encoder.get_mut(),
            EncoderKind::Zstd(encoder) => encoder.get_mut(),
            EncoderKind::Brotli(encoder) => encoder.get_mut(),
        }
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::readable;

    const ALL: [Coding; 3] = [Coding::Gzip, Coding::Zstd, Coding::Brotli];

    #[test]
    fn what_is_flushed_can_be_read() {
        for coding in ALL {
            let (mut encoder, mut out) = (Encoder::new(coding).unwrap(), Vec::new());
            let mut all = Vec::new();
            for piece in ["one", " and two", "", " and some more of it"] {
                encoder.write(piece.as_bytes(), &mut out).unwrap();
                encoder.flush(&mut out).unwrap();
                all.extend_from_slice(piece.as_bytes());
                assert_eq!(readable(coding, &out), all, "{coding:?}");
            }
            encoder.finish(&mut out).unwrap();
            assert_eq!(readable(coding, &out), all, "{coding:?}");
        }
        assert!(Encoder::new(Coding::Identity).is_none());
    }

    #[test]
    fn a_long_content_comes_out_before_its_end_and_shrinks() {
        let line: Vec<u8> =
            (0..64_000u32).flat_map(|n| format!("{n:05} of many lines\n").into_bytes()).collect();
        for coding in ALL {
            let (mut encoder, mut out) = (Encoder::new(coding).unwrap(), Vec::new());
            for piece in line.chunks(50_000) {
                encoder.write(piece, &mut out).unwrap();
            }
            assert!(!out.is_empty(), "{coding:?} holds all back");
            encoder.finish(&mut out).unwrap();
            assert!(out.len() < line.len() / 3, "{coding:?} {}", out.len());
            assert_eq!(readable(coding, &out), line, "{coding:?}");
        }
    }
}

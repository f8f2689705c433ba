//! Chunked content: however the input is split, the decoder returns the same bytes or the same error; and it reads what
//! we write. The first byte of the input chooses the split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millrace_wire::chunked::{self, ChunkedDecoder, Malformed};

fuzz_target!(|input: &[u8]| {
    let Some((&step, input)) = input.split_first() else { return };
    let step = usize::from(step).max(1);
    let whole = decode(input, usize::MAX);
    assert_eq!(whole, decode(input, step), "torn every {step} bytes");
    if let Ok((content, taken, _)) = &whole {
        assert!(content.len() <= *taken && *taken <= input.len());
    }

    let mut coded = Vec::new();
    input.chunks(step).for_each(|piece| chunked::encode(piece, &mut coded));
    coded.extend_from_slice(chunked::END);
    assert_eq!(decode(&coded, step), Ok((input.to_vec(), coded.len(), true)));
});

/// The content, the number of bytes consumed, and whether the end was reached; fed `step` bytes at a time.
fn decode(input: &[u8], step: usize) -> Result<(Vec<u8>, usize, bool), Malformed> {
    let mut decoder = ChunkedDecoder::default();
    let (mut content, mut taken) = (Vec::new(), 0);
    for piece in input.chunks(step.min(input.len().max(1))) {
        let mut rest = piece;
        while !rest.is_empty() && !decoder.is_done() {
            let (n, bytes) = decoder.decode(rest)?;
            assert!(n > 0, "the decoder stands still");
            content.extend_from_slice(bytes);
            taken += n;
            rest = &rest[n..];
        }
    }
    Ok((content, taken, decoder.is_done()))
}

//! HTTP/1 responses: however they are split, they are the same responses, or the same error. The first byte of the
//! input chooses the split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millrace_wire::chunked::Malformed;
use millrace_wire::response::{Collector, Item, Reader, Response, fields};

fuzz_target!(|input: &[u8]| {
    let Some((&step, input)) = input.split_first() else { return };
    let (step, is_head) = (usize::from(step >> 1).max(1), step & 1 == 1);
    let whole = read(input, input.len().max(1), is_head);
    let torn = read(input, step, is_head);
    assert_eq!(whole, torn, "torn every {step} bytes");
    assert_eq!(collect(input, input.len().max(1), is_head), collect(input, step, is_head), "torn every {step} bytes");
    let _ = fields(input);
});

fn collect(input: &[u8], step: usize, is_head: bool) -> Result<Response, Malformed> {
    let mut collector = Collector::new(is_head, usize::MAX);
    for piece in input.chunks(step) {
        if let Some(response) = collector.feed(piece)? {
            return Ok(response);
        }
    }
    collector.end()
}

/// Statuses, content, number of complete responses, and whether another one has begun.
type Seen = (Vec<u16>, Vec<u8>, usize, bool);

fn read(input: &[u8], step: usize, is_head: bool) -> Result<Seen, Malformed> {
    let (mut reader, mut left) = (Reader::default(), Vec::new());
    let (mut statuses, mut content, mut ends) = (Vec::new(), Vec::new(), 0);
    for piece in input.chunks(step) {
        left.extend_from_slice(piece);
        loop {
            let (taken, item) = reader.read(&left, is_head)?;
            assert!(taken <= left.len());
            let stands_still = taken == 0 && item.is_none();
            match item {
                Some(Item::Head(head)) => {
                    assert!((100..=599).contains(&head.status));
                    statuses.push(head.status);
                }
                Some(Item::Content(part)) => content.extend_from_slice(part),
                Some(Item::End) => ends += 1,
                None => {}
            }
            left.drain(..taken);
            if stands_still {
                break;
            }
        }
    }
    assert!(ends <= statuses.len());
    Ok((statuses, content, ends, reader.is_within()))
}

//! Records from a FastCGI application, and records that we send for a client: however they are split, the response is
//! the same, its head is found once, and the result obeys the rules. The first byte of the input chooses the split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millrace_wire::fastcgi::{RecordError, RecordDecoder, RequestEnd, HEAD_MAX, CgiHead, ParsedRequest, Record, RequestRecords, RecordStep, max_connections, stdin};

fuzz_target!(|input: &[u8]| {
    let Some((&step, input)) = input.split_first() else { return };
    let whole = read(input, usize::MAX >> 1);
    let torn = read(input, usize::from(step).max(1));
    assert_eq!(whole, torn, "torn every {step} bytes");
    head(&whole.stdout, usize::from(step).max(1));
    head(input, usize::from(step).max(1));
    if let Ok(Some((_, taken))) = ParsedRequest::decode(input) {
        assert!(taken <= input.len());
    }
    let _ = max_connections(input);
    written(input, step);
});

#[derive(Debug, Default, PartialEq)]
struct Answer {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    ends: Vec<RequestEnd>,
    broken: Option<RecordError>,
}

fn read(input: &[u8], step: usize) -> Answer {
    let (mut decoder, mut answer) = (RecordDecoder::default(), Answer::default());
    decoder.begin();
    let (mut start, mut end) = (0, 0);
    loop {
        match decoder.next(&input[start..end]) {
            Ok(RecordStep::Record(record, taken)) => {
                assert!(taken > 0 && start + taken <= end);
                start += taken;
                match record {
                    Record::Stdout(piece) => {
                        assert!(!piece.is_empty());
                        answer.stdout.extend_from_slice(piece);
                    }
                    Record::Stderr(piece) => {
                        assert!(!piece.is_empty());
                        answer.stderr.extend_from_slice(piece);
                    }
                    Record::End(end) => {
                        answer.ends.push(end);
                        decoder.begin();
                    }
                }
            }
            Ok(RecordStep::Skip(taken)) => {
                assert!(taken > 0 && start + taken <= end);
                start += taken;
            }
            Ok(RecordStep::Partial) => {
                assert!(end - start < 16, "more is kept than need be");
                if end == input.len() {
                    return answer;
                }
                end = (end + step).min(input.len());
            }
            Err(broken) => {
                answer.broken = Some(broken);
                return answer;
            }
        }
    }
}

/// The head is the same whether it arrives at once or in pieces.
fn head(input: &[u8], step: usize) {
    let whole = CgiHead::parse(input, 0);
    let mut known = 0;
    let found = loop {
        let end = (known + step).min(input.len());
        match CgiHead::parse(&input[..end], known) {
            Ok(None) if end < input.len() => known = end,
            other => break other,
        }
    };
    assert_eq!(found, whole);
    if let Ok(Some((head, taken))) = whole {
        assert!(taken <= input.len() && taken <= HEAD_MAX + 2);
        for (name, value) in head.fields() {
            assert!(!name.is_empty() && !name.iter().any(|b| matches!(b, 0..=b' ' | b':')));
            assert!(!value.iter().any(|b| matches!(b, 0 | b'\r' | b'\n')));
        }
    }
}

/// What is written is read back.
fn written(input: &[u8], step: u8) {
    let mut out = Vec::new();
    let mut request = RequestRecords::begin(&mut out, step & 1 == 0);
    let parts: Vec<&[u8]> = input.chunks(usize::from(step).max(1)).take(200).collect();
    parts.iter().for_each(|part| request.parts(b"NAME", &[part]));
    request.finish().expect("it is short");
    stdin(&mut out, input);
    let (parsed, taken) = ParsedRequest::decode(&out).expect("our own").expect("complete");
    assert_eq!((taken, parsed.keep), (out.len(), step & 1 == 0));
    assert_eq!(parsed.content, input);
    assert!(parsed.variables.iter().map(|(_, value)| &value[..]).eq(parts));
}

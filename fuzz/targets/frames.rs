//! Frames from a PHP worker or host with corrupt memory: however they are split, the frames are the same, and the
//! result obeys the rules. The first byte of the input chooses the split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millrace_wire::frames::control::Message;
use millrace_wire::frames::{FrameError, FrameDecoder, Frame, ParsedFrame, FrameStep};

fuzz_target!(|input: &[u8]| {
    let Some((&step, input)) = input.split_first() else { return };
    let whole = read(input, usize::MAX);
    let torn = read(input, usize::from(step).max(1));
    assert_eq!(whole, torn, "torn every {step} bytes");

    if let Ok(Message::Ready(started)) = Message::decode(input) {
        assert!(started.lines().all(|(key, _)| started.get(key).is_some()));
    }
    if let Ok(Some((_, taken))) = ParsedFrame::decode(input) {
        assert!(taken <= input.len());
        assert!(ParsedFrame::decode(&input[..taken - 1]).is_ok_and(|parsed| parsed.is_none()));
        assert!(ParsedFrame::decode(&input[..taken]).is_ok_and(|parsed| parsed.is_some()));
    }
});

/// All frames but content as text, the content in one piece, and the error at the end.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    frames: Vec<String>,
    content: Vec<u8>,
    broken: Option<FrameError>,
}

/// Reads one response after the other, as a server that receives `step` bytes at a time.
fn read(input: &[u8], step: usize) -> Answer {
    let mut decoder = FrameDecoder::default();
    decoder.begin();
    let mut answer = Answer::default();
    let (mut start, mut end) = (0, 0);
    loop {
        match decoder.next(&input[start..end]) {
            Ok(FrameStep::Frame(frame, taken)) => {
                assert!(taken > 0 && start + taken <= end);
                start += taken;
                let done = matches!(frame, Frame::End(end) | Frame::Ready(end) if end.ready || end.exiting);
                note(&mut answer, &frame);
                if done && !decoder.answering() {
                    decoder.begin();
                }
            }
            Ok(FrameStep::Partial(wanted)) => {
                assert!(wanted > end - start, "it wants what it has");
                if end == input.len() {
                    return answer;
                }
                end = end.saturating_add(step).min(input.len());
            }
            Err(broken) => {
                answer.broken = Some(broken);
                return answer;
            }
        }
    }
}

fn note(answer: &mut Answer, frame: &Frame<'_>) {
    match frame {
        Frame::Body(piece) => {
            assert!(!piece.is_empty());
            answer.content.extend_from_slice(piece);
        }
        Frame::Head(head) => {
            assert!((200..=999).contains(&head.status));
            let clean = |text: &[u8]| !text.iter().any(|b| matches!(b, 0 | b'\r' | b'\n'));
            assert!(clean(head.reason));
            assert_eq!(head.fields().count(), head.count);
            assert!(head.fields().all(|(name, value)| !name.is_empty() && clean(name) && clean(value)));
            answer.frames.push(format!("{head:?} at {}", answer.content.len()));
        }
        Frame::Note { text, .. } => {
            assert!(!text.is_empty() && !text.iter().any(|b| matches!(b, 0 | b'\r' | b'\n')));
            answer.frames.push(format!("{frame:?} at {}", answer.content.len()));
        }
        frame => answer.frames.push(format!("{frame:?} at {}", answer.content.len())),
    }
}

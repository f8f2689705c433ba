//! The turns of a connection, driven by clients in memory that write frames by hand.

use std::collections::BTreeMap;

use super::watch::PREFACE;
use crate::connection::MemoryClient;
use crate::protocol::tests::{HOUR, LARGE, SMALL, TestLoop, large, play, splits};
use millrace_base::context::stats::Counter;

// Types of frames (RFC 9113 section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// SETTINGS_INITIAL_WINDOW_SIZE.
const WINDOW: u16 = 4;

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
struct FrameSeen {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A client's first bytes: it has room for this much of each response.
fn greeting(window: u32) -> Vec<u8> {
    let setting = [&WINDOW.to_be_bytes()[..], &window.to_be_bytes()].concat();
    [PREFACE.as_slice(), &frame(SETTINGS, 0, 0, &setting)].concat()
}

/// A request, without dynamic compression (RFC 7541 section 6.2.2).
fn get(stream: u32, path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x86];
    for (index, value) in [(1, "a"), (4, path)] {
        block.extend([index, value.len() as u8]);
        block.extend_from_slice(value.as_bytes());
    }
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
}

fn more(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// The complete frames.
fn frames(mut bytes: &[u8]) -> Vec<FrameSeen> {
    let mut frames = Vec::new();
    while bytes.len() >= 9 {
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]) as usize;
        let Some(payload) = bytes.get(9..9 + length) else { break };
        let stream = u32::from_be_bytes(bytes[5..9].try_into().unwrap());
        frames.push(FrameSeen { kind: bytes[3], flags: bytes[4], stream, payload: payload.to_vec() });
        bytes = &bytes[9 + length..];
    }
    frames
}

/// The response on a stream.
#[derive(Debug, Default, PartialEq, Eq)]
struct StreamAnswer {
    /// 0: a status without an index in HPACK's static table.
    status: u16,
    content: Vec<u8>,
    is_whole: bool,
}

fn whole(status: u16, content: &[u8]) -> StreamAnswer {
    StreamAnswer { status, content: content.to_vec(), is_whole: true }
}

fn answers(bytes: &[u8]) -> BTreeMap<u32, StreamAnswer> {
    let mut answers: BTreeMap<u32, StreamAnswer> = BTreeMap::new();
    for FrameSeen { kind, flags, stream, payload } in frames(bytes) {
        if !matches!(kind, DATA | HEADERS) {
            continue;
        }
        let answer = answers.entry(stream).or_default();
        answer.is_whole = flags & END_STREAM != 0;
        match (kind, payload.first()) {
            (DATA, _) => answer.content.extend(payload),
            (_, Some(0x88)) => answer.status = 200,
            (_, Some(0x8d)) => answer.status = 404,
            _ => {}
        }
    }
    answers
}

/// The received bytes when the responses on these streams are complete.
async fn until(client: &MemoryClient, streams: &[u32]) -> Vec<u8> {
    let is_whole = |bytes: &[u8]| {
        let answers = answers(bytes);
        streams.iter().all(|stream| answers.get(stream).is_some_and(|answer| answer.is_whole))
    };
    client.wait(is_whole).await
}

/// The codes of the received GOAWAY frames.
fn goodbyes(bytes: &[u8]) -> Vec<u32> {
    let codes = frames(bytes).into_iter().filter(|frame| frame.kind == GOAWAY);
    codes.map(|frame| u32::from_be_bytes(frame.payload[4..8].try_into().unwrap())).collect()
}

fn scene() -> TestLoop {
    TestLoop::new(|http| http.h2c = true)
}

#[test]
fn requests_get_the_same_answers_in_whatever_pieces_they_come() {
    play(async || {
        let scene = scene();
        let all = [greeting(1 << 20), get(1, "/a.txt"), get(3, "/none"), get(5, "/a.txt")].concat();
        for pieces in splits(&all) {
            let client = scene.connect();
            pieces.iter().for_each(|piece| client.send(piece));
            let mut answers = answers(&until(&client, &[1, 3, 5]).await);
            let missing = answers.remove(&3).unwrap();
            assert!(missing.status == 404 && !missing.content.is_empty(), "{missing:?}");
            let expected = [1, 5].map(|stream| (stream, whole(200, SMALL.as_bytes())));
            assert_eq!(answers, BTreeMap::from(expected), "{} bytes first", pieces[0].len());
        }
        scene.is_over().await;
    });
}

#[test]
fn a_client_that_has_begun_otherwise_is_taken_for_one_of_http_1() {
    play(async || {
        let scene = scene();
        for pieces in splits(b"PUT /a.txt HTTP/1.1\r\nHost: a\r\n\r\n") {
            let answer = scene.answer(pieces.iter().copied()).await;
            assert!(answer.starts_with(b"HTTP/1.1 405 "), "{} bytes first", pieces[0].len());
        }
        // The rest of the preface is missing.
        let answer = scene.answer([b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".as_slice()]).await;
        assert_eq!(answers(&answer), BTreeMap::new());
        scene.is_over().await;
    });
}

#[test]
fn each_stream_gets_what_it_has_room_for() {
    play(async || {
        let scene = scene();
        let client = scene.connect();
        client.send([greeting(5), get(1, "/a.txt"), get(3, "/a.txt"), more(3, 100)].concat());
        let mut all = until(&client, &[3]).await;
        client.send([get(5, "/a.txt"), more(5, 7)].concat());
        all.extend(until(&client, &[5]).await);
        let start = StreamAnswer { status: 200, content: SMALL.as_bytes()[..5].to_vec(), is_whole: false };
        let both = [3, 5].map(|stream| (stream, whole(200, SMALL.as_bytes())));
        assert_eq!(answers(&all), BTreeMap::from_iter([(1, start)].into_iter().chain(both)));
        client.send(more(1, 100));
        all.extend(until(&client, &[1]).await);
        assert_eq!(answers(&all)[&1], whole(200, SMALL.as_bytes()));
    });
}

#[test]
fn what_a_client_cancels_is_not_sent() {
    play(async || {
        let scene = scene();
        let client = scene.connect();
        client.send([greeting(5), get(1, "/a.txt"), get(3, "/a.txt")].concat());
        let mut all =
            client.wait(|bytes| answers(bytes).values().filter(|a| a.content.len() == 5).count() == 2).await;
        let cancel = frame(RST_STREAM, 0, 1, &8u32.to_be_bytes());
        client.send([cancel, more(3, 7), get(5, "/a.txt"), more(5, 7)].concat());
        all.extend(until(&client, &[3, 5]).await);
        let answers = answers(&all);
        assert_eq!(answers[&3], whole(200, SMALL.as_bytes()));
        assert_eq!(answers[&1].content.len(), 5);
        assert_eq!(scene.count(Counter::H2Resets), 1);
    });
}

#[test]
fn a_client_with_little_room_gets_all_and_one_that_takes_nothing_is_cut_off() {
    play(async || {
        let scene = scene();
        let ask = || [greeting(LARGE as u32), more(0, LARGE as u32), get(1, "/large.bin")].concat();
        let client = scene.connect();
        client.set_room(10_000);
        client.send(ask());
        assert_eq!(answers(&until(&client, &[1]).await)[&1], whole(200, &large()));
        drop(client);
        scene.is_over().await;
        let client = scene.connect();
        client.set_room(1000);
        client.send(ask());
        scene.until(Counter::ConnectionsWriting, 1).await;
        scene.sweep(HOUR / 2);
        tokio::task::yield_now().await;
        assert!(!client.is_reset());
        scene.sweep(HOUR);
        scene.is_over().await;
        assert!(client.is_reset() && client.is_answered());
    });
}

#[test]
fn a_server_that_ends_says_so_and_lets_requests_finish() {
    play(async || {
        let scene = scene();
        let (idle, waits) = (scene.connect(), scene.connect());
        idle.send([greeting(99), get(1, "/a.txt")].concat());
        until(&idle, &[1]).await;
        waits.send([greeting(5), get(1, "/a.txt")].concat());
        let mut all = waits.wait(|bytes| answers(bytes).get(&1).is_some_and(|a| a.content.len() == 5)).await;
        scene.drain();
        let last = idle.rest().await;
        assert!(
            goodbyes(&last).iter().all(|code| *code == 0) && !goodbyes(&last).is_empty(),
            "{:?}",
            frames(&last)
        );
        idle.end();
        all.extend(waits.wait(|bytes| !goodbyes(bytes).is_empty()).await);
        assert!(!waits.is_answered(), "a request is under way");
        waits.send(more(1, 7));
        all.extend(waits.rest().await);
        assert_eq!(answers(&all)[&1], whole(200, SMALL.as_bytes()));
        assert!(goodbyes(&all).iter().all(|code| *code == 0));
        waits.end();
        scene.is_over().await;
    });
}

#[test]
fn a_connection_without_requests_ends_in_time() {
    play(async || {
        let scene = scene();
        let client = scene.connect();
        client.send([greeting(99), get(1, "/a.txt")].concat());
        until(&client, &[1]).await;
        scene.until(Counter::ConnectionsIdle, 1).await;
        scene.sweep(HOUR / 2);
        client.send(get(3, "/a.txt"));
        assert_eq!(answers(&until(&client, &[3]).await)[&3], whole(200, SMALL.as_bytes()));
        scene.until(Counter::ConnectionsIdle, 1).await;
        scene.sweep(HOUR);
        assert_eq!(goodbyes(&client.rest().await), [0]);
        assert_eq!(scene.count(Counter::ConnectionsTimedOut), 1);
    });
}

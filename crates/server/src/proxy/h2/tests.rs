//! Applications that send exactly the frames that a test wants.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millrace_settings::plan::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, LocalSet};

use super::link::STREAM_BYTES;
use crate::proxy::application::Applications;
use crate::proxy::connect::ProxyThread;
use crate::proxy::head::tests::{proxy, request};
use crate::proxy::run::run;
use millrace_base::context::log::Log;
use millrace_base::context::stats::{Counter, Registry};
use millrace_base::context::{Context, Process};
use millrace_base::message::reply::{Body, Fields, Reply};
use millrace_base::message::request::Content;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// END_STREAM and END_HEADERS.
const END: u8 = 1;
const WHOLE: u8 = 4;

/// `:status: 200`, from the static table.
const OK: &[u8] = b"\x88";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}

/// A literal field without an index.
fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

/// A connection as the application sees it.
struct Peer {
    socket: UnixStream,
    /// Bytes that have been read, and are not taken.
    buffer: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Peer {
    async fn send(&mut self, frames: &[Vec<u8>]) {
        self.socket.write_all(&frames.concat()).await.unwrap();
    }

    async fn fill(&mut self, bytes: usize) -> bool {
        while self.buffer.len() < bytes {
            let mut piece = [0; 4096];
            match self.socket.read(&mut piece).await {
                Ok(read @ 1..) => self.buffer.extend_from_slice(&piece[..read]),
                _ => return false,
            }
        }
        true
    }

    /// The next frame; `None`: the connection has ended.
    async fn next(&mut self) -> Option<Frame> {
        if !self.fill(9).await {
            return None;
        }
        let length = u32::from_be_bytes([0, self.buffer[0], self.buffer[1], self.buffer[2]]) as usize;
        if !self.fill(9 + length).await {
            return None;
        }
        let whole: Vec<u8> = self.buffer.drain(..9 + length).collect();
        let stream = u32::from_be_bytes([whole[5], whole[6], whole[7], whole[8]]);
        Some(Frame { kind: whole[3], flags: whole[4], stream, payload: whole[9..].to_vec() })
    }

    /// The next frame of this kind; others are skipped.
    async fn expect(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().await.expect("the connection has ended");
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// The stream of the next request.
    async fn request(&mut self) -> u32 {
        self.expect(HEADERS).await.stream
    }

    /// Waits until everything that was sent before has been read.
    async fn ping(&mut self) {
        self.send(&[frame(PING, 0, 0, b"12345678")]).await;
        while self.expect(PING).await.flags != END {}
    }
}

struct Scene {
    thread: Rc<ProxyThread>,
    proxy: Proxy,
    listener: UnixListener,
}

impl Scene {
    /// A connection of Millrace's; `settings`: the application's.
    async fn accept(&self, settings: &[Vec<u8>]) -> Peer {
        let (socket, _) = self.listener.accept().await.unwrap();
        let mut peer = Peer { socket, buffer: Vec::new() };
        assert!(peer.fill(24).await);
        assert_eq!(peer.buffer.drain(..24).collect::<Vec<u8>>(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        peer.send(&[frame(SETTINGS, 0, 0, &settings.concat()), frame(SETTINGS, END, 0, b"")]).await;
        peer
    }

    fn ask(&self, method: &str, content: &[u8]) -> JoinHandle<Reply> {
        let (thread, proxy) = (self.thread.clone(), self.proxy.clone());
        let mut request = request(&format!("{method} /x HTTP/1.1\nHost: b.test\nTE: trailers"));
        if !content.is_empty() {
            request.content = Content::Memory(content.to_vec());
        }
        tokio::task::spawn_local(async move { run(&thread, &proxy, &mut request).await })
    }

    fn get(&self) -> JoinHandle<Reply> {
        self.ask("GET", b"")
    }
}

fn play<F: Future<Output = ()>>(lines: &str, scene: impl FnOnce(Rc<Scene>) -> F) {
    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }
    let number = NUMBER.replace(NUMBER.get() + 1);
    let name = format!("millrace-h2-{}-{:?}-{number}.sock", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name.replace(['(', ')'], ""));
    let proxy = proxy(&format!("path = \"/\"\nto = \"unix:{}\"\nhttp = \"2\"\n{lines}", path.display()));
    let source = millrace_settings::Source { site_dir: Some(std::env::temp_dir()), ..Default::default() };
    let (plan, _) = millrace_settings::load(&source).unwrap();
    let process = Process::new(Registry::new(1), Log::quiet(), 0);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let context = Context::new(0, 1, process, plan.into());
        let thread = ProxyThread::new(&context, &Arc::new(Applications::default()));
        let listener = UnixListener::bind(&path).unwrap();
        let scene = scene(Rc::new(Scene { thread, proxy, listener }));
        tokio::time::timeout(Duration::from_secs(30), scene).await.expect("a test takes too long");
    });
    std::fs::remove_file(path).unwrap();
}

/// Content and trailers.
async fn whole(reply: Reply) -> Option<(String, Fields)> {
    match reply.body {
        Body::Stream(mut stream) => {
            let mut content = Vec::new();
            while stream.next(&mut content).await.ok()? {}
            Some((String::from_utf8(content).unwrap(), stream.take_trailers()))
        }
        Body::Bytes(bytes) => Some((String::from_utf8(bytes).unwrap(), Fields::default())),
        _ => Some(Default::default()),
    }
}

#[test]
fn requests_share_a_connection_and_trailers_arrive() {
    play("", |scene| async move {
        let replies = [scene.get(), scene.get(), scene.get()];
        let mut peer = scene.accept(&[]).await;
        let streams = [peer.request().await, peer.request().await, peer.request().await];
        assert_eq!(streams, [1, 3, 5]);
        for stream in [5, 1, 3] {
            let trailers = [field("grpc-status", "0"), field("set-cookie", "a=b")].concat();
            let data = frame(DATA, 0, stream, stream.to_string().as_bytes());
            peer.send(&[
                frame(HEADERS, WHOLE, stream, OK),
                data,
                frame(HEADERS, END | WHOLE, stream, &trailers),
            ])
            .await;
        }
        let mut contents = Vec::new();
        for reply in replies {
            let reply = reply.await.unwrap();
            assert_eq!(reply.status, 200);
            let (content, trailers) = whole(reply).await.unwrap();
            contents.push(content);
            assert_eq!(trailers.blocks().concat(), b"grpc-status: 0\r\n");
        }
        contents.sort_unstable();
        assert_eq!(contents, ["1", "3", "5"]);
        assert_eq!(scene.thread.context.process.stats.value(Counter::ProxyConnections), 1);
    });
}

#[test]
fn more_requests_than_an_application_takes_get_another_connection() {
    play("", |scene| async move {
        let (first, second) = (scene.get(), scene.get());
        let limit = [setting(3, 1)];
        let mut one = scene.accept(&limit).await;
        assert_eq!(one.request().await, 1);
        let mut other = scene.accept(&limit).await;
        assert_eq!(other.request().await, 1);
        for peer in [&mut one, &mut other] {
            peer.send(&[frame(HEADERS, END | WHOLE, 1, OK)]).await;
        }
        assert_eq!((first.await.unwrap().status, second.await.unwrap().status), (200, 200));
    });
}

#[test]
fn no_request_is_sent_before_the_settings_and_their_absence_is_noticed() {
    play("connect_timeout = \"50ms\"\nretries = 0", |scene| async move {
        let reply = scene.get();
        let (socket, _) = scene.listener.accept().await.unwrap();
        let mut peer = Peer { socket, buffer: Vec::new() };
        assert_eq!(reply.await.unwrap().status, 504);
        assert!(peer.fill(24).await);
        peer.buffer.drain(..24);
        // It is closed, and there was no request.
        while let Some(frame) = peer.next().await {
            assert!(frame.kind != HEADERS, "{frame:?}");
        }
    });
}

#[test]
fn an_application_of_http1_is_recognised() {
    play("retries = 0", |scene| async move {
        let reply = scene.get();
        let (mut socket, _) = scene.listener.accept().await.unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n").await.unwrap();
        assert_eq!(reply.await.unwrap().status, 502);
        let application = scene.thread.known(&scene.proxy, &scene.proxy.to[0]);
        let trouble = application.shared.status().trouble.unwrap();
        assert!(trouble.contains("does not speak HTTP/2") && trouble.contains("HTTP/1"), "{trouble}");
    });
}

#[test]
fn requests_beyond_a_goaway_are_sent_again_and_the_others_finish() {
    play("", |scene| async move {
        let first = scene.ask("POST", b"a");
        let mut peer = scene.accept(&[]).await;
        assert_eq!(peer.request().await, 1);
        let second = scene.ask("POST", b"b");
        assert_eq!(peer.request().await, 3);
        let last = [1u32.to_be_bytes(), 0u32.to_be_bytes()].concat();
        peer.send(&[frame(GOAWAY, 0, 0, &last)]).await;
        let mut next = scene.accept(&[]).await;
        assert_eq!(next.request().await, 1);
        assert_eq!(next.expect(DATA).await.payload, b"b");
        next.send(&[frame(HEADERS, END | WHOLE, 1, OK)]).await;
        assert_eq!(second.await.unwrap().status, 200);
        peer.send(&[frame(HEADERS, WHOLE, 1, OK), frame(DATA, END, 1, b"late")]).await;
        let reply = first.await.unwrap();
        assert_eq!((reply.status, whole(reply).await.unwrap().0.as_str()), (200, "late"));
        // It has no more streams, and takes none.
        while peer.next().await.is_some() {}
    });
}

#[test]
fn a_refused_stream_is_safe_to_repeat() {
    for (refusals, expected) in [(1, 200), (2, 200), (3, 502)] {
        play("", |scene| async move {
            let reply = scene.ask("POST", b"hello");
            let mut peer = scene.accept(&[]).await;
            for _ in 0..refusals {
                let stream = peer.request().await;
                peer.send(&[frame(RST_STREAM, 0, stream, &7u32.to_be_bytes())]).await;
            }
            if expected == 200 {
                let stream = peer.request().await;
                assert_eq!(peer.expect(DATA).await.payload, b"hello");
                peer.send(&[frame(HEADERS, END | WHOLE, stream, OK)]).await;
            }
            assert_eq!(reply.await.unwrap().status, expected, "{refusals} refusals");
        });
    }
}

#[test]
fn a_broken_connection_is_a_reason_only_for_what_changes_nothing() {
    play("", |scene| async move {
        for (method, again) in [("POST", false), ("GET", true)] {
            let reply = scene.ask(method, if again { b"" } else { b"x" });
            let mut peer = scene.accept(&[]).await;
            peer.request().await;
            drop(peer);
            if again {
                let mut peer = scene.accept(&[]).await;
                let stream = peer.request().await;
                peer.send(&[frame(HEADERS, END | WHOLE, stream, OK)]).await;
            }
            assert_eq!(reply.await.unwrap().status, if again { 200 } else { 502 }, "{method}");
        }
    });
}

#[test]
fn a_slow_client_holds_back_its_own_response_only() {
    play("", |scene| async move {
        let slow = scene.get();
        let mut peer = scene.accept(&[]).await;
        assert_eq!(peer.request().await, 1);
        let fast = scene.get();
        assert_eq!(peer.request().await, 3);
        peer.send(&[frame(HEADERS, WHOLE, 1, OK)]).await;
        let slow = slow.await.unwrap();
        // As much as there is room for, on a stream whose client reads nothing.
        let pieces: Vec<Vec<u8>> =
            (0..STREAM_BYTES / 16_384).map(|_| frame(DATA, 0, 1, &[b'x'; 16_384])).collect();
        peer.send(&pieces).await;
        peer.send(&[frame(HEADERS, WHOLE, 3, OK), frame(DATA, END, 3, &[b'y'; 16_384])]).await;
        let fast = fast.await.unwrap();
        assert_eq!(whole(fast).await.unwrap().0.len(), 16_384, "it waits for the other");
        peer.send(&[frame(PING, 0, 0, b"12345678")]).await;
        loop {
            let frame = peer.next().await.unwrap();
            assert!((frame.kind, frame.stream) != (WINDOW_UPDATE, 1), "room that nobody has made");
            if frame.kind == PING {
                break;
            }
        }
        let mut content = slow;
        let Body::Stream(stream) = &mut content.body else { panic!("not a stream") };
        let mut taken = Vec::new();
        while taken.len() < STREAM_BYTES as usize {
            assert!(stream.next(&mut taken).await.unwrap());
        }
        while peer.expect(WINDOW_UPDATE).await.stream != 1 {}
        peer.send(&[frame(DATA, END, 1, b"end")]).await;
        assert!(whole(content).await.unwrap().0 == "end");
    });
}

#[test]
fn more_than_there_is_room_for_breaks_the_response_off() {
    play("", |scene| async move {
        let reply = scene.get();
        let mut peer = scene.accept(&[]).await;
        assert_eq!(peer.request().await, 1);
        peer.send(&[frame(HEADERS, WHOLE, 1, OK)]).await;
        let reply = reply.await.unwrap();
        let pieces: Vec<Vec<u8>> =
            (0..=STREAM_BYTES / 16_384).map(|_| frame(DATA, 0, 1, &[b'x'; 16_384])).collect();
        peer.send(&pieces).await;
        assert_eq!(peer.expect(RST_STREAM).await.payload, 3u32.to_be_bytes(), "FLOW_CONTROL_ERROR");
        assert!(whole(reply).await.is_none());
    });
}

#[test]
fn frames_of_a_byte_take_no_endless_memory() {
    play("retries = 0", |scene| async move {
        let mut peer = None;
        let mut replies = Vec::new();
        // No client reads its content: of all streams together too many frames come.
        for number in 0..2 {
            let reply = scene.get();
            if peer.is_none() {
                peer = Some(scene.accept(&[]).await);
            }
            let peer = peer.as_mut().unwrap();
            let stream = peer.request().await;
            assert_eq!(stream, 2 * number + 1);
            peer.send(&[frame(HEADERS, WHOLE, stream, OK)]).await;
            replies.push(reply.await.unwrap());
            let tiny = frame(DATA, 0, stream, b"x").repeat(STREAM_BYTES as usize / 2);
            let _ = peer.socket.write_all(&tiny).await;
        }
        let mut peer = peer.unwrap();
        assert_eq!(peer.expect(GOAWAY).await.payload[4..8], 11u32.to_be_bytes(), "ENHANCE_YOUR_CALM");
        for reply in replies {
            assert!(whole(reply).await.is_none());
        }
    });
}

#[test]
fn an_application_takes_an_upload_at_its_own_pace() {
    play("", |scene| async move {
        let reply = scene.ask("POST", &[b'x'; 25]);
        let mut peer = scene.accept(&[setting(4, 10)]).await;
        assert_eq!(peer.request().await, 1);
        assert_eq!(peer.expect(DATA).await.payload.len(), 10);
        peer.send(&[frame(WINDOW_UPDATE, 0, 1, &10u32.to_be_bytes())]).await;
        assert_eq!(peer.expect(DATA).await.payload.len(), 10);
        peer.send(&[frame(WINDOW_UPDATE, 0, 1, &10u32.to_be_bytes())]).await;
        let last = peer.expect(DATA).await;
        assert_eq!((last.payload.len(), last.flags), (5, END));
        peer.send(&[frame(HEADERS, END | WHOLE, 1, OK)]).await;
        assert_eq!(reply.await.unwrap().status, 200);
    });
}

#[test]
fn an_application_that_takes_no_more_of_an_upload_is_given_up() {
    play("read_timeout = \"100ms\"\nresponse_timeout = \"1h\"\nretries = 0", |scene| async move {
        let reply = scene.ask("POST", &[b'x'; 25]);
        let mut peer = scene.accept(&[setting(4, 10)]).await;
        let stream = peer.request().await;
        assert_eq!(reply.await.unwrap().status, 504);
        assert_eq!(peer.expect(RST_STREAM).await.stream, stream);
    });
}

#[test]
fn an_early_response_ends_the_upload() {
    play("", |scene| async move {
        let reply = scene.ask("POST", &[b'x'; 100_000]);
        let mut peer = scene.accept(&[setting(4, 10)]).await;
        let stream = peer.request().await;
        let refusal = [field(":status", "413"), field("content-length", "3")].concat();
        peer.send(&[
            frame(HEADERS, WHOLE, stream, &refusal),
            frame(DATA, END, stream, b"big"),
            frame(RST_STREAM, 0, stream, &0u32.to_be_bytes()),
        ])
        .await;
        let reply = reply.await.unwrap();
        assert_eq!((reply.status, whole(reply).await.unwrap().0.as_str()), (413, "big"));
    });
}

#[test]
fn a_client_that_goes_resets_its_stream_and_no_other() {
    play("", |scene| async move {
        let gone = scene.get();
        let mut peer = scene.accept(&[]).await;
        assert_eq!(peer.request().await, 1);
        let stays = scene.get();
        assert_eq!(peer.request().await, 3);
        gone.abort();
        let reset = peer.expect(RST_STREAM).await;
        assert_eq!((reset.stream, reset.payload.as_slice()), (1, &8u32.to_be_bytes()[..]), "CANCEL");
        peer.send(&[frame(HEADERS, END | WHOLE, 3, OK)]).await;
        assert_eq!(stays.await.unwrap().status, 200);
        peer.ping().await;
    });
}

#[test]
fn a_connection_on_which_nothing_comes_any_more_gets_no_more_requests() {
    play("response_timeout = \"100ms\"\nretries = 0", |scene| async move {
        let reply = scene.get();
        let mut silent = scene.accept(&[]).await;
        silent.request().await;
        assert_eq!(reply.await.unwrap().status, 504);
        let _reply = scene.get();
        let mut other = scene.accept(&[]).await;
        assert_eq!(other.request().await, 1);
    });
}

#[test]
fn a_connection_that_is_not_read_ends_with_its_requests() {
    play("read_timeout = \"100ms\"\nresponse_timeout = \"1h\"\nretries = 0", |scene| async move {
        let reply = scene.ask("POST", &vec![b'x'; 4 << 20]);
        let mut peer = scene.accept(&[setting(4, 8 << 20)]).await;
        peer.send(&[frame(WINDOW_UPDATE, 0, 0, &(8u32 << 20).to_be_bytes())]).await;
        assert_eq!(reply.await.unwrap().status, 504);
        let application = scene.thread.known(&scene.proxy, &scene.proxy.to[0]);
        while application.shared.status().connections > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        while peer.next().await.is_some() {}
    });
}

#[test]
fn idle_connections_beyond_the_setting_are_closed() {
    play("keepalive = 0", |scene| async move {
        let reply = scene.get();
        let mut peer = scene.accept(&[]).await;
        let stream = peer.request().await;
        peer.send(&[frame(HEADERS, END | WHOLE, stream, OK)]).await;
        assert_eq!(reply.await.unwrap().status, 200);
        assert_eq!(peer.expect(GOAWAY).await.payload[4..8], [0; 4], "NO_ERROR");
        assert!(peer.next().await.is_none());
    });
}

#[test]
fn header_sections_without_end_take_no_memory() {
    // The server's limit: 64 KiB for each; the application's frames never end one.
    play("retries = 0", |scene| async move {
        let reply = scene.get();
        let mut peer = scene.accept(&[]).await;
        let stream = peer.request().await;
        let mut head = vec![frame(HEADERS, 0, stream, OK)];
        head.extend((0..20).map(|_| frame(9, 0, stream, &field("x", &"y".repeat(100)).repeat(150))));
        let _ = peer.socket.write_all(&head.concat()).await;
        assert_eq!(reply.await.unwrap().status, 502);
    });
}

#[test]
fn interim_responses_without_end_are_none() {
    play("retries = 0", |scene| async move {
        let reply = scene.get();
        let mut peer = scene.accept(&[]).await;
        let stream = peer.request().await;
        let interim = frame(HEADERS, WHOLE, stream, &field(":status", "102"));
        peer.send(&vec![interim; 1000]).await;
        assert_eq!(reply.await.unwrap().status, 502);
        while peer.expect(RST_STREAM).await.stream != stream {}
    });
}

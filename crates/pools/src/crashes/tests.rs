use std::future::{pending, ready};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;

use millrace_wire::head::Head;

use super::*;
use millrace_base::message::request::{Content, Ends, Scheme};
use millrace_base::site::WorkerKind;

fn request(method: &str, target: &str, client: &str, fields: &[(&str, &str)]) -> Request {
    let fields = fields.iter().map(|(name, value)| (*name, value.as_bytes()));
    let client: SocketAddr = format!("{client}:4000").parse().unwrap();
    let ends = Ends { client: Some(client), local: None, scheme: Scheme::Http, tls: None };
    Request::direct(Head::from_parts(method, "a.example", target, fields), ends)
}

#[test]
fn what_makes_a_request_another() {
    let keys = RandomState::new();
    let script = script();
    let print = |request: &Request| Print::of_request(&keys, request, &script);
    let of = |method: &str, target: &str, client: &str, fields: &[(&str, &str)]| {
        print(&request(method, target, client, fields))
    };
    let first = of("GET", "/a?s=boom", "192.0.2.1", &[("Cookie", "x=1"), ("X-Ray", "1")]);
    assert_eq!(first, of("GET", "/a?s=boom", "192.0.2.1", &[("Cookie", "x=1"), ("X-Ray", "2")]));
    for other in [
        of("POST", "/a?s=boom", "192.0.2.1", &[("Cookie", "x=1")]),
        of("GET", "/a?s=fine", "192.0.2.1", &[("Cookie", "x=1")]),
        of("GET", "/a?s=boom", "192.0.2.2", &[("Cookie", "x=1")]),
        of("GET", "/a?s=boom", "192.0.2.1", &[("Cookie", "x=2")]),
        of("GET", "/a?s=boom", "192.0.2.1", &[("Cookie", "x=1"), ("User-Agent", "y")]),
    ] {
        assert_ne!(first.exact, other.exact);
        assert_eq!(first.page, other.page);
    }
    let mut post =
        request("POST", "/a", "192.0.2.1", &[("Content-Type", "application/x-www-form-urlencoded")]);
    post.content = Content::Memory(b"action=boom&n=1".to_vec());
    let one = print(&post);
    post.content = Content::Memory(b"action=boom&n=2".to_vec());
    let two = print(&post);
    assert_ne!(one.exact, two.exact);
    assert_eq!((one.shape, &one.traits[..3]), (two.shape, &two.traits[..3]), "the names, and the action");
    assert_ne!(one.traits[3], two.traits[3]);
    let begins = |target: &str| of("GET", target, "192.0.2.1", &[]).traits[1];
    assert_eq!(begins("/?s=boom1"), begins("/?s=boot"));
    assert_ne!(begins("/?s=boom1"), begins("/?s=fine"));
    let ends = |target: &str| of("GET", target, "192.0.2.1", &[]).traits[2];
    assert_eq!(ends("/?s=1boom"), ends("/?s=22boom"));
    assert_ne!(ends("/?s=1boom"), ends("/?t=1boom"));
    let many: Vec<String> = (0..999).map(|number| format!("a{number}=1")).collect();
    assert!(of("GET", &format!("/?{}", many.join("&")), "192.0.2.1", &[]).traits.len() < 20);
    let network = |client: &str| of("GET", "/", client, &[]).source;
    assert_eq!(network("[2001:db8::1]"), network("[2001:db8::2]"));
    assert_ne!(network("[2001:db8::1]"), network("[2001:db8:0:1::1]"));
}

fn script() -> Script {
    Script {
        filename: Rc::from(&b"/srv/index.php"[..]),
        name: b"/index.php".to_vec(),
        path_info: Vec::new(),
        workers: WorkerKind::Ordinary,
    }
}

#[tokio::test]
async fn the_flag_is_taken_down() {
    let ban = Ban::new(Duration::from_millis(200), 4, Instant::now());
    let script = script();
    let deadly = request("GET", "/a?s=boom", "192.0.2.1", &[]);
    let enter = async |request: &Request| {
        let never = pin!(pending());
        ban.enter(request, &script, Duration::from_secs(5), never).await
    };
    assert!(enter(&deadly).await.unwrap().is_none());
    for _ in 0..2 {
        let task = Task { print: Some(Print::of_request(&ban.keys, &deadly, &script)), ..Task::default() };
        ban.died(&task, ban.now());
    }
    assert_eq!(enter(&deadly).await.unwrap_err(), Denied::Killer);
    let fine = request("GET", "/a?s=fine", "192.0.2.1", &[]);
    let pass = enter(&fine).await.unwrap().unwrap();
    assert!(pass.is_suspect());
    pass.ended_well();
    assert!(!enter(&fine).await.unwrap().unwrap().is_suspect(), "it has proved good");
    while ban.any.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let _ = enter(&deadly).await;
    }
}

#[tokio::test]
async fn a_few_at_a_time() {
    let ban = Ban::new(Duration::from_secs(60), 4, Instant::now());
    let script = script();
    let task = |target: &[u8]| Task {
        script: script.filename.to_vec(),
        target: target.to_vec(),
        client: Some("192.0.2.1".parse().unwrap()),
        ..Task::default()
    };
    for _ in 0..2 {
        ban.died(&task(b"/a?s=boom"), 0);
    }
    let asked: Vec<_> = (0..9).map(|n| request("GET", &format!("/a?n={n}"), "192.0.2.2", &[])).collect();
    let brief = Duration::from_millis(20);
    let one = ban.enter(&asked[0], &script, brief, pin!(pending())).await.unwrap().unwrap();
    let _two = ban.enter(&asked[1], &script, brief, pin!(pending())).await.unwrap().unwrap();
    assert_eq!(ban.enter(&asked[2], &script, brief, pin!(pending())).await.unwrap_err(), Denied::Crowd);
    assert_eq!(ban.enter(&asked[3], &script, brief, pin!(ready(()))).await.unwrap_err(), Denied::Gone);
    let long = Duration::from_secs(60);
    let never = pin!(pending());
    let waiting = ban.enter(&asked[4], &script, long, never);
    let (third, ()) = tokio::join!(waiting, async move { drop(one) });
    // A worker that dies holds its place a little longer.
    let mut third = third.unwrap().unwrap();
    third.set_lost();
    let since = Instant::now();
    drop(third);
    let _fourth = ban.enter(&asked[5], &script, long, pin!(pending())).await.unwrap().unwrap();
    assert!(since.elapsed() >= Duration::from_millis(line::HOLD_MS[0]));
    // Another page of the script is not affected.
    let other = request("GET", "/b?s=boom", "192.0.2.1", &[]);
    assert!(!ban.enter(&other, &script, brief, pin!(pending())).await.unwrap().unwrap().is_suspect());
}

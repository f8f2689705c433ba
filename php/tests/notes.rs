//! What a script says to the page cache: functions, frames and their order.

mod driver;

use driver::{Ask, Host, Sent, Worker};
use millrace_wire::frames::NoteKind::{self, Control, Origin, Purge, Tag};

fn start() -> (Host, Worker) {
    let mut host = Host::start("zend_extension=opcache\n", &[]);
    let worker = host.worker(0);
    (host, worker)
}

fn notes(list: &[(NoteKind, &str)]) -> Vec<(NoteKind, String)> {
    list.iter().map(|(kind, text)| (*kind, (*text).to_owned())).collect()
}

/// Order of the frames of one answer, in short.
fn frames(worker: &mut Worker, ask: &Ask) -> Vec<String> {
    worker.send(ask);
    let mut seen = Vec::new();
    loop {
        match worker.next() {
            Sent::Head(..) => seen.push("head".to_owned()),
            Sent::Early(links) => seen.push(format!("early {links:?}")),
            Sent::Body(piece) => seen.push(format!("{}", String::from_utf8_lossy(&piece))),
            Sent::Note(kind, text) => seen.push(format!("{kind:?} {text}")),
            Sent::Log(text) => seen.push(format!("log {text}")),
            Sent::Closed | Sent::Handler(_) => panic!("the worker has gone: {seen:?}"),
            Sent::Ready(_) => {
                seen.push("ready".to_owned());
                return seen;
            }
            Sent::End(end) => {
                seen.push("end".to_owned());
                if end.ready {
                    return seen;
                }
            }
        }
    }
}

#[test]
fn notes_arrive_in_the_grammar_of_the_headers() {
    let (host, mut worker) = start();
    let script = host.script(
        "page.php",
        "<?php echo json_encode([millrace_tag('post-1', 'straße'), millrace_tag(), millrace_tag(17),
         millrace_cache_control('public, max-age=60'), millrace_purge('hard', '/a*', '*'), millrace_purge()]);",
    );
    for _ in 0..2 {
        let answer = worker.run(&Ask::get(&script));
        assert_eq!(answer.text(), "[true,true,true,true,true,true]", "{:?}", answer.log);
        let said =
            [(Tag, "post-1, straße"), (Tag, "17"), (Control, "public, max-age=60"), (Purge, "hard, /a*, *")];
        let first = answer.notes.iter().position(|note| note.0 == Purge).unwrap();
        let mut rest = answer.notes.clone();
        assert_eq!(rest.remove(first), (Purge, "hard, /a*, *".to_owned()), "at once");
        assert_eq!(rest, notes(&said), "and again at the end");
    }
    let silent = host.script("silent.php", "<?php echo 'x';");
    assert_eq!(worker.run(&Ask::get(&silent)).notes, [], "nothing is left of the request before");
}

#[test]
fn purges_go_at_once_and_again_at_the_end() {
    let (host, mut worker) = start();
    let script = host.script(
        "page.php",
        "<?php echo 'a'; millrace_tag('t'); echo 'b'; millrace_purge('p'); millrace_purge('q'); millrace_purge('p');
         echo 'c'; millrace_tag('u');",
    );
    let seen = frames(&mut worker, &Ask::get(&script));
    let expected =
        ["Purge p", "Purge q", "Purge p", "head", "a", "Tag t", "bc", "Tag u", "Purge p", "Purge q", "end"];
    assert_eq!(seen, expected);
}

#[test]
fn purges_in_the_background_go_before_ready() {
    let (host, mut worker) = start();
    let script = host.script(
        "page.php",
        "<?php echo 'a'; millrace_purge('p'); fastcgi_finish_request();
         $late = [millrace_tag('t'), millrace_cache_control('no-store'), millrace_purge('hard', 'q')];
         error_log(json_encode($late));",
    );
    let seen = frames(&mut worker, &Ask::get(&script));
    let expected = [
        "Purge p",
        "head",
        "a",
        "Purge p",
        "end",
        "Purge hard, q",
        "log [false,false,true]",
        "Purge p",
        "Purge hard, q",
        "ready",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn purges_of_shutdown_functions_and_destructors_are_heard() {
    let (host, mut worker) = start();
    let script = host.script(
        "page.php",
        "<?php class D { function __destruct() { millrace_purge('destructor'); } } $d = new D;
         register_shutdown_function(function () { millrace_purge('shutdown'); throw new Exception('x'); });",
    );
    let answer = worker.run(&Ask::get(&script));
    for item in ["destructor", "shutdown"] {
        let count = answer.notes.iter().filter(|note| note.1 == item).count();
        assert_eq!(count, 2, "{item}: {:?}", answer.notes);
    }
    assert!(answer.end.failed);
}

#[test]
fn arguments_are_checked() {
    let (host, mut worker) = start();
    let cases = [
        (
            "millrace_tag('a', 'b,c')",
            "ValueError: millrace_tag(): Argument #2 must not contain a comma, pass each item as an argument of its own (in a path it is written %2C)",
        ),
        ("millrace_tag('')", "ValueError: millrace_tag(): Argument #1 cannot be empty"),
        (
            "millrace_purge('a', \"b\\r\\nX: y\")",
            "ValueError: millrace_purge(): Argument #2 must not contain control characters such as CR, LF and NUL",
        ),
        (
            "millrace_tag(\"a\\0\")",
            "ValueError: millrace_tag(): Argument #1 must not contain control characters such as CR, LF and NUL",
        ),
        ("millrace_tag(' a')", "ValueError: millrace_tag(): Argument #1 must not begin or end with a space"),
        (
            "millrace_tag('/a')",
            "ValueError: millrace_tag(): Argument #1 must not be a path or *, which could not be purged as a tag",
        ),
        (
            "millrace_tag('*')",
            "ValueError: millrace_tag(): Argument #1 must not be a path or *, which could not be purged as a tag",
        ),
        ("millrace_tag([])", "TypeError: millrace_tag(): Argument #1 must be of type string, array given"),
        ("millrace_tag('a', null)", "ValueError: millrace_tag(): Argument #2 cannot be empty"),
        (
            "millrace_cache_control('')",
            "ValueError: millrace_cache_control(): Argument #1 ($directives) cannot be empty",
        ),
        (
            "millrace_cache_control(\"a\\n\")",
            "ValueError: millrace_cache_control(): Argument #1 ($directives) must not contain control characters such as CR, LF and NUL",
        ),
        (
            "millrace_cache_control()",
            "ArgumentCountError: millrace_cache_control() expects at least 1 argument, 0 given",
        ),
        (
            "millrace_tag(...array_fill(0, 9000, 'abcdefgh'))",
            "ValueError: millrace_tag(): All arguments together are longer than 65536 bytes",
        ),
        (
            "millrace_tag(new class { function __toString(): string { throw new Exception('mine'); } })",
            "Exception: mine",
        ),
        ("(new ReflectionFunction('millrace_purge'))->__toString()", ""),
    ];
    for (call, text) in cases {
        let script = host.script(
            "page.php",
            &format!("<?php try {{ {call}; }} catch (Throwable $e) {{ echo get_class($e), ': ', $e->getMessage(); }}"),
        );
        let answer = worker.run(&Ask::get(&script));
        assert_eq!(answer.text(), text, "{call}: {:?}", answer.log);
        assert_eq!(answer.notes, [], "{call}");
    }
}

#[test]
fn a_fallback_does_not_take_back_what_the_script_said() {
    let (host, mut worker) = start();
    let cases = [
        ("'a', true); millrace_cache_control('b', true", vec!["a, fallback", "b, fallback"], "[true,true]"),
        // The caller learns that its word does not count.
        ("'a'); millrace_cache_control('b', true", vec!["a"], "[true,false]"),
        (
            "'a', true); millrace_cache_control('b'); millrace_cache_control('c', true",
            vec!["a, fallback", "b"],
            "[true,true,false]",
        ),
        ("'a', true); millrace_cache_control('b'", vec!["a, fallback", "b"], "[true,true]"),
    ];
    for (at, (calls, said, heard)) in cases.iter().enumerate() {
        let text = format!("<?php echo json_encode([millrace_cache_control({calls})]);");
        let answer = worker.run(&Ask::get(&host.script(&format!("{at}.php"), &text.replace("; m", ", m"))));
        assert_eq!(answer.text(), *heard, "{calls}: {:?}", answer.log);
        let texts: Vec<_> = answer.notes.iter().map(|note| &note.1[..]).collect();
        assert_eq!(&texts, said, "{calls}");
    }
}

#[test]
fn more_purges_than_are_kept_purge_all() {
    let (host, mut worker) = start();
    for (first, all) in [("soft", "*"), ("hard", "hard, *")] {
        let script = host.script(
            &format!("{first}.php"),
            &format!(
                "<?php for ($i = 0; $i < 60; $i++) millrace_purge('{first}', str_repeat('x', 5000) . $i); echo 1;"
            ),
        );
        let answer = worker.run(&Ask::get(&script));
        assert_eq!(answer.text(), "1", "{:?}", answer.log);
        assert_eq!(answer.notes.last(), Some(&(Purge, all.to_owned())));
        let rest = answer.notes.iter().filter(|note| note.1.len() > 5000).count();
        assert!((60 + 50..60 + 60).contains(&rest), "{rest}");
    }
}

#[test]
fn many_tags_pass_through_the_buffer() {
    let (host, mut worker) = start();
    let script = host.script(
        "page.php",
        "<?php for ($i = 0; $i < 2000; $i++) { millrace_tag(str_repeat('t', 100) . $i); echo str_repeat('.', 100); }
         millrace_tag(str_repeat('z', 65000));",
    );
    let answer = worker.run(&Ask::get(&script));
    assert_eq!((answer.body.len(), answer.notes.len()), (200_000, 2001));
}

#[test]
fn what_an_injected_file_said_before_it_failed_is_forgotten() {
    let (host, mut worker) = start();
    let inject = host.script("ours.php", "<?php millrace_tag('ours'); trigger_error('x', E_USER_ERROR);");
    let script = host.script("page.php", "<?php echo 1; millrace_tag('theirs');");
    let answer = worker.run(&Ask::get(&script).set("MILLRACE_INJECT", inject.to_str().unwrap()));
    assert_eq!((answer.text(), answer.notes), ("1".to_owned(), notes(&[(Tag, "theirs")])));
}

/// Which calls forbid to store the page: of cookies and of a restrictive Cache-Control; where a plugin's part of the
/// stack is known, the plugin's.
#[test]
fn the_calls_that_forbid_to_store_a_page() {
    let (host, mut worker) = start();
    let plugin = host.script("wp-content/plugins/a.php", "<?php\nfunction plugin() {\n  library();\n}");
    let library =
        host.script("wp-includes/functions.php", "<?php\nfunction library() { setcookie('b', '1'); }");
    let script = host.script(
        "page.php",
        &format!(
            "<?php\nheader('Cache-Control: max-age=60');\nheader('X-A: private');\nheader('Cache-Control: NO-Store');\n\
             setcookie('a', 'secret');\nrequire '{}'; require '{}';\nlibrary();\nplugin();\n\
             header_remove();\neval('setcookie(\"c\", \"1\");');\nsession_start();\necho 'x'; flush();\n\
             @header('Set-Cookie: late=1');",
            plugin.display(),
            library.display(),
        ),
    );
    let answer = worker.run(&Ask::get(&script).set("HTTP_HOST", "a"));
    let (page, library, plugin) = (script.display(), library.display(), plugin.display());
    let expected = [
        format!("cache-control by {page}:4"),
        format!("cookie a by {page}:5"),
        format!("cookie b by {library}:2"),
        format!("cookie b by {plugin}:3"),
        format!("cookie c by {page}(10) : eval()'d code:1"),
        format!("cookie PHPSESSID by {page}:11"),
        format!("cache-control by {page}:11"),
    ];
    let found: Vec<_> = answer.notes.into_iter().filter(|note| note.0 == Origin).map(|note| note.1).collect();
    assert_eq!(found, expected);
}

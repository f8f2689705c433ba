//! Fuzzing of files and of their evaluation, on a stable compiler; and that no file is slow.
//!
//! Lines are drawn from a grammar - the table of directives, and texts in the place of arguments that have a meaning to them - and
//! from seeds, and changed: a token repeated, a piece cut out, doubled, or swapped with another line's. `fuzz/targets/htaccess.rs` is the
//! same with coverage, on a nightly compiler. The long form, on the files of `tests/htaccess/run --write DIR`:
//!
//! ```text
//! MILLRACE_FUZZ_SECONDS=300 MILLRACE_FUZZ_SEEDS=DIR cargo test --release -p millrace-htaccess --test fuzz -- --nocapture
//! ```

mod stand_in;

use std::panic::catch_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_htaccess::directives::DIRECTIVES;
use millrace_htaccess::effort::{MOST_STEPS, steps};
use millrace_htaccess::verdict::Leaving;
use millrace_htaccess::{Folder, Outcome, evaluate};
use stand_in::{Disk, index, request};

/// Files that are evaluated, and requests to each, without `MILLRACE_FUZZ_SECONDS`.
const FILES: usize = 3000;

/// Steps by which one step of the code may go over the limit: a text of the longest length, and the names of a list.
const SLACK: u64 = 2_000_000;

/// The steps of a request to a folder with these rules, and of its response.
fn play(folder: &Arc<Folder>, path: &[u8], query: &[u8], fields: &[(&str, Vec<u8>)]) -> u64 {
    let fields = fields.iter().map(|(name, value)| (*name, &value[..])).collect();
    let index = index();
    let request = request(path, query, fields, &index);
    let disk = Disk(folder.clone());
    let verdict = evaluate(&request, &disk).expect("there are rules");
    let mut spent = steps();
    if let Some(status) = folder.closed {
        assert_eq!(verdict.outcome, Outcome::Refuse(status), "a folder that is closed");
    }
    if verdict.outcome == Outcome::Serve {
        assert!(verdict.path.starts_with(b"/"), "{:?}", String::from_utf8_lossy(&verdict.path));
        let fields = vec![("Content-Type".to_owned(), b"text/html".to_vec())];
        let date = |seconds: u64| seconds.to_string();
        let mut leaving = Leaving { status: 200, fields, is_error: false, modified: Some(1), date };
        let _ = verdict.change(&request, &disk, &mut leaving);
        spent = spent.max(steps());
    }
    spent
}

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most.max(1)
    }

    fn one<'t, T: ?Sized>(&mut self, of: &[&'t T]) -> &'t T {
        of[self.below(of.len())]
    }
}

/// Texts with a meaning, for arguments.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "On", "Off", "-", "^", "$", ".*", "^(.*)$", "(a+)+$", "(?=(a|aa)+$)(a|aa)+\\1", "(?!index)", "[^/]+", "[[:alpha:]]", "[]a-]", "\\.php$", "a{2,3}", "{",
    "%{REQUEST_URI}", "%{REQUEST_FILENAME}", "%{HTTP_USER_AGENT}", "%{QUERY_STRING}", "%{HTTP:X-A}", "%{ENV:A}", "%{TIME}", "%{", "}", "${m:$1}", "$0", "$1", "%1", "\\", "\\1",
    "!-f", "-d", "-s", "=a", ">a", "-eq1", "[L]", "[R=301,L]", "[N]", "[N=9]", "[F]", "[E=A:$1$1]", "[CO=a:b:c]", "[S=3]", "[C]", "[OR]", "[NC]", "[QSA,B]", "[NE,PT]", "[", "]",
    "/", "/index.php", "index.html", "http://b.test/$1", "?a=b", "mailto:a", "\"", "'", "\"a b\"", "all", "from", "granted", "denied", "not", "ip", "127.0.0.1", "10/8", "::1", "env=A", "env", "expr",
    "valid-user", "user", "a", "group", "set", "append", "merge", "edit", "edit*", "unset", "always", "X-A", "Set-Cookie", "text/html", ".html", "A=1", "!A", "A=$1$1$1", "Request_URI", "User-Agent", "^X",
    "access plus 1 month", "A99999999999999", "M-1", "404", "301", "gone", "permanent", "none", "deny,allow", "Any", "tolower(", ")", "(", "==", "=~", "m#a#", "/a/i", "&&", "||", "!", "true", "in {'a'}",
    "-ipmatch", "\u{e9}", "\u{0}", "#", "GET", "POST", "inherit", "*", "?", "[!a]*", "mod_rewrite.c", "!mod_x.c", ">=", "2.4",
];

const SECTIONS: &[&str] = &[
    "IfModule",
    "Files",
    "FilesMatch",
    "If",
    "ElseIf",
    "Else",
    "Limit",
    "LimitExcept",
    "RequireAll",
    "RequireAny",
    "RequireNone",
    "IfVersion",
    "IfDirective",
    "Nothing",
];

fn line(random: &mut Random) -> String {
    let mut line = match random.below(5) {
        0 => "RewriteRule".to_owned(),
        1 => "RewriteCond".to_owned(),
        _ => DIRECTIVES[random.below(DIRECTIVES.len())].name.to_owned(),
    };
    for _ in 0..random.below(5) {
        line.push(' ');
        line.push_str(random.one(WORDS));
        if random.below(4) == 0 {
            line.push_str(random.one(WORDS));
        }
    }
    line
}

/// A file of the grammar.
fn file(random: &mut Random) -> String {
    let mut text = "RewriteEngine On\n".to_owned();
    let mut open = Vec::new();
    for _ in 0..1 + random.below(12) {
        match random.below(6) {
            0 => {
                let section = random.one(SECTIONS);
                text.push_str(&format!("<{section} {}>\n", random.one(WORDS)));
                open.push(section);
            }
            1 if !open.is_empty() => text.push_str(&format!("</{}>\n", open.pop().expect("one is open"))),
            _ => text.push_str(&(line(random) + "\n")),
        }
    }
    for section in open.iter().rev() {
        text.push_str(&format!("</{section}>\n"));
    }
    text
}

/// Changes a text in one to four places.
fn mutate(random: &mut Random, text: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..1 + random.below(4) {
        let (at, length) = (random.below(text.len() + 1), random.below(40));
        let end = (at + length).min(text.len());
        let piece = text[at..end].to_vec();
        match random.below(6) {
            0 => drop(text.drain(at..end)),
            1 => drop(text.splice(at..at, piece.repeat(1 + random.below(60)))),
            2 => {
                let from = random.below(other.len() + 1);
                drop(text.splice(at..end, other[from..(from + length).min(other.len())].iter().copied()));
            }
            3 => drop(text.splice(at..at, random.one(WORDS).repeat(1 + random.below(200)).into_bytes())),
            4 => drop(text.splice(at..at, format!("\n{}\n", line(random)).into_bytes())),
            _ => text.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.below(256) as u8),
        }
    }
    text.truncate(20_000);
}

fn seeds() -> Vec<Vec<u8>> {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/htaccess").to_owned();
    let folders = [Some(corpus), std::env::var("MILLRACE_FUZZ_SEEDS").ok()];
    let files = folders.into_iter().flatten().flat_map(|folder| {
        std::fs::read_dir(&folder)
            .unwrap_or_else(|why| panic!("{folder}: {why}"))
            .map(|entry| entry.expect("an entry").path())
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read(file).unwrap_or_else(|why| panic!("{}: {why}", file.display())))
        .collect()
}

/// Plays requests to a file; the most steps that one of them took.
fn play_some(random: &mut Random, text: &[u8]) -> u64 {
    let folder = Arc::new(Folder::compile(text));
    let mut most = 0;
    for _ in 0..3 {
        let path = random.one(&[
            "/",
            "/a.html",
            "/index.php",
            "/sub/x/y",
            "/old/%E9",
            "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
        ]);
        let long = "a".repeat(random.below(3) * 2000);
        let path = [path.as_bytes(), long.as_bytes()].concat();
        let fields = [
            ("User-Agent", format!("phone{long}").into_bytes()),
            ("Authorization", b"Basic YTpi".to_vec()),
            ("X-A", b"1".to_vec()),
        ];
        most = most.max(play(&folder, &path, random.one(&[&b""[..], b"a=b", b"x=<script>"]), &fields));
    }
    most
}

/// No file and no request makes it panic or work more than the limit; a closed folder refuses.
#[test]
fn any_file_has_a_verdict_within_the_limit() {
    let seconds: Option<u64> = std::env::var("MILLRACE_FUZZ_SECONDS")
        .ok()
        .map(|text| text.parse().expect("MILLRACE_FUZZ_SECONDS is a number of seconds"));
    let (began, seeds) = (Instant::now(), seeds());
    let seed = seconds.map_or(1, |_| std::time::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_secs()));
    let random = &mut Random(seed);
    let (mut files, mut most, mut slowest) = (0, 0, Duration::ZERO);
    while seconds.map_or(files < FILES, |seconds| began.elapsed().as_secs() < seconds) {
        let mut text = if random.below(2) == 0 {
            file(random).into_bytes()
        } else {
            seeds[random.below(seeds.len())].clone()
        };
        if random.below(4) > 0 {
            let other = if random.below(2) == 0 {
                file(random).into_bytes()
            } else {
                seeds[random.below(seeds.len())].clone()
            };
            mutate(random, &mut text, &other);
        }
        let start = Instant::now();
        let state = random.0;
        let played = catch_unwind(|| play_some(&mut Random(state), &text));
        random.below(2);
        let Ok(steps) = played else {
            panic!("seed {seed}, file {files}: a panic by:\n{}", String::from_utf8_lossy(&text))
        };
        assert!(
            steps <= MOST_STEPS + SLACK,
            "seed {seed}: {steps} steps by:\n{}",
            String::from_utf8_lossy(&text)
        );
        (files, most, slowest) = (files + 1, most.max(steps), slowest.max(start.elapsed()));
    }
    println!(
        "seed {seed}: {files} files, each with 3 requests, in {:.1?}; most steps {most}; slowest file {slowest:.1?}",
        began.elapsed()
    );
}

/// Texts that a line has once, or again and again.
#[rustfmt::skip]
const REPEATED: &[&str] = &[
    "{", "}", "[", "[[:", "(", "(?=", "(?:a", "a|", "a?", ".*", "\\", "%{", "${", "$0", "%1", "%{REQUEST_URI}", "%{a}", "\"", "'", " ", " a", "!", "! ", "!(", "(true) && ", "true || ", "tolower(",
    "%{tolower:", "%{LA-U:", "LA-U:", "\\b", "(?i)", "[\\S", "-f a || ", "'a' in {", "'a', ", ",", ",E=A:1", ",CO=a:b:c", ",S=1", "1 ", "10.0.0.0/8 ", "GET ", "/a", "*", "[!", "A=$0 ", "not ", "user ", "<", ">", "#", "\u{e9}", "a=b&",
];

/// Lines in which such a text is put in the place of `@`, or which are repeated.
#[rustfmt::skip]
const PLACES: &[&str] = &[
    "RewriteRule @ /b", "RewriteRule ^ @", "RewriteRule ^ - [E=A:1@]", "RewriteRule ^ - [E=@]", "RewriteCond @ a", "RewriteCond %{@A} a", "RewriteRule ^(?!x)@ /b", "RewriteCond a @", "RewriteCond a b [@]", "RewriteCond expr \"@true\"", "RewriteBase @",
    "<If \"@true\">\nHeader set X-A 1\n</If>", "<If @>\n</If>", "<Files \"@\">\nHeader set X-A 1\n</Files>", "<FilesMatch \"@\">\nRequire all denied\n</FilesMatch>", "<IfModule @>\n</IfModule>", "<Limit @>\nRequire all denied\n</Limit>",
    "<IfVersion @>\n</IfVersion>", "<@>\n</@>", "<RequireAll>\nRequire @\n</RequireAll>", "Require @", "Require ip @", "Require expr @", "Order @", "Allow from @", "Deny from env=@", "Redirect /a @", "Redirect @", "RedirectMatch @ /b",
    "RedirectMatch ^ /@", "Header set X-A \"@\"", "Header append X-A \"@\"", "Header edit X-A \"@\" b", "Header edit* Content-Type . \"@\"", "Header set X-A b \"expr=@\"", "RequestHeader set @ b", "RequestHeader edit* User-Agent . @",
    "SetEnv A @", "SetEnv @", "UnsetEnv @", "SetEnvIf @ a B", "SetEnvIf Request_URI @ A", "SetEnvIf Request_URI ^ @", "BrowserMatch @ A", "SetEnvIfExpr \"@\" A", "AddType text/a @", "AddEncoding @", "ExpiresByType text/html \"@\"",
    "DirectoryIndex @", "ErrorDocument 404 @", "AuthName @", "php_value @", "CacheKeyModify @", "Options @", "@",
];

/// The time to compile a file and to play a request to it.
fn time(text: &str) -> Duration {
    let start = Instant::now();
    let folder = Arc::new(Folder::compile(text.as_bytes()));
    play(&folder, b"/a/b.html", b"a=b", &[("User-Agent", b"agent".to_vec())]);
    start.elapsed()
}

/// Whether a text eight times as long takes about eight times as long, not sixty-four. A busy machine makes one measurement slow,
/// not five.
fn is_linear(make: &dyn Fn(usize) -> String, few: usize) -> bool {
    let (short, long) = (make(few), make(8 * few));
    (0..5).any(|_| {
        let taken = time(&long);
        taken < Duration::from_millis(40) || taken < time(&short).min(time(&short)) * 24
    })
}

/// Measures time, so it is played by hand: `cargo test --release -p millrace-htaccess --test fuzz -- --ignored`.
#[test]
#[ignore = "it measures time"]
fn no_text_takes_more_than_linear_time() {
    // Each line has a regular expression, and a debug build compiles these slowly.
    let (repeated, lines) = if cfg!(debug_assertions) { (500, 50) } else { (5000, 1000) };
    let mut slow = Vec::new();
    for place in PLACES {
        for token in REPEATED {
            let line = |count: usize| {
                let text = place.replace('@', &token.repeat(count));
                format!("RewriteEngine On\n{text}\nRewriteRule ^ - [E=Z:1]\n")
            };
            if !is_linear(&line, repeated) {
                slow.push(format!("{token:?} in {place:?}"));
            }
        }
        let numbered = |count: usize| {
            let lines = (0..count).map(|at| place.replace('@', &format!("/a{at}")) + "\n");
            "RewriteEngine On\n".to_owned() + &lines.collect::<String>()
        };
        if !is_linear(&numbered, lines) {
            slow.push(format!("lines {place:?}"));
        }
    }
    for (head, body, tail) in [
        ("<If true>\n</If>\n", "<ElseIf false>\n</ElseIf>\n", ""),
        ("", "<IfModule x>\n", ""),
        ("", "<Files a>\n</Files>\n", ""),
        ("RewriteRule a b [C]\n", "RewriteCond a a [OR]\n", "RewriteRule ^ - [N]\n"),
    ] {
        if !is_linear(&|count| format!("RewriteEngine On\n{head}{}{tail}", body.repeat(count)), lines) {
            slow.push(format!("lines {body:?}"));
        }
    }
    assert!(slow.is_empty(), "more than linear: {slow:#?}");
}

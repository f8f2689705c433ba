//! What the sandbox forbids, and that ordinary programs and extensions work in it.

mod driver;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Instant;

use driver::{Ask, Host, PATIENCE, Worker, program};

const INI: &str = "zend_extension=opcache\nopcache.file_update_protection=0\nextension=posix\n";
/// `uretprobe` and `uprobe` of x86-64: no filter sees them (Linux 6.14), and they end a process that calls them by itself.
const PROBES: [u32; 2] = [335, 336];
const EPERM: i32 = 1;
const ENOSYS: i32 = 38;
const EAFNOSUPPORT: i32 = 97;

/// Where scripts may write: the folder of all hosts of this process.
fn start() -> (Host, Worker) {
    start_as("kernel")
}

/// How signals are kept: as this kernel does it, and as older ones do.
const WAYS: [&str; 4] = ["kernel", "asked", "family", "group"];

fn start_as(way: &str) -> (Host, Worker) {
    let base = std::env::temp_dir();
    let folder = base.to_str().unwrap();
    let signals = format!("--sandbox-signals={way}");
    let sandbox = if way == "kernel" { "--sandbox" } else { &signals };
    let mut host = Host::start(INI, &[sandbox, "--folder", folder]);
    let worker = host.worker(0);
    (host, worker)
}

/// What a script prints.
fn run(host: &Host, worker: &mut Worker, code: &str) -> String {
    let number = std::fs::read_dir(&host.root).unwrap().count();
    let script = host.script(&format!("{number}.php"), &format!("<?php {code}"));
    let answer = worker.run(&Ask::get(&script));
    assert_eq!(answer.status, 200, "{code}: {} {:?}", answer.text(), answer.log);
    answer.text()
}

/// What a shell command prints in the sandbox, with its errors; `None`: it fails.
fn shell(host: &Host, worker: &mut Worker, command: &str) -> Result<String, String> {
    let script = host.script("command.sh", command);
    let code = format!(
        "exec('bash {} 2>&1 </dev/null', $out, $status); echo $status, \"\\n\", implode(\"\\n\", $out);",
        script.display()
    );
    let text = run(host, worker, &code);
    let (status, said) = text.split_once('\n').unwrap();
    if status == "0" { Ok(said.to_owned()) } else { Err(format!("status {status}: {said}")) }
}

/// What a Perl script prints in the sandbox: Perl makes any system call by its number.
fn perl(host: &Host, worker: &mut Worker, code: &str) -> String {
    let script = host.script("calls.pl", code);
    shell(host, worker, &format!("perl {}", script.display())).unwrap()
}

/// The table of the program: number to name and verdict.
fn table() -> BTreeMap<u32, (String, String)> {
    let output = Command::new(program()).arg("--system-calls").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let row = |line: &str| {
        let mut words = line.splitn(3, ' ').map(str::to_owned);
        (words.next().unwrap().parse().unwrap(), (words.next().unwrap(), words.next().unwrap()))
    };
    let rows: Vec<_> = text.lines().map(row).collect();
    let table: BTreeMap<_, _> = rows.iter().cloned().collect();
    assert_eq!(rows.len(), table.len(), "a call has two rows");
    table
}

/// The calls that the kernel's headers on this machine know.
fn headers() -> BTreeMap<u32, String> {
    let text = Command::new("cc")
        .args(["-E", "-dM", "-include", "sys/syscall.h", "-xc", "/dev/null"])
        .output()
        .unwrap()
        .stdout;
    let text = String::from_utf8(text).unwrap();
    let one = |line: &str| {
        let (name, number) = line.strip_prefix("#define __NR_")?.split_once(' ')?;
        Some((number.parse().ok()?, name.to_owned()))
    };
    text.lines().filter_map(one).collect()
}

/// Each number up to 700, named by the headers or not, is refused unless it has a row that says otherwise.
#[test]
fn unknown_system_calls_are_refused() {
    let (host, mut worker) = start();
    let (table, headers) = (table(), headers());
    assert!(headers.len() > 250, "{}", headers.len());
    let refused = |number: &u32| match table.get(number).map(|(_, verdict)| verdict.as_str()) {
        None | Some("absent") => Some(ENOSYS),
        Some("refused") => Some(EPERM),
        Some(_) => None,
    };
    let numbers: Vec<u32> =
        (0..700).filter(|number| refused(number).is_some() && !PROBES.contains(number)).collect();
    assert!(numbers.len() > 250, "{}", numbers.len());
    let list = numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let said = perl(
        &host,
        &mut worker,
        &format!(
            "for my $n ({list}) {{ $! = 0; my $r = syscall($n, 0, 0, 0, 0); print \"$n $r \", $!+0, \"\\n\"; }}"
        ),
    );
    for (line, number) in said.lines().zip(&numbers) {
        let expected = format!("{number} -1 {}", refused(number).unwrap());
        assert_eq!(line, expected, "{:?} {:?}", headers.get(number), table.get(number));
    }
    assert_eq!(said.lines().count(), numbers.len());
}

/// What manages other processes, by its arguments.
#[test]
#[cfg(target_arch = "x86_64")]
fn other_processes_are_out_of_reach() {
    for way in WAYS {
        keeps_to_itself(way);
    }
}

#[cfg(target_arch = "x86_64")]
fn keeps_to_itself(way: &str) {
    let (host, mut worker) = start_as(way);
    let (stranger_host, stranger) = start_as(way);
    let server = std::process::id();
    let nursery = children(host.pid()).into_iter().find(|pid| *pid != worker.pid);
    let supervisor = nursery.and_then(|nursery| children(nursery).first().copied());
    assert_eq!(
        (nursery.is_some(), supervisor.is_some()),
        match way {
            "kernel" => (true, false),
            "group" => (false, false),
            _ => (true, true),
        }
    );
    let mut lines = String::from(
        "sub t { my ($what, $error, @call) = @_; $! = 0; my $r = syscall($call[0], map { $_ // 0 } @call[1..6]); my $e = $r == -1 ? $!+0 : 0; \
        print \"$what: $e instead of $error\\n\" if $e != $error; }\nmy $limit = pack('QQ', 0, 0); my $mask = pack('Q', 1); my $none = pack('Q8', 56); my $f; open($f, '<', '/dev/null'); my $d = fileno($f);\n",
    );
    let mut call =
        |what: &str, error: i32, words: &str| lines.push_str(&format!("t('{what}', {error}, {words});\n"));
    for (name, pid) in [
        ("host", Some(host.pid())),
        ("server", Some(server)),
        ("nursery", nursery),
        ("supervisor of signals", supervisor),
        ("host of another site", Some(stranger_host.pid())),
        ("worker of another site", Some(stranger.pid)),
        ("worker", Some(worker.pid)),
    ] {
        let Some(pid) = pid else { continue };
        call(&format!("prlimit64 {name}"), EPERM, &format!("302, {pid}, 6, $limit"));
        call(&format!("prlimit64 {name} NOFILE"), EPERM, &format!("302, {pid}, 7, $limit"));
        call(&format!("setpriority {name}"), EPERM, &format!("141, 0, {pid}, 5"));
        call(&format!("setpriority group {name}"), EPERM, &format!("141, 1, {pid}, 5"));
        call(&format!("sched_setaffinity {name}"), EPERM, &format!("203, {pid}, 8, $mask"));
        call(&format!("sched_setscheduler {name}"), EPERM, &format!("144, {pid}, 5, $mask"));
        call(&format!("sched_setparam {name}"), EPERM, &format!("142, {pid}, $mask"));
        call(&format!("sched_setattr {name}"), EPERM, &format!("314, {pid}, $none, 0"));
        call(&format!("ioprio_set {name}"), EPERM, &format!("251, 1, {pid}, 24576"));
        call(&format!("F_SETOWN {name}"), EPERM, &format!("72, $d, 8, {pid}"));
        call(&format!("FIOSETOWN {name}"), EPERM, &format!("16, $d, 0x8901, pack('l', {pid})"));
        call(&format!("pidfd_getfd {name}"), EPERM, "438, $d, 0, 0");
        if name != "worker" {
            for (how, words) in [
                ("kill", format!("62, {pid}, 0")),
                ("kill the group of", format!("62, -{pid}, 0")),
                ("tkill", format!("200, {pid}, 0")),
                ("tgkill", format!("234, {pid}, {pid}, 0")),
                ("rt_sigqueueinfo", format!("129, {pid}, 0, $none")),
                ("rt_tgsigqueueinfo", format!("297, {pid}, {pid}, 0, $none")),
                ("join the group of", format!("109, 0, {pid}")),
            ] {
                call(&format!("{how} {name}"), EPERM, &words);
            }
            if !name.ends_with("another site") {
                call(&format!("pidfd_open {name}"), EPERM, &format!("434, {pid}, 0"));
            }
        }
    }
    if way != "kernel" {
        call("any descriptor of a process", ENOSYS, "424, $d, 0, 0, 0");
    }
    call("setpriority of a user", EPERM, "141, 2, 0, 5");
    call("kill all", EPERM, "62, -1, 0");
    call("F_SETSIG", EPERM, "72, $d, 10, 9");
    call("F_SETLEASE", EPERM, "72, $d, 1024, 1");
    call("TIOCSTI", EPERM, "16, $d, 0x5412, $none");
    call("a user namespace", EPERM, "56, 0x10000011, 0");
    call("a child of the host", EPERM, "56, 0x8011, 0");
    call("PR_SCHED_CORE", EPERM, "157, 62, 1, 1, 0, 0");
    call("AF_ALG", EAFNOSUPPORT, "41, 38, 5, 0");
    call("AF_PACKET", EAFNOSUPPORT, "41, 17, 3, 0");
    call("a device", EPERM, "133, 'd', 020666, 0x103");
    // And what one may do to oneself.
    call("its own limit", 0, "302, 0, 7, pack('QQ', 100, 100)");
    call("the limit of another, read", 0, "302, 0, 7, 0, $limit");
    call("its own priority", 0, "141, 0, 0, 5");
    call("its own affinity", 0, "203, 0, 8, pack('Q', ~0)");
    call("its own class of input and output", 0, "251, 1, 0, 24576");
    if way == "group" {
        call("itself by number", EPERM, "62, $$, 0");
    } else {
        call("itself", 0, "62, $$, 0");
        call("its thread", 0, "234, $$, $$, 0");
        call("its thread by its number alone", 0, "200, $$, 0");
        call("itself with a value", 0, "129, $$, 0, pack('lllx4lx4lx92', 0, 0, -1, $$, 0)");
        call("nobody", 3, "62, 4194999, 0");
        call("no signal", 22, "62, $$, 99");
    }
    call("its group", 0, "62, 0, 0");
    call("a socket", 0, "41, 2, 1, 0");
    assert_eq!(perl(&host, &mut worker, &lines), "", "{way}");
}

fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// A site's workers and the jobs that they started in the background see and stop each other; each host is a domain of its own.
#[test]
fn a_host_is_one_domain_of_signals() {
    for way in ["kernel", "asked"] {
        is_one_domain(way);
    }
}

fn is_one_domain(way: &str) {
    let (mut host, mut one) = start_as(way);
    if !host.says("sandbox").unwrap().starts_with("landlock") {
        return;
    }
    let mut other = host.worker(1);
    let job: u32 = run(&host, &mut one, "echo exec('sleep 600 >/dev/null 2>&1 & echo $!');").parse().unwrap();
    let ask = format!(
        "echo json_encode([posix_kill({job}, 0), posix_kill({}, 0), posix_kill({}, 15)]);",
        one.pid,
        host.pid()
    );
    assert_eq!(run(&host, &mut other, &ask), "[true,true,false]");
    let (stranger_host, mut stranger) = start_as(way);
    let ask = format!(
        "echo json_encode([posix_kill({job}, 15), posix_kill({}, 15), posix_kill({}, 15)]);",
        one.pid,
        host.pid()
    );
    assert_eq!(run(&stranger_host, &mut stranger, &ask), "[false,false,false]");
    // But it sees that the job lives, as after a reload; and what does not live, or is another user's, it does not see.
    let ask =
        format!("echo json_encode([posix_kill({job}, 0), posix_kill(4194999, 0), posix_kill({job}, 17)]);");
    assert_eq!(run(&stranger_host, &mut stranger, &ask), "[true,false,false]");
    assert_eq!(run(&host, &mut other, &format!("echo json_encode(posix_kill({job}, 15));")), "true");
    let begin = Instant::now();
    while lives(job) {
        assert!(begin.elapsed() < PATIENCE, "the job runs on");
    }
    // The worker is still the host's child, and the host tells of its end.
    assert_eq!(run(&host, &mut other, &format!("echo json_encode(posix_kill({}, 9));", one.pid)), "true");
    assert_eq!(host.exited(one.pid).0, 9);
    let mut again = host.worker(0);
    assert_eq!(run(&host, &mut again, "echo 'again';"), "again");
}

/// Whether a process runs still; a zombie does not.
fn lives(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}/fd/0")).exists()
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The nursery may die, and so may the supervisor of signals: the host starts others.
#[test]
fn workers_come_from_another_nursery_if_one_dies() {
    for (way, victim) in [("kernel", 0), ("asked", 0), ("asked", 1)] {
        let (mut host, mut worker) = start_as(way);
        let Some(nursery) = children(host.pid()).into_iter().find(|pid| *pid != worker.pid) else { return };
        let victim = if victim == 0 { nursery } else { children(nursery)[0] };
        kill(victim);
        let begin = Instant::now();
        while lives(victim) {
            assert!(begin.elapsed() < PATIENCE, "{way}: it lives");
        }
        let mut other = host.worker(1);
        assert_eq!(
            run(&host, &mut other, "echo posix_kill(getmypid(), 0) ? 'other' : '';"),
            "other",
            "{way}"
        );
        assert_eq!(run(&host, &mut worker, "echo 'first';"), "first");
    }
}

/// What a script may do with programs that it has started, where something else than Landlock decides about signals.
#[test]
fn programs_are_stopped_on_older_kernels() {
    for way in ["asked", "family"] {
        let (host, mut worker) = start_as(way);
        for (command, expected) in [
            ("sleep 60 & kill $!; wait $!; echo $?", "143"),
            ("set -m; (sleep 60; sleep 61) & kill %1; wait %1 2>/dev/null; echo $?", "143"),
            ("timeout 0.1 sh -c 'sleep 60; true'; echo $?", "124"),
            ("trap 'echo trapped' CHLD; sleep 60 & kill -9 $!; wait $! 2>/dev/null; echo $?", "trapped\n137"),
            // The shell may end by itself as soon as its child has.
            (
                "exec 3< <(sh -c 'sleep 60 & echo $!; wait'); read -u 3 a; kill $a && { kill $! 2>/dev/null || [ ! -e /proc/$! ]; } && echo both",
                "both",
            ),
            ("setsid -w bash -c \"trap 'echo itself' USR1; kill -USR1 -\\$\\$; echo end\"", "itself\nend"),
            (
                "python3 -c 'import signal, threading; signal.signal(signal.SIGUSR1, lambda *a: print(\"thread\")); signal.pthread_kill(threading.get_ident(), signal.SIGUSR1); signal.raise_signal(signal.SIGUSR1)'",
                "thread\nthread",
            ),
        ] {
            let said = shell(&host, &mut worker, &format!("{command}\n"));
            assert_eq!(said.as_deref().map(str::trim), Ok(expected), "{way}: {command}");
        }
    }
}

/// The supervisor of signals serves a job that outlives its host, and ends with the job.
#[test]
fn a_job_keeps_its_supervisor_of_signals() {
    let (host, mut worker) = start_as("asked");
    let Some(nursery) = children(host.pid()).into_iter().find(|pid| *pid != worker.pid) else { return };
    let supervisor = children(nursery)[0];
    let done = host.root.with_extension("done");
    let job = format!(
        "while [ -e /proc/{} ]; do sleep 0.1; done; sleep 600 & kill $! && wait $!; echo $? > {}",
        host.pid(),
        done.display()
    );
    run(
        &host,
        &mut worker,
        &format!("exec('setsid sh -c ' . escapeshellarg({job:?}) . ' >/dev/null 2>&1 &');"),
    );
    drop((worker, host));
    let begin = Instant::now();
    while !done.exists() || lives(supervisor) {
        assert!(
            begin.elapsed() < PATIENCE,
            "the job is done: {}, its supervisor lives: {}",
            done.exists(),
            lives(supervisor)
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(std::fs::read_to_string(&done).unwrap().trim(), "143");
    std::fs::remove_file(done).unwrap();
}

/// Programs that scripts start; each has to print what stands beside it. Those in the second list may be missing on a machine.
#[test]
fn ordinary_programs_work() {
    const ALWAYS: &[(&str, &str)] = &[
        ("echo $((1 + 1))", "2"),
        ("seq 3 | xargs -P 3 -n 1 echo | sort | tr -d '\\n'", "123"),
        ("diff <(echo a) <(echo a) && echo same", "same"),
        ("set -m; sleep 60 & kill %1; wait %1 2>/dev/null; echo $?", "143"),
        ("timeout 0.1 sleep 60; echo $?", "124"),
        ("ulimit -n 100; ulimit -n", "100"),
        ("[ $(nice -n 5 nice) -gt $(nice) ] && echo nicer", "nicer"),
        ("nohup echo out 2>/dev/null", "out"),
        ("setsid -w echo out", "out"),
        ("trap 'echo trapped' USR1; kill -USR1 $$; echo end", "trapped\nend"),
        ("mkfifo $TMPDIR/p 2>/dev/null || mkfifo p; rm -f p $TMPDIR/p; echo made", "made"),
        (
            "d=$(mktemp -d); cd $d; seq 100 > a; tar czf a.tgz a; rm a; tar xzf a.tgz; tail -1 a; cp a b; mv b c; ln c e; ln -s c f; touch -d 2020-01-01 c; chmod 600 c; find . -type f | wc -l; cd /; rm -r $d",
            "100\n4",
        ),
        ("cd $(mktemp -d); flock lock echo locked", "locked"),
        ("perl -e 'if (my $p = fork) { waitpid($p, 0); print $? >> 8 } else { exit 7 }'", "7"),
        (
            "python3 -c 'import subprocess, threading, socket, select, mmap, signal; t = threading.Thread(target=lambda: print(subprocess.run([\"echo\", \"hi\"], capture_output=True).stdout)); t.start(); t.join()'",
            "b'hi\\n'",
        ),
        ("python3 -c 'import asyncio; print(asyncio.run(asyncio.sleep(0, \"slept\")))'", "slept"),
        ("php -n -r 'echo PHP_SAPI, \" \", strlen(random_bytes(8));'", "cli 8"),
        (
            "php -d opcache.enable_cli=1 -d opcache.jit=tracing -d opcache.jit_buffer_size=8M -r 'for ($i = $s = 0; $i < 1e6; $i++) $s += $i & 3; echo $s;'",
            "1500000",
        ),
        ("openssl rand -hex 4 | wc -c; echo a | openssl dgst -sha256 | tail -c 5", "9\n25c7"),
        ("mariadb --version | grep -c Distrib", "1"),
        (
            "node -e 'require(\"child_process\").exec(\"echo hi\", (e, out) => console.log(e, out.trim()))'",
            "null hi",
        ),
        (
            "node -e 'const {Worker} = require(\"worker_threads\"); new Worker(\"console.log(1)\", {eval: true})'",
            "1",
        ),
        (
            "node -e 'require(\"fs\").promises.readFile(\"/etc/hostname\").then(() => console.log(\"read\"))'",
            "read",
        ),
        ("unzip -v | head -1 | cut -c1-5", "UnZip"),
    ];
    const PERHAPS: &[(&str, &str)] = &[
        (
            "cd $(mktemp -d); export HOME=$PWD; git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m c && git gc -q && git log --format=%s",
            "c",
        ),
        ("curl -s file:///etc/hostname >/dev/null; echo $?", "0"),
        ("curl -sm 5 http://localhost:9/ ; echo $?", "7"),
        ("cd $(mktemp -d); echo x > a; rsync a b; cat b", "x"),
        (
            "sqlite3 $(mktemp -d)/db 'pragma journal_mode=wal; create table t(a); insert into t values (5); select a from t'",
            "wal\n5",
        ),
        (
            "cd $(mktemp -d); php -n -d extension=gd -r 'imagepng(imagecreatetruecolor(2, 2), \"a.png\");'; convert a.png ppm:- | head -c 2",
            "P6",
        ),
        ("ffmpeg -v error -f lavfi -i testsrc=d=0.1:s=64x64 -f null - && echo encoded", "encoded"),
        ("gs --version >/dev/null && echo gs", "gs"),
        ("ssh -V 2>&1 | cut -c1-7", "OpenSSH"),
        ("cd $(mktemp -d); echo x > a; zip -q a.zip a; unzip -p a.zip", "x"),
    ];
    let (host, mut worker) = start();
    let mut wrong = Vec::new();
    for (command, expected) in ALWAYS.iter().chain(PERHAPS) {
        let name = command
            .trim_start_matches("cd $(mktemp -d); ")
            .split_whitespace()
            .find(|word| *word != "export" && !word.contains('='))
            .unwrap();
        let there =
            Command::new("sh").args(["-c", &format!("command -v {name}")]).output().unwrap().status.success();
        if !there && PERHAPS.iter().any(|(perhaps, _)| perhaps == command) {
            continue;
        }
        let said = shell(&host, &mut worker, &format!("{command}\n"));
        if said.as_deref().map(str::trim) != Ok(*expected) {
            wrong.push(format!("{command}\n    {said:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Functions of PHP and of the extensions that sites use.
#[test]
fn ordinary_extensions_work() {
    const CODE: &[(&str, &str)] = &[
        (
            "$p = proc_open(['cat'], [['pipe', 'r'], ['pipe', 'w']], $pipes); fwrite($pipes[0], 'x'); fclose($pipes[0]); echo stream_get_contents($pipes[1]), proc_close($p);",
            "x0",
        ),
        (
            "$s = proc_open('exec sleep 60', [], $x); proc_terminate($s); while (proc_get_status($s)['running']) usleep(1000); echo 'ended';",
            "ended",
        ),
        (
            "$c = curl_init('http://localhost:9/'); curl_setopt($c, CURLOPT_RETURNTRANSFER, 1); curl_exec($c); echo curl_errno($c);",
            "7",
        ),
        (
            "$m = curl_multi_init(); foreach ([1, 2, 3] as $i) { $c = curl_init(\"http://host$i.localhost:9/\"); curl_setopt($c, CURLOPT_RETURNTRANSFER, 1); curl_multi_add_handle($m, $c); } do { curl_multi_exec($m, $n); curl_multi_select($m, 0.1); } while ($n); echo 'done';",
            "done",
        ),
        ("echo gethostbyname('localhost');", "127.0.0.1"),
        (
            "$i = imagecreatetruecolor(8, 8); $f = tempnam(sys_get_temp_dir(), 'i'); imagepng($i, $f); imagewebp($i, $f . 'w'); echo getimagesize($f)[0];",
            "8",
        ),
        (
            "echo (new NumberFormatter('de', NumberFormatter::DECIMAL))->format(1234.5), ' ', (new IntlDateFormatter('en', 1, 1, 'Europe/Berlin'))->format(0) !== false;",
            "1.234,5 1",
        ),
        (
            "$z = new ZipArchive; $f = tempnam(sys_get_temp_dir(), 'z'); $z->open($f, ZipArchive::OVERWRITE); $z->addFromString('a', 'b'); $z->close(); $z->open($f); echo $z->getFromName('a');",
            "b",
        ),
        (
            "$d = new PDO('sqlite:' . tempnam(sys_get_temp_dir(), 'd')); $d->exec('pragma journal_mode=wal; create table t(a); insert into t values(3)'); echo $d->query('select a from t')->fetchColumn();",
            "3",
        ),
        (
            "mysqli_report(0); $m = @mysqli_connect('127.0.0.1', 'x', 'y', 'z', 9); echo mysqli_connect_errno();",
            "2002",
        ),
        (
            "$s = stream_socket_server('tcp://127.0.0.1:0'); $c = stream_socket_client('tcp://' . stream_socket_get_name($s, false)); $a = stream_socket_accept($s); fwrite($a, 'hi'); echo fread($c, 2);",
            "hi",
        ),
        (
            "$s = socket_create(AF_INET, SOCK_DGRAM, SOL_UDP); socket_set_option($s, SOL_SOCKET, SO_RCVTIMEO, ['sec' => 0, 'usec' => 1]); echo socket_bind($s, '127.0.0.1') ? 'bound' : '';",
            "bound",
        ),
        (
            "$k = openssl_pkey_new(['private_key_bits' => 2048]); openssl_sign('x', $s, $k); echo openssl_verify('x', $s, openssl_pkey_get_details($k)['key']);",
            "1",
        ),
        (
            "echo strlen(sodium_crypto_secretbox('x', random_bytes(24), random_bytes(32))), password_verify('x', password_hash('x', PASSWORD_ARGON2ID, ['threads' => 1]) ?: '');",
            "171",
        ),
        (
            "$q = msg_get_queue(4711); msg_send($q, 1, 'x'); msg_receive($q, 1, $t, 9, $m); msg_remove_queue($q); $s = sem_get(4711); sem_acquire($s); sem_remove($s); echo $m;",
            "x",
        ),
        (
            "$f = fopen(tempnam(sys_get_temp_dir(), 'l'), 'c+'); echo (int) flock($f, LOCK_EX | LOCK_NB), (int) ftruncate($f, 5), fstat($f)['size'];",
            "115",
        ),
        (
            "session_start(); $_SESSION['a'] = 1; session_write_close(); session_start(); echo $_SESSION['a'];",
            "1",
        ),
        (
            "$x = new DOMDocument; $x->loadXML('<a><b/></a>'); $t = new XSLTProcessor; echo $x->getElementsByTagName('b')->length;",
            "1",
        ),
        (
            "$f = FFI::cdef('int getpid(void); int raise(int);'); echo (int) ($f->getpid() === getmypid()), $f->raise(0);",
            "10",
        ),
        (
            "echo posix_kill(getmypid(), 0) ? 1 : 0, posix_getrlimit()['soft openfiles'] > 0 ? 1 : 0, posix_setrlimit(POSIX_RLIMIT_CORE, 0, 0) ? 1 : 0;",
            "111",
        ),
        (
            "echo proc_nice(1) ? 'nice' : 'no', ' ', sys_getloadavg()[0] >= 0, ' ', disk_free_space('/') > 0;",
            "nice 1 1",
        ),
        (
            "echo glob('/etc/host*') ? 'globbed' : '', ' ', @exif_read_data('/nowhere') === false ? 1 : 0, ' ', iconv('UTF-8', 'ISO-8859-1', 'a');",
            "globbed 1 a",
        ),
    ];
    let base = std::env::temp_dir();
    let host_options = [
        "--sandbox",
        "--folder",
        base.to_str().unwrap(),
        "--temp-base",
        base.to_str().unwrap(),
        "-d",
        "ffi.enable=1",
    ];
    let mut host = Host::with_distribution(&host_options);
    let mut wrong = Vec::new();
    for (code, expected) in CODE {
        // A worker each: some of them end it, as proc_nice() does.
        let mut worker = host.worker(0);
        let script = host.script("extension.php", &format!("<?php {code}"));
        let answer = worker.run(&Ask::get(&script));
        if answer.text() != *expected {
            wrong.push(format!("{code}\n    {:?} instead of {expected:?}, {:?}", answer.text(), answer.log));
        }
        let pid = worker.pid;
        drop(worker);
        host.exited(pid);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a script calls /tmp is a folder of its host's own: an installer that has stored that path finds what it writes there.
#[test]
fn tmp_is_private() {
    // Builds with AddressSanitizer keep its functions in the place of ours.
    if option_env!("MILLRACE_ASAN").is_some() {
        return;
    }
    let outside = std::path::Path::new("/tmp/millrace-private-test");
    let _ = std::fs::remove_file(outside);
    // Not below /tmp, which would be the site's own then.
    let base = std::path::PathBuf::from(format!("/var/lib/millrace-private-{}", std::process::id()));
    std::fs::create_dir_all(base.join("temp")).unwrap();
    std::fs::create_dir_all(base.join("site")).unwrap();
    let (site, temp) = (base.join("site"), base.join("temp"));
    let options = ["--sandbox", "--folder", site.to_str().unwrap(), "--temp-base", temp.to_str().unwrap()];
    let mut host = Host::start(INI, &options);
    let mut other_host = Host::start(INI, &options);
    let mut other = other_host.worker(0);
    let page = site.join("page.php");
    let run = |worker: &mut Worker, code: &str| {
        std::fs::write(&page, format!("<?php opcache_invalidate(__FILE__, true); {code}")).unwrap();
        let answer = worker.run(&Ask::get(&page));
        (answer.text(), answer.log)
    };
    let code = "$d = '/tmp'; $f = \"$d/millrace-private-test\"; $n = tempnam('/tmp', 'x'); $checks = [ \
        'writable' => is_writable($d) && is_dir($d) && is_dir('/var/tmp'), 'write' => file_put_contents($f, 'own') === 3, \
        'read' => file_get_contents($f) === 'own' && filesize($f) === 3, 'same' => file_exists(sys_get_temp_dir() . '/millrace-private-test'), \
        'name' => realpath($f) === $f || realpath($f) === sys_get_temp_dir() . '/millrace-private-test', 'tempnam' => is_string($n) && file_exists($n), \
        'list' => in_array('millrace-private-test', scandir($d)) && in_array('millrace-private-test', iterator_to_array(new class(opendir($d)) implements IteratorAggregate { \
            function __construct(private $h) {} function getIterator(): Iterator { while (($e = readdir($this->h)) !== false) yield $e; } }, false)), \
        'folders' => mkdir('/tmp/a/b', 0700, true) && touch('/tmp/a/b/c', 5) && filemtime('/tmp/a/b/c') === 5 && rename('/tmp/a/b/c', '/tmp/d') && rmdir('/tmp/a/b') && rmdir('/tmp/a'), \
        'to the site' => copy($f, __DIR__ . '/copy') && rename('/tmp/d', __DIR__ . '/moved') && is_file(__DIR__ . '/moved'), \
        'include' => file_put_contents('/tmp/i.php', '<?php return 7;') && include('/tmp/i.php'), 'glob' => count(glob('/tmp/millrace-p*')) === 1, \
        'mode' => chmod($f, 0600) && decoct(fileperms($f) & 0777) === '600', 'append' => file_put_contents($f, '+', FILE_APPEND) === 1, \
        'climb' => @file_get_contents('/tmp/../etc/hostname') !== false, 'programs' => trim(shell_exec('cat $TMPDIR/millrace-private-test')) === 'own+', \
        'unlink' => unlink('/tmp/i.php') && !file_exists('/tmp/i.php'), 'elsewhere' => !is_writable('/var/lib') && !is_writable('/srv') && is_writable('/dev/null'), \
        'socket' => ($l = stream_socket_server('unix://' . __DIR__ . '/socket')) && is_writable(__DIR__ . '/socket')]; \
        echo json_encode(array_keys(array_filter($checks, fn ($good) => !$good)));";
    let mut worker = host.worker(0);
    assert_eq!(run(&mut worker, code).0, "[]");
    assert!(!outside.exists(), "it is in the folder of all users");
    assert_eq!(run(&mut other, "echo json_encode(file_exists('/tmp/millrace-private-test'));").0, "false");
    // Real permissions are none of the sandbox's business, and a folder is named once.
    let secret = base.join("other");
    std::fs::create_dir(&secret).unwrap();
    let ask = format!(
        "echo json_encode(@file_put_contents('{0}/x', 'x')); @file_put_contents('{0}/y', 'x'); @fopen('/nowhere/x', 'r'); @opendir('{0}');",
        secret.display()
    );
    for expected in [1, 0] {
        let (text, log) = run(&mut worker, &ask);
        let named =
            log.iter().filter(|line| line.contains("Millrace's sandbox does not let scripts")).count();
        assert_eq!((text.as_str(), named), ("false", expected), "{log:?}");
        assert!(expected == 0 || log[0].contains(&format!("write in {}: ", secret.display())), "{log:?}");
    }
    for number in 0..90 {
        std::fs::create_dir(secret.join(number.to_string())).unwrap();
    }
    let ask = format!("for ($i = 0; $i < 90; $i++) @touch('{}/' . $i . '/x');", secret.display());
    let log = run(&mut worker, &ask).1;
    assert!(
        log.len() <= 64 && log.last().unwrap().contains("more folders"),
        "{} {:?}",
        log.len(),
        log.last()
    );
    drop((host, other_host));
    std::fs::remove_dir_all(base).unwrap();
}

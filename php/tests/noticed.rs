//! Which code reads an object's properties: `millrace_notice_reads()`.

mod driver;

use driver::{Ask, Host};

/// A user, of whom two properties are watched; `seen` are the reads that were noticed. `$may`: what is allowed.
const USER: &str = "<?php
#[AllowDynamicProperties] class User { public $data; public $ID = 0; public $roles = ['a'];
    function __construct($id) { $this->ID = $id; $this->data = (object) ['name' => 'Anna']; }
    function __get($key) { return $this->data->$key ?? null; }
    function __isset($key) { return isset($this->data->$key); }
    function exists() { return !empty($this->ID); } }
$user = new User(5); $seen = []; $may = true;
$notice = function ($object) use (&$seen, &$may) { return millrace_notice_reads($object, ['ID', 'data'], function ($property) use (&$seen, &$may) {
    $frames = debug_backtrace(0, 3); $seen[] = $property . ':' . ($frames[1]['function'] ?? 'main') . ':' . basename($frames[0]['file'] ?? '?'); return $may; }); };
$ready = $notice($user);
function reads($user) { return $user->ID; }
function says(...$all) { global $seen; echo json_encode([...$all, $seen]), \"\\n\"; $seen = []; }
";

fn run(code: &str) -> String {
    let mut host = Host::start("zend_extension=opcache\n", &[]);
    let mut worker = host.worker(0);
    let script = host.script("page.php", &format!("{USER}{code}"));
    // The second run has what opcache has compiled, and the caches of its opcodes.
    let first = worker.run(&Ask::get(&script)).text();
    assert_eq!(worker.run(&Ask::get(&script)).text(), first);
    first
}

#[test]
fn reads_are_noticed_and_say_who_reads() {
    let said = run(
        "says($ready); says(reads($user)); says(reads($user), reads($user)); says($user->ID); says($user->exists()); says($user->name); says(isset($user->name));
         says(isset($user->ID), empty($user->ID), property_exists($user, 'ID'), $user->data->name, $user->roles);",
    );
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "[true,[]]");
    assert_eq!(lines[1], "[5,[\"ID:reads:page.php\"]]");
    assert_eq!(lines[2], "[5,5,[\"ID:reads:page.php\",\"ID:reads:page.php\"]]");
    assert_eq!(lines[3], "[5,[\"ID:main:page.php\"]]");
    assert_eq!(lines[4], "[true,[\"ID:exists:page.php\"]]");
    assert_eq!(lines[5], "[\"Anna\",[\"data:__get:page.php\"]]");
    assert_eq!(lines[6], "[true,[\"data:__isset:page.php\"]]");
    let three = "\"ID:main:page.php\",\"ID:main:page.php\",\"data:main:page.php\"";
    assert_eq!(lines[7], format!("[true,false,true,\"Anna\",[\"a\"],[{three}]]"));
}

#[test]
fn what_is_not_allowed_gets_the_value_and_nothing_is_noticed_any_more() {
    let said = run(
        "$may = false; says(reads($user)); says(reads($user), $user->name, $user->exists()); $may = true; says($notice($user)); says(reads($user));",
    );
    let expected =
        "[5,[\"ID:reads:page.php\"]]\n[5,\"Anna\",true,[]]\n[true,[]]\n[5,[\"ID:reads:page.php\"]]\n";
    assert_eq!(said, expected);
}

/// Each of these sees the object as it is, is noticed as a read of everything, and ends the watch.
#[test]
fn anything_but_a_read_ends_it() {
    for (code, value) in [
        ("array_keys((array) $user)", "[\"data\",\"ID\",\"roles\"]"),
        (
            "json_encode($user)",
            "\"{\\\"data\\\":{\\\"name\\\":\\\"Anna\\\"},\\\"ID\\\":5,\\\"roles\\\":[\\\"a\\\"]}\"",
        ),
        ("count(get_object_vars($user))", "3"),
        ("(clone $user)->ID", "5"),
        ("$user == new User(5)", "true"),
        ("strlen(serialize($user)) > 40", "true"),
        (
            "(function () use ($user) { foreach ($user as $key => $value) $all[] = $key; return $all; })()",
            "[\"data\",\"ID\",\"roles\"]",
        ),
        ("$user->ID = 6", "6"),
        ("++$user->ID", "6"),
        ("(function () use ($user) { $user->data->name = 'Bert'; return $user->name; })()", "\"Bert\""),
        ("(function () use ($user) { $user->more = 1; return $user->ID; })()", "5"),
        ("(function () use ($user) { unset($user->ID); return $user->roles; })()", "[\"a\"]"),
        ("(function () use ($user) { $id = &$user->ID; $id = 7; return $user->ID; })()", "7"),
    ] {
        let said = run(&format!(
            "$value = {code}; $noticed = count(array_filter($seen, fn ($one) => $one[0] === '*')); $seen = []; $user->roles; says($value, $noticed); reads($user); says();"
        ));
        assert_eq!(said, format!("[{value},1,[]]\n[[]]\n"), "{code}");
    }
}

#[test]
fn objects_come_and_go() {
    let said = run(
        "$notice(new User(7)); says(reads($user)); $other = new User(8); says($notice($other), $notice($user), reads($other)); says(reads($user));
         unset($user); says($notice($other)); unset($other); gc_collect_cycles(); says(gc_collect_cycles());
         $user = new User(9); foreach ($user as $some); says($notice($user)); $user = new User(9); $user->self = $user; says($notice($user));
         says(millrace_notice_reads(new User(1), ['none'], 'reads'), millrace_notice_reads(new User(1), [5], 'reads'), millrace_notice_reads(new User(1), ['ID'], 'none'));
         $user = new User(3); $notice($user); $user->data->loop = $user; gc_collect_cycles(); says($user->ID);
         $user = new User(4); $notice($user); register_shutdown_function(function () use ($user) { echo 'end ', $user->ID; });",
    );
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "[5,[]]", "another object was watched, and is gone");
    assert_eq!(lines[1], "[true,true,8,[]]");
    assert_eq!(lines[2], "[5,[\"ID:reads:page.php\"]]");
    assert_eq!((lines[3], lines[4]), ("[true,[]]", "[0,[]]"));
    assert_eq!((lines[5], lines[6]), ("[false,[]]", "[false,[]]"), "PHP would read their table");
    assert_eq!(lines[7], "[false,false,false,[]]");
    assert_eq!(lines[8], "[3,[\"*:main:page.php\"]]", "a write into what it holds ends it");
    assert_eq!(lines[9], "end 4");
}

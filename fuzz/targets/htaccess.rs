//! `.htaccess` files: any file compiles, and any request to it has a verdict, in bounded time; a malformed file closes its
//! folder.
#![no_main]

#[path = "../../crates/htaccess/tests/stand_in/mod.rs"]
mod stand_in;

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use millrace_htaccess::{Folder, Outcome, evaluate};
use stand_in::{Disk, index, request};

// The first line is the path, the rest the file.
fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let path = [b"/", &input[..end]].concat();
    let folder = Arc::new(Folder::compile(&input[end..]));
    let closed = folder.closed;
    let fields: Vec<(&str, &[u8])> = vec![("User-Agent", b"agent"), ("Authorization", b"Basic YTpi")];
    let index = index();
    let verdict = evaluate(&request(&path, b"a=b", fields, &index), &Disk(folder)).expect("there are rules");
    if let Some(status) = closed {
        assert_eq!(verdict.outcome, Outcome::Refuse(status));
    }
});

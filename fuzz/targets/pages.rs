//! Operations on the store of the page cache, compared with a simple reference: the model of the crate's own tests. The
//! input is a sequence of four-byte numbers.
#![no_main]

#[path = "../../crates/pages/tests/model/mod.rs"]
mod model;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (numbers, _) = input.as_chunks::<4>();
    let operations: Vec<u32> = numbers.iter().take(1000).map(|number| u32::from_le_bytes(*number)).collect();
    model::run(&operations);
});

//! Request targets to paths: no path leaves the root or contains anything invalid, and a clean path stays unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millrace_wire::path::normalise;

fuzz_target!(|input: &[u8]| {
    let mut path = b"left from before".to_vec();
    if normalise(input, &mut path).is_err() {
        return;
    }
    assert!(path.len() <= input.len());
    assert_eq!(path.first(), Some(&b'/'));
    assert!(!path.contains(&0));
    let mut segments = path[1..].split(|&b| b == b'/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        assert!(
            segment != b"." && segment != b".." && (last || !segment.is_empty()),
            "{:?}",
            path.escape_ascii()
        );
    }

    // Encoded again, the path is the same: nothing is decoded twice.
    let encoded: Vec<u8> = path
        .iter()
        .flat_map(|b| if *b == b'/' { vec![*b] } else { format!("%{b:02X}").into_bytes() })
        .collect();
    let mut again = Vec::new();
    assert_eq!(normalise(&encoded, &mut again), Ok(()));
    assert_eq!(again, path);
});

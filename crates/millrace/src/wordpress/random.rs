//! Secrets, from the operating system's randomness.

use crate::failure::{Explain, Failure};
use std::fs::File;
use std::io::Read;

/// Letters and digits that are not easily confused on a screen.
const READABLE: &[u8] = b"abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// The characters of WordPress's own keys (`wp_generate_password` with special and extra special characters).
const KEY: &[u8] =
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!@#$%^&*()-_ []{}<>~`+=,.;:/?|";

/// A password of 20 characters, 116 bits.
pub fn password() -> Result<String, Failure> {
    text(20, READABLE)
}

/// A key or salt of `wp-config.php`: 64 characters, 417 bits. Never a quote or a backslash.
pub fn key() -> Result<String, Failure> {
    text(64, KEY)
}

/// 32 hexadecimal digits, 128 bits.
pub fn hex() -> Result<String, Failure> {
    text(32, b"0123456789abcdef")
}

/// `length` characters, each chosen evenly from `alphabet`.
fn text(length: usize, alphabet: &[u8]) -> Result<String, Failure> {
    // Bytes from here on would favour the first characters of the alphabet.
    let even = 256 - 256 % alphabet.len();
    let mut source = File::open("/dev/urandom").or_fail(|| "cannot get random bytes for keys".into())?;
    let mut out = String::with_capacity(length);
    let mut bytes = [0_u8; 64];
    while out.len() < length {
        source.read_exact(&mut bytes).or_fail(|| "cannot get random bytes for keys".into())?;
        let chosen = bytes.iter().map(|b| usize::from(*b)).filter(|b| *b < even);
        out.extend(chosen.take(length - out.len()).map(|b| alphabet[b % alphabet.len()] as char));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn secrets_have_their_length_and_differ() {
        let keys: BTreeSet<String> = (0..50).map(|_| key().expect("randomness")).collect();
        assert_eq!(keys.len(), 50);
        assert!(keys.iter().all(|k| k.len() == 64 && !k.contains(['\'', '"', '\\'])));
        assert_eq!(password().expect("randomness").len(), 20);
        assert_eq!(hex().expect("randomness").len(), 32);
    }

    #[test]
    fn every_character_of_the_alphabet_turns_up() {
        let all: BTreeSet<char> =
            (0..200).flat_map(|_| key().expect("randomness").chars().collect::<Vec<_>>()).collect();
        assert_eq!(all.len(), KEY.len());
    }
}

//! Password hashes as `htpasswd` writes them, and argon2id.

use aws_lc_rs::{constant_time, digest};
use blowfish::Blowfish;
use data_encoding::{BASE64, Encoding, Specification};
use md5::{Digest, Md5};

use crate::argon2id::Argon2id;

/// A password hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hash<'a> {
    /// `$2y$`: cost, and salt with hash.
    Bcrypt(u32, &'a str),
    /// `$apr1$`: salt and hash.
    Apr1(&'a str, &'a str),
    /// `{SHA}`
    Sha1(&'a str),
    /// `$argon2id$`
    Argon2(Argon2id),
}

/// Maximum cost of bcrypt: at 12 a check takes about a quarter of a second.
const MOST_COST: u32 = 14;

impl<'a> Hash<'a> {
    /// Reads a hash.
    ///
    /// # Errors
    /// It has another form: what to do.
    pub fn new(text: &'a str) -> Result<Hash<'a>, String> {
        let again = "write the password again with `htpasswd -B`";
        if let Some(rest) = text.strip_prefix("$apr1$") {
            let (salt, hash) = rest.split_once('$').ok_or("its $apr1$ hash is not complete")?;
            return Ok(Hash::Apr1(salt, hash));
        }
        if let Some(hash) = text.strip_prefix("{SHA}") {
            return Ok(Hash::Sha1(hash));
        }
        if let Some(rest) = text.strip_prefix("$argon2id$") {
            return Argon2id::new(rest).map(Hash::Argon2);
        }
        if text.starts_with("$argon2") {
            return Err(format!("its hash is argon2i or argon2d, and only argon2id is supported: {again}"));
        }
        let bcrypt = ["$2y$", "$2a$", "$2b$"].iter().find_map(|prefix| text.strip_prefix(prefix));
        if let Some((cost, rest)) = bcrypt.and_then(|rest| rest.split_once('$')) {
            let cost = cost.parse().ok().filter(|cost| (4..=MOST_COST).contains(cost));
            let cost =
                cost.ok_or_else(|| format!("its bcrypt cost is not from 4 to {MOST_COST}: {again}"))?;
            if rest.len() != 53 || !rest.is_ascii() {
                return Err("its bcrypt hash is not complete".to_owned());
            }
            return Ok(Hash::Bcrypt(cost, rest));
        }
        Err(format!("its hash is crypt or plain text, which are not supported: {again}"))
    }

    /// Whether a check takes milliseconds or more.
    pub fn is_slow(&self) -> bool {
        matches!(self, Hash::Bcrypt(..) | Hash::Argon2(_))
    }

    /// Whether it is the hash of `password`.
    pub fn is_of(&self, password: &[u8]) -> bool {
        let (made, known) = match self {
            Hash::Argon2(known) => match known.of(password) {
                Some(made) => return constant_time::verify_slices_are_equal(&made, known.known()).is_ok(),
                None => return false,
            },
            Hash::Sha1(known) => {
                let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, password);
                (BASE64.encode(sum.as_ref()), *known)
            }
            Hash::Apr1(salt, known) => (apr1(password, salt.as_bytes()), *known),
            Hash::Bcrypt(cost, rest) => match bcrypt(password, *cost, &rest[..22]) {
                Some(hash) => (hash, &rest[22..]),
                None => return false,
            },
        };
        constant_time::verify_slices_are_equal(made.as_bytes(), known.as_bytes()).is_ok()
    }
}

/// bcrypt's hash of 23 bytes in its own base64 (Provos and Mazières, 1999). `None`: the salt is malformed.
fn bcrypt(password: &[u8], cost: u32, salt: &str) -> Option<String> {
    let encoding = bcrypt_base64()?;
    let salt = encoding.decode(salt.as_bytes()).ok()?;
    let mut key = password[..password.len().min(71)].to_vec();
    key.push(0);
    let mut state: Blowfish = Blowfish::bc_init_state();
    state.salted_expand_key(&salt, &key);
    for _ in 0..1u64 << cost {
        state.bc_expand_key(&key);
        state.bc_expand_key(&salt);
    }
    let mut words = [0x4F72_7068, 0x6561_6E42, 0x6568_6F6C, 0x6465_7253, 0x6372_7944, 0x6F75_6274u32];
    for pair in words.chunks_exact_mut(2) {
        for _ in 0..64 {
            let [left, right] = state.bc_encrypt([pair[0], pair[1]]);
            (pair[0], pair[1]) = (left, right);
        }
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).take(23).collect();
    Some(encoding.encode(&bytes))
}

fn bcrypt_base64() -> Option<Encoding> {
    let mut specification = Specification::new();
    specification.symbols.push_str("./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    specification.check_trailing_bits = false;
    specification.encoding().ok()
}

/// The hash of `htpasswd -m` (APR's apr_md5.c).
fn apr1(password: &[u8], salt: &[u8]) -> String {
    let salt = &salt[..salt.len().min(8)];
    let mut sum = md5(&[password, salt, password]);
    let mut text = [password, b"$apr1$", salt].concat();
    for start in (0..password.len()).step_by(16) {
        text.extend_from_slice(&sum[..(password.len() - start).min(16)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        text.push(if bits & 1 == 1 { 0 } else { password[0] });
        bits >>= 1;
    }
    sum = md5(&[&text]);
    for round in 0..1000 {
        let (first, last) = if round % 2 == 1 { (password, &sum[..]) } else { (&sum[..], password) };
        let salt = if round % 3 == 0 { &[] } else { salt };
        let again = if round % 7 == 0 { &[] } else { password };
        sum = md5(&[first, salt, again, last]);
    }
    const LETTERS: &[u8] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut out = String::new();
    let mut letters = |mut value: u32, count: u32| {
        for _ in 0..count {
            out.push(char::from(LETTERS[(value & 63) as usize]));
            value >>= 6;
        }
    };
    for [a, b, c] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        letters(u32::from(sum[a]) << 16 | u32::from(sum[b]) << 8 | u32::from(sum[c]), 4);
    }
    letters(sum[11].into(), 2);
    out
}

fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut sum = Md5::new();
    for part in parts {
        sum.update(part);
    }
    sum.finalize().into()
}

/// User and password of an Authorization field (RFC 7617).
pub fn credentials(value: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, rest) = value.split_at_checked(6)?;
    let text = rest.trim_ascii();
    let text = if scheme.eq_ignore_ascii_case(b"basic ") { BASE64.decode(text).ok()? } else { return None };
    let colon = text.iter().position(|byte| *byte == b':')?;
    let user = String::from_utf8(text[..colon].to_vec()).ok().filter(|user| !user.is_empty())?;
    Some((user, text[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `htpasswd -nb` and `-nbB`, `-nbs` of Apache 2.4, and by PHP's `password_hash`, for the password "secret".
    const HASHES: [&str; 4] = [
        "$apr1$bmBYZ8bR$PR7/6zf9fu4w8h8pwF4AR1",
        "$2y$05$M3DvUFV5NYaHgJal5YK37./e4XVMyGeP8YqIz0zcTksoTQyFISO9O",
        "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
        "$argon2id$v=19$m=1024,t=2,p=1$bjhtNkdJemFoTkVEaWc1WQ$qc8KwF8CRIuGl+tUtIyTFpJSxY9OfUDN1Nki4i9nZHA",
    ];

    #[test]
    fn hashes_of_htpasswd() {
        for text in HASHES {
            let hash = Hash::new(text).unwrap();
            assert!(hash.is_of(b"secret"), "{text}");
            assert!(!hash.is_of(b"Secret") && !hash.is_of(b""), "{text}");
        }
    }

    #[test]
    fn other_hashes_say_what_to_do() {
        for text in ["rqXexS6ZhobKA", "secret", "$2y$31$abc", "$2y$05$abc", "$apr1$x", "$argon2i$v=19$m=8"] {
            assert!(Hash::new(text).is_err(), "{text}");
        }
        assert!(Hash::new("plain").unwrap_err().contains("htpasswd -B"));
    }
}

//! argon2id hashes (RFC 9106) in PHC's string format, as PHP's `password_hash` and `argon2 -e` write them:
//! `$argon2id$v=19$m=65536,t=3,p=4$SALT$HASH`.

use argon2::{Algorithm, Argon2, Block, Params, Version};
use data_encoding::BASE64_NOPAD;

/// Maximum memory of a check in KiB: PHP's default. A check runs at most once at a time in each event loop.
const MOST_MEMORY: u32 = 65_536;

/// Maximum number of passes: ten over the maximum memory take about a second.
const MOST_PASSES: u32 = 10;

/// Maximum number of lanes. A check computes them one after the other.
const MOST_LANES: u32 = 16;

/// Lengths of salts in bytes: from PHC's recommended minimum to its maximum.
const SALT: std::ops::RangeInclusive<usize> = 8..=48;

/// Lengths of hashes in bytes: 128 bits resist guesses, 512 are the most that programs write.
const HASH: std::ops::RangeInclusive<usize> = 16..=64;

/// An argon2id hash within the bounds above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argon2id {
    /// KiB.
    memory: u32,
    passes: u32,
    lanes: u32,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl Argon2id {
    /// Reads what follows `$argon2id$`.
    ///
    /// # Errors
    /// It has another form, or a check of it would take too long or too much memory: what to do.
    pub(crate) fn new(text: &str) -> Result<Argon2id, String> {
        let parts: Vec<&str> = text.split('$').collect();
        let [version, costs, salt, hash] = parts[..] else {
            return Err("its argon2id hash is not complete: copy the whole line again".to_owned());
        };
        if version != "v=19" {
            return Err(format!("its argon2id version is not 19: {}", again()));
        }
        let [memory, passes, lanes] = read_costs(costs)
            .ok_or_else(|| format!("its argon2id costs are not like m=65536,t=3,p=4: {}", again()))?;
        within("memory in KiB (m)", memory, 8 * lanes.clamp(1, MOST_LANES), MOST_MEMORY)?;
        within("passes (t)", passes, 1, MOST_PASSES)?;
        within("lanes (p)", lanes, 1, MOST_LANES)?;
        let bytes = |text: &str| BASE64_NOPAD.decode(text.as_bytes()).ok();
        let salt = bytes(salt).filter(|salt| SALT.contains(&salt.len()));
        let hash = bytes(hash).filter(|hash| HASH.contains(&hash.len()));
        let (Some(salt), Some(hash)) = (salt, hash) else {
            return Err(format!("salt or hash of its argon2id hash are malformed: {}", again()));
        };
        Ok(Argon2id { memory, passes, lanes, salt, hash })
    }

    /// The stored hash.
    pub(crate) fn known(&self) -> &[u8] {
        &self.hash
    }

    /// The hash of `password` with the stored salt and costs. `None`: there is no memory for it.
    pub(crate) fn of(&self, password: &[u8]) -> Option<Vec<u8>> {
        let params = Params::new(self.memory, self.passes, self.lanes, Some(self.hash.len())).ok()?;
        let mut memory: Vec<Block> = Vec::new();
        memory.try_reserve_exact(params.block_count()).ok()?;
        memory.resize(params.block_count(), Block::default());
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let mut made = vec![0; self.hash.len()];
        argon2.hash_password_into_with_memory(password, &self.salt, &mut made, &mut memory).ok()?;
        Some(made)
    }
}

/// What to do about a hash that cannot be used.
fn again() -> String {
    "write the password again with `htpasswd -B`, or as argon2id with m=65536,t=3,p=4".to_owned()
}

/// Memory, passes and lanes of `m=65536,t=3,p=4`.
fn read_costs(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.split(',');
    let mut cost = |name: &str| parts.next()?.strip_prefix(name)?.parse().ok();
    let costs = [cost("m=")?, cost("t=")?, cost("p=")?];
    parts.next().is_none().then_some(costs)
}

fn within(what: &str, value: u32, least: u32, most: u32) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("its argon2id {what} is {value}, not from {least} to {most}: {}", again()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "bjhtNkdJemFoTkVEaWc1WQ$qc8KwF8CRIuGl+tUtIyTFpJSxY9OfUDN1Nki4i9nZHA";

    #[test]
    fn costs_have_bounds() {
        for costs in ["m=65536,t=10,p=1", "m=8,t=1,p=1", "m=128,t=1,p=16"] {
            assert!(Argon2id::new(&format!("v=19${costs}${REST}")).is_ok(), "{costs}");
        }
        for costs in [
            "m=65537,t=1,p=1",
            "m=4194304,t=1,p=1",
            "m=7,t=1,p=1",
            "m=127,t=1,p=16",
            "m=1024,t=0,p=1",
            "m=1024,t=11,p=1",
            "m=1024,t=1,p=0",
            "m=1024,t=1,p=17",
            "m=1024,t=1,p=4294967295",
            "m=99999999999,t=1,p=1",
            "m=1024,t=1",
            "t=1,m=1024,p=1",
            "m=1024,t=1,p=1,keyid=x",
        ] {
            let wrong = Argon2id::new(&format!("v=19${costs}${REST}")).unwrap_err();
            assert!(wrong.contains("htpasswd -B"), "{costs}: {wrong}");
        }
    }

    #[test]
    fn torn_and_old_hashes_are_refused() {
        let whole = format!("v=19$m=1024,t=2,p=1${REST}");
        assert!(Argon2id::new(&whole).is_ok());
        for text in ["", "v=19", "v=19$m=1024,t=2,p=1$$", &whole[..40], &whole[3..], &format!("{whole}$")] {
            assert!(Argon2id::new(text).is_err(), "{text}");
        }
        assert!(Argon2id::new(&whole.replace("v=19", "v=16")).unwrap_err().contains("version"));
    }
}

//! Limits of the process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the process's limit of descriptors as far as permitted: to `wanted` if it is privileged, otherwise to the
/// hard limit. Returns the new limit; `u64::MAX`: no limit. Never lowers it.
///
/// # Errors
/// The kernel refuses even the hard limit.
pub fn raise_descriptor_limit(wanted: u64) -> io::Result<u64> {
    let now = getrlimit(Resource::Nofile);
    let soft = now.current.unwrap_or(u64::MAX);
    let hard = now.maximum.unwrap_or(u64::MAX);
    if soft >= wanted {
        return Ok(soft);
    }
    if wanted > hard {
        let raised = Rlimit { current: Some(wanted), maximum: Some(wanted) };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            return Ok(wanted);
        }
    }
    let reachable = wanted.min(hard);
    if reachable > soft {
        setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum: now.maximum })?;
    }
    Ok(reachable.max(soft))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raises_and_never_lowers() {
        let before = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert_eq!(raise_descriptor_limit(16).unwrap(), before);
        let raised = raise_descriptor_limit(before.saturating_add(1)).unwrap();
        assert!(raised >= before);
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), raised);
    }
}

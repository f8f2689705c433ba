//! Users and groups by name, from all sources of the system (NSS): /etc/passwd, LDAP, systemd.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;

/// A user of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// User ID.
    pub uid: u32,
    /// ID of the primary group.
    pub gid: u32,
}

/// The buffer for an entry starts with this size, and ends with [`MOST`]: a group may have thousands of members.
const FIRST: usize = 1 << 10;
const MOST: usize = 1 << 20;

/// The user with this name or number; `None` if there is none.
pub fn user(name: &str) -> Option<Account> {
    let name = CString::new(name).ok()?;
    let found = with_buffer(|buffer| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut result = std::ptr::null_mut();
        // SAFETY: all pointers are valid for the call, and the buffer's length is its own.
        let error = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut result,
            )
        };
        // SAFETY: a result that is not null points to `entry`, which the call has filled in.
        let account = (!result.is_null())
            .then(|| unsafe { &*result })
            .map(|found| Account { uid: found.pw_uid, gid: found.pw_gid });
        (error, account)
    });
    found.or_else(|| numeric(&name).map(|id| Account { uid: id, gid: id }))
}

/// The primary group of a user ID; `None` if no user has it.
pub fn group_of(uid: u32) -> Option<u32> {
    with_buffer(|buffer| {
        let mut entry = MaybeUninit::<libc::passwd>::uninit();
        let mut result = std::ptr::null_mut();
        // SAFETY: as in `user`.
        let error = unsafe {
            libc::getpwuid_r(uid, entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut result)
        };
        // SAFETY: as in `user`.
        (error, (!result.is_null()).then(|| unsafe { &*result }).map(|found| found.pw_gid))
    })
}

/// The group with this name or number; `None` if there is none.
pub fn group_id(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let found = with_buffer(|buffer| {
        let mut entry = MaybeUninit::<libc::group>::uninit();
        let mut result = std::ptr::null_mut();
        // SAFETY: as in `user`.
        let error = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut result,
            )
        };
        // SAFETY: as in `user`.
        (error, (!result.is_null()).then(|| unsafe { &*result }).map(|found| found.gr_gid))
    });
    found.or_else(|| numeric(&name))
}

fn numeric(name: &CStr) -> Option<u32> {
    name.to_str().ok()?.parse().ok()
}

/// Calls `look` with a larger buffer until it no longer fails with ERANGE.
fn with_buffer<T>(look: impl Fn(&mut [libc::c_char]) -> (libc::c_int, Option<T>)) -> Option<T> {
    let mut size = FIRST;
    loop {
        match look(&mut vec![0; size]) {
            (libc::ERANGE, _) if size < MOST => size *= 4,
            (_, found) => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_nobody_there() {
        assert_eq!(user("root"), Some(Account { uid: 0, gid: 0 }));
        assert_eq!(group_id("root"), Some(0));
        assert_eq!(user("4711"), Some(Account { uid: 4711, gid: 4711 }));
        assert_eq!((user("no such user"), group_id("a\0b")), (None, None));
    }
}

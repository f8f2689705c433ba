//! What a script of the site has decided about a request, and the names of fields that only the server may send.

/// The decision of a script (`auth.script` of a rule).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthState {
    /// None yet.
    #[default]
    Unasked,
    /// It lets the request pass.
    Passed,
    /// It has not decided: the status for the client.
    Failed(u16),
}

/// Whether PHP, or an application that gets CGI's or WSGI's variables, cannot tell two names of fields apart:
/// `X_User` and `x-user`.
pub fn is_same_variable(name: &str, known: &str) -> bool {
    let plain = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() == known.len() && name.bytes().map(plain).eq(known.bytes().map(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_become_one_variable() {
        for name in ["X-User", "x-user", "X_USER", "x_user"] {
            assert!(is_same_variable(name, "X-User"), "{name}");
        }
        for name in ["X-Users", "X-Use", "X.User", "XUser", ""] {
            assert!(!is_same_variable(name, "X-User"), "{name}");
        }
    }
}

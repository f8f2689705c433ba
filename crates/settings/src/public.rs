//! Host names that a certificate authority issues certificates for.

/// Top-level names that the public DNS does not have (RFC 2606, 6761, 6762, 7686, 8375, 9476; the last four by custom).
const NOT_PUBLIC: &[&str] = &[
    "localhost",
    "local",
    "internal",
    "test",
    "example",
    "invalid",
    "onion",
    "home.arpa",
    "alt",
    "lan",
    "home",
    "corp",
    "localdomain",
];

/// Why no authority issues a certificate for `name` by ACME, as the end of a sentence that starts with the name.
/// `is_public`: the authority serves the public DNS; a private one may know names of its company.
pub(crate) fn why_not(name: &str, is_public: bool) -> Option<&'static str> {
    let below =
        |parent: &str| name.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if name.starts_with("*.") {
        return Some("is a wildcard, which requires the DNS-01 challenge; Millrace does not support it");
    }
    if name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok() {
        return Some("is an address, not a name");
    }
    if name.contains('_') {
        return Some("has an underscore, which certificates do not allow");
    }
    if !is_public {
        return None;
    }
    if NOT_PUBLIC.iter().any(|parent| below(parent)) {
        return Some("is not a public DNS name");
    }
    (!name.contains('.')).then_some("has no dot, so it is not a public DNS name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_an_authority_can_be_asked_for() {
        for good in ["example.com", "www.example.com", "xn--bcher-kva.de", "mylocal.org", "test.dev"] {
            assert_eq!(why_not(good, true), None, "{good}");
        }
        for private in ["localhost", "a.localhost", "printer.local", "intranet", "shop.test", "nas.home.arpa"]
        {
            assert!(why_not(private, true).is_some(), "{private}");
            assert_eq!(why_not(private, false), None, "{private}");
        }
        for never in ["*.example.com", "192.0.2.1", "[::1]", "my_shop.example.com"] {
            assert!(why_not(never, false).is_some(), "{never}");
        }
    }
}

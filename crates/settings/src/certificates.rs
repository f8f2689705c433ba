//! What a configuration wants to know of certificates. This crate knows no cryptography: who loads a configuration to
//! serve it, or to check it, brings a [`CertificateReader`].

use std::path::Path;
use std::time::{Duration, SystemTime};

/// Looks into the files of certificates, as the server does when it starts.
pub trait CertificateReader {
    /// The certificate in `cert`, if it can be used with `key`.
    ///
    /// # Errors
    /// Why the server refuses to start with the two.
    fn certificate(&self, cert: &Path, key: &Path) -> Result<CertificateFacts, CertificateFault>;

    /// Whether `file` has authorities of client certificates.
    ///
    /// # Errors
    /// Why the server refuses to start with it.
    fn client_authorities(&self, file: &Path) -> Result<(), String>;

    /// Whether `file` has authorities that servers can be verified with.
    ///
    /// # Errors
    /// Why not.
    fn trusted(&self, file: &Path) -> Result<(), String>;
}

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// Its DNS names, lower case; `*.example.com` stands for one label.
    pub names: Vec<String>,
    /// When it becomes valid.
    pub begins: SystemTime,
    /// When it expires.
    pub ends: SystemTime,
    /// The first certificate of the file that does not certify the one before it: its number, from 2, and its subject.
    pub out_of_order: Option<(usize, String)>,
    /// The authority that the last certificate of the file is from, if no root that clients have has certified any of them; and where its
    /// certificate is.
    pub missing_issuer: Option<(String, String)>,
}

/// Why a certificate can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFault {
    /// Whether the file of the key is at fault, or else the one of the certificate.
    pub is_key: bool,
    /// What is wrong.
    pub title: String,
    /// What to do.
    pub cure: String,
}

impl CertificateFacts {
    /// Whether clients accept it for this host name.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        let wildcard = name.split_once('.').map(|(_, rest)| format!("*.{rest}"));
        self.names.iter().any(|own| own == name || Some(own) == wildcard.as_ref())
    }

    /// Whether it should have been renewed by now: less than 14 days are left, or a fifth of a short life.
    #[must_use]
    pub fn is_near_its_end(&self, now: SystemTime) -> bool {
        /// Tools renew a certificate for 90 days when 30 are left: two weeks later that has failed many times.
        const LATE: Duration = Duration::from_secs(14 * 24 * 3600);
        let life = self.ends.duration_since(self.begins).unwrap_or_default();
        self.ends.duration_since(now).unwrap_or_default() < LATE.min(life / 5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn facts(names: &[&str], life: u32) -> CertificateFacts {
        let begins = SystemTime::UNIX_EPOCH;
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        CertificateFacts {
            names,
            begins,
            ends: begins + DAY * life,
            out_of_order: None,
            missing_issuer: None,
        }
    }

    #[test]
    fn names_that_clients_accept() {
        let facts = facts(&["a.test", "*.b.test"], 90);
        for (name, expected) in [
            ("a.test", true),
            ("x.a.test", false),
            ("x.b.test", true),
            ("*.b.test", true),
            ("b.test", false),
            ("x.y.b.test", false),
        ] {
            assert_eq!(facts.covers(name), expected, "{name}");
        }
    }

    #[test]
    fn the_time_to_renew_depends_on_the_life() {
        for (life, left, expected) in
            [(90, 30, false), (90, 13, true), (365, 15, false), (6, 2, false), (6, 1, true)]
        {
            let facts = facts(&[], life);
            assert_eq!(facts.is_near_its_end(facts.ends - DAY * left), expected, "{left} of {life} days");
        }
    }
}

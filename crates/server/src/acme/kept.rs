//! A certificate with its key, and its data.

use instant_acme::CertificateIdentifier;

use super::failure::{AcmeFailure, Cause};
use super::schedule::Life;
use super::store::Store;
use crate::tls::{Pair, TlsError};

/// A certificate with its key.
#[derive(Debug)]
pub struct StoredCertificate {
    /// For TLS.
    pub pair: Pair,
    /// When it is valid.
    pub life: Life,
    /// Its identifier at the authority; `None`: it lacks the data for one (RFC 9773 section 4.1).
    pub id: Option<CertificateIdentifier<'static>>,
}

impl StoredCertificate {
    /// The stored certificate; `None`: there is none.
    ///
    /// # Errors
    /// It can't be read, or is damaged.
    pub fn load(store: &Store, id: &str) -> Result<Option<StoredCertificate>, AcmeFailure> {
        let file = file(id);
        let Some(bytes) = store.read(&file)? else { return Ok(None) };
        StoredCertificate::parse(&bytes).map(Some).map_err(|why| {
            AcmeFailure::new(Cause::Disk, format!("cannot use the stored certificate {file}: {why}"))
        })
    }

    /// A key with its certificate and chain, in PEM.
    ///
    /// # Errors
    /// It is something else.
    pub fn parse(pem: &[u8]) -> Result<StoredCertificate, TlsError> {
        let pair = Pair::from_pem(pem)?;
        let facts = pair.facts()?;
        let life = Life { begins: facts.begins, ends: facts.ends };
        let id =
            CertificateIdentifier::try_from(pair.end_entity()).ok().map(CertificateIdentifier::into_owned);
        Ok(StoredCertificate { life, id, pair })
    }

    /// Whether it covers all of these names.
    pub fn covers(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.pair.names().contains(name))
    }
}

/// The file of a certificate.
pub fn file(id: &str) -> String {
    format!("{id}.pem")
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_stands_in_it() {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters =
            rcgen::CertificateParams::new(vec!["a.example".to_owned(), "b.example".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2026, 1, 31);
        let pem = key.serialize_pem() + &parameters.self_signed(&key).unwrap().pem();
        let kept = StoredCertificate::parse(pem.as_bytes()).unwrap();
        let since = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!((since(kept.life.begins), since(kept.life.ends)), (1_767_225_600, 1_769_817_600));
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(kept.covers(&names(&["b.example", "a.example"])) && !kept.covers(&names(&["c.example"])));
        assert!(StoredCertificate::parse(key.serialize_pem().as_bytes()).is_err());
    }
}

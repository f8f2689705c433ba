//! Certificates and their keys, and the choice for a client: by the name that it asks for (RFC 6066 section 3), and
//! among several certificates for a name by the signatures that it can verify.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use millrace_sys::{LARGEST_CONFIGURATION, read_regular};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use webpki::EndEntityCert;

use super::error::TlsError;
use super::issued::{self, Issued};
use super::terms;

/// How long before its creation a self-signed certificate becomes valid: clocks differ.
const BEGINS_BEFORE: Duration = Duration::from_secs(24 * 3600);
/// Its validity period. Clients reject certificates valid for more than 825 days, whatever their issuer.
const LIFE: Duration = Duration::from_secs(824 * 24 * 3600);

/// Names in a self-signed certificate besides the names of the sites.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

thread_local! {
    /// The name that was last asked for. The library passes it only to the choice of the certificate.
    static ASKED: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// The name that the latest client asked for, if its handshake has just reached the choice of the certificate.
pub(super) fn take_asked() -> Option<Box<str>> {
    ASKED.take()
}

/// The certificates in force. They can be replaced while clients connect.
#[derive(Debug, Default)]
pub struct Certificates {
    names: Mutex<Arc<Names>>,
    issued: Arc<Issued>,
}

impl Certificates {
    /// Only the certificates that an authority has issued.
    pub fn new(issued: Arc<Issued>) -> Certificates {
        Certificates { names: Mutex::default(), issued }
    }

    /// Puts these certificates in force for new handshakes, followed by the ones that an authority has issued. The
    /// first is for clients that ask for no name, or for an unknown one; `own` for names that no certificate has.
    pub fn replace(&self, mut pairs: Vec<Pair>, own: Option<&Pair>) {
        pairs.extend(self.issued.pairs());
        let names = Names::of(pairs, own);
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(names);
    }

    /// Whether the certificate for clients that ask for `asked` is also for `host`.
    pub fn covers(&self, asked: &str, host: &str) -> bool {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let shown = names.of_name(asked).unwrap_or(&names.default);
        names.of_name(host).is_some_and(|of| of.iter().any(|key| shown.iter().any(|s| Arc::ptr_eq(s, key))))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        ASKED.set(hello.server_name().map(Box::from));
        if issued::is_challenge(&hello) {
            return self.issued.answer(hello.server_name()?);
        }
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        names.find(hello.server_name(), hello.signature_schemes())
    }
}

/// A certificate with its chain and its key.
#[derive(Clone, Debug)]
pub struct Pair {
    key: Arc<CertifiedKey>,
    /// Its DNS names, lower case.
    names: Vec<String>,
}

/// The text of a file in PEM. It may be in a folder of a site's owner.
pub(super) fn read_pem(file: &Path) -> Result<Vec<u8>, pem::Error> {
    read_regular(file, LARGEST_CONFIGURATION).map_err(pem::Error::Io)
}

impl Pair {
    /// Reads the files, in PEM: the certificate followed by its chain, and its key.
    ///
    /// # Errors
    /// They can't be read, have other content, or don't belong together; with what to do.
    pub fn load(certificate: &Path, key: &Path) -> Result<Pair, TlsError> {
        let chain: Vec<CertificateDer<'static>> = read_pem(certificate)
            .and_then(|text| CertificateDer::pem_slice_iter(&text).collect())
            .map_err(|error| TlsError::Unreadable("certificate", certificate.to_owned(), error))?;
        if chain.is_empty() {
            return Err(TlsError::Empty(certificate.to_owned()));
        }
        let private = read_pem(key)
            .and_then(|text| PrivateKeyDer::from_pem_slice(&text))
            .map_err(|error| TlsError::Unreadable("key", key.to_owned(), error))?;
        Pair::new(chain, private)
            .map_err(|why| TlsError::Files(certificate.to_owned(), key.to_owned(), Box::new(why)))
    }

    /// A self-signed certificate for these names.
    ///
    /// # Errors
    /// A name is not possible in a certificate.
    pub fn self_signed(names: &[String]) -> Result<Pair, TlsError> {
        let all = names.iter().cloned().chain(LOCAL_NAMES.map(str::to_owned));
        let made = || {
            let mut parameters = rcgen::CertificateParams::new(all.collect::<Vec<_>>())?;
            let begins = SystemTime::now() - BEGINS_BEFORE;
            (parameters.not_before, parameters.not_after) = (begins.into(), (begins + LIFE).into());
            let key = rcgen::KeyPair::generate()?;
            Ok((parameters.self_signed(&key)?, key))
        };
        let (certificate, key) = made().map_err(TlsError::SelfSigned)?;
        Pair::new(vec![certificate.into()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }

    /// Reads a text in PEM with a key, its certificate and its chain.
    ///
    /// # Errors
    /// It has other content, or the parts don't belong together.
    pub fn from_pem(text: &[u8]) -> Result<Pair, TlsError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(text)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::Text("certificate", error))?;
        if chain.is_empty() {
            return Err(TlsError::EmptyText);
        }
        let key = PrivateKeyDer::from_pem_slice(text).map_err(|error| TlsError::Text("key", error))?;
        Pair::new(chain, key)
    }

    /// A certificate that proves to an authority that `name` is ours (RFC 8737 section 3). It is of no use to other
    /// clients.
    ///
    /// # Errors
    /// The name is not possible in a certificate.
    pub fn for_challenge(name: &str, digest: &[u8]) -> Result<Pair, TlsError> {
        let wrong = |why: String| TlsError::Challenge(name.to_owned(), why);
        let made = || {
            let mut parameters = rcgen::CertificateParams::new(vec![name.to_owned()])?;
            parameters.custom_extensions = vec![rcgen::CustomExtension::new_acme_identifier(digest)];
            let key = rcgen::KeyPair::generate()?;
            Ok((parameters.self_signed(&key)?, key))
        };
        let (certificate, key) = made().map_err(|error: rcgen::Error| wrong(error.to_string()))?;
        let der = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let key = terms::provider().key_provider.load_private_key(der);
        let key = key.map_err(|error| wrong(error.to_string()))?;
        let key = Arc::new(CertifiedKey::new(vec![certificate.into()], key));
        Ok(Pair { key, names: vec![name.to_owned()] })
    }

    /// Its DNS names, lower case.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The certificate itself, without its chain.
    pub fn end_entity(&self) -> &CertificateDer<'static> {
        &self.key.cert[0]
    }

    /// In the type of rustls.
    pub(super) fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Pair, TlsError> {
        let names = EndEntityCert::try_from(&chain[0])
            .map_err(TlsError::Version)?
            .valid_dns_names()
            .map(str::to_ascii_lowercase)
            .collect();
        let key = CertifiedKey::from_der(chain, key, &terms::provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => TlsError::OtherKey,
            error => TlsError::Key(error),
        })?;
        Ok(Pair { key: Arc::new(key), names })
    }
}

/// Certificates by name.
#[derive(Debug, Default)]
struct Names {
    /// `*.example.com` stands here as `.example.com`.
    by_name: HashMap<String, Vec<Arc<CertifiedKey>>>,
    /// For clients that ask for no known name.
    default: Vec<Arc<CertifiedKey>>,
}

impl Names {
    fn of(pairs: Vec<Pair>, own: Option<&Pair>) -> Names {
        let mut names = Names::default();
        let first: Vec<String> = pairs.first().map(|pair| pair.names.clone()).unwrap_or_default();
        for (number, pair) in pairs.into_iter().enumerate() {
            // The default also gets the same site's certificate with the other kind of key.
            if number == 0 || (!first.is_empty() && pair.names == first) {
                names.default.push(pair.key.clone());
            }
            for name in pair.names {
                let name = name.strip_prefix('*').map(str::to_owned).unwrap_or(name);
                names.by_name.entry(name).or_default().push(pair.key.clone());
            }
        }
        if let Some(own) = own {
            names.fill_in(own);
        }
        // The certificate that is cheaper for both ends comes first.
        for keys in names.by_name.values_mut().chain([&mut names.default]) {
            keys.sort_by_key(|key| key.key.algorithm() == SignatureAlgorithm::RSA);
        }
        names
    }

    /// A self-signed certificate is only for names that have no other.
    fn fill_in(&mut self, own: &Pair) {
        for name in &own.names {
            let covered = |at: usize| self.by_name.contains_key(&name[at..]);
            if !name.find('.').is_some_and(covered) {
                self.by_name.entry(name.clone()).or_insert_with(|| vec![own.key.clone()]);
            }
        }
        if self.default.is_empty() {
            self.default.push(own.key.clone());
        }
    }

    fn find(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let fits = |keys: &Vec<Arc<CertifiedKey>>| {
            keys.iter().find(|key| key.key.choose_scheme(schemes).is_some()).cloned()
        };
        let of_name = name.and_then(|name| self.of_name(name));
        // If none fits, rustls finds this out itself and ends the handshake with `handshake_failure` (RFC 8446 section
        // 6.2). Without any certificate it would send `access_denied`, which says nothing about the signature schemes.
        let any = || of_name.unwrap_or(&self.default).first().cloned();
        of_name.and_then(fits).or_else(|| fits(&self.default)).or_else(any)
    }

    /// The certificates for a name.
    fn of_name(&self, name: &str) -> Option<&Vec<Arc<CertifiedKey>>> {
        let name = name.to_ascii_lowercase();
        // A wildcard stands for one label (RFC 6125 section 6.4.3).
        let wildcard = || self.by_name.get(&name[name.find('.')?..]);
        self.by_name.get(&name).or_else(wildcard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_for_the_names_of_its_certificate() {
        let pairs = vec![
            pair(&["a.test", "b.test", "*.w.test"], &rcgen::PKCS_ECDSA_P256_SHA256),
            pair(&["c.test"], &rcgen::PKCS_ECDSA_P256_SHA256),
        ];
        let certificates = Certificates::default();
        certificates.replace(pairs, None);
        for (asked, host, covered) in [
            ("a.test", "B.test", true),
            ("a.test", "x.w.test", true),
            ("x.w.test", "a.test", true),
            ("a.test", "c.test", false),
            ("a.test", "unknown.test", false),
            ("c.test", "a.test", false),
            ("unknown.test", "b.test", true),
        ] {
            assert_eq!(certificates.covers(asked, host), covered, "{asked} {host}");
        }
    }

    fn pair(names: &[&str], algorithm: &'static rcgen::SignatureAlgorithm) -> Pair {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        Pair::new(vec![made.into()], PrivatePkcs8KeyDer::from(key.serialize_der()).into()).unwrap()
    }

    const EC: &[SignatureScheme] = &[SignatureScheme::ECDSA_NISTP256_SHA256];
    const RSA: &[SignatureScheme] = &[SignatureScheme::RSA_PSS_SHA256];

    #[test]
    fn by_name_and_by_what_the_client_can_check() {
        let first = pair(&["a.example"], &rcgen::PKCS_ECDSA_P256_SHA256);
        let rsa = pair(&["a.example"], &rcgen::PKCS_RSA_SHA256);
        let wild = pair(&["*.b.example", "b.example"], &rcgen::PKCS_ECDSA_P256_SHA256);
        let keys = [&first, &rsa, &wild].map(|pair| pair.key.clone());
        // RSA is first in the configuration: a client that can verify both still gets the cheaper one.
        let names = Names::of(vec![rsa, first, wild], None);
        for (name, schemes, which) in [
            (Some("a.example"), EC, 0),
            (Some("A.Example"), RSA, 1),
            (Some("a.example"), &[EC, RSA].concat(), 0),
            (Some("x.b.example"), EC, 2),
            (Some("b.example"), EC, 2),
            (Some("x.y.b.example"), EC, 0),
            (Some("x.b.example"), RSA, 1),
            (None, EC, 0),
            (Some("else"), RSA, 1),
            // It can verify none: the handshake must fail for this reason, not because there is no certificate.
            (None, &[SignatureScheme::ED25519], 0),
            (Some("x.b.example"), &[SignatureScheme::ED25519], 2),
            (Some("else"), &[], 0),
        ] {
            let found = names.find(name, schemes);
            let same = found.is_some_and(|found| Arc::ptr_eq(&found, &keys[which]));
            assert!(same, "{name:?} {schemes:?}");
        }
    }

    #[test]
    fn our_own_certificate_is_for_names_that_have_none() {
        let rsa = pair(&["a.example", "*.b.example"], &rcgen::PKCS_RSA_SHA256);
        let own = pair(&["a.example", "x.b.example", "c.example"], &rcgen::PKCS_ECDSA_P256_SHA256);
        let names = Names::of(vec![rsa.clone()], Some(&own));
        let schemes = [EC, RSA].concat();
        for (name, expected) in
            [("a.example", &rsa), ("x.b.example", &rsa), ("c.example", &own), ("else", &rsa)]
        {
            assert!(Arc::ptr_eq(&names.find(Some(name), &schemes).unwrap(), &expected.key), "{name}");
        }
        let names = Names::of(Vec::new(), Some(&own));
        assert!(Arc::ptr_eq(&names.find(None, &schemes).unwrap(), &own.key));
    }

    #[test]
    fn a_certificate_of_our_own() {
        let pair = Pair::self_signed(&["shop.example".to_owned()]).unwrap();
        assert!(
            pair.names.contains(&"shop.example".to_owned()) && pair.names.contains(&"localhost".to_owned())
        );
        let (_, parsed) = x509_parser::parse_x509_certificate(pair.end_entity()).unwrap();
        let (begins, ends) = (parsed.validity().not_before, parsed.validity().not_after);
        let days = (ends.timestamp() - begins.timestamp()) / 86400;
        assert!((365..=825).contains(&days), "{days} days");
        assert!(parsed.validity().is_valid());
    }

    #[test]
    fn files_that_are_none() {
        let folder = std::env::temp_dir().join(format!("millrace-tls-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = |name: &str, text: &str| {
            std::fs::write(folder.join(name), text).unwrap();
            folder.join(name)
        };
        let (one, two) = (
            rcgen::generate_simple_self_signed(["a".to_owned()]),
            rcgen::generate_simple_self_signed(["b".to_owned()]),
        );
        let (one, two) = (one.unwrap(), two.unwrap());
        let (cert, key) = (at("cert", &one.cert.pem()), at("key", &one.signing_key.serialize_pem()));
        let (other, empty) = (at("other", &two.signing_key.serialize_pem()), at("empty", ""));
        assert!(Pair::load(&cert, &key).is_ok());
        let said = |cert: &Path, key: &Path| Pair::load(cert, key).unwrap_err();
        let why = said(&cert, &other);
        assert!(why.to_string().ends_with("the key does not match the certificate"), "{why}");
        assert!(matches!(why, TlsError::Files(_, _, why) if matches!(*why, TlsError::OtherKey)));
        assert!(matches!(said(&empty, &key), TlsError::Empty(file) if file == empty));
        assert!(matches!(said(&cert, &empty), TlsError::Unreadable("key", file, _) if file == empty));
        let none = folder.join("none");
        assert!(matches!(said(&none, &key), TlsError::Unreadable("certificate", file, _) if file == none));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

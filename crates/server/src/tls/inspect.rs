//! Looks into the files of certificates for a configuration that is checked or loaded, exactly as they are read at a start.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use millrace_settings::plan::Clients;
use millrace_settings::{CertificateFacts, CertificateFault, CertificateReader};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};
use x509_parser::time::ASN1Time;

use super::certificates::{Pair, read_pem};
use super::client::system_certificates;
use super::clients;
use super::error::TlsError;
use super::{Trust, terms};

/// Reads the files of certificates.
#[derive(Clone, Copy, Debug, Default)]
pub struct CertificateFiles;

impl CertificateReader for CertificateFiles {
    fn certificate(&self, cert: &Path, key: &Path) -> Result<CertificateFacts, CertificateFault> {
        Pair::load(cert, key).and_then(|pair| pair.facts()).map_err(|why| fault(why, cert, key))
    }

    fn client_authorities(&self, file: &Path) -> Result<(), String> {
        let clients = Clients { required: true, ca: file.to_owned() };
        clients::verifier(&clients).map(drop).map_err(|why| why.to_string())
    }

    fn trusted(&self, file: &Path) -> Result<(), String> {
        Trust::new(Some(file)).map(drop).map_err(|why| why.to_string())
    }
}

impl Pair {
    /// What the certificate says.
    ///
    /// # Errors
    /// It can't be parsed.
    pub fn facts(&self) -> Result<CertificateFacts, TlsError> {
        let chain =
            self.key().cert.iter().map(|one| X509Certificate::from_der(one).map(|(_, parsed)| parsed));
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(TlsError::Parts)?;
        let next = chain.windows(2).position(|two| two[0].issuer().as_raw() != two[1].subject().as_raw());
        let validity = chain[0].validity();
        Ok(CertificateFacts {
            names: self.names().to_vec(),
            begins: moment(validity.not_before),
            ends: moment(validity.not_after),
            out_of_order: next.map(|before| (before + 2, chain[before + 1].subject().to_string())),
            missing_issuer: missing_issuer(&chain),
        })
    }
}

/// The authority whose certificate is missing at the end of a chain, and where it is. An authority that says where that is expects clients
/// not to have it; of the others, nobody knows.
fn missing_issuer(chain: &[X509Certificate<'_>]) -> Option<(String, String)> {
    let last = chain.last()?;
    let place = issuer_place(last)?;
    let is_root = |one: &X509Certificate<'_>| one.issuer().as_raw() == one.subject().as_raw();
    let roots = Roots::of_this_machine()?;
    let is_known = |one: &X509Certificate<'_>| is_root(one) || roots.has(one.issuer().as_raw());
    (!chain.iter().any(is_known)).then(|| (last.issuer().to_string(), place))
}

/// Where the certificate of the issuer is (RFC 5280 section 4.2.2.1).
fn issuer_place(one: &X509Certificate<'_>) -> Option<String> {
    /// id-ad-caIssuers.
    const ISSUERS: &str = "1.3.6.1.5.5.7.48.2";
    one.extensions().iter().find_map(|extension| {
        let ParsedExtension::AuthorityInfoAccess(access) = extension.parsed_extension() else { return None };
        let mut places = access.accessdescs.iter().filter(|one| one.access_method.to_id_string() == ISSUERS);
        places.find_map(|one| match &one.access_location {
            GeneralName::URI(place) => Some((*place).to_owned()),
            _ => None,
        })
    })
}

/// The names of the authorities that this machine trusts, as clients of the Internet do.
struct Roots(Vec<Vec<u8>>);

impl Roots {
    fn of_this_machine() -> Option<Roots> {
        let text = read_pem(&system_certificates()?).ok()?;
        let all = CertificateDer::pem_slice_iter(&text).filter_map(Result::ok);
        let name = |one: CertificateDer<'_>| {
            let (_, parsed) = X509Certificate::from_der(&one).ok()?;
            Some(parsed.subject().as_raw().to_vec())
        };
        let names: Vec<_> = all.filter_map(name).collect();
        (!names.is_empty()).then_some(Roots(names))
    }

    fn has(&self, name: &[u8]) -> bool {
        self.0.iter().any(|known| known == name)
    }
}

/// A time of a certificate.
fn moment(time: ASN1Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or_default())
}

/// What to do about it, and in which of the two files.
fn fault(why: TlsError, cert: &Path, key: &Path) -> CertificateFault {
    let of = |is_key, cure: &str| (is_key, cure.to_owned());
    let (is_key, cure) = match &why {
        TlsError::Unreadable(what, _, pem::Error::Io(error))
            if error.kind() == io::ErrorKind::PermissionDenied =>
        {
            of(*what == "key", "let the user that starts Millrace read it, or run this command as that user")
        }
        TlsError::Unreadable("key", ..) => of(
            true,
            "name the file with the private key in PEM (-----BEGIN PRIVATE KEY-----), without a pass phrase",
        ),
        TlsError::Unreadable(..) | TlsError::Empty(_) => {
            of(false, "name the file with the certificate and its chain in PEM (-----BEGIN CERTIFICATE-----)")
        }
        TlsError::Files(_, _, inner) => match &**inner {
            TlsError::OtherKey => (true, other_key(cert, key)),
            TlsError::Key(_) => {
                of(true, "use an ECDSA (P-256, P-384), RSA (2048 to 8192 bits) or Ed25519 key")
            }
            _ => of(false, "have the authority issue it again: X.509 version 3, with the names of the site"),
        },
        _ => of(false, "have the authority issue it again"),
    };
    CertificateFault { is_key, title: why.to_string(), cure }
}

/// The key may belong to another certificate of the same file.
fn other_key(cert: &Path, key: &Path) -> String {
    let belongs = |number: &usize| is_for(cert, key, *number);
    match (1..10).find(belongs) {
        Some(number) => format!(
            "the key is for certificate number {} in the file: put that one first, then the one that certifies it, and \
             so on",
            number + 1
        ),
        None => {
            "name the key that the certificate was requested with: both usually lie in one folder".to_owned()
        }
    }
}

/// Whether the key is for this certificate of the file, from 0.
fn is_for(cert: &Path, key: &Path, number: usize) -> bool {
    use rustls::pki_types::PrivateKeyDer;
    let one = CertificateDer::pem_file_iter(cert).ok().and_then(|mut all| all.nth(number)?.ok());
    let (Some(one), Ok(key)) = (one, PrivateKeyDer::from_pem_file(key)) else { return false };
    CertifiedKey::from_der(vec![one], key, &terms::provider()).is_ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, KeyPair,
    };

    use super::*;

    /// A folder with an authority, a certificate by it, and their files in several orders.
    fn files(test: &str) -> (millrace_base::testing::Dir, impl Fn(&str) -> std::path::PathBuf) {
        let mut of_authority = CertificateParams::default();
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        of_authority.distinguished_name.push(DnType::CommonName, "Authority");
        let authority = CertifiedIssuer::self_signed(of_authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut parameters =
            CertificateParams::new(vec!["A.test".to_owned(), "*.b.test".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2027, 1, 31);
        parameters.custom_extensions = vec![issuer_at("http://a.test/ca")];
        let own = parameters.signed_by(&key, &authority).unwrap().pem();
        let (other, folder) = (KeyPair::generate().unwrap(), millrace_base::testing::Dir::new(test));
        let path = folder.path("");
        let at = move |name: &str| path.join(name);
        for (name, text) in [
            ("chain", own.clone() + &authority.pem()),
            ("short", own.clone()),
            ("turned", authority.pem() + &own),
            ("strange", own.clone() + &own),
            ("key", key.serialize_pem()),
            ("other", other.serialize_pem()),
            ("text", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n".to_owned()),
        ] {
            std::fs::write(at(name), text).unwrap();
        }
        (folder, at)
    }

    #[test]
    fn what_a_certificate_says() {
        let (_folder, at) = files("inspect-says");
        let facts = |cert: &str| CertificateFiles.certificate(&at(cert), &at("key")).unwrap();
        let chain = facts("chain");
        assert_eq!(
            (chain.names.clone(), chain.out_of_order.clone()),
            (vec!["a.test".into(), "*.b.test".into()], None)
        );
        assert_eq!(chain.ends.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs(), 1_801_353_600);
        assert_eq!(facts("strange").out_of_order.map(|(number, _)| number), Some(2));
        // The authority is not in the file, and no client has it.
        assert_eq!(chain.missing_issuer, None);
        let short = facts("short").missing_issuer;
        assert!(short.is_some_and(|(issuer, place)| issuer.contains("CN=Authority") && place == "http://a.test/ca"));
    }

    /// The extension that says where the certificate of the issuer is.
    fn issuer_at(place: &str) -> CustomExtension {
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
        let method = [6, 8, 0x2b, 6, 1, 5, 5, 7, 0x30, 2];
        let one = [&method[..], &[0x86, length(place.as_bytes())], place.as_bytes()].concat();
        let one = [&[0x30, length(&one)], &one[..]].concat();
        CustomExtension::from_oid_content(
            &[1, 3, 6, 1, 5, 5, 7, 1, 1],
            [&[0x30, length(&one)], &one[..]].concat(),
        )
    }

    #[test]
    fn each_fault_names_its_file_and_a_cure() {
        let (_folder, at) = files("inspect-faults");
        for (cert, key, is_key, title, cure) in [
            (
                "chain",
                "other",
                true,
                "the key does not match",
                "the key that the certificate was requested with",
            ),
            (
                "turned",
                "key",
                true,
                "the key does not match",
                "certificate number 2 in the file: put that one first",
            ),
            ("key", "key", false, "contains no certificate", "-----BEGIN CERTIFICATE-----"),
            ("chain", "chain", true, "cannot read the key", "-----BEGIN PRIVATE KEY-----"),
            ("chain", "text", true, "cannot read the key", "without a pass phrase"),
        ] {
            let fault = CertificateFiles.certificate(&at(cert), &at(key)).expect_err(title);
            assert_eq!(fault.is_key, is_key, "{fault:?}");
            assert!(fault.title.contains(title) && fault.cure.contains(cure), "{fault:?}");
        }
        assert!(CertificateFiles.client_authorities(&at("key")).is_err());
        assert!(
            CertificateFiles.trusted(&at("key")).is_err() && CertificateFiles.trusted(&at("chain")).is_ok()
        );
    }
}

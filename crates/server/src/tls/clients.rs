//! Client certificates: which ones are accepted, and what scripts learn of them.
//!
//! A site that asks for client certificates has a [`Policy`] with its own rustls configuration and its own session
//! tickets. So a client that was admitted by other authorities, or without a certificate, can't resume that session
//! here.

use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use data_encoding::{BASE64, HEXUPPER};
use millrace_settings::plan;
use millrace_wire::date::MONTHS;
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer, X509Certificate, X509Name};
use x509_parser::time::ASN1Time;

use super::certificates::read_pem;
use super::error::{ClientsError, TlsError};
use super::terms::{self, ResumptionState};
use millrace_base::message::request::Certificate;

/// The check of some sites' clients.
pub struct Policy {
    /// The settings.
    pub(super) written: plan::Clients,
    /// Equal for equal strictness and equal authorities, even from different files.
    pub(super) number: u64,
    pub(super) config: Arc<ServerConfig>,
    pub(super) memory: ResumptionState,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("written", &self.written).finish_non_exhaustive()
    }
}

impl Policy {
    /// Equal for equal strictness and equal authorities.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// The verifier for these settings, and the number of such a policy.
///
/// # Errors
/// The authorities can't be read, or the file has none; with what to do.
pub(super) fn verifier(clients: &plan::Clients) -> Result<(Arc<dyn ClientCertVerifier>, u64), TlsError> {
    build_verifier(clients).map_err(|why| TlsError::Clients(clients.ca.clone(), why))
}

fn build_verifier(clients: &plan::Clients) -> Result<(Arc<dyn ClientCertVerifier>, u64), ClientsError> {
    let authorities: Vec<CertificateDer<'static>> = read_pem(&clients.ca)
        .and_then(|text| CertificateDer::pem_slice_iter(&text).collect())
        .map_err(ClientsError::Unreadable)?;
    let mut number = DefaultHasher::new();
    clients.required.hash(&mut number);
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        authority.as_ref().hash(&mut number);
        roots.add(authority).map_err(ClientsError::NoAuthority)?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), terms::provider());
    let builder = if clients.required { builder } else { builder.allow_unauthenticated() };
    let verifier = builder.build().map_err(ClientsError::Unusable)?;
    Ok((verifier, number.finish()))
}

/// What scripts learn of a certificate that was verified.
pub(super) fn described(certificate: &CertificateDer<'_>) -> Certificate {
    let pem = pem(certificate);
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return Certificate { pem, ..Certificate::default() };
    };
    let serial = parsed.raw_serial();
    let serial = serial.strip_prefix(&[0]).filter(|rest| !rest.is_empty()).unwrap_or(serial);
    Certificate {
        subject: name(parsed.subject()),
        issuer: name(parsed.issuer()),
        serial: HEXUPPER.encode(serial),
        start: time(parsed.validity().not_before),
        end: time(parsed.validity().not_after),
        pem,
    }
}

/// The name as in RFC 2253: the last part first.
fn name(name: &X509Name<'_>) -> String {
    let mut parts: Vec<_> = name.iter_rdn().collect();
    parts.reverse();
    let mut text = String::new();
    for (number, part) in parts.into_iter().enumerate() {
        for (also, attribute) in part.iter().enumerate() {
            text.push_str(match (number, also) {
                (0, 0) => "",
                (_, 0) => ",",
                _ => "+",
            });
            let oid = attribute.attr_type().to_id_string();
            text.push_str(short_name(&oid).unwrap_or(&oid));
            text.push('=');
            match attribute.as_str() {
                Ok(value) => escape(value, &mut text),
                Err(_) => text.push_str(&format!("#{}", HEXUPPER.encode(attribute.as_slice()))),
            }
        }
    }
    text
}

/// OpenSSL's name of an attribute.
fn short_name(oid: &str) -> Option<&'static str> {
    Some(match oid {
        "2.5.4.3" => "CN",
        "2.5.4.4" => "SN",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "street",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.12" => "title",
        "2.5.4.42" => "GN",
        "2.5.4.46" => "dnQualifier",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        "1.2.840.113549.1.9.1" => "emailAddress",
        _ => return None,
    })
}

/// Escapes as in RFC 2253 section 2.4, and non-ASCII characters by their bytes, as OpenSSL, Apache and nginx do.
fn escape(value: &str, text: &mut String) {
    for (at, byte) in value.bytes().enumerate() {
        let is_end = at + 1 == value.len();
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => text.extend(['\\', byte as char]),
            b'#' if at == 0 => text.push_str("\\#"),
            b' ' if at == 0 || is_end => text.push_str("\\ "),
            b' '..=b'~' => text.push(byte as char),
            _ => drop(write!(text, "\\{byte:02X}")),
        }
    }
}

/// The time in OpenSSL's format: `Nov 22 06:00:00 2026 GMT`.
fn time(time: ASN1Time) -> String {
    let time = time.to_datetime();
    let month = MONTHS[usize::from(u8::from(time.month())) - 1];
    let (day, year) = (time.day(), time.year());
    format!("{month} {day:>2} {:02}:{:02}:{:02} {year} GMT", time.hour(), time.minute(), time.second())
}

/// The certificate in PEM (RFC 7468).
fn pem(certificate: &[u8]) -> String {
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in certificate.chunks(48) {
        text.push_str(&BASE64.encode(line));
        text.push('\n');
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{DistinguishedName, DnType};

    #[test]
    fn a_certificate_in_words() {
        let mut parameters = rcgen::CertificateParams::new(vec![]).unwrap();
        let mut subject = DistinguishedName::new();
        subject.push(DnType::CountryName, "DE");
        subject.push(DnType::OrganizationName, " Example, \"Inc\" ");
        subject.push(DnType::CommonName, "#M\u{fc}ller");
        parameters.distinguished_name = subject;
        parameters.serial_number = Some(vec![0x9a, 0x01].into());
        parameters.not_before = rcgen::date_time_ymd(2026, 3, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let made = parameters.self_signed(&key).unwrap();
        let found = described(made.der());
        assert_eq!(found.subject, r#"CN=\#M\C3\BCller,O=\ Example\, \"Inc\"\ ,C=DE"#);
        assert_eq!((&*found.serial, &*found.start), ("9A01", "Mar  1 00:00:00 2026 GMT"));
        assert_eq!(CertificateDer::from_pem_slice(found.pem.as_bytes()).unwrap(), *made.der());
    }

    #[test]
    fn pem_of_any_length() {
        for length in 0..100u8 {
            let bytes: Vec<u8> = (0..length).collect();
            let text = pem(&bytes);
            assert_eq!(CertificateDer::from_pem_slice(text.as_bytes()).unwrap().as_ref(), bytes, "{text}");
        }
    }
}

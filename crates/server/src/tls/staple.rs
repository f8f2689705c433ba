//! OCSP responses (RFC 6960) of certificate authorities: checks whether a response may be stapled to its certificate.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::asn1_rs::{Any, Class};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::time::ASN1Time;

use super::terms;

/// Tolerated difference between clocks.
const SLACK: Duration = Duration::from_secs(300);

/// id-kp-OCSPSigning: 1.3.6.1.5.5.7.3.9.
const OCSP_SIGNING: KeyUsage = KeyUsage::required(&[43, 6, 1, 5, 5, 7, 3, 9]);

/// Why an OCSP response is not stapled.
#[derive(Debug, PartialEq, Eq)]
pub enum StapleError {
    /// It is not an OCSP response in DER format.
    Format,
    /// Our certificate is invalid.
    Certificate,
    /// It is for another certificate.
    OtherCertificate,
    /// The authority has revoked the certificate.
    Revoked,
    /// The authority does not know the certificate.
    Unknown,
    /// It is not valid yet (thisUpdate).
    Early,
    /// It has expired (nextUpdate).
    Expired,
    /// It is not signed by the issuer, and contains no other signer's certificate.
    Unsigned,
    /// The issuer's certificate is invalid.
    Issuer(webpki::Error),
    /// The issuer has not authorized its signer (RFC 6960 section 4.2.2.2).
    Signer(webpki::Error),
    /// Its signature is invalid.
    Signature,
}

impl fmt::Display for StapleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Format => "it is not an OCSP response in DER format",
            Self::Certificate => "the certificate is invalid",
            Self::OtherCertificate => "it is for another certificate",
            Self::Revoked => "it states that the certificate is revoked",
            Self::Unknown => "the certificate authority does not know the certificate",
            Self::Early => "it is not valid yet",
            Self::Expired => "it has expired",
            Self::Unsigned => "it is not signed by the certificate's issuer",
            Self::Issuer(error) => return write!(f, "the issuer's certificate is invalid: {error}"),
            Self::Signer(error) => return write!(f, "its signer is not authorized: {error}"),
            Self::Signature => "its signature is invalid",
        })
    }
}

/// The time until which a response may be stapled. `chain` is the certificate, followed by its issuers.
///
/// # Errors
/// The reason why it may not.
pub(super) fn good_until(
    answer: &[u8],
    chain: &[CertificateDer<'_>],
    now: SystemTime,
) -> Result<SystemTime, StapleError> {
    let answer = BasicOcspResponse::read(answer).ok_or(StapleError::Format)?;
    let (_, certificate) = X509Certificate::from_der(&chain[0]).map_err(|_| StapleError::Certificate)?;
    let single = answer
        .singles
        .iter()
        .find(|single| without_zeros(single.serial) == without_zeros(certificate.raw_serial()))
        .ok_or(StapleError::OtherCertificate)?;
    match single.status {
        0 => {}
        1 => return Err(StapleError::Revoked),
        _ => return Err(StapleError::Unknown),
    }
    if single.this_update > now + SLACK {
        return Err(StapleError::Early);
    }
    if single.next_update < now {
        return Err(StapleError::Expired);
    }
    if let Some(issuer) = chain.get(1) {
        answer.check_signature(issuer, now)?;
    }
    Ok(single.next_update)
}

/// A BasicOCSPResponse (RFC 6960 section 4.2.1).
struct BasicOcspResponse<'a> {
    /// The signed bytes.
    signed: &'a [u8],
    /// AlgorithmIdentifier, without tag and length.
    algorithm: &'a [u8],
    signature: &'a [u8],
    /// The certificate of the signer, if it is not the authority itself.
    signer: Option<&'a [u8]>,
    singles: Vec<Single<'a>>,
}

/// The statement about one certificate.
struct Single<'a> {
    serial: &'a [u8],
    /// Tag of CertStatus: 0 good, 1 revoked, 2 unknown.
    status: u32,
    this_update: SystemTime,
    next_update: SystemTime,
}

impl<'a> BasicOcspResponse<'a> {
    fn read(der: &'a [u8]) -> Option<BasicOcspResponse<'a>> {
        let mut response = Parts(Parts(der).next()?.content);
        // Any other status than "successful" comes without a response.
        if response.next()?.content != [0] {
            return None;
        }
        let mut bytes = Parts(Parts(response.next()?.content).next()?.content);
        let _kind = bytes.next()?;
        let mut basic = Parts(Parts(bytes.next()?.content).next()?.content);
        let signed = basic.next()?;
        let algorithm = basic.next()?.content;
        let signature = basic.next()?.content.strip_prefix(&[0])?;
        let signer = basic.next().and_then(|certificates| {
            let mut list = Parts(Parts(certificates.content).next()?.content);
            Some(list.next()?.whole)
        });
        let mut data = Parts(signed.content);
        let mut part = data.next()?;
        if part.is_tagged(0) {
            part = data.next()?; // the version is followed by the responder's name
        }
        let (_responder, _produced, list) = (part, data.next()?, data.next()?);
        let mut list = Parts(list.content);
        let singles = std::iter::from_fn(|| list.next()).map(|single| Single::read(single.content));
        Some(BasicOcspResponse {
            signed: signed.whole,
            algorithm,
            signature,
            signer,
            singles: singles.collect::<Option<_>>()?,
        })
    }

    /// Checks that the authority, or a responder that it authorizes (RFC 6960 section 4.2.2.2), has signed the
    /// response.
    fn check_signature(&self, issuer: &CertificateDer<'_>, now: SystemTime) -> Result<(), StapleError> {
        let by = |certificate: &CertificateDer<'_>| {
            let Ok(certificate) = EndEntityCert::try_from(certificate) else { return false };
            let known = terms::provider().signature_verification_algorithms.all;
            known
                .iter()
                .filter(|one| *one.signature_alg_id().as_ref() == *self.algorithm)
                .any(|one| certificate.verify_signature(*one, self.signed, self.signature).is_ok())
        };
        if by(issuer) {
            return Ok(());
        }
        let signer = self.signer.map(CertificateDer::from).ok_or(StapleError::Unsigned)?;
        let anchor = anchor_from_trusted_cert(issuer).map_err(StapleError::Issuer)?;
        let named = EndEntityCert::try_from(&signer).and_then(|certificate| {
            let time = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
            let known = terms::provider().signature_verification_algorithms.all;
            certificate.verify_for_usage(known, &[anchor], &[], time, OCSP_SIGNING, None, None).map(drop)
        });
        named.map_err(StapleError::Signer)?;
        if by(&signer) { Ok(()) } else { Err(StapleError::Signature) }
    }
}

impl<'a> Single<'a> {
    fn read(der: &'a [u8]) -> Option<Single<'a>> {
        let mut parts = Parts(der);
        let serial = Parts(parts.next()?.content).last()?.content;
        let status = parts.next()?;
        let this_update = time(parts.next()?.whole)?;
        let next_update = match parts.next().filter(|part| part.is_tagged(0)) {
            Some(next) => time(next.content)?,
            // The authority always has a newer one, so this one is used for a day at most.
            None => this_update + Duration::from_secs(24 * 3600),
        };
        Some(Single { serial, status: status.tag, this_update, next_update })
    }
}

fn time(der: &[u8]) -> Option<SystemTime> {
    let (_, time) = ASN1Time::from_der(der).ok()?;
    Some(UNIX_EPOCH + Duration::from_secs(u64::try_from(time.timestamp()).ok()?))
}

/// Removes leading zeros, which don't change an integer.
fn without_zeros(integer: &[u8]) -> &[u8] {
    &integer[integer.iter().take_while(|byte| **byte == 0).count()..]
}

/// The elements of a DER value, in order.
struct Parts<'a>(&'a [u8]);

/// A DER element.
struct Part<'a> {
    tag: u32,
    is_context_specific: bool,
    /// With its tag and length.
    whole: &'a [u8],
    /// Without its tag and length.
    content: &'a [u8],
}

impl Part<'_> {
    fn is_tagged(&self, tag: u32) -> bool {
        self.is_context_specific && self.tag == tag
    }
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let (rest, any) = Any::from_der(self.0).ok()?;
        let whole = &self.0[..self.0.len() - rest.len()];
        self.0 = rest;
        let (tag, is_context_specific) = (any.tag().0, any.class() == Class::ContextSpecific);
        Some(Part { tag, is_context_specific, whole, content: any.data })
    }
}

//! Why there is no certificate, no answer of an authority to send along with it, or no TLS at all.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustls::pki_types::pem;
use rustls::server::VerifierBuilderError;
use x509_parser::error::X509Error;
use x509_parser::nom;

/// A certificate or its key can't be used. It occurs when files of `https.certificates` or the store of ACME are read, and when one
/// is made; the user corrects the file that the text names. A server that runs goes on with the certificates that it has.
#[derive(Debug)]
pub enum CertificateError {
    /// The file of the certificate, or something in it, can't be read.
    Unreadable(PathBuf, pem::Error),
    /// The same of the file of its key.
    UnreadableKey(PathBuf, pem::Error),
    /// The file has no certificate in PEM.
    Empty(PathBuf),
    /// What is wrong shows only in both files together.
    Files { certificate: PathBuf, key: PathBuf, why: Box<CertificateError> },
    /// A text that is to hold a key and its certificate has a certificate that can't be read.
    Text(pem::Error),
    /// The same of its key.
    KeyInText(pem::Error),
    /// Such a text has none.
    EmptyText,
    /// The certificate is of another version than 3 (RFC 5280).
    Version(webpki::Error),
    /// The certificate can't be taken apart.
    Parts(nom::Err<X509Error>),
    /// The key belongs to another certificate.
    OtherKey,
    /// The key is of a kind that can't be used.
    Key(rustls::Error),
    /// None can be made for the names of the sites.
    SelfSigned(rcgen::Error),
    /// None can be made that answers an authority's challenge for this name.
    Challenge(String, String),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(file, error) => {
                write!(f, "the certificate {} can't be read: {error}", file.display())
            }
            Self::UnreadableKey(file, error) => {
                write!(f, "the key {} can't be read: {error}", file.display())
            }
            Self::Empty(file) => {
                write!(f, "{} holds no certificate: it has to be in PEM", file.display())
            }
            Self::Files { certificate, key, why } => {
                write!(f, "{} and {}: {why}", certificate.display(), key.display())
            }
            Self::Text(error) => write!(f, "no certificate in PEM: {error}"),
            Self::KeyInText(error) => write!(f, "no key in PEM: {error}"),
            Self::EmptyText => f.write_str("it holds no certificate"),
            Self::Version(error) => write!(f, "not a certificate of version 3: {error}"),
            Self::Parts(error) => write!(f, "the certificate can't be read: {error}"),
            Self::OtherKey => f.write_str("the key is not the certificate's"),
            Self::Key(error) => error.fmt(f),
            Self::SelfSigned(error) => write!(f, "no self-signed certificate: {error}"),
            Self::Challenge(name, why) => write!(f, "no certificate for the challenge of {name}: {why}"),
        }
    }
}

impl std::error::Error for CertificateError {}

/// What an authority says of a certificate (OCSP) is not fit to be sent along. It occurs when files are read; the certificate serves
/// without it, and the user gets a newer answer, or another certificate if this one has been revoked.
#[derive(Debug)]
pub enum StapleError {
    /// Its file can't be read.
    Unreadable(io::Error),
    /// It is no OCSPResponse, or one without an answer (RFC 6960 section 4.2.1).
    NoAnswer,
    /// The certificate can't be taken apart.
    NoCertificate,
    /// It has another serial number.
    OtherCertificate,
    /// The certificate has been revoked.
    Revoked,
    /// The authority does not know the certificate.
    Unknown,
    /// It counts from a later time on.
    FromFuture,
    /// There should be a newer one by now.
    Expired,
    /// It is not signed by the authority, nor by one that it has named.
    NotSigned,
    /// The certificate behind the first is not one of an authority.
    Authority(webpki::Error),
    /// The authority has not named that signer for this.
    Signer(webpki::Error),
    /// It was changed after it was signed.
    Signature,
}

impl fmt::Display for StapleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unreadable(error) => return error.fmt(f),
            Self::NoAnswer => "it is no answer of an authority in DER",
            Self::NoCertificate => "the certificate is none",
            Self::OtherCertificate => "it is about another certificate",
            Self::Revoked => "it says that the certificate has been revoked",
            Self::Unknown => "the authority does not know the certificate",
            Self::FromFuture => "it is from the future",
            Self::Expired => "it has expired",
            Self::NotSigned => "the authority of the certificate has not signed it",
            Self::Authority(error) => return write!(f, "the authority is none: {error}"),
            Self::Signer(error) => return write!(f, "who has signed it may not: {error}"),
            Self::Signature => "its signature is wrong",
        })
    }
}

impl std::error::Error for StapleError {}

/// Connections can't be encrypted as the configuration says. It occurs at a start and at a reload, and when a certificate authority
/// is to be asked; the user corrects the file that the text names. A server that runs goes on as before.
#[derive(Debug)]
pub enum TlsError {
    /// A certificate of our own.
    Certificate(CertificateError),
    /// The file of the authorities of clients can't be read.
    Clients(PathBuf, pem::Error),
    /// What it holds is not of an authority.
    NotAuthority(PathBuf, rustls::Error),
    /// It holds none.
    NoAuthority(PathBuf, VerifierBuilderError),
    /// The system trusts nobody.
    NoTrust,
    /// The file of those whom we trust can't be read.
    Trust(PathBuf, pem::Error),
    /// It holds no certificate.
    EmptyTrust(PathBuf),
    /// The machine's cryptography does not work.
    Cryptography(rustls::Error),
    /// It makes no keys for session tickets.
    Tickets(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(why) => why.fmt(f),
            Self::Clients(file, error) => {
                write!(f, "the authorities of clients, {}, can't be read: {error}", file.display())
            }
            Self::NotAuthority(file, error) => {
                write!(f, "{} holds no certificate of an authority: {error}", file.display())
            }
            Self::NoAuthority(file, error) => write!(
                f,
                "{} can't be used: {error}; it has to hold certificates of authorities in PEM",
                file.display()
            ),
            Self::NoTrust => f.write_str(
                "the system has no list of certificates that it trusts: install the package ca-certificates",
            ),
            Self::Trust(file, error) => write!(f, "{} can't be read: {error}", file.display()),
            Self::EmptyTrust(file) => {
                write!(f, "{} holds no certificate that can be used: it has to be in PEM", file.display())
            }
            Self::Cryptography(error) => write!(f, "TLS can't be used: {error}"),
            Self::Tickets(error) => write!(f, "TLS can't be used: no keys for session tickets: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}

impl From<CertificateError> for TlsError {
    fn from(why: CertificateError) -> TlsError {
        TlsError::Certificate(why)
    }
}

//! Why there is no certificate, or no TLS.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustls::pki_types::pem;
use rustls::server::VerifierBuilderError;
use x509_parser::error::X509Error;
use x509_parser::nom;

use super::staple::StapleError;

/// A certificate can't be used, or connections can't be encrypted as the configuration says. It occurs at a start and at a reload, when
/// files have changed, and when a certificate authority is asked. A server that runs goes on with what it has; the user corrects the
/// file that the text names.
#[derive(Debug)]
pub enum TlsError {
    /// The file of this (a certificate, its key), or something in it, can't be read.
    Unreadable(&'static str, PathBuf, pem::Error),
    /// The file has no certificate in PEM.
    Empty(PathBuf),
    /// What is wrong shows only in both files of a certificate together.
    Files(PathBuf, PathBuf, Box<TlsError>),
    /// A text that is to hold a key and its certificate has another of these.
    Text(&'static str, pem::Error),
    /// Such a text has no certificate.
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
    /// The file of a certificate's OCSP response can't be read. The certificate is used without it.
    StapleFile(io::Error),
    /// The OCSP response is not sent along. The certificate is used without it.
    Staple(StapleError),
    /// The file of the authorities of clients can't be used.
    Clients(PathBuf, ClientsError),
    /// The file of the authorities that the server itself trusts can't be read.
    TrustUnreadable(PathBuf, pem::Error),
    /// That file contains no usable certificate.
    TrustEmpty(PathBuf),
    /// The system has no file of trusted authorities.
    NoTrust,
    /// The machine's cryptography does not work.
    Cryptography(rustls::Error),
    /// It makes no keys for session tickets.
    Tickets(rustls::Error),
}

/// What is wrong with the file of the authorities of clients.
#[derive(Debug)]
pub enum ClientsError {
    /// It can't be read.
    Unreadable(pem::Error),
    /// A certificate in it is not an authority's.
    NoAuthority(rustls::Error),
    /// Its certificates can't be used to check clients.
    Unusable(VerifierBuilderError),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(what, file, error) => {
                write!(f, "cannot read the {what} {}: {error}", file.display())
            }
            Self::Empty(file) => {
                write!(f, "{} contains no certificate: it must be in PEM format", file.display())
            }
            Self::Files(certificate, key, why) => {
                write!(f, "{} and {}: {why}", certificate.display(), key.display())
            }
            Self::Text(what, error) => write!(f, "invalid {what} in PEM format: {error}"),
            Self::EmptyText => f.write_str("it contains no certificate"),
            Self::Version(error) => write!(f, "not an X.509 version 3 certificate: {error}"),
            Self::Parts(error) => write!(f, "cannot parse the certificate: {error}"),
            Self::OtherKey => f.write_str("the key does not match the certificate"),
            Self::Key(error) => error.fmt(f),
            Self::SelfSigned(error) => write!(f, "cannot create a self-signed certificate: {error}"),
            Self::Challenge(name, why) => {
                write!(f, "cannot create the certificate for the challenge of {name}: {why}")
            }
            Self::StapleFile(error) => error.fmt(f),
            Self::Staple(why) => why.fmt(f),
            Self::Clients(file, why) => {
                let file = file.display();
                match why {
                    ClientsError::Unreadable(error) => {
                        write!(f, "cannot read the certificate authorities for clients, {file}: {error}")
                    }
                    ClientsError::NoAuthority(error) => {
                        write!(f, "{file} contains no certificate of an authority: {error}")
                    }
                    ClientsError::Unusable(error) => write!(
                        f,
                        "cannot use {file}: {error}; it must contain certificates of authorities in PEM format"
                    ),
                }
            }
            Self::TrustUnreadable(file, error) => write!(f, "cannot read {}: {error}", file.display()),
            Self::TrustEmpty(file) => {
                write!(f, "{} contains no usable certificate: it must be in PEM format", file.display())
            }
            Self::NoTrust => f.write_str(
                "the system has no trusted certificate authorities: install the package ca-certificates",
            ),
            Self::Cryptography(error) => write!(f, "cannot set up TLS: {error}"),
            Self::Tickets(error) => write!(f, "cannot set up TLS: no keys for session tickets: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}

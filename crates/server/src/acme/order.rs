//! An order: names, a response to the challenge for each, a key, and at the end the certificate chain (RFC 8555
//! section 7.4).
//!
//! The URL of the order and the key are stored as soon as the authority knows the order. So a restart continues the
//! same order, and a certificate that was issued at the last moment is not lost.

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use serde_json::{Value, json};

use super::WantedCertificate;
use super::challenges::ChallengeAnswers;
use super::failure::{AcmeFailure, Cause, told};
use super::kept::StoredCertificate;
use super::store::Store;
use crate::tls::TlsError;

/// How long the authority may take to validate the names, and again to issue.
const DECIDE: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(120));

/// What an order needs.
pub struct Ordering<'a> {
    /// The account that orders.
    pub account: &'a Account,
    /// Stores what must not be lost.
    pub store: &'a Store,
    /// The certificate to order.
    pub wanted: WantedCertificate,
    /// The certificate that it replaces (RFC 9773 section 5).
    pub replaces: Option<CertificateIdentifier<'static>>,
    /// The challenge type that proves control of the names.
    pub challenge: ChallengeType,
}

impl Ordering<'_> {
    /// Key, certificate and chain in PEM, and parsed. They are neither in force nor stored yet.
    ///
    /// # Errors
    /// The authority is unreachable, refuses, or doesn't find the names here; or the disk is full.
    pub async fn obtain(
        &self,
        mut answers: ChallengeAnswers,
    ) -> Result<(Vec<u8>, StoredCertificate), AcmeFailure> {
        let (mut order, key) = self.begin().await?;
        if order.state().status == OrderStatus::Pending {
            self.answer_challenges(&mut order, &mut answers).await?;
        }
        if order.state().status == OrderStatus::Pending {
            match order.poll_ready(&DECIDE).await {
                Ok(OrderStatus::Ready) => {}
                Ok(_) | Err(Error::Api(_)) => return Err(self.not_found(&mut order).await),
                Err(error) => return Err(error.into()),
            }
        }
        if order.state().status == OrderStatus::Ready {
            order.finalize_csr(&self.request(&key)?).await?;
        }
        let chain = order.poll_certificate(&DECIDE).await?;
        let pem = (key.serialize_pem() + &chain).into_bytes();
        let kept = StoredCertificate::parse(&pem).map_err(refused)?;
        if !kept.covers(&self.wanted.names) {
            return Err(AcmeFailure::new(Cause::Refused, "the issued certificate is for other names"));
        }
        Ok((pem, kept))
    }

    /// The order that was in progress when the server ended, or a new one; with its key.
    async fn begin(&self) -> Result<(Order, KeyPair), AcmeFailure> {
        let pending = self.read_pending()?;
        if let Some((url, key)) = &pending {
            match self.account.order(url.clone()).await {
                Ok(mut order) => {
                    if order.state().status != OrderStatus::Invalid {
                        return Ok((order, copy(key)?));
                    }
                }
                // The authority no longer has it.
                Err(Error::Api(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let key = match pending {
            Some((_, key)) => key,
            None => KeyPair::generate().map_err(cryptography)?,
        };
        let order = self.new_order().await?;
        let pending = json!({ "url": order.url(), "names": self.wanted.names, "key": key.serialize_pem() });
        self.store.write(&self.pending(), pending.to_string().as_bytes())?;
        Ok((order, key))
    }

    async fn new_order(&self) -> Result<Order, AcmeFailure> {
        let names: Vec<Identifier> = self.wanted.names.iter().cloned().map(Identifier::Dns).collect();
        if let Some(replaces) = &self.replaces {
            match self.account.new_order(&NewOrder::new(&names).replaces(replaces.clone())).await {
                Ok(order) => return Ok(order),
                // The authority doesn't know the old certificate, or another one has replaced it: order without it.
                Err(Error::Unsupported(_) | Error::Other(_)) => {}
                Err(Error::Api(problem)) => {
                    let failure = AcmeFailure::from(Error::Api(problem));
                    if failure.cause != Cause::Refused {
                        return Err(failure);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.account.new_order(&NewOrder::new(&names)).await?)
    }

    /// Provides the responses for names that are not validated yet, and asks the authority to validate them.
    async fn answer_challenges(
        &self,
        order: &mut Order,
        answers: &mut ChallengeAnswers,
    ) -> Result<(), AcmeFailure> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let name = authorization.identifier().to_string();
            let Some(mut challenge) = authorization.challenge(self.challenge.clone()) else {
                let kind = format!("{:?}", self.challenge);
                return Err(AcmeFailure::new(
                    Cause::Refused,
                    format!("the certificate authority does not offer {kind} for {name}"),
                ));
            };
            let proof = challenge.key_authorization();
            if self.challenge == ChallengeType::TlsAlpn01 {
                answers.by_tls(&name, proof.digest().as_ref()).map_err(refused)?;
            } else {
                answers.by_http(&challenge.token, proof.as_str());
            }
            match challenge.set_ready().await {
                // The state of all names is queried later.
                Ok(()) | Err(Error::Api(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Which names the authority did not find here, and what it saw instead.
    async fn not_found(&self, order: &mut Order) -> AcmeFailure {
        let (mut said, mut names) = (Vec::new(), Vec::new());
        let whole = order.state().error.as_ref().map(told);
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            if authorization.refresh().await.is_err() {
                continue;
            }
            let name = authorization.identifier().to_string();
            let problems = authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
            let before = said.len();
            said.extend(problems.map(|problem| format!("{name}: {}", told(problem))));
            if said.len() > before {
                names.push(name);
            }
        }
        // A failed order is useless.
        self.store.remove(&self.pending());
        let text = if said.is_empty() {
            whole.unwrap_or_else(|| "no reason given".to_owned())
        } else {
            said.join("; ")
        };
        let text = format!("the certificate authority could not validate the names: {text}");
        AcmeFailure { names, ..AcmeFailure::new(Cause::NotFoundThere, text) }
    }

    /// The certificate signing request (RFC 2986): the names, the key, nothing else.
    fn request(&self, key: &KeyPair) -> Result<Vec<u8>, AcmeFailure> {
        let mut parameters = CertificateParams::new(self.wanted.names.clone()).map_err(cryptography)?;
        parameters.distinguished_name = DistinguishedName::new();
        Ok(parameters.serialize_request(key).map_err(cryptography)?.der().to_vec())
    }

    fn pending(&self) -> String {
        pending(&self.wanted.id)
    }

    fn read_pending(&self) -> Result<Option<(String, KeyPair)>, AcmeFailure> {
        let Some(bytes) = self.store.read(&self.pending())? else { return Ok(None) };
        // A damaged key, or one for other names, is replaced.
        let parse = || {
            let all: Value = serde_json::from_slice(&bytes).ok()?;
            let is_same = all.get("names")? == &json!(self.wanted.names);
            let key = KeyPair::from_pem(all.get("key")?.as_str()?).ok()?;
            is_same.then_some((all.get("url")?.as_str()?.to_owned(), key))
        };
        Ok(parse())
    }
}

/// The file of an order in progress. Removed when its certificate is stored.
pub fn pending(id: &str) -> String {
    format!("{id}.pending")
}

fn copy(key: &KeyPair) -> Result<KeyPair, AcmeFailure> {
    KeyPair::from_pem(&key.serialize_pem()).map_err(cryptography)
}

fn cryptography(error: rcgen::Error) -> AcmeFailure {
    AcmeFailure::new(Cause::Refused, format!("cannot create a key or certificate request: {error}"))
}

/// The issued or requested certificate is unusable.
fn refused(why: TlsError) -> AcmeFailure {
    AcmeFailure::new(Cause::Refused, why.to_string())
}

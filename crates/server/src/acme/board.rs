//! The state of the certificates, ACME's and others, for `millrace status` and the metrics.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use millrace_settings::CertificateFacts;

/// The state of a certificate, which may not exist yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The file that it comes from; `None`: it is obtained by ACME.
    pub file: Option<PathBuf>,
    /// Host names that it should contain.
    pub names: Vec<String>,
    /// Names that the certificate in use lacks.
    pub missing: Vec<String>,
    /// When the certificate in use expires; `None`: there is none, a self-signed one is in use.
    pub ends: Option<SystemTime>,
    /// When it is next renewed or ordered again.
    pub next: Option<SystemTime>,
    /// The last error, if nothing has succeeded since; of a file, that it should have been replaced.
    pub problem: Option<String>,
    /// Failures since the last success.
    pub failures: u32,
    /// Certificates issued since the start.
    pub issued: u64,
    /// Orders that have failed since the start.
    pub failed: u64,
}

impl Standing {
    /// Of a certificate that somebody else renews.
    pub fn of_file(file: &Path, facts: &CertificateFacts, now: SystemTime) -> Standing {
        let is_late = facts.is_near_its_end(now);
        Standing {
            file: Some(file.to_owned()),
            names: facts.names.clone(),
            ends: Some(facts.ends),
            problem: is_late.then(|| "nothing has renewed this file in time".to_owned()),
            ..Standing::default()
        }
    }
}

/// State of the certificates: the keeper writes it, the admin address reads it.
#[derive(Debug, Default)]
pub struct Board(Mutex<Vec<Standing>>);

impl Board {
    /// The latest state.
    pub fn read(&self) -> Vec<Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the state.
    pub fn write(&self, all: Vec<Standing>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = all;
    }
}

//! The state of the certificates, for `millrace status` and the metrics.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The state of a certificate, which may not exist yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Host names that it should contain.
    pub names: Vec<String>,
    /// Names that the certificate in use lacks.
    pub missing: Vec<String>,
    /// When the certificate in use expires; `None`: there is none, a self-signed one is in use.
    pub ends: Option<SystemTime>,
    /// When it is next renewed or ordered again.
    pub next: Option<SystemTime>,
    /// The last error, if nothing has succeeded since.
    pub problem: Option<String>,
    /// Failures since the last success.
    pub failures: u32,
    /// Certificates issued since the start.
    pub issued: u64,
    /// Orders that have failed since the start.
    pub failed: u64,
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

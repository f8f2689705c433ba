//! How the certificates stand, for `millrace status` and the metrics.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A certificate, or that there is none yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Host names that are wanted in it.
    pub names: Vec<String>,
    /// Those of them that are not in the one that serves.
    pub missing: Vec<String>,
    /// When the one that serves ends; `None`: there is none, a self-signed one serves.
    pub ends: Option<SystemTime>,
    /// When something is done next: it is renewed, or tried again.
    pub next: Option<SystemTime>,
    /// What went wrong last, if nothing went well since.
    pub problem: Option<String>,
    /// Failures since something went well.
    pub failures: u32,
    /// Certificates that have come since the start.
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

//! The admin address: metrics, status, reload.

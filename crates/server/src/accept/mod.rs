//! Where connections come in.

//! The only unsafe Rust of Millrace.

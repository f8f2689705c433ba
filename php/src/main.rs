//! The binary `millrace-php`.
fn main() {}

//! Bytes to values and back, without I/O and without a clock.
//!
//! All input from Millrace's sockets is parsed here, so that torn and hostile input is tested without a socket:
//! [`head`] (HTTP/1 request heads), [`response`] (HTTP/1 responses), [`chunked`] (chunked content), [`ranges`],
//! [`encoding`] (Accept-Encoding), [`conditional`] (If-* fields), [`path`] (request targets to paths), [`percent`]
//! (percent-encoding), [`frames`] (messages of PHP workers), [`fastcgi`] (messages of php-fpm), [`http2`] (where its frames begin), [`decimal`]; and
//! what several crates need to mean the same by: [`network`]s of addresses, [`glob`]s, [`date`]s.

pub mod chunked;
pub mod conditional;
pub mod date;
pub mod decimal;
pub mod encoding;
pub mod fastcgi;
pub mod frames;
pub mod glob;
pub mod head;
pub mod http2;
pub mod network;
pub mod path;
pub mod percent;
pub mod ranges;
pub mod response;

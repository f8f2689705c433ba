//! Bytes to values and back, without I/O and without a clock.
//!
//! Everything that crosses a socket of Millrace and can be wrong is read here, so that torn and hostile input is
//! tested without a socket: [`head`] (HTTP/1 request heads), [`response`] (HTTP/1 responses), [`chunked`] (bodies), [`ranges`],
//! [`encoding`] (Accept-Encoding), [`conditional`] (If-* fields), [`path`] (request targets to paths), [`frames`] (the talk with a
//! PHP worker), [`fastcgi`] (the talk with php-fpm), [`decimal`].

pub mod chunked;
pub mod conditional;
pub mod decimal;
pub mod encoding;
pub mod fastcgi;
pub mod frames;
pub mod head;
pub mod path;
pub mod ranges;
pub mod response;

//! The frames between the server, a PHP worker and the PHP host: the one place where they are defined.
//!
//! `php/c/frames.h` is generated from the constants of this file and committed; a test compares the two.
//!
//! A worker owns one stream socket to the server. Each frame is an 8-byte header and a payload:
//!
//! ```text
//!   0        4      5       6        8
//!   | length | kind | flags | extra  | payload: length bytes ...
//!   |  u32   |  u8  |  u8   |  u16   |
//! ```
//!
//! Integers are in the machine's own byte order: both ends are on one machine.

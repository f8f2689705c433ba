//! FastCGI, the application's side of it as php-fpm speaks it (FastCGI Specification 1.0; php-src main/fastcgi.c): one
//! request at a time on a connection, number 1, in the role of a responder.
//!
//! - [`RequestRecords`] writes BEGIN_REQUEST and PARAMS; [`stdin`] frames the content;
//! - [`RecordDecoder`] reads STDOUT, STDERR and END_REQUEST, torn at any place, and stores no bytes;
//! - [`CgiHead`] reads the status and fields at the start of STDOUT (RFC 3875 section 6);
//! - [`get_values`] asks how many connections are accepted at once, [`max_connections`] reads the response.

mod answer;
mod head;
mod request;
mod values;

pub use answer::{Record, RecordDecoder, RecordStep, RequestEnd, answer, end, stderr, stdout};
pub use head::{CgiHead, HeadError};
pub use request::{
    BEGIN_BYTES, ParamsTooLong, ParsedRequest, RequestRecords, begin_request, stdin, stdin_header,
};
pub use values::{asks_for_values, get_values, is_values_result, max_connections, values_result};

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 8;
/// Maximum content of a record, bytes.
pub const CONTENT_MAX: usize = 65_535;
/// Maximum length of the head of a response, bytes.
pub const HEAD_MAX: usize = 1 << 20;
/// Maximum length of PARAMS, bytes.
pub const PARAMS_MAX: usize = 1 << 20;

const VERSION: u8 = 1;
/// The number of the only request of a connection.
const REQUEST_ID: u16 = 1;
const ROLE_RESPONDER: u16 = 1;
const KEEP_CONN: u8 = 1;

const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const GET_VALUES: u8 = 9;
const GET_VALUES_RESULT: u8 = 10;

/// Why bytes are not a response. The following bytes have no meaning: the connection is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// A version other than 1.
    Version(u8),
    /// A type of record that no response has.
    Kind(u8),
    /// The number of a request that was not sent.
    Id(u16),
    /// An END_REQUEST that is not 8 bytes long.
    Length(u16),
    /// A record although no request was sent.
    Unasked(u8),
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordError::Version(version) => write!(f, "record with the unknown FastCGI version {version}"),
            RecordError::Kind(kind) => write!(f, "record with the unknown type {kind}"),
            RecordError::Id(id) => write!(f, "record for request {id}, which was not sent"),
            RecordError::Length(length) => write!(f, "END_REQUEST of {length} bytes"),
            RecordError::Unasked(kind) => write!(f, "record of type {kind} without a request"),
        }
    }
}

impl std::error::Error for RecordError {}

/// The first 8 bytes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordHeader {
    version: u8,
    kind: u8,
    id: u16,
    content: u16,
    padding: u8,
}

impl RecordHeader {
    fn new(kind: u8, content: usize) -> RecordHeader {
        debug_assert!(content <= CONTENT_MAX);
        RecordHeader { version: VERSION, kind, id: REQUEST_ID, content: content as u16, padding: 0 }
    }

    fn encode(self) -> [u8; HEADER_BYTES] {
        let ([id1, id0], [content1, content0]) = (self.id.to_be_bytes(), self.content.to_be_bytes());
        [self.version, self.kind, id1, id0, content1, content0, self.padding, 0]
    }

    fn decode(bytes: &[u8]) -> Option<RecordHeader> {
        let (head, _) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        Some(RecordHeader {
            version: head[0],
            kind: head[1],
            id: u16::from_be_bytes([head[2], head[3]]),
            content: u16::from_be_bytes([head[4], head[5]]),
            padding: head[6],
        })
    }
}

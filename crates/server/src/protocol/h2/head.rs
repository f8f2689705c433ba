//! The head of a response in the library's types.

use http::header::{CONTENT_LENGTH, DATE, HeaderName, HeaderValue, SERVER, STRICT_TRANSPORT_SECURITY};
use http::{HeaderMap, Response, StatusCode};
use millrace_wire::decimal;

use crate::protocol::ProtocolThread;
use crate::protocol::framing::{self, allows_content, transport_security};
use millrace_base::message::Request;
use millrace_base::message::reply::{Fields, Reply, lines};

/// Status and fields of `reply`.
pub(super) fn of(thread: &ProtocolThread, request: &Request, reply: &Reply) -> Response<()> {
    let mut fields = common(thread, reply.dated);
    for block in reply.fields.blocks() {
        add_lines(block, &mut fields);
    }
    if let Some(age) = transport_security(thread, request) {
        fields.insert(STRICT_TRANSPORT_SECURITY, number("max-age=", age));
    }
    if let Some(length) = reply.body.length().filter(|_| allows_content(reply.status)) {
        fields.insert(CONTENT_LENGTH, number("", length));
    }
    whole(reply.status, fields)
}

/// Status and fields of the response to an invalid request.
pub(super) fn of_refusal(thread: &ProtocolThread, reply: &Reply) -> Response<()> {
    let mut fields = common(thread, reply.dated);
    reply.fields.blocks().into_iter().for_each(|block| add_lines(block, &mut fields));
    fields.insert(CONTENT_LENGTH, number("", reply.body.length().unwrap_or(0)));
    whole(reply.status, fields)
}

/// An interim response with the fields of `block`.
pub(super) fn interim(status: u16, block: &[u8]) -> Response<()> {
    let mut fields = HeaderMap::new();
    add_lines(block, &mut fields);
    whole(status, fields)
}

/// Trailers of a response.
pub(super) fn trailers(trailers: &Fields) -> HeaderMap {
    let mut fields = HeaderMap::new();
    trailers.blocks().into_iter().for_each(|block| add_lines(block, &mut fields));
    fields
}

fn common(thread: &ProtocolThread, is_dated: bool) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity(16);
    fields.insert(SERVER, HeaderValue::from_static(framing::SERVER));
    if !is_dated {
        thread.context.clock.with_date(|date| {
            if let Ok(date) = HeaderValue::from_str(date) {
                fields.insert(DATE, date);
            }
        });
    }
    fields
}

fn whole(status: u16, fields: HeaderMap) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = fields;
    response
}

/// Adds the fields of complete lines. Invalid fields are dropped.
fn add_lines(block: &[u8], fields: &mut HeaderMap) {
    for (name, value) in lines(block) {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            fields.append(name, value);
        }
    }
}

fn number(before: &str, number: u64) -> HeaderValue {
    let mut text = before.as_bytes().to_vec();
    decimal::push(number, &mut text);
    // It is ASCII.
    HeaderValue::from_bytes(&text).unwrap_or(HeaderValue::from_static("0"))
}

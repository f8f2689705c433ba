//! Millrace's own responses: errors and redirects.

use super::{Body, Reply};

/// The reason phrase of a status (IANA's registry); empty for an unknown one.
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        _ => "",
    }
}

/// A small page that says what the status means. It names no software, no path and no reason that helps an attacker.
pub fn plain(status: u16) -> Reply {
    let reason = reason_phrase(status);
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{status} {reason}</title>\n\
         <body style=\"font:1.1em system-ui,sans-serif;margin:15vh auto;max-width:32em;padding:0 1em\">\n\
         <h1>{status} {reason}</h1>\n{}</body></html>\n",
        sentence(status)
    );
    let reply =
        Reply::new(status).with("Content-Type", "text/html; charset=utf-8").body(Body::Bytes(page.into()));
    match status {
        503 => reply.with("Retry-After", "5"),
        _ => reply,
    }
}

/// What a visitor can do about it.
fn sentence(status: u16) -> &'static str {
    match status {
        403 => "<p>You do not have access to this page.</p>\n",
        404 => "<p>There is no page at this address.</p>\n",
        429 => "<p>You have sent too many requests. Please try again in a while.</p>\n",
        502 => "<p>The page could not be completed. Please try again.</p>\n",
        503 => "<p>The site has too many visitors right now. Please try again in a few seconds.</p>\n",
        504 => "<p>The page took too long to load. Please try again.</p>\n",
        _ => "",
    }
}

/// A redirect to `location`, an absolute URI or an absolute path.
pub fn redirect(status: u16, location: &str) -> Reply {
    let mut reply = plain(status);
    reply.fields.push("Location", location.as_bytes());
    reply
}

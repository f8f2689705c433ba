//! The response to the client: status, fields, content. Protocol-neutral: `protocol` adds framing, `Date` and
//! `Connection`, and omits the content of a response to HEAD.

mod byteranges;
pub mod codec;
mod coder;
mod encoder;
mod fields;
pub mod passing;
mod plain;
mod source;
mod tunnel;
mod weakened;

use std::fs::File;
use std::rc::Rc;
use std::sync::Arc;

use millrace_pages::{Note, Notes};

pub use byteranges::byteranges;
pub use coder::Coder;
pub use fields::{Fields, is_value, lines};
pub use plain::{plain, reason_phrase, redirect};
pub use source::ContentSource;
pub use tunnel::Tunnel;

/// A response. Content-Length, Transfer-Encoding, Connection, Date and Server are not among its fields.
#[derive(Debug)]
pub struct Reply {
    /// Status code, 200-599; 101 with a [`Tunnel`].
    pub status: u16,
    /// Reason phrase, if the application set its own.
    pub reason: Option<Box<str>>,
    /// Fields, without the ones that `protocol` adds.
    pub fields: Fields,
    /// The content.
    pub body: Body,
    /// Whether the connection is closed after it.
    pub close: bool,
    /// Whether `Date` is among its fields: for a stored page it is the time when it was made, from which `Age`
    /// counts.
    pub dated: bool,
    /// What its script reported to the server.
    pub aside: Option<Box<Aside>>,
    /// Whether it has the site's own fields already, or must not have them.
    pub has_site_fields: bool,
}

/// What a script reports to the server beside its response to the client, or an application's connection. Never sent.
#[derive(Debug, Default)]
pub struct Aside {
    /// Fields that are meant for the server: `Millrace-Purge`, `X-LiteSpeed-Tag` and the like.
    pub fields: Fields,
    /// Reports by functions.
    pub notes: Notes,
    /// Its run ended in a fatal error.
    pub failed: bool,
    /// There was no worker for it: nothing ran, and this is the server's own response.
    pub turned_away: bool,
    /// The client's connection, or its stream, belongs to this from the header section on.
    pub tunnel: Option<Box<dyn Tunnel>>,
}

impl Reply {
    /// A response without content.
    pub fn new(status: u16) -> Reply {
        Reply {
            status,
            reason: None,
            fields: Fields::default(),
            body: Body::Empty,
            close: false,
            dated: false,
            aside: None,
            has_site_fields: false,
        }
    }

    /// Whether there was no worker for it.
    pub fn is_turned_away(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| aside.turned_away)
    }

    /// Whether the client's connection becomes a tunnel.
    pub fn is_tunnel(&self) -> bool {
        self.aside.as_ref().is_some_and(|aside| aside.tunnel.is_some())
    }

    /// Takes the tunnel that the client's connection becomes behind the header section.
    pub fn take_tunnel(&mut self) -> Option<Box<dyn Tunnel>> {
        self.aside.as_mut()?.tunnel.take()
    }

    /// The same with another field.
    pub fn with(mut self, name: &str, value: &str) -> Reply {
        self.fields.push(name, value.as_bytes());
        self
    }

    /// The same with this content.
    pub fn body(mut self, body: Body) -> Reply {
        self.body = body;
        self
    }
}

/// Fields by which a script hands a file over, and whether their value is a URL path. lighttpd's names are the older
/// name of `X-Sendfile`, and the one that WooCommerce writes.
const HANDING_OVER: [(&str, Handed); 4] = [
    ("x-accel-redirect", Handed::Location),
    ("x-sendfile", Handed::Path),
    ("x-lighttpd-send-file", Handed::Path),
    ("x-lighttpd-sendfile", Handed::Path),
];

/// How a script names the file that it hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handed {
    /// As a path of the site (`X-Accel-Redirect`).
    Location,
    /// As a path of the file system (`X-Sendfile`).
    Path,
}

impl Handed {
    /// How a field of this name hands a file over, if it does.
    pub fn by(name: &str) -> Option<Handed> {
        // Hardly any field begins with this letter.
        if !name.as_bytes().first().is_some_and(|first| first.eq_ignore_ascii_case(&b'x')) {
            return None;
        }
        HANDING_OVER.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, handed)| *handed)
    }
}

impl Aside {
    /// The file to send instead of the script's content: how it is named, by which field, and its name.
    pub fn handed(&self) -> Option<(Handed, &str, &[u8])> {
        let mut named = self.fields.iter().filter(|(_, value)| !value.is_empty());
        named.find_map(|(name, value)| Some((Handed::by(name)?, name, value)))
    }

    /// Adds later reports.
    pub fn hear(&mut self, later: Aside) {
        let Notes { tags, control, fields, .. } = &later.notes;
        for (kind, text) in [(Note::Tag, tags), (Note::Control, control), (Note::Fields, fields)] {
            if !text.is_empty() {
                self.notes.add(kind, text);
            }
        }
        if let Some(cookies) = later.notes.cookies {
            self.notes.cookies = Some(cookies);
        }
        if let Some(cart) = later.notes.cart {
            self.notes.cart = Some(cart);
        }
        self.failed |= later.failed;
    }
}

/// The source of the content. A known length is sent as Content-Length, also to HEAD.
#[derive(Debug)]
pub enum Body {
    /// No content; `Content-Length: 0` where the status allows content.
    Empty,
    /// Made for this response.
    Bytes(Vec<u8>),
    /// From a cache; `start..end` of it is sent.
    Shared {
        /// The cached bytes.
        bytes: Arc<[u8]>,
        /// First byte to send.
        start: usize,
        /// One past the last.
        end: usize,
    },
    /// A part of an open file, sent with sendfile.
    File {
        /// The file; its position is never used.
        file: Rc<File>,
        /// First byte to send.
        offset: u64,
        /// Bytes to send.
        length: u64,
    },
    /// Several parts in order (`multipart/byteranges`).
    Parts(Vec<Body>),
    /// Still being made.
    Stream(Box<dyn ContentSource>),
    /// A script's response to HEAD: no content, and the length it would have if the script set it.
    Omitted(Option<u64>),
}

impl Body {
    /// Bytes, if known beforehand.
    pub fn length(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Bytes(bytes) => Some(bytes.len() as u64),
            Body::Shared { start, end, .. } => Some((end - start) as u64),
            Body::File { length, .. } => Some(*length),
            Body::Parts(parts) => parts.iter().map(Body::length).sum(),
            Body::Stream(stream) => stream.length(),
            Body::Omitted(length) => *length,
        }
    }
}

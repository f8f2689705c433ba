//! Priorities (RFC 9218): what a client says about a request, and the default.

use millrace_base::message::reply::Fields;

/// The priority of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Priority {
    /// From 0, the first, to 7.
    pub(super) urgency: u8,
    /// Whether parts of it are useful: it takes turns with other incremental responses.
    pub(super) incremental: bool,
}

impl Default for Priority {
    /// RFC 9218 section 4.
    fn default() -> Priority {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Reads `u=1, i`, a dictionary of RFC 9651, as far as it is known; `None`: it is invalid.
    pub(super) fn parse(value: &[u8]) -> Option<Priority> {
        let mut priority = Priority::default();
        for member in std::str::from_utf8(value).ok()?.split(',').map(str::trim) {
            // Parameters behind a semicolon mean nothing here.
            let member = member.split(';').next().unwrap_or(member).trim_end();
            match member.split_once('=').unwrap_or((member, "?1")) {
                ("u", urgency) => {
                    // Values out of bounds are ignored (section 4.1).
                    let urgency = urgency.parse().ok().filter(|urgency| *urgency <= 7);
                    priority.urgency = urgency.unwrap_or(priority.urgency);
                }
                ("i", "?1") => priority.incremental = true,
                ("i", "?0") => priority.incremental = false,
                _ => {}
            }
        }
        Some(priority)
    }

    /// The default priority of a response with these fields: a browser shows nothing without scripts and styles, and
    /// most without images.
    pub(super) fn of_type(fields: &Fields) -> Priority {
        let content_type = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let Some((_, value)) = content_type else { return Priority::default() };
        let is = |start: &[u8]| value.get(..start.len()).is_some_and(|v| v.eq_ignore_ascii_case(start));
        match () {
            () if is(b"text/css") => Priority { urgency: 1, incremental: false },
            () if is(b"text/javascript") || is(b"application/javascript") => {
                Priority { urgency: 2, incremental: false }
            }
            () if is(b"text/html") || is(b"font/") => Priority { urgency: 2, incremental: false },
            () if is(b"image/") => Priority { urgency: 5, incremental: true },
            () if is(b"video/") || is(b"audio/") => Priority { urgency: 5, incremental: true },
            () if is(b"application/octet-stream") || is(b"application/zip") => {
                Priority { urgency: 6, incremental: true }
            }
            () => Priority::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        for (text, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i,u=1", 1, true),
            ("u=5;x=1, i=?1", 5, true),
            ("i=?0", 3, false),
            ("u=8", 3, false),
            ("u=-1, i", 3, true),
            ("nonsense, u=2", 2, false),
        ] {
            assert_eq!(Priority::parse(text.as_bytes()), Some(Priority { urgency, incremental }), "{text}");
        }
        assert_eq!(Priority::parse(b"\xff"), None);
    }

    #[test]
    fn styles_and_scripts_before_images() {
        let of = |content_type: &str| {
            let mut fields = Fields::default();
            fields.push("X", b"y");
            fields.push("Content-Type", content_type.as_bytes());
            Priority::of_type(&fields).urgency
        };
        assert!(of("text/css; charset=utf-8") < of("text/javascript"));
        assert!(of("text/javascript") < of("application/json"));
        assert!(of("Text/HTML") < of("image/png") && of("application/json") < of("image/png"));
        assert!(of("image/png") < of("application/zip"));
        assert_eq!(Priority::of_type(&Fields::default()), Priority::default());
    }
}

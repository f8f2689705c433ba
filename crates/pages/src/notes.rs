//! What a script reports to the cache by function calls: `millrace_tag()`, `millrace_purge()`,
//! `millrace_cache_control()`; and which of its calls forbids to store the page.

/// Kind of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Tags of the page.
    Tag,
    /// Pages to purge.
    Purge,
    /// How the page may be cached.
    Control,
    /// Which call forbids to store the page.
    Origin,
    /// Which cookies the script has looked for.
    Cookies,
    /// Which fields of the request the script has read.
    Fields,
    /// Whether the page depends on what is in its visitor's cart.
    Cart,
}

/// All notes of one run, in the grammar of the fields `Millrace-Tag`, `Millrace-Purge` and `Millrace-Cache-Control`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Tags, separated by commas.
    pub tags: Vec<u8>,
    /// Directives; a later call replaces an earlier one.
    pub control: Vec<u8>,
    /// Purges, one line per call.
    pub purges: Vec<u8>,
    /// Calls that forbid to store the page, one per line.
    pub origins: Vec<u8>,
    /// Which cookies the script has looked for ([`crate::looked`]); `None`: nothing was said about it.
    pub cookies: Option<Box<[u8]>>,
    /// Which fields of the request the script has read, one per line ([`crate::read_fields`]); empty: none, or nothing was said about it.
    pub fields: Vec<u8>,
    /// Whether the script has read its visitor's cart: `-` for no, `+` and the reader for yes ([`crate::carts`]). `None`: the worker has not
    /// said.
    pub cart: Option<Box<[u8]>>,
}

/// Maximum bytes of notes per kind: a script in an endless loop must not use up the memory.
const MOST_BYTES: usize = 256 << 10;

/// Maximum bytes of origins: people read the first ones.
const MOST_ORIGINS: usize = 4 << 10;

impl Notes {
    /// Adds a note. False: there are too many of its kind, and this one is lost.
    pub fn add(&mut self, note: Note, text: &[u8]) -> bool {
        let (list, separator) = match note {
            Note::Control => {
                self.control.clear();
                (&mut self.control, b',')
            }
            Note::Tag => (&mut self.tags, b','),
            Note::Purge => (&mut self.purges, b'\n'),
            Note::Origin => (&mut self.origins, b'\n'),
            Note::Fields => (&mut self.fields, b'\n'),
            Note::Cookies => {
                self.cookies = Some(text.into());
                return true;
            }
            Note::Cart => {
                self.cart = Some(text.into());
                return true;
            }
        };
        let most = if note == Note::Origin { MOST_ORIGINS } else { MOST_BYTES };
        if list.len() + text.len() > most {
            return false;
        }
        if !list.is_empty() {
            list.push(separator);
        }
        list.extend_from_slice(text);
        true
    }

    /// Whether there is no note.
    pub fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.control.is_empty() && self.purges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_add_up_but_control_is_the_last_word() {
        let mut notes = Notes::default();
        for (note, text) in [
            (Note::Tag, "a, b"),
            (Note::Tag, "c"),
            (Note::Purge, "hard, /x"),
            (Note::Purge, "y"),
            (Note::Control, "public"),
            (Note::Control, "no-store"),
        ] {
            assert!(notes.add(note, text.as_bytes()));
        }
        assert_eq!(notes.tags, b"a, b,c");
        assert_eq!(notes.purges, b"hard, /x\ny");
        assert_eq!(notes.control, b"no-store");
        assert!(!notes.add(Note::Tag, &vec![b'x'; MOST_BYTES]));
    }
}

//! Says where a visitor's page differs from the public one, for `millrace cache explain`. What is on the visitor's page is not said: it
//! may be about this visitor.

use super::compare::{EMPTY, END, START, TEXT};
use super::html::Text;

/// Longer texts are cut, characters.
const LONGEST: usize = 60;

/// The first difference, in words.
pub fn first_difference(public: &[Text], own: &[Text]) -> Box<str> {
    let at = public.iter().zip(own).take_while(|(one, other)| one == other).count();
    let place = place(&public[..at]);
    let what = match (public.get(at), own.get(at)) {
        (Some(piece), Some(_)) => {
            format!("{}, which is {} on the public page", noun(piece[0]), quoted(piece))
        }
        (Some(piece), None) => format!("the page ends before {}", quoted(piece)),
        (None, Some(piece)) => format!("{} more than on the public page", noun(piece[0])),
        (None, None) => "nothing".to_owned(),
    };
    format!("{what}{place}").into()
}

/// The innermost element that has an id or a class, and is open behind these pieces.
fn place(pieces: &[Text]) -> String {
    let mut open: Vec<&[u8]> = Vec::new();
    for piece in pieces {
        match piece[0] {
            START => open.push(&piece[1..]),
            // Those in between have no end tag.
            END => {
                let is_it = |tag: &&[u8]| tag.split(|b| *b == 0).next() == Some(&piece[1..]);
                if let Some(at) = open.iter().rposition(is_it) {
                    open.truncate(at);
                }
            }
            _ => {}
        }
    }
    let named = open.iter().rev().find_map(|tag| {
        let mut parts = tag.split(|b| *b == 0);
        let (name, attributes) = (parts.next()?, parts.collect::<Vec<_>>());
        let of =
            |wanted: &[u8]| attributes.chunks(2).find(|pair| pair[0] == wanted).and_then(|pair| pair.get(1));
        let (mark, value) =
            of(b"id").map(|id| ("#", id)).or_else(|| of(b"class").map(|class| (".", class)))?;
        Some(cut(&format!("{}{mark}{}", text(name), text(value))))
    });
    named.map(|tag| format!(", in <{tag}>")).unwrap_or_default()
}

fn noun(kind: u8) -> &'static str {
    match kind {
        START | EMPTY => "a tag",
        END => "an end tag",
        TEXT => "a text",
        b'!' => "a comment",
        b'd' => "the document type",
        _ => "an element that the browser fills",
    }
}

fn quoted(piece: &[u8]) -> String {
    let words = text(&piece[1..]).replace('\0', " ");
    match piece[0] {
        START | EMPTY => format!("<{}>", cut(&words)),
        END => format!("</{}>", cut(&words)),
        _ => format!("\"{}\"", cut(words.trim())),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| if c.is_control() && c != '\0' { ' ' } else { c })
        .collect()
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::compare::{Lens, pieces};
    use super::*;

    #[test]
    fn the_place_and_the_public_side() {
        let page = |html: &str| {
            pieces(html.as_bytes(), Lens { selectors: &["#cart"], fills: false, now: 0 }).unwrap()
        };
        let public =
            page("<body class=home><nav id=next><br><a href=/thing-2>Thing 2</a></nav><b id=cart>0</b>");
        for (own, said) in [
            (
                "<body class=home><nav id=next><br><a href=/secret>",
                "a tag, which is <a href /thing-2> on the public page, in <nav#next>",
            ),
            (
                "<body class=home><nav id=next><br><a href=/thing-2>secret",
                "a text, which is \"Thing 2\" on the public page, in <nav#next>",
            ),
            (
                "<body class=home><nav id=next><br><a href=/thing-2>Thing 2</a></nav>",
                "the page ends before \"b\", in <body.home>",
            ),
            (
                "<body class=home><nav id=next><br><a href=/thing-2>Thing 2</a></nav><b id=cart>9</b><i>secret",
                "a tag more than on the public page, in <body.home>",
            ),
        ] {
            assert_eq!(&*first_difference(&public, &page(own)), said);
        }
    }
}

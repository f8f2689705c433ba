//! Whether a rewound response says what an ordinary one says.
//!
//! Two ordinary runs of the same request, one before and one after it, show what differs by itself: times, random ids. What
//! they agree on, the rewound one must say, too.

/// Bytes of the excerpts of a [`Difference`].
const EXCERPT: usize = 160;

/// The outcome of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rewound response says what both ordinary ones agree on.
    Same,
    /// The ordinary ones have not the same structure: nothing can be said.
    Unsure,
    /// It says something else.
    Differs(Difference),
}

/// The first place where a response differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// What the ordinary responses say there, with what follows.
    pub ordinary: String,
    /// What the rewound one says.
    pub rewound: String,
}

/// Compares three responses, in the order in which they were made: `before` and `after` by ordinary runs.
pub fn compare(before: &[u8], rewound: &[u8], after: &[u8]) -> Verdict {
    let mut texts = [before, rewound, after];
    loop {
        let rests = texts;
        let [first, between, second] = texts.each_mut().map(piece);
        match (first, between, second) {
            (None, None, None) => return Verdict::Same,
            (None, _, Some(_)) | (Some(_), _, None) => return Verdict::Unsure,
            (Some(first), between, Some(second)) if first == second && between != Some(first) => {
                return Verdict::Differs(difference(rests));
            }
            (None, Some(_), None) => return Verdict::Differs(difference(rests)),
            // Both agree, or differ by themselves.
            _ => {}
        }
    }
}

/// Takes the next piece of a text: up to the next tag, line or word, so that a difference in one of them does not hide the others.
fn piece<'a>(text: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (_, behind) = text.split_first()?;
    let end = behind.iter().position(|byte| b"<\n &;,\"'/".contains(byte)).map_or(text.len(), |at| at + 1);
    let (piece, rest) = text.split_at(end);
    *text = rest;
    Some(piece)
}

fn difference([ordinary, rewound, _]: [&[u8]; 3]) -> Difference {
    let excerpt = |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(EXCERPT)]).into_owned();
    Difference { ordinary: excerpt(ordinary), rewound: excerpt(rewound) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differs(ordinary: &str, rewound: &str) -> Verdict {
        Verdict::Differs(Difference { ordinary: ordinary.into(), rewound: rewound.into() })
    }

    #[test]
    fn what_differs_by_itself_does_not_count() {
        let page = |time: &str, id: &str| format!("<p id=\"{id}\">Hello</p><!-- made in {time} s -->\n");
        let (one, two, three) = (page("0.1", "a1"), page("0.25", "b22"), page("0.3", "c"));
        assert_eq!(compare(one.as_bytes(), two.as_bytes(), three.as_bytes()), Verdict::Same);
    }

    #[test]
    fn what_ordinary_ones_agree_on_counts() {
        let by = |name: &[u8]| compare(b"<b>Anna</b>", &[b"<b>", name, b"</b>"].concat(), b"<b>Anna</b>");
        assert_eq!(by(b"Anna"), Verdict::Same);
        assert_eq!(by(b"Bert"), differs("<b>Anna</b>", "<b>Bert</b>"));
        assert_eq!(by(b"Anna Bert"), differs("</b>", " Bert</b>"));
    }

    #[test]
    fn too_short_and_too_long() {
        assert_eq!(compare(b"a b", b"a", b"a b"), differs(" b", ""));
        assert_eq!(compare(b"a", b"a b", b"a"), differs("", " b"));
        assert_eq!(compare(b"", b"", b""), Verdict::Same);
        assert_eq!(compare(b"a b", b"a b", b"a b c"), Verdict::Unsure, "something has changed meanwhile");
        assert_eq!(compare(b"old", b"new", b"new"), Verdict::Same, "changed meanwhile");
    }
}

//! Whether a rewound response says what an ordinary one says.
//!
//! Ordinary runs of the same request, before and after it, show what differs by itself: times, random ids. What they agree on, the
//! rewound one must say, too. What is drawn from few values - one of three servers of avatars - may agree in two ordinary runs by chance: so
//! a difference is confirmed by more runs of both kinds, in which all ordinary ones agree.

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

/// Compares responses of ordinary and of rewound runs, at least one of each. A difference is where all ordinary ones agree, and each
/// rewound one says something else.
pub fn compare(ordinary: &[Vec<u8>], rewound: &[Vec<u8>]) -> Verdict {
    let mut ordinary: Vec<&[u8]> = ordinary.iter().map(Vec::as_slice).collect();
    let mut rewound: Vec<&[u8]> = rewound.iter().map(Vec::as_slice).collect();
    loop {
        let rests = (ordinary[0], rewound[0]);
        let of_ordinary: Vec<_> = ordinary.iter_mut().map(piece).collect();
        let of_rewound: Vec<_> = rewound.iter_mut().map(piece).collect();
        let first = of_ordinary[0];
        let agrees = of_ordinary.iter().all(|piece| *piece == first);
        if !agrees && of_ordinary.contains(&None) {
            return Verdict::Unsure;
        }
        if agrees && of_rewound.iter().all(|piece| *piece != first) {
            return Verdict::Differs(difference(rests.0, rests.1));
        }
        if agrees && first.is_none() {
            return Verdict::Same;
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

fn difference(ordinary: &[u8], rewound: &[u8]) -> Difference {
    let excerpt = |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(EXCERPT)]).into_owned();
    Difference { ordinary: excerpt(ordinary), rewound: excerpt(rewound) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ordinary run, a rewound one, and an ordinary one.
    fn verdict(before: &[u8], rewound: &[u8], after: &[u8]) -> Verdict {
        compare(&[before.to_vec(), after.to_vec()], &[rewound.to_vec()])
    }

    fn differs(ordinary: &str, rewound: &str) -> Verdict {
        Verdict::Differs(Difference { ordinary: ordinary.into(), rewound: rewound.into() })
    }

    #[test]
    fn what_differs_by_itself_does_not_count() {
        let page = |time: &str, id: &str| format!("<p id=\"{id}\">Hello</p><!-- made in {time} s -->\n");
        let (one, two, three) = (page("0.1", "a1"), page("0.25", "b22"), page("0.3", "c"));
        assert_eq!(verdict(one.as_bytes(), two.as_bytes(), three.as_bytes()), Verdict::Same);
    }

    #[test]
    fn what_ordinary_ones_agree_on_counts() {
        let by = |name: &[u8]| verdict(b"<b>Anna</b>", &[b"<b>", name, b"</b>"].concat(), b"<b>Anna</b>");
        assert_eq!(by(b"Anna"), Verdict::Same);
        assert_eq!(by(b"Bert"), differs("<b>Anna</b>", "<b>Bert</b>"));
        assert_eq!(by(b"Anna Bert"), differs("</b>", " Bert</b>"));
    }

    #[test]
    fn too_short_and_too_long() {
        assert_eq!(verdict(b"a b", b"a", b"a b"), differs(" b", ""));
        assert_eq!(verdict(b"a", b"a b", b"a"), differs("", " b"));
        assert_eq!(verdict(b"", b"", b""), Verdict::Same);
        assert_eq!(verdict(b"a b", b"a b", b"a b c"), Verdict::Unsure, "something has changed meanwhile");
        assert_eq!(verdict(b"old", b"new", b"new"), Verdict::Same, "changed meanwhile");
    }

    /// Each page draws two of three servers. Two ordinary ones may have drawn the same, and several rewound ones others.
    #[test]
    fn more_runs_tell_chance_from_a_difference() {
        let page =
            |one: u32, two: u32| format!("<img src=\"//{one}.x\"><img src=\"//{two}.x\">").into_bytes();
        let mut ordinary = vec![page(1, 2), page(1, 0)];
        let mut rewound = vec![page(2, 1)];
        assert!(matches!(compare(&ordinary, &rewound), Verdict::Differs(_)));
        ordinary.extend([page(0, 1), page(0, 1)]);
        rewound.push(page(2, 0));
        assert_eq!(compare(&ordinary, &rewound), Verdict::Same);
        let (ordinary, rewound) =
            (vec![b"empty cart".to_vec(); 4], vec![b"Anna's cart".to_vec(), b"Bert's cart".to_vec()]);
        assert!(matches!(compare(&ordinary, &rewound), Verdict::Differs(_)));
    }
}

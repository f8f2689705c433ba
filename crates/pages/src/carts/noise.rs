//! Noise: what is different on a page each time that PHP makes it, for one and the same visitor: a banner chosen at random, the "previous product"
//! among several of the same date. It says nothing about carts. Before a difference counts, the public page is made several times,
//! and compared with itself.
//!
//! What differs between these pages is **not masked**. Whatever is at such a place on a visitor's page must have been there on one of the public
//! ones, whole: a banner that the cart has chosen, or a price that depends on it, may be at a place where strangers see something at random,
//! and a mask would hide it. So a visitor's page counts as the same if it can be put together from what strangers get:
//!
//! ```text
//!   public pages     a b [banner 1] c d ... x [next: 7] y       common to all: a b c d ... x y
//!                    a b [banner 2] c d ... x [next: 9] y       two places, each with two contents
//!   the visitor's    a b [banner 2] c d ... x [next: 7] y       the same
//!                    a b [banner 3] c d ... x [next: 7] y       unknown: the public page is made again
//!                    a b [banner 2] c D ... x [next: 7] y       another one
//! ```
//!
//! Places that are near each other are one place ([`APART`]): the title of a product of chance and its price come together, and the
//! price of one product with the title of another is nothing that strangers get.

use std::collections::VecDeque;

use twox_hash::XxHash3_128;

use super::html::Text;

/// Places with fewer pieces - tags, texts - between them are one. A product in a list has some twenty pieces.
const APART: usize = 40;

/// Pages that differ in more pieces have no places in common worth the name.
const MOST_DIFFERENT: usize = 800;

/// A piece of a page, by its hash.
type Piece = u128;

/// A visitor's page beside several public ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// It consists of what strangers get.
    Same,
    /// It does, but for the places where strangers see something else each time: what is there was not seen yet.
    Unseen,
    /// It differs in other places.
    Differs,
}

/// The same public page, made several times.
#[derive(Clone, Debug)]
pub struct Samples {
    /// The pieces that all pages have, in their order.
    common: Vec<Piece>,
    /// What each page has beside them.
    pages: Vec<Sample>,
}

/// What a page has before each of the common pieces, and behind the last one: the number of that piece, and what it is.
type Sample = Vec<(usize, Vec<Piece>)>;

fn hashed(page: &[Text]) -> Vec<Piece> {
    page.iter().map(|piece| XxHash3_128::oneshot(piece)).collect()
}

impl Samples {
    /// The first page.
    pub fn new(page: &[Text]) -> Samples {
        Samples { common: hashed(page), pages: vec![Sample::new()] }
    }

    /// One more page. False: it is a different page altogether, and was not taken.
    pub fn add(&mut self, page: &[Text]) -> bool {
        let page = hashed(page);
        let Some(pairs) = common(&self.common, &page) else { return false };
        for sample in &mut self.pages {
            *sample = rest(&self.common, sample, pairs.iter().map(|(old, _)| *old));
        }
        self.pages.push(rest(&page, &Sample::new(), pairs.iter().map(|(_, new)| *new)));
        self.common = pairs.iter().map(|(old, _)| self.common[*old]).collect();
        true
    }

    /// Number of pages.
    pub fn number(&self) -> usize {
        self.pages.len()
    }

    /// Whether all of them are the same.
    pub fn are_alike(&self) -> bool {
        self.pages.iter().all(Vec::is_empty)
    }

    /// What a visitor's page is, beside these.
    pub fn likeness(&self, own: &[Text]) -> Likeness {
        let (own, places) = (hashed(own), self.places());
        if self.consist_of(&own, &places) {
            Likeness::Same
        } else if self.differ_in(&own, &places) {
            Likeness::Unseen
        } else {
            Likeness::Differs
        }
    }

    /// Where the pages differ: the numbers of the first and of the last common piece before which they do.
    fn places(&self) -> Vec<(usize, usize)> {
        let mut numbers: Vec<usize> = self.pages.iter().flatten().map(|(at, _)| *at).collect();
        numbers.sort_unstable();
        let mut places: Vec<(usize, usize)> = Vec::new();
        for at in numbers {
            match places.last_mut() {
                Some((_, last)) if at - *last < APART => *last = at,
                _ => places.push((at, at)),
            }
        }
        places
    }

    /// What each page has in a place.
    fn contents(&self, (first, last): (usize, usize)) -> Vec<Vec<Piece>> {
        let of = |sample: &Sample| {
            let mut content = Vec::new();
            for at in first..=last {
                content.extend(sample.iter().find(|(known, _)| *known == at).iter().flat_map(|(_, own)| own));
                content.extend(self.common[..last].get(at));
            }
            content
        };
        let mut contents: Vec<Vec<Piece>> = self.pages.iter().map(of).collect();
        contents.sort_unstable();
        contents.dedup();
        contents
    }

    /// Whether a page consists of the common pieces, and of what one of the pages has in each place.
    fn consist_of(&self, own: &[Piece], places: &[(usize, usize)]) -> bool {
        // Where in the page one may be: a content may begin like another one.
        let (mut positions, mut from) = (vec![0], 0);
        for place in places {
            let before = &self.common[from..place.0];
            positions.retain_mut(|at| {
                own[*at..].starts_with(before) && {
                    *at += before.len();
                    true
                }
            });
            let contents = self.contents(*place);
            let fitting = positions.iter().flat_map(|at| {
                contents
                    .iter()
                    .filter(|content| own[*at..].starts_with(content))
                    .map(|content| *at + content.len())
            });
            let mut next: Vec<usize> = fitting.collect();
            next.sort_unstable();
            next.dedup();
            (positions, from) = (next, place.1);
        }
        positions.iter().any(|at| own[*at..] == self.common[from..])
    }

    /// Whether a page has all that is common outside of these places, and there anything.
    fn differ_in(&self, own: &[Piece], places: &[(usize, usize)]) -> bool {
        let (Some(first), Some(last)) = (places.first(), places.last()) else { return false };
        let (head, tail) = (&self.common[..first.0], &self.common[last.1..]);
        if own.len() < head.len() + tail.len() || !own.starts_with(head) || !own.ends_with(tail) {
            return false;
        }
        let mut rest = &own[head.len()..own.len() - tail.len()];
        // What is between two places has at least one piece.
        places.windows(2).all(|pair| {
            let between = &self.common[pair[0].1..pair[1].0];
            let found = rest.windows(between.len()).position(|part| part == between);
            found.is_some_and(|at| {
                rest = &rest[at + between.len()..];
                true
            })
        })
    }
}

/// What a page has beside the pieces with the numbers `kept`; `beside`: what it already has beside `pieces`.
fn rest(pieces: &[Piece], beside: &Sample, kept: impl Iterator<Item = usize>) -> Sample {
    let (mut out, mut own, mut from) = (Sample::new(), Vec::new(), 0);
    let mut beside = beside.iter().peekable();
    let mut take = |own: &mut Vec<Piece>, to: usize| {
        for at in from..=to {
            if let Some((_, more)) = beside.next_if(|(known, _)| *known == at) {
                own.extend(more);
            }
            own.extend(pieces[..to].get(at));
        }
        from = to + 1;
    };
    let mut number = 0;
    for at in kept {
        take(&mut own, at);
        if !own.is_empty() {
            out.push((number, std::mem::take(&mut own)));
        }
        number += 1;
    }
    take(&mut own, pieces.len());
    if !own.is_empty() {
        out.push((number, own));
    }
    out
}

/// A longest common subsequence, as pairs of numbers (Myers, "An O(ND) difference algorithm and its variations"). `None`: too much differs.
fn common(one: &[Piece], other: &[Piece]) -> Option<Vec<(usize, usize)>> {
    let start = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let ends = one[start..].iter().rev().zip(other[start..].iter().rev());
    let end = ends.take_while(|(a, b)| a == b).count();
    let (inner, beside) = (&one[start..one.len() - end], &other[start..other.len() - end]);
    let mut pairs: Vec<(usize, usize)> = (0..start).map(|at| (at, at)).collect();
    pairs.extend(common_inside(inner, beside)?.into_iter().map(|(a, b)| (start + a, start + b)));
    pairs.extend((0..end).rev().map(|at| (one.len() - 1 - at, other.len() - 1 - at)));
    Some(pairs)
}

fn common_inside(one: &[Piece], other: &[Piece]) -> Option<VecDeque<(usize, usize)>> {
    let most = (one.len() + other.len()).min(MOST_DIFFERENT);
    // How far one comes in `one` with so many differences, on each diagonal: `at - other`, from -most on.
    let mut furthest = vec![0_usize; 2 * most + 3];
    let mut trace = Vec::new();
    for differences in 0..=most {
        trace.push(furthest[most + 1 - differences..=most + 1 + differences].to_vec());
        for step in 0..=differences {
            let diagonal = most + 1 + 2 * step - differences;
            let is_down =
                step == 0 || (step != differences && furthest[diagonal - 1] < furthest[diagonal + 1]);
            let mut at = if is_down { furthest[diagonal + 1] } else { furthest[diagonal - 1] + 1 };
            let beside = |at: usize| (at + most + 1).checked_sub(diagonal);
            while at < one.len() && beside(at).and_then(|b| other.get(b)) == Some(&one[at]) {
                at += 1;
            }
            furthest[diagonal] = at;
            if at >= one.len() && beside(at).is_some_and(|b| b >= other.len()) {
                return Some(walk_back(&trace, one.len(), other.len()));
            }
        }
    }
    None
}

/// The pairs of the way that `trace` has found, from its end to its start.
fn walk_back(trace: &[Vec<usize>], one: usize, other: usize) -> VecDeque<(usize, usize)> {
    let (mut pairs, mut at, mut beside) = (VecDeque::new(), one as isize, other as isize);
    for (differences, furthest) in trace.iter().enumerate().rev() {
        let (reach, diagonal) = (differences as isize, at - beside);
        let known = |diagonal: isize| furthest[(diagonal + reach) as usize] as isize;
        let (before, before_beside) = if differences == 0 {
            (0, 0)
        } else {
            let is_down =
                diagonal == -reach || (diagonal != reach && known(diagonal - 1) < known(diagonal + 1));
            let previous = if is_down { diagonal + 1 } else { diagonal - 1 };
            (known(previous), known(previous) - previous)
        };
        while at > before && beside > before_beside {
            (at, beside) = (at - 1, beside - 1);
            pairs.push_front((at as usize, beside as usize));
        }
        (at, beside) = (before, before_beside);
    }
    pairs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(text: &str) -> Vec<Text> {
        text.split(' ').filter(|word| !word.is_empty()).map(|word| word.as_bytes().into()).collect()
    }

    fn samples(pages: &[&str]) -> Samples {
        let mut samples = Samples::new(&page(pages[0]));
        assert!(pages[1..].iter().all(|text| samples.add(&page(text))));
        samples
    }

    /// Enough pieces to keep two places apart.
    fn apart() -> String {
        (0..APART).map(|n| format!("p{n} ")).collect()
    }

    #[test]
    fn a_page_is_the_same_if_strangers_get_all_of_it() {
        let gap = apart();
        let shop = |banner: &str, next: &str| format!("a {banner} b {gap} c {next} d");
        let pages = [shop("x y", "1"), shop("z", "2"), shop("", "1")];
        let samples = samples(&pages.each_ref().map(String::as_str));
        assert!(!samples.are_alike() && samples.number() == 3);
        let of = |banner: &str, next: &str| samples.likeness(&page(&shop(banner, next)));
        for banner in ["x y", "z", ""] {
            for next in ["1", "2"] {
                assert_eq!(of(banner, next), Likeness::Same, "{banner} {next}");
            }
        }
        for (banner, next) in [("x", "1"), ("x y z", "1"), ("new", "2"), ("1", "1"), ("z", ""), ("z", "1 2")]
        {
            assert_eq!(of(banner, next), Likeness::Unseen, "{banner} {next}");
        }
        for other in [
            shop("z", "1").replace("a ", "A "),
            shop("z", "1").replace(" d", ""),
            shop("z", "1") + " e",
            shop("z", "1").replace("p7 ", ""),
            shop("z", "1").replace("p7 ", "p7 28 "),
            String::new(),
        ] {
            assert_eq!(samples.likeness(&page(&other)), Likeness::Differs, "{other}");
        }
    }

    /// A product of chance, with its price: the price of another one beside its title is a difference.
    #[test]
    fn what_is_together_is_seen_together() {
        let card = |title: &str, price: &str| format!("<ul> <b> {title} </b> <i> {price} </i> </ul>");
        let samples = samples(&[&card("A", "28"), &card("B", "14")]);
        let of = |title: &str, price: &str| samples.likeness(&page(&card(title, price)));
        assert_eq!([of("A", "28"), of("B", "14")], [Likeness::Same; 2]);
        assert_eq!([of("A", "14"), of("B", "28"), of("A", "7")], [Likeness::Unseen; 3]);
    }

    #[test]
    fn without_noise_every_difference_counts() {
        let samples = samples(&["a b c", "a b c"]);
        assert!(samples.are_alike());
        assert_eq!(samples.likeness(&page("a b c")), Likeness::Same);
        for other in ["a b", "a x c", "a b c d", ""] {
            assert_eq!(samples.likeness(&page(other)), Likeness::Differs, "{other}");
        }
    }

    #[test]
    fn a_different_page_altogether_is_no_sample() {
        let long = |word: &str| (0..MOST_DIFFERENT).map(|n| format!("{word}{n} ")).collect::<String>();
        let mut samples = samples(&[&long("a")]);
        assert!(!samples.add(&page(&long("b"))) && samples.number() == 1);
        assert!(samples.add(&page(&(long("a") + "x"))));
    }

    proptest! {
        /// The longest common subsequence, as the table of all prefixes has it.
        #[test]
        fn nothing_in_common_is_missed(one in prop::collection::vec(0_u128..4, 0..24), other in prop::collection::vec(0_u128..4, 0..24)) {
            let pairs = common(&one, &other).unwrap();
            prop_assert!(pairs.iter().all(|(a, b)| one[*a] == other[*b]));
            prop_assert!(pairs.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1));
            let mut longest = vec![vec![0; other.len() + 1]; one.len() + 1];
            for (a, x) in one.iter().enumerate() {
                for (b, y) in other.iter().enumerate() {
                    longest[a + 1][b + 1] = if x == y { longest[a][b] + 1 } else { longest[a][b + 1].max(longest[a + 1][b]) };
                }
            }
            prop_assert_eq!(pairs.len(), longest[one.len()][other.len()]);
        }

        /// Each page that strangers got is the same as it is, however many there are; and a piece that none of them has is noticed.
        #[test]
        fn every_sample_is_like_the_others(pages in prop::collection::vec(prop::collection::vec(0_u8..5, 0..30), 1..7), at in any::<prop::sample::Index>()) {
            let pages: Vec<Vec<Text>> = pages.into_iter().map(|page| page.into_iter().map(|piece| Text::from([piece])).collect()).collect();
            let mut samples = Samples::new(&pages[0]);
            for page in &pages[1..] {
                prop_assert!(samples.add(page));
            }
            for page in &pages {
                prop_assert_eq!(samples.likeness(page), Likeness::Same);
                let mut other = page.clone();
                other.insert(at.index(page.len() + 1), Text::from([99]));
                prop_assert_ne!(samples.likeness(&other), Likeness::Same);
            }
        }
    }
}

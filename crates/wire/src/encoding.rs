//! Which content codings a client accepts, and which it prefers: `Accept-Encoding` (RFC 9110 section 12.5.3).

/// A content coding that Millrace can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// `br` (RFC 7932)
    Brotli,
    /// `zstd` (RFC 8878)
    Zstd,
    /// `gzip` (RFC 1952)
    Gzip,
    /// None.
    Identity,
}

/// All codings; of equally preferred ones the first is used: the smaller result.
pub const CODINGS: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

impl Coding {
    /// Its name in `Accept-Encoding` and `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
            Coding::Identity => "identity",
        }
    }

    fn from_name(name: &[u8]) -> Option<Coding> {
        // RFC 9110 section 8.4.1.3: x-gzip is gzip.
        match name.len() {
            2 if name.eq_ignore_ascii_case(b"br") => Some(Coding::Brotli),
            4 if name.eq_ignore_ascii_case(b"gzip") => Some(Coding::Gzip),
            4 if name.eq_ignore_ascii_case(b"zstd") => Some(Coding::Zstd),
            6 if name.eq_ignore_ascii_case(b"x-gzip") => Some(Coding::Gzip),
            8 if name.eq_ignore_ascii_case(b"identity") => Some(Coding::Identity),
            _ => None,
        }
    }
}

/// The codings that a client accepts. The default is for a client that sends no field: according to the RFC it
/// accepts anything, but such clients often can't decode anything, so it gets no coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accept {
    /// Weight in thousandths of each of [`CODINGS`], if it was named.
    weights: [Option<u16>; CODINGS.len()],
    /// Weight of `*`.
    others: Option<u16>,
}

impl Accept {
    /// Reads the value of one `Accept-Encoding` field.
    pub fn parse(value: &[u8]) -> Accept {
        let mut accept = Accept::default();
        accept.add(value);
        accept
    }

    /// Adds another field line of the same request. An invalid member is skipped; of two members with the same name
    /// the later counts.
    pub fn add(&mut self, value: &[u8]) {
        for member in value.split(|b| *b == b',') {
            let mut parts = member.splitn(2, |b| *b == b';');
            let name = parts.next().unwrap_or(b"").trim_ascii();
            let Some(weight) = parts.next().map_or(Some(1000), weight) else { continue };
            if name == b"*" {
                self.others = Some(weight);
            } else if let Some(coding) = Coding::from_name(name) {
                self.weights[coding as usize] = Some(weight);
            }
        }
    }

    /// Weight of a coding, 0 to 1000; 0: not acceptable. `identity` is acceptable unless it was excluded, but less
    /// preferred than all named codings.
    pub fn weight(&self, coding: Coding) -> u16 {
        let said = self.weights[coding as usize].or(self.others);
        said.unwrap_or(if coding == Coding::Identity { UNSAID_IDENTITY } else { 0 }).min(1000)
    }

    /// Whether the client accepts `coding`.
    pub fn takes(&self, coding: Coding) -> bool {
        self.weight(coding) > 0
    }

    /// The coding of `codings` that the client prefers, of equals the first; `None`: it accepts none of them, or
    /// prefers [`Coding::Identity`].
    pub fn best_of(&self, codings: &[Coding]) -> Option<Coding> {
        let least = self.weight(Coding::Identity).max(1);
        let liked = codings.iter().rev().filter(|coding| self.weight(**coding) >= least);
        // Of equals the last counts.
        liked.copied().max_by_key(|coding| self.weight(*coding))
    }

    /// The codings that the client accepts, the best first; codings that it likes less than none follow
    /// [`Coding::Identity`].
    pub fn by_preference(&self) -> impl Iterator<Item = Coding> + use<> {
        let mut order = CODINGS;
        // Stable: equals stay in the order of CODINGS.
        order.sort_by_key(|coding| std::cmp::Reverse(self.weight(*coding)));
        let accept = *self;
        order.into_iter().filter(move |coding| accept.takes(*coding))
    }
}

/// Below any weight that can be set.
const UNSAID_IDENTITY: u16 = 1;

/// `q=0.5` in thousandths, at least 1 unless it is 0 (RFC 9110 section 12.4.2). `None` for anything else.
fn weight(parameter: &[u8]) -> Option<u16> {
    let parameter = parameter.trim_ascii();
    let (b'q' | b'Q', rest) = parameter.split_first()? else { return None };
    let (whole, rest) = rest.strip_prefix(b"=")?.split_first()?;
    let digits = match rest {
        [] => rest,
        [b'.', digits @ ..] if digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) => digits,
        _ => return None,
    };
    let mut thousandths = 0;
    for place in 0..3 {
        thousandths = thousandths * 10 + u16::from(digits.get(place).map_or(0, |digit| digit - b'0'));
    }
    match whole {
        // Weight 0.001 is the same number as UNSAID_IDENTITY; a named coding precedes it by its position.
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Coding::{Brotli, Gzip, Identity, Zstd};
    use proptest::prelude::*;

    fn order(value: &str) -> Vec<Coding> {
        Accept::parse(value.as_bytes()).by_preference().collect()
    }

    #[test]
    fn order_of_preference() {
        let table: &[(&str, &[Coding])] = &[
            ("", &[Identity]),
            ("gzip", &[Gzip, Identity]),
            ("gzip, deflate, br, zstd", &[Brotli, Zstd, Gzip, Identity]),
            ("GZip ,\tBR", &[Brotli, Gzip, Identity]),
            ("x-gzip", &[Gzip, Identity]),
            ("br;q=0.5, gzip;q=0.8", &[Gzip, Brotli, Identity]),
            ("br; q=0.5 , gzip ; Q=0.8", &[Gzip, Brotli, Identity]),
            ("br;q=0, gzip", &[Gzip, Identity]),
            ("br;q=0.000, gzip;q=1.000", &[Gzip, Identity]),
            ("*", &[Brotli, Zstd, Gzip, Identity]),
            ("*;q=0", &[]),
            ("gzip, *;q=0", &[Gzip]),
            ("identity;q=0", &[]),
            ("identity;q=0, gzip;q=0.1", &[Gzip]),
            ("identity;q=0, *", &[Brotli, Zstd, Gzip]),
            ("br;q=0, *;q=0.1, identity", &[Identity, Zstd, Gzip]),
            ("identity, gzip;q=0.9", &[Identity, Gzip]),
            ("identity;q=0.5, *;q=0.5", &[Brotli, Zstd, Gzip, Identity]),
            ("gzip;q=0.001", &[Gzip, Identity]),
            ("deflate, compress, brotli, gzipped", &[Identity]),
            (",, ,gzip,,", &[Gzip, Identity]),
            // Members that break the grammar.
            ("gzip;q=2, br", &[Brotli, Identity]),
            ("gzip;q=1.001, br", &[Brotli, Identity]),
            ("gzip;q=0.1234, br", &[Brotli, Identity]),
            ("gzip;q=-1, gzip;q=, gzip;q, gzip;x=1, gzip;", &[Identity]),
            ("gzip;q=0.5;a=b, br", &[Brotli, Identity]),
            ("gzip;q=0, gzip", &[Gzip, Identity]),
        ];
        for (value, expected) in table {
            assert_eq!(order(value), *expected, "{value:?}");
        }
    }

    #[test]
    fn field_lines_are_one_list() {
        let mut accept = Accept::parse(b"gzip;q=0.5");
        accept.add(b"br;q=0.4, identity;q=0");
        assert_eq!(accept.by_preference().collect::<Vec<_>>(), [Gzip, Brotli]);
    }

    #[test]
    fn the_best_of_a_few() {
        let few = [Zstd, Gzip, Brotli];
        let table: &[(&str, Option<Coding>)] = &[
            ("", None),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, br", Some(Gzip)),
            ("br", Some(Brotli)),
            ("br;q=0.9, gzip;q=0.8", Some(Brotli)),
            ("gzip;q=0", None),
            ("gzip;q=0.001", Some(Gzip)),
            ("identity, gzip;q=0.9", None),
            ("identity;q=0.5, *;q=0.5", Some(Zstd)),
            ("identity;q=0, zstd;q=0", None),
            ("*;q=0", None),
        ];
        for (value, expected) in table {
            assert_eq!(Accept::parse(value.as_bytes()).best_of(&few), *expected, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(value: Vec<u8>) {
            let accept = Accept::parse(&value);
            let weights: Vec<u16> = accept.by_preference().map(|c| accept.weight(c)).collect();
            prop_assert!(weights.is_sorted_by(|a, b| a >= b));
            prop_assert!(weights.iter().all(|w| (1..=1000).contains(w)));
        }

        #[test]
        fn any_list(value in r"((br|gzip|zstd|identity|\*|x)( ?; ?q=(0|1|0\.[0-9]{0,3}))?, ?){0,8}") {
            let accept = Accept::parse(value.as_bytes());
            let order: Vec<Coding> = accept.by_preference().collect();
            for coding in CODINGS {
                prop_assert_eq!(order.contains(&coding), accept.takes(coding));
            }
        }
    }
}

//! Character references in attributes: numbers, and the names that occur in URLs.

/// Names with their character.
const NAMES: [(&str, char); 8] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", '\u{a0}'),
    ("sol", '/'),
    ("colon", ':'),
];

/// The text with its references resolved; invalid ones stay unchanged.
pub fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        let reference = &rest[at + 1..];
        match resolve(reference) {
            Some((character, length)) => {
                decoded.push(character);
                rest = &reference[length..];
            }
            None => {
                decoded.push('&');
                rest = reference;
            }
        }
    }
    decoded + rest
}

/// The character of a reference, and how long that is, with its semicolon.
fn resolve(reference: &str) -> Option<(char, usize)> {
    // No name and no number of a character is longer.
    let end = reference.bytes().take(12).position(|b| b == b';')?;
    let name = &reference[..end];
    let character = match name.strip_prefix('#') {
        Some(number) => {
            let number = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(number.ok()?)?
        }
        None => NAMES.iter().find(|(known, _)| *known == name)?.1,
    };
    Some((character, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_and_unknown() {
        assert_eq!(decode("/?a=1&#038;b=2&amp;c=&#x41;&quot;"), "/?a=1&b=2&c=A\"");
        assert_eq!(decode("a&b;&;&#xD800;&#9999999999;&amp"), "a&b;&;&#xD800;&#9999999999;&amp");
        assert_eq!(decode("é&é;&lt;"), "é&é;<");
    }

    proptest! {
        #[test]
        fn text_without_references_stays(text in "[^&]{0,40}") {
            prop_assert_eq!(decode(&text), text);
        }

        #[test]
        fn nothing_makes_it_panic(text in "[&#;xXa-f0-9é]{0,40}") {
            decode(&text);
        }
    }
}

//! Writing JSON (RFC 8259); the status is all that is ever written.

use std::fmt;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A whole number.
    Integer(u64),
    /// Any finite number.
    Number(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// Members in this order.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An object of these members.
    pub fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
        Json::Object(members.map(|(name, value)| (name.to_owned(), value)).into())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<u64> for Json {
    fn from(number: u64) -> Json {
        Json::Integer(number)
    }
}

impl From<f64> for Json {
    fn from(number: f64) -> Json {
        if number.is_finite() { Json::Number(number) } else { Json::Null }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Json {
        value.map_or(Json::Null, Into::into)
    }
}

impl<T: Into<Json>> FromIterator<T> for Json {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Json {
        Json::List(values.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

impl Json {
    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(value) => write!(f, "{value}"),
            Json::Integer(number) => write!(f, "{number}"),
            Json::Number(number) => write!(f, "{number}"),
            Json::Text(text) => write_text(f, text),
            Json::List(values) => write_items(f, depth, ['[', ']'], values, |f, v| v.write(f, depth + 1)),
            Json::Object(members) => write_items(f, depth, ['{', '}'], members, |f, (name, value)| {
                write_text(f, name)?;
                f.write_str(": ")?;
                value.write(f, depth + 1)
            }),
        }
    }
}

/// One item a line, so that people can read it too.
fn write_items<T>(
    f: &mut fmt::Formatter<'_>,
    depth: usize,
    [open, close]: [char; 2],
    items: &[T],
    write_item: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    write!(f, "{open}")?;
    for (i, item) in items.iter().enumerate() {
        write!(f, "{}\n{:indent$}", if i == 0 { "" } else { "," }, "", indent = 2 * (depth + 1))?;
        write_item(f, item)?;
    }
    if !items.is_empty() {
        write!(f, "\n{:indent$}", "", indent = 2 * depth)?;
    }
    write!(f, "{close}")
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(f, "\\{character}")?,
            '\n' => f.write_str("\\n")?,
            _ if character.is_control() => write!(f, "\\u{:04x}", u32::from(character))?,
            _ => write!(f, "{character}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested() {
        let value = Json::object([
            ("a\"b", Json::from("x\\y\n\u{1}é")),
            ("n", Json::from(u64::MAX)),
            ("f", Json::from(0.25)),
            ("yes", Json::from(true)),
            ("bad", Json::from(f64::NAN)),
            ("none", Json::from(None::<u64>)),
            ("list", ["p", "q"].into_iter().collect()),
            ("empty", Json::List(Vec::new())),
        ]);
        let expected = r#"{
  "a\"b": "x\\y\n\u0001é",
  "n": 18446744073709551615,
  "f": 0.25,
  "yes": true,
  "bad": null,
  "none": null,
  "list": [
    "p",
    "q"
  ],
  "empty": []
}"#;
        assert_eq!(value.to_string(), expected);
    }
}

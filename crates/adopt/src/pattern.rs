//! Regular expressions of other servers (PCRE) as Millrace takes them: the crate `regex`, linear time.

use regex::Regex;

/// The expression with its groups' names, if Millrace can match it.
///
/// # Errors
/// Why not, with what to do.
pub fn carried(pattern: &str, ignore_case: bool) -> Result<(String, Vec<Option<String>>), String> {
    // PCRE takes an escaped slash and a few other needless escapes.
    let plain = unescaped(pattern);
    let text = if ignore_case { format!("(?i){plain}") } else { plain };
    match Regex::new(&text) {
        Ok(regex) => {
            let names = regex.capture_names().map(|name| name.map(str::to_owned)).collect();
            Ok((text, names))
        }
        Err(_) => Err("Millrace's regular expressions have no look-around and no back references, so that they take linear \
                       time: write the condition with `path` and `unless_path`"
            .to_owned()),
    }
}

/// Removes escapes that the crate `regex` rejects: `\/`, `\_`.
fn unescaped(pattern: &str) -> String {
    let (mut out, mut chars) = (String::new(), pattern.chars().peekable());
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some('\\') if c == '\\' => {
                out.push_str("\\\\");
                chars.next();
            }
            Some('/' | '_' | '\'' | '"' | '=' | ',' | ':' | ';' | '%' | '@' | '!' | ' ') if c == '\\' => {}
            _ => out.push(c),
        }
    }
    out
}

/// The expression for a whole prefix of a path.
pub fn escaped(text: &str) -> String {
    regex::escape(text)
}

/// `a|b|c` of `^(a|b|c)$` and the like, if these are plain words; `None` for anything else.
pub fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let inner = pattern.trim_start_matches('^').trim_end_matches('$');
    let inner = inner.strip_prefix("(?:").or_else(|| inner.strip_prefix('(')).unwrap_or(inner);
    let inner = inner.strip_suffix(')').unwrap_or(inner);
    let words: Vec<String> = inner.split('|').map(|word| word.replace("\\.", ".").replace("\\-", "-")).collect();
    let plain = |word: &String| !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_. /".contains(&b));
    words.iter().all(plain).then_some(words)
}

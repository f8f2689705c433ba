//! Masks secret values in the lines that a problem draws, because such lines end up in logs.

use std::borrow::Cow;

/// The text with `*` for each byte of a secret value. Positions in the text stay the same.
pub(crate) fn masked(text: &str) -> Cow<'_, str> {
    if !text.contains("env") && !text.contains("token") && !text.contains("password") {
        return text.into();
    }
    let (mut out, mut in_table) = (String::with_capacity(text.len()), false);
    for line in text.split_inclusive('\n') {
        let begins = line.trim_start();
        if begins.starts_with('[') {
            let name = begins.trim_start_matches('[').split(']').next().unwrap_or_default();
            in_table = name == "env" || name.ends_with(".env");
        }
        let key = begins.split('=').next().unwrap_or_default();
        let key = key.rsplit(' ').find(|word| !word.is_empty()).unwrap_or_default();
        let is_secret = in_table
            || key.split('.').any(|part| matches!(part, "env" | "purge_token" | "token" | "redis_password"));
        let may_be_bare = key.ends_with("token") || key.ends_with("redis_password");
        if is_secret { mask(line, may_be_bare, &mut out) } else { out.push_str(line) }
    }
    out.into()
}

/// Masks the quoted strings after a `=`; with `bare` also one without quotes.
fn mask(line: &str, bare: bool, out: &mut String) {
    // The quote around the current value; whether a value may start.
    let (mut quote, mut may_begin) = (None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(end), c) if c == end => (quote, may_begin) = (None, false),
            (Some(_), c) if c != '\n' => {
                out.extend(std::iter::repeat_n('*', c.len_utf8()));
                continue;
            }
            (None, '"' | '\'') if may_begin => quote = Some(c),
            (None, '=') => may_begin = true,
            (None, ' ' | '\t' | '{' | '}' | ',' | '\n') => may_begin &= matches!(c, ' ' | '\t'),
            (None, _) if may_begin && bare => {
                out.extend(std::iter::repeat_n('*', c.len_utf8()));
                continue;
            }
            _ => may_begin = false,
        }
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_masked_and_nothing_moves() {
        for (text, shown) in [
            (
                "env = { A = \"s=x\", B = 'ü' }\nuser = \"me\"\n",
                "env = { A = \"***\", B = '**' }\nuser = \"me\"\n",
            ),
            (
                "[php.env]\nA = \"secret\"\n[php]\nuser = \"me\"",
                "[php.env]\nA = \"******\"\n[php]\nuser = \"me\"",
            ),
            ("php.env.A = \"secret\"", "php.env.A = \"******\""),
            ("[cache]\npurge_token = \"short\"", "[cache]\npurge_token = \"*****\""),
            ("--set cache.purge_token=short", "--set cache.purge_token=*****"),
            ("[admin]\ntoken = \"short\"", "[admin]\ntoken = \"*****\""),
            ("--set admin.token=short", "--set admin.token=*****"),
            ("--set php.env={ A = \"x\" }", "--set php.env={ A = \"*\" }"),
            ("A = \"x\"", "A = \"x\""),
            ("env = { \"1A\" = \"x\" }", "env = { \"1A\" = \"*\" }"),
        ] {
            assert_eq!(masked(text), shown);
            assert_eq!(masked(text).len(), text.len());
        }
    }
}

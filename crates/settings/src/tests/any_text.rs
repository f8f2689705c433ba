//! Every text gives a plan or problems, never a panic; and every problem can be drawn.

use proptest::prelude::*;

use super::load;
use crate::table;

/// Draws all problems.
fn answer(text: &str, set: &[&str]) {
    match load(text, set) {
        Ok((_, warnings)) => warnings.iter().for_each(|warning| drop(warning.draw(true))),
        Err(problems) => drop((problems.draw(false), problems.draw(true))),
    }
}

/// A value that a user might write.
fn value() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[0-9]{1,25}(ms|s|m|h|d|KB|MB|TB|x)?",
        "-?[0-9]{1,20}",
        "[0-9a-f:.\\[\\]/]{0,30}",
        "unix:.{0,20}",
        "[a-z.*-]{0,70}",
        "/[a-z./%]{0,20}",
        "\\PC{0,30}",
        ".{0,10}",
    ];
    let quoted = word.prop_map(|word| format!("{word:?}"));
    let plain = prop_oneof![Just("true".to_owned()), "-?[0-9]{1,20}", "[0-9]\\.[0-9]e[0-9]{1,3}", quoted];
    let list =
        proptest::collection::vec(plain.clone(), 0..4).prop_map(|parts| format!("[{}]", parts.join(", ")));
    let table = proptest::collection::vec(("[a-zA-Z0-9_-]{1,9}|\"\\PC{0,4}\"", plain.clone()), 0..4)
        .prop_map(|parts| {
            let parts: Vec<String> =
                parts.into_iter().map(|(name, value)| format!("{name} = {value}")).collect();
            format!("{{ {} }}", parts.join(", "))
        });
    prop_oneof![4 => plain, 1 => list, 1 => table]
}

/// A key of the table, or a similar one.
fn key() -> impl Strategy<Value = String> {
    let keys: Vec<String> = table::rows().map(|row| row.key.to_owned()).collect();
    let keys = proptest::sample::select(keys);
    prop_oneof![8 => keys.clone(), 1 => keys.prop_map(|key| key[..key.len() - 1].to_owned()), 1 => "[a-z_.]{1,20}"]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_characters(text in "(?s).{0,200}") {
        answer(&text, &[]);
    }

    #[test]
    fn anything_like_toml(text in "([\\[\\]{}=.,\"'#\\\\a-z0-9 \n\r\tü€]|http|site|\\[\\[site\\]\\]|root|\"\"\"){0,60}") {
        answer(&text, &[]);
    }

    #[test]
    fn any_values_of_any_keys(lines in proptest::collection::vec((key(), value()), 0..8), sites in 0..3) {
        let mut text = String::new();
        for (key, value) in lines.iter().filter(|(key, _)| !key.starts_with("site.")) {
            text += &format!("{key} = {value}\n");
        }
        for number in 0..sites {
            text += &format!("[[site]]\nroot = \"/srv/app\"\nnames = \"n{number}\"\n");
            for (key, value) in &lines {
                text += &format!("{} = {value}\n", key.strip_prefix("site.").unwrap_or(key));
            }
        }
        answer(&text, &[]);
    }

    #[test]
    fn any_arguments(arguments in proptest::collection::vec(
        prop_oneof![(key(), value()).prop_map(|(key, value)| format!("{key}={value}")), "\\PC{0,40}", ".{0,40}"], 0..4,
    )) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        answer(super::SITE, &arguments);
    }

    #[test]
    fn any_question(key in ".{0,40}") {
        let _ = crate::explain(&key);
    }
}

/// Nesting that would overflow the stack of a recursive reader.
#[test]
fn deep_nesting_is_refused() {
    for text in [
        format!("a = {}", "[".repeat(200_000)),
        format!("a = {}", "{ a = ".repeat(200_000)),
        format!("a = {}1{}", "[".repeat(50_000), "]".repeat(50_000)),
        format!("[{}]", vec!["a"; 20_000].join(".")),
        format!("{} = 1", vec!["a"; 20_000].join(".")),
        format!("{} = 1", vec!["php.ini"; 20_000].join(".")),
    ] {
        assert!(load(&text, &[]).is_err());
        answer(&text, &[]);
    }
}

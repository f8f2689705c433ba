//! Which requests a directive is for: its matcher, in the blocks around it, without what other blocks have taken.

use super::lex::CaddyLine;
use super::paths;
use crate::pattern;
use crate::value::{Toml, When};

/// What is said of conditions that rules can't express together.
const TOO_MANY: &str = "the conditions of both blocks together are more than a rule has";

/// The conditions of a named matcher (`modules/caddyhttp/matchers.go`): all of its lines must hold.
///
/// # Errors
/// Rules have no such condition.
pub fn matcher(node: &CaddyLine) -> Result<When, String> {
    let lines: Vec<&[String]> = match node.words.len() {
        0 | 1 => node.block.iter().map(|inner| inner.words.as_slice()).collect(),
        _ => vec![&node.words[1..]],
    };
    let mut when = When::new();
    for line in lines {
        let (name, args) = (line[0].as_str(), &line[1..]);
        let found = match (name, args.first().map(String::as_str)) {
            ("path", _) => match of_paths(args)? {
                Some(found) => found,
                None => continue,
            },
            ("not", Some("path")) => ("unless_path", Toml::List(plain_paths(&args[1..])?)),
            ("not", Some("remote_ip" | "client_ip")) => ("unless_from", networks(&args[1..])),
            ("not", _) => {
                return Err("rules have `unless_path` and `unless_from`, and no other negation".to_owned());
            }
            ("path_regexp", _) => {
                ("regex", Toml::Regex(pattern::carried(args.last().map_or("", String::as_str), false)?.text))
            }
            ("host", _) => ("host", Toml::List(args.to_vec())),
            ("method", _) => ("method", Toml::List(args.to_vec())),
            ("remote_ip" | "client_ip", _) => ("from", networks(args)),
            ("header", Some(field)) if args.len() == 2 => {
                ("header", Toml::List(vec![format!("{field}: {}", args[1])]))
            }
            ("query", _) => ("query", queries(args)?),
            _ => return Err(format!("rules have no condition like `{name}`: docs/rules.md")),
        };
        add(&mut when, found)?;
    }
    if of(&when, "path").is_some() && of(&when, "regex").is_some() {
        return both(&When::new(), &when)?
            .ok_or_else(|| "no request matches both `path` and `path_regexp`".to_owned());
    }
    Ok(when)
}

/// The condition of a matcher that stands in a directive: `/a/*`.
///
/// # Errors
/// Rules have no such pattern.
pub fn inline(word: &str) -> Result<When, String> {
    Ok(of_paths(&[word.to_owned()])?
        .into_iter()
        .map(|(key, value)| match value {
            Toml::List(mut paths) if paths.len() == 1 => (key, Toml::Text(paths.remove(0))),
            value => (key, value),
        })
        .collect())
}

/// One more line of a matcher. Several with one name are alternatives for some names, and must all hold for others.
fn add(when: &mut When, (key, value): (&'static str, Toml)) -> Result<(), String> {
    let Some((_, known)) = when.iter_mut().find(|(known, _)| *known == key) else {
        when.push((key, value));
        return Ok(());
    };
    let field = |line: &String| line.split([':', '=']).next().unwrap_or_default().to_ascii_lowercase();
    let (mut all, more) = (texts(known), texts(&value));
    let is_one_field = || all.iter().chain(&more).all(|line| field(line) == field(&more[0]));
    let are_alternatives = match key {
        "path" | "method" | "host" | "from" | "unless_path" | "unless_from" => true,
        "header" | "query" => !more.is_empty() && is_one_field(),
        _ => false,
    };
    if !are_alternatives {
        return Err(format!("a rule has one `{key}`"));
    }
    all.extend(more);
    *known = Toml::List(all);
    Ok(())
}

/// A condition for these paths; `None`: they are all.
fn of_paths(args: &[String]) -> Result<Option<(&'static str, Toml)>, String> {
    if args.iter().any(|arg| arg == "*") {
        return Ok(None);
    }
    if args.iter().all(|arg| is_plain(arg)) {
        return Ok(Some(("path", Toml::List(args.to_vec()))));
    }
    let all = args.iter().map(|arg| as_expression(arg)).collect::<Result<Vec<_>, _>>()?;
    let expression =
        if all.len() == 1 { format!("^{}$", all[0]) } else { format!("^(?:{})$", all.join("|")) };
    Ok(Some(("regex", Toml::Regex(expression))))
}

fn plain_paths(args: &[String]) -> Result<Vec<String>, String> {
    match args.iter().find(|arg| !is_plain(arg)) {
        Some(odd) => Err(format!("`path` of a rule has no pattern like {odd}")),
        None => Ok(args.to_vec()),
    }
}

/// Whether Caddy's pattern means the same in a rule: no `*`, one at an end, or one at each end.
fn is_plain(pattern: &str) -> bool {
    let middle = pattern.strip_prefix('*').unwrap_or(pattern);
    let middle = middle.strip_suffix('*').unwrap_or(middle);
    pattern.starts_with(['/', '*']) && !middle.is_empty() && !middle.contains(['*', '?', '[', '\\', '%', '{'])
}

/// Any other pattern, in which `*` stands for part of a segment (Go's `path.Match`).
fn as_expression(pattern: &str) -> Result<String, String> {
    if is_plain(pattern) {
        return Ok(pattern::escaped(pattern).replace("\\*", ".*"));
    }
    if !pattern.starts_with(['/', '*']) || pattern.contains(['[', '\\', '%', '{']) {
        return Err(format!("`path` of a rule has no pattern like {pattern}"));
    }
    Ok(pattern::escaped(pattern).replace("\\*", "[^/]*").replace("\\?", "[^/]"))
}

/// `private_ranges` is a list of networks.
fn networks(args: &[String]) -> Toml {
    const PRIVATE: [&str; 6] =
        ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"];
    let one = |arg: &String| match arg.as_str() {
        "private_ranges" => PRIVATE.map(str::to_owned).to_vec(),
        _ => vec![arg.clone()],
    };
    Toml::List(args.iter().filter(|arg| *arg != "forwarded").flat_map(one).collect())
}

/// `a=1 a=2` are alternatives; of different names, all must be there.
fn queries(args: &[String]) -> Result<Toml, String> {
    let name = |arg: &String| arg.split('=').next().unwrap_or_default().to_owned();
    if args.iter().any(|arg| name(arg) != name(&args[0])) {
        return Err("of several query arguments, a rule matches if one is there".to_owned());
    }
    Ok(Toml::List(args.iter().map(|arg| arg.trim_end_matches("=*").to_owned()).collect()))
}

/// The texts of a condition.
pub fn texts(value: &Toml) -> Vec<String> {
    match value {
        Toml::Text(text) | Toml::Regex(text) => vec![text.clone()],
        Toml::List(all) => all.clone(),
        _ => Vec::new(),
    }
}

/// The texts of `key`; `None`: there is no such condition.
pub fn of(when: &When, key: &str) -> Option<Vec<String>> {
    when.iter().find(|(known, _)| *known == key).map(|(_, value)| texts(value))
}

/// The requests that both are for; `None`: there are none.
///
/// # Errors
/// A rule can't express it.
pub fn both(outer: &When, own: &When) -> Result<Option<When>, String> {
    let mut all = outer.clone();
    for (key, value) in own {
        let found = match *key {
            "path" | "regex" => path_or_regex(&mut all, key, value)?,
            _ => None,
        };
        match found {
            Some(true) => continue,
            Some(false) => return Ok(None),
            None => {}
        }
        let Some((_, known)) = all.iter_mut().find(|(known, _)| known == key) else {
            all.push((key, value.clone()));
            continue;
        };
        match together(key, known, value)? {
            Some(value) => *known = value,
            None => return Ok(None),
        }
    }
    Ok(tidied(all))
}

/// A rule has either paths or an expression. Of both, the expression stays, if all that it matches is among the paths: `Some(true)`.
/// `Some(false)`: no request matches both. `None`: there is only one of them.
fn path_or_regex(all: &mut When, key: &'static str, value: &Toml) -> Result<Option<bool>, String> {
    let other = if key == "path" { "regex" } else { "path" };
    let Some(known) = of(all, other) else { return Ok(None) };
    let (expression, paths) = if key == "path" { (known, texts(value)) } else { (texts(value), known) };
    let is_within = is_within(&expression[0], &paths).ok_or("a rule has `path` or `regex`")?;
    if is_within && key == "regex" {
        all.retain(|(known, _)| *known != "path");
        all.push((key, value.clone()));
    }
    Ok(Some(is_within))
}

/// One condition of both; `None`: no request fulfils it.
fn together(key: &str, known: &Toml, value: &Toml) -> Result<Option<Toml>, String> {
    let (left, right) = (texts(known), texts(value));
    let common = match key {
        "path" => paths::common(&left, &right).ok_or(TOO_MANY)?,
        "method" | "host" => right.iter().filter(|one| left.contains(one)).cloned().collect(),
        "unless_path" | "unless_from" => {
            let more = right.iter().filter(|one| !left.contains(one));
            return Ok(Some(Toml::List(left.iter().chain(more).cloned().collect())));
        }
        _ if left == right => return Ok(Some(known.clone())),
        _ => return Err(TOO_MANY.to_owned()),
    };
    Ok(match common.is_empty() {
        true => None,
        // Paths that the directive itself names are kept as it has them.
        false if key == "path" && common == right => Some(value.clone()),
        false => Some(Toml::List(common)),
    })
}

/// Whether these are all requests, or those that other blocks have left.
pub fn is_rest(when: &When) -> bool {
    when.iter().all(|(key, _)| matches!(*key, "unless_path" | "unless_from"))
}

/// Whether what an expression matches is among these paths; `None`: that can't be told.
fn is_within(expression: &str, paths: &[String]) -> Option<bool> {
    let special = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_'));
    let rest = expression.strip_prefix('^')?;
    let (literal, after) = rest.split_at(rest.find(special).unwrap_or(rest.len()));
    // The last letter may be optional, and one of two words may begin otherwise.
    let literal = if after.starts_with(['?', '*', '{']) {
        &literal[..literal.len().saturating_sub(1)]
    } else {
        literal
    };
    if has_alternatives(after) {
        return None;
    }
    let start = format!("{literal}*");
    match paths.iter().any(|path| paths::covers(path, &start)) {
        true => Some(true),
        false if paths.iter().any(|path| paths::overlap(path, &start)) => None,
        false => Some(false),
    }
}

/// Whether a `|` stands outside of groups.
fn has_alternatives(expression: &str) -> bool {
    let (mut depth, mut is_escaped) = (0, false);
    for c in expression.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '|' if depth <= 0 => return true,
            _ => {}
        }
    }
    false
}

/// The requests that `when` is for and `taken` is not; `None`: there are none.
///
/// # Errors
/// A rule can't express it.
pub fn without(when: &When, taken: &When) -> Result<Option<When>, String> {
    if matches!(both(when, taken), Ok(None)) {
        return Ok(Some(when.clone()));
    }
    let paths_of = |conditions: &When| of(conditions, "path");
    match taken.as_slice() {
        [] => Ok(None),
        [("path", taken)] => both(when, &vec![("unless_path", Toml::List(texts(taken)))]),
        [("from", taken)] => both(when, &vec![("unless_from", taken.clone())]),
        [("unless_path", left)] => both(when, &vec![("path", Toml::List(texts(left)))]),
        [("unless_from", left)] => both(when, &vec![("from", left.clone())]),
        [("path", taken), ("unless_path", left)] | [("unless_path", left), ("path", taken)] => {
            let left = texts(left);
            let is_apart = paths_of(when).is_some_and(|own| {
                own.iter().all(|one| left.iter().all(|other| !paths::overlap(one, other)))
            });
            match is_apart {
                true => both(when, &vec![("unless_path", Toml::List(texts(taken)))]),
                false => Err(TOO_MANY.to_owned()),
            }
        }
        _ => Err(TOO_MANY.to_owned()),
    }
}

/// Without exceptions that concern none of its paths; `None`: all of its paths are excepted.
fn tidied(mut when: When) -> Option<When> {
    let (Some(own), Some(mut unless)) = (of(&when, "path"), of(&when, "unless_path")) else {
        return Some(when);
    };
    if own.iter().all(|path| unless.iter().any(|other| paths::covers(other, path))) {
        return None;
    }
    unless.retain(|other| own.iter().any(|path| paths::overlap(path, other)));
    when.retain(|(key, _)| *key != "unless_path");
    if !unless.is_empty() {
        when.push(("unless_path", Toml::List(unless)));
    }
    Some(when)
}

/// These conditions, which are for the path behind `prefix`, for the whole path.
///
/// # Errors
/// A rule can't express it.
pub fn below(when: When, prefix: &str) -> Result<When, String> {
    if prefix.is_empty() {
        return Ok(when);
    }
    let whole = |path: &String| match path.strip_prefix('*') {
        Some(_) => format!("{prefix}/{path}"),
        None => format!("{prefix}{path}"),
    };
    let one = |(key, value): (&'static str, Toml)| match key {
        "path" | "unless_path" => Ok((key, Toml::List(texts(&value).iter().map(whole).collect()))),
        "regex" => {
            Err(format!("the expression is for the path without {prefix}, a rule's for the whole path"))
        }
        _ => Ok((key, value)),
    };
    when.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(all: &[&str]) -> Toml {
        Toml::List(all.iter().map(|path| (*path).to_owned()).collect())
    }

    #[test]
    fn together_and_without() {
        let a: When = vec![("path", paths(&["/a/*"]))];
        let deep: When = vec![("path", paths(&["/a/b/*"]))];
        let posts: When = vec![("path", paths(&["/a/*"])), ("method", paths(&["POST"]))];
        assert_eq!(both(&a, &deep), Ok(Some(deep.clone())));
        assert_eq!(both(&a, &vec![("path", paths(&["/b/*"]))]), Ok(None));
        assert_eq!(without(&deep, &a), Ok(None));
        let rest = vec![("path", paths(&["/a/*"])), ("unless_path", paths(&["/a/b/*"]))];
        assert_eq!(without(&a, &deep), Ok(Some(rest)));
        assert_eq!(without(&When::new(), &a), Ok(Some(vec![("unless_path", paths(&["/a/*"]))])));
        assert_eq!(without(&When::new(), &When::new()), Ok(None));
        let numbers: When = vec![("regex", Toml::Regex("^/a/[0-9]+$".to_owned()))];
        assert_eq!(both(&a, &numbers), Ok(Some(numbers.clone())));
        assert_eq!(both(&vec![("path", paths(&["/b/*"]))], &numbers), Ok(None));
        assert!(both(&a, &vec![("regex", Toml::Regex("[.]txt$".to_owned()))]).is_err());
        assert!(both(&a, &vec![("regex", Toml::Regex("^/a/x|y".to_owned()))]).is_err());
        assert!(without(&When::new(), &posts).is_err(), "neither the path nor the method alone");
        let gets: When = vec![("method", paths(&["GET"]))];
        assert_eq!(without(&gets, &posts), Ok(Some(gets.clone())), "no request is of both");
    }

    #[test]
    fn patterns_of_caddy() {
        let found = |all: &[&str]| of_paths(&all.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        assert_eq!(
            found(&["/a/*", "*.txt", "*/b/*"]),
            Ok(Some(("path", paths(&["/a/*", "*.txt", "*/b/*"]))))
        );
        assert_eq!(found(&["/a", "*"]), Ok(None));
        assert_eq!(
            found(&["/a/*/b", "/c*"]),
            Ok(Some(("regex", Toml::Regex("^(?:/a/[^/]*/b|/c.*)$".to_owned()))))
        );
        assert!(found(&["a"]).is_err() && found(&["/[ab]"]).is_err() && found(&["/{x}"]).is_err());
    }
}

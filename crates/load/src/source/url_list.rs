//! A list of URLs in a text file: one per line, with an optional weight before it.
//!
//! ```text
//! # the front page is asked for ten times as often as the others
//! 10 /
//! /shop/
//! https://shop.test/cart/
//! ```

use super::{Problem, shown};
use crate::scenario::{Origin, Scenario};
use crate::url::Url;

/// The most URLs that are taken.
pub const MOST_URLS: usize = 1_000_000;
/// The greatest weight.
const MOST_WEIGHT: u32 = 1_000_000;

/// Reads a list. `origin` is the destination of paths without a host; without it, the first complete URL determines
/// it.
///
/// # Errors
/// All unusable lines, at most twenty.
pub fn read(text: &str, origin: Option<&Origin>) -> Result<Scenario, Vec<Problem>> {
    let mut origin = origin.cloned().or_else(|| first_origin(text));
    let (mut targets, mut problems) = (Vec::new(), Vec::new());
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line_number = index + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if targets.len() == MOST_URLS {
            problems.push(Problem::new(line_number, "it has more than a million URLs", "use fewer of them"));
            break;
        }
        match one(line, &mut origin) {
            Ok(target) => targets.push(target),
            Err((what, cure)) => problems.push(Problem::new(line_number, what, cure)),
        }
        if problems.len() == 20 {
            break;
        }
    }
    match origin {
        Some(origin) if problems.is_empty() && !targets.is_empty() => Ok(Scenario::weighted(origin, targets)),
        _ if problems.is_empty() => {
            Err(vec![Problem::new(0, "it contains no URLs", "write one URL per line")])
        }
        _ => Err(problems),
    }
}

fn first_origin(text: &str) -> Option<Origin> {
    let words =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    words.filter_map(|word| Url::parse(word).ok()).map(|url| url.origin).next()
}

fn one(line: &str, origin: &mut Option<Origin>) -> Result<(u32, String), (String, &'static str)> {
    let (weight, url) = match line.split_once(char::is_whitespace) {
        Some((weight, url)) => (weight, url.trim()),
        None => ("1", line),
    };
    let weight = match weight.parse::<u32>() {
        Ok(weight) if (1..=MOST_WEIGHT).contains(&weight) => weight,
        _ => {
            return Err((
                format!("{} is not a weight", shown(weight)),
                "write WEIGHT URL, with a weight from 1 to 1000000",
            ));
        }
    };
    if url.contains(char::is_whitespace) {
        return Err((format!("{} contains a space", shown(url)), "write a space in a URL as %20"));
    }
    if url.starts_with('/') {
        let Some(origin) = origin else {
            return Err((
                format!("{} has no host", shown(url)),
                "write the full URL, or give the server's URL on the command line",
            ));
        };
        let base = Url { origin: origin.clone(), target: "/".to_owned() };
        return Ok((weight, base.with_target(url).target));
    }
    let parsed = Url::parse(url).map_err(|error| {
        (format!("{} is not a URL: {error}", shown(url)), "write http://HOST/PATH or /PATH")
    })?;
    if *origin.get_or_insert_with(|| parsed.origin.clone()) != parsed.origin {
        return Err((
            format!("{} is on another server", shown(url)),
            "a load test has one target server: make one list for each",
        ));
    }
    Ok((weight, parsed.target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn weights_and_paths() {
        let scenario = read("# all\n10 /\n/shop/?a=1#x\n\n  2\thttp://a.test/cart/ \n", None).unwrap();
        let flows: Vec<_> =
            scenario.flows.iter().map(|flow| (flow.weight, flow.steps[0].request.target.as_str())).collect();
        assert_eq!(flows, [(10, "/"), (1, "/shop/?a=1"), (2, "/cart/")]);
        assert_eq!(scenario.origin.to_string(), "http://a.test");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let text = "http://a.test/\n0 /x\nhttp://b.test/\nftp://a.test/\n/a b c\n";
        let problems: Vec<String> = read(text, None).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "line 2: `0` is not a weight; write WEIGHT URL, with a weight from 1 to 1000000",
                "line 3: `http://b.test/` is on another server; a load test has one target server: make one list for \
                 each",
                "line 4: `ftp://a.test/` is not a URL: it must begin with http:// or https://; write \
                 http://HOST/PATH or /PATH",
                "line 5: `/a` is not a weight; write WEIGHT URL, with a weight from 1 to 1000000",
            ]
        );
        assert_eq!(read("/x", None).unwrap_err()[0].line, 1);
        assert_eq!(read("# none\n", None).unwrap_err()[0].line, 0);
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in "(http://a|/|[0-9]| |\n|#|é|\t){0,40}") {
            let _ = read(&text, None);
        }
    }
}

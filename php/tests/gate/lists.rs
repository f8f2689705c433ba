//! Reads the lists in `c/rewind/functions`, for the build and for the test of the lists.

/// Names of a list, in lower case: `name`, or `class::method` of a line `Class: method method`.
pub fn names(list: &str) -> Vec<String> {
    lines(list)
        .flat_map(|line| match line.split_once(": ") {
            Some((class, methods)) => methods.split(' ').map(|method| format!("{class}::{method}")).collect(),
            None => line.split(' ').map(str::to_owned).collect::<Vec<_>>(),
        })
        .map(|name| name.to_lowercase())
        .collect()
}

/// Kind, name and argument of a list of lines `kind: name name(argument)`.
pub fn recorded(list: &str) -> Vec<(String, String, u8)> {
    let entry = |kind: &str, text: &str| {
        let (name, argument) = text.split_once('(').unwrap_or((text, "1)"));
        let argument = argument.trim_end_matches(')').parse().expect("the number of an argument");
        (kind.to_owned(), name.to_lowercase(), argument)
    };
    lines(list)
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(kind, names)| names.split(' ').map(move |name| entry(kind, name)))
        .collect()
}

/// A text of a function of a plugin that may call a function of PHP, and by that reads an element of `$_SERVER`.
pub struct Known {
    pub name: String,
    pub calls: String,
    pub reads: Option<String>,
    pub digest: String,
}

/// A list of lines `name: function function(ELEMENT)`, with lines `@ digest` below each.
pub fn known(list: &str) -> Vec<Known> {
    let (mut name, mut calls, mut found) = ("", "", Vec::new());
    for line in lines(list) {
        if let Some(digest) = line.strip_prefix("@ ") {
            found.extend(calls.split(' ').map(|call| {
                let (call, element) = call.split_once('(').unwrap_or((call, ""));
                let reads =
                    Some(element.trim_end_matches(')').to_owned()).filter(|element| !element.is_empty());
                Known { name: name.to_owned(), calls: call.to_owned(), reads, digest: digest.to_owned() }
            }));
        } else {
            (name, calls) = line.split_once(": ").expect("name: functions");
        }
    }
    found
}

fn lines(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|line| !line.is_empty())
}

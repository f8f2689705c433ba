//! Finds the rules whose path is like a request's: exact paths by hash, those with a star by what stands before it,
//! regular expressions together.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use millrace_wire::glob::Glob;
use regex::bytes::{RegexBuilder, RegexSet, RegexSetBuilder};

use super::CompiledRule;

/// Rules by path.
#[derive(Debug)]
pub struct PathIndex {
    /// Rules for any path.
    any: Vec<u32>,
    exact: HashMap<Box<[u8]>, Vec<u32>>,
    /// In the order of their texts.
    prefixes: Vec<Prefix>,
    regexes: RegexSet,
    /// The rule of each regular expression.
    of_regex: Vec<u32>,
}

/// Rules, each with its pattern; `None`: the prefix is the whole pattern.
type Starred = Vec<(u32, Option<Glob>)>;

/// What stands before the first star of patterns.
#[derive(Debug)]
struct Prefix {
    text: Box<[u8]>,
    /// The longest other prefix that it begins with.
    parent: Option<u32>,
    rules: Starred,
}

/// A regular expression as the settings check it.
pub fn builder(text: &str) -> RegexBuilder {
    let mut builder = RegexBuilder::new(text);
    builder.unicode(false).size_limit(1 << 20);
    builder
}

impl PathIndex {
    /// The index of rules by their position.
    pub fn new(rules: &[CompiledRule]) -> PathIndex {
        let mut index = PathIndex {
            any: Vec::new(),
            exact: HashMap::new(),
            prefixes: Vec::new(),
            regexes: RegexSet::empty(),
            of_regex: Vec::new(),
        };
        let mut regexes = Vec::new();
        let mut starred: BTreeMap<Box<[u8]>, Starred> = BTreeMap::new();
        for (number, rule) in (0..).zip(rules) {
            if let Some(regex) = &rule.regex {
                regexes.push(regex.as_str());
                index.of_regex.push(number);
            } else if rule.paths.is_empty() {
                index.any.push(number);
            }
            for glob in &rule.paths {
                if glob.is_exact() {
                    index.exact.entry(glob.prefix().into()).or_default().push(number);
                } else {
                    let rest = (!glob.is_prefix()).then(|| glob.clone());
                    starred.entry(glob.prefix().into()).or_default().push((number, rest));
                }
            }
        }
        for (text, rules) in starred {
            let parent = index.longest(&text);
            index.prefixes.push(Prefix { text, parent, rules });
        }
        let mut set = RegexSetBuilder::new(regexes);
        let set = set.unicode(false).size_limit(usize::MAX).build();
        index.regexes = set.expect("each has been built alone, within a limit");
        index
    }

    /// The longest prefix that `path` begins with.
    fn longest(&self, path: &[u8]) -> Option<u32> {
        let after = self.prefixes.partition_point(|prefix| *prefix.text <= *path);
        let mut at = u32::try_from(after.checked_sub(1)?).ok();
        while let Some(number) = at {
            let prefix = &self.prefixes[number as usize];
            if path.starts_with(&prefix.text) {
                return at;
            }
            at = prefix.parent;
        }
        None
    }

    /// Appends the rules whose path is like this, in any order.
    pub fn find(&self, path: &[u8], out: &mut Vec<u32>) {
        out.extend(&self.any);
        if let Some(rules) = self.exact.get(path) {
            out.extend(rules);
        }
        let mut at = self.longest(path);
        while let Some(number) = at {
            let prefix = &self.prefixes[number as usize];
            for (rule, glob) in &prefix.rules {
                if glob.as_ref().is_none_or(|glob| glob.matches(path)) {
                    out.push(*rule);
                }
            }
            at = prefix.parent;
        }
        // Most paths match none, and finding that out allocates nothing.
        if !self.of_regex.is_empty() && self.regexes.is_match(path) {
            out.extend(self.regexes.matches(path).iter().map(|number| self.of_regex[number]));
        }
    }
}

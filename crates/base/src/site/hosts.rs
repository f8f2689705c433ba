//! Finds the site of a host name.

use std::collections::HashMap;
use std::sync::Arc;

use super::Site;
use crate::message::host_of;

/// Host names of all sites.
#[derive(Debug, Default)]
pub struct Hosts {
    exact: HashMap<String, usize>,
    /// `example.com` for `*.example.com`; the longest match wins.
    wildcards: HashMap<String, usize>,
    default: usize,
}

impl Hosts {
    /// The names of `sites`; the settings have checked that they are unique.
    pub fn new(sites: &[Arc<Site>]) -> Hosts {
        let mut hosts = Hosts::default();
        for site in sites {
            for name in &site.plan.names {
                match name.strip_prefix("*.") {
                    Some(parent) => hosts.wildcards.insert(parent.to_string(), site.index),
                    None => hosts.exact.insert(name.clone(), site.index),
                };
            }
            if site.plan.default {
                hosts.default = site.index;
            }
        }
        hosts
    }

    /// Index of the site that answers for `authority` (host and port as sent).
    pub fn find(&self, authority: &str) -> usize {
        self.named(authority).unwrap_or(self.default)
    }

    /// The same of a site that has the name.
    pub fn named(&self, authority: &str) -> Option<usize> {
        if self.exact.is_empty() && self.wildcards.is_empty() {
            return None;
        }
        let host = host_of(authority).to_ascii_lowercase();
        if let Some(site) = self.exact.get(&host) {
            return Some(*site);
        }
        let mut parent = host.as_str();
        while let Some((_, rest)) = parent.split_once('.') {
            if let Some(site) = self.wildcards.get(rest) {
                return Some(*site);
            }
            parent = rest;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_without_ports() {
        assert_eq!(host_of("example.com:80"), "example.com");
        assert_eq!(host_of("example.com."), "example.com");
        assert_eq!(host_of("[::1]"), "[::1]");
        assert_eq!(host_of("[::1]:8080"), "[::1]");
    }

    #[test]
    fn exact_before_wildcard_before_default() {
        let mut hosts = Hosts { default: 9, ..Hosts::default() };
        assert_eq!(hosts.find("anything"), 9);
        hosts.exact.insert("a.example.com".into(), 1);
        hosts.wildcards.insert("example.com".into(), 2);
        hosts.wildcards.insert("b.example.com".into(), 3);
        assert_eq!(hosts.find("A.Example.COM:8080"), 1);
        assert_eq!(hosts.find("c.example.com."), 2);
        assert_eq!(hosts.find("x.y.b.example.com"), 3);
        assert_eq!(hosts.find("example.com"), 9);
    }
}

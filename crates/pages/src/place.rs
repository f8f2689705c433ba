//! The place of a page: the parts of a URL as the cache sees them.

use crate::key::write_query;
use crate::rules::Rules;

/// The place of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Name of the site in the configuration.
    pub site: &'a str,
    /// Host, with the port if it was given, as PHP sees it in `HTTP_HOST`.
    pub host: &'a str,
    /// Path, decoded and normalised (`millrace_wire::path::normalise`).
    pub path: &'a [u8],
    /// The part after `?`, as sent.
    pub query: Option<&'a [u8]>,
}

impl Place<'_> {
    /// Appends the query as keys contain it, with its `?`. Returns whether it differs from the request's: arguments
    /// were dropped or sorted.
    pub fn write_query(&self, rules: &Rules, out: &mut Vec<u8>) -> bool {
        self.query.is_some_and(|query| write_query(&rules.dropped_arguments, query, out))
    }
}

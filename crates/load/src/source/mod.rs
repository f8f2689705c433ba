//! Scenario sources: files of several kinds. None of this needs a connection; errors have a line and advice.

pub mod access_log;
pub mod har;
pub mod scenario_file;
pub mod sitemap;
pub mod stages;
pub mod time;
pub mod url_list;

use std::fmt;

/// An error in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1; 0: it is of the file as a whole.
    pub line: usize,
    /// The error.
    pub what: String,
    /// Advice.
    pub cure: String,
}

impl Problem {
    fn new(line: usize, what: impl Into<String>, cure: impl Into<String>) -> Problem {
        Problem { line, what: what.into(), cure: cure.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        write!(f, "{}; {}", self.what, self.cure)
    }
}

/// The line that the byte at `offset` is in, from 1.
fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

/// Text from outside in a message: short, and on one line.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(60).map(|c| if c.is_control() { '?' } else { c }).collect();
    if short.len() < text.len() { format!("`{short}...`") } else { format!("`{short}`") }
}

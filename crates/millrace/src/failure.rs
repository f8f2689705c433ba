//! A command's failure: what is wrong, and what to do next.

use std::fmt;

/// A command's end that is not success. Printed on standard error; the program's exit status is 1.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    what: String,
    details: Vec<String>,
    next: Option<String>,
}

impl Failure {
    /// What is wrong, in one sentence.
    pub fn new(what: impl Into<String>) -> Self {
        Failure { what: what.into(), details: Vec::new(), next: None }
    }

    /// What is wrong.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Adds further information; may have several lines.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    /// Adds advice.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "millrace: {}", self.what)?;
        for detail in &self.details {
            write!(f, "\n  {}", detail.replace('\n', "\n  "))?;
        }
        if let Some(next) = &self.next {
            write!(f, "\n  next: {}", next.replace('\n', "\n        "))?;
        }
        Ok(())
    }
}

/// Attaches a sentence to an I/O error.
pub trait Explain<T> {
    /// Turns the error into a [`Failure`] with the text `what: error`.
    fn or_fail(self, what: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Explain<T> for Result<T, E> {
    fn or_fail(self, what: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(format!("{}: {error}", what())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_details_and_next_step_in_that_order() {
        let failure = Failure::new("it broke").next("mend it\nor not").detail("two\nlines");
        assert_eq!(
            failure.to_string(),
            "millrace: it broke\n  two\n  lines\n  next: mend it\n        or not"
        );
    }
}

//! The files that rules name: redirects, networks, users. They are read at the start and on a reload.

use std::path::Path;
use std::sync::Arc;

use millrace_htaccess::password::Hash;

use super::FileName;
use crate::environment::Environment;
use crate::plan::{ListedRedirect, Peers, Secret};
use crate::problem::{At, Origin, Problem, What, shown};
use crate::table::Kind;
use crate::value::{Raw, Value};

/// Maximum number of problems that are reported for a file.
const MOST_PROBLEMS: usize = 10;

/// Maximum lines of a file.
const MOST_LINES: usize = 1_000_000;

/// Reads files, and reports what is wrong with them.
pub(crate) struct RuleFiles<'a, 'e> {
    pub environment: &'a Environment<'e>,
    /// The text that names them.
    pub origin: &'a Arc<Origin>,
    pub problems: &'a mut Vec<Problem>,
}

impl RuleFiles<'_, '_> {
    /// A network in each line; what follows `#` or `;` is a comment.
    pub fn networks(&mut self, file: &FileName) -> Vec<Peers> {
        let lists = self.lines(file, |text, start| {
            let text = text.split(['#', ';']).next().unwrap_or_default().trim_end();
            if text.is_empty() {
                return Ok(None);
            }
            match Kind::Networks.read(&Raw::bare(text, start..start + text.len()), Path::new("/")) {
                Ok(Value::Networks(networks)) => Ok(Some(networks)),
                Ok(other) => unreachable!("{other:?}"),
                Err(wrongs) => {
                    let wrong = wrongs.into_iter().next().expect("a reason");
                    Err((format!("a network {}", wrong.title), wrong.cure))
                }
            }
        });
        lists.into_iter().flatten().collect()
    }

    /// `from,to` or `from,to,status` in each line; a first line with names of columns is skipped.
    pub fn redirects(&mut self, file: &FileName, status: u16) -> Vec<ListedRedirect> {
        let mut is_first = true;
        self.lines(file, |text, _| {
            let is_names = std::mem::take(&mut is_first) && !text.starts_with(['/', '"']);
            if is_names || text.starts_with('#') {
                return Ok(None);
            }
            redirect(text, status).map(Some)
        })
    }

    /// `user:hash` in each line. What is wrong is told without the line, which has a secret.
    pub fn users(&mut self, file: &FileName) -> Vec<(String, Secret)> {
        let Some(text) = self.text(file) else { return Vec::new() };
        let mut users = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (user, rest) = line.split_once(':').unwrap_or(("", line));
            let hash = rest.split(':').next().unwrap_or_default();
            let wrong = match Hash::new(hash) {
                _ if user.is_empty() => Some("write the user again with `htpasswd -B FILE USER`".to_owned()),
                Ok(_) => None,
                Err(why) => Some(why),
            };
            if let Some(cure) = wrong {
                let title = format!("{}:{}: not a user and a password hash", file.0.display(), number + 1);
                let problem = Problem::error(What::Malformed, title, cure);
                self.problems.push(problem.at(Some(&self.at(file)), "named here"));
                continue;
            }
            users.push((user.to_owned(), Secret(hash.to_owned())));
        }
        if users.is_empty() && !text.lines().any(|line| line.contains(':')) {
            let title = format!("{} has no user", file.0.display());
            let cure = "add one with `htpasswd -B FILE USER`";
            let problem = Problem::error(What::Missing, title, cure);
            self.problems.push(problem.at(Some(&self.at(file)), "no one could log in"));
        }
        users
    }

    fn at(&self, file: &FileName) -> At {
        At::new(self.origin, file.1.clone())
    }

    fn text(&mut self, file: &FileName) -> Option<String> {
        match self.environment.disk.read_list(&file.0) {
            Ok(text) => Some(text),
            Err(error) => {
                let title = format!("cannot read {}: {error}", file.0.display());
                let cure = "correct the path, or let the user that starts Millrace read the file";
                let problem = Problem::error(What::NotFound, title, cure);
                self.problems.push(problem.at(Some(&self.at(file)), "named here"));
                None
            }
        }
    }

    /// The values of a file's lines that are not empty. `read` gets a line, and where it begins.
    fn lines<T>(
        &mut self,
        file: &FileName,
        mut read: impl FnMut(&str, usize) -> Result<Option<T>, (String, String)>,
    ) -> Vec<T> {
        let Some(text) = self.text(file) else { return Vec::new() };
        let origin = Origin::file(&file.0, &file.0, text);
        let (mut values, mut wrong, mut start) = (Vec::new(), 0, 0);
        for (number, whole) in origin.text.split_inclusive('\n').enumerate() {
            let line = whole.trim();
            let begin = start + (whole.len() - whole.trim_start().len());
            start += whole.len();
            let result = match number {
                MOST_LINES.. => Err(("the file has too many lines".to_owned(), format!("keep {MOST_LINES}"))),
                _ if line.is_empty() => continue,
                _ => read(line, begin),
            };
            match result {
                Ok(value) => values.extend(value),
                Err((title, cure)) => {
                    wrong += 1;
                    let at = At::new(&origin, begin..begin + line.len());
                    let problem = Problem::error(What::Malformed, title, cure);
                    self.problems.push(problem.at(Some(&at), "").at(Some(&self.at(file)), "the file"));
                    if wrong == MOST_PROBLEMS || number >= MOST_LINES {
                        break;
                    }
                }
            }
        }
        values
    }
}

/// A line of a file of redirects: the redirect, or what is wrong and what to do.
fn redirect(line: &str, status: u16) -> Result<ListedRedirect, (String, String)> {
    let cure = || "write `/old,/new` or `/old,https://example.com/new,302`".to_owned();
    let columns = columns(line).ok_or_else(|| ("a quote has no end".to_owned(), cure()))?;
    let (from, to, status) = match &columns[..] {
        [from, to] => (from, to, status),
        [from, to, written] => match written.parse() {
            Ok(status @ (301 | 302 | 303 | 307 | 308)) => (from, to, status),
            _ => {
                let title = format!("\"{}\" is not the status of a redirect", shown(written));
                return Err((title, "write 301, 302, 303, 307 or 308".to_owned()));
            }
        },
        _ => return Err((format!("a redirect has 2 or 3 columns, this line has {}", columns.len()), cure())),
    };
    if !from.starts_with('/') || from.contains(['?', '#', '%', '*']) {
        let title = format!("a redirect cannot start from \"{}\"", shown(from));
        return Err((title, "write a decoded path that starts with /, without a query or *".to_owned()));
    }
    let is_path = to.starts_with('/') && !to.starts_with("//");
    if !is_path && !to.starts_with("https://") && !to.starts_with("http://")
        || to.contains(|c: char| c.is_whitespace() || c.is_control())
    {
        return Err((format!("a redirect cannot lead to \"{}\"", shown(to)), cure()));
    }
    if from == to {
        return Err((
            format!("{} is redirected to itself", shown(from)),
            "remove the line, or write another target".to_owned(),
        ));
    }
    Ok(ListedRedirect { from: from.clone(), to: to.clone(), status })
}

/// The columns of a line of comma-separated values (RFC 4180). `None`: a quote has no end.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut columns = Vec::new();
    let mut rest = line;
    loop {
        let column;
        if let Some(quoted) = rest.trim_start().strip_prefix('"') {
            let mut text = String::new();
            let mut left = quoted;
            loop {
                let (part, after) = left.split_once('"')?;
                text.push_str(part);
                match after.strip_prefix('"') {
                    Some(more) => {
                        text.push('"');
                        left = more;
                    }
                    None => {
                        left = after;
                        break;
                    }
                }
            }
            column = text;
            rest = left;
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            column = rest[..end].trim().to_owned();
            rest = &rest[end..];
        }
        columns.push(column);
        match rest.trim_start().strip_prefix(',') {
            Some(more) => rest = more,
            None if rest.trim().is_empty() => return Some(columns),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_with_and_without_quotes() {
        assert_eq!(columns("/a, /b").unwrap(), ["/a", "/b"]);
        assert_eq!(columns("\"/a,b\",\"/c\"\"d\",301").unwrap(), ["/a,b", "/c\"d", "301"]);
        assert!(columns("\"/a,/b").is_none() && columns("\"/a\"b,/c").is_none());
    }
}

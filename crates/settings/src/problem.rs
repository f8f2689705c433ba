//! Problems of a configuration: what is wrong, where, the valid bounds, and how to fix it. They are collected;
//! [`Problems`] draws all of them the way rustc draws its own.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// Source of settings: a file, or an argument of the command line.
#[derive(Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its name in messages: the path of a file, or `command line`.
    pub name: String,
    /// The whole text, as written.
    pub text: String,
    /// Where relative paths in it start.
    pub base: PathBuf,
}

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At {
    /// The text.
    pub origin: Arc<Origin>,
    /// Bytes of it.
    pub span: Range<usize>,
}

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration is not used.
    Error,
    /// It is used, but probably isn't what the user meant.
    Warning,
}

/// Kind of a problem, for tests and tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// Not TOML.
    Syntax,
    /// No such setting.
    UnknownKey,
    /// The setting exists, but not here.
    Misplaced,
    /// A value of another type, like a number instead of a string.
    WrongType,
    /// The right type, but not valid for the setting.
    Malformed,
    /// Outside the bounds.
    OutOfBounds,
    /// Set twice.
    Duplicate,
    /// A required setting is missing.
    Missing,
    /// Names a file, directory or site that doesn't exist, or has the wrong type.
    NotFound,
    /// Two settings contradict each other.
    Conflict,
    /// Works, but is dangerous.
    Risky,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its severity.
    pub severity: Severity,
    /// Its kind.
    pub what: What,
    /// What is wrong, one line.
    pub title: String,
    /// Where, the main place first, each with a label. Empty if nothing was written.
    pub places: Vec<(At, String)>,
    /// Bounds and background.
    pub notes: Vec<String>,
    /// What to do next.
    pub cure: String,
}

/// All problems of a configuration, to be drawn together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problem {
    /// An error without a place yet.
    pub(crate) fn error(what: What, title: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            what,
            title: title.into(),
            places: Vec::new(),
            notes: Vec::new(),
            cure: cure.into(),
        }
    }

    /// A warning without a place yet.
    pub(crate) fn warning(what: What, title: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(what, title, cure) }
    }

    /// Adds a place, if there is one, with its label.
    pub(crate) fn at(mut self, at: Option<&At>, label: impl Into<String>) -> Self {
        self.places.extend(at.map(|at| (at.clone(), label.into())));
        self
    }

    /// The order in a report: problems by their place in the file, then those without a place, then the command line.
    pub(crate) fn order(&self) -> (u8, usize) {
        match self.places.first() {
            Some((at, _)) if at.origin.is_argument() => (2, 0),
            Some((at, _)) => (0, at.span.start),
            None => (1, 0),
        }
    }

    /// Adds bounds or background.
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Draws the problem with the lines that it concerns.
    #[must_use]
    pub fn draw(&self, colour: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = level.primary_title(&*self.title).elements(self.snippets());
        for note in &self.notes {
            group = group.element(Level::NOTE.message(&**note));
        }
        group = group.element(Level::HELP.message(&*self.cure));
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }

    /// One snippet a text, in the order of the places.
    fn snippets(&self) -> Vec<Snippet<'_, annotate_snippets::Annotation<'_>>> {
        let mut origins: Vec<&Origin> = Vec::new();
        for (at, _) in &self.places {
            if !origins.contains(&&*at.origin) {
                origins.push(&at.origin);
            }
        }
        origins.into_iter().map(|origin| self.snippet(origin)).collect()
    }

    /// The lines of `origin` that the problem concerns.
    fn snippet<'a>(&'a self, origin: &'a Origin) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let snippet = Snippet::source(crate::secrets::masked(&origin.text))
            .path(&*origin.name)
            .line_numbering(!origin.is_argument());
        let places = self.places.iter().enumerate().filter(|(_, (at, _))| *at.origin == *origin);
        snippet.annotations(places.map(|(number, (at, label))| {
            let kind = if number == 0 { AnnotationKind::Primary } else { AnnotationKind::Context };
            kind.span(at.drawable()).label(Some(&**label).filter(|label| !label.is_empty()))
        }))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.draw(false))
    }
}

impl Problems {
    /// Draws all problems and a last line that counts them.
    #[must_use]
    pub fn draw(&self, colour: bool) -> String {
        let mut text = String::new();
        for problem in &self.0 {
            text.push_str(&problem.draw(colour));
            text.push_str("\n\n");
        }
        let errors = self.0.iter().filter(|problem| problem.severity == Severity::Error).count();
        let counts = [counted(errors, "error"), counted(self.0.len() - errors, "warning")];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        text.push_str("the configuration has ");
        text.push_str(if counts.is_empty() { "no problem" } else { "" });
        text + &counts.join(" and ")
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.draw(false))
    }
}

impl std::error::Error for Problems {}

impl Origin {
    /// The name of arguments of the command line.
    const ARGUMENT: &str = "command line";

    /// The text of the file at `path`; messages call it `name`.
    pub(crate) fn file(path: &Path, name: &Path, text: String) -> Arc<Self> {
        let base = path.parent().unwrap_or(Path::new("/")).to_owned();
        Arc::new(Self { name: name.display().to_string(), text, base })
    }

    /// An argument, with the option before it: `--set http.keep_alive=5s`.
    pub(crate) fn argument(text: String, current_dir: &Path) -> Arc<Self> {
        Arc::new(Self { name: Self::ARGUMENT.to_owned(), text, base: current_dir.to_owned() })
    }

    /// Whether this is an argument of the command line.
    pub(crate) fn is_argument(&self) -> bool {
        self.name == Self::ARGUMENT
    }
}

impl At {
    /// A place in `origin`.
    pub(crate) fn new(origin: &Arc<Origin>, span: impl Into<Range<usize>>) -> Self {
        Self { origin: Arc::clone(origin), span: span.into() }
    }

    /// The span, moved onto character boundaries of the text, and ending with its first line.
    fn drawable(&self) -> Range<usize> {
        let text = &self.origin.text;
        let floor = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (floor(self.span.start), floor(self.span.end));
        let end = end.max(start);
        let line = text[start..end].find('\n').map_or(end, |length| start + length);
        start..line
    }
}

/// A text of the user in a message: control characters escaped, long texts cut.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut shown: String = text.chars().take(MOST).flat_map(char::escape_debug).collect();
    if text.chars().nth(MOST).is_some() {
        shown.push_str("...");
    }
    shown.replace("\\\"", "\"").replace("\\'", "'")
}

/// `1 error`, `2 errors`, nothing for none.
fn counted(number: usize, thing: &str) -> Option<String> {
    (number > 0).then(|| format!("{number} {thing}{}", if number == 1 { "" } else { "s" }))
}

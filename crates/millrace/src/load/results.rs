//! The outputs of `millrace load`: the live screen, the table, the files; and comparisons of earlier runs.

use std::io::{self, Stderr};
use std::path::Path;

use millrace_load::output::document::{Document, Method};
use millrace_load::output::files::{Files, replace};
use millrace_load::output::html;
use millrace_load::output::screen::{Screen, Style};
use millrace_load::output::table;
use millrace_load::record::Run;

use super::args::OutputArgs;
use super::sources::read;
use crate::failure::{Explain, Failure};

/// Shows a run's progress, and stores the results so far.
pub struct Results {
    files: Files,
    screen: Screen<Stderr>,
    quiet: bool,
    /// Number of stages that have been written.
    written: usize,
    /// Of each stage: what the doctor and the tuner have to do with it.
    pub methods: Vec<Method>,
}

impl Results {
    /// As the command line selects them.
    ///
    /// # Errors
    /// The results can't be stored: better reported before the run than after it.
    pub fn new(args: &OutputArgs) -> Result<Results, Failure> {
        let files = Files { json: args.json.clone(), csv: args.csv.clone(), report: args.report.clone() };
        let style = if args.quiet { Style::Quiet } else { Style::fitting() };
        files.check().or_fail(|| "cannot write results".to_owned())?;
        Ok(Results {
            files,
            screen: Screen::new(io::stderr(), style),
            quiet: args.quiet,
            written: 0,
            methods: Vec::new(),
        })
    }

    /// A second has passed. Files are written after each stage, so that even a tester that is killed leaves something.
    pub fn second(&mut self, run: &Run) {
        self.screen.show(run);
        let through = run.stages.len().saturating_sub(1);
        if through > self.written {
            self.written = through;
            self.store(run);
        }
    }

    /// Shows a run that is one round of several.
    pub fn show(&mut self, run: &Run) {
        self.screen.show(run);
    }

    /// Such a run is over, `all` has its round, too. A line of it stays on the screen.
    pub fn round(&mut self, all: &Run, line: &str) {
        self.screen.end();
        let style = if self.quiet { Style::Quiet } else { Style::fitting() };
        self.screen = Screen::new(io::stderr(), style);
        if !self.quiet {
            eprintln!("{line}");
        }
        self.store(all);
    }

    fn store(&self, run: &Run) {
        if let Err(error) = self.files.write(&self.document(run), false) {
            eprintln!("millrace: cannot write results: {error}");
        }
    }

    fn document(&self, run: &Run) -> Document {
        let mut document = Document::of(run);
        for (stage, method) in document.stages.iter_mut().zip(&self.methods) {
            stage.method = method.clone();
        }
        document
    }

    /// The run is over.
    pub fn end(mut self, run: &Run) -> Result<(), Failure> {
        self.screen.end();
        let document = self.document(run);
        // Standard output is for one output: the table, or the one that was directed there.
        let is_taken = [&self.files.json, &self.files.csv, &self.files.report]
            .iter()
            .any(|path| path.as_ref().is_some_and(|path| path.as_os_str() == "-"));
        if is_taken || self.quiet {
            eprint!("{}", if self.quiet { String::new() } else { table::table(&document) });
        } else {
            print!("{}", table::table(&document));
        }
        self.files.write(&document, true).or_fail(|| "cannot write results".to_owned())
    }
}

/// Makes a report of one earlier run, or of two side by side.
pub fn compare(args: &OutputArgs) -> Result<(), Failure> {
    let documents = args.compare.iter().map(|path| document(path)).collect::<Result<Vec<_>, _>>()?;
    let name = |index: usize| args.name.get(index).map_or("", String::as_str);
    let page = match documents.as_slice() {
        [one] => html::report(one),
        [a, b] => html::comparison((a, name(0)), (b, name(1))),
        _ => {
            return Err(Failure::new("a report shows one or two runs")
                .next("--compare A.json B.json --report FILE.html"));
        }
    };
    match &args.report {
        Some(path) if path.as_os_str() != "-" => {
            if let [a, b] = documents.as_slice() {
                print!("{}", table::comparison((a, name(0)), (b, name(1))));
            }
            replace(path, &page).or_fail(|| "cannot write the report".to_owned())
        }
        _ => {
            print!("{page}");
            Ok(())
        }
    }
}

fn document(path: &Path) -> Result<Document, Failure> {
    Document::from_json(&read(path)?).map_err(|error| {
        Failure::new(format!("cannot use {}: {error}", path.display())).next("give files written by --json")
    })
}

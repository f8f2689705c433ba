//! Apache's syntax, by the crate that reads `.htaccess` files: includes, conditions, `Define`.

use std::path::Path;
use std::sync::Arc;

use millrace_htaccess::{lines, modules};

use crate::files::{DEEPEST_INCLUDE, Files, found};
use crate::value::{Notes, Place, Source};

/// A directive, or a section with its items.
#[derive(Clone, Debug)]
pub struct Item {
    /// In lower case.
    pub name: String,
    /// The rest of the line as written, for directives with a syntax of their own.
    pub rest: String,
    pub args: Vec<String>,
    pub inner: Option<Vec<Item>>,
    pub source: Source,
}

impl Item {
    /// An argument; empty if it is missing.
    pub fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    pub fn is_section(&self) -> bool {
        self.inner.is_some()
    }

    /// The items of a section.
    pub fn items(&self) -> &[Item] {
        self.inner.as_deref().unwrap_or_default()
    }

    /// With what is in it, in one line.
    pub fn whole(&self) -> Source {
        let mut source = self.source.clone();
        if let Some(inner) = &self.inner {
            let inner: String = inner.iter().map(|item| format!("{}; ", item.whole().text)).collect();
            source.text = format!("{} {{ {inner}}}", source.text);
        }
        source
    }
}

/// Values that Debian's service sets.
const DEBIAN: &[(&str, &str)] = &[
    ("APACHE_LOG_DIR", "/var/log/apache2"),
    ("APACHE_RUN_USER", "www-data"),
    ("APACHE_RUN_GROUP", "www-data"),
    ("APACHE_RUN_DIR", "/var/run/apache2"),
    ("APACHE_LOCK_DIR", "/var/lock/apache2"),
    ("APACHE_PID_FILE", "/var/run/apache2/apache2.pid"),
];

/// Reads the file and those that it includes.
///
/// # Errors
/// The file can't be read, or is no configuration.
pub fn read(path: &Path, files: &dyn Files, notes: &mut Notes) -> Result<Vec<Item>, String> {
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    let defined = DEBIAN.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ItemReader { files, base: &base, defined, notes }.file(path, 0)
}

struct ItemReader<'a> {
    files: &'a dyn Files,
    base: &'a Path,
    defined: Vec<(String, String)>,
    notes: &'a mut Notes,
}

impl ItemReader<'_> {
    fn file(&mut self, path: &Path, depth: usize) -> Result<Vec<Item>, String> {
        let text =
            self.files.read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let items = lines::read(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let file: Arc<str> = path.to_string_lossy().into();
        self.items(items, &file, depth)
    }

    fn items(&mut self, items: Vec<lines::Item>, file: &Arc<str>, depth: usize) -> Result<Vec<Item>, String> {
        let mut all = Vec::new();
        for item in items {
            let (line, inner) = match item {
                lines::Item::Directive(line) => (line, None),
                lines::Item::Section(line, inner) => (line, Some(inner)),
            };
            let rest = self.expand(&line.rest);
            let place = Place { file: file.clone(), line: line.number };
            let text = if inner.is_some() {
                format!("<{} {rest}>", line.name)
            } else {
                format!("{} {rest}", line.name)
            };
            let source = Source { place, text: text.trim().to_owned() };
            let args = lines::words(&rest);
            match (line.name.as_str(), inner) {
                ("include" | "includeoptional", None) => {
                    all.extend(self.include(&line.name, &args, &source, depth)?)
                }
                ("define", None) => {
                    self.defined.push((
                        args.first().cloned().unwrap_or_default(),
                        args.get(1).cloned().unwrap_or_default(),
                    ));
                    self.notes.carried(&source);
                }
                (name, Some(inner)) if modules::is_condition(name) => {
                    if self.holds(name, &args) {
                        self.notes.carried(&source);
                        all.extend(self.items(inner, file, depth)?);
                    } else {
                        let text = format!("{} {{ {}}}", source.text, written(&inner));
                        self.notes.needless(&Source { text, ..source }, "the condition does not hold here");
                    }
                }
                (_, inner) => {
                    let inner = inner.map(|inner| self.items(inner, file, depth)).transpose()?;
                    all.push(Item { name: line.name, rest, args, inner, source });
                }
            }
        }
        Ok(all)
    }

    /// A configuration is for the modules that its server has: all of them.
    fn holds(&self, section: &str, args: &[String]) -> bool {
        let name = args.first().map_or("", String::as_str);
        match section {
            "ifmodule" => !name.starts_with('!'),
            "ifdefine" => {
                let is_defined = self.defined.iter().any(|(known, _)| known == name.trim_start_matches('!'));
                is_defined != name.starts_with('!')
            }
            _ => modules::holds(section, args).unwrap_or(true),
        }
    }

    fn include(
        &mut self,
        name: &str,
        args: &[String],
        source: &Source,
        depth: usize,
    ) -> Result<Vec<Item>, String> {
        let pattern = args.first().map_or("", String::as_str);
        if pattern.contains("options-ssl-apache")
            || pattern.contains("mods-enabled")
            || pattern.contains("php") && pattern.contains("mods")
        {
            self.notes.needless(source, "Millrace has no modules, and TLS 1.2 and 1.3 with secure ciphers");
            return Ok(Vec::new());
        }
        if depth >= DEEPEST_INCLUDE {
            return Err(format!("{}: includes nested more than {DEEPEST_INCLUDE} deep", source.place));
        }
        let files = found(self.files, self.base, pattern);
        if files.is_empty() && name == "include" && !pattern.contains('*') {
            self.notes
                .lost(source, "there is no such file: adopt the configuration on the machine that has it");
            return Ok(Vec::new());
        }
        self.notes.carried(source);
        let mut all = Vec::new();
        for path in files {
            all.extend(self.file(&path, depth + 1)?);
        }
        Ok(all)
    }

    /// Replaces `${NAME}`.
    fn expand(&self, text: &str) -> String {
        self.defined
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
    }
}

/// Items as they are written, in one line.
fn written(items: &[lines::Item]) -> String {
    let text = |item: &lines::Item| match item {
        lines::Item::Directive(line) => format!("{} {}; ", line.name, line.rest),
        lines::Item::Section(line, inner) => format!("{} {} {{ {}}} ", line.name, line.rest, written(inner)),
    };
    items.iter().map(text).collect()
}

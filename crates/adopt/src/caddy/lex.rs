//! The syntax of a Caddyfile: lines of words, blocks, snippets, imports, environment variables (`caddyfile/lexer.go`).

use std::path::Path;
use std::sync::Arc;

use crate::files::{DEEPEST_INCLUDE, Files, found};
use crate::value::{Notes, Place, Source};

/// A line with its block.
#[derive(Clone, Debug)]
pub struct CaddyLine {
    pub words: Vec<String>,
    pub block: Vec<CaddyLine>,
    pub source: Source,
}

impl CaddyLine {
    /// A word; empty if it is missing.
    pub fn word(&self, index: usize) -> &str {
        self.words.get(index).map_or("", String::as_str)
    }

    /// With its block, in one line.
    pub fn whole(&self) -> Source {
        let mut source = self.source.clone();
        if !self.block.is_empty() {
            let inner: String = self.block.iter().map(|node| format!("{}; ", node.whole().text)).collect();
            source.text = format!("{} {{ {inner}}}", source.text);
        }
        source
    }
}

/// Reads the file; snippets and imports are put in their places.
///
/// # Errors
/// The file can't be read, or is no Caddyfile.
pub fn read(path: &Path, files: &dyn Files, notes: &mut Notes) -> Result<Vec<CaddyLine>, String> {
    let base = path.parent().unwrap_or(Path::new("")).to_owned();
    let mut nodes = parse(path, files, notes)?;
    // A file of one site needs no braces: the first line is its address.
    if nodes.iter().all(|node| node.block.is_empty()) || is_single(&nodes) {
        let mut all = nodes.into_iter();
        let Some(mut first) = all.next() else { return Err(format!("{} is empty", path.display())) };
        first.block = all.collect();
        nodes = vec![first];
    }
    let mut reader = Imports { files, base: &base, snippets: Vec::new(), notes };
    let mut sites = Vec::new();
    for node in nodes {
        match node.word(0).strip_prefix('(').and_then(|name| name.strip_suffix(')')) {
            Some(name) => {
                reader.notes.carried(&node.source);
                let name = name.to_owned();
                reader.snippets.push((name, node.block));
            }
            None => sites.push(node),
        }
    }
    reader.imported(sites, 0)
}

/// Whether the file is one site without braces: its first line has no block, and directives follow.
fn is_single(nodes: &[CaddyLine]) -> bool {
    let is_import = |node: &CaddyLine| node.word(0) == "import";
    nodes.first().is_some_and(|first| first.block.is_empty() && !first.words.is_empty() && !is_import(first))
}

struct Imports<'a> {
    files: &'a dyn Files,
    base: &'a Path,
    snippets: Vec<(String, Vec<CaddyLine>)>,
    notes: &'a mut Notes,
}

impl Imports<'_> {
    fn imported(&mut self, nodes: Vec<CaddyLine>, depth: usize) -> Result<Vec<CaddyLine>, String> {
        let mut all = Vec::new();
        for mut node in nodes {
            if node.word(0) != "import" {
                node.block = self.imported(std::mem::take(&mut node.block), depth)?;
                all.push(node);
                continue;
            }
            if depth >= DEEPEST_INCLUDE {
                return Err(format!(
                    "{}: imports nested more than {DEEPEST_INCLUDE} deep",
                    node.source.place
                ));
            }
            let name = node.word(1).to_owned();
            let snippet =
                self.snippets.iter().find(|(known, _)| *known == name).map(|(_, block)| block.clone());
            let files = if snippet.is_none() { found(self.files, self.base, &name) } else { Vec::new() };
            if snippet.is_none() && files.is_empty() && !name.contains('*') {
                self.notes.lost(
                    &node.source,
                    "there is no such snippet or file: adopt the configuration on the machine that has it",
                );
                continue;
            }
            self.notes.carried(&node.source);
            let mut inner = snippet.unwrap_or_default();
            for path in files {
                inner.extend(parse(&path, self.files, self.notes)?);
            }
            with_arguments(&mut inner, &node.words[2..]);
            all.extend(self.imported(inner, depth + 1)?);
        }
        Ok(all)
    }
}

/// Replaces `{args[0]}` and `{args.0}`.
fn with_arguments(nodes: &mut [CaddyLine], arguments: &[String]) {
    for node in nodes {
        for (number, argument) in arguments.iter().enumerate() {
            for word in node.words.iter_mut().chain([&mut node.source.text]) {
                *word = word
                    .replace(&format!("{{args[{number}]}}"), argument)
                    .replace(&format!("{{args.{number}}}"), argument);
            }
        }
        with_arguments(&mut node.block, arguments);
    }
}

fn parse(path: &Path, files: &dyn Files, notes: &mut Notes) -> Result<Vec<CaddyLine>, String> {
    let text = files.read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let file: Arc<str> = path.to_string_lossy().into();
    let text = with_variables(&text, &file, notes);
    let mut open: Vec<(CaddyLine, Vec<CaddyLine>)> = Vec::new();
    let mut nodes: Vec<CaddyLine> = Vec::new();
    for (number, mut words) in lines(&text) {
        let place = Place { file: file.clone(), line: number };
        if words == ["}"] {
            let Some((mut node, outer)) = open.pop() else {
                return Err(format!("{place}: a closing brace too many"));
            };
            node.block = std::mem::replace(&mut nodes, outer);
            nodes.push(node);
            continue;
        }
        let opens = words.last().is_some_and(|last| last == "{");
        if opens {
            words.pop();
        }
        // `a.example, b.example` may go on in the next line.
        let continues = open.is_empty()
            && nodes.last().is_some_and(|last| {
                last.block.is_empty() && last.words.last().is_some_and(|word| word.ends_with(','))
            });
        let mut node =
            CaddyLine { source: Source { place, text: words.join(" ") }, words, block: Vec::new() };
        if continues && let Some(last) = nodes.pop() {
            node.words.splice(0..0, last.words);
            node.source.text = format!("{} {}", last.source.text, node.source.text);
        }
        if opens && node.words.is_empty() && !open.is_empty() {
            return Err(format!("{}: a block without a name", node.source.place));
        }
        if opens {
            if open.len() > 32 {
                return Err(format!("{}: blocks nested more than 32 deep", node.source.place));
            }
            open.push((node, std::mem::take(&mut nodes)));
        } else {
            nodes.push(node);
        }
    }
    match open.pop() {
        Some((node, _)) => Err(format!("{}: the block is not closed", node.source.place)),
        None => Ok(nodes),
    }
}

/// Puts defaults in the place of environment variables, as Caddy does before it reads anything else (`{$NAME:default}`). A variable
/// alone on its line stands for whole directives, or for nothing if it is not set.
fn with_variables(text: &str, file: &Arc<str>, notes: &mut Notes) -> String {
    let mut all = String::with_capacity(text.len());
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        let is_comment = line.trim_start().starts_with('#');
        if is_comment || !line.contains("{$") {
            all.push_str(line);
            continue;
        }
        let source =
            Source { place: Place { file: file.clone(), line: number }, text: line.trim().to_owned() };
        if is_lone_variable(line.trim()) {
            let why = "Caddy puts the text of this environment variable here: if it is set, adopt the file with that text";
            notes.lost(&source, why);
            all.push('\n');
            continue;
        }
        let (replaced, defaults) = with_defaults(line);
        for (name, default) in defaults {
            let why =
                format!("the default of {name} is taken: write another value if the variable is set to one");
            notes.lost(&Source { text: format!("{{${name}:{default}}}"), ..source.clone() }, why);
        }
        all.push_str(&replaced);
    }
    all
}

/// Whether a line consists of a variable without a default.
fn is_lone_variable(line: &str) -> bool {
    let name = line.strip_prefix("{$").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.contains(['{', '}', ':', ' ']))
}

/// A line with the defaults of its variables, and these with their names.
fn with_defaults(line: &str) -> (String, Vec<(&str, &str)>) {
    let (mut replaced, mut defaults, mut rest) = (String::new(), Vec::new(), line);
    while let Some((before, after)) = rest.split_once("{$") {
        let Some((inner, behind)) = after.split_once('}') else { break };
        replaced.push_str(before);
        match inner.split_once(':') {
            Some((name, default)) => {
                replaced.push_str(default);
                defaults.push((name, default));
            }
            None => replaced.push_str(&format!("{{${inner}}}")),
        }
        rest = behind;
    }
    replaced.push_str(rest);
    (replaced, defaults)
}

/// Lines as words, with their numbers; a backslash at the end of a line joins it with the next.
fn lines(text: &str) -> Vec<(u32, Vec<String>)> {
    let (mut lines, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let (mut line, mut begun) = (1, 1);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' | '`' if word.is_none() => {
                begun = if words.is_empty() { line } else { begun };
                let mut quoted = String::new();
                while let Some(c2) = chars.next() {
                    line += u32::from(c2 == '\n');
                    match c2 {
                        '\\' if c == '"' && chars.peek() == Some(&'"') => quoted.extend(chars.next()),
                        c2 if c2 == c => break,
                        c2 => quoted.push(c2),
                    }
                }
                words.push(quoted);
            }
            '#' if word.is_none() => {
                while chars.peek().is_some_and(|c| *c != '\n') {
                    chars.next();
                }
            }
            '\\' if word.is_none() && matches!(chars.peek(), Some('\n' | '\r')) => {
                while matches!(chars.peek(), Some('\n' | '\r')) {
                    line += u32::from(chars.next() == Some('\n'));
                }
            }
            c if c.is_whitespace() => {
                words.extend(word.take());
                if c == '\n' {
                    if !words.is_empty() {
                        lines.push((begun, std::mem::take(&mut words)));
                    }
                    line += 1;
                }
            }
            c => {
                if word.is_none() && words.is_empty() {
                    begun = line;
                }
                word.get_or_insert_default().push(c);
            }
        }
    }
    words.extend(word);
    if !words.is_empty() {
        lines.push((begun, words));
    }
    lines
}

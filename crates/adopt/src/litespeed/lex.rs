//! The syntax of OpenLiteSpeed: names and values, blocks, and values of several lines.

use std::path::Path;
use std::sync::Arc;

use crate::files::Files;
use crate::value::{Place, Source};

/// A name with its value, or a block.
#[derive(Clone, Debug)]
pub struct Entry {
    /// In lower case.
    pub name: String,
    pub value: String,
    pub inner: Vec<Entry>,
    pub source: Source,
}

impl Entry {
    pub fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// A value of its block; empty if it is missing.
    pub fn get(&self, name: &str) -> &str {
        self.inner.iter().find(|inner| inner.is(name)).map_or("", |inner| inner.value.as_str())
    }

    /// With its block, in one line.
    pub fn whole(&self) -> Source {
        let mut source = self.source.clone();
        if !self.inner.is_empty() {
            let inner: String = self.inner.iter().map(|node| format!("{}; ", node.whole().text)).collect();
            source.text = format!("{} {{ {inner}}}", source.text);
        }
        source
    }
}

/// Reads a file.
///
/// # Errors
/// It can't be read, or a block is not closed.
pub fn read(path: &Path, files: &dyn Files) -> Result<Vec<Entry>, String> {
    let text = files.read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let file: Arc<str> = path.to_string_lossy().into();
    let mut open: Vec<(Entry, Vec<Entry>)> = Vec::new();
    let mut nodes = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        let line = line.trim();
        let place = Place { file: file.clone(), line: number };
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "}" {
            let Some((mut node, outer)) = open.pop() else {
                return Err(format!("{place}: a closing brace too many"));
            };
            node.inner = std::mem::replace(&mut nodes, outer);
            nodes.push(node);
            continue;
        }
        let (body, opens) = line.strip_suffix('{').map_or((line, false), |body| (body.trim_end(), true));
        let (name, value) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
        let (name, mut value) = (name.to_ascii_lowercase(), value.trim().to_owned());
        let source = Source { place, text: format!("{name} {value}").trim().to_owned() };
        if let Some(end) = value.strip_prefix("<<<").map(str::to_owned) {
            value = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| line.trim() != end)
                .collect::<Vec<_>>()
                .join("\n");
        }
        let node = Entry { name, value, inner: Vec::new(), source };
        match opens {
            true if open.len() > 16 => {
                return Err(format!("{}: blocks nested more than 16 deep", node.source.place));
            }
            true => open.push((node, std::mem::take(&mut nodes))),
            false => nodes.push(node),
        }
    }
    match open.pop() {
        Some((node, _)) => Err(format!("{}: the block is not closed", node.source.place)),
        None => Ok(nodes),
    }
}

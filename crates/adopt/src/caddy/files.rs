//! `root` and `file_server`: folders and their files.

use super::conditions;
use super::flow::CaddyScope;
use super::lex::CaddyLine;
use super::site::Converter;
use crate::value::{Block, ONE_FOLDER, Php, Toml, When};

impl Converter<'_> {
    /// `root`: of the site, or of some requests.
    pub fn root(&mut self, node: &CaddyLine, when: &When, args: &[String]) {
        let folder = args.first().cloned().unwrap_or_default();
        match () {
            () if folder.contains('{') => self.site.notes.lost(&node.source, ONE_FOLDER),
            () if is_rest(when) && self.site.root.as_ref().is_none_or(|known| *known == folder) => {
                self.site.root = Some(folder);
                self.site.notes.carried(&node.source);
            }
            () if self.site.root.as_ref() == Some(&folder) => self.site.notes.carried(&node.source),
            () => {
                let keys = when.iter().cloned().chain([("root", folder.into())]).collect();
                self.folders.push(Block { source: node.source.clone(), keys, caveat: self.without_php() });
                self.site.notes.carried(&node.source);
            }
        }
    }

    fn without_php(&self) -> Option<String> {
        (self.site.php != Php::Off).then(|| "no PHP runs there".to_owned())
    }

    /// The files of a block's own folder, or behind a prefix, need a rule.
    pub fn file_server(&mut self, node: &CaddyLine, when: &When, scope: &CaddyScope) {
        self.site.notes.carried(&node.source);
        self.file_options(node, when);
        let folder = scope.folder.clone().or_else(|| self.site.root.clone());
        let is_own = folder != self.site.root;
        match folder {
            Some(folder) if !scope.prefix.is_empty() => self.alias(node, when, scope, folder),
            Some(folder) if is_own => {
                let keys = when.iter().cloned().chain([("root", folder.into())]).collect();
                self.actions.push(Block { source: node.source.clone(), keys, caveat: self.without_php() });
            }
            _ => {
                self.serves_files |= is_rest(when);
                self.files.push((node.source.clone(), when.clone()));
            }
        }
    }

    /// Files whose path does not have the prefix.
    fn alias(&mut self, node: &CaddyLine, when: &When, scope: &CaddyScope, folder: String) {
        let paths = conditions::of(when, "path").unwrap_or_default();
        if paths != [format!("{}/*", scope.prefix)] {
            return self
                .site
                .notes
                .lost(&node.source, format!("`alias` of a rule is for all paths below one: {ONE_FOLDER}"));
        }
        let keys = when.iter().cloned().chain([("alias", folder.into())]).collect();
        self.actions.push(Block { source: node.source.clone(), keys, caveat: self.without_php() });
    }

    /// An application for all paths gets no request for these files.
    pub fn files_beside_an_application(&mut self) {
        let has_all =
            self.site.proxies.iter().any(|proxy| proxy.get("path") == Some(&Toml::Text("/".to_owned())));
        let Some(root) = self.site.root.clone().filter(|_| has_all && self.site.php == Php::Off) else {
            return;
        };
        let files: Vec<_> = self.files.drain(..).filter(|(_, when)| !is_rest(when)).collect();
        for (source, when) in files {
            let keys = when.into_iter().chain([("root", root.clone().into())]).collect();
            self.actions.push(Block { source, keys, caveat: None });
        }
        let has_error_pages = self.effects.iter().any(|rule| rule.get("error_page").is_some());
        if !has_error_pages && self.actions.iter().any(|rule| rule.get("root").is_some()) {
            // All other paths are the application's.
            self.site.root = None;
        }
    }

    fn file_options(&mut self, node: &CaddyLine, when: &When) {
        if node.words.iter().any(|word| word == "browse")
            || node.block.iter().any(|inner| inner.word(0) == "browse")
        {
            self.site.notes.lost(&node.source, "Millrace lists no folders: add an index.html");
        }
        for inner in &node.block {
            match inner.word(0) {
                "hide" => {
                    for name in inner.words.iter().skip(1) {
                        let pattern =
                            name.trim_start_matches("./").trim_end_matches("/*").trim_end_matches('/');
                        let pattern = format!("*/{}", pattern.trim_start_matches('/'));
                        if pattern.contains('{') || pattern.ends_with("/.git") {
                            self.site.notes.needless(&inner.source, "hidden files are never sent");
                            continue;
                        }
                        let others =
                            when.iter().filter(|(key, _)| *key != "path" && *key != "regex").cloned();
                        let path = ("path", Toml::List(vec![pattern.clone(), format!("{pattern}/*")]));
                        let hidden = others.chain([path]).collect();
                        self.action(&inner.source, hidden, vec![("return", Toml::Number(404))]);
                    }
                }
                "precompressed" => {
                    self.site.notes.needless(&inner.source, "`.br`, `.zst` and `.gz` beside a file are sent")
                }
                "index" => self
                    .site
                    .notes
                    .lost(&inner.source, "`files.index` is for all sites: index.php, index.html, index.htm"),
                "browse" => {}
                _ => self.site.notes.lost(&inner.source, "`root`, `files.index` and rules say what is sent"),
            }
        }
    }
}

/// Whether these are all requests, or those that other blocks have left.
fn is_rest(when: &When) -> bool {
    when.iter().all(|(key, _)| matches!(*key, "unless_path" | "unless_from"))
}

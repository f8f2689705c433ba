//! `root` and `file_server`: folders and their files.

use super::conditions::{self, is_rest};
use super::flow::CaddyScope;
use super::lex::CaddyLine;
use super::site::Converter;
use crate::value::{Block, ONE_FOLDER, Php, Source, Toml, When};

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
                self.folders.push(self.folder_rule(&node.source, when, "root", folder));
                self.site.notes.carried(&node.source);
            }
        }
    }

    /// A rule for files of another folder; `key`: `root` or `alias`.
    fn folder_rule(&self, source: &Source, when: &When, key: &'static str, folder: String) -> Block {
        let keys = when.iter().cloned().chain([(key, folder.into())]).collect();
        let caveat = (self.site.php != Php::Off).then(|| "no PHP runs there".to_owned());
        Block { source: source.clone(), keys, caveat }
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
                self.actions.push(self.folder_rule(&node.source, when, "root", folder));
            }
            _ => {
                self.serves_files |= is_rest(when);
                self.files.push((node.source.clone(), when.clone()));
            }
        }
    }

    /// `handle_path` looks for a file by its path without the prefix.
    fn alias(&mut self, node: &CaddyLine, when: &When, scope: &CaddyScope, folder: String) {
        let paths = conditions::of(when, "path").unwrap_or_default();
        if paths != [format!("{}/*", scope.prefix)] {
            return self
                .site
                .notes
                .lost(&node.source, format!("`alias` of a rule is for all paths below one: {ONE_FOLDER}"));
        }
        self.actions.push(self.folder_rule(&node.source, when, "alias", folder));
    }

    /// Rules that keep an application for all paths from getting requests for files.
    pub fn files_beside_an_application(&mut self) {
        let has_all =
            self.site.proxies.iter().any(|proxy| proxy.get("path") == Some(&Toml::Text("/".to_owned())));
        let Some(root) = self.site.root.clone().filter(|_| has_all && self.site.php == Php::Off) else {
            return;
        };
        let files: Vec<_> = self.files.drain(..).filter(|(_, when)| !is_rest(when)).collect();
        for (source, when) in files {
            self.actions.push(self.folder_rule(&source, &when, "root", root.clone()));
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

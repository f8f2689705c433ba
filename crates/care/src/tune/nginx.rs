//! nginx of a distribution: its directives outside of servers, and where a file of ours can add some.
//!
//! nginx takes most directives once per block: where one is set already, another file can't override it, and nginx refuses to start with both.

use super::root::Root;

/// Its configuration, below the root.
pub const MAIN: &str = "etc/nginx/nginx.conf";
/// Our file among those that nginx includes in `http`.
pub const HTTP_FILE: &str = "etc/nginx/conf.d/60-millrace.conf";
/// Our file among those that nginx includes outside of all blocks.
pub const MAIN_FILE: &str = "etc/nginx/modules-enabled/60-millrace.conf";
/// The program, below the root.
pub const PROGRAM: &str = "usr/sbin/nginx";
/// Files that include files that include files.
const DEEPEST: usize = 8;

/// An installed nginx.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nginx {
    /// What it reads, in this order, without what is in servers and the like.
    pub directives: Vec<Directive>,
    /// Its error logs as `error_log` names them, those of servers too.
    pub error_logs: Vec<String>,
    /// Folder of its configuration, below the root: names that it includes are relative to it.
    folder: String,
    /// Blocks in which a folder of ours is included.
    open: Vec<Block>,
}

/// A block of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Outside of all blocks.
    Main,
    /// `events`
    Events,
    /// `http`
    Http,
    /// Any other one: a server, a map, ...
    Inner,
}

/// A directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Where it is.
    pub block: Block,
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub value: String,
    /// Its file, below the root.
    pub file: String,
    /// Its line there.
    pub line: usize,
}

impl Directive {
    fn is(&self, block: Block, name: &str) -> bool {
        self.block == block && self.name == name
    }
}

impl Nginx {
    /// Reads its configuration.
    ///
    /// # Errors
    /// There is none: the words for that.
    pub fn look(root: &Root) -> Result<Nginx, String> {
        if !root.has(PROGRAM) || !root.has(MAIN) {
            return Err("nginx is not installed here".to_owned());
        }
        Ok(Nginx::of_files(root, MAIN))
    }

    /// Reads a configuration and what it includes.
    pub fn of_files(root: &Root, file: &str) -> Nginx {
        let file = file.trim_start_matches('/');
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let mut nginx = Nginx { directives: Vec::new(), error_logs: Vec::new(), folder, open: Vec::new() };
        nginx.read(root, file, Block::Main, 0);
        nginx
    }

    /// The value of a directive, ours included.
    pub fn value(&self, block: Block, name: &str) -> Option<&str> {
        self.directives.iter().find(|directive| directive.is(block, name)).map(|directive| &*directive.value)
    }

    /// The directive in a file that is not ours.
    pub fn others(&self, block: Block, name: &str) -> Option<&Directive> {
        let is_ours = |directive: &Directive| [HTTP_FILE, MAIN_FILE].contains(&&*directive.file);
        self.directives.iter().find(|directive| directive.is(block, name) && !is_ours(directive))
    }

    /// The file of ours for a directive.
    ///
    /// # Errors
    /// There is none, or nginx would refuse a second one: what to write, and where.
    pub fn place(&self, block: Block, name: &str, value: &str) -> Result<&'static str, String> {
        if let Some(other) = self.others(block, name) {
            let Directive { file, line, value: now, .. } = other;
            return Err(format!(
                "by hand: /{file}, line {line}: `{name} {value};` instead of `{name} {now};` - nginx takes it once, so no other file can change it"
            ));
        }
        match block {
            Block::Http if self.open.contains(&block) => Ok(HTTP_FILE),
            Block::Main if self.open.contains(&block) => Ok(MAIN_FILE),
            Block::Http => Err(format!(
                "by hand: /{MAIN} includes no conf.d/*.conf: `{name} {value};` into its block `http`"
            )),
            Block::Main => Err(format!(
                "by hand: /{MAIN} includes no modules-enabled/*.conf: `{name} {value};` at its begin"
            )),
            _ => Err(format!(
                "by hand: /{MAIN}: `{name} {value};` into its block `events` - nginx takes that block once"
            )),
        }
    }

    fn read(&mut self, root: &Root, file: &str, block: Block, depth: usize) {
        let Ok(text) = root.read(file) else { return };
        let mut blocks = vec![block];
        let mut words: Vec<String> = Vec::new();
        let mut began = 1;
        for (line, token) in tokens(&text) {
            let now = *blocks.last().unwrap_or(&Block::Inner);
            match token {
                NginxToken::Word(word) => {
                    if words.is_empty() {
                        began = line;
                    }
                    words.push(word);
                    continue;
                }
                NginxToken::Open => blocks.push(match (now, words.first().map(String::as_str)) {
                    (Block::Main, Some("events")) => Block::Events,
                    (Block::Main, Some("http")) => Block::Http,
                    _ => Block::Inner,
                }),
                NginxToken::Close if blocks.len() > 1 => drop(blocks.pop()),
                NginxToken::Close => {}
                NginxToken::End => self.directive(root, now, &words, (file, began), depth),
            }
            words.clear();
        }
    }

    fn directive(
        &mut self,
        root: &Root,
        block: Block,
        words: &[String],
        (file, line): (&str, usize),
        depth: usize,
    ) {
        let Some((name, values)) = words.split_first() else { return };
        if name == "error_log" {
            self.error_logs.extend(values.first().cloned());
        }
        if block == Block::Inner {
            return;
        }
        if name != "include" {
            let (name, value, file) = (name.clone(), values.join(" "), file.to_owned());
            return self.directives.push(Directive { block, name, value, file, line });
        }
        let Some(pattern) = values.first().filter(|_| depth < DEEPEST) else { return };
        let path =
            pattern.strip_prefix('/').map_or_else(|| format!("{}/{pattern}", self.folder), str::to_owned);
        let ours = if block == Block::Http { HTTP_FILE } else { MAIN_FILE };
        if matching(&path, ours) {
            self.open.push(block);
        }
        for file in root.matching(&path) {
            self.read(root, &file, block, depth + 1);
        }
    }
}

/// Whether a path with a `*` in its last part names a file.
pub fn matching(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((start, end)) => {
            path.len() >= start.len() + end.len()
                && path.strip_prefix(start).is_some_and(|rest| !rest.contains('/') && rest.ends_with(end))
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum NginxToken {
    Word(String),
    Open,
    Close,
    End,
}

/// The tokens of a configuration with their lines: `ngx_conf_read_token` in src/core/ngx_conf_file.c.
fn tokens(text: &str) -> Vec<(usize, NginxToken)> {
    let mut all = Vec::new();
    let mut line = 1;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let token = match c {
            '\n' => {
                line += 1;
                continue;
            }
            c if c.is_whitespace() => continue,
            '#' => {
                while rest.peek().is_some_and(|c| *c != '\n') {
                    rest.next();
                }
                continue;
            }
            ';' => NginxToken::End,
            '{' => NginxToken::Open,
            '}' => NginxToken::Close,
            first => {
                let began = line;
                let quote = Some(first).filter(|c| matches!(c, '"' | '\''));
                let mut word = if quote.is_some() { String::new() } else { first.to_string() };
                let mut is_escaped = first == '\\';
                while let Some(c) = rest.peek().copied() {
                    let is_end = match quote {
                        Some(quote) => c == quote,
                        // `${name}` is part of a word.
                        None => c.is_whitespace() || c == ';' || (c == '{' && !word.ends_with('$')),
                    };
                    if is_end && !is_escaped {
                        break;
                    }
                    line += usize::from(c == '\n');
                    is_escaped = c == '\\' && !is_escaped;
                    word.push(c);
                    rest.next();
                }
                if quote.is_some() {
                    rest.next();
                }
                all.push((began, NginxToken::Word(word)));
                continue;
            }
        };
        all.push((line, token));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    const DEBIAN: &str = "user www-data;\ninclude /etc/nginx/modules-enabled/*.conf;\n\nevents {\n\tworker_connections 768;\n\t# multi_accept on;\n}\n\
        http {\n\tgzip on; # keepalive_timeout 1;\n\tlog_format a '{ \"x\": \"$y\"; }'\n\t  more;\n\tinclude /etc/nginx/conf.d/*.conf;\n\tinclude sites-enabled/*;\n}\n";

    fn nginx(files: &[(&str, &str)]) -> Nginx {
        let tree = Tree::of(&[&[(PROGRAM, "")], files].concat());
        Nginx::look(&Root::new(tree.root())).expect("an nginx")
    }

    #[test]
    fn debians_files() {
        let site = "server { keepalive_timeout 3; error_log /var/log/site.log warn; location ~ \\.php$ { gzip off; } }\nmap $a ${b}c { default 1; }\nserver_tokens off;\n";
        let all = nginx(&[
            (MAIN, DEBIAN),
            ("etc/nginx/conf.d/keep.conf", "# x\nkeepalive_timeout\n  65s;\n"),
            ("etc/nginx/conf.d/readme.txt", "gzip_vary on;"),
            (HTTP_FILE, "open_file_cache max=1;"),
            ("etc/nginx/sites-enabled/default", site),
        ]);
        let found = |block, name| all.others(block, name).map(|one| (&*one.value, &*one.file, one.line));
        assert_eq!(found(Block::Events, "worker_connections"), Some(("768", MAIN, 5)));
        assert_eq!(found(Block::Http, "gzip"), Some(("on", MAIN, 9)));
        let kept = ("65s", "etc/nginx/conf.d/keep.conf", 2);
        assert_eq!(found(Block::Http, "keepalive_timeout"), Some(kept));
        assert_eq!(found(Block::Http, "server_tokens").map(|(value, ..)| value), Some("off"));
        assert_eq!(all.error_logs, ["/var/log/site.log"]);
        assert_eq!(found(Block::Http, "gzip_vary"), None);
        assert_eq!(
            (found(Block::Http, "open_file_cache"), all.value(Block::Http, "open_file_cache")),
            (None, Some("max=1"))
        );
        assert_eq!(all.place(Block::Http, "open_file_cache", "x"), Ok(HTTP_FILE));
        assert_eq!(all.place(Block::Main, "worker_rlimit_nofile", "x"), Ok(MAIN_FILE));
        let why = all.place(Block::Events, "worker_connections", "4096").expect_err("by hand");
        assert!(
            why.starts_with("by hand: /etc/nginx/nginx.conf, line 5: `worker_connections 4096;` instead of `worker_connections 768;`"),
            "{why}"
        );
    }

    #[test]
    fn files_without_our_folders() {
        let all = nginx(&[(MAIN, "http { include mime.types; include nginx.conf; }")]);
        for (block, words) in [
            (Block::Main, "modules-enabled/*.conf"),
            (Block::Events, "block `events`"),
            (Block::Http, "conf.d/*.conf"),
        ] {
            let why = all.place(block, "a", "b").expect_err("nowhere");
            assert!(why.contains(words) && why.contains("`a b;`"), "{why}");
        }
        let tree = Tree::of(&[(MAIN, "")]);
        assert!(Nginx::look(&Root::new(tree.root())).is_err());
    }

    #[test]
    fn torn_files_end() {
        for text in ["", "a", "a {", "}}}", "\"", "a 'b", "\\", "include", "include ;", "http {{", "#"] {
            assert!(nginx(&[(MAIN, text)]).directives.is_empty(), "{text}");
        }
    }
}

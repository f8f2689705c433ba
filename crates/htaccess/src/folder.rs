//! The rules of one `.htaccess` file, compiled.

use crate::access::{self, Authentication, Compat, Methods, Requirement, SetEnvIf, Test};
use crate::directives::{self, Reader};
use crate::effort;
use crate::expression::Expression;
use crate::harmless::is_harmless;
use crate::header::Change;
use crate::lines::{self, Item, Line};
use crate::media::{Expires, Kinds};
use crate::modules;
use crate::pattern::{Pattern, TooManySteps};
use crate::rewrite::{Condition, Rewrite, Rule, Unusable};
use crate::{expression, glob, literals};

/// Maximum size of a file, bytes. The largest known ones - lists of bad robots - have a tenth of that.
pub const LARGEST: usize = 1 << 20;

/// Maximum number of lines of a file: each may be a regular expression of its own, which takes time and memory.
const MOST_LINES: usize = 10_000;

/// Maximum of methods of a `<Limit>`, as in Apache (`METHODS` in httpd.h).
const MOST_METHODS: usize = 64;

/// Maximum of conditions of a section: those of the sections around it, and of each `<ElseIf>` before it.
const MOST_CONDITIONS: usize = 64;

/// A compiled file.
#[derive(Clone, Debug, Default)]
pub struct Folder {
    /// The file's own directives first, then its sections in their order.
    pub layers: Vec<Layer>,
    /// What is not applied as it is written.
    pub findings: Vec<Finding>,
    /// Every request below is answered with this status: the file is malformed or can't be read.
    pub closed: Option<u16>,
    /// It has nothing but the block that WordPress writes into the file of its root: what is no file goes to `/index.php`.
    pub is_wordpress: bool,
}

/// Directives that apply under the same conditions.
#[derive(Clone, Debug, Default)]
pub struct Layer {
    /// All must hold.
    pub conditions: Vec<SectionScope>,
    /// The directives.
    pub rules: Rules,
}

/// The condition of a section.
#[derive(Clone, Debug)]
pub enum SectionScope {
    /// `<Files "*.php">`
    Files(String),
    /// `<FilesMatch "\.php$">`
    FilesMatch(Pattern),
    /// `<If>`: it must hold; `<Else>`: it must not.
    If(Box<Expression>, bool),
}

/// The directives of a layer. `None` and empty lists: it has none.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The line of a directive that restricts access and isn't supported: what the layer covers is refused.
    pub refuses: Option<u32>,
    /// Rewrite*
    pub rewrite: Option<Rewrite>,
    /// Conditions that wait for their rule.
    pub(crate) pending: Vec<Condition>,
    /// One of them isn't supported.
    pub(crate) pending_lost: bool,
    /// Require
    pub require: Vec<Requirement>,
    /// Order, Allow, Deny
    pub compat: Option<Compat>,
    /// Auth*
    pub authentication: Authentication,
    /// SSLRequireSSL
    pub requires_https: bool,
    /// LimitRequestBody, bytes; 0: none.
    pub body_limit: Option<u64>,
    /// Redirect, RedirectMatch
    pub redirects: Vec<Redirect>,
    /// Header
    pub headers: Vec<Change>,
    /// RequestHeader
    pub request_headers: Vec<Change>,
    /// SetEnvIf, BrowserMatch
    pub set_env_if: Vec<SetEnvIf>,
    /// SetEnv; `None`: UnsetEnv.
    pub environment: Vec<(String, Option<String>)>,
    /// AddType and its relatives
    pub kinds: Kinds,
    /// Expires*
    pub expires: Expires,
    /// ErrorDocument
    pub error_documents: Vec<(u16, Document)>,
    /// DirectoryIndex
    pub index: Option<Vec<String>>,
    /// FallbackResource; `Some(None)`: disabled
    pub fallback: Option<Option<String>>,
    /// AcceptPathInfo; `Some(None)`: Default
    pub path_info: Option<Option<bool>>,
    /// FileETag None
    pub no_etag: Option<bool>,
    /// Whether PHP runs.
    pub php: Option<bool>,
    /// CacheLookup
    pub cache_lookup: Option<bool>,
}

/// What an ErrorDocument sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// The server's own page.
    Default,
    /// This text.
    Text(String),
    /// A path of the site.
    Path(String),
    /// A redirect to this URL.
    Url(String),
}

/// A Redirect or RedirectMatch.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// 3xx, or another status without a location.
    pub status: u16,
    /// What is redirected.
    pub from: From,
    /// The location; empty if the status has none.
    pub to: String,
}

/// What a redirect is for.
#[derive(Clone, Debug)]
pub enum From {
    /// This path and what is below it.
    Prefix(String),
    /// What matches.
    Match(Pattern),
    /// Everything that the directive's section covers.
    All,
}

/// A line that is not applied as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Line number.
    pub line: u32,
    /// What happens because of it.
    pub effect: Effect,
    /// Why, and what to do.
    pub text: String,
}

/// What happens because of a line that is not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The line is ignored.
    Ignored,
    /// It starts a firewall, which is off unless `.user.ini` of the folder starts it ([`starts_firewall`]).
    Off,
    /// It restricts access: what it covers is refused with 403.
    Refused,
    /// It is malformed: the folder answers 500, as with Apache.
    Broken,
}

/// The setting of PHP by which firewalls start.
pub const PREPEND: &str = "auto_prepend_file";

impl Folder {
    /// Compiles a file.
    pub fn compile(text: &[u8]) -> Folder {
        if text.len() > LARGEST {
            return Folder::shut(500, &format!("the file is larger than {LARGEST} bytes: shorten it"));
        }
        if text.iter().filter(|byte| **byte == b'\n').count() > MOST_LINES {
            return Folder::shut(500, &format!("the file has more than {MOST_LINES} lines: shorten it"));
        }
        effort::begin_file();
        let text = String::from_utf8_lossy(text);
        let items = match lines::read(&text) {
            Ok(items) => items,
            Err(error) => {
                let mut folder = Folder::default();
                folder.find(error.line, Effect::Broken, error.text);
                return folder;
            }
        };
        let mut folder = Folder { layers: vec![Layer::default()], ..Folder::default() };
        folder.block(&items, 0, &Methods::All);
        folder.check_requirements();
        folder.layers.iter_mut().for_each(|layer| access::mark_lists(&mut layer.rules.set_env_if));
        literals::end_file();
        folder.is_wordpress = is_wordpress(&text);
        folder
    }

    /// A file that can't be used as a whole: every request below its folder gets `status`.
    pub fn shut(status: u16, why: &str) -> Folder {
        let finding = Finding { line: 1, effect: Effect::Refused, text: why.to_owned() };
        Folder { closed: Some(status), findings: vec![finding], ..Folder::default() }
    }

    fn find(&mut self, line: u32, effect: Effect, text: String) {
        if effect == Effect::Broken {
            self.closed = Some(500);
        }
        self.findings.push(Finding { line, effect, text });
    }

    /// Reads directives and sections into layer `at`; sections with conditions get layers of their own.
    fn block(&mut self, items: &[Item], at: usize, methods: &Methods) {
        // The conditions of the `<If>` and `<ElseIf>` before an `<Else>`.
        let mut before: Vec<SectionScope> = Vec::new();
        for item in items {
            match item {
                Item::Directive(line) => self.directive(line, at, methods),
                Item::Section(line, inner) => self.section(line, inner, at, methods, &mut before),
            }
        }
    }

    fn directive(&mut self, line: &Line, at: usize, methods: &Methods) {
        let Some(directive) = directives::find(&line.name) else {
            let (name, is_harmless) = (&line.name, is_harmless(&line.name));
            let text = match is_harmless {
                true => format!("{name} has no effect with Millrace"),
                false => {
                    format!("unknown directive {name}: take it out, or put it into <IfModule> of its module")
                }
            };
            return self.unusable(line.number, at, Unusable::Unsupported(text), !is_harmless);
        };
        let rules = &mut self.layers[at].rules;
        let mut reader = Reader { line, words: lines::words(&line.rest), methods, rules };
        if let Err((why, restricts)) = (directive.read)(&mut reader) {
            if let ("require", Unusable::Unsupported(text)) = (line.name.as_str(), &why) {
                // What stands in its place grants nothing; what stands beside it may.
                return self.find(line.number, Effect::Refused, text.clone());
            }
            if let (true, Unusable::Unsupported(text)) = (is_firewall(&reader.words), &why) {
                return self.find(line.number, Effect::Off, text.clone());
            }
            self.unusable(line.number, at, why, restricts || directive.restricts);
        }
    }

    fn unusable(&mut self, line: u32, at: usize, why: Unusable, restricts: bool) {
        match why {
            Unusable::Invalid(text) => self.find(line, Effect::Broken, text),
            Unusable::Unsupported(text) if restricts => {
                self.layers[at].rules.refuses.get_or_insert(line);
                self.find(line, Effect::Refused, text);
            }
            Unusable::Unsupported(text) => self.find(line, Effect::Ignored, text),
        }
    }

    fn section(
        &mut self,
        line: &Line,
        inner: &[Item],
        at: usize,
        methods: &Methods,
        before: &mut Vec<SectionScope>,
    ) {
        let words = lines::words(&line.rest);
        match line.name.as_str() {
            "ifmodule" | "ifversion" | "ifdefine" | "ifdirective" | "ifsection" => {
                match modules::holds(&line.name, &words) {
                    Ok(true) => self.block(inner, at, methods),
                    Ok(false) => {}
                    Err(text) => self.find(line.number, Effect::Broken, text),
                }
            }
            "files" | "filesmatch" | "if" | "elseif" | "else" if *methods != Methods::All => {
                let text = format!("<{}> is not allowed in <Limit> and <LimitExcept>", line.name);
                self.find(line.number, Effect::Broken, text);
            }
            "files" | "filesmatch" if !self.layers[at].conditions.is_empty() && !restricts(inner) => {
                let text = format!(
                    "<{}> in <Files> or <If> is never applied, as with Apache: put it outside",
                    line.name
                );
                self.find(line.number, Effect::Ignored, text);
            }
            "limit" | "limitexcept" if words.len() > MOST_METHODS => {
                let text = format!("<{}> has more than {MOST_METHODS} methods", line.name);
                self.find(line.number, Effect::Broken, text);
            }
            "limit" | "limitexcept" if !words.is_empty() => {
                match methods.limited(&words, line.name == "limitexcept") {
                    Ok(limited) => self.block(inner, at, &limited),
                    Err(why) => self.find(line.number, Effect::Broken, format!("<{}>: {why}", line.name)),
                }
            }
            "requireall" | "requireany" | "requirenone" => {
                let list = self.requirements(inner, methods, line.name == "requirenone");
                let requirement = container(&line.name, list);
                self.layers[at].rules.require.push(requirement);
            }
            "files" | "filesmatch" | "if" | "elseif" | "else" => match scopes(line, &words, before) {
                Ok(scopes) if self.layers[at].conditions.len() + scopes.len() > MOST_CONDITIONS => {
                    let text = format!("more than {MOST_CONDITIONS} conditions around <{}>", line.name);
                    self.find(line.number, Effect::Broken, text);
                }
                Ok(scopes) => {
                    let conditions = [self.layers[at].conditions.clone(), scopes].concat();
                    self.layers.push(Layer { conditions, rules: Rules::default() });
                    let own = self.layers.len() - 1;
                    self.block(inner, own, methods);
                }
                Err(Unusable::Invalid(text)) => self.find(line.number, Effect::Broken, text),
                Err(Unusable::Unsupported(text)) => self.lost_section(line, inner, at, text),
            },
            "directory" | "directorymatch" | "location" | "locationmatch" | "virtualhost" | "proxy" => {
                let text = format!("<{}> is not allowed in a .htaccess file", line.name);
                self.find(line.number, Effect::Broken, text);
            }
            name => self.lost_section(line, inner, at, format!("unknown section <{name}>")),
        }
    }

    /// A section that isn't supported.
    fn lost_section(&mut self, line: &Line, inner: &[Item], at: usize, text: String) {
        self.unusable(line.number, at, Unusable::Unsupported(text), restricts(inner));
    }

    /// The requirements in a container. What isn't supported never grants, and always denies where it is negated.
    fn requirements(&mut self, items: &[Item], methods: &Methods, negated: bool) -> Vec<Requirement> {
        let mut list = Vec::new();
        for item in items {
            match item {
                Item::Directive(line) if line.name == "require" => {
                    let words = lines::words(&line.rest);
                    match access::requirement(&words, methods) {
                        Ok(requirement) => list.push(requirement),
                        Err((text, is_unsupported)) => {
                            let effect = if is_unsupported { Effect::Refused } else { Effect::Broken };
                            self.find(line.number, effect, text);
                            list.push(directives::unmet(&words, negated));
                        }
                    }
                }
                Item::Section(line, inner) if line.name.starts_with("require") => {
                    let inner = self.requirements(inner, methods, negated || line.name == "requirenone");
                    list.push(container(&line.name, inner));
                }
                Item::Section(line, inner) if modules::is_condition(&line.name) => {
                    match modules::holds(&line.name, &lines::words(&line.rest)) {
                        Ok(true) => list.extend(self.requirements(inner, methods, negated)),
                        Ok(false) => {}
                        Err(text) => self.find(line.number, Effect::Broken, text),
                    }
                }
                Item::Directive(line) | Item::Section(line, _) => {
                    let text = format!("{} is not allowed among requirements", line.name);
                    self.find(line.number, Effect::Broken, text);
                }
            }
        }
        list
    }

    /// Where one of many is enough, a negation has no effect; Apache refuses such a file, and one with an empty container.
    fn check_requirements(&mut self) {
        if self.layers.iter().any(|layer| access::is_malformed(&layer.rules.require, false)) {
            let text = "\"Require not\" works only in <RequireAll>, beside something that grants, such as \"Require all granted\"; and no <RequireAll>, <RequireAny> or <RequireNone> may be empty";
            self.find(1, Effect::Broken, text.to_owned());
        }
    }
}

/// Whether the words of a `php_value` have PHP run a file before each script: plugins that are firewalls start this way.
fn is_firewall(words: &[String]) -> bool {
    matches!(words, [name, value, ..] if name.eq_ignore_ascii_case(PREPEND) && !value.eq_ignore_ascii_case("none"))
}

/// Whether a `.user.ini` file has PHP run a file before each script.
pub fn starts_firewall(user_ini: &[u8]) -> bool {
    String::from_utf8_lossy(user_ini).lines().any(|line| {
        let setting = line.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case(PREPEND));
        setting.is_some_and(|(_, value)| !value.trim().trim_matches(['"', '\'']).is_empty())
    })
}

fn container(name: &str, list: Vec<Requirement>) -> Requirement {
    match name {
        "requireall" => Requirement::All(list),
        "requirenone" => Requirement::None(list),
        _ => Requirement::Any(list),
    }
}

/// Whether something in a section restricts access.
fn restricts(items: &[Item]) -> bool {
    items.iter().any(|item| match item {
        Item::Section(line, inner) => line.name.starts_with("require") || restricts(inner),
        Item::Directive(line) => match line.name.as_str() {
            "rewriterule" => Rule::new(0, &line.rest, Vec::new())
                .is_ok_and(|rule| rule.flags.status.is_some_and(|status| status >= 400)),
            name => match directives::find(name) {
                Some(directive) => directive.restricts,
                None => !is_harmless(name),
            },
        },
    })
}

/// The conditions of a section. `before` has those of the sections to which an `<Else>` belongs.
fn scopes(
    line: &Line,
    words: &[String],
    before: &mut Vec<SectionScope>,
) -> Result<Vec<SectionScope>, Unusable> {
    let invalid = || Unusable::Invalid(format!("<{}> lacks its argument", line.name));
    let pattern = |text: &String| {
        Pattern::new(text, false).map(SectionScope::FilesMatch).map_err(Unusable::Unsupported)
    };
    match line.name.as_str() {
        "files" | "filesmatch" => {
            before.clear();
            Ok(vec![match words {
                [tilde, text, ..] if tilde == "~" => pattern(text)?,
                [text, ..] if line.name == "filesmatch" => pattern(text)?,
                [text, ..] => SectionScope::Files(text.clone()),
                [] => return Err(invalid()),
            }])
        }
        "else" => Ok(std::mem::take(before)),
        name => {
            if name == "if" {
                before.clear();
            }
            if before.len() >= MOST_CONDITIONS {
                return Err(Unusable::Invalid(format!(
                    "more than {MOST_CONDITIONS} <ElseIf> after one another"
                )));
            }
            // The expression is one argument, which usually stands in quotes.
            let text = match words {
                [text] if line.rest.starts_with(['"', '\'']) => text.as_str(),
                [] => return Err(invalid()),
                _ => line.rest.as_str(),
            };
            let expression = Box::new(Expression::parse(text).map_err(Unusable::Unsupported)?);
            let mut scopes = before.clone();
            scopes.push(SectionScope::If(expression.clone(), true));
            before.push(SectionScope::If(expression, false));
            Ok(scopes)
        }
    }
}

impl Layer {
    /// 0: directives of the folder; 1: of `<Files>`; 2: of `<If>`. Apache merges them in this order.
    pub fn rank(&self) -> u8 {
        let rank = |scope: &SectionScope| if matches!(scope, SectionScope::If(..)) { 2 } else { 1 };
        self.conditions.iter().map(rank).max().unwrap_or(0)
    }

    /// Whether it applies to a file name in a scope of variables.
    ///
    /// # Errors
    /// A regular expression took too many steps.
    pub fn applies(&self, name: &[u8], scope: &impl expression::Scope) -> Result<bool, TooManySteps> {
        for condition in &self.conditions {
            let holds = match condition {
                SectionScope::Files(pattern) => glob::matches(pattern.as_bytes(), name, glob::Slash::Plain)?,
                SectionScope::FilesMatch(pattern) => pattern.matches(name)?,
                SectionScope::If(expression, wanted) => expression.holds(scope)? == *wanted,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Rules {
    /// `Order`, `Allow` and `Deny` of this layer.
    pub(crate) fn compat(&mut self) -> &mut Compat {
        self.compat.get_or_insert_default()
    }

    /// What a requirement is replaced by that isn't supported.
    pub(crate) fn never() -> Test {
        Test::Never
    }
}

/// Whether these lines are WordPress's block and no others (WP_Rewrite::mod_rewrite_rules in wp-includes/class-wp-rewrite.php).
fn is_wordpress(text: &str) -> bool {
    const BLOCK: [&str; 9] = [
        "<IfModule mod_rewrite.c>",
        "RewriteEngine On",
        // Since WordPress 5.6. PHP has the field here without a rule.
        "RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]",
        "RewriteBase /",
        r"RewriteRule ^index\.php$ - [L]",
        "RewriteCond %{REQUEST_FILENAME} !-f",
        "RewriteCond %{REQUEST_FILENAME} !-d",
        "RewriteRule . /index.php [L]",
        "</IfModule>",
    ];
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let older = BLOCK.iter().enumerate().filter(|(at, _)| *at != 2).map(|(_, line)| *line);
    lines().eq(BLOCK) || lines().eq(older)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_of_wordpress_is_known() {
        let block = "# BEGIN WordPress\n# The directives\n<IfModule mod_rewrite.c>\nRewriteEngine On\n\
            RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteBase /\nRewriteRule ^index\\.php$ - [L]\n\
            RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n\n\
            # END WordPress\n";
        let is_known = |text: &str| Folder::compile(text.as_bytes()).is_wordpress;
        let field = "RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\n";
        assert!(is_known(block));
        assert!(is_known(&block.replace(field, "")));
        assert!(!is_known(&format!("{block}Require all denied\n")));
        assert!(!is_known(&block.replace("RewriteBase /", "RewriteBase /blog/")));
        assert!(!is_known(&block.replace("!-d", "-d")) && !is_known(""));
    }
}

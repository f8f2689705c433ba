//! `[[site.rule]]`: reads a site's rules.
//!
//! ```text
//!  [[site.rule]] --keys: a row each--> WrittenRule --complete: files, one action--> SiteRule --check: rules among each other
//! ```

mod check;
pub(crate) mod files;
mod keys;
mod target;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::environment::Environment;
use crate::plan::{
    BasicAuth, OtherFiles, RequestLimit, RuleAction, RuleCondition, RuleTarget, ScriptAuth, SiteRule,
};
use crate::problem::{At, Origin, Problem, What, shown};
use crate::suggest;
use crate::value::{Entry, Form, Raw, Read, Wrong};
use crate::written::Written;

pub(crate) use check::on_disk;
pub(crate) use keys::{KEYS, RuleKey};

/// A file that a rule names, and where.
pub(crate) type FileName = (PathBuf, Range<usize>);

/// The name of the tables in a site.
pub(crate) const NAME: &str = "rule";

/// Maximum number of rules of a site.
const MOST_RULES: usize = 10_000;

/// A rule as written.
#[derive(Debug)]
pub(crate) struct WrittenRule {
    /// Its header.
    pub at: At,
    /// The rule, without its action and without what files add.
    pub rule: SiteRule,
    /// The keys that it has, each with its place.
    places: Vec<(&'static str, At)>,
    redirect: Option<RuleTarget>,
    redirects: Option<FileName>,
    status: Option<u16>,
    rewrite: Option<RuleTarget>,
    returns: Option<u16>,
    text: Option<String>,
    allow: bool,
    deny: bool,
    limit: Option<RequestLimit>,
    burst: Option<u64>,
    users: Option<FileName>,
    realm: Option<String>,
    script: Option<String>,
    copy: Vec<String>,
    alias: Option<FileName>,
    root: Option<FileName>,
    from_files: Vec<FileName>,
    unless_from_files: Vec<FileName>,
    /// The number of groups that its pattern has.
    groups: usize,
    /// One of its values was wrong and has been reported.
    is_wrong: bool,
}

impl WrittenRule {
    fn new(at: At) -> WrittenRule {
        let line = at.origin.text[..at.span.start.min(at.origin.text.len())].matches('\n').count() + 1;
        let rule = SiteRule { place: format!("{}:{line}", at.origin.name), ..SiteRule::default() };
        WrittenRule {
            at,
            rule,
            places: Vec::new(),
            redirect: None,
            redirects: None,
            status: None,
            rewrite: None,
            returns: None,
            text: None,
            allow: false,
            deny: false,
            limit: None,
            burst: None,
            users: None,
            realm: None,
            script: None,
            copy: Vec::new(),
            alias: None,
            root: None,
            from_files: Vec::new(),
            unless_from_files: Vec::new(),
            groups: 0,
            is_wrong: false,
        }
    }

    fn condition(&mut self) -> &mut RuleCondition {
        &mut self.rule.condition
    }

    /// Where a key is written.
    fn place(&self, key: &str) -> Option<&At> {
        self.places.iter().find(|(name, _)| *name == key).map(|(_, at)| at)
    }

    /// Reads the regular expression.
    fn regex(&mut self, raw: &Raw) -> Read<()> {
        let Some(text) = raw.text() else {
            return Err(raw.wrong_type("must be a string", "write it in single quotes: '^/tag/(.+)$'"));
        };
        match regex::bytes::RegexBuilder::new(text).unicode(false).size_limit(1 << 20).build() {
            Ok(regex) => {
                self.groups = regex.captures_len() - 1;
                self.rule.condition.regex = Some(text.to_owned());
                Ok(())
            }
            Err(error) => {
                let error = error.to_string();
                let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
                let title = format!("is not a regular expression: {why}");
                let cure = "correct it; look-around and back references are not supported, use `unless_path` instead";
                Err(raw.wrong(What::Malformed, title, "here", cure))
            }
        }
    }
}

/// The table of all keys for `docs/rules.md`.
pub(crate) fn table() -> String {
    let mut text = "| key | for | meaning | example |\n| --- | --- | --- | --- |\n".to_owned();
    for RuleKey { name, part, line, example, .. } in KEYS {
        let example = example.replace('|', "\\|");
        text.push_str(&format!("| `{name}` | {} | {line} | `{example}` |\n", part.text()));
    }
    text
}

/// Reads the rules of a site.
pub(crate) fn read(origin: &Arc<Origin>, entry: &Entry, problems: &mut Vec<Problem>) -> Vec<WrittenRule> {
    let one;
    let tables = match &entry.value.form {
        Form::List(tables) => tables.as_slice(),
        form => {
            let problem = no_table(origin, &entry.value);
            problems.push(problem);
            one = [entry.value.clone()];
            if matches!(form, Form::Table(_)) { one.as_slice() } else { &[] }
        }
    };
    if tables.len() > MOST_RULES {
        let title = format!("a site has more than {MOST_RULES} rules");
        let cure = "put redirects into a file, and name it with `redirects`";
        let at = At::new(origin, tables[MOST_RULES].span.clone());
        problems.push(Problem::error(What::OutOfBounds, title, cure).at(Some(&at), "one too many"));
    }
    let mut rules = Vec::new();
    for table in tables.iter().take(MOST_RULES) {
        let mut rule = WrittenRule::new(At::new(origin, table.span.clone()));
        match &table.form {
            Form::Table(entries) => keys_of(origin, "", entries, &mut rule, problems),
            _ => problems.push(no_table(origin, table)),
        }
        rules.push(rule);
    }
    rules
}

fn no_table(origin: &Arc<Origin>, raw: &Raw) -> Problem {
    let cure = "start each rule with the header [[site.rule]], with two brackets";
    let problem = Problem::error(What::WrongType, "`site.rule` is a list of tables", cure);
    problem.at(Some(&At::new(origin, raw.span.clone())), "not such a list")
}

fn keys_of(
    origin: &Arc<Origin>,
    prefix: &str,
    entries: &[Entry],
    rule: &mut WrittenRule,
    problems: &mut Vec<Problem>,
) {
    for entry in entries {
        let name = format!("{prefix}{}", entry.name);
        let is_table = |key: &&RuleKey| key.name.starts_with(&format!("{name}."));
        if let Some(key) = KEYS.iter().find(|key| key.name == name) {
            rule.places.push((key.name, At::new(origin, entry.value.span.clone())));
            if let Err(wrongs) = (key.read)(rule, &entry.value, &origin.base) {
                rule.is_wrong = true;
                problems.extend(wrongs.into_iter().map(|wrong| wrong_value(origin, key, wrong)));
            }
        } else if KEYS.iter().any(|key| is_table(&key)) {
            match &entry.value.form {
                Form::Table(entries) => keys_of(origin, &format!("{name}."), entries, rule, problems),
                _ => {
                    let key = KEYS.iter().find(is_table).expect("a key of this table");
                    let cure = format!("write it like `{} = {}`", key.name, key.example);
                    let title = format!("`rule.{name}` is a table");
                    rule.is_wrong = true;
                    let at = At::new(origin, entry.value.span.clone());
                    problems.push(Problem::error(What::WrongType, title, cure).at(Some(&at), "not a table"));
                }
            }
        } else {
            rule.is_wrong = true;
            problems.push(unknown_key(origin, &name, entry));
        }
    }
}

fn wrong_value(origin: &Arc<Origin>, key: &RuleKey, wrong: Wrong) -> Problem {
    Problem::error(wrong.what, format!("`rule.{}` {}", key.name, wrong.title), wrong.cure)
        .at(Some(&At::new(origin, wrong.span)), wrong.label)
        .note(format!("an example: `{} = {}`", key.name, key.example))
}

fn unknown_key(origin: &Arc<Origin>, name: &str, entry: &Entry) -> Problem {
    let is_alias = |key: &&RuleKey| key.elsewhere.iter().any(|other| other.eq_ignore_ascii_case(name));
    let cure = if let Some(key) = KEYS.iter().find(is_alias) {
        format!("here it is called `{}`: write `{} = {}`", key.name, key.name, key.example)
    } else if let Some(near) = suggest::nearest(name, KEYS.iter().map(|key| key.name)) {
        format!("did you mean `{near}`?")
    } else {
        let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        format!("the keys of a rule are {}", names.join(", "))
    };
    Problem::error(What::UnknownKey, format!("a rule has no key `{}`", shown(name)), cure)
        .at(Some(&At::new(origin, entry.span.clone())), "unknown")
}

/// Reads the files that rules name, gives each rule its action, and checks the rules of each site among each other.
pub(crate) fn complete(written: &mut Written, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
    for site in &mut written.sites {
        for rule in &mut site.rules {
            rule.complete(environment, problems);
        }
        check::among_each_other(&site.rules, problems);
    }
}

impl WrittenRule {
    fn complete(&mut self, environment: &Environment<'_>, problems: &mut Vec<Problem>) {
        let origin = self.at.origin.clone();
        let before = problems.len();
        let mut reader = files::RuleFiles { environment, origin: &origin, problems };
        for file in std::mem::take(&mut self.from_files) {
            let networks = reader.networks(&file);
            self.rule.condition.from.get_or_insert_default().extend(networks);
        }
        for file in std::mem::take(&mut self.unless_from_files) {
            self.rule.condition.unless_from.extend(reader.networks(&file));
        }
        let status = self.status.unwrap_or(301);
        let listed = self.redirects.take().map(|file| reader.redirects(&file, status));
        let users = self.users.take().map(|file| reader.users(&file));
        let mut actions: Vec<RuleAction> = Vec::new();
        actions.extend(self.redirect.take().map(|target| RuleAction::Redirect(target, status)));
        actions.extend(listed.map(|listed| RuleAction::Redirects(listed.into())));
        actions.extend(self.rewrite.take().map(RuleAction::Rewrite));
        let files = |folder: FileName, strips| RuleAction::Files(OtherFiles { folder: folder.0, strips });
        actions.extend(self.alias.take().map(|folder| files(folder, true)));
        actions.extend(self.root.take().map(|folder| files(folder, false)));
        actions.extend(self.returns.map(|status| RuleAction::Return(status, self.text.take())));
        actions.extend(self.allow.then_some(RuleAction::Allow));
        actions.extend(self.deny.then_some(RuleAction::Deny));
        let burst = self.burst;
        let limit = |limit: RequestLimit| RequestLimit { burst: burst.unwrap_or(limit.burst), ..limit };
        actions.extend(self.limit.map(|own| RuleAction::Limit(limit(own))));
        let realm = self.realm.take().unwrap_or_else(|| "Restricted".to_owned());
        actions.extend(users.map(|users| RuleAction::Auth(BasicAuth { realm, users })));
        let copy = std::mem::take(&mut self.copy);
        actions.extend(self.script.take().map(|script| RuleAction::AuthScript(ScriptAuth { script, copy })));
        let is_wrong = self.is_wrong || problems.len() > before;
        if !is_wrong {
            check::alone(self, &actions, problems);
        }
        self.is_wrong |= problems.len() > before;
        self.rule.action = actions.into_iter().next();
    }
}

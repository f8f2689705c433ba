//! Arguments that override the file: `--listen`, `--profile`, `--php-ini`, `--set`. Each argument is a text, so that a
//! mistake in it is drawn like one in a file.

use std::sync::Arc;

use crate::environment::Environment;
use crate::load::Source;
use crate::problem::{At, Origin, Problem, What, shown};
use crate::read::{self, Scope};
use crate::suggest;
use crate::table::{self, Setting};
use crate::value::{Entry, Form, Raw, Value};
use crate::written::{Section, Typed, Written, WrittenTable};

/// Overrides values of `written` by the arguments.
pub(crate) fn apply(
    source: &Source,
    environment: &Environment<'_>,
    written: &mut Written,
    problems: &mut Vec<Problem>,
) {
    let mut arguments = Arguments { environment, written, problems };
    if source.tls_self_signed {
        arguments.self_signed(&source.listen);
    } else if !source.listen.is_empty() {
        arguments.listen("server.listen", &source.listen);
    }
    if let Some(profile) = &source.profile {
        arguments.option("--profile", profile, "site.profile", true);
    }
    if let Some(file) = &source.php_ini {
        arguments.option("--php-ini", &file.display().to_string(), "php.ini_file", false);
        arguments.written.sites.iter_mut().for_each(|site| site.values.remove("php.ini_file"));
    }
    for text in &source.set {
        arguments.set(text);
    }
}

struct Arguments<'a> {
    environment: &'a Environment<'a>,
    written: &'a mut Written,
    problems: &'a mut Vec<Problem>,
}

impl Arguments<'_> {
    /// All `--listen` together are one list.
    fn listen(&mut self, key: &str, addresses: &[String]) {
        let mut text = String::new();
        let mut list = Vec::new();
        for address in addresses {
            text.push_str(if text.is_empty() { "--listen " } else { " --listen " });
            list.push(Raw::bare(address, text.len()..text.len() + address.len()));
            text.push_str(address);
        }
        let origin = Origin::argument(text, &self.environment.current_dir);
        let raw = Raw { span: 0..origin.text.len(), form: Form::List(list) };
        let row = table::find(key).expect("a row");
        let typed = read::value(&origin, row.key, row, &raw, self.problems);
        self.written.global.set(row, typed);
    }

    /// `--tls-self-signed`: the addresses of `--listen` serve HTTPS only; without `--listen` HTTPS is added to HTTP.
    fn self_signed(&mut self, addresses: &[String]) {
        const OPTION: &str = "--tls-self-signed";
        let origin = Origin::argument(OPTION.to_owned(), &self.environment.current_dir);
        let at = At::new(&origin, 0..OPTION.len());
        let mut set = |key: &str, value: Value| {
            let row = table::find(key).expect("a row");
            self.written.global.set(row, Typed { value: Some(value), at: at.clone() });
        };
        set("https.self_signed", Value::Switch(true));
        if addresses.is_empty() {
            self.listen("https.listen", &["127.0.0.1:8443".to_owned()]);
        } else {
            set("server.listen", Value::Addresses(Vec::new()));
            self.listen("https.listen", addresses);
        }
    }

    /// An option for one setting.
    fn option(&mut self, option: &str, value: &str, key: &str, in_sites: bool) {
        let origin = Origin::argument(format!("{option} {value}"), &self.environment.current_dir);
        let raw = Raw::bare(value, option.len() + 1..origin.text.len());
        let row = table::find(key).expect("a row");
        let typed = read::value(&origin, key, row, &raw, self.problems);
        if in_sites {
            self.written.sites.iter_mut().for_each(|site| site.values.set(row, typed.clone()));
        } else {
            self.written.global.set(row, typed);
        }
    }

    /// `--set KEY=VALUE`.
    fn set(&mut self, text: &str) {
        const OPTION: &str = "--set ";
        let origin = Origin::argument(format!("{OPTION}{text}"), &self.environment.current_dir);
        let Some((key, value)) = text.split_once('=') else {
            let cure = "write the setting, =, and the value: --set http.keep_alive=5s";
            let at = At::new(&origin, OPTION.len()..origin.text.len());
            self.problems
                .push(Problem::error(What::Malformed, "--set needs a value", cure).at(Some(&at), "no ="));
            return;
        };
        let at_key = At::new(&origin, OPTION.len()..OPTION.len() + key.trim_end().len());
        let start = OPTION.len() + key.len() + 1;
        let mut full = key.trim().to_owned();
        if full.rsplit('.').next() == Some(read::SHORT) && value.trim_start().starts_with(read::SHORT_LEAD) {
            full.push_str(&read::SHORT_FOR[read::SHORT.len()..]);
        }
        let target = match self.target(&full, &at_key) {
            Ok(target) => target,
            Err(problem) => return self.problems.push(*problem),
        };
        let raw = match value_of(&origin, start, value) {
            Ok(raw) => raw,
            Err(problem) => return self.problems.push(problem),
        };
        let raw = match target.entry {
            Some(name) => {
                let entry = Entry { name: name.to_owned(), span: at_key.span.clone(), value: raw };
                Raw { span: at_key.span.clone(), form: Form::Table(vec![entry]) }
            }
            None => raw,
        };
        let pool = key.find(table::NAMED).and_then(|at| table::unnamed(key[at..].trim()).1);
        let pool = pool.filter(|_| target.row.is_named());
        if let Some(problem) = pool.and_then(|name| read::wrong_name(key.trim(), name, &at_key)) {
            return self.problems.push(problem);
        }
        let typed = read::value(&origin, key.trim(), target.row, &raw, self.problems);
        let lay = |section: &mut Section| match (target.entry, pool) {
            (_, Some(name)) => section.set_named(name, target.row, typed.clone()),
            (Some(_), None) => section.lay_over(target.row, typed.clone()),
            (None, None) => section.set(target.row, typed.clone()),
        };
        match target.sites {
            None => lay(&mut self.written.global),
            Some(Sites::All) => self.written.sites.iter_mut().map(|site| &mut site.values).for_each(lay),
            Some(Sites::One(number)) => lay(&mut self.written.sites[number].values),
        }
    }

    /// What `key` names: `http.keep_alive`, `php.ini.memory_limit`, `site.root`, `site.NAME.root`.
    fn target<'k>(&self, key: &'k str, at: &At) -> Result<Target<'k>, Box<Problem>> {
        let Some(in_site) = key.strip_prefix("site.") else {
            let found = row_of(Scope::Global, key);
            return found
                .map(|(row, entry)| Target { row, entry, sites: None })
                .ok_or_else(|| Box::new(read::unknown_key(Scope::Global, key, at)));
        };
        if let Some((row, entry)) = row_of(Scope::Site, in_site) {
            return Ok(Target { row, entry, sites: Some(Sites::All) });
        }
        for (name, number) in self.names() {
            let Some(rest) = in_site.strip_prefix(&*name).and_then(|rest| rest.strip_prefix('.')) else {
                continue;
            };
            return row_of(Scope::Site, rest)
                .map(|(row, entry)| Target { row, entry, sites: Some(Sites::One(number)) })
                .ok_or_else(|| Box::new(read::unknown_key(Scope::Site, rest, at)));
        }
        Err(Box::new(self.no_site(in_site, at)))
    }

    /// The names of all sites, longest first, each with its site's number.
    fn names(&self) -> Vec<(String, usize)> {
        let mut names = Vec::new();
        for (number, site) in self.written.sites.iter().enumerate() {
            if let Some(Typed { value: Some(Value::Texts(texts)), .. }) = site.values.get("site.names") {
                names.extend(texts.iter().map(|(name, _)| (name.clone(), number)));
            }
        }
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names
    }

    /// The problem of `site.NAME.key` if no site has this NAME, or there is no such key.
    fn no_site(&self, in_site: &str, at: &At) -> Problem {
        let key = table::rows()
            .filter_map(Setting::key_in_site)
            .find(|key| in_site.strip_suffix(key).is_some_and(|name| name.ends_with('.')));
        let Some(key) = key else { return read::unknown_key(Scope::Site, in_site, at) };
        let name = in_site.strip_suffix(key).unwrap_or(in_site).trim_end_matches('.');
        let names = self.names();
        let cure = match suggest::nearest(name, names.iter().map(|(name, _)| &**name)) {
            Some(near) => format!("did you mean `site.{near}.{key}`?"),
            None if names.is_empty() => format!("no site has a name; write `site.{key}` for every site"),
            None => {
                let names: Vec<&str> = names.iter().map(|(name, _)| &**name).take(10).collect();
                format!("the sites are {}; write `site.{key}` for every site", names.join(", "))
            }
        };
        Problem::error(What::NotFound, format!("no site is named \"{}\"", shown(name)), cure)
            .at(Some(at), "no such site")
    }
}

struct Target<'k> {
    row: &'static Setting,
    /// The name in an open table, if the key continues below one.
    entry: Option<&'k str>,
    /// `None`: outside of sites.
    sites: Option<Sites>,
}

enum Sites {
    All,
    One(usize),
}

fn row_of(scope: Scope, path: &str) -> Option<(&'static Setting, Option<&str>)> {
    if let Some(row) = scope.row(path) {
        return Some((row, None));
    }
    table::rows().filter(|row| row.kind.is_open_table()).find_map(|row| {
        let entry = path.strip_prefix(scope.key_of(row)?)?.strip_prefix('.')?;
        (!entry.is_empty()).then_some((row, Some(entry)))
    })
}

/// Reads a list, table or quoted string as TOML; takes anything else literally.
fn value_of(origin: &Arc<Origin>, start: usize, value: &str) -> Result<Raw, Problem> {
    if value.trim_start().starts_with(['[', '{', '"', '\'']) {
        return read::toml_value(origin, start);
    }
    let lead = value.len() - value.trim_start().len();
    let word = value.trim();
    Ok(Raw::bare(word, start + lead..start + lead + word.len()))
}

/// A site for the directory on the command line; without one, for the current directory.
pub(crate) fn folder(argument: Option<&std::path::Path>, environment: &Environment<'_>) -> WrittenTable {
    let dir = argument.unwrap_or(std::path::Path::new("."));
    let origin = Origin::argument(dir.display().to_string(), &environment.current_dir);
    let at = At::new(&origin, 0..origin.text.len());
    let root = crate::value::joined(&environment.current_dir, dir);
    let mut values = Section::default();
    values.set(
        table::find("site.root").expect("a row"),
        Typed { value: Some(Value::Path(Some(root))), at: at.clone() },
    );
    WrittenTable { at: Some(at), values, rules: Vec::new() }
}

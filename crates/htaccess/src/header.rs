//! `Header` and `RequestHeader` (mod_headers).

use crate::effort;
use crate::expression::{Expression, Scope, Word};
use crate::pattern::{Pattern, TooManySteps};
use crate::template::Variable;

/// Longest value that changes may make, bytes.
const LONGEST: usize = 32 << 10;

/// A change of header fields.
#[derive(Clone, Debug)]
pub struct Change {
    /// `always`: also on error responses, among fields of their own.
    pub always: bool,
    /// What is done.
    pub action: Action,
    /// The field's name.
    pub name: String,
    /// When it is done.
    pub when: When,
}

/// What is done to a field.
#[derive(Clone, Debug)]
pub enum Action {
    /// Replaces it.
    Set(Value),
    /// Sets it if it is missing.
    SetIfEmpty(Value),
    /// Adds to its list.
    Append(Value),
    /// Adds to its list what is not in it.
    Merge(Value),
    /// Adds a field.
    Add(Value),
    /// Removes it.
    Unset,
    /// Replaces the first match in its value, or all.
    Edit(Pattern, Value, bool),
    /// Copies request fields into the response if their names match.
    Echo(Pattern),
    /// A note for Apache's modules: nothing.
    Note,
}

/// A condition.
#[derive(Clone, Debug)]
pub enum When {
    /// Always.
    Always,
    /// `env=NAME`, `env=!NAME`
    Environment(bool, String),
    /// `expr=`
    Expression(Box<Expression>),
}

/// A value with references to environment variables, or an expression.
#[derive(Clone, Debug)]
pub struct Value(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Variable(Variable),
    Expression(Word),
}

impl Value {
    fn new(text: &str) -> Result<Value, String> {
        if let Some(expression) = text.strip_prefix("expr=") {
            return Ok(Value(vec![Part::Expression(Word::new(expression)?)]));
        }
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            plain.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if let Some(after) = after.strip_prefix('%') {
                plain.push('%');
                rest = after;
                continue;
            }
            let inner = after.strip_prefix('{').and_then(|after| after.split_once('}'));
            let Some((name, after)) = inner.filter(|(_, after)| after.starts_with(['e', 's'])) else {
                return Err(format!(
                    "\"{text}\": of the formats only %%, %{{NAME}}e and %{{NAME}}s are supported"
                ));
            };
            parts.push(Part::Text(std::mem::take(&mut plain)));
            parts.push(Part::Variable(if after.starts_with('e') {
                Variable::Environment(name.to_owned())
            } else {
                Variable::new(name)
            }));
            rest = &after[1..];
        }
        plain.push_str(rest);
        parts.push(Part::Text(plain));
        Ok(Value(parts))
    }

    fn text(&self, scope: &impl Scope) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.0 {
            if effort::spend(1).is_err() {
                break;
            }
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Expression(word) => out.extend(word.text(scope)),
                Part::Variable(variable) => match scope.value(variable) {
                    value if value.is_empty() => out.extend_from_slice(b"(null)"),
                    value => out.extend(value),
                },
            }
            if out.len() > LONGEST {
                effort::exhaust();
                break;
            }
        }
        out
    }
}

impl Change {
    /// Reads the arguments of `Header`, or of `RequestHeader`.
    ///
    /// # Errors
    /// It is malformed; or, with `true`, not supported.
    pub fn new(words: &[String], is_request: bool) -> Result<Change, (String, bool)> {
        let invalid = |text: &str| (text.to_owned(), false);
        let mut words = words;
        let mut always = false;
        if let [first, rest @ ..] = words
            && !is_request
            && ["always", "onsuccess"].contains(&first.to_ascii_lowercase().as_str())
        {
            always = first.eq_ignore_ascii_case("always");
            words = rest;
        }
        let [action, name, rest @ ..] = words else {
            return Err(invalid("an action and a field are needed"));
        };
        let name = name.strip_suffix(':').unwrap_or(name);
        let is_echo = action.eq_ignore_ascii_case("echo") && !is_request;
        if name.is_empty()
            || !is_echo && !name.bytes().all(|b| b.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&b))
        {
            return Err((format!("\"{name}\" is no name of a field"), false));
        }
        let takes = match action.to_ascii_lowercase().as_str() {
            "unset" => 0,
            "echo" if is_echo => 0,
            "note" if !is_request => 1,
            "edit" | "edit*" => 2,
            "set" | "setifempty" | "append" | "merge" | "add" => 1,
            _ => return Err((format!("unknown action \"{action}\""), false)),
        };
        if rest.len() < takes {
            return Err(invalid("a value is missing"));
        }
        let (arguments, when) = rest.split_at(takes);
        let value = || Value::new(&arguments[0]).map_err(|why| (why, true));
        let action = match action.to_ascii_lowercase().as_str() {
            "set" => Action::Set(value()?),
            "setifempty" => Action::SetIfEmpty(value()?),
            "append" => Action::Append(value()?),
            "merge" => Action::Merge(value()?),
            "add" => Action::Add(value()?),
            "unset" => Action::Unset,
            "note" => Action::Note,
            "echo" => Action::Echo(Pattern::new(name, true).map_err(|why| (why, true))?),
            edit => {
                let pattern = Pattern::new(&arguments[0], false).map_err(|why| (why, true))?;
                let replacement = Value::new(&arguments[1]).map_err(|why| (why, true))?;
                Action::Edit(pattern, replacement, edit == "edit*")
            }
        };
        Ok(Change { always, action, name: name.to_owned(), when: when_of(when)? })
    }

    /// Whether it asks by an expression, which may look at the response.
    pub fn sees_response(&self) -> bool {
        let has_expression = |value: &Value| matches!(value.0[..], [Part::Expression(_)]);
        matches!(self.when, When::Expression(_))
            || match &self.action {
                Action::Set(value)
                | Action::SetIfEmpty(value)
                | Action::Append(value)
                | Action::Merge(value)
                | Action::Add(value)
                | Action::Edit(_, value, _) => has_expression(value),
                Action::Unset | Action::Echo(_) | Action::Note => false,
            }
    }

    /// Applies it to a list of fields.
    ///
    /// # Errors
    /// A regular expression took too many steps.
    pub fn apply(&self, fields: &mut Vec<(String, Vec<u8>)>, scope: &impl Scope) -> Result<(), TooManySteps> {
        effort::spend(fields.iter().map(|(name, value)| name.len() + value.len() / 16).sum())?;
        let holds = match &self.when {
            When::Always => true,
            When::Environment(is_set, name) => scope.has_variable(name) == *is_set,
            When::Expression(expression) => expression.holds(scope)?,
        };
        if !holds {
            return Ok(());
        }
        let is_it = |(name, _): &(String, Vec<u8>)| name.eq_ignore_ascii_case(&self.name);
        let known = fields.iter().position(is_it);
        let mut add = |value| fields.push((self.name.clone(), value));
        match &self.action {
            Action::Set(value) => {
                let value = value.text(scope);
                fields.retain(|field| !is_it(field));
                fields.push((self.name.clone(), value));
            }
            Action::SetIfEmpty(value) if known.is_none() => add(value.text(scope)),
            Action::SetIfEmpty(_) => {}
            Action::Add(value) => add(value.text(scope)),
            Action::Unset => fields.retain(|field| !is_it(field)),
            Action::Append(value) | Action::Merge(value) => {
                let value = value.text(scope);
                match known {
                    None => add(value),
                    Some(at) => {
                        let list = &mut fields[at].1;
                        let has = |item: &[u8]| item.trim_ascii() == value.trim_ascii();
                        let is_merge = matches!(self.action, Action::Merge(_));
                        if !(is_merge && list.split(|b| *b == b',').any(has)) {
                            list.extend_from_slice(b", ");
                            list.extend(value);
                        }
                    }
                }
            }
            Action::Echo(pattern) => {
                for (name, value) in scope.request_fields() {
                    if pattern.matches(name.as_bytes())? {
                        fields.push((name, value));
                    }
                }
            }
            Action::Note => {}
            Action::Edit(pattern, replacement, all) => {
                let replacement = replacement.text(scope);
                for (_, value) in fields.iter_mut().filter(|field| is_it(field)) {
                    *value = edited(value, pattern, &replacement, *all)?;
                }
            }
        }
        // Each line could double a value.
        let is_long = |(_, value): &(String, Vec<u8>)| value.len() > LONGEST;
        if fields.iter().any(is_long) { Err(TooManySteps) } else { Ok(()) }
    }
}

fn when_of(words: &[String]) -> Result<When, (String, bool)> {
    match words {
        [] => Ok(When::Always),
        [word] if word.starts_with("env=") => Ok(match word[4..].strip_prefix('!') {
            Some(name) => When::Environment(false, name.to_owned()),
            None => When::Environment(true, word[4..].to_owned()),
        }),
        [word] if word.starts_with("expr=") => {
            Ok(When::Expression(Box::new(Expression::parse(&word[5..]).map_err(|why| (why, true))?)))
        }
        _ => Err((format!("can't read \"{}\"", words.join(" ")), false)),
    }
}

fn edited(value: &[u8], pattern: &Pattern, replacement: &[u8], all: bool) -> Result<Vec<u8>, TooManySteps> {
    let (mut out, mut from) = (Vec::new(), 0);
    while let Some(found) = pattern.captures_at(value, from)? {
        let (start, end) = found.span();
        out.extend_from_slice(&value[from..start]);
        let mut bytes = replacement.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            match (byte, bytes.peek().copied()) {
                (b'$', Some(digit @ b'0'..=b'9')) => {
                    out.extend_from_slice(found.group(usize::from(digit - b'0')));
                    bytes.next();
                }
                (b'\\', Some(next)) => {
                    out.push(next);
                    bytes.next();
                }
                (byte, _) => out.push(byte),
            }
        }
        from = end;
        if start == end {
            out.extend(value.get(end));
            from = end + 1;
        }
        if out.len() > LONGEST {
            return Err(TooManySteps);
        }
        if !all || from > value.len() {
            break;
        }
    }
    out.extend_from_slice(value.get(from..).unwrap_or_default());
    Ok(out)
}

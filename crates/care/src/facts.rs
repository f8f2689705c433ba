//! What a look has found: figures, words and lists by name, and for each area that could not be looked at, why.

use std::collections::BTreeMap;

use serde_json::Value;

/// Why a figure is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blind {
    /// It may exist, but this process could not read it; the text says why and what would help.
    CouldNotLook(String),
    /// This machine, server or site has nothing of the kind: the check does not apply.
    DoesNotApply(String),
}

impl Blind {
    /// The reason.
    pub fn why(&self) -> &str {
        match self {
            Blind::CouldNotLook(why) | Blind::DoesNotApply(why) => why,
        }
    }
}

/// Named facts of one moment. A name is `area.rest`; an area is read by one reader, wholly or not at all.
///
/// Units are those of the source: ticks of 10 ms for processor time, KiB for /proc/meminfo, seconds where a name ends in
/// `seconds`, bytes where it ends in `bytes`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    figures: BTreeMap<String, f64>,
    words: BTreeMap<String, String>,
    lists: BTreeMap<String, Vec<Facts>>,
    blind: BTreeMap<String, Blind>,
}

impl Facts {
    /// A figure.
    ///
    /// # Errors
    /// It is not there: why.
    pub fn figure(&self, name: &str) -> Result<f64, Blind> {
        self.figures.get(name).copied().ok_or_else(|| self.why(name))
    }

    /// A text.
    ///
    /// # Errors
    /// It is not there: why.
    pub fn word(&self, name: &str) -> Result<&str, Blind> {
        self.words.get(name).map(String::as_str).ok_or_else(|| self.why(name))
    }

    /// A text, or an empty one where there is none.
    pub fn text(&self, name: &str) -> &str {
        self.words.get(name).map_or("", String::as_str)
    }

    /// A list.
    ///
    /// # Errors
    /// It is not there: why.
    pub fn list(&self, name: &str) -> Result<&[Facts], Blind> {
        self.lists.get(name).map(Vec::as_slice).ok_or_else(|| self.why(name))
    }

    /// Whether a figure is there and not 0.
    pub fn is_on(&self, name: &str) -> bool {
        self.figures.get(name).is_some_and(|figure| *figure != 0.0)
    }

    /// Why a name is not there: its area was not looked at, or has no such thing.
    fn why(&self, name: &str) -> Blind {
        let area = name.split('.').next().unwrap_or(name);
        let unknown = || Blind::CouldNotLook(format!("{name} is not reported here"));
        self.blind.get(name).or_else(|| self.blind.get(area)).cloned().unwrap_or_else(unknown)
    }

    /// Sets a figure.
    pub fn set(&mut self, name: impl Into<String>, figure: f64) {
        self.figures.insert(name.into(), figure);
    }

    /// Sets a text.
    pub fn say(&mut self, name: impl Into<String>, word: impl Into<String>) {
        self.words.insert(name.into(), word.into());
    }

    /// Sets a list.
    pub fn put(&mut self, name: impl Into<String>, list: Vec<Facts>) {
        self.lists.insert(name.into(), list);
    }

    /// Notes why an area, or a single name, is not there.
    pub fn missing(&mut self, area: impl Into<String>, why: Blind) {
        self.blind.insert(area.into(), why);
    }

    /// Adds a reader's result for an area: its facts, or why there are none.
    pub fn add(&mut self, area: &str, read: Result<Facts, Blind>) {
        match read {
            Err(why) => self.missing(area, why),
            Ok(facts) => {
                let name = |name: &String| format!("{area}.{name}");
                self.figures.extend(facts.figures.iter().map(|(key, value)| (name(key), *value)));
                self.words.extend(facts.words.iter().map(|(key, value)| (name(key), value.clone())));
                self.lists.extend(facts.lists.into_iter().map(|(key, value)| (name(&key), value)));
                self.blind.extend(facts.blind.into_iter().map(|(key, value)| (name(&key), value)));
            }
        }
    }

    /// Adds all facts of another one, which win.
    pub fn merge(&mut self, other: &Facts) {
        self.figures.extend(other.figures.clone());
        self.words.extend(other.words.clone());
        self.lists.extend(other.lists.clone());
        self.blind.extend(other.blind.clone());
    }

    /// JSON as facts: members of members are joined with dots, arrays of objects become lists, and an array of texts
    /// becomes one text.
    pub fn from_json(value: &Value) -> Facts {
        let mut facts = Facts::default();
        facts.take_json("", value);
        facts
    }

    fn take_json(&mut self, name: &str, value: &Value) {
        match value {
            Value::Null => {}
            Value::Bool(is) => self.set(name, f64::from(u8::from(*is))),
            Value::Number(number) => self.set(name, number.as_f64().unwrap_or_default()),
            Value::String(text) => {
                // Databases write their figures as text.
                if let Some(figure) = text.parse::<f64>().ok().filter(|figure| figure.is_finite()) {
                    self.set(name, figure);
                }
                self.say(name, text);
            }
            Value::Array(items) if items.iter().all(Value::is_string) && !items.is_empty() => {
                let texts: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                self.say(name, texts.join(", "));
            }
            Value::Array(items) => self.put(name, items.iter().map(Facts::from_json).collect()),
            Value::Object(members) => {
                for (key, value) in members {
                    let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                    self.take_json(&name, value);
                }
            }
        }
    }

    /// A list that can be changed, for tests.
    #[cfg(test)]
    pub fn items(&mut self, name: &str) -> &mut Vec<Facts> {
        self.lists.get_mut(name).unwrap_or_else(|| panic!("no list {name}"))
    }
}

/// Two looks, the time between them, and their difference.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// The first look.
    pub before: &'a Facts,
    /// The second look.
    pub now: &'a Facts,
    /// Seconds between them; more than 0.
    pub seconds: f64,
}

impl<'a> Span<'a> {
    /// A figure of the second look.
    ///
    /// # Errors
    /// It is not there: why.
    pub fn now(&self, name: &str) -> Result<f64, Blind> {
        self.now.figure(name)
    }

    /// How much a counter has risen; 0 if it began again between the looks.
    ///
    /// # Errors
    /// One of the looks lacks it: why.
    pub fn rise(&self, name: &str) -> Result<f64, Blind> {
        Ok((self.now.figure(name)? - self.before.figure(name)?).max(0.0))
    }

    /// How much a counter rises per second.
    ///
    /// # Errors
    /// One of the looks lacks it: why.
    pub fn rate(&self, name: &str) -> Result<f64, Blind> {
        Ok(self.rise(name)? / self.seconds)
    }

    /// The items of a list in both looks, matched by their word `key`.
    ///
    /// # Errors
    /// One of the looks lacks the list: why.
    pub fn pairs(&self, name: &str, key: &str) -> Result<Vec<Span<'a>>, Blind> {
        let before = self.before.list(name)?;
        let find = |item: &Facts| before.iter().find(|other| other.text(key) == item.text(key));
        let pair = |now| Some(Span { before: find(now)?, now, seconds: self.seconds });
        Ok(self.now.list(name)?.iter().filter_map(pair).collect())
    }
}

/// `part` of `whole` in percent; 0 of nothing.
pub fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part * 100.0 / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_becomes_flat() {
        let facts = Facts::from_json(&json!({
            "a": {"b": 2, "on": true, "size": "12", "mode": "ON"}, "names": ["x", "y"], "none": null, "empty": [],
            "list": [{"pid": 7}, {"pid": 8}],
        }));
        assert_eq!((facts.figure("a.b"), facts.figure("a.size")), (Ok(2.0), Ok(12.0)));
        assert_eq!((facts.word("a.mode"), facts.word("names")), (Ok("ON"), Ok("x, y")));
        assert!(facts.is_on("a.on") && !facts.is_on("a.mode"));
        assert_eq!(facts.list("list").map(|list| list[1].figure("pid")), Ok(Ok(8.0)));
        assert_eq!(facts.list("empty").map(<[Facts]>::len), Ok(0));
        assert!(facts.figure("none").is_err());
    }

    #[test]
    fn what_is_missing_has_its_reason() {
        let mut facts = Facts::default();
        facts.add("swap", Err(Blind::DoesNotApply("no swap".to_owned())));
        facts.add("cpu", Ok(Facts::from_json(&json!({"count": 2}))));
        assert_eq!(facts.figure("swap.total"), Err(Blind::DoesNotApply("no swap".to_owned())));
        assert_eq!(facts.figure("cpu.count"), Ok(2.0));
        let why = facts.figure("cpu.steal").expect_err("not there");
        assert_eq!(why, Blind::CouldNotLook("cpu.steal is not reported here".to_owned()));
    }

    #[test]
    fn counters_that_begin_again_do_not_rise() {
        let at = |figure: f64| {
            let mut facts = Facts::default();
            facts.set("a.n", figure);
            facts
        };
        let (low, high) = (at(10.0), at(30.0));
        let rises = |before, now| Span { before, now, seconds: 4.0 }.rate("a.n");
        assert_eq!((rises(&low, &high), rises(&high, &low)), (Ok(5.0), Ok(0.0)));
        assert!(rises(&Facts::default(), &high).is_err());
    }
}

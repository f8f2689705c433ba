//! Samples of what PHP workers do: where each one's script is, several times between the two looks.
//!
//! The PHP host reads its workers' memory without stopping them (`GET /php.json` of the admin address), so a sample costs
//! no script anything.

use serde_json::Value;

use crate::facts::{Blind, Facts};

/// What a script waits for.
const KINDS: &[(&str, &str)] = &[
    ("time to pass", "sleep"),
    ("the database", "database"),
    ("another server", "remote"),
    ("a name server", "names"),
    ("the object cache", "object cache"),
    ("the session lock", "lock"),
    ("a lock", "lock"),
    ("another program", "program"),
];

/// Collects samples.
#[derive(Debug, Default)]
pub struct Samples {
    taken: u32,
    runs: Vec<Facts>,
    failure: Option<String>,
}

impl Samples {
    /// Adds a response of /php.json, or why there is none.
    pub fn add(&mut self, response: Result<Value, String>) {
        let php = match response {
            Ok(php) => php,
            Err(why) => {
                self.failure = Some(why);
                return;
            }
        };
        self.taken += 1;
        let services = php["services"].as_array().into_iter().flatten();
        let running = services.flat_map(|service| service["running"].as_array().into_iter().flatten());
        self.runs.extend(running.map(run));
    }

    /// The area samples: the figure `taken`, and the list `runs` of `kind`, `waits`, `script`, `page`, `blame`, `place`,
    /// `seconds`.
    ///
    /// # Errors
    /// No sample could be taken: why.
    pub fn finish(self) -> Result<Facts, Blind> {
        if self.taken == 0 {
            let why = self.failure.unwrap_or_else(|| "no sample was taken".to_owned());
            return Err(Blind::CouldNotLook(why));
        }
        let mut facts = Facts::default();
        facts.set("taken", f64::from(self.taken));
        facts.put("runs", self.runs);
        Ok(facts)
    }
}

fn run(value: &Value) -> Facts {
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    let frames: Vec<&str> =
        value["frames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut facts = Facts::default();
    facts.say("script", text("script"));
    facts.say("page", text("page"));
    facts.say("waits", text("waits"));
    facts.set("seconds", value["seconds"].as_f64().unwrap_or_default());
    facts.set("pid", value["pid"].as_f64().unwrap_or_default());
    facts.say("kind", kind(text("waits")));
    if let Some((blame, place)) = blame(&frames) {
        facts.say("blame", blame);
        facts.say("place", place);
    }
    facts
}

/// What kind of thing a script waits for; `cpu` if it runs.
fn kind(waits: &str) -> &'static str {
    if waits.is_empty() {
        return "cpu";
    }
    if let Some((_, kind)) = KINDS.iter().find(|(words, _)| waits.contains(&format!("for {words}"))) {
        return kind;
    }
    // A call of PHP without a name of its own, such as file_get_contents(): the socket says it.
    let to = waits.rsplit_once(" for ").map_or("", |(_, to)| to);
    match to.rsplit_once(':').map(|(_, port)| port) {
        _ if to.contains("mysqld") || to.ends_with(".sock") || to.ends_with(":3306") => "database",
        Some(port) if port.parse::<u16>().is_ok() => "remote",
        _ => "other",
    }
}

/// The innermost plugin or theme among the frames, and the frame's file and line: `plugin slow-thing`,
/// `/srv/.../slow.php:12`.
fn blame(frames: &[&str]) -> Option<(String, String)> {
    let mut first = None;
    for frame in frames {
        let Some((_, place)) = frame.split_once(" in ") else { continue };
        first.get_or_insert(place);
        for (folder, what) in
            [("/plugins/", "plugin"), ("/mu-plugins/", "must-use plugin"), ("/themes/", "theme")]
        {
            if let Some((_, rest)) = place.split_once(&format!("/wp-content{folder}")) {
                let name = rest.split(['/', ':']).next().unwrap_or(rest);
                return Some((format!("{what} {}", name.trim_end_matches(".php")), place.to_owned()));
            }
        }
    }
    first.map(|place| {
        let file = place.rsplit_once(':').map_or(place, |(file, _)| file);
        (file.to_owned(), place.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_script_waits_for() {
        assert_eq!(kind(""), "cpu");
        assert_eq!(kind("for time to pass, in usleep(): nanosleep()"), "sleep");
        assert_eq!(kind("for the database, in mysqli_query(): poll() for 127.0.0.1:3306"), "database");
        assert_eq!(kind("for another server, in curl_exec(): poll()"), "remote");
        assert_eq!(kind("in file_get_contents(): poll() for 192.0.2.1:80"), "remote");
        assert_eq!(kind("in PDO::query(): read() for /run/mysqld/mysqld.sock"), "database");
        assert_eq!(kind("for the session lock, in session_start(): flock()"), "lock");
        assert_eq!(kind("in fread(): read()"), "other");
    }

    #[test]
    fn the_plugin_is_named() {
        let frames = [
            "#0 usleep()",
            "#1 slow() in /srv/wp-content/plugins/slow-thing/inc/a.php:12",
            "#2 apply() in /srv/wp-includes/plugin.php:9",
        ];
        let (blame, place) = super::blame(&frames).expect("a plugin");
        assert_eq!(
            (&*blame, &*place),
            ("plugin slow-thing", "/srv/wp-content/plugins/slow-thing/inc/a.php:12")
        );
        assert_eq!(
            super::blame(&["#0 f() in /srv/wp-content/mu-plugins/x.php:3"]).expect("one").0,
            "must-use plugin x"
        );
        assert_eq!(super::blame(&["#0 f() in /srv/a.php:3"]).expect("one").0, "/srv/a.php");
        assert_eq!(super::blame(&["#0 usleep()"]), None);
    }

    #[test]
    fn samples_add_up() {
        let mut samples = Samples::default();
        let run =
            json!({"pid": 7, "script": "/a.php", "page": "a/", "seconds": 0.5, "waits": "", "frames": []});
        samples.add(Ok(json!({"services": [{"running": [run]}, {"running": []}]})));
        samples.add(Err("gone".to_owned()));
        let facts = samples.finish().expect("one was taken");
        assert_eq!((facts.figure("taken"), facts.list("runs").map(<[Facts]>::len)), (Ok(1.0), Ok(1)));
        let mut none = Samples::default();
        none.add(Err("gone".to_owned()));
        assert_eq!(none.finish(), Err(Blind::CouldNotLook("gone".to_owned())));
    }
}

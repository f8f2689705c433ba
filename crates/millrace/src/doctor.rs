//! `doctor`: chooses the server and the sites, looks twice, prints the report.

pub mod live;

use std::io::IsTerminal;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use millrace_care::checks::{Examination, examine};
use millrace_care::facts::{Blind, Facts, Span};
use millrace_care::look::{Probe, Samples, Sources, look};
use millrace_care::report::{self, Style};
use millrace_settings::plan::Address;
use serde_json::Value;

use crate::admin::{ask, find};
use crate::args::{AdminArgs, DoctorArgs};
use crate::failure::{Explain, Failure};
use crate::http::{HttpRequest, exchange};
use crate::serve::say;

/// Time between two samples of the PHP workers.
const SAMPLE: Duration = Duration::from_millis(200);
/// Sites whose files and databases are looked at, if none is named; each may take a second.
const SITES_MOST: usize = 50;
/// How long a page may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is looked at.
pub struct Patient {
    admin: AdminArgs,
    sites: Vec<PathBuf>,
    /// Sites of the server that are not looked at, because there are too many.
    sites_left: usize,
    /// Whether the server is on another machine, of which only the server itself can be asked.
    is_remote: bool,
    /// Why the server is not looked at, if it is another one's.
    not_it: Option<String>,
    /// Host, address and target of the URL; or why its page is not requested.
    url: Result<(String, Address, String), Blind>,
}

/// Looks, and prints what was found; whether there was an error among it.
///
/// # Errors
/// There is no such site or check.
pub fn doctor(args: &DoctorArgs) -> Result<bool, Failure> {
    if let Some(id) = &args.explain {
        let none =
            || Failure::new(format!("there is no check {id}")).next("docs/doctor-checks.md lists them");
        return say(&report::explain(id).ok_or_else(none)?).map(|()| false);
    }
    let patient = Patient::of(args, is_remote(&args.admin))?;
    let style = Style { verbose: args.verbose, color: std::io::stdout().is_terminal() };
    let mut before = patient.look();
    loop {
        let due = before.1 + Duration::from_secs(args.seconds.into());
        let (all, now) = patient.examine(&before, due, &|| false);
        tell(args, &all, (now.1 - before.1).as_secs_f64(), style)?;
        if !args.watch {
            return Ok(all.has_errors());
        }
        before = now;
    }
}

fn tell(args: &DoctorArgs, all: &Examination, seconds: f64, style: Style) -> Result<(), Failure> {
    match (args.json, args.watch) {
        (true, false) => say(&format!("{:#}", report::json(all, seconds))),
        (true, true) => say(&report::json(all, seconds).to_string()),
        (false, _) => say(report::text(all, seconds, style).trim_end()),
    }
}

impl Patient {
    /// The server and the sites that the arguments name; `is_remote`: on another machine.
    ///
    /// # Errors
    /// There is no such site.
    pub fn of(args: &DoctorArgs, is_remote: bool) -> Result<Patient, Failure> {
        let mut patient = Patient {
            admin: args.admin.clone(),
            sites: Vec::new(),
            sites_left: 0,
            is_remote,
            not_it: None,
            url: Err(Blind::DoesNotApply("no URL was given".to_owned())),
        };
        let status = patient.json("/status.json");
        match args.site.as_deref() {
            None if patient.is_remote => {}
            None => {
                patient.sites = sites_of(status.as_ref().ok());
                patient.sites_left = patient.sites.len().saturating_sub(SITES_MOST);
                patient.sites.truncate(SITES_MOST);
            }
            Some(site) if site.contains("://") => patient.by_url(site, status)?,
            Some(site) => patient.by_folder(Path::new(site), status.as_ref().ok())?,
        }
        Ok(patient)
    }

    fn by_folder(&mut self, folder: &Path, status: Option<&Value>) -> Result<(), Failure> {
        let folder = folder.canonicalize().or_fail(|| format!("cannot find {}", folder.display()))?;
        if !folder.is_dir() {
            return Err(Failure::new(format!("{} is no folder", folder.display()))
                .next("name the folder of a site, or its URL"));
        }
        let is_served = |status: &Value| {
            roots(status).any(|(root, _)| root.canonicalize().is_ok_and(|root| root == folder))
        };
        if status.is_some_and(|status| !is_served(status)) {
            self.not_it = Some(format!(
                "the Millrace that answers does not serve {}: give its --admin or --config",
                folder.display()
            ));
        }
        self.sites = vec![folder];
        Ok(())
    }

    fn by_url(&mut self, url: &str, status: Result<Value, String>) -> Result<(), Failure> {
        let status = status.map_err(|why| {
            Failure::new(why).next("name the folder of the site instead, if no Millrace serves it")
        })?;
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let name = host
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
            .map_or(host, |(name, _)| name);
        let all = status["sites"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has_name = |site: &&Value| {
            site["names"]
                .as_array()
                .is_some_and(|names| names.iter().any(|other| other.as_str() == Some(name)))
        };
        let site = all
            .iter()
            .find(has_name)
            .or_else(|| all.iter().find(|site| site["default"] == true || all.len() == 1));
        let root = site.and_then(|site| site["root"].as_str());
        let root = root.ok_or_else(|| {
            Failure::new(format!("the server has no site {name}")).next("`millrace status` lists its sites")
        })?;
        self.sites = vec![root.into()];
        let by_curl = format!(
            "the doctor requests no page by {scheme}; `curl -so /dev/null -w '%{{time_total}}' {url}` measures it"
        );
        self.url = Err(Blind::CouldNotLook(by_curl));
        let plain = status["listen"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut plain = plain.filter_map(|address| match address.strip_prefix("unix:") {
            Some(path) => Some(Address::Unix(path.into())),
            None => address.parse().ok().map(Address::Tcp),
        });
        if scheme == "http"
            && let Some(address) = plain.next()
        {
            let target = if path.is_empty() { "/" } else { path };
            self.url = Ok((host.to_owned(), reachable(address), target.to_owned()));
        }
        Ok(())
    }

    /// Everything that can be seen now, and when.
    pub fn look(&self) -> (Facts, Instant) {
        let at = Instant::now();
        let ask = |path: &str| self.json(path);
        let sources = Sources {
            root: "/".into(),
            ask: &ask,
            sites: self.sites.clone(),
            probe: Some(Probe::default()),
            is_remote: self.is_remote,
            counts_ports: true,
        };
        let mut facts = look(&sources);
        facts.add("url", self.fetch());
        facts.set("sites_left", self.sites_left as f64);
        (facts, at)
    }

    /// The second look, when it is due or `is_over`, and what both together show.
    pub fn examine(
        &self,
        before: &(Facts, Instant),
        due: Instant,
        is_over: &dyn Fn() -> bool,
    ) -> (Examination, (Facts, Instant)) {
        let samples = self.wait(due, is_over);
        let mut now = self.look();
        now.0.add("samples", samples.finish());
        let seconds = (now.1 - before.1).as_secs_f64();
        (examine(&Span { before: &before.0, now: &now.0, seconds }), now)
    }

    /// Waits until the second look is due, and samples PHP meanwhile.
    fn wait(&self, due: Instant, is_over: &dyn Fn() -> bool) -> Samples {
        sample(&|path| self.json(path), due, is_over)
    }

    /// A path of the admin address as JSON.
    fn json(&self, path: &str) -> Result<Value, String> {
        if let Some(why) = &self.not_it {
            return Err(why.clone());
        }
        let response = ask(&self.admin, "GET", path, b"").map_err(|failure| failure.what().to_owned())?;
        if response.status != 200 {
            return Err(format!(
                "the server answers {path} with {}: it is of another version",
                response.status
            ));
        }
        serde_json::from_str(&response.text()).map_err(|error| format!("{path} is no JSON: {error}"))
    }

    /// Requests the page of the URL.
    fn fetch(&self) -> Result<Facts, Blind> {
        let (host, address, target) = self.url.as_ref().map_err(Clone::clone)?;
        let request = HttpRequest {
            method: "GET",
            target,
            fields: &[("User-Agent", "millrace-doctor".to_owned())],
            body: b"",
        };
        let began = Instant::now();
        let response = exchange(address, host, &request, PATIENCE)
            .map_err(|error| Blind::CouldNotLook(format!("http://{host}{target}: {error}")))?;
        let mut facts = Facts::default();
        facts.set("milliseconds", began.elapsed().as_secs_f64() * 1_000.0);
        facts.set("status", f64::from(response.status));
        facts.say("cache", response.field("cache-status").unwrap_or_default());
        Ok(facts)
    }
}

/// Samples PHP until the second look is due, or `is_over`.
fn sample(ask: &dyn Fn(&str) -> Result<Value, String>, due: Instant, is_over: &dyn Fn() -> bool) -> Samples {
    let mut samples = Samples::default();
    loop {
        samples.add(ask("/php.json"));
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() || is_over() {
            return samples;
        }
        sleep(left.min(SAMPLE));
    }
}

/// Whether the admin address is one of another machine: this one cannot listen at it.
fn is_remote(admin: &AdminArgs) -> bool {
    matches!(find(admin), Ok(Address::Tcp(socket)) if UdpSocket::bind((socket.ip(), 0)).is_err())
}

/// An address that is listened on, as a client can reach it.
fn reachable(address: Address) -> Address {
    match address {
        Address::Tcp(mut socket) if socket.ip().is_unspecified() => {
            socket.set_ip(if socket.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
            Address::Tcp(socket)
        }
        other => other,
    }
}

/// The folders of the sites of a status, and their profiles.
fn roots(status: &Value) -> impl Iterator<Item = (PathBuf, &str)> {
    let sites = status["sites"].as_array().into_iter().flatten();
    sites.filter_map(|site| Some((PathBuf::from(site["root"].as_str()?), site["profile"].as_str()?)))
}

/// The sites that have a database that we know how to ask.
fn sites_of(status: Option<&Value>) -> Vec<PathBuf> {
    let all = status.into_iter().flat_map(roots);
    all.filter(|(_, profile)| *profile == "wordpress").map(|(root, _)| root).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_sites_and_checks() {
        let absent =
            AdminArgs { admin: Some("unix:/nonexistent/millrace.sock".to_owned()), ..AdminArgs::default() };
        let of = |site: &str| DoctorArgs {
            site: Some(site.to_owned()),
            admin: absent.clone(),
            ..DoctorArgs::default()
        };
        for (site, why) in [
            ("/nonexistent/x", "cannot find /nonexistent/x"),
            ("/etc/hosts", "is no folder"),
            ("http://a.test/", "no Millrace answers"),
        ] {
            let failure = doctor(&of(site)).expect_err("bad").to_string();
            assert!(failure.contains(why), "{failure}");
        }
        let failure = doctor(&DoctorArgs { explain: Some("x".to_owned()), ..DoctorArgs::default() })
            .expect_err("no check");
        assert!(failure.to_string().contains("docs/doctor-checks.md"));
    }

    #[test]
    fn machines() {
        let at =
            |admin: &str| is_remote(&AdminArgs { admin: Some(admin.to_owned()), ..AdminArgs::default() });
        assert!(at("192.0.2.1:9100") && !at("127.0.0.1:9100") && !at("unix:/run/millrace.sock"));
    }

    #[test]
    fn addresses_of_listeners() {
        let tcp = |text: &str| Address::Tcp(text.parse().expect("an address"));
        assert_eq!(reachable(tcp("0.0.0.0:80")), tcp("127.0.0.1:80"));
        assert_eq!(reachable(tcp("[::]:80")), tcp("[::1]:80"));
        assert_eq!(reachable(tcp("192.0.2.1:80")), tcp("192.0.2.1:80"));
    }

    #[test]
    fn settings_that_cures_name_exist() {
        let sections = ["server", "http", "https", "php", "cache", "log", "files", "acme", "admin", "site"];
        for check in millrace_care::checks::table() {
            let words = check.cure.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.')));
            let words = words.map(|word| word.trim_end_matches('.'));
            for name in words
                .filter(|word| word.split_once('.').is_some_and(|(section, _)| sections.contains(&section)))
            {
                let is_file = [".ini", ".php", ".md", ".net"].iter().any(|end| name.ends_with(end));
                assert!(
                    is_file || millrace_settings::explain(name).is_ok(),
                    "{}: {name} is no setting",
                    check.id
                );
            }
        }
    }
}

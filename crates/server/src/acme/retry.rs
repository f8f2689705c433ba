//! Failures that outlive the server: a crash loop or repeated restarts must not contact an authority each time,
//! because its rate limits are soon reached.
//!
//! One file per certificate, while its orders fail or one is in progress. It applies only to the same names, settings
//! and replaced certificate.

use std::time::{Duration, SystemTime};

use millrace_settings::plan;
use serde_json::{Value, json};
use twox_hash::XxHash3_64;

use super::WantedCertificate;
use super::failure::AcmeFailure;
use super::kept::StoredCertificate;
use super::schedule::{LONGEST_HELD, LONGEST_PAUSE};
use super::store::Store;

/// The state of the orders for one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Failed orders since the last success.
    pub failures: u32,
    /// Orders since then that a restart interrupted, including the current one.
    pub interrupted: u32,
    /// When this was written.
    pub at: SystemTime,
    /// When the next order may be made.
    pub next: SystemTime,
    /// The authority itself set that time.
    pub is_held: bool,
    /// The last error.
    pub problem: Option<String>,
}

impl Retry {
    /// The stored state; `None`: there is none, or it is damaged, or for something else than `concerns`.
    pub fn load(store: &Store, id: &str, concerns: u64) -> Option<Retry> {
        Retry::parse(&store.read(&file(id)).ok()??, concerns)
    }

    /// Saves it to the folder.
    ///
    /// # Errors
    /// The error with advice.
    pub fn save(&self, store: &Store, id: &str, concerns: u64) -> Result<(), AcmeFailure> {
        let value = json!({
            "concerns": concerns,
            "failures": self.failures,
            "interrupted": self.interrupted,
            "at": seconds(self.at),
            "next": seconds(self.next),
            "held": self.is_held,
            "problem": self.problem,
        });
        store.write(&file(id), value.to_string().as_bytes())
    }

    fn parse(bytes: &[u8], concerns: u64) -> Option<Retry> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let number = |name: &str| value.get(name)?.as_u64();
        let moment = |name: &str| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(number(name)?));
        let count = |name: &str| u32::try_from(number(name)?).ok();
        let retry = Retry {
            failures: count("failures")?,
            interrupted: count("interrupted")?,
            at: moment("at")?,
            next: moment("next")?,
            is_held: value.get("held")?.as_bool()?,
            problem: value.get("problem")?.as_str().map(str::to_owned),
        };
        (number("concerns") == Some(concerns)).then_some(retry)
    }

    /// When the next order may be made, seen from `now`: never later than the pause when this was written, nor than
    /// the longest pause. So a clock that was set back, or nonsense in the file, delays no longer.
    pub fn due(&self, now: SystemTime) -> SystemTime {
        let longest = if self.is_held { LONGEST_HELD } else { LONGEST_PAUSE } * 2;
        let planned = self.next.duration_since(self.at).unwrap_or_default();
        let left = self.next.duration_since(now).unwrap_or_default();
        now + left.min(planned).min(longest)
    }
}

/// Removes the stored state.
pub fn forget(store: &Store, id: &str) {
    store.remove(&file(id));
}

/// A number for the wanted certificate and the one it replaces.
pub fn concerns(settings: &plan::Acme, wanted: &WantedCertificate, kept: Option<&StoredCertificate>) -> u64 {
    let mut text = format!("{settings:?} {:?} ", wanted.names).into_bytes();
    text.extend_from_slice(kept.map_or(&[], |kept| kept.pair.end_entity()));
    XxHash3_64::oneshot(&text)
}

fn file(id: &str) -> String {
    format!("{id}.retry")
}

/// Rounded up: never earlier.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis().div_ceil(1000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn start() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
    }

    fn retry(pause: Duration) -> Retry {
        Retry {
            failures: 3,
            interrupted: 0,
            at: start(),
            next: start() + pause,
            is_held: false,
            problem: Some("no \"way\"".to_owned()),
        }
    }

    #[test]
    fn it_is_kept_and_counts_for_what_was_wanted() {
        let dir = millrace_base::testing::Dir::new("acme-retry");
        let store = Store::for_tests(dir.path("kept"));
        assert_eq!(Retry::load(&store, "a.example", 7), None);
        assert!(retry(HOUR).save(&store, "a.example", 7).is_err(), "no folder");
        store.prepare().unwrap();
        retry(HOUR).save(&store, "a.example", 7).unwrap();
        assert_eq!(Retry::load(&store, "a.example", 7), Some(retry(HOUR)));
        assert_eq!((Retry::load(&store, "a.example", 8), Retry::load(&store, "b.example", 7)), (None, None));
        forget(&store, "a.example");
        assert_eq!(Retry::load(&store, "a.example", 7), None);
    }

    #[test]
    fn damage_does_no_harm() {
        let dir = millrace_base::testing::Dir::new("acme-retry-damage");
        let store = Store::for_tests(dir.path("kept"));
        store.prepare().unwrap();
        retry(HOUR).save(&store, "a", 7).unwrap();
        let good = store.read("a.retry").unwrap().unwrap();
        for end in 0..good.len() {
            assert_eq!(Retry::parse(&good[..end], 7), None);
        }
        for (from, to) in [("3,", "-3,"), ("3,", "3000000000000,"), ("3,", "\"3\","), ("false", "null")] {
            let bad = String::from_utf8(good.clone()).unwrap().replacen(from, to, 1);
            assert_eq!(Retry::parse(bad.as_bytes(), 7), None, "{bad}");
        }
    }

    #[test]
    fn it_is_put_off_no_longer_than_was_meant() {
        let due = |retry: &Retry, now| retry.due(now).duration_since(now).unwrap();
        let hour = retry(HOUR);
        assert_eq!(due(&hour, start()), HOUR);
        assert_eq!(due(&hour, start() + HOUR / 4), HOUR / 4 * 3);
        assert_eq!(due(&hour, start() + HOUR * 2), Duration::ZERO);
        assert_eq!(due(&hour, start() - HOUR * 9999), HOUR, "the clock was set back");
        assert_eq!(due(&retry(HOUR * 999_999), start()), LONGEST_PAUSE * 2, "nonsense");
        let held = |pause| Retry { is_held: true, ..retry(pause) };
        assert_eq!(due(&held(HOUR * 168), start()), HOUR * 168);
        assert_eq!(due(&held(HOUR * 999_999), start()), LONGEST_HELD * 2);
        let backwards = Retry { next: start() - HOUR, ..hour };
        assert_eq!(due(&backwards, start() - HOUR * 2), Duration::ZERO);
        let late = Retry { at: start() + HOUR * 99, next: start() + HOUR * 100, ..backwards };
        assert_eq!(due(&late, start()), HOUR, "from the future");
    }

    #[test]
    fn other_names_settings_or_certificates_are_something_else() {
        let settings = |directory: &str| plan::Acme {
            terms_agreed: true,
            email: None,
            directory: directory.to_owned(),
            ca_file: None,
            dir: None,
            challenge: plan::Challenge::Any,
        };
        let wanted = |names: &[&str]| WantedCertificate {
            id: "a".to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let one = concerns(&settings("https://a/"), &wanted(&["a", "b"]), None);
        assert_eq!(one, concerns(&settings("https://a/"), &wanted(&["a", "b"]), None));
        assert_ne!(one, concerns(&settings("https://b/"), &wanted(&["a", "b"]), None));
        assert_ne!(one, concerns(&settings("https://a/"), &wanted(&["a"]), None));
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
        let kept = StoredCertificate::parse(
            (key.serialize_pem() + &parameters.self_signed(&key).unwrap().pem()).as_bytes(),
        );
        assert_ne!(one, concerns(&settings("https://a/"), &wanted(&["a", "b"]), Some(&kept.unwrap())));
    }
}

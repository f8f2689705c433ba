//! The method of rounds: load, name what holds the server back, change that, load again, keep what helps.
//!
//! ```text
//!  climb:  double the users until the server does not do more, or a condition of --slo is broken
//!            broken -> between the last load that held and this one  -> the load of the rounds that follow
//!  change: settings of the tuner, those first that the doctor asks for
//!            one round with it:  not better -> put back
//!            one round without, one with it: both with it better than both without -> kept, and climb again
//!          until no change is left
//! ```
//!
//! [`play`] decides; a [`Bench`] does the work.

use millrace_care::tune::changes::Change;

use crate::failure::Failure;

/// The least gain that counts as one: below it, two rounds with the same settings differ.
const LEAST_GAIN: f64 = 0.03;
/// Loads that differ by less are one: the search for the highest load that holds ends.
const NEAR: f64 = 1.15;
/// From this share of failed requests on, fewer failures count as a gain.
const MANY_FAILED: f64 = 0.01;

/// What a round has shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// Successful responses, or whole pages, per second.
    pub rate: f64,
    /// Share of the requests that failed: 0 to 1.
    pub failed: f64,
    /// The condition of `--slo` that does not hold, with its figure; `None`: all hold.
    pub broken: Option<String>,
    /// The checks of the doctor that found something, the first to cure first.
    pub findings: Vec<&'static str>,
}

/// Why the rounds end before their time.
#[derive(Debug, PartialEq)]
pub enum Halt {
    /// Ctrl-C.
    Interrupted,
    /// Something does not work.
    Failed(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Halt {
        Halt::Failed(failure)
    }
}

/// What loads the server and changes settings.
pub trait Bench {
    /// A round with so many users, with `tried` in force besides what is kept.
    fn measure(&mut self, users: u32, tried: Option<&Change>) -> Result<Round, Halt>;

    /// Writes the conclusion of the last round into its row.
    fn conclude(&mut self, conclusion: String);

    /// Notes a change that got no round.
    fn note(&mut self, note: String);

    /// Steps that are possible now.
    fn changes(&mut self, findings: &[&'static str]) -> Result<Vec<Change>, Halt>;

    /// Puts exactly these settings in force. `Some`: they can't be set, and why; what is in force then is unknown. [`Bench::changes`] then has the change
    /// without what can't be set, if only a part of it can't.
    fn set(&mut self, changes: &[Change]) -> Result<Option<String>, Halt>;
}

/// Plays the rounds; why they ended.
pub fn play(bench: &mut dyn Bench, users: u32, has_tuner: bool) -> Result<String, Halt> {
    let mut load = climb(bench, users, None)?;
    if !has_tuner {
        return Ok(format!("{}; --tune changes settings", load.words()));
    }
    let mut kept: Vec<Change> = Vec::new();
    let mut tried: Vec<Change> = Vec::new();
    loop {
        let is_new = |change: &Change| !tried.iter().any(|other| names(other) == names(change));
        let Some(change) = bench.changes(&load.last.findings)?.into_iter().find(is_new) else { break };
        tried.push(change.clone());
        if let Some(round) = attempt(bench, load.users, &kept, &change, &load.last)? {
            kept.push(change);
            load = climb(bench, load.users, Some(round))?;
        }
    }
    let held =
        load.last.findings.first().map_or(String::new(), |id| format!("; what holds it back now is {id}"));
    Ok(format!("no setting is left to change{held}; {}", load.words()))
}

impl Load {
    /// How many users the server can serve.
    fn words(&self) -> String {
        match self.is_bounded {
            true => format!("the server holds {} users, not more", self.users),
            false => format!("more users get no more from the server than {}", self.users),
        }
    }
}

fn names(change: &Change) -> Vec<&'static str> {
    change.settings.iter().map(|setting| setting.name).collect()
}

/// The load of the rounds that follow, and the last round with it.
struct Load {
    users: u32,
    last: Round,
    /// Whether more users would break a condition of `--slo`; otherwise the server just does no more with them.
    is_bounded: bool,
}

/// Doubles the users while the server does more and no condition of `--slo` is broken. At first the load is so high that the server does not do more
/// than with half of it, so that its limits show; later, `before` is the last round, and the load rises only if it can.
fn climb(bench: &mut dyn Bench, users: u32, before: Option<Round>) -> Result<Load, Halt> {
    let is_first = before.is_none();
    let mut last = match before {
        Some(round) => round,
        None => bench.measure(users, None)?,
    };
    let mut users = users;
    loop {
        if last.rate == 0.0 {
            return Err(Failure::new(format!("no request of {users} users succeeded"))
                .next("look at the failures above; the rounds need a page that the server can serve")
                .into());
        }
        if is_first && let Some(broken) = &last.broken {
            bench.conclude(format!("{broken}: fewer users"));
            return descend(bench, users);
        }
        let Some(more) = users.checked_mul(2) else { return Ok(Load { users, last, is_bounded: false }) };
        let round = bench.measure(more, None)?;
        if let Some(broken) = &round.broken {
            bench.conclude(format!("{broken}: fewer users"));
            return narrow(bench, (users, last), more);
        }
        let gain = round.rate / last.rate - 1.0;
        let is_more = gain > LEAST_GAIN;
        let load = if is_more || is_first { more } else { users };
        let next = if is_more { "more users".to_owned() } else { format!("{load} users from here on") };
        bench.conclude(format!("{} than with {users} users: {next}", difference(gain)));
        if load == more {
            (users, last) = (more, round);
        }
        if !is_more {
            return Ok(Load { users, last, is_bounded: false });
        }
    }
}

/// Halves the users until all conditions hold.
fn descend(bench: &mut dyn Bench, broken_at: u32) -> Result<Load, Halt> {
    let mut high = broken_at;
    while high > 1 {
        let users = high / 2;
        let round = bench.measure(users, None)?;
        match &round.broken {
            None => return narrow(bench, (users, round), high),
            Some(broken) => bench.conclude(format!("{broken}: fewer users")),
        }
        high = users;
    }
    Err(Failure::new("the server does not hold even one user")
        .next("look at the failures above, or give the load another condition: --slo 'errors<5%'")
        .into())
}

/// Searches for the highest load that holds between one that does and one that does not.
fn narrow(bench: &mut dyn Bench, held: (u32, Round), broken_at: u32) -> Result<Load, Halt> {
    let ((mut users, mut last), mut high) = (held, broken_at);
    while high - users > 1 && f64::from(high) / f64::from(users) > NEAR {
        let between = (f64::from(users) * f64::from(high)).sqrt().round() as u32;
        let between = between.clamp(users + 1, high - 1);
        let round = bench.measure(between, None)?;
        match &round.broken {
            Some(broken) => {
                bench.conclude(format!("{broken}: fewer users"));
                high = between;
            }
            None => {
                bench.conclude("holds".to_owned());
                (users, last) = (between, round);
            }
        }
    }
    Ok(Load { users, last, is_bounded: true })
}

/// Tries a change; the last round with it, if it is kept.
fn attempt(
    bench: &mut dyn Bench,
    users: u32,
    kept: &[Change],
    change: &Change,
    without: &Round,
) -> Result<Option<Round>, Halt> {
    let all: Vec<Change> = kept.iter().chain([change]).cloned().collect();
    if let Some(why) = bench.set(&all)? {
        bench.note(format!("{} is not tried: {why}", names(change).join(", ")));
        bench.set(kept)?;
        return Ok(None);
    }
    let with = bench.measure(users, Some(change))?;
    let first = match judge(&[without], &[&with]) {
        Err(why) => {
            bench.conclude(format!("put back: {why}"));
            bench.set(kept)?;
            return Ok(None);
        }
        Ok(why) => why,
    };
    bench.conclude(format!("{first}; again without it and with it"));
    bench.set(kept)?;
    let again = bench.measure(users, None)?;
    bench.conclude("without it again".to_owned());
    bench.set(&all)?;
    let last = bench.measure(users, Some(change))?;
    match judge(&[without, &again], &[&with, &last]) {
        Ok(why) => {
            bench.conclude(format!("kept: {why}"));
            Ok(Some(last))
        }
        Err(why) => {
            bench.conclude(format!("put back: {why}"));
            bench.set(kept)?;
            Ok(None)
        }
    }
}

/// Whether all rounds with a change are better than all rounds without it: more per second, by more than [`LEAST_GAIN`] and by more than the rounds
/// without it differ; or not slower, and less than half of the failures. A change that breaks a condition of `--slo` is no better.
///
/// # Errors
/// They are not: the words for that.
fn judge(without: &[&Round], with: &[&Round]) -> Result<String, String> {
    let least = |rounds: &[&Round], of: fn(&Round) -> f64| {
        rounds.iter().map(|round| of(round)).fold(f64::INFINITY, f64::min)
    };
    let most =
        |rounds: &[&Round], of: fn(&Round) -> f64| rounds.iter().map(|round| of(round)).fold(0.0, f64::max);
    let rate = |round: &Round| round.rate;
    let failed = |round: &Round| round.failed;
    let is_held = |rounds: &[&Round]| rounds.iter().all(|round| round.broken.is_none());
    if is_held(without)
        && let Some(broken) = with.iter().find_map(|round| round.broken.as_ref())
    {
        return Err(broken.clone());
    }
    let (worst, best) = (least(with, rate), most(without, rate));
    let noise = (best * LEAST_GAIN).max(best - least(without, rate));
    let gain = worst / best - 1.0;
    if worst - best > noise {
        return Ok(format!("{} at least", difference(gain)));
    }
    let before = least(without, failed);
    if before >= MANY_FAILED && most(with, failed) < before / 2.0 && best - worst <= noise {
        let (now, before) = (most(with, failed) * 100.0, before * 100.0);
        return Ok(format!("{now:.1} % of the requests fail instead of {before:.1} %"));
    }
    Err(format!("{}, with rounds that differ by {:.0} %", difference(gain), noise / best * 100.0))
}

/// `12 % more`
fn difference(gain: f64) -> String {
    format!("{:.0} % {}", gain.abs() * 100.0, if gain < 0.0 { "less" } else { "more" })
}

#[cfg(test)]
mod tests {
    use millrace_care::tune::changes::Setting;

    use super::*;

    fn change(why: &'static str, name: &'static str) -> Change {
        let setting = Setting { name, now: None, next: "1".to_owned() };
        Change { why, settings: vec![setting] }
    }

    /// A server that does 100 per second from 20 users on; settings change that.
    #[derive(Default)]
    struct Fake {
        in_force: Vec<&'static str>,
        /// Setting, the factor that it brings.
        effects: Vec<(&'static str, f64)>,
        /// Factors of rounds one after the other: noise.
        noise: Vec<f64>,
        /// Share of failures, and the setting that cures them.
        failures: Option<(f64, &'static str)>,
        /// With more users, most requests fail.
        most_users: Option<u32>,
        /// A setting that can't be set.
        broken: Option<&'static str>,
        interrupt_after: Option<usize>,
        rows: Vec<(u32, Option<&'static str>, String)>,
        notes: Vec<String>,
    }

    impl Bench for Fake {
        fn measure(&mut self, users: u32, tried: Option<&Change>) -> Result<Round, Halt> {
            if self.interrupt_after == Some(self.rows.len()) {
                return Err(Halt::Interrupted);
            }
            let factor = |name: &&str| {
                self.effects.iter().find(|(other, _)| other == name).map_or(1.0, |(_, factor)| *factor)
            };
            let noise = self.noise.get(self.rows.len()).copied().unwrap_or(1.0);
            let most: f64 = 100.0 * self.in_force.iter().map(factor).product::<f64>();
            let rate = most.min(f64::from(users) * 5.0) * noise;
            let failed = self.failures.filter(|(_, cure)| !self.in_force.contains(cure));
            self.rows.push((users, tried.map(|change| change.settings[0].name), String::new()));
            let broken = self
                .most_users
                .is_some_and(|most| users > most)
                .then(|| "errors<5% (it is 98.00 %)".to_owned());
            let failed = failed.map_or(0.0, |(share, _)| share);
            Ok(Round { rate, failed, broken, findings: vec!["cpu-busy"] })
        }

        fn conclude(&mut self, conclusion: String) {
            self.rows.last_mut().expect("a round").2 = conclusion;
        }

        fn note(&mut self, note: String) {
            self.notes.push(note);
        }

        fn changes(&mut self, findings: &[&'static str]) -> Result<Vec<Change>, Halt> {
            assert_eq!(findings, ["cpu-busy"]);
            let all = [change("db-pool-size", "pool"), change("net-accept", "queue")];
            Ok(all.into_iter().filter(|change| !self.in_force.contains(&change.settings[0].name)).collect())
        }

        fn set(&mut self, changes: &[Change]) -> Result<Option<String>, Halt> {
            self.in_force = changes.iter().flat_map(names).collect();
            let is_broken = self.broken.is_some_and(|name| self.in_force.contains(&name));
            Ok(is_broken.then(|| "read-only".to_owned()))
        }
    }

    fn conclusions(fake: &Fake) -> Vec<(u32, &str, &str)> {
        fake.rows
            .iter()
            .map(|(users, tried, conclusion)| (*users, tried.unwrap_or(""), conclusion.as_str()))
            .collect()
    }

    #[test]
    fn what_helps_is_kept_and_the_rest_put_back() {
        let mut fake = Fake { effects: vec![("pool", 1.5), ("queue", 1.01)], ..Fake::default() };
        let end = play(&mut fake, 10, true).expect("played");
        let most = "more users get no more from the server than 40";
        assert_eq!(end, format!("no setting is left to change; what holds it back now is cpu-busy; {most}"));
        assert_eq!(fake.in_force, ["pool"]);
        assert_eq!(
            conclusions(&fake),
            [
                (10, "", ""),
                (20, "", "100 % more than with 10 users: more users"),
                (40, "", "0 % more than with 20 users: 40 users from here on"),
                (40, "pool", "50 % more at least; again without it and with it"),
                (40, "", "without it again"),
                (40, "pool", "kept: 50 % more at least"),
                (80, "", "0 % more than with 40 users: 40 users from here on"),
                (40, "queue", "put back: 1 % more, with rounds that differ by 3 %"),
            ]
        );
    }

    #[test]
    fn noise_is_no_gain() {
        // The round with the change is a lucky one; the second one without it is as good.
        let noise = vec![1.0, 1.0, 1.0, 1.1, 1.08, 1.1];
        let mut fake = Fake { noise, ..Fake::default() };
        play(&mut fake, 10, true).expect("played");
        assert_eq!(fake.in_force, [""; 0]);
        assert_eq!(fake.rows[5].2, "put back: 2 % more, with rounds that differ by 7 %");
        assert_eq!(fake.rows[6].1, Some("queue"));
    }

    #[test]
    fn fewer_failures_are_a_gain() {
        let mut fake = Fake { failures: Some((0.2, "queue")), ..Fake::default() };
        play(&mut fake, 20, true).expect("played");
        assert_eq!(fake.in_force, ["queue"]);
        let kept = "kept: 0.0 % of the requests fail instead of 20.0 %";
        assert!(fake.rows.iter().any(|(_, tried, so)| *tried == Some("queue") && so == kept));
    }

    #[test]
    fn the_highest_load_that_holds_is_found() {
        let mut fake = Fake { most_users: Some(27), ..Fake::default() };
        let end = play(&mut fake, 10, false).expect("played");
        assert_eq!(end, "the server holds 26 users, not more; --tune changes settings");
        let broken = "errors<5% (it is 98.00 %): fewer users";
        assert_eq!(
            conclusions(&fake),
            [
                (10, "", ""),
                (20, "", "100 % more than with 10 users: more users"),
                (40, "", broken),
                (28, "", broken),
                (24, "", "holds"),
                (26, "", "holds"),
            ]
        );
        let mut fake = Fake { most_users: Some(3), ..Fake::default() };
        let end = play(&mut fake, 10, false).expect("played");
        assert_eq!(end, "the server holds 3 users, not more; --tune changes settings");
        let mut fake = Fake { most_users: Some(0), ..Fake::default() };
        assert!(matches!(play(&mut fake, 10, true), Err(Halt::Failed(_))));
    }

    #[test]
    fn what_cannot_be_set_is_noted() {
        let mut fake = Fake { broken: Some("pool"), effects: vec![("queue", 2.0)], ..Fake::default() };
        play(&mut fake, 10, true).expect("played");
        assert_eq!(
            (fake.in_force, fake.notes),
            (vec!["queue"], vec!["pool is not tried: read-only".to_owned()])
        );
    }

    #[test]
    fn without_the_tuner_and_interrupted() {
        let mut fake = Fake::default();
        let end = play(&mut fake, 10, false).expect("played");
        assert_eq!(end, "more users get no more from the server than 40; --tune changes settings");
        let mut fake = Fake { interrupt_after: Some(4), effects: vec![("pool", 2.0)], ..Fake::default() };
        assert_eq!(play(&mut fake, 10, true), Err(Halt::Interrupted));
        let mut fake = Fake { effects: vec![], noise: vec![0.0], ..Fake::default() };
        assert!(matches!(play(&mut fake, 10, true), Err(Halt::Failed(_))));
    }
}

//! Stages of the load as people write them: `0:1000:1m,5000:2m,=5000:30s`.

use std::fmt;

use super::time::{NotTime, duration};
use crate::plan::{Curve, Segment};

/// More than any tester makes; users, or arrivals a second.
pub const MOST_LOAD: f64 = 1e7;

/// Why a text is no stages of the load. A stage is meant as it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum NotStages {
    /// A number in a stage is not one, or out of bounds.
    Number {
        /// The number as it is written.
        number: String,
        /// Its stage.
        stage: String,
    },
    /// A stage has another form.
    Form(String),
    /// The time of a stage is not one.
    Time(NotTime),
    /// A stage takes no time.
    NoTime {
        /// The stage.
        stage: String,
        /// The load at its start and its end.
        load: (f64, f64),
    },
    /// The load is 0 all the time.
    NoLoad,
}

impl fmt::Display for NotStages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotStages::Number { number, stage } => write!(
                f,
                "{number:?} in {stage:?} is not a number of users or arrivals from 0 to {MOST_LOAD:.0}"
            ),
            NotStages::Form(stage) => {
                write!(f, "{stage:?} is not a stage: write FROM:TO:TIME, TO:TIME or =N:TIME")
            }
            NotStages::Time(error) => error.fmt(f),
            NotStages::NoTime { stage, load: (from, to) } => {
                write!(f, "{stage:?} has no duration: write a time with a unit, as in {from}:{to}:30s")
            }
            NotStages::NoLoad => {
                f.write_str("the load is 0 in all stages: write a number above 0, as in 0:100:1m")
            }
        }
    }
}

impl std::error::Error for NotStages {}

/// `FROM:TO:TIME` or `TO:TIME` is a straight line, `=N:TIME` stays at N.
///
/// # Errors
/// How stages are written.
pub fn stages(text: &str) -> Result<Curve, NotStages> {
    let mut curve = Curve::default();
    let mut last = 0.0;
    for part in text.split(',') {
        let number = |text: &str| match text.trim().parse::<f64>() {
            Ok(number) if (0.0..=MOST_LOAD).contains(&number) => Ok(number),
            _ => Err(NotStages::Number { number: text.to_owned(), stage: part.to_owned() }),
        };
        let pieces: Vec<_> = part.trim().split(':').collect();
        let (from, to, time) = match pieces.as_slice() {
            [level, time] if level.starts_with('=') => {
                let level = number(&level[1..])?;
                (level, level, time)
            }
            [to, time] => (last, number(to)?, time),
            [from, to, time] => (number(from)?, number(to)?, time),
            _ => return Err(NotStages::Form(part.to_owned())),
        };
        let time = duration(time).map_err(NotStages::Time)?;
        if time.is_zero() {
            return Err(NotStages::NoTime { stage: part.to_owned(), load: (from, to) });
        }
        last = to;
        curve.stages.push(Segment { from, to, time, round: false });
    }
    if curve.peak() == 0.0 {
        return Err(NotStages::NoLoad);
    }
    Ok(curve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stages_go_on_where_the_last_one_ended() {
        let curve = stages("0:100000:5m,500000:10m,=7:30s").unwrap();
        let ends: Vec<_> =
            curve.stages.iter().map(|stage| (stage.from, stage.to, stage.time.as_secs())).collect();
        assert_eq!(ends, [(0.0, 1e5, 300), (1e5, 5e5, 600), (7.0, 7.0, 30)]);
        for wrong in ["", "5", "1:2:3:4"] {
            assert_eq!(stages(wrong), Err(NotStages::Form(wrong.to_owned())));
        }
        for wrong in ["a", "-1", "=x", "nan", "1e8"] {
            let (number, stage) = (wrong.trim_start_matches('=').to_owned(), format!("{wrong}:5s"));
            assert_eq!(stages(&stage), Err(NotStages::Number { number, stage }));
        }
        assert_eq!(["0:0:5s", "0:10"].map(stages), [const { Err(NotStages::NoLoad) }; 2]);
        assert_eq!(stages("5:1y"), Err(NotStages::Time(NotTime::Form)));
        assert_eq!(stages("5:0s"), Err(NotStages::NoTime { stage: "5:0s".to_owned(), load: (0.0, 5.0) }));
    }

    proptest! {
        #[test]
        fn what_is_taken_can_be_run(text in "(=?[0-9.e+-]{1,5}:|[0-9]{1,3}(ms|s|m|h),?|[a-z=:,é-]){0,8}") {
            if let Ok(curve) = stages(&text) {
                prop_assert!(curve.peak() > 0.0 && curve.peak() <= MOST_LOAD);
                let time = curve.time().as_secs_f64();
                prop_assert!(time > 0.0);
                let first = curve.when(0.5);
                prop_assert!(first.is_none_or(|at| (0.0..=time).contains(&at)), "{:?} of {}", first, time);
                prop_assert!(curve.at(time / 2.0).is_finite());
            }
        }
    }
}

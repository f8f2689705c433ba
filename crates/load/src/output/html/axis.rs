//! The axes of a chart: from values to pixels, and the marks that people can read values by.

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// Each power of ten as wide as the next; all values are above zero.
    Log,
}

/// An axis.
#[derive(Clone, Copy)]
pub struct Axis {
    scale: Scale,
    min: f64,
    max: f64,
    /// How a value is written at its mark.
    pub format: fn(f64) -> String,
    /// Steps between marks are of whole seconds and minutes.
    is_time: bool,
    /// The step between marks, if it is not to be found.
    step: Option<f64>,
}

impl Axis {
    /// From zero to at least `most`.
    pub fn linear(most: f64, format: fn(f64) -> String) -> Axis {
        let step = step(most.max(1e-9), 5.0);
        let max = (most.max(1e-9) / step).ceil() * step;
        Axis { scale: Scale::Linear, min: 0.0, max, format, is_time: false, step: None }
    }

    /// Exactly from `min` to `max`.
    pub fn exact(min: f64, max: f64, format: fn(f64) -> String) -> Axis {
        Axis { scale: Scale::Linear, min, max: max.max(min + 1e-9), format, is_time: false, step: None }
    }

    /// Seconds from 0 to `max`.
    pub fn seconds(max: f64) -> Axis {
        Axis { scale: Scale::Linear, min: 0.0, max: max.max(1.0), format: clock, is_time: true, step: None }
    }

    /// Powers of ten that hold all `values`, which are above zero.
    pub fn log(values: impl Iterator<Item = f64>, format: fn(f64) -> String) -> Axis {
        let (mut min, mut max) = (f64::INFINITY, 0f64);
        for value in values.filter(|value| *value > 0.0) {
            (min, max) = (min.min(value), max.max(value));
        }
        if max <= 0.0 {
            (min, max) = (1.0, 1.0);
        }
        let min = 10f64.powf(min.log10().floor());
        // A value right at the end would be drawn over the frame.
        let max = 10f64.powf((max * 1.02).log10().ceil()).max(min * 10.0);
        Axis { scale: Scale::Log, min, max, format, is_time: false, step: None }
    }

    /// The same with a mark every `step`.
    #[must_use]
    pub fn with_step(self, step: f64) -> Axis {
        Axis { step: Some(step), ..self }
    }

    /// Where a value lies: 0 at the beginning, 1 at the end.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.min) / (self.max - self.min),
            Scale::Log => (value.max(self.min) / self.min).log10() / (self.max / self.min).log10(),
        };
        place.clamp(0.0, 1.0)
    }

    /// Where its marks are, about `wanted` of them.
    pub fn marks(&self, wanted: f64) -> Vec<f64> {
        match self.scale {
            Scale::Log => {
                let decades = (self.max / self.min).log10().round() as i32;
                let every = (f64::from(decades) / wanted).ceil().max(1.0) as usize;
                let first = self.min.log10().round() as i32;
                (0..=decades).step_by(every).map(|decade| 10f64.powi(first + decade)).collect()
            }
            Scale::Linear => {
                let range = self.max - self.min;
                let found = || if self.is_time { time_step(range / wanted) } else { step(range, wanted) };
                let step = self.step.unwrap_or_else(found);
                let first = (self.min / step).ceil() as i64;
                let last = (self.max / step + 1e-6).floor() as i64;
                (first..=last).map(|number| number as f64 * step).collect()
            }
        }
    }
}

/// 1, 2 or 5 times a power of ten, so that about `wanted` of them make `range`.
fn step(range: f64, wanted: f64) -> f64 {
    let rough = range / wanted;
    let unit = 10f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * unit >= rough * 0.999).unwrap_or(10.0);
    times * unit
}

fn time_step(rough: f64) -> f64 {
    const STEPS: [f64; 14] =
        [1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0];
    STEPS.into_iter().find(|step| *step >= rough).unwrap_or_else(|| (rough / 3600.0).ceil() * 3600.0)
}

/// Seconds of a run as its axis shows them: `45 s`, `2:30`, `1:00:00`.
fn clock(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0 => "0".to_owned(),
        1..60 => format!("{whole} s"),
        60..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::figures::brief;

    #[test]
    fn marks_are_round() {
        assert_eq!(Axis::linear(930.0, brief).marks(5.0), [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0]);
        assert_eq!(Axis::exact(0.0, 1e6, brief).marks(4.0), [0.0, 5e5, 1e6]);
        assert_eq!(Axis::seconds(1680.0).marks(6.0), [0.0, 300.0, 600.0, 900.0, 1200.0, 1500.0]);
        let log = Axis::log([820.0, 3_100_000.0].into_iter(), brief);
        assert_eq!(log.marks(6.0), [1e2, 1e3, 1e4, 1e5, 1e6, 1e7]);
        assert_eq!([100.0, 1e7, 1.0].map(|value| log.place(value)), [0.0, 1.0, 0.0]);
        assert_eq!(Axis::log(std::iter::empty(), brief).marks(3.0), [1.0, 10.0]);
        assert_eq!([0.0, 5.0, 90.0, 3661.0].map(clock), ["0", "5 s", "1:30", "1:01:01"]);
    }
}

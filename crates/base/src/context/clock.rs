//! The only place that reads the clock. All other code gets the time passed in.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Interval between readings of the wall clock.
const WALL_CLOCK: Duration = Duration::from_millis(100);

/// A thread's current time, read once per wake-up instead of once per use.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    now: Cell<Instant>,
    /// Milliseconds from `started` to `now`.
    ticks: Cell<u64>,
    wall: Cell<SystemTime>,
    /// When the wall clock was last read, and its value.
    seen: Cell<(Instant, SystemTime)>,
    date_second: Cell<u64>,
    date: RefCell<String>,
    /// How far it is ahead of the machine's clock: tests let a day pass in seconds.
    ahead: Cell<Duration>,
}

impl Default for Clock {
    /// A clock that shows the current time.
    fn default() -> Clock {
        let clock = Clock {
            started: Instant::now(),
            now: Cell::new(Instant::now()),
            ticks: Cell::new(0),
            wall: Cell::new(SystemTime::now()),
            seen: Cell::new((Instant::now(), SystemTime::now())),
            date_second: Cell::new(u64::MAX),
            date: RefCell::new(String::new()),
            ahead: Cell::default(),
        };
        clock.read();
        clock
    }
}

impl Clock {
    /// Reads the time again.
    pub fn read(&self) {
        let now = Instant::now() + self.ahead.get();
        self.now.set(now);
        self.ticks.set(now.duration_since(self.started).as_millis() as u64);
        // The wall clock can be set, but rarely: between two readings, the monotonic clock gives the difference.
        let (seen, wall) = self.seen.get();
        let since = now.duration_since(seen);
        if since < WALL_CLOCK {
            self.wall.set(wall + since);
        } else {
            self.wall.set(SystemTime::now() + self.ahead.get());
            self.seen.set((now, self.wall.get()));
        }
        let second = self.unix_time().as_secs();
        if self.date_second.replace(second) != second {
            *self.date.borrow_mut() = httpdate::fmt_http_date(self.wall.get());
        }
    }

    /// Lets time pass.
    #[cfg(any(test, feature = "testing"))]
    pub fn pass(&self, time: Duration) {
        self.ahead.set(self.ahead.get() + time);
        self.read();
    }

    /// Monotonic time of the last reading.
    pub fn now(&self) -> Instant {
        self.now.get()
    }

    /// Milliseconds from the clock's creation to the last reading.
    pub fn ticks(&self) -> u64 {
        self.ticks.get()
    }

    /// Wall-clock time of the last reading.
    pub fn wall(&self) -> SystemTime {
        self.wall.get()
    }

    /// Wall-clock time of the last reading since 1970.
    pub fn unix_time(&self) -> Duration {
        self.wall.get().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// The `Date` field's value (RFC 9110 section 6.6.1), handed to `use_it`.
    pub fn with_date<T>(&self, use_it: impl FnOnce(&str) -> T) -> T {
        use_it(&self.date.borrow())
    }
}

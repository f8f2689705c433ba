//! What rewound workers do.

use std::sync::Arc;
use std::time::Duration;

use millrace_wire::frames::FIGURES_REASONS;

/// Why requests run the ordinary way, in the order of `millrace_wire::frames::REASON_*`: a label, and the text for people.
pub const ORDINARY: [(&str, &str); FIGURES_REASONS] = [
    ("method", "method or content"),
    ("no_image", "no image"),
    ("old", "image old, or something changed"),
    ("key", "another key"),
    ("left", "the script found a difference"),
    ("no_point", "no point reached"),
    ("refused", "the point was refused"),
    ("compared", "to be compared"),
    ("off", "switched off after a comparison"),
];

/// A snapshot of the rewound workers of a PHP host, since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewindStatus {
    /// Images that exist now.
    pub images: u64,
    /// Images made.
    pub made: u64,
    /// Requests that began in an image.
    pub rewound: u64,
    /// Requests that ran the ordinary way, by reason, as in [`ORDINARY`].
    pub ordinary: [u64; FIGURES_REASONS],
    /// How often a worker has put its memory back.
    pub put: u64,
    /// How long that took in all.
    pub put_time: Duration,
    /// Pages that were copied for it.
    pub put_pages: u64,
    /// Workers that have ended because their memory could not be put back.
    pub ended: u64,
    /// Why the latest point was refused.
    pub refusal: Option<String>,
    /// Why the latest of those workers has ended.
    pub ending: Option<String>,
    /// What the boots have read, the most used first.
    pub keys: Vec<RewindKey>,
    /// What comparisons have found since the start; `None`: there are none.
    pub compared: Option<ComparedStatus>,
}

/// Requests that were run both ways (`php.rewind = "auto"`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComparedStatus {
    /// The responses were the same, but for what also differs between ordinary ones.
    pub same: u64,
    /// Ordinary responses differed too much.
    pub unsure: u64,
    /// Rewound ones differed: images of that kind were switched off.
    pub different: u64,
    /// The latest differences, the newest first.
    pub differences: Vec<RewindDifference>,
}

/// How a rewound response differed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewindDifference {
    /// The request's URL.
    pub url: String,
    /// The start of the first difference: what ordinary responses say there.
    pub ordinary: String,
    /// What the rewound one says.
    pub rewound: String,
    /// Status, fields and content of one response of each kind.
    pub responses: Arc<ComparedResponses>,
}

/// Two responses to the same request, as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ComparedResponses {
    /// The latest ordinary one.
    pub ordinary: String,
    /// The latest rewound one.
    pub rewound: String,
}

/// The key of images, without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewindKey {
    /// The script.
    pub script: String,
    /// What its boot reads of its request, such as `$_COOKIE[lang]`; never a value.
    pub reads: Vec<String>,
    /// Images with this key that exist now.
    pub images: u64,
    /// Requests that began in one.
    pub rewound: u64,
}

impl RewindStatus {
    /// Requests that ran the ordinary way.
    pub fn ordinary_sum(&self) -> u64 {
        self.ordinary.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Mean time of putting memory back; zero if that has not happened.
    pub fn put_mean(&self) -> Duration {
        let nanoseconds = self.put_time.as_nanos().checked_div(u128::from(self.put)).unwrap_or(0);
        Duration::from_nanos(nanoseconds as u64)
    }

    /// Mean number of pages that were copied for it.
    pub fn pages_mean(&self) -> u64 {
        self.put_pages.checked_div(self.put).unwrap_or(0)
    }

    /// Adds images and requests to those of the same key.
    pub fn add_key(&mut self, script: &str, reads: Vec<String>, images: u64, rewound: u64) {
        let known = self.keys.iter_mut().find(|key| key.script == script && key.reads == reads);
        if let Some(key) = known {
            key.images = key.images.saturating_add(images);
            key.rewound = key.rewound.saturating_add(rewound);
        } else {
            self.keys.push(RewindKey { script: script.to_owned(), reads, images, rewound });
        }
    }
}

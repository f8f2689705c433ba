//! Which requests begin in which images of boots (`php.rewind`), as found out by trying.
//!
//! A worker compares a request with its image exactly, but throws the image away for a request that does not fit, unless another worker
//! can serve it. So the server remembers what became of requests: of which kind they were, and of which kind the request was that the
//! image was made of. It also keeps one worker without an image while requests come that fit none.

use std::collections::HashMap;

use millrace_wire::frames::{FLAG_MAY_DECLINE, FLAG_NO_IMAGE};

use crate::worker::Worker;

/// Maximum number of pairs that are remembered.
const PAIRS: usize = 4096;
/// A pair that does not fit is tried again after this time, milliseconds.
const AGAIN_MS: u64 = 60_000;
/// The score of a pair grows by the first number with a request that fits, and shrinks by 1 with another one: to begin in an image saves
/// dozens of times what it costs to be declined. Its bounds; up to the last number the pair does not fit.
const SCORE_FIT: i8 = 8;
const SCORE_MOST: i8 = 64;
const SCORE_LEAST: i8 = -4;
/// A request that fits no image counts as much as this many others that begin in one.
const ODD_WEIGHT: u32 = 16;
/// Maximum of [`Fits::odd`].
const ODD_MOST: u32 = 256;

/// A digest of what a request's boot may depend on, as far as the server sees it ([`PhpJob`](crate::job::PhpJob)).
pub type BootKind = u64;

/// How a worker suits a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suits {
    /// Requests of its kind have begun in images of the same kind.
    Fits,
    /// It has an image; whether the request fits is not known.
    Untried,
    /// It has no image.
    Empty,
    /// It has an image that does not fit.
    Misfit,
}

/// What a worker does with its image, or makes none, for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageTerms {
    /// It may decline the request if it does not fit the image: there are other workers.
    pub may_decline: bool,
    /// It makes no image of the request's boot.
    pub no_image: bool,
}

impl ImageTerms {
    /// As flags of a REQUEST.
    pub fn flags(self) -> u8 {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        flag(self.may_decline, FLAG_MAY_DECLINE) | flag(self.no_image, FLAG_NO_IMAGE)
    }
}

/// What was found out about kinds of requests and images.
#[derive(Debug, Default)]
pub struct Fits {
    /// By kind of the image and of the request: its score, and when it changed, milliseconds.
    pairs: HashMap<(BootKind, BootKind), (i8, u64)>,
    /// Grows with requests that fit no image, and shrinks with others.
    odd: u32,
}

impl Fits {
    /// How a worker suits a request of this kind; `None`: it begins in no image. `now`: milliseconds.
    pub fn judge(&self, worker: &Worker, kind: Option<BootKind>, now: u64) -> Suits {
        match kind {
            _ if !worker.handle.has_image() => Suits::Empty,
            Some(kind) => self.judge_image(worker.image, kind, now),
            None => Suits::Misfit,
        }
    }

    fn judge_image(&self, image: BootKind, kind: BootKind, now: u64) -> Suits {
        match self.pairs.get(&(image, kind)) {
            Some((score, _)) if *score > 0 => Suits::Fits,
            Some((score, when)) if *score <= SCORE_LEAST && now < when + AGAIN_MS => Suits::Misfit,
            Some(_) => Suits::Untried,
            None if image == kind => Suits::Fits,
            None => Suits::Untried,
        }
    }

    /// A worker has ended a request.
    pub fn learn(&mut self, worker: &mut Worker, now: u64) {
        let made = worker.handle.images_made();
        let (Some(kind), Some(end)) = (worker.kind, worker.last_end) else { return };
        if made != worker.images_made {
            (worker.images_made, worker.image) = (made, kind);
            // What did not fit the image before may fit this one.
            self.pairs.retain(|(image, _), (score, _)| *image != kind || *score > 0);
        } else if end.rewound || end.misfit {
            self.note(worker.image, kind, end.rewound, now);
        }
    }

    fn note(&mut self, image: BootKind, kind: BootKind, fits: bool, now: u64) {
        if self.pairs.len() >= PAIRS {
            self.pairs.clear();
        }
        let (score, when) = self.pairs.entry((image, kind)).or_default();
        *when = now;
        if fits {
            *score = (*score + SCORE_FIT).min(SCORE_MOST);
            self.odd = self.odd.saturating_sub(1);
        } else {
            *score = (*score - 1).max(SCORE_LEAST);
        }
    }

    /// A request fits no image.
    pub fn note_odd(&mut self) {
        self.odd = (self.odd + ODD_WEIGHT).min(ODD_MOST);
    }

    /// Whether a worker is kept for such requests.
    pub fn expects_odd(&self) -> bool {
        self.odd > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: BootKind = 1;
    const OTHER: BootKind = 2;

    #[test]
    fn what_never_fits_is_found_out_and_tried_again_later() {
        let mut fits = Fits::default();
        assert_eq!(fits.judge_image(IMAGE, IMAGE, 0), Suits::Fits, "the kind that the image was made of");
        for _ in 0..4 {
            assert_eq!(fits.judge_image(IMAGE, OTHER, 0), Suits::Untried);
            fits.note(IMAGE, OTHER, false, 0);
        }
        assert_eq!(fits.judge_image(IMAGE, OTHER, AGAIN_MS - 1), Suits::Misfit);
        assert_eq!(fits.judge_image(IMAGE, OTHER, AGAIN_MS), Suits::Untried);
    }

    #[test]
    fn a_kind_that_fits_now_and_then_is_worth_trying() {
        let mut fits = Fits::default();
        for turn in 0..100 {
            fits.note(IMAGE, OTHER, turn % 8 == 0, 0);
        }
        assert_eq!(fits.judge_image(IMAGE, OTHER, 0), Suits::Fits);
    }

    #[test]
    fn a_worker_is_kept_while_enough_requests_fit_no_image() {
        let mut fits = Fits::default();
        assert!(!fits.expects_odd());
        fits.note_odd();
        for _ in 0..ODD_WEIGHT - 1 {
            fits.note(IMAGE, IMAGE, true, 0);
        }
        assert!(fits.expects_odd());
        fits.note(IMAGE, IMAGE, true, 0);
        assert!(!fits.expects_odd());
    }

    #[test]
    fn memory_is_bounded() {
        let mut fits = Fits::default();
        for kind in 0..3 * PAIRS as u64 {
            fits.note(IMAGE, kind, false, 0);
        }
        assert!(fits.pairs.len() <= PAIRS);
    }
}

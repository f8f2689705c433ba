//! Random sequences of stores, purges, ends, kills and starts, compared with a list of all events.

use super::*;

/// Small pseudo-random numbers from a seed: a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// All events, in order. The result of a fill is as old as the fill's beginning.
#[derive(Default)]
struct Past {
    /// For each page the time when its last fill began, and its version.
    last: BTreeMap<u64, (usize, usize)>,
    purges: Vec<(usize, Purge, Hardness)>,
    moment: usize,
}

const PAGES: u64 = 12;

/// Tags of a page: one of its own, one shared with a few pages, one shared by all.
fn tags(page: u64) -> [u64; 3] {
    [1_000 + page, page % 3, 999]
}

impl Past {
    fn next(&mut self) -> usize {
        self.moment += 1;
        self.moment
    }

    /// The expected entry of a page.
    fn expected(&self, page: u64) -> Option<(String, bool)> {
        let (begun, version) = *self.last.get(&page)?;
        let path = key(&format!("/{page}"));
        let concerns = |what: &Purge| match what {
            Purge::Tag(tag) => tags(page).contains(&tag.0),
            _ => what.covers(millrace_pages::Key { bytes: path.as_bytes(), hash: 0 }),
        };
        let later = self.purges.iter().filter(|(moment, what, _)| *moment > begun && concerns(what));
        let hows: Vec<_> = later.map(|(_, _, how)| *how).collect();
        (!hows.contains(&Hardness::Hard)).then(|| (format!("version {version}"), !hows.is_empty()))
    }

    fn check(&self, shelf: &Shelf, stage: &Stage, seed: u64) {
        for page in 0..PAGES {
            let found = shelf.has(&key(&format!("/{page}")));
            let told = || stage.told().join("\n");
            let expected = self.expected(page);
            assert!(
                found == expected,
                "page {page}, seed {seed}, moment {}: {found:?} instead of {expected:?}\n{}",
                self.moment,
                told()
            );
        }
    }
}

fn any_purge(dice: &mut Dice) -> (Purge, Hardness) {
    let what = match dice.below(10) {
        0 => Purge::Everything,
        1 => Purge::Prefix {
            site: "shop".into(),
            host: None,
            path: format!("/{}", dice.below(PAGES)).into_bytes().into(),
        },
        2 | 3 => Purge::Tag(Tag(dice.below(3))),
        4 => Purge::Tag(Tag(777)),
        _ => Purge::Tag(Tag(1_000 + dice.below(PAGES))),
    };
    (what, if dice.below(2) == 0 { Hardness::Soft } else { Hardness::Hard })
}

/// One life of a folder.
fn live(seed: u64) {
    let stage = Stage::new(&format!("model-{seed}"));
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut past = Past::default();
    let mut disk = stage.open();
    // A fill that is running: its page, its beginning.
    let mut running: Vec<(u64, usize, u64)> = Vec::new();
    let mut count = 0;
    for _ in 0..150 {
        match dice.below(12) {
            0..=3 => running.push((dice.below(PAGES), past.next(), disk.stamp())),
            4..=6 => {
                // The fill that began first ends first, as the store guarantees.
                if !running.is_empty() {
                    let (page, begun, stamp) = running.remove(0);
                    let version = past.next();
                    let entry = kept(&format!("version {version}"), &tags(page));
                    disk.stored(key(&format!("/{page}")).as_bytes(), entry, stamp, ORIGIN);
                    count += 1;
                    written(&disk, count);
                    past.last.insert(page, (begun, version));
                }
            }
            7..=9 => {
                let purges: Vec<_> = (0..=dice.below(2)).map(|_| any_purge(&mut dice)).collect();
                let moment = past.next();
                disk.purge(&purges, || ());
                past.purges.extend(purges.into_iter().map(|(what, how)| (moment, what, how)));
            }
            10 => past.check(&stage.after_kill(), &stage, seed),
            _ => {
                disk.close();
                let shelf = Arc::new(Shelf::default());
                disk = stage.open_into(limits(16 << 20), &shelf);
                past.check(&shelf, &stage, seed);
                running.clear();
                count = 0;
            }
        }
    }
    disk.close();
}

#[test]
fn whatever_happens_what_comes_back_is_right() {
    for seed in 1..=40 {
        live(seed);
    }
}

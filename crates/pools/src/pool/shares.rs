//! How many of the workers belong to each pool.

use millrace_settings::plan::PhpPool;

/// A pool's part of the workers; see [`super::pools`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Its own. At least 1.
    pub workers: usize,
    /// Of these, workers that stay free for it.
    pub keep: usize,
    /// Maximum number of workers beyond its own.
    pub borrow: usize,
}

/// Splits `most` workers among these pools; the first one serves visitors. Configured values apply as far as
/// possible; the defaults are:
///
/// - own workers: `admin` and the configuration's own pools have a quarter each, `background` an eighth (two of
///   eight), and `front` the rest, at least half. With fewer than four workers the shares overlap;
/// - kept workers: `front` keeps three quarters of its own, `background` none and the others all; but one worker is
///   kept by no pool;
/// - borrowed workers: `front` and `admin` may borrow all that the others do not keep, the others none.
pub fn shares(pools: &[PhpPool], most: usize) -> Vec<Share> {
    let own = own(pools, most);
    let keep = keep(pools, &own, most);
    let lent = |of: usize| -> usize {
        let others = own.iter().zip(&keep).enumerate().filter(|(at, _)| *at != of);
        others.map(|(_, (own, keep))| own - keep).sum()
    };
    let share = |(at, pool): (usize, &PhpPool)| {
        let borrows = at == 0 || pool.name == PhpPool::ADMIN;
        let borrow = pool.borrow.unwrap_or_else(|| if borrows { lent(at) } else { 0 });
        Share { workers: own[at], keep: keep[at], borrow }
    };
    pools.iter().enumerate().map(share).collect()
}

fn own(pools: &[PhpPool], most: usize) -> Vec<usize> {
    let default = |pool: &PhpPool| match &*pool.name {
        PhpPool::BACKGROUND if most < 8 => 1,
        PhpPool::BACKGROUND => (most / 8).max(2),
        _ => most / 4,
    };
    let mut own: Vec<usize> =
        pools.iter().map(|pool| pool.workers.unwrap_or_else(|| default(pool)).clamp(1, most)).collect();
    if pools[0].workers.is_none() {
        let others: usize = own[1..].iter().sum();
        own[0] = if most < 4 { most } else { most.saturating_sub(others).max(most / 2) };
    }
    own
}

fn keep(pools: &[PhpPool], own: &[usize], most: usize) -> Vec<usize> {
    if pools.len() == 1 {
        return vec![0];
    }
    let mut keep = vec![0; pools.len()];
    // If all pools keep all they have, nothing must be left for pools that keep nothing.
    let strict = pools.iter().all(|pool| pool.keep.is_some_and(|keep| keep > 0));
    let mut left = if strict { most } else { most - 1 };
    let mut give = |at: usize, wanted: usize| {
        let more = wanted.min(own[at]).saturating_sub(keep[at]).min(left);
        keep[at] += more;
        left -= more;
    };
    for (at, pool) in pools.iter().enumerate() {
        give(at, pool.keep.unwrap_or(0));
    }
    // With few workers, visitors have one before the other pools have all of theirs.
    let front = pools[0].keep.is_none();
    give(0, usize::from(front));
    let others = pools.iter().enumerate().skip(1);
    for (at, _) in others.filter(|(_, pool)| pool.keep.is_none() && pool.name != PhpPool::BACKGROUND) {
        give(at, own[at]);
    }
    if front && most >= 4 {
        give(0, own[0] - own[0] / 4);
    }
    keep
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(names: &[&str]) -> Vec<PhpPool> {
        let source = millrace_settings::Source { site_dir: Some("/".into()), ..Default::default() };
        let (plan, _) = millrace_settings::load(&source).unwrap();
        let front = plan.sites[0].php.as_ref().unwrap().pools[0].clone();
        names.iter().map(|name| PhpPool { name: (*name).to_owned(), ..front.clone() }).collect()
    }

    fn figures(pools: &[PhpPool], most: usize) -> Vec<(usize, usize, usize)> {
        shares(pools, most).into_iter().map(|share| (share.workers, share.keep, share.borrow)).collect()
    }

    #[test]
    fn defaults() {
        let pools = pools(&["front", "admin", "background"]);
        for (most, expected) in [
            (1, [(1, 0, 2), (1, 0, 2), (1, 0, 0)]),
            (2, [(2, 1, 2), (1, 0, 2), (1, 0, 0)]),
            (3, [(3, 1, 1), (1, 1, 3), (1, 0, 0)]),
            (4, [(2, 2, 1), (1, 1, 1), (1, 0, 0)]),
            (8, [(4, 3, 2), (2, 2, 3), (2, 0, 0)]),
            (16, [(10, 8, 2), (4, 4, 4), (2, 0, 0)]),
            (41, [(26, 20, 5), (10, 10, 11), (5, 0, 0)]),
        ] {
            assert_eq!(figures(&pools, most), expected, "{most}");
        }
        assert_eq!(figures(&pools[..1], 7), [(7, 0, 0)]);
    }

    #[test]
    fn what_is_written_counts() {
        let mut pools = pools(&["front", "admin", "background", "api"]);
        pools[1].workers = Some(3);
        pools[1].borrow = Some(0);
        pools[2].keep = Some(1);
        pools[3].workers = Some(2);
        pools[3].keep = Some(2);
        assert_eq!(figures(&pools, 12), [(6, 5, 1), (3, 3, 0), (2, 1, 0), (2, 2, 0)]);
        pools[0].workers = Some(90);
        assert_eq!(shares(&pools, 12)[0].workers, 12, "as far as it goes");
    }

    #[test]
    fn one_more_pool_beside_visitors() {
        assert_eq!(figures(&pools(&["front", "reports"]), 4), [(3, 2, 0), (1, 1, 0)]);
        assert_eq!(figures(&pools(&["front", "reports"]), 2), [(2, 1, 1), (1, 0, 0)]);
    }

    #[test]
    fn never_more_is_kept_than_there_is() {
        for names in [&["front", "admin", "background"][..], &["front", "admin", "a", "b", "c", "d"]] {
            for most in 1..100 {
                let kept: usize = shares(&pools(names), most).iter().map(|share| share.keep).sum();
                assert!(kept < most || most == 1, "{most}");
            }
        }
        let mut strict = pools(&["front", "admin"]);
        for pool in &mut strict {
            (pool.workers, pool.keep, pool.borrow) = (Some(2), Some(2), Some(0));
        }
        assert_eq!(figures(&strict, 4), [(2, 2, 0), (2, 2, 0)]);
    }
}

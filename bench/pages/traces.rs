//! Who asks for what: visitors by Zipf's law, and a crawler that walks over everything else in bursts.

/// A request for the page of this number.
pub enum Request {
    Visitor(u32),
    Crawler(u32),
}

impl Request {
    pub fn number(self) -> u32 {
        let (Request::Visitor(number) | Request::Crawler(number)) = self;
        number
    }
}

/// Makes the same requests each time.
pub struct Trace {
    /// Requests in all.
    pub count: usize,
    /// The chance of each page or of one before it.
    sums: Vec<f64>,
    crawled: u32,
    /// Of a hundred requests, how many are a crawler's.
    share: usize,
}

/// Requests of a crawler in a row.
const BURST: usize = 5_000;

impl Trace {
    /// `pages` for visitors, with chances that fall as rank to the power of `-skew`; then `crawled` pages more.
    pub fn new(pages: u32, crawled: u32, skew: f64, share: usize) -> Trace {
        let mut sum = 0.0;
        let sums = (1..=pages).map(|rank| {
            sum += f64::from(rank).powf(-skew);
            sum
        });
        Trace { count: 2_000_000, sums: sums.collect(), crawled, share }
    }

    pub fn requests(&self) -> impl Iterator<Item = Request> {
        let (mut random, mut crawler) = (Random(42), 0);
        let pages = self.sums.len() as u32;
        // Bursts, so that a share of all requests are the crawler's.
        let period = (BURST * 100).checked_div(self.share).unwrap_or(usize::MAX);
        (0..self.count).map(move |count| {
            if self.share > 0 && count % period < BURST {
                crawler = (crawler + 1) % self.crawled;
                return Request::Crawler(pages + crawler);
            }
            let aim = random.unit() * self.sums[self.sums.len() - 1];
            let rank = self.sums.partition_point(|sum| *sum < aim) as u32;
            Request::Visitor(rank.min(pages - 1))
        })
    }

    /// Length of a page: 200 bytes to 3 KB, the same each time; a tenth of what pages have, so that more of them fit here.
    pub fn length(&self, number: u32) -> usize {
        let mixed = Random(u64::from(number) + 1).next();
        200 + (mixed % 53).pow(2) as usize
    }

    /// Bytes of all pages for visitors, if one of a length takes so many.
    pub fn bytes(&self, entry: impl Fn(usize) -> usize) -> usize {
        (0..self.sums.len() as u32).map(|number| entry(self.length(number))).sum()
    }
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.unit() * bound as f64) as usize
    }
}

//! What a run of PHP reports about its visitor.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::{CartPage, Cookies, MemberPage, Report, ReportNote, Run, Standing, VisitorTable};
use crate::Millis;
use crate::places::PlaceReport;

/// A page that PHP has made for one visitor, and that the page cache can learn from.
#[derive(Clone, Debug)]
pub enum VisitorPage {
    /// For a visitor with a cart: it may be compared with the public one.
    Cart(CartPage),
    /// For a member: it may be compared with one that was made for another, or stored.
    Member(MemberPage),
}

/// A run of PHP for a request, as far as its visitor is concerned. Dropping it ends it.
#[derive(Debug)]
pub struct Visit {
    table: Arc<VisitorTable>,
    cookies: Cookies,
    client: Option<IpAddr>,
    begun: Instant,
    stage: Mutex<VisitStage>,
}

/// The state of a visit.
#[derive(Debug)]
enum VisitStage {
    /// Without concerned cookies, the table ignores a run that begins at this time, until it reports something: that
    /// it has issued a login, or that others are void.
    Silent(u64),
    Running(Run, Box<Report>),
    /// The page, if there is more to do with it.
    Over(Option<VisitorPage>),
}

impl Visit {
    /// PHP is about to run for a request with these cookies; `is_write`: it may change what they mean. Returns also what is known about
    /// the visitor.
    pub fn begin(
        table: &Arc<VisitorTable>,
        cookies: Cookies,
        is_write: bool,
        client: Option<IpAddr>,
        begun: Instant,
    ) -> (Visit, Standing) {
        let now = table.time(begun);
        let (stage, standing) = if cookies.is_empty() {
            (VisitStage::Silent(now), Standing::Visitor)
        } else {
            let mut known = table.lock();
            let standing = known.look(&cookies, now);
            (VisitStage::Running(known.begin(&cookies, is_write, now), Box::default()), standing)
        };
        (Visit { table: table.clone(), cookies, client, begun, stage: Mutex::new(stage) }, standing)
    }

    fn stage(&self) -> MutexGuard<'_, VisitStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The script or its worker reports about the visitor.
    pub fn hear(&self, text: &[u8]) {
        if let (Some(report), Some(client)) = (PlaceReport::parse(text), self.client) {
            // As of the start of the run: some seconds don't matter.
            self.table.places().note(client, report, self.table.time(self.begun));
            return;
        }
        let mut stage = self.stage();
        if let VisitStage::Silent(now) = *stage {
            *stage = match text {
                [b'e', b'n', b'd', ..] => VisitStage::Over(None),
                _ => VisitStage::Running(self.table.lock().begin(&self.cookies, false, now), Box::default()),
            };
        }
        let VisitStage::Running(run, report) = &mut *stage else { return };
        match report.hear(text) {
            ReportNote::More => {}
            ReportNote::Forget(user) => {
                let user = self.table.key.tag(user);
                self.table.lock().forget(user, run);
            }
            ReportNote::Changed(items) => self.table.lock().changed(items),
            note @ (ReportNote::End | ReportNote::Failed) => {
                let report = Some(&**report).filter(|_| note == ReportNote::End);
                let member = self.table.lock().end(&self.cookies, run, report, &self.table.key);
                let cart = || report?.cart_page(&self.table.key, self.cookies.iter()).map(VisitorPage::Cart);
                let member = member.and_then(|member| report?.member_page(&member)).map(VisitorPage::Member);
                *stage = VisitStage::Over(member.or_else(cart));
            }
        }
    }

    /// No PHP runs for it any more, and it has reported nothing.
    pub fn is_over(&self) {
        let mut stage = self.stage();
        if let VisitStage::Running(run, _) = &*stage {
            self.table.lock().end(&self.cookies, run, None, &self.table.key);
            *stage = VisitStage::Over(None);
        }
    }

    /// The page that it has made, if there is more to do with it, and the milliseconds since it began.
    pub fn page(&self, now: Instant) -> Option<(VisitorPage, Millis)> {
        let VisitStage::Over(page) = &*self.stage() else { return None };
        let age = now.saturating_duration_since(self.begun).as_millis();
        Some((page.clone()?, u64::try_from(age).unwrap_or(u64::MAX)))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.is_over();
    }
}

/// Ends the visit on drop, unless a worker took it.
#[derive(Debug)]
pub struct Unserved(pub Option<Arc<Visit>>);

impl Drop for Unserved {
    fn drop(&mut self) {
        if let Some(visit) = &self.0 {
            visit.is_over();
        }
    }
}

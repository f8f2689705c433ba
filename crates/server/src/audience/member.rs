//! Members are logged-in visitors. They get pages that PHP has made for others with the same rights; `millrace_pages::members` has the
//! rules and their reasons.

use std::sync::Arc;

use millrace_pages::ask::write_role;
use millrace_pages::carts::PageProof;
use millrace_pages::judge::Keep;
use millrace_pages::members::{self, Comparison, MadeFor};
use millrace_pages::visitors::{MemberHold, MemberPage, MemberPass, SharedPage};
use millrace_pages::{Bypass, Millis, Notes, Page, Tag, Terms};
use millrace_wire::encoding::CODINGS;

use super::watch::WatchedPage;
use crate::cache::{
    Audience, AudienceKind, MadePage, PageRequest, PageSlot, answer_filled, answer_privately,
    is_public_field, make_page, uncoded,
};
use millrace_base::context::stats::Counter;
use millrace_base::message::reply::passing::{self, CodingRequest};
use millrace_base::message::reply::{Aside, Fields, Reply};

/// Members.
static MEMBERS: AudienceKind = AudienceKind {
    word: "member",
    reason: "the page is proven to be the same for members with these rights, but for name and nonces",
    hits: Counter::VisitorsMembers,
    no_page: Bypass::Member(MemberHold::Page),
    no_part: Bypass::Member(MemberHold::Range),
    wishes: false,
};

/// The page for members with the same rights.
impl Audience for MemberPass {
    fn kind(&self) -> &'static AudienceKind {
        &MEMBERS
    }

    fn change_key(&self, key: &mut Vec<u8>) {
        write_role(key, &self.role);
    }

    fn may_have(&self, slot: &PageSlot<'_>, stored: Millis, terms: &Terms) -> Result<(), Bypass<'static>> {
        let visitors = &slot.site.visitors;
        match visitors.proof(&slot.thread.context, &terms.tags) {
            PageProof::Differs => Err(Bypass::Member(MemberHold::Differs)),
            PageProof::Proven if visitors.is_confirmed(slot.hash(), stored, self) => Ok(()),
            _ => Err(Bypass::Member(MemberHold::Unproven)),
        }
    }

    fn fill(&self, slot: &PageSlot<'_>, page: &Page, asked: &PageRequest<'_>) -> Option<Reply> {
        let mut reply = match has_marks(page) {
            false => answer_privately(page, asked)?,
            true => answer_filled(page, |content| members::filled(content, &self.values))?,
        };
        if slot.site.plan.compress_php {
            let PageSlot { request, thread, .. } = slot;
            let resource = (request.authority(), request.head.path_query());
            let asked = CodingRequest { head: &request.head, resource, restored: false };
            passing::compress(&mut reply, &asked, thread.context.plan().files.compress_from);
        }
        Some(reply)
    }
}

/// A page with marks has no coded form, and so is never slim.
fn has_marks(page: &Page) -> bool {
    !page.is_slim() && members::has_marks(page.identity().body())
}

/// Compares a complete page for a member, which PHP has begun to make at `begun`, with the stored one, or stores it.
pub fn take(
    watched: &WatchedPage,
    content: &[u8],
    aside: Option<&Aside>,
    made: &MemberPage,
    begun: Millis,
) -> Option<()> {
    let WatchedPage { thread, site, request, .. } = watched;
    let mut slot = PageSlot::of(thread, site, request).filter(|_| site.visitors.serves_members())?;
    // PHP has seen arguments that are not in the key, and may have printed them.
    if slot.asking.reduced {
        return None;
    }
    made.pass.change_key(&mut slot.key);
    // What was purged meanwhile may be on it.
    if thread.cache.orders_begun() != watched.orders {
        return None;
    }
    let shared = made.shared.as_ref();
    let page = |template| Made::of(watched, &slot, template, aside, made, shared?);
    let own = members::blanked(content, &made.pass.values).and_then(page);
    let Some((hit, terms)) = slot.fresh() else {
        own?.store(watched, &slot, &made.pass);
        return Some(());
    };
    // One that was made after this run had begun may show a later state.
    if hit.page.stored > begun {
        return None;
    }
    let fits = |own: &&Made| *own.page.fields == *hit.page.fields && terms.tags.contains(&own.kind);
    let known = site.visitors.maker(slot.hash(), hit.page.stored);
    let form = uncoded(&hit.page)?;
    let common = known.as_ref().zip(own.as_ref().filter(fits)).and_then(|((maker, is_confirmed), _)| {
        let now = thread.cache.now(&thread.context) / 1000;
        let own = MadeFor::new(content, &made.pass.values, now);
        if *is_confirmed {
            let sent = members::filled(form.body(), &made.pass.values)?;
            return own.is(&sent, now).then(|| form.body().to_vec());
        }
        let first = members::filled(form.body(), &maker.values)?;
        members::common(&MadeFor::new(first, &maker.values, now), &own)
    });
    let kind = own.as_ref().map_or(Tag(0), |own| own.kind);
    let stored = (slot.hash(), hit.page.stored);
    let found = site.visitors.compare_for_member(
        &thread.context,
        stored,
        (&terms.tags, kind),
        &made.pass,
        common.is_some(),
    );
    match found {
        Comparison::Same => {
            thread.context.stats.add(Counter::MemberPagesSame, 1);
            let common = common.filter(|common| **common != *form.body());
            if let (Some(better), Some((maker, _))) = (common.and_then(page), known) {
                // The first one had a word cut out that was no value of its member.
                let stored = better.store(watched, &slot, &made.pass)?;
                site.visitors.confirm(stored, &maker);
            }
        }
        Comparison::Differs => {
            thread.context.stats.add(Counter::MemberPagesDiffer, 1);
            own?.store(watched, &slot, &made.pass);
        }
        Comparison::Unknown => drop(own?.store(watched, &slot, &made.pass)),
        Comparison::Own => {}
    }
    Some(())
}

/// A page without the values of its member.
struct Made {
    page: Arc<Page>,
    terms: Terms,
    /// The tag of its kind.
    kind: Tag,
}

impl Made {
    /// `None`: it must not be stored.
    fn of(
        watched: &WatchedPage,
        slot: &PageSlot<'_>,
        template: Vec<u8>,
        aside: Option<&Aside>,
        made: &MemberPage,
        shared: &SharedPage,
    ) -> Option<Made> {
        if watched.status != 200 || !watched.is_silent || !aside.is_none_or(is_silent) {
            return None;
        }
        let fields = kept_fields(&watched.fields, &made.pass)?;
        let notes = Notes {
            control: format!("public, max-age={}", shared.seconds).into_bytes(),
            tags: [&shared.kind, &b","[..], &shared.tags].concat(),
            ..Notes::default()
        };
        // As if the hooks had said this of a public one.
        let failed = aside.is_some_and(|aside| aside.failed);
        let (mut terms, keep): (Terms, Keep) = slot.judge(&watched.fields, &notes, &template, failed)?;
        // With `Vary: Cookie`, the visitor's own cookies would distinguish it.
        if terms.no_cache || terms.vary.iter().any(|name| &**name == "cookie") {
            return None;
        }
        (terms.stale_while_revalidate, terms.stale_if_error, terms.must_revalidate) = (0, 0, true);
        let made = MadePage {
            status: 200,
            reason: watched.reason.clone(),
            fields: [&fields, b""],
            keep: &keep,
            content: template,
            tagged: false,
        };
        let page = make_page(made, slot.thread.cache.now(&slot.thread.context));
        if has_marks(&page) {
            for coding in CODINGS {
                page.put_form(coding, None);
            }
        }
        Some(Made { page, terms, kind: Tag::named(slot.site.name().unwrap_or(""), &shared.kind) })
    }

    /// Stores it, unless something was purged meanwhile. Returns the hash of its key, and the time.
    fn store(
        self,
        watched: &WatchedPage,
        slot: &PageSlot<'_>,
        pass: &Arc<MemberPass>,
    ) -> Option<(u64, Millis)> {
        if !slot.store(&self.page, self.terms, watched.orders) {
            return None;
        }
        slot.site.visitors.has_made(slot.hash(), self.page.stored, pass.clone());
        Some((slot.hash(), self.page.stored))
    }
}

/// Whether a script says nothing about the cache beside what the server's own hooks say: that it is a page of a logged-in visitor.
pub fn is_silent(aside: &Aside) -> bool {
    let control = &aside.notes.control;
    let is_of_hooks = control.is_empty() || control.ends_with(b"fallback");
    is_of_hooks && aside.handed().is_none() && aside.fields.iter().all(|(name, _)| !is_control(name))
}

/// Whether a field says how a page may be cached.
fn is_control(name: &str) -> bool {
    const OTHERS: [&str; 3] = ["surrogate-control", "x-accel-expires", "x-litespeed-vary"];
    let end = name.len().checked_sub(13).and_then(|at| name.get(at..));
    end.is_some_and(|end| end.eq_ignore_ascii_case("cache-control"))
        || OTHERS.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// The field lines that a stored page has. `None`: a value of its member is in one of them, or the page sets a cookie, or says how caches
/// in front of the server may store it.
fn kept_fields(fields: &Fields, pass: &MemberPass) -> Option<Vec<u8>> {
    let mut kept = Fields::default();
    for (name, value) in fields.iter() {
        let is_browsers = name.eq_ignore_ascii_case("cache-control");
        if name.eq_ignore_ascii_case("set-cookie") || !is_browsers && is_control(name) {
            return None;
        }
        if members::has_marks(&members::blanked(value, &pass.values)?) {
            return None;
        }
        if !is_browsers && !is_public_field(name) {
            kept.push(name, value);
        }
    }
    Some(kept.blocks().concat())
}

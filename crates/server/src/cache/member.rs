//! Members: logged-in visitors, who get pages that PHP has made for others with the same rights. `millrace_pages::members` has the
//! rules and their reasons.
//!
//! ```text
//!   consult ── its cookies keep it from the cache ──> Visitors::permit ──> a pass ──> look(): the page for this role
//!                                                                      └──> held: PHP runs for it alone
//!   settle  ── PHP's page for a member ──> watch: at its end take() compares it with the stored one, or stores it
//! ```

use std::rc::Rc;
use std::sync::Arc;

use millrace_pages::ask::write_role;
use millrace_pages::carts::PageProof;
use millrace_pages::judge::Keep;
use millrace_pages::members::{self, Comparison, MadeFor};
use millrace_pages::visitors::{MemberHold, MemberPage, MemberPass, SharedPage};
use millrace_pages::{
    Answer, Asking, Bypass, Key, Millis, Notes, Page, Rules, StoreOutcome, Tag, Terms, Verdict, ask, judge,
};
use millrace_wire::encoding::CODINGS;
use millrace_wire::path;

use super::fill::Fill;
use super::make::{self, uncoded};
use super::serve::{self, PageRequest, is_public_field};
use super::watch::WatchedPage;
use super::{CacheThread, cache_status, cart, settle};
use millrace_base::context::stats::Counter;
use millrace_base::message::Request;
use millrace_base::message::reply::passing::{self, CodingRequest};
use millrace_base::message::reply::{Aside, Fields, Reply};
use millrace_base::site::Site;

/// The page for a member with a pass. `request` is without the visitor's own cookies.
pub fn look<'a>(
    thread: &Rc<CacheThread>,
    site: &'a Arc<Site>,
    rules: &'a Rules,
    request: &'a Request,
    path: &'a [u8],
    pass: &MemberPass,
) -> Result<Reply, Bypass<'a>> {
    let mut key = Vec::new();
    let asking = ask(rules, &settle::asked(site, request, path), &mut key)?;
    let asked = PageRequest::read(&request.head);
    if asking.range || asked.has_range() {
        return Err(Bypass::Member(MemberHold::Range));
    }
    write_role(&mut key, &pass.role);
    let (hit, terms) =
        cart::stored(thread, site, rules, request, &asking, &key).ok_or(Bypass::Member(MemberHold::Page))?;
    may_have(thread, site, (&key, hit.page.stored), &terms, pass).map_err(Bypass::Member)?;
    let mut reply = answer(&hit.page, &asked, pass).ok_or(Bypass::Member(MemberHold::Page))?;
    cache_status::hit_of_member(&mut reply, &hit);
    if site.plan.compress_php {
        let resource = (request.authority(), request.head.path_query());
        let asked = CodingRequest { head: &request.head, resource, restored: false };
        passing::compress(&mut reply, &asked, thread.context.plan().files.compress_from);
    }
    thread.context.stats.add(Counter::CacheHits, 1);
    thread.context.stats.add(Counter::VisitorsMembers, 1);
    Ok(reply)
}

/// Whether a member may have a page that was stored at this time; `key`: with the role.
pub fn may_have(
    thread: &CacheThread,
    site: &Site,
    (key, stored): (&[u8], Millis),
    terms: &Terms,
    pass: &MemberPass,
) -> Result<(), MemberHold> {
    match site.visitors.proof(&thread.context, &terms.tags) {
        PageProof::Differs => Err(MemberHold::Differs),
        PageProof::Proven if site.visitors.is_confirmed(Key::new(key).hash, stored, pass) => Ok(()),
        _ => Err(MemberHold::Unproven),
    }
}

fn answer(page: &Page, asked: &PageRequest<'_>, pass: &MemberPass) -> Option<Reply> {
    match has_marks(page) {
        false => serve::answer_privately(page, asked),
        true => serve::answer_filled(page, |content| members::filled(content, &pass.values)),
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
    let rules = site.cache.as_deref().filter(|_| site.visitors.serves_members())?;
    let (asking, mut key) = watched.ask()?;
    // PHP has seen arguments that are not in the key, and may have printed them.
    if asking.reduced {
        return None;
    }
    write_role(&mut key, &made.pass.role);
    // What was purged meanwhile may be on it.
    if thread.cache.orders_begun() != watched.orders {
        return None;
    }
    let shared = made.shared.as_ref();
    let page = |template| Made::of(watched, template, aside, made, shared?, &asking);
    let own = members::blanked(content, &made.pass.values).and_then(page);
    let place = StorePlace { thread, site, rules, request, key: &key, orders: watched.orders };
    let Some((hit, terms)) = cart::stored(thread, site, rules, request, &asking, &key) else {
        own?.store(&place, &made.pass);
        return Some(());
    };
    // One that was made after this run had begun may show a later state.
    if hit.page.stored > begun {
        return None;
    }
    let fits = |own: &&Made| *own.page.fields == *hit.page.fields && terms.tags.contains(&own.kind);
    let known = site.visitors.maker(Key::new(&key).hash, hit.page.stored);
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
    let stored = (Key::new(&key).hash, hit.page.stored);
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
                let stored = better.store(&place, &made.pass)?;
                site.visitors.confirm(stored, &maker);
            }
        }
        Comparison::Differs => {
            thread.context.stats.add(Counter::MemberPagesDiffer, 1);
            own?.store(&place, &made.pass);
        }
        Comparison::Unknown => drop(own?.store(&place, &made.pass)),
        Comparison::Own => {}
    }
    Some(())
}

/// Where a page for members is stored.
struct StorePlace<'a> {
    thread: &'a Rc<CacheThread>,
    site: &'a Site,
    rules: &'a Rules,
    request: &'a Request,
    key: &'a [u8],
    /// Number of purges that had begun when PHP began to make it.
    orders: u64,
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
        template: Vec<u8>,
        aside: Option<&Aside>,
        made: &MemberPage,
        shared: &SharedPage,
        asking: &Asking,
    ) -> Option<Made> {
        let WatchedPage { thread, site, .. } = watched;
        if watched.status != 200 || !watched.is_silent || !aside.is_none_or(is_silent) {
            return None;
        }
        let fields = kept_fields(&watched.fields, &made.pass)?;
        let notes = Notes {
            control: format!("public, max-age={}", shared.seconds).into_bytes(),
            tags: [&shared.kind, &b","[..], &shared.tags].concat(),
            ..Notes::default()
        };
        let (mut terms, keep) = judged(watched, &template, &notes, aside, asking)?;
        // With `Vary: Cookie`, the visitor's own cookies would distinguish it.
        if terms.no_cache || terms.vary.iter().any(|name| &**name == "cookie") {
            return None;
        }
        (terms.stale_while_revalidate, terms.stale_if_error, terms.must_revalidate) = (0, 0, true);
        let made = make::MadePage {
            status: 200,
            reason: watched.reason.clone(),
            fields: [&fields, b""],
            keep: &keep,
            content: template,
            tagged: false,
        };
        let page = make::page(made, thread.cache.now(&thread.context));
        if has_marks(&page) {
            for coding in CODINGS {
                page.put_form(coding, None);
            }
        }
        Some(Made { page, terms, kind: Tag::named(site.name().unwrap_or(""), &shared.kind) })
    }

    /// Stores it in memory, unless something was purged meanwhile; it is not written to disk. Returns the hash of its key, and the time.
    fn store(self, place: &StorePlace<'_>, pass: &Arc<MemberPass>) -> Option<(u64, Millis)> {
        let StorePlace { thread, site, rules, request, key, orders } = *place;
        // Nobody knows whether it depends on them.
        if settle::has_unknown_cookies(rules, request) {
            return None;
        }
        let (key, cache) = (Key::new(key), &thread.cache);
        let mut select =
            |name: &str, out: &mut Vec<u8>| settle::select(thread, site, rules, request, name, out);
        let stored = {
            let mut shard = cache.lock(cache.shard_of(key));
            // A purge that begins from here on comes to this shard when the page is there.
            if cache.orders_begun() != orders {
                return None;
            }
            let ticket = shard.lead(key, &mut select, Arc::new(Fill::new(thread.context.clock.now(), 0)));
            shard.store(ticket, &mut select, self.page.clone(), self.terms, cache.now(&thread.context))
        };
        if stored != StoreOutcome::Fresh {
            return None;
        }
        site.visitors.has_made(key.hash, self.page.stored, pass.clone());
        cache.compress_later(key.bytes, &self.page);
        Some((key.hash, self.page.stored))
    }
}

/// The cache's judgement on a page for a member, as if the hooks had said this of a public one.
fn judged(
    watched: &WatchedPage,
    content: &[u8],
    notes: &Notes,
    aside: Option<&Aside>,
    asking: &Asking,
) -> Option<(Terms, Keep)> {
    let WatchedPage { thread, site, request, .. } = watched;
    let answer = Answer {
        status: 200,
        fields: watched.fields.iter(),
        notes,
        country: site.visitors.country(&thread.context, request),
        content,
        failed: aside.is_some_and(|aside| aside.failed),
    };
    let mut path = Vec::new();
    path::normalise(request.raw_path(), &mut path).ok()?;
    let place = settle::place(site, request, &path);
    match judge(site.cache.as_deref()?, &place, asking, &answer, thread.cache.now(&thread.context)) {
        Verdict::Store { terms, keep } => Some((terms, keep)),
        Verdict::Refuse { .. } => None,
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

//! The source of the lifetime: the order of [`super`].

use super::Case;
use super::said::usual_lifetime;
use crate::Millis;
use crate::control::Control;
use crate::rules::Mode;

/// In place of a source's name: none says anything.
const NO_FIELD: &str = "no field";

/// The source that determines the lifetime.
pub(super) struct LifetimeSource {
    pub control: Control,
    /// Milliseconds; `None`: no source says.
    pub ttl: Option<Millis>,
    /// It is the application's, not the profile's.
    spoken: bool,
    /// It is addressed to caches like this one, as in RFC 9213.
    pub targeted: bool,
    /// Its name: a field, a call, a setting.
    pub source: &'static str,
}

impl LifetimeSource {
    /// A script's own call.
    pub const CALL: &'static str = "millrace_cache_control()";
    /// A call of an integration, for all pages of an application.
    pub const HOOKS: &'static str = "the application's hooks";

    pub fn of(case: &Case<'_, '_>) -> LifetimeSource {
        let Case { rules, said, status, now, .. } = *case;
        if let Some((source, control)) = said.targeted(rules.mode, now) {
            let mut word = LifetimeSource::spoken(source, control.into_owned(), None);
            word.targeted = true;
            word.refuse_with(said.note.as_ref());
            word.fill_in(case);
            return word;
        }
        let source = match said.cache_control == Control::default() {
            true if said.expires(now).is_some() => "Expires",
            true => NO_FIELD,
            false => "Cache-Control",
        };
        let mut word = LifetimeSource::spoken(source, said.cache_control.clone(), said.expires(now));
        if let Some(note) = &said.note {
            let page_refuses =
                word.control.refuses() || said.pragma_no_cache || said.no_cache_control_but_expired(now);
            if note.no_store || note.private || note.no_cache || !page_refuses {
                word = LifetimeSource::spoken(LifetimeSource::HOOKS, note.clone(), None);
                word.fill_in(case);
                if status >= 400 {
                    // The call may not have been meant for pages that don't exist.
                    word.ttl = word.ttl.map(|ttl| ttl.min(rules.lifetimes.not_found));
                }
                return word;
            }
        }
        word.fill_in(case);
        word
    }

    /// `expires`: the lifetime by the `Expires` field, which counts if the control has none.
    fn spoken(source: &'static str, control: Control, expires: Option<Millis>) -> LifetimeSource {
        let ttl = control.lifetime().map(|seconds| seconds * 1000).or(expires);
        let spoken = ttl.is_some() || control != Control::default();
        LifetimeSource { control, ttl, spoken, targeted: false, source }
    }

    fn refuse_with(&mut self, note: Option<&Control>) {
        if let Some(note) = note {
            if (note.no_store || note.private) && !(self.control.no_store || self.control.private) {
                self.source = LifetimeSource::HOOKS;
            }
            self.control.no_store |= note.no_store;
            self.control.private |= note.private;
        }
    }

    /// Uses the profile's lifetime if there is no other.
    fn fill_in(&mut self, case: &Case<'_, '_>) {
        let Case { rules, said, .. } = *case;
        if rules.mode != Mode::Profile || self.ttl.is_some() {
            return;
        }
        let usual = usual_lifetime(rules, case.place, case.status, said.content_type);
        if said.pragma_no_cache && !self.spoken {
            self.control.no_cache = true;
            self.source = "Pragma";
        } else if !self.spoken {
            self.source = usual.map_or(NO_FIELD, |(setting, _)| setting);
        }
        self.ttl = usual.map(|(_, ttl)| ttl).filter(|ttl| *ttl > 0);
    }

    /// Whether the response says itself, in a field, how long others may have it.
    pub fn is_own(&self, case: &Case<'_, '_>) -> bool {
        // Hooks that speak for the application use these, too.
        let by_hooks = self.source == LifetimeSource::HOOKS
            || case.said.note.is_some() && self.source == "Millrace-Cache-Control"
            || self.source == LifetimeSource::CALL && !case.rules.faithful;
        self.spoken && !by_hooks
    }

    /// Whether it must never be used when stale (RFC 9111 sections 4.2.4, 5.2.2.2, 5.2.2.8 and 5.2.2.10). s-maxage
    /// forbids it as well, unless the same field allows it: applications that send both mean that.
    pub fn forbids_stale(&self) -> bool {
        let control = &self.control;
        let allows = control.stale_while_revalidate.is_some() || control.stale_if_error.is_some();
        control.must_revalidate
            || control.proxy_revalidate
            || control.s_maxage.is_some() && !allows && !self.targeted
    }
}

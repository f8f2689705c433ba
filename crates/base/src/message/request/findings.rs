//! What is found out about a request on its way; what came stays as it is.

use std::sync::{Arc, OnceLock};

use millrace_htaccess::Verdict;
use millrace_pages::visitors::{Standing, Visit};

use super::AuthState;

/// What has been found out about a request.
#[derive(Debug, Default)]
pub struct Findings {
    /// What a script of the site has decided about it (`auth.script`).
    pub auth: AuthState,
    /// What the site's rules and the `.htaccess` files on its way say about it; `None`: nothing, or it has not been routed yet.
    pub ruling: Option<Arc<Ruling>>,
    /// The numbers of the site's rules whose effects apply to it, in their order; `None`: there are none, or it has not
    /// been routed yet.
    pub rules: Option<Arc<[u32]>>,
    /// Evaluations of `.htaccess` files that threads beside the event loop make or have made for it.
    pub evaluations: Vec<Arc<Evaluation>>,
    /// The limits of the site's rules before the one with this number have counted it.
    pub counted_rules: u32,
    /// What is known about its visitor, as soon as PHP is about to run for it.
    pub standing: Standing,
    /// Receives what that run reports about its visitor.
    pub visit: Option<Arc<Visit>>,
    /// It runs with low priority, because its class has used up its share of PHP.
    pub runs_aside: bool,
}

impl Findings {
    /// What holds for a request that is derived from this one, too: who may have it, and what rules do to it. No limit counts it, and
    /// its visitor is asked for again.
    pub fn for_derived(&self) -> Findings {
        let Findings {
            auth,
            ruling,
            rules,
            evaluations: _,
            counted_rules: _,
            standing: _,
            visit: _,
            runs_aside: _,
        } = self;
        Findings {
            auth: *auth,
            ruling: ruling.clone(),
            rules: rules.clone(),
            counted_rules: u32::MAX,
            ..Findings::default()
        }
    }
}

/// What the site's rules and `.htaccess` files say about a request.
#[derive(Debug)]
pub struct Ruling {
    /// Their verdict.
    pub verdict: Verdict,
    /// What it does to a page, as a part of the page's key; empty if nothing.
    pub key: Box<[u8]>,
}

/// An evaluation of the `.htaccess` files on the way to a path, on another thread.
#[derive(Debug)]
pub struct Evaluation {
    /// The path.
    pub path: Vec<u8>,
    /// The query.
    pub query: Option<Vec<u8>>,
    /// Its result, as soon as there is one.
    pub found: OnceLock<EvaluationResult>,
}

/// The result of an [`Evaluation`].
#[derive(Debug)]
pub enum EvaluationResult {
    /// What the rules say, with the header fields on which it depends (`None`: on more); `None`: there are no rules.
    Verdict {
        /// Both.
        verdict: Option<Box<(Verdict, Option<Vec<String>>)>>,
        /// The steps that it took.
        steps: u64,
        /// They were too many.
        is_exhausted: bool,
    },
    /// Only the event loop can evaluate: a password has to be checked.
    NeedsLoop,
    /// Millrace fails on these rules.
    Failed,
}

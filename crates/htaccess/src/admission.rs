//! Whether a client gets in: `Order`, `Allow`, `Deny`, `Require`, `Satisfy`, and the password.

use std::sync::Arc;

use crate::access::{Authentication, Granted, Requirement, Satisfy};
use crate::evaluate::{Applied, Halt, Pass, Scoped, refuse};
use crate::folder::Folder;
use crate::password::credentials;
use crate::request::{Checked, World};
use crate::verdict::{Outcome, Verdict};

impl<W: World> Pass<'_, W> {
    /// Address, then user; with `Satisfy Any` one of them is enough.
    pub(crate) fn check_access(&mut self) -> Result<(), Halt> {
        if !self.request.https && self.layers.iter().any(|layer| layer.rules().requires_https) {
            return refuse(403);
        }
        if self.failed.take().is_some_and(|failed| self.has_layers_of(failed)) {
            // The page for an error of the same folder: Apache checks access once for the same directives.
            return Ok(());
        }
        let compat = self.layers.iter().rev().find_map(|layer| layer.rules().compat.as_ref());
        let (satisfy, by_address) = match compat {
            Some(compat) => (compat.satisfy(self.request.method), compat.allows(&self.scope())?),
            None => (Satisfy::All, true),
        };
        match (satisfy, by_address) {
            (Satisfy::All, false) => return refuse(403),
            (Satisfy::Any, true) => return Ok(()),
            (Satisfy::All, true) | (Satisfy::Any, false) => {}
        }
        let own = self.layers.iter().rev().find(|layer| !layer.rules().require.is_empty());
        match own.map(|layer| layer.rules().require.clone()) {
            Some(require) => self.check_requirements(&require),
            None if by_address => Ok(()),
            None => refuse(403),
        }
    }

    fn has_layers_of(&self, other: &Verdict) -> bool {
        let is_same = |(own, (folder, layer)): (&Applied, &(Arc<Folder>, usize))| {
            Arc::ptr_eq(&own.folder, folder) && own.layer == *layer
        };
        self.layers.len() == other.active.len() && self.layers.iter().zip(&other.active).all(is_same)
    }

    fn check_requirements(&mut self, require: &[Requirement]) -> Result<(), Halt> {
        let own;
        // A container alone is the whole tree, so that a negation in it keeps its meaning.
        let tree = match require {
            [single] => single,
            list => {
                own = Requirement::Any(list.to_vec());
                &own
            }
        };
        if !tree.is_about(self.request.method) {
            return Ok(());
        }
        let authentication = self.authentication();
        match tree.result(&self.scope())? {
            Granted::Yes => return Ok(()),
            Granted::NeedsUser => {}
            Granted::No | Granted::Neutral => return refuse(403),
        }
        self.authenticate(&authentication)?;
        let scope = Scoped { groups_file: authentication.groups.as_deref(), ..self.scope() };
        match tree.result(&scope)? {
            Granted::Yes => Ok(()),
            _ => Err(Halt::With(Outcome::Unauthorized(authentication.realm.unwrap_or_default()))),
        }
    }

    /// The Auth* directives of all layers together.
    fn authentication(&self) -> Authentication {
        let mut merged = Authentication::default();
        for own in self.layers.iter().map(|layer| &layer.rules().authentication) {
            merged.kind = own.kind.clone().or(merged.kind);
            merged.realm = own.realm.clone().or(merged.realm);
            merged.users = own.users.clone().or(merged.users);
            merged.groups = own.groups.clone().or(merged.groups);
        }
        merged
    }

    /// Finds the user, or ends with 401.
    fn authenticate(&mut self, authentication: &Authentication) -> Result<(), Halt> {
        let Authentication { kind, realm, users, .. } = authentication;
        let (Some("basic"), Some(realm), Some(file)) = (kind.as_deref(), realm, users) else {
            // Apache: "configuration error: couldn't check user: check your authn provider!"
            return refuse(500);
        };
        let unauthorized = || Err(Halt::With(Outcome::Unauthorized(realm.clone())));
        let Some((user, password)) = self.request.field("authorization").and_then(credentials) else {
            return unauthorized();
        };
        match self.world.password(file, &user, &password) {
            Checked::Yes => {
                self.user = user;
                Ok(())
            }
            Checked::No => unauthorized(),
            Checked::Later => Err(Halt::With(Outcome::Wait)),
            Checked::Failed(_) => refuse(500),
        }
    }
}

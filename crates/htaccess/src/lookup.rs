//! Files that a path does not name: the index file of a folder, `FallbackResource`; and what follows a file in a path.

use millrace_wire::path::without_dots;

use crate::effort;
use crate::evaluate::{Halt, ON_DISK, Pass, refuse};
use crate::request::{Node, World};
use crate::verdict::Outcome;

impl<W: World> Pass<'_, W> {
    /// AcceptPathInfo: what follows a file in the path is dropped, or there is no such page.
    pub(crate) fn accept_path_info(&mut self) -> Result<(), Halt> {
        let accepts = self.layers.iter().rev().find_map(|layer| layer.rules().path_info).flatten();
        let Some(accepts) = accepts.filter(|_| !self.path_info.is_empty()) else { return Ok(()) };
        if !matches!(self.world.node(&self.filename), Some(Node::File { .. })) {
            return Ok(());
        }
        if !accepts {
            return refuse(404);
        }
        // Scripts get it.
        if !self.filename.ends_with(b".php") {
            self.path.truncate(self.path.len() - self.path_info.len());
            self.path_info.clear();
        }
        Ok(())
    }

    /// The index file of a folder, by the rules that apply to it (mod_dir.c, `fixup_dir`); true: they begin another pass.
    pub(crate) fn find_index(&mut self) -> Result<bool, Halt> {
        // An index file may be named like a folder, even like this one.
        if self.is_inner
            || !self.path.ends_with(b"/")
            || self.world.node(&self.filename) != Some(Node::Directory)
        {
            return Ok(false);
        }
        let named = self.layers.iter().rev().find_map(|layer| layer.rules().index.clone());
        let is_named = named.is_some();
        let names = named.unwrap_or_else(|| self.request.index.to_vec());
        if let Some(goes_on) = self.look_up(&names)? {
            return Ok(goes_on);
        }
        match self.fallback() {
            Some(name) => Ok(self.look_up(&[name])?.unwrap_or(false)),
            // No listing, and none of the server's own index files.
            None if is_named => refuse(403),
            None => Ok(false),
        }
    }

    fn fallback(&self) -> Option<String> {
        let named = self.layers.iter().rev().find_map(|layer| layer.rules().fallback.clone()).flatten();
        named.filter(|_| !self.is_inner)
    }

    /// FallbackResource, for a path that leads to nothing; true: its rules begin another pass.
    pub(crate) fn fall_back(&mut self) -> Result<bool, Halt> {
        let Some(name) = self.fallback() else { return Ok(false) };
        // Scripts that do not exist have a handler all the same.
        if self.filename.ends_with(b".php") || self.world.node(&self.filename).is_some() {
            return Ok(false);
        }
        Ok(self.look_up(&[name])?.unwrap_or(false))
    }

    /// Takes the first of these files that exists and may be served; whether its rules begin another pass. `None`: there is none.
    fn look_up(&mut self, names: &[String]) -> Result<Option<bool>, Halt> {
        let mut refusal = None;
        for name in names {
            effort::spend(ON_DISK)?;
            let mut inner = self.inner(name);
            let exists = matches!(
                self.world.node(&[self.request.root, &inner.path].concat()),
                Some(Node::File { .. })
            );
            match inner.pass() {
                Ok(goes_on) if exists => {
                    *self = inner;
                    return Ok(Some(goes_on));
                }
                Ok(_) | Err(Halt::With(Outcome::Refuse(404))) => {}
                // Another file may still be served.
                Err(Halt::With(Outcome::Refuse(status))) => refusal = Some(status),
                Err(halt) => {
                    *self = inner;
                    return Err(halt);
                }
            }
        }
        refusal.map_or(Ok(None), refuse)
    }

    /// The pass that looks a file up by this name.
    fn inner(&self, name: &str) -> Self {
        let mut inner = self.clone();
        let folder = self.path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        inner.path = match name.starts_with('/') {
            true => without_dots(name.as_bytes()),
            false => without_dots(&[&self.path[..folder], name.as_bytes()].concat()),
        };
        if !std::mem::replace(&mut inner.is_inner, true) {
            inner.ended_outside = std::mem::take(&mut inner.ended);
        }
        inner.begin();
        inner
    }
}

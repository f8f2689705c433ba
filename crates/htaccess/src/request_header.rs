//! `RequestHeader`: the request's fields as scripts see them.

use crate::effort;
use crate::evaluate::Pass;
use crate::pattern::TooManySteps;
use crate::request::World;
use crate::verdict::ChangedFields;

/// The request's fields behind a pass, and the names of those that it or an earlier one has changed.
#[derive(Clone, Debug)]
pub(crate) struct FieldsBehind {
    fields: Vec<(String, Vec<u8>)>,
    names: Vec<String>,
}

impl<W: World> Pass<'_, W> {
    /// RequestHeader: the fields that it has changed in all passes.
    pub(crate) fn request_fields(&self) -> Result<ChangedFields, TooManySteps> {
        let Some(FieldsBehind { fields, names }) = self.fields_behind()? else { return Ok(Vec::new()) };
        let mut changed = Vec::new();
        for name in names {
            effort::spend(fields.len())?;
            let values = fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(&name));
            let values: Vec<&[u8]> = values.map(|(_, value)| &value[..]).collect();
            let joined = (!values.is_empty()).then(|| values.join(&b", "[..]));
            changed.push((name, joined));
        }
        Ok(changed)
    }

    /// The fields behind this pass. `None`: RequestHeader has changed none.
    pub(crate) fn fields_behind(&self) -> Result<Option<FieldsBehind>, TooManySteps> {
        let changes: Vec<_> = self.layers.iter().flat_map(|layer| &layer.rules().request_headers).collect();
        if changes.is_empty() {
            return Ok(self.fields_before.clone());
        }
        let FieldsBehind { mut fields, mut names } = self.fields_before.clone().unwrap_or_else(|| {
            let known = self.request.fields.all().iter();
            let fields = known.map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
            FieldsBehind { fields, names: Vec::new() }
        });
        for change in changes {
            change.apply(&mut fields, &self.scope())?;
            effort::spend(names.len())?;
            if !names.iter().any(|known: &String| known.eq_ignore_ascii_case(&change.name)) {
                names.push(change.name.clone());
            }
        }
        Ok(Some(FieldsBehind { fields, names }))
    }
}

//! The connections of the admin address. Any program of this machine may open some, and say nothing: when there are too many, the one that has been
//! waited for longest is closed, so that whoever sends a request at once gets a response.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::task::AbortHandle;

/// Connections at a time.
const CONNECTIONS: usize = 256;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminStep {
    /// Its client has not sent a whole request yet.
    Reading,
    /// Its client has not read the whole response yet.
    Writing,
    /// The server is at work for it.
    Answering,
}

/// The step of a connection, which its task sets.
pub type SharedStep = Rc<Cell<AdminStep>>;

/// All connections, the oldest first.
#[derive(Debug, Default)]
pub struct Room(RefCell<Vec<(SharedStep, AbortHandle)>>);

impl Room {
    /// Adds a connection, whose task has just started; closes another one if there are too many.
    pub fn add(&self, step: SharedStep, task: AbortHandle) {
        let mut all = self.0.borrow_mut();
        all.push((step, task));
        if all.len() <= CONNECTIONS {
            return;
        }
        all.retain(|(_, task)| !task.is_finished());
        if all.len() > CONNECTIONS
            && let Some(at) = first_to_go(&all.iter().map(|(step, _)| step.get()).collect::<Vec<_>>())
        {
            all.remove(at).1.abort();
        }
    }
}

/// Which connection is closed: the oldest whose client is waited for, rather one that has sent no request; the newest if the server is at work for
/// all.
fn first_to_go(steps: &[AdminStep]) -> Option<usize> {
    let newest = steps.len().checked_sub(1)?;
    let oldest = |wanted| steps[..newest].iter().position(|step| *step == wanted);
    Some(oldest(AdminStep::Reading).or_else(|| oldest(AdminStep::Writing)).unwrap_or(newest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_first() {
        use AdminStep::{Answering, Reading, Writing};
        assert_eq!(first_to_go(&[Answering, Writing, Reading, Reading, Reading]), Some(2));
        assert_eq!(first_to_go(&[Answering, Writing, Writing, Reading]), Some(1), "the newest has just come");
        assert_eq!(first_to_go(&[Answering, Answering, Reading]), Some(2));
        assert_eq!(first_to_go(&[]), None);
    }
}

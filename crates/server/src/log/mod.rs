//! The error log, for people, and the access log, off the hot path.

/// Both logs; cheap to clone.
#[derive(Clone, Debug)]
pub struct Log {}

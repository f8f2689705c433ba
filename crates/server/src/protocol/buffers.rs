//! Buffers that a thread's connections share: no connection holds one while it waits.

use std::cell::RefCell;

use millrace_wire::head::Head;

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;

/// Responses are collected up to this many bytes before they are written.
pub(super) const BATCH_BYTES: usize = 64 * 1024;

/// Buffers that a thread's connections share.
#[derive(Debug)]
pub struct Buffers {
    pub(super) input: RefCell<Box<[u8]>>,
    pub(super) output: RefCell<Vec<u8>>,
    pub(super) head: RefCell<Head>,
    /// For a response that is sent alone; taking it leaves an empty one.
    pub(super) spare: RefCell<Vec<u8>>,
}

impl Buffers {
    /// A buffer for the next response.
    pub(super) fn keep_spare(&self, buffer: Vec<u8>) {
        if buffer.capacity() <= 2 * BATCH_BYTES {
            self.spare.replace(buffer);
        }
    }

    /// A head whose memory the next request reuses.
    pub(super) fn give_back(&self, head: Head) {
        self.head.replace(head);
    }
}

impl Default for Buffers {
    fn default() -> Buffers {
        Buffers {
            input: RefCell::new(vec![0; READ_BYTES].into()),
            output: RefCell::new(Vec::with_capacity(BATCH_BYTES)),
            head: RefCell::default(),
            spare: RefCell::default(),
        }
    }
}

//! For tests: whether the store's data are consistent.

use std::collections::HashMap;

use super::queues::Queue;
use super::{Body, NONE, Pages, heap};
use crate::Terms;

impl<F: Clone> Pages<F> {
    /// Checks everything and panics if a link, a count or a sum is wrong. Slow.
    #[doc(hidden)]
    pub fn verify(&self) {
        let (mut owned, mut pages, mut marks) = (0, 0, 0);
        let mut tags: HashMap<u64, [u32; 2]> = HashMap::new();
        for at in 0..self.slots.len() as u32 {
            let slot = self.slots.get(at);
            owned += slot.owned;
            match &slot.body {
                Body::Page(page) => {
                    pages += 1;
                    let terms = slot.terms.as_deref().expect("a page has terms");
                    assert_eq!(slot.owned, heap(slot.bytes.len()) + page.bytes() + Terms::bytes(terms));
                    terms.tags.iter().for_each(|tag| tags.entry(tag.0).or_default()[0] += 1);
                }
                Body::Mark(mark) => {
                    marks += 1;
                    assert_eq!(slot.owned, heap(slot.bytes.len()) + mark.bytes());
                    mark.tags.iter().for_each(|tag| tags.entry(tag.0).or_default()[1] += 1);
                }
                Body::Fork(fork) => {
                    assert!(fork.variants > 0, "a fork without variants");
                    assert_eq!(self.slots.variants(at).count(), fork.variants as usize);
                    assert!(self.slots.variants(at).all(|variant| self.slots.get(variant).fork == at));
                    assert_eq!(slot.queue, Queue::None);
                }
            }
            self.verify_index(at);
        }
        assert_eq!((self.slots.owned(), self.slots.pages(), self.slots.marks()), (owned, pages, marks));
        let queued = self.verify_queue(Queue::Small) + self.verify_queue(Queue::Main);
        assert_eq!(queued, pages + marks);
        self.purges.verify(&tags);
    }

    fn verify_index(&self, at: u32) {
        let slot = self.slots.get(at);
        let found = if slot.fork == NONE {
            assert!(slot.variant().is_empty());
            self.slots.find(slot.hash, &slot.bytes)
        } else {
            self.slots.find_variant(slot.hash, slot.key(), slot.variant())
        };
        assert_eq!(found, Some(at));
    }

    fn verify_queue(&self, queue: Queue) -> usize {
        let (mut at, mut younger) = (self.queues.oldest(queue), NONE);
        let (mut count, mut bytes) = (0, 0);
        while let Some(here) = at {
            let slot = self.slots.get(here);
            assert_eq!(slot.queue, queue);
            if count > 0 {
                assert_eq!(slot.older, younger);
            }
            count += 1;
            bytes += slot.owned + size_of_val(slot);
            younger = here;
            at = (slot.younger != NONE).then_some(slot.younger);
        }
        assert_eq!(bytes, self.queues.bytes(queue));
        count
    }
}

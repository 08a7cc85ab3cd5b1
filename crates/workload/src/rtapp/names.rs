//! Numbers objects. A mention creates an object.

use crate::names::Interner;

#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) mutexes: Interner,
    pub(super) conditions: Interner,
    pub(super) barriers: Interner,
    /// Mentions of each barrier by all instances.
    pub(super) barrier_mentions: Vec<u64>,
    pub(super) semaphores: Interner,
    pub(super) timers: Interner,
}

impl Names {
    /// Returns the number of a barrier, and counts mentions by `instances` tasks.
    pub(super) fn barrier(&mut self, name: &str, instances: u64) -> usize {
        let number = self.barriers.number(name);
        if number == self.barrier_mentions.len() {
            self.barrier_mentions.push(0);
        }
        self.barrier_mentions[number] += instances;
        number
    }
}

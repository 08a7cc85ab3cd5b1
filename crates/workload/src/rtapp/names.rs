//! Objects come to be by being mentioned: this numbers them.

use crate::names::Interner;

/// Everything a file mentions.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) mutexes: Interner,
    pub(super) conditions: Interner,
    pub(super) barriers: Interner,
    /// Mentions of each barrier, every instance counted.
    pub(super) barrier_mentions: Vec<u64>,
    pub(super) semaphores: Interner,
    pub(super) timers: Interner,
}

impl Names {
    /// The number of a barrier which `instances` tasks mention once more.
    pub(super) fn barrier(&mut self, name: &str, instances: u64) -> usize {
        let number = self.barriers.number(name);
        if number == self.barrier_mentions.len() {
            self.barrier_mentions.push(0);
        }
        self.barrier_mentions[number] += instances;
        number
    }
}

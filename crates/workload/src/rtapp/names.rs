//! Objects come to be by being mentioned: this numbers them.

use std::collections::BTreeMap;

/// Names in the order of their first mention.
#[derive(Debug, Default)]
pub(super) struct Interner {
    names: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Interner {
    /// The number of `name`, new or old.
    pub(super) fn number(&mut self, name: &str) -> usize {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn into_names(self) -> Vec<String> {
        self.names
    }
}

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

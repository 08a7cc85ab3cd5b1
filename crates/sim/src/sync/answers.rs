//! Answers: a task's work for one of several wakers, from a wait at its inbox to the next.
//!
//! A recorded task answered wakers in some order. Here it answers in the order of wakeups, each waker with its answers
//! in recorded order. A loop's last answer stays last, because the loop ends after it.
//!
//! Connections have loops of their own. A client whose answers are all given gets its first ones again, although others
//! wait for their last.

use std::collections::BTreeMap;

/// No waits for several wakers: the task continues in place.
pub(crate) const NO_ANSWERS: u32 = u32::MAX;

/// The positions of each waker's waits.
type Positions = BTreeMap<u32, Vec<u32>>;

/// Waits at one inbox, if some are for several wakers.
#[derive(Debug)]
pub(crate) enum Answers {
    /// A phase's waits. All wakers repeat them together.
    Together { waits: Positions, last: u32, count: u64 },
    /// A task's waits. Each waker repeats its own.
    PerWaker { once: Positions, again: Positions },
}

impl Answers {
    /// Returns `None` if all waits are for one waker. `waits`: each one's place and waker.
    pub(crate) fn together(waits: &[(u32, u32)]) -> Option<Self> {
        let &(last, from) = waits.last()?;
        if waits.iter().all(|&(_, other)| other == from) {
            return None;
        }
        let mut positions = Positions::new();
        for &(at, from) in waits {
            positions.entry(from).or_default().push(at);
        }
        Some(Self::Together { waits: positions, last, count: waits.len() as u64 })
    }

    /// Returns answers without waits.
    pub(crate) const fn per_waker() -> Self {
        Self::PerWaker { once: Positions::new(), again: Positions::new() }
    }

    /// Adds a phase's waits to those of a task with connections. `repeats`: the phase never ends.
    pub(crate) fn add(&mut self, waits: &[(u32, u32)], repeats: bool) {
        let Self::PerWaker { once, again } = self else { return };
        let positions = if repeats { again } else { once };
        for &(at, from) in waits {
            positions.entry(from).or_default().push(at);
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// Index of the [`Answers`].
    answers: u32,
    /// Answers given, in total and to each waker.
    count: u64,
    each: BTreeMap<u32, u64>,
}

impl Default for Given {
    fn default() -> Self {
        Self { answers: NO_ANSWERS, count: 0, each: BTreeMap::new() }
    }
}

impl Given {
    /// Returns the place of the next answer to this waker, in this loop or, if it is over, the next. `index`: of the
    /// answers in `all`.
    pub(crate) fn next(&self, index: u32, from: u32, all: &[Answers]) -> Option<u32> {
        let answers = &all[index as usize];
        let over = self.is_over(index, answers);
        let given = if over { 0 } else { self.each.get(&from).copied().unwrap_or(0) } as usize;
        match answers {
            Answers::Together { waits, last, count } => {
                let at = *waits.get(&from)?.get(given)?;
                let before = if over { 0 } else { self.count };
                (at != *last || before + 1 == *count).then_some(at)
            }
            Answers::PerWaker { once, again } => {
                let (once, again) = (once.get(&from), again.get(&from));
                let first = once.map_or(0, Vec::len);
                match (once.and_then(|once| once.get(given)), again) {
                    (Some(&at), _) => Some(at),
                    (None, Some(again)) => Some(again[(given - first) % again.len()]),
                    (None, None) => None,
                }
            }
        }
    }

    pub(crate) fn give(&mut self, index: u32, from: u32, all: &[Answers]) {
        if self.is_over(index, &all[index as usize]) {
            *self = Self { answers: index, ..Self::default() };
        }
        self.count += 1;
        *self.each.entry(from).or_default() += 1;
    }

    fn is_over(&self, index: u32, answers: &Answers) -> bool {
        match answers {
            Answers::Together { count, .. } => self.answers != index || self.count == *count,
            Answers::PerWaker { .. } => self.answers != index,
        }
    }
}

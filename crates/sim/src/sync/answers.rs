//! Answers: a task's work for one of several wakers, from a wait at its inbox to the next.
//!
//! A recorded task answered wakers in some order. Here it answers in the order of wakeups, each waker with its answers
//! in recorded order. A loop's last answer stays last, because the loop ends after it.

use std::collections::BTreeMap;

/// No waits for several wakers: the task continues in place.
pub(crate) const NO_ANSWERS: u32 = u32::MAX;

/// A phase's waits, if some are for several wakers.
#[derive(Debug)]
pub(crate) struct Answers {
    waits: BTreeMap<u32, Vec<u32>>,
    last: u32,
    count: u32,
}

impl Answers {
    /// Returns `None` if all waits are for one waker. `waits`: each one's place and waker.
    pub(crate) fn new(waits: &[(u32, u32)]) -> Option<Self> {
        let &(last, from) = waits.last()?;
        if waits.iter().all(|&(_, other)| other == from) {
            return None;
        }
        let mut this = Self { waits: BTreeMap::new(), last, count: waits.len() as u32 };
        for &(at, from) in waits {
            this.waits.entry(from).or_default().push(at);
        }
        Some(this)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// Index of the phase's [`Answers`].
    answers: u32,
    /// Answers given, in total and to each waker.
    count: u32,
    each: BTreeMap<u32, u32>,
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
        let (count, given) = if self.is_over(index, answers) {
            (0, 0)
        } else {
            (self.count, self.each.get(&from).copied().unwrap_or(0))
        };
        let at = *answers.waits.get(&from)?.get(given as usize)?;
        (at != answers.last || count + 1 == answers.count).then_some(at)
    }

    pub(crate) fn give(&mut self, index: u32, from: u32, all: &[Answers]) {
        if self.is_over(index, &all[index as usize]) {
            *self = Self { answers: index, ..Self::default() };
        }
        self.count += 1;
        *self.each.entry(from).or_default() += 1;
    }

    fn is_over(&self, index: u32, answers: &Answers) -> bool {
        self.answers != index || self.count == answers.count
    }
}

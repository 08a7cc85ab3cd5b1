//! What members of pools wait for: the pool's work.

use std::mem;

use vruntime_workload::program::{Op, Phase};

use super::Builder;
use crate::recorded::causes::Cause;
use crate::recorded::threads::{End, Stretch};

/// How far a member's operations follow the pool's recorded progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owed {
    /// They include the pool's work until this time.
    pub(super) until: u64,
    /// Earlier work that they lack. The next operation adds it.
    pub(super) carried: u64,
}

impl Builder<'_> {
    /// Returns a thread's pool and its work from `owed.until` to `at`, and advances `owed`.
    pub(super) fn owes(&self, thread: usize, at: u64, owed: &mut Owed) -> Option<(usize, u64)> {
        let pool = self.pools.of(thread)?;
        let work = self.pools.work(pool, owed.until, at) + mem::take(&mut owed.carried);
        owed.until = owed.until.max(at);
        Some((pool, work))
    }

    /// The sleep that the repetition's end interrupts: at least its length until then. If a thread of the repetition
    /// ended it, the next pass waits for that thread.
    pub(super) fn last_sleep(&self, thread: usize, owed: &mut Owed, ops: &mut Vec<Op>) {
        let number = self.stretches(thread);
        let Some(last) = number.checked_sub(1).map(|last| &self.life(thread).stretches[last]) else { return };
        if last.ended > self.cycle.until || self.locks.locks_always(thread) {
            return;
        }
        // It waits for the processes that it started last, which end in the next repetition.
        if self.cycle.relay.starter == Some(thread) {
            return;
        }
        if number < self.life(thread).stretches.len()
            && let Cause::Thread(by) = self.causes.of(thread, number)
            && self.cycle.there[by]
        {
            return;
        }
        if matches!(last.end, End::Sleep | End::Device) {
            // A member of a pool waits for the others, unless it keeps times of its own.
            if last.end == End::Sleep && self.cycle.by_itself[thread] && self.helps(thread, Some(last), owed, ops) {
                let rest = self.owes(thread, self.cycle.until, owed);
                ops.extend(rest.map(|(pool, work)| Op::PoolSleep { pool, work }));
                return;
            }
            let beat = self.beat(thread).filter(|_| last.end == End::Sleep);
            ops.push(beat.unwrap_or_else(|| self.nap(self.cycle.until.saturating_sub(last.ended), last.prio)));
        }
    }

    /// Whether a pool's progress wakes a thread, since its waker keeps its own times.
    pub(super) fn by_progress(&self, by: usize, woken: usize) -> bool {
        self.pools.attends(by, woken) || (self.pools.are_mates(by, woken) && !self.cycle.by_itself[by])
    }

    /// Lets a member help its pool before it sleeps.
    pub(super) fn helps(&self, thread: usize, before: Option<&Stretch>, owed: &mut Owed, ops: &mut Vec<Op>) -> bool {
        let slept = before.map(|before| before.ended).filter(|&slept| slept > owed.until);
        ops.extend(slept.and_then(|at| self.owes(thread, at, owed)).map(|(pool, work)| Op::PoolHelp { pool, work }));
        self.pools.of(thread).is_some()
    }

    /// Lets a member that kills its process wait for the pool's work until then.
    pub(super) fn ends_after_others(&self, thread: usize, begin: usize, owed: &mut Owed, ops: &mut Vec<Op>) {
        let place = ops[begin..].iter().position(|op| *op == Op::ExitGroup).map(|place| begin + place);
        if let Some(place) = place
            && let Some(at) = self.exits.time(thread)
            && let Some((pool, work)) = self.owes(thread, at, owed)
        {
            ops.splice(place..place, [Op::PoolHelp { pool, work }, Op::PoolSleep { pool, work: 0 }]);
        }
    }

    /// Makes what a member does after the end of its process its own work.
    pub(super) fn leaves_pool(&self, thread: usize, phases: &mut [Phase]) {
        if !self.pools.ends(thread) {
            return;
        }
        let ops = phases.iter_mut().flat_map(|phase| &mut phase.ops);
        for op in ops.skip_while(|op| !matches!(op, Op::ExitGroup | Op::AwaitKill)) {
            if let Op::PoolRun { work, .. } = *op {
                *op = Op::Run { work };
            }
        }
    }
}

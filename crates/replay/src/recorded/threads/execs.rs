//! Where a task executes another program: its scheduler then looks for an idler CPU (`sched_exec`).

use super::{Act, Activity};

/// CPU time from `sched_exec` to `sched_process_exec`, while the kernel loads the program. Under Linux 6.18, the median
/// of 743 programs that did not move was 58 us (quartiles 47 and 76). Of 164 that moved, it was 101 us.
const LOADS_NS: u64 = 60_000;
/// The same after a move, at most. Of those 164, 95 % are below 174 us. The longest of twenty in another recording took
/// 376 us. A stopper that came longer before had another reason.
const MOVED_LOADS_NS: u64 = 1_000_000;

/// The stopper took the CPU of a running task. It moves a task to the CPU that `sched_exec` has chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopped {
    stretch: usize,
    /// The task's work in that stretch by then.
    done: u64,
}

impl Activity {
    /// Notes that the stopper took a task's CPU.
    pub(super) fn stops(&mut self, pid: i32) {
        let Some(&thread) = self.pids.get(&pid) else { return };
        let done = self.done(thread);
        let this = &mut self.threads[thread];
        this.stopped = this.stretches.len().checked_sub(1).map(|stretch| Stopped { stretch, done });
    }

    /// Notes that a task has loaded another program. The scheduler has looked for a CPU before that.
    pub(super) fn executes(&mut self, at: u64, pid: i32) {
        let Some(&thread) = self.pids.get(&pid) else { return };
        let done = self.done(thread);
        let this = &mut self.threads[thread];
        let stopped = this.stopped.take();
        let Some(last) = this.stretches.len().checked_sub(1) else { return };
        let stopped =
            stopped.filter(|stopped| stopped.stretch == last && done.saturating_sub(stopped.done) <= MOVED_LOADS_NS);
        let place = stopped.map_or(done.saturating_sub(LOADS_NS), |stopped| stopped.done);
        let acts = &mut this.stretches[last].acts;
        let index = acts.partition_point(|&(at, _)| at <= place);
        acts.insert(index, (place, Act::Executes { at }));
    }
}

//! rt-app's log of each loop, for observers that want it ([`Sink::wants_loops`]).

use vruntime_sched::Policy;
use vruntime_sched::ids::TaskId;
use vruntime_trace::{LoopTimes, Sink};

use crate::machine::Machine;
use crate::program::Code;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loop {
    times: LoopTimes,
    /// The start of its `run` or `runtime`.
    began: u64,
    /// The time of its `runtime` waiting for a CPU.
    waited: u64,
}

impl Loop {
    /// Notes that the task has a CPU after a wait of `time`, which shortens its `runtime`.
    pub(crate) fn has_waited(&mut self, time: u64) {
        self.waited = self.waited.saturating_add(time);
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Returns the loop of a task, if an observer wants loops.
    #[inline]
    fn loop_of(&mut self, task: u32) -> Option<&mut Loop> {
        let loops = self.loops.as_mut()?;
        if task as usize >= loops.len() {
            loops.resize(self.tasks.len(), Loop::default());
        }
        loops.get_mut(task as usize)
    }

    #[inline]
    pub(crate) fn loop_begins(&mut self, task: u32) {
        if let Some(this) = self.loop_of(task) {
            *this = Loop::default();
        }
    }

    #[inline]
    pub(crate) fn work_begins(&mut self, task: u32) {
        let now = self.core.now;
        if let Some(this) = self.loop_of(task) {
            (this.began, this.waited) = (now, 0);
        }
    }

    #[inline]
    pub(crate) fn work_ends(&mut self, cpu: usize, task: u32, code: Code) {
        if self.loops.is_none() {
            return;
        }
        let (now, capacity) = (self.core.now, u64::from(self.capacity[cpu]));
        if let Some(this) = self.loop_of(task) {
            let (asked, done) = match code {
                Code::Run(work) | Code::PoolRun { work, .. } => (work, work),
                Code::Runtime(time) => {
                    // This CPU's work in the task's part of that time.
                    let had = time.saturating_sub(this.waited);
                    (time, (u128::from(had) * u128::from(capacity) / 1024) as u64)
                }
                _ => return,
            };
            let times = &mut this.times;
            times.asked = times.asked.saturating_add(asked);
            times.work = times.work.saturating_add(done);
            times.run += now - this.began;
        }
    }

    /// Notes that the task reaches a timer of `period`, due at `due`.
    #[inline]
    pub(crate) fn reaches_timer(&mut self, task: u32, period: u64, due: u64) {
        let now = self.core.now;
        if let Some(this) = self.loop_of(task) {
            let times = &mut this.times;
            let slack = due as i64 - now as i64;
            times.period = times.period.saturating_add(period);
            times.slack = slack;
            times.cumulative_slack = times.cumulative_slack.saturating_add(slack);
            if slack <= 0 {
                times.wakeup_latency = 0;
            }
        }
    }

    /// Notes that the task returns from a timer, `late` nanoseconds late.
    #[inline]
    pub(crate) fn returns_from_timer(&mut self, task: u32, late: u64) {
        if let Some(this) = self.loop_of(task) {
            this.times.wakeup_latency += late;
        }
    }

    /// Ends a loop that began `duration` ago.
    #[inline]
    pub(crate) fn loop_ends(&mut self, task: u32, duration: u64) {
        let own = (self.tasks[task as usize].template as usize) < self.own;
        if let Some(this) = self.loop_of(task)
            && own
        {
            let times = this.times;
            self.core.sink.loop_end(self.core.now, TaskId(task), duration, &times);
        }
    }
}

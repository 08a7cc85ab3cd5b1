//! Response times, for observers that want them ([`Sink::wants_rounds`]).
//!
//! A *round* is what a task does between two waits. It is due when its timer or sleep was due, when a task or a device
//! woke the task, or when its request arrived. It is done when the task begins its next wait, or ends. Waits for a
//! mutex, a device and room in a pipe belong to the round, and so do reads that find bytes. Any other wait that need
//! not sleep begins a round that is due at once.

use vruntime_sched::Policy;
use vruntime_sched::ids::TaskId;
use vruntime_trace::Sink;

use crate::cpu::NEVER;
use crate::machine::Machine;
use crate::program::Code;
use crate::task::Next;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    due: u64,
    /// The last wakeup since the wait began, nanoseconds, or [`NEVER`].
    woken: u64,
    open: bool,
    worked: bool,
    fresh: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Work,
    Wait,
    Exit,
    /// Neither takes time nor waits.
    Nothing,
}

impl Code {
    fn part(self) -> Part {
        match self {
            Self::Sleep(_)
            | Self::SleepUntil(_)
            | Self::Timer { .. }
            | Self::TimerAbsolute { .. }
            | Self::PoolSleep { .. }
            | Self::Wait { .. }
            | Self::Sync { .. }
            | Self::Barrier { .. }
            | Self::SemWait(_)
            | Self::InboxWait { .. }
            | Self::LeadAwaits(_)
            | Self::Suspend { .. }
            | Self::SpinWait { lock: false, .. }
            | Self::SpinBarrier(_)
            | Self::AwaitKill
            | Self::WaitEvent { .. }
            | Self::WaitForCompletion { .. } => Part::Wait,
            Self::Exit => Part::Exit,
            Self::Settings(_)
            | Self::Phase { .. }
            | Self::Loop
            | Self::LoopEnd { .. }
            | Self::Repeat { .. }
            | Self::PoolWait { .. }
            | Self::PoolAgain { .. }
            | Self::PutOff { .. }
            | Self::PutOffEnd { .. }
            | Self::CatchUp { .. }
            | Self::Lock(_)
            | Self::TryLock { .. }
            | Self::EnsureLock(_)
            | Self::Unlock(_)
            | Self::SpinWait { lock: true, .. }
            | Self::SpinPost { .. }
            | Self::PipeRead { .. } => Part::Nothing,
            _ => Part::Work,
        }
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(crate) fn round_of_new_task(&mut self) {
        let due = self.core.now;
        if let Some(rounds) = &mut self.rounds {
            rounds.push(Round { due, woken: NEVER, open: true, worked: false, fresh: true });
        }
    }

    #[inline]
    pub(crate) fn round_reaches(&mut self, task: u32, code: Code) {
        let Some(round) = self.rounds.as_mut().and_then(|rounds| rounds.get_mut(task as usize)) else { return };
        round.fresh = false;
        match code.part() {
            Part::Work => round.worked = true,
            Part::Wait => self.round_ends(task),
            // The end of the run cuts a round off.
            Part::Exit if self.core.now < self.stop_at => self.round_ends(task),
            Part::Exit | Part::Nothing => {}
        }
    }

    #[inline]
    pub(crate) fn round_blocks(&mut self, task: u32) {
        if self.rounds.is_some()
            && let Code::PipeRead { .. } = self.programs.code[self.tasks[task as usize].pc as usize]
        {
            self.round_ends(task);
        }
    }

    #[inline]
    pub(crate) fn round_wakes(&mut self, task: u32) {
        let now = self.core.now;
        if let Some(round) = self.rounds.as_mut().and_then(|rounds| rounds.get_mut(task as usize)) {
            if round.fresh {
                round.due = now;
            } else if self.tasks[task as usize].next != Next::ReturnLock {
                round.woken = now;
            }
        }
    }

    /// Notes an event that was due at `due`, and with it the next round.
    pub(crate) fn round_is_due(&mut self, task: u32, due: u64) {
        if let Some(round) = self.rounds.as_mut().and_then(|rounds| rounds.get_mut(task as usize)) {
            round.woken = due;
        }
    }

    /// Begins a round if the completed instruction was a wait.
    #[inline]
    pub(crate) fn round_begins(&mut self, task: u32, code: Code) {
        let Some(round) = self.rounds.as_mut().and_then(|rounds| rounds.get_mut(task as usize)) else { return };
        let reads = matches!(code, Code::PipeRead { .. });
        if round.open || !(reads || code.part() == Part::Wait) {
            return;
        }
        let timer_due = self.tasks[task as usize].due;
        let due = match code {
            Code::Sleep(_) | Code::SleepUntil(_) | Code::TimerAbsolute { .. } => timer_due,
            // A late task restarts the beat of such a timer.
            Code::Timer { .. } if round.woken != NEVER => timer_due,
            _ => round.woken,
        };
        let due = due.min(self.core.now);
        *round = Round { due, woken: NEVER, open: true, worked: reads, fresh: false };
    }

    fn round_ends(&mut self, task: u32) {
        let now = self.core.now;
        let Some(round) = self.rounds.as_mut().and_then(|rounds| rounds.get_mut(task as usize)) else { return };
        let done = round.open && round.worked;
        let response = now.saturating_sub(round.due);
        (round.open, round.worked, round.woken) = (false, false, NEVER);
        if done {
            self.core.sink.round_end(now, TaskId(task), response);
        }
    }
}

//! A stretch of work between two sleeps, and its effects on other threads.

use smallvec::SmallVec;

use crate::recorded::Context;

/// What ended a sleep, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recorded) enum Waker {
    /// None: the thread's first stretch.
    Start,
    /// An interrupt in the idle task; or an unknown waker.
    Interrupt,
    /// This thread, or an interrupt that hit it.
    Thread(usize),
}

/// How a stretch of work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recorded) enum End {
    Trace,
    Sleep,
    /// By a sleep without signals.
    Device,
    Exit,
}

/// A thread's effect on others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recorded) enum Act {
    /// It wakes that thread before that stretch.
    Wake { thread: usize, stretch: usize },
    /// It forks that thread.
    Fork(usize),
    /// It executes another program, and the scheduler looks for an idler CPU ([`super::Activity::executes`]).
    Executes { at: u64 },
    /// It left its CPU while runnable, after it had run for `ran`, and no wakeup explains that.
    Left { at: u64, ran: u64 },
    /// It would have slept until that thread woke it, but the wakeup came first ([`crate::recorded::handoffs`]).
    Awaits { thread: usize, at: u64 },
    /// It would have woken that thread.
    HandsBack { thread: usize, at: u64 },
    /// It advanced what a follower reads by one step ([`crate::recorded::leads`]).
    Leads { lead: usize, at: u64 },
    /// It read the leader's progress, which dated from `moved`.
    Follows { lead: usize, at: u64, moved: u64 },
    /// It sent a message ([`crate::recorded::flows`]).
    Sends { to: usize, at: u64 },
    /// It begins with a message, which dated from `at`.
    Receives { at: u64 },
    /// It sent the message of that number ([`crate::recorded::messages`]).
    SendsMessage { message: usize, at: u64 },
    /// It waited for that message, or took it.
    TakesMessage { message: usize, at: u64 },
    /// What follows until the next wait answers a message. An event loop puts it off until it has read all that are
    /// there.
    PutsOff { at: u64 },
    /// It was late for the next beat of its timer, and did not sleep ([`crate::recorded::habits::missed_beats`]).
    IsLate { at: u64 },
    /// It kills the other threads of its process ([`crate::recorded::exits`]).
    Kills { at: u64 },
    /// Another thread kills it.
    IsKilled { at: u64 },
}

/// What a thread does from a wakeup to its next sleep.
#[derive(Clone, Debug)]
pub(in crate::recorded) struct Stretch {
    /// Its wakeup, or first event.
    pub(in crate::recorded) woken: u64,
    pub(in crate::recorded) waker: Waker,
    /// Whether the waker is certain: by the trace's records, no hardware interrupt was active. Softirqs count as the
    /// waker's. Without such records, the wakeup was on another CPU than the sleeper's timers. None: an interrupt may
    /// have hit that thread.
    pub(in crate::recorded) surely: Option<bool>,
    /// The wakeup's context, if known.
    pub(in crate::recorded) context: Option<Context>,
    /// The wakeup preceded the sleep.
    pub(in crate::recorded) early: bool,
    /// The wakeup's CPU.
    pub(in crate::recorded) cpu: u32,
    pub(in crate::recorded) last_cpu: u32,
    /// Whether it began on the waker's CPU. None: a CPU was idle, or it slept there.
    pub(in crate::recorded) taken_in: Option<bool>,
    /// When it first and last came onto a CPU.
    pub(in crate::recorded) began: u64,
    pub(in crate::recorded) resumed: u64,
    /// Time on a CPU, as is.
    pub(in crate::recorded) time: u64,
    /// Part of `time` that is not work: the recording of events, or [charged](super::Activity::charge_switches) costs.
    pub(in crate::recorded) overhead: u64,
    /// The rest of `time`, at full speed.
    pub(in crate::recorded) work: u64,
    /// How often it got a CPU.
    pub(in crate::recorded) runs: u64,
    /// Effects on others, with the work done by then.
    pub(in crate::recorded) acts: SmallVec<[(u64, Act); 1]>,
    pub(in crate::recorded) ended: u64,
    pub(in crate::recorded) end: End,
    /// The kernel's priority.
    pub(in crate::recorded) prio: i32,
}

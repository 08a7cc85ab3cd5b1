//! Why a task joins or leaves a run queue, and how it is woken.

/// Why a task joins a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enqueue {
    /// Forked a moment ago.
    New,
    /// Woken where it slept.
    Wakeup,
    /// Woken, and moved to another CPU.
    WakeupMigrated,
    /// Moved here while runnable.
    Move,
    /// Back after a change of its attributes.
    Restore,
    /// Woken while its dequeue was delayed: it is still queued.
    Delayed,
}

/// Why a task leaves a run queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeue {
    /// It sleeps.
    Sleep,
    /// It ends.
    Dead,
    /// It moves to another run queue while runnable.
    Move,
    /// Its attributes change; it returns at once.
    Save,
    /// Its delayed dequeue takes effect.
    Delayed,
    /// Its group's CPU limit is used up.
    Throttle,
}

/// The kind of a wakeup: by another task, unless `fork`, `sync` or `irq` is set (at most one). The default also applies
/// to [`Policy::wakeup_preempt`](crate::Policy::wakeup_preempt) for pulled or changed tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wake {
    /// The first wakeup.
    pub fork: bool,
    /// The waker is about to sleep.
    pub sync: bool,
    /// From an interrupt; the interrupted task is not the waker.
    pub irq: bool,
    /// How often the waker recently changed its wakee (`wakee_flips`).
    pub waker_flips: u32,
    /// Load of the waker, for a `sync` wakeup, in the scale of [`Balanced::task_load`](super::Balanced::task_load).
    pub waker_load: u64,
}

//! Push and pull of the real-time and deadline classes.

/// Work on other CPUs after a run queue is unlocked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Callback {
    /// It has more tasks than it can run.
    Push,
    /// It is about to run a less urgent task.
    Pull,
}

/// Tries of a search whose result has changed meanwhile.
pub(crate) const MAX_TRIES: u32 = 3;

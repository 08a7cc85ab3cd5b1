//! What a task was before the run.

/// The state before the run of a task that existed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// Asleep on that CPU until its start. A task that starts with the run and first waits for a time or a semaphore
    /// begins in that wait.
    Asleep(u32),
    /// Running or runnable on that CPU, also at its start.
    Runnable(u32),
}

impl Before {
    /// Returns the CPU.
    #[must_use]
    pub const fn cpu(self) -> u32 {
        match self {
            Self::Asleep(cpu) | Self::Runnable(cpu) => cpu,
        }
    }
}

/// How much a task used CPUs shortly before the run, of 1024: the kernel's averages of load and utilisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Averages {
    /// The part of the time in which it was running or runnable.
    pub runnable: u16,
    /// The part of the time in which it was running.
    pub running: u16,
}

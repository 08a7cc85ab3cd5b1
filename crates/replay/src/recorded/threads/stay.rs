//! A thread on one CPU, and how long it waits there.

/// Where a thread has been since it last came to another CPU.
#[derive(Clone, Copy, Debug)]
pub(in crate::recorded) struct Stay {
    pub(in crate::recorded) cpu: u32,
    /// In which stretch it came there.
    pub(in crate::recorded) stretch: usize,
    /// How long it has waited there.
    pub(in crate::recorded) waited: u64,
    /// And how long of that another CPU was idle.
    pub(in crate::recorded) beside_idle: u64,
    /// And how long its own was.
    pub(in crate::recorded) own_idle: u64,
}

impl Stay {
    pub(super) fn new(cpu: usize, stretch: usize) -> Self {
        Self { cpu: cpu as u32, stretch, waited: 0, beside_idle: 0, own_idle: 0 }
    }
}

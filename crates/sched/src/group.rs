//! Task groups: what all CPUs share of them. What a CPU keeps of a group, only where its tasks have been, is in the
//! fair class.

use core::sync::atomic::Ordering::Relaxed;

use crate::ids::GroupId;
use crate::sync::{AtomicBool, AtomicI64, AtomicU64};

/// A task group, as all CPUs see it.
#[derive(Debug)]
pub struct TaskGroup {
    /// The group it is in. The root is its own parent.
    pub parent: GroupId,
    /// Levels below the root; the root is 0.
    pub depth: u32,
    shares: AtomicU64,
    idle: AtomicBool,
    load_avg: AtomicI64,
}

impl TaskGroup {
    pub(crate) fn new(parent: GroupId, depth: u32, shares: u64, idle: bool) -> Self {
        Self { parent, depth, shares: AtomicU64::new(shares), idle: AtomicBool::new(idle), load_avg: AtomicI64::new(0) }
    }

    /// The weight all its CPUs share between them, in the scheduler's scale.
    #[inline]
    pub fn shares(&self) -> u64 {
        self.shares.load(Relaxed)
    }

    pub(crate) fn set_shares(&self, shares: u64) {
        self.shares.store(shares, Relaxed);
    }

    /// `cpu.idle`.
    #[inline]
    pub fn idle(&self) -> bool {
        self.idle.load(Relaxed)
    }

    /// Sum over the CPUs of its load average there: the denominator when its weight is split.
    #[inline]
    pub fn load_avg(&self) -> u64 {
        self.load_avg.load(Relaxed).max(0) as u64
    }

    #[inline]
    pub(crate) fn add_load_avg(&self, delta: i64) {
        self.load_avg.fetch_add(delta, Relaxed);
    }
}

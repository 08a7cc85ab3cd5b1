//! Task groups: what all CPUs share of them. What a CPU keeps of a group, only where its tasks have been, is in the
//! fair class.

use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use once_cell::race::OnceBox;
use spin::Mutex;

use crate::class::fair::bandwidth::{self, BandwidthStat, Limit, Pool};
use crate::class::o1::Class;
use crate::class::rt::GroupRt;
use crate::ids::GroupId;
use crate::sync::{AtomicBool, AtomicI64, AtomicU64};
use crate::uclamp::GroupUclamp;

/// What a new group weighs in its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupWeight {
    /// `cpu.weight`, 1..=10000; the kernel's default is 100.
    Weight(u32),
    /// `cpu.idle`: weighs as little as a SCHED_IDLE task, and every other task preempts it.
    Idle,
}

/// Why a group's weight or limit, or whether it is idle, is not changed. Its text says how to mend it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupError {
    /// The root group has no such files.
    Root,
    /// An idle group has no weight of its own (EINVAL).
    Idle,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "the root group has no weight and no limit; write to a group below it",
            Self::Idle => "the kernel refuses an idle group a weight (EINVAL); write 0 to its `cpu.idle` first",
        })
    }
}

impl core::error::Error for GroupError {}

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
    pub(crate) uclamp: GroupUclamp,
    /// What its real-time tasks may have.
    pub(crate) rt: GroupRt,
    /// What the CPU resource controller keeps of it: of the root and the groups below it, under kernels that have one.
    pub(crate) cpu_rc: Option<Box<Class>>,
    /// The run time its CPUs draw on; made when it gets its first limit.
    pool: OnceBox<Mutex<Pool>>,
}

impl TaskGroup {
    pub(crate) fn new(
        parent: GroupId,
        depth: u32,
        shares: u64,
        idle: bool,
        uclamp: GroupUclamp,
        cpu_rc: Option<Box<Class>>,
    ) -> Self {
        Self {
            parent,
            depth,
            shares: AtomicU64::new(shares),
            idle: AtomicBool::new(idle),
            load_avg: AtomicI64::new(0),
            uclamp,
            rt: GroupRt::default(),
            cpu_rc,
            pool: OnceBox::new(),
        }
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

    pub(crate) fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Relaxed);
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

    /// `cpu.max` and `cpu.max.burst`; none: no limit.
    pub fn limit(&self) -> Option<Limit> {
        self.pool().and_then(|pool| pool.lock().limit())
    }

    /// What its limit has done so far: `cpu.stat`.
    pub fn bandwidth_stat(&self) -> BandwidthStat {
        self.pool().map(|pool| pool.lock().stat).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn pool(&self) -> Option<&Mutex<Pool>> {
        self.pool.get()
    }

    /// Its pool, made if need be for `id`, which it is, with that phase of its periods.
    pub(crate) fn pool_or_new(&self, apart: bool, id: GroupId, phase: Option<u64>) -> &Mutex<Pool> {
        self.pool.get_or_init(|| Box::new(Mutex::new(bandwidth::new_pool(apart, id, phase))))
    }
}

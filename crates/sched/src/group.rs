//! Task groups: the state that all CPUs share. The fair class has the state on each CPU.

use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use once_cell::race::OnceBox;
use spin::Mutex;

use crate::class::fair::bandwidth::pool::{self, BandwidthStat, Limit, Pool};
use crate::class::o1::controller::Class;
use crate::class::rt::period::GroupRt;
use crate::ids::GroupId;
use crate::sync::{AtomicBool, AtomicI64, AtomicU64};
use crate::uclamp::GroupUclamp;

/// The weight of a new group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupWeight {
    /// `cpu.weight`, 1..=10000; the default is 100.
    Weight(u32),
    /// `cpu.idle`: the weight of a SCHED_IDLE task; every other task preempts it.
    Idle,
}

/// Why a group does not change. The text says what to do.
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

/// A task group.
#[derive(Debug)]
pub struct TaskGroup {
    /// Its parent. The root is its own parent.
    pub parent: GroupId,
    /// Levels below the root.
    pub depth: u32,
    shares: AtomicU64,
    idle: AtomicBool,
    load_avg: AtomicI64,
    pub(crate) uclamp: GroupUclamp,
    pub(crate) rt: GroupRt,
    /// State of the CPU resource controller, for the root and the groups below it, under its kernel.
    pub(crate) cpu_rc: Option<Box<Class>>,
    /// The runtime pool of its limit, created with the first limit.
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

    /// Returns its weight, in the scheduler's scale.
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

    /// Sum of its load averages on all CPUs, by which its weight is divided.
    #[inline]
    pub fn load_avg(&self) -> u64 {
        self.load_avg.load(Relaxed).max(0) as u64
    }

    #[inline]
    pub(crate) fn add_load_avg(&self, delta: i64) {
        self.load_avg.fetch_add(delta, Relaxed);
    }

    /// `cpu.max` and `cpu.max.burst`, if limited.
    pub fn limit(&self) -> Option<Limit> {
        self.pool().and_then(|pool| pool.lock().limit())
    }

    /// Returns its `cpu.stat`.
    pub fn bandwidth_stat(&self) -> BandwidthStat {
        self.pool().map(|pool| pool.lock().stat).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn pool(&self) -> Option<&Mutex<Pool>> {
        self.pool.get()
    }

    /// Returns its pool, created if missing with this `id` and phase of periods.
    pub(crate) fn pool_or_new(&self, own_phase: bool, id: GroupId, phase: Option<u64>) -> &Mutex<Pool> {
        self.pool.get_or_init(|| Box::new(Mutex::new(pool::new_pool(own_phase, id, phase))))
    }
}

//! Utilisation clamping (uclamp): requests of a task or group for CPU capacity, independent of its history.
//!
//! `util_min` requests a CPU and a frequency of at least this capacity; `util_max` states that no more is needed. A
//! task's effective clamp is its request within the bounds of its group and of the system. A CPU's clamp is the maximum
//! over its runnable tasks ([`Rq::clamps`]). Clamps change where a task fits (`class::fair::capacity`, `class::rt`) and
//! the CPU's frequency, never shares of time.
//!
//! As in the kernel, nothing is counted before the first request (`sched_uclamp_used`).

use alloc::boxed::Box;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use crate::class::ClassKind;
use crate::ids::GroupId;
use crate::policy::Policy;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::sync::AtomicU64;
use crate::task::Task;
use crate::tunables::Tunables;

/// The highest utilisation.
pub const SCALE: u16 = 1024;

/// Bounds of utilisation, each 0..=1024. If they cross, the upper one applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clamps {
    /// Lower bound.
    pub min: u16,
    /// Upper bound.
    pub max: u16,
}

impl Clamps {
    /// No bounds.
    pub const NONE: Self = Self { min: 0, max: SCALE };

    /// Clamps a utilisation.
    #[inline]
    pub fn apply(self, util: u64) -> u64 {
        util.max(u64::from(self.min)).min(u64::from(self.max))
    }
}

/// The system's bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UclampTunables {
    /// The highest clamps of tasks (`sched_util_clamp_min`, `sched_util_clamp_max`).
    pub system: Clamps,
    /// The lower clamp of real-time tasks without a request (`sched_util_clamp_min_rt_default`).
    pub min_rt_default: u16,
}

impl Default for UclampTunables {
    fn default() -> Self {
        Self { system: Clamps { min: SCALE, max: SCALE }, min_rt_default: SCALE }
    }
}

/// Clamps that the kernel refuses (EINVAL, ERANGE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UclampError {
    /// A bound above 1024.
    Range {
        /// The bound.
        value: u32,
    },
    /// A task's lower bound is above its upper one.
    Crossed {
        /// The lower bound.
        min: u32,
        /// The upper bound.
        max: u32,
    },
}

impl fmt::Display for UclampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range { value } => write!(f, "a utilisation clamp of {value} is above 1024, a whole CPU"),
            Self::Crossed { min, max } => {
                write!(f, "util_min {min} is above util_max {max}; give both together, the lower first")
            }
        }
    }
}

impl core::error::Error for UclampError {}

/// The state of a task. [`NOTHING`] stands for none, since this moves with every task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskUclamp {
    min: u16,
    max: u16,
    active: Clamps,
}

const NOTHING: u16 = u16::MAX;

impl Default for TaskUclamp {
    fn default() -> Self {
        Self { min: NOTHING, max: NOTHING, active: Clamps { min: NOTHING, max: NOTHING } }
    }
}

impl TaskUclamp {
    /// Sets requests; `None` keeps one.
    pub(crate) fn request(&mut self, min: Option<u32>, max: Option<u32>) -> Result<(), UclampError> {
        let bound = |value: Option<u32>, was: u16| match value {
            None => Ok(was),
            Some(value) => {
                let small = u16::try_from(value).ok().filter(|&value| value <= SCALE);
                small.ok_or(UclampError::Range { value })
            }
        };
        let (min, max) = (bound(min, self.min)?, bound(max, self.max)?);
        if min != NOTHING && min > max.min(SCALE) {
            return Err(UclampError::Crossed { min: min.into(), max: max.min(SCALE).into() });
        }
        (self.min, self.max) = (min, max);
        Ok(())
    }

    /// The clamps that are counted now.
    fn active(self) -> Option<Clamps> {
        (self.active.min != NOTHING).then_some(self.active)
    }
}

/// A group's requested and effective clamps.
#[derive(Debug)]
pub(crate) struct GroupUclamp(AtomicU64);

impl GroupUclamp {
    pub(crate) fn root(system: Clamps) -> Self {
        Self(AtomicU64::new(Self::pack(system, system)))
    }

    pub(crate) fn child(&self) -> Self {
        let child = Self(AtomicU64::new(Self::pack(Clamps::NONE, Clamps::NONE)));
        child.inherit(self.holds());
        child
    }

    fn pack(asked: Clamps, holds: Clamps) -> u64 {
        [asked.min, asked.max, holds.min, holds.max].iter().fold(0, |packed, &part| packed << 16 | u64::from(part))
    }

    fn get(&self) -> (Clamps, Clamps) {
        let packed = self.0.load(Relaxed);
        let part = |at: u32| (packed >> (16 * at)) as u16;
        (Clamps { min: part(3), max: part(2) }, Clamps { min: part(1), max: part(0) })
    }

    fn asked(&self) -> Clamps {
        self.get().0
    }

    /// The effective clamps, which bound requests of its tasks.
    fn holds(&self) -> Clamps {
        self.get().1
    }

    pub(crate) fn ask(&self, asked: Clamps) {
        self.0.store(Self::pack(asked, self.holds()), Relaxed);
    }

    /// Limits both bounds to those of the parent, and the lower one to the upper.
    fn inherit(&self, parent: Clamps) {
        let asked = self.asked();
        let max = asked.max.min(parent.max);
        let min = asked.min.min(parent.min).min(max);
        self.0.store(Self::pack(asked, Clamps { min, max }), Relaxed);
    }
}

/// Updates the effective clamps of every group (`cpu_util_update_eff`).
pub(crate) fn update_groups<P: Policy>(shared: &Shared<P>) {
    for id in shared.group_ids().skip(1) {
        // Parents have lower numbers than their children.
        let group = shared.group(id);
        group.uclamp.inherit(shared.group(group.parent).uclamp.holds());
    }
}

/// The effective clamps of a task (`uclamp_eff_value`): those of its enqueue, or the present ones.
pub(crate) fn effective<P: Policy>(shared: &Shared<P>, task: &Task<P>) -> Clamps {
    task.uclamp.active().unwrap_or_else(|| restricted(shared, task))
}

/// The requests of a task (`uclamp_req`), with defaults for what it does not request.
pub(crate) fn requested<P: Policy>(shared: &Shared<P>, task: &Task<P>) -> Clamps {
    let asked = |value: u16, otherwise| if value == NOTHING { otherwise } else { value };
    let default = if task.policy.is_rt() { shared.config.tunables.uclamp().min_rt_default } else { 0 };
    Clamps { min: asked(task.uclamp.min, default), max: asked(task.uclamp.max, SCALE) }
}

fn restricted<P: Policy>(shared: &Shared<P>, task: &Task<P>) -> Clamps {
    let tunables = shared.config.tunables.uclamp();
    let Clamps { mut min, mut max } = requested(shared, task);
    // Only the system's limits bound tasks of the root.
    if task.group != GroupId::ROOT {
        let group = shared.group(task.group).uclamp.holds();
        (min, max) = (min.clamp(group.min, group.max), max.clamp(group.min, group.max));
    }
    Clamps { min: min.min(tunables.system.min), max: max.min(tunables.system.max) }
}

const BUCKETS: usize = 20;
const BUCKET: u16 = (SCALE + BUCKETS as u16 / 2) / BUCKETS as u16;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    value: u16,
    tasks: u32,
}

/// One bound of a CPU: the maximum over its runnable tasks. Tasks of similar values share a bucket, which keeps its
/// maximum until it is empty. So a CPU may be boosted a little too long, but nothing is searched.
#[derive(Clone, Debug)]
struct Aggregate {
    buckets: [Bucket; BUCKETS],
    value: u16,
}

impl Aggregate {
    fn new(value: u16) -> Self {
        Self { buckets: [Bucket::default(); BUCKETS], value }
    }

    fn bucket(&mut self, value: u16) -> &mut Bucket {
        &mut self.buckets[usize::from(value / BUCKET).min(BUCKETS - 1)]
    }

    fn inc(&mut self, value: u16) {
        let bucket = self.bucket(value);
        bucket.tasks += 1;
        if bucket.tasks == 1 || value > bucket.value {
            bucket.value = value;
        }
        self.value = self.value.max(value);
    }

    /// Returns true if no task is left.
    fn dec(&mut self, value: u16) -> bool {
        let top = self.value;
        let bucket = self.bucket(value);
        bucket.tasks -= 1;
        if bucket.tasks > 0 || bucket.value < top {
            return false;
        }
        let highest = self.buckets.iter().rev().find(|bucket| bucket.tasks > 0);
        // The last task's upper bound is kept, not its bucket's.
        self.value = highest.map_or(value, |bucket| bucket.value);
        highest.is_none()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RqUclamp {
    min: Aggregate,
    max: Aggregate,
    /// Set if no task is runnable. The last upper bound is kept, so that decaying utilisation does not raise the
    /// frequency.
    idle: bool,
}

impl RqUclamp {
    fn new() -> Self {
        Self { min: Aggregate::new(0), max: Aggregate::new(SCALE), idle: true }
    }

    fn inc(&mut self, clamps: Clamps) {
        if core::mem::take(&mut self.idle) {
            (self.min.value, self.max.value) = (clamps.min, clamps.max);
        }
        self.min.inc(clamps.min);
        self.max.inc(clamps.max);
    }

    fn dec(&mut self, clamps: Clamps) {
        if self.min.dec(clamps.min) {
            self.min.value = 0;
        }
        self.idle |= self.max.dec(clamps.max);
    }

    fn clamps(&self) -> Clamps {
        Clamps { min: self.min.value, max: self.max.value }
    }
}

#[inline]
pub(crate) fn inc<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, kind: ClassKind, index: u32) {
    if shared.uclamp_used() && kind != ClassKind::Deadline {
        count(rq, shared, index);
    }
}

#[cold]
fn count<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    if rq.tasks[index].uclamp.active().is_some() {
        return;
    }
    let clamps = restricted(shared, &rq.tasks[index]);
    rq.tasks[index].uclamp.active = clamps;
    rq.clamped = true;
    rq.uclamp.get_or_insert_with(|| Box::new(RqUclamp::new())).inc(clamps);
}

/// A task leaves the queue, or stays there but is not runnable.
#[inline]
pub(crate) fn dec<P: Policy>(rq: &mut Rq<P>, index: u32) {
    if rq.clamped {
        discount(rq, index);
    }
}

#[cold]
fn discount<P: Policy>(rq: &mut Rq<P>, index: u32) {
    if let (Some(clamps), Some(uclamp)) = (rq.tasks[index].uclamp.active(), &mut rq.uclamp) {
        uclamp.dec(clamps);
        rq.tasks[index].uclamp.active = TaskUclamp::default().active;
    }
}

/// Counts a queued task again after a change.
pub(crate) fn refresh<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>, index: u32) {
    dec(rq, index);
    inc(rq, shared, rq.tasks[index].kind(), index);
}

/// Counts the tasks here again after a change of their group's clamps.
pub(crate) fn update_active<P: Policy>(rq: &mut Rq<P>, shared: &Shared<P>) {
    let active = |(index, task): (u32, &Task<P>)| task.uclamp.active().map(|_| index);
    let indices: alloc::vec::Vec<u32> = rq.tasks.iter().filter_map(active).collect();
    for index in indices {
        discount(rq, index);
        count(rq, shared, index);
    }
}

impl<P: Policy> Rq<P> {
    /// The clamps of this CPU: for both bounds the maximum of its runnable tasks.
    pub fn clamps(&self) -> Clamps {
        self.uclamp.as_ref().map_or(Clamps::NONE, |uclamp| uclamp.clamps())
    }
}

/// Checks the counts. For tests: slow.
pub(crate) fn check<P: Policy>(rq: &Rq<P>) -> Result<(), alloc::string::String> {
    let Some(uclamp) = &rq.uclamp else { return Ok(()) };
    let active: alloc::vec::Vec<Clamps> = rq.tasks.iter().filter_map(|(_, task)| task.uclamp.active()).collect();
    let counted = |aggregate: &Aggregate| aggregate.buckets.iter().map(|bucket| bucket.tasks as usize).sum::<usize>();
    let stray = rq.tasks.iter().any(|(_, task)| task.uclamp.active().is_some() && !task.on_rq);
    if stray || counted(&uclamp.min) != active.len() || counted(&uclamp.max) != active.len() {
        return Err(alloc::format!("CPU {}: the clamps counted are not those of its runnable tasks", rq.cpu));
    }
    // Too high by less than a bucket, never too low.
    let highest = |of: fn(&Clamps) -> u16| active.iter().map(of).max();
    for (value, highest) in [(uclamp.min.value, highest(|c| c.min)), (uclamp.max.value, highest(|c| c.max))] {
        if let Some(highest) = highest
            && !(highest..highest + 2 * BUCKET).contains(&value)
        {
            return Err(alloc::format!("CPU {}: a clamp of {value}, the highest of its tasks is {highest}", rq.cpu));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_of_the_runnable_holds() {
        let mut rq = RqUclamp::new();
        let clamps = |min, max| Clamps { min, max };
        assert_eq!(rq.clamps(), Clamps::NONE);
        rq.inc(clamps(100, 300));
        assert_eq!(rq.clamps(), clamps(100, 300));
        rq.inc(clamps(512, 1024));
        rq.inc(clamps(0, 200));
        assert_eq!(rq.clamps(), clamps(512, 1024));
        rq.dec(clamps(512, 1024));
        assert_eq!(rq.clamps(), clamps(100, 300));
        rq.dec(clamps(100, 300));
        rq.dec(clamps(0, 200));
        // Idle: no boost, and the last cap.
        assert_eq!(rq.clamps(), clamps(0, 200));
        rq.inc(clamps(0, 700));
        assert_eq!(rq.clamps(), clamps(0, 700));
        // The cap of the last task, even if its bucket has another.
        rq.inc(clamps(0, 690));
        rq.dec(clamps(0, 700));
        assert_eq!(rq.clamps(), clamps(0, 700));
        rq.dec(clamps(0, 690));
        assert_eq!(rq.clamps(), clamps(0, 690));
    }

    #[test]
    fn a_bucket_remembers_its_greatest_until_it_is_empty() {
        // 20 buckets of 51; the last one extends to 1024.
        assert_eq!(BUCKET, 51);
        let mut aggregate = Aggregate::new(0);
        aggregate.inc(310);
        aggregate.inc(340);
        assert!(!aggregate.dec(340));
        assert_eq!(aggregate.value, 340);
        assert!(aggregate.dec(310));
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        let mut task = TaskUclamp::default();
        assert_eq!(task.request(Some(1025), None), Err(UclampError::Range { value: 1025 }));
        assert_eq!(task.request(Some(600), Some(500)), Err(UclampError::Crossed { min: 600, max: 500 }));
        assert_eq!(task.request(Some(600), None), Ok(()));
        assert_eq!(task.request(None, Some(599)), Err(UclampError::Crossed { min: 600, max: 599 }));
        assert_eq!(task.request(Some(1024), Some(1024)), Ok(()));
    }
}

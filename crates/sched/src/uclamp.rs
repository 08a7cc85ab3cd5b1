//! Utilisation clamping (uclamp): a task's or group's requests for CPU capacity, independent of its history.
//!
//! `util_min` requests a CPU and frequency of at least this capacity; `util_max` declares more unneeded. A task's
//! effective clamp is its request within its group's and the system's bounds. A CPU's is the maximum over its runnable
//! tasks ([`Rq::clamps`]). Clamps change where a task fits (`class::fair::capacity`, `class::rt`) and the frequency,
//! never shares of time.
//!
//! As in the kernel, nothing is counted before the first request (`sched_uclamp_used`).
//!
//! [`Rq::clamps`]: crate::Rq::clamps

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;

use crate::sync::AtomicU64;

/// The highest utilisation.
pub const SCALE: u16 = 1024;

/// Bounds of utilisation, 0..=1024. If they cross, the upper applies.
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
    /// Tasks' highest clamps (`sched_util_clamp_min`, `sched_util_clamp_max`).
    pub system: Clamps,
    /// Lower clamp of real-time tasks without a request (`sched_util_clamp_min_rt_default`).
    pub min_rt_default: u16,
}

impl Default for UclampTunables {
    fn default() -> Self {
        Self { system: Clamps { min: SCALE, max: SCALE }, min_rt_default: SCALE }
    }
}

/// Refused clamps (EINVAL, ERANGE).
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

/// A task's state. [`NOTHING`] stands for none, since this moves with every task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskUclamp {
    pub(crate) min: u16,
    pub(crate) max: u16,
    pub(crate) active: Clamps,
}

pub(crate) const NOTHING: u16 = u16::MAX;

impl Default for TaskUclamp {
    fn default() -> Self {
        Self { min: NOTHING, max: NOTHING, active: Clamps { min: NOTHING, max: NOTHING } }
    }
}

impl TaskUclamp {
    /// Sets requests; `None` keeps.
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

    /// Clamps counted now.
    pub(crate) fn active(self) -> Option<Clamps> {
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

    /// Effective clamps, which bound its tasks' requests.
    pub(crate) fn holds(&self) -> Clamps {
        self.get().1
    }

    pub(crate) fn ask(&self, asked: Clamps) {
        self.0.store(Self::pack(asked, self.holds()), Relaxed);
    }

    /// Limits both bounds to the parent's, and the lower to the upper.
    pub(crate) fn inherit(&self, parent: Clamps) {
        let asked = self.asked();
        let max = asked.max.min(parent.max);
        let min = asked.min.min(parent.min).min(max);
        self.0.store(Self::pack(asked, Clamps { min, max }), Relaxed);
    }
}

const BUCKETS: usize = 20;
pub(crate) const BUCKET: u16 = (SCALE + BUCKETS as u16 / 2) / BUCKETS as u16;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    value: u16,
    pub(crate) tasks: u32,
}

/// One of a CPU's bounds: the maximum over its runnable tasks. Similar values share a bucket, which keeps its maximum
/// until empty. So a boost may last a little too long, but nothing is searched.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) buckets: [Bucket; BUCKETS],
    pub(crate) value: u16,
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

    /// Returns whether none is left.
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
    pub(crate) min: Aggregate,
    pub(crate) max: Aggregate,
    /// Set if no task is runnable. The last upper bound stays, so that decaying utilisation does not raise the
    /// frequency.
    idle: bool,
}

impl RqUclamp {
    pub(crate) fn new() -> Self {
        Self { min: Aggregate::new(0), max: Aggregate::new(SCALE), idle: true }
    }

    pub(crate) fn inc(&mut self, clamps: Clamps) {
        if core::mem::take(&mut self.idle) {
            (self.min.value, self.max.value) = (clamps.min, clamps.max);
        }
        self.min.inc(clamps.min);
        self.max.inc(clamps.max);
    }

    pub(crate) fn dec(&mut self, clamps: Clamps) {
        if self.min.dec(clamps.min) {
            self.min.value = 0;
        }
        self.idle |= self.max.dec(clamps.max);
    }

    pub(crate) fn clamps(&self) -> Clamps {
        Clamps { min: self.min.value, max: self.max.value }
    }
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

//! What the fair class schedules: tasks, and groups' shares of one CPU.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::num::NonZeroI32;

use super::bandwidth::Local;
use super::leaves::Leaves;
use super::load::TG_UPDATE_NS;
use super::pelt::Avg;
use super::quiet::Quiet;
use super::timeline::{Ticket, Timeline};
use crate::ids::GroupId;

/// An entity on its run queue: a task by index in `Rq::tasks`, or a group by index in [`FairRq::groups`]. The value is
/// the distance from the middle of [`Entities`]: tasks above, groups below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Se(NonZeroI32);

impl Se {
    #[inline]
    pub(crate) const fn task(index: u32) -> Self {
        Self::from_raw(index + 1)
    }

    #[inline]
    pub(crate) const fn group(index: u32) -> Self {
        Self::from_raw(!index)
    }

    #[inline]
    pub(crate) const fn as_group(self) -> Option<u32> {
        if self.0.is_negative() { Some(!self.raw()) } else { None }
    }

    #[inline]
    pub(crate) const fn as_task(self) -> Option<u32> {
        if self.0.is_negative() { None } else { Some(self.raw() - 1) }
    }

    #[inline]
    pub(crate) const fn raw(self) -> u32 {
        self.0.get().cast_unsigned()
    }

    #[inline]
    #[expect(clippy::expect_used, reason = "the numbers are those that `raw` has given")]
    pub(crate) const fn from_raw(raw: u32) -> Self {
        Self(NonZeroI32::new(raw.cast_signed()).expect("no entity has the number 0"))
    }
}

/// A scheduling entity. Times are nanoseconds; virtual times are nanoseconds at nice 0.
//
// In this order in memory, 64 bytes a paragraph.
#[derive(Clone, Debug)]
#[repr(C)]
#[allow(clippy::struct_excessive_bools)] // each is a bit the kernel has, and they are independent
pub struct Entity {
    /// In the scheduler's scale.
    pub(crate) weight: u64,
    pub(crate) vruntime: u64,
    /// EEVDF: virtual deadline; relative to `vruntime` while `rel_deadline`.
    pub(crate) deadline: u64,
    /// EEVDF: requested time on the CPU.
    pub(crate) slice: u64,
    pub(crate) exec_start: u64,
    pub(crate) sum_exec_runtime: u64,
    /// Group of its queue.
    pub(crate) parent: u32,
    pub(crate) on_rq: bool,
    /// Whether it sleeps, but stays queued (DELAY_DEQUEUE).
    pub(crate) delayed: bool,
    pub(crate) rel_deadline: bool,
    pub(crate) custom_slice: bool,
    /// SCHED_IDLE, or a group with `cpu.idle`.
    pub(crate) idle: bool,
    /// 6.18+: whether it is in limbo, and whether it is throttled at the return to user mode.
    pub(crate) throttled: bool,
    pub(crate) throttle_work: bool,
    /// 6.6 to 6.16: whether the protection is in force.
    pub(crate) protected: bool,
    /// Groups: runnable tasks below at the last update.
    pub(crate) runnable_weight: u32,

    pub(crate) avg: Avg,

    pub(crate) ticket: Option<Ticket>,
    /// EEVDF: virtual lag when it left the queue.
    pub(crate) vlag: i64,
    /// EEVDF: virtual end of the protection while it runs.
    pub(crate) protected_until: u64,
    /// `sum_exec_runtime` when it was picked.
    pub(crate) prev_sum_exec_runtime: u64,
}

impl Entity {
    pub(crate) fn new(weight: u64, idle: bool) -> Self {
        Self {
            weight,
            vruntime: 0,
            deadline: 0,
            vlag: 0,
            slice: 0,
            protected_until: 0,
            protected: false,
            exec_start: 0,
            sum_exec_runtime: 0,
            prev_sum_exec_runtime: 0,
            ticket: None,
            parent: 0,
            on_rq: false,
            delayed: false,
            rel_deadline: false,
            custom_slice: false,
            idle,
            throttled: false,
            throttle_work: false,
            runnable_weight: 0,
            avg: Avg::default(),
        }
    }

    /// CPU time, nanoseconds.
    pub fn sum_exec_runtime(&self) -> u64 {
        self.sum_exec_runtime
    }

    /// Virtual runtime, nanoseconds at nice 0.
    pub fn vruntime(&self) -> u64 {
        self.vruntime
    }

    /// Load average, in units of weight.
    pub fn load_avg(&self) -> u64 {
        self.avg.load_avg
    }

    /// Utilisation average, of 1024.
    pub fn util_avg(&self) -> u64 {
        self.avg.util_avg
    }
}

/// The entity of a task that is between two run queues. `None` while the task has a run queue.
#[derive(Debug)]
pub struct DetachedEntity(pub(crate) Option<alloc::boxed::Box<Entity>>);

/// A group's queue on one CPU (`cfs_rq`).
//
// In this order in memory, 64 bytes a paragraph: what every verb reads is first.
#[derive(Debug)]
#[repr(C)]
pub struct CfsRq {
    /// Of the queued entities, the running one included.
    pub(crate) weight: u64,
    /// EEVDF: sum of weight x (vruntime - `zero`), weights in the user's scale.
    pub(crate) sum_wv: i64,
    /// EEVDF: sum of these weights. CFS: sum of load averages in the order, without the running entity's.
    pub(crate) sum_w: u64,
    /// EEVDF: origin of `sum_wv`, near the average. CFS: `min_vruntime`.
    pub(crate) zero: u64,
    pub(crate) nr_queued: u32,
    /// Queued here and below, delayed dequeues included.
    pub(crate) h_nr_queued: u32,
    pub(crate) h_nr_runnable: u32,
    /// Those that are SCHED_IDLE or in an idle group.
    pub(crate) h_nr_idle: u32,
    pub(crate) curr: Option<Se>,
    pub(crate) next: Option<Se>,
    pub(crate) last: Option<Se>,
    pub(crate) skip: Option<Se>,

    pub(crate) avg: Avg,

    pub(crate) timeline: Timeline,
    /// If the group, or one above, has a limit.
    pub(crate) bandwidth: Option<Box<Local>>,
    /// Number of ancestors.
    pub(crate) depth: u32,
    /// Whether it is in [`FairRq::leaves`] (`on_list`).
    pub(crate) listed: bool,
    /// Whether the group's entity has to take over a change.
    pub(crate) propagate: bool,
    pub(crate) prop_runnable_sum: i64,
    /// Averages of tasks that left asleep, to subtract at the next update.
    pub(crate) removed: Removed,

    /// Part of the group's load average.
    pub(crate) tg_load_avg_contrib: u64,
    /// Time of the last change of that; initially long ago.
    pub(crate) last_tg_update: u64,
    /// Part of the root's load (`h_load`), and its tick's start, plus 1.
    pub(crate) h_load: u64,
    pub(crate) last_h_load_update: u64,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)] // whether there is anything comes first
pub(crate) struct Removed {
    pub(crate) nr: u32,
    pub(crate) load_avg: u64,
    pub(crate) util_avg: u64,
    pub(crate) runnable_avg: u64,
}

/// Close to the wrap-around, which every run meets.
const FIRST_VRUNTIME: u64 = (-(1i64 << 20)) as u64;

impl CfsRq {
    /// `depth`: number of ancestors.
    pub(crate) fn new(depth: u32) -> Self {
        Self {
            depth,
            listed: depth == 0,
            weight: 0,
            nr_queued: 0,
            h_nr_queued: 0,
            h_nr_runnable: 0,
            h_nr_idle: 0,
            sum_wv: 0,
            sum_w: 0,
            zero: FIRST_VRUNTIME,
            timeline: Timeline::new(),
            curr: None,
            next: None,
            last: None,
            skip: None,
            avg: Avg::default(),
            removed: Removed::default(),
            tg_load_avg_contrib: 0,
            last_tg_update: TG_UPDATE_NS.wrapping_neg(),
            propagate: false,
            prop_runnable_sum: 0,
            h_load: 0,
            last_h_load_update: 0,
            bandwidth: None,
        }
    }

    #[inline]
    pub(crate) fn has_buddies(&self) -> bool {
        self.next.is_some() || self.last.is_some() || self.skip.is_some()
    }

    pub(crate) fn is_decayed(&self) -> bool {
        self.weight == 0
            && self.avg.load_sum == 0
            && self.avg.util_sum == 0
            && self.avg.runnable_sum == 0
            && self.tg_load_avg_contrib == 0
    }
}

/// A group's queue on one CPU. Its entity is in [`FairRq::entities`].
//
// 256 bytes, but not aligned to cache lines: an aligned table cannot grow in place, and a million tasks in ten
// thousand groups would take half as much memory again.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct GroupRq {
    pub(crate) cfs: CfsRq,
    pub(crate) id: GroupId,
    pub(crate) parent: u32,
}

/// A table whose entries never move.
#[derive(Debug)]
pub(crate) struct Table<T>(alloc::vec::Vec<T>);

impl<T> Table<T> {
    pub(crate) fn push(&mut self, value: T) -> u32 {
        self.0.push(value);
        (self.0.len() - 1) as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.0)
    }
}

impl<T> core::ops::Index<u32> for Table<T> {
    type Output = T;
    #[inline]
    fn index(&self, index: u32) -> &T {
        &self.0[index as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for Table<T> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.0[index as usize]
    }
}

/// A CPU's entities, indexed by [`Se`]: a table that grows at both ends.
#[derive(Debug, Default)]
pub(crate) struct Entities {
    table: alloc::vec::Vec<Entity>,
    /// Index of the unused middle: the room for groups.
    middle: usize,
}

impl Entities {
    pub(crate) fn put(&mut self, se: Se, entity: Entity) {
        let empty = || Entity::new(0, false);
        if let Some(group) = se.as_group()
            && group as usize >= self.middle
        {
            // All others move up. The room grows in proportion.
            let more = group as usize + 1 - self.middle + self.middle / 8;
            self.table.splice(0..0, core::iter::repeat_with(empty).take(more));
            self.middle += more;
        }
        let place = self.place(se);
        if place >= self.table.len() {
            self.table.resize_with(place + 1, empty);
        }
        self.table[place] = entity;
    }

    #[inline]
    fn place(&self, se: Se) -> usize {
        self.middle.wrapping_add_signed(se.0.get() as isize)
    }
}

impl core::ops::Index<Se> for Entities {
    type Output = Entity;
    #[inline]
    fn index(&self, se: Se) -> &Entity {
        &self.table[self.place(se)]
    }
}

impl core::ops::IndexMut<Se> for Entities {
    #[inline]
    fn index_mut(&mut self, se: Se) -> &mut Entity {
        let place = self.place(se);
        &mut self.table[place]
    }
}

pub(crate) const ROOT: u32 = 0;

/// The fair class's state of one CPU.
//
// In this order in memory, 64 bytes a paragraph.
#[derive(Debug)]
#[repr(C)]
pub struct FairRq {
    /// Groups that have been here; the root is at [`ROOT`].
    pub(crate) groups: Table<GroupRq>,
    pub(crate) entities: Entities,
    /// Whether some group here has, or had, a CPU limit.
    pub(crate) limits: bool,
    /// Whether some task here has, or had, a custom slice.
    pub(crate) slices: bool,

    /// Group from which upwards limits are checked after balancing (`put_before_look`).
    pub(crate) unchecked: Option<u32>,

    /// Sum of the queued tasks' estimated utilisation.
    pub(crate) util_est: u64,
    pub(crate) leaves: Leaves,
    pub(crate) by_id: BTreeMap<GroupId, u32>,
    /// 3.10: start of the tick of the last `update_all_h_load`, plus 1.
    pub(crate) h_load_throttle: u64,
    pub(super) quiet: Quiet,
}

impl FairRq {
    #[inline]
    pub(crate) fn both(&mut self, se: Se) -> (&mut Entity, &mut CfsRq) {
        let entity = &mut self.entities[se];
        let queue = &mut self.groups[entity.parent].cfs;
        (entity, queue)
    }

    pub(crate) fn new() -> Self {
        let root = GroupRq { cfs: CfsRq::new(0), id: GroupId::ROOT, parent: ROOT };
        let groups = Table(alloc::vec![root]);
        let mut entities = Entities::default();
        entities.put(Se::group(ROOT), Entity::new(crate::weight::NICE_0_LOAD, false));
        Self {
            groups,
            entities,
            by_id: BTreeMap::from([(GroupId::ROOT, ROOT)]),
            leaves: Leaves::new(),
            util_est: 0,
            unchecked: None,
            limits: false,
            slices: false,
            h_load_throttle: 0,
            quiet: Quiet::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any order of creation finds all entities, in little more room than needed.
        #[test]
        fn both_ends_grow(comers in proptest::collection::vec(any::<bool>(), 0..400)) {
            let (mut entities, mut here) = (Entities::default(), Vec::new());
            let (mut tasks, mut groups) = (0, 0);
            for (weight, is_task) in (1..).zip(comers) {
                let (se, count) = if is_task { (Se::task(tasks), &mut tasks) } else { (Se::group(groups), &mut groups) };
                *count += 1;
                entities.put(se, Entity::new(weight, false));
                here.push((se, weight));
                for &(se, weight) in &here {
                    prop_assert_eq!(entities[se].weight, weight);
                    prop_assert_eq!(Se::from_raw(se.raw()), se);
                }
            }
            for (se, _) in here {
                prop_assert!(se.as_task().is_some_and(|task| task < tasks) != se.as_group().is_some_and(|group| group < groups));
            }
            prop_assert!(entities.table.len() as u32 <= 1 + tasks + groups + groups / 8);
        }
    }
}

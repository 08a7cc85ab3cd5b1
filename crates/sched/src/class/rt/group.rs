//! Real-time scheduling of groups (CONFIG_RT_GROUP_SCHED): a CPU's priority arrays, one per group.
//!
//! A group's entity is queued in its parent's array at its most urgent member's priority, so the machine's most urgent
//! tasks run. A group that has used up its runtime here is *throttled*: its entity leaves the parent's array, with all
//! below, until the period ends. A group with a task of inherited priority is not throttled, so that the task can
//! release its lock.
//!
//! As in the kernel, each enqueue and dequeue requeues the entities above, behind their equals.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::queue::End;
use crate::attrs::NO_RT_PRIO;
use crate::ids::GroupId;

/// A place in a priority array. The lowest is picked first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    level: u8,
    /// Order among equal priorities.
    order: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Member {
    Task(u32),
    Group(GroupId),
}

/// A group on one CPU (`rt_rq`).
#[derive(Debug, Default)]
pub(super) struct GroupRq {
    array: BTreeMap<Place, Member>,
    parent: Option<GroupId>,
    /// Place in its parent's array.
    place: Option<Place>,
    /// Tasks here and below that are not throttled below this group.
    nr_running: u32,
    /// Members that have, or contain, inherited priority (`rt_nr_boosted`).
    nr_boosted: u32,
    pub(super) throttled: bool,
    /// CPU time in this period, nanoseconds.
    pub(super) time: u64,
}

impl GroupRq {
    /// Whether none of its tasks may run (`rt_rq_throttled`).
    pub(super) fn is_throttled(&self) -> bool {
        self.throttled && self.nr_boosted == 0
    }

    pub(super) fn nr_running(&self) -> u32 {
        self.nr_running
    }

    pub(super) fn highest(&self) -> u8 {
        self.array.first_key_value().map_or(NO_RT_PRIO, |(place, _)| place.level)
    }

    fn has_equals(&self, place: Place) -> bool {
        let (first, last) = (Place { order: i64::MIN, ..place }, Place { order: i64::MAX, ..place });
        self.array.range(first..=last).nth(1).is_some()
    }
}

#[derive(Clone, Copy, Debug)]
struct Seat {
    group: GroupId,
    place: Place,
    boosted: bool,
}

/// The `prio` of a queued task, and whether it is inherited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Urgency {
    pub(super) level: u8,
    pub(super) boosted: bool,
}

#[derive(Debug)]
pub(super) struct RtGroups {
    /// Empty for groups that never had a task here.
    rqs: Vec<GroupRq>,
    /// Queued tasks by index on the run queue.
    seats: BTreeMap<u32, Seat>,
    /// Next orders at the heads and at the tails.
    head: i64,
    tail: i64,
}

impl Default for RtGroups {
    fn default() -> Self {
        Self { rqs: alloc::vec![GroupRq::default()], seats: BTreeMap::new(), head: -1, tail: 0 }
    }
}

impl RtGroups {
    pub(super) fn top(&self) -> &GroupRq {
        &self.rqs[0]
    }

    pub(super) fn rq(&self, group: GroupId) -> Option<&GroupRq> {
        self.rqs.get(group.index())
    }

    pub(super) fn rq_mut(&mut self, group: GroupId) -> Option<&mut GroupRq> {
        self.rqs.get_mut(group.index())
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.rqs.len() as u32).map(GroupId)
    }

    pub(super) fn tasks(&self) -> impl Iterator<Item = u32> + '_ {
        self.seats.keys().copied()
    }

    pub(super) fn group_of(&self, task: u32) -> Option<GroupId> {
        self.seats.get(&task).map(|seat| seat.group)
    }

    /// Returns a group and its ancestors, the root last.
    pub(super) fn up(&self, group: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        core::iter::successors(Some(group), |group| self.rqs.get(group.index())?.parent)
    }

    pub(super) fn know(&mut self, group: GroupId, parent: impl Fn(GroupId) -> GroupId) {
        let mut at = group;
        while at != GroupId::ROOT {
            if self.rqs.len() <= at.index() {
                self.rqs.resize_with(at.index() + 1, GroupRq::default);
            }
            let above = parent(at);
            if self.rqs[at.index()].parent.replace(above).is_some() {
                return;
            }
            at = above;
        }
    }

    fn place(&mut self, level: u8, end: End) -> Place {
        let order = match end {
            End::Head => {
                self.head -= 1;
                self.head + 1
            }
            End::Tail => {
                self.tail += 1;
                self.tail - 1
            }
        };
        Place { level, order }
    }

    /// Dequeues a group and its ancestors, from the top (`dequeue_rt_stack`). Returns their places.
    fn unstack(&mut self, group: GroupId) -> Vec<(GroupId, Place)> {
        let path: Vec<GroupId> = self.up(group).collect();
        let mut kept = Vec::new();
        for pair in path.windows(2).rev() {
            let (child, parent) = (pair[0].index(), pair[1].index());
            let Some(place) = self.rqs[child].place.take() else { continue };
            let (tasks, boosted) = (self.rqs[child].nr_running, u32::from(self.rqs[child].nr_boosted > 0));
            let above = &mut self.rqs[parent];
            above.array.remove(&place);
            above.nr_running -= tasks;
            above.nr_boosted -= boosted;
            kept.push((pair[0], place));
        }
        kept
    }

    /// Requeues entities with tasks, unless throttled, from the bottom. Without `end`, those of unchanged priority keep
    /// their places.
    fn restack(&mut self, group: GroupId, end: Option<End>, kept: &[(GroupId, Place)]) {
        let path: Vec<GroupId> = self.up(group).collect();
        for pair in path.windows(2) {
            let (child, parent) = (pair[0].index(), pair[1].index());
            let this = &self.rqs[child];
            if this.nr_running == 0 || this.is_throttled() {
                continue;
            }
            let (tasks, boosted, level) = (this.nr_running, u32::from(this.nr_boosted > 0), this.highest());
            let old = kept.iter().find(|(group, place)| *group == pair[0] && place.level == level);
            let place = match (end, old) {
                (None, Some(&(_, place))) => place,
                (end, _) => self.place(level, end.unwrap_or(End::Tail)),
            };
            self.rqs[child].place = Some(place);
            let above = &mut self.rqs[parent];
            above.array.insert(place, Member::Group(pair[0]));
            above.nr_running += tasks;
            above.nr_boosted += boosted;
        }
    }

    /// [`Self::know`] must have added the group.
    pub(super) fn enqueue(&mut self, task: u32, group: GroupId, urgency: Urgency, end: End) {
        let place = self.place(urgency.level, end);
        let kept = self.unstack(group);
        self.sit(task, Seat { group, place, boosted: urgency.boosted });
        self.restack(group, Some(end), &kept);
    }

    fn sit(&mut self, task: u32, seat: Seat) {
        let rq = &mut self.rqs[seat.group.index()];
        rq.array.insert(seat.place, Member::Task(task));
        rq.nr_running += 1;
        rq.nr_boosted += u32::from(seat.boosted);
        self.seats.insert(task, seat);
    }

    fn rise(&mut self, task: u32) -> Option<Seat> {
        let seat = self.seats.remove(&task)?;
        let rq = &mut self.rqs[seat.group.index()];
        rq.array.remove(&seat.place);
        rq.nr_running -= 1;
        rq.nr_boosted -= u32::from(seat.boosted);
        Some(seat)
    }

    pub(super) fn dequeue(&mut self, task: u32) {
        let Some(group) = self.group_of(task) else { return };
        let kept = self.unstack(group);
        self.rise(task);
        self.restack(group, Some(End::Tail), &kept);
    }

    /// Whether a queued task's group, or an ancestor below the root, is throttled.
    pub(super) fn is_throttled(&self, task: u32) -> bool {
        let below_root = |group: &GroupId| *group != GroupId::ROOT;
        self.group_of(task)
            .is_some_and(|group| self.up(group).filter(below_root).any(|id| self.rqs[id.index()].is_throttled()))
    }

    pub(super) fn is_seated(&self, task: u32, group: GroupId, urgency: Urgency) -> bool {
        self.seats.get(&task).is_some_and(|seat| {
            seat.group == group && (Urgency { level: seat.place.level, boosted: seat.boosted }) == urgency
        })
    }

    /// Moves a queued task to the head or tail of its equals, as POSIX requires for its new group or priority. The task
    /// stays if only the priority's source changed.
    pub(super) fn reseat(&mut self, task: u32, group: GroupId, urgency: Urgency) {
        let Some(seat) = self.seats.get(&task).copied() else { return };
        if seat.group != group || seat.place.level < urgency.level {
            self.dequeue(task);
            self.enqueue(task, group, urgency, if seat.group == group { End::Head } else { End::Tail });
        } else if seat.place.level > urgency.level {
            self.dequeue(task);
            self.enqueue(task, group, urgency, End::Tail);
        } else {
            let kept = self.unstack(group);
            self.rise(task);
            self.sit(task, Seat { boosted: urgency.boosted, ..seat });
            self.restack(group, None, &kept);
        }
    }

    pub(super) fn requeue(&mut self, task: u32, end: End) {
        let Some(seat) = self.seats.get(&task).copied() else { return };
        let place = self.place(seat.place.level, end);
        let array = &mut self.rqs[seat.group.index()].array;
        array.remove(&seat.place);
        array.insert(place, Member::Task(task));
        self.seats.insert(task, Seat { place, ..seat });
        let path: Vec<GroupId> = self.up(seat.group).collect();
        for pair in path.windows(2) {
            let (child, parent) = (pair[0].index(), pair[1].index());
            let Some(old) = self.rqs[child].place else { continue };
            let place = self.place(old.level, end);
            self.rqs[child].place = Some(place);
            let array = &mut self.rqs[parent].array;
            array.remove(&old);
            array.insert(place, Member::Group(pair[0]));
        }
    }

    /// Whether another task in its array, or in one above, is as urgent.
    pub(super) fn has_equals(&self, task: u32) -> bool {
        let Some(seat) = self.seats.get(&task) else { return false };
        let here = |group: GroupId, place: Place| self.rqs[group.index()].has_equals(place);
        let entity = |group: GroupId| {
            let this = &self.rqs[group.index()];
            this.parent.zip(this.place).is_some_and(|(parent, place)| here(parent, place))
        };
        here(seat.group, seat.place) || self.up(seat.group).any(entity)
    }

    pub(super) fn pick(&self) -> Option<u32> {
        let mut at = GroupId::ROOT;
        loop {
            match *self.rqs[at.index()].array.first_key_value()?.1 {
                Member::Task(task) => return Some(task),
                Member::Group(group) => at = group,
            }
        }
    }

    /// Throttles or unthrottles a group. The root's effect is the caller's.
    pub(super) fn set_throttled(&mut self, group: GroupId, throttled: bool) {
        self.rqs[group.index()].throttled = throttled;
        let kept = self.unstack(group);
        // The ancestors move behind their equals, as when a task leaves.
        self.restack(group, Some(End::Tail), &kept);
    }

    /// Checks that places, entities and counts agree. Slow, for tests.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let mut members = 0;
        for (index, this) in self.rqs.iter().enumerate() {
            let (mut tasks, mut boosted) = (0, 0);
            for (place, member) in &this.array {
                match member {
                    Member::Task(task) => {
                        let seat = self.seats.get(task).filter(|seat| seat.place == *place);
                        let Some(seat) = seat.filter(|seat| seat.group.index() == index) else {
                            return Err("a priority array holds a task that sits elsewhere");
                        };
                        members += 1;
                        tasks += 1;
                        boosted += u32::from(seat.boosted);
                    }
                    Member::Group(group) => {
                        let child = &self.rqs[group.index()];
                        if child.place != Some(*place) || child.parent != Some(GroupId(index as u32)) {
                            return Err("a priority array holds a group that is queued elsewhere");
                        }
                        if child.nr_running == 0 || child.is_throttled() || child.highest() != place.level {
                            return Err("a group is queued that is empty, throttled, or of another priority");
                        }
                        tasks += child.nr_running;
                        boosted += u32::from(child.nr_boosted > 0);
                    }
                }
            }
            if (tasks, boosted) != (this.nr_running, this.nr_boosted) {
                return Err("a priority array miscounts its tasks");
            }
            if index > 0 && this.nr_running > 0 && !this.is_throttled() && this.place.is_none() {
                return Err("a group that may run is not queued");
            }
        }
        if members == self.seats.len() { Ok(()) } else { Err("a real-time task sits in no priority array") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/1/2`, `/1/3` and `/4`.
    fn tree() -> RtGroups {
        let mut groups = RtGroups::default();
        let parent = |group: GroupId| GroupId([0, 0, 1, 1, 0][group.index()]);
        for group in [2, 3, 4] {
            groups.know(GroupId(group), parent);
        }
        groups
    }

    fn add(groups: &mut RtGroups, task: u32, group: u32, level: u8) {
        groups.enqueue(task, GroupId(group), Urgency { level, boosted: false }, End::Tail);
        groups.check().unwrap();
    }

    fn drain(groups: &mut RtGroups) -> Vec<u32> {
        let mut order = Vec::new();
        while let Some(task) = groups.pick() {
            order.push(task);
            groups.dequeue(task);
            groups.check().unwrap();
        }
        assert_eq!(groups.top().nr_running(), 0);
        order
    }

    #[test]
    fn the_most_urgent_come_first_whatever_their_group() {
        let mut groups = tree();
        for (task, group, level) in [(0, 0, 50), (1, 2, 40), (2, 3, 60), (3, 4, 10), (4, 2, 70), (5, 1, 55)] {
            add(&mut groups, task, group, level);
        }
        assert_eq!((groups.top().nr_running(), groups.top().highest()), (6, 10));
        assert_eq!(drain(&mut groups), [3, 1, 0, 5, 2, 4]);
    }

    #[test]
    fn a_group_queued_again_is_put_behind_its_equals() {
        let mut groups = tree();
        add(&mut groups, 0, 2, 50);
        add(&mut groups, 1, 4, 50);
        add(&mut groups, 2, 0, 50);
        assert_eq!(groups.pick(), Some(0));
        // A task in /1/3 moves /1 to the end, with /1/3 behind /1/2.
        add(&mut groups, 3, 3, 50);
        assert!(groups.has_equals(0));
        assert_eq!(drain(&mut groups), [1, 2, 0, 3]);
    }

    #[test]
    fn a_turn_that_ends_moves_the_groups_too() {
        let mut groups = tree();
        add(&mut groups, 0, 2, 50);
        assert!(!groups.has_equals(0));
        add(&mut groups, 1, 4, 50);
        assert!(groups.has_equals(0), "its group has");
        groups.requeue(0, End::Tail);
        groups.check().unwrap();
        assert_eq!(groups.pick(), Some(1));
        groups.requeue(0, End::Head);
        assert_eq!(groups.pick(), Some(0));
    }

    #[test]
    fn a_throttled_group_is_not_there() {
        let mut groups = tree();
        add(&mut groups, 0, 2, 10);
        add(&mut groups, 1, 1, 20);
        add(&mut groups, 2, 0, 30);
        groups.set_throttled(GroupId(2), true);
        groups.check().unwrap();
        assert_eq!((groups.pick(), groups.top().nr_running()), (Some(1), 2));
        groups.set_throttled(GroupId(1), true);
        groups.check().unwrap();
        assert_eq!((groups.pick(), groups.top().nr_running(), groups.top().highest()), (Some(2), 1, 30));
        // A task that joins a throttled group, or one below, waits.
        add(&mut groups, 3, 3, 1);
        assert_eq!(groups.pick(), Some(2));
        groups.set_throttled(GroupId(1), false);
        groups.check().unwrap();
        assert_eq!((groups.pick(), groups.top().nr_running()), (Some(3), 3));
        groups.set_throttled(GroupId(2), false);
        assert_eq!(drain(&mut groups), [3, 0, 1, 2]);
    }

    /// In a throttled group, a task of inherited priority runs to release its lock.
    #[test]
    fn a_boosted_task_runs_in_a_throttled_group() {
        let mut groups = tree();
        add(&mut groups, 0, 2, 50);
        add(&mut groups, 1, 2, 60);
        groups.set_throttled(GroupId(2), true);
        assert_eq!(groups.pick(), None);
        groups.reseat(1, GroupId(2), Urgency { level: 5, boosted: true });
        groups.check().unwrap();
        assert_eq!((groups.pick(), groups.top().nr_running()), (Some(1), 2));
        groups.reseat(1, GroupId(2), Urgency { level: 60, boosted: false });
        groups.check().unwrap();
        assert_eq!((groups.pick(), groups.top().nr_running()), (None, 0));
        // A task that arrives with inherited priority.
        groups.enqueue(2, GroupId(2), Urgency { level: 90, boosted: true }, End::Tail);
        groups.check().unwrap();
        assert_eq!((groups.pick(), groups.top().nr_running()), (Some(0), 3), "then its group's most urgent runs");
    }

    #[test]
    fn places_follow_posix() {
        let mut groups = tree();
        for task in 0..3 {
            add(&mut groups, task, 2, 50);
        }
        add(&mut groups, 3, 2, 60);
        let own = |level| Urgency { level, boosted: false };
        assert!(groups.is_seated(0, GroupId(2), own(50)));
        // Lowered: first of its new equals. Raised: last. Inherited from now on: unchanged.
        groups.reseat(0, GroupId(2), own(60));
        groups.reseat(3, GroupId(2), own(50));
        groups.reseat(1, GroupId(2), Urgency { level: 50, boosted: true });
        groups.check().unwrap();
        assert_eq!(drain(&mut groups), [1, 2, 3, 0]);
    }
}

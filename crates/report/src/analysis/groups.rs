//! CPU time and entitlement of groups, computed from recorded states like a run's results ([`Shares`]). A task of
//! unknown state has no demand. Stopper threads (`migration/N`) have no group.

use super::cgroups::{Settings, Update};
use super::world::{Change, State, Step, What, World};
use super::{Analysis, Options};
use crate::accounts::{Group, State as Booked, Task};
use crate::data::{DataTable, Kind};
use crate::groups::group_results;
use crate::results::{GroupResult, LimitResult};
use crate::shares::Shares;
use vruntime_trace::SchedPolicy;

/// Shortest piece per group, nanoseconds. Bounds the time for traces with many groups.
const LEAST_PER_GROUP: u64 = 20;

#[derive(Debug, Default)]
pub(super) struct GroupUse {
    tasks: Vec<Task>,
    /// Index of each task's account plus one, or 0.
    books: Vec<u32>,
    groups: Vec<Group>,
    shares: Shares,
    results: Vec<GroupResult>,
    /// Tasks of unknown group that ran.
    ungrouped: u64,
}

/// Instead of an account.
const NONE: u32 = u32::MAX;

impl GroupUse {
    pub(super) fn new(_options: &Options) -> Self {
        Self::default()
    }

    /// Adds new groups.
    fn know(&mut self, world: &World) {
        for row in world.cgroups.rows().iter().skip(self.groups.len()) {
            let mut group = Group::new(row.path.clone(), row.parent);
            set(&mut group, row.settings.unwrap_or_default());
            self.groups.push(group);
        }
        if self.groups.is_empty() {
            self.groups.push(Group::new("/".to_owned(), None));
        }
    }

    /// Returns the index of a task's account.
    fn book(&mut self, task: u32, world: &World) -> Option<usize> {
        if task as usize >= self.books.len() {
            self.books.resize(task as usize + 1, 0);
        }
        let book = &mut self.books[task as usize];
        if *book == 0 {
            *book = if world.is_stopper(task) {
                NONE
            } else {
                self.tasks.push(Task { group: world.cgroups.of(task), ..Task::default() });
                self.tasks.len() as u32
            };
        }
        (*book != NONE).then(|| *book as usize - 1)
    }

    /// Handles a coming change of weights.
    fn change(&mut self, at: u64) {
        if at.saturating_sub(self.shares.last()) >= LEAST_PER_GROUP * self.groups.len() as u64 {
            self.shares.change(at, &mut self.tasks, &self.groups);
        }
    }

    fn enter(&mut self, at: u64, change: &Change, world: &World) {
        let Some(mut book) = self.book(change.task, world) else { return };
        if change.was.state == State::Gone && change.now.state != State::Gone {
            // A reused pid: the earlier task stays dead.
            let Task { nice, policy, rt_priority, group, .. } = self.tasks[book];
            self.tasks.push(Task { nice, rt_priority, policy, group, ..Task::default() });
            book = self.tasks.len() - 1;
            self.books[change.task as usize] = self.tasks.len() as u32;
        }
        let state = match change.now.state {
            State::Unknown => Booked::Unborn,
            State::Running => Booked::Running,
            State::Waiting if change.now.woken => Booked::Woken,
            State::Waiting => Booked::Waiting,
            State::Asleep => Booked::Sleeping,
            State::Gone => Booked::Dead,
        };
        let task = &mut self.tasks[book];
        if state != Booked::Unborn {
            task.be_born(at);
        }
        if task.state == Booked::Running && state != Booked::Running {
            self.groups[task.group as usize].switches += 1;
        }
        task.enter(at, state, &mut self.groups);
    }
}

fn set(group: &mut Group, settings: Settings) {
    (group.weight, group.idle) = (settings.weight, settings.idle);
    (group.nice, group.guarantee) = (settings.nice, settings.guarantee);
    group.limit = settings.max.map(|max| LimitResult { max: Some(max), ..LimitResult::default() });
}

/// Returns policy, real-time priority and nice value by `prio` and previous values.
fn by_prio(prio: i32, policy: SchedPolicy, nice: i8) -> (SchedPolicy, u8, i8) {
    match prio {
        ..0 => (SchedPolicy::Deadline, 0, nice),
        0..100 => (SchedPolicy::Fifo, (99 - prio) as u8, nice),
        _ => {
            let fair = matches!(policy, SchedPolicy::Normal | SchedPolicy::Batch | SchedPolicy::Idle);
            (if fair { policy } else { SchedPolicy::Normal }, 0, (prio - 120).clamp(-20, 19) as i8)
        }
    }
}

impl Analysis for GroupUse {
    fn step(&mut self, step: &Step, world: &World) {
        let at = world.elapsed();
        self.passes(at, world);
        if let What::Fork { child } = step.what {
            self.change(at);
            if let Some(book) = self.book(child, world) {
                self.tasks[book].group = world.cgroups.of(child);
            }
        }
        for change in &world.changes {
            self.enter(at, change, world);
        }
    }

    /// Cuts as the run's own results: at the first due event of any kind.
    fn passes(&mut self, at: u64, world: &World) {
        self.know(world);
        if self.shares.due(at) && self.groups.len() > 1 {
            self.shares.cut(at, &mut self.tasks, &self.groups);
        }
    }

    fn update(&mut self, update: Update, world: &World) {
        let at = world.elapsed();
        self.passes(at, world);
        match update {
            Update::Moved { task, group } => {
                let Some(book) = self.book(task, world) else { return };
                self.change(at);
                let task = &mut self.tasks[book];
                let state = task.state;
                task.enter(at, state, &mut self.groups);
                task.group = group;
            }
            Update::Prio { task, .. } | Update::Policy { task, .. } | Update::Nice { task, .. } => {
                let Some(book) = self.book(task, world) else { return };
                let Task { policy, rt_priority, nice, .. } = self.tasks[book];
                let new = match update {
                    Update::Prio { prio, .. } => by_prio(prio, policy, nice),
                    Update::Policy { policy, rt_priority, .. } => (policy, rt_priority, nice),
                    Update::Nice { nice, .. } => (policy, rt_priority, nice),
                    _ => return,
                };
                if new != (policy, rt_priority, nice) {
                    self.change(at);
                    let task = &mut self.tasks[book];
                    (task.policy, task.rt_priority, task.nice) = new;
                }
            }
            Update::Group { group, settings } => {
                self.change(at);
                if let Some(group) = self.groups.get_mut(group as usize) {
                    set(group, settings);
                }
            }
            Update::Throttled { .. } | Update::Unthrottled { .. } | Update::Period { .. } | Update::Spent { .. } => {}
        }
    }

    fn finish(&mut self, world: &World) {
        self.know(world);
        let at = world.elapsed();
        for task in &mut self.tasks {
            let state = task.state;
            task.enter(at, state, &mut self.groups);
        }
        self.shares.finish(at, &mut self.tasks, &self.groups);
        self.results = group_results(&self.groups, &self.tasks, &self.shares.entitled(self.groups.len()));
        if !world.cgroups.exact {
            let books = (0..).zip(&self.books).filter(|&(_, &book)| book != 0 && book != NONE);
            let ran = books.filter(|&(_, &book)| self.tasks[book as usize - 1].account.cpu_ns > 0);
            self.ungrouped = ran.filter(|&(task, _)| world.cgroups.known_group(task).is_none()).count() as u64;
        }
    }

    fn notes(&self) -> Vec<(u64, &'static str)> {
        let known = self.results.len() > 1 && self.ungrouped > 0;
        let note = known.then_some((self.ungrouped, "tasks of unknown group (counted for the root group)"));
        note.into_iter().collect()
    }

    /// Times that the shares repeat, then their difference.
    fn spare(&self) -> &'static [&'static str] {
        &["entitled_ns", "cpu_ns", "difference_ns"]
    }

    fn tables(&self, world: &World) -> Vec<DataTable> {
        if !world.cgroups.known() {
            return Vec::new();
        }
        let weighed = world.cgroups.settings_known();
        let columns = [
            ("group", "Group", Kind::Text),
            ("weight", "Weight", Kind::Count),
            ("limit", "Limit", Kind::Share),
            ("tasks", "Tasks", Kind::Count),
            ("cpu_ns", "CPU time", Kind::Nanoseconds),
            ("share", "CPU", Kind::Share),
            ("entitled_ns", "Entitled to", Kind::Nanoseconds),
            ("entitled", "Entitled", Kind::Share),
            ("difference_ns", "Difference", Kind::Nanoseconds),
            ("of_entitled", "CPU / entitled", Kind::Share),
            ("run_delay_ns", "Waited", Kind::Nanoseconds),
        ];
        let title = if weighed {
            "Groups with their descendants, and their entitlements; 100 % is one CPU for the whole time"
        } else {
            "Groups with their descendants; weights and limits are unknown, and so are entitlements"
        };
        let mut table = DataTable::new("group_usage", title, &columns);
        let elapsed = world.elapsed();
        let part = |part: u64, of: u64| (of > 0).then(|| part as f64 / of as f64);
        for (group, row) in self.results.iter().zip(world.cgroups.rows()) {
            let entitled = weighed.then_some(group.entitled_ns);
            let difference = entitled.map(|entitled| group.cpu_ns as i64 - entitled as i64);
            let max = group.limit.and_then(|limit| limit.max);
            table.push(vec![
                group.path.as_str().into(),
                row.settings.map(|_| group.weight).into(),
                max.and_then(|(quota, period)| part(quota, period)).into(),
                group.tasks.into(),
                group.cpu_ns.into(),
                part(group.cpu_ns, elapsed).into(),
                entitled.into(),
                entitled.and_then(|entitled| part(entitled, elapsed)).into(),
                difference.into(),
                entitled.and_then(|entitled| part(group.cpu_ns, entitled)).into(),
                group.run_delay_ns.into(),
            ]);
        }
        vec![table]
    }
}

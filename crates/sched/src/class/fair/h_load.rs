//! A task's part of the root's load (`h_load`), and the balancer's measure.
//!
//! A group's part is its parent's, times its entity's part of the parent's queue. 3.12+: computed on demand, at most
//! once a tick ("move h_load calculation to task_h_load"). 3.10: once a tick for every group, on the CPU to pull from.

use super::discipline::{Discipline, Fair};
use super::entity::{ROOT, Se};
use super::load::se_weight;
use crate::ids::GroupId;
use crate::kernels::Behaviour;
use crate::rq::Rq;
use crate::shared::Shared;
use crate::tunables::Tunables;
use crate::weight;

impl<D: Discipline, T: Tunables> Rq<Fair<D, T>> {
    fn entity_load(&self, shared: &Shared<Fair<D, T>>, se: Se) -> u64 {
        let entity = self.se(se);
        if shared.config.has(Behaviour::WeightIsLoad) { se_weight(entity.weight) } else { entity.avg.load_avg }
    }

    /// Returns the balancer's load of a queue: its weight (3.10), its queued entities' averages (`runnable_load_avg`,
    /// up to 5.4), or its average, with sleeping entities.
    #[inline]
    pub(crate) fn queue_load(&self, shared: &Shared<Fair<D, T>>, group: u32) -> u64 {
        let queue = &self.class.groups[group].cfs;
        let behaviours = &shared.config.behaviours;
        if !behaviours.by_load() {
            queue.avg.load_avg
        } else if behaviours.has(Behaviour::WeightIsLoad) {
            weight::down(queue.weight)
        } else {
            let running = queue.curr.map(|curr| self.se(curr)).filter(|curr| curr.on_rq);
            queue.sum_w + running.map_or(0, |curr| curr.avg.load_avg)
        }
    }

    /// Start of the running tick, nanoseconds, plus 1, so never 0.
    fn h_load_tick(&self, shared: &Shared<Fair<D, T>>) -> u64 {
        let (now, tick_ns) = (self.clock.now(), shared.config.tunables.tick_ns());
        now - now % tick_ns + 1
    }

    /// Whether `tick` is the running tick.
    #[inline]
    fn h_load_is_of(&self, shared: &Shared<Fair<D, T>>, tick: u64) -> bool {
        tick != 0 && self.clock.now().wrapping_sub(tick - 1) < shared.config.tunables.tick_ns()
    }

    /// Computes a group's part of the root's load from its parent's.
    fn compute_h_load(&mut self, shared: &Shared<Fair<D, T>>, group: u32, tick: u64) {
        let h_load = if group == ROOT {
            self.queue_load(shared, ROOT)
        } else {
            let parent = self.class.groups[group].parent;
            let above = self.class.groups[parent].cfs.h_load;
            weight::scale(above, self.entity_load(shared, Se::group(group)), self.queue_load(shared, parent) + 1)
        };
        let cfs = &mut self.class.groups[group].cfs;
        cfs.h_load = h_load;
        cfs.last_h_load_update = tick;
    }

    /// Updates a group and its ancestors, at most once a tick.
    #[inline]
    fn update_h_load(&mut self, shared: &Shared<Fair<D, T>>, group: u32) {
        if !self.h_load_is_of(shared, self.class.groups[group].cfs.last_h_load_update) {
            self.renew_h_load(shared, group);
        }
    }

    fn renew_h_load(&mut self, shared: &Shared<Fair<D, T>>, group: u32) {
        let tick = self.h_load_tick(shared);
        if group != ROOT {
            let parent = self.class.groups[group].parent;
            self.update_h_load(shared, parent);
        }
        self.compute_h_load(shared, group, tick);
    }

    pub(crate) fn task_h_load(&mut self, shared: &Shared<Fair<D, T>>, task: u32) -> u64 {
        let parent = self.class.entities[Se::task(task)].parent;
        self.update_h_load(shared, parent);
        let above = self.class.groups[parent].cfs.h_load;
        weight::scale(self.entity_load(shared, Se::task(task)), above, self.queue_load(shared, parent) + 1)
    }

    /// Returns a sleeper's effect on the root's weight (`effective_load`): each ancestor gets the part of its weight
    /// that its queue then earns.
    pub(crate) fn effective_load(&self, shared: &Shared<Fair<D, T>>, task: u32) -> u64 {
        let entity = &self.class.entities[Se::task(task)];
        let (mut added, mut group) = (se_weight(entity.weight), entity.parent);
        while group != ROOT {
            let slot = &self.class.groups[group];
            let task_group = shared.group(slot.id);
            let mine = weight::down(slot.cfs.weight) + added;
            let total = task_group.load_avg().saturating_sub(slot.cfs.tg_load_avg_contrib) + mine;
            let shares = weight::down(task_group.shares());
            let after = weight::scale(shares, mine, total.max(1)).min(shares);
            let se = &self.class.entities[Se::group(group)];
            let before = if se.on_rq { se_weight(se.weight) } else { 0 };
            added = after.saturating_sub(before);
            group = slot.parent;
        }
        added
    }

    /// 3.10: updates every group of the system once a tick. Returns the numbers of groups, and of those without a task
    /// here.
    pub(crate) fn update_all_h_load(&mut self, shared: &Shared<Fair<D, T>>) -> Option<(u32, u32)> {
        let tick = self.h_load_tick(shared);
        if self.class.h_load_throttle == tick {
            return None;
        }
        self.class.h_load_throttle = tick;
        let groups = shared.nr_groups() as u32;
        let mut idle = 0;
        // A group's number is above its parent's. The kernel also visits groups that never had a task here, which
        // have no queue here. The load of a group without tasks is never used.
        for id in (0..groups).map(GroupId) {
            let slot = self.class.by_id.get(&id).copied();
            if let Some(slot) = slot {
                self.compute_h_load(shared, slot, tick);
            }
            idle += u32::from(slot.is_none_or(|slot| self.class.groups[slot].cfs.h_nr_queued == 0));
        }
        Some((groups, idle))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::class::fair::{Cfs, CfsOrder, EevdfOrder};
    use crate::config::Config;
    use crate::event::{PrevState, Running};
    use crate::group::GroupWeight;
    use crate::host::{Host, Timer};
    use crate::ids::{CpuId, TaskId};
    use crate::kernels::kernel;
    use crate::scheduler::Waker;
    use crate::scheduler::view::Scheduler;
    use crate::task::TaskAttrs;
    use crate::topology::Topology;
    use crate::tunables::Knobs;

    struct Deaf;
    impl Host for Deaf {
        fn resched(&mut self, _cpu: CpuId) {}
        fn kick_nohz(&mut self, _cpu: CpuId) {}
        fn arm(&mut self, _timer: Timer, _at: Option<u64>) {}
        fn event(&mut self, _at: u64, _cpu: CpuId, _event: &crate::event::Event) {}
    }

    const UNTOUCHED: u64 = u64::MAX;

    /// Returns the load of every task on a CPU, and the groups (slots) visited for it.
    fn loads<D: Discipline>(
        rq: &mut Rq<Fair<D, Knobs>>,
        shared: &Shared<Fair<D, Knobs>>,
    ) -> (Vec<(u32, u64)>, Vec<u32>) {
        let tasks: Vec<u32> = rq.listed().collect();
        let loads = tasks.iter().map(|&task| (task, rq.task_h_load(shared, task))).collect();
        let visited = rq.class.groups.iter().filter(|(_, group)| group.cfs.h_load != UNTOUCHED);
        let visited = visited.map(|(slot, _)| slot).collect();
        (loads, visited)
    }

    fn forget<D: Discipline>(rq: &mut Rq<Fair<D, Knobs>>) {
        let slots: Vec<u32> = rq.class.groups.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let cfs = &mut rq.class.groups[slot].cfs;
            (cfs.h_load, cfs.last_h_load_update) = (UNTOUCHED, 0);
        }
        rq.class.h_load_throttle = 0;
    }

    /// Creates and moves tasks in a tree of groups, and compares after each step.
    fn compare<D: Discipline>(name: &str, calls: &[(u8, u8, u16)]) {
        let topology = Topology::flat(2);
        let shared =
            Shared::<Fair<D, Knobs>>::new(topology.clone(), Config::new(&kernel(name).unwrap(), &topology, 1000));
        let mut rqs = Rq::all(&shared);
        let mut host = Deaf;
        let mut now = 1_000_000;
        let (mut groups, mut tasks): (Vec<GroupId>, Vec<TaskId>) = (alloc::vec![GroupId::ROOT], Vec::new());
        for &(what, which, pass) in calls {
            now += u64::from(pass) * 200;
            let cpu = CpuId(u32::from(which) % 2);
            let mut scheduler = Scheduler { rqs: &mut rqs, shared: &shared, host: &mut host, now };
            match what % 8 {
                0 if groups.len() < 12 => {
                    let parent = groups[usize::from(which) % groups.len()];
                    groups.push(scheduler.new_group(parent, GroupWeight::Weight(1 + u32::from(pass) % 10_000)));
                }
                1 | 2 if tasks.len() < 20 => {
                    let group = groups[usize::from(which) % groups.len()];
                    let attrs = TaskAttrs { group, nice: (pass % 40) as i8 - 20, ..TaskAttrs::default() };
                    let task = scheduler.new_task(&attrs, cpu);
                    scheduler.wake_new(task, cpu);
                    tasks.push(task);
                }
                3 if !tasks.is_empty() => {
                    scheduler.wake(tasks[usize::from(which) % tasks.len()], cpu, Waker::Task);
                }
                4 if scheduler.running(cpu).task().is_some() => {
                    let mut state = PrevState::Sleeping;
                    while let Running::Stopper = scheduler.schedule(cpu, state).next {
                        scheduler.stopper_work(cpu);
                        state = PrevState::Sleeping;
                    }
                }
                _ => {
                    if scheduler.running(cpu).task().is_none() {
                        while let Running::Stopper = scheduler.schedule(cpu, PrevState::Sleeping).next {
                            scheduler.stopper_work(cpu);
                        }
                    } else {
                        let _ = scheduler.tick(cpu);
                    }
                }
            }
            for rq in &mut rqs {
                forget(rq);
                let (on_demand, visited) = loads(rq, &shared);
                let needed = |slot: u32| {
                    let asked = |task: u32| {
                        let mut at = rq.class.entities[Se::task(task)].parent;
                        while at != slot && at != ROOT {
                            at = rq.class.groups[at].parent;
                        }
                        at == slot
                    };
                    rq.listed().any(asked)
                };
                assert!(visited.iter().all(|&slot| needed(slot)), "{name}: visited {visited:?} without need");
                forget(rq);
                let (groups, _) = rq.update_all_h_load(&shared).unwrap();
                assert_eq!(groups as usize, shared.nr_groups());
                assert_eq!(rq.update_all_h_load(&shared), None, "once a tick");
                let (eager, visited) = loads(rq, &shared);
                assert_eq!(eager, on_demand, "{name}");
                assert_eq!(visited.len(), rq.class.groups.iter().count(), "every group that was ever here");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        /// Loads in advance and on demand are equal. On demand, no group without a task is visited.
        #[test]
        fn eager_and_on_demand_agree(calls in prop::collection::vec(any::<(u8, u8, u16)>(), 1..120)) {
            for name in ["3.10", "3.12", "3.18", "6.1"] {
                compare::<CfsOrder>(name, &calls);
            }
            compare::<EevdfOrder>("6.12", &calls);
        }
    }

    /// Loads of the root's tasks add up to the root's, a group's to its entity's.
    #[test]
    fn a_groups_tasks_weigh_its_share() {
        let topology = Topology::flat(1);
        let shared = Shared::<Cfs>::new(topology.clone(), Config::new(&kernel("3.10").unwrap(), &topology, 1000));
        let mut rqs = Rq::all(&shared);
        let mut host = Deaf;
        let mut scheduler = Scheduler { rqs: &mut rqs, shared: &shared, host: &mut host, now: 1_000_000 };
        let group = scheduler.new_group(GroupId::ROOT, GroupWeight::Weight(100));
        for group in [GroupId::ROOT, group, group] {
            let task = scheduler.new_task(&TaskAttrs { group, ..TaskAttrs::default() }, CpuId(0));
            scheduler.wake_new(task, CpuId(0));
        }
        let rq = &mut rqs[0];
        let loads: Vec<u64> =
            rq.listed().collect::<Vec<_>>().into_iter().map(|task| rq.task_h_load(&shared, task)).collect();
        // Divisors are one too large, as in the kernel.
        assert_eq!(loads.iter().filter(|&&load| load == 1023).count(), 1, "{loads:?}");
        assert_eq!(loads.iter().filter(|&&load| load == 511).count(), 2, "{loads:?}");
    }
}

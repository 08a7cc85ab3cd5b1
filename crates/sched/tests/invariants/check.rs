//! Invariants after every call.

use std::collections::BTreeMap;

use vruntime_sched::class::ClassKind;
use vruntime_sched::event::{MigrateCause, Running};
use vruntime_sched::ids::{CpuId, GroupId};
use vruntime_sched::policy::Limited;
use vruntime_sched::task::{Task, TaskState};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{CpuMask, Partition, Policy, invariants};

use crate::bench::Bench;
use crate::lags;

impl<P: Policy<Tunables = Knobs> + 'static> Bench<P> {
    /// Root domains, cpusets and affinities follow from the writes.
    pub(crate) fn check_cpusets(&mut self) {
        let online = self.shared.online();
        let (mut domains, isolated) = self.shared.root_domains();
        let mut seen = isolated.clone();
        for domain in &domains {
            assert!(!domain.is_empty() && !domain.intersects(&seen), "no CPU is in two root domains");
            domain.iter().for_each(|cpu| seen.insert(cpu));
        }
        assert_eq!(seen.iter().collect::<Vec<_>>(), online.iter().collect::<Vec<_>>(), "every CPU is in one");
        // Its scheduling domains are those of a machine with only its CPUs.
        for cpu in (0..self.rqs.len() as u32).map(CpuId) {
            let sizes: Vec<u32> = self.shared.domains.describe(cpu).iter().map(|(_, size)| *size).collect();
            assert!(sizes.is_sorted() && sizes.iter().all(|&size| size > 1));
            let own = domains.iter().find(|domain| domain.contains(cpu)).map_or(1, CpuMask::count);
            let whole = (own > 1).then_some(own as u32);
            assert_eq!(
                sizes.last().copied(),
                whole,
                "all of a root domain, and none else, are balanced with each other"
            );
        }
        domains.push(isolated.clone());
        for (cause, from, to) in std::mem::take(&mut self.wishes.moves) {
            use MigrateCause::{Active, DlPull, DlPush, NewIdle, NohzIdle, Periodic, RtPull, RtPush};
            let balanced = matches!(cause, Active | NewIdle | NohzIdle | Periodic);
            if balanced || matches!(cause, DlPull | DlPush | RtPull | RtPush) {
                let together = domains.iter().any(|domain| domain.contains(from) && domain.contains(to));
                assert!(together, "{cause:?} from {from} to {to}, which is in another root domain");
            }
            assert!(!balanced || !isolated.contains(from), "{cause:?} from {from}, which is isolated");
        }
        // Partitions own their CPUs.
        let view = |group: &GroupId| self.shared.cpuset(*group).map(|view| (*group, view));
        let views: BTreeMap<GroupId, _> = self.groups.iter().filter_map(view).collect();
        let parent = |group: GroupId| self.shared.group(group).parent;
        let is_partition = |group: &GroupId| {
            views.get(group).is_some_and(|view| view.partition != Partition::Member && view.invalid.is_none())
        };
        for (group, view) in &views {
            assert!(view.effective.iter().all(|cpu| online.contains(cpu)));
            if *group == GroupId::ROOT {
                assert!(!view.effective.is_empty(), "the root's tasks have a CPU");
                continue;
            }
            if is_partition(group) {
                assert!(is_partition(&parent(*group)), "a partition is below one");
                for (other, beside) in views.iter().filter(|(other, _)| *other != group) {
                    let below = |mut at: GroupId| {
                        while at != GroupId::ROOT && at != *group {
                            at = parent(at);
                        }
                        at == *group
                    };
                    let shares = beside.effective.intersects(&view.effective);
                    assert!(!shares || (below(*other) && !is_partition(other)), "{group:?} and {other:?}");
                }
            } else {
                let nearest = |mut at: GroupId| loop {
                    at = parent(at);
                    if let Some(view) = views.get(&at) {
                        return &view.effective;
                    }
                };
                let above = nearest(*group);
                assert!(view.effective.iter().all(|cpu| above.contains(cpu)), "a member has what its parent has");
                assert_eq!(view.effective.is_empty(), above.is_empty());
            }
        }
        // Tasks run in their groups' CPUs, as reported.
        for rq in &self.rqs {
            for (_, task) in rq.tasks.iter() {
                let (allowed, _) = self.shared.cpus_allowed(task.group, &None);
                if let Some(allowed) = &allowed
                    && task.group != GroupId::ROOT
                    && views.contains_key(&task.group)
                {
                    let mask = task.affinity.as_ref().unwrap();
                    assert!(
                        mask.iter().all(|cpu| allowed.contains(cpu)),
                        "task {} may leave its cpuset: {mask:?} {allowed:?} {views:?} group {:?}",
                        task.id,
                        task.group
                    );
                    assert!(mask.intersects(&online), "task {} may run nowhere", task.id);
                }
                if let Some(reported) = self.wishes.affinities.get(&task.id) {
                    assert_eq!(reported.as_ref(), task.affinity.as_deref(), "task {}: where it may run", task.id);
                }
            }
        }
    }

    pub(crate) fn check(&mut self) {
        self.check_cpusets();
        for rq in &self.rqs {
            invariants::check(rq, &self.shared).unwrap();
            lags::check_sums(rq);
            if let Running::Task(task) = rq.running() {
                assert!(!self.asleep.contains(&task), "CPU {} runs task {task}, which was not woken", rq.cpu);
            }
            if !rq.is_online() {
                assert_eq!(rq.running(), Running::Idle, "CPU {} is offline, and runs something", rq.cpu);
                let here = rq.tasks.iter().find(|(_, task)| task.on_rq || task.state == TaskState::Runnable);
                assert!(here.is_none(), "CPU {} is offline, and {here:?} is on it", rq.cpu);
            }
            for (_, task) in rq.tasks.iter().filter(|(_, task)| task.state == TaskState::Runnable) {
                assert!(task.allowed(rq.cpu), "CPU {}: task {} may not be here", rq.cpu, task.id);
            }
            // No runnable task waits on an idle CPU, unless throttled.
            let may_run = |index: u32, task: &Task<P>| {
                let throttled = match task.kind() {
                    ClassKind::Deadline => task.deadline().is_some_and(|se| se.throttled),
                    ClassKind::Rt => rq.rt.is_throttled(index),
                    ClassKind::Fair => P::Limits::throttled(rq, &self.shared, index),
                };
                task.on_rq && task.state == TaskState::Runnable && !throttled
            };
            let waits = rq.tasks.iter().any(|(index, task)| may_run(index, task));
            assert!(rq.running() != Running::Idle || !waits, "CPU {} idles before a waiting task", rq.cpu);
        }
        invariants::check_bandwidth(&self.rqs, &self.shared).unwrap();
        invariants::check_sums(&self.shared).unwrap();
        let alive: usize = self.rqs.iter().map(|rq| rq.tasks.len()).sum();
        assert_eq!(alive, self.tasks.len(), "every task is on exactly one run queue");
    }
}

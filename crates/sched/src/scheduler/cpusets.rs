//! Writes to the cpuset files of groups and their effects (`update_cpumasks_hier`, `rebuild_sched_domains_locked`).
//!
//! Waiting tasks move at once, the running one through the stopper, and a sleeping one when it wakes. The bandwidth of
//! deadline tasks moves to their new root domain (`dl_rebuild_rd_accounting`), even beyond its limit. As in the kernel,
//! only shrinking partitions, tasks that change groups, and CPUs that go offline are checked.

use alloc::boxed::Box;

use super::attrs::SetCpus;
use super::common::rq_of;
use crate::class;
use crate::class::deadline::SchedError;
use crate::class::deadline::verbs as deadline;
use crate::class::finish::finish_verb;
use crate::class::rt::verbs as rt;
use crate::cpumask::CpuMask;
use crate::cpuset::{CpusetError, Cpusets, Partition, Populated};
use crate::host::Host;
use crate::ids::{CpuId, GroupId, TaskId};
use crate::policy::Policy;
use crate::rq::Rqs;
use crate::scheduler::view::Scheduler;
use crate::shared::{CpusetChange, Place};

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Writes a group's `cpuset.cpus`; `None` empties it, so that the group has its parent's CPUs. Partitions may
    /// become valid or invalid ([`Shared::cpuset`](crate::Shared::cpuset)), and root domains change.
    ///
    /// A host makes one change of cpusets or online CPUs at a time.
    ///
    /// # Errors
    ///
    /// For the root group, an unknown CPU, or an empty set if there are tasks. Also if a valid `root` partition would
    /// lack bandwidth for deadline tasks. Then nothing changes.
    pub fn set_group_cpus(&mut self, group: GroupId, cpus: Option<&CpuMask>) -> Result<(), CpusetError> {
        let shared = self.shared;
        let nr_cpus = shared.nr_cpus();
        if group == GroupId::ROOT {
            return Err(CpusetError::Root);
        }
        let cpus = cpus.filter(|cpus| !cpus.is_empty());
        if let Some(cpu) = cpus.and_then(|cpus| cpus.iter().find(|cpu| cpu.index() >= nr_cpus)) {
            return Err(CpusetError::NoSuchCpu { cpu, nr_cpus });
        }
        let populated = self.populated();
        let (has, first) = shared.cpusets(|cpusets| {
            let has = cpusets.view(group).is_some_and(|view| view.cpus.is_some());
            (has, cpusets.domain_of(group).and_then(CpuMask::first))
        });
        match cpus {
            None if has && shared.cpusets(|cpusets| cpusets.is_populated(group, &populated)) => {
                return Err(CpusetError::Populated);
            }
            Some(cpus) if first.is_some() => {
                let domain = shared.dl.domain(shared.root(first.unwrap_or(CpuId(0))));
                let fits = domain.may_shrink(cpus.count());
                fits.map_err(|(promised, cap)| CpusetError::Deadline { promised, cap })?;
            }
            _ => {}
        }
        self.change_cpusets(|cpusets| cpusets.write_cpus(group, cpus, &populated));
        Ok(())
    }

    /// Writes a group's `cpuset.cpus.partition`. [`Shared::cpuset`](crate::Shared::cpuset) says why a partition is not
    /// valid.
    ///
    /// # Errors
    ///
    /// For the root group, which always is a partition.
    pub fn set_group_partition(&mut self, group: GroupId, partition: Partition) -> Result<(), CpusetError> {
        if group == GroupId::ROOT {
            return Err(CpusetError::Root);
        }
        let populated = self.populated();
        self.change_cpusets(|cpusets| cpusets.write_partition(group, partition, &populated));
        Ok(())
    }

    /// Writes to the files of several groups: first every `cpuset.cpus` (an empty set empties it), then every
    /// `cpuset.cpus.partition`, parents before children. Without tasks and partitions, the result equals that of single
    /// writes, but root domains are built once.
    ///
    /// # Errors
    ///
    /// For the root group, or an unknown CPU. Then nothing changes.
    pub fn create_cpusets(
        &mut self,
        files: &[(GroupId, Option<CpuMask>, Option<Partition>)],
    ) -> Result<(), CpusetError> {
        let nr_cpus = self.shared.nr_cpus();
        for (group, cpus, _) in files {
            if *group == GroupId::ROOT {
                return Err(CpusetError::Root);
            }
            if let Some(cpu) = cpus.iter().flat_map(CpuMask::iter).find(|cpu| cpu.index() >= nr_cpus) {
                return Err(CpusetError::NoSuchCpu { cpu, nr_cpus });
            }
        }
        if !files.is_empty() {
            let populated = self.populated();
            self.change_cpusets(|cpusets| cpusets.write_all(files, &populated));
        }
        Ok(())
    }

    fn change_cpusets(&mut self, change: impl FnOnce(&mut Cpusets)) {
        let change = self.shared.change_cpusets(change);
        self.update_cpumasks(&change);
        self.roots_rebuilt(&change);
    }

    /// Returns the groups with tasks. Not called without cpusets.
    pub(super) fn populated(&mut self) -> Populated {
        let mut populated = Populated::default();
        for cpu in (0..self.shared.nr_cpus() as u32).map(CpuId) {
            let rq = self.rqs.rq(cpu);
            populated.0.extend(rq.tasks.iter().filter(|(_, task)| !task.per_cpu).map(|(_, task)| task.group.0));
        }
        populated
    }

    /// Moves tasks of groups whose CPUs changed.
    pub(super) fn update_cpumasks(&mut self, change: &CpusetChange) {
        if change.groups.is_empty() {
            return;
        }
        let forget = self.shared.cpusets(Cpusets::rules).forgets;
        for task in (0..self.shared.nr_tasks()).map(TaskId) {
            let Some((rq, index)) = rq_of!(self, task) else { continue };
            let concerned = change.groups.contains(&rq.tasks[index].group.0);
            drop(rq);
            if concerned {
                // Cannot fail. The writer of the file is assumed to run on the first CPU.
                let _ = self.set_cpus(task, SetCpus::Cpuset { forget }, CpuId(0));
            }
        }
    }

    /// Resets the state of CPUs with new root and scheduling domains.
    pub(super) fn roots_rebuilt(&mut self, change: &CpusetChange) {
        let shared = self.shared;
        shared.rt.roots_rebuilt();
        for cpu in (0..shared.nr_cpus() as u32).map(CpuId) {
            let mut rq = self.rqs.rq(cpu);
            if change.rebuilt.contains(cpu) {
                rq.balance.rebuilt(&shared.domains, &shared.config, cpu, self.now, shared.balance_time(self.now));
            }
            if !change.split {
                continue;
            }
            rq.update_clock(self.now);
            if change.crossed.contains(cpu) && rq.online {
                // The CPU changes root domains as if it went offline and online (`rq_attach_root`).
                class::update_curr(&mut rq, shared);
                rt::rq_offline(&mut rq, shared);
                rt::rq_online(&rq, shared);
            }
            if rq.online && rq.balance.tick_stopped {
                if shared.is_isolated(cpu) {
                    shared.nohz.exit(cpu);
                } else {
                    shared.nohz.enter(cpu);
                }
            }
            if rq.nr_running > 1 {
                shared.set_overloaded(cpu, true);
            }
            deadline::account_all(&mut rq, shared);
            finish_verb(&mut rq, shared, self.host);
        }
    }

    /// Whether a task may move to a group (`cpuset_can_attach`). The bandwidth of a deadline task moves to its new root
    /// domain.
    pub(super) fn may_attach(&mut self, task: TaskId, group: GroupId) -> Result<(), SchedError> {
        let shared = self.shared;
        let Some((mut rq, index)) = rq_of!(self, task) else { return Ok(()) };
        let this = &rq.tasks[index];
        let from = this.group;
        if from == group || this.per_cpu {
            return Ok(());
        }
        let (empty, leaves_domain) = shared.cpusets(|it| (it.is_empty(group), !it.intersect(from, group)));
        if empty {
            return Err(SchedError::NoCpus);
        }
        let to = shared.cpusets(|cpusets| cpusets.view_effective(group)).first();
        let Some(se) = rq.tasks[index].dl.as_mut().filter(|se| leaves_domain && se.bw > 0) else { return Ok(()) };
        let root = shared.root(to.unwrap_or(CpuId(0)));
        if root != se.root {
            let domain = shared.dl.domain(root);
            domain.admit(0, se.attrs).map_err(|error| SchedError::Admission(Box::new(error)))?;
            shared.dl.domain(se.root).release(se.bw);
            se.root = root;
        }
        Ok(())
    }
}

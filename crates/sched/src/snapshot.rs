//! Takes a snapshot of the scheduler's state ([`debug`](crate::debug)).

use alloc::vec::Vec;

use crate::attrs::ClassKind;
use crate::balance::domains::Level;
use crate::class::clamps;
use crate::class::rt::verbs as rt;
use crate::debug::{CpuDebug, EntityDebug, Names, RtDebug, Snapshot, TaskDebug};
use crate::host::Host;
use crate::ids::{CpuId, GroupId};
use crate::kernels::Behaviour;
use crate::policy::{Balanced, Debugged, Policy};
use crate::rq::{Rq, Rqs};
use crate::scheduler::view::Scheduler;
use crate::shared::Shared;
use crate::task::SchedPolicy;
use crate::tunables::Tunables;

/// Returns the state in the fair class, with the CPU time of higher classes.
fn entity<P: Policy>(rq: &Rq<P>, index: u32) -> Option<EntityDebug> {
    let task = &rq.tasks[index];
    let charged = match task.kind() {
        ClassKind::Fair => 0,
        ClassKind::Rt if rq.curr == Some(index) => rq.rt.exec_start(),
        ClassKind::Deadline if rq.curr == Some(index) => task.deadline().map_or(0, |se| se.exec_start),
        _ if task.ran_above > 0 => task.last_ran,
        _ => 0,
    };
    let se = P::Debugging::debug_task(rq, index);
    let above = task.kind() != ClassKind::Fair || task.ran_above > 0;
    let mut se = if above { se.unwrap_or_default() } else { se? };
    se.sum_exec_runtime += task.ran_above;
    se.exec_start = se.exec_start.max(charged);
    Some(se)
}

const fn name(level: Level) -> &'static str {
    match level {
        Level::Smt => "SMT",
        Level::Cluster => "CLS",
        Level::Mc => "MC",
        Level::Pkg => "PKG",
        Level::Numa(_) => "NUMA",
    }
}

fn cpu<P: Policy>(rq: &Rq<P>, shared: &Shared<P>) -> CpuDebug {
    let mut tasks: Vec<TaskDebug> = rq
        .tasks
        .iter()
        .map(|(index, task)| TaskDebug {
            id: task.id,
            state: task.state,
            blocked: task.blocked,
            policy: task.policy,
            prio: if task.kind() == ClassKind::Fair { P::Balance::dynamic_prio(rq, index) } else { task.prio() },
            group: task.group,
            uclamp: {
                let (asked, holds) = (clamps::requested(shared, task), clamps::effective(shared, task));
                [asked.min, asked.max, holds.min, holds.max]
            },
            se: entity(rq, index),
            migrations: task.migrations,
            wakeups: task.wakeups,
            dl: task.deadline().filter(|_| task.policy == SchedPolicy::Deadline).map(|se| (se.runtime, se.deadline)),
        })
        .collect();
    tasks.sort_unstable_by_key(|task| task.id);
    let domain = shared.dl.domain(shared.root(rq.cpu));
    CpuDebug {
        cpu: rq.cpu,
        curr: rq.running(),
        nr_running: rq.nr_running,
        nr_uninterruptible: rq.load.nr_uninterruptible,
        next_balance_jiffies: if shared.config.has(Behaviour::Early) {
            rq.balance.next_balance / shared.config.tunables.tick_ns().max(1)
        } else {
            rq.balance.next_balance
        },
        clock: rq.clock.now(),
        avg_idle: rq.balance.avg_idle,
        max_idle_balance_cost: rq.balance.max_idle_balance_cost,
        cfs: P::Debugging::debug(rq, shared),
        rt: RtDebug {
            nr_running: rq.rt.nr_running(),
            throttled: rq.rt.throttled(),
            time: rq.rt.rt_time(),
            runtime: shared.config.tunables.rt_runtime_ns(),
        },
        rt_groups: rq
            .rt
            .of_groups()
            .filter(|(group, ..)| *group != GroupId::ROOT)
            .map(|(group, nr_running, throttled, time)| {
                let runtime = rt::limit(shared, group).runtime.unwrap_or(u64::MAX);
                (group, RtDebug { nr_running, throttled, time, runtime })
            })
            .collect(),
        dl_nr_running: rq.dl.nr_running(),
        dl_bw: domain.limit().per_cpu(),
        dl_total_bw: domain.total(),
        online: rq.is_online(),
        tasks,
        domains: shared.domains.of(rq.cpu).map(|(_, domain)| (name(domain.level), domain.span.clone())).collect(),
    }
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Returns the present state.
    pub fn snapshot(&mut self) -> Snapshot {
        let (shared, tunables) = (self.shared, &self.shared.config.tunables);
        Snapshot {
            at: self.now,
            tick_ns: tunables.tick_ns(),
            names: Names::of(&shared.config),
            base_slice_ns: tunables.base_slice_ns(),
            cfs_ns: [tunables.latency_ns(), tunables.wakeup_granularity_ns(), tunables.idle_min_granularity_ns()],
            idle_groups: shared.config.has(Behaviour::IdleGroups),
            schedstat_version: match &shared.config {
                config if config.has(Behaviour::Schedstat17) => 17,
                config if config.has(Behaviour::Schedstat16) => 16,
                config if config.has(Behaviour::Schedstat15) => 15,
                config if config.has(Behaviour::Schedstat14) => 14,
                _ => 12,
            },
            rt_groups: shared.config.rt_group_sched,
            cpus: (0..shared.nr_cpus() as u32)
                .map(|index| {
                    let mut rq = self.rqs.rq(CpuId(index));
                    P::Debugging::apply_deferred(&mut rq, shared);
                    cpu(&rq, shared)
                })
                .collect(),
        }
    }
}

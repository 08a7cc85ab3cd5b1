//! What old kernels do not have is refused under them, with the kernel that brought it.

use vruntime_sched::Kernel;
use vruntime_sched::features::Feature;
use vruntime_sched::kernels::has_feature;
use vruntime_workload::program::{Changed, CpuMax, Group, Partition, Policy, Settings, Task, Workload};
use vruntime_workload::scenario::Preempt;

use crate::config::Config;
use crate::error::{Error, Who};

/// Whether who reads from a full pipe wakes a writer even if no page of it has become free: from 5.5 on, when writers got a queue of their own, up
/// to 6.13.
pub(crate) fn pipes_wake_in_vain(kernel: &Kernel) -> bool {
    kernel.is_at_least([5, 5, 0]) && !kernel.is_at_least([6, 14, 0])
}

/// What came when.
struct Novelty {
    what: &'static str,
    version: [u32; 3],
    since: &'static str,
}

const fn novelty(what: &'static str, version: [u32; 3], since: &'static str) -> Novelty {
    Novelty { what, version, since }
}

const BATCH: Novelty = novelty("SCHED_BATCH", [2, 6, 16], "2.6.16");
const IDLE: Novelty = novelty("SCHED_IDLE", [2, 6, 23], "2.6.23");
const WEIGHT: Novelty = novelty("a weight (cpu.weight)", [2, 6, 24], "2.6.24");
const GROUPS: Novelty = novelty("a task group", [2, 6, 24], "2.6.24");
const RT_GROUPS: Novelty = novelty("real-time scheduling of groups", [2, 6, 25], "2.6.25");
const AUTOGROUP: Novelty = novelty("autogroups", [2, 6, 38], "2.6.38");
const LIMITS: Novelty = novelty("a CPU limit (cpu.max)", [3, 2, 0], "3.2");
const DEADLINE: Novelty = novelty("SCHED_DEADLINE", [3, 14, 0], "3.14");
const RECLAIM: Novelty = novelty("reclaiming of deadline tasks' bandwidth (GRUB)", [4, 13, 0], "4.13");
const OVERRUN: Novelty = novelty("a signal for a deadline task's overrun", [4, 16, 0], "4.16");
const PARTITIONS: Novelty = novelty("a cpuset partition", [5, 0, 0], "5.0");
const BURST: Novelty = novelty("a burst beyond a CPU limit", [5, 14, 0], "5.14");
const IDLE_GROUP: Novelty = novelty("an idle group (cpu.idle)", [5, 15, 0], "5.15");
const SLICES: Novelty = novelty("a slice of its own", [6, 12, 0], "6.12");
/// Lazy preemption.
pub(crate) const LAZY: [u32; 3] = [6, 13, 0];
const CLAMPS: Novelty = novelty("a utilisation clamp", [5, 3, 0], "5.3");

/// The first task that asks for a slice, or that a change gives one, under a kernel that ignores it.
pub(crate) fn ignored_slice<'a>(workload: &'a Workload, kernel: &Kernel) -> Option<&'a str> {
    let sliced = |settings: &Settings| {
        matches!(settings.policy, Some(Policy::Other { slice: Some(_), .. } | Policy::Batch { slice: Some(_), .. }))
    };
    if kernel.is_at_least(SLICES.version) {
        return None;
    }
    let changed = workload.changes.iter().find_map(|change| match &change.what {
        Changed::Tasks { tasks, settings, .. } if sliced(settings) => tasks.first().copied(),
        _ => None,
    });
    let asks = |task: &&Task| sliced(&task.settings) || task.phases.iter().any(|phase| sliced(&phase.settings));
    let first = workload.tasks.iter().find(asks).or(changed.and_then(|task| workload.tasks.get(task)));
    first.map(|task| task.name.as_str())
}

/// What a user should know of what the kernel ignores.
pub(crate) fn note(workload: &Workload, kernel: &Kernel) -> Option<String> {
    let task = ignored_slice(workload, kernel)?;
    let Novelty { what, since, .. } = SLICES;
    Some(format!("task `{task}` asks for {what}, which Linux {} ignores: it came with {since}", kernel.name))
}

/// What a kernel without lazy preemption does instead.
pub(crate) fn preemption_note(config: &Config) -> Option<String> {
    let kernel = &config.kernel;
    (config.preempt == Preempt::Lazy && !kernel.is_at_least(LAZY))
        .then(|| format!("lazy preemption came with 6.13: Linux {} preempts as with `voluntary`", kernel.name))
}

/// Refuses what the kernel does not have.
pub(crate) fn check(workload: &Workload, config: &Config) -> Result<(), Error> {
    let kernel = &config.kernel;
    // The groups of the CPU resource controller are classes.
    let has_classes = has_feature(kernel.name, Feature::CpuRcScaling);
    let ask = |novelty: &Novelty, who: &dyn Fn() -> Who| {
        if kernel.is_at_least(novelty.version) {
            return Ok(());
        }
        let Novelty { what, since, .. } = *novelty;
        Err(Error::TooOld { who: who(), what, kernel: kernel.name, since })
    };
    let settings = |settings: &Settings, who: &dyn Fn() -> Who| {
        match settings.policy {
            Some(Policy::Batch { .. }) => ask(&BATCH, who)?,
            Some(Policy::Idle) => ask(&IDLE, who)?,
            Some(Policy::Deadline { reclaim, overrun, .. }) => {
                ask(&DEADLINE, who)?;
                if reclaim {
                    ask(&RECLAIM, who)?;
                }
                if overrun {
                    ask(&OVERRUN, who)?;
                }
            }
            _ => {}
        }
        if settings.group.is_some_and(|group| group != 0) && !has_classes {
            ask(&GROUPS, who)?;
        }
        if settings.util_min.is_some() || settings.util_max.is_some() {
            ask(&CLAMPS, who)?;
        }
        Ok(())
    };
    if config.strict
        && let Some(task) = ignored_slice(workload, kernel)
    {
        ask(&SLICES, &|| Who::Task(task.to_owned()))?;
    }
    if config.autogroup {
        ask(&AUTOGROUP, &|| Who::Scenario)?;
    }
    if kernel.rt_group_sched || workload.groups.first().is_some_and(|root| root.rt.is_some()) {
        ask(&RT_GROUPS, &|| Who::Scenario)?;
    }
    for group in workload.groups.iter().skip(1) {
        let who = || Who::Group(group.path.clone());
        if has_classes {
            if group.parent != Some(0) {
                return Err(Error::Nested { group: group.path.clone(), kernel: kernel.name });
            }
            if group.weight != Group::default().weight {
                ask(&WEIGHT, &who)?;
            }
            if group.max.is_some() {
                ask(&LIMITS, &who)?;
            }
            if group.rt.is_some() {
                ask(&RT_GROUPS, &who)?;
            }
        } else {
            ask(&GROUPS, &who)?;
            if group.guarantee.is_some() {
                return Err(Error::NoGuarantees { group: group.path.clone(), kernel: kernel.name });
            }
        }
        if group.idle {
            ask(&IDLE_GROUP, &who)?;
        }
        if group.max.is_some_and(|limit| limit.burst > 0) {
            ask(&BURST, &who)?;
        }
        if group.uclamp.is_some() {
            ask(&CLAMPS, &who)?;
        }
        if group.cpuset.partition != Partition::Member {
            ask(&PARTITIONS, &who)?;
        }
    }
    if workload.groups.first().is_some_and(|root| root.max.is_some()) {
        ask(&LIMITS, &|| Who::Group("/".to_owned()))?;
    }
    for task in &workload.tasks {
        let who = || Who::Task(task.name.clone());
        settings(&task.settings, &who)?;
        for phase in task.phases.iter() {
            settings(&phase.settings, &who)?;
        }
    }
    for change in &workload.changes {
        let who = || Who::Change(change.at);
        match &change.what {
            Changed::Tasks { settings: changed, .. } => settings(changed, &who)?,
            Changed::Group { group, to } => {
                if to.guarantee.is_some() && !has_classes {
                    let group = workload.groups[*group].path.clone();
                    return Err(Error::NoGuarantees { group, kernel: kernel.name });
                }
                if to.weight.is_some() {
                    ask(&WEIGHT, &who)?;
                }
                if to.max.is_some() {
                    ask(&LIMITS, &who)?;
                }
                if to.rt.is_some() {
                    ask(&RT_GROUPS, &who)?;
                }
                if to.idle == Some(true) {
                    ask(&IDLE_GROUP, &who)?;
                }
                if matches!(to.max, Some(CpuMax::Limited(limit)) if limit.burst > 0) {
                    ask(&BURST, &who)?;
                }
                if to.uclamp.is_some() {
                    ask(&CLAMPS, &who)?;
                }
            }
            Changed::Cpuset { partition: Some(Partition::Root | Partition::Isolated), .. } => ask(&PARTITIONS, &who)?,
            Changed::Cpuset { .. } | Changed::Session { .. } => {}
        }
    }
    Ok(())
}

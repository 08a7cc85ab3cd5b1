//! Rejects what the kernel lacks, naming the release that introduced it.

use vruntime_sched::Kernel;
use vruntime_sched::features::Feature;
use vruntime_sched::kernels::{Behaviour, has_feature};
use vruntime_workload::program::{Changed, CpuMax, Group, GroupChange, Partition, Policy, Settings, Task, Workload};
use vruntime_workload::scenario::Preempt;

use crate::config::Config;
use crate::error::{Error, Subject};

/// What a task, group or machine asks for, and the behaviour that it needs.
struct Novelty {
    what: &'static str,
    needs: Behaviour,
}

const fn novelty(what: &'static str, needs: Behaviour) -> Novelty {
    Novelty { what, needs }
}

impl Novelty {
    /// Returns the release that introduced it.
    fn since(&self) -> &'static str {
        self.needs.row().since.unwrap_or_default()
    }
}

const BATCH: Novelty = novelty("SCHED_BATCH", Behaviour::SchedBatch);
const IDLE: Novelty = novelty("SCHED_IDLE", Behaviour::SchedIdle);
const WEIGHT: Novelty = novelty("a weight (cpu.weight)", Behaviour::TaskGroups);
const GROUPS: Novelty = novelty("a task group", Behaviour::TaskGroups);
const RT_GROUPS: Novelty = novelty("real-time scheduling of groups", Behaviour::RtGroups);
const AUTOGROUP: Novelty = novelty("autogroups", Behaviour::Autogroups);
const LIMITS: Novelty = novelty("a CPU limit (cpu.max)", Behaviour::GroupLimits);
const DEADLINE: Novelty = novelty("SCHED_DEADLINE", Behaviour::SchedDeadline);
const RECLAIM: Novelty = novelty("reclaiming of deadline tasks' bandwidth (GRUB)", Behaviour::DeadlineReclaims);
const OVERRUN: Novelty = novelty("a signal for a deadline task's overrun", Behaviour::DeadlineOverruns);
const PARTITIONS: Novelty = novelty("a cpuset partition", Behaviour::CpusetPartitions);
const BURST: Novelty = novelty("a burst beyond a CPU limit", Behaviour::LimitBursts);
const IDLE_GROUP: Novelty = novelty("an idle group (cpu.idle)", Behaviour::IdleGroups);
const SLICES: Novelty = novelty("a slice of its own", Behaviour::CustomSlices);
const CLAMPS: Novelty = novelty("a utilisation clamp", Behaviour::UtilClamps);
const GROUP_CLAMPS: Novelty =
    novelty("utilisation clamps (cpu.uclamp.min, cpu.uclamp.max)", Behaviour::GroupUtilClamps);

/// Returns the first task with a slice that the kernel ignores, initially or by a change.
pub(crate) fn ignored_slice<'a>(workload: &'a Workload, kernel: &Kernel) -> Option<&'a str> {
    let sliced = |settings: &Settings| {
        matches!(settings.policy, Some(Policy::Other { slice: Some(_), .. } | Policy::Batch { slice: Some(_), .. }))
    };
    if kernel.behaviours.has(SLICES.needs) {
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

/// Returns a note on what the kernel ignores.
pub(crate) fn note(workload: &Workload, kernel: &Kernel) -> Option<String> {
    let task = ignored_slice(workload, kernel)?;
    let (what, since) = (SLICES.what, SLICES.since());
    Some(format!("task `{task}` asks for {what}, which Linux {} ignores: {since} introduced it", kernel.name))
}

/// Returns a note on the replacement of lazy preemption.
pub(crate) fn preemption_note(config: &Config) -> Option<String> {
    (config.preempt == Preempt::Lazy && config.effective_preempt() != Preempt::Lazy).then(|| {
        let since = Behaviour::LazyPreemption.row().since.unwrap_or_default();
        format!("lazy preemption came with {since}: Linux {} preempts as with `voluntary`", config.kernel.name)
    })
}

pub(crate) fn check(workload: &Workload, config: &Config) -> Result<(), Error> {
    let kernel = &config.kernel;
    let had = Had { kernel, classes: has_feature(kernel.name, Feature::CpuRcScaling) };
    let scenario = || Subject::Scenario;
    if config.strict
        && let Some(task) = ignored_slice(workload, kernel)
    {
        had.ask(true, &SLICES, &|| Subject::Task(task.to_owned()))?;
    }
    let root = workload.groups.first();
    had.ask(config.autogroup, &AUTOGROUP, &scenario)?;
    had.ask(kernel.rt_group_sched || root.is_some_and(|root| root.rt.is_some()), &RT_GROUPS, &scenario)?;
    workload.groups.iter().skip(1).try_for_each(|group| had.group(group))?;
    had.ask(root.is_some_and(|root| root.max.is_some()), &LIMITS, &|| Subject::Group("/".to_owned()))?;
    for task in &workload.tasks {
        let subject = || Subject::Task(task.name.clone());
        had.settings(&task.settings, &subject)?;
        task.phases.iter().try_for_each(|phase| had.settings(&phase.settings, &subject))?;
    }
    for change in &workload.changes {
        let subject = || Subject::Change(change.at);
        match &change.what {
            Changed::Tasks { settings, .. } => had.settings(settings, &subject)?,
            Changed::Group { group, to } => {
                had.guarantee(to.guarantee.is_some(), workload.groups.get(*group))?;
                had.change(to, &subject)?;
            }
            Changed::Cpuset { partition, .. } => {
                let becomes = matches!(partition, Some(Partition::Root | Partition::Isolated));
                had.ask(becomes, &PARTITIONS, &subject)?;
            }
            Changed::Session { .. } => {}
        }
    }
    Ok(())
}

struct Had<'a> {
    kernel: &'a Kernel,
    /// Whether groups are classes of the CPU resource controller.
    classes: bool,
}

impl Had<'_> {
    /// Rejects a request for `novelty` under a kernel without it.
    fn ask(&self, wants: bool, novelty: &Novelty, subject: &dyn Fn() -> Subject) -> Result<(), Error> {
        if !wants || self.kernel.behaviours.has(novelty.needs) {
            return Ok(());
        }
        Err(Error::TooOld { subject: subject(), what: novelty.what, kernel: self.kernel.name, since: novelty.since() })
    }

    fn guarantee(&self, wants: bool, group: Option<&Group>) -> Result<(), Error> {
        match group.filter(|_| wants && !self.classes) {
            Some(group) => Err(Error::NoGuarantees { group: group.path.clone(), kernel: self.kernel.name }),
            None => Ok(()),
        }
    }

    fn settings(&self, settings: &Settings, subject: &dyn Fn() -> Subject) -> Result<(), Error> {
        let policy = settings.policy.as_ref();
        self.ask(matches!(policy, Some(Policy::Batch { .. })), &BATCH, subject)?;
        self.ask(matches!(policy, Some(Policy::Idle)), &IDLE, subject)?;
        if let Some(&Policy::Deadline { reclaim, overrun, .. }) = policy {
            self.ask(true, &DEADLINE, subject)?;
            self.ask(reclaim, &RECLAIM, subject)?;
            self.ask(overrun, &OVERRUN, subject)?;
        }
        self.ask(settings.group.is_some_and(|group| group != 0) && !self.classes, &GROUPS, subject)?;
        self.ask(settings.util_min.is_some() || settings.util_max.is_some(), &CLAMPS, subject)
    }

    /// Checks a group below the root.
    fn group(&self, group: &Group) -> Result<(), Error> {
        let subject = || Subject::Group(group.path.clone());
        if self.classes {
            if group.parent != Some(0) {
                return Err(Error::Nested { group: group.path.clone(), kernel: self.kernel.name });
            }
            self.ask(group.weight != Group::default().weight, &WEIGHT, &subject)?;
        } else {
            self.ask(true, &GROUPS, &subject)?;
            self.guarantee(group.guarantee.is_some(), Some(group))?;
        }
        self.ask(group.max.is_some(), &LIMITS, &subject)?;
        self.ask(group.rt.is_some(), &RT_GROUPS, &subject)?;
        self.ask(group.idle, &IDLE_GROUP, &subject)?;
        self.ask(group.max.is_some_and(|limit| limit.burst > 0), &BURST, &subject)?;
        self.ask(group.uclamp.is_some(), &GROUP_CLAMPS, &subject)?;
        self.ask(group.cpuset.partition != Partition::Member, &PARTITIONS, &subject)
    }

    /// Checks a change of a group.
    fn change(&self, to: &GroupChange, subject: &dyn Fn() -> Subject) -> Result<(), Error> {
        self.ask(to.weight.is_some(), &WEIGHT, subject)?;
        self.ask(to.max.is_some(), &LIMITS, subject)?;
        self.ask(to.rt.is_some(), &RT_GROUPS, subject)?;
        self.ask(to.idle == Some(true), &IDLE_GROUP, subject)?;
        self.ask(matches!(to.max, Some(CpuMax::Limited(limit)) if limit.burst > 0), &BURST, subject)?;
        self.ask(to.uclamp.is_some(), &GROUP_CLAMPS, subject)
    }
}

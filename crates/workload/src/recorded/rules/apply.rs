//! Rules applied to a trace's tasks.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::cgroups::COMMAND;
use super::super::{Recorded, Thread};
use super::copies::multiply;
use super::{Affinity, Limits, Rule, Rules, What};
use crate::error::Error;
use crate::groups::{DEFAULT_WEIGHT, GroupTree};
use crate::program::{Changed, CpuMax, Cpuset, Phase, Policy, Settings, Workload};
use crate::suggest::nearest;

/// So many tasks a what-if may have: as many as an rt-app file.
const MAX_TASKS: u64 = 1 << 21;

impl Rules {
    /// Which of the trace's threads are to be left out, as indices in [`Recorded::threads`]; what they woke is then woken when it was in the
    /// trace ([`super::super::Recorder::without`]).
    pub fn removed(&self, threads: &[Thread]) -> BTreeSet<usize> {
        self.rules.iter().filter(|rule| rule.what.remove).flat_map(|rule| rule.who.chosen(threads)).collect()
    }

    /// What becomes of the tasks of a trace on a machine of `cpus` CPUs. Those that are to be removed must not be there any more; what a rule
    /// says is checked with the `threads` that were there before.
    ///
    /// # Errors
    /// A rule fits no thread, or names a CPU that the machine does not have, or there would be too many tasks.
    pub fn apply(&self, recorded: &mut Recorded, threads: &[Thread], cpus: usize) -> Result<(), Error> {
        let workload = &mut recorded.workload;
        let mut groups = GroupTree::from_groups(std::mem::take(&mut workload.groups));
        let mut copies = vec![1_u32; workload.tasks.len()];
        let mut placed = BTreeSet::new();
        for rule in &self.rules {
            rule.check(threads, cpus)?;
            let group = rule.what.group.as_deref().map(|path| {
                let index = groups.ensure(path);
                limit(&mut groups, index, rule.what.limits);
                index
            });
            // Of groups that are there already.
            if let (None, Some(glob)) = (group, &rule.who.cgroup)
                && rule.what.limits != Limits::default()
            {
                let paths = groups.paths().into_iter().enumerate().skip(1);
                let there: Vec<usize> = paths.filter(|(_, path)| glob.is_match(path)).map(|(index, _)| index).collect();
                if there.is_empty() {
                    let error =
                        Error::new(&rule.source, "no cgroup that fits has weights and limits of its own".to_owned());
                    return Err(error.at(rule.span.clone(), "the `cpu` controller is not enabled there").with_help(
                        "put these tasks into a group: add group=/name; or name a cgroup above, in which they compete",
                    ));
                }
                for index in there {
                    limit(&mut groups, index, rule.what.limits);
                }
            }
            for index in rule.who.chosen(&recorded.threads) {
                let Some(task) = recorded.threads[index].task else { continue };
                if rule.what.nice.is_some() || rule.what.policy.is_some() || rule.what.cpus.is_some() {
                    change(&mut workload.tasks[task], &rule.what);
                }
                if group.is_some() {
                    workload.tasks[task].settings.group = group;
                    placed.insert(task);
                }
                copies[task] = rule.what.copies.unwrap_or(copies[task]);
            }
            if copies.iter().map(|&count| u64::from(count)).sum::<u64>() > MAX_TASKS {
                let error = Error::new(&rule.source, format!("that makes more than {MAX_TASKS} tasks"));
                return Err(error.at(rule.span.clone(), "with this rule").with_help("lower `copies`"));
            }
        }
        for (path, limits) in &self.groups {
            let index = groups.ensure(path);
            limit(&mut groups, index, *limits);
        }
        workload.groups = groups.into_groups();
        stay(workload, &placed);
        multiply(workload, &copies);
        Ok(())
    }
}

impl Rule {
    fn check(&self, threads: &[Thread], cpus: usize) -> Result<(), Error> {
        let error = |message: String| Error::new(&self.source, message);
        if !self.who.chosen(threads).into_iter().any(|index| threads[index].task.is_some()) {
            let said = &self.source.text()[self.span.clone()];
            let names: BTreeSet<&str> = threads.iter().map(|thread| thread.comm.as_str()).collect();
            let bare = said.trim_matches(|c: char| !c.is_alphanumeric());
            let mut help = match nearest(bare, names.iter().copied()) {
                Some(name) => format!("did you mean `{name}`? "),
                None => String::new(),
            };
            if self.who.tgids.is_some() && threads.iter().all(|thread| thread.tgid.is_none()) {
                help.push_str("the trace does not tell of any task which process it belongs to; ");
            }
            if self.who.cgroup.is_some() && threads.iter().all(|thread| thread.cgroup.is_none()) {
                help = format!(
                    "the trace does not tell of any task in which group it was: give --cgroups FILE, written by\n{COMMAND}\n"
                );
            }
            help.push_str("`vruntime trace info TRACE --all` lists the tasks; in a name * stands for anything");
            return Err(error("no task of the trace fits this rule".to_owned())
                .at(self.span.clone(), "nobody")
                .with_help(help));
        }
        if let Some(Affinity(Some(list))) = &self.what.cpus
            && let Some(cpu) = list.iter().find(|&&cpu| cpu as usize >= cpus)
        {
            let message = format!("there is no CPU {cpu}: the machine has {cpus}, 0 to {}", cpus - 1);
            return Err(error(message)
                .at(self.cpus_span.clone(), "here")
                .with_help("name others, or a larger machine with --machine"));
        }
        Ok(())
    }
}

/// Gives a group what is said of it.
pub(in super::super) fn limit(groups: &mut GroupTree, index: usize, limits: Limits) {
    let group = groups.get_mut(index);
    if let Some(idle) = limits.idle {
        group.idle = idle;
        group.weight = DEFAULT_WEIGHT;
    }
    group.weight = limits.weight.unwrap_or(group.weight);
    match limits.max {
        Some(CpuMax::Unlimited) => group.max = None,
        Some(CpuMax::Limited(limit)) => group.max = Some(limit),
        None => {}
    }
}

/// Tasks that a rule has put into a group are not moved to others any more, as they were in the trace.
fn stay(workload: &mut Workload, placed: &BTreeSet<usize>) {
    workload.changes.retain(|change| {
        let Changed::Tasks { tasks, settings, .. } = &change.what else { return true };
        settings.group.is_none() || !tasks.iter().all(|task| placed.contains(task))
    });
}

/// Changes a task in all its phases.
fn change(task: &mut crate::program::Task, what: &What) {
    let set = |settings: &mut Settings| {
        if let (Some(policy), true) = (what.policy, settings.policy.is_some()) {
            settings.policy = Some(policy);
        }
        if let (Some(new), Some(Policy::Other { nice, .. } | Policy::Batch { nice, .. })) =
            (what.nice, &mut settings.policy)
        {
            *nice = new;
        }
        if let Some(cpus) = &what.cpus {
            settings.cpus.clone_from(&cpus.0);
        }
    };
    set(&mut task.settings);
    if task.phases.iter().any(|phase| phase.settings != Settings::default()) {
        let mut phases: Vec<Phase> = task.phases.to_vec();
        for phase in &mut phases {
            set(&mut phase.settings);
        }
        task.phases = Arc::from(phases);
    }
}

/// Frees tasks that were confined to CPUs which a machine of `cpus` CPUs does not have; how many.
pub(in super::super) fn free(workload: &mut Workload, cpus: u32) -> usize {
    let gone = |settings: &Settings| settings.cpus.as_ref().is_some_and(|list| list.iter().all(|cpu| *cpu >= cpus));
    let mut freed = 0;
    for task in &mut workload.tasks {
        if gone(&task.settings) || task.phases.iter().any(|phase| gone(&phase.settings)) {
            freed += 1;
            change(task, &What { cpus: Some(Affinity(None)), ..What::default() });
        }
        // Of several CPUs those stay that are there.
        if let Some(list) = &mut task.settings.cpus {
            list.retain(|cpu| *cpu < cpus);
        }
    }
    for change in &mut workload.changes {
        if let Changed::Tasks { settings, .. } = &mut change.what
            && let Some(list) = &mut settings.cpus
        {
            list.retain(|cpu| *cpu < cpus);
            if list.is_empty() {
                list.extend(0..cpus);
            }
        }
    }
    freed
}

/// Takes CPUs that a machine of `cpus` CPUs does not have from the cpusets; from how many.
pub(in super::super) fn narrow_cpusets(workload: &mut Workload, cpus: u32) -> usize {
    let mut narrowed = 0;
    for group in &mut workload.groups {
        let Some(list) = &mut group.cpuset.cpus else { continue };
        let before = list.len();
        list.retain(|cpu| *cpu < cpus);
        narrowed += usize::from(list.len() < before);
        if list.is_empty() {
            group.cpuset = Cpuset::default();
        }
    }
    narrowed
}

/// Leaves out what happens to CPUs that a machine of `cpus` CPUs does not have, and what would leave it none; how much.
pub(in super::super) fn keep_online(workload: &mut Workload, cpus: u32) -> usize {
    let before = workload.hotplug.len();
    let mut offline = BTreeSet::new();
    workload.hotplug.retain(|plug| {
        let is_last = offline.len() + 1 >= cpus as usize;
        plug.cpu < cpus && if plug.online { offline.remove(&plug.cpu) } else { !is_last && offline.insert(plug.cpu) }
    });
    before - workload.hotplug.len()
}

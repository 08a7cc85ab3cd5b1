//! Applies rules to the tasks of a trace or a workload file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::super::{Closed, Recorded, Thread};
use super::copies::{MAX_OPS, multiply};
use super::{Affinity, Candidates, GroupRule, Limits, Rule, Rules, What, in_file, in_trace};
use vruntime_workload::cgroups::COMMAND;
use vruntime_workload::groups::GroupTree;
use vruntime_workload::nearest;
use vruntime_workload::program::{Changed, Cpuset, Group, Phase, Policy, Settings, Task, Workload};
use vruntime_workload::{Error, Source};

/// The most tasks of a what-if, as of an rt-app file.
const MAX_TASKS: u64 = 1 << 21;

/// The source of the tasks that rules match.
#[derive(Clone, Copy, Debug)]
enum Origin<'a> {
    Trace,
    File(&'a str),
}

impl Rules {
    /// Returns removed threads, as indices in [`Recorded::threads`]. Tasks that they woke wake at recorded times
    /// ([`super::super::Recorder::without`]).
    pub fn removed(&self, threads: &[Thread]) -> BTreeSet<usize> {
        let all = in_trace(threads);
        self.rules.iter().filter(|rule| rule.what.remove).flat_map(|rule| rule.selector.chosen(&all)).collect()
    }

    /// Returns which threads do more with more CPU, or do not, according to rules; the last rule counts.
    pub fn closed(&self, threads: &[Thread]) -> BTreeMap<usize, Closed> {
        let all = in_trace(threads);
        let rules = self.rules.iter().filter_map(|rule| Some((rule, rule.what.closed?)));
        rules
            .flat_map(|(rule, closed)| rule.selector.chosen(&all).into_iter().map(move |thread| (thread, closed)))
            .collect()
    }

    /// Applies the rules to a trace's tasks on a machine of `cpus` CPUs. Threads that rules remove must already be
    /// gone; `threads` has them, to check the rules.
    ///
    /// # Errors
    /// A rule fits no thread and no group, or names a CPU that the machine does not have, or there would be too many
    /// tasks.
    pub fn apply(&self, recorded: &mut Recorded, threads: &[Thread], cpus: usize) -> Result<(), Error> {
        self.check(Origin::Trace, &in_trace(threads), &recorded.workload.groups)?;
        self.check_cpus(cpus)?;
        let there = in_trace(&recorded.threads);
        let chosen: Vec<Vec<usize>> = self.rules.iter().map(|rule| rule.selector.tasks(&there)).collect();
        self.carry_out(&mut recorded.workload, &chosen)
    }

    /// Applies the rules to the tasks and groups of the workload from that file. Call [`Rules::check_cpus`] when its
    /// machine is known.
    ///
    /// # Errors
    /// A rule matches no task and no group. Or it needs a trace: it matches ids, or copies or removes tasks.
    pub fn apply_to(&self, workload: &mut Workload, file: &str) -> Result<(), Error> {
        self.rules.iter().try_for_each(|rule| rule.is_for_files(file))?;
        let all = in_file(workload);
        self.check(Origin::File(file), &all, &workload.groups)?;
        let chosen: Vec<Vec<usize>> = self.rules.iter().map(|rule| rule.selector.tasks(&all)).collect();
        self.carry_out(workload, &chosen)
    }

    /// Checks that a machine with `cpus` CPUs has all CPUs of the rules.
    ///
    /// # Errors
    /// It has not.
    pub fn check_cpus(&self, cpus: usize) -> Result<(), Error> {
        for rule in &self.rules {
            let Some(Affinity(Some(list))) = &rule.what.cpus else { continue };
            let Some(cpu) = list.iter().find(|&&cpu| cpu as usize >= cpus) else { continue };
            let message = format!("there is no CPU {cpu}: the machine has {cpus}, 0 to {}", cpus.saturating_sub(1));
            let error = Error::new(&rule.source, message).at(rule.span_of("cpus"), "here");
            return Err(error.with_help("name others, or a larger machine with --machine"));
        }
        Ok(())
    }

    /// Checks that each rule matches tasks or a group, which exists or which an earlier rule makes.
    fn check(&self, origin: Origin<'_>, all: &Candidates<'_>, groups: &[Group]) -> Result<(), Error> {
        let mut paths: BTreeSet<&str> =
            groups.iter().map(|group| group.path.as_str()).filter(|path| *path != "/").collect();
        for rule in &self.rules {
            let is_there = rule.selector.cgroup.as_ref().is_some_and(|glob| match glob.name() {
                Some(path) => paths.contains(path),
                None => paths.iter().any(|path| glob.is_match(path)),
            });
            if rule.selector.tasks(all).is_empty() && !(rule.is_of_groups() && is_there) {
                return Err(rule.without_match(origin, all, &paths));
            }
            if rule.what.group.is_none() && rule.what.limits != Limits::default() && !is_there {
                let (message, label, help) = match origin {
                    Origin::Trace => (
                        "no cgroup that fits has weights and limits of its own",
                        "the `cpu` controller is not enabled there",
                        "put these tasks into a group: add group=/name; or name a cgroup above, in which they compete",
                    ),
                    Origin::File(_) => (
                        "the root group has no weight and no limit",
                        "no other group fits",
                        "put these tasks into a group: add group=/name",
                    ),
                };
                let error = Error::new(&rule.source, message.to_owned());
                return Err(error.at(rule.span.clone(), label).with_help(help));
            }
            if let Some(path) = &rule.what.group {
                let slashes = path.match_indices('/').map(|(at, _)| at).skip(1);
                paths.extend(slashes.chain([path.len()]).map(|end| &path[..end]).filter(|path| *path != "/"));
            }
        }
        Ok(())
    }

    /// Applies checked rules to their tasks.
    fn carry_out(&self, workload: &mut Workload, chosen: &[Vec<usize>]) -> Result<(), Error> {
        let mut groups = GroupTree::from_groups(std::mem::take(&mut workload.groups));
        let mut copies = vec![1_u32; workload.tasks.len()];
        let mut placed = BTreeSet::new();
        for (rule, tasks) in self.rules.iter().zip(chosen) {
            let group = rule.what.group.as_deref().map(|path| {
                let index = groups.ensure(path);
                (index, write(&mut groups, index, rule.what.limits))
            });
            if let Some((_, Err(refused))) = group {
                return Err(refused.error(&rule.source, rule.span_of("burst")));
            }
            let group = group.map(|(index, _)| index);
            // Of groups that are there already.
            if let (None, Some(glob)) = (group, &rule.selector.cgroup)
                && rule.what.limits != Limits::default()
            {
                let named: Vec<usize> = if let Some(path) = glob.name() {
                    groups.find(path).into_iter().collect()
                } else {
                    let paths = groups.paths().into_iter().enumerate();
                    paths.filter(|(_, path)| glob.is_match(path)).map(|(index, _)| index).collect()
                };
                // The root has no limits.
                for index in named.into_iter().filter(|&index| index > 0) {
                    write(&mut groups, index, rule.what.limits)
                        .map_err(|refused| refused.error(&rule.source, rule.span_of("burst")))?;
                }
            }
            for &task in tasks {
                if rule.what.nice.is_some() || rule.what.policy.is_some() || rule.what.cpus.is_some() {
                    change(&mut workload.tasks[task], &rule.what);
                }
                if let Some(group) = group {
                    put(&mut workload.tasks[task], group);
                    placed.insert(task);
                }
                copies[task] = rule.what.copies.unwrap_or(copies[task]);
            }
            let more = rule.what.copies.is_some();
            if more && copies.iter().map(|&count| u64::from(count)).sum::<u64>() > MAX_TASKS {
                let error = Error::new(&rule.source, format!("that makes more than {MAX_TASKS} tasks"));
                return Err(error.at(rule.span.clone(), "with this rule").with_help("lower `copies`"));
            }
        }
        for GroupRule { path, limits, source, span, .. } in &self.groups {
            let index = groups.ensure(path);
            write(&mut groups, index, *limits).map_err(|refused| refused.error(source, span.clone()))?;
        }
        workload.groups = groups.into_groups();
        stay(workload, &placed);
        let Some(rule) = self.rules.iter().rfind(|rule| rule.what.copies.is_some()) else { return Ok(()) };
        multiply(workload, &copies).map_err(|ops| {
            let message = format!("the programs of all copies have {ops} operations, more than {MAX_OPS}");
            let help = "lower `copies`, or read less of the recording: --duration 500ms";
            Error::new(&rule.source, message).at(rule.span_of("copies"), "with these copies").with_help(help)
        })
    }
}

impl Rule {
    /// Whether it changes only groups, and no tasks in them.
    fn is_of_groups(&self) -> bool {
        let limits = What { limits: self.what.limits, ..What::default() };
        self.selector.names_only_cgroups() && self.what == limits
    }

    /// Checks that it requests nothing that only a trace has.
    fn is_for_files(&self, file: &str) -> Result<(), Error> {
        let ids = [("pid", &self.selector.pids), ("tgid", &self.selector.tgids), ("tree", &self.selector.trees)];
        let message = |key: &str| format!("`{key}` is of traces: {file} is none");
        if let Some((key, _)) = ids.iter().find(|(_, ids)| ids.is_some()) {
            let error =
                Error::new(&self.source, message(key)).at(self.span_of(key), "no task has an id before it runs");
            return Err(error.with_help("name the tasks by comm=, regex= or cgroup="));
        }
        let (key, help) = match (self.what.copies.is_some(), self.what.remove) {
            _ if self.what.closed.is_some() => ("loop", "in the file, change the program of the task"),
            (true, _) => ("copies", "in the file, `instance` sets the number of copies"),
            (_, true) => ("remove", "remove the task from the file, with the steps that wait for it"),
            _ => return Ok(()),
        };
        Err(Error::new(&self.source, message(key)).at(self.span_of(key), "not here").with_help(help))
    }

    /// Returns the error of a rule without a task or group.
    fn without_match(&self, origin: Origin<'_>, all: &Candidates<'_>, groups: &BTreeSet<&str>) -> Error {
        let names: BTreeSet<&str> = all.iter().map(|candidate| candidate.names[1]).collect();
        let cgroups: BTreeSet<&str> =
            all.iter().filter_map(|candidate| candidate.cgroup).chain(groups.iter().copied()).collect();
        // Or the group exists, and none of its tasks matches.
        let by_group =
            self.selector.cgroup.as_ref().is_some_and(|glob| !cgroups.iter().any(|path| glob.is_match(path)));
        let value = |key: &str| &self.source.text()[self.span_of(key)];
        let meant = if by_group {
            let paths = cgroups.iter().copied().filter(|path| *path != "/");
            nearest(value("cgroup").trim_matches(['"', '\'']), paths)
        } else {
            let name = value("comm").trim_matches(|c: char| !c.is_alphanumeric());
            nearest(name, names.iter().copied()).filter(|meant| *meant != name)
        };
        let mut help = meant.map_or_else(String::new, |name| format!("did you mean `{name}`? "));
        let message = match origin {
            Origin::Trace => {
                if self.selector.tgids.is_some() && all.iter().all(|candidate| candidate.tgid.is_none()) {
                    help.push_str("the trace has no process ids; ");
                }
                if by_group && all.iter().all(|candidate| candidate.cgroup.is_none()) {
                    help = format!(
                        "the trace does not have the groups of tasks: give --cgroups FILE, written by\n{COMMAND}\n"
                    );
                } else if by_group {
                    help.extend(["the groups are ", &list(&cgroups), "; "]);
                }
                help.push_str("`vruntime trace info TRACE --all` lists the tasks; in a name * stands for anything");
                "no task of the trace fits this rule".to_owned()
            }
            Origin::File(file) if by_group && groups.is_empty() => {
                help.push_str("`group=/name` creates a group and puts tasks into it: 'NAME: group=/name weight=200'");
                format!("there is no task group in {file}")
            }
            Origin::File(file) if by_group => {
                help.extend(["the groups are ", &list(groups), "; in a path * stands for anything"]);
                format!("no task group of {file} fits this rule")
            }
            Origin::File(file) => {
                help.extend(["the tasks are ", &list(&names), "; in a name * stands for anything"]);
                format!("no task of {file} fits this rule")
            }
        };
        Error::new(&self.source, message).at(self.span.clone(), "matches no task").with_help(help)
    }
}

/// Lists names to choose from; the first, if there are many.
fn list(names: &BTreeSet<&str>) -> String {
    const MOST: usize = 12;
    let mut shown: Vec<String> = names.iter().take(MOST).map(|name| (*name).to_owned()).collect();
    if names.len() > MOST {
        shown.push(format!("{} more", names.len() - MOST));
    }
    shown.join(", ")
}

/// Why a group cannot have a burst.
#[derive(Clone, Debug)]
enum RefusedBurst {
    /// The group at this path lacks a limit.
    NoLimit(String),
    /// The quota at this path is shorter: nanoseconds.
    AboveQuota(String, u64),
}

impl RefusedBurst {
    fn error(self, source: &Source, span: Range<usize>) -> Error {
        let (message, label, help) = match self {
            Self::NoLimit(path) => (
                format!("a burst without a limit: group `{path}` has no `max`"),
                "there is no quota to exceed",
                "set `max` as well: max=20ms/100ms burst=10ms",
            ),
            Self::AboveQuota(path, quota) => (
                format!("the burst is above the quota of group `{path}`, {} us", quota / 1000),
                "the kernel refuses it (EINVAL)",
                "a burst is at most one quota; lower it, or raise `max`",
            ),
        };
        Error::new(source, message).at(span, label).with_help(help)
    }
}

/// Applies a rule's settings to a group.
fn write(groups: &mut GroupTree, index: usize, limits: Limits) -> Result<(), RefusedBurst> {
    groups.limit(index, limits);
    let group = groups.get_mut(index);
    match (limits.burst, group.max) {
        (Some(burst), None) if burst > 0 => Err(RefusedBurst::NoLimit(group.path.clone())),
        (Some(burst), Some(max)) if burst > max.quota => Err(RefusedBurst::AboveQuota(group.path.clone(), max.quota)),
        _ => Ok(()),
    }
}

/// Omits the trace's moves of tasks that a rule has put into a group.
fn stay(workload: &mut Workload, placed: &BTreeSet<usize>) {
    workload.changes.retain_mut(|change| {
        let Changed::Tasks { tasks, settings, nice } = &mut change.what else { return true };
        if settings.group.is_none() || !tasks.iter().all(|task| placed.contains(task)) {
            return true;
        }
        // What else becomes of them then is not in its way.
        settings.group = None;
        nice.is_some() || *settings != Settings::default()
    });
}

/// Puts all phases of a task into a group.
fn put(task: &mut Task, group: usize) {
    task.settings.group = Some(group);
    if task.phases.iter().any(|phase| phase.settings.group.is_some()) {
        let mut phases: Vec<Phase> = task.phases.to_vec();
        for phase in &mut phases {
            phase.settings.group = None;
        }
        task.phases = Arc::from(phases);
    }
}

/// Changes all phases of a task.
fn change(task: &mut Task, what: &What) {
    if what.nice.is_some() || what.policy.is_some() {
        // A task without a policy begins with the system's.
        task.settings.policy.get_or_insert(Policy::Other { nice: 0, slice: None });
    }
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

/// Frees tasks confined to CPUs beyond `cpus`; returns how many.
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

/// Removes CPUs beyond `cpus` from cpusets; returns from how many.
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

/// Omits changes to CPUs beyond `cpus`, or that would leave no CPU; returns how many.
pub(in super::super) fn keep_online(workload: &mut Workload, cpus: u32) -> usize {
    let before = workload.hotplug.len();
    let mut offline = BTreeSet::new();
    workload.hotplug.retain(|plug| {
        let is_last = offline.len() + 1 >= cpus as usize;
        plug.cpu < cpus && if plug.online { offline.remove(&plug.cpu) } else { !is_last && offline.insert(plug.cpu) }
    });
    before - workload.hotplug.len()
}

#[cfg(test)]
mod tests;

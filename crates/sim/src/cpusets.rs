//! Passes cpusets, and CPUs isolated at boot, to scheduler and observers.

use vruntime_sched::cpuset::CpusetView;
use vruntime_sched::ids::{CpuId, GroupId};
use vruntime_sched::{CpuMask, CpusetError, Partition, Policy, Scheduler};
use vruntime_trace::{CpusetInfo, Sink};
use vruntime_workload::program::{self, Changed, Workload};

use crate::config::MachineSpec;
use crate::error::{Error, Subject};
use crate::machine::{Machine, sched};
use crate::moment::Moment;

const NOTES: usize = 16;

/// The last reported cpusets.
#[derive(Debug, Default)]
pub(crate) struct ReportedCpusets {
    /// By the workload's group.
    groups: Vec<Option<CpusetView>>,
    roots: (Vec<CpuMask>, CpuMask),
    notes: usize,
}

/// Checks CPU lists and cpusets.
///
/// # Errors
///
/// If a CPU does not exist, all CPUs are isolated, or the root has a cpuset.
pub(crate) fn check(workload: &Workload, spec: &MachineSpec) -> Result<(), Error> {
    let nr_cpus = spec.topology.nr_cpus();
    let there = |subject: Subject, cpus: &[u32]| match cpus.iter().find(|&&cpu| cpu as usize >= nr_cpus) {
        Some(&cpu) => Err(Error::NoSuchCpu { subject, cpu, cpus: nr_cpus }),
        None => Ok(()),
    };
    there(Subject::Isolated, &spec.isolated.iter().map(|cpu| cpu.0).collect::<Vec<u32>>())?;
    if spec.isolated.count() == nr_cpus {
        return Err(Error::AllIsolated);
    }
    for (index, group) in workload.groups.iter().enumerate() {
        there(Subject::Group(group.path.clone()), group.cpuset.cpus.as_deref().unwrap_or_default())?;
        if index == 0 && group.cpuset != program::Cpuset::default() {
            return Err(Error::RootCpuset);
        }
    }
    for change in &workload.changes {
        if let Changed::Cpuset { group, cpus, .. } = &change.what {
            there(Subject::Change(change.at), cpus.as_deref().unwrap_or_default())?;
            match workload.groups.len() {
                _ if *group == 0 => return Err(Error::RootCpuset),
                count if *group >= count => {
                    let subject = Subject::Change(change.at);
                    return Err(Error::Dangling { subject, kind: "group", index: *group, count });
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn partition(kind: program::Partition) -> Partition {
    match kind {
        program::Partition::Member => Partition::Member,
        program::Partition::Root => Partition::Root,
        program::Partition::Isolated => Partition::Isolated,
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Creates the initial cpusets of groups.
    ///
    /// # Errors
    ///
    /// If a group with tasks has no CPUs.
    pub(crate) fn create_cpusets(&mut self) -> Result<(), Error> {
        let workload = self.workload;
        // All at once. One by one, thousands of partitions would rebuild root domains thousands of times.
        let files = workload.groups.iter().zip(&self.groups).skip(1).filter_map(|(group, &id)| {
            let cpus = group.cpuset.cpus.as_ref().map(|cpus| cpus.iter().copied().map(CpuId).collect::<CpuMask>());
            let kind = Some(group.cpuset.partition).filter(|kind| *kind != program::Partition::Member);
            (cpus.is_some() || kind.is_some()).then(|| (id, cpus, kind.map(partition)))
        });
        let files: Vec<_> = files.collect();
        // The CPUs have been checked.
        if let Err(error) = sched!(self, 0).create_cpusets(&files) {
            self.note_cpuset(format!("the cpusets are refused, as in Linux: {error}"));
        }
        self.tell_cpusets();
        let homeless = |task: &&program::Task| {
            let group = self.groups.get(task.settings.group.unwrap_or(0)).copied().unwrap_or(GroupId::ROOT);
            self.shared.cpus_effective(group).is_empty()
        };
        match workload.tasks.iter().find(homeless) {
            None => Ok(()),
            Some(task) => {
                let group = workload.groups[task.settings.group.unwrap_or(0)].path.clone();
                Err(Error::NoCpus { task: task.name.clone(), group })
            }
        }
    }

    /// Writes to a group's files, from `cpu`. Refusals become notes.
    pub(crate) fn write_cpuset(
        &mut self,
        cpu: usize,
        group: usize,
        cpus: Option<&[u32]>,
        kind: Option<program::Partition>,
    ) {
        let id = self.groups[group];
        let mut done = Ok(());
        if let Some(cpus) = cpus {
            let mask: CpuMask = cpus.iter().copied().map(CpuId).collect();
            done = sched!(self, cpu).set_group_cpus(id, Some(&mask));
        }
        if let Some(kind) = kind {
            done = done.and(sched!(self, cpu).set_group_partition(id, partition(kind)));
        }
        if let Err(error) = done {
            let path = &self.workload.groups[group].path;
            let now = self.core.now;
            let what =
                if matches!(error, CpusetError::Populated) { "emptying `cpus`" } else { "the change of the cpuset" };
            self.note_cpuset(format!("{what} of group `{path}` at {} is refused, as in Linux: {error}", Moment(now)));
        }
    }

    /// Notes that a task may not move to another group.
    #[cold]
    pub(crate) fn note_refused_move(&mut self, task: u32, error: &vruntime_sched::class::deadline::SchedError) {
        let (name, now) = (self.task_name(task), self.core.now);
        self.note_cpuset(format!("task `{name}` stays in its group at {}, as in Linux: {error}", Moment(now)));
    }

    fn note_cpuset(&mut self, note: String) {
        self.reported_cpusets.notes += 1;
        match self.reported_cpusets.notes {
            ..=NOTES => self.notes.push(note),
            more if more == NOTES + 1 => self.notes.push("… and more of cpusets".to_owned()),
            _ => {}
        }
    }

    /// Reports changed cpusets and root domains to observers and user.
    pub(crate) fn tell_cpusets(&mut self) {
        let now = self.core.now;
        let roots = self.shared.root_domains();
        let several = |roots: &(Vec<CpuMask>, CpuMask)| roots.0.len() > 1 || !roots.1.is_empty();
        if roots != self.reported_cpusets.roots && (several(&roots) || several(&self.reported_cpusets.roots)) {
            let domains = self.domains();
            self.core.sink.domains(now, &domains);
            self.core.sink.root_domains(now, &roots.0, &roots.1);
        }
        self.reported_cpusets.roots = roots;
        self.reported_cpusets.groups.resize(self.groups.len(), None);
        let mut notes = Vec::new();
        for (index, &id) in self.groups.iter().enumerate().skip(1) {
            let view = self.shared.cpuset(id);
            let reported = &mut self.reported_cpusets.groups[index];
            if view == *reported {
                continue;
            }
            if let Some(view) = &view {
                let partition = view.partition_text();
                let path = &self.workload.groups[index].path;
                self.core.sink.cpuset(now, id, &CpusetInfo { path, effective: &view.effective, partition: &partition });
                let was = reported.as_ref().and_then(|reported| reported.invalid);
                if view.invalid.is_some() && view.invalid != was {
                    notes.push(format!("group `{path}` is no partition from {} on: {partition}", Moment(now)));
                }
            }
            *reported = view;
        }
        for note in notes {
            self.note_cpuset(note);
        }
    }
}

//! What programs and groups can ask for. Without the behaviour, the simulator rejects the request.

mod support;

use support::*;
use vruntime_sched::kernels::Behaviour;
use vruntime_sim::Config;
use vruntime_workload::program::*;

/// The error of a workload under 6.12 without some behaviours, or an empty text. With all, 6.12 accepts it.
fn refused(work: &Workload, without: &[Behaviour]) -> String {
    let config = Config { duration: Some(10 * MS), ..exact("6.12", "2") };
    let asked = |config: &Config| simulate(work, config, &mut Log::default());
    asked(&config).unwrap();
    let mut lacking = config;
    for &one in without {
        lacking.kernel.force(one, false);
    }
    lacking.kernel.check().unwrap();
    asked(&lacking).map_or_else(|error| error.to_string(), |_| String::new())
}

/// One task, which is in the group if there is one.
fn with_group(group: Option<Group>) -> Workload {
    let mut work = workload(vec![once("t", vec![run(1_000)])]);
    work.groups = vec![Group::root()];
    if let Some(group) = group {
        work.groups.push(group);
        work.tasks[0].settings.group = Some(1);
    }
    work
}

fn grouped(change: impl FnOnce(&mut Group)) -> Workload {
    let mut this = group("/g", 100);
    change(&mut this);
    with_group(Some(this))
}

/// What needs groups.
const GROUPED: [Behaviour; 6] = [
    Behaviour::RtGroups,
    Behaviour::Autogroups,
    Behaviour::GroupLimits,
    Behaviour::LimitBursts,
    Behaviour::IdleGroups,
    Behaviour::GroupUtilClamps,
];

#[test]
fn groups_ask_for_task_groups() {
    let error = refused(&grouped(|_| ()), &[&GROUPED[..], &[Behaviour::TaskGroups]].concat());
    assert_eq!(error, "group `/g` asks for a task group, which Linux 6.12 lacks: 2.6.24 introduced it");
    // A group needs nothing else.
    assert_eq!(refused(&grouped(|_| ()), &GROUPED), "");
    assert_eq!(refused(&with_group(None), &[&GROUPED[..], &[Behaviour::TaskGroups]].concat()), "");
}

#[test]
fn runtimes_of_groups_ask_for_rt_groups() {
    let runtime = Some(RtRuntime::Limited(100 * MS));
    let work = grouped(|group| group.rt = Some(RtBandwidth { runtime, period: Some(1_000 * MS) }));
    let error = refused(&work, &[Behaviour::RtGroups]);
    assert_eq!(
        error,
        "group `/g` asks for real-time scheduling of groups, which Linux 6.12 lacks: 2.6.25 introduced it"
    );
}

#[test]
fn limits_ask_for_group_limits() {
    let limit = Bandwidth { quota: 10 * MS, period: 100 * MS, burst: 0 };
    let work = grouped(|group| group.max = Some(limit));
    let error = refused(&work, &[Behaviour::GroupLimits, Behaviour::LimitBursts]);
    assert_eq!(error, "group `/g` asks for a CPU limit (cpu.max), which Linux 6.12 lacks: 3.2 introduced it");
    assert_eq!(refused(&work, &[Behaviour::LimitBursts]), "");
    let work = grouped(|group| group.max = Some(Bandwidth { burst: 5 * MS, ..limit }));
    let error = refused(&work, &[Behaviour::LimitBursts]);
    assert_eq!(error, "group `/g` asks for a burst beyond a CPU limit, which Linux 6.12 lacks: 5.14 introduced it");
}

#[test]
fn partitions_ask_for_cpuset_partitions() {
    let work = |partition| grouped(|group| group.cpuset = Cpuset { cpus: Some(vec![1]), partition });
    let error = refused(&work(Partition::Root), &[Behaviour::CpusetPartitions]);
    assert_eq!(error, "group `/g` asks for a cpuset partition, which Linux 6.12 lacks: 5.0 introduced it");
    assert_eq!(refused(&work(Partition::Member), &[Behaviour::CpusetPartitions]), "");
}

#[test]
fn clamps_ask_for_those_of_tasks_or_groups() {
    let both = [Behaviour::GroupUtilClamps, Behaviour::UtilClamps];
    let mut of_task = with_group(None);
    of_task.tasks[0].settings.util_min = Some(500);
    let error = refused(&of_task, &both);
    assert_eq!(error, "task `t` asks for a utilisation clamp, which Linux 6.12 lacks: 5.3 introduced it");
    assert_eq!(refused(&of_task, &both[..1]), "");
    let of_group = grouped(|group| group.uclamp = Some(Clamps { min: 100, max: 1024 }));
    let what = "utilisation clamps (cpu.uclamp.min, cpu.uclamp.max)";
    let error = refused(&of_group, &both[..1]);
    assert_eq!(error, format!("group `/g` asks for {what}, which Linux 6.12 lacks: 5.4 introduced it"));
}

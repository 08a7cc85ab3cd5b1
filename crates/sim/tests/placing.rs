//! Placement of wakeups, forks and migrations: one rule of `fair.c` each.

use std::collections::BTreeMap;
use std::io;

use vruntime_sched::event::{Event, MigrateCause, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::kernel;
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology, run};
use vruntime_trace::{Sink, TaskInfo};
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario;

/// The CPUs of each task's turns, and of its wakeups on another CPU.
#[derive(Default)]
struct Places {
    names: BTreeMap<TaskId, String>,
    seen: BTreeMap<String, Vec<u32>>,
    woken: BTreeMap<String, Vec<u32>>,
}

impl Sink for Places {
    fn task(&mut self, task: TaskId, info: &TaskInfo<'_>) {
        self.names.insert(task, info.name.to_owned());
    }

    fn event(&mut self, _at: u64, cpu: CpuId, event: &Event) {
        match event {
            Event::Switch { next: Running::Task(task), .. } => {
                self.seen.entry(self.names[task].clone()).or_default().push(cpu.0);
            }
            Event::Migrate { task, to, cause: MigrateCause::Wakeup, .. } => {
                self.woken.entry(self.names[task].clone()).or_default().push(to.0);
            }
            _ => {}
        }
    }
}

/// Runs a scenario without costs.
fn run_it(kernel_name: &str, machine: &str, text: &str) -> Places {
    let none = |_: &std::path::Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let scenario = scenario::parse("t.toml", text.as_bytes(), &Options::default(), &mut { none }).unwrap();
    let mut spec = MachineSpec::new(parse_topology(machine).unwrap());
    spec.costs = Costs::profile("zero").unwrap();
    let config = Config { seed: 0, ..Config::new(kernel(kernel_name).unwrap(), spec) };
    let mut places = Places::default();
    run(&scenario.workload, &config, &mut places).unwrap();
    places
}

fn places(kernel_name: &str, machine: &str, text: &str) -> BTreeMap<String, Vec<u32>> {
    run_it(kernel_name, machine, text).seen
}

/// Two tasks on one thread of a core, one of which may move from 101 ms on.
const BESIDE: &str = r#"
duration = "500ms"
[[task]]
name = "hog"
run = "100s"
cpus = [0]
start = "100ms"
[[task]]
name = "b"
cpus = [0]
run = "3ms"
sleep = "3ms"
[[change]]
at = "101ms"
task = "b"
cpus = "0-7"
"#;

/// `select_idle_core`: a wakeup avoids the other thread of a busy core (CPU 1) while whole cores are idle. 4.8+: a
/// flag of the cache shows whether there are any; before, groups of CPUs were searched.
#[test]
fn a_wakeup_takes_a_core_that_is_idle_as_a_whole() {
    for kernel in ["3.10", "3.18", "6.1", "6.6", "6.12", "6.18", "7.1"] {
        let seen = places(kernel, "pack:1 l3:1 core:4 pu:2", BESIDE);
        let last = *seen["b"].last().unwrap();
        assert!(last >= 2, "{kernel}: b is on CPU {last}, beside the hog");
    }
}

#[test]
fn where_no_core_is_idle_as_a_whole_an_idle_thread_will_do() {
    let hogs = [2, 4, 6].map(|cpu| format!("[[task]]\nname = \"h{cpu}\"\nrun = \"100s\"\ncpus = [{cpu}]\n")).concat();
    for kernel in ["6.1", "6.6", "6.12", "6.18", "7.1"] {
        let seen = places(kernel, "pack:1 l3:1 core:4 pu:2", &format!("{BESIDE}{hogs}"));
        let last = *seen["b"].last().unwrap();
        assert!(last % 2 == 1, "{kernel}: b is on CPU {last}");
    }
}

/// `nohz_balancer_kick`: two threads of one core in one cache are busy, and the other CPUs' ticks are stopped. Only a
/// busy CPU's tick can start a balance.
#[test]
fn two_busy_threads_of_a_core_are_parted_where_there_is_one_cache() {
    let text = r#"
duration = "2s"
[[task]]
name = "a"
run = "100s"
cpus = [0]
[[task]]
name = "b"
run = "100s"
cpus = [1]
[[change]]
at = "500ms"
task = "a"
cpus = "0-7"
[[change]]
at = "500ms"
task = "b"
cpus = "0-7"
"#;
    for kernel in ["6.1", "6.6", "6.12", "6.18", "7.1"] {
        let seen = places(kernel, "pack:1 l3:1 core:4 pu:2", text);
        let core = |name: &str| seen[name].last().unwrap() / 2;
        assert_ne!(core("a"), core("b"), "{kernel}: {seen:?}");
    }
}

/// 6.7+: the target's cluster is searched before the rest of its cache.
#[test]
fn an_idle_cpu_of_the_same_cluster_is_preferred() {
    let text = r#"
duration = "500ms"
[[task]]
name = "worker"
cpus = [3]
steps = [{ wait_event = "q" }, { run = "1ms" }]
[[task]]
name = "master"
cpus = [3]
steps = [{ run = "500us" }, { wake_up_all = "q" }, { run = "2ms" }, { sleep = "8ms" }]
[[change]]
at = "105ms"
task = "worker"
cpus = "0-7"
[[task]]
name = "hog"
cpus = [0]
run = "100s"
"#;
    let first = |kernel: &str| run_it(kernel, "pack:1 l3:1 l2:2 core:4", text).woken["worker"][0];
    for kernel in ["6.8", "6.11", "6.12", "6.14", "6.17", "6.18", "7.1"] {
        assert_eq!(first(kernel), 1, "{kernel}");
    }
    // The search begins behind the target.
    for kernel in ["4.19", "5.4", "5.10", "5.15", "6.4", "6.6"] {
        assert_eq!(first(kernel), 4, "{kernel}");
    }
}

/// `find_idlest_group` compares loads per capacity. In one node a difference of 17 % suffices, for any group weight.
#[test]
fn a_forked_task_leaves_the_most_crowded_cpu_however_little_its_group_weighs() {
    let hogs: Vec<String> = (0..8)
        .map(|cpu| {
            let hogs = if cpu == 0 { 4 } else { 2 };
            format!("[[task]]\nname = \"h{cpu}\"\ngroup = \"/g\"\nrun = \"100s\"\ncpus = [{cpu}]\ninstance = {hogs}\n")
        })
        .collect();
    for kernel in ["6.1", "6.6", "6.12", "6.18", "7.1"] {
        for weight in [100, 1000] {
            let text = format!(
                "duration = \"2s\"\n[groups.\"/g\"]\nweight = {weight}\n{}\
                 [[task]]\nname = \"new\"\ngroup = \"/g\"\nrun = \"1ms\"\nloops = 1\nstart = \"1500ms\"\n",
                hogs.concat()
            );
            let seen = places(kernel, "pack:1 l3:1 core:8", &text);
            assert_ne!(seen["new"][0], 0, "{kernel}, weight {weight}");
        }
    }
}

/// `imb_numa_nr` is 4 of 32 CPUs.
#[test]
fn the_first_forked_tasks_stay_on_their_node() {
    let tasks: Vec<String> = (0..6)
        .map(|index| format!("[[task]]\nname = \"t{index}\"\nrun = \"100s\"\nstart = \"{}ms\"\n", 100 + 2 * index))
        .collect();
    for kernel in ["6.1", "6.6", "6.12", "6.18", "7.1"] {
        let seen = places(kernel, "node:2 core:32", &format!("duration = \"200ms\"\n{}", tasks.concat()));
        let nodes: Vec<u32> = (0..6).map(|index| seen[&format!("t{index}")][0] / 32).collect();
        assert_eq!(nodes[..3], [0, 0, 0], "{kernel}: {nodes:?}");
        assert!(nodes.contains(&1), "{kernel}: {nodes:?}");
    }
}

/// A SCHED_IDLE task wakes where another one runs, beside an idle CPU. Up to 7.0 a CPU with only such tasks counts as
/// idle.
#[test]
fn since_7_1_idle_tasks_take_no_cpu_for_idle_that_has_others_like_them() {
    let text = r#"
duration = "500ms"
[[task]]
name = "hog"
run = "100s"
policy = "SCHED_IDLE"
cpus = [0]
[[task]]
name = "b"
run = "1ms"
sleep = "5ms"
policy = "SCHED_IDLE"
cpus = [0]
[[change]]
at = "101ms"
task = "b"
cpus = "0-1"
"#;
    for (kernel, moves) in [("6.18", false), ("7.0", false), ("7.1", true)] {
        let woken = run_it(kernel, "pack:1 l3:1 core:2", text).woken;
        assert_eq!(woken.contains_key("b"), moves, "{kernel}: {woken:?}");
    }
}

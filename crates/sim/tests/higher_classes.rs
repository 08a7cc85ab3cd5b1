//! Placement of real-time and deadline tasks, and of tasks whose affinities change: one rule of `rt.c`, `deadline.c`
//! or `core.c` each.

use std::collections::BTreeMap;
use std::io;

use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::kernel;
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology, run};
use vruntime_trace::{Sink, TaskInfo};
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario;

const US: u64 = 1_000;

/// Each task's turns and migrations: time, microseconds, and CPU.
#[derive(Default)]
struct Story {
    names: BTreeMap<TaskId, String>,
    began: BTreeMap<String, Vec<(u64, u32)>>,
    went: BTreeMap<String, Vec<(u64, u32)>>,
}

impl Sink for Story {
    fn task(&mut self, task: TaskId, info: &TaskInfo<'_>) {
        self.names.insert(task, info.name.to_owned());
    }

    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        match event {
            Event::Switch { next: Running::Task(task), .. } => {
                self.began.entry(self.names[task].clone()).or_default().push((at / US, cpu.0));
            }
            Event::Migrate { task, to, .. } => {
                self.went.entry(self.names[task].clone()).or_default().push((at / US, to.0));
            }
            _ => {}
        }
    }
}

impl Story {
    /// Returns a task's first turn from `after` on.
    fn first(&self, name: &str, after: u64) -> (u64, u32) {
        *self.began[name].iter().find(|(at, _)| *at >= after).unwrap()
    }

    fn migrations(&self, name: &str) -> usize {
        self.went.get(name).map_or(0, Vec::len)
    }
}

/// Runs a scenario without costs. `throttles`: real-time tasks have at most 950 ms of each second.
fn tell(kernel_name: &str, machine: &str, throttles: bool, text: &str) -> Story {
    let none = |_: &std::path::Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let scenario = scenario::parse("t.toml", text.as_bytes(), &Options::default(), &mut { none }).unwrap();
    let mut spec = MachineSpec::new(parse_topology(machine).unwrap());
    spec.costs = Costs::profile("zero").unwrap();
    let mut config = Config { seed: 0, ..Config::new(kernel(kernel_name).unwrap(), spec) };
    if !throttles {
        config.kernel.set("sched_rt_runtime_us", u64::MAX).unwrap();
    }
    let mut story = Story::default();
    run(&scenario.workload, &config, &mut story).unwrap();
    story
}

/// `pull_rt_task` leaves a task more urgent than the running or idle one: it was woken just before.
#[test]
fn no_task_is_pulled_from_an_idle_cpu() {
    let text = r#"
duration = "1s"
[[task]]
name = "producer"
policy = "SCHED_FIFO"
priority = 20
steps = [{ run = "200us" }, { wake_up = "q" }, { sleep = "2ms" }]
[[task]]
name = "consumer"
policy = "SCHED_FIFO"
priority = 10
steps = [{ wait_event = "q" }, { run = "500us" }]
"#;
    for kernel in ["6.1", "6.6", "6.12", "6.18", "7.1"] {
        let story = tell(kernel, "4", false, text);
        assert!(story.migrations("consumer") <= 1, "{kernel}: {}", story.migrations("consumer"));
    }
}

#[test]
fn no_task_is_pulled_from_a_throttled_cpu() {
    let text = r#"
duration = "1100ms"
[[task]]
name = "a"
instance = 2
cpus = [0]
policy = "SCHED_FIFO"
priority = 10
run = "2s"
[[task]]
name = "c"
cpus = [1]
start = "500ms"
policy = "SCHED_FIFO"
priority = 50
run = "460ms"
sleep = "5s"
[[change]]
at = "955ms"
task = "a"
cpus = "0-1"
"#;
    let story = tell("6.1", "2", true, text);
    let went = story.began.iter().filter(|(name, _)| name.starts_with('a')).flat_map(|(_, began)| began);
    assert_eq!(went.filter(|(_, cpu)| *cpu == 1).min(), Some(&(1_000_000, 1)), "{:?}", story.began);
}

/// `put_prev_task_balance`: classes from the previous task's down are tried until one has a task.
#[test]
fn no_real_time_task_is_pulled_where_a_deadline_task_is_next() {
    let text = r#"
duration = "100ms"
[[task]]
name = "dl-a"
cpus = [0]
policy = "SCHED_DEADLINE"
runtime = "10ms"
deadline = "20ms"
period = "200ms"
run = "5ms"
sleep = "1s"
[[task]]
name = "dl-b"
cpus = [0]
policy = "SCHED_DEADLINE"
runtime = "60ms"
deadline = "100ms"
period = "200ms"
run = "50ms"
sleep = "1s"
[[task]]
name = "high"
cpus = [1]
policy = "SCHED_FIFO"
priority = 90
run = "10ms"
sleep = "1s"
[[task]]
name = "low"
cpus = [1]
start = "1ms"
policy = "SCHED_FIFO"
priority = 10
run = "3ms"
sleep = "1s"
[[change]]
at = "2ms"
task = "low"
cpus = "0-1"
"#;
    for kernel in ["6.1", "6.12"] {
        let story = tell(kernel, "2", false, text);
        assert_eq!((story.first("low", 0), story.migrations("low")), ((10_000, 1), 0), "{kernel}");
    }
}

/// `cpudl_find`: if all allowed CPUs have deadline tasks, other free CPUs do not count.
#[test]
fn a_deadline_task_that_may_not_use_a_free_cpu_moves_to_one_with_a_later_deadline() {
    let text = r#"
duration = "60ms"
[[task]]
name = "late"
cpus = [1]
policy = "SCHED_DEADLINE"
runtime = "40ms"
deadline = "100ms"
period = "100ms"
run = "40ms"
sleep = "1s"
[[task]]
name = "early"
cpus = [0]
start = "1ms"
policy = "SCHED_DEADLINE"
runtime = "20ms"
deadline = "30ms"
period = "100ms"
run = "20ms"
sleep = "1s"
[[task]]
name = "mid"
cpus = [0, 1]
start = "2ms"
policy = "SCHED_DEADLINE"
runtime = "10ms"
deadline = "40ms"
period = "100ms"
run = "10ms"
sleep = "1s"
"#;
    for kernel in ["6.1", "6.12"] {
        assert_eq!(tell(kernel, "4", false, text).first("mid", 0), (2_000, 1), "{kernel}");
    }
}

/// `task_woken_rt` runs on the waking CPU, which it prefers among equally near ones.
#[test]
fn a_task_pushed_at_a_wakeup_moves_to_the_waker() {
    let text = r#"
duration = "60ms"
[[task]]
name = "rt"
policy = "SCHED_FIFO"
priority = 20
cpus = [1]
steps = [{ wait_event = "go" }, { run = "3ms" }]
[[task]]
name = "waker"
cpus = [3]
loops = 1
start = "5ms"
steps = [{ run = "5ms" }, { wake_up = "go" }, { run = "30ms" }]
[[task]]
name = "dl"
cpus = [1]
start = "6ms"
policy = "SCHED_DEADLINE"
runtime = "50ms"
period = "100ms"
run = "40ms"
sleep = "1s"
[[change]]
at = "3ms"
task = "rt"
cpus = "0-3"
"#;
    assert_eq!(tell("6.12", "4", false, text).first("rt", 5_000), (10_000, 3));
}

/// `task_woken_dl`.
#[test]
fn a_deadline_task_pushed_at_a_wakeup_moves_to_the_waker() {
    let text = r#"
duration = "300ms"
[[task]]
name = "w"
policy = "SCHED_DEADLINE"
runtime = "5ms"
period = "100ms"
steps = [{ wait_event = "go" }, { run = "3ms" }]
[[task]]
name = "waker"
cpus = [3]
loops = 1
start = "205ms"
steps = [{ run = "5ms" }, { wake_up = "go" }, { run = "30ms" }]
[[task]]
name = "long"
start = "206ms"
policy = "SCHED_DEADLINE"
runtime = "30ms"
period = "60ms"
run = "20ms"
sleep = "1s"
"#;
    for kernel in ["6.1", "6.12"] {
        assert_eq!(tell(kernel, "4", true, text).first("w", 205_000), (210_000, 3), "{kernel}");
    }
}

/// `switched_from_rt`: the CPU of a task that leaves the class pulls no task while other real-time tasks wait there.
#[test]
fn a_task_that_leaves_the_class_makes_room_for_a_waiting_one() {
    let text = r#"
duration = "60ms"
[[task]]
name = "a"
cpus = [0]
policy = "SCHED_FIFO"
priority = 90
run = "20ms"
sleep = "1s"
[[task]]
name = "b"
cpus = [0]
policy = "SCHED_FIFO"
priority = 10
run = "10ms"
sleep = "1s"
[[task]]
name = "c"
cpus = [1]
policy = "SCHED_FIFO"
priority = 80
run = "12ms"
sleep = "1s"
[[task]]
name = "d"
cpus = [1]
policy = "SCHED_FIFO"
priority = 50
run = "5ms"
sleep = "1s"
[[change]]
at = "2ms"
task = "d"
cpus = "0-1"
[[change]]
at = "5ms"
task = "a"
policy = "SCHED_OTHER"
"#;
    for kernel in ["6.1", "6.12"] {
        let story = tell(kernel, "2", false, text);
        assert_eq!((story.first("b", 0), story.first("d", 0)), ((5_000, 0), (12_000, 1)), "{kernel}");
    }
}

/// `__set_cpus_allowed_ptr`: tasks moved away together spread (5.7+; before, to the first CPU).
#[test]
fn tasks_whose_cpus_change_are_spread() {
    let text = r#"
duration = "101ms"
[[task]]
name = "hog"
instance = 4
cpus = "0-3"
run = "10ms"
[[change]]
at = "100ms"
task = "hog"
cpus = "4-7"
"#;
    for (kernel, spread) in [("3.18", false), ("6.1", true), ("6.12", true)] {
        let story = tell(kernel, "8", false, text);
        let mut went: Vec<u32> =
            story.went.values().flatten().filter(|(at, _)| *at == 100_000).map(|(_, to)| *to).collect();
        assert_eq!(went.len(), 4, "{kernel}");
        went.sort_unstable();
        went.dedup();
        assert_eq!(went, if spread { vec![4, 5, 6, 7] } else { vec![4] }, "{kernel}");
    }
}

#[test]
fn real_time_tasks_whose_cpus_change_are_spread() {
    let text = r#"
duration = "100ms"
[[task]]
name = "busy"
cpus = [1]
policy = "SCHED_FIFO"
priority = 90
run = "50ms"
sleep = "1s"
[[task]]
name = "w"
instance = 3
cpus = [0]
policy = "SCHED_FIFO"
priority = 10
run = "20ms"
sleep = "1s"
[[change]]
at = "5ms"
task = "w"
cpus = "1-3"
"#;
    for kernel in ["6.1", "6.12"] {
        let story = tell(kernel, "4", false, text);
        let names = story.began.keys().filter(|name| name.starts_with('w'));
        let mut began: Vec<u64> = names.map(|name| story.first(name, 5_000).0).collect();
        began.sort_unstable();
        // Two at once; the third waits for one of them (which has run for 5 ms already, or for the whole 20).
        assert_eq!(began[..2], [5_000, 5_000], "{kernel}: {began:?}");
        assert!(began[2] <= 25_000, "{kernel}: {began:?}");
    }
}

/// `select_fallback_rq` prefers the node.
#[test]
fn a_task_that_may_not_wake_on_its_previous_cpu_stays_on_the_node() {
    let text = r#"
duration = "100ms"
[[task]]
name = "filler"
cpus = [5]
run = "10ms"
[[task]]
name = "busy-4"
cpus = [4]
start = "1ms"
run = "100ms"
[[task]]
name = "busy-0"
cpus = [0]
start = "1ms"
run = "100ms"
[[task]]
name = "t"
cpus = [4]
run = "100us"
sleep = "20ms"
[[change]]
at = "10ms"
task = "t"
cpus = "0,5"
"#;
    for kernel in ["6.1", "6.12"] {
        let story = tell(kernel, "node:2 core:4", false, text);
        let wakes = &story.began["t"];
        assert!(wakes.iter().filter(|(at, _)| *at >= 15_000).all(|(_, cpu)| *cpu == 5), "{kernel}: {wakes:?}");
    }
}

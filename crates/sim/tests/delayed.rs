//! Tasks that sleep, or yield, while they owe time, in 6.12 and 6.18.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use vruntime_sched::event::{Event, MigrateCause, PrevState, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::kernel;
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology, run};
use vruntime_trace::{Sink, TaskInfo};
use vruntime_workload::rtapp::Options;
use vruntime_workload::scenario;

/// The sleepers; moves of delayed sleepers, of these by the stopper, and wakeups where they had been moved.
#[derive(Default)]
struct Sleepers {
    names: BTreeMap<TaskId, String>,
    asleep: BTreeSet<TaskId>,
    taken: BTreeMap<TaskId, CpuId>,
    moved: u32,
    pushed: u32,
    found: u32,
    ran: BTreeMap<String, u64>,
    since: BTreeMap<CpuId, u64>,
}

impl Sink for Sleepers {
    fn task(&mut self, task: TaskId, info: &TaskInfo<'_>) {
        self.names.insert(task, info.name.to_owned());
    }

    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        match event {
            Event::Switch { prev, prev_state, .. } => {
                let since = self.since.insert(cpu, at).unwrap_or(0);
                if let Running::Task(task) = prev {
                    *self.ran.entry(self.names[task].clone()).or_default() += at - since;
                    if matches!(prev_state, PrevState::Sleeping | PrevState::Blocked) {
                        self.asleep.insert(*task);
                    }
                }
            }
            Event::Migrate { task, to, cause, .. } if self.asleep.contains(task) => {
                if *cause == MigrateCause::Wakeup {
                    self.taken.remove(task);
                } else {
                    self.moved += 1;
                    self.pushed += u32::from(*cause == MigrateCause::Active);
                    self.taken.insert(*task, *to);
                }
            }
            Event::Wakeup { task, target } => {
                self.asleep.remove(task);
                self.found += u32::from(self.taken.remove(task) == Some(*target));
            }
            _ => {}
        }
    }
}

fn sleepers(kernel_name: &str, machine: &str, text: &str) -> Sleepers {
    let none = |_: &std::path::Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let scenario = scenario::parse("t.toml", text.as_bytes(), &Options::default(), &mut { none }).unwrap();
    let mut spec = MachineSpec::new(parse_topology(machine).unwrap());
    spec.costs = Costs::profile("zero").unwrap();
    let config = Config { seed: 3, duration: Some(4_000_000_000), ..Config::new(kernel(kernel_name).unwrap(), spec) };
    let mut seen = Sleepers::default();
    run(&scenario.workload, &config, &mut seen).unwrap();
    seen
}

/// Tasks that keep four CPUs just busy, so that some CPU often runs out of work.
const CROWD: &str = r#"
[[task]]
name = "short"
instance = 6
steps = [{ run = "2ms" }, { sleep = "1500us" }]
[[task]]
name = "long"
instance = 1
steps = [{ run = "7ms" }, { sleep = "3ms" }]
"#;

/// 6.12 moves such sleepers like waiting tasks, and they sleep on. 6.14+: only to move load, or by the stopper. Before
/// 6.12 sleepers are on no queue.
#[test]
fn a_sleeper_with_a_delayed_dequeue_is_moved_asleep() {
    let seen = |kernel| {
        let seen = sleepers(kernel, "4", CROWD);
        (seen.moved - seen.pushed, seen.found, seen.pushed)
    };
    assert_eq!([seen("6.1"), seen("6.6")], [(0, 0, 0); 2]);
    let ((moved, found, _), (later, _, pushed)) = (seen("6.12"), seen("6.18"));
    assert!(moved > 200 && found > 150, "{moved} {found}");
    // CPUs that become idle here pull tasks, not load.
    assert!(later == 0 && pushed > 0, "{later} {pushed}");
}

/// 6.12+: a task that yields while it is owed time loses the rest of its request; in 6.6 it only moves behind earlier
/// deadlines.
#[test]
fn a_yield_costs_the_rest_of_a_request() {
    let text = r#"
[[task]]
name = "polite"
steps = [{ run = "100us" }, { yield = true }]
[[task]]
name = "hog"
steps = [{ run = "10ms" }]
"#;
    let share = |kernel| {
        let seen = sleepers(kernel, "1", text);
        seen.ran["polite"] * 100 / (seen.ran["polite"] + seen.ran["hog"])
    };
    assert!(share("6.6") > 45, "{}", share("6.6"));
    for kernel in ["6.12", "6.18"] {
        assert!(share(kernel) < 20, "{kernel}: {}", share(kernel));
    }
}

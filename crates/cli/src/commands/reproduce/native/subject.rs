//! Subjects of measurements: a benchmark under a kernel, at a depth of groups. A [`Side`] is a subject with its script.
//! A script has the calls of the scheduler in a simulation.

use miette::miette;
use vruntime_sim::{Config, MachineSpec, parse_topology};
use vruntime_workload::model;
use vruntime_workload::program::{Group, Workload};

use super::{Script, Side, at_constants, script};

/// Simulated time allowed for each call of the scheduler, nanoseconds. It bounds the length of the run.
const CALL_NS: u64 = 20_000;

/// A benchmark under a kernel on one CPU at HZ=250.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Subject {
    pub(crate) kernel: String,
    pub(crate) command: String,
    /// Levels of groups above the tasks.
    pub(crate) depth: usize,
    /// Whether tunables are compiled in as constants.
    pub(crate) constant: bool,
    /// Whether the scheduler counts switches by group.
    pub(crate) counts: bool,
}

impl Subject {
    pub(crate) fn new(kernel: &str, command: &str) -> Self {
        Self { kernel: kernel.to_owned(), command: command.to_owned(), depth: 0, constant: false, counts: false }
    }

    /// Returns the script, with at most `max_calls` calls. Sides with equal benchmark, kernel and depth have equal
    /// scripts.
    pub(crate) fn script(&self, max_calls: usize) -> miette::Result<Script> {
        let kernel = vruntime_sched::kernel(&self.kernel).map_err(|error| miette!("{error}"))?;
        let topology = parse_topology("1").map_err(|error| miette!("{}", error.message))?;
        let mut config = Config::new(at_constants(kernel), MachineSpec::new(topology));
        config.duration = Some(max_calls as u64 * CALL_NS);
        script(&self.workload()?, &config, max_calls)
    }

    pub(crate) fn workload(&self) -> miette::Result<Workload> {
        let workload = model::parse(&self.command).map_err(|error| miette!("{error}"))?;
        Ok(nested(workload, self.depth))
    }

    pub(crate) fn side<'a>(&self, script: &'a Script) -> Side<'a> {
        Side { script, constant: self.constant, counts: self.counts }
    }
}

/// Adds a chain of `depth` groups below the workload's last group, and moves all tasks into the deepest.
pub(crate) fn nested(mut workload: Workload, depth: usize) -> Workload {
    for level in 1..=depth {
        let parent = workload.groups.len() - 1;
        let above = workload.groups[parent].path.trim_end_matches('/').to_owned();
        workload.groups.push(Group {
            path: format!("{above}/{level}"),
            parent: Some(parent),
            weight: 100,
            ..Group::default()
        });
    }
    if depth > 0 {
        let deepest = workload.groups.len() - 1;
        for task in &mut workload.tasks {
            task.settings.group = Some(deepest);
        }
    }
    workload
}

#[cfg(test)]
mod tests {
    use super::super::Turnable;
    use super::super::player::Player;
    use super::super::script::Call;
    use super::*;
    use vruntime_sched::class::fair::{Cfs, Eevdf};
    use vruntime_sched::event::Running;
    use vruntime_sched::tunables::{Knobs, Tunables};

    const CALLS: usize = 30_000;

    #[test]
    fn what_is_written_is_read() {
        let subject = Subject { depth: 3, ..Subject::new("3.10", "lat_ctx -s 0 2") };
        let script = subject.script(1000).unwrap();
        let read = Script::read(&script.write().unwrap()).unwrap();
        assert_eq!((read.kernel.name, read.hz, read.switches), (script.kernel.name, script.hz, script.switches));
        assert_eq!((read.groups, read.tasks, read.steps), (script.groups, script.tasks, script.steps));
        assert!(Script::read(b"[]").is_err());
    }

    /// `script` plays each script once, with tunables in memory, and fails if a decision is not the recorded one.
    #[test]
    fn every_benchmark_can_be_played() {
        for kernel in ["2.6.22", "2.6.23", "3.10", "6.12"] {
            for command in ["lat_ctx -s 0 2", "lat_ctx -s 0 50", "pipe-test", "hackbench -pipe 1 process 4000"] {
                if command.starts_with("hackbench") && kernel != "3.10" {
                    // hackbench hardly switches under other kernels, so `reproduce` does not measure it there.
                    continue;
                }
                for depth in if kernel.starts_with('2') { vec![0] } else { vec![0, 3] } {
                    let subject = Subject { depth, ..Subject::new(kernel, command) };
                    let script = subject.script(CALLS).unwrap_or_else(|error| panic!("{subject:?}: {error}"));
                    assert!(script.steps.len() > CALLS / 2, "{subject:?}: {}", script.steps.len());
                    assert!(script.switches > CALLS as u64 / 10, "{subject:?}: {}", script.switches);
                }
            }
        }
    }

    #[test]
    fn constants_equal_the_knobs() {
        for kernel in ["6.12", "2.6.23"] {
            let kernel = at_constants(vruntime_sched::kernel(kernel).unwrap());
            let (knobs, constant) = (kernel.tunables(1, 250), super::super::Constant);
            // Lists every field, so that a new tunable without a constant does not compile.
            let constants = Knobs {
                base_slice_ns: constant.base_slice_ns(),
                latency_ns: constant.latency_ns(),
                wakeup_granularity_ns: constant.wakeup_granularity_ns(),
                idle_min_granularity_ns: constant.idle_min_granularity_ns(),
                migration_cost_ns: constant.migration_cost_ns(),
                nr_migrate: constant.nr_migrate(),
                tick_ns: constant.tick_ns(),
                rr_timeslice_ns: constant.rr_timeslice_ns(),
                rt_period_ns: constant.rt_period_ns(),
                rt_runtime_ns: constant.rt_runtime_ns(),
                deadline: constant.deadline(),
                cfs_bandwidth_slice_ns: constant.cfs_bandwidth_slice_ns(),
                cfs_2007: constant.cfs_2007(),
                uclamp: constant.uclamp(),
                cpu_rc: constant.cpu_rc(),
                energy_aware: constant.energy_aware(),
            };
            let expected = if kernel.name == "2.6.23" {
                // On one CPU the migration cost has no effect, and 2.6.23 has no base slice.
                let (base_slice_ns, migration_cost_ns) = (knobs.base_slice_ns, knobs.migration_cost_ns);
                Knobs { base_slice_ns, migration_cost_ns, ..constants }
            } else {
                Knobs { cfs_2007: knobs.cfs_2007, ..constants }
            };
            assert_eq!(knobs, expected, "{}", kernel.name);
        }
    }

    /// A player counts a switch in each group from the task's up to the root.
    #[test]
    fn a_player_counts_the_switches_of_its_script() {
        fn counted<P: vruntime_sched::Policy>(kernel: &str, tunables: fn(Knobs) -> P::Tunables) {
            let subject = Subject { depth: 3, ..Subject::new(kernel, "lat_ctx -s 0 20") };
            let script = subject.script(CALLS).unwrap();
            let mut player = Player::<P>::new(&script, tunables(script.kernel.tunables(1, script.hz)), true);
            player.play(&script.steps);
            let mut running = Running::Idle;
            let mut switches = 0;
            for step in &script.steps {
                if let Call::Schedule(_, next) = step.call {
                    switches += u64::from(std::mem::replace(&mut running, next) != Running::Idle);
                }
            }
            assert_eq!(player.group_switches(), vec![switches; 4], "{kernel}");
        }
        counted::<Cfs>("3.10", |knobs| knobs);
        counted::<Eevdf<Turnable>>("6.12", Turnable);
    }
}

//! Shared code of the tests of old kernels.

use std::collections::BTreeMap;

use vruntime_sched::event::{Event, Running};
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sim::Config;
use vruntime_trace::Sink;
use vruntime_workload::program::*;

use super::*;

pub fn with_policy(mut task: Task, policy: Policy) -> Task {
    task.settings.policy = Some(policy);
    task
}

pub fn nice(task: Task, nice: i8) -> Task {
    with_policy(task, Policy::Other { nice, slice: None })
}

pub fn forever(name: &str, ops: Vec<Op>) -> Task {
    task(name, vec![phase(ops, Repeat::Forever)])
}

pub fn hog(name: &str) -> Task {
    forever(name, vec![Op::Run { work: MS }])
}

pub fn for_ms(kernel: &str, machine: &str, hz: u32, ms: u64) -> Config {
    let mut config = Config { duration: Some(ms * MS), ..exact(kernel, machine) };
    config.machine.hz = hz;
    config
}

/// Each task's turns: from, to, CPU.
#[derive(Default)]
pub struct Turns {
    running: BTreeMap<u32, (u64, TaskId)>,
    pub of: BTreeMap<TaskId, Vec<(u64, u64, u32)>>,
}

impl Sink for Turns {
    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        let Event::Switch { next, .. } = *event else { return };
        if let Some((since, task)) = self.running.remove(&cpu.0) {
            self.of.entry(task).or_default().push((since, at, cpu.0));
        }
        if let Running::Task(task) = next {
            self.running.insert(cpu.0, (at, task));
        }
    }
    fn finish(&mut self, at: u64) {
        for (cpu, (since, task)) in std::mem::take(&mut self.running) {
            self.of.entry(task).or_default().push((since, at, cpu));
        }
    }
}

impl Turns {
    pub fn cpu_time(&self, task: u32, from: u64) -> u64 {
        let turns = self.of.get(&TaskId(task)).into_iter().flatten();
        turns.map(|&(since, to, _)| to.saturating_sub(since.max(from))).sum()
    }

    /// The longest time off the CPU, after `from`.
    pub fn longest_wait(&self, task: u32, from: u64) -> u64 {
        let turns = &self.of[&TaskId(task)];
        turns.windows(2).filter(|pair| pair[0].1 >= from).map(|pair| pair[1].0 - pair[0].1).max().unwrap_or(0)
    }

    pub fn lengths(&self, task: u32) -> Vec<u64> {
        self.of[&TaskId(task)].iter().map(|&(from, to, _)| to - from).collect()
    }
}

pub fn turns(workload: &Workload, config: &Config) -> Turns {
    let mut sinks = (Turns::default(), Ledger::default());
    let outcome = simulate(workload, config, &mut sinks).unwrap();
    sinks.1.check(&outcome);
    sinks.0
}

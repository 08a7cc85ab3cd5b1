//! Background work of a machine: threads of the kernel beside the workload.
//!
//! On each CPU a thread works once a second, like `vmstat_update` on a kworker: any CPU's least activity. It preempts a
//! lone task, and keeps loads uneven, so that balancing continues. It wakes at whole seconds, three ticks after the
//! previous CPU's (`round_jiffies`).
//!
//! Measured residents ([`MachineSpec::residents`]) replace it. Each wakes at a steady rate from a random moment on, and
//! works for its average time. Their unevenness is not simulated.
//!
//! `rcu_preempt` also runs if the workload forks: see [`crate::rcu`].

use std::borrow::Cow;
use std::sync::Arc;

use vruntime_workload::program::{Before, Op, Phase, Policy, Repeat, Settings, Task, Timer, TimerMode, Workload};
use vruntime_workload::resident::Resident;

use crate::config::MachineSpec;
use crate::cpu::NEVER;
use crate::rng::Rng;

const PERIOD_NS: u64 = 1_000_000_000;
/// Ticks after the previous CPU's wakeup.
const SKEW_TICKS: u64 = 3;

pub(crate) const RCU: &str = "rcu_preempt";

const RESIDENT: &str = "background";

/// Appends a machine's background to the workload's tasks. Without any, returns the workload itself.
pub(crate) fn with_residents<'a>(
    workload: &'a Workload,
    cpus: usize,
    spec: &MachineSpec,
    seed: u64,
) -> Cow<'a, Workload> {
    let forks = workload.tasks.iter().flat_map(|task| task.phases.iter()).any(|phase| phase.ops.iter().any(is_fork));
    let rcu = forks && spec.costs.rcu_ns > 0;
    if spec.costs.kworker_ns == 0 && !rcu && spec.residents.is_none() {
        return Cow::Borrowed(workload);
    }
    let mut all = workload.clone();
    let mut rng = Rng::new(seed ^ 0xbb67_ae85_84ca_a73b);
    if let Some(residents) = &spec.residents {
        for resident in residents.iter().filter(|resident| !(rcu && resident.name == RCU)) {
            add_resident(resident, cpus, &mut all, &mut rng);
        }
    } else if spec.costs.kworker_ns > 0 {
        let tick_ns = PERIOD_NS / u64::from(spec.hz.max(1));
        let first = rng.below(PERIOD_NS);
        for cpu in 0..cpus as u64 {
            let skew = cpu * SKEW_TICKS * tick_ns % PERIOD_NS;
            let start = (first + PERIOD_NS - skew) % PERIOD_NS;
            let worker = thread(format!("kworker/{cpu}:0"), "kworker", Vec::new());
            let settings = Settings { cpus: Some(vec![cpu as u32]), ..worker.settings };
            add_periodic(Task { settings, ..worker }, start, PERIOD_NS, spec.costs.kworker_ns, &mut all);
        }
    }
    if rcu {
        let ops = vec![Op::Run { work: spec.costs.rcu_ns }, Op::Device { time: NEVER }];
        let before = Some(Before::Asleep(rng.below(cpus as u64) as u32));
        all.tasks.push(Task { before, ..thread(RCU.to_owned(), RCU, ops) });
    }
    Cow::Owned(all)
}

fn add_resident(resident: &Resident, cpus: usize, all: &mut Workload, rng: &mut Rng) {
    let here = |cpus_of: &Vec<u32>| cpus_of.iter().copied().filter(|&cpu| (cpu as usize) < cpus).collect::<Vec<_>>();
    let own = resident.cpus.as_ref().map(here);
    let choices = own.clone().unwrap_or_else(|| (0..cpus as u32).collect());
    if choices.is_empty() || resident.work == 0 {
        return;
    }
    let period = resident.period.max(1);
    let start = rng.below(period);
    let before = Some(Before::Asleep(choices[rng.below(choices.len() as u64) as usize]));
    let task = thread(resident.name.clone(), RESIDENT, Vec::new());
    let settings = Settings { policy: Some(resident.policy), cpus: own, ..task.settings };
    add_periodic(Task { settings, before, ..task }, start, period, resident.work, all);
}

fn add_periodic(task: Task, start: u64, period: u64, work: u64, all: &mut Workload) {
    let timer = all.timers.len();
    all.timers.push(Timer { name: task.name.clone(), start: Some(start) });
    let beat = Op::Timer { timer, period, mode: TimerMode::Relative };
    let ops = vec![Op::Run { work }, beat];
    let phases = Arc::from([Phase { ops, ..task.phases[0].clone() }]);
    all.tasks.push(Task { start: Some(start), phases, ..task });
}

fn is_fork(op: &Op) -> bool {
    matches!(op, Op::Fork(_))
}

fn thread(name: String, class: &str, ops: Vec<Op>) -> Task {
    let policy = Some(Policy::Other { nice: 0, slice: None });
    Task {
        class: class.to_owned(),
        start: Some(NEVER),
        process: None,
        settings: Settings { policy, ..Settings::default() },
        repeat: Repeat::Forever,
        ..Task::new(name, [Phase::forever(ops)])
    }
}

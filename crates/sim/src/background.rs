//! What a machine does besides its workload: threads of the kernel.
//!
//! A thread on each CPU works once a second. On a real kernel that is `vmstat_update` on a kworker, with a few others: the least activity
//! any CPU has. A task that has a CPU for itself is preempted by it about once a second, and loads are never so even that balancing stands
//! still. It keeps to whole seconds, three ticks apart from CPU to CPU (`round_jiffies`), whenever it gets its turn.
//!
//! And `rcu_preempt`, if the workload forks: see [`crate::rcu`].

use std::borrow::Cow;
use std::sync::Arc;

use vruntime_workload::program::{Op, Phase, Policy, Repeat, Settings, Task, Timer, TimerMode, Workload};

use crate::costs::Costs;
use crate::cpu::NEVER;
use crate::rng::Rng;

/// Between two wakeups of a CPU's kernel thread.
const PERIOD_NS: u64 = 1_000_000_000;
/// So many ticks before that of the CPU before.
const SKEW_TICKS: u64 = 3;

/// Class and name of the thread of grace periods.
pub(crate) const RCU: &str = "rcu_preempt";

/// The workload with the kernel threads of a machine of `cpus` CPUs, after the workload's own tasks. As it is if they cost nothing.
pub(crate) fn with_kernel_threads<'a>(
    workload: &'a Workload,
    cpus: usize,
    costs: &Costs,
    hz: u32,
    seed: u64,
) -> Cow<'a, Workload> {
    let forks = workload.tasks.iter().flat_map(|task| task.phases.iter()).any(|phase| phase.ops.iter().any(is_fork));
    let rcu = forks && costs.rcu_ns > 0;
    if costs.kworker_ns == 0 && !rcu {
        return Cow::Borrowed(workload);
    }
    let mut all = workload.clone();
    let tick_ns = PERIOD_NS / u64::from(hz.max(1));
    let mut rng = Rng::new(seed ^ 0xbb67_ae85_84ca_a73b);
    if costs.kworker_ns > 0 {
        let first = rng.below(PERIOD_NS);
        for cpu in 0..cpus as u64 {
            let skew = cpu * SKEW_TICKS * tick_ns % PERIOD_NS;
            let timer = all.timers.len();
            let start = (first + PERIOD_NS - skew) % PERIOD_NS;
            let name = format!("kworker/{cpu}:0");
            all.timers.push(Timer { name: name.clone(), start: Some(start) });
            let beat = Op::Timer { timer, period: PERIOD_NS, mode: TimerMode::Relative };
            let ops = vec![Op::Run { work: costs.kworker_ns }, beat];
            let thread = thread(name, "kworker", ops);
            let settings = Settings { cpus: Some(vec![cpu as u32]), ..thread.settings };
            all.tasks.push(Task { start: Some(start), settings, ..thread });
        }
    }
    if rcu {
        let ops = vec![Op::Run { work: costs.rcu_ns }, Op::Device { time: NEVER }];
        let slept_on = Some(rng.below(cpus as u64) as u32);
        all.tasks.push(Task { slept_on, ..thread(RCU.to_owned(), RCU, ops) });
    }
    Cow::Owned(all)
}

fn is_fork(op: &Op) -> bool {
    matches!(op, Op::Fork(_))
}

/// A thread of the kernel that does `ops` for ever.
fn thread(name: String, class: &str, ops: Vec<Op>) -> Task {
    let phase = Phase { name: "work".to_owned(), repeat: Repeat::Forever, settings: Settings::default(), ops };
    let policy = Some(Policy::Other { nice: 0, slice: None });
    Task {
        name,
        class: class.to_owned(),
        start: Some(NEVER),
        slept_on: None,
        session: None,
        process: None,
        settings: Settings { policy, ..Settings::default() },
        phases: Arc::from([phase]),
        repeat: Repeat::Forever,
    }
}

//! What a machine does besides its workload: a kernel thread on each CPU that wakes once a second.
//!
//! On a real kernel that is `vmstat_update` on a kworker, with a few others: the least activity any CPU has. A task that
//! has a CPU for itself is preempted by it about once a second, and loads are never so even that balancing stands still.

use std::borrow::Cow;
use std::sync::Arc;

use vruntime_workload::program::{Op, Phase, Policy, Repeat, Settings, Task, Workload};

use crate::rng::Rng;

/// Between two wakeups of a CPU's kernel thread.
const PERIOD_NS: u64 = 1_000_000_000;

/// The workload with a kernel thread for each of `cpus` CPUs that works for `work` ns at a time; as it is if that is 0.
/// The threads come after the workload's own tasks.
pub(crate) fn with_kernel_threads(workload: &Workload, cpus: usize, work: u64, seed: u64) -> Cow<'_, Workload> {
    if work == 0 {
        return Cow::Borrowed(workload);
    }
    let mut all = workload.clone();
    let mut rng = Rng::new(seed ^ 0xbb67_ae85_84ca_a73b);
    let ops = vec![Op::Run { work }, Op::Sleep { time: PERIOD_NS }];
    let phase = Phase { name: "work".to_owned(), repeat: Repeat::Forever, settings: Settings::default(), ops };
    let phases: Arc<[Phase]> = Arc::from([phase]);
    for cpu in 0..cpus as u32 {
        all.tasks.push(Task {
            name: format!("kworker/{cpu}:0"),
            class: "kworker".to_owned(),
            start: Some(rng.below(PERIOD_NS)),
            slept_on: None,
            session: None,
            process: None,
            settings: Settings {
                policy: Some(Policy::Other { nice: 0, slice: None }),
                cpus: Some(vec![cpu]),
                ..Settings::default()
            },
            phases: Arc::clone(&phases),
            repeat: Repeat::Forever,
        });
    }
    Cow::Owned(all)
}

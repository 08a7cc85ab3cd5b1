//! The balancer of kernels before group balancing, 2.6.15 to 2.6.23.
//!
//! The load of a CPU is its queued weight (2.6.15: 1024 for each task; 2.6.18+: the tasks' weights, smpnice). At each
//! tick the averages `cpu_load[1]` and `cpu_load[2]` move by a half and a quarter of the difference. The reason for
//! balancing decides which one is used. For CPUs to pull from, the balancer takes the lower of average and present
//! load, for its own CPU the higher. So it pulls only lasting differences.
//!
//! The busiest group has the highest load for its power, if that is `imbalance_pct` above the own group's. Neither
//! group passes the mean by the moves. If that is less than a task, one task moves if this lets more CPUs work. Tasks
//! are taken in `Policy::pull_order`, too large ones only if they would be the most urgent
//! on the new CPU.
//!
//! A wakeup takes the waker's CPU if that is not busier than the previous one, or an idle SMT sibling of it. It
//! searches no further. A new task starts on its parent's CPU (or on an idler NUMA node).
//!
//! The levels are the machine's, with the numbers of SIBLING (SMT), NODE (NUMA), or else CPU. Idle CPUs have no tick
//! here, so busy CPUs kick them. Power-saving balance is not modelled.

mod busiest;
mod placement;
mod pull;

use super::domains::Level;

pub(super) use placement::shares_core;
pub(crate) use placement::{select_cpu, select_cpu_exec};

/// The load of a nice-0 task, and the power of a CPU.
const SCALE: u64 = 1024;
const MS: u64 = 1_000_000;
/// The limit of intervals when all tasks are pinned, nanoseconds.
const MAX_PINNED_INTERVAL: u64 = 512 * MS;

#[allow(clippy::struct_excessive_bools)] // independent, as the kernel's SD_* bits
struct Params {
    imbalance_pct: u64,
    cache_nice_tries: u32,
    /// Nanoseconds.
    min_interval: u64,
    max_interval: u64,
    busy_factor: u64,
    /// The index of the load average for busy, idle and newly-idle balancing, wakeup, and fork and exec; 0 is the
    /// present load.
    busy_idx: usize,
    idle_idx: usize,
    newidle_idx: usize,
    wake_idx: usize,
    forkexec_idx: usize,
    newidle: bool,
    /// Whether a wakeup looks for an idle CPU here.
    wake_idle: bool,
    /// Whether a wakeup may take the waker's CPU if the task is cache-cold there (WAKE_AFFINE), or to spread load
    /// (WAKE_BALANCE).
    wake_affine: bool,
    /// Whether a new task may start on another CPU.
    fork: bool,
}

const SIBLING: Params = Params {
    imbalance_pct: 110,
    cache_nice_tries: 0,
    min_interval: MS,
    max_interval: 2 * MS,
    busy_factor: 8,
    busy_idx: 0,
    idle_idx: 0,
    newidle_idx: 1,
    wake_idx: 0,
    forkexec_idx: 0,
    newidle: true,
    wake_idle: true,
    wake_affine: true,
    fork: false,
};

const CPU: Params = Params {
    imbalance_pct: 125,
    cache_nice_tries: 1,
    min_interval: MS,
    max_interval: 4 * MS,
    busy_factor: 64,
    busy_idx: 2,
    idle_idx: 1,
    newidle_idx: 2,
    wake_idx: 1,
    forkexec_idx: 1,
    newidle: true,
    wake_idle: false,
    wake_affine: true,
    fork: false,
};

const NODE: Params = Params {
    imbalance_pct: 125,
    cache_nice_tries: 2,
    min_interval: 8 * MS,
    max_interval: 32 * MS,
    busy_factor: 32,
    busy_idx: 3,
    idle_idx: 2,
    newidle_idx: 0,
    wake_idx: 1,
    forkexec_idx: 1,
    newidle: false,
    wake_idle: false,
    wake_affine: false,
    fork: true,
};

fn params(level: Level) -> &'static Params {
    match level {
        Level::Smt => &SIBLING,
        Level::Cluster | Level::Mc | Level::Pkg => &CPU,
        Level::Numa(_) => &NODE,
    }
}

//! The load of a CPU and its averages over ticks, for balancers up to 5.2.

use alloc::vec::Vec;

use crate::sync::AtomicU64;

/// A CPU's `cpu_load[]` at a tick, in 1024ths of a nice-0 task.
#[derive(Debug, Default)]
pub(super) struct Averages {
    pub(super) load: [AtomicU64; 3],
    pub(super) tick: AtomicU64,
}

/// The averages of all CPUs, each written only by the holder of its run queue.
#[derive(Debug)]
pub(crate) struct CpuLoads(pub(super) Vec<Averages>);

pub(super) fn step(index: usize, old: u64, new: u64) -> u64 {
    let scale = 1 << index;
    // Rounded up when it rises, to reach the load.
    let round = if new > old { scale - 1 } else { 0 };
    (old * (scale - 1) + new + round) / scale
}

pub(super) fn decayed(index: usize, mut load: u64, ticks: u64) -> u64 {
    for _ in 0..ticks {
        if load == 0 {
            break;
        }
        load = step(index, load, 0);
    }
    load
}

impl CpuLoads {
    pub(crate) fn new(cpus: usize) -> Self {
        Self((0..cpus).map(|_| Averages::default()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_follow_the_load() {
        assert_eq!(step(0, 0, 1024), 1024);
        assert_eq!(step(1, 0, 1024), 512);
        assert_eq!(step(2, 0, 1024), 256);
        // Rises to the load, falls to 0.
        assert_eq!((0..40).fold(0, |load, _| step(2, load, 1024)), 1024);
        assert_eq!(decayed(2, 1024, 4), 324);
        assert_eq!(decayed(2, 1024, 1_000_000), 0);
    }
}

//! A domain's numbers by level and kernel (`sd_init`).

use super::Level;
use crate::kernels::{Behaviour, Behaviours};

const MS: u64 = 1_000_000;

#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub(super) level: Level,
    pub(super) imbalance_pct: u64,
    pub(super) cache_nice_tries: u32,
    /// Shortest and longest, nanoseconds.
    pub(super) interval: (u64, u64),
    pub(super) busy_factor: u64,
}

impl Numbers {
    /// `weight`: number of the level's CPUs, in any root domain.
    pub(super) fn of(behaviours: &Behaviours, level: Level, weight: u64) -> Self {
        let cache_nice_tries = match level {
            Level::Smt => 0,
            Level::Cluster | Level::Mc | Level::Pkg => 1,
            Level::Numa(_) => 2,
        };
        // 3.16+: all levels alike; before, numbers by level (asm/topology.h).
        let early = behaviours.has(Behaviour::Early);
        let own = !early && !behaviours.has(Behaviour::LevelsAlike);
        let imbalance_pct = match level {
            Level::Smt => 110,
            Level::Cluster | Level::Mc if !own => 117,
            _ if early || behaviours.has(Behaviour::Pct117) => 117,
            _ => 125,
        };
        let interval = match level {
            Level::Smt if own => (MS, 2 * MS),
            Level::Cluster | Level::Mc | Level::Pkg if own => (MS, 4 * MS),
            _ => (weight * MS, 2 * weight * MS),
        };
        let busy_factor = match level {
            _ if early || behaviours.has(Behaviour::BusyFactor16) => 16,
            Level::Numa(_) => 32,
            _ if own => 64,
            _ => 32,
        };
        Self { level, imbalance_pct, cache_nice_tries, interval, busy_factor }
    }
}

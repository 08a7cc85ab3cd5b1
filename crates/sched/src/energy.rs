//! The energy model of a machine (`energy_model.c`), with which a wakeup finds the CPU of least energy
//! ([`class::fair`](crate::class::fair), `find_energy_efficient_cpu`).
//!
//! Energy is considered (`sched_energy_enabled`) in 5.0+ with a model, CPUs of different capacities and one thread
//! each, and `sched_energy_aware` 1. The kernel also requires the governor `schedutil`, whose frequencies it predicts;
//! here the machine's description must choose it.

pub(crate) mod model;

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

pub use self::model::{EnergyError, EnergyModel, PerfDomain, PerfState};
use crate::config::Config;
use crate::cpufreq::{self, Demands};
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::shared::flags::RootFlags;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64};
use crate::topology::Topology;
use crate::tunables::Tunables;
use crate::uclamp::Clamps;

#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) cpus: Vec<CpuId>,
    /// Of each CPU.
    pub(crate) capacity: u32,
    states: Vec<PerfState>,
}

impl Domain {
    /// Returns the power of CPUs with the total utilisation `busy`, of 1024 for a CPU of 1024, while one CPU requests
    /// `wanted` (`em_cpu_energy`), microwatts.
    pub(crate) fn energy(&self, wanted: u64, busy: u64) -> u64 {
        let (Some(highest), capacity) = (self.states.last(), u64::from(self.capacity)) else { return 0 };
        let khz = cpufreq::map_util_freq(wanted, highest.khz, capacity);
        let state = self.states.iter().find(|state| u64::from(state.khz) >= khz).unwrap_or(highest);
        // Work takes longer at a lower frequency.
        let cost = state.power_uw.saturating_mul(u64::from(highest.khz)) / u64::from(state.khz);
        cost.saturating_mul(busy) / capacity
    }
}

/// The published utilisation of a CPU.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Usage {
    util_avg: AtomicU64,
    util_est: AtomicU64,
    rt: AtomicU64,
    dl: AtomicU64,
    bw_dl: AtomicU64,
    /// Lower clamp in the upper half.
    clamps: AtomicU32,
    rt_runnable: AtomicBool,
}

impl Usage {
    /// Publishes. `fair` are average and estimate of the fair class.
    pub(crate) fn set(&self, fair: (u64, u64), demands: &Demands) {
        self.util_avg.store(fair.0, Relaxed);
        self.util_est.store(fair.1, Relaxed);
        self.rt.store(demands.rt, Relaxed);
        self.dl.store(demands.dl, Relaxed);
        self.bw_dl.store(demands.bw_dl, Relaxed);
        self.clamps.store(u32::from(demands.clamps.min) << 16 | u32::from(demands.clamps.max), Relaxed);
        self.rt_runnable.store(demands.rt_runnable, Relaxed);
    }

    pub(crate) fn util_avg(&self) -> u64 {
        self.util_avg.load(Relaxed)
    }

    pub(crate) fn util_est(&self) -> u64 {
        self.util_est.load(Relaxed)
    }

    pub(crate) fn clamps(&self) -> Clamps {
        let clamps = self.clamps.load(Relaxed);
        Clamps { min: (clamps >> 16) as u16, max: clamps as u16 }
    }

    pub(crate) fn demands(&self, fair: u64) -> Demands {
        Demands {
            fair,
            rt: self.rt.load(Relaxed),
            dl: self.dl.load(Relaxed),
            bw_dl: self.bw_dl.load(Relaxed),
            rt_runnable: self.rt_runnable.load(Relaxed),
            clamps: self.clamps(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Energy {
    /// Descending by CPU number, as in the kernel.
    pub(crate) domains: Vec<Domain>,
    cpus: Vec<Usage>,
    /// Whether a CPU has less than a fifth of spare capacity (`rd->overutilized`): then load is balanced, and wakeups
    /// ignore energy.
    pub(crate) overutilized: RootFlags,
}

impl Energy {
    /// None if energy is not considered. Omits parts of the model that do not fit the machine ([`EnergyModel::check`]).
    pub(crate) fn new<T: Tunables>(topology: &Topology, config: &Config<T>) -> Option<Self> {
        let model = config.energy.as_ref()?;
        let places = topology.cpus();
        let cores: alloc::collections::BTreeSet<u32> = places.iter().map(|place| place.core).collect();
        if !config.has(Behaviour::Eas) || !config.tunables.energy_aware() || cores.len() < places.len() {
            return None;
        }
        let of = |domain: &PerfDomain| {
            let there = domain.cpus.iter().filter(|&&cpu| (cpu as usize) < places.len());
            let cpus: Vec<CpuId> = there.map(|&cpu| CpuId(cpu)).collect();
            let capacity = cpus.first().map(|&cpu| topology.place(cpu).capacity)?;
            (!domain.states.is_empty()).then(|| Domain { cpus, capacity, states: domain.states.clone() })
        };
        let mut domains: Vec<Domain> = model.domains.iter().filter_map(of).collect();
        for domain in &mut domains {
            domain.cpus.sort_unstable();
        }
        domains.sort_by_key(|domain| core::cmp::Reverse(domain.cpus[0]));
        let cpus = places.iter().map(|_| Usage::default()).collect();
        Some(Self { domains, cpus, overutilized: RootFlags::default() })
    }

    pub(crate) fn of(&self, cpu: CpuId) -> &Usage {
        &self.cpus[cpu.index()]
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn model(cpus: &[&[u32]], states: &[(u32, u64)]) -> EnergyModel {
        let states: Vec<PerfState> = states.iter().map(|&(khz, power_uw)| PerfState { khz, power_uw }).collect();
        EnergyModel {
            domains: cpus.iter().map(|cpus| PerfDomain { cpus: cpus.to_vec(), states: states.clone() }).collect(),
        }
    }

    #[test]
    fn models_that_make_no_sense() {
        let flat = Topology::flat(2);
        let check = |model: EnergyModel| model.check(&flat);
        let fine = [(500, 10), (1000, 30)];
        assert_eq!(check(model(&[&[0, 1]], &fine)), Ok(()));
        assert_eq!(check(model(&[&[0]], &fine)), Err(EnergyError::NotOnce { cpu: 1 }));
        assert_eq!(check(model(&[&[0, 1], &[1]], &fine)), Err(EnergyError::NotOnce { cpu: 1 }));
        assert_eq!(check(model(&[&[0, 2]], &fine)), Err(EnergyError::NoSuchCpu { cpu: 2, cpus: 2 }));
        assert_eq!(check(model(&[&[0, 1]], &[])), Err(EnergyError::Frequencies { cpus: vec![0, 1] }));
        assert_eq!(check(model(&[&[0, 1]], &[(5, 1), (5, 2)])), Err(EnergyError::Frequencies { cpus: vec![0, 1] }));
        assert_eq!(check(model(&[&[0, 1]], &[(5, 0), (6, 2)])), Err(EnergyError::Power { khz: 5 }));
        assert_eq!(check(model(&[&[0, 1]], &[(5, 3), (6, 2)])), Err(EnergyError::Power { khz: 6 }));
    }

    /// Half a CPU's work at half speed keeps it always busy.
    #[test]
    fn energy_is_power_times_the_time_that_the_work_takes() {
        let states = vec![PerfState { khz: 500, power_uw: 100 }, PerfState { khz: 1000, power_uw: 300 }];
        let domain = Domain { cpus: vec![CpuId(0)], capacity: 400, states };
        assert_eq!(domain.energy(200, 200), 100);
        // Above half of its capacity it runs at full speed, half of the time.
        assert_eq!(domain.energy(201, 200), 150);
        assert_eq!(domain.energy(9999, 400), 300);
        assert_eq!(domain.energy(0, 0), 0);
        let states = vec![PerfState { khz: 1, power_uw: u64::MAX }, PerfState { khz: u32::MAX, power_uw: u64::MAX }];
        let absurd = Domain { cpus: vec![CpuId(0)], capacity: 1024, states };
        assert_eq!(absurd.energy(0, u64::MAX), u64::MAX / 1024);
    }
}

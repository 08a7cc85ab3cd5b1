//! The description of a machine's power.

use alloc::vec::Vec;
use core::fmt;

use crate::ids::CpuId;
use crate::topology::Topology;

/// A frequency and its power (`em_perf_state`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerfState {
    /// Kilohertz.
    pub khz: u32,
    /// Power of one busy CPU, microwatts.
    pub power_uw: u64,
}

/// Equal CPUs that share a clock (`perf_domain`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PerfDomain {
    /// The CPUs, all of one capacity.
    pub cpus: Vec<u32>,
    /// Ascending frequencies; the CPUs have their capacity at the highest.
    pub states: Vec<PerfState>,
}

/// The power of a machine's CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnergyModel {
    /// The domains; each CPU is in exactly one.
    pub domains: Vec<PerfDomain>,
}

/// Why an energy model is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EnergyError {
    /// The machine has no such CPU.
    NoSuchCpu {
        /// The number given.
        cpu: u32,
        /// The number of CPUs.
        cpus: usize,
    },
    /// A CPU is in two domains, or in none.
    NotOnce {
        /// The CPU.
        cpu: u32,
    },
    /// CPUs of one domain have different capacities.
    Unlike {
        /// A CPU.
        one: u32,
        /// A CPU of another capacity.
        other: u32,
    },
    /// Frequencies are missing, 0, or not ascending.
    Frequencies {
        /// CPUs of the domain.
        cpus: Vec<u32>,
    },
    /// The power at a frequency is 0, or less than at a lower one.
    Power {
        /// The frequency, kilohertz.
        khz: u32,
    },
}

impl fmt::Display for EnergyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchCpu { cpu, cpus } => {
                write!(f, "the power of CPU {cpu} is given, but the machine's CPUs are 0 to {}", cpus.saturating_sub(1))
            }
            Self::NotOnce { cpu } => write!(f, "CPU {cpu} has to be in exactly one domain of the energy model"),
            Self::Unlike { one, other } => {
                write!(f, "CPUs {one} and {other} share a domain of the energy model, but have different capacities")
            }
            Self::Frequencies { cpus } => {
                write!(f, "the frequencies of CPUs {cpus:?} have to be above 0 and to ascend")
            }
            Self::Power { khz } => write!(
                f,
                "the power at {} MHz has to be above 0, and no less than at the frequency below",
                f64::from(*khz) / 1000.0
            ),
        }
    }
}

impl core::error::Error for EnergyError {}

impl EnergyModel {
    /// Checks the model against a machine.
    ///
    /// # Errors
    ///
    /// If a CPU is not in exactly one domain, a domain has different CPUs, or frequencies or power do not ascend.
    pub fn check(&self, topology: &Topology) -> Result<(), EnergyError> {
        let cpus = topology.nr_cpus();
        let mut seen = alloc::vec![false; cpus];
        for domain in &self.domains {
            for &cpu in &domain.cpus {
                let seen = seen.get_mut(cpu as usize).ok_or(EnergyError::NoSuchCpu { cpu, cpus })?;
                if core::mem::replace(seen, true) {
                    return Err(EnergyError::NotOnce { cpu });
                }
                let (one, capacity) = (domain.cpus[0], |cpu| topology.place(CpuId(cpu)).capacity);
                if capacity(one) != capacity(cpu) {
                    return Err(EnergyError::Unlike { one, other: cpu });
                }
            }
            let states = &domain.states;
            if states.is_empty() || states[0].khz == 0 || states.windows(2).any(|pair| pair[0].khz >= pair[1].khz) {
                return Err(EnergyError::Frequencies { cpus: domain.cpus.clone() });
            }
            if states[0].power_uw == 0 {
                return Err(EnergyError::Power { khz: states[0].khz });
            }
            if let Some(pair) = states.windows(2).find(|pair| pair[0].power_uw > pair[1].power_uw) {
                return Err(EnergyError::Power { khz: pair[1].khz });
            }
        }
        match seen.iter().position(|seen| !seen) {
            Some(cpu) => Err(EnergyError::NotOnce { cpu: cpu as u32 }),
            None => Ok(()),
        }
    }
}

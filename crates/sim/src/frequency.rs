//! Frequencies of CPUs, as an option of the machine.
//!
//! A frequency domain is a clock (a `cpufreq_policy`). Under `schedutil`, each CPU requests capacity ([`Demand`]) at
//! the end of kernel paths that change utilisation. The domain uses the lowest frequency for the highest request. It
//! decides at most once in the rate limit, and a change takes effect after the transition latency.

use std::fmt;

use vruntime_sched::cpufreq::{Demand, map_util_freq};
use vruntime_sched::event::Event;
use vruntime_sched::ids::CpuId;
use vruntime_sched::kernels::nearest;
use vruntime_sched::{Policy, Scheduler};
use vruntime_trace::Sink;

use crate::machine::{Machine, sched};

/// A frequency governor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Governor {
    /// Always the highest frequency.
    Performance,
    /// Always the lowest frequency.
    Powersave,
    /// The scheduler's requests.
    Schedutil,
}

impl Governor {
    const ALL: [(&'static str, Self); 3] =
        [("performance", Self::Performance), ("powersave", Self::Powersave), ("schedutil", Self::Schedutil)];

    /// Returns a governor by the kernel's name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn from_name(name: &str) -> Result<Self, FrequencyError> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, governor)| *governor).ok_or_else(|| FrequencyError::Governor {
            name: name.to_owned(),
            nearest: nearest(name, &Self::ALL.map(|(known, _)| known)),
        })
    }
}

/// CPUs that share a clock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrequencyDomain {
    /// The CPUs.
    pub cpus: Vec<u32>,
    /// Frequencies (operating performance points), kilohertz, ascending. The highest gives a CPU its capacity.
    pub khz: Vec<u32>,
    /// The transition latency, nanoseconds, in which the old frequency holds.
    pub transition_ns: u64,
}

/// The frequencies of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frequencies {
    /// The governor.
    pub governor: Governor,
    /// The shortest time between two decisions for a domain, nanoseconds (`rate_limit_us`).
    pub rate_limit_ns: u64,
    /// The domains. Each CPU is in one.
    pub domains: Vec<FrequencyDomain>,
}

impl Frequencies {
    /// Default frequencies: 0.8 to 3.2 GHz in steps of 400 MHz.
    pub const DEFAULT_KHZ: [u32; 7] = [800_000, 1_200_000, 1_600_000, 2_000_000, 2_400_000, 2_800_000, 3_200_000];
    /// Default transition latency: 20 us.
    pub const DEFAULT_TRANSITION_NS: u64 = 20_000;
    /// Default rate limit: 2 ms.
    pub const DEFAULT_RATE_LIMIT_NS: u64 = 2_000_000;

    /// Gives each core of `machine` its own clock with [`Self::DEFAULT_KHZ`].
    pub fn by_core(machine: &vruntime_sched::Topology, governor: Governor) -> Self {
        let mut cores: std::collections::BTreeMap<u32, Vec<u32>> = std::collections::BTreeMap::new();
        for (cpu, place) in machine.cpus().iter().enumerate() {
            cores.entry(place.core).or_default().push(cpu as u32);
        }
        let domain = |cpus| FrequencyDomain {
            cpus,
            khz: Self::DEFAULT_KHZ.to_vec(),
            transition_ns: Self::DEFAULT_TRANSITION_NS,
        };
        let domains = cores.into_values().map(domain).collect();
        Self { governor, rate_limit_ns: Self::DEFAULT_RATE_LIMIT_NS, domains }
    }

    /// Checks the frequencies for `cpus` CPUs.
    ///
    /// # Errors
    ///
    /// If a CPU is in no domain, in two, or does not exist, or if frequencies do not ascend.
    pub fn check(&self, cpus: usize) -> Result<(), FrequencyError> {
        let mut seen = vec![false; cpus];
        for domain in &self.domains {
            for &cpu in &domain.cpus {
                let place = seen.get_mut(cpu as usize).ok_or(FrequencyError::NoSuchCpu { cpu, cpus })?;
                if std::mem::replace(place, true) {
                    return Err(FrequencyError::Twice { cpu });
                }
            }
            if domain.khz.is_empty() || domain.khz[0] == 0 {
                return Err(FrequencyError::None { cpus: domain.cpus.clone() });
            }
            if let Some(pair) = domain.khz.windows(2).find(|pair| pair[0] >= pair[1]) {
                return Err(FrequencyError::Order { first: pair[0], second: pair[1] });
            }
        }
        match seen.iter().position(|seen| !seen) {
            Some(cpu) => Err(FrequencyError::Missing { cpu: cpu as u32 }),
            None => Ok(()),
        }
    }
}

/// An error in frequencies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrequencyError {
    /// An unknown governor.
    Governor {
        /// The name given.
        name: String,
        /// The most similar name.
        nearest: Option<&'static str>,
    },
    /// An unknown CPU.
    NoSuchCpu {
        /// The number given.
        cpu: u32,
        /// The machine's number of CPUs.
        cpus: usize,
    },
    /// A CPU is in two domains.
    Twice {
        /// The CPU.
        cpu: u32,
    },
    /// A CPU is in no domain.
    Missing {
        /// The CPU.
        cpu: u32,
    },
    /// A domain has no frequency, or one of 0.
    None {
        /// The domain's CPUs.
        cpus: Vec<u32>,
    },
    /// Frequencies do not ascend.
    Order {
        /// A frequency, kilohertz.
        first: u32,
        /// The next frequency, kilohertz.
        second: u32,
    },
}

impl fmt::Display for FrequencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Governor { name, nearest } => {
                write!(f, "there is no governor `{name}`; ")?;
                match nearest {
                    Some(nearest) => write!(f, "did you mean `{nearest}`?"),
                    None => write!(f, "there are performance, powersave, schedutil"),
                }
            }
            Self::NoSuchCpu { cpu, cpus } => {
                write!(f, "CPU {cpu} has frequencies, but the machine's CPUs are 0 to {}", cpus.saturating_sub(1))
            }
            Self::Twice { cpu } => write!(f, "CPU {cpu} is in two frequency domains; it has one clock"),
            Self::Missing { cpu } => write!(f, "CPU {cpu} is in no frequency domain; every CPU has to be in one"),
            Self::None { cpus } => write!(f, "the frequency domain of CPUs {cpus:?} needs a frequency above 0"),
            Self::Order { first, second } => write!(
                f,
                "frequencies must ascend, but {} MHz is followed by {} MHz",
                f64::from(*first) / 1000.0,
                f64::from(*second) / 1000.0
            ),
        }
    }
}

impl std::error::Error for FrequencyError {}

/// No CPU arms its own events afterwards.
const NOBODY: usize = usize::MAX;

#[derive(Debug)]
struct Clock {
    cpus: Vec<u32>,
    khz: Vec<u32>,
    transition_ns: u64,
    now: usize,
    /// Index and time of the next frequency.
    next: Option<(usize, u64)>,
    chosen: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Clocks {
    governor: Governor,
    rate_limit_ns: u64,
    domains: Vec<Clock>,
    of: Vec<u32>,
    /// By CPU: the last seen deadline bandwidth, idle periods, and idle periods when last seen.
    bw_dl: Vec<u64>,
    pub(crate) idle_calls: Vec<u64>,
    saw_idle: Vec<u64>,
}

impl Clocks {
    pub(crate) fn new(spec: &Frequencies, cpus: usize) -> Self {
        let mut of = vec![0; cpus];
        for (index, domain) in spec.domains.iter().enumerate() {
            for &cpu in &domain.cpus {
                of[cpu as usize] = index as u32;
            }
        }
        let domains = spec.domains.iter().map(|domain| Clock {
            cpus: domain.cpus.clone(),
            khz: domain.khz.clone(),
            transition_ns: domain.transition_ns,
            now: if spec.governor == Governor::Performance { domain.khz.len() - 1 } else { 0 },
            next: None,
            chosen: None,
        });
        Self {
            governor: spec.governor,
            rate_limit_ns: spec.rate_limit_ns,
            domains: domains.collect(),
            of,
            bw_dl: vec![0; cpus],
            idle_calls: vec![0; cpus],
            saw_idle: vec![0; cpus],
        }
    }

    pub(crate) fn speed_millionths(&self, cpu: usize) -> u64 {
        let clock = &self.domains[self.of[cpu] as usize];
        u64::from(clock.khz[clock.now]) * 1_000_000 / u64::from(clock.highest())
    }
}

impl Clock {
    fn highest(&self) -> u32 {
        self.khz.last().copied().unwrap_or(1)
    }

    /// Returns the lowest sufficient frequency, or the highest.
    fn resolve(&self, demand: &Demand) -> usize {
        let wanted = map_util_freq(demand.util, self.highest(), demand.max);
        self.khz.iter().position(|&khz| u64::from(khz) >= wanted).unwrap_or(self.khz.len() - 1)
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    pub(crate) fn start_clocks(&mut self) {
        let Some(clocks) = &self.clocks else { return };
        for domain in 0..clocks.domains.len() {
            self.apply_frequency(domain);
        }
    }

    /// Updates the frequency after a kernel path on `cpu` (`cpufreq_update_util`).
    #[cold]
    pub(crate) fn update_frequency(&mut self, cpu: usize) {
        let now = self.core.now;
        let Some(clocks) = &mut self.clocks else { return };
        if clocks.governor != Governor::Schedutil {
            return;
        }
        let domain = clocks.of[cpu] as usize;
        let clock = &clocks.domains[domain];
        // Deadline bandwidth ignores the rate limit.
        let bw_dl = self.rqs[cpu].cpufreq_demand(&self.shared).bw_dl;
        let urgent = bw_dl > std::mem::replace(&mut clocks.bw_dl[cpu], bw_dl);
        let recent = clock.chosen.is_some_and(|chosen| now - chosen < clocks.rate_limit_ns);
        if clock.next.is_some() || (recent && !urgent) {
            return;
        }
        // The highest request decides.
        let mut next = 0;
        for &cpu in &clock.cpus {
            let demand = self.rqs[cpu as usize].cpufreq_demand(&self.shared);
            next = next.max(clock.resolve(&demand));
        }
        if let [only] = clock.cpus[..] {
            // A CPU that has not been idle since may need its whole speed, so its frequency is not lowered yet.
            let only = only as usize;
            let calls = clocks.idle_calls[only];
            let busy = calls == std::mem::replace(&mut clocks.saw_idle[only], calls);
            if busy && next < clock.now && !self.rqs[only].cpufreq_demand(&self.shared).capped {
                next = clock.now;
            }
        }
        let clock = &mut clocks.domains[domain];
        if next == clock.now {
            return;
        }
        clock.chosen = Some(now);
        clock.next = Some((next, now.saturating_add(clock.transition_ns)));
        self.on_clocks();
    }

    #[inline(never)]
    pub(crate) fn on_clocks(&mut self) {
        let now = self.core.now;
        let count = self.clocks.as_ref().map_or(0, |clocks| clocks.domains.len());
        let mut first: Option<u64> = None;
        for domain in 0..count {
            let Some(clocks) = &mut self.clocks else { return };
            let clock = &mut clocks.domains[domain];
            match clock.next {
                Some((next, at)) if at <= now => {
                    clock.now = next;
                    clock.next = None;
                    self.apply_frequency(domain);
                }
                Some((_, at)) => first = Some(first.map_or(at, |first| first.min(at))),
                None => {}
            }
        }
        let source = self.core.clocks_source();
        match first {
            Some(at) => self.core.queue.arm(source, at),
            None => self.core.queue.cancel(source),
        }
    }

    fn apply_frequency(&mut self, domain: usize) {
        let Some(clocks) = &self.clocks else { return };
        let clock = &clocks.domains[domain];
        let khz = clock.khz[clock.now];
        let scale = (u64::from(khz) * 1024 / u64::from(clock.highest())) as u32;
        for cpu in clock.cpus.clone() {
            let cpu = cpu as usize;
            // Averages until now are at the old frequency.
            sched!(self, cpu).set_frequency(CpuId(cpu as u32), scale);
            self.core.emit(cpu, &Event::CpuFrequency { khz });
            self.set_core_speed(self.core_of[cpu] as usize, NOBODY);
        }
    }
}

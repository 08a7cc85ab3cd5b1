//! Frequencies of CPUs, as an option of the machine.
//!
//! The CPUs of a frequency domain have one clock (a `cpufreq_policy`). Under `schedutil`, each CPU requests capacity
//! ([`Demand`]) at the end of kernel paths that change utilisation. The domain runs at the lowest frequency that
//! satisfies the highest request. It decides at most once in the rate limit, and a change takes effect after the
//! transition latency. `performance` and `powersave` always use the highest or the lowest frequency.

use std::fmt;

use vruntime_sched::cpufreq::{Demand, map_util_freq};
use vruntime_sched::event::Event;
use vruntime_sched::ids::CpuId;
use vruntime_sched::kernels::nearest;
use vruntime_sched::{Policy, Scheduler};
use vruntime_trace::Sink;

use crate::machine::{Machine, sched};

/// The governor of the frequencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Governor {
    /// Always the highest.
    Performance,
    /// Always the lowest.
    Powersave,
    /// What the scheduler says is needed.
    Schedutil,
}

impl Governor {
    const ALL: [(&'static str, Self); 3] =
        [("performance", Self::Performance), ("powersave", Self::Powersave), ("schedutil", Self::Schedutil)];

    /// By the kernel's name.
    ///
    /// # Errors
    ///
    /// When there is none of that name, or none that is modelled.
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
    /// The CPUs that share the clock.
    pub cpus: Vec<u32>,
    /// The frequencies there are (operating performance points), kilohertz, ascending. At the highest a CPU has its
    /// capacity.
    pub khz: Vec<u32>,
    /// How long a change takes, nanoseconds; until then the old frequency holds.
    pub transition_ns: u64,
}

/// Frequencies of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frequencies {
    /// The governor.
    pub governor: Governor,
    /// The least time between two decisions for a domain, nanoseconds (`rate_limit_us`).
    pub rate_limit_ns: u64,
    /// Each CPU is in one.
    pub domains: Vec<FrequencyDomain>,
}

impl Frequencies {
    /// The default frequencies of CPUs: 0.8 to 3.2 GHz in steps of 400 MHz.
    pub const DEFAULT_KHZ: [u32; 7] = [800_000, 1_200_000, 1_600_000, 2_000_000, 2_400_000, 2_800_000, 3_200_000];
    /// The default transition latency: 20 us.
    pub const DEFAULT_TRANSITION_NS: u64 = 20_000;
    /// The default rate limit: 2 ms.
    pub const DEFAULT_RATE_LIMIT_NS: u64 = 2_000_000;

    /// Each core of `machine` has a clock of its own, with [`Self::DEFAULT_KHZ`].
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

    /// Whether they make sense on a machine of `cpus` CPUs.
    ///
    /// # Errors
    ///
    /// When a CPU is in no domain, in two, or is not there; or the frequencies of a domain do not ascend.
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

/// Why frequencies make no sense.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrequencyError {
    /// No such governor.
    Governor {
        /// The name given.
        name: String,
        /// The one most like it.
        nearest: Option<&'static str>,
    },
    /// The machine has no such CPU.
    NoSuchCpu {
        /// The number given.
        cpu: u32,
        /// How many there are.
        cpus: usize,
    },
    /// A CPU is in two domains.
    Twice {
        /// That CPU.
        cpu: u32,
    },
    /// A CPU is in no domain.
    Missing {
        /// That CPU.
        cpu: u32,
    },
    /// A domain has no frequency, or one of 0.
    None {
        /// Its CPUs.
        cpus: Vec<u32>,
    },
    /// The frequencies of a domain do not ascend.
    Order {
        /// A frequency, kilohertz.
        first: u32,
        /// The one after it.
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

/// No CPU, where one would arm its own events afterwards.
const NOBODY: usize = usize::MAX;

/// A domain at work.
#[derive(Debug)]
struct Clock {
    cpus: Vec<u32>,
    khz: Vec<u32>,
    transition_ns: u64,
    /// Index of the frequency it runs at.
    now: usize,
    /// Index of the one it changes to, and when.
    next: Option<(usize, u64)>,
    /// When it was last chosen.
    chosen: Option<u64>,
}

/// The frequencies of a machine at work.
#[derive(Debug)]
pub(crate) struct Clocks {
    governor: Governor,
    rate_limit_ns: u64,
    domains: Vec<Clock>,
    /// The domain of each CPU.
    of: Vec<u32>,
    /// Of each CPU: what its deadline tasks were promised when last looked at; how often it has been idle, now and
    /// then.
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

    /// The part of its full speed that a CPU has at its frequency, in millionths.
    pub(crate) fn speed_millionths(&self, cpu: usize) -> u64 {
        let clock = &self.domains[self.of[cpu] as usize];
        u64::from(clock.khz[clock.now]) * 1_000_000 / u64::from(clock.highest())
    }
}

impl Clock {
    fn highest(&self) -> u32 {
        self.khz.last().copied().unwrap_or(1)
    }

    /// The frequency that gives a CPU what it wants: the lowest that is high enough, or the highest.
    fn resolve(&self, demand: &Demand) -> usize {
        let wanted = map_util_freq(demand.util, self.highest(), demand.max);
        self.khz.iter().position(|&khz| u64::from(khz) >= wanted).unwrap_or(self.khz.len() - 1)
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Sets every CPU to the frequency it begins with, and tells the observers.
    pub(crate) fn start_clocks(&mut self) {
        let Some(clocks) = &self.clocks else { return };
        for domain in 0..clocks.domains.len() {
            self.apply_frequency(domain);
        }
    }

    /// A kernel path on `cpu` ends: its utilisation may have changed (`cpufreq_update_util`).
    #[cold]
    pub(crate) fn update_frequency(&mut self, cpu: usize) {
        let now = self.core.now;
        let Some(clocks) = &mut self.clocks else { return };
        if clocks.governor != Governor::Schedutil {
            return;
        }
        let domain = clocks.of[cpu] as usize;
        let clock = &clocks.domains[domain];
        // What deadline tasks were promised does not wait for the rate limit.
        let bw_dl = self.rqs[cpu].cpufreq_demand(&self.shared).bw_dl;
        let urgent = bw_dl > std::mem::replace(&mut clocks.bw_dl[cpu], bw_dl);
        let recent = clock.chosen.is_some_and(|chosen| now - chosen < clocks.rate_limit_ns);
        if clock.next.is_some() || (recent && !urgent) {
            return;
        }
        // Of all CPUs with this clock the one that needs it to be the fastest.
        let mut next = 0;
        for &cpu in &clock.cpus {
            let demand = self.rqs[cpu as usize].cpufreq_demand(&self.shared);
            next = next.max(clock.resolve(&demand));
        }
        if let [only] = clock.cpus[..] {
            // A CPU that has not been idle since may need all it had: it would be premature to lower its frequency.
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

    /// Changes of frequency that are due take effect.
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
            // Averages are brought up to now at the old frequency.
            sched!(self, cpu).set_frequency(CpuId(cpu as u32), scale);
            self.core.emit(cpu, &Event::CpuFrequency { khz });
            self.set_core_speed(self.core_of[cpu] as usize, NOBODY);
        }
    }
}

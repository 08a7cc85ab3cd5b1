//! Published state of real-time tasks: the CPUs by their highest priority, and the CPUs with more tasks than they can
//! run.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use super::rounds::Rounds;
use super::{MAX_RT_PRIO, RtBandwidth, RtRq};
use crate::cpumask::AtomicCpuMask;
use crate::ids::CpuId;
use crate::policy::Policy;
use crate::shared::Shared;
use crate::sync::AtomicU32;
use crate::task::Task;

/// Each CPU's highest priorities.
#[derive(Debug)]
struct CpuPrio {
    /// `prio` of the most urgent real-time task; [`super::NO_RT_PRIO`] if there is none.
    curr: AtomicU32,
    /// Where the CPU is listed: there, or as [`HIGHER`].
    listed: AtomicU32,
    /// `prio` of the most urgent one that others may take.
    next: AtomicU32,
    /// The CPU that this CPU chose last among equals (`distribute_cpu_mask_prev`).
    chosen: AtomicU32,
}

/// The machine's real-time priorities (`cpupri`), and the overloaded CPUs.
#[derive(Debug)]
pub(crate) struct Cpupri {
    cpus: Vec<CpuPrio>,
    /// By `prio`: the CPUs with this highest priority. The last level has the CPUs without a real-time task. A CPU that
    /// runs a deadline task is in none, until a real-time enqueue or dequeue changes its highest priority (as in the
    /// kernel).
    levels: Vec<AtomicCpuMask>,
    /// CPUs with tasks that others may take (`rto_mask`).
    overloaded: AtomicCpuMask,
    /// A CPU offers a task whenever one waits, not only beside another of the class.
    overload_waits: bool,
    /// The interrupts that ask for them.
    pub(super) rounds: Rounds,
    pub(super) bandwidth: RtBandwidth,
}

const NONE: u32 = super::NO_RT_PRIO as u32;

/// A CPU that has deadline tasks (`CPUPRI_HIGHER`).
const HIGHER: u32 = u32::MAX;

impl Cpupri {
    pub(crate) fn new(nr_cpus: usize, overload_waits: bool) -> Self {
        let levels: Vec<AtomicCpuMask> = (0..MAX_RT_PRIO).map(|_| AtomicCpuMask::new(nr_cpus)).collect();
        for cpu in (0..nr_cpus as u32).map(CpuId) {
            levels[NONE as usize].insert(cpu);
        }
        let fresh = || CpuPrio {
            curr: AtomicU32::new(NONE),
            listed: AtomicU32::new(NONE),
            next: AtomicU32::new(NONE),
            chosen: AtomicU32::new(0),
        };
        Self {
            cpus: (0..nr_cpus).map(|_| fresh()).collect(),
            levels,
            overloaded: AtomicCpuMask::new(nr_cpus),
            overload_waits,
            rounds: Rounds::new(nr_cpus),
            bandwidth: RtBandwidth::default(),
        }
    }

    /// Publishes what has changed on a CPU.
    pub(super) fn publish(&self, cpu: CpuId, rt: &RtRq) {
        let this = &self.cpus[cpu.index()];
        let highest = u32::from(rt.highest());
        let before = this.curr.load(Relaxed);
        if highest != before {
            this.curr.store(highest, Relaxed);
            self.list(cpu, highest);
        }
        let next = u32::from(rt.highest_pushable());
        if this.next.load(Relaxed) != next {
            this.next.store(next, Relaxed);
        }
        if self.offers(rt) {
            self.overloaded.insert(cpu);
        } else {
            self.overloaded.remove(cpu);
        }
    }

    /// The first deadline task, or fair server, is queued on a CPU, or the last has gone.
    pub(crate) fn deadlines_changed(&self, cpu: CpuId, any: bool) {
        self.list(cpu, if any { HIGHER } else { self.cpus[cpu.index()].curr.load(Relaxed) });
    }

    fn list(&self, cpu: CpuId, level: u32) {
        let before = self.cpus[cpu.index()].listed.swap(level, Relaxed);
        if before == level {
            return;
        }
        if let Some(mask) = self.levels.get(level as usize) {
            mask.insert(cpu);
        }
        if let Some(mask) = self.levels.get(before as usize) {
            mask.remove(cpu);
        }
    }

    /// Whether a CPU has tasks for others.
    #[inline]
    pub(super) fn offers(&self, rt: &RtRq) -> bool {
        rt.pushable != 0 && (self.overload_waits || rt.nr_total > 1)
    }

    /// Whether what is published of a CPU is what is there.
    pub(super) fn shows(&self, cpu: CpuId, rt: &RtRq, deadlines: bool) -> bool {
        let this = &self.cpus[cpu.index()];
        let (highest, listed) = (u32::from(rt.highest()), this.listed.load(Relaxed));
        this.curr.load(Relaxed) == highest
            && (listed == highest || (listed == HIGHER && deadlines))
            && this.next.load(Relaxed) == u32::from(rt.highest_pushable())
            && (0u32..).zip(&self.levels).all(|(level, mask)| mask.contains(cpu) == (level == listed))
            && self.overloaded.contains(cpu) == self.offers(rt)
    }

    /// `prio` of the most urgent real-time task of a CPU.
    #[inline]
    pub(super) fn highest(&self, cpu: CpuId) -> u8 {
        self.cpus[cpu.index()].curr.load(Relaxed) as u8
    }

    /// `prio` of the most urgent task of a CPU that others may take.
    #[inline]
    pub(super) fn next(&self, cpu: CpuId) -> u8 {
        self.cpus[cpu.index()].next.load(Relaxed) as u8
    }

    /// CPUs that have tasks others may take.
    #[inline]
    pub(crate) fn overloaded(&self) -> &AtomicCpuMask {
        &self.overloaded
    }

    /// Resets the state after a rebuild of root domains.
    pub(crate) fn roots_rebuilt(&self) {
        self.rounds.reset();
    }

    /// Whether some CPU of the root domain of `cpu` has tasks others may take.
    pub(super) fn any_overloaded<P: Policy>(&self, shared: &Shared<P>, cpu: CpuId) -> bool {
        if !shared.is_split() {
            return !self.overloaded.is_empty();
        }
        self.overloaded.iter_from(CpuId(0)).any(|other| shared.same_root(cpu, other))
    }

    /// Returns the CPUs that run the least urgent tasks, of the CPUs in the root domain of `at` that `task` may use and
    /// that run something less urgent than it. Prefers CPUs of sufficient capacity. None if the task is the least
    /// urgent everywhere.
    pub(super) fn lowest<P: Policy>(&self, shared: &Shared<P>, task: &Task<P>, at: CpuId) -> Vec<CpuId> {
        let fits = |cpu: &CpuId| super::balance::fits(shared, task, *cpu);
        let mut second_best = Vec::new();
        for level in (u32::from(task.rt_level()) + 1..=NONE).rev() {
            let mask = &self.levels[level as usize];
            if mask.is_empty() {
                continue;
            }
            let may = |cpu: &CpuId| task.allowed(*cpu) && shared.is_online(*cpu) && shared.same_root(at, *cpu);
            let found: Vec<CpuId> = mask.iter_from(CpuId(0)).filter(may).collect();
            if found.is_empty() {
                continue;
            }
            let big: Vec<CpuId> = found.iter().copied().filter(fits).collect();
            if !big.is_empty() {
                return big;
            }
            if second_best.is_empty() {
                second_best = found;
            }
        }
        second_best
    }

    /// Whether a task could run at once on some CPU of the root domain of `at`.
    pub(super) fn has_lower<P: Policy>(&self, shared: &Shared<P>, task: &Task<P>, at: CpuId) -> bool {
        let mut levels = (u32::from(task.rt_level()) + 1..=NONE).map(|level| &self.levels[level as usize]);
        let may = |cpu: CpuId| task.allowed(cpu) && shared.is_online(cpu) && shared.same_root(at, cpu);
        levels.any(|mask| !mask.is_empty() && mask.iter_from(CpuId(0)).any(may))
    }

    /// Returns the next of `cpus`, which are ascending, after the last choice of `on`, the calling CPU. So real-time
    /// and deadline tasks spread (`cpumask_any_and_distribute`).
    pub(crate) fn distribute(&self, on: CpuId, mut cpus: impl Iterator<Item = CpuId> + Clone) -> Option<CpuId> {
        let last = &self.cpus[on.index()].chosen;
        let after = last.load(Relaxed);
        let chosen = cpus.clone().find(|cpu| cpu.0 > after).or_else(|| cpus.next())?;
        last.store(chosen.0, Relaxed);
        Some(chosen)
    }
}

//! Root domains: sets of CPUs that share tasks.
//!
//! Balancing of every class stays inside a root domain: scheduling domains, push and pull of real-time and deadline
//! tasks, and reserved deadline bandwidth. Partitions of [cpusets](crate::cpuset) create root domains. Without
//! partitions there is one.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::cpumask::CpuMask;
use crate::ids::CpuId;

/// The root domain of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Root {
    /// None: it is offline.
    Offline,
    /// The default one (`def_root_domain`), of all CPUs that are isolated: they have no scheduling domains, so load is
    /// not balanced. Real-time and deadline tasks, of which scheduling domains know nothing, are pushed and pulled
    /// between them all the same.
    Isolated,
    /// One with scheduling domains, counted from 0, which is what is left of the machine by all others.
    Domain(u32),
}

impl Default for Root {
    fn default() -> Self {
        Self::Domain(0)
    }
}

/// That of each CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Roots(Vec<Root>);

impl FromIterator<Root> for Roots {
    fn from_iter<I: IntoIterator<Item = Root>>(roots: I) -> Self {
        Self(roots.into_iter().collect())
    }
}

impl Roots {
    /// One of all CPUs.
    pub(crate) fn whole(nr_cpus: usize) -> Self {
        (0..nr_cpus).map(|_| Root::default()).collect()
    }

    #[inline]
    pub(crate) fn of(&self, cpu: CpuId) -> Root {
        self.0[cpu.index()]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (CpuId, Root)> + Clone + '_ {
        (0u32..).map(CpuId).zip(self.0.iter().copied())
    }

    /// Whether all CPUs are online and in one.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.iter().all(|&root| root == Root::default())
    }

    /// Whether there is more than one, or CPUs that are isolated.
    pub(crate) fn is_split(&self) -> bool {
        self.0.iter().any(|&root| root != Root::default() && root != Root::Offline)
    }

    /// The CPUs of one.
    pub(crate) fn span(&self, root: Root) -> CpuMask {
        self.iter().filter(|&(_, other)| other == root).map(|(cpu, _)| cpu).collect()
    }

    /// The CPUs of each.
    pub(crate) fn spans(&self) -> BTreeMap<Root, CpuMask> {
        let mut spans: BTreeMap<Root, CpuMask> = BTreeMap::new();
        for (cpu, root) in self.iter() {
            spans.entry(root).or_default().insert(cpu);
        }
        spans
    }

    /// What is balanced with a CPU: its root domain's CPUs, unless it is isolated.
    pub(crate) fn balanced_with(&self, cpu: CpuId) -> CpuMask {
        match self.of(cpu) {
            root @ Root::Domain(_) => self.span(root),
            Root::Offline | Root::Isolated => [cpu].into_iter().collect(),
        }
    }
}

//! Root domains: sets of CPUs that share tasks.
//!
//! All balancing stays inside a root domain: scheduling domains, push and pull of real-time and deadline tasks, and
//! reserved deadline bandwidth. Partitions of [cpusets](crate::cpuset) create root domains; otherwise there is one.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::cpumask::CpuMask;
use crate::ids::CpuId;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Root {
    Offline,
    /// All isolated CPUs (`def_root_domain`), without scheduling domains. Only real-time and deadline tasks are pushed
    /// and pulled between them.
    Isolated,
    /// With scheduling domains; 0 has the CPUs that no other one has.
    Domain(u32),
}

impl Default for Root {
    fn default() -> Self {
        Self::Domain(0)
    }
}

/// By CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Roots(Vec<Root>);

impl FromIterator<Root> for Roots {
    fn from_iter<I: IntoIterator<Item = Root>>(roots: I) -> Self {
        Self(roots.into_iter().collect())
    }
}

impl Roots {
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

    pub(crate) fn is_whole(&self) -> bool {
        self.0.iter().all(|&root| root == Root::default())
    }

    /// Whether there are several, or isolated CPUs.
    pub(crate) fn is_split(&self) -> bool {
        self.0.iter().any(|&root| root != Root::default() && root != Root::Offline)
    }

    pub(crate) fn span(&self, root: Root) -> CpuMask {
        self.iter().filter(|&(_, other)| other == root).map(|(cpu, _)| cpu).collect()
    }

    pub(crate) fn spans(&self) -> BTreeMap<Root, CpuMask> {
        let mut spans: BTreeMap<Root, CpuMask> = BTreeMap::new();
        for (cpu, root) in self.iter() {
            spans.entry(root).or_default().insert(cpu);
        }
        spans
    }

    /// Returns the CPUs balanced with a CPU: its root domain, unless it is isolated.
    pub(crate) fn balanced_with(&self, cpu: CpuId) -> CpuMask {
        match self.of(cpu) {
            root @ Root::Domain(_) => self.span(root),
            Root::Offline | Root::Isolated => [cpu].into_iter().collect(),
        }
    }
}

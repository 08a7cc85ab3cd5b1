//! The machine's scheduling domains, which all CPUs read while hotplug rebuilds them.

use alloc::boxed::Box;
use core::ops::Deref;
use core::sync::atomic::Ordering::Relaxed;

use once_cell::race::OnceBox;

use super::domains::{Domains, most_levels};
use super::roots::Roots;
use crate::features::{Feature, Features};
use crate::kernels::Behaviours;
use crate::shared::locations::Table;
use crate::sync::AtomicU32;
use crate::topology::Topology;

/// The present scheduling domains, by dereferencing. Readers may use an older set, so none is dropped. A set is reused
/// when the same CPUs are online again. Without rebuilds, reading costs one predictable branch.
#[derive(Debug)]
pub struct DomainSets {
    first: Domains,
    /// Sets after the first, from 1 on.
    later: Table<OnceBox<Domains>>,
    nr_later: AtomicU32,
    /// The present set; 0 is the first.
    current: AtomicU32,
    most_levels: usize,
}

impl DomainSets {
    pub(crate) fn new(topology: &Topology, behaviours: Behaviours, features: Features, roots: Roots) -> Self {
        let first = Domains::of_roots(topology, behaviours, features, roots, false);
        first.has_been_idle();
        Self {
            first,
            later: Table::new(),
            nr_later: AtomicU32::new(0),
            current: AtomicU32::new(0),
            most_levels: most_levels(topology),
        }
    }

    /// Returns the largest number of domains of a CPU.
    pub(crate) fn most_levels(&self) -> usize {
        self.most_levels
    }

    /// Activates the domains for `roots`. One caller at a time.
    pub(crate) fn rebuild(&self, topology: &Topology, behaviours: Behaviours, features: Features, roots: Roots) {
        let nr = self.nr_later.load(Relaxed);
        let lost = features.has(Feature::OldLostDomains);
        let known = (0..=nr).find(|&set| self.get(set).is_of(&roots, lost));
        let set = known.unwrap_or_else(|| {
            let made = Domains::of_roots(topology, behaviours, features, roots, lost);
            // Only this caller adds sets, so the cell is empty.
            let _ = self.later.entry(nr + 1, OnceBox::new).set(Box::new(made));
            self.nr_later.store(nr + 1, Relaxed);
            nr + 1
        });
        self.get(set).renew();
        self.current.store(set, Relaxed);
    }

    fn get(&self, set: u32) -> &Domains {
        if set == 0 { &self.first } else { self.later(set) }
    }

    #[cold]
    fn later(&self, set: u32) -> &Domains {
        // Another CPU may see the number before the set: then the first, since these are hints.
        self.later.get(set).and_then(OnceBox::get).unwrap_or(&self.first)
    }
}

impl Deref for DomainSets {
    type Target = Domains;

    #[inline]
    fn deref(&self) -> &Domains {
        self.get(self.current.load(Relaxed))
    }
}

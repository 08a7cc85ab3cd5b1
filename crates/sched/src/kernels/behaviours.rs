//! Behaviours: facts of the scheduler that changed once.
//!
//! A kernel is the set of behaviours of its release, with additions and removals. The scheduler asks `Config::has` and
//! never compares versions.

mod rows;
mod rules;

use core::fmt;

pub use crate::releases::Certainty;
pub use rows::{BEHAVIOURS, Behaviour};
pub use rules::Impossible;

/// The part of the scheduler that a behaviour concerns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Area {
    /// The O(1) scheduler.
    O1,
    /// CFS: order by vruntime.
    Cfs,
    /// EEVDF: order by virtual deadline.
    Eevdf,
    /// The fair class in any order: load averages, groups, changes of attributes.
    Fair,
    /// The CPU of a waking or new task.
    Wakeup,
    /// Load balancing.
    Balance,
    /// The balancers of kernels before 5.5.
    OldBalance,
    /// CPU limits of groups.
    Limits,
    /// Real-time tasks.
    Realtime,
    /// Deadline tasks and fair servers.
    Deadline,
    /// Cpusets and CPU affinity.
    Cpusets,
    /// CPU frequency and energy.
    Frequency,
    /// Preemption models, and kernel paths outside the scheduler that wake tasks.
    Kernel,
    /// The kernel's output about itself.
    Debug,
    /// What programs and groups can ask for. No event depends on it: without it, the simulator rejects the request.
    Interface,
}

impl Area {
    /// Returns the area's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::O1 => "O(1)",
            Self::Cfs => "CFS",
            Self::Eevdf => "EEVDF",
            Self::Fair => "fair",
            Self::Wakeup => "wakeup",
            Self::Balance => "balance",
            Self::OldBalance => "old balance",
            Self::Limits => "limits",
            Self::Realtime => "real-time",
            Self::Deadline => "deadline",
            Self::Cpusets => "cpusets",
            Self::Frequency => "frequency",
            Self::Kernel => "kernel",
            Self::Debug => "debug",
            Self::Interface => "interface",
        }
    }
}

/// A row of the table of behaviours.
#[derive(Clone, Copy, Debug)]
pub struct BehaviourRow {
    /// The behaviour.
    pub behaviour: Behaviour,
    /// Its name, as in `--feature +NAME`.
    pub name: &'static str,
    /// The part of the scheduler that it belongs to.
    pub area: Area,
    /// The release that introduced it. `None`: only single kernels have it.
    pub since: Option<&'static str>,
    /// The first release without it. `None`: every later one has it.
    pub until: Option<&'static str>,
    /// A second range of releases: the first with it, and the first without it again.
    pub again: Option<(&'static str, &'static str)>,
    /// How the releases are known.
    pub certainty: Certainty,
    /// What it does.
    pub what: &'static str,
    /// What switches it on a real kernel; empty if nothing does.
    pub switch: &'static str,
    /// The commits that introduced or removed it; empty if only the certainty is known.
    pub origin: &'static str,
}

impl BehaviourRow {
    pub(super) fn is_in(&self, release: [u32; 3]) -> bool {
        let reached = |version: &str| super::versions::version(version).is_some_and(|first| release >= first);
        let again = self.again.is_some_and(|(since, until)| reached(since) && !reached(until));
        again || self.since.is_some_and(reached) && !self.until.is_some_and(reached)
    }

    /// Returns the source of its releases: commits, or the kind of source by the certainty.
    pub const fn source(&self) -> &'static str {
        if self.origin.is_empty() { self.certainty.source() } else { self.origin }
    }

    /// Returns its releases: `6.12 to before 6.17`.
    pub fn releases(&self) -> impl fmt::Display + use<> {
        struct Releases(Option<&'static str>, Option<&'static str>, Option<(&'static str, &'static str)>);
        impl fmt::Display for Releases {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match (self.0, self.1) {
                    (None, _) => f.write_str("single kernels"),
                    (Some(since), None) => write!(f, "{since}+"),
                    (Some(since), Some(until)) => write!(f, "{since} to before {until}"),
                }?;
                self.2.map_or(Ok(()), |(since, until)| write!(f, ", {since} to before {until}"))
            }
        }
        Releases(self.since, self.until, self.again)
    }
}

impl Behaviour {
    /// Returns the behaviour's row.
    pub fn row(self) -> &'static BehaviourRow {
        &BEHAVIOURS[self as usize]
    }

    /// Returns the behaviour's name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Finds a behaviour by its name.
    pub fn named(name: &str) -> Option<Self> {
        BEHAVIOURS.iter().find(|row| row.name == name).map(|row| row.behaviour)
    }
}

/// A set of behaviours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Behaviours([u64; 3]);

impl Behaviours {
    /// Returns the behaviours of a mainline release.
    pub(crate) fn at(release: &str) -> Self {
        super::versions::version(release).map_or(Self::default(), Self::of)
    }

    /// Returns the behaviours of a mainline version.
    pub(crate) fn of(version: [u32; 3]) -> Self {
        let mut all = Self::default();
        for row in BEHAVIOURS.iter().filter(|row| row.is_in(version)) {
            all.set(row.behaviour, true);
        }
        all
    }

    /// Returns the number of behaviours that only one of two sets has.
    pub(crate) fn differing(self, other: Self) -> u32 {
        self.0.iter().zip(other.0).map(|(one, other)| (one ^ other).count_ones()).sum()
    }

    /// Returns whether the set has a behaviour.
    #[inline]
    pub const fn has(&self, behaviour: Behaviour) -> bool {
        self.0[behaviour as usize / 64] >> (behaviour as usize % 64) & 1 == 1
    }

    /// Adds or removes a behaviour.
    pub const fn set(&mut self, behaviour: Behaviour, on: bool) {
        let bit = 1 << (behaviour as usize % 64);
        if on {
            self.0[behaviour as usize / 64] |= bit;
        } else {
            self.0[behaviour as usize / 64] &= !bit;
        }
    }

    /// Returns the set with a behaviour added or removed.
    #[must_use]
    pub const fn with(mut self, behaviour: Behaviour, on: bool) -> Self {
        self.set(behaviour, on);
        self
    }

    /// Returns its rows, in the order of the table.
    pub fn rows(self) -> impl Iterator<Item = &'static BehaviourRow> {
        BEHAVIOURS.iter().filter(move |row| self.has(row.behaviour))
    }

    /// Whether CPUs are compared by load: from the first CFS with groups until 5.5.
    #[inline]
    pub(crate) const fn by_load(&self) -> bool {
        !self.has(Behaviour::ByType) && !self.has(Behaviour::Early)
    }
}

//! Behaviours: facts of the scheduler that changed once.
//!
//! A kernel is the set of behaviours in force at its release, with additions and removals where the kernel is not the
//! plain release. The scheduler asks `Config::has` and never compares versions.

mod rows;
mod rules;

use core::fmt;

pub use rows::{BEHAVIOURS, Behaviour};
pub use rules::Impossible;

/// The part of the scheduler that a behaviour belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Area {
    /// The O(1) scheduler.
    O1,
    /// CFS: the order by vruntime.
    Cfs,
    /// EEVDF: the order by virtual deadline.
    Eevdf,
    /// The fair class, whatever its order: load averages, groups, changes of attributes.
    Fair,
    /// The CPU that a waking or new task gets.
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
    /// What the kernel prints of itself.
    Debug,
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
            Self::Debug => "debug",
        }
    }
}

/// How the release of a behaviour is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Certainty {
    /// A recording, or the instructions of a running kernel, show the difference between two kernels.
    Recorded,
    /// The difference was read in the texts of a kernel that has the behaviour and of one that has not.
    Read,
    /// The release is from the mainline history as remembered. It was not compared with that kernel's text.
    Remembered,
}

impl Certainty {
    /// Returns the word that the tables print.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Read => "read",
            Self::Remembered => "remembered",
        }
    }
}

/// One behaviour: a row of the table.
#[derive(Clone, Copy, Debug)]
pub struct BehaviourRow {
    /// The behaviour.
    pub behaviour: Behaviour,
    /// Its name, as `--feature +NAME` takes it.
    pub name: &'static str,
    /// The part of the scheduler that it belongs to.
    pub area: Area,
    /// The release that introduced it. `None`: no release did; only single kernels have it.
    pub since: Option<&'static str>,
    /// The first release without it. `None`: every later release has it.
    pub until: Option<&'static str>,
    /// How the two releases are known.
    pub certainty: Certainty,
    /// What it does.
    pub what: &'static str,
    /// What switches it on a real kernel; empty if only another kernel does.
    pub switch: &'static str,
}

impl BehaviourRow {
    /// Returns whether the behaviour is in force at a release.
    pub(super) fn is_in(&self, release: [u32; 3]) -> bool {
        let reached = |version: &str| super::versions::version(version).is_some_and(|first| release >= first);
        self.since.is_some_and(reached) && !self.until.is_some_and(reached)
    }

    /// Returns the releases that have it: `6.12 to before 6.17`.
    pub fn releases(&self) -> impl fmt::Display + use<> {
        struct Releases(Option<&'static str>, Option<&'static str>);
        impl fmt::Display for Releases {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match (self.0, self.1) {
                    (None, _) => f.write_str("single kernels"),
                    (Some(since), None) => write!(f, "{since}+"),
                    (Some(since), Some(until)) => write!(f, "{since} to before {until}"),
                }
            }
        }
        Releases(self.since, self.until)
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
    /// Returns those in force at a release of mainline.
    pub(crate) fn at(release: &str) -> Self {
        let mut all = Self::default();
        if let Some(version) = super::versions::version(release) {
            for row in BEHAVIOURS.iter().filter(|row| row.is_in(version)) {
                all.set(row.behaviour, true);
            }
        }
        all
    }

    /// Returns whether the set has a behaviour.
    #[inline]
    pub const fn has(&self, behaviour: Behaviour) -> bool {
        self.0[behaviour as usize / 64] >> (behaviour as usize % 64) & 1 == 1
    }

    /// Adds a behaviour, or removes it.
    pub const fn set(&mut self, behaviour: Behaviour, on: bool) {
        let bit = 1 << (behaviour as usize % 64);
        if on {
            self.0[behaviour as usize / 64] |= bit;
        } else {
            self.0[behaviour as usize / 64] &= !bit;
        }
    }

    /// Returns the set with a behaviour added, or removed.
    #[must_use]
    pub const fn with(mut self, behaviour: Behaviour, on: bool) -> Self {
        self.set(behaviour, on);
        self
    }

    /// Returns the rows of its behaviours, in the order of the table.
    pub fn rows(self) -> impl Iterator<Item = &'static BehaviourRow> {
        BEHAVIOURS.iter().filter(move |row| self.has(row.behaviour))
    }

    /// Whether CPUs are compared by their loads, as between the first CFS with groups and 5.5.
    #[inline]
    pub(crate) const fn by_load(&self) -> bool {
        !self.has(Behaviour::ByType) && !self.has(Behaviour::Early)
    }
}

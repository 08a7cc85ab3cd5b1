//! Errors in the plan of a run.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use vruntime_sched::energy::EnergyError;
use vruntime_sched::kernels::{Behaviour, Impossible, SettingError, UnknownName, nearest};
use vruntime_workload::Source;

use crate::costs::{Costs, UnknownCost};
use crate::frequency::FrequencyError;
use crate::idle::IdleStateError;
use crate::topology::ParseTopologyError;

/// Why a run cannot be planned, with the place in a text.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    place: Option<Place>,
}

/// The place of a request.
#[derive(Clone, Debug)]
pub struct Place {
    /// The text: a scenario, a machine's description, or a file with one.
    pub source: Source,
    /// Its bytes.
    pub span: Range<usize>,
    /// One or two words on the place.
    pub label: &'static str,
}

/// The kind of an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An unknown kernel, feature or tunable.
    #[error("there is no {} `{}`{}", .0.kind, .0.name, neighbours(.0))]
    Unknown(UnknownName),
    /// Behaviours that contradict each other, or the kernel.
    #[error("{wrong}")]
    Impossible {
        /// What is wrong.
        wrong: Impossible,
        /// The behaviours that were added or removed by hand.
        forced: Vec<(Behaviour, bool)>,
    },
    /// A name that is neither a tunable nor a cost.
    #[error("there is no tunable or cost `{}`", .cost.name)]
    UnknownSetting {
        /// The known tunables.
        tunable: UnknownName,
        /// The known costs.
        cost: UnknownCost,
    },
    /// A tunable that the kernel lacks, or a value that it refuses.
    #[error("{0}")]
    Setting(SettingError),
    /// A kernel's name with a `+` that nothing follows.
    #[error("a + of `{0}` is followed by nothing")]
    NoPart(String),
    /// A tunable without value in a kernel's name.
    #[error("the tunable `{0}` has no value")]
    NoValue(String),
    /// An invalid value of a tunable in a kernel's name.
    #[error("`{0}` is not a whole number")]
    NotANumber(String),
    /// A tunable or a cost below 0.
    #[error("a negative value")]
    Negative,
    /// An unknown cost profile.
    #[error("{0}")]
    Profile(UnknownCost),
    /// An unknown cost.
    #[error("{0}")]
    Cost(UnknownCost),
    /// An invalid topology.
    #[error("{}", .0.message)]
    Topology(ParseTopologyError),
    /// The machine's file is unreadable.
    #[error("cannot read {}: {why}", file.display())]
    Unreadable {
        /// The path in the scenario.
        file: PathBuf,
        /// The system's message.
        why: String,
    },
    /// A CPU that the machine lacks.
    #[error("there is no CPU {cpu}: the machine has {cpus}, 0 to {}", cpus - 1)]
    NoSuchCpu {
        /// The CPU.
        cpu: u32,
        /// The machine's number of CPUs.
        cpus: usize,
    },
    /// Every CPU is isolated.
    #[error("every CPU of the machine is isolated")]
    AllIsolated,
    /// Invalid frequencies.
    #[error("{0}")]
    Frequency(FrequencyError),
    /// An energy model without one of the machine's clocks.
    #[error("other clocks have `power_mw`, but not this one")]
    NoPower,
    /// An invalid energy model.
    #[error("{0}")]
    Energy(EnergyError),
    /// Invalid idle states.
    #[error("{0}")]
    IdleStates(IdleStateError),
}

/// Whether it is a cost with the prefix of sysctls.
fn is_cost_of_kernel(name: &str) -> bool {
    name.strip_prefix("kernel.").is_some_and(|name| Costs::NAMES.contains(&name))
}

fn neighbours(unknown: &UnknownName) -> String {
    unknown.neighbours.map_or_else(String::new, |neighbours| format!(": {neighbours}"))
}

/// Returns the most similar name, or the kernel that has it.
fn meant(UnknownName { nearest, known, of, .. }: &UnknownName) -> String {
    let name = nearest.unwrap_or_default();
    match of {
        Some(kernel) if !known.contains(&name) && Behaviour::named(name).is_none() => {
            format!("`{name}`, which Linux {kernel} lacks")
        }
        _ => format!("`{name}`"),
    }
}

/// Returns how to mend an impossible combination of behaviours.
fn possible(wrong: Impossible, forced: &[(Behaviour, bool)]) -> String {
    // Takes back what was given by hand, else forces it.
    let sign = |on: bool| if on { '+' } else { '-' };
    let mend = |one: Behaviour, on: bool| match forced.iter().find(|(other, _)| *other == one) {
        Some((_, given)) if *given != on => format!("leave out {}{}", sign(*given), one.name()),
        _ => format!("add {}{}", sign(on), one.name()),
    };
    match wrong {
        Impossible::Needs(one, other) => format!("{}, or {}", mend(other, true), mend(one, false)),
        Impossible::Excludes(one, other) => format!("{}, or {}", mend(one, false), mend(other, false)),
        Impossible::NeedsFeature(one, feature) => format!("add +{}, or {}", feature.name(), mend(one, false)),
        Impossible::OtherPolicy(..) => {
            "leave it out; `vruntime kernels --behaviours KERNEL` lists the behaviours of a kernel".to_owned()
        }
    }
}

impl ErrorKind {
    fn help(&self) -> String {
        match self {
            Self::Unknown(unknown) => {
                let UnknownName { nearest, known, neighbours, of, kind, .. } = unknown;
                let known = match (known.join(", "), of) {
                    (none, Some(kernel)) if none.is_empty() => format!("Linux {kernel} has no {kind}s"),
                    (known, Some(kernel)) if *kind == "feature" => {
                        format!("Linux {kernel} has {known}, and its behaviours (docs/kernels.md)")
                    }
                    (known, Some(kernel)) => format!("Linux {kernel} has {known}"),
                    (known, None) => format!("there are {known}"),
                };
                match nearest {
                    Some(nearest) if neighbours.is_some() => format!("the nearest is {nearest}; {known}"),
                    Some(_) => format!("did you mean {}? {known}", meant(unknown)),
                    None => known,
                }
            }
            Self::UnknownSetting { cost, .. } if is_cost_of_kernel(&cost.name) => {
                "costs are no sysctls: leave `kernel.` out".to_owned()
            }
            Self::UnknownSetting { tunable, cost } => {
                // The more similar of a tunable and a cost is meant.
                let candidates: Vec<&str> = tunable.nearest.into_iter().chain(cost.nearest).collect();
                match nearest(&tunable.name, &candidates) {
                    Some(nearest) if tunable.nearest == Some(nearest) => format!("did you mean {}?", meant(tunable)),
                    Some(cost) => format!("did you mean `{cost}`?"),
                    None => {
                        let of = tunable.of.map_or_else(String::new, |kernel| format!(" of Linux {kernel}"));
                        format!("tunables{of} are {}; costs are {}", tunable.known.join(", "), Costs::NAMES.join(", "))
                    }
                }
            }
            Self::Setting(SettingError::OutOfRange { range, .. }) => {
                format!("give a whole number from {} to {}", range.start(), range.end())
            }
            Self::Impossible { wrong, forced } => possible(*wrong, forced),
            Self::Setting(_) => "leave it out, or choose a kernel that has it".to_owned(),
            Self::NoPart(_) => {
                "a + is followed by a feature, as in 6.12+NO_RUN_TO_PARITY, or by a tunable and its value, as in 6.12+base_slice_ns=3000000"
                    .to_owned()
            }
            Self::NoValue(name) => format!("write {name}=NUMBER, as in 6.12+base_slice_ns=3000000"),
            Self::NotANumber(_) => "write it as in 6.12+base_slice_ns=3000000".to_owned(),
            Self::Negative => "leave the sign out".to_owned(),
            Self::Profile(_) => format!("profiles are {}", Costs::PROFILES.join(", ")),
            Self::Cost(_) => format!("costs are {}", Costs::NAMES.join(", ")),
            Self::Topology(error) => error.help.clone(),
            Self::Unreadable { .. } => {
                "name a file that `lstopo machine.xml` wrote; its path is relative to the scenario".to_owned()
            }
            Self::NoSuchCpu { .. } => "name other CPUs, or describe a larger machine".to_owned(),
            Self::AllIsolated => "leave out at least one CPU, for tasks without an affinity".to_owned(),
            Self::Frequency(_) => "docs/capacity.md describes the format of clocks".to_owned(),
            Self::NoPower | Self::Energy(_) => "docs/capacity.md describes the format of energy models".to_owned(),
            Self::IdleStates(_) => "docs/capacity.md describes the format of idle states".to_owned(),
        }
    }
}

impl Error {
    pub(super) fn at(mut self, source: &Source, span: &Range<usize>, label: &'static str) -> Self {
        self.0.place = Some(Place { source: source.clone(), span: span.clone(), label });
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the place of the request, or `None` if the caller made it.
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// Returns how to mend the error.
    pub fn help(&self) -> String {
        self.0.kind.help()
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(Inner { kind, place: None }))
    }
}

impl From<SettingError> for ErrorKind {
    fn from(error: SettingError) -> Self {
        match error {
            SettingError::Unknown(unknown) => Self::Unknown(unknown),
            error => Self::Setting(error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.kind.fmt(f)
    }
}

impl std::error::Error for Error {}

//! Notes on a plan for the user.

use std::fmt;

use vruntime_sched::Kernel;
use vruntime_sched::features::FEATURES;
use vruntime_sched::kernels::{Behaviour, Distribution, bare_feature, has_feature, with_feature};
use vruntime_workload::plain;
use vruntime_workload::recording::Recording;
use vruntime_workload::scenario::Preempt;

use super::kernel::without_no;
use crate::config::effective_preempt;

/// A note. Its text is a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// A feature that is not modelled, and has no effect.
    NoDifference {
        /// The kernel's name for it.
        feature: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// A feature that only other kernels have.
    NotHere {
        /// The kernel.
        kernel: &'static str,
        /// The kernel's name for the feature.
        feature: &'static str,
        /// The oldest and the newest supported kernel with it.
        has: (&'static str, &'static str),
    },
    /// A behaviour that the kernel has before it is added, or lacks before it is removed.
    Unchanged {
        /// The kernel.
        kernel: &'static str,
        /// The behaviour's name.
        behaviour: &'static str,
        /// Whether it was to be added.
        added: bool,
    },
    /// A setting that a later one replaces.
    Overridden {
        /// The one without effect.
        given: Given,
        /// The one in effect.
        by: Given,
    },
    /// A background task whose CPUs the machine lacks.
    LeftOut {
        /// The task's name.
        resident: String,
    },
    /// The speed of two threads of a core, on a machine with one thread per core.
    NoSiblings,
    /// A part of a machine's description that the simulator ignores.
    MachineIgnored(String),
    /// A distribution whose releases have the scheduler of another kernel, or a later one.
    Distribution(Distribution),
    /// A preemption model that the kernel has no more.
    NoModel {
        /// The model.
        model: Preempt,
        /// The kernel.
        kernel: &'static str,
        /// The simulated model.
        instead: Preempt,
    },
    /// A recording with an unknown or unsupported preemption model.
    Preempt {
        /// The recorded model.
        recorded: Option<String>,
        /// The simulated model.
        instead: Preempt,
    },
}

/// A setting of the caller. Of several with one name, the last counts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Given {
    /// A feature ([`Overrides::features`](super::Overrides::features)).
    Feature(String),
    /// A tunable or a cost ([`Overrides::settings`](super::Overrides::settings)).
    Setting(String, u64),
    /// A feature or a tunable in a kernel's name.
    PartOf {
        /// The part.
        part: String,
        /// The whole name.
        kernel: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDifference { feature, why } => write!(f, "{feature} makes no difference here: {why}"),
            Self::NotHere { kernel, feature, has: (first, last) } => {
                write!(f, "Linux {kernel} has no {feature}: {first} to {last} have it")
            }
            Self::Unchanged { kernel, behaviour, added } => {
                let (sign, has) = if *added { ('+', "has") } else { ('-', "lacks") };
                write!(f, "{sign}{behaviour} has no effect: Linux {kernel} {has} it already")
            }
            Self::Overridden { given, by } => write!(f, "{given} has no effect: {by} overrides it"),
            Self::LeftOut { resident } => {
                write!(f, "`{resident}` of [[background]] is left out: this machine lacks its CPUs")
            }
            Self::NoSiblings => f.write_str(
                "smt_speedup has no effect: no core of this machine has two threads (they need a topology such as \"core:4 pu:2\")",
            ),
            Self::MachineIgnored(what) => f.write_str(what),
            Self::Distribution(distribution) => distribution.fmt(f),
            Self::NoModel { model, kernel, instead } => {
                let (model, instead) = (model.name(), instead.name());
                write!(f, "Linux {kernel} has no {model} preemption, which 7.0 removed: {instead} is simulated")
            }
            Self::Preempt { recorded: None, instead } => {
                write!(f, "no preemption model was recorded: {} is simulated", instead.name())
            }
            Self::Preempt { recorded: Some(name), instead } => {
                let (name, instead) = (plain(name), instead.name());
                write!(f, "the recorded preemption model, `{name}`, is not offered: {instead} is simulated")
            }
        }
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Feature(name) => f.write_str(name),
            Self::Setting(name, value) => write!(f, "{name}={value}"),
            Self::PartOf { part, kernel } => write!(f, "+{part} of {kernel}"),
        }
    }
}

/// Returns a note if a release's kernel is not the one of its numbers.
pub(super) fn of_distribution(release: &str) -> Option<Note> {
    Distribution::of(release).map(Note::Distribution)
}

/// Returns a note if a recording's preemption model is unknown or unsupported.
pub fn preempt_not_known(recording: &Recording, kernel: &Kernel) -> Option<Note> {
    let recorded = recording.preempt.clone();
    let known = recorded.as_deref().is_some_and(|name| Preempt::from_name(name).is_some());
    (!known).then(|| Note::Preempt { recorded, instead: effective_preempt(Preempt::default(), kernel) })
}

/// Returns a note if the kernel has a chosen preemption model no more.
pub(super) fn preempt_not_here(model: Preempt, kernel: &Kernel) -> Option<Note> {
    let instead = effective_preempt(model, kernel);
    let removed = model != instead && model != Preempt::Lazy;
    removed.then_some(Note::NoModel { model, kernel: kernel.name, instead })
}

pub(super) fn of_feature(name: &str, kernel: &Kernel) -> Vec<Note> {
    let bare = without_no(name);
    let Some(row) = FEATURES.iter().find(|row| row.name == bare) else { return Vec::new() };
    let no_difference = row.feature.without_effect().map(|why| Note::NoDifference { feature: row.name, why });
    let elsewhere = with_feature(row.feature).filter(|_| !has_feature(kernel.name, row.feature));
    let not_here = elsewhere.map(|has| Note::NotHere { kernel: kernel.name, feature: row.name, has });
    no_difference.into_iter().chain(not_here).collect()
}

/// Returns a note if a behaviour that is to be switched is on or off already.
pub(super) fn of_unchanged(part: &str, kernel: &Kernel) -> Option<Note> {
    let (name, added) = bare_feature(part);
    let behaviour = Behaviour::named(name)?;
    let is_forced = kernel.forced().iter().any(|(forced, _)| *forced == behaviour);
    let unchanged = !is_forced && kernel.behaviours.has(behaviour) == added;
    unchanged.then_some(Note::Unchanged { kernel: kernel.name, behaviour: behaviour.name(), added })
}

/// Adds a note for each of `all` that a later one of that name replaces with another value.
pub(super) fn overridden<T: PartialEq>(
    all: &[T],
    name: impl Fn(&T) -> &str,
    given: impl Fn(&T) -> Given,
    notes: &mut Vec<Note>,
) {
    for (index, one) in all.iter().enumerate() {
        let last = all[index + 1..].iter().rfind(|next| name(next) == name(one));
        if let Some(last) = last.filter(|last| *last != one) {
            notes.push(Note::Overridden { given: given(one), by: given(last) });
        }
    }
}

//! `vruntime reproduce`.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::commands::Experiment;

#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// The experiment
    #[arg(value_name = "NAME", default_value = "all")]
    pub(crate) name: Which,
    /// Write the results, and a page with charts, to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// What the program does of itself when it is run under callgrind
    #[arg(long, value_name = "TASK", hide = true)]
    pub(crate) counted: Option<String>,
}

/// The experiments to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    One(Experiment),
}

impl ValueEnum for Which {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::All,
            Self::One(Experiment::IdleGroups),
            Self::One(Experiment::Ctxsw),
            Self::One(Experiment::SpuriousMigration),
            Self::One(Experiment::Cpurc),
            Self::One(Experiment::GroupSwitches),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::All => PossibleValue::new("all").help("All of them"),
            Self::One(experiment) => PossibleValue::new(experiment.name()).help(experiment.what()),
        })
    }
}

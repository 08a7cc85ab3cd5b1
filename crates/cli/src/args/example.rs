//! `vruntime example`, `vruntime init` and `vruntime new-policy`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::examples::EXAMPLES;

#[derive(Debug, Args)]
pub(crate) struct ExampleOf {
    /// Print this example; without a name, list all
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(EXAMPLES.map(|example| example.name)))]
    pub(crate) name: Option<String>,
    /// Print the list as JSON
    #[arg(long, conflicts_with = "name")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The file to write; - prints the scenario
    #[arg(value_name = "FILE", default_value = "scenario.toml")]
    pub(crate) file: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NewPolicy {
    /// The name of the policy and of its crate: letters, digits, - and _
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The folder to create (default: NAME)
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// The checkout of vruntime that the crate uses (default: the one that contains the current folder)
    #[arg(long, value_name = "DIR")]
    pub(crate) vruntime: Option<PathBuf>,
}

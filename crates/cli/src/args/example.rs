//! `vruntime example` and `vruntime init`.

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

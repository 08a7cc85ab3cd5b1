//! `vruntime calibrate` and `vruntime real`.

use std::path::PathBuf;

use clap::Args;

use super::number;

#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// Leave the machine in this file [default: ~/.config/vruntime/machine.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // switches of the command line
pub(crate) struct Real {
    /// An rt-app file (JSON), a scenario (TOML), an example by its name (`vruntime example`), or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Stop after so long, such as 5s or 500ms; at most 1000000s (default: the file's, else until all tasks have ended)
    #[arg(long, value_name = "TIME", value_parser = vruntime_workload::parse_length, allow_hyphen_values = true)]
    pub(crate) duration: Option<u64>,
    /// Run so many times, and tell the spread
    #[arg(long, value_name = "N", default_value = "1", value_parser = number(1..=1000u16), allow_negative_numbers = true)]
    pub(crate) repeat: u16,
    /// Leave results.json in this folder, and trace.txt, what the kernel recorded of the (first) run, if it lets us;
    /// with groups also cgroups.txt, what the machine said of them
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Leave a log for each task in this folder, as rt-app would, of the (first) run
    #[arg(long, value_name = "DIR")]
    pub(crate) rtapp_log: Option<PathBuf>,
    /// Do not have the kernel record the run: of what `--out` leaves, neither trace.txt nor cgroups.txt
    #[arg(long)]
    pub(crate) no_trace: bool,
    /// Begin even what may hang the machine
    #[arg(long)]
    pub(crate) force: bool,
    /// Take whatever the input would be warned of for an error
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print the results as JSON, in the shape of the recordings
    #[arg(long)]
    pub(crate) json: bool,
}

//! `vruntime reproduce` repeats the experiments of five documents about the Linux scheduler.
//!
//! Each experiment has a file. `published` has the documents' figures. `native` measures the scheduler's own code on
//! this machine.

mod cpurc;
mod ctxsw;
mod group_switches;
mod idle_groups;
mod native;
mod published;
mod spurious_migration;

use miette::IntoDiagnostic;
use vruntime_report::{Collector, FigureTable, Reproduced, Results, counted};
use vruntime_sim::{Config, Outcome};
use vruntime_trace::Sink;
use vruntime_workload::program::Workload;

use super::write_file;
use crate::args::{Model, Reproduce, Which};
use crate::input::{self, Input};
use crate::output_paths::OutputPaths;
use crate::plan::plan;
use crate::simulate::Failure;
use crate::{Ended, interrupt, leftovers, output, simulate};

/// The experiments, by their documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Experiment {
    IdleGroups,
    Ctxsw,
    SpuriousMigration,
    Cpurc,
    GroupSwitches,
}

impl Experiment {
    /// All experiments, in the order of `published`.
    const ALL: [Self; 5] = [Self::IdleGroups, Self::Ctxsw, Self::SpuriousMigration, Self::Cpurc, Self::GroupSwitches];

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::IdleGroups => "idle-groups",
            Self::Ctxsw => "ctxsw",
            Self::Cpurc => "cpurc",
            Self::GroupSwitches => "group-switches",
            Self::SpuriousMigration => "spurious-migration",
        }
    }

    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Cpurc => "A compilation gets the share it is guaranteed (2.6.15-cpurc, and weights under 6.12)",
            Self::Ctxsw => "The cost of a context switch, with knobs and with constants (2.6.22, 2.6.23, 6.12)",
            Self::GroupSwitches => "The cost of counting context switches by group, 30 levels deep (3.10, 6.12)",
            Self::IdleGroups => "The cost of ten thousand idle groups (3.10, 3.12)",
            Self::SpuriousMigration => "Five threads that should stay where they are (3.17, 3.18, 6.12)",
        }
    }

    fn run(self) -> miette::Result<Reproduced> {
        match self {
            Self::IdleGroups => idle_groups::reproduce(),
            Self::Ctxsw => ctxsw::reproduce(),
            Self::Cpurc => cpurc::reproduce(),
            Self::GroupSwitches => group_switches::reproduce(),
            Self::SpuriousMigration => spurious_migration::reproduce(),
        }
    }
}

/// The files of `--out`.
const FILES: [&str; 2] = ["reproduce.json", "reproduce.html"];

pub(crate) fn reproduce(reproduce: &Reproduce) -> miette::Result<Ended> {
    // A child process under callgrind performs one task.
    if let Some(task) = &reproduce.counted {
        native::instructions::perform(task)?;
        return Ok(Ended::Well);
    }
    let outputs = OutputPaths::default();
    outputs.folder("--out", reproduce.out.as_deref(), &FILES).check()?;
    let one = match reproduce.name {
        Which::All => None,
        Which::One(experiment) => Some(experiment),
    };
    let chosen = one.as_ref().map_or(Experiment::ALL.as_slice(), std::slice::from_ref);
    let mut all = Vec::new();
    for (index, experiment) in chosen.iter().enumerate() {
        if chosen.len() > 1 {
            output::note(&format!("{} of {}: {}", index + 1, chosen.len(), experiment.name()));
        }
        let reproduced = experiment.run();
        if interrupt::asked() {
            // A partial experiment has no result.
            break;
        }
        let reproduced = reproduced?;
        if !reproduce.json {
            let gap = if index > 0 { "\n\n" } else { "" };
            output::print(&format!("{gap}{}", reproduced.text()));
        }
        all.push(reproduced);
    }
    let json = serde_json::to_value(&all).into_diagnostic()?;
    if let Some(folder) = &reproduce.out {
        let [of_json, of_html] = FILES;
        write_file(folder, of_json, &format!("{json:#}\n"))?;
        let page =
            Reproduced::page(&all, &machine()).map_err(|error| miette::miette!("cannot make a page: {error}"))?;
        write_file(folder, of_html, &page)?;
        leftovers::replace_out(folder, "reproduce", &FILES.map(str::to_owned).into())?;
    }
    let (met, claims) = all.iter().map(Reproduced::met).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if reproduce.json {
        output::print_json(&json);
    } else {
        output::print(&format!("\n{met} of {claims} claims met\n"));
    }
    Ok(if interrupt::asked() {
        Ended::Interrupted
    } else if all.iter().flat_map(|one| &one.claims).any(|claim| claim.met == Some(false)) {
        Ended::NotMet
    } else {
        Ended::Well
    })
}

/// Describes this machine: processor and number of CPUs.
fn machine() -> String {
    let cpus = simulate::cpus();
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("a machine", |(_, name)| name.trim());
    format!("{model}, {}", counted(cpus as u64, "CPU", "CPUs"))
}

/// Plans an embedded scenario under a kernel, with its own seed or the default.
fn scenario(name: &str, text: &str, kernel: &str) -> miette::Result<(Input, Config)> {
    let input = input::scenario(name, text)?;
    let plan = plan(&input, Some(kernel), None, &Model::default())?;
    Ok((input, plan.config))
}

/// Simulates one run. Ctrl-C is an error. The sink is called dynamically, so that the simulator is not compiled again
/// for each sink.
fn simulate(workload: &Workload, config: &Config, sink: &mut dyn Sink) -> miette::Result<Outcome> {
    let mut watch = |_| {
        if interrupt::asked() { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    };
    let outcome = vruntime_sim::run_dyn(workload, config, sink, &mut watch).map_err(Failure::Refused)?;
    if outcome.interrupted { Err(miette::miette!("the experiment was interrupted")) } else { Ok(outcome) }
}

fn results(workload: &Workload, config: &Config) -> miette::Result<Results> {
    let mut collector = Collector::new(config.machine.topology.nr_cpus());
    simulate(workload, config, &mut collector)?;
    Ok(collector.into_results())
}

/// Makes a table. `left`: number of text columns at the left.
fn table(title: &str, head: &[&str], left: usize, rows: Vec<Vec<String>>) -> FigureTable {
    FigureTable { title: title.to_owned(), head: head.iter().map(|&name| name.to_owned()).collect(), left, rows }
}

/// Formats 1.115 as `+11.5 %`.
fn percent_more(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// Formats `892`, or `892 to 927`.
fn range(values: &[u64]) -> String {
    match (values.iter().min(), values.iter().max()) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(least), _) => least.to_string(),
        _ => "none".to_owned(),
    }
}

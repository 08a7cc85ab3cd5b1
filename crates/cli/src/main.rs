//! The `vruntime` command: runs workloads on simulated machines, and reports the results.
#![forbid(unsafe_code)]
// User input causes errors, and never panics. Exceptions give a reason in place.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

mod args;
mod benchmarks;
mod commands;
mod complaint;
mod error_place;
mod examples;
mod input;
mod inputs;
mod interrupt;
mod leftovers;
mod machine;
mod machine_file;
mod observers;
mod output;
mod output_file;
mod output_paths;
mod plan;
mod rtapp_log;
mod rules;
mod simulate;
mod tables;
mod trace_file;
mod vary;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

/// The end of a command without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Well,
    /// Violations or differences were found.
    Detected,
    /// A claim was not met, or events were not compared.
    NotMet,
    /// Ctrl-C: the results so far are printed.
    Interrupted,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let error = args::with_tip(error);
            // Help and version go to standard output, and are no errors.
            let failed = error.use_stderr();
            if failed {
                output::mistaken(&error);
            } else {
                output::flush(error.print());
            }
            return ExitCode::from(u8::from(failed));
        }
    };
    interrupt::install();
    output::fit_tables();
    #[cfg(target_os = "linux")]
    if matches!(arguments.command, Command::Calibrate(_) | Command::Real(_) | Command::Record(_)) {
        interrupt::careful();
    }
    let ended = match &arguments.command {
        Command::Run(run) => commands::run(run),
        Command::Bisect(bisect) => commands::bisect(bisect),
        Command::Compare(compare) => commands::compare(compare),
        Command::Example(example) => commands::example(example),
        Command::Init(init) => commands::init(init),
        Command::Kernels(kernels) => commands::kernels(kernels),
        Command::Machines(machines) => commands::machines(machines),
        Command::Fidelity(fidelity) => commands::fidelity(fidelity),
        #[cfg(target_os = "linux")]
        Command::Calibrate(calibrate) => commands::calibrate(calibrate),
        #[cfg(target_os = "linux")]
        Command::Real(real) => commands::real(real),
        #[cfg(target_os = "linux")]
        Command::Record(record) => commands::record(record),
        Command::Replay(replay) => commands::replay(replay),
        Command::Reproduce(reproduce) => commands::reproduce(reproduce),
        Command::Trace(trace) => commands::trace(trace),
        Command::Diff(diff) => commands::diff(diff),
        Command::Completions(completions) => commands::completions(completions),
        Command::Man(man) => commands::man(man),
        Command::Notices => commands::notices(),
    };
    match ended {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Detected | Ended::NotMet) => ExitCode::from(2),
        Ok(Ended::Interrupted) => ExitCode::from(130),
        Err(report) => {
            output::complain(&report);
            ExitCode::FAILURE
        }
    }
}

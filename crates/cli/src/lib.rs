//! The `vruntime` command as a library: it runs workloads on simulated machines, and prints the results.
//!
//! A program of your own can be the same command with more policies; `vruntime new-policy NAME` writes such a crate:
//!
//! ```no_run
//! # use vruntime_sched::class::fair::Eevdf;
//! fn main() -> std::process::ExitCode {
//!     vruntime::main(vec![vruntime::UserPolicy::new::<Eevdf>("mine")])
//! }
//! ```
#![forbid(unsafe_code)]
// Bad input of a user is an error, never a panic. Code that cannot fail says why at its place.
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
mod foreign;
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
mod policies;
mod rtapp_log;
mod rules;
mod simulate;
mod tables;
mod trace_file;
mod trail;
mod vary;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};
pub use policies::UserPolicy;

/// How a command ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// As it should.
    Well,
    /// As it should, and the detector found violations.
    Detected,
    /// As it should, and not all that was to be shown was.
    NotMet,
    /// By Ctrl-C, with results printed so far.
    Interrupted,
}

/// Runs the command with the arguments of this process. `--kernel` also takes the names of `policies`.
pub fn main(policies: Vec<UserPolicy>) -> ExitCode {
    if let Err(report) = policies::add(policies) {
        output::complain(&report);
        return ExitCode::FAILURE;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let error = args::with_tip(error);
            // Requested help and version are for standard output. Everything else is a mistake.
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
        Command::NewPolicy(asked) => commands::new_policy(asked),
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

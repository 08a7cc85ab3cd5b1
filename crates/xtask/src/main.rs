//! `cargo xtask`: tools for vruntime's developers.
//!
//! They check what no test of one crate can: two builds against each other, real kernels in QEMU, layers, texts.
//! `make test` also runs the checks of layers and texts. `cargo xtask help` lists all tools. The alias is in
//! `.cargo/config.toml`.
//!
//! ```text
//! $ cargo xtask prose docs/limits.md                          # findings of the language check in one page
//! $ cargo xtask builds target/before/vruntime target/after/vruntime    # output that a change changed
//! $ cargo xtask seeds --count 200 --only limits               # random tests under many seeds
//! ```
// Machines take real time.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]
#![deny(clippy::print_stdout)]

mod builds;
mod command;
mod here;
mod kernels;
mod layers;
mod models;
mod notices;
mod print;
mod prose;
mod rtapp;
mod seeds;
mod traces;
mod whatif;

use clap::Parser;

/// What vruntime's developers run beside its tests
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Xtask {
    /// Run every scenario with two builds of the command, and compare their output byte by byte
    Builds(builds::Builds),
    /// Boot stock Debian kernels under QEMU's software emulation, and record the fidelity suite there
    Kernels(kernels::Kernels),
    /// Print the largest import cycle among the modules of crates/sched, and imports from higher layers
    Layers(layers::Layers),
    /// Run benchmarks for real, and simulate their models on this machine with measured costs
    Models(models::Models),
    /// Write the licences of all packages that the command contains, and a bill of its materials
    Notices(notices::Notices),
    /// Print every finding of the language check, and the word and sentence counts
    Prose(prose::Prose),
    /// Run the same files with rt-app itself and with `vruntime real`, and compare their logs
    #[command(name = "rt-app")]
    RtApp(rtapp::RtApp),
    /// Run every test that draws at random under many seeds
    Seeds(seeds::Seeds),
    /// Check what vruntime says of real traces that are not part of the repository
    Traces(traces::Traces),
    /// Predict what happens to real programs, and measure what does
    #[command(name = "whatif")]
    WhatIf(whatif::WhatIf),
}

fn main() -> miette::Result<()> {
    match Xtask::parse() {
        Xtask::Builds(builds) => builds.run(),
        Xtask::Kernels(kernels) => kernels.run(),
        Xtask::Layers(layers) => layers.run(),
        Xtask::Models(models) => models.run(),
        Xtask::Notices(notices) => notices.run(),
        Xtask::Prose(prose) => prose.run(),
        Xtask::RtApp(rtapp) => rtapp.run(),
        Xtask::Seeds(seeds) => seeds.run(),
        Xtask::Traces(traces) => traces.run(),
        Xtask::WhatIf(what_if) => what_if.run(),
    }
}

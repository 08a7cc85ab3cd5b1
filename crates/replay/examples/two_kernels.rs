//! A trace replayed under two kernels: what each task had of the CPUs in the recording, and what it has under each.
//!
//! `cargo run -p vruntime-replay --example two_kernels`, or behind `--` with a trace of your own and, if
//! you have it, what its machine wrote about its groups (docs/replay.md).

use std::error::Error;

use vruntime_replay::recorded::rules::Rules;
use vruntime_replay::{ReadOptions, Recording, Replay, Setup};
use vruntime_report::ReplayCheck;
use vruntime_sim::plan::Overrides;
use vruntime_workload::cgroups::Cgroups;

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/data/groups.pftrace");
const GROUPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/data/groups-cgroups.txt");

fn replay(trace: &str, groups: Option<&str>, kernel: &str) -> Result<ReplayCheck, Box<dyn Error>> {
    let mut recording = Recording::open(trace, &ReadOptions::default())?;
    if let Some(groups) = groups {
        recording = recording.with_cgroups(&Cgroups::read(groups, &std::fs::read(groups)?)?);
    }
    let replay = Replay::new(&recording, &Setup::default())?;
    let other = Overrides { kernel: Some(kernel.to_owned()), ..Overrides::default() };
    let what_if = replay.what_if(replay.plan(&other)?, &Rules::default(), &[])?;
    let (replayed, predicted) = (replay.run()?, replay.run_what_if(&what_if, &Rules::default())?);
    Ok(replay.compare(replayed.ran(), Some((&what_if, predicted.ran()))))
}

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<String> = std::env::args().skip(1).collect();
    let check = match &files[..] {
        [] => replay(TRACE, Some(GROUPS), "6.1")?,
        [trace, groups @ ..] => replay(trace, groups.first().map(String::as_str), "6.1")?,
    };
    println!("{:<24} {:>12} {:>12} {:>12}", "CPU time, ms", "recorded", "replayed", "Linux 6.1");
    for task in &check.tasks {
        let what_if = task.what_if.unwrap_or_default();
        let ms = [task.recorded, task.replayed, what_if].map(|measure| measure.cpu_ns as f64 / 1e6);
        println!("{:<24} {:>12.3} {:>12.3} {:>12.3}", task.name, ms[0], ms[1], ms[2]);
    }
    Ok(())
}

/// `cargo test -p vruntime-replay --example two_kernels`.
#[test]
fn the_replay_is_close_and_the_kernels_differ() {
    let check = replay(TRACE, Some(GROUPS), "6.1").unwrap();
    let cpu_ns = |pick: fn(&vruntime_report::ReplayTask) -> u64| check.tasks.iter().map(pick).collect::<Vec<u64>>();
    let recorded = cpu_ns(|task| task.recorded.cpu_ns);
    let replayed = cpu_ns(|task| task.replayed.cpu_ns);
    let older = cpu_ns(|task| task.what_if.unwrap_or_default().cpu_ns);
    let largest = recorded[0];
    assert!(replayed[0].abs_diff(largest) < largest / 20, "{largest} ns recorded, {} ns replayed", replayed[0]);
    assert!(older.iter().sum::<u64>() > 0 && older != replayed);
}

//! A scheduling policy of your own on a hundred machines, beside 6.12: shortest expected burst first.
//!
//! `cargo run -p vruntime-sim --example topologies` prints a comparison for each kind of machine, and the worst
//! machine. With one of these machines behind `--` it writes traces of a run for ui.perfetto.dev to the folder of
//! temporary files.

#[path = "topologies/shortest.rs"]
mod shortest;

use std::env;
use std::error::Error;
use std::fs::File;

use vruntime_report::Collector;
use vruntime_sched::kernel;
use vruntime_sim::{Config, MachineSpec, parallel, parse_topology, run, run_policy};
use vruntime_trace::{PerfettoWriter, Sink};
use vruntime_workload::program::{Op, Phase, Task, Workload};

use shortest::Shortest;

const MS: u64 = 1_000_000;

/// Kinds of cores: threads per core, and capacities in turn.
const CORES: [(&str, u32, &[u32]); 5] = [
    ("one thread each", 1, &[1024]),
    ("two threads", 2, &[1024]),
    ("four threads", 4, &[1024]),
    ("every second is big", 1, &[1024, 512]),
    ("every third is big", 1, &[1024, 400, 250]),
];

/// Twenty machines of each kind: one or two NUMA nodes with one or two caches of one to eight cores each.
fn machines() -> Vec<String> {
    let mut all = Vec::new();
    for (_, threads, capacities) in CORES {
        for (nodes, caches) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            for cores in [1, 2, 3, 4, 8] {
                let each: Vec<String> = capacities.iter().cycle().take(cores).map(u32::to_string).collect();
                let each = each.join(",");
                all.push(format!("numa:{nodes} l3:{caches} core:{cores}(capacity={each}) pu:{threads}"));
            }
        }
    }
    all
}

/// For each CPU a web thread, which runs 1.0 to 1.6 ms and sleeps 3 ms, and a batch thread, which never sleeps.
fn workload(cpus: usize) -> Workload {
    let task = |class: &str, cpu, ops: &[Op]| Task {
        class: class.to_owned(),
        ..Task::new(format!("{class}-{cpu}"), [Phase::forever(ops)])
    };
    let pair = |cpu| {
        let request = Op::Run { work: MS + cpu as u64 % 7 * MS / 10 };
        [task("web", cpu, &[request, Op::Sleep { time: 3 * MS }]), task("batch", cpu, &[Op::Run { work: MS }])]
    };
    Workload { tasks: (0..cpus).flat_map(pair).collect(), ..Workload::default() }
}

type Failure = Box<dyn Error + Send + Sync>;

/// Runs the workload for `time` nanoseconds, under the policy or under 6.12, with `sink`.
fn simulate(machine: &str, time: u64, own: bool, sink: &mut impl Sink) -> Result<(), Failure> {
    let machine = MachineSpec::new(parse_topology(machine)?);
    let workload = workload(machine.topology.nr_cpus());
    let config = Config { duration: Some(time), ..Config::new(kernel("6.12")?, machine) };
    let run = if own { run_policy::<Shortest, _> } else { run };
    run(&workload, &config, sink)?;
    Ok(())
}

/// The policy's figures divided by those of 6.12: the 99th percentile of web's wakeup latency, requests, batches.
fn compare(machine: &str, time: u64) -> Result<[f64; 3], Failure> {
    let of = |own| {
        let mut collector = Collector::new(parse_topology(machine)?.nr_cpus());
        simulate(machine, time, own, &mut collector)?;
        let [web, batch] = &collector.into_results().classes[..] else { return Err("not two classes".into()) };
        // Latencies below 10 us do not matter.
        let late = web.wakeup_latency.map_or(0, |latency| latency.p99_ns).max(10_000);
        Ok::<_, Failure>([late, web.account.loops, batch.account.loops])
    };
    let (own, six) = (of(true)?, of(false)?);
    Ok([0, 1, 2].map(|figure| own[figure] as f64 / six[figure] as f64))
}

/// Compares on every machine, in order, on all CPUs of this computer.
fn compare_all(machines: &[String], time: u64) -> Result<Vec<[f64; 3]>, Failure> {
    parallel(machines, |_, machine| compare(machine, time)).into_iter().collect()
}

/// A line of the table: geometric means over some machines.
fn line(name: &str, of: &[[f64; 3]]) -> String {
    let mean = |figure: usize| (of.iter().map(|one| one[figure].ln()).sum::<f64>() / of.len() as f64).exp();
    format!("{:>8.2}{:>10.2}{:>10.2}  {name}\n", mean(0), mean(1), mean(2))
}

fn table(machines: &[String], compared: &[[f64; 3]]) -> String {
    let mut text = " web p99  requests   batches  cores\n".to_owned();
    for ((name, ..), of) in CORES.iter().zip(compared.chunks(machines.len() / CORES.len())) {
        text += &line(name, of);
    }
    text += &line("all", compared);
    text += "\nworst for web on\n";
    let mut worst: Vec<_> = compared.iter().zip(machines).collect();
    worst.sort_by(|(a, _), (b, _)| b[0].total_cmp(&a[0]));
    for (one, machine) in worst.iter().take(3) {
        text += &line(machine, &[**one]);
    }
    text
}

fn main() -> Result<(), Failure> {
    if let Some(machine) = env::args().nth(1) {
        // A misspelt one leaves no files.
        parse_topology(&machine)?;
        for (own, name) in [(true, "shortest.perfetto-trace"), (false, "6.12.perfetto-trace")] {
            let path = env::temp_dir().join(name);
            let mut trace = PerfettoWriter::new(File::create(&path)?);
            simulate(&machine, 200 * MS, own, &mut trace)?;
            trace.finish_writing()?;
            println!("{}", path.display());
        }
        return Ok(());
    }
    let machines = machines();
    println!("{} machines, a second each; multiples of 6.12\n", machines.len());
    print!("{}", table(&machines, &compare_all(&machines, 1000 * MS)?));
    Ok(())
}

/// `cargo test -p vruntime-sim --example topologies`.
#[test]
fn the_guide_shows_what_it_prints() {
    let machines = machines();
    let printed = table(&machines, &compare_all(&machines, 1000 * MS).unwrap());
    assert!(include_str!("../../../docs/policy.md").contains(&printed), "docs/policy.md should have\n{printed}");
}

//! What the target `replay` demands of a trace, and `crates/cli/tests/hostile.rs` of every one that the fuzzer has
//! kept: whatever the text, programs that hold together, and a run of their beginning that ends. With rules: the first
//! line is one if it begins with `#!`. With task groups: the lines that begin with `#/` say where the machine had its
//! threads.

use std::ops::ControlFlow;

use vruntime_replay::event::{Clock, MAX_CPUS, what};
use vruntime_replay::recorded::rules::Rules;
use vruntime_replay::recorded::{Event, Lateness, Recorder};
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology};
use vruntime_trace::NoSink;
use vruntime_trace::read::TextReader;
use vruntime_workload::cgroups::Cgroups;
use vruntime_workload::{Severity, SourceMap, check};

/// What was made of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replayed {
    /// Events that mean something to a replay.
    pub(crate) events: usize,
    /// Tasks as recorded, and with its rule.
    pub(crate) tasks: Vec<usize>,
    /// What was refused, and why: its rule, what it says of groups, runs.
    pub(crate) refused: Vec<String>,
}

/// Replays a trace as recorded, and with its rule.
pub(crate) fn replay(bytes: &[u8]) -> Replayed {
    let mut made = Replayed::default();
    let mut rules = Rules::default();
    let mut trace = bytes;
    if let Some(rest) = bytes.strip_prefix(b"#!") {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        // A wrong rule is an error, and shows where.
        if let Err(error) = rules.add(&String::from_utf8_lossy(&rest[..end])) {
            assert!(error.span().is_some_and(|span| error.source_text().text().get(span).is_some()), "{error}");
            made.refused.push(error.to_string());
        }
        trace = &rest[end..];
    }
    let (mut clock, mut recorder, mut cpus) = (Clock::default(), Recorder::new().with_capacities(vec![512, 1024]), 1);
    let groups = bytes.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"#/"));
    let groups: Vec<u8> = groups.flat_map(|line| line[1..].iter().copied().chain([b'\n'])).collect();
    match Cgroups::read("groups", &groups) {
        Ok(cgroups) => recorder = recorder.with_cgroups(cgroups),
        Err(error) => {
            let shows = |span| error.source_text().text().get(span).is_some();
            assert!(error.span().is_none_or(shows), "{error}");
            if !groups.is_empty() {
                made.refused.push(error.to_string());
            }
        }
    }
    let mut events = TextReader::new(trace);
    while let Ok(Some(record)) = events.next_record() {
        let at = clock.time(&record);
        if record.cpu as usize >= MAX_CPUS {
            continue;
        }
        cpus = cpus.max(record.cpu as usize + 1);
        if let Some(what) = what(&record) {
            let vruntime_trace::Record { cpu, pid, tgid, context, .. } = record;
            made.events += 1;
            recorder.add(&Event { at, cpu, pid, tgid, context, what });
        }
    }
    let lateness = Lateness { timer: 2000, slack: 50_000 };
    let recorded = recorder.clone().finish(&lateness);
    let mut changed = recorder.without(rules.removed(&recorded.threads)).finish(&lateness);
    if let Err(error) = rules.apply(&mut changed, &recorded.threads, cpus) {
        made.refused.push(error.to_string());
        changed = recorded.clone();
    }
    for workload in [recorded.workload, changed.workload] {
        let found = check::check(&workload, &SourceMap::default());
        let wrong: Vec<_> = found.iter().filter(|problem| problem.severity() == Severity::Error).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        made.tasks.push(workload.tasks.len());
        if cpus > 8 || workload.tasks.len() > 200 {
            continue;
        }
        let Ok(topology) = parse_topology(&cpus.to_string()) else { continue };
        let mut machine = MachineSpec::new(topology);
        machine.costs = Costs::default();
        let kernel = vruntime_sched::kernel("6.18").expect("it is one of ours");
        let config = Config { duration: Some(20_000_000), seed: 1, ..Config::new(kernel, machine) };
        // It may be refused, such as real-time tasks in groups that may have none; it may not panic, nor go on.
        let ran = vruntime_sim::run_dyn(&workload, &config, &mut NoSink, &mut |_| ControlFlow::Continue(()));
        made.refused.extend(ran.err().map(|error| error.to_string()));
    }
    made
}

//! Replays that charge switches and wakeups, instead of repeating their recorded costs as work.

use vruntime_replay::{ReadOptions, Recording, Replay, Setup};
use vruntime_sim::plan::Overrides;
use vruntime_sim::{Config, Costs, MachineSpec, SwitchCosts, parse_topology};
use vruntime_trace::FtraceWriter;
use vruntime_workload::program::{Op, Phase, Semaphore, Task, Workload};

const US: u64 = 1_000;
const COSTS: SwitchCosts = SwitchCosts { switch_ns: 2_000, cold_switch_ns: 1_000, wakeup_ns: 1_500, wakeup_far_ns: 0 };

/// Two pairs of tasks on one CPU hand a token to and fro.
fn pairs() -> Workload {
    let mut all = Workload { duration: Some(500_000 * US), ..Workload::default() };
    for (pair, work) in [("a", 30 * US), ("b", 50 * US)] {
        let there = all.semaphores.len();
        for name in ["there", "back"] {
            all.semaphores.push(Semaphore { name: format!("{name}-{pair}"), initial: 0 });
        }
        let mut add = |name: &str, ops: Vec<Op>| {
            all.tasks.push(Task::new(format!("{name}-{pair}"), [Phase::forever(ops)]));
        };
        add("asks", vec![Op::Run { work }, Op::SemPost(there), Op::SemWait(there + 1)]);
        add("answers", vec![Op::SemWait(there), Op::Run { work }, Op::SemPost(there + 1)]);
    }
    all
}

/// The trace of a machine whose switches and wakeups have costs.
fn trace() -> Vec<u8> {
    let machine = MachineSpec {
        costs: Costs::profile("zero").expect("it is one").of_replay(COSTS),
        ..MachineSpec::new(parse_topology("1").expect("it is valid"))
    };
    let config = Config::new(vruntime_sched::kernel("6.18").expect("it is one"), machine);
    let mut writer = FtraceWriter::new(Vec::new(), 1).nanoseconds().with_kernel("6.18");
    vruntime_sim::run(&pairs(), &config, &mut writer).expect("it runs");
    writer.finish_writing().expect("memory takes it")
}

fn recording(trace: &[u8], switch_costs: Option<SwitchCosts>) -> Recording {
    let options = ReadOptions { switch_costs, ..ReadOptions::default() };
    Recording::from_bytes("trace.txt", trace, &options).expect("it is whole")
}

#[test]
fn known_costs_are_tried() {
    let trace = trace();
    let without = recording(&trace, None);
    let without = Replay::new(&without, &Setup::default()).expect("it has tasks");
    assert!(without.choice.tried.iter().all(|tried| !tried.charged), "{:?}", without.choice);

    let with = recording(&trace, Some(COSTS));
    let with = Replay::new(&with, &Setup::default()).expect("it has tasks");
    // The machine charged them, so the replay that does is the nearest.
    assert!(with.choice.charged, "{:?}", with.choice);
    assert!(with.choice.tried.starts_with(&without.choice.tried), "the others are the same");

    let plan = with.plan(&Overrides::default()).expect("it is the recorded machine");
    assert_eq!(plan.config.machine.costs.of_switches(), SwitchCosts::default(), "what-ifs charge none");
}

/// The cost of a switch is not work if it is charged. Both replays have the recorded CPU time.
#[test]
fn work_and_charged_costs_are_the_recorded_time() {
    let trace = trace();
    for costs in [None, Some(COSTS), Some(SwitchCosts { wakeup_ns: 0, ..COSTS })] {
        let recording = recording(&trace, costs);
        let replay = Replay::new(&recording, &Setup::default()).expect("it has tasks");
        let charged = replay.choice.charged;
        assert_eq!(replay.plan.config.machine.costs.of_switches(), costs.filter(|_| charged).unwrap_or_default());
        for thread in &replay.recorded.threads {
            assert_eq!(thread.charged_ns > 0, charged, "{thread:?}");
        }
        let results = replay.run().expect("it runs").results;
        let replayed: u64 = results.tasks.iter().map(|task| task.account.cpu_ns).sum();
        let recorded: u64 = replay.recorded.threads.iter().map(|thread| thread.cpu_ns).sum();
        assert!(replayed.abs_diff(recorded) < recorded / 100, "{costs:?}: {replayed} ns instead of {recorded}");
    }
}

//! Recordings that cannot be replayed, and the places of errors.

use crate::recorded::rules::Rules;
use crate::recorded::{Coupling, Lateness, recoupled};
use crate::{ReadOptions, Recording, Replay, Setup, Tally};
use vruntime_sim::plan::Overrides;
use vruntime_workload::program::{Op, Phase, Repeat, Task, Workload};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/data/groups.pftrace");

#[test]
fn errors_name_the_file_and_say_how_to_mend_it() {
    let error = Recording::open("no/such/trace.dat", &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("cannot read no/such/trace.dat: "), "{error}");
    let text = b"a-1 [000] d..2. 1.000000: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n";
    let error = Recording::from_bytes("waking.txt", text, &ReadOptions::default()).unwrap_err();
    assert!(error.to_string().starts_with("waking.txt cannot be replayed, for it lacks "), "{error}");
    assert!(error.help().unwrap().contains("sched_switch"));
    assert!(error.in_text().is_none());
}

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let recording = Recording::open(TRACE, &ReadOptions::default()).unwrap();
    let replay = Replay::new(&recording, &Setup::default()).unwrap();
    let unknown = Overrides { kernel: Some("9.9".to_owned()), ..Overrides::default() };
    let error = replay.plan(&unknown).unwrap_err();
    assert!(error.plan().is_some() && error.to_string().contains("`9.9`"), "{error}");
    let mut rules = Rules::default();
    rules.add("comm=nobody-has-this-name: nice=5").unwrap();
    let plan = replay.plan(&Overrides::default()).unwrap();
    let error = replay.what_if(plan, &rules, &[]).unwrap_err();
    assert_eq!(error.in_text().unwrap().location(), Some((1, 1)), "{error}");
    let small = ReadOptions { machine: Some(vruntime_sim::parse_topology("1").unwrap()), ..ReadOptions::default() };
    assert!(Recording::open(TRACE, &small).unwrap_err().to_string().contains("and the machine has 1"));
}

#[test]
fn a_what_if_without_changes_begins_as_the_replay_as_recorded() {
    let recording = Recording::open(TRACE, &ReadOptions::default()).unwrap();
    let replay = Replay::new(&recording, &Setup::default()).unwrap();
    let plan = replay.plan(&Overrides::default()).unwrap();
    let what_if = replay.what_if(plan, &Rules::default(), &[]).unwrap();
    // Work is equal to the nanosecond until the recorded work is done. Then closed loops continue.
    let work = |task: &Task| -> u64 {
        let recorded = task.phases.iter().filter(|phase| phase.repeat == Repeat::Times(1)).flat_map(|phase| &phase.ops);
        recorded.map(|op| if let Op::Run { work } = op { *work } else { 0 }).sum()
    };
    let works = |workload: &Workload| workload.tasks.iter().map(work).collect::<Vec<_>>();
    assert_eq!(works(&what_if.workload), works(&replay.recorded.workload));
    for thread in &replay.recorded.threads {
        let Some(task) = thread.task.map(|task| &replay.recorded.workload.tasks[task]) else { continue };
        if task.phases.iter().all(|phase| phase.repeat == Repeat::Times(1)) {
            assert_eq!(work(task), thread.cpu_ns, "{}", task.name);
        }
    }
    // A removed task has no program.
    let name = replay.recorded.workload.tasks[0].name.clone();
    let thread = replay.recorded.threads.iter().find(|thread| thread.task == Some(0)).unwrap();
    let mut rules = Rules::default();
    rules.add(&format!("pid={}: remove", thread.pid)).unwrap();
    let without = replay.what_if(replay.plan(&Overrides::default()).unwrap(), &rules, &[]).unwrap();
    assert!(without.workload.tasks.iter().all(|task| task.name != name));
    assert_eq!(without.workload.tasks.len() + 1, what_if.workload.tasks.len());
}

/// A task's name and pid.
type Named = (&'static str, i32);
const CLIENT: Named = ("client", 11);
const SERVER: Named = ("server", 12);

/// A line of a trace, at a time in microseconds.
fn line(at: u64, (comm, pid): Named, event: &str) -> String {
    format!("{comm:>16}-{pid} [000] d..2. {}.{:06}: {event}\n", at / 1_000_000, at % 1_000_000)
}

fn wakes(at: u64, waker: Named, (comm, pid): Named) -> String {
    line(at, waker, &format!("sched_waking: comm={comm} pid={pid} prio=120 target_cpu=000"))
}

fn switches(at: u64, prev: Named, state: char, next: Named) -> String {
    let from = format!("prev_comm={} prev_pid={} prev_prio=120 prev_state={state}", prev.0, prev.1);
    line(at, prev, &format!("sched_switch: {from} ==> next_comm={} next_pid={} next_prio=120", next.0, next.1))
}

/// Returns which task is awake in a round, and which it wakes.
fn in_turn(round: u64) -> (Named, Named) {
    if round.is_multiple_of(2) { (CLIENT, SERVER) } else { (SERVER, CLIENT) }
}

/// A trace of a client and a server that wake each other on one CPU, every 20 us.
fn ping_pong(rounds: u64) -> Vec<u8> {
    let lines = (0..rounds).flat_map(|round| {
        let ((one, other), at) = (in_turn(round), round * 20);
        [wakes(at + 15, one, other), switches(at + 19, one, 'S', other)]
    });
    lines.collect::<String>().into_bytes()
}

/// As [`ping_pong`], but beside a hog, and every `every` microseconds.
fn rare_ping_pong(rounds: u64, every: u64) -> Vec<u8> {
    const HOG: Named = ("hog", 10);
    let lines = (0..rounds).flat_map(|round| {
        let ((one, other), at) = (in_turn(round), round * every);
        [switches(at + 5, HOG, 'R', one), wakes(at + 15, one, other), switches(at + 19, one, 'S', HOG)]
    });
    lines.collect::<String>().into_bytes()
}

/// Tasks with less than 1 % of a CPU make no difference, however close they stay.
#[test]
fn couplings_are_tried_if_their_tasks_have_time() {
    for (every, tried) in [(1000, Coupling::ALL.len()), (2000, 1)] {
        let trace = rare_ping_pong(500, every);
        let recording = Recording::from_bytes("rare.txt", &trace, &ReadOptions::default()).unwrap();
        let replay = Replay::new(&recording, &Setup::default()).unwrap();
        let wakeups = replay.choice.tried.iter().filter(|tried| !tried.messages);
        let of_kinds = |sync| wakeups.clone().filter(|tried| tried.sync == sync).count();
        assert_eq!((of_kinds(false), of_kinds(true)), (tried, 1), "{every} us: {:?}", replay.choice);
    }
}

/// A choice that changes no operation needs no run of its own.
#[test]
fn equal_programs_run_once() {
    let trace = ping_pong(40_000);
    let recording = Recording::from_bytes("ping-pong.txt", &trace, &ReadOptions::default()).unwrap();
    let workloads = std::sync::Mutex::new(Vec::new());
    let runner = |jobs: &[(&Workload, &vruntime_sim::plan::Plan)]| {
        workloads.lock().unwrap().extend(jobs.iter().map(|(workload, _)| (*workload).clone()));
        crate::replay::run_all(jobs)
    };
    let replay = Replay::with_runner(&recording, &Setup::default(), &runner).unwrap();
    let workloads = workloads.into_inner().unwrap();
    let again = (1..workloads.len()).find(|&index| workloads[..index].contains(&workloads[index]));
    assert_eq!(again, None, "of {} runs", workloads.len());
    assert!(workloads.len() < replay.choice.tried.len(), "{} runs: {:?}", workloads.len(), replay.choice);
}

/// Replays a recording, and returns the durations of all trials. If `stuck`, tasks of the whole recording do nothing.
fn trials(recording: &Recording, stuck: bool) -> (Replay<'_>, Vec<u64>) {
    let durations = std::sync::Mutex::new(Vec::new());
    let end = recording.source.recorder.clone().finish(&Lateness::default()).duration_ns;
    let runner = |jobs: &[(&Workload, &vruntime_sim::plan::Plan)]| {
        let of = |workload: &Workload| workload.duration.unwrap();
        durations.lock().unwrap().extend(jobs.iter().map(|(workload, _)| of(workload)));
        let mut ran = crate::replay::run_all(jobs);
        for (tasks, (workload, _)) in ran.iter_mut().zip(jobs) {
            if stuck && of(workload) == end {
                *tasks = Some(Vec::new());
            }
        }
        ran
    };
    let replay = Replay::with_runner(recording, &Setup::default(), &runner).unwrap();
    (replay, durations.into_inner().unwrap())
}

#[test]
fn the_beginning_of_a_long_recording_selects_two_ways_and_the_whole_decides() {
    for (rounds, by_beginning) in [(40_000, false), (60_000, true)] {
        let trace = ping_pong(rounds);
        let recording = Recording::from_bytes("ping-pong.txt", &trace, &ReadOptions::default()).unwrap();
        let (replay, durations) = trials(&recording, false);
        // The best one is tried with synchronous wakeups, too.
        assert_eq!(replay.choice.tried.len(), Coupling::ALL.len() + 1);
        let whole = replay.recorded.workload.duration.unwrap();
        let (of_whole, of_beginning): (Vec<u64>, _) = durations.iter().partition(|&&tried| tried == whole);
        assert!(of_beginning.iter().all(|&tried| tried <= whole / 2), "{durations:?} of {whole}");
        assert_eq!((of_whole.len() == 2, !of_beginning.is_empty()), (by_beginning, by_beginning), "{durations:?}");
        // The replay has the whole.
        assert_eq!(replay.recorded.threads.iter().map(|thread| thread.rounds).sum::<u64>(), rounds);
    }
}

/// Programs that wait for each other for ever may do so only after the beginning.
#[test]
fn the_whole_selects_if_its_replays_are_much_farther_than_those_of_the_beginning() {
    let trace = ping_pong(60_000);
    let recording = Recording::from_bytes("ping-pong.txt", &trace, &ReadOptions::default()).unwrap();
    let (replay, durations) = trials(&recording, true);
    let whole = replay.recorded.workload.duration.unwrap();
    let of_whole = durations.iter().filter(|&&tried| tried == whole).count();
    assert!(of_whole > 2 && durations.len() > of_whole, "{durations:?}");
    // Each is as far as it can be: all CPU time, switches and waiting are missing.
    assert!(replay.choice.tried.iter().all(|tried| tried.distance > 3.0), "{:?}", replay.choice);
}

#[test]
fn a_tally_counts_as_the_collector_does() {
    let trace = ping_pong(2_000);
    let recording = Recording::from_bytes("ping-pong.txt", &trace, &ReadOptions::default()).unwrap();
    let replay = Replay::new(&recording, &Setup::default()).unwrap();
    let (mut workload, config) = (replay.recorded.workload.clone(), &replay.plan.config);
    // A task that is preempted, and still runs at the end.
    workload.tasks.push(Task::new("hog", [Phase::forever(vec![Op::Run { work: 1_000_000 }])]));
    let mut sinks = (Tally::default(), vruntime_report::Collector::new(config.machine.topology.nr_cpus()));
    vruntime_sim::run_dyn(&workload, config, &mut sinks, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    let tasks = sinks.1.into_results().tasks;
    let of = |task: &vruntime_report::TaskResult| {
        (task.name.clone(), task.account.cpu_ns, task.account.switches(), task.account.run_delay_ns)
    };
    let collected: Vec<_> = tasks.iter().map(of).collect();
    let counted = sinks.0.into_tasks().into_iter();
    let counted: Vec<_> = counted.map(|task| (task.name, task.cpu_ns, task.switches, task.waited_ns)).collect();
    assert_eq!(counted, collected);
    assert!(counted.iter().any(|(_, _, _, waited_ns)| *waited_ns > 0), "{counted:?}");
    assert!(
        counted.len() == 3 && counted.iter().all(|(_, cpu_ns, switches, _)| *cpu_ns > 0 && *switches > 0),
        "{counted:?}"
    );
}

#[test]
fn programs_of_couplings_that_only_follow_are_made_from_each_other() {
    let trace = ping_pong(200);
    let recording = Recording::from_bytes("ping-pong.txt", &trace, &ReadOptions::default()).unwrap();
    let made = |coupling| recording.source.recorder.clone().with_coupling(coupling).finish(&Lateness::default());
    let together = made(Coupling::Together);
    for coupling in Coupling::ALL.into_iter().filter(|coupling| coupling.only_follows()) {
        assert_eq!(recoupled(&together, coupling), made(coupling), "{coupling:?}");
        assert_eq!(made(coupling) == together, coupling == Coupling::Together, "{coupling:?}");
    }
}

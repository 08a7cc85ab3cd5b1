//! A loop that starts processes, whose threads take work from one queue and end together.

use vruntime_replay::recorded::rules::Rules;
use vruntime_replay::{ReadOptions, Recording, Replay, Setup};
use vruntime_report::Collector;
use vruntime_sim::plan::Overrides;
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology};
use vruntime_trace::{FtraceWriter, Identities, Identity};
use vruntime_workload::program::{Follow, Op, Phase, Task, Workload};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Each of the two members has this much of the work, milliseconds.
const OWN_MS: u64 = 30;
/// The processes that have names of their own. The recording has fewer.
const MOST_PROCESSES: i32 = 200;
const POOL: usize = 0;
const INBOX: usize = 0;

/// A shell starts a process, and waits for its end. One thread of the process starts the others. Two do the work, and
/// one of them naps while it looks for more. A third naps until the first ends the process, and is the last to end. A
/// hog may compete.
fn loop_of_processes(hog: bool) -> Workload {
    let once = |name: &str, ops: Vec<Op>| Task {
        start: None,
        process: Some(2),
        class: "job".to_owned(),
        ..Task::new(name, [Phase::times(1, ops)])
    };
    let work = || (0..OWN_MS).map(|_| Op::PoolRun { pool: POOL, work: MS });
    let helps = Op::PoolHelp { pool: POOL, work: 2 * OWN_MS * MS };
    let ends = [Op::AwaitKill, Op::Run { work: 20 * US }];
    let wake = Op::InboxWake { inbox: INBOX, from: 0, follow: Follow::Free, sync: false };
    let main = [
        vec![Op::Fork(2), Op::Fork(3)],
        work().collect(),
        vec![helps.clone(), Op::PoolSleep { pool: POOL, work: 0 }, Op::ExitGroup, Op::Run { work: 20 * US }],
    ];
    let looks = (0..5).map(|_| Op::Sleep { time: 50 * US });
    let worker = work().chain(looks).chain([helps]).chain(ends.clone());
    let naps = (0..200).flat_map(|_| [Op::Sleep { time: MS }, Op::Run { work: US }]).chain(ends).chain([wake]);
    let shell = vec![Op::Fork(1), Op::InboxWait { inbox: INBOX, from: 0 }, Op::Run { work: 100 * US }];
    let mut tasks = vec![
        Task { process: Some(1), ..Task::new("sh", [Phase::forever(shell)]) },
        once("job", main.concat()),
        once("job-worker", worker.collect()),
        once("job-naps", naps.collect()),
    ];
    if hog {
        tasks.push(Task::new("hog", [Phase::forever(vec![Op::Run { work: MS }])]));
    }
    Workload {
        tasks,
        pools: vec!["job".to_owned()],
        inboxes: vec!["sh".to_owned()],
        duration: Some(2_000 * MS),
        ..Workload::default()
    }
}

/// Gives the threads of each process its name and id.
fn identities() -> Identities {
    let threads = ["job", "job-worker", "job-naps"];
    let identity = |process: i32, thread: usize| {
        let name = if process == 1 { threads[thread].to_owned() } else { format!("{}-{process}", threads[thread]) };
        let tgid = 1_000 + 10 * process;
        (name, Identity { comm: "job".to_owned(), pid: Some(tgid + thread as i32), tgid: Some(tgid) })
    };
    let all = (1..=MOST_PROCESSES).flat_map(|process| (0..threads.len()).map(move |thread| identity(process, thread)));
    let shell = ("sh".to_owned(), Identity { comm: "sh".to_owned(), pid: Some(500), tgid: Some(500) });
    Identities::new(all.chain([shell]), [], [])
}

fn config() -> Config {
    let mut machine = MachineSpec::new(parse_topology("2").expect("two CPUs are a machine"));
    machine.costs = Costs::profile("zero").expect("it is one");
    Config::new(vruntime_sched::kernel("6.18").expect("it is offered"), machine)
}

/// The CPU time of the processes without the hog, in CPUs.
fn real() -> f64 {
    let mut collector = Collector::new(2);
    vruntime_sim::run(&loop_of_processes(false), &config(), &mut collector).expect("it runs");
    let results = collector.into_results();
    let jobs = results.tasks.iter().filter(|task| task.name.starts_with("job"));
    jobs.map(|task| task.account.cpu_ns).sum::<u64>() as f64 / (2_000 * MS) as f64
}

/// As [`real`], predicted from a recording with the hog.
fn predicted() -> f64 {
    let writer = FtraceWriter::new(Vec::new(), 2).nanoseconds().with_kernel("6.18");
    let mut writer = writer.with_identities(identities());
    vruntime_sim::run(&loop_of_processes(true), &config(), &mut writer).expect("it runs");
    let trace = writer.finish_writing().expect("memory takes it");
    let recording = Recording::from_bytes("trace.txt", &trace, &ReadOptions::default()).expect("it is whole");
    let costs = Overrides { costs: Some("zero".to_owned()), ..Overrides::default() };
    let setup = Setup { overrides: costs.clone(), ..Setup::default() };
    let replay = Replay::new(&recording, &setup).expect("it has tasks");
    let mut rules = Rules::default();
    rules.add("comm=hog: remove").expect("it is a rule");
    let plan = replay.plan(&costs).expect("it is the recorded machine");
    let what_if = replay.what_if(plan, &rules, &[]).expect("the rule names tasks");
    let ran = replay.run_what_if(&what_if, &rules).expect("it runs");
    let replayed = replay.run().expect("it runs");
    let check = replay.compare(replayed.ran(), Some((&what_if, ran.ran())));
    let jobs = check.tasks.iter().filter(|task| task.comm.starts_with("job"));
    jobs.filter_map(|task| Some(task.what_if?.cpu_ns)).sum::<u64>() as f64 / check.elapsed_ns.0 as f64
}

#[test]
fn processes_share_their_work_with_more_cpu_time() {
    let (real, predicted) = (real(), predicted());
    assert!((predicted / real - 1.0).abs() < 0.02, "{predicted} instead of {real}");
}

//! Policies that break rules end the run with an error that names the fault, the task and the CPU. None panics or
//! hangs.

mod support;

use std::collections::VecDeque;

use support::*;
use vruntime_sched::ids::{CpuId, TaskId};
use vruntime_sched::policy::{Dequeue, Enqueue, Fault, Plain, Wake};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{Policy, Rq, Shared, TaskAttrs};
use vruntime_sim::{Config, Error, Outcome, run_policy};
use vruntime_trace::NoSink;
use vruntime_workload::program::{Bandwidth, Group, Op, Repeat, Task, Workload};

/// First come, first served with one mistake. The tasks' nice value chooses it, because each policy type compiles a
/// machine.
#[derive(Debug)]
struct Wrong;

const NONE: i8 = 0;
const LOSES_WOKEN: i8 = 1;
const LOSES_ONE: i8 = 2;
const TAKES_IN_PICK: i8 = 3;
const PICKS_NOBODY: i8 = 4;
const PICKS_SLEEPERS: i8 = 5;
const PICKS_NO_TASK: i8 = 6;
const SELECTS_NO_CPU: i8 = 7;
const EXECS_ON_NO_CPU: i8 = 8;
const KEEPS_ALL: i8 = 9;
const FINISHES_TWICE: i8 = 10;

#[derive(Debug, Default)]
struct Queue {
    tasks: VecDeque<u32>,
    mistake: i8,
}

impl Policy for Wrong {
    type Tunables = Knobs;
    type Rq = Queue;
    type Task = ();
    type Balance = Plain;
    type Changes = Plain;
    type Limits = Plain;
    type Debugging = Plain;

    fn new_rq(_shared: &Shared<Self>, _cpu: CpuId) -> Queue {
        Queue::default()
    }

    fn new_task(_shared: &Shared<Self>, _attrs: &TaskAttrs) {}

    fn enqueue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, why: Enqueue) {
        rq.class.mistake = rq.tasks[task].nice;
        let lost = match rq.class.mistake {
            LOSES_WOKEN => why == Enqueue::Wakeup,
            LOSES_ONE => rq.tasks[task].id == TaskId(1),
            _ => false,
        };
        rq.class.tasks.extend((!lost).then_some(task));
    }

    fn dequeue(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, why: Dequeue) -> bool {
        let mistake = rq.class.mistake;
        if mistake == FINISHES_TWICE && why == Dequeue::Sleep {
            rq.finish_delayed(task);
        }
        if mistake != PICKS_SLEEPERS {
            rq.class.tasks.retain(|&other| other != task);
        }
        mistake != KEEPS_ALL
    }

    fn pick(rq: &mut Rq<Self>, _shared: &Shared<Self>) -> Option<u32> {
        match rq.class.mistake {
            TAKES_IN_PICK => rq.class.tasks.pop_front(),
            PICKS_NOBODY => None,
            PICKS_NO_TASK => Some(77),
            _ => rq.class.tasks.front().copied(),
        }
    }

    fn switch(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _prev: Option<u32>, _next: Option<u32>) {}

    fn tick(rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) {
        rq.resched();
    }

    fn wakeup_preempt(_rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32, _wake: Wake) {}

    fn yield_task(_rq: &mut Rq<Self>, _shared: &Shared<Self>) {}

    fn select_cpu(rq: &mut Rq<Self>, _shared: &Shared<Self>, task: u32, _on: CpuId, _wake: Wake) -> CpuId {
        if rq.tasks[task].nice == SELECTS_NO_CPU { CpuId(2) } else { rq.cpu }
    }

    fn select_cpu_exec(rq: &mut Rq<Self>, _shared: &Shared<Self>, _task: u32) -> CpuId {
        if rq.class.mistake == EXECS_ON_NO_CPU { CpuId(2) } else { rq.cpu }
    }
}

/// Three tasks on the first of two CPUs run 5 ms and sleep 2 ms, three times; the first execs before.
fn outcome(mistake: i8, duration: Option<u64>) -> Result<Outcome, Error> {
    let round = || phase(vec![run(5000), sleep(2000)], Repeat::Times(3));
    let mut tasks: Vec<Task> = ["a", "b", "c"].map(|name| task(name, vec![round()])).into();
    tasks[0].phases = vec![phase(vec![Op::Exec], Repeat::Times(1)), round()].into();
    for task in &mut tasks {
        task.settings.policy = Some(vruntime_workload::program::Policy::Other { nice: mistake, slice: None });
    }
    let config = Config { duration, ..exact("6.12", "pu:2") };
    run_policy::<Wrong, _>(&workload(tasks), &config, &mut NoSink)
}

/// The fault and its task.
fn fault_of(mistake: i8) -> (Fault, Option<String>) {
    // A known end makes no difference.
    let error = outcome(mistake, None).unwrap_err();
    assert_eq!(outcome(mistake, Some(100 * MS)).unwrap_err(), error);
    let Error::Policy { task, fault, .. } = error else { panic!("{error:?}") };
    (fault, task)
}

#[test]
fn one_without_a_mistake_runs() {
    let cpus = outcome(NONE, None).unwrap().cpus;
    assert_eq!(cpus[0].busy + cpus[1].busy, 45 * MS);
}

#[test]
fn losing_a_task_is_reported_once_the_cpu_would_idle() {
    for (mistake, lost, name) in [(LOSES_WOKEN, 0, "a"), (LOSES_ONE, 1, "b"), (PICKS_NOBODY, 0, "a")] {
        let (fault, task) = fault_of(mistake);
        assert!(matches!(fault, Fault::PickedNobody { task: TaskId(task), .. } if task == lost), "{fault:?}");
        assert_eq!(task.as_deref(), Some(name));
    }
    assert!(matches!(fault_of(TAKES_IN_PICK), (Fault::PickedNobody { .. }, Some(_))));
}

/// Another task always has the CPU, so only the end of the run shows the fault.
#[test]
fn losing_a_task_beside_others_is_reported_at_the_end() {
    let hog = |name: &str, nice| {
        let mut hog = task(name, vec![phase(vec![run(1000)], Repeat::Forever)]);
        hog.settings.policy = Some(vruntime_workload::program::Policy::Other { nice, slice: None });
        hog
    };
    let hogs = |mistake| {
        let workload = workload(["a", "b", "c"].map(|name| hog(name, mistake)).into());
        let config = Config { duration: Some(100 * MS), ..exact("6.12", "pu:1") };
        run_policy::<Wrong, _>(&workload, &config, &mut NoSink)
    };
    assert_eq!(hogs(NONE).unwrap().end, 100 * MS);
    let fault = Fault::PickedNobody { queued: 1, task: TaskId(1) };
    let lost = Error::Policy { now: 100 * MS, cpu: 0, task: Some("b".to_owned()), fault };
    assert_eq!(hogs(LOSES_ONE).unwrap_err(), lost);
}

#[test]
fn picking_a_task_that_is_not_queued_is_reported() {
    assert_eq!(fault_of(PICKS_SLEEPERS), (Fault::PickedUnqueued { task: TaskId(0) }, Some("a".to_owned())));
    assert_eq!(fault_of(PICKS_NO_TASK), (Fault::PickedNoTask { index: 77 }, None));
}

#[test]
fn selecting_a_cpu_that_is_not_there_is_reported() {
    let nowhere = (Fault::SelectedNoCpu { task: TaskId(0), cpu: CpuId(2) }, Some("a".to_owned()));
    assert_eq!(fault_of(SELECTS_NO_CPU), nowhere);
    assert_eq!(fault_of(EXECS_ON_NO_CPU), nowhere);
}

#[test]
fn keeping_a_task_that_does_not_sleep_and_finishing_twice_are_reported() {
    assert!(matches!(fault_of(KEEPS_ALL), (Fault::Kept { why: Dequeue::Move, .. }, Some(_))));
    assert_eq!(fault_of(FINISHES_TWICE), (Fault::FinishedTwice { task: TaskId(0) }, Some("a".to_owned())));
}

#[test]
fn every_fault_says_what_was_done_wrong() {
    let fault_of = |mistake| {
        let error = outcome(mistake, None).unwrap_err();
        assert!(error.help().is_some_and(|help| !help.is_empty()));
        error.to_string()
    };
    let mistakes =
        [LOSES_WOKEN, PICKS_NOBODY, PICKS_SLEEPERS, PICKS_NO_TASK, SELECTS_NO_CPU, KEEPS_ALL, FINISHES_TWICE];
    let expected = [
        "the policy, on CPU 0 at 10 ms: `pick` returns no task, but one is queued (task `a`)",
        "the policy, on CPU 0 at 0 ns: `pick` returns no task, but 3 are queued (task `a`)",
        "the policy, on CPU 0 at 5 ms: `pick` answers a task that is not queued (task `a`)",
        "the policy, on CPU 0 at 0 ns: `pick` returns 77, which is not a task of this run queue",
        "the policy, on CPU 0 at 0 ns: `select_cpu` returns CPU 2, which the machine does not have (task `a`)",
        "the policy, on CPU 0 at 4 ms: `dequeue` keeps a task (answers false) for Move (task `b`)",
        "the policy, on CPU 0 at 5 ms: `finish_delayed` is called for a task that is not queued (task `a`)",
    ];
    assert_eq!(mistakes.map(fault_of), expected);
}

/// Only the fair class has limits: for other policies a note says so.
#[test]
fn a_limit_that_the_policy_does_not_enforce_is_reported() {
    let limit = Some(Bandwidth { quota: 10 * MS, period: 100 * MS, burst: 0 });
    let groups = ["/", "/a"].map(|path| Group {
        path: path.to_owned(),
        parent: (path != "/").then_some(0),
        max: limit.filter(|_| path != "/"),
        ..Group::default()
    });
    let mut task = task("t", vec![phase(vec![Op::Run { work: MS }], Repeat::Times(20))]);
    task.settings.group = Some(1);
    let workload = Workload { groups: groups.to_vec(), ..workload(vec![task]) };
    let config = exact("6.12", "1");
    let outcome = run_policy::<Wrong, _>(&workload, &config, &mut NoSink).unwrap();
    let fault_of = "the limit of group `/a` has no effect: only the fair class enforces `cpu.max`, not this policy";
    assert_eq!((outcome.end, outcome.notes), (20 * MS, vec![fault_of.to_owned()]));
    let outcome = simulate(&workload, &config, &mut NoSink).unwrap();
    assert!(outcome.end > 20 * MS && outcome.notes.is_empty(), "{outcome:?}");
}

/// The Rust code of docs/policy.md is compiled in examples or documentation.
#[test]
fn the_guide_shows_code_that_is_compiled() {
    let line =
        |line: &'static str| line.strip_prefix("///").map_or(line, |text| text.strip_prefix(' ').unwrap_or(text));
    let documented = include_str!("../src/lib.rs").lines().map(line).collect::<Vec<_>>().join("\n");
    let compiled =
        [&documented, include_str!("../examples/topologies.rs"), include_str!("../examples/topologies/shortest.rs")];
    let guide = include_str!("../../../docs/policy.md");
    let blocks: Vec<&str> = guide.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        assert!(compiled.iter().any(|text| text.contains(block)), "nothing compiles\n{block}");
    }
    let messages = guide.lines().filter(|line| line.starts_with("the policy, on CPU"));
    let fault_of = [LOSES_WOKEN, PICKS_SLEEPERS].map(|mistake| outcome(mistake, None).unwrap_err().to_string());
    assert_eq!(messages.collect::<Vec<_>>(), fault_of);
}

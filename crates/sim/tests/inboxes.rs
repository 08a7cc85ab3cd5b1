//! Inboxes.

use std::sync::Arc;

use proptest::prelude::*;
use vruntime_report::{Collector, Results};
use vruntime_sim::{Config, Costs, MachineSpec, parse_topology};
use vruntime_workload::program::{Follow, Op, Phase, Repeat, Room, Settings, Task, Workload};

const MS: u64 = 1_000_000;
const ALL: [Follow; 4] = [Follow::Free, Follow::Together, Follow::Asleep, Follow::OneAhead];

fn task(name: &str, cpu: u32, ops: Vec<Op>) -> Task {
    let task = Task::new(name, [Phase::times(1, ops)]);
    Task { settings: Settings { cpus: Some(vec![cpu]), ..task.settings }, ..task }
}

fn run(work: u64) -> Op {
    Op::Run { work: work * MS }
}

/// A wait for all wakers alike.
fn wait(inbox: usize) -> Op {
    Op::InboxWait { inbox, from: 0 }
}

fn wake(inbox: usize, follow: Follow) -> Op {
    Op::InboxWake { inbox, from: 0, follow, sync: false }
}

/// Runs tasks on four CPUs, without kernel time. Returns the end, the results and the notes.
fn simulate(tasks: Vec<Task>, inboxes: usize) -> (u64, Results, Vec<String>) {
    simulate_with(&workload(tasks, inboxes))
}

fn workload(tasks: Vec<Task>, inboxes: usize) -> Workload {
    let inboxes = (0..inboxes).map(|inbox| format!("inbox {inbox}")).collect();
    Workload { tasks, inboxes, duration: Some(60_000 * MS), ..Workload::default() }
}

fn simulate_with(workload: &Workload) -> (u64, Results, Vec<String>) {
    let mut machine = MachineSpec::new(parse_topology("4").expect("four CPUs are a machine"));
    (machine.costs, machine.timer_slack_ns) = (Costs::ZERO, 0);
    let config = Config::new(vruntime_sched::kernel("6.18").expect("it is offered"), machine);
    let mut collector = Collector::new(4);
    let outcome = vruntime_sim::run(workload, &config, &mut collector).expect("it runs");
    (outcome.end, collector.into_results(), outcome.notes)
}

/// Returns when each task ended, ms. The tasks only run, and sleep at inboxes.
fn ends(tasks: Vec<Task>, inboxes: usize) -> Vec<u64> {
    let (_, results, notes) = simulate(tasks, inboxes);
    assert_eq!(notes, Vec::<String>::new());
    let ended = |task: &vruntime_report::TaskResult| (task.account.cpu_ns + task.account.sleeping_ns) / MS;
    results.tasks.iter().map(ended).collect()
}

/// The recorded server waited for the slow client first.
#[test]
fn the_first_to_arrive_is_served_first() {
    let server = task("server", 0, vec![wait(0), run(1), wait(0), run(1)]);
    let slow = task("slow", 1, vec![run(20), wake(0, Follow::Free)]);
    let quick = task("quick", 2, vec![run(3), wake(0, Follow::Free)]);
    assert_eq!(ends(vec![server, slow, quick], 1), [21, 20, 3]);
}

/// The program answers the quick client second; the server first.
#[test]
fn each_waker_gets_its_own_answers() {
    let answer = |from, work, inbox| [Op::InboxWait { inbox: 0, from }, run(work), wake(inbox, Follow::Free)];
    let answers = [answer(1, 10, 1), answer(2, 1, 2), answer(1, 20, 1), answer(2, 2, 2)];
    let asks = |from| Op::InboxWake { inbox: 0, from, follow: Follow::Free, sync: false };
    let client = |from: usize, cpu, first| {
        let ops = vec![run(first), asks(from), wait(from), run(0), asks(from), wait(from), run(1)];
        task(&format!("client {from}"), cpu, ops)
    };
    let server = || task("server", 0, answers.concat());
    // The quick client is answered at 4 ms and, before the slow one wakes at 20 ms, asks again. That answer ends the
    // loop: it waits for those of the slow one, 30 ms and 50 ms.
    assert_eq!(ends(vec![server(), client(1, 1, 20), client(2, 2, 3)], 3), [52, 51, 53]);
    assert_eq!(ends(vec![server(), client(1, 1, 3), client(2, 2, 20)], 3), [36, 34, 37]);
}

#[test]
fn a_wakeup_while_the_owner_is_busy_is_kept() {
    let server = task("server", 0, vec![run(10), wait(0), run(1), wait(0), run(1)]);
    let client = task("client", 1, vec![wake(0, Follow::Free), wake(0, Follow::Free), run(1)]);
    assert_eq!(ends(vec![server, client], 1), [12, 1]);
}

/// The owner works 10 ms for each wakeup; a client wakes it three times.
#[test]
fn wakers_get_as_far_ahead_as_they_may() {
    let server = || task("server", 0, (0..3).flat_map(|_| [wait(0), run(10)]).collect());
    let end = |follow| {
        let client = (0..3).flat_map(|_| [wake(0, follow)]).chain([run(1)]).collect();
        ends(vec![server(), task("client", 1, client)], 1)
    };
    assert_eq!(end(Follow::Free), [30, 1], "all at once");
    assert_eq!(end(Follow::OneAhead), [30, 11], "the third when the second is begun");
    assert_eq!(end(Follow::Together), [30, 21], "it continues when the third is begun");
    assert_eq!(end(Follow::Asleep), [30, 21], "the third when the second is done");
}

/// Each follows the other, and works only after a wakeup by it.
#[test]
fn no_task_follows_one_that_sleeps_elsewhere() {
    for follow in ALL {
        let one = task("one", 0, vec![wake(1, follow), wake(1, follow), wait(0), run(1)]);
        let other = task("other", 1, vec![wake(0, follow), wake(0, follow), wait(1), run(1)]);
        assert!(ends(vec![one, other], 2).into_iter().all(|end| end <= 2), "{follow:?}");
        // Nor one that has ended, or has not begun.
        let late = Task { start: Some(30 * MS), ..task("late", 2, vec![wait(0), run(1)]) };
        let client =
            task("client", 1, vec![wake(0, follow), run(1), wake(0, follow), run(40), wake(0, follow), run(1)]);
        let (_, results, notes) = simulate(vec![late, client], 1);
        assert_eq!((notes, results.tasks[1].account.sleeping_ns), (Vec::new(), 0), "{follow:?}");
    }
}

#[test]
fn a_task_that_is_never_woken_is_reported() {
    let (_, _, notes) = simulate(vec![task("server", 0, vec![run(1), wait(0)])], 1);
    let expected = "task `server` waits for a task that wakes it, from 1 ms to the end";
    assert_eq!(notes.last().map(String::as_str), Some(expected));
}

/// A server that reads 1 ms from each of two clients, and puts off its answers of 1 ms.
fn event_loop() -> Task {
    let answers = |client: usize| {
        let from = client;
        let answer = [run(1), Op::InboxWake { inbox: client, from: 0, follow: Follow::Free, sync: false }];
        let put_off = [Op::PutOff { inbox: 0 }].into_iter().chain(answer).chain([Op::PutOffEnd { inbox: 0 }]);
        [Op::InboxWait { inbox: 0, from }, run(1)].into_iter().chain(put_off)
    };
    let ops = [run(1)].into_iter().chain(answers(1)).chain(answers(2)).chain([Op::CatchUp { inbox: 0 }]);
    task("server", 0, ops.collect())
}

/// Asks the server after `after` milliseconds, and waits for the answer.
fn client(number: usize, after: u64) -> Task {
    let asks = Op::InboxWake { inbox: 0, from: number, follow: Follow::Free, sync: false };
    task("client", number as u32, vec![run(after), asks, wait(number)])
}

/// With both requests there, the first client gets its answer when the server has read both.
#[test]
fn an_event_loop_reads_all_before_it_answers() {
    assert_eq!(ends(vec![event_loop(), client(1, 0), client(2, 0)], 3), [5, 4, 5]);
}

/// The server sleeps before the second request.
#[test]
fn an_event_loop_answers_before_it_sleeps() {
    assert_eq!(ends(vec![event_loop(), client(1, 0), client(2, 20)], 3), [22, 3, 22]);
}

/// A server whose sleep costs 2 ms answers two requests.
#[test]
fn the_cost_of_a_sleep_is_paid_once_for_all_that_is_there() {
    let answer = [wait(0), Op::RunIfSlept { inbox: 0, work: 2 * MS }, run(1)];
    let server = || task("server", 0, answer.iter().chain(&answer).cloned().collect());
    let asks = |pause: u64| task("client", 1, vec![run(3), wake(0, Follow::Free), run(pause), wake(0, Follow::Free)]);
    assert_eq!(ends(vec![server(), asks(0)], 1), [7, 3]);
    assert_eq!(ends(vec![server(), asks(7)], 1), [13, 10]);
}

/// A phase of five tasks with random wakeups, and as many waits. `by` is a possible sequential order. Tasks put off
/// some of the wakeups without following.
fn programs(by: &[(usize, usize, usize, u64, bool)], loops: u64, answers: bool) -> Vec<Task> {
    let mut programs: Vec<Vec<Op>> = vec![Vec::new(); 5];
    for &(waker, apart, follow, work, puts_off) in by {
        let woken = (waker + apart) % 5;
        let from = if answers { waker } else { 0 };
        let wake = [Op::InboxWake { inbox: woken, from, follow: ALL[follow], sync: false }, run(work)];
        let (inbox, program) = (waker, &mut programs[waker]);
        if puts_off && ALL[follow] == Follow::Free {
            program.push(Op::PutOff { inbox });
            program.extend(wake);
            program.push(Op::PutOffEnd { inbox });
        } else {
            program.push(Op::CatchUp { inbox });
            program.extend(wake);
        }
        programs[woken].extend([Op::InboxWait { inbox: woken, from }, run(1)]);
    }
    for (inbox, program) in programs.iter_mut().enumerate() {
        program.push(Op::CatchUp { inbox });
    }
    let tasks = programs.into_iter().enumerate().map(|(number, ops)| {
        let phases: Arc<[Phase]> = [Phase::times(loops, ops)].into();
        Task { phases, ..Task::new(format!("task{number}"), []) }
    });
    tasks.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// However tasks follow, each ends with all its work done.
    #[test]
    fn every_task_reaches_its_end(
        by in prop::collection::vec((0..5_usize, 1..5_usize, 0..4_usize, 0..3_u64, any::<bool>()), 1..60),
        loops in 1..4_u64,
        answers in any::<bool>(),
    ) {
        let tasks = programs(&by, loops, answers);
        let worked = |task: &Task| {
            let work = |op: &Op| if let Op::Run { work } = op { *work } else { 0 };
            task.phases.iter().flat_map(|phase| &phase.ops).map(work).sum::<u64>() * loops
        };
        let expected: Vec<u64> = tasks.iter().map(worked).collect();
        let (_, results, notes) = simulate(tasks, 5);
        prop_assert_eq!(notes, Vec::<String>::new());
        let had: Vec<u64> = results.tasks.iter().map(|task| task.account.cpu_ns).collect();
        prop_assert_eq!(had, expected);
    }
}

/// The quick client is answered five times, although the slow one asks late. If they repeat together, each answer waits
/// for one to the slow client.
#[test]
fn connections_repeat_independently() {
    let answer = |from| [Op::InboxWait { inbox: 0, from }, run(1), wake(from, Follow::Free)];
    let answers = || [answer(1), answer(2)].concat();
    let server = Task::new(
        "server",
        [Phase::times(1, answers()), Phase { repeat: Repeat::Forever, ..Phase::times(1, answers()) }],
    );
    let client = |from: usize, cpu, first, times: usize| {
        let asks = Op::InboxWake { inbox: 0, from, follow: Follow::Free, sync: false };
        task("client", cpu, [vec![run(first)], vec![vec![asks, wait(from)]; times].concat()].concat())
    };
    let tasks = || vec![server.clone(), client(1, 1, 100, 5), client(2, 2, 1, 5)];
    let quick = |connections: &[usize]| {
        let connections = connections.iter().copied().collect();
        let results = simulate_with(&Workload { connections, ..workload(tasks(), 3) }).1;
        let account = &results.tasks[2].account;
        (account.cpu_ns + account.sleeping_ns) / MS
    };
    assert_eq!(quick(&[]), 110);
    assert_eq!(quick(&[1, 2]), 6);
}

/// The receiver is busy for 100 ms, and works 10 ms for each of eight messages. Room is for four.
#[test]
fn a_waker_sleeps_until_there_is_room() {
    let sends = |count: usize| task("sender", 0, vec![wake(0, Follow::Free); count]);
    let receives =
        |count: usize| task("receiver", 1, [vec![run(100)], vec![vec![wait(0), run(10)]; count].concat()].concat());
    let ends = |rooms: &[(usize, Room)], tasks: Vec<Task>| -> Vec<u64> {
        let rooms = rooms.iter().copied().collect();
        let (_, results, notes) = simulate_with(&Workload { rooms, ..workload(tasks, 1) });
        assert_eq!(notes, Vec::<String>::new());
        results.tasks.iter().map(|task| (task.account.cpu_ns + task.account.sleeping_ns) / MS).collect()
    };
    assert_eq!(ends(&[], vec![sends(8), receives(8)]), [0, 180]);
    let room = |most, few| [(0, Room { most, few })];
    // It wakes when one is left, after 120 ms, and once more after 150.
    assert_eq!(ends(&room(4, 1), vec![sends(8), receives(8)]), [150, 180]);
    assert_eq!(ends(&room(4, 3), vec![sends(8), receives(8)]), [130, 180]);
    // Two senders share the room.
    assert_eq!(ends(&room(4, 1), vec![sends(4), sends(4), receives(8)])[2], 180);
    // A receiver that has ended needs no room.
    assert_eq!(ends(&room(4, 1), vec![sends(8), receives(1)]), [110, 110]);
}

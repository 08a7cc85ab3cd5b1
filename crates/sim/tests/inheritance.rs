//! Priority inheritance, and its absence.

mod support;

use support::*;
use vruntime_sched::event::Event;
use vruntime_sched::ids::TaskId;
use vruntime_sim::Config;
use vruntime_workload::program::*;

fn run(us: u64) -> Op {
    Op::Run { work: us * US }
}

fn fifo(mut task: Task, priority: u8) -> Task {
    task.settings.policy = Some(Policy::Fifo { priority });
    task
}

fn config(machine: &str) -> Config {
    let mut config = exact("6.12", machine);
    config.kernel.set("sched_rt_runtime_us", 1_000_000).unwrap();
    config
}

/// Indices of a mutex with and without priority inheritance in `support::workload`.
const PI: usize = 2;
const PLAIN: usize = 0;

/// Mars Pathfinder, 1997: the urgent bus manager waits for the meteorological task's mutex, and a long communications
/// task of medium priority has the CPU. Returns when the urgent task has its mutex, us.
fn pathfinder(mutex: usize) -> u64 {
    let meteo = fifo(once("meteo", vec![Op::Lock(mutex), run(1000), Op::Unlock(mutex), run(5000)]), 10);
    let bus = starting(fifo(once("bus", vec![Op::Lock(mutex), run(100), Op::Unlock(mutex)]), 30), 200 * US);
    let comm = starting(fifo(once("comm", vec![run(50_000)]), 20), 300 * US);
    let mut log = Log::default();
    simulate(&workload(vec![meteo, bus, comm]), &config("1"), &mut log).unwrap();
    log.exit("bus").unwrap() / US
}

#[test]
fn mars_pathfinder_resets_without_inheritance_and_not_with_it() {
    // The whole communications task.
    assert_eq!(pathfinder(PLAIN), 51_100);
    // The rest of the critical section: 800 us.
    assert_eq!(pathfinder(PI), 1100);
}

#[test]
fn a_lent_priority_ends_at_the_unlock() {
    let low = fifo(once("low", vec![Op::Lock(PI), run(1000), Op::Unlock(PI), run(1000)]), 10);
    let high = starting(fifo(once("high", vec![Op::Lock(PI), run(100), Op::Unlock(PI)]), 30), 200 * US);
    let mut log = Log::default();
    simulate(&workload(vec![low, high]), &config("1"), &mut log).unwrap();
    let lent = log.pick(|at, event| match event {
        Event::PiSetprio { task, old, new } => Some((at / US, task, old, new)),
        _ => None,
    });
    assert_eq!(lent, [(200, TaskId(0), 89, 69), (1000, TaskId(0), 69, 89)]);
}

/// The fair class lends no weight; a real-time task lends a fair one its class.
#[test]
fn a_fair_owner_becomes_a_real_time_task() {
    let fair = once("fair", vec![Op::Lock(PI), run(3000), Op::Unlock(PI), run(3000)]);
    let between = starting(fifo(once("between", vec![run(20_000)]), 5), 100 * US);
    let urgent = starting(fifo(once("urgent", vec![Op::Lock(PI), run(100), Op::Unlock(PI)]), 30), 50 * US);
    let also_fair = starting(once("also_fair", vec![Op::Lock(PI), Op::Unlock(PI)]), 10 * US);
    let mut log = Log::default();
    simulate(&workload(vec![fair, between, urgent, also_fair]), &config("1"), &mut log).unwrap();
    assert_eq!(log.exit("urgent"), Some(3100 * US));
    let lent = log.pick(|_, event| match event {
        Event::PiSetprio { task, old, new } => Some((task, old, new)),
        _ => None,
    });
    assert_eq!(lent, [(TaskId(0), 120, 69), (TaskId(0), 69, 120)]);
}

/// Each loan or return: the task's name, and its priority from then on.
fn lent(workload: &Workload, machine: &str) -> Vec<(String, i16)> {
    let mut log = Log::default();
    simulate(workload, &config(machine), &mut log).unwrap();
    let lent = log.pick(|_, event| match event {
        Event::PiSetprio { task, new, .. } => Some((task, new)),
        _ => None,
    });
    lent.into_iter().map(|(task, new)| (log.names[task.index()].clone(), new)).collect()
}

/// A more urgent new waiter lends to a task that got the mutex by hand-over or stealing.
#[test]
fn the_next_owner_is_lent_to_as_well() {
    let takes = |name: &str, priority, start: u64, before| {
        let ops = vec![run(before), Op::Lock(PI), run(1000), Op::Unlock(PI)];
        starting(fifo(once(name, ops), priority), start * US)
    };
    let named = |all: &[(&str, i16)]| all.iter().map(|&(name, prio)| (name.to_owned(), prio)).collect::<Vec<_>>();
    let owners = [("owner", 79), ("owner", 69), ("owner", 89)];
    // `next` has it from 1000 us on, and `last` waits.
    let waiters = || vec![takes("owner", 10, 0, 0), takes("last", 20, 100, 0), takes("next", 30, 200, 0)];
    let tasks = waiters().into_iter().chain([takes("urgent", 40, 1500, 0)]).collect();
    assert_eq!(lent(&workload(tasks), "1"), named(&[&owners[..], &[("next", 59), ("next", 69)]].concat()));
    // `thief` has the other CPU while `next` gets the mutex, and takes it before `next` has run.
    let others = [takes("thief", 35, 900, 500), takes("urgent", 40, 1600, 0)];
    let tasks = waiters().into_iter().chain(others).enumerate();
    let tasks = tasks.map(|(index, task)| pinned(task, &[u32::from(index == 0)])).collect();
    assert_eq!(lent(&workload(tasks), "2"), named(&[&owners[..], &[("thief", 59), ("thief", 64)]].concat()));
}

/// Two mutexes, unlocked in the order of locking: the first one's other waiter lends to its next owner.
#[test]
fn an_owner_that_unlocks_one_of_two_keeps_what_the_other_lends() {
    let owner = vec![Op::Lock(PI), Op::Lock(3), run(1000), Op::Unlock(PI), run(1000), Op::Unlock(3)];
    let waits = |name: &str, priority, start: u64, mutex| {
        starting(fifo(once(name, vec![Op::Lock(mutex), run(10), Op::Unlock(mutex)]), priority), start * US)
    };
    let mut workload = workload(vec![
        fifo(once("owner", owner), 10),
        waits("first", 20, 100, PI),
        waits("second", 25, 200, PI),
        waits("third", 40, 300, 3),
    ]);
    workload.mutexes[3].priority_inheritance = true;
    let expected = [79, 74, 59, 89].map(|prio| ("owner".to_owned(), prio));
    assert_eq!(lent(&workload, "1"), expected);
}

#[test]
fn waiters_are_served_by_urgency_not_by_arrival() {
    let owner = fifo(once("owner", vec![Op::Lock(PI), run(1000), Op::Unlock(PI)]), 40);
    let waiter = |name: &str, start: u64, priority| {
        starting(fifo(once(name, vec![Op::Lock(PI), run(100), Op::Unlock(PI)]), priority), start * US)
    };
    let tasks = vec![owner, waiter("low", 100, 50), waiter("high", 200, 70), waiter("middle", 300, 60)];
    let mut log = Log::default();
    simulate(&workload(tasks), &config("1"), &mut log).unwrap();
    let order = log.pick(|_, event| match event {
        Event::Exit { task } if task != TaskId(0) => Some(task.0),
        _ => None,
    });
    assert_eq!(order, [2, 3, 1]);
}

#[test]
fn fair_waiters_are_served_by_arrival() {
    let takes = |name: &str, start: u64, nice| {
        let mut task = once(name, vec![Op::Lock(PI), run(1000), Op::Unlock(PI)]);
        task.settings.policy = Some(Policy::Other { nice, slice: None });
        starting(task, start * US)
    };
    let tasks = vec![takes("owner", 0, 0), takes("first", 100, 10), takes("second", 200, -10)];
    let mut log = Log::default();
    simulate(&workload(tasks), &config("3"), &mut log).unwrap();
    let ends = ["owner", "first", "second"].map(|name| log.exit(name).unwrap() / US);
    assert_eq!(ends, [1000, 2000, 3000]);
}

/// Returns when a waiter gets the mutex, ms. The owner, as urgent as `urgent` says, sleeps for 1 ms with the mutex,
/// three times, and relocks it right after each unlock.
fn waiter_beside(urgent: impl Fn(Task) -> Task) -> u64 {
    let turn = || vec![Op::Lock(PI), Op::Sleep { time: MS }, Op::Unlock(PI)];
    let owner = urgent(once("owner", [turn(), turn(), turn()].concat()));
    let waiter = starting(once("waiter", vec![Op::Lock(PI), run(10), Op::Unlock(PI)]), 100 * US);
    let mut log = Log::default();
    simulate(&workload(vec![owner, waiter]), &config("1"), &mut log).unwrap();
    log.exit("waiter").unwrap() / MS
}

/// The first unlock hands it over, but a more urgent task steals it before the heir has run.
#[test]
fn the_more_urgent_steal_a_mutex_from_its_heir_and_equals_do_not() {
    assert_eq!(waiter_beside(|owner| owner), 1);
    assert_eq!(waiter_beside(|owner| fifo(owner, 10)), 3);
}

/// Five mutexes, each owner waiting for the next one's, on two CPUs with hogs: the last task's urgency reaches the
/// first at once.
#[test]
fn a_chain_of_five_across_two_cpus() {
    let mutex = |index: usize| Mutex { name: format!("m{index}"), priority_inheritance: true, hands_over: false };
    let at = |task: Task, index: usize| pinned(task, &[index as u32 % 2]);
    let mut tasks = Vec::new();
    // Task n holds mutex n and wants n - 1; the first only works.
    for index in 0..5 {
        let mut ops = vec![Op::Lock(index), run(400)];
        if index > 0 {
            ops.push(Op::Lock(index - 1));
        }
        ops.push(run(600));
        if index > 0 {
            ops.push(Op::Unlock(index - 1));
        }
        ops.push(Op::Unlock(index));
        // Each starts while the one before it holds its mutex.
        let start = 10 * index as u64 * US;
        tasks.push(at(starting(fifo(once(&format!("t{index}"), ops), 10 + index as u8), start), index));
    }
    tasks.push(at(starting(fifo(once("urgent", vec![Op::Lock(4), run(100), Op::Unlock(4)]), 60), 3000 * US), 1));
    for cpu in 0..2 {
        let hog = fifo(once(&format!("hog{cpu}"), vec![run(100_000)]), 30);
        tasks.push(at(starting(hog, 2900 * US), cpu));
    }
    let chain = |inherit: bool| {
        let mut workload = workload(tasks.clone());
        workload.mutexes = (0..5).map(mutex).collect();
        workload.mutexes.iter_mut().for_each(|mutex| mutex.priority_inheritance = inherit);
        // The first owner still works when the hogs start.
        let mut first = workload.tasks[0].phases.to_vec();
        first[0].ops = vec![Op::Lock(0), run(20_000), Op::Unlock(0)];
        workload.tasks[0].phases = first.into();
        let mut log = Log::default();
        simulate(&workload, &config("2"), &mut log).unwrap();
        log
    };
    let with = chain(true);
    let boosted: Vec<u32> = with.pick(|at, event| match event {
        Event::PiSetprio { task, new: 39, .. } if at == 3000 * US => Some(task.0),
        _ => None,
    });
    assert_eq!(boosted, [4, 3, 2, 1, 0], "the whole chain at once");
    // The first needs the rest of its 20 ms, each of the others 600 us, the last 100.
    let done = with.exit("urgent").unwrap();
    assert!(done < 30_000 * US, "{done}");
    assert!(with.exit("hog0").unwrap() > 100_000 * US);
    let back = with.pick(|_, event| match event {
        Event::PiSetprio { task, new, .. } => Some((task.0, new)),
        _ => None,
    });
    for task in 0..5u32 {
        let last = back.iter().rev().find(|(who, _)| *who == task).unwrap();
        assert_eq!(last.1, 99 - (10 + task as i16), "task {task} gave back all it was lent");
    }
    // Without inheritance the hogs run first.
    assert!(chain(false).exit("urgent").unwrap() > 100_000 * US);
}

fn reserving(mut task: Task, runtime: u64, period: u64) -> Task {
    let (runtime, period) = (runtime * MS, period * MS);
    task.settings.policy = Some(Policy::Deadline { runtime, deadline: period, period, reclaim: false, overrun: false });
    task
}

/// Returns when a task with a reservation of 5 in 20 has done 29 ms of work with two mutexes that `waiters` wait for,
/// ms.
fn reservation_beside(kernel: &str, waiters: Vec<Task>) -> u64 {
    let ops = vec![Op::Lock(0), Op::Lock(1), run(29_000), Op::Unlock(1), Op::Unlock(0)];
    let tasks = std::iter::once(reserving(once("owner", ops), 5, 20)).chain(waiters);
    let mut workload = workload(tasks.collect());
    workload.mutexes.iter_mut().for_each(|mutex| mutex.priority_inheritance = true);
    let mut config = exact(kernel, "1");
    config.kernel.feature("HRTICK_DL").unwrap();
    let mut log = Log::default();
    simulate(&workload, &config, &mut log).unwrap();
    log.exit("owner").unwrap() / MS
}

/// `rt_mutex_setprio` lends a deadline task another's parameters only if those have the earlier deadline.
#[test]
fn a_later_deadline_does_not_lift_a_reservation() {
    let waiter = |mutex, start, period| {
        let waits = once("waiter", vec![Op::Lock(mutex), run(100), Op::Unlock(mutex)]);
        starting(reserving(waits, 1, period), start * MS)
    };
    let fair = |start| starting(once("fair", vec![Op::Lock(1), Op::Unlock(1)]), start * MS);
    for kernel in ["6.1", "6.12"] {
        let done = |waiters| reservation_beside(kernel, waiters);
        // 5 ms in each 20.
        assert_eq!(done(vec![]), 104, "{kernel}: alone");
        assert_eq!(done(vec![fair(2)]), 104, "{kernel}: a fair task has no deadline");
        assert_eq!(done(vec![waiter(0, 1, 50)]), 104, "{kernel}: it waits until 51 and the owner until 20");
        // It wakes while the owner is throttled, so it has the CPU; 10 + 10 is 20.
        assert_eq!(done(vec![waiter(0, 10, 10)]), 104, "{kernel}: the same deadline");
        assert_eq!(done(vec![waiter(0, 10, 9)]), 34, "{kernel}: 19 is before 20");
        // The owner has done 15 by 45, and its deadline is 60. A new waiter has the most urgent one determined again.
        assert_eq!(done(vec![waiter(0, 1, 50), fair(46)]), 60, "{kernel}: 51 is before 60");
    }
}

/// Changes of one task's policy each, at times in microseconds.
fn changes(what: &[(u64, usize, Policy)]) -> Vec<Change> {
    let change = |&(at, task, policy): &(u64, usize, Policy)| {
        let settings = Settings { policy: Some(policy), ..Settings::default() };
        Change { at: at * US, what: Changed::Tasks { tasks: vec![task], settings, nice: None } }
    };
    what.iter().map(change).collect()
}

/// `rt_mutex_adjust_pi`: a waiter's new policy reaches the chain of owners, up and down.
#[test]
fn a_change_of_a_waiter_travels_along_the_chain() {
    let owner = once("owner", vec![Op::Lock(0), run(50_000), Op::Unlock(0)]);
    let middle = once("middle", vec![Op::Lock(1), Op::Lock(0), run(10), Op::Unlock(0), Op::Unlock(1)]);
    let waiter = once("waiter", vec![Op::Lock(1), run(10), Op::Unlock(1)]);
    let hog = fifo(once("hog", vec![run(100_000)]), 50);
    let tasks = vec![owner, starting(middle, 1000 * US), starting(waiter, 6000 * US), starting(hog, 20_000 * US)];
    let mut workload = workload(tasks);
    workload.mutexes.iter_mut().for_each(|mutex| mutex.priority_inheritance = true);
    let other = Policy::Other { nice: 0, slice: None };
    // Less urgent than the hog, its priority has no effect on the owner's turn, but is lent; a nice value is not.
    let urgent = |priority| Policy::Fifo { priority };
    workload.changes = changes(&[(30_000, 2, urgent(90)), (40_000, 2, urgent(40)), (50_000, 2, other)]);
    let nice = Changed::Tasks { tasks: vec![2], settings: Settings::default(), nice: Some(-10) };
    workload.changes.push(Change { at: 60_000 * US, what: nice });
    let mut log = Log::default();
    simulate(&workload, &config("1"), &mut log).unwrap();
    let lent = log.pick(|at, event| match event {
        Event::PiSetprio { task, old, new } => Some((at / MS, task.0, old, new)),
        _ => None,
    });
    let expected =
        [(30, 1, 120, 9), (30, 0, 120, 9), (40, 1, 9, 59), (40, 0, 9, 59), (50, 1, 59, 120), (50, 0, 59, 120)];
    assert_eq!(lent, expected);
    // The owner had the CPU from 30 to 40.
    assert_eq!(log.exit("hog").unwrap() / MS, 130);
}

#[test]
fn a_change_puts_a_waiter_in_its_new_place() {
    let owner = pinned(once("owner", vec![Op::Lock(PI), run(1000), Op::Unlock(PI)]), &[0]);
    let waiter = |name: &str, start: u64| {
        let waits = fifo(once(name, vec![Op::Lock(PI), run(100), Op::Unlock(PI)]), 50);
        pinned(starting(waits, start * US), &[1])
    };
    let mut workload = workload(vec![owner, waiter("a", 100), waiter("b", 200), waiter("c", 300)]);
    // One keeps its urgency, and its place before its equal.
    let (equal, higher) = (Policy::RoundRobin { priority: 50 }, Policy::Fifo { priority: 60 });
    workload.changes = changes(&[(500, 1, equal), (600, 3, higher)]);
    let mut log = Log::default();
    simulate(&workload, &config("2"), &mut log).unwrap();
    let order = log.pick(|_, event| match event {
        Event::Exit { task } if task != TaskId(0) => Some(task.0),
        _ => None,
    });
    assert_eq!(order, [3, 1, 2]);
}

/// A deadline task with an earlier deadline than its waiter's is lent nothing, until it gives up its reservation. Then
/// it stays in the class, before a FIFO hog, until the unlock.
#[test]
fn a_task_that_gives_up_its_reservation_is_lent_one() {
    for kernel in ["6.1", "6.12"] {
        let owner = reserving(once("owner", vec![Op::Lock(PI), run(29_000), Op::Unlock(PI), run(1_000)]), 5, 20);
        let waiter = reserving(once("waiter", vec![Op::Lock(PI), run(100), Op::Unlock(PI)]), 1, 50);
        let hog = fifo(once("hog", vec![run(100_000)]), 50);
        let mut workload = workload(vec![owner, starting(waiter, MS), starting(hog, 26 * MS)]);
        workload.changes = changes(&[(30_000, 0, Policy::Other { nice: 0, slice: None })]);
        let mut config = exact(kernel, "1");
        config.kernel.feature("HRTICK_DL").unwrap();
        config.kernel.set("sched_rt_runtime_us", 999_999).unwrap();
        let mut log = Log::default();
        simulate(&workload, &config, &mut log).unwrap();
        let done = |name| log.exit(name).unwrap() / US;
        // Throttled at 25 it continues at 30, for its other 19 ms; then the waiter, the rest of the hog, and the last
        // ms.
        assert_eq!(done("waiter"), 49_100, "{kernel}");
        assert_eq!((done("hog"), done("owner")), (145_100, 146_100), "{kernel}");
    }
}

/// A cycle is a deadlock with or without inheritance; lending in it ends.
#[test]
fn lending_in_a_cycle_ends() {
    let task = |name: &str, own, other, priority| {
        fifo(once(name, vec![Op::Lock(own), Op::Sleep { time: MS }, Op::Lock(other)]), priority)
    };
    let tasks = vec![task("a", 0, 1, 10), task("b", 1, 2, 20), task("c", 2, 0, 30)];
    let mut workload = workload(tasks);
    workload.mutexes.iter_mut().for_each(|mutex| mutex.priority_inheritance = true);
    let mut log = Log::default();
    let outcome = simulate(&workload, &config("1"), &mut log).unwrap();
    assert!(outcome.notes.iter().any(|note| note.starts_with("deadlock")), "{:?}", outcome.notes);
}

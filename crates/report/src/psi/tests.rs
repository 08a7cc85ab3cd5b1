//! Pressure of schedules that can be worked out by hand.

use proptest::prelude::*;

use super::*;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
/// 250 Hz: two seconds and a tick.
const PERIOD: u64 = 2_004 * MS;

fn cpu(cpu: u32) -> CpuId {
    CpuId(cpu)
}

fn run(task: u32) -> Running {
    Running::Task(TaskId(task))
}

/// Groups of the root, and tasks by group index (0 is the root).
fn machine(groups: u32, tasks: &[u32]) -> Psi {
    let mut psi = Psi::default();
    psi.machine(4 * MS);
    psi.group(GroupId::ROOT, None);
    for group in 1..=groups {
        psi.group(GroupId(group), Some(GroupId::ROOT));
    }
    for (task, &group) in tasks.iter().enumerate() {
        psi.task(TaskId(task as u32), GroupId(group));
    }
    psi
}

/// Tasks 0 and 1 alternate every 100 ms on CPU 0.
fn take_turns(psi: &mut Psi, end: u64) {
    psi.wakes(0, TaskId(0), cpu(0));
    psi.wakes(0, TaskId(1), cpu(0));
    psi.switch(0, cpu(0), Running::Idle, PrevState::Preempted, run(0));
    for turn in 1..end / (100 * MS) {
        let (prev, next) = (1 - turn as u32 % 2, turn as u32 % 2);
        psi.advance(turn * 100 * MS);
        psi.switch(turn * 100 * MS, cpu(0), run(prev), PrevState::Preempted, run(next));
    }
}

/// `periods` periods of the same percentage.
fn averaged(percent: u64, periods: u64) -> [u64; 3] {
    EXP.map(|exp| (0..periods).fold(0, |load, _| calc_load(load, exp, percent * ONE, 1)))
}

/// Groups 1 and 2 each have two tasks on one CPU, and task 0 runs for 100 ms, then task 2.
#[test]
fn waits_behind_tasks_of_the_group_are_its_own() {
    let mut psi = machine(2, &[1, 1, 2, 2]);
    for task in 0..4 {
        psi.wakes(0, TaskId(task), cpu(0));
    }
    psi.switch(0, cpu(0), Running::Idle, PrevState::Preempted, run(0));
    psi.switch(100 * MS, cpu(0), run(0), PrevState::Sleeping, run(2));
    // Task 1 waits elsewhere from here, behind no task.
    psi.migrates(150 * MS, TaskId(1), cpu(1));
    psi.read(300 * MS);
    // Of the root, all waits are behind its own tasks: three tasks, then two, then one.
    let own: Vec<u64> = psi.behind_own().collect();
    assert_eq!(own, [(300 + 100 + 150) * MS, 100 * MS, 200 * MS]);
}

#[test]
fn two_tasks_on_one_cpu_always_wait() {
    let mut psi = machine(0, &[0, 0]);
    take_turns(&mut psi, 20 * S);
    let root = psi.read(20 * S)[0];
    assert_eq!(root.some.total_ns, 20 * S);
    // The kernel's averaging worker is a tick late after its first period: 2.004, 4.012, 6.016, ... 18.040 s.
    assert_eq!(root.some.averages, averaged(100, 9));
    assert_eq!(root.some.to_string(), "avg10=83.44 avg60=25.87 avg300=5.98 total=20000000");
    assert_eq!(root.full, Stall::default(), "has no meaning for the machine");
}

#[test]
fn tasks_on_free_cpus_do_not_wait() {
    let mut psi = machine(0, &[0, 0]);
    for task in 0..2 {
        psi.wakes(0, TaskId(task), cpu(task));
        psi.switch(0, cpu(task), Running::Idle, PrevState::Preempted, run(task));
    }
    assert_eq!(psi.read(10 * S)[0], Pressure::default());
}

#[test]
fn a_group_is_fully_stalled_while_another_has_the_cpu() {
    let mut psi = machine(2, &[1, 2]);
    take_turns(&mut psi, 20 * S);
    let [root, one, two] = psi.read(20 * S).try_into().unwrap();
    assert_eq!((root.some.total_ns, root.full.total_ns), (20 * S, 0));
    // The tasks are alone in their groups, so some is full.
    assert_eq!((one.some, two.some), (one.full, two.full));
    assert_eq!(one.full.total_ns + two.full.total_ns, 20 * S);
    // Periods have as much of one as of the other, except for a turn.
    assert!(one.full.total_ns.abs_diff(10 * S) <= 200 * MS, "{one:?}");
}

#[test]
fn a_group_with_one_running_task_is_stalled_in_part_only() {
    let mut psi = machine(1, &[1, 1]);
    take_turns(&mut psi, 20 * S);
    let group = psi.read(20 * S)[1];
    assert_eq!((group.some.total_ns, group.full.total_ns), (20 * S, 0));
}

/// CPUs are weighted with busy time. CPU 0, always busy, always has stalls. CPU 1, busy for a quarter of each period,
/// has none: 1 x 1 + 0.25 x 0 of 1.25.
#[test]
fn cpus_are_weighted_with_their_busy_time() {
    let mut psi = machine(0, &[0, 0, 0]);
    take_turns(&mut psi, 0);
    for period in 0..10 {
        let start = period * PERIOD;
        psi.advance(start);
        psi.wakes(start, TaskId(2), cpu(1));
        psi.switch(start, cpu(1), Running::Idle, PrevState::Preempted, run(2));
        psi.advance(start + PERIOD / 4);
        psi.switch(start + PERIOD / 4, cpu(1), run(2), PrevState::Sleeping, Running::Idle);
    }
    let some = psi.read(10 * PERIOD)[0].some;
    // The worker is a tick or two late, so its periods differ from the task's.
    let share = some.total_ns * 1000 / (10 * PERIOD);
    assert!((798..=802).contains(&share), "{share}");
}

/// Two tasks that alternated for a period, and sleep since.
fn asleep_after_a_period() -> Psi {
    let mut psi = machine(0, &[0, 0]);
    take_turns(&mut psi, PERIOD);
    psi.advance(PERIOD);
    psi.switch(PERIOD, cpu(0), run(1), PrevState::Sleeping, run(0));
    psi.switch(PERIOD, cpu(0), run(0), PrevState::Sleeping, Running::Idle);
    psi
}

#[test]
fn averages_of_a_group_that_slept_decay() {
    let mut psi = asleep_after_a_period();
    let before = psi.groups[0].totals[0].averages;
    assert_eq!(before, averaged(100, 1));
    // After an empty period the worker sleeps. The reader accounts for the rest.
    let some = psi.read(61 * PERIOD)[0].some;
    assert_eq!(some.total_ns, PERIOD);
    let mut expected = before;
    for (average, exp) in expected.iter_mut().zip(EXP) {
        // The worker's last period, 58 missed ones, and the reader's.
        for samples in [1, 58, 1] {
            *average = calc_load(*average, exp, 0, samples);
        }
    }
    assert_eq!(some.averages, expected);
    assert!(expected[0] < 3 && expected[2] > before[2] / 2, "{expected:?}");
}

/// A stall after a long sleep is divided by its period, not by missed ones.
#[test]
fn a_stall_after_a_long_sleep_counts_in_its_own_period() {
    let mut psi = asleep_after_a_period();
    let at = 61 * PERIOD;
    psi.advance(at - S);
    let Total { averages: before, .. } = psi.groups[0].totals[0];
    let Group { last_update, next_update, .. } = psi.groups[0];
    psi.wakes(at - S, TaskId(0), cpu(0));
    let averages = psi.read(at)[0].some.averages;
    // Two periods and a tick before, and 59 missed since.
    assert_eq!((last_update, (at - next_update) / PERIOD), (2 * PERIOD + 4 * MS, 58));
    let percent = S * 100 / (at - last_update - 58 * PERIOD);
    let expected = EXP.into_iter().zip(before).map(|(exp, average)| {
        let slept = calc_load(average, exp, 0, 58);
        calc_load(slept, exp, percent * ONE, 1)
    });
    assert_eq!(averages.to_vec(), expected.collect::<Vec<u64>>());
}

/// It gets its CPU late: the whole machine waited, which has no meaning.
#[test]
fn the_whole_machine_is_never_fully_stalled() {
    let mut psi = machine(1, &[1]);
    psi.wakes(0, TaskId(0), cpu(0));
    psi.switch(S, cpu(0), Running::Idle, PrevState::Preempted, run(0));
    let [root, group] = psi.read(S).try_into().unwrap();
    assert_eq!((root.some.total_ns, root.full.total_ns), (S, 0));
    assert_eq!((group.some.total_ns, group.full.total_ns), (S, S));
}

#[test]
fn a_task_that_announces_its_end_still_has_the_cpu() {
    let mut psi = machine(1, &[1, 1]);
    take_turns(&mut psi, 0);
    psi.ends(S, TaskId(0));
    psi.switch(2 * S, cpu(0), run(0), PrevState::Dead, run(1));
    let group = psi.read(2 * S)[1];
    assert_eq!((group.some.total_ns, group.full.total_ns), (2 * S, 0));
}

/// Calls for three CPUs and six tasks in nested groups.
#[derive(Clone, Debug)]
enum Call {
    Wake(u32, u32),
    Pick(u32, u8),
    Move(u32, u32),
    Group(u32, u32),
}

fn call() -> impl Strategy<Value = (u64, Call)> {
    let call = prop_oneof![
        (0..6_u32, 0..3_u32).prop_map(|(task, cpu)| Call::Wake(task, cpu)),
        (0..3_u32, any::<u8>()).prop_map(|(cpu, how)| Call::Pick(cpu, how)),
        (0..6_u32, 0..3_u32).prop_map(|(task, cpu)| Call::Move(task, cpu)),
        (0..6_u32, 0..4_u32).prop_map(|(task, group)| Call::Group(task, group)),
    ];
    (0..400 * MS, call)
}

proptest! {
    /// Full is part of some, some is at most the time, and counts of a group on a CPU match its tasks and descendants.
    #[test]
    fn accounts_agree_with_the_tasks(calls in prop::collection::vec(call(), 1..200)) {
        let mut psi = machine(0, &[0; 6]);
        psi.group(GroupId(1), Some(GroupId(0)));
        psi.group(GroupId(2), Some(GroupId(1)));
        psi.group(GroupId(3), Some(GroupId(0)));
        let mut now = 0;
        let mut running = [Running::Idle; 3];
        for (passed, call) in calls {
            now += passed;
            psi.advance(now);
            match call {
                Call::Wake(task, on) => psi.wakes(now, TaskId(task), cpu(on)),
                Call::Pick(on, how) => {
                    let queued = |task: &&u32| {
                        let task = psi.tasks[**task as usize];
                        task.state == State::Queued && task.cpu == on
                    };
                    let next = [0, 1, 2, 3, 4, 5].iter().find(queued).map_or(Running::Idle, |&task| run(task));
                    let state = [PrevState::Preempted, PrevState::Sleeping, PrevState::Blocked][how as usize % 3];
                    let prev = std::mem::replace(&mut running[on as usize], next);
                    if prev != next {
                        psi.switch(now, cpu(on), prev, state, next);
                    }
                }
                Call::Move(task, to) if psi.tasks[task as usize].state != State::Running => {
                    psi.migrates(now, TaskId(task), cpu(to));
                }
                Call::Move(..) => {}
                Call::Group(task, group) => psi.moves(now, TaskId(task), GroupId(group)),
            }
            for (index, group) in psi.groups.iter().enumerate() {
                for (cpu, cell) in group.cells.iter().enumerate() {
                    let inside = |mut at: u32| loop {
                        if at as usize == index { break true; }
                        match psi.groups[at as usize].parent { Some(parent) => at = parent, None => break false }
                    };
                    let here = psi.tasks.iter().filter(|task| task.cpu as usize == cpu && inside(task.group));
                    let runnable = here.clone().filter(|task| task.state != State::Asleep).count();
                    prop_assert_eq!(cell.runnable as usize, runnable);
                    prop_assert_eq!(cell.running, here.clone().any(|task| task.state == State::Running));
                }
            }
        }
        for pressure in psi.read(now) {
            prop_assert!(pressure.full.total_ns <= pressure.some.total_ns);
            prop_assert!(pressure.some.total_ns <= now);
            prop_assert!(pressure.some.averages.iter().all(|&average| average <= 100 * ONE));
        }
    }
}

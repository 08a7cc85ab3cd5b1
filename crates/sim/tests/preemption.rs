//! Whom a new task or a woken one preempts, by release and by preemption model.

mod support;

use support::*;
use vruntime_sched::event::{Event, Running};
use vruntime_sim::{Config, Preempt};
use vruntime_workload::program::*;

/// A parent that has had more than its part loses the CPU to its child, and goes on under late releases of 6.18.
#[test]
fn a_child_preempts_its_parent_but_not_in_late_releases_of_6_18() {
    let left = |kernel, release: &str| {
        let parent = once("parent", vec![sleep(10_300), run(200), Op::Fork(2), run(5)]);
        let hog = once("hog", vec![run(1_000_000)]);
        let child = Task { start: None, ..once("child", vec![run(100)]) };
        let mut log = Log::default();
        let mut config = Config { duration: Some(50 * MS), ..exact(kernel, "1") };
        config.kernel.as_of(release);
        simulate(&workload(vec![parent, hog, child]), &config, &mut log).unwrap();
        let forks = log.pick(|at, event| matches!(event, Event::Fork { parent: Some(_), .. }).then_some(at));
        (log.exit("parent").unwrap() - forks[0], log.exit("child").unwrap() - forks[0])
    };
    for (kernel, release) in [("6.6", "6.6"), ("6.12", "6.12.117+deb13-cloud-amd64"), ("6.18", "6.18.15")] {
        let (parent, child) = left(kernel, release);
        assert!(child < parent, "{release}: {child}, {parent}");
    }
    for release in ["6.18.44", "7.2.13"] {
        assert_eq!(left("6.18", release).0, 5 * US, "{release}");
    }
}

/// Of two that compute one gives way at a tick; and it is known when those come, if that is said, whatever the seed.
#[test]
fn ticks_come_when_they_are_said_to() {
    let switches = |seed, tick_phase| {
        let mut log = Log::default();
        let config = Config { seed, tick_phase, duration: Some(100 * MS), ..exact("6.18", "1") };
        let hogs = ["a", "b"].map(|name| once(name, vec![run(1_000_000)]));
        simulate(&workload(hogs.into()), &config, &mut log).unwrap();
        let times = log.pick(|at, event| match event {
            Event::Switch { prev: Running::Task(_), next: Running::Task(_), .. } => Some(at % (4 * MS)),
            _ => None,
        });
        assert!(times.len() > 10, "{times:?}");
        times
    };
    for seed in 0..4 {
        for phase in [0, 1_300 * US, 4 * MS - 1] {
            assert!(switches(seed, Some(phase)).iter().all(|at| *at == phase), "seed {seed}, {phase} ns");
        }
    }
    assert_ne!(switches(1, None)[0], switches(2, None)[0], "else the seed says");
}

/// Where preemption is lazy a CPU that runs a fair task is not interrupted for another one: that has it from the next tick on. For a real-time
/// task it is interrupted, and an idle CPU for anybody. Kernels before 6.13 know no such model.
#[test]
fn lazy_preemption_interrupts_no_cpu_for_a_fair_task() {
    let late = |kernel: &str, preempt, policy, hogged: bool| {
        let mut hog = pinned(once("hog", vec![run(40_000)]), &[1]);
        hog.settings.policy = Some(Policy::Idle);
        let waker = pinned(once("waker", vec![sleep(5_000), Op::SemPost(0)]), &[0]);
        let mut woken = pinned(once("woken", vec![Op::SemWait(0), run(10)]), &[1]);
        woken.settings.policy = Some(policy);
        let mut workload = workload(if hogged { vec![waker, woken, hog] } else { vec![waker, woken] });
        workload.semaphores = vec![Semaphore { name: "s".to_owned(), initial: 0 }];
        let mut log = Log::default();
        let config = Config { preempt, duration: Some(30 * MS), ..exact(kernel, "2") };
        simulate(&workload, &config, &mut log).unwrap();
        (log.exit("woken").unwrap() - log.exit("waker").unwrap()) / US
    };
    let fair = Policy::Other { nice: 0, slice: None };
    let urgent = Policy::Fifo { priority: 1 };
    // Posted at 5 ms, and ticks are every fourth: 3 ms until the next.
    assert_eq!(late("6.18", Preempt::Lazy, fair, true), 3_010);
    assert_eq!(late("6.18", Preempt::Lazy, urgent, true), 10);
    assert_eq!(late("6.18", Preempt::Lazy, fair, false), 10);
    assert_eq!(late("6.18", Preempt::None, fair, true), 10);
    assert_eq!(late("6.12", Preempt::Lazy, fair, true), 10);
}

//! CPU limits on a small machine with a clock (ARCHITECTURE.md, always true, 5). No group ever exceeds its limit, and a
//! group that wants its limit gets it. Also checks EEVDF's invariants (`lags`).

mod bench;
#[path = "../lags/mod.rs"]
mod lags;
mod random;

use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::event::Running;
use vruntime_sched::{Limit, PolicyKind, kernel};

use bench::{Bench, MS};

/// Kernels with limits.
pub(crate) const KERNELS: [&str; 9] = ["3.10", "3.12", "3.17", "3.18", "6.1", "6.6", "6.12", "6.18", "7.1"];

fn limit(quota: u64, period: u64) -> Limit {
    Limit::new(quota, period, 0).unwrap()
}

macro_rules! for_each_kernel {
    ($bench:ident = ($cpus:expr, $parents:expr), $name:ident, $body:block) => {
        for $name in KERNELS {
            if kernel($name).unwrap().policy == PolicyKind::Cfs {
                #[allow(unused_mut)]
                let mut $bench = Bench::<Cfs>::new($cpus, $name, $parents);
                $body
            } else {
                #[allow(unused_mut)]
                let mut $bench = Bench::<Eevdf>::new($cpus, $name, $parents);
                $body
            }
        }
    };
}

fn close(used: u64, expected: u64, percent: u64) -> bool {
    used.abs_diff(expected) * 100 <= expected * percent
}

#[test]
fn a_group_that_wants_more_gets_its_quota_and_no_more() {
    for_each_kernel!(bench = (2, &[0]), name, {
        bench.limit(1, Some(limit(30 * MS, 100 * MS)));
        for cpu in 0..4 {
            bench.fork(1, cpu);
        }
        bench.fork(0, 0);
        let start = bench.now;
        bench.run_until(start + 2_000 * MS);
        let stat = bench.stat(1);
        // The first period may be short, but has a whole quota.
        assert!((19..=20).contains(&stat.nr_periods), "{name}: {stat:?}");
        let (used, quotas) = (bench.used(1), stat.nr_periods * 30 * MS);
        assert!((quotas..=quotas + 30 * MS + bench.overrun()).contains(&used), "{name}: {used} ns, {stat:?}");
        assert!(stat.nr_throttled >= stat.nr_periods - 1, "{name}: {stat:?}");
        assert!(bench.wishes.throttled > 0 && stat.throttled_ns > 0, "{name}: {stat:?}");
    });
}

#[test]
fn a_quota_of_more_than_its_tasks_can_use_changes_nothing() {
    for_each_kernel!(bench = (2, &[0]), name, {
        bench.limit(1, Some(limit(220 * MS, 100 * MS)));
        bench.fork(1, 0);
        bench.fork(1, 1);
        let start = bench.now;
        bench.run_until(start + 1_000 * MS);
        assert_eq!((bench.used(1), bench.wishes.throttled), (2_000 * MS, 0), "{name}");
    });
}

/// The parent's limit binds: each child's exceeds half of it.
#[test]
fn nested_quotas_add_up() {
    for_each_kernel!(bench = (4, &[0, 1, 1, 1]), name, {
        bench.limit(1, Some(limit(100 * MS, 100 * MS)));
        bench.limit(2, Some(limit(20 * MS, 100 * MS)));
        bench.limit(3, Some(limit(90 * MS, 50 * MS)));
        for cpu in 0..4 {
            bench.fork(2, cpu);
            bench.fork(3, cpu);
            bench.fork(4, cpu);
        }
        let start = bench.now;
        bench.run_until(start + 3_000 * MS);
        let used = [1, 2, 3, 4].map(|group| bench.used(group));
        assert!(close(used[0], 3_000 * MS, 5), "{name}: {used:?}");
        assert_eq!(used[1] + used[2] + used[3], used[0], "{name}");
        // The first child exceeds its quota only by the permitted overrun.
        assert!(used[1] <= 600 * MS + bench.overrun(), "{name}: {used:?}");
        assert!(used[2] > used[1] && used[3] > used[1], "{name}: {used:?}");
    });
}

/// 6.1 counts throttled time from the dequeue; all count it while a task waits.
#[test]
fn throttled_time_is_that_of_the_cpus_that_wait() {
    for_each_kernel!(bench = (1, &[0]), name, {
        bench.limit(1, Some(limit(25 * MS, 100 * MS)));
        bench.fork(1, 0);
        let start = bench.now;
        bench.run_until(start + 1_050 * MS);
        let stat = bench.stat(1);
        // Throttled at the tick after 25 ms, until the next period.
        let (used, throttled) = (bench.used(1), stat.throttled_ns);
        assert!(close(used + throttled, 1_000 * MS, 10), "{name}: used {used}, throttled {throttled}");
    });
}

#[test]
fn removing_a_limit_unthrottles_at_once() {
    for_each_kernel!(bench = (1, &[0, 1]), name, {
        bench.limit(1, Some(limit(MS, 1_000 * MS)));
        bench.fork(2, 0);
        let start = bench.now;
        bench.run_until(start + 500 * MS);
        assert!(bench.used(1) <= MS + bench.overrun(), "{name}");
        assert_eq!(bench.rqs[0].running(), Running::Idle, "{name}");
        bench.limit(1, None);
        assert!(bench.rqs[0].running() != Running::Idle, "{name}");
        let before = bench.used(1);
        bench.run_until(start + 900 * MS);
        assert_eq!(bench.used(1) - before, 400 * MS, "{name}");
    });
}

#[test]
fn what_was_saved_is_used_in_a_burst() {
    for_each_kernel!(bench = (1, &[0]), name, {
        bench.limit(1, Some(Limit::new(20 * MS, 100 * MS, 20 * MS).unwrap()));
        let task = bench.fork(1, 0);
        bench.toggle(task);
        // Short work, so that the timer runs and saves up.
        let start = bench.now;
        for step in 1..=10 {
            bench.toggle(task);
            bench.run_until(start + step * 50 * MS - 49 * MS);
            bench.toggle(task);
            bench.run_until(start + step * 50 * MS);
        }
        let before = bench.used(1);
        bench.toggle(task);
        bench.run_until(start + 950 * MS);
        let used = bench.used(1) - before;
        // 450 ms: four or five periods of 20 ms, and one burst of 20 ms.
        assert!((100 * MS..=130 * MS).contains(&used), "{name}: {used}");
        let stat = bench.stat(1);
        assert!(stat.nr_bursts >= 1 && stat.burst_ns >= 10 * MS, "{name}: {stat:?}");
    });
}

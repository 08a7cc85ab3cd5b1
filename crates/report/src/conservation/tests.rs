//! Waits beside idle CPUs.

use vruntime_trace::DomainInfo;

use super::*;

const MS: u64 = 1_000_000;

fn mask(cpus: impl IntoIterator<Item = u32>) -> CpuMask {
    cpus.into_iter().map(CpuId).collect()
}

/// Two pairs of CPUs: 3 ms within a pair (5 with the ticks), 7 ms between them (9).
fn watch() -> Conservation {
    let domain = |cpus: std::ops::Range<u32>, ms: u64| DomainInfo {
        span: mask(cpus.clone()),
        members: mask(cpus),
        interval_ns: ms * MS,
        ..DomainInfo::default()
    };
    let domains = [domain(0..2, 3), domain(2..4, 3), domain(0..4, 7)];
    let mut watch =
        Conservation::new(&MachineInfo { cpus: 4, tick_ns: 2 * MS, domains: &domains, energy: None }).unwrap();
    assert_eq!(watch.range, (6 * MS, 10 * MS));
    for cpu in 0..4 {
        watch.gets_busy(0, CpuId(cpu), |_, _| false);
    }
    watch
}

fn waits(account: &Account) -> (u64, u64, u64) {
    let waits = account.idle_waits;
    (waits.count, waits.total_ns / MS, waits.worst_ns / MS)
}

const TASK: TaskId = TaskId(0);

const NOWHERE: fn(CpuId) -> bool = |_| false;

#[test]
fn a_wait_counts_from_a_balance_interval_after_both_began() {
    let (mut watch, mut account) = (watch(), Account::default());
    watch.waits(MS, TASK, CpuId(0));
    watch.goes_idle(3 * MS, CpuId(1));
    watch.runs(9 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (0, 0, 0), "exactly the interval is not beyond it");
    watch.waits(10 * MS, TASK, CpuId(0));
    watch.runs(17 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (1, 1, 1));
    assert_eq!(watch.worst, Some(WorstIdleWait { task: 0, cpu: 0, since: 10 * MS, at: 17 * MS, ns: MS }));
    for (from, until) in [(20, 29), (30, 38)] {
        watch.waits(from * MS, TASK, CpuId(0));
        watch.runs(until * MS, TASK, &mut account, NOWHERE);
    }
    assert_eq!(waits(&account), (3, 6, 3));
    assert_eq!(watch.worst, Some(WorstIdleWait { task: 0, cpu: 0, since: 20 * MS, at: 29 * MS, ns: 3 * MS }));
}

#[test]
fn farther_cpus_have_longer_intervals() {
    let (mut watch, mut account) = (watch(), Account::default());
    watch.goes_idle(0, CpuId(3));
    watch.waits(0, TASK, CpuId(0));
    watch.runs(10 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (0, 0, 0));
    watch.waits(10 * MS, TASK, CpuId(0));
    watch.runs(30 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (1, 10, 10));
}

#[test]
fn idle_intervals_that_end_first_add_up_without_counting_twice() {
    let (mut watch, mut account) = (watch(), Account::default());
    watch.waits(0, TASK, CpuId(0));
    // Too long from 6 to 10 beside CPU 1, from 15 to 17 beside CPU 2, from 10 to 20 beside CPU 3.
    watch.goes_idle(0, CpuId(1));
    watch.goes_idle(0, CpuId(3));
    watch.goes_idle(5 * MS, CpuId(2));
    watch.gets_busy(10 * MS, CpuId(1), |_, _| false);
    watch.gets_busy(17 * MS, CpuId(2), |_, _| false);
    watch.gets_busy(20 * MS, CpuId(3), |_, _| false);
    watch.runs(40 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (1, 14, 14));
    assert!(watch.excess.is_empty());
}

#[test]
fn cpus_that_affinity_forbids_do_not_count() {
    let (mut watch, mut account) = (watch(), Account::default());
    watch.goes_idle(0, CpuId(1));
    watch.affinity(0, TASK, Some(&mask([0, 2])), &mut account, NOWHERE);
    watch.waits(0, TASK, CpuId(0));
    watch.runs(50 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (0, 0, 0));
    // A changed affinity restarts the wait: 8 ms, 2 of them too many.
    watch.waits(60 * MS, TASK, CpuId(0));
    watch.affinity(70 * MS, TASK, None, &mut account, NOWHERE);
    watch.runs(78 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (1, 2, 2));
}

#[test]
fn its_own_cpu_counts_too() {
    let (mut watch, mut account) = (watch(), Account::default());
    watch.goes_idle(0, CpuId(0));
    watch.waits(2 * MS, TASK, CpuId(0));
    watch.gets_busy(10 * MS, CpuId(0), |_, _| false);
    watch.runs(10 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (1, 2, 2));
}

#[test]
fn a_machine_of_one_cpu_has_nothing_to_watch() {
    assert!(Conservation::new(&MachineInfo { cpus: 1, tick_ns: MS, domains: &[], energy: None }).is_none());
}

#[test]
fn what_ends_was_listed_in_order() {
    let mut list = Since::default();
    for (index, at) in [(3, 1), (0, 2), (7, 3), (0, 4)] {
        list.begin(index, at);
    }
    assert_eq!(list.iter().collect::<Vec<_>>(), [(3, 1), (0, 2), (7, 3)]);
    assert_eq!((list.end(0), list.end(0), list.end(5), list.end(99)), (Some(2), None, None, None));
    list.begin(5, 9);
    assert_eq!((list.end(3), list.end(7)), (Some(1), Some(3)));
    assert_eq!(list.iter().collect::<Vec<_>>(), [(5, 9)]);
}

#[test]
fn a_cpu_that_is_offline_is_not_idle() {
    let (mut watch, mut account) = (watch(), Account::default());
    watch.goes_idle(0, CpuId(1));
    watch.cpu_offline(2 * MS, CpuId(1), |_, _| false);
    watch.goes_idle(3 * MS, CpuId(1));
    watch.waits(0, TASK, CpuId(0));
    watch.runs(50 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (0, 0, 0));
    watch.cpu_online(60 * MS, CpuId(1), true);
    watch.waits(50 * MS, TASK, CpuId(0));
    watch.runs(70 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (1, 4, 4), "from when it came, an interval later");
}

#[test]
fn root_domains_do_not_share_tasks() {
    let (mut watch, mut account) = (watch(), Account::default());
    watch.root_domains(0, &[mask(0..2), mask(2..4)], &CpuMask::new(), |_, _| false);
    watch.goes_idle(0, CpuId(3));
    watch.waits(0, TASK, CpuId(0));
    watch.runs(100 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (0, 0, 0));
    // One is isolated and the rest is joined. The wait counts from here.
    watch.waits(100 * MS, TASK, CpuId(0));
    watch.goes_idle(100 * MS, CpuId(2));
    watch.root_domains(150 * MS, &[mask(0..3)], &mask(3..4), |_, _| false);
    watch.runs(180 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (1, 20, 20));
    watch.gets_busy(180 * MS, CpuId(2), |_, _| false);
    watch.waits(200 * MS, TASK, CpuId(0));
    watch.runs(300 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (1, 20, 20), "only the isolated CPU was idle");
    watch.root_domains(300 * MS, &[mask(0..2)], &mask(2..4), |_, _| false);
    watch.waits(300 * MS, TASK, CpuId(2));
    watch.runs(400 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (1, 20, 20), "two isolated CPUs are not together, either");
}

/// Time in which a task is barred from an idle CPU does not count, and restarts its wait.
#[test]
fn a_cpu_where_a_limit_is_used_up_does_not_count() {
    let (mut watch, mut account) = (watch(), Account::default());
    watch.goes_idle(0, CpuId(1));
    watch.waits(0, TASK, CpuId(0));
    watch.is_barred(8 * MS, TASK, CpuId(1));
    watch.is_freed(20 * MS, TASK, CpuId(1));
    watch.is_barred(25 * MS, TASK, CpuId(1));
    watch.is_freed(40 * MS, TASK, CpuId(1));
    watch.runs(47 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (1, 3, 3), "6 to 8, and 46 to 47");
    assert!(watch.freed.is_empty() && watch.excess.is_empty());
    watch.waits(50 * MS, TASK, CpuId(0));
    watch.runs(90 * MS, TASK, &mut account, |cpu| cpu == CpuId(1));
    assert_eq!(waits(&account), (1, 3, 3), "barred all along");
    watch.waits(100 * MS, TASK, CpuId(0));
    watch.gets_busy(190 * MS, CpuId(1), |task, cpu| (task, cpu) == (TASK, CpuId(1)));
    watch.runs(190 * MS, TASK, &mut account, NOWHERE);
    assert_eq!(waits(&account), (1, 3, 3));
}

//! Waits for locks, and other waits of members of a pool.

use super::*;

const FIRST: Named<'static> = Named { pid: 11, comm: b"worker" };
const SECOND: Named<'static> = Named { pid: 12, comm: b"worker" };
const READER: Named<'static> = Named { pid: 21, comm: b"reader" };
const HOG: Named<'static> = Named { pid: 31, comm: b"hog" };

/// In each round of 20 ms the first worker works for 4 ms on CPU 0, and wakes the reader. The reader gets the CPU,
/// and a hog after it. The second worker works for 6 ms on CPU 1 and sleeps. After 12 ms the first worker is back. It
/// does `more` work, and wakes the second. Both work on and sleep, and the second wakes the first at the end of the
/// round. If they are processes of one parent, the second also wakes the reader.
fn rounds(more: u64, processes: bool) -> Recorded {
    let mut script = Script { threads_only: processes, ..Script::default() };
    script.switch(0, 0, Left::Runnable, Some(FIRST)).switch(0, 1, Left::Runnable, Some(SECOND));
    for round in 0..20 {
        let at = round * 20 * MS;
        script.wake(at + 4 * MS, 0, READER).switch(at + 4 * MS + 5 * US, 0, Left::Runnable, Some(READER));
        script.switch(at + 4 * MS + 25 * US, 0, Left::Sleeping, Some(HOG));
        script.switch(at + 6 * MS, 1, Left::Sleeping, None);
        script.switch(at + 12 * MS, 0, Left::Runnable, Some(FIRST));
        script.wake(at + 12 * MS + more, 0, SECOND);
        script.switch(at + 12 * MS + more + 10 * US, 1, Left::Runnable, Some(SECOND));
        script.switch(at + 16 * MS, 0, Left::Sleeping, Some(HOG));
        if processes {
            script.wake(at + 17 * MS, 1, READER).switch(at + 17 * MS, 0, Left::Runnable, Some(READER));
            script.switch(at + 17 * MS + 20 * US, 0, Left::Sleeping, Some(HOG));
        }
        script.wake(at + 20 * MS - 10 * US, 1, FIRST).switch(at + 20 * MS, 0, Left::Runnable, Some(FIRST));
    }
    let processes =
        [FIRST, SECOND, READER, HOG].map(|task| (task.pid, (task.pid, 1))).into_iter().filter(|_| processes);
    std::mem::take(&mut script.recorder).with_processes(processes).with_pools(1).finish(&Lateness::default())
}

fn is_lock(op: &Op) -> bool {
    matches!(op, Op::Lock(_) | Op::Unlock(_))
}

#[test]
fn a_wait_for_a_preempted_holder_takes_its_lock() {
    let recorded = rounds(15 * US, false);
    assert_eq!((recorded.counts.lock_waits, recorded.workload.mutexes.len()), (20, 1));
    let first = ops(&recorded, FIRST.pid);
    let lock = first.iter().position(is_lock).expect("it holds the lock");
    let section = &first[lock..lock + 3];
    let [Op::Lock(0), Op::PoolRun { work, .. }, Op::Unlock(0)] = *section else { panic!("{section:?}") };
    assert_eq!(work, 20 * US, "what it did from the wakeup of the reader to that of the other worker");
    assert!(matches!(first[lock - 1], Op::PoolRun { work, .. } if work == 4 * MS), "{first:?}");
    let second = ops(&recorded, SECOND.pid);
    let [Op::PoolRun { work, .. }, Op::Lock(0), Op::Unlock(0), Op::PoolRun { .. }] = second[1..5] else {
        panic!("{second:?}");
    };
    assert_eq!(work, 6 * MS);
}

#[test]
fn a_wait_for_the_work_of_a_preempted_member_is_for_no_lock() {
    let recorded = rounds(3 * MS, false);
    assert_eq!((recorded.counts.lock_waits, recorded.workload.mutexes.len()), (0, 0));
    assert!(!ops(&recorded, FIRST.pid).iter().chain(&ops(&recorded, SECOND.pid)).any(is_lock));
}

/// Processes that share a queue wait for its lock. Otherwise, one may send to the other.
#[test]
fn processes_that_wait_for_locks_of_each_other_share_their_work() {
    let certain = |more: u64| {
        let recorded = rounds(more, true);
        assert_eq!(recorded.pools, ["worker"]);
        recorded.counts.certain_pools
    };
    assert_eq!((certain(15 * US), certain(3 * MS)), (1, 0));
}

/// In each round of 10 ms the first worker works for 5 ms on CPU 0. The second works on CPU 1 from `later` on. Each
/// wakes the other. The second looks for the lock twice before: a timer wakes it after 2 ms, and the first after
/// 2.5 ms.
fn turns(later: u64) -> Recorded {
    let mut script = Script::default();
    script.wake(0, 0, FIRST).switch(0, 0, Left::Runnable, Some(FIRST));
    for round in 0..40 {
        let at = round * 10 * MS;
        script.context = Some(Context::Hardirq);
        script.event(at + 2 * MS - 3 * US, 0, What::Woken { task: SECOND, prio: 120 });
        script.context = Some(Context::Task);
        script.switch(at + 2 * MS, 1, Left::Runnable, Some(SECOND));
        script.switch(at + 2 * MS + 4 * US, 1, Left::Sleeping, None);
        script.wake(at + 2500 * US, 0, SECOND).switch(at + 2500 * US, 1, Left::Runnable, Some(SECOND));
        script.switch(at + 2503 * US, 1, Left::Sleeping, None);
        script.wake(at + later, 0, SECOND).switch(at + later, 1, Left::Runnable, Some(SECOND));
        script.switch(at + 5 * MS + US, 0, Left::Sleeping, None);
        script.wake(at + 10 * MS - US, 1, FIRST);
        script.switch(at + 10 * MS - US, 1, Left::Sleeping, None).switch(at + 10 * MS, 0, Left::Runnable, Some(FIRST));
    }
    std::mem::take(&mut script.recorder).with_pools(1).finish(&Lateness::default())
}

#[test]
fn threads_that_never_work_together_hold_one_lock() {
    let recorded = turns(5 * MS);
    assert!(recorded.pools.is_empty(), "{:?}", recorded.pools);
    let [lock] = &recorded.workload.mutexes[..] else { panic!("{:?}", recorded.workload.mutexes) };
    assert!(lock.hands_over, "no thread gets it again before the other");
    let second = ops(&recorded, SECOND.pid);
    let works = second.windows(3).filter(|ops| matches!(ops, [Op::EnsureLock(0), Op::Run { .. }, Op::Unlock(0)]));
    assert!(works.count() >= 39, "{second:?}");
    let looks =
        |timed| second.iter().filter(move |op| matches!(op, Op::TryLock { time, .. } if time.is_some() == timed));
    assert!([looks(true).count(), looks(false).count()].iter().all(|&count| count >= 39), "{second:?}");
    let nudges = ops(&recorded, FIRST.pid).iter().filter(|op| **op == Op::Nudge(0)).count();
    assert_eq!(nudges, looks(false).count());
    let sleeps = second.iter().filter(|op| matches!(op, Op::Sleep { .. } | Op::Device { .. } | Op::InboxWait { .. }));
    assert_eq!(sleeps.count(), 0, "a wait for the lock is none: {second:?}");
}

#[test]
fn threads_that_work_together_share_their_work() {
    let recorded = turns(3 * MS);
    assert_eq!(recorded.pools, ["worker"]);
    assert!(!recorded.workload.mutexes.iter().any(|mutex| mutex.hands_over));
}

/// Both workers have CPU 0, and take turns of 3 to 7 ms. The other, which was preempted, looks for the lock after 1 ms,
/// for that `long`. It sleeps until the one that works wakes it, and gives it the lock.
fn on_one_cpu(long: u64) -> Recorded {
    let mut script = Script::default();
    script.wake(0, 0, FIRST).switch(0, 0, Left::Runnable, Some(FIRST));
    let mut pair = [FIRST, SECOND];
    let mut at = 0;
    for turn in 0..150 {
        at += (3 + turn * 7 % 5) * MS;
        let [works, next] = pair;
        script.wake(at, 0, next).switch(at + 5 * US, 0, Left::Runnable, Some(next));
        script.switch(at + MS, 0, Left::Runnable, Some(works));
        script.switch(at + MS + long, 0, Left::Sleeping, Some(next));
        pair = [next, works];
    }
    std::mem::take(&mut script.recorder).with_pools(1).finish(&Lateness::default())
}

#[test]
fn threads_that_give_each_other_a_lock_on_one_cpu_hold_it() {
    assert_eq!(on_one_cpu(MS).pools, ["worker"], "the preempted one works on");
    let recorded = on_one_cpu(4 * US);
    assert!(recorded.pools.is_empty(), "{:?}", recorded.pools);
    let [lock] = &recorded.workload.mutexes[..] else { panic!("{:?}", recorded.workload.mutexes) };
    assert!(lock.hands_over);
}

//! CPUs that go offline and online again.

use super::*;
use vruntime_workload::program::Hotplug;

/// Two spinners take turns on CPU 1, while CPU 0 runs no task. If CPU 0 is offline, they need no affinity for that.
fn two_spinners_beside_an_idle_cpu(offline: Option<(u64, u64)>) -> Recorded {
    let mut script = Script::default();
    let (a, b) = (task(5, "spin"), task(6, "spin"));
    // The stopper takes the CPU down. It is the last thread there, before the idle task.
    let stopper = task(7, "migration/0");
    script.wake(0, 0, a).switch(0, 0, Left::Runnable, Some(stopper));
    if let Some((down, _)) = offline {
        script.event(down, 0, What::Online(false));
    }
    script.switch(2 * MS, 0, Left::Sleeping, None);
    for round in 1..50 {
        let (next, _) = if round % 2 == 0 { (a, b) } else { (b, a) };
        script.switch(round * 4 * MS, 1, Left::Runnable, Some(next));
    }
    if let Some((_, up)) = offline {
        script.event(up, 0, What::Online(true));
        // A repeated event changes nothing.
        script.event(up, 0, What::Online(true));
    }
    script.switch(200 * MS, 1, Left::Dead, Some(a)).switch(204 * MS, 1, Left::Dead, None);
    script.finish()
}

#[test]
fn a_wait_beside_an_offline_cpu_is_no_confinement() {
    let plain = two_spinners_beside_an_idle_cpu(None);
    assert_eq!((plain.counts.confined, plain.counts.hotplug), (2, 0), "the CPU was idle");
    assert!(plain.workload.hotplug.is_empty());
    let recorded = two_spinners_beside_an_idle_cpu(Some((MS, 198 * MS)));
    assert_eq!((recorded.counts.confined, recorded.counts.hotplug), (0, 2));
}

#[test]
fn the_replay_takes_the_cpu_offline_and_online_when_the_machine_did() {
    let recorded = two_spinners_beside_an_idle_cpu(Some((MS, 198 * MS)));
    let [down, up] = [(MS, false), (198 * MS, true)].map(|(at, online)| Hotplug { at, cpu: 0, online });
    assert_eq!(recorded.workload.hotplug, [down, up]);
}

#[test]
fn another_machine_loses_only_cpus_that_it_has_and_never_its_last() {
    let plug = |at, cpu, online| Hotplug { at, cpu, online };
    let all = vec![plug(1, 3, false), plug(2, 1, false), plug(3, 0, false), plug(4, 1, true), plug(5, 3, true)];
    let fitted = |cpus| {
        let mut workload = Workload { hotplug: all.clone(), ..Workload::default() };
        (fit(&mut workload, cpus).hotplug, workload.hotplug)
    };
    assert_eq!(fitted(4), (0, all.clone()));
    assert_eq!(fitted(2), (3, vec![plug(2, 1, false), plug(4, 1, true)]));
    assert_eq!(fitted(1), (5, Vec::new()));
}

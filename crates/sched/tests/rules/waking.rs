//! The order in which a wakeup compares policies and groups.

use vruntime_sched::class::fair::{Cfs, Eevdf};
use vruntime_sched::event::PrevState;
use vruntime_sched::ids::GroupId;
use vruntime_sched::policy::Policy;
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{SchedPolicy, TaskAttrs, Waker};

use crate::bench::{CPU, MS, Machine};

/// Whether a wakeup preempts, for the policies and groups of both tasks.
fn preempts<P: Policy<Tunables = Knobs>>(
    name: &str,
    (runs, in_group): (SchedPolicy, bool),
    (wakes, other_group): (SchedPolicy, bool),
    idle: bool,
) -> bool {
    let mut machine = Machine::<P>::new(name);
    let group = machine.group;
    machine.with(|s| s.set_group_idle(group, idle)).unwrap();
    let place = |there: bool| if there { group } else { GroupId::ROOT };
    let mut fork = |policy, there| {
        machine.with(|s| {
            let task = s.new_task(&TaskAttrs { policy, group: place(there), ..TaskAttrs::default() }, CPU);
            s.wake_new(task, CPU);
            task
        })
    };
    let woken = fork(wakes, other_group);
    let runs = fork(runs, in_group);
    while machine.schedule(PrevState::Preempted) != Some(woken) {
        machine.pass(MS);
    }
    // Its lag is not negative, so it leaves.
    machine.schedule(PrevState::Sleeping);
    machine.now += 10;
    while machine.schedule(PrevState::Preempted) != Some(runs) {
        machine.pass(MS);
    }
    machine.pass(MS / 4);
    machine.asks(|s| s.wake(woken, CPU, Waker::Task))
}

/// Up to 6.11 (here: 6.6) despite equal groups; since then groups are compared first.
#[test]
fn an_idle_task_gives_way_across_groups_before_6_12() {
    let idle_in_group = (SchedPolicy::Idle, true);
    let batch = (SchedPolicy::Batch, false);
    assert!(preempts::<Cfs>("6.1", idle_in_group, batch, false));
    assert!(preempts::<Eevdf>("6.6", idle_in_group, batch, false));
    assert!(!preempts::<Eevdf>("6.12", idle_in_group, batch, false));
}

#[test]
fn a_batch_task_preempts_no_idle_group_before_6_12() {
    let in_group = (SchedPolicy::Normal, true);
    let batch = (SchedPolicy::Batch, false);
    assert!(!preempts::<Cfs>("6.1", in_group, batch, true));
    assert!(!preempts::<Eevdf>("6.6", in_group, batch, true));
    assert!(preempts::<Eevdf>("6.12", in_group, batch, true));
}

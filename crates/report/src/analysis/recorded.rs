//! Records of a trace as steps.

use vruntime_trace::{Named, Record, Tracepoint, Wakeup};

use super::world::{On, Step, What, World};

/// `prio` of real-time and deadline tasks is below this.
const MAX_RT_PRIO: i32 = 100;

/// What a record is to the analyses; none if it is no event.
pub(super) fn step(world: &mut World, record: &Record<'_>) -> Option<Step> {
    let mut named = |task: Named<'_>| world.task(task.pid, task.comm);
    // What perf tells of tasks is no event: it has no time of its own.
    if record.name.starts_with(b"PERF_RECORD_") {
        if let Tracepoint::TaskRename { task, tgid } = record.point
            && let Some(task) = named(task)
            && let Some(tgid) = tgid
        {
            world.set_tgid(task, tgid);
        }
        return None;
    }
    let woken = |task: u32, wakeup: &Wakeup<'_>, new: bool| What::Woken { task, cpu: wakeup.target_cpu, new };
    let what = match record.point {
        Tracepoint::Switch { prev, prev_state, next, .. } => {
            What::Switch { prev: world.on(prev.pid, prev.comm), state: prev_state, next: world.on(next.pid, next.comm) }
        }
        Tracepoint::Waking(wakeup) if wakeup.success => {
            named(wakeup.task).map_or(What::Other, |task| What::Waking { task, cpu: wakeup.target_cpu })
        }
        Tracepoint::Wakeup(wakeup) if wakeup.success => {
            named(wakeup.task).map_or(What::Other, |task| woken(task, &wakeup, false))
        }
        Tracepoint::WakeupNew(wakeup) => named(wakeup.task).map_or(What::Other, |task| woken(task, &wakeup, true)),
        Tracepoint::MigrateTask { task, prio, orig_cpu, dest_cpu } => named(task).map_or(What::Other, |task| {
            What::Migrate { task, from: orig_cpu, to: dest_cpu, cause: None, realtime: prio < MAX_RT_PRIO }
        }),
        Tracepoint::StatRuntime { task, runtime_ns, .. } => {
            named(task).map_or(What::Other, |task| What::Charged { task, ns: runtime_ns })
        }
        Tracepoint::ProcessFork { parent, child } => {
            named(parent);
            world.new_task(child.pid, child.comm).map_or(What::Other, |child| What::Fork { child })
        }
        Tracepoint::ProcessExit { task, .. } => {
            named(task);
            What::Exit
        }
        Tracepoint::TaskRename { task, .. } => {
            named(task);
            What::Other
        }
        Tracepoint::Lost { .. } => What::Lost,
        _ => What::Other,
    };
    let by = match record.pid {
        0 => On::Idle,
        pid => world.task(pid, record.comm).map_or(On::Unknown, On::Task),
    };
    if let (On::Task(task), Some(tgid)) = (by, record.tgid) {
        world.set_tgid(task, tgid);
    }
    Some(Step { at: record.at, cpu: record.cpu, by, irq: record.hardirq == Some(true), what })
}

//! Records of a trace as steps.

use vruntime_trace::{Context, DeadlineEvent, Mark, Named, Record, Tracepoint, Wakeup};

use super::cgroups::{Settings, Update};
use super::world::{On, Step, What, World};

const MAX_RT_PRIO: i32 = 100;

/// Converts a record to steps, none if it is no event. Names, groups and priorities are first.
pub(super) fn steps(world: &mut World, record: &Record<'_>, mut add: impl FnMut(Step)) {
    let step = step(world, record);
    for (task, name) in std::mem::take(&mut world.renamed) {
        // perf's additional records may have no time.
        let at = if record.name.starts_with(b"PERF_RECORD_") { world.read_at } else { record.at };
        add(Step { at, cpu: record.cpu, by: On::Unknown, irq: false, what: What::Named { task, name } });
    }
    if let Some(step) = step {
        world.read_at = step.at;
        let update = |what| Step { by: On::Unknown, irq: false, what: What::Update(what), ..step };
        groups(world, record, |what| add(update(what)));
        add(step);
    }
}

/// Reports facts on groups and weights.
fn groups(world: &mut World, record: &Record<'_>, mut tell: impl FnMut(Update)) {
    let mut prio = |world: &mut World, task: Named<'_>, prio: i32| {
        // If the scheduler reports policies, inherited priorities are not taken for own ones.
        if world.cgroups.wanted
            && !world.cgroups.exact
            && let Some(task) = world.task(task.pid, task.comm)
            && world.cgroups.new_prio(task, prio)
        {
            tell(Update::Prio { task, prio });
        }
    };
    match record.point {
        Tracepoint::Switch { prev, prev_prio, next, next_prio, .. } => {
            prio(world, prev, prev_prio);
            prio(world, next, next_prio);
        }
        Tracepoint::Waking(wakeup) | Tracepoint::Wakeup(wakeup) | Tracepoint::WakeupNew(wakeup) => {
            prio(world, wakeup.task, wakeup.prio);
        }
        Tracepoint::CgroupAttach { task, dst_root, dst_path, .. } => {
            let path = String::from_utf8_lossy(dst_path);
            if let Some(group) = world.cgroups.moved_to(task.pid, dst_root, &path)
                && let Some(task) = world.task(task.pid, task.comm)
            {
                tell(Update::Moved { task, group });
            }
        }
        Tracepoint::Print { text } => {
            if let Some(mark) = Mark::read(text)
                && let Some(update) = mark_update(world, &mark)
            {
                tell(update);
            }
        }
        _ => {}
    }
}

fn mark_update(world: &mut World, mark: &Mark<'_>) -> Option<Update> {
    // Only our traces have such marks: groups at the beginning, and one at the end. Without a group by then, there was
    // none.
    world.cgroups.exact |= match mark {
        Mark::Group(_) => true,
        Mark::End => world.cgroups.intern("/").is_some() && world.cgroups.rows().len() == 1,
        _ => false,
    };
    Some(match *mark {
        Mark::Policy { pid, policy, rt_priority } => {
            Update::Policy { task: world.task(pid, b"")?, policy, rt_priority }
        }
        Mark::Nice { pid, nice } => Update::Nice { task: world.task(pid, b"")?, nice },
        Mark::Group(ref info) => {
            Update::Group { group: world.cgroups.intern(info.path)?, settings: Settings::from(info) }
        }
        Mark::Throttle { path } => Update::Throttled { group: world.cgroups.intern(path)? },
        Mark::Unthrottle { path, ns } => Update::Unthrottled { group: world.cgroups.intern(path)?, ns },
        Mark::Period { path, periods, throttled, burst } => {
            Update::Period { group: world.cgroups.intern(path)?, periods, throttled, burst }
        }
        Mark::Deadline { pid, what: what @ (DeadlineEvent::Throttle | DeadlineEvent::Replenish) } => {
            Update::Spent { task: world.task(pid, b"")?, spent: what == DeadlineEvent::Throttle }
        }
        _ => return None,
    })
}

fn step(world: &mut World, record: &Record<'_>) -> Option<Step> {
    // A name is no step. perf's names of earlier tasks have no time.
    if let Tracepoint::TaskRename { task, tgid } = record.point {
        if let (Some(task), Some(tgid)) = (world.task(task.pid, task.comm), tgid) {
            world.set_tgid(task, tgid);
        }
        return None;
    }
    if record.name.starts_with(b"PERF_RECORD_") && !matches!(record.point, Tracepoint::Lost { .. }) {
        return None;
    }
    let mut named = |task: Named<'_>| world.task(task.pid, task.comm);
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
        Tracepoint::TaskNew { task, .. } => {
            world.new_task(task.pid, task.comm).map_or(What::Other, |child| What::Fork { child })
        }
        Tracepoint::ProcessExit { task, .. } => {
            named(task);
            What::Exit
        }
        Tracepoint::Lost { events } => {
            world.faults.losses.add(events);
            What::Lost
        }
        // The task after it is unknown.
        Tracepoint::Malformed { .. } if record.name == b"sched_switch" => {
            world.faults.losses.add(None);
            What::Lost
        }
        Tracepoint::CpuhpEnter { .. } => record.online().map_or(What::Other, What::Online),
        _ => What::Other,
    };
    let by = match record.pid {
        0 => On::Idle,
        pid => world.task(pid, record.comm).map_or(On::Unknown, On::Task),
    };
    if let (On::Task(task), Some(tgid)) = (by, record.tgid) {
        world.set_tgid(task, tgid);
    }
    Some(Step { at: record.at, cpu: record.cpu, by, irq: record.context == Some(Context::Hardirq), what })
}

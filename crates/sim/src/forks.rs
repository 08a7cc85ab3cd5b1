//! Finds endless forks before the run.

use vruntime_workload::program::{Changed, Op, Policy, Settings, Task, Workload};

use crate::program::{FOREVER, times};

/// Returns a task that is forked without end, whatever the scheduler does. Each of its kind forks the next, directly or
/// through others, before any wait that could last for ever. `waited`: whether the run waits for a task.
pub(crate) fn without_end(workload: &Workload, waited: impl Fn(&usize) -> bool) -> Option<&Task> {
    // Deadline tasks cannot fork, and only the run shows which tasks are such then.
    if may_be_deadline(workload) {
        return None;
    }
    let forks = |task: usize| workload.tasks.get(task).map_or_else(Vec::new, forks_of);
    // Tasks on the path are being visited. Done tasks lead to no cycle.
    let (mut on_path, mut done) = (vec![false; workload.tasks.len()], vec![false; workload.tasks.len()]);
    for root in (0..workload.tasks.len()).filter(|&task| workload.tasks[task].start.is_some()) {
        let mut path = if done[root] || !waited(&root) { Vec::new() } else { vec![(root, forks(root))] };
        on_path[root] = !path.is_empty();
        while let Some((task, children)) = path.last_mut() {
            let Some(child) = children.pop() else {
                (on_path[*task], done[*task]) = (false, true);
                path.pop();
                continue;
            };
            if child >= done.len() || done[child] || !waited(&child) {
                continue;
            }
            if std::mem::replace(&mut on_path[child], true) {
                return workload.tasks.get(child);
            }
            path.push((child, forks(child)));
        }
    }
    None
}

/// Returns the tasks that a task forks before its first wait that could last for ever.
fn forks_of(task: &Task) -> Vec<usize> {
    let mut forked = Vec::new();
    let phases = task.phases.iter().filter(|phase| times(task.repeat) > 0 && times(phase.repeat) > 0);
    for phase in phases {
        for op in &phase.ops {
            match op {
                Op::Fork(child) => forked.push(*child),
                op if goes_on(op) => {}
                _ => return forked,
            }
        }
        if times(phase.repeat) == FOREVER {
            break;
        }
    }
    forked
}

/// Whether a task passes this operation, whatever other tasks do.
fn goes_on(op: &Op) -> bool {
    matches!(
        op,
        Op::Run { .. }
            | Op::PoolRun { .. }
            | Op::PoolHelp { .. }
            | Op::PoolWait { .. }
            | Op::Runtime { .. }
            | Op::Sleep { .. }
            | Op::SleepUntil { .. }
            | Op::Device { .. }
            | Op::Timer { .. }
            | Op::Mem { .. }
            | Op::MemRun(_)
            | Op::Io { .. }
            | Op::Yield
            | Op::Exec
            | Op::ExitGroup
    )
}

fn may_be_deadline(workload: &Workload) -> bool {
    let deadline = |settings: &Settings| matches!(settings.policy, Some(Policy::Deadline { .. }));
    let task = |task: &Task| deadline(&task.settings) || task.phases.iter().any(|phase| deadline(&phase.settings));
    let changed = |what: &Changed| matches!(what, Changed::Tasks { settings, .. } if deadline(settings));
    workload.tasks.iter().any(task) || workload.changes.iter().any(|change| changed(&change.what))
}

#[cfg(test)]
mod tests {
    use vruntime_workload::program::{Phase, Repeat};

    use super::*;

    /// Whether tasks with these operations fork without end. Only the first starts by itself.
    fn endless(tasks: &[&[Op]]) -> bool {
        let mut tasks: Vec<Task> = tasks.iter().map(|ops| Task::new("t", [Phase::times(1, ops.to_vec())])).collect();
        tasks.iter_mut().skip(1).for_each(|task| task.start = None);
        without_end(&Workload { tasks, ..Workload::default() }, |_| true).is_some()
    }

    #[test]
    fn circles_of_forks_have_no_end_and_chains_have() {
        let (work, wait) = (Op::Run { work: 1 }, Op::SemWait(0));
        assert!(endless(&[&[work.clone(), Op::Fork(0)]]));
        assert!(endless(&[&[Op::Fork(1)], &[Op::Fork(2)], &[work.clone(), Op::Fork(3), Op::Fork(1)], &[]]));
        assert!(!endless(&[
            &[Op::Fork(1), Op::Fork(2)],
            &[Op::Fork(2), Op::Fork(3)],
            &[Op::Fork(3)],
            &[work.clone(), Op::Yield]
        ]));
        assert!(!endless(&[&[work], &[Op::Fork(1)]]), "no task forks it");
        assert!(!endless(&[&[wait.clone(), Op::Fork(0)]]), "as many as are let");
        assert!(endless(&[&[Op::Fork(0), wait]]));
        assert!(!endless(&[&[Op::Fork(7)]]), "no such task: an error reports it elsewhere");
    }

    #[test]
    fn phases_that_never_run_fork_no_task() {
        let of = |phases: Vec<Phase>| Workload { tasks: vec![Task::new("t", phases)], ..Workload::default() };
        let fork = || Phase::times(2, vec![Op::Fork(0)]);
        let found = |workload: &Workload, waited: bool| without_end(workload, |_| waited).is_some();
        assert!(found(&of(vec![fork()]), true) && !found(&of(vec![fork()]), false));
        assert!(!found(&of(vec![Phase::times(0, vec![Op::Fork(0)])]), true));
        assert!(!found(&of(vec![Phase::forever(vec![Op::Yield]), fork()]), true));
        let mut never = of(vec![fork()]);
        never.tasks[0].repeat = Repeat::Times(0);
        assert!(!found(&never, true));
        let mut deadline = of(vec![fork()]);
        deadline.tasks[0].settings.policy =
            Some(Policy::Deadline { runtime: 1, deadline: 2, period: 2, reclaim: false, overrun: false });
        assert!(!found(&deadline, true), "it cannot fork");
    }
}

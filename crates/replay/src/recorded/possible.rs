//! Whether programs with messages can end: no task waits for a message for ever.
//!
//! Each task does its program once, and its repetition once, without regard to time. A task stands at a wait until its
//! wakeup is there. The order of the tasks does not matter: a wakeup stays until it is taken.

use std::collections::{BTreeMap, VecDeque};

use vruntime_workload::program::{Op, Repeat, Workload};

/// What matters here of an operation.
#[derive(Clone, Copy)]
enum Step {
    Wakes(Place),
    Waits(Place),
    Forks(usize),
}

/// An inbox, and the waker's number.
type Place = (usize, usize);

/// Returns how many tasks wait for messages for ever. Wakers from the number `links` on send messages.
pub(super) fn stuck(workload: &Workload, links: usize) -> usize {
    let programs: Vec<Vec<Step>> = workload.tasks.iter().map(|task| steps(&task.phases)).collect();
    let mut kept = BTreeMap::<Place, u64>::new();
    let mut waiting = BTreeMap::<Place, VecDeque<(usize, usize)>>::new();
    // Each running task's program, and its place there.
    let started = |task: &usize| workload.tasks[*task].start.is_some();
    let mut ready: Vec<(usize, usize)> = (0..programs.len()).rev().filter(started).map(|task| (task, 0)).collect();
    while let Some((task, mut next)) = ready.pop() {
        while let Some(&step) = programs[task].get(next) {
            match step {
                Step::Forks(child) => ready.push((child, 0)),
                Step::Wakes(place) => {
                    *kept.entry(place).or_default() += 1;
                    ready.extend(waiting.get_mut(&place).and_then(VecDeque::pop_front));
                }
                Step::Waits(place) => {
                    let kept = kept.entry(place).or_default();
                    let Some(left) = kept.checked_sub(1) else {
                        waiting.entry(place).or_default().push_back((task, next));
                        break;
                    };
                    *kept = left;
                }
            }
            next += 1;
        }
    }
    let of_messages = waiting.iter().filter(|((_, waker), _)| *waker >= links);
    of_messages.map(|(_, tasks)| tasks.len()).sum()
}

fn steps(phases: &[vruntime_workload::program::Phase]) -> Vec<Step> {
    let ops = phases.iter().filter(|phase| phase.repeat != Repeat::Times(0)).flat_map(|phase| &phase.ops);
    ops.filter_map(|op| match *op {
        Op::InboxWait { inbox, from } => Some(Step::Waits((inbox, from))),
        Op::InboxWake { inbox, from, .. } => Some(Step::Wakes((inbox, from))),
        Op::Fork(child) => Some(Step::Forks(child)),
        _ => None,
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use vruntime_workload::program::{Follow, Phase, Task};

    use super::*;

    fn sends(inbox: usize) -> Op {
        Op::InboxWake { inbox, from: 9, follow: Follow::Free, sync: false }
    }

    fn takes(inbox: usize) -> Op {
        Op::InboxWait { inbox, from: 9 }
    }

    fn stuck_of(programs: [Vec<Op>; 2]) -> usize {
        let tasks = programs.map(|ops| Task::new("talks", [Phase::times(1, ops)])).into();
        stuck(&Workload { tasks, inboxes: vec![String::new(); 2], ..Workload::default() }, 5)
    }

    #[test]
    fn tasks_that_wait_for_each_other_are_stuck() {
        assert_eq!(stuck_of([vec![takes(0), sends(1)], vec![takes(1), sends(0)]]), 2);
        assert_eq!(stuck_of([vec![sends(1), takes(0)], vec![takes(1), sends(0)]]), 0);
    }

    /// Twice forked, the task takes two messages.
    #[test]
    fn each_forked_task_takes_its_messages() {
        let forked = |count: usize| {
            let mut tasks = vec![
                Task::new("parent", [Phase::times(1, vec![sends(0), Op::Fork(1), sends(0), Op::Fork(1)])]),
                Task { start: None, ..Task::new("child", [Phase::times(1, vec![takes(0); count])]) },
            ];
            tasks[0].start = Some(0);
            stuck(&Workload { tasks, inboxes: vec![String::new()], ..Workload::default() }, 5)
        };
        assert_eq!(forked(1), 0);
        assert_eq!(forked(2), 1);
    }

    #[test]
    fn other_waits_do_not_count() {
        assert_eq!(stuck_of([vec![Op::InboxWait { inbox: 0, from: 4 }], vec![]]), 0);
    }
}

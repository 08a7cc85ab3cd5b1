//! Finds the connections without which programs with messages can end: no task waits for a message for ever.
//!
//! Each task does its program once, and its repetition once, without regard to time. A task stands at a wait until its
//! wakeup is there. The order of the tasks does not matter: a wakeup stays until it is taken.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vruntime_workload::program::{Op, Phase, Repeat, Workload};

/// What matters here of an operation.
#[derive(Clone, Copy)]
enum Step {
    Wakes(Place),
    Waits(Place),
    Forks(usize),
}

/// An inbox, and the waker's number.
type Place = (usize, usize);

/// Returns links without whose messages every task can do its program, and few others would be lost. Wakers from the
/// number `first` on are links.
pub(super) fn stuck(workload: &Workload, first: usize) -> BTreeSet<usize> {
    let programs: Vec<Vec<Step>> = workload.tasks.iter().map(|task| steps(&task.phases)).collect();
    let started = |task: &usize| workload.tasks[*task].start.is_some();
    let mut tasks = Tasks {
        programs: &programs,
        ready: (0..programs.len()).rev().filter(started).map(|task| (task, 0)).collect(),
        kept: BTreeMap::new(),
        waiting: BTreeMap::new(),
        left_out: BTreeSet::new(),
        woken: BTreeMap::new(),
    };
    let all = sent(programs.iter().flatten());
    loop {
        tasks.go_on();
        let waits: BTreeSet<usize> = tasks.waits().filter(|&waker| waker >= first).collect();
        // A message that no task sends. Else tasks wait for each other: the link with the fewest messages is wrong.
        let never: BTreeSet<usize> =
            waits.iter().copied().filter(|waker| tasks.woken.get(waker) == all.get(waker)).collect();
        let fewest = waits.iter().copied().min_by_key(|waker| all.get(waker));
        let wrong = if never.is_empty() { fewest.into_iter().collect() } else { never };
        if wrong.is_empty() {
            return tasks.left_out.iter().map(|waker| waker - first).collect();
        }
        tasks.leave_out(wrong);
    }
}

/// Counts wakeups by their wakers.
fn sent<'a>(steps: impl Iterator<Item = &'a Step>) -> BTreeMap<usize, u64> {
    let mut sent = BTreeMap::new();
    for step in steps {
        if let Step::Wakes((_, waker)) = step {
            *sent.entry(*waker).or_default() += 1;
        }
    }
    sent
}

/// Tasks at their places.
struct Tasks<'a> {
    programs: &'a [Vec<Step>],
    /// Tasks that can go on, and their next steps.
    ready: Vec<(usize, usize)>,
    /// Wakeups that no task took.
    kept: BTreeMap<Place, u64>,
    waiting: BTreeMap<Place, VecDeque<(usize, usize)>>,
    /// Wakers for which no task waits.
    left_out: BTreeSet<usize>,
    /// How often each waker has woken.
    woken: BTreeMap<usize, u64>,
}

impl Tasks<'_> {
    /// Does steps until all tasks have ended or wait.
    fn go_on(&mut self) {
        while let Some((task, mut next)) = self.ready.pop() {
            while let Some(&step) = self.programs[task].get(next) {
                match step {
                    Step::Forks(child) => self.ready.push((child, 0)),
                    Step::Wakes(place) => {
                        *self.kept.entry(place).or_default() += 1;
                        *self.woken.entry(place.1).or_default() += 1;
                        self.ready.extend(self.waiting.get_mut(&place).and_then(VecDeque::pop_front));
                    }
                    Step::Waits((_, waker)) if self.left_out.contains(&waker) => {}
                    Step::Waits(place) => {
                        let kept = self.kept.entry(place).or_default();
                        let Some(left) = kept.checked_sub(1) else {
                            self.waiting.entry(place).or_default().push_back((task, next));
                            break;
                        };
                        *kept = left;
                    }
                }
                next += 1;
            }
        }
    }

    /// Returns the wakers for which tasks wait.
    fn waits(&self) -> impl Iterator<Item = usize> {
        self.waiting.iter().filter(|(_, tasks)| !tasks.is_empty()).map(|((_, waker), _)| *waker)
    }

    /// Lets tasks no longer wait for these wakers.
    fn leave_out(&mut self, wakers: BTreeSet<usize>) {
        for ((_, waker), tasks) in &mut self.waiting {
            if wakers.contains(waker) {
                self.ready.extend(tasks.drain(..));
            }
        }
        self.left_out.extend(wakers);
    }
}

fn steps(phases: &[Phase]) -> Vec<Step> {
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

    fn stuck_of<const TASKS: usize>(programs: [Vec<Op>; TASKS]) -> Vec<usize> {
        let tasks = programs.map(|ops| Task::new("talks", [Phase::times(1, ops)])).into();
        let workload = Workload { tasks, inboxes: vec![String::new(); 2], ..Workload::default() };
        stuck(&workload, 5).into_iter().collect()
    }

    #[test]
    fn tasks_that_wait_for_each_other_are_stuck() {
        assert_eq!(stuck_of([vec![takes(0), sends(1)], vec![takes(1), sends(0)]]), [4]);
        assert_eq!(stuck_of([vec![sends(1), takes(0)], vec![takes(1), sends(0)]]), [0; 0]);
    }

    /// Of two tasks that wait for each other, one waits for a link with many messages.
    #[test]
    fn the_link_with_fewer_messages_is_left_out() {
        let of = |from| {
            (Op::InboxWake { inbox: 0, from, follow: Follow::Free, sync: false }, Op::InboxWait { inbox: 0, from })
        };
        let ((send_few, take_few), (send_many, take_many)) = (of(7), of(6));
        let one = vec![take_few, send_many.clone(), send_many];
        let two = vec![take_many.clone(), take_many, send_few];
        assert_eq!(stuck_of([one, two]), [2]);
    }

    /// The first task waits for a message that no task sends, so the second waits, too.
    #[test]
    fn only_the_link_without_a_sender_is_left_out() {
        let never = Op::InboxWait { inbox: 0, from: 6 };
        assert_eq!(stuck_of([vec![never, sends(1)], vec![takes(1)]]), [1]);
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
            stuck(&Workload { tasks, inboxes: vec![String::new()], ..Workload::default() }, 5).len()
        };
        assert_eq!(forked(1), 0);
        assert_eq!(forked(2), 1);
    }

    #[test]
    fn other_waits_do_not_count() {
        assert_eq!(stuck_of([vec![Op::InboxWait { inbox: 0, from: 4 }], vec![]]), [0; 0]);
    }
}

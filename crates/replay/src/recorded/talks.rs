//! Talks: connections whose two threads answer each other, again and again.
//!
//! A client that gets more CPU time than others asks more often than they do. So each talk repeats the recording on its
//! own, although the threads at its ends have other talks, too. A message that was on its way when the repetition
//! ended is the one that was on its way when it began. Without that, the talk would wait for the others.

use std::collections::{BTreeMap, BTreeSet};

use vruntime_workload::program::{Op, Phase, Repeat, Workload};

use super::Connection;
use super::batches::Answers;

/// What a task does on one connection in what it repeats: places in its operations, in order.
#[derive(Debug, Default)]
struct Part {
    takes: Vec<usize>,
    sends: Vec<usize>,
}

impl Part {
    /// Messages that it sends before it takes one: it had taken one before.
    fn begun(&self) -> Vec<usize> {
        let first = self.takes.first().copied().unwrap_or(usize::MAX);
        self.sends.iter().copied().take_while(|&send| send < first).collect()
    }

    /// Whether the last message that it takes has no answer.
    fn is_open(&self) -> bool {
        self.takes.last() > self.sends.last()
    }
}

/// Changes of a phase's operations: removed ones, and added ones before a place.
#[derive(Debug, Default)]
struct Changes {
    removed: BTreeSet<usize>,
    added: BTreeMap<usize, Vec<Op>>,
}

/// Closes the talks of a workload whose tasks repeat the recording. `links` has the connection of each link, and wakers
/// from the number `first` on are links. Sets the workload's connections.
pub(super) fn close(workload: &mut Workload, links: &[Connection], first: usize) {
    let own: Vec<bool> =
        workload.tasks.iter().map(|task| repeated(&task.phases).is_some_and(|ops| talks(ops, links, first))).collect();
    let mut ends: BTreeMap<Connection, BTreeSet<usize>> = BTreeMap::new();
    for (index, task) in workload.tasks.iter().enumerate() {
        for (_, _, connection) in task.phases.iter().flat_map(|phase| messages(&phase.ops, links, first)) {
            ends.entry(connection).or_default().insert(index);
        }
    }
    ends.retain(|_, tasks| tasks.len() == 2 && tasks.iter().all(|&task| own[task]));
    let mut parts: BTreeMap<(Connection, usize), Part> = BTreeMap::new();
    for (index, task) in workload.tasks.iter().enumerate().filter(|(index, _)| own[*index]) {
        for (at, takes, connection) in messages(repeated(&task.phases).unwrap_or_default(), links, first) {
            let part = parts.entry((connection, index)).or_default();
            if takes { part.takes.push(at) } else { part.sends.push(at) }
        }
    }
    // Of each task: changes of the repetition, and answers that the phase before it lacks.
    let mut changes: BTreeMap<usize, (Changes, Vec<(Connection, Op)>)> = BTreeMap::new();
    let mut closed = BTreeSet::new();
    for (connection, tasks) in &ends {
        let both: Vec<usize> = tasks.iter().copied().collect();
        let part = |task: usize| parts.get(&(*connection, task));
        let (Some(left), Some(right)) = (part(both[0]), part(both[1])) else { continue };
        let (begun, open) = ([left.begun(), right.begun()], [left.is_open(), right.is_open()]);
        // One message moves to and fro.
        let (Some(begins), Some(ends)) = (
            (0..2).find(|&end| !begun[end].is_empty() && begun[1 - end].is_empty()),
            (0..2).find(|&end| open[end] && !open[1 - end]),
        ) else {
            continue;
        };
        let op = |task: usize, at: usize| repeated(&workload.tasks[task].phases).map(|ops| ops[at].clone());
        let (beginner, ender) = (both[begins], both[ends]);
        let Some(ending) = part(ender).and_then(|part| part.takes.last().copied()) else { continue };
        let place = answer_ends(repeated(&workload.tasks[ender].phases).unwrap_or_default(), ending);
        if begins == ends {
            // It answers the last message as it had answered the first.
            for &at in &begun[begins] {
                let answer = op(beginner, at);
                let (again, once) = changes.entry(beginner).or_default();
                again.removed.insert(at);
                again.added.entry(place).or_default().extend(answer.clone());
                once.extend(answer.map(|answer| (*connection, answer)));
            }
        } else {
            // The answer to the last message is the one with which the other begins.
            let one = |task: usize, places: fn(&Part) -> &[usize]| op(task, *places(part(task)?).first()?);
            let (take, answer) = (one(beginner, |part| &part.takes), one(ender, |part| &part.sends));
            let (Some(take), Some(answer)) = (take, answer) else { continue };
            let (again, _) = changes.entry(beginner).or_default();
            again.added.entry(begun[begins][0]).or_default().push(take);
            let (again, once) = changes.entry(ender).or_default();
            again.added.entry(place).or_default().push(answer.clone());
            once.push((*connection, answer));
        }
        closed.insert(*connection);
    }
    for (task, (again, once)) in changes {
        let mut phases = workload.tasks[task].phases.to_vec();
        for phase in &mut phases {
            if phase.repeat == Repeat::Forever {
                phase.ops = again.apply(&phase.ops);
            }
        }
        let before = phases.len().checked_sub(2).map(|before| &mut phases[before]);
        if let Some(phase) = before {
            let mut changes = Changes::default();
            for (connection, answer) in once {
                let takes = messages(&phase.ops, links, first).filter(|(_, takes, of)| *takes && *of == connection);
                let Some((last, ..)) = takes.last() else { continue };
                changes.added.entry(answer_ends(&phase.ops, last)).or_default().push(answer);
            }
            phase.ops = changes.apply(&phase.ops);
        }
        workload.tasks[task].phases = phases.into();
    }
    let is_closed = |(_, connection): &(usize, &Connection)| closed.contains(connection);
    workload.connections = links.iter().enumerate().filter(is_closed).map(|(link, _)| first + link).collect();
}

impl Changes {
    fn apply(&self, ops: &[Op]) -> Vec<Op> {
        let mut all = Vec::with_capacity(ops.len() + self.added.len());
        for (at, op) in ops.iter().enumerate() {
            all.extend(self.added.get(&at).into_iter().flatten().cloned());
            all.extend((!self.removed.contains(&at)).then(|| op.clone()));
        }
        all.extend(self.added.get(&ops.len()).into_iter().flatten().cloned());
        all
    }
}

/// Returns what a task repeats for ever.
fn repeated(phases: &[Phase]) -> Option<&[Op]> {
    phases.last().filter(|last| last.repeat == Repeat::Forever).map(|last| &last.ops[..])
}

/// Returns the messages of operations: each one's place, whether it is taken, and its connection.
fn messages<'a>(
    ops: &'a [Op],
    links: &'a [Connection],
    first: usize,
) -> impl Iterator<Item = (usize, bool, Connection)> + 'a {
    ops.iter().enumerate().filter_map(move |(at, op)| {
        let (takes, from) = match *op {
            Op::InboxWait { from, .. } => (true, from),
            Op::InboxWake { from, .. } => (false, from),
            _ => return None,
        };
        Some((at, takes, *links.get(from.checked_sub(first)?)?))
    })
}

/// Whether a task answers on the connections of the messages that it takes. A proxy answers on others.
fn talks(ops: &[Op], links: &[Connection], first: usize) -> bool {
    let mut answers = Answers::default();
    for (_, takes, connection) in messages(ops, links, first) {
        if takes { answers.takes(connection) } else { answers.sends(connection) }
    }
    answers.are_own()
}

/// Returns the place where the answer to a message ends: before the next wait, or at the end.
fn answer_ends(ops: &[Op], take: usize) -> usize {
    let waits = |op: &Op| matches!(op, Op::InboxWait { .. });
    ops[take + 1..].iter().position(waits).map_or(ops.len(), |next| take + 1 + next)
}

#[cfg(test)]
mod tests {
    use vruntime_workload::program::{Follow, Task};

    use super::*;

    /// Sockets 1 and 2 are connected. Link 0 leads to inbox 0 (the server's), link 1 to inbox 1 (the client's).
    const LINKS: [Connection; 2] = [(1, 2), (1, 2)];
    const FIRST: usize = 10;

    fn takes(inbox: usize) -> Op {
        Op::InboxWait { inbox, from: FIRST + inbox }
    }

    fn sends(inbox: usize) -> Op {
        Op::InboxWake { inbox, from: FIRST + inbox, follow: Follow::Free, sync: true }
    }

    fn runs() -> Op {
        Op::Run { work: 1 }
    }

    /// Closes the talks of tasks that do their operations once, and then for ever. Returns both, and the connections.
    fn closed<const TASKS: usize>(ops: [Vec<Op>; TASKS]) -> (Vec<[Vec<Op>; 2]>, Vec<usize>) {
        let task = |ops: Vec<Op>| {
            let again = Phase { repeat: Repeat::Forever, ..Phase::times(1, ops.clone()) };
            Task::new("talks", [Phase::times(1, ops), again])
        };
        let mut workload = Workload { tasks: ops.map(task).into(), ..Workload::default() };
        close(&mut workload, &LINKS, FIRST);
        let phases = |task: &Task| [task.phases[0].ops.clone(), task.phases[1].ops.clone()];
        (workload.tasks.iter().map(phases).collect(), workload.connections.into_iter().collect())
    }

    /// When the repetition begins, the client works for its request. When it ends, it works for the next.
    #[test]
    fn a_thread_answers_the_last_message_as_it_answered_one_before_the_first() {
        let client = vec![runs(), sends(0), takes(1), runs(), sends(0), takes(1), runs()];
        let server = vec![takes(0), sends(1), takes(0), sends(1)];
        let (tasks, connections) = closed([client.clone(), server.clone()]);
        let once = [client, vec![sends(0)]].concat();
        assert_eq!(tasks[0], [once, vec![runs(), takes(1), runs(), sends(0), takes(1), runs(), sends(0)]]);
        assert_eq!(tasks[1], [server.clone(), server]);
        assert_eq!(connections, [10, 11]);
    }

    /// When the repetition begins, the client works; when it ends, the server does.
    #[test]
    fn the_answer_to_the_last_message_is_what_the_other_begins_with() {
        let client = vec![runs(), sends(0), takes(1), sends(0)];
        let server = vec![takes(0), sends(1), takes(0), runs()];
        let (tasks, _) = closed([client.clone(), server.clone()]);
        assert_eq!(tasks[0], [client, vec![runs(), takes(1), sends(0), takes(1), sends(0)]]);
        let answered = [server, vec![sends(1)]].concat();
        assert_eq!(tasks[1], [answered.clone(), answered]);
    }

    /// A proxy sends on other connections.
    #[test]
    fn a_proxy_has_no_talks_of_its_own() {
        let links = [(1, 2), (1, 2), (3, 4), (3, 4)];
        let both = |ops: &[Op]| talks(ops, &links, FIRST);
        assert!(!both(&[takes(0), sends(2), takes(3), sends(1)]));
        assert!(both(&[takes(0), sends(1), takes(3), sends(2)]));
    }
}

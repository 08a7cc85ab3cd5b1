//! Copies of tasks. Copies wake each other: a server's second copy waits for its client's second copy. If a server has
//! fewer copies than its clients, each answers several. If a client has fewer copies than its server, it wakes all of
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;

use vruntime_workload::UniqueNames;
use vruntime_workload::program::{Changed, Op, Phase, Room, Timer, Workload};

/// The copies of tasks and inboxes: the first is the original.
struct Plan<'a> {
    /// The number of each task.
    copies: &'a [u32],
    /// The second copy of each task that has copies. The others follow.
    second_task: Vec<usize>,
    /// Each inbox's second copy, and its waiting task.
    second_inbox: Vec<usize>,
    waiter: Vec<Option<usize>>,
    /// The copies of each waker ([`Op::InboxWake`]): a pool has as many as each member.
    wakers: BTreeMap<usize, u32>,
    /// A number above all wakers'.
    numbers: usize,
}

/// The most operations in all programs. 26 million took 1.5 GB in a replay of 100 copies of a client.
pub(super) const MAX_OPS: u64 = 1 << 26;

/// Makes `copies[task]` of each task, at least 1. Fails with the number of operations beyond [`MAX_OPS`].
pub(super) fn multiply(workload: &mut Workload, copies: &[u32]) -> Result<(), u64> {
    if copies.iter().all(|&count| count == 1) {
        return Ok(());
    }
    let (mut waiter, mut wakers) = (vec![None; workload.inboxes.len()], BTreeMap::new());
    for (index, task) in workload.tasks.iter().enumerate() {
        for op in task.phases.iter().flat_map(|phase| &phase.ops) {
            match *op {
                Op::InboxWait { inbox, .. } => waiter[inbox] = Some(index),
                Op::InboxWake { from, .. } => {
                    let count = wakers.entry(from).or_insert(copies[index]);
                    *count = copies[index].min(*count);
                }
                _ => {}
            }
        }
    }
    let seconds = |counts: &mut dyn Iterator<Item = u32>, mut next: usize| -> Vec<usize> {
        counts
            .map(|count| {
                let second = next;
                next += count as usize - 1;
                second
            })
            .collect()
    };
    let of_waiter = |waiter: &Option<usize>| waiter.map_or(1, |task| copies[task]);
    let plan = Plan {
        copies,
        second_task: seconds(&mut copies.iter().copied(), workload.tasks.len()),
        second_inbox: seconds(&mut waiter.iter().map(of_waiter), workload.inboxes.len()),
        waiter,
        numbers: wakers.last_key_value().map_or(0, |(last, _)| last + 1),
        wakers,
    };
    let most = copies.iter().copied().max().unwrap_or(1) as usize;
    let of_copies = |&waker: &usize| (1..most).map(move |copy| waker + copy * plan.numbers).collect::<Vec<_>>();
    let added: Vec<usize> = workload.connections.iter().flat_map(of_copies).collect();
    workload.connections.extend(added);
    let rooms =
        workload.rooms.iter().flat_map(|(waker, &room)| of_copies(waker).into_iter().map(move |copy| (copy, room)));
    let added: Vec<(usize, Room)> = rooms.collect();
    workload.rooms.extend(added);
    let ops = workload.tasks.iter().enumerate().map(|(index, task)| plan.ops_of(&task.phases, index)).sum();
    if ops > MAX_OPS {
        return Err(ops);
    }
    let processes = Processes::new(workload, copies);
    let mut names = UniqueNames::default();
    for task in &workload.tasks {
        names.take(task.name.clone());
    }
    let mut added = Vec::new();
    for (index, &count) in copies.iter().enumerate() {
        for copy in 1..count {
            let mut task = workload.tasks[index].clone();
            task.name = names.take(task.name);
            task.process = task.process.map(|process| processes.of_copy(process, copy));
            task.phases = plan.phases(&task.phases, index, copy);
            with_own_timers(&mut task.phases, &mut workload.timers);
            for set in [&mut workload.kernel_threads, &mut workload.sessionless] {
                if set.contains(&index) {
                    set.insert(workload.tasks.len() + added.len());
                }
            }
            added.push(task);
        }
    }
    for (index, task) in workload.tasks.iter_mut().enumerate() {
        task.phases = plan.phases(&task.phases, index, 0);
    }
    workload.tasks.extend(added);
    for change in &mut workload.changes {
        if let Changed::Tasks { tasks, .. } = &mut change.what {
            let copies = |&task: &usize| {
                let second = plan.second_task[task];
                second..second + plan.copies[task] as usize - 1
            };
            let added: Vec<usize> = tasks.iter().flat_map(copies).collect();
            tasks.extend(added);
        }
    }
    for inbox in 0..plan.waiter.len() {
        for copy in 1..of_waiter(&plan.waiter[inbox]) {
            workload.inboxes.push(format!("{}#{}", workload.inboxes[inbox], copy + 1));
        }
    }
    Ok(())
}

/// The processes of copies. Copies of all threads of a process are processes of their own. Copies of some are threads
/// of that process.
struct Processes {
    /// How often each process is copied as a whole.
    whole: BTreeMap<u32, Option<u32>>,
    /// A number above all processes'.
    numbers: u32,
}

impl Processes {
    fn new(workload: &Workload, copies: &[u32]) -> Self {
        let mut whole = BTreeMap::new();
        for (task, &count) in workload.tasks.iter().zip(copies) {
            if let Some(process) = task.process {
                let all = whole.entry(process).or_insert(Some(count));
                *all = all.filter(|&all| all == count);
            }
        }
        let numbers = whole.last_key_value().map_or(0, |(last, _)| last + 1);
        Self { whole, numbers }
    }

    fn of_copy(&self, process: u32, copy: u32) -> u32 {
        let whole = self.whole.get(&process).copied().flatten().is_some();
        if whole { process.wrapping_add(self.numbers.wrapping_mul(copy)) } else { process }
    }
}

/// Gives a copy timers of its own.
fn with_own_timers(phases: &mut Arc<[Phase]>, timers: &mut Vec<Timer>) {
    if !phases.iter().flat_map(|phase| &phase.ops).any(|op| matches!(op, Op::Timer { .. })) {
        return;
    }
    let mut own = BTreeMap::new();
    let mut changed = phases.to_vec();
    for op in changed.iter_mut().flat_map(|phase| &mut phase.ops) {
        if let Op::Timer { timer, .. } = op {
            *timer = *own.entry(*timer).or_insert_with(|| {
                timers.push(timers[*timer].clone());
                timers.len() - 1
            });
        }
    }
    *phases = changed.into();
}

impl Plan<'_> {
    /// Returns the program of a task's copy.
    fn phases(&self, phases: &Arc<[Phase]>, task: usize, copy: u32) -> Arc<[Phase]> {
        let concerned = |op: &Op| match op {
            Op::InboxWait { from, .. } => copy > 0 || self.wakers_of(*from) > self.copies[task],
            Op::InboxWake { inbox, .. } => {
                copy > 0 || self.waiter[*inbox].is_some_and(|waiter| self.copies[waiter] > 1)
            }
            Op::Fork(child) => copy > 0 || self.copies[*child] > 1,
            _ => false,
        };
        if !phases.iter().flat_map(|phase| &phase.ops).any(concerned) {
            return Arc::clone(phases);
        }
        let phase = |phase: &Phase| Phase {
            ops: self.answers(&phase.ops, task, copy),
            name: phase.name.clone(),
            settings: phase.settings.clone(),
            repeat: phase.repeat,
        };
        phases.iter().map(phase).collect()
    }

    /// Returns the operations of all copies of a task. Wakeups of several copies count as one.
    fn ops_of(&self, phases: &[Phase], task: usize) -> u64 {
        let mut all = 0;
        for phase in phases {
            let mut times = self.copies[task];
            for op in &phase.ops {
                if let Op::InboxWait { from, .. } = *op {
                    times = self.copies[task].max(self.wakers_of(from));
                }
                all += u64::from(times);
            }
        }
        all
    }

    /// Returns the operations of a task's copy in a phase: for each client's copy those for the original.
    fn answers(&self, ops: &[Op], task: usize, copy: u32) -> Vec<Op> {
        let waits = |op: &Op| matches!(op, Op::InboxWait { .. });
        let (before, rest) = ops.split_at(ops.iter().position(waits).unwrap_or(ops.len()));
        let mut out: Vec<Op> = before.iter().flat_map(|op| self.ops(op, task, copy, None)).collect();
        let mut rest = rest;
        while let Some(Op::InboxWait { from, .. }) = rest.first() {
            let end = rest[1..].iter().position(waits).map_or(rest.len(), |next| next + 1);
            let (answer, others) = rest.split_at(end);
            rest = others;
            let (clients, own) = (self.wakers_of(*from), self.copies[task]);
            let mut of: Vec<Option<u32>> = vec![None];
            if clients > own {
                of = (copy..clients).step_by(own as usize).map(Some).collect();
                // The last answer of a loop ends it: that is the original's.
                of.rotate_left(usize::from(rest.is_empty()));
            }
            for client in of {
                out.extend(answer.iter().flat_map(|op| self.ops(op, task, copy, client)));
            }
        }
        out
    }

    /// Returns the number of copies of a waker.
    fn wakers_of(&self, from: usize) -> u32 {
        self.wakers.get(&from).copied().unwrap_or(1)
    }

    /// Returns the number of a waker's copy, for a task with `others` copies.
    fn number(&self, from: usize, copy: u32, others: u32) -> usize {
        from + (copy / others) as usize * self.numbers
    }

    /// `client`: for operations only for that client's copy.
    fn ops(&self, op: &Op, task: usize, copy: u32, client: Option<u32>) -> Vec<Op> {
        let nth = |first: usize, second: usize, copy: u32| if copy == 0 { first } else { second + copy as usize - 1 };
        let own = self.copies[task];
        // The copies of another task that this copy acts for.
        let targets = |others: u32| {
            if let Some(client) = client.filter(|_| others > own) {
                return client % others..client % others + 1;
            }
            copy % others..copy % others + 1
        };
        // Copy 0 also acts for the others' copies beyond the number of this task's copies.
        let more = |others: u32| if copy == 0 && client.is_none() { own..others.max(own) } else { 0..0 };
        match *op {
            Op::InboxWait { inbox, from } => {
                let from = self.number(from, client.unwrap_or(copy), own);
                vec![Op::InboxWait { inbox: nth(inbox, self.second_inbox[inbox], copy), from }]
            }
            Op::InboxWake { inbox, from, follow, sync } => {
                let others = self.waiter[inbox].map_or(1, |waiter| self.copies[waiter]);
                let from = self.number(from, copy, others);
                let wake =
                    |copy| Op::InboxWake { inbox: nth(inbox, self.second_inbox[inbox], copy), from, follow, sync };
                targets(others).chain(more(others)).map(wake).collect()
            }
            Op::Fork(child) => {
                let others = self.copies[child];
                let own = (copy < others).then_some(copy);
                let rest = if copy == 0 { self.copies[task]..others.max(self.copies[task]) } else { 0..0 };
                let fork = |copy| Op::Fork(nth(child, self.second_task[child], copy));
                own.into_iter().chain(rest).map(fork).collect()
            }
            Op::PutOff { inbox } => vec![Op::PutOff { inbox: nth(inbox, self.second_inbox[inbox], copy) }],
            Op::PutOffEnd { inbox } => vec![Op::PutOffEnd { inbox: nth(inbox, self.second_inbox[inbox], copy) }],
            Op::CatchUp { inbox } => vec![Op::CatchUp { inbox: nth(inbox, self.second_inbox[inbox], copy) }],
            Op::RunIfSlept { inbox, work } => {
                vec![Op::RunIfSlept { inbox: nth(inbox, self.second_inbox[inbox], copy), work }]
            }
            _ => vec![op.clone()],
        }
    }
}

#[cfg(test)]
mod tests {
    use vruntime_workload::program::{Follow, Task};

    use super::*;

    #[test]
    fn copies_that_fit_no_memory_are_refused() {
        let wake = Op::InboxWake { inbox: 0, from: 0, follow: Follow::Free, sync: false };
        let client = Task::new("client", [Phase::times(1, vec![wake; 10_000])]);
        let server = Task::new("server", [Phase::times(1, vec![Op::InboxWait { inbox: 0, from: 0 }; 10_000])]);
        let mut workload =
            Workload { tasks: vec![client, server], inboxes: vec!["server".to_owned()], ..Workload::default() };
        assert_eq!(multiply(&mut workload, &[10_000, 1]), Err(200_000_000), "the server answers each of them");
        assert_eq!(workload.tasks.len(), 2);
        assert_eq!(multiply(&mut workload, &[10, 1]), Ok(()));
        let waits = workload.tasks[1].phases.iter().map(|phase| phase.ops.len()).sum::<usize>();
        assert_eq!((workload.tasks.len(), waits), (11, 100_000));
    }

    /// The second server's operations are all at its own inbox.
    #[test]
    fn a_copy_puts_off_at_its_own_inbox() {
        let inbox = 0;
        let answer = vec![
            Op::InboxWait { inbox, from: 0 },
            Op::RunIfSlept { inbox, work: 1 },
            Op::PutOff { inbox },
            Op::Run { work: 1 },
            Op::PutOffEnd { inbox },
            Op::CatchUp { inbox },
        ];
        let wake = Op::InboxWake { inbox, from: 0, follow: Follow::Free, sync: true };
        let client = Task::new("client", [Phase::times(1, vec![wake])]);
        let server = Task::new("server", [Phase::times(1, answer.clone())]);
        let mut workload =
            Workload { tasks: vec![client, server], inboxes: vec!["server".to_owned()], ..Workload::default() };
        assert_eq!(multiply(&mut workload, &[2, 2]), Ok(()));
        let own = |op: &Op| match *op {
            Op::InboxWait { from, .. } => Op::InboxWait { inbox: 1, from },
            Op::RunIfSlept { work, .. } => Op::RunIfSlept { inbox: 1, work },
            Op::PutOff { .. } => Op::PutOff { inbox: 1 },
            Op::PutOffEnd { .. } => Op::PutOffEnd { inbox: 1 },
            Op::CatchUp { .. } => Op::CatchUp { inbox: 1 },
            _ => op.clone(),
        };
        assert_eq!(workload.tasks[1].phases[0].ops, answer);
        assert_eq!(workload.tasks[3].phases[0].ops, answer.iter().map(own).collect::<Vec<_>>());
    }

    /// A killed process must not take its copy with it. A copied thread stays in its process.
    #[test]
    fn copies_of_a_process_are_processes() {
        let thread = |process| Task { process: Some(process), ..Task::new("t", []) };
        let mut workload = Workload { tasks: [4, 4, 7, 7].map(thread).to_vec(), ..Workload::default() };
        assert_eq!(multiply(&mut workload, &[3, 3, 2, 1]), Ok(()));
        let processes: Vec<Option<u32>> = workload.tasks.iter().map(|task| task.process).collect();
        assert_eq!(processes, [4, 4, 7, 7, 12, 20, 12, 20, 7].map(Some));
    }
}

//! Tasks multiplied. Copies that wake each other do so among themselves: the second copy of a server waits for the
//! second copy of its client. A task that is not copied so often wakes all that nobody else does; nobody is woken twice
//! as often as in the trace.

use std::sync::Arc;

use vruntime_workload::UniqueNames;
use vruntime_workload::program::{Changed, Op, Phase, Workload};

/// The copies of each task and of each inbox: the first is the original.
struct Plan<'a> {
    /// How many of each task.
    copies: &'a [u32],
    /// The second of each task, if there is one; the others follow.
    second_task: Vec<usize>,
    /// The same of inboxes, and the task that waits at each.
    second_inbox: Vec<usize>,
    waiter: Vec<Option<usize>>,
}

/// Makes `copies[task]` of each task; the numbers are at least 1.
pub(super) fn multiply(workload: &mut Workload, copies: &[u32]) {
    if copies.iter().all(|&count| count == 1) {
        return;
    }
    let mut waiter = vec![None; workload.inboxes.len()];
    for (index, task) in workload.tasks.iter().enumerate() {
        for op in task.phases.iter().flat_map(|phase| &phase.ops) {
            if let Op::InboxWait { inbox, .. } = op {
                waiter[*inbox] = Some(index);
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
    };
    let mut names = UniqueNames::default();
    for task in &workload.tasks {
        names.take(task.name.clone());
    }
    let mut added = Vec::new();
    for (index, &count) in copies.iter().enumerate() {
        for copy in 1..count {
            let mut task = workload.tasks[index].clone();
            task.name = names.take(task.name);
            task.phases = plan.phases(&task.phases, index, copy);
            if workload.kernel_threads.contains(&index) {
                workload.kernel_threads.insert(workload.tasks.len() + added.len());
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
}

impl Plan<'_> {
    /// The program of that copy of a task.
    fn phases(&self, phases: &Arc<[Phase]>, task: usize, copy: u32) -> Arc<[Phase]> {
        let concerned = |op: &Op| match op {
            Op::InboxWait { .. } => copy > 0,
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
            ops: phase.ops.iter().flat_map(|op| self.ops(op, task, copy)).collect(),
            name: phase.name.clone(),
            settings: phase.settings.clone(),
            repeat: phase.repeat,
        };
        phases.iter().map(phase).collect()
    }

    fn ops(&self, op: &Op, task: usize, copy: u32) -> Vec<Op> {
        let nth = |first: usize, second: usize, copy: u32| if copy == 0 { first } else { second + copy as usize - 1 };
        // Which copies of another a copy of this task is there for.
        let targets = |others: u32| {
            let own = (copy < others).then_some(copy);
            let rest = if copy == 0 { self.copies[task]..others.max(self.copies[task]) } else { 0..0 };
            own.into_iter().chain(rest)
        };
        match *op {
            Op::InboxWait { inbox, from } => {
                vec![Op::InboxWait { inbox: nth(inbox, self.second_inbox[inbox], copy), from }]
            }
            Op::InboxWake { inbox, from, follow } => {
                let others = self.waiter[inbox].map_or(1, |waiter| self.copies[waiter]);
                let wake = |copy| Op::InboxWake { inbox: nth(inbox, self.second_inbox[inbox], copy), from, follow };
                targets(others).map(wake).collect()
            }
            Op::Fork(child) => {
                targets(self.copies[child]).map(|copy| Op::Fork(nth(child, self.second_task[child], copy))).collect()
            }
            _ => vec![op.clone()],
        }
    }
}

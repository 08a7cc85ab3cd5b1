//! Notes on the end of a run: tasks that never returned from a wait, and why.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use vruntime_sched::Policy;
use vruntime_trace::Sink;

use crate::cpu::NEVER;
use crate::error::Error;
use crate::machine::Machine;
use crate::moment::Moment;
use crate::program::{Code, times};
use crate::sync::mutex_of;
use crate::task::{Life, NOBODY, Next};

/// The most tasks named in a note. Others are counted.
const NAMED: usize = 8;

enum Waits {
    Mutex(u32),
    Other(String),
}

/// Adds notes for deadlocks, and for tasks that wait for each other at the end. `stuck`: nothing can happen any more.
pub(crate) fn blocked<P: Policy, S: Sink>(machine: &Machine<'_, P, S>, stuck: bool, notes: &mut Vec<String>) {
    if let Some((task, mutex)) = machine.objects.stray_unlock {
        let name = &machine.workload.mutexes[mutex as usize].name;
        let task = machine.task_name(task);
        notes
            .push(format!("task `{task}` unlocks mutex `{name}`, which it does not hold: such an unlock does nothing"));
    }
    let end = machine.core.now;
    let mut in_cycle = vec![false; machine.tasks.len()];
    let mut waiting = Vec::new();
    for task in 0..machine.tasks.len() as u32 {
        if waits_for(machine, task).is_none() {
            continue;
        }
        if let Some(cycle) = cycle(machine, task) {
            if !cycle.iter().any(|&member| in_cycle[member as usize]) {
                notes.push(format!("deadlock: {}", chain(machine, &cycle, true)));
            }
            for member in cycle {
                in_cycle[member as usize] = true;
            }
        } else if stuck || machine.tasks[task as usize].due <= end / 2 {
            // A task that waited for half of the run was probably forgotten.
            waiting.push(task);
        }
    }
    waiting.retain(|&task| !in_cycle[task as usize]);
    if stuck {
        notes.push(format!(
            "the run ended at {}: every remaining task waits, and no event is left that could wake one",
            Moment(end)
        ));
    }
    for &task in waiting.iter().take(NAMED) {
        let since = machine.tasks[task as usize].due;
        notes.push(format!("{}, from {} to the end", chain(machine, &[task], false), Moment(since)));
    }
    match waiting.len().saturating_sub(NAMED) {
        0 => {}
        1 => notes.push("… and 1 more task waits".to_owned()),
        more => notes.push(format!("… and {more} more tasks wait")),
    }
}

/// Adds a note for each queue with requests left.
pub(crate) fn requests<P: Policy, S: Sink>(machine: &Machine<'_, P, S>, notes: &mut Vec<String>) {
    let Some(devices) = &machine.devices else { return };
    let mut arrived: BTreeMap<usize, u64> = BTreeMap::new();
    for (queue, count) in devices.arrived(machine.core.now) {
        *arrived.entry(queue).or_default() += count;
    }
    for (queue, arrived) in arrived {
        let left = machine.objects.wait_queues[queue].requests();
        if left > 0 {
            let name = &machine.workload.wait_queues[queue];
            notes.push(format!(
                "{left} of {arrived} requests of `{name}` still waited for a task at the end: response times do not have them"
            ));
        }
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    /// Returns the error of a task that takes steps while time stands still.
    #[cold]
    pub(crate) fn no_progress(&self, task: u32) -> Error {
        let this = &self.tasks[task as usize];
        let entry = self.programs.entry[this.template as usize];
        let code = &self.programs.code[entry as usize..=this.pc as usize];
        let begun = code.iter().filter(|code| matches!(code, Code::Phase { .. })).count();
        let phases = self.workload.tasks[this.template as usize].phases.iter();
        let phase = phases.filter(|phase| times(phase.repeat) > 0).nth(begun.saturating_sub(1));
        Error::NoProgress {
            now: self.core.now,
            task: self.task_name(task),
            phase: phase.map(|phase| phase.name.clone()).unwrap_or_default(),
        }
    }
}

/// Returns what a sleeping task waits for, unless it is time.
fn waits_for<P: Policy, S: Sink>(machine: &Machine<'_, P, S>, task: u32) -> Option<Waits> {
    let this = &machine.tasks[task as usize];
    if this.life == Life::Runnable && this.wait.queued {
        let word = |spin: u32| &machine.workload.spins[spin as usize].name;
        return match machine.programs.code[this.pc as usize] {
            Code::SpinWait { spin, lock: true } => Some(Waits::Other(format!("spinlock `{}` and spins", word(spin)))),
            Code::SpinWait { spin, .. } => Some(Waits::Other(format!("`{}` and spins", word(spin)))),
            Code::SpinBarrier(spin) => Some(Waits::Other(format!("barrier `{}` and spins", word(spin)))),
            _ => None,
        };
    }
    if this.life != Life::Asleep {
        return None;
    }
    let code = machine.programs.code[this.pc as usize];
    if this.next == Next::ReturnLock {
        return Some(Waits::Mutex(mutex_of(code)));
    }
    let workload = machine.workload;
    let other = |kind: &str, name: &str| Some(Waits::Other(format!("{kind} `{name}`")));
    match code {
        Code::Wait { condition, .. } | Code::Sync { condition, .. } => {
            other("condition", &workload.conditions[condition as usize])
        }
        Code::Suspend { condition, .. } => other("a resume of", &workload.conditions[condition as usize]),
        Code::Barrier { barrier: index, .. } => {
            let barrier = &workload.barriers[index as usize];
            let arrived = machine.objects.barriers[index as usize].arrived;
            let text = format!("barrier `{}`, where {arrived} of {} have arrived", barrier.name, barrier.parties);
            Some(Waits::Other(text))
        }
        Code::SemWait(index) => other("semaphore", &workload.semaphores[index as usize].name),
        Code::InboxWait { .. } => Some(Waits::Other("a task that wakes it".to_owned())),
        Code::InboxWake { inbox, .. } => other("the progress of", &workload.inboxes[inbox as usize]),
        Code::LeadAwaits(lead) => other("the progress of", &workload.leads[lead as usize]),
        Code::PipeRead { pipe, .. } => other("a message in pipe", &workload.pipes[pipe as usize].name),
        Code::PipeWrite { pipe, .. } => other("room in pipe", &workload.pipes[pipe as usize].name),
        Code::WaitEvent { queue, timeout: NEVER, .. } => other("wait queue", &workload.wait_queues[queue as usize]),
        Code::WaitForCompletion { completion, timeout: NEVER } => {
            other("completion", &workload.completions[completion as usize])
        }
        _ => None,
    }
}

fn holder<P: Policy, S: Sink>(machine: &Machine<'_, P, S>, task: u32) -> Option<u32> {
    let Some(Waits::Mutex(mutex)) = waits_for(machine, task) else { return None };
    let owner = machine.objects.mutexes[mutex as usize].owner;
    (owner != NOBODY).then_some(owner)
}

/// Returns the cycle of owners with `task`, itself first.
fn cycle<P: Policy, S: Sink>(machine: &Machine<'_, P, S>, task: u32) -> Option<Vec<u32>> {
    let mut members = vec![task];
    // A walk into a cycle without `task` must also end (Brent: wait for a mark that moves ever farther).
    let (mut at, mut mark, mut patience) = (task, NOBODY, 2);
    loop {
        at = holder(machine, at)?;
        if at == task {
            return Some(members);
        }
        if at == mark {
            return None;
        }
        members.push(at);
        if members.len() == patience {
            mark = at;
            patience *= 2;
        }
    }
}

/// "task `a` waits for mutex `m` held by `b`, which waits for …".
fn chain<P: Policy, S: Sink>(machine: &Machine<'_, P, S>, tasks: &[u32], circle: bool) -> String {
    let name = |task| machine.task_name(task);
    let mut text = String::new();
    for (position, &task) in tasks.iter().enumerate() {
        if position == 0 {
            let _ = write!(text, "task `{}`", name(task));
        } else {
            text += ", which";
        }
        match waits_for(machine, task) {
            Some(Waits::Mutex(mutex)) => {
                let workload = machine.workload;
                if let Some(mutex) = workload.mutexes.get(mutex as usize) {
                    let _ = write!(text, " waits for mutex `{}`", mutex.name);
                } else {
                    let barrier = &workload.barriers[mutex as usize - workload.mutexes.len()];
                    let _ = write!(text, " waits for the mutex of barrier `{}`", barrier.name);
                }
                if let Some(owner) = holder(machine, task) {
                    let dead = machine.tasks[owner as usize].life == Life::Dead;
                    let who = if owner == task { "itself".to_owned() } else { format!("`{}`", name(owner)) };
                    let _ = write!(text, " held by {who}{}", if dead { " (ended)" } else { "" });
                }
            }
            Some(Waits::Other(what)) => {
                let _ = write!(text, " waits for {what}");
            }
            None => {}
        }
    }
    if circle && tasks.len() > 1 {
        text += ", closing the circle";
    }
    text
}

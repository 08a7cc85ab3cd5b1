//! What the kernel has no tracepoint for, as marks (`print`): policies, nice values, what becomes of deadlines.

use vruntime_sched::SchedPolicy;
use vruntime_sched::event::{DeadlineEvent, Event};
use vruntime_sched::ids::{CpuId, TaskId};

use super::{push_field, push_number, push_signed, start};
use crate::names::Names;

/// Where and when a line is written.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) names: &'a Names,
    pub(super) nanoseconds: bool,
    pub(super) at: u64,
    pub(super) cpu: CpuId,
}

impl Site<'_> {
    fn begin(self, buffer: &mut Vec<u8>, what: &[u8], task: TaskId) {
        start(buffer, self.names, self.nanoseconds, self.at, self.cpu, b"print:                ");
        let who = self.names.task(task);
        push_field(buffer, what, b": comm=");
        buffer.extend_from_slice(who.comm);
        push_signed(buffer, b" pid=", who.pid);
    }

    fn policy(self, buffer: &mut Vec<u8>, task: TaskId, policy: SchedPolicy, rt_priority: u8) {
        self.begin(buffer, b"sched_setscheduler", task);
        push_field(buffer, b" policy=", policy.name().as_bytes());
        push_field(buffer, b" rt_priority=", &[]);
        push_number(buffer, rt_priority.into(), 1);
        buffer.push(b'\n');
    }

    fn nice(self, buffer: &mut Vec<u8>, task: TaskId, nice: i8) {
        self.begin(buffer, b"set_user_nice", task);
        push_signed(buffer, b" nice=", nice.into());
        buffer.push(b'\n');
    }

    /// What a task is born with, of what is not SCHED_NORMAL with nice 0.
    pub(super) fn birth(self, buffer: &mut Vec<u8>, task: TaskId) {
        let (policy, rt_priority, nice) = self.names.attributes(task);
        if policy != SchedPolicy::Normal {
            self.policy(buffer, task, policy, rt_priority);
        }
        if nice != 0 {
            self.nice(buffer, task, nice);
        }
    }

    /// The line of `event`, if it is one of those above.
    pub(super) fn mark(self, buffer: &mut Vec<u8>, event: &Event) {
        match *event {
            Event::SetPolicy { task, policy, rt_priority } => self.policy(buffer, task, policy, rt_priority),
            Event::SetNice { task, nice } => self.nice(buffer, task, nice),
            Event::Deadline { task, what } => {
                self.begin(buffer, b"sched_deadline", task);
                let (word, late): (&[u8], _) = match what {
                    DeadlineEvent::Throttle => (b"throttle", None),
                    DeadlineEvent::Replenish => (b"replenish", None),
                    DeadlineEvent::Overrun => (b"overrun", None),
                    DeadlineEvent::Miss { late } => (b"miss", Some(late)),
                };
                push_field(buffer, b" what=", word);
                if let Some(late) = late {
                    push_field(buffer, b" late_ns=", &[]);
                    push_number(buffer, late, 1);
                }
                buffer.push(b'\n');
            }
            _ => {}
        }
    }
}

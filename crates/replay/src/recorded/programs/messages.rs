//! Messages in programs.

use vruntime_workload::program::Op;

use super::{Builder, Pass};
use crate::recorded::threads::Act;

/// Whether an act is part of a talk.
pub(super) fn is_of(act: Act) -> bool {
    matches!(act, Act::SendsMessage { .. } | Act::TakesMessage { .. } | Act::PutsOff { .. })
}

impl Builder<'_> {
    /// Returns the message for which a thread slept before that stretch, if the replay has it.
    pub(super) fn message_before(&self, thread: usize, stretch: usize) -> Option<usize> {
        let (messages, has) = self.messages;
        messages.before(thread, stretch).filter(|&number| has[number])
    }

    /// Sends a message, takes one, or puts off what follows.
    pub(super) fn talks(&self, thread: usize, act: Act, ops: &mut Vec<Op>) {
        let (messages, _) = self.messages;
        match act {
            Act::SendsMessage { message, .. } => {
                let it = &messages.all[message];
                self.pairs.send_message(it.to.thread, it.link, ops);
            }
            Act::TakesMessage { message, .. } => {
                self.pairs.take_message(thread, messages.all[message].link, ops);
                self.pairs.pay_for_sleep(thread, messages.work_of_sleep(thread), ops);
            }
            _ => self.pairs.put_off(thread, ops),
        }
    }

    /// Whether a pass has a message: it was sent and taken there.
    pub(super) fn has_message(&self, number: usize, pass: Pass) -> bool {
        let it = &self.messages.0.all[number];
        let (from, to) = (it.from.thread, it.to.thread);
        let sent = pass == Pass::First || it.sent > self.cycle.from;
        self.messages.1[number] && sent && self.is_there(from, to, it.taken, pass)
    }

    /// Whether both threads of a message repeat what they did.
    pub(super) fn sends_again(&self, number: usize) -> bool {
        let it = &self.messages.0.all[number];
        self.cycle.there[it.from.thread] && self.cycle.there[it.to.thread]
    }
}

//! Event loops: threads that read from all ready sockets first, and then write to them.
//!
//! In a replay, other messages are there at once. So a thread takes each message that is there, and puts off what it
//! sends in answer. It does that when it has taken the last.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use vruntime_workload::program::Op;

use super::messages::Message;
use super::threads::Act;

/// Ends everything that a program puts off, before its next wait at the inbox. The task catches up before anything
/// else that may take long, and at the end. Wakers from the number `links` on send messages.
pub(super) fn end(ops: &mut Vec<Op>, links: usize) {
    if !ops.iter().any(|op| matches!(op, Op::PutOff { .. })) {
        return;
    }
    let mut ended = Vec::with_capacity(ops.len());
    // The inbox, and where the last part began that is put off.
    let (mut owes, mut open) = (None, None);
    for op in ops.drain(..) {
        match op {
            Op::PutOff { .. } if open.is_some() => continue,
            Op::PutOff { inbox } => {
                owes = Some(inbox);
                open = Some(ended.len());
            }
            Op::InboxWait { inbox, .. } => ended.extend(open.take().map(|_| Op::PutOffEnd { inbox })),
            Op::Run { .. } | Op::RunIfSlept { .. } | Op::Yield => {}
            Op::InboxWake { from, .. } if from >= links => {}
            _ => catch_up(&mut ended, owes.take(), open.take()),
        }
        ended.push(op);
    }
    catch_up(&mut ended, owes, open);
    *ops = ended;
}

/// Takes the work for a sleep from the work for the first message, which includes it.
pub(super) fn without_sleep(ops: &mut [Op]) {
    let [Op::InboxWait { .. }, Op::RunIfSlept { work: of_sleep, .. }, rest @ ..] = ops else { return };
    let own = |op: &&mut Op| !matches!(op, Op::InboxWait { .. });
    let mut left = *of_sleep;
    for op in rest.iter_mut().take_while(own) {
        if let Op::Run { work } = op {
            let taken = left.min(*work);
            *work -= taken;
            left -= taken;
        }
    }
    *of_sleep -= left;
}

/// Does what was put off. If a part has begun, it follows.
fn catch_up(ops: &mut Vec<Op>, owes: Option<usize>, open: Option<usize>) {
    let Some(inbox) = owes else { return };
    match open {
        Some(begin) => ops[begin] = Op::CatchUp { inbox },
        None => ops.push(Op::CatchUp { inbox }),
    }
}

/// How a thread answers messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Manner {
    /// It reads all messages that are there, and then answers them.
    pub(super) batches: bool,
    /// It answers on the connection of the message, unlike a proxy.
    pub(super) own: bool,
}

/// Returns a stretch's acts in an order in which a thread answers one message after the other. Event loops read
/// from all sockets first, and then write to all of them. With fewer messages, they would answer these.
pub(super) fn regrouped<'a>(
    all: &[Message],
    acts: &'a [(u64, Act)],
    work: u64,
    manner: Manner,
) -> Cow<'a, [(u64, Act)]> {
    let mut answered = answered(all, acts, if manner.batches { 1 } else { 2 });
    if manner.own {
        answers_later(all, acts, manner.batches, &mut answered);
    }
    if answered.is_empty() {
        return Cow::Borrowed(acts);
    }
    // Each group begins with a message. The work before an act of sending is for it.
    let mut groups: Vec<Vec<Piece>> = vec![Vec::new()];
    let mut group_of = BTreeMap::new();
    let mut put_off = BTreeSet::new();
    let (mut begin, mut others) = (0, Vec::new());
    for (index, &(done, act)) in acts.iter().enumerate() {
        others.push((done, act));
        let group = match act {
            Act::TakesMessage { .. } => {
                let take = others.pop().into_iter().collect();
                let piece = Piece { begin, end: done, acts: std::mem::take(&mut others) };
                let last = groups.len() - 1;
                groups[last].push(piece);
                (begin, others) = (done, take);
                group_of.insert(index, groups.len());
                groups.push(Vec::new());
                groups.len() - 1
            }
            Act::SendsMessage { at, .. } => {
                let answers = answered.get(&index).and_then(|take| group_of.get(take)).copied();
                if answers.is_some_and(|group| put_off.insert(group)) {
                    others.insert(0, (begin, Act::PutsOff { at }));
                }
                answers.unwrap_or(groups.len() - 1)
            }
            _ => continue,
        };
        groups[group].push(Piece { begin, end: done, acts: std::mem::take(&mut others) });
        begin = done;
    }
    groups.push(vec![Piece { begin, end: work.max(begin), acts: others }]);
    let (mut now, mut regrouped) = (0, Vec::with_capacity(acts.len()));
    for piece in groups.into_iter().flatten() {
        regrouped.extend(piece.acts.into_iter().map(|(done, act)| (done - piece.begin + now, act)));
        now += piece.end - piece.begin;
    }
    Cow::Owned(regrouped)
}

/// A message that a thread takes or sends: its place in the acts, whether the thread takes it, and its connection.
pub(super) type Event = (usize, bool, usize);

pub(super) fn events(all: &[Message], acts: &[(u64, Act)]) -> Vec<Event> {
    let event = |(index, &(_, act)): (usize, &(u64, Act))| match act {
        Act::TakesMessage { message, .. } => Some((index, true, all[message].connection)),
        Act::SendsMessage { message, .. } => Some((index, false, all[message].connection)),
        _ => None,
    };
    acts.iter().enumerate().filter_map(event).collect()
}

/// Finds whether a thread answers on the connections of the messages that it takes. It may take other messages first,
/// as `redis-benchmark` does. A proxy sends a request on, and what it sends to a client answers the other side. If
/// there is never more than one message without an answer, the two look alike. Then a thread counts as a proxy.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers<Connection> {
    /// Connections with a message that has no answer yet, the oldest first.
    open: Vec<Connection>,
    /// The connection of the message that it sent last, if it has taken none since.
    sent: Option<Connection>,
    own: usize,
    others: usize,
}

impl<Connection: Copy + PartialEq> Answers<Connection> {
    pub(super) fn takes(&mut self, connection: Connection) {
        self.sent = None;
        if !self.open.contains(&connection) {
            self.open.push(connection);
        }
    }

    pub(super) fn sends(&mut self, connection: Connection) {
        // The rest of an answer, or a message of its own accord.
        if self.sent.replace(connection) == Some(connection) || self.open.is_empty() {
            return;
        }
        let own = self.open.iter().position(|&open| open == connection);
        *(if own.is_some() { &mut self.own } else { &mut self.others }) += 1;
        self.open.remove(own.unwrap_or(0));
    }

    /// Whether most answers are on the connection of their message.
    pub(super) fn are_own(&self) -> bool {
        self.own > self.others
    }
}

/// Adds answers of a thread that answers on the same connection, after it has taken other messages. A thread that does
/// not read all messages first puts off only these.
fn answers_later(all: &[Message], acts: &[(u64, Act)], batches: bool, answered: &mut BTreeMap<usize, usize>) {
    let (mut last, mut taken) = (None, BTreeMap::new());
    for (index, takes, connection) in events(all, acts) {
        if takes {
            last = Some(index);
            taken.insert(connection, index);
        } else if let Some(&take) = taken.get(&connection) {
            if batches || last != Some(take) {
                answered.insert(index, take);
            } else {
                answered.remove(&index);
            }
        }
    }
}

/// Returns which message an act of sending answers, by their places in the acts. It is the connection's last message in
/// the row of at least `least` that the thread took before. A proxy answers on other connections, in order.
pub(super) fn answered(all: &[Message], acts: &[(u64, Act)], least: usize) -> BTreeMap<usize, usize> {
    let events = events(all, acts);
    let rows: Vec<&[Event]> = events.chunk_by(|one, two| one.1 == two.1).collect();
    let mut answered = BTreeMap::new();
    for rows in rows.windows(2).filter(|rows| rows[0][0].1 && rows[0].len() >= least) {
        let (takes, sends) = (rows[0], rows[1]);
        let of = |connection: usize| takes.iter().rev().find(|take| take.2 == connection).map(|take| take.0);
        let mut own = sends.iter().filter_map(|send| Some((send.0, of(send.2)?))).peekable();
        if own.peek().is_some() {
            answered.extend(own);
        } else if takes.len() == sends.len() {
            answered.extend(takes.iter().zip(sends).map(|(take, send)| (send.0, take.0)));
        }
    }
    answered
}

/// A part of a stretch, with its acts.
struct Piece {
    begin: u64,
    end: u64,
    acts: Vec<(u64, Act)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether answers are own, if a thread takes (`+`) and sends (`-`) messages of these connections, again and again.
    fn are_own(acts: &[(char, usize)]) -> bool {
        let mut answers = Answers::default();
        for &(act, connection) in acts.iter().cycle().take(20 * acts.len()) {
            if act == '+' { answers.takes(connection) } else { answers.sends(connection) }
        }
        answers.are_own()
    }

    #[test]
    fn a_thread_may_take_other_messages_before_it_answers() {
        assert!(are_own(&[('+', 1), ('-', 1), ('+', 2), ('-', 2)]));
        // redis-benchmark: the next reply is there before it has sent the next request.
        assert!(are_own(&[('+', 3), ('+', 1), ('-', 3), ('+', 2), ('-', 1), ('-', 2)]));
        // An answer in several parts.
        assert!(are_own(&[('+', 1), ('+', 2), ('-', 1), ('-', 1), ('-', 2), ('-', 2)]));
    }

    #[test]
    fn a_proxy_does_not_answer_on_its_own() {
        // Clients have the connections 1 and 2.
        assert!(!are_own(&[('+', 1), ('-', 3), ('+', 3), ('-', 1)]));
        assert!(!are_own(&[('+', 1), ('+', 2), ('-', 3), ('-', 4), ('+', 3), ('-', 1), ('+', 4), ('-', 2)]));
        assert!(!are_own(&[('-', 1)]));
    }
}

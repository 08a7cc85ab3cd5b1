//! Connections that follow each other: a client that opens a new one for each request.
//!
//! Such a connection has one exchange, and never repeats it. The client's next request is on the next connection. So
//! connections of the same two threads are one talk, as long as none begins before another has ended.

use std::collections::BTreeMap;

use super::Message;

/// The connection with which a talk began, and the numbers of its links by their senders.
struct Talk {
    connection: usize,
    links: BTreeMap<usize, usize>,
    /// When its last message was taken.
    until: u64,
}

/// A connection's two threads, and the time from its first message to its last.
#[derive(Clone, Copy)]
struct Span {
    threads: (usize, usize),
    from: u64,
    until: u64,
}

/// Gives the messages of connections that follow each other the numbers of the first one. `began` says whether a
/// connection began in the trace. Returns the number of the first one for each such connection.
pub(super) fn join(all: &mut [Message], began: &dyn Fn(usize) -> bool) -> BTreeMap<usize, usize> {
    let mut spans: BTreeMap<usize, Option<Span>> = BTreeMap::new();
    for message in all.iter().filter(|message| began(message.connection)) {
        let (one, two) = (message.from.thread, message.to.thread);
        let threads = (one.min(two), one.max(two));
        let new = Span { threads, from: message.sent, until: message.taken };
        let span = spans.entry(message.connection).or_insert(Some(new));
        // More than two threads are no client and its server.
        *span = span.filter(|span| span.threads == threads).map(|span| Span {
            from: span.from.min(message.sent),
            until: span.until.max(message.taken),
            ..span
        });
    }
    let mut spans: Vec<(usize, Span)> = spans.into_iter().filter_map(|(number, span)| Some((number, span?))).collect();
    spans.sort_by_key(|(number, span)| (span.from, *number));
    let mut talks: Vec<Talk> = Vec::new();
    let mut of_threads: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    let mut talk_of: BTreeMap<usize, usize> = BTreeMap::new();
    for (connection, span) in spans {
        let all = of_threads.entry(span.threads).or_default();
        // The client whose exchange has just ended begins the next.
        let ended = all.iter().copied().filter(|&talk| talks[talk].until <= span.from);
        let talk = ended.max_by_key(|&talk| talks[talk].until).unwrap_or_else(|| {
            all.push(talks.len());
            talks.push(Talk { connection, links: BTreeMap::new(), until: 0 });
            talks.len() - 1
        });
        talks[talk].until = span.until;
        talk_of.insert(connection, talk);
    }
    for message in all {
        if let Some(&talk) = talk_of.get(&message.connection) {
            let talk = &mut talks[talk];
            message.link = *talk.links.entry(message.from.thread).or_insert(message.link);
            message.connection = talk.connection;
        }
    }
    talk_of.into_iter().map(|(connection, talk)| (connection, talks[talk].connection)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Place;
    use super::*;

    /// Returns a message of a connection, with links of its own for both directions.
    fn message((from, to): (usize, usize), connection: usize, sent: u64) -> Message {
        let place = |thread| Place { thread, stretch: 0, done: 0 };
        let link = 2 * connection + usize::from(from > to);
        Message { from: place(from), to: place(to), sent, taken: sent + 5, link, connection, ends_sleep: false }
    }

    fn joined(mut all: Vec<Message>, began: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
        join(&mut all, &began);
        all.iter().map(|message| (message.connection, message.link)).collect()
    }

    #[test]
    fn connections_one_after_another_are_one_talk() {
        let exchange = |number: usize| {
            let at = number as u64 * 100;
            [message((1, 2), number, at), message((2, 1), number, at + 20)]
        };
        let all: Vec<Message> = (0..3).flat_map(exchange).collect();
        assert_eq!(joined(all.clone(), |_| true), [(0, 0), (0, 1), (0, 0), (0, 1), (0, 0), (0, 1)]);
        let early = |number| number != 1;
        assert_eq!(joined(all, early), [(0, 0), (0, 1), (1, 2), (1, 3), (0, 0), (0, 1)], "one began before the trace");
    }

    #[test]
    fn connections_at_the_same_time_are_different_talks() {
        let all = vec![message((1, 2), 0, 0), message((1, 2), 1, 2), message((1, 2), 2, 10), message((1, 2), 3, 20)];
        // The third follows the second, which ended last before it.
        assert_eq!(joined(all, |_| true), [(0, 0), (1, 2), (1, 2), (1, 2)]);
    }

    #[test]
    fn connections_of_other_threads_are_different_talks() {
        let all = vec![message((1, 2), 0, 0), message((3, 2), 1, 10), message((1, 2), 2, 20)];
        assert_eq!(joined(all, |_| true), [(0, 0), (1, 3), (0, 0)]);
        let several = vec![message((1, 2), 0, 0), message((1, 2), 1, 20), message((1, 3), 1, 40)];
        assert_eq!(joined(several, |_| true), [(0, 0), (1, 2), (1, 2)], "two servers at one connection");
    }
}

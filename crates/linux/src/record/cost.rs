//! The cost of recording an event.

use crate::calibrate::message_to_a_neighbour;
use crate::error::Error;

/// The cost of recording an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventCost {
    /// Nanoseconds.
    pub ns: u64,
    /// Events of a message between threads of a CPU, in thousandths.
    pub events_permille: u64,
    /// Nanoseconds of a message without recording.
    pub without_ns: u64,
    /// Nanoseconds of a message with recording.
    pub with_ns: u64,
}

const ROUNDS: usize = 4;

/// Sends messages between two threads of a CPU, alternately with and without events (`enable`). The least of each
/// counts, since other work only adds. `seen` counts all events so far. None if no event came.
pub(super) fn measure(seen: &dyn Fn() -> u64, enable: &dyn Fn(bool)) -> Result<Option<EventCost>, Error> {
    let (mut without, mut with) = (u64::MAX, u64::MAX);
    let (mut events, mut messages) = (0, 0);
    for _ in 0..ROUNDS {
        enable(false);
        without = without.min(message_to_a_neighbour()?.0);
        enable(true);
        let before = seen();
        let (ns, count) = message_to_a_neighbour()?;
        events += seen().saturating_sub(before);
        (with, messages) = (with.min(ns), messages + count);
    }
    let Some(events_permille) = (events * 1000).checked_div(messages).filter(|&events| events > 0) else {
        return Ok(None);
    };
    let ns = with.saturating_sub(without) * 1000 / events_permille;
    Ok(Some(EventCost { ns, events_permille, without_ns: without, with_ns: with }))
}

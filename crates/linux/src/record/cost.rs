//! The cost of recording an event.

use crate::calibrate::{fastest, first_cpu, messages_to_a_neighbour};
use crate::error::Error;
use crate::urgent::Urgent;

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

/// Alternations. A virtual CPU changes its speed, so both kinds of messages need several times.
const ROUNDS: usize = 12;

/// Sends messages between two threads of a CPU, alternately with and without events (`enable`). The fastest tenth of
/// each counts, since other tasks only delay messages. `seen` counts a CPU's events so far. None if no event came.
pub(super) fn measure(seen: &dyn Fn(usize) -> u64, enable: &dyn Fn(bool)) -> Result<Option<EventCost>, Error> {
    // Events of other tasks would count, too. The other thread is urgent by itself.
    let _urgent = Urgent::take();
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let (mut events, mut messages) = (0, 0);
    for _ in 0..ROUNDS {
        enable(false);
        without.extend(messages_to_a_neighbour()?);
        enable(true);
        let before = seen(first_cpu());
        let times = messages_to_a_neighbour()?;
        events += seen(first_cpu()).saturating_sub(before);
        // And the last round, which ends the other thread.
        messages += 2 * (times.len() as u64 + 1);
        with.extend(times);
    }
    let Some(events_permille) = (events * 1000).checked_div(messages).filter(|&events| events > 0) else {
        return Ok(None);
    };
    let (without_ns, with_ns) = (fastest(without), fastest(with));
    let ns = with_ns.saturating_sub(without_ns) * 1000 / events_permille;
    Ok(Some(EventCost { ns, events_permille, without_ns, with_ns }))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Each message has two events, if they are enabled. The other CPUs of a busy machine have many more.
    #[test]
    fn only_events_of_the_measured_cpu_count() {
        let (on, here) = (Cell::new(false), Cell::new(0));
        let seen = |cpu: usize| {
            // The first call of a pair is before the messages.
            here.set(here.get() + if on.replace(false) { 0 } else { 1000 });
            here.get() + if cpu == first_cpu() { 0 } else { 1 << 40 }
        };
        let cost = measure(&seen, &|enabled| on.set(enabled)).unwrap().expect("there are events");
        // At most 500 rounds and the last one have two messages each.
        assert!((998..=500_000).contains(&cost.events_permille), "{cost:?}");
        assert!(cost.without_ns > 0 && cost.with_ns > 0, "{cost:?}");
    }
}

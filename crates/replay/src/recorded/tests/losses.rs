//! CPUs whose events are lost.

use super::*;

/// A CPU is not idle after its last known event.
#[test]
fn a_cpu_is_unknown_after_a_loss_without_later_events() {
    let mut script = Script::default();
    let (a, b) = (task(5, "a"), task(6, "b"));
    script.switch(0, 0, Left::Runnable, Some(a)).event(10 * MS, 0, What::Lost { events: None }).event(
        10 * MS,
        1,
        What::Lost { events: None },
    );
    script.switch(12 * MS, 1, Left::Runnable, Some(b)).switch(20 * MS, 1, Left::Sleeping, None);
    let recorded = script.finish();
    assert_eq!(recorded.known_ns, [10 * MS, 20 * MS]);
}

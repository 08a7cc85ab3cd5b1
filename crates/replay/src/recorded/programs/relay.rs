//! Processes of a loop that the recording's end cut off.

use vruntime_workload::program::Phase;

use super::Builder;

impl Builder<'_> {
    /// Returns a thread's phases. One that the end cut off may go on as an [earlier one](super::Cycle::relay).
    pub(super) fn phases_with_relay(&self, thread: usize) -> Vec<Phase> {
        let mut phases = self.phases(thread);
        let mut pairs = self.cycle.relay.pairs.iter().filter(|_| self.goes_on);
        if let Some(&(_, early)) = pairs.find(|&&(late, _)| late == thread) {
            phases.extend(self.phases(early));
        }
        phases
    }
}

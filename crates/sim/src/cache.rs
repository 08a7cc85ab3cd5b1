//! The contents of a CPU's nearest cache, as costs of switches and messages.
//!
//! A task's kernel data and working set stay in the first-level cache while it alternates with one other task, and are
//! gone after three others. `vruntime calibrate` measures rings of two and of eight threads. A hop in rings of four to
//! forty costs the same.
//!
//! Unread socket messages are in kernel buffers of about a KiB. With thousands of them, messages on one CPU cost more.
//! A pipe's cost does not depend on its messages. On another CPU, few messages cost half a microsecond more, and many
//! no more, which is not simulated.

use vruntime_sched::Policy;
use vruntime_trace::Sink;

use crate::costs::Costs;
use crate::cpu::{IDLE, STOPPER};
use crate::machine::Machine;

/// The 1-KiB buffers of socket messages that fill a second-level cache.
const CACHED_BUFFERS: u32 = 1024;

/// The last three tasks of a CPU, latest first.
#[derive(Clone, Copy, Debug)]
pub struct Recent([u32; 3]);

impl Default for Recent {
    fn default() -> Self {
        Self::NONE
    }
}

impl Recent {
    /// No tasks.
    pub const NONE: Self = Self([IDLE; 3]);

    /// Notes that `task`, a number, has the CPU. Returns how many halves of its data the cache has lost.
    #[inline]
    pub fn touch(&mut self, task: u32) -> u64 {
        let [last, before, third] = self.0;
        if task == last {
            return 0;
        }
        if task == before {
            self.0 = [task, last, third];
            return 0;
        }
        self.0 = [task, last, before];
        if task == third { 1 } else { 2 }
    }
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    #[inline]
    pub(crate) fn refill(&mut self, cpu: usize, next: u32) -> u64 {
        let cost = self.core.costs.cold_switch_ns;
        if cost == 0 || next >= STOPPER { 0 } else { cost * self.core.cpus[cpu].recent.touch(next) / 2 }
    }

    pub(crate) fn buffer(&self) -> u64 {
        let Costs { socket_ns, cold_socket_ns, .. } = self.core.costs;
        socket_ns + cold_socket_ns * u64::from(self.objects.buffers.min(CACHED_BUFFERS)) / u64::from(CACHED_BUFFERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(tasks: u32) -> Vec<u64> {
        let mut recent = Recent::NONE;
        let mut lost: Vec<u64> = (0..tasks * 3).map(|turn| recent.touch(turn % tasks)).collect();
        lost.split_off(tasks as usize * 2)
    }

    #[test]
    fn two_others_take_half_of_the_cache_and_three_all() {
        assert_eq!((ring(1), ring(2), ring(3)), (vec![0], vec![0; 2], vec![1; 3]));
        assert_eq!((ring(4), ring(9)), (vec![2; 4], vec![2; 9]));
    }
}

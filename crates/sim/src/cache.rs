//! The contents of a CPU's nearest cache, as costs of switches and messages.
//!
//! A task's kernel data and working set stay in the first-level cache while one other task alternates with it, and are
//! gone after three others. Measured on the machine of the 6.18 recordings, for a message round a ring of threads on
//! one CPU: 2.6 us a hop with two threads, 3.2 with three, 4.0 with four, eight, sixteen and forty (22 November 2026).
//! `vruntime calibrate` measures rings of two and of eight.
//!
//! Unread messages in sockets are in buffers that the kernel allocates, about a KiB for each. Writing and reading a
//! message of 100 bytes on one CPU takes 1.8 to 2.1 us with up to 20 unread messages, 2.0 to 2.2 with 400, and 2.3 to
//! 3.3 with 4000 on twenty sockets (23 November 2026); in a pipe it takes 0.6 to 0.9 in any case. On another CPU, it
//! takes half a microsecond more with few messages, and no more with many, which is not simulated.

use vruntime_sched::Policy;
use vruntime_trace::Sink;

use crate::costs::Costs;
use crate::cpu::{IDLE, STOPPER};
use crate::machine::Machine;

/// The number of messages whose buffers fill a second-level cache. A message of 100 bytes has 1 KiB in the kernel.
const CACHED_BUFFERS: u32 = 1024;

/// The last three that had a CPU, each once, the latest first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent([u32; 3]);

impl Recent {
    /// No task.
    pub(crate) const NONE: Self = Self([IDLE; 3]);

    /// `task` has the CPU. How much of it the cache has lost, halves.
    #[inline]
    fn touch(&mut self, task: u32) -> u64 {
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
    /// Returns the cost of refilling `cpu`'s cache for `next`.
    #[inline]
    pub(crate) fn refill(&mut self, cpu: usize, next: u32) -> u64 {
        let cost = self.core.costs.cold_switch_ns;
        if cost == 0 || next >= STOPPER { 0 } else { cost * self.core.cpus[cpu].recent.touch(next) / 2 }
    }

    /// What the buffer of a socket's message takes, to make it or to read it and throw it away.
    pub(crate) fn buffer(&self) -> u64 {
        let Costs { socket_ns, cold_socket_ns, .. } = self.core.costs;
        socket_ns + cold_socket_ns * u64::from(self.objects.buffers.min(CACHED_BUFFERS)) / u64::from(CACHED_BUFFERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what each task of a ring loses at its turn.
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

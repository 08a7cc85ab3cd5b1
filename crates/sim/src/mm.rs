//! The address space of each CPU.
//!
//! A switch loads the next task's address space if the CPU has another. The idle task and kernel threads borrow the
//! current one (lazy TLB).

use vruntime_sched::Policy;
use vruntime_trace::Sink;
use vruntime_workload::program::Workload;

use crate::cpu::STOPPER;
use crate::machine::Machine;

/// No address space: a CPU before its first, or a kernel thread.
pub(crate) const NO_MM: u32 = u32::MAX;
/// Each instance has its own.
const OWN: u32 = u32::MAX - 1;
/// Numbers below this are processes. Others are tasks with their own address space.
const FIRST_OWN: u32 = 1 << 31;

/// Returns tasks' address spaces. Tasks from `own` on are the machine's kernel threads.
pub(crate) fn of_templates(workload: &Workload, own: usize) -> Vec<u32> {
    let mm = |(index, process): (usize, Option<u32>)| match process {
        _ if index >= own || workload.kernel_threads.contains(&index) => NO_MM,
        Some(process) => process % FIRST_OWN,
        None => OWN,
    };
    workload.tasks.iter().map(|task| task.process).enumerate().map(mm).collect()
}

impl<P: Policy, S: Sink> Machine<'_, P, S> {
    #[inline]
    pub(crate) fn switch_mm(&mut self, cpu: usize, next: u32) -> u64 {
        let cost = self.core.costs.mm_switch_ns;
        if cost == 0 || next >= STOPPER {
            return 0;
        }
        let mm = match self.mm_of[self.tasks[next as usize].template as usize] {
            NO_MM => return 0,
            OWN => FIRST_OWN | next,
            process => process,
        };
        let had = std::mem::replace(&mut self.core.cpus[cpu].mm, mm);
        if had == mm { 0 } else { cost }
    }
}

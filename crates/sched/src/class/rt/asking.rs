//! Requests for real-time tasks by interrupt (feature RT_PUSH_IPI). `rounds` has the order of the CPUs.

use crate::attrs::ClassKind;
use crate::host::{Host, Timer};
use crate::ids::CpuId;
use crate::policy::Policy;
use crate::rq::Rqs;
use crate::scheduler::view::Scheduler;
use crate::shared::Shared;

/// Returns the first other CPU in the root domain of `this`, from `from` on, that has pushable tasks.
fn offers<P: Policy>(shared: &Shared<P>, this: CpuId, from: u32) -> Option<CpuId> {
    if from as usize >= shared.nr_cpus() {
        return None;
    }
    let mut cpus = shared.rt.offers.cpus().iter_from(CpuId(from));
    cpus.find(|&cpu| cpu.0 >= from && cpu != this && shared.is_online(cpu) && shared.same_root(this, cpu))
}

/// Requests tasks for `cpu`, which is about to run a less urgent task.
#[inline(never)]
pub(crate) fn ask_for_tasks<P: Policy, H: Host>(shared: &Shared<P>, host: &mut H, now: u64, cpu: CpuId) {
    // No other CPU has pushable tasks.
    if offers(shared, cpu, 0).is_none() {
        return;
    }
    let round = shared.rt.rounds.of(shared.root(cpu));
    if let Some(to) = round.and_then(|round| round.ask(|from| offers(shared, cpu, from))) {
        host.arm(Timer::RtPush(to), Some(now));
    }
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Handles the interrupt on `cpu` (`rto_push_irq_work_func`).
    #[inline(never)]
    pub(crate) fn push_as_asked(&mut self, cpu: CpuId) {
        self.push_tasks(ClassKind::Rt, cpu, cpu);
        let shared = self.shared;
        let round = shared.rt.rounds.of(shared.root(cpu));
        if let Some(to) = round.and_then(|round| round.pass(|from| offers(shared, cpu, from))) {
            self.host.arm(Timer::RtPush(to), Some(self.now));
        }
    }
}

//! CPUs of different capacities: which CPU a task fits.
//!
//! A task *fits* a CPU if it leaves a fifth of the fair class's capacity free. Ticks and switches check the running
//! task. If it does not fit, its load is published as `misfit_task_load`, and an idle larger CPU's balancer has the
//! stopper push it there. Machines of equal CPUs never use this.
//!
//! Up to 6.9, a task that fits no CPU is marked even if there is no larger CPU; `check_misfit_status` filters it later.
//! 6.10+: only if it may run on a larger CPU (`max_allowed_capacity`).

use super::discipline::{Discipline, FairCpu, FairShared};
use super::placement::Free;
use crate::balance::domains::Domain;
use crate::capacity::fits_capacity;
use crate::class::clamps;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Balanced;
use crate::tunables::Tunables;
use crate::uclamp::{Clamps, SCALE};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fit {
    No,
    /// The CPU is only smaller than the lower clamp.
    AllButMin,
    Yes,
}

/// `util_fits_cpu`, for a CPU of capacity `whole` with `left` for the fair class.
///
/// Clamps refer to the whole capacity. An upper clamp makes a task fit any CPU of at least that capacity; an
/// unclamped task fits the largest CPU only by its utilisation. A lower clamp above the utilisation makes the task
/// fit only CPUs of at least that capacity.
pub(super) fn util_fits_cpu(util: u64, clamps: Clamps, whole: u32, left: u32) -> Fit {
    let unbounded = whole == u32::from(SCALE) && clamps.max == SCALE;
    let capped = !unbounded && u32::from(clamps.max) <= whole;
    let min = clamps.min.min(clamps.max);
    if !fits_capacity(util, left) && !capped {
        Fit::No
    } else if util < u64::from(min) && u32::from(min) > whole {
        Fit::AllButMin
    } else {
        Fit::Yes
    }
}

impl<D: Discipline, T: Tunables> FairCpu<D, T> {
    pub(super) fn task_fits_cpu(&self, shared: &FairShared<D, T>, task: u32, cpu: CpuId) -> bool {
        self.task_fit(shared, task, cpu) == Fit::Yes
    }

    fn task_fit(&self, shared: &FairShared<D, T>, task: u32, cpu: CpuId) -> Fit {
        let util = <super::discipline::Fair<D, T> as Balanced<_>>::task_util(self, task);
        let (whole, left) = (shared.capacity(cpu), shared.cpu(cpu).capacity_of());
        if shared.uclamp_used() {
            util_fits_cpu(util, clamps::effective(shared, &self.tasks[task]), whole, left)
        } else if fits_capacity(util, left) {
            Fit::Yes
        } else {
            Fit::No
        }
    }

    /// Publishes whether the running `task` is too big for this CPU.
    #[inline]
    pub(super) fn update_misfit_status(&mut self, shared: &FairShared<D, T>, task: u32) {
        if shared.domains.asym() {
            self.publish_misfit(shared, task);
        }
    }

    #[inline(never)]
    fn publish_misfit(&mut self, shared: &FairShared<D, T>, task: u32) {
        let load = if self.is_misfit(shared, task) { self.task_h_load(shared, task).max(1) } else { 0 };
        shared.cpu(self.cpu).set_misfit_task_load(load);
    }

    fn is_misfit(&self, shared: &FairShared<D, T>, task: u32) -> bool {
        let this = &self.tasks[task];
        if this.nr_cpus_allowed(shared.nr_cpus()) == 1 || self.task_fits_cpu(shared, task, self.cpu) {
            return false;
        }
        !shared.config.has(Behaviour::MisfitAllowed)
            || shared.capacity(self.cpu) < shared.max_allowed_capacity(&this.affinity)
    }

    /// Returns an idle CPU in `domain`, which has all capacities: the first from `target` that the task fits, else the
    /// largest (`select_idle_capacity`).
    pub(super) fn select_idle_capacity(
        &self,
        shared: &FairShared<D, T>,
        domain: &Domain,
        task: u32,
        target: CpuId,
    ) -> Option<CpuId> {
        let this = &self.tasks[task];
        let free = Free::to(self, shared, task);
        let mut best = None;
        for cpu in domain.span.iter_from(target).filter(|&cpu| this.allowed(cpu)) {
            let published = shared.cpu(cpu);
            if !free.is(published) {
                continue;
            }
            let fit = self.task_fit(shared, task, cpu);
            let capacity = match fit {
                Fit::Yes => return Some(cpu),
                // The clamp is a performance level, which other classes do not reduce.
                Fit::AllButMin => published.capacity(),
                Fit::No => published.capacity_of(),
            };
            if best.is_none_or(|(_, most)| (fit, capacity) > most) {
                best = Some((cpu, (fit, capacity)));
            }
        }
        best.map(|(cpu, _)| cpu)
    }
}

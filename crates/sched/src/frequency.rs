//! Demands of frequency of a run queue, and averages at lower frequencies.

use crate::cpufreq::{Demand, Demands};
use crate::host::Host;
use crate::ids::CpuId;
use crate::kernels::Behaviour;
use crate::policy::Policy;
use crate::rq::{Rq, Rqs};
use crate::scheduler::view::Scheduler;
use crate::shared::Shared;
use crate::uclamp::SCALE;

impl<P: Policy> Rq<P> {
    /// With `fair` as the fair class's utilisation.
    pub(crate) fn demands(&self, fair: u64) -> Demands {
        const BW_SHIFT: u32 = 20;
        Demands {
            fair,
            rt: self.rt.util_avg(),
            dl: self.dl.util_avg(),
            bw_dl: (self.dl.running_bw() * u64::from(SCALE)) >> BW_SHIFT,
            rt_runnable: self.rt.runnable(),
            clamps: self.clamps(),
        }
    }

    /// Returns the demand of this CPU (`sugov_get_util`). 6.5+: waiting tasks count as if they ran (`runnable_avg`).
    pub fn cpufreq_demand(&self, shared: &Shared<P>) -> Demand {
        let published = shared.cpu(self.cpu);
        let max = u64::from(published.capacity());
        let boost = if shared.config.has(Behaviour::BoostsRunnable) { published.runnable() } else { 0 };
        let fair = published.util().max(boost).min(max);
        let demands = self.demands(fair);
        let used = shared.uclamp_used();
        let Demands { rt, bw_dl, clamps, .. } = demands;
        let capped = used && fair + rt >= u64::from(clamps.max) && clamps.max != SCALE;
        Demand { util: demands.wanted(shared.config.has(Behaviour::HeadroomOfUse), max, used), max, bw_dl, capped }
    }
}

impl<P: Policy, R: Rqs<P>, H: Host> Scheduler<'_, P, R, H> {
    /// Sets the frequency of `cpu` to `scale` of its highest, 1..=1024 (`arch_scale_freq_capacity`). Averages count
    /// time accordingly.
    pub fn set_frequency(&mut self, cpu: CpuId, scale: u32) {
        let mut rq = self.rqs.rq(cpu);
        rq.update_clock(self.now);
        rq.clock.set_frequency(scale.clamp(1, u32::from(SCALE)));
    }
}

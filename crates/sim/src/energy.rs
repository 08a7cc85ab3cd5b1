//! Energy-aware wakeups.

use vruntime_sched::energy::EnergyModel;
use vruntime_sched::kernels::Behaviour;

use crate::config::{Config, MachineSpec};
use crate::frequency::Governor;

/// Returns the energy model of wakeups, unless another governor than schedutil disables it.
pub(crate) fn model_of_wakeups(spec: &MachineSpec) -> Option<EnergyModel> {
    let governor = spec.frequencies.as_ref().map(|frequencies| frequencies.governor);
    spec.energy.clone().filter(|_| governor.is_none_or(|governor| governor == Governor::Schedutil))
}

/// Returns why a model has no effect.
pub(crate) fn note(config: &Config) -> Option<String> {
    let spec = &config.machine;
    spec.energy.as_ref()?;
    let cpu_places = spec.topology.cpus();
    let why = if model_of_wakeups(spec).is_none() {
        "another governor than schedutil chooses the frequencies".to_owned()
    } else if cpu_places.iter().all(|place| place.capacity == cpu_places[0].capacity) {
        "all CPUs have the same capacity".to_owned()
    } else if cpu_places
        .iter()
        .enumerate()
        .any(|(cpu, place)| cpu_places[..cpu].iter().any(|other| other.core == place.core))
    {
        "its cores have several threads".to_owned()
    } else if !config.kernel.behaviours.has(Behaviour::Eas) {
        format!("Linux {} does not do so yet", config.kernel.name)
    } else {
        return None;
    };
    Some(format!("wakeups do not look at the machine's energy model: {why}"))
}

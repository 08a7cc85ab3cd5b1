//! Checks a group's CPU limit on a CPU: throttling, tasks in limbo, and groups below.

use alloc::format;
use alloc::string::String;

use crate::attrs::ClassKind;
use crate::class::fair::discipline::{Discipline, Fair};
use crate::class::fair::entity::Se;
use crate::rq::Rq;
use crate::tunables::Tunables;

impl<D: Discipline, T: Tunables> Rq<Fair<D, T>> {
    /// Returns the first violation by the limit of group `cfs`, in words.
    pub(crate) fn check_limits(&self, cfs: u32) -> Result<(), String> {
        let group = &self.class.groups[cfs];
        let wrong = |what: &str| Err(format!("CPU {} group {}: {what}", self.cpu, group.id));
        let above = self.class.groups[group.parent].cfs.bandwidth.as_ref();
        let Some(local) = &group.cfs.bandwidth else {
            return if above.is_some() { wrong("has no state of the limit above it") } else { Ok(()) };
        };
        let count = above.map_or(0, |above| above.throttle_count) + u32::from(local.throttled);
        if local.throttle_count != count {
            return wrong("its count of used-up limits is wrong");
        }
        if local.off && !local.throttled {
            return wrong("kept off its parent's queue without being throttled");
        }
        if local.runtime_enabled && !self.online {
            return wrong("has a limit on a CPU that is offline");
        }
        if local.throttled && !local.runtime_enabled {
            return wrong("throttled without a limit");
        }
        if local.pelt_stopped_at.is_some() && local.throttle_count == 0 {
            return wrong("its averages stand still though it is not throttled");
        }
        let lost = local.limbo.iter().find(|&&task| {
            let entity = &self.class.entities[Se::task(task)];
            !entity.throttled || entity.on_rq || entity.parent != cfs || local.throttle_count == 0
        });
        if lost.is_some() {
            return wrong("has a task in limbo that is not throttled");
        }
        // A sleeping task that was in a higher class is not in limbo.
        let here = self.tasks.iter().filter(|(_, task)| task.on_rq && task.kind() == ClassKind::Fair);
        let entities = here.map(|(index, _)| &self.class.entities[Se::task(index)]);
        let throttled = entities.filter(|entity| entity.throttled && entity.parent == cfs).count();
        if throttled != local.limbo.len() {
            return wrong("has a throttled task that is not in limbo");
        }
        let below = self.class.groups.iter().filter(|(index, _)| self.is_below(*index, cfs)).count();
        if below != local.below.len() {
            return wrong("its list lacks groups below it");
        }
        Ok(())
    }
}

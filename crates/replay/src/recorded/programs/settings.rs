//! Policies and CPUs of threads.

use vruntime_workload::program::{Policy, Settings};

use super::Builder;
use crate::recorded::threads::Stay;

/// A task that waited this long beside an idle CPU is confined: any balancer would have moved it.
const CONFINED_NS: u64 = 20_000_000;
/// Where a thread has to run.
pub(super) struct Confined {
    pub(super) cpus: Vec<u32>,
    /// The first stretch.
    pub(super) since: usize,
    /// Whether its name or the machine says so.
    pub(super) known: bool,
}

impl Builder<'_> {
    /// Returns where a thread is confined, if it is.
    pub(super) fn confined(&self, thread: usize) -> Option<Confined> {
        let this = self.life(thread);
        if let Some(cpus) = self.narrowed(thread) {
            return Some(Confined { cpus: cpus.to_vec(), since: 0, known: true });
        }
        let stay = this.stay?;
        let of_cpu = this.comm.rsplit_once('/').and_then(|(_, tail)| {
            let number = tail.split(':').next().unwrap_or_default();
            number.parse::<u32>().ok()
        });
        if of_cpu == Some(stay.cpu) && stay.stretch == 0 {
            return Some(Confined { cpus: vec![stay.cpu], since: 0, known: true });
        }
        // Where an affinity, a cpuset or a limit is known, it is the reason for such a wait.
        let waited = stay.beside_idle >= CONFINED_NS && stay.beside_idle >= stay.waited / 10;
        let held = self.held_by_groups[thread]
            || self.throttled(thread)
            || self.allowed[thread].as_ref().is_some_and(|allowed| allowed.own);
        (waited && !held).then(|| Confined { cpus: vec![stay.cpu], since: stay.stretch, known: false })
    }

    /// Returns the CPUs to which the machine confines a thread.
    pub(super) fn narrowed(&self, thread: usize) -> Option<&[u32]> {
        let cpus = self.allowed[thread].as_ref()?.cpus.as_slice();
        (0..self.cpus).any(|cpu| !cpus.contains(&cpu)).then_some(cpus)
    }

    /// Whether a runnable thread waits on its idle CPU, which only a limit causes.
    pub(super) fn throttled(&self, thread: usize) -> bool {
        let of = |stay: Stay| stay.own_idle >= CONFINED_NS && stay.own_idle >= stay.beside_idle / 2;
        self.life(thread).stay.is_some_and(of)
    }

    /// Returns a thread's settings in that stretch.
    pub(super) fn settings(&self, thread: usize, stretch: usize) -> Settings {
        self.settings_of(thread, stretch, self.confined(thread).as_ref())
    }

    /// As [`Self::settings`], of a thread whose confinement is known.
    pub(super) fn settings_of(&self, thread: usize, stretch: usize, confined: Option<&Confined>) -> Settings {
        let prio = self.life(thread).stretches[stretch].prio;
        let policy = match prio {
            ..0 => Policy::Fifo { priority: 99 },
            0..100 => Policy::Fifo { priority: (99 - prio).clamp(1, 99) as u8 },
            _ => Policy::Other { nice: (prio - 120).clamp(-20, 19) as i8, slice: None },
        };
        let policy = match (policy, self.policies.get(&self.life(thread).pid)) {
            // A pid may be another thread's later.
            _ if self.life(thread).born.is_some() => policy,
            (Policy::Other { nice, .. }, Some(&Policy::Other { slice, .. })) => Policy::Other { nice, slice },
            (Policy::Other { nice, .. }, Some(&Policy::Batch { slice, .. })) => Policy::Batch { nice, slice },
            (Policy::Other { .. }, Some(Policy::Idle)) => Policy::Idle,
            (Policy::Fifo { priority }, Some(Policy::RoundRobin { .. })) => Policy::RoundRobin { priority },
            _ => policy,
        };
        let confined = confined.filter(|confined| confined.since <= stretch);
        Settings { policy: Some(policy), cpus: confined.map(|confined| confined.cpus.clone()), ..Settings::default() }
    }
}

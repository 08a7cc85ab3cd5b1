//! Plays a script on the scheduler alone.

use std::hint::black_box;

use vruntime_sched::config::Config;
use vruntime_sched::event::{Event, PrevState, Running};
use vruntime_sched::ids::CpuId;
use vruntime_sched::{GroupWeight, Host, NextTask, Policy, Rq, Scheduler, Shared, TaskAttrs, Timer, Topology, Waker};

use super::script::{Call, Script, Step};

const CPU: CpuId = CpuId(0);
/// A host that does nothing.
#[derive(Debug)]
struct Nobody;

impl Host for Nobody {
    #[inline]
    fn resched(&mut self, _cpu: CpuId) {}
    #[inline]
    fn kick_nohz(&mut self, _cpu: CpuId) {}
    #[inline]
    fn arm(&mut self, _timer: Timer, _at: Option<u64>) {}
    #[inline]
    fn event(&mut self, _at: u64, _cpu: CpuId, _event: &Event) {}
}

/// A scheduler of one CPU.
#[derive(Debug)]
pub(crate) struct Player<P: Policy> {
    shared: Shared<P>,
    rqs: Vec<Rq<P>>,
    host: Nobody,
}

impl<P: Policy> Player<P> {
    /// Creates the scheduler with the script's kernel, groups and tasks. `counts`: it counts switches by group.
    pub(crate) fn new(script: &Script, tunables: P::Tunables, counts: bool) -> Self {
        let topology = Topology::flat(1);
        let mut config = Config::new(&script.kernel, &topology, script.hz).with_tunables(tunables);
        config.group_switches = counts;
        let shared = Shared::<P>::new(topology, config);
        let rqs = Rq::all(&shared);
        let mut player = Self { shared, rqs, host: Nobody };
        player.sched(0).tick_stopped(CPU);
        for &(parent, weight) in &script.groups {
            let _ = player.sched(0).new_group(parent, GroupWeight::Weight(weight));
        }
        for made in &script.tasks {
            let attrs = TaskAttrs { group: made.group, nice: made.nice, ..TaskAttrs::default() };
            let _ = player.sched(0).new_task(&attrs, CPU);
        }
        player
    }

    #[inline]
    fn sched(&mut self, now: u64) -> Scheduler<'_, P, Vec<Rq<P>>, Nobody> {
        Scheduler { rqs: &mut self.rqs, shared: &self.shared, host: &mut self.host, now }
    }

    /// Makes one call, and returns the running task after a scheduling call.
    ///
    /// Never inlined: the compiler inlined it only on one side of a comparison, which distorted the counts.
    #[inline(never)]
    fn step(&mut self, step: &Step) -> Option<Running> {
        let mut sched = self.sched(step.at);
        match step.call {
            Call::Start(task) => sched.wake_new(task, CPU),
            Call::Wake { task, sync, irq } => {
                let waker = match (irq, sync) {
                    (true, _) => Waker::Irq,
                    (false, true) => Waker::TaskSync,
                    (false, false) => Waker::Task,
                };
                black_box(sched.wake(task, CPU, waker));
            }
            Call::Schedule(..) | Call::Again => {
                let state = if let Call::Schedule(state, _) = step.call { state } else { PrevState::Preempted };
                let NextTask { prev, next, .. } = sched.schedule(CPU, state);
                match (prev == Running::Idle, next == Running::Idle) {
                    (false, true) => sched.tick_stopped(CPU),
                    (true, false) => sched.tick_restarted(CPU),
                    _ => {}
                }
                return Some(next);
            }
            Call::Tick => {
                if sched.tick(CPU) {
                    sched.balance(CPU);
                }
            }
        }
        None
    }

    #[inline(never)]
    pub(crate) fn play(&mut self, steps: &[Step]) {
        for step in steps {
            black_box(self.step(step));
        }
    }

    /// Plays a script and checks all decisions. `Err`: the index of the first different one.
    pub(crate) fn rehearse(mut self, script: &Script) -> Result<(), usize> {
        let mut running = Running::Idle;
        for (index, step) in script.steps.iter().enumerate() {
            let next = self.step(step);
            if let Call::Schedule(_, expected) = step.call {
                running = expected;
            }
            if next.is_some_and(|next| next != running) {
                return Err(index);
            }
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn group_switches(&mut self) -> Vec<u64> {
        self.sched(0).group_switches()
    }
}

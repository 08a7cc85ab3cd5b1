//! A CPU or two, with each scheduler call by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use vruntime_sched::config::Config;
use vruntime_sched::debug::EntityDebug;
use vruntime_sched::event::{Event, MigrateCause, PrevState};
use vruntime_sched::ids::{CpuId, GroupId, TaskId};
use vruntime_sched::invariants::check;
use vruntime_sched::policy::{Debugged, Policy};
use vruntime_sched::tunables::Knobs;
use vruntime_sched::{GroupWeight, Host, Rq, Scheduler, Shared, TaskAttrs, Timer, Topology, kernel};

pub(crate) const CPU: CpuId = CpuId(0);
pub(crate) const MS: u64 = 1_000_000;

/// Remembers reschedule requests, and the causes of moves.
#[derive(Default)]
pub(crate) struct Wish {
    asked: bool,
    pub(crate) moved: Vec<(TaskId, MigrateCause)>,
    pub(crate) timers: BTreeMap<Timer, Option<u64>>,
}

impl Host for Wish {
    fn resched(&mut self, _cpu: CpuId) {
        self.asked = true;
    }
    fn kick_nohz(&mut self, _cpu: CpuId) {}
    fn arm(&mut self, timer: Timer, at: Option<u64>) {
        self.timers.insert(timer, at);
    }
    fn event(&mut self, _at: u64, _cpu: CpuId, event: &Event) {
        if let Event::Migrate { task, cause, .. } = event {
            self.moved.push((*task, *cause));
        }
    }
}

pub(crate) struct Machine<P: Policy> {
    pub(crate) rqs: Vec<Rq<P>>,
    pub(crate) shared: Shared<P>,
    pub(crate) wish: Wish,
    pub(crate) now: u64,
    pub(crate) group: GroupId,
}

impl<P: Policy<Tunables = Knobs>> Machine<P> {
    pub(crate) fn new(name: &str) -> Self {
        Self::with_cpus(name, 1)
    }

    pub(crate) fn with_cpus(name: &str, cpus: usize) -> Self {
        let topology = Topology::flat(cpus);
        // `6.18.44` is a release of `6.18`.
        let version = name.match_indices('.').nth(1).filter(|_| !name.starts_with('2'));
        let mut kernel = kernel(&name[..version.map_or(name.len(), |(at, _)| at)]).unwrap();
        kernel.as_of(name);
        let shared = Shared::new(topology.clone(), Config::new(&kernel, &topology, 250));
        let rqs = Rq::all(&shared);
        let mut machine = Self { rqs, shared, wish: Wish::default(), now: MS, group: GroupId::ROOT };
        machine.group = machine.with(|s| s.new_group(GroupId::ROOT, GroupWeight::Weight(100)));
        machine
    }

    pub(crate) fn with<T>(&mut self, call: impl FnOnce(&mut Scheduler<'_, P, Vec<Rq<P>>, Wish>) -> T) -> T {
        let (rqs, shared, host, now) = (&mut self.rqs, &self.shared, &mut self.wish, self.now);
        call(&mut Scheduler { rqs, shared, host, now })
    }

    pub(crate) fn fork_as(&mut self, attrs: &TaskAttrs) -> TaskId {
        self.with(|s| {
            let task = s.new_task(attrs, CPU);
            s.wake_new(task, CPU);
            task
        })
    }

    /// Tasks of the root on the first CPU; the first runs.
    pub(crate) fn fork(&mut self, count: usize) -> Vec<TaskId> {
        let here = Some(Arc::new([CPU].into_iter().collect()));
        let fork = |machine: &mut Self| machine.fork_as(&TaskAttrs { affinity: here.clone(), ..TaskAttrs::default() });
        let first = fork(self);
        self.schedule(PrevState::Preempted);
        let mut tasks = vec![first];
        for _ in 1..count {
            tasks.push(fork(self));
        }
        if self.wish.asked {
            self.schedule(PrevState::Preempted);
        }
        let running = self.with(|s| s.running(CPU)).task();
        let at = tasks.iter().position(|&task| Some(task) == running).unwrap();
        tasks.swap(0, at);
        tasks
    }

    pub(crate) fn schedule(&mut self, state: PrevState) -> Option<TaskId> {
        self.wish.asked = false;
        self.with(|s| s.schedule(CPU, state)).next.task()
    }

    pub(crate) fn pass(&mut self, ns: u64) {
        self.now += ns;
        self.with(|s| s.update_curr(CPU));
        self.wish.asked = false;
    }

    /// Whether the call requests a reschedule.
    pub(crate) fn asks<T>(&mut self, call: impl FnOnce(&mut Scheduler<'_, P, Vec<Rq<P>>, Wish>) -> T) -> bool {
        self.wish.asked = false;
        self.with(call);
        check(&self.rqs[0], &self.shared).unwrap();
        self.wish.asked
    }

    pub(crate) fn is_queued(&self, task: TaskId) -> bool {
        self.rqs[0].tasks.iter().any(|(_, it)| it.id == task && it.on_rq)
    }

    pub(crate) fn entity(&self, task: TaskId) -> EntityDebug {
        let (index, _) = self.rqs[0].tasks.iter().find(|(_, it)| it.id == task).unwrap();
        P::Debugging::debug_task(&self.rqs[0], index).unwrap()
    }
}

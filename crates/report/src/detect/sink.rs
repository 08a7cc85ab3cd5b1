//! The detector's events.

use vruntime_trace::{
    CpuId, CpuMask, DomainInfo, Event, GroupId, GroupInfo, MachineInfo, PrevState, Running, SchedPolicy, Sink, TaskId,
    TaskInfo,
};

use crate::throttle_state::Changed;

use super::{Cpu, Detector, INTERVALS, LEAST_WINDOW_NS, PINNED_NS, Place, State, Task, Woken};

impl Sink for Detector {
    fn machine(&mut self, info: &MachineInfo<'_>) {
        let tick = info.tick_ns.max(1);
        let longest = info.domains.iter().map(|domain| domain.interval_ns.div_ceil(tick) * tick + tick).max();
        self.detected.window_ns = (longest.unwrap_or(0) * INTERVALS).max(LEAST_WINDOW_NS);
        self.cpus = vec![Cpu { idle_since: Some(0), ..Cpu::default() }; info.cpus];
        (0..info.cpus).for_each(|cpu| self.update_spare(cpu));
        self.domains(0, info.domains);
    }

    fn domains(&mut self, at: u64, domains: &[DomainInfo]) {
        self.advance(at);
        self.domains = domains.to_vec();
        self.chains = vec![Vec::new(); self.cpus.len()];
        for (index, domain) in domains.iter().enumerate() {
            for cpu in domain.members.iter() {
                if let Some(chain) = self.chains.get_mut(cpu.index()) {
                    chain.push(index as u32);
                }
            }
        }
        // Old numbers name other domains, and balancing restarts.
        self.ongoing.clear();
        self.before = [0.0; 2];
    }

    fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
        self.throttle_state.group(id, info.parent);
    }

    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        let it = self.task_mut(id);
        info.name.clone_into(&mut it.name);
        it.sched_idle = info.policy == SchedPolicy::Idle;
        self.throttle_state.task(id, info.group, info.policy);
    }

    fn affinity(&mut self, at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        self.advance(at);
        let affinity = self.mask(cpus);
        if at > 0 && affinity != self.task_mut(task).affinity {
            self.unnoticed_until = at + PINNED_NS;
        }
        let Place { state, cpu, .. } = self.task_mut(task).place();
        self.enter(task, State::Asleep, CpuId(cpu as u32));
        self.task_mut(task).affinity = affinity;
        self.enter(task, state, CpuId(cpu as u32));
    }

    fn root_domains(&mut self, at: u64, roots: &[CpuMask], isolated: &CpuMask) {
        self.advance(at);
        let task_places: Vec<Place> = self.tasks.iter().map(Task::place).collect();
        let waiting = || {
            let tasks = (0u32..).map(TaskId).zip(&task_places);
            tasks.filter(|(_, place)| matches!(place.state, State::Waiting | State::Throttled))
        };
        for (task, place) in waiting() {
            self.enter(task, State::Asleep, CpuId(place.cpu as u32));
        }
        let reach = |cpu: CpuId| {
            let root = roots.iter().find(|root| root.contains(cpu)).cloned();
            root.unwrap_or_else(|| [cpu].into_iter().collect())
        };
        let is_partitioned = roots.len() > 1 || !isolated.is_empty();
        let cpus = if is_partitioned { self.cpus.len() as u32 } else { 0 };
        self.reach = (0..cpus).map(|cpu| reach(CpuId(cpu))).collect();
        self.within.clear();
        for (task, place) in waiting() {
            self.enter(task, State::Waiting, CpuId(place.cpu as u32));
        }
    }

    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        self.advance(at);
        match self.throttle_state.apply(at, cpu, event) {
            Changed::Nothing => {}
            Changed::Task(task) => self.recheck_throttling(task),
            Changed::On(cpu) => self.recheck_throttling_on(cpu),
        }
        match *event {
            Event::Switch { prev, prev_state, next } if prev != next => {
                if let Running::Task(task) = prev {
                    let waits = matches!(prev_state, PrevState::Preempted | PrevState::Yielded);
                    self.enter(task, if waits { State::Waiting } else { State::Asleep }, cpu);
                    let by_wakeup = match next {
                        Running::Task(next) => {
                            let next = self.task_mut(next);
                            next.exiled || next.woken != Woken::Elsewhere && !next.sched_idle
                        }
                        _ => false,
                    };
                    let it = self.task_mut(task);
                    it.displaced = by_wakeup && waits && it.sched_idle;
                }
                if let Running::Task(task) = next {
                    self.enter(task, State::Running, cpu);
                }
                self.cpu_mut(cpu.index()).running = if let Running::Task(task) = next { Some(task) } else { None };
                self.set_idle(cpu.index(), next == Running::Idle);
            }
            Event::CpuDown | Event::CpuUp => {
                self.cpu_mut(cpu.index()).offline = matches!(event, Event::CpuDown);
                self.update_spare(cpu.index());
            }
            Event::Wakeup { task, target } | Event::WakeupNew { task, target }
                if self.task_mut(task).state == State::Asleep =>
            {
                let running = self.cpu_mut(target.index()).running;
                let beside_sched_idle = running.is_some_and(|running| self.task_mut(running).sched_idle);
                let it = self.task_mut(task);
                it.exiled = false;
                it.woken = match event {
                    Event::Wakeup { .. } if beside_sched_idle && !it.sched_idle => Woken::BesideSchedIdle,
                    Event::Wakeup { .. } => Woken::Here,
                    _ => Woken::Elsewhere,
                };
                self.enter(task, State::Waiting, target);
            }
            Event::Migrate { task, to, .. } => {
                let running = self.cpu_mut(to.index()).running;
                let beside_sched_idle = running.is_some_and(|running| self.task_mut(running).sched_idle);
                let state = self.task_mut(task).state;
                let waits = matches!(state, State::Waiting | State::Throttled);
                if waits {
                    self.enter(task, State::Waiting, to);
                }
                let it = self.task_mut(task);
                if waits {
                    // A displaced task waits elsewhere for the same reason.
                    it.woken = Woken::Elsewhere;
                }
                it.exiled = waits && beside_sched_idle && (it.displaced || it.exiled);
            }
            Event::Balance { level, busiest: Some(_), .. } => {
                let found = &mut self.cpu_mut(cpu.index()).found;
                if found.len() <= usize::from(level) {
                    found.resize(usize::from(level) + 1, 0);
                }
                found[usize::from(level)] += 1;
            }
            Event::SetPolicy { task, policy, .. } => {
                // Its wait until now was under its former policy.
                self.recheck_throttling(task);
                let it = self.task_mut(task);
                it.sched_idle = policy == SchedPolicy::Idle;
                it.displaced &= it.sched_idle;
                it.exiled &= it.sched_idle;
            }
            Event::Exit { task } if matches!(self.task_mut(task).state, State::Waiting | State::Throttled) => {
                self.enter(task, State::Asleep, cpu);
            }
            _ => {}
        }
    }

    fn finish(&mut self, at: u64) {
        self.advance(at);
    }
}

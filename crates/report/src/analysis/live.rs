//! Events of our own runs as steps.

use vruntime_trace::{
    CpuId, CpuMask, Event, GroupId, GroupInfo, MachineInfo, PrevState, Running, Sink, TaskId, TaskInfo, TaskState,
    stopper_pid, task_pid,
};

use super::cgroups::{Settings, Update};
use super::world::{On, Step, What};
use super::{Analyses, Analysis};
use crate::throttle_state::Changed;

impl Analyses {
    fn who(&mut self, task: TaskId) -> Option<u32> {
        self.world.task(task_pid(task), b"")
    }

    fn running(&mut self, cpu: CpuId, who: Running) -> On {
        match who {
            Running::Idle => On::Idle,
            Running::Stopper => {
                self.world.task(stopper_pid(cpu), format!("migration/{cpu}").as_bytes()).map_or(On::Unknown, On::Task)
            }
            Running::Task(task) => self.who(task).map_or(On::Unknown, On::Task),
        }
    }

    fn what(&mut self, cpu: CpuId, event: &Event) -> Option<What> {
        Some(match *event {
            Event::Switch { prev, prev_state, next } => {
                let state = match (prev, prev_state) {
                    (Running::Idle, _) | (Running::Task(_), PrevState::Yielded) => TaskState::Running,
                    (Running::Stopper, _) | (Running::Task(_), PrevState::Sleeping) => TaskState::Sleeping,
                    (Running::Task(_), PrevState::Preempted) => TaskState::Preempted,
                    (Running::Task(_), PrevState::Blocked) => TaskState::DiskSleep,
                    (Running::Task(_), PrevState::Dead) => TaskState::Dead,
                };
                What::Switch { prev: self.running(cpu, prev), state, next: self.running(cpu, next) }
            }
            Event::Waking { task, .. } => What::Waking { task: self.who(task)?, cpu: None },
            Event::Wakeup { task, target } => What::Woken { task: self.who(task)?, cpu: Some(target.0), new: false },
            Event::WakeupNew { task, target } => What::Woken { task: self.who(task)?, cpu: Some(target.0), new: true },
            Event::Migrate { task, from, to, cause } => {
                What::Migrate { task: self.who(task)?, from: from.0, to: to.0, cause: Some(cause), realtime: false }
            }
            Event::Fork { child, .. } => What::Fork { child: self.who(child)? },
            Event::Exit { .. } => What::Exit,
            Event::CpuDown => What::Online(false),
            Event::CpuUp => What::Online(true),
            Event::MoveGroup { task, group } => {
                What::Update(Update::Moved { task: self.who(task)?, group: self.world.cgroups.announced(group.0)? })
            }
            Event::SetPolicy { task, policy, rt_priority } => {
                What::Update(Update::Policy { task: self.who(task)?, policy, rt_priority })
            }
            Event::SetNice { task, nice } => What::Update(Update::Nice { task: self.who(task)?, nice }),
            Event::Throttle { group } => What::Update(Update::Throttled { group: group.0 }),
            Event::Unthrottle { group, ns } => What::Update(Update::Unthrottled { group: group.0, ns }),
            Event::BandwidthPeriod { group, periods, throttled, burst } => {
                What::Update(Update::Period { group: group.0, periods, throttled, burst })
            }
            // Events without a tracepoint change no state.
            _ => return None,
        })
    }
}

impl Analyses {
    fn tell(&mut self, at: u64, update: Update) {
        if self.world.cgroups.wanted {
            self.step(&Step { at: at as i64, cpu: 0, by: On::Unknown, irq: false, what: What::Update(update) });
        }
    }

    fn update_throttled(&mut self, id: TaskId) {
        if let Some(task) = self.who(id) {
            self.report_throttling(task);
        }
    }
}

impl Sink for Analyses {
    fn machine(&mut self, info: &MachineInfo<'_>) {
        self.world.all_idle(info.cpus);
        for (_, analysis) in &mut self.chosen {
            analysis.simulated(info.cpus);
        }
        if let Some(overview) = &mut self.overview {
            overview.simulated(info.cpus);
        }
    }

    fn group(&mut self, id: GroupId, info: &GroupInfo<'_>) {
        self.world.throttles.throttle_state.group(id, info.parent);
        let cgroups = &mut self.world.cgroups;
        cgroups.exact = true;
        cgroups.announce(id.0, info.path, info.parent.map(|parent| parent.0), Settings::from(info));
    }

    fn group_changed(&mut self, at: u64, id: GroupId, info: &GroupInfo<'_>) {
        self.tell(at, Update::Group { group: id.0, settings: Settings::from(info) });
    }

    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        self.world.throttles.throttle_state.task(id, info.group, info.policy);
        if let Some(task) = self.world.task(task_pid(id), info.name.as_bytes()) {
            self.world.throttles.announce(task, id);
            self.world.set_class(task, info.class);
            let at = self.world.elapsed();
            if let Some(group) = self.world.cgroups.announced(info.group.0) {
                self.tell(at, Update::Moved { task, group });
            }
            self.tell(at, Update::Policy { task, policy: info.policy, rt_priority: info.rt_priority });
            self.tell(at, Update::Nice { task, nice: info.nice });
            if self.replayed {
                self.world.set_recorded(task, info.name, info.class);
            }
        }
    }

    fn affinity(&mut self, _at: u64, task: TaskId, cpus: Option<&CpuMask>) {
        if let Some(task) = self.who(task) {
            for (_, analysis) in &mut self.chosen {
                analysis.affinity(task, cpus, &self.world);
            }
        }
    }

    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        if self.world.cgroups.wanted {
            self.chosen.iter_mut().for_each(|(_, analysis)| analysis.passes(at, &self.world));
        }
        let limits = matches!(
            event,
            Event::Throttle { .. } | Event::Unthrottle { .. } | Event::RtThrottle { .. } | Event::RtUnthrottle { .. }
        );
        if limits {
            self.limits_change(at as i64, cpu.0);
        }
        let changed = self.world.throttles.throttle_state.apply(at, cpu, event);
        let what = self.what(cpu, event).or((changed != Changed::Nothing).then_some(What::Other));
        if let Some(what) = what {
            let by = self.world.cpus().get(cpu.index()).map_or(On::Idle, |row| row.on);
            let irq = matches!(event, Event::Waking { irq: true, .. });
            self.step(&Step { at: at as i64, cpu: cpu.0, by, irq, what });
        }
        match (changed, event) {
            (Changed::On(_), _) => {
                (0..self.world.throttles.throttle_state.tasks()).for_each(|task| self.update_throttled(TaskId(task)));
            }
            (Changed::Task(task), _) => self.update_throttled(task),
            _ if self.world.throttles.throttle_state.is_empty() => {}
            (
                _,
                &(Event::Switch { prev: Running::Task(task), .. }
                | Event::Wakeup { task, .. }
                | Event::WakeupNew { task, .. }
                | Event::Migrate { task, .. }),
            ) => self.update_throttled(task),
            _ => {}
        }
    }

    fn finish(&mut self, at: u64) {
        let at = at as i64;
        self.step(&Step { at, cpu: 0, by: On::Unknown, irq: false, what: What::Other });
        self.end();
    }
}

//! Our own runs, while they go on: events as steps.

use vruntime_trace::{
    CpuId, CpuMask, Event, MachineInfo, PrevState, Running, Sink, TaskId, TaskInfo, TaskState, stopper_pid, task_pid,
};

use super::world::{On, Step, What};
use super::{Analyses, Analysis};

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
            Event::Waking { task } => What::Waking { task: self.who(task)?, cpu: None },
            Event::Wakeup { task, target } => What::Woken { task: self.who(task)?, cpu: Some(target.0), new: false },
            Event::WakeupNew { task, target } => What::Woken { task: self.who(task)?, cpu: Some(target.0), new: true },
            Event::Migrate { task, from, to, cause } => {
                What::Migrate { task: self.who(task)?, from: from.0, to: to.0, cause: Some(cause), realtime: false }
            }
            Event::Fork { child, .. } => What::Fork { child: self.who(child)? },
            Event::Exit { .. } => What::Exit,
            Event::CpuDown => What::Online(false),
            Event::CpuUp => What::Online(true),
            // Events the kernel has no tracepoint for change nobody's state.
            _ => return None,
        })
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

    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        if let Some(task) = self.world.task(task_pid(id), info.name.as_bytes()) {
            self.world.set_class(task, info.class);
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
        if let Some(what) = self.what(cpu, event) {
            let by = self.world.cpus().get(cpu.index()).map_or(On::Idle, |row| row.on);
            self.step(&Step { at: at as i64, cpu: cpu.0, by, irq: false, what });
        }
    }

    fn finish(&mut self, at: u64) {
        let at = at as i64;
        self.step(&Step { at, cpu: 0, by: On::Unknown, irq: false, what: What::Other });
        self.end();
    }
}

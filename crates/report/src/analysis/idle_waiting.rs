//! Time in which a task waited while an idle CPU could have run it.
//!
//! A wait and an idle interval of another CPU overlap until either ends. Only overlaps of a millisecond or more count:
//! no balancer looks more often, and most shorter ones are wakeups in progress. Waits on an idle CPU do not count,
//! since it wakes up for the task.
//!
//! Simulated runs have affinities and throttled tasks. In recordings, a task *could* use a CPU where it was seen by the
//! end of the wait. It *might* use another, unless it is a kernel thread of a CPU (`name/N`). Throttled tasks count as
//! waiting there.

use vruntime_trace::CpuMask;

use super::world::{On, State, Step, World};
use super::{Analysis, Options};
use crate::conservation::{Since, add};
use crate::data::{DataTable, Kind};
use crate::throttle_state::ThrottleCause;

const LEAST_NS: u64 = 1_000_000;

type Parts = Vec<(u64, u64)>;

#[derive(Clone, Debug, Default)]
struct Task {
    /// CPUs where it has been seen.
    seen: CpuMask,
    /// Its affinity, if known.
    allowed: Option<CpuMask>,
    /// Overlaps of the current wait with CPUs it could use, and might use.
    could: Parts,
    might: Parts,
    waits: u64,
    could_ns: u64,
    might_ns: u64,
    worst: u64,
    worst_start: i64,
    worst_end: i64,
    worst_cpu: u32,
}

#[derive(Debug, Default)]
pub(super) struct IdleWaiting {
    waiting: Since,
    idle: Since,
    tasks: Vec<Task>,
    last_cpus: Vec<u32>,
    /// Whether affinities are known, so that `might` is unused.
    affinities_known: bool,
}

impl IdleWaiting {
    pub(super) fn new(_options: &Options) -> Self {
        Self::default()
    }

    fn task(&mut self, task: u32) -> &mut Task {
        if task as usize >= self.tasks.len() {
            self.tasks.resize_with(task as usize + 1, Task::default);
            self.last_cpus.resize(task as usize + 1, 0);
        }
        &mut self.tasks[task as usize]
    }

    fn overlap(&mut self, task: u32, cpu: usize, begin: u64, end: u64, world: &World) {
        if world.is_throttled(task, cpu as u32) {
            return;
        }
        let cpuset_allows = world.cgroups.allows(world.pid(task), cpu as u32);
        let cpu = vruntime_trace::CpuId(cpu as u32);
        let affinities_known = self.affinities_known;
        let it = self.task(task);
        let (could, might) = match (&it.allowed, cpuset_allows, affinities_known) {
            (Some(mask), ..) => (mask.contains(cpu), false),
            (None, Some(allowed), _) => (allowed, false),
            (None, None, true) => (true, false),
            (None, None, false) => (it.seen.contains(cpu), true),
        };
        let bound = might && !could && per_cpu(&world.comm(task)).is_some_and(|own| own != cpu.0);
        if could {
            add(&mut it.could, begin, end);
        }
        if could || (might && !bound) {
            add(&mut it.might, begin, end);
        }
    }

    /// Ends overlaps with an idle CPU.
    fn idle_ends(&mut self, at: u64, cpu: usize, world: &World) {
        let Some(since) = self.idle.end(cpu) else { return };
        if at.saturating_sub(since) < LEAST_NS {
            return;
        }
        let waiting: Vec<(usize, u64)> =
            self.waiting.iter().take_while(|&(_, waits)| at.saturating_sub(waits.max(since)) >= LEAST_NS).collect();
        for (task, waits) in waiting {
            if self.last_cpus[task] as usize != cpu {
                self.overlap(task as u32, cpu, waits.max(since), at, world);
            }
        }
    }

    /// Ends a wait, or its part on one CPU.
    fn wait_ends(&mut self, at: u64, task: u32, world: &World) {
        let Some(since) = self.waiting.end(task as usize) else { return };
        if at.saturating_sub(since) < LEAST_NS {
            return;
        }
        let place = self.last_cpus[task as usize] as usize;
        let idle: Vec<(usize, u64)> =
            self.idle.iter().take_while(|&(_, idle)| at.saturating_sub(idle.max(since)) >= LEAST_NS).collect();
        if idle.iter().any(|&(cpu, _)| cpu == place) {
            return;
        }
        for (cpu, idle_since) in idle {
            self.overlap(task, cpu, idle_since.max(since), at, world);
        }
    }

    fn book(&mut self, at: i64, task: u32, since: i64, cpu: u32) {
        let it = self.task(task);
        let sum = |parts: &mut Parts| parts.drain(..).map(|(begin, end)| end - begin).sum::<u64>();
        let (could, might) = (sum(&mut it.could), sum(&mut it.might));
        if might.max(could) == 0 {
            return;
        }
        it.waits += 1;
        it.could_ns += could;
        it.might_ns += might;
        if might.max(could) > it.worst {
            (it.worst, it.worst_start, it.worst_end, it.worst_cpu) = (might.max(could), since, at, cpu);
        }
    }
}

/// Returns a kernel thread's CPU by its name: `ksoftirqd/3`, `kworker/1:0`.
pub(super) fn per_cpu(comm: &str) -> Option<u32> {
    let rest = comm.split_once('/')?.1;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

impl Analysis for IdleWaiting {
    fn step(&mut self, step: &Step, world: &World) {
        // From the first event, never decreasing.
        let at = world.elapsed();
        for change in &world.changes {
            if change.was.state == State::Waiting {
                self.task(change.task);
                // By the end of the wait, it was on its new CPU.
                if change.now.state == State::Running {
                    self.task(change.task).seen.insert(vruntime_trace::CpuId(change.now.cpu));
                }
                self.wait_ends(at, change.task, world);
                if world.unseen == Some(change.task) {
                    // It ran in between, so overlaps are unknown.
                    let it = self.task(change.task);
                    (it.could, it.might) = (Parts::default(), Parts::default());
                } else if change.now.state != State::Waiting {
                    self.book(step.at, change.task, change.was.since, change.was.cpu);
                }
            }
            if change.now.state == State::Running {
                self.task(change.task).seen.insert(vruntime_trace::CpuId(change.now.cpu));
            }
        }
        if let Some((cpu, was)) = world.cpu_was {
            let on = world.cpus()[cpu as usize].on;
            if was.on == On::Idle {
                self.idle_ends(at, cpu as usize, world);
            }
            if on == On::Idle {
                self.idle.begin(cpu as usize, at);
            }
        }
        for change in world.changes.iter().filter(|change| change.now.state == State::Waiting) {
            self.task(change.task);
            self.last_cpus[change.task as usize] = change.now.cpu;
            self.waiting.begin(change.task as usize, at);
        }
    }

    fn affinity(&mut self, task: u32, cpus: Option<&CpuMask>, world: &World) {
        self.affinities_known = true;
        let at = world.elapsed();
        self.task(task);
        let waits = world.state(task).state == State::Waiting;
        self.wait_ends(at, task, world);
        self.task(task).allowed = cpus.cloned();
        if waits {
            self.waiting.begin(task as usize, at);
        }
    }

    fn throttling_changed(&mut self, task: u32, cause: Option<ThrottleCause>, world: &World) {
        let at = world.elapsed();
        if cause.is_some() {
            self.wait_ends(at, task, world);
        } else {
            self.waiting.begin(task as usize, at);
        }
    }

    fn limits_change(&mut self, cpu: u32, world: &World) {
        // Idle time until now was under the old limits.
        let idle = self.idle.iter().any(|(idle, _)| idle == cpu as usize);
        self.idle_ends(world.elapsed(), cpu as usize, world);
        if idle {
            self.idle.begin(cpu as usize, world.elapsed());
        }
    }

    fn simulated(&mut self, cpus: usize) {
        self.affinities_known = true;
        (0..cpus).for_each(|cpu| self.idle.begin(cpu, 0));
    }

    fn finish(&mut self, world: &World) {
        let Some((_, end)) = world.span else { return };
        let at = world.elapsed();
        for task in 0..self.tasks.len().min(world.tasks()) as u32 {
            let span = world.state(task);
            self.wait_ends(at, task, world);
            if span.state == State::Waiting {
                self.book(end, task, span.since, span.cpu);
            }
        }
    }

    fn tables(&self, world: &World) -> Vec<DataTable> {
        let mut columns = vec![
            ("task", "Task", Kind::Text),
            ("waits", "Waits", Kind::Count),
            ("could_ns", "Could run elsewhere", Kind::Nanoseconds),
        ];
        if !self.affinities_known {
            columns.push(("might_ns", "Might", Kind::Nanoseconds));
        }
        columns.extend([
            ("worst_ns", "Worst", Kind::Nanoseconds),
            ("worst_start_ns", "From", Kind::Instant),
            ("worst_end_ns", "Until", Kind::Instant),
            ("worst_cpu", "On CPU", Kind::Count),
        ]);
        let title = "Tasks that waited for 1 ms or more while an idle CPU could have run them";
        let mut table = DataTable::new("idle_while_waiting", title, &columns);
        let mut rows: Vec<(u32, &Task)> = (0..).zip(&self.tasks).filter(|(_, task)| task.waits > 0).collect();
        let most = |task: &Task| std::cmp::Reverse((task.could_ns, task.might_ns));
        rows.sort_by_key(|&(index, task)| (most(task), world.pid(index), index));
        for (index, task) in rows {
            let mut row = vec![world.name(index).into(), task.waits.into(), task.could_ns.into()];
            if !self.affinities_known {
                row.push(task.might_ns.into());
            }
            row.extend([task.worst.into(), task.worst_start.into(), task.worst_end.into(), task.worst_cpu.into()]);
            table.push(row);
        }
        vec![table]
    }
}

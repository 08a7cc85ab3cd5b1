//! Samples of a run (`--every`): load averages, pressure, utilisation and run queues.

use vruntime_trace::loadavg::{LoadAvg, calc_load};
use vruntime_trace::{CpuId, Event, GroupId, MachineInfo, PrevState, Running, Sink, TaskId, TaskInfo};

use crate::data::{Cell, DataTable, Kind};
use crate::psi::Psi;

/// The remainder of a load average after a sample, of 2048 (`EXP_1`, `EXP_5`, `EXP_15`).
const EXP: [u64; 3] = [1884, 2014, 2037];
/// A task, in the kernel's fixed point.
const ONE: u64 = 2048;
/// The kernel's sampling interval, without a tick, nanoseconds (`LOAD_FREQ`).
const SAMPLE_NS: u64 = 5_000_000_000;
/// Ticks after a due sample in which CPUs report their tasks.
const GRACE: u64 = 10;
/// Default tick: 250 Hz.
const TICK_NS: u64 = 4_000_000;
const MOST_ROWS: usize = 1 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Asleep,
    /// Asleep, and counted in the load average.
    Blocked,
    /// Runnable on this CPU.
    Queued(u32),
}

#[derive(Clone, Copy, Debug, Default)]
struct Cpu {
    runnable: u32,
    busy: bool,
}

/// An interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeSample {
    /// The end, nanoseconds.
    pub at: u64,
    /// The length, nanoseconds.
    pub width: u64,
    /// Load averages at the end.
    pub load: LoadAvg,
    /// Tasks' part of all CPU time.
    pub utilisation: f64,
    /// Part of the interval in which tasks waited for a CPU (`some` of `/proc/pressure/cpu`).
    pub pressure: f64,
    /// Average number of runnable tasks.
    pub runnable: f64,
    /// Most runnable tasks.
    pub most_runnable: u32,
    /// Most runnable tasks on one CPU.
    pub longest_queue: u32,
}

/// Samples a run, as a [`Sink`].
#[derive(Clone, Debug, Default)]
pub struct TimeSeries {
    every: u64,
    tick: u64,
    next: u64,
    since: u64,
    begun: u64,
    tasks: Vec<State>,
    cpus: Vec<Cpu>,
    runnable: u32,
    busy: u32,
    blocked: u32,
    runnable_ns: u128,
    busy_ns: u128,
    most_runnable: u32,
    longest_queue: u32,
    load: LoadAvg,
    load_at: u64,
    psi: Psi,
    stalled_ns: u64,
    samples: Vec<TimeSample>,
    dropped: u64,
}

impl TimeSeries {
    /// Takes a sample every `every` nanoseconds.
    pub fn new(every: u64, cpus: usize) -> Self {
        let every = every.max(1);
        let this = Self { every, next: every, cpus: vec![Cpu::default(); cpus], ..Self::default() };
        this.with_tick(TICK_NS)
    }

    fn with_tick(mut self, tick: u64) -> Self {
        self.tick = tick.max(1);
        self.load_at = sample_interval(self.tick) + GRACE * self.tick;
        self.psi.machine(self.tick);
        self
    }

    /// Returns the samples.
    pub fn samples(&self) -> &[TimeSample] {
        &self.samples
    }

    /// Returns a note on omitted samples.
    pub fn note(&self) -> Option<String> {
        let more = format!("--every: {} intervals behind the first {MOST_ROWS} are left out", self.dropped);
        (self.dropped > 0).then_some(more)
    }

    /// Returns the samples as a table.
    pub fn table(&self) -> DataTable {
        let columns = [
            ("time_ns", "Time", Kind::Instant),
            ("width_ns", "For", Kind::Nanoseconds),
            ("load_1min", "Load 1 min", Kind::Number),
            ("load_5min", "5 min", Kind::Number),
            ("load_15min", "15 min", Kind::Number),
            ("utilisation", "CPUs", Kind::Share),
            ("pressure_some", "Pressure", Kind::Share),
            ("runnable_mean", "Runnable", Kind::Number),
            ("runnable_max", "Most", Kind::Count),
            ("longest_queue", "Longest queue", Kind::Count),
        ];
        let mut table = DataTable::new("series", "Over time", &columns);
        for sample in &self.samples {
            let mut row: Vec<Cell> = vec![(sample.at as i64).into(), sample.width.into()];
            row.extend(sample.load.hundredths().map(|load| Cell::from(load as f64 / 100.0)));
            row.extend([sample.utilisation, sample.pressure, sample.runnable].map(Cell::from));
            row.extend([sample.most_runnable, sample.longest_queue].map(Cell::from));
            table.push(row);
        }
        table
    }

    fn advance(&mut self, at: u64) {
        while self.samples.len() < MOST_ROWS && (self.next <= at || self.load_at <= at) {
            let to = self.next.min(self.load_at);
            self.book(to);
            if self.load_at == to {
                let active = u64::from(self.runnable + self.blocked) * ONE;
                for (load, exp) in self.load.0.iter_mut().zip(EXP) {
                    *load = calc_load(*load, exp, active, 1);
                }
                self.load_at += sample_interval(self.tick);
            }
            if self.next == to {
                self.sample(to);
                self.next = self.next.saturating_add(self.every);
            }
        }
        // Behind the last row, intervals are only counted, all at once.
        if self.samples.len() >= MOST_ROWS && self.next <= at {
            let more = (at - self.next) / self.every;
            self.dropped += more + 1;
            self.begun = self.next + more * self.every;
            self.next = self.begun.saturating_add(self.every);
        }
        self.book(at);
    }

    fn book(&mut self, to: u64) {
        let ns = u128::from(to.saturating_sub(self.since));
        self.runnable_ns += ns * u128::from(self.runnable);
        self.busy_ns += ns * u128::from(self.busy);
        self.since = self.since.max(to);
    }

    fn sample(&mut self, at: u64) {
        let width = at - self.begun;
        if width == 0 {
            return;
        }
        let stalled = self.psi.clone().read(at).first().map_or(0, |root| root.some.total_ns);
        let part = |ns: u128, of: u128| if of == 0 { 0.0 } else { ns as f64 / of as f64 };
        let sample = TimeSample {
            at,
            width,
            load: self.load,
            utilisation: part(self.busy_ns, u128::from(width) * self.cpus.len() as u128),
            pressure: part(u128::from(stalled.saturating_sub(self.stalled_ns)), width.into()).min(1.0),
            runnable: part(self.runnable_ns, width.into()),
            most_runnable: self.most_runnable,
            longest_queue: self.longest_queue,
        };
        if self.samples.len() < MOST_ROWS {
            self.samples.push(sample);
        } else {
            self.dropped += 1;
        }
        (self.begun, self.stalled_ns) = (at, stalled);
        (self.runnable_ns, self.busy_ns) = (0, 0);
        self.most_runnable = self.runnable;
        self.longest_queue = self.cpus.iter().map(|cpu| cpu.runnable).max().unwrap_or(0);
    }

    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        if cpu as usize >= self.cpus.len() {
            self.cpus.resize(cpu as usize + 1, Cpu::default());
        }
        &mut self.cpus[cpu as usize]
    }

    fn set(&mut self, task: TaskId, state: State) {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, State::Asleep);
        }
        let old = std::mem::replace(&mut self.tasks[task.index()], state);
        if old == state {
            return;
        }
        match old {
            State::Queued(cpu) => {
                self.cpu(cpu).runnable -= 1;
                self.runnable -= 1;
            }
            State::Blocked => self.blocked -= 1,
            State::Asleep => {}
        }
        match state {
            State::Queued(cpu) => {
                let queue = self.cpu(cpu);
                queue.runnable += 1;
                let length = queue.runnable;
                self.runnable += 1;
                self.longest_queue = self.longest_queue.max(length);
                self.most_runnable = self.most_runnable.max(self.runnable);
            }
            State::Blocked => self.blocked += 1,
            State::Asleep => {}
        }
    }

    fn switch(&mut self, cpu: CpuId, prev: Running, prev_state: PrevState, next: Running) {
        if let Running::Task(task) = prev {
            self.set(
                task,
                match prev_state {
                    PrevState::Preempted | PrevState::Yielded => State::Queued(cpu.0),
                    PrevState::Blocked => State::Blocked,
                    PrevState::Sleeping | PrevState::Dead => State::Asleep,
                },
            );
        }
        if let Running::Task(task) = next {
            self.set(task, State::Queued(cpu.0));
        }
        let busy = matches!(next, Running::Task(_));
        let was = std::mem::replace(&mut self.cpu(cpu.0).busy, busy);
        self.busy = self.busy + u32::from(busy) - u32::from(was);
    }
}

/// Returns the interval of load average samples, nanoseconds.
const fn sample_interval(tick: u64) -> u64 {
    (SAMPLE_NS / tick + 1) * tick
}

impl Sink for TimeSeries {
    fn machine(&mut self, info: &MachineInfo<'_>) {
        if self.samples.is_empty() && self.since == 0 {
            *self = std::mem::take(self).with_tick(info.tick_ns);
        }
    }

    fn group(&mut self, id: GroupId, info: &vruntime_trace::GroupInfo<'_>) {
        self.psi.group(id, info.parent);
    }

    fn task(&mut self, id: TaskId, info: &TaskInfo<'_>) {
        self.psi.task(id, info.group);
    }

    fn event(&mut self, at: u64, cpu: CpuId, event: &Event) {
        match *event {
            Event::Switch { prev, prev_state, next } => {
                self.advance(at);
                self.psi.advance(at);
                self.psi.switch(at, cpu, prev, prev_state, next);
                self.switch(cpu, prev, prev_state, next);
            }
            Event::Wakeup { task, target } | Event::WakeupNew { task, target } => {
                self.advance(at);
                self.psi.advance(at);
                self.psi.wakes(at, task, target);
                if !matches!(self.tasks.get(task.index()), Some(State::Queued(_))) {
                    self.set(task, State::Queued(target.0));
                }
            }
            Event::Migrate { task, to, .. } => {
                self.advance(at);
                self.psi.advance(at);
                self.psi.migrates(at, task, to);
                if matches!(self.tasks.get(task.index()), Some(State::Queued(_))) {
                    self.set(task, State::Queued(to.0));
                }
            }
            Event::MoveGroup { task, group } => {
                self.psi.advance(at);
                self.psi.moves(at, task, group);
            }
            Event::Exit { task } => {
                self.advance(at);
                self.psi.advance(at);
                self.psi.ends(at, task);
            }
            _ => {}
        }
    }

    fn finish(&mut self, at: u64) {
        self.advance(at);
        self.psi.advance(at);
        // The rest is shorter.
        if at > self.begun {
            self.sample(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn switch(series: &mut TimeSeries, at: u64, cpu: u32, prev: Option<u32>, state: PrevState, next: Option<u32>) {
        let running = |task: Option<u32>| task.map_or(Running::Idle, |task| Running::Task(TaskId(task)));
        let event = Event::Switch { prev: running(prev), prev_state: state, next: running(next) };
        series.event(at, CpuId(cpu), &event);
    }

    /// One by one, 10^13 intervals would take hours.
    #[test]
    fn intervals_behind_the_last_row_are_counted_at_once() {
        let mut series = TimeSeries::new(1, 1);
        switch(&mut series, 10_000 * S, 0, None, PrevState::Preempted, Some(0));
        assert_eq!((series.samples().len(), series.dropped), (MOST_ROWS, 10_000 * S - MOST_ROWS as u64));
        series.finish(10_000 * S + 3);
        assert_eq!(series.dropped, 10_000 * S + 3 - MOST_ROWS as u64);
    }

    #[test]
    fn samples_have_what_the_interval_had() {
        let mut series = TimeSeries::new(5 * S, 2);
        for task in [0, 1] {
            series.task(TaskId(task), &TaskInfo::default());
            series.event(0, CpuId(0), &Event::WakeupNew { task: TaskId(task), target: CpuId(0) });
        }
        switch(&mut series, 0, 0, None, PrevState::Sleeping, Some(0));
        switch(&mut series, 10 * S, 0, Some(0), PrevState::Sleeping, Some(1));
        switch(&mut series, 12 * S, 0, Some(1), PrevState::Blocked, None);
        series.finish(17 * S);
        let rows = series.samples();
        assert_eq!(rows.iter().map(|row| row.at / S).collect::<Vec<_>>(), [5, 10, 15, 17]);
        assert!((rows[0].runnable - 2.0).abs() < 1e-9, "{:?}", rows[0]);
        assert!((rows[0].utilisation - 0.5).abs() < 1e-9, "{:?}", rows[0]);
        assert_eq!((rows[0].most_runnable, rows[0].longest_queue), (2, 2));
        assert!((0.9..=1.0).contains(&rows[1].pressure), "{:?}", rows[1]);
        assert!((rows[2].runnable - 0.4).abs() < 1e-9 && rows[2].pressure < 0.3, "{:?}", rows[2]);
        assert_eq!((rows[3].width, rows[3].runnable, rows[3].most_runnable), (2 * S, 0.0, 0));
        // Load averages are first sampled after 5 s and 11 ticks.
        assert_eq!(rows[0].load, LoadAvg::default());
        let after_one = calc_load(0, 1884, 2 * 2048, 1);
        assert_eq!(rows[1].load.0[0], after_one);
        assert!(rows[3].load.0[0] > 0 && rows[3].load.0[0] >= rows[1].load.0[0]);
        let table = series.table();
        assert_eq!(table.json()[0]["runnable_mean"], 2.0);
        assert_eq!(table.json()[3]["time_ns"], 17 * S);
    }
}

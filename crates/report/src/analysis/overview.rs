//! The charts of a page: use and queue length of CPUs over time, timeline, delays after wakeups.
//!
//! Memory is bounded: 1024 bins (32,768 in total on the page), 2048 distributions, 16,384 slices of the timeline.
//! Beyond that, slices shorter than a grain are joined as *several tasks*. Longer slices are exact. The page states the
//! grain.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vruntime_trace::CpuMask;

use super::Analysis;
use super::runqueue::RunQueues;
use super::world::{On, State, Step, World};
use crate::data::DataTable;
use crate::latency::Recorder;

const MOST_SLICES: usize = 1 << 14;
/// The first grain, nanoseconds.
const FINEST_NS: u64 = 1_000;
/// The most tasks with their own distribution. Others share one per name.
const MOST_RECORDERS: usize = 1024;
/// The most names with their own distribution, by number of delays. Others share one.
const MOST_NAMES: usize = 40;
/// The most bins on a page. With more than 32 CPUs, bins are wider.
const MOST_BINS: usize = 1 << 15;
const POINTS: usize = 160;
/// Several tasks.
const SEVERAL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slice {
    begin: u64,
    end: u64,
    task: u32,
    busy: u64,
    count: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Overview {
    queues: RunQueues,
    /// By CPU, in order of time.
    slices: Vec<Vec<Slice>>,
    kept: usize,
    all: u64,
    grain: u64,
    delays: Vec<Recorder>,
    /// By class or name of later tasks.
    beyond: BTreeMap<String, Recorder>,
    others: Recorder,
}

impl Overview {
    fn slice(&mut self, cpu: usize, slice: Slice) {
        if cpu >= self.slices.len() {
            self.slices.resize(cpu + 1, Vec::new());
        }
        self.all += 1;
        let grain = self.grain;
        let row = &mut self.slices[cpu];
        if let Some(last) = row.last_mut()
            && joins(last, &slice, grain)
        {
            join(last, &slice);
            return;
        }
        row.push(slice);
        self.kept += 1;
        while self.kept > MOST_SLICES {
            self.coarsen();
        }
    }

    #[cold]
    fn coarsen(&mut self) {
        self.grain = (self.grain * 2).max(FINEST_NS);
        self.kept = 0;
        for row in &mut self.slices {
            let mut merged: Vec<Slice> = Vec::with_capacity(row.len());
            for slice in row.drain(..) {
                match merged.last_mut() {
                    Some(last) if joins(last, &slice, self.grain) => join(last, &slice),
                    _ => merged.push(slice),
                }
            }
            self.kept += merged.len();
            *row = merged;
        }
    }

    /// Returns distributions by class or name, with decreasing counts.
    fn distributions(&self, world: &World) -> Vec<Value> {
        let mut by_name: BTreeMap<String, Recorder> = BTreeMap::new();
        for (task, recorder) in self.delays.iter().enumerate().filter(|(_, recorder)| recorder.latency().is_some()) {
            by_name.entry(world.class(task as u32)).or_default().merge(recorder);
        }
        for (name, recorder) in &self.beyond {
            by_name.entry(name.clone()).or_default().merge(recorder);
        }
        if self.others.latency().is_some() {
            by_name.entry("(others)".to_owned()).or_default().merge(&self.others);
        }
        let count = |recorder: &Recorder| recorder.latency().map_or(0, |latency| latency.count);
        let mut all: Vec<(String, Recorder)> = by_name.into_iter().collect();
        all.sort_by(|a, b| count(&b.1).cmp(&count(&a.1)).then_with(|| a.0.cmp(&b.0)));
        let distribution = |(name, recorder): &(String, Recorder)| json!({ "name": name, "count": count(recorder), "points": recorder.distribution(POINTS) });
        if all.len() > MOST_NAMES {
            let rest = all.split_off(MOST_NAMES);
            let mut sum = Recorder::default();
            for (_, recorder) in &rest {
                sum.merge(recorder);
            }
            all.push((format!("{} others", rest.len()), sum));
        }
        all.iter().map(distribution).collect()
    }

    /// Returns a page's data. Times are nanoseconds since the first event.
    pub(crate) fn json(&self, world: &World) -> Value {
        let mut bins = self.queues.bins().clone();
        bins.widen(MOST_BINS / world.cpus().len().max(1));
        let elapsed = world.elapsed();
        let length = (elapsed.div_ceil(bins.width.max(1)) as usize).min(bins.len());
        let per_mille = |part: u64, of: u64| {
            if of == 0 { Value::Null } else { json!((part as f64 * 1000.0 / of as f64).round() as u64) }
        };
        let rows: Vec<Value> = (0..world.cpus().len())
            .map(|cpu| {
                let row = bins.rows.get(cpu);
                let bin = |index: usize| row.and_then(|row| row.get(index)).copied().unwrap_or_default();
                let known = |index: usize| {
                    let width = bins.width.min(elapsed.saturating_sub(index as u64 * bins.width));
                    width.saturating_sub(bin(index).unknown)
                };
                json!({
                    "busy": (0..length).map(|at| per_mille(bin(at).busy, known(at))).collect::<Vec<_>>(),
                    "queue": (0..length).map(|at| per_mille(bin(at).area, known(at))).collect::<Vec<_>>(),
                    "most": (0..length).map(|at| bin(at).max).collect::<Vec<_>>(),
                })
            })
            .collect();
        // Numbers of tasks in the timeline.
        let (mut names, mut classes): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let mut number: BTreeMap<u32, usize> = BTreeMap::new();
        let mut slices: Vec<Vec<Value>> = Vec::new();
        for row in &self.slices {
            let mut out = Vec::with_capacity(row.len());
            for slice in row {
                let who = if slice.task == SEVERAL {
                    -1
                } else {
                    *number.entry(slice.task).or_insert_with(|| {
                        names.push(world.name(slice.task));
                        classes.push(world.class(slice.task));
                        names.len() - 1
                    }) as i64
                };
                if who < 0 {
                    out.push(json!([slice.begin, slice.end - slice.begin, who, slice.count, slice.busy]));
                } else {
                    out.push(json!([slice.begin, slice.end - slice.begin, who]));
                }
            }
            slices.push(out);
        }
        json!({
            "elapsed_ns": elapsed,
            "start_ns": world.span.map_or(0, |(first, _)| first),
            "cpus": rows,
            "bin_ns": bins.width,
            "timeline": { "tasks": names, "classes": classes, "cpus": slices, "grain_ns": self.grain, "slices": self.all, "drawn": self.kept },
            "delays": self.distributions(world),
        })
    }
}

/// Whether two slices are short and near enough to draw as one.
fn joins(last: &Slice, next: &Slice, grain: u64) -> bool {
    let short = |slice: &Slice| slice.task == SEVERAL || slice.end - slice.begin < grain;
    grain > 0 && short(last) && short(next) && last.begin / grain == next.end.saturating_sub(1) / grain
}

fn join(last: &mut Slice, next: &Slice) {
    if last.task != next.task {
        last.task = SEVERAL;
    }
    last.end = next.end;
    last.busy += next.busy;
    last.count += next.count;
}

impl Analysis for Overview {
    fn step(&mut self, step: &Step, world: &World) {
        self.queues.step(step, world);
        let start = world.span.map_or(step.at, |(first, _)| first);
        let since = |at: i64| at.saturating_sub(start).max(0) as u64;
        if let Some((cpu, was)) = world.cpu_was
            && let On::Task(task) = was.on
            && step.at > was.since
        {
            let (begin, end) = (since(was.since), since(step.at));
            self.slice(cpu as usize, Slice { begin, end, task, busy: end - begin, count: 1 });
        }
        for change in &world.changes {
            if change.was.state == State::Waiting && change.now.state == State::Running && change.was.woken {
                let ns = step.at.saturating_sub(change.was.since).max(0) as u64;
                let task = change.task as usize;
                if task < MOST_RECORDERS {
                    if task >= self.delays.len() {
                        self.delays.resize_with(task + 1, Recorder::default);
                    }
                    self.delays[task].record(ns);
                    continue;
                }
                let name = world.class(change.task);
                let full = self.beyond.len() >= MOST_RECORDERS;
                match self.beyond.get_mut(&name) {
                    Some(recorder) => recorder.record(ns),
                    None if full => self.others.record(ns),
                    None => self.beyond.entry(name).or_default().record(ns),
                }
            }
        }
    }

    fn simulated(&mut self, cpus: usize) {
        self.queues.simulated(cpus);
    }

    fn affinity(&mut self, task: u32, cpus: Option<&CpuMask>, world: &World) {
        self.queues.affinity(task, cpus, world);
    }

    fn finish(&mut self, world: &World) {
        self.queues.finish(world);
        let Some((start, end)) = world.span else { return };
        for (cpu, row) in world.cpus().iter().enumerate() {
            if let On::Task(task) = row.on
                && end > row.since
            {
                let begin = row.since.saturating_sub(start).max(0) as u64;
                let end = end.saturating_sub(start) as u64;
                self.slice(cpu, Slice { begin, end, task, busy: end - begin, count: 1 });
            }
        }
    }

    fn tables(&self, _world: &World) -> Vec<DataTable> {
        Vec::new()
    }
}

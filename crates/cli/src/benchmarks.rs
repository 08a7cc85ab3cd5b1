//! What the benchmarks themselves print: their own lines, made of a run's results.
//!
//! Each line is as its program writes it; what a program measures that results do not hold (a minimum, a last value) is left out.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vruntime_report::{Account, Latency, Results, TaskResult};
use vruntime_sim::Costs;
use vruntime_workload::program::{Benchmark, Workload};

/// What one benchmark of a workload prints.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Its command line.
    pub(crate) command: String,
    /// Its lines.
    pub(crate) lines: Vec<String>,
    /// The numbers in them, by name.
    numbers: Value,
}

impl Output {
    /// For JSON: the command, its lines, and the numbers.
    pub(crate) fn json(&self) -> Value {
        json!({ "command": self.command, "lines": self.lines, "numbers": self.numbers })
    }
}

/// The output of a workload's benchmarks; those that print nothing are left out.
pub(crate) fn outputs(workload: &Workload, results: &Results, costs: &Costs) -> Vec<Output> {
    let print = |benchmark: &Benchmark| {
        let seen = Seen::new(benchmark, workload, results);
        let (lines, numbers) = seen.print(costs)?;
        Some(Output { command: benchmark.command.clone(), lines, numbers })
    };
    workload.benchmarks.iter().filter_map(print).collect()
}

/// What became of a benchmark's tasks.
struct Seen<'a> {
    words: Vec<&'a str>,
    results: &'a Results,
    /// Its tasks, in the order in which they were made; those that were forked, too.
    tasks: Vec<&'a TaskResult>,
    /// From its start until the last of them ended, or the run did; nanoseconds.
    elapsed_ns: u64,
}

impl<'a> Seen<'a> {
    fn new(benchmark: &'a Benchmark, workload: &Workload, results: &'a Results) -> Self {
        let own = &workload.tasks[benchmark.tasks.clone()];
        let names: BTreeMap<&str, bool> = own.iter().map(|task| (task.name.as_str(), task.start.is_some())).collect();
        let tasks = results.tasks.iter().filter(|task| {
            // Instances after the first have a number behind the name.
            let forked = || task.name.rsplit_once('-').filter(|(_, number)| number.parse::<u64>().is_ok());
            names.contains_key(task.name.as_str()) || forked().is_some_and(|(name, _)| names.get(name) == Some(&false))
        });
        let tasks: Vec<&TaskResult> = tasks.collect();
        let started = tasks.iter().filter(|task| names.get(task.name.as_str()) == Some(&true));
        let end = started.map(|task| if task.ended { task.account.life_ns } else { results.elapsed_ns }).max();
        let elapsed_ns = end.unwrap_or(0).saturating_sub(benchmark.start).max(1);
        Self { words: benchmark.command.split_whitespace().collect(), results, tasks, elapsed_ns }
    }

    /// Its lines, and the numbers in them.
    fn print(&self, costs: &Costs) -> Option<(Vec<String>, Value)> {
        match *self.words.first()? {
            "lat_ctx" => self.lat_ctx(costs),
            "pipe-test" => self.pipe_test(),
            "hackbench" => self.hackbench(),
            "kernbench" => Some(self.kernbench()),
            "sysbench" => Some(self.sysbench()),
            "schbench" => self.schbench(),
            "cyclictest" => Some(self.cyclictest()),
            _ => None,
        }
    }

    fn sum(&self) -> Account {
        self.tasks.iter().fold(Account::default(), |mut sum, task| {
            sum.add(&task.account);
            sum
        })
    }

    /// The number of an option, `-s 64`, `-s64` or `--size=64`.
    fn option(&self, name: &str) -> Option<u64> {
        let at = self.words.iter().position(|word| word.starts_with(name))?;
        let rest = self.words[at][name.len()..].trim_start_matches('=');
        let value = if rest.is_empty() { self.words.get(at + 1)? } else { rest };
        value.parse().ok()
    }

    /// The time of a pass, less what passing takes without a switch (`ovr`): as lmbench measures that, in one process.
    fn lat_ctx(&self, costs: &Costs) -> Option<(Vec<String>, Value)> {
        let size = self.option("-s").unwrap_or(0);
        let overhead = 2 * (costs.syscall_ns + costs.pipe_ns_per_kib / 1024) + costs.mem_ns_per_kib * size;
        let pass = self.elapsed_ns as f64 / (self.sum().loops > 0).then_some(self.sum().loops)? as f64;
        let (overhead, n) = (overhead as f64 / 1e3, self.tasks.len());
        let switch = (pass / 1e3 - overhead).max(0.0);
        let lines = vec![format!("\"size={size}k ovr={overhead:.2}"), format!("{n} {switch:.2}")];
        Some((lines, json!({ "size_kib": size, "overhead_us": overhead, "processes": n, "switch_us": switch })))
    }

    /// A loop is there and back.
    fn pipe_test(&self) -> Option<(Vec<String>, Value)> {
        let loops = self.tasks.first()?.account.loops;
        let each = self.elapsed_ns as f64 / 1e3 / (loops > 0).then_some(loops)? as f64;
        Some((vec![format!("{each:.2} usecs/loop.")], json!({ "usecs_per_loop": each })))
    }

    /// If it was not stopped before its end.
    fn hackbench(&self) -> Option<(Vec<String>, Value)> {
        let seconds = self.elapsed_ns as f64 / 1e9;
        let ended = self.tasks.iter().all(|task| task.ended);
        ended.then(|| (vec![format!("Time: {seconds:.3}")], json!({ "time_s": seconds })))
    }

    /// What `time` says of `make` and all its children: `%e %U %S %P %c %w`.
    fn kernbench(&self) -> (Vec<String>, Value) {
        let sum = self.sum();
        let [elapsed, cpu, system] = [self.elapsed_ns, sum.cpu_ns, sum.system_ns].map(|ns| ns as f64 / 1e9);
        let (user, percent) = (cpu - system, 100.0 * cpu / elapsed);
        let lines = vec![
            format!("Elapsed Time {elapsed:.1}"),
            format!("User Time {user:.1}"),
            format!("System Time {system:.1}"),
            format!("Percent CPU {percent:.1}"),
            format!("Context Switches {}", sum.involuntary),
            format!("Sleeps {}", sum.voluntary),
        ];
        let numbers = json!({
            "elapsed_s": elapsed, "user_s": user, "system_s": system, "percent_cpu": percent,
            "context_switches": sum.involuntary, "sleeps": sum.voluntary,
        });
        (lines, numbers)
    }

    fn sysbench(&self) -> (Vec<String>, Value) {
        let spread = |values: &[f64]| {
            let n = values.len().max(1) as f64;
            let mean = values.iter().sum::<f64>() / n;
            (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt())
        };
        let events: Vec<f64> = self.tasks.iter().map(|task| task.account.loops as f64).collect();
        let latencies: Vec<Latency> = self.tasks.iter().filter_map(|task| task.loop_duration).collect();
        let times: Vec<f64> = latencies.iter().map(|each| each.mean_ns as f64 * each.count as f64 / 1e9).collect();
        let (all, total, taken) = (events.iter().sum::<f64>(), self.elapsed_ns as f64 / 1e9, times.iter().sum::<f64>());
        let ms = |ns: Option<u64>| ns.unwrap_or(0) as f64 / 1e6;
        let average = if all > 0.0 { 1e3 * taken / all } else { 0.0 };
        let most = ms(latencies.iter().map(|each| each.max_ns).max());
        // Of each thread's own; over several the highest of them.
        let high = ms(latencies.iter().map(|each| each.p99_ns).max());
        let ((events_mean, events_spread), (time_mean, time_spread)) = (spread(&events), spread(&times));
        let lines = vec![
            "Test execution summary:".to_owned(),
            format!("    total time:                          {total:.4}s"),
            format!("    total number of events:              {all}"),
            format!("    total time taken by event execution: {taken:.4}"),
            "    per-request statistics:".to_owned(),
            format!("         avg:                            {average:>10.2}ms"),
            format!("         max:                            {most:>10.2}ms"),
            format!("         approx.  99 percentile:         {high:>10.2}ms"),
            String::new(),
            "Threads fairness:".to_owned(),
            format!("    events (avg/stddev):           {events_mean:.4}/{events_spread:.2}"),
            format!("    execution time (avg/stddev):   {time_mean:.4}/{time_spread:.2}"),
        ];
        let numbers = json!({
            "total_s": total, "events": all, "executing_s": taken, "avg_ms": average, "max_ms": most, "p99_ms": high,
            "events_avg": events_mean, "events_stddev": events_spread, "time_avg_s": time_mean, "time_stddev_s": time_spread,
        });
        (lines, numbers)
    }

    /// From being granted work to running, of its workers; copies share their class.
    fn schbench(&self) -> Option<(Vec<String>, Value)> {
        let worker =
            self.tasks.iter().find(|task| self.results.classes[task.class].name.ends_with("schbench-worker"))?;
        let latency = self.results.classes[worker.class].wakeup_latency?;
        let us = |ns: u64| ns / 1000;
        let percentiles =
            [("50.0", latency.p50_ns), ("90.0", latency.p90_ns), ("99.0", latency.p99_ns), ("99.9", latency.p999_ns)];
        let mut lines = vec!["Latency percentiles (usec)".to_owned()];
        // The one that people quote has a star.
        let starred = |name: &str| if name == "99.0" { "*" } else { "" };
        lines.extend(percentiles.map(|(name, ns)| format!("\t{}{name}th: {}", starred(name), us(ns))));
        lines.push(format!("\tmax={}", us(latency.max_ns)));
        let [p50, p90, p99, p999] = percentiles.map(|(_, ns)| us(ns));
        let max = us(latency.max_ns);
        Some((lines, json!({ "p50_us": p50, "p90_us": p90, "p99_us": p99, "p999_us": p999, "max_us": max })))
    }

    /// How late each thread was.
    fn cyclictest(&self) -> (Vec<String>, Value) {
        let (interval, distance) = (self.option("-i").unwrap_or(1000), self.option("-d").unwrap_or(500));
        let threads = self.tasks.iter().zip(0_u64..).filter_map(|(task, index)| {
            let late = task.sleep_return?;
            let (count, mean, most) = (late.count, late.mean_ns / 1000, late.max_ns / 1000);
            let every = interval + index * distance;
            let line = format!("T:{index:2} P:{:2} I:{every} C:{count:7} Avg:{mean:5} Max:{most:8}", task.rt_priority);
            let numbers = json!({
                "thread": index, "priority": task.rt_priority, "interval_us": every, "cycles": count, "avg_us": mean, "max_us": most,
            });
            Some((line, numbers))
        });
        let (lines, numbers): (Vec<String>, Vec<Value>) = threads.unzip();
        (lines, json!({ "threads": numbers }))
    }
}

//! The output of simulated benchmarks, as the programs print it. These are lmbench 3, pipe-test, kernbench 0.42
//! (`time`'s fields), hackbench, sysbench 0.4, schbench 1.0, cyclictest of rt-tests, and stress-ng.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vruntime_report::{Account, Latency, PassDelays, Results, TaskResult};
use vruntime_sim::Costs;
use vruntime_trace::{TaskId, task_pid};
use vruntime_workload::program::{Benchmark, Workload};

#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub(crate) command: String,
    pub(crate) lines: Vec<String>,
    /// The numbers in the lines, by name.
    numbers: Value,
}

impl Output {
    pub(crate) fn json(&self) -> Value {
        json!({ "command": self.command, "lines": self.lines, "numbers": self.numbers })
    }
}

/// Returns the output of each benchmark that printed something by the end of the run.
///
/// `passes` is needed if [`measures_passes`] returns true.
pub(crate) fn outputs(
    workload: &Workload,
    results: &Results,
    passes: Option<&PassDelays>,
    costs: &Costs,
) -> Vec<Output> {
    if workload.benchmarks.is_empty() {
        return Vec::new();
    }
    let mut tasks = tasks_of(workload, results).into_iter();
    let print = |benchmark: &Benchmark| {
        let run = BenchmarkRun::new(benchmark, workload, results, tasks.next().unwrap_or_default());
        let (lines, numbers) = run.print(passes, costs)?;
        Some(Output { command: benchmark.command.clone(), lines, numbers })
    };
    workload.benchmarks.iter().filter_map(print).collect()
}

/// Whether a benchmark needs [`PassDelays`]: schbench without a request rate (`-R`).
pub(crate) fn measures_passes(workload: &Workload) -> bool {
    workload.benchmarks.iter().any(|benchmark| has_passes(&benchmark.command.split_whitespace().collect::<Vec<_>>()))
}

fn has_passes(words: &[&str]) -> bool {
    words.first() == Some(&"schbench") && !words.iter().any(|word| word.starts_with("-R"))
}

/// Returns the tasks of each benchmark, forked ones included, in order of creation.
fn tasks_of(workload: &Workload, results: &Results) -> Vec<Vec<usize>> {
    let mut owners: BTreeMap<&str, Option<usize>> =
        workload.tasks.iter().map(|task| (task.name.as_str(), None)).collect();
    for (owner, benchmark) in workload.benchmarks.iter().enumerate() {
        let own = workload.tasks[benchmark.tasks.clone()].iter();
        owners.extend(own.map(|task| (task.name.as_str(), Some(owner))));
    }
    let mut tasks = vec![Vec::new(); workload.benchmarks.len()];
    for (index, task) in results.tasks.iter().enumerate() {
        // Forked instances have a number after the name.
        let template = || task.name.rsplit_once('-').and_then(|(name, _)| owners.get(name));
        if let Some(&Some(owner)) = owners.get(task.name.as_str()).or_else(template) {
            tasks[owner].push(index);
        }
    }
    tasks
}

/// A benchmark and its tasks' results.
struct BenchmarkRun<'a> {
    words: Vec<&'a str>,
    results: &'a Results,
    /// Index of the first task in the results. Its pid follows from it.
    first: usize,
    /// All tasks, forked ones included, in order of creation.
    tasks: Vec<&'a TaskResult>,
    /// Whether all tasks that are not forked have ended.
    ended: bool,
    /// Time from the start until the last task that is not forked ended, or until the end of the run; nanoseconds.
    elapsed_ns: u64,
}

impl<'a> BenchmarkRun<'a> {
    fn new(benchmark: &'a Benchmark, workload: &Workload, results: &'a Results, tasks: Vec<usize>) -> Self {
        let first = tasks.first().copied().unwrap_or(0);
        let tasks: Vec<&TaskResult> = tasks.into_iter().map(|task| &results.tasks[task]).collect();
        // Tasks with a start wait for the tasks that they fork, so only the ends of the former matter.
        let started = workload.tasks[benchmark.tasks.clone()].iter().filter(|task| task.start.is_some()).count();
        let started = || tasks.iter().take(started);
        let end = |task: &TaskResult| {
            if task.ended { task.born_ns + task.account.life_ns } else { results.elapsed_ns }
        };
        let end = started().map(|task| end(task)).max();
        Self {
            words: benchmark.command.split_whitespace().collect(),
            results,
            first,
            ended: started().all(|task| task.ended),
            elapsed_ns: end.unwrap_or(0).saturating_sub(benchmark.start).max(1),
            tasks,
        }
    }

    fn print(&self, passes: Option<&PassDelays>, costs: &Costs) -> Option<(Vec<String>, Value)> {
        match *self.words.first()? {
            "lat_ctx" => self.lat_ctx(costs),
            "pipe-test" => self.pipe_test(),
            "hackbench" => self.hackbench(),
            "kernbench" => self.kernbench(),
            "sysbench" => self.sysbench(),
            "schbench" => self.schbench(passes),
            "cyclictest" => Some(self.cyclictest()),
            "stress-ng" => Some(self.stress_ng()),
            _ => None,
        }
    }

    fn sum(&self) -> Account {
        self.tasks.iter().fold(Account::default(), |mut sum, task| {
            sum.add(&task.account);
            sum
        })
    }

    /// Parses the number of an option: `-s` in `-s 64` or `-s64`, `--size` in `--size=64`.
    fn option(&self, name: &str) -> Option<u64> {
        let at = self.words.iter().position(|word| word.starts_with(name))?;
        let rest = self.words[at][name.len()..].trim_start_matches('=');
        let value = if rest.is_empty() { self.words.get(at + 1)? } else { rest };
        value.parse().ok()
    }

    /// Prints the time of one hop in the ring, less `ovr`. lmbench measures `ovr` in one process, without a switch.
    fn lat_ctx(&self, costs: &Costs) -> Option<(Vec<String>, Value)> {
        let size = self.option("-s").unwrap_or(0);
        let overhead = 2 * (costs.syscall_ns + costs.pipe_ns_per_kib / 1024) + costs.mem_ns_per_kib * size;
        let hop_ns = self.elapsed_ns as f64 / (self.sum().loops > 0).then_some(self.sum().loops)? as f64;
        let (overhead, n) = (overhead as f64 / 1e3, self.tasks.len());
        let switch = (hop_ns / 1e3 - overhead).max(0.0);
        let lines = vec![format!("\"size={size}k ovr={overhead:.2}"), format!("{n} {switch:.2}")];
        Some((lines, json!({ "size_kib": size, "overhead_us": overhead, "processes": n, "switch_us": switch })))
    }

    fn pipe_test(&self) -> Option<(Vec<String>, Value)> {
        let loops = self.tasks.first()?.account.loops;
        let each = self.elapsed_ns as f64 / 1e3 / (loops > 0).then_some(loops)? as f64;
        Some((vec![format!("{each:.2} usecs/loop.")], json!({ "usecs_per_loop": each })))
    }

    /// Prints the table of metrics. An operation is a written message.
    fn stress_ng(&self) -> (Vec<String>, Value) {
        let writes = |task: &&&TaskResult| task.name.contains("stress-ng-writer");
        let ops: u64 = self.tasks.iter().filter(writes).map(|task| task.account.loops).sum();
        let sum = self.sum();
        let [real, cpu, system] = [self.elapsed_ns, sum.cpu_ns, sum.system_ns].map(|ns| ns as f64 / 1e9);
        let (user, per_s, per_cpu_s) = (cpu - system, ops as f64 / real, ops as f64 / cpu.max(1e-9));
        let lines = vec![
            "stressor       bogo ops real time  usr time  sys time   bogo ops/s     bogo ops/s".to_owned(),
            "                          (secs)    (secs)    (secs)   (real time) (usr+sys time)".to_owned(),
            format!("pipe {ops:>18} {real:>9.2} {user:>9.2} {system:>9.2} {per_s:>12.2} {per_cpu_s:>14.2}"),
        ];
        let numbers = json!({
            "ops": ops, "real_s": real, "user_s": user, "system_s": system, "ops_per_s": per_s, "ops_per_cpu_s": per_cpu_s,
        });
        (lines, numbers)
    }

    fn hackbench(&self) -> Option<(Vec<String>, Value)> {
        let seconds = self.elapsed_ns as f64 / 1e9;
        self.ended.then(|| (vec![format!("Time: {seconds:.3}")], json!({ "time_s": seconds })))
    }

    /// Prints `time`'s fields of `make` and all its children: `%e %U %S %P %c %w`.
    fn kernbench(&self) -> Option<(Vec<String>, Value)> {
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
        self.ended.then_some((lines, numbers))
    }

    /// Prints the summary. The percentile is over all tasks of the program, so copies are combined.
    fn sysbench(&self) -> Option<(Vec<String>, Value)> {
        let spread = |values: &[f64]| {
            let n = values.len() as f64;
            let mean = values.iter().sum::<f64>() / n;
            (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt())
        };
        let events: Vec<f64> = self.tasks.iter().map(|task| task.account.loops as f64).collect();
        // Only the first tasks of a run have histograms. If one of these has none, nothing is printed.
        if self.tasks.iter().any(|task| task.loop_duration.is_none() && task.account.loops > 0) {
            return None;
        }
        let latencies: Vec<Latency> = self.tasks.iter().filter_map(|task| task.loop_duration).collect();
        let time = |each: Latency| each.mean_ns as f64 * each.count as f64 / 1e9;
        let times: Vec<f64> = self.tasks.iter().map(|task| task.loop_duration.map_or(0.0, time)).collect();
        let (all, total, taken) = (events.iter().sum::<f64>(), self.elapsed_ns as f64 / 1e9, times.iter().sum::<f64>());
        let ms = |ns: u64| ns as f64 / 1e6;
        let least = ms(latencies.iter().map(|each| each.min_ns).min()?);
        let average = 1e3 * taken / all;
        let most = ms(latencies.iter().map(|each| each.max_ns).max()?);
        let high = ms(self.results.classes[self.tasks.first()?.class].loop_duration?.p95_ns);
        let ((events_mean, events_spread), (time_mean, time_spread)) = (spread(&events), spread(&times));
        let lines = vec![
            "Test execution summary:".to_owned(),
            format!("    total time:                          {total:.4}s"),
            format!("    total number of events:              {all}"),
            format!("    total time taken by event execution: {taken:.4}"),
            "    per-request statistics:".to_owned(),
            format!("         min:                            {least:>10.2}ms"),
            format!("         avg:                            {average:>10.2}ms"),
            format!("         max:                            {most:>10.2}ms"),
            format!("         approx.  95 percentile:         {high:>10.2}ms"),
            String::new(),
            "Threads fairness:".to_owned(),
            format!("    events (avg/stddev):           {events_mean:.4}/{events_spread:.2}"),
            format!("    execution time (avg/stddev):   {time_mean:.4}/{time_spread:.2}"),
        ];
        let numbers = json!({
            "total_s": total, "events": all, "executing_s": taken, "min_ms": least, "avg_ms": average, "max_ms": most, "p95_ms": high,
            "events_avg": events_mean, "events_stddev": events_spread, "time_avg_s": time_mean, "time_stddev_s": time_spread,
        });
        Some((lines, numbers))
    }

    /// Prints the workers' latency, from the message thread's reading of the clock until the worker runs. The thread
    /// reads it once in a pass, and with `-R` at each request. Copies of one schbench are combined.
    fn schbench(&self, passes: Option<&PassDelays>) -> Option<(Vec<String>, Value)> {
        let worker =
            self.tasks.iter().find(|task| self.results.classes[task.class].name.ends_with("schbench-worker"))?;
        let class = &self.results.classes[worker.class];
        let latency = match passes.filter(|_| has_passes(&self.words)) {
            Some(passes) => passes.of_class(&class.name)?,
            None => class.wakeup_latency?,
        };
        let percentiles = [
            ("50.0", "p50_us", latency.p50_ns),
            ("75.0", "p75_us", latency.p75_ns),
            ("90.0", "p90_us", latency.p90_ns),
            ("95.0", "p95_us", latency.p95_ns),
            ("99.0", "p99_us", latency.p99_ns),
            ("99.5", "p99.5_us", latency.p995_ns),
            ("99.9", "p99.9_us", latency.p999_ns),
        ];
        let (min, max) = (latency.min_ns / 1000, latency.max_ns / 1000);
        let mut lines = vec!["Latency percentiles (usec)".to_owned()];
        // schbench marks this percentile with a star.
        let starred = |name: &str| if name == "99.0" { "*" } else { "" };
        lines.extend(percentiles.map(|(name, _, ns)| format!("\t{}{name}th: {}", starred(name), ns / 1000)));
        lines.push(format!("\tmin={min}, max={max}"));
        let mut numbers = json!({ "min_us": min, "max_us": max });
        for (_, name, ns) in percentiles {
            numbers[name] = json!(ns / 1000);
        }
        Some((lines, numbers))
    }

    fn cyclictest(&self) -> (Vec<String>, Value) {
        let (interval, distance) = (self.option("-i").unwrap_or(1000), self.option("-d").unwrap_or(500));
        let threads = self.tasks.iter().zip(0_u64..).filter_map(|(task, index)| {
            let lateness = task.sleep_return?;
            let pid = task_pid(TaskId((self.first as u64 + index) as u32));
            let (priority, every, cycles) = (task.rt_priority, interval + index * distance, lateness.count);
            let [min, act, avg, max] = [lateness.min_ns, lateness.last_ns, lateness.mean_ns, lateness.max_ns].map(|ns| ns / 1000);
            let line = format!(
                "T:{index:2} ({pid:5}) P:{priority:2} I:{every} C:{cycles:7} Min:{min:7} Act:{act:5} Avg:{avg:5} Max:{max:8}"
            );
            let numbers = json!({
                "thread": index, "pid": pid, "priority": priority, "interval_us": every, "cycles": cycles,
                "min_us": min, "act_us": act, "avg_us": avg, "max_us": max,
            });
            Some((line, numbers))
        });
        let (lines, numbers): (Vec<String>, Vec<Value>) = threads.unzip();
        (lines, json!({ "threads": numbers }))
    }
}

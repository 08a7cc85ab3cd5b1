//! Snapshots as text: `/sys/kernel/debug/sched/debug`, `/proc/schedstat` and `/proc/PID/sched`, with the simulated
//! kernel's names, order and columns. Kernels up to 5.4 have only fields that exist in both. The first CFS and O(1)
//! use the names of 3.10.

use std::fmt::Write as _;

use vruntime_trace::debug::{CfsDebug, CpuDebug, EntityDebug, Names, Snapshot, TaskDebug};
use vruntime_trace::task_pid;
use vruntime_trace::{CpuMask, Running, SchedPolicy, TaskId};

use crate::printable::printable;
use crate::schedstat::{SchedStat, kinds};

/// Splits nanoseconds into milliseconds and six places. As in the kernel, times above -1 ms lose the sign.
fn ms(ns: i64) -> (i64, u64) {
    (ns / 1_000_000, ns.unsigned_abs() % 1_000_000)
}

fn ms_text(ns: i64) -> String {
    let (high, low) = ms(ns);
    format!("{high}.{low:06}")
}

/// Returns a weight in the kernel's scale: nice 0 is 1024 up to 3.18 (`SCHED_LOAD_RESOLUTION` is 0), later 1024 times
/// that.
fn weight(names: Names, weight: u64) -> u64 {
    if names <= Names::V3 { weight >> 10 } else { weight }
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "  .{name:<30}: {value}");
}

/// Returns `/sys/kernel/debug/sched/debug`.
pub fn sched_debug(snapshot: &Snapshot, stat: &SchedStat) -> String {
    let mut text = String::new();
    let jiffies = snapshot.at / snapshot.tick_ns.max(1);
    let _ = writeln!(text, "Sched Debug Version: v0.11, vruntime");
    for (name, value) in [
        ("ktime", ms_text(snapshot.at as i64)),
        ("sched_clk", ms_text(snapshot.at as i64)),
        ("cpu_clk", ms_text(snapshot.at as i64)),
        ("jiffies", jiffies.to_string()),
    ] {
        let _ = writeln!(text, "{name:<40}: {value}");
    }
    let _ = writeln!(text, "\nsysctl_sched");
    for (name, value) in sysctls(snapshot) {
        let _ = writeln!(text, "  .{name:<40}: {}", ms_text(value as i64));
    }
    if snapshot.names >= Names::V3 {
        let _ = writeln!(text, "  .{:<40}: 1 (logarithmic)", "sysctl_sched_tunable_scaling");
    }
    for cpu in snapshot.cpus.iter().filter(|cpu| cpu.online) {
        text.push('\n');
        of_cpu(&mut text, snapshot, cpu, stat);
    }
    text
}

fn sysctls(snapshot: &Snapshot) -> Vec<(&'static str, u64)> {
    let [latency, wakeup, idle] = snapshot.cfs_ns;
    let mut all = vec![("sysctl_sched_latency", latency), ("sysctl_sched_min_granularity", snapshot.base_slice_ns)];
    match snapshot.names {
        Names::Early => return Vec::new(),
        Names::V3 => {}
        Names::V6_1 if !snapshot.idle_groups => {}
        Names::V6_1 => all.push(("sysctl_sched_idle_min_granularity", idle)),
        Names::V6_6 | Names::V6_12 | Names::V6_18 => return vec![("sysctl_sched_base_slice", snapshot.base_slice_ns)],
    }
    all.push(("sysctl_sched_wakeup_granularity", wakeup));
    all
}

fn of_cpu(text: &mut String, snapshot: &Snapshot, cpu: &CpuDebug, stat: &SchedStat) {
    let index = cpu.cpu.index();
    let _ = writeln!(text, "cpu#{index}");
    let short = |text: &mut String, name: &str, value: String| {
        let _ = writeln!(text, "  .{name:<30}: {value}");
    };
    short(text, "nr_running", cpu.nr_running.to_string());
    short(text, "nr_switches", stat.cpus.get(index).map_or(0, |cpu| cpu.switches).to_string());
    short(text, "nr_uninterruptible", cpu.nr_uninterruptible.to_string());
    // Jiffies, printed like nanoseconds.
    short(text, "next_balance", ms_text(cpu.next_balance_jiffies as i64));
    short(text, "curr->pid", cpu.curr.task().map_or(0, task_pid).to_string());
    short(text, "clock", ms_text(cpu.clock as i64));
    short(text, "clock_task", ms_text(cpu.clock as i64));
    short(text, "avg_idle", cpu.avg_idle.to_string());
    short(text, "max_idle_balance_cost", cpu.max_idle_balance_cost.to_string());
    let path = |group: usize| stat.groups.get(group).map_or("/", String::as_str);
    // A group precedes its ancestors.
    for cfs in cpu.cfs.iter().rev() {
        let _ = writeln!(text, "\ncfs_rq[{index}]:{}", path(cfs.group.index()));
        of_queue(text, snapshot.names, cfs, snapshot.cpus.first().and_then(|first| first.cfs.first()));
    }
    // Without real-time groups there is one queue without a path, and since 6.12 nothing is throttled.
    let root = if snapshot.rt_groups { "/" } else { "" };
    let groups = cpu.rt_groups.iter().rev().map(|(group, rt)| (path(group.index()), rt));
    for (path, rt) in groups.chain([(root, &cpu.rt)]) {
        let _ = writeln!(text, "\nrt_rq[{index}]:{path}");
        line(text, "rt_nr_running", rt.nr_running);
        if snapshot.rt_groups || snapshot.names < Names::V6_12 {
            line(text, "rt_throttled", u8::from(rt.throttled));
            line(text, "rt_time", ms_text(rt.time as i64));
            line(text, "rt_runtime", ms_text(rt.runtime as i64));
        }
    }
    let _ = writeln!(text, "\ndl_rq[{index}]:");
    line(text, "dl_nr_running", cpu.dl_nr_running);
    if snapshot.names >= Names::V6_1 {
        // -1 without a limit.
        line(text, "dl_bw->bw", cpu.dl_bw.map_or(-1, |bw| bw as i64));
        line(text, "dl_bw->total_bw", cpu.dl_total_bw);
    }
    let head = if snapshot.names >= Names::V6_6 {
        " S            task   PID       vruntime   eligible    deadline             slice          sum-exec      \
         switches  prio         wait-time        sum-sleep       sum-block  node   group-id  group-path"
    } else {
        // The kernel does not name the columns after the third time. The line ends with them.
        " S            task   PID         tree-key  switches  prio     wait-time             sum-exec        sum-sleep"
    };
    let _ = writeln!(text, "\nrunnable tasks:\n{head}\n{}", "-".repeat(head.len()));
    for task in &cpu.tasks {
        let _ = writeln!(text, "{}", row(snapshot.names, cpu, task, stat, path(task.group.index())));
    }
}

fn of_time(text: &mut String, names: Names, cfs: &CfsDebug, first: Option<&CfsDebug>) {
    // -1 for missing values.
    let (left_deadline, left) = cfs.left.unwrap_or((-1, -1));
    let right = cfs.right_vruntime.unwrap_or(-1);
    let spread = right.wrapping_sub(left);
    let lines: &[(&str, i64)] = match names {
        Names::Early | Names::V3 | Names::V6_1 => {
            let spread0 = cfs.min_vruntime.wrapping_sub(first.map_or(0, |first| first.min_vruntime));
            &[
                ("MIN_vruntime", left),
                ("min_vruntime", cfs.min_vruntime),
                ("max_vruntime", right),
                ("spread", spread),
                ("spread0", spread0),
            ]
        }
        Names::V6_6 => &[
            ("left_vruntime", left),
            ("min_vruntime", cfs.min_vruntime),
            ("avg_vruntime", cfs.avg_vruntime),
            ("right_vruntime", right),
            ("spread", spread),
        ],
        // The origin of the sums moves with the average, and has no meaning here. 6.12.117 has it, too.
        Names::V6_12 | Names::V6_18 => &[
            ("left_deadline", left_deadline),
            ("left_vruntime", left),
            ("zero_vruntime", cfs.avg_vruntime),
            ("avg_vruntime", cfs.avg_vruntime),
            ("right_vruntime", right),
            ("spread", spread),
        ],
    };
    for (name, value) in lines {
        line(text, name, ms_text(*value));
    }
}

fn of_queue(text: &mut String, names: Names, cfs: &CfsDebug, first: Option<&CfsDebug>) {
    of_time(text, names, cfs, first);
    let (nr, queued) = (u64::from(cfs.nr_queued), u64::from(cfs.h_nr_queued));
    let (idle, h_idle) = (u64::from(cfs.nr_idle), u64::from(cfs.h_nr_idle));
    let runnable = u64::from(cfs.h_nr_runnable);
    let counts: &[(&str, u64)] = match names {
        Names::Early | Names::V3 => &[("nr_running", nr)],
        Names::V6_1 | Names::V6_6 => {
            &[("nr_running", nr), ("h_nr_running", queued), ("idle_nr_running", idle), ("idle_h_nr_running", h_idle)]
        }
        // As in 6.12.117. 6.12 counted like 6.6.
        Names::V6_12 => &[
            ("nr_running", nr),
            ("h_nr_runnable", runnable),
            ("h_nr_queued", queued),
            ("h_nr_delayed", queued.saturating_sub(runnable)),
            ("idle_nr_running", idle),
            ("idle_h_nr_running", h_idle),
        ],
        Names::V6_18 => {
            &[("nr_queued", nr), ("h_nr_runnable", runnable), ("h_nr_queued", queued), ("h_nr_idle", h_idle)]
        }
    };
    for &(name, value) in counts {
        line(text, name, value);
    }
    line(text, "load", weight(names, cfs.load));
    let [removed_load, removed_util, removed_runnable] = cfs.removed;
    if names <= Names::V3 {
        line(text, "runnable_load_avg", cfs.avg.load_avg);
        line(text, "tg_load_contrib", cfs.tg_load_avg_contrib);
    } else {
        for (name, value) in [
            ("load_avg", cfs.avg.load_avg),
            ("runnable_avg", cfs.avg.runnable_avg),
            ("util_avg", cfs.avg.util_avg),
            (if names < Names::V6_12 { "util_est_enqueued" } else { "util_est" }, cfs.avg.util_est),
            ("removed.load_avg", removed_load),
            ("removed.util_avg", removed_util),
            ("removed.runnable_avg", removed_runnable),
            ("tg_load_avg_contrib", cfs.tg_load_avg_contrib),
        ] {
            line(text, name, value);
        }
    }
    line(text, "tg_load_avg", cfs.tg_load_avg);
    if names >= Names::V3 {
        line(text, "throttled", u8::from(cfs.throttled));
        line(text, "throttle_count", cfs.throttle_count);
    }
    let Some(se) = &cfs.se else { return };
    line(text, "se->exec_start", ms_text(se.exec_start as i64));
    line(text, "se->vruntime", ms_text(se.vruntime));
    line(text, "se->sum_exec_runtime", ms_text(se.sum_exec_runtime as i64));
    line(text, "se->load.weight", weight(names, se.weight));
    if names > Names::V3 {
        line(text, "se->avg.load_avg", se.avg.load_avg);
        line(text, "se->avg.util_avg", se.avg.util_avg);
        line(text, "se->avg.runnable_avg", se.avg.runnable_avg);
    }
}

/// `R`, `S`, `D`, or `>R` for the running task.
fn state(cpu: &CpuDebug, task: &TaskDebug) -> &'static str {
    use vruntime_trace::debug::TaskState;
    match task.state {
        _ if cpu.curr == Running::Task(task.id) => ">R",
        TaskState::Runnable => " R",
        TaskState::Sleeping if task.blocked => " D",
        TaskState::New | TaskState::Sleeping => " S",
    }
}

fn row(names: Names, cpu: &CpuDebug, task: &TaskDebug, stat: &SchedStat, path: &str) -> String {
    let se = task.se.unwrap_or_default();
    let counts = stat.tasks.get(task.id.index()).cloned().unwrap_or_default();
    let wide = |ns: i64| {
        let (high, low) = ms(ns);
        format!("{high:>9}.{low:06}")
    };
    let name: String = printable(stat.task_name(task.id)).chars().take(15).collect();
    if names < Names::V6_6 {
        return format!(
            "{}{name:>16} {:>5} {} {:>9} {:>5} {} {} {} {} 0 {} {path}",
            state(cpu, task),
            task_pid(task.id),
            wide(se.vruntime),
            counts.voluntary + counts.involuntary,
            task.prio,
            wide(counts.wait_sum as i64),
            wide(se.sum_exec_runtime as i64),
            wide(counts.sum_sleep as i64),
            wide(counts.sum_block as i64),
            task.group.index(),
        );
    }
    format!(
        "{}{name:>16} {:>5} {}   {}   {} {} {} {} {:>9}   {:>5}   {} {} {}   0      {}        {path}",
        state(cpu, task),
        task_pid(task.id),
        wide(se.vruntime),
        if se.eligible { 'E' } else { 'N' },
        wide(se.deadline),
        if se.custom_slice { 'S' } else { ' ' },
        wide(se.slice as i64),
        wide(se.sum_exec_runtime as i64),
        counts.voluntary + counts.involuntary,
        task.prio,
        wide(counts.wait_sum as i64),
        wide(counts.sum_sleep as i64),
        wide(counts.sum_block as i64),
        task.group.index(),
    )
}

/// Returns CPUs as the kernel: hexadecimal words of 32 bits, the first as short as possible.
fn mask(cpus: &CpuMask, nr_cpus: usize) -> String {
    let mut words = vec![0_u32; nr_cpus.div_ceil(32).max(1)];
    for cpu in cpus.iter() {
        words[cpu.index() / 32] |= 1 << (cpu.index() % 32);
    }
    let digits = (nr_cpus.max(1) - 1) % 32 / 4 + 1;
    let mut text = String::new();
    for (index, word) in words.iter().rev().enumerate() {
        let _ = if index == 0 { write!(text, "{word:0digits$x}") } else { write!(text, ",{word:08x}") };
    }
    text
}

/// Returns `/proc/schedstat`. Unknown counters are 0 (`docs/accounting.md`).
pub fn proc_schedstat(snapshot: &Snapshot, stat: &SchedStat) -> String {
    let version = snapshot.schedstat_version;
    let jiffies = snapshot.at / snapshot.tick_ns.max(1);
    let mut text = format!("version {version}\ntimestamp {jiffies}\n");
    for cpu in snapshot.cpus.iter().filter(|cpu| cpu.online) {
        let index = cpu.cpu.index();
        let none = crate::schedstat::Cpu::default();
        let counts = stat.cpus.get(index).unwrap_or(&none);
        let _ = writeln!(
            text,
            "cpu{index} {} 0 {} {} {} {} {} {} {}",
            counts.yld_count,
            counts.switches,
            counts.goidle,
            counts.ttwu_count,
            counts.ttwu_local,
            counts.rq_cpu_time,
            counts.run_delay,
            counts.pcount,
        );
        for (level, (name, span)) in cpu.domains.iter().enumerate() {
            let _ = write!(text, "domain{level}");
            if version >= 17 {
                let _ = write!(text, " {name}");
            }
            let _ = write!(text, " {}", mask(span, snapshot.cpus.len()));
            let counts_here = counts.level(level);
            for kind in kinds(version).map(|kind| kind as usize) {
                let imbalance = if version >= 17 { "0 0 0 0" } else { "0" };
                let (count, balanced) = (counts_here.count[kind], counts_here.balanced[kind]);
                let (failed, gained) = (counts_here.failed[kind], counts_here.gained[kind]);
                let _ = write!(text, " {count} {balanced} {failed} {imbalance} {gained} 0 0 0");
            }
            // Events of pushes lack the domain, so all count at the lowest.
            let pushed = if level == 0 { counts.pushed } else { 0 };
            let remote = stat.wake_remote(index, &cpu.domains, level);
            let _ = writeln!(text, " {pushed} 0 {pushed} 0 0 0 0 0 0 {remote} 0 0");
        }
    }
    text
}

/// Returns a task's `/proc/PID/sched`, if it exists.
pub fn proc_pid_sched(snapshot: &Snapshot, stat: &SchedStat, id: TaskId) -> Option<String> {
    let task = snapshot.cpus.iter().flat_map(|cpu| &cpu.tasks).find(|task| task.id == id)?;
    let counts = stat.tasks.get(id.index()).cloned().unwrap_or_default();
    let se: EntityDebug = task.se.unwrap_or_default();
    let mut text = format!("{} ({}, #threads: 1)\n{}\n", printable(stat.task_name(id)), task_pid(id), "-".repeat(67));
    let time = |text: &mut String, name: &str, ns: i64| {
        let (high, low) = ms(ns);
        let _ = writeln!(text, "{name:<45}:{high:>14}.{low:06}");
    };
    let number = |text: &mut String, name: &str, value: i64| {
        let _ = writeln!(text, "{name:<45}:{value:>21}");
    };
    let names = snapshot.names;
    // Up to 5.15, the entity has the counters of SCHEDSTATS.
    let of_stat = |name: &str| if names <= Names::V3 { format!("se.statistics.{name}") } else { name.to_owned() };
    let switches = counts.voluntary + counts.involuntary;
    time(&mut text, "se.exec_start", se.exec_start as i64);
    time(&mut text, "se.vruntime", se.vruntime);
    time(&mut text, "se.sum_exec_runtime", se.sum_exec_runtime as i64);
    let early = names <= Names::V3;
    if !early {
        number(&mut text, "se.nr_migrations", counts.migrations as i64);
        time(&mut text, "sum_sleep_runtime", counts.sum_sleep as i64);
        time(&mut text, "sum_block_runtime", counts.sum_block as i64);
    }
    for (name, ns) in [
        ("wait_start", counts.wait_start()),
        ("sleep_start", counts.sleep_start()),
        ("block_start", counts.block_start()),
        ("sleep_max", counts.sleep_max),
        ("block_max", counts.block_max),
        ("wait_max", counts.wait_max),
        ("wait_sum", counts.wait_sum),
    ] {
        time(&mut text, &of_stat(name), ns as i64);
    }
    number(&mut text, &of_stat("wait_count"), counts.wait_count as i64);
    time(&mut text, &of_stat("iowait_sum"), counts.sum_block as i64);
    number(&mut text, &of_stat("iowait_count"), counts.block_count as i64);
    if early {
        number(&mut text, "se.nr_migrations", counts.migrations as i64);
    }
    // No supported kernel counts the zeros, or no event reports them (`docs/accounting.md`).
    for (name, count) in [
        ("nr_migrations_cold", 0),
        ("nr_failed_migrations_affine", u64::from(task.migrations.affine)),
        ("nr_failed_migrations_running", u64::from(task.migrations.running)),
        ("nr_failed_migrations_hot", u64::from(task.migrations.hot)),
        ("nr_forced_migrations", u64::from(task.migrations.forced)),
        ("nr_wakeups", counts.wakeups),
        ("nr_wakeups_sync", u64::from(task.wakeups.sync)),
        ("nr_wakeups_migrate", counts.wakeups_migrate),
        ("nr_wakeups_local", counts.wakeups_local),
        ("nr_wakeups_remote", counts.wakeups - counts.wakeups_local),
        ("nr_wakeups_affine", u64::from(task.wakeups.affine)),
        ("nr_wakeups_affine_attempts", u64::from(task.wakeups.affine_attempts)),
        ("nr_wakeups_passive", 0),
        ("nr_wakeups_idle", 0),
    ] {
        number(&mut text, &of_stat(name), count as i64);
    }
    let per = |of: u64| se.sum_exec_runtime.checked_div(of).map_or(-1, |ns| ns as i64);
    time(&mut text, "avg_atom", per(switches));
    time(&mut text, "avg_per_cpu", per(counts.migrations));
    number(&mut text, "nr_switches", switches as i64);
    number(&mut text, "nr_voluntary_switches", counts.voluntary as i64);
    number(&mut text, "nr_involuntary_switches", counts.involuntary as i64);
    number(&mut text, "se.load.weight", weight(names, se.weight) as i64);
    if names <= Names::V3 {
        number(&mut text, "se.avg.load_avg_contrib", se.avg.load_avg as i64);
    } else {
        averages(&mut text, names, &se, number);
        let clamps = ["uclamp.min", "uclamp.max", "effective uclamp.min", "effective uclamp.max"];
        for (name, value) in clamps.into_iter().zip(task.uclamp) {
            number(&mut text, name, i64::from(value));
        }
    }
    number(&mut text, "policy", policy(task.policy));
    number(&mut text, "prio", i64::from(task.prio));
    if let Some((runtime, deadline)) = task.dl.filter(|_| names > Names::V3) {
        number(&mut text, "dl.runtime", runtime);
        number(&mut text, "dl.deadline", deadline as i64);
    }
    let fair = matches!(task.policy, SchedPolicy::Normal | SchedPolicy::Batch | SchedPolicy::Idle);
    if fair && names >= Names::V6_12 {
        number(&mut text, "se.slice", se.slice as i64);
    }
    Some(text)
}

fn averages(text: &mut String, names: Names, se: &EntityDebug, number: impl Fn(&mut String, &str, i64)) {
    let avg = &se.avg;
    for (name, value) in [
        ("load_sum", avg.load_sum),
        ("runnable_sum", avg.runnable_sum),
        ("util_sum", avg.util_sum),
        ("load_avg", avg.load_avg),
        ("runnable_avg", avg.runnable_avg),
        ("util_avg", avg.util_avg),
        ("last_update_time", avg.last_update_time),
        // Up to 6.7, the greater of two. This is the lasting one.
        (if names < Names::V6_12 { "util_est.ewma" } else { "util_est" }, avg.util_est),
    ] {
        number(text, &format!("se.avg.{name}"), value as i64);
    }
}

/// Returns the kernel's number.
const fn policy(policy: SchedPolicy) -> i64 {
    match policy {
        SchedPolicy::Normal => 0,
        SchedPolicy::Fifo => 1,
        SchedPolicy::RoundRobin => 2,
        SchedPolicy::Batch => 3,
        SchedPolicy::Idle => 5,
        SchedPolicy::Deadline => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vruntime_trace::CpuId;

    #[test]
    fn times_are_split_as_in_the_kernel() {
        assert_eq!(ms_text(1_500_000), "1.500000");
        assert_eq!(ms_text(-1_048_576), "-1.048576");
        // A missing value is -1 ns, with this text.
        assert_eq!(ms_text(-1), "0.000001");
    }

    #[test]
    fn masks_are_as_wide_as_the_machine() {
        let all = |n: u32| (0..n).map(CpuId).collect::<CpuMask>();
        assert_eq!(mask(&all(2), 2), "3");
        assert_eq!(mask(&all(8), 8), "ff");
        assert_eq!(mask(&all(3), 64), "00000000,00000007");
        assert_eq!(mask(&all(33), 36), "1,ffffffff");
    }
}

//! The kernel's counters of a thread.

use std::fs;

use nix::sys::resource::{UsageWho, getrusage};

use crate::measured::TaskMeasured;

/// Reads the calling thread's counters at its end, by two system calls.
pub(crate) fn read_at_end(task: &mut TaskMeasured) {
    task.cpu_ns = crate::work::cpu_time();
    if let Some(switches) = own_switches() {
        (task.voluntary, task.involuntary) = switches;
    }
}

/// Voluntary and involuntary switches of the calling thread, by one system call.
pub(crate) fn own_switches() -> Option<(u64, u64)> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
    let count = |switches: i64| u64::try_from(switches).unwrap_or(0);
    Some((count(usage.voluntary_context_switches()), count(usage.involuntary_context_switches())))
}

pub(crate) fn read_own(task: &mut TaskMeasured) {
    // The files are as of the last update, which this is.
    let _now = crate::work::cpu_time();
    read(task.tid, task);
}

/// Reads the counters of a sleeping thread. False if it has ended.
pub(crate) fn read(tid: u32, task: &mut TaskMeasured) -> bool {
    let file = |name: &str| fs::read_to_string(format!("/proc/self/task/{tid}/{name}"));
    let Ok(status) = file("status") else { return false };
    (task.voluntary, task.involuntary) = switches(&status);
    // Without these files, or without permission, earlier values are unknown, too.
    let account = file("schedstat").ok().and_then(|text| account(&text));
    task.cpu_ns = account.map_or(task.cpu_ns, |(cpu, _)| cpu);
    task.run_delay_ns = account.map(|(_, waited)| waited);
    task.migrations = file("sched").ok().and_then(|text| migrations(&text));
    true
}

/// Waits until a thread that is about to sleep does.
pub(crate) fn wait_for_sleep(tid: u32) {
    for _ in 0..1000 {
        let Ok(status) = fs::read_to_string(format!("/proc/self/task/{tid}/status")) else { return };
        if status.lines().any(|line| line.starts_with("State:\tS")) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

fn switches(status: &str) -> (u64, u64) {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    (field("voluntary_ctxt_switches"), field("nonvoluntary_ctxt_switches"))
}

/// CPU time and run delay of `/proc/PID/schedstat`, nanoseconds. None if the kernel keeps no such account: `0 0 0`,
/// though the thread has run.
fn account(schedstat: &str) -> Option<(u64, u64)> {
    let fields: Vec<u64> = schedstat.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [cpu, waited, turns] = fields[..] else { return None };
    (turns > 0).then_some((cpu, waited))
}

fn migrations(sched: &str) -> Option<u64> {
    let line = sched.lines().find(|line| line.trim_start().starts_with("se.nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t34\n";
        assert_eq!(switches(status), (12, 34));
        let sched = "x (1, #threads: 1)\n---\nse.nr_migrations                             :                    7\n";
        assert_eq!(migrations(sched), Some(7));
        assert_eq!((switches(""), migrations("")), ((0, 0), None));
        assert_eq!(account("123 456 7\n"), Some((123, 456)));
    }

    /// A kernel without schedstats has the file with zeros.
    #[test]
    fn accounts_that_the_kernel_does_not_keep_are_not_read() {
        for text in ["0 0 0\n", "", "garbage", "1 2"] {
            assert_eq!(account(text), None, "{text}");
        }
    }

    /// Values of `/proc` are between two readings of the thread itself.
    #[test]
    fn both_ways_agree() {
        std::thread::spawn(|| {
            // A sleep that ends before the thread leaves the CPU is no switch.
            while own_switches().is_some_and(|(voluntary, _)| voluntary < 7) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let mut before = TaskMeasured { tid, ..TaskMeasured::default() };
            read_at_end(&mut before);
            let mut read = before.clone();
            read_own(&mut read);
            let mut after = read.clone();
            read_at_end(&mut after);
            assert!((before.voluntary..=after.voluntary).contains(&read.voluntary), "{before:?} {read:?} {after:?}");
            assert!((before.cpu_ns..=after.cpu_ns).contains(&read.cpu_ns), "{before:?} {read:?} {after:?}");
            assert!(read.voluntary >= 7 && read.cpu_ns > 0, "{read:?}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn this_thread_has_run() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut task = TaskMeasured { tid, ..TaskMeasured::default() };
        read_own(&mut task);
        assert!(task.cpu_ns > 0, "{task:?}");
        assert!(!read(u32::MAX / 4, &mut task), "no such thread");
    }
}

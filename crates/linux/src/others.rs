//! What else this machine does: every task that is not of the workload, by the kernel's own account of it.
//!
//! `/proc/PID/task/TID/schedstat` tells how long a thread has had a CPU and how often it got one; two looks tell what came between. Getting a
//! CPU stands for a wakeup: that a task was preempted, and had one more turn for that, cannot be told apart. A task that both began and ended
//! between the looks is not seen, and those of SCHED_DEADLINE are left out.

use std::collections::{BTreeMap, BTreeSet};

use procfs::process::{Process, Schedstat, Task, all_processes};
use vruntime_workload::program::Policy;
use vruntime_workload::resident::{Resident, average};

use crate::hogs::Machine;
use crate::{sys, work};

/// All tasks at one time.
#[derive(Debug)]
pub(crate) struct Look {
    at: u64,
    seen: BTreeMap<i32, Schedstat>,
    /// CPUs that are online.
    online: BTreeSet<u32>,
}

impl Look {
    /// What there is now.
    pub(crate) fn now() -> Self {
        let mut seen = BTreeMap::new();
        each_task(|task| {
            if let Ok(account) = task.schedstat() {
                seen.insert(task.tid, account);
            }
        });
        // What looking takes is not of what comes between two looks.
        seen.extend(this_thread());
        let online = Machine::this().online;
        Self { at: work::now(), seen, online }
    }

    /// What has run since, but for the tasks that are `ours` (process, thread). None if the kernel keeps no such accounts (no schedstats):
    /// this thread itself would have had no CPU then.
    pub(crate) fn since(&self, ours: &dyn Fn(i32, i32) -> bool) -> Option<Vec<Resident>> {
        let (this, own) = this_thread().filter(|(_, account)| account.pcount > 0)?;
        let elapsed = work::now().saturating_sub(self.at);
        let mut found = Vec::new();
        each_task(|task| {
            let account = if task.tid == this { Some(own.clone()) } else { task.schedstat().ok() };
            if let Some(account) = account.filter(|_| !ours(task.pid, task.tid)) {
                found.extend(self.of(task, &account, elapsed));
            }
        });
        // Workers of one CPU's pool stand in for each other, and look alike.
        let mut found = average(&[found]);
        found.sort_by(|a, b| b.taken().total_cmp(&a.taken()).then_with(|| a.name.cmp(&b.name)));
        Some(found)
    }

    /// What that task did in `elapsed` nanoseconds, if anything, when its account says `now`.
    fn of(&self, task: &Task, now: &Schedstat, elapsed: u64) -> Option<Resident> {
        let (ran, times) = self.seen.get(&task.tid).map_or((0, 0), |seen| (seen.sum_exec_runtime, seen.pcount));
        let (ran, times) = (now.sum_exec_runtime.saturating_sub(ran), now.pcount.saturating_sub(times));
        if ran == 0 || times == 0 {
            return None;
        }
        let (stat, status) = (task.stat().ok()?, task.status().ok()?);
        let priority = stat.rt_priority.unwrap_or(0) as u8;
        let nice = stat.nice as i8;
        let policy = match stat.policy.unwrap_or(0) {
            sys::SCHED_OTHER => Policy::Other { nice, slice: None },
            sys::SCHED_BATCH => Policy::Batch { nice, slice: None },
            sys::SCHED_IDLE => Policy::Idle,
            sys::SCHED_FIFO => Policy::Fifo { priority },
            sys::SCHED_RR => Policy::RoundRobin { priority },
            _ => return None,
        };
        // The thread that migrates others is the stop class's, which is simulated with what it is called for.
        if stat.comm.starts_with("migration/") {
            return None;
        }
        let allowed = status.cpus_allowed_list?;
        let may_run = |cpu: &&u32| allowed.iter().any(|(first, last)| (first..=last).contains(cpu));
        let cpus: Vec<u32> = self.online.iter().filter(may_run).copied().collect();
        if cpus.is_empty() {
            return None;
        }
        let all = cpus.len() == self.online.len();
        let resident = Resident {
            name: pool(&stat.comm).to_owned(),
            policy,
            cpus: (!all).then_some(cpus),
            period: (elapsed / times).max(1),
            work: ran / times,
        };
        Some(resident)
    }
}

/// The calling thread's id and account. What it has run since it got the CPU is brought into the account by asking for its time.
fn this_thread() -> Option<(i32, Schedstat)> {
    let this = rustix::thread::gettid().as_raw_nonzero().get();
    let _now = work::cpu_time();
    let account = Process::myself().and_then(|process| process.task_from_tid(this)?.schedstat());
    Some((this, account.ok()?))
}

/// A name without what a kworker did last: `kworker/0:1-events` is of the pool `kworker/0`.
fn pool(name: &str) -> &str {
    if name.starts_with("kworker/") { name.split(':').next().unwrap_or(name) } else { name }
}

/// Every thread that there is. Those that end meanwhile are left out.
fn each_task(mut visit: impl FnMut(&Task)) {
    let processes = all_processes().into_iter().flatten().flatten();
    for process in processes {
        for task in process.tasks().into_iter().flatten().flatten() {
            visit(&task);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::skip;

    #[test]
    fn workers_of_a_pool_have_one_name() {
        assert_eq!(pool("kworker/0:1H-kblockd"), "kworker/0");
        assert_eq!(pool("kworker/u8:3-events"), "kworker/u8");
        assert_eq!(pool("a:b"), "a:b");
    }

    /// A thread that wakes every 5 ms to compute for 1 ms is seen as that, and is not if it is ours.
    #[test]
    fn what_another_thread_did_is_seen() {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let asked = stop.clone();
        let body = move || {
            while !asked.load(std::sync::atomic::Ordering::Relaxed) {
                let until = work::now() + 1_000_000;
                while work::now() < until {}
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let other = std::thread::Builder::new().name("vr-other".to_owned()).spawn(body).unwrap();
        let before = Look::now();
        std::thread::sleep(Duration::from_millis(300));
        let seen = before.since(&|_, _| false);
        let not_ours = before.since(&|pid, _| pid == std::process::id() as i32);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        other.join().unwrap();
        let Some(seen) = seen else {
            skip::skip("this kernel has no schedstats");
            return;
        };
        let found = seen.iter().find(|resident| resident.name == "vr-other").unwrap_or_else(|| panic!("{seen:?}"));
        // It sleeps 5 ms at least; what it works is cut where something else preempts it.
        assert!(found.work <= 5_000_000 && (100_000..300_000_000).contains(&found.period), "{found:?}");
        // It was born with this thread's, which is not 0 under `nice`.
        let nice = rustix::process::getpriority_process(None).unwrap() as i8;
        assert_eq!(found.policy, Policy::Other { nice, slice: None });
        assert!(!not_ours.unwrap().iter().any(|resident| resident.name == "vr-other"));
        assert!(seen.is_sorted_by(|a, b| a.taken() >= b.taken()), "{seen:?}");
    }
}

//! CPU time of all tasks outside the workload.
//!
//! `/proc/PID/task/TID/schedstat` has a thread's CPU time and number of turns. Turns count as wakeups, since
//! preemptions are indistinguishable. SCHED_DEADLINE tasks are omitted, and ended tasks have no account. Their time
//! is what `/proc/stat` has beyond all accounts.

use std::collections::{BTreeMap, BTreeSet};

use procfs::process::{Process, Schedstat, Task, all_processes};
use procfs::{CurrentSI, KernelStats};
use vruntime_workload::program::Policy;
use vruntime_workload::resident::{Resident, average};

use crate::hogs::Machine;
use crate::{sys, work};

#[derive(Debug)]
pub(crate) struct Look {
    at: u64,
    /// Threads' accounts and reading times, since reading all takes long on a busy machine.
    seen: BTreeMap<i32, (u64, Schedstat)>,
    /// Idle time of all CPUs together, nanoseconds.
    idle: Option<u64>,
    online: BTreeSet<u32>,
}

impl Look {
    pub(crate) fn now() -> Self {
        let mut seen = BTreeMap::new();
        each_task(|task| {
            if let Ok(account) = task.schedstat() {
                seen.insert(task.tid, (work::now(), account));
            }
        });
        // Exclude the cost of reading.
        seen.extend(this_thread().map(|(this, account)| (this, (work::now(), account))));
        let online = Machine::this().online;
        Self { at: work::now(), seen, idle: idle(), online }
    }

    /// Returns the tasks that ran since, except `ours` (process, thread).
    pub(crate) fn since(&self, ours: &dyn Fn(i32, i32) -> bool) -> Others {
        // Idle time is read outermost on both sides.
        let idle = idle().zip(self.idle).map(|(now, before)| now.saturating_sub(before));
        let elapsed = work::now().saturating_sub(self.at).max(1);
        let busy = idle.map(|idle| self.online.len() as f64 - idle as f64 / elapsed as f64);
        Others { residents: self.residents(ours), busy, elapsed }
    }

    /// Returns the tasks with CPU time; None without accounts (schedstats): even this thread's CPU time is missing.
    fn residents(&self, ours: &dyn Fn(i32, i32) -> bool) -> Option<Vec<Resident>> {
        let (this, own) = this_thread().filter(|(_, account)| account.pcount > 0)?;
        let asked = work::now();
        let mut found = Vec::new();
        each_task(|task| {
            let account = if task.tid == this { Some(own.clone()) } else { task.schedstat().ok() };
            if let Some(account) = account.filter(|_| !ours(task.pid, task.tid)) {
                let at = if task.tid == this { asked } else { work::now() };
                found.extend(self.of(task, &account, at));
            }
        });
        // Workers of one CPU's pool are interchangeable.
        let mut found = average(&[found]);
        found.sort_by(|a, b| b.taken().total_cmp(&a.taken()).then_with(|| a.name.cmp(&b.name)));
        Some(found)
    }

    /// Returns a task's work since the earlier reading; `now` is its account at `at`.
    fn of(&self, task: &Task, now: &Schedstat, at: u64) -> Option<Resident> {
        let seen = self.seen.get(&task.tid);
        let (from, ran, times) = seen.map_or((self.at, 0, 0), |(at, seen)| (*at, seen.sum_exec_runtime, seen.pcount));
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
        // The migration threads are of the stop class, which is simulated.
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
            period: (at.saturating_sub(from) / times).max(1),
            work: ran / times,
        };
        Some(resident)
    }
}

#[derive(Debug)]
pub(crate) struct Others {
    /// None without accounts.
    pub(crate) residents: Option<Vec<Resident>>,
    busy: Option<f64>,
    elapsed: u64,
}

impl Others {
    /// Returns CPUs neither idle nor used by residents or for `known` nanoseconds: by ended tasks, interrupts, or a
    /// host. None without idle time.
    pub(crate) fn unseen(&self, known: u64) -> Option<f64> {
        let residents: f64 = self.residents.iter().flatten().map(Resident::taken).sum();
        Some((self.busy? - residents - known as f64 / self.elapsed as f64).max(0.0))
    }
}

/// Returns this thread's id and account, updated by reading its CPU clock.
fn this_thread() -> Option<(i32, Schedstat)> {
    let this = rustix::thread::gettid().as_raw_nonzero().get();
    let _now = work::cpu_time();
    let account = Process::myself().and_then(|process| process.task_from_tid(this)?.schedstat());
    Some((this, account.ok()?))
}

/// Idle time of all CPUs since boot, nanoseconds, to 10 ms.
fn idle() -> Option<u64> {
    let total = KernelStats::current().ok()?.total;
    let idle = total.idle_duration() + total.iowait_duration().unwrap_or_default();
    u64::try_from(idle.as_nanos()).ok()
}

/// Removes a kworker's last work: `kworker/0:1-events` is of the pool `kworker/0`.
fn pool(name: &str) -> &str {
    if name.starts_with("kworker/") { name.split(':').next().unwrap_or(name) } else { name }
}

/// Visits every thread that does not end meanwhile.
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

    /// Returns a unique name, since other processes may run these tests.
    fn own_name(word: &str) -> String {
        format!("{word}-{}", std::process::id())
    }

    /// A thread waking every 5 ms for 1 ms of work is seen, unless ours.
    #[test]
    fn what_another_thread_did_is_seen() {
        const ROUNDS: u64 = 40;
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let rounds = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let (asked, counted) = (stop.clone(), rounds.clone());
        let body = move || {
            while !asked.load(std::sync::atomic::Ordering::Relaxed) {
                counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let until = work::now() + 1_000_000;
                while work::now() < until {}
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let other = std::thread::Builder::new().name(own_name("other")).spawn(body).unwrap();
        let began = work::now();
        let before = Look::now();
        let from = rounds.load(std::sync::atomic::Ordering::Relaxed);
        while rounds.load(std::sync::atomic::Ordering::Relaxed) < from + ROUNDS {
            std::thread::sleep(Duration::from_millis(5));
        }
        let seen = before.since(&|_, _| false);
        let (elapsed, seen) = (work::now() - began, seen.residents);
        let not_ours = before.since(&|pid, _| pid == std::process::id() as i32).residents;
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        other.join().unwrap();
        let Some(seen) = seen else {
            skip::skip("this kernel has no schedstats");
            return;
        };
        let found =
            seen.iter().find(|resident| resident.name == own_name("other")).unwrap_or_else(|| panic!("{seen:?}"));
        // It sleeps at least 5 ms, and preemption cuts its work. A sleep that ends before the thread leaves the CPU is
        // none, so half of the rounds suffice.
        let longest = elapsed / (ROUNDS / 2);
        assert!(found.work <= 5_000_000 && (100_000..=longest).contains(&found.period), "{found:?} of {elapsed}");
        // Inherited from this thread; not 0 under `nice`.
        let nice = rustix::process::getpriority_process(None).unwrap() as i8;
        assert_eq!(found.policy, Policy::Other { nice, slice: None });
        assert!(!not_ours.unwrap().iter().any(|resident| resident.name == own_name("other")));
        assert!(seen.is_sorted_by(|a, b| a.taken() >= b.taken()), "{seen:?}");
    }

    #[test]
    fn unaccounted_time_is_busy_time_minus_all_accounts() {
        let resident = |period, work| {
            let policy = Policy::Other { nice: 0, slice: None };
            Resident { name: "d".to_owned(), policy, cpus: None, period, work }
        };
        let residents = Some(vec![resident(10_000_000, 2_500_000), resident(1_000_000, 500_000)]);
        let others = Others { residents, busy: Some(1.5), elapsed: 200_000_000 };
        assert_eq!(others.unseen(0), Some(0.75));
        assert_eq!(others.unseen(50_000_000), Some(0.5));
        assert_eq!(others.unseen(200_000_000), Some(0.0), "accounts are finer than the idle time");
        assert_eq!(Others { busy: None, ..others }.unseen(0), None);
    }

    /// The test does not subtract residents: their accounts are read at slightly different times.
    #[test]
    fn what_ended_meanwhile_is_not_forgotten() {
        const WORKED_NS: u64 = 200_000_000;
        let before = Look::now();
        let body = || {
            while work::cpu_time() < WORKED_NS {}
            rustix::thread::gettid().as_raw_nonzero().get()
        };
        let tid = std::thread::Builder::new().name(own_name("gone")).spawn(body).unwrap().join().unwrap();
        // A joined thread is listed until it has left the CPU for good.
        while std::path::Path::new(&format!("/proc/self/task/{tid}")).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let seen = before.since(&|_, _| false);
        let Some(busy) = seen.busy else {
            skip::skip("this kernel does not tell how long CPUs were idle");
            return;
        };
        assert!(!seen.residents.iter().flatten().any(|resident| resident.name == own_name("gone")));
        // Idle time has a resolution of 10 ms in each reading.
        let took = busy * seen.elapsed as f64;
        assert!(took >= WORKED_NS as f64 / 2.0, "{took} of {}", seen.elapsed);
    }
}

//! What this machine's kernel takes for what the simulator charges: switches, wakeups, interrupts, ticks, migrations.
//!
//! Every figure is the median of many rounds, with the threads pinned, so that what else the machine does now and then
//! does not matter. What cannot be told apart from outside is divided by a rule that is written where it is applied.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::thread::futex::{self, Flags};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::ClockId;

use crate::error::Error;
use crate::host::{self, Host};
use crate::sys::{self, SchedAttr};
use crate::work;

/// One cost: its name in the simulator, nanoseconds, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredCost {
    /// As `--set` takes it.
    pub name: &'static str,
    /// Nanoseconds.
    pub ns: u64,
    /// In a few words.
    pub how: &'static str,
}

/// A machine as the simulator wants it.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// What the kernel tells.
    pub host: Host,
    /// What was measured.
    pub costs: Vec<MeasuredCost>,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
}

/// Rounds of each measurement.
const ROUNDS: usize = 4000;
/// Of those that take a millisecond each.
const SLEEPS: usize = 400;

/// Measures. Takes about three seconds.
///
/// # Errors
/// When the kernel does not let threads or pipes be made.
pub fn calibrate() -> Result<Calibration, Error> {
    let mut notes = Vec::new();
    let host = host::describe();
    let cpus = allowed();
    let first = cpus.first().copied().unwrap_or(0);
    let other = cpus.iter().copied().find(|&cpu| cpu != first);
    pin(first);
    let mut costs: Vec<MeasuredCost> = Vec::new();
    let mut cost = |name, ns: u64, how| costs.push(MeasuredCost { name, ns, how });

    let pipe = Pipe::new()?;
    let small = pipe.to_myself(1);
    let large = pipe.to_myself(32 << 10);
    let syscall = small / 2;
    let per_kib = large.saturating_sub(small) / 64;
    cost("syscall_ns", syscall, "half of writing a byte to a pipe and reading it back");
    cost("pipe_ns_per_kib", per_kib, "the same with 32 KiB, less the calls, for each KiB moved");

    // The way back cannot be seen by itself: two thirds of the way in, as in the simulator's own profiles.
    let back = syscall * 2 / 3;
    cost("syscall_return_ns", back, "two thirds of syscall_ns, by assumption");
    // What a message to the same CPU takes beyond the calls is wakeup and switch; their sum is what counts.
    let rest = ping_pong(first, first)?.saturating_sub(2 * syscall + back);
    let wakeup = wakeup(first).min(rest / 2);
    cost(
        "wakeup_ns",
        wakeup,
        "waking 32 sleeping SCHED_IDLE threads with one futex call, for each; at most half of the next's total",
    );
    let switch = rest - wakeup;
    cost(
        "switch_ns",
        switch,
        "a message to a thread on the same CPU and a switch to it, less two calls, return and wakeup",
    );

    if let Some(other) = other {
        let idle = ping_pong(first, other)?;
        let path = 2 * syscall + wakeup + switch + back;
        let busy = wake_busy(first, other);
        let ipi = busy.saturating_sub(syscall + wakeup + switch + back);
        cost(
            "ipi_latency_ns",
            ipi * 2 / 3,
            "two thirds of waking a thread that preempts another on another CPU, less the rest",
        );
        cost("ipi_ns", ipi / 3, "the other third");
        cost("idle_exit_ns", idle.saturating_sub(path + ipi), "the same with that CPU idle, beyond it");
    } else {
        notes.push("there is one CPU: what interrupts to another take was not measured".to_owned());
    }

    let late = late(first);
    if let Some((least, mean)) = late {
        // A timer's interrupt that wakes a thread, and the switch to it.
        let timer = least.saturating_sub(wakeup + switch + back);
        cost("timer_ns", timer, "how late a sleep returns at least on a busy CPU, less wakeup, switch and return");
        cost("irq_jitter_ns", mean - least, "how much later it returns on average");
    }
    if let Some(tick) = tick(first, host.hz) {
        cost("tick_ns", tick, "what a computing thread loses at each tick");
    } else {
        notes.push("no gaps at the ticks' distance were found: tick_ns is left as it is".to_owned());
    }
    if let Some(other) = other {
        cost(
            "migration_ns",
            migration(first, other),
            "reading 64 KiB on another CPU than the last time, beyond reading them again",
        );
    }
    cost("fork_ns", fork(), "making a thread");
    cost("mem_ns_per_kib", memory(), "writing 4 MiB of memory");
    unpin(&cpus);
    Ok(Calibration { host, costs, notes })
}

fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

fn pin(cpu: usize) {
    unpin(&[cpu]);
}

fn unpin(cpus: &[usize]) {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu);
    }
    // Among the CPUs allowed: only their going offline makes this fail, and then the figures are those of another CPU.
    let _pinned = sched_setaffinity(None, &set);
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// A pipe both ends of which are ours.
#[derive(Debug)]
struct Pipe(crate::objects::Pipe);

impl Pipe {
    fn new() -> Result<Self, Error> {
        let made = crate::objects::Pipe::new(1 << 16);
        made.map(Self).map_err(|source| Error::Io { what: "cannot make a pipe".to_owned(), path: None, source })
    }

    /// Median time of writing and reading a message by oneself.
    fn to_myself(&self, bytes: usize) -> u64 {
        let (stop, mut message) = (AtomicBool::new(false), vec![0; bytes]);
        let mut once = || {
            let began = work::now();
            let _done = self.0.write(&message, &stop).and_then(|()| self.0.read(&mut message, &stop));
            work::now() - began
        };
        median((0..ROUNDS).map(|_| once()).collect())
    }
}

/// Median time one way between threads of two CPUs (or one).
fn ping_pong(here: usize, there: usize) -> Result<u64, Error> {
    let (to, from) = (Arc::new(Pipe::new()?), Arc::new(Pipe::new()?));
    let echo = {
        let (to, from) = (to.clone(), from.clone());
        thread::spawn(move || {
            pin(there);
            let (stop, mut byte) = (AtomicBool::new(false), [0]);
            for _ in 0..ROUNDS {
                let _echoed = to.0.read(&mut byte, &stop).and_then(|()| from.0.write(&byte, &stop));
            }
        })
    };
    pin(here);
    let (stop, mut byte) = (AtomicBool::new(false), [0]);
    let times = (0..ROUNDS).map(|_| {
        let began = work::now();
        let _sent = to.0.write(&byte, &stop).and_then(|()| from.0.read(&mut byte, &stop));
        (work::now() - began) / 2
    });
    let times = median(times.collect());
    let _ended = echo.join();
    Ok(times)
}

/// A thread that waits on a word until it changes, over and over, and says when it was back.
struct Waiter {
    word: Arc<AtomicU32>,
    back: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Waiter {
    fn new(cpu: usize, attr: SchedAttr) -> Self {
        let (word, back) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (word, back, over) = (word.clone(), back.clone(), over.clone());
            thread::spawn(move || {
                pin(cpu);
                // Without root a negative nice value is refused: then it competes as an equal.
                let _set = sys::set_attr(0, attr);
                while !over.load(Ordering::SeqCst) {
                    let value = word.load(Ordering::SeqCst);
                    let _woken = futex::wait(&word, Flags::PRIVATE, value, None);
                    back.store(work::now(), Ordering::SeqCst);
                }
            })
        };
        Self { word, back, over, thread: Some(thread) }
    }

    /// Wakes it; when that began, and when the call returned.
    fn wake(&self) -> (u64, u64) {
        self.word.fetch_add(1, Ordering::SeqCst);
        let began = work::now();
        let _woken = futex::wake(&self.word, Flags::PRIVATE, 1);
        (began, work::now())
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Median time of waking a thread of the same CPU that does not preempt the waker, one of many.
fn wakeup(cpu: usize) -> u64 {
    const WAITERS: usize = 32;
    let word = Arc::new(AtomicU32::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let waiter = || {
        let (word, over) = (word.clone(), over.clone());
        thread::spawn(move || {
            pin(cpu);
            let _set = sys::set_attr(0, SchedAttr { policy: sys::SCHED_IDLE, ..SchedAttr::default() });
            while !over.load(Ordering::SeqCst) {
                let value = word.load(Ordering::SeqCst);
                let _woken = futex::wait(&word, Flags::PRIVATE, value, None);
            }
        })
    };
    let waiters: Vec<_> = (0..WAITERS).map(|_| waiter()).collect();
    let wake = || {
        word.fetch_add(1, Ordering::SeqCst);
        let began = work::now();
        let woken = futex::wake(&word, Flags::PRIVATE, WAITERS as u32).unwrap_or(0);
        (work::now() - began, woken)
    };
    let mut times = Vec::new();
    for _ in 0..SLEEPS {
        // They run while this sleeps, and wait again.
        thread::sleep(Duration::from_micros(500));
        let (took, woken) = wake();
        if woken > WAITERS / 2 {
            times.push(took / woken as u64);
        }
    }
    over.store(true, Ordering::SeqCst);
    wake();
    for waiter in waiters {
        while !waiter.is_finished() {
            wake();
            thread::sleep(Duration::from_micros(100));
        }
        let _ended = waiter.join();
    }
    median(times)
}

/// Median time from waking a thread of another CPU, where it preempts one that computes, to its running.
fn wake_busy(here: usize, there: usize) -> u64 {
    let over = Arc::new(AtomicBool::new(false));
    let hog = {
        let over = over.clone();
        thread::spawn(move || {
            pin(there);
            let _set = sys::set_attr(0, SchedAttr { policy: sys::SCHED_IDLE, ..SchedAttr::default() });
            while !over.load(Ordering::Relaxed) {}
        })
    };
    pin(here);
    let waiter = Waiter::new(there, SchedAttr::default());
    let times: Vec<u64> = (0..SLEEPS)
        .map(|_| {
            thread::sleep(Duration::from_micros(200));
            let (began, _) = waiter.wake();
            while waiter.back.load(Ordering::SeqCst) < began {
                std::hint::spin_loop();
            }
            waiter.back.load(Ordering::SeqCst) - began
        })
        .collect();
    drop(waiter);
    over.store(true, Ordering::Relaxed);
    let _ended = hog.join();
    median(times)
}

/// How late short sleeps return on a CPU that an idle-class thread keeps busy: the least (a tenth is below), and the mean of the lower
/// nine tenths; none if they do not.
fn late(cpu: usize) -> Option<(u64, u64)> {
    let over = Arc::new(AtomicBool::new(false));
    let hog = {
        let over = over.clone();
        thread::spawn(move || {
            pin(cpu);
            let _set = sys::set_attr(0, SchedAttr { policy: sys::SCHED_IDLE, ..SchedAttr::default() });
            while !over.load(Ordering::Relaxed) {}
        })
    };
    let _shortest = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut times: Vec<u64> = (0..SLEEPS)
        .map(|_| {
            let due = work::now() + 500_000;
            let _slept = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &work::timespec(due));
            work::now().saturating_sub(due)
        })
        .collect();
    let _default = rustix::thread::set_current_timer_slack(None);
    over.store(true, Ordering::Relaxed);
    let _ended = hog.join();
    times.sort_unstable();
    let nine = &times[..times.len() * 9 / 10];
    let least = *nine.get(nine.len() / 10)?;
    Some((least, (nine.iter().sum::<u64>() / nine.len() as u64).max(least)))
}

/// What is lost at each tick: the median of the longest gap in each period of the tick.
fn tick(cpu: usize, hz: u32) -> Option<u64> {
    const PERIODS: u64 = 200;
    pin(cpu);
    let period = 1_000_000_000 / u64::from(hz.max(1));
    let mut longest = vec![0; PERIODS as usize];
    let began = work::now();
    let (mut last, mut usual) = (began, u64::MAX);
    loop {
        let now = work::now();
        let Some(slot) = longest.get_mut(((now - began) / period) as usize) else { break };
        *slot = (now - last).max(*slot);
        usual = usual.min(now - last);
        last = now;
    }
    let gap = median(longest).saturating_sub(usual);
    // Below this it is the loop itself: the CPU has no tick while it runs one thread (NO_HZ_FULL).
    (gap > 200).then_some(gap)
}

/// How much longer reading 64 KiB takes on another CPU than the one that has read them last.
fn migration(one: usize, other: usize) -> u64 {
    let buffer = vec![1_u8; 64 << 10];
    let read = || {
        let began = work::now();
        let sum = buffer.iter().step_by(64).fold(0_u64, |sum, &byte| sum + u64::from(byte));
        std::hint::black_box(sum);
        work::now() - began
    };
    let extra = (0..200).map(|round| {
        pin(if round % 2 == 0 { one } else { other });
        let cold = read();
        cold.saturating_sub(read())
    });
    let extra = median(extra.collect());
    pin(one);
    extra
}

/// Median time of making a thread.
fn fork() -> u64 {
    let times = (0..200).map(|_| {
        let began = work::now();
        let made = thread::spawn(|| {});
        let took = work::now() - began;
        let _ended = made.join();
        took
    });
    median(times.collect())
}

/// Nanoseconds for each KiB of memory written in order.
fn memory() -> u64 {
    const KIB: u64 = 4096;
    let mut buffer = vec![0_u8; (KIB << 10) as usize];
    let times = (0..50_u8).map(|value| {
        let began = work::now();
        buffer.fill(value);
        std::hint::black_box(&mut buffer);
        work::now() - began
    });
    median(times.collect()) / KIB
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_of_a_machine() {
        let calibration = calibrate().expect("threads and pipes can be made");
        let of = |name: &str| calibration.costs.iter().find(|cost| cost.name == name).map(|cost| cost.ns);
        // Bounds that hold on anything from a workstation to an emulator that shares its CPU with a compiler.
        for name in ["syscall_ns", "wakeup_ns", "fork_ns", "mem_ns_per_kib"] {
            let ns = of(name).unwrap_or_else(|| panic!("{name}: {calibration:?}"));
            assert!(ns < 100_000_000, "{name} {ns}");
        }
        assert!(of("syscall_ns") > Some(10), "{calibration:?}");
    }
}

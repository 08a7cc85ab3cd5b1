//! The measurements: new pinned threads for each, and many equal rounds.
//!
//! No measurement can wait forever. Each ends after about [`BUDGET`], with fewer rounds on a busy machine.

use std::cell::Cell;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::futex::{self, Flags};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::ClockId;

use super::Stalls;
use crate::error::Error;
use crate::run::STACK;
use crate::stat::own_switches;
use crate::sys::{self, SchedAttr};
use crate::urgent::Urgent;
use crate::work;

const ROUNDS: usize = 4000;
/// Rounds that fill sockets.
const CROWDS: usize = 50;
/// Sleeps of each round.
const SLEEPS: usize = 400;
/// Threads to create, and their distance.
const FORKS: usize = 200;
const BETWEEN_FORKS: Duration = Duration::from_millis(2);
/// Nanoseconds.
const BUDGET: u64 = 1_000_000_000;
/// Of one size of a working set, nanoseconds.
const MIGRATION_BUDGET: u64 = 500_000_000;
/// When an unanswered wakeup counts as lost, nanoseconds.
const LOST: u64 = 30_000_000_000;

/// Divisors of rounds and budget for brief measurements.
const BRIEF: (usize, u64) = (8, 16);

thread_local! {
    static BRIEFLY: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn briefly<T>(measure: impl FnOnce() -> T) -> T {
    BRIEFLY.set(true);
    let found = measure();
    BRIEFLY.set(false);
    found
}

fn effort(rounds: usize, budget: u64) -> (usize, u64) {
    if BRIEFLY.get() { ((rounds / BRIEF.0).max(1), budget / BRIEF.1) } else { (rounds, budget) }
}

pub(super) fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

pub(super) fn pin(cpu: usize) {
    unpin(&[cpu]);
}

pub(super) fn unpin(cpus: &[usize]) {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu);
    }
    // Fails only if the CPU went offline; then the figures are those of another CPU.
    let _pinned = sched_setaffinity(None, &set);
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

/// Returns the lower nine tenths, sorted (brief: quarter), at least one value.
fn lower(values: Vec<u64>) -> Vec<u64> {
    // A brief measurement precedes a recording, when the machine may be busy.
    if BRIEFLY.get() { lowest(values, 25) } else { lowest(values, 90) }
}

/// This part of the values, percent, sorted; at least one value.
pub(super) fn lowest(mut values: Vec<u64>, percent: usize) -> Vec<u64> {
    values.sort_unstable();
    values.truncate((values.len() * percent / 100).max(1));
    values
}

/// Returns the mean of the lower nine tenths. A median would ignore occasional slow rounds, as after virtual CPUs'
/// sleep.
fn typical(values: Vec<u64>) -> u64 {
    mean(&lower(values))
}

pub(super) fn mean(values: &[u64]) -> u64 {
    values.iter().sum::<u64>().checked_div(values.len() as u64).unwrap_or(0)
}

/// Results of `rounds` rounds, or as the budget allows; at least one.
fn sample(rounds: usize, once: impl FnMut() -> Option<u64>) -> Vec<u64> {
    sample_within(BUDGET, rounds, once)
}

fn sample_within(budget: u64, rounds: usize, mut once: impl FnMut() -> Option<u64>) -> Vec<u64> {
    let (rounds, budget) = effort(rounds, budget);
    let until = work::now() + budget;
    let mut got = Vec::with_capacity(rounds.min(ROUNDS));
    for _ in 0..rounds {
        got.extend(once());
        if work::now() >= until {
            break;
        }
    }
    got
}

/// A pipe or socket with both ends.
#[derive(Debug)]
pub(super) struct Pipe(crate::objects::Pipe);

impl Pipe {
    pub(super) fn new() -> Result<Self, Error> {
        let made = crate::objects::Pipe::new(1 << 16);
        made.map(Self).map_err(|cause| Error::Io { what: "cannot make a pipe".to_owned(), path: None, cause })
    }

    pub(super) fn socket() -> Result<Self, Error> {
        let made = crate::objects::Pipe::socket();
        made.map(Self).map_err(|cause| Error::Io { what: "cannot make a socket".to_owned(), path: None, cause })
    }

    fn write(&self, message: &[u8]) {
        // Nothing stops these; an error would be the kernel's.
        let _wrote = self.0.write(message, &AtomicU32::new(0));
    }

    fn read(&self, message: &mut [u8]) {
        let _read = self.0.read(message, &AtomicU32::new(0));
    }

    /// Time to write and read a message in one thread.
    pub(super) fn to_myself(&self, bytes: usize) -> u64 {
        let mut message = vec![0; bytes];
        typical(sample(ROUNDS, || {
            let began = work::now();
            self.write(&message);
            self.read(&mut message);
            Some(work::now() - began)
        }))
    }
}

/// As [`Pipe::to_myself`], with `count` messages in each of `pipes`.
pub(super) fn crowded(pipes: &[Pipe], bytes: usize, count: usize) -> u64 {
    let mut message = vec![0; bytes];
    typical(sample(CROWDS, || {
        let began = work::now();
        // As hackbench's senders do: one to each in turn.
        (0..count).for_each(|_| pipes.iter().for_each(|pipe| pipe.write(&message)));
        for pipe in pipes {
            (0..count).for_each(|_| pipe.read(&mut message));
        }
        (work::now() - began).checked_div((pipes.len() * count) as u64)
    }))
}

fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().spawn(body)
}

fn refused(cause: io::Error) -> Error {
    Error::Fork { what: "cannot make a thread to measure with", cause }
}

/// Runs `measure` beside a sleeping thread, as a workload's tasks. With two threads, system calls check which may
/// close their file.
pub(super) fn beside_a_thread<T>(measure: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let (go_on, wait) = mpsc::channel::<()>();
    // Ends with an error, since nothing is sent.
    let other = spawn(move || wait.recv().is_err()).map_err(refused)?;
    let found = measure();
    drop(go_on);
    let _ended = other.join();
    found
}

/// Time of a message's hop round threads on `cpus`, which may repeat.
pub(super) fn ring(cpus: &[usize]) -> Result<u64, Error> {
    // The wakeup of a virtual CPU alternates between two or more speeds, each for a while. So this uses the whole
    // budget.
    let one_cpu = cpus.iter().all(|cpu| *cpu == cpus[0]);
    let times = hops(cpus, if one_cpu { ROUNDS } else { usize::MAX }, Priority::Usual)?;
    // The caller has found the other CPU free: few tasks delay the rounds, and a message wakes the CPU.
    Ok(if one_cpu { typical(times) } else { mean(&lowest(times, 90)) })
}

/// The priority of a measuring thread beside the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Priority {
    Usual,
    /// Other tasks do not delay it, if that is permitted.
    Urgent,
}

/// Returns the time of a hop in each of at most `rounds` rounds of a message between threads on these CPUs.
pub(super) fn hops(cpus: &[usize], rounds: usize, priority: Priority) -> Result<Vec<u64>, Error> {
    const GO_ON: [u8; 1] = [0];
    const LAST: [u8; 1] = [1];
    let count = cpus.len();
    let pipes: Vec<Arc<Pipe>> = (0..count).map(|_| Pipe::new().map(Arc::new)).collect::<Result<_, _>>()?;
    let relay = |at: usize| {
        let (cpu, from, to) = (cpus[at], pipes[at].clone(), pipes[(at + 1) % count].clone());
        spawn(move || {
            pin(cpu);
            let _urgent = (priority == Priority::Urgent).then(Urgent::take);
            let mut byte = GO_ON;
            while byte == GO_ON {
                from.read(&mut byte);
                to.write(&byte);
            }
        })
    };
    let relays: Vec<_> = (1..count).map(relay).collect::<Result<_, _>>().map_err(refused)?;
    pin(cpus[0]);
    let round = |message: [u8; 1]| {
        let mut byte = message;
        let began = work::now();
        pipes[1 % count].write(&byte);
        pipes[0].read(&mut byte);
        (work::now() - began) / count as u64
    };
    let times = sample(rounds, || Some(round(GO_ON)));
    round(LAST);
    for relay in relays {
        let _ended = relay.join();
    }
    Ok(times)
}

/// One-way time to process `cat` on the same CPU; None without it.
pub(super) fn ping_pong_process(cpu: usize) -> Option<u64> {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    // A child inherits the caller's affinity.
    pin(cpu);
    let mut cat =
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let (mut to, mut from) = (cat.stdin.take()?, cat.stdout.take()?);
    // A `cat` that keeps its input would be waited for forever.
    let mut byte = [0];
    let ready = |from: &_| poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&work::timespec(BUDGET)));
    let answers =
        to.write_all(&byte).is_ok() && ready(&from).is_ok_and(|ready| ready > 0) && from.read_exact(&mut byte).is_ok();
    let mut round = || {
        let began = work::now();
        to.write_all(&byte).and_then(|()| from.read_exact(&mut byte)).ok().map(|()| (work::now() - began) / 2)
    };
    let times = if answers { sample(ROUNDS, &mut round) } else { Vec::new() };
    let _ended = cat.kill().and_then(|()| cat.wait());
    (!times.is_empty()).then(|| typical(times))
}

/// A thread computing under SCHED_IDLE, so any task preempts it.
struct Hog {
    over: Arc<AtomicBool>,
    /// CPU time, nanoseconds, without gaps between clock readings.
    worked: Arc<AtomicU64>,
    tid: u32,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// None if the kernel refuses a thread.
    fn new(cpu: usize) -> Option<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let worked = Arc::new(AtomicU64::new(0));
        let (tell, receiver) = mpsc::channel();
        let thread = {
            let (over, worked) = (over.clone(), worked.clone());
            spawn(move || {
                pin(cpu);
                let _set = sys::set_attr(0, SchedAttr { policy: sys::SCHED_IDLE, ..SchedAttr::default() });
                let _sent = tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32);
                let gap = work::gap();
                let (mut last, mut sum) = (work::now(), 0);
                while !over.load(Ordering::Relaxed) {
                    let now = work::now();
                    if now - last < gap {
                        sum += now - last;
                        worked.store(sum, Ordering::Relaxed);
                    }
                    last = now;
                }
            })
        };
        // The calling thread, if the hog is gone: setting its own policy changes nothing.
        let thread = Some(thread.ok()?);
        Some(Self { over, worked, tid: receiver.recv().unwrap_or(0), thread })
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Beside other computing tasks, a SCHED_IDLE thread would notice only seconds later.
        let _set = sys::set_attr(self.tid, SchedAttr { policy: sys::SCHED_OTHER, ..SchedAttr::default() });
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// Whether a CPU has nothing to run for most of the time: a SCHED_IDLE thread gets it.
pub(super) fn is_free(cpu: usize) -> bool {
    const TIME: Duration = Duration::from_millis(10);
    const MOST: u64 = 3; // quarters
    let Some(hog) = Hog::new(cpu) else { return false };
    let (worked, begun) = (hog.worked.load(Ordering::Relaxed), work::now());
    thread::sleep(TIME);
    let (worked, passed) = (hog.worked.load(Ordering::Relaxed) - worked, work::now() - begun);
    worked * 4 >= passed * MOST
}

/// A thread that repeatedly waits for a word's changes, and reports returns.
///
/// It compares with its last answer, never a later value, so early wakeups are not lost.
struct Waiter {
    word: Arc<AtomicU32>,
    answer: Arc<Answer>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The value a [`Waiter`] saw, and when.
#[derive(Default)]
struct Answer {
    value: AtomicU32,
    at: AtomicU64,
}

impl Waiter {
    /// None if the kernel refuses a thread.
    fn new(cpu: usize) -> Option<Self> {
        Self::with(cpu, || ())
    }

    /// A real-time thread, which runs at once. None without permission.
    fn urgent(cpu: usize) -> Option<Self> {
        let (tell, receiver) = mpsc::channel();
        let this = Self::with(cpu, move || {
            let attr = SchedAttr { policy: sys::SCHED_FIFO, priority: 1, ..SchedAttr::default() };
            let _sent = tell.send(sys::set_attr(0, attr).is_ok());
        })?;
        receiver.recv().unwrap_or(false).then_some(this)
    }

    fn with(cpu: usize, begin: impl FnOnce() + Send + 'static) -> Option<Self> {
        let (word, answer) = (Arc::new(AtomicU32::new(0)), Arc::new(Answer::default()));
        let over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (word, answer, over) = (word.clone(), answer.clone(), over.clone());
            spawn(move || {
                pin(cpu);
                begin();
                let mut seen = 0;
                while !over.load(Ordering::SeqCst) {
                    let _woken = futex::wait(&word, Flags::PRIVATE, seen, None);
                    let at = work::now();
                    let value = word.load(Ordering::SeqCst);
                    if value != seen {
                        seen = value;
                        answer.at.store(at, Ordering::SeqCst);
                        answer.value.store(value, Ordering::SeqCst);
                    }
                }
            })
        };
        Some(Self { word, answer, over, thread: Some(thread.ok()?) })
    }

    /// Changes the word and wakes the thread. Returns the value, and the time before.
    fn wake(&self) -> (u32, u64) {
        let began = work::now();
        let value = self.word.fetch_add(1, Ordering::SeqCst).wrapping_add(1);
        let _woken = futex::wake(&self.word, Flags::PRIVATE, 1);
        (value, began)
    }

    /// Returns the time to answer a wakeup; None after [`LOST`].
    fn round(&self) -> Option<u64> {
        let (value, began) = self.wake();
        while self.answer.value.load(Ordering::SeqCst) != value {
            if work::now() - began > LOST {
                return None;
            }
            std::hint::spin_loop();
        }
        Some(self.answer.at.load(Ordering::SeqCst).saturating_sub(began))
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

/// Time to wake one of a CPU's many threads without preemption. None if refused, or never all asleep.
pub(super) fn wakeup(here: usize, there: usize) -> Option<u64> {
    const WAITERS: usize = 32;
    // An idle CPU would need an interrupt.
    let _busy = if here == there { None } else { Some(Hog::new(there)?) };
    pin(here);
    let word = Arc::new(AtomicU32::new(0));
    let over = Arc::new(AtomicBool::new(false));
    let waiter = || {
        let (word, over) = (word.clone(), over.clone());
        spawn(move || {
            pin(there);
            let _set = sys::set_attr(0, SchedAttr { policy: sys::SCHED_BATCH, ..SchedAttr::default() });
            let mut seen = 0;
            while !over.load(Ordering::SeqCst) {
                let _woken = futex::wait(&word, Flags::PRIVATE, seen, None);
                seen = word.load(Ordering::SeqCst);
            }
        })
    };
    let waiters: Vec<_> = (0..WAITERS).map_while(|_| waiter().ok()).collect();
    let wake = || {
        word.fetch_add(1, Ordering::SeqCst);
        let began = work::now();
        let woken = futex::wake(&word, Flags::PRIVATE, WAITERS as u32).unwrap_or(0);
        (work::now() - began, woken)
    };
    let times = sample(SLEEPS, || {
        // They run during this sleep, and wait again.
        thread::sleep(Duration::from_micros(500));
        let (took, woken) = wake();
        (woken > WAITERS / 2).then(|| took / woken as u64)
    });
    over.store(true, Ordering::SeqCst);
    wake();
    for waiter in waiters {
        let _ended = waiter.join();
    }
    (!times.is_empty()).then(|| typical(times))
}

/// Time to wake another CPU's thread that preempts a computing one. `lazy` preemption needs real-time threads; None
/// without permission.
pub(super) fn wake_busy(here: usize, there: usize, lazy: bool) -> Option<u64> {
    let _hog = Hog::new(there)?;
    pin(here);
    let waiter = if lazy { Waiter::urgent(there)? } else { Waiter::new(there)? };
    Some(typical(sample(SLEEPS, || {
        thread::sleep(Duration::from_micros(200));
        waiter.round()
    })))
}

/// Cost of a short sleep on a CPU kept busy under SCHED_IDLE, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    /// How late it returns: the lowest tenth.
    pub(super) least_late: u64,
    /// The mean of the lower nine tenths.
    pub(super) mean_late: u64,
    /// CPU time charged to the sleeper.
    pub(super) own: u64,
    /// What the other thread loses beyond that.
    pub(super) other: u64,
}

/// Returns the timer slack of the calling thread, nanoseconds, unless it has none.
pub(super) fn timer_slack() -> Option<NonZeroU64> {
    rustix::thread::current_timer_slack().ok().and_then(NonZeroU64::new)
}

/// Measures sleeps. `slack`, and `tick`, the cost of a tick, are nanoseconds. None if sleeps do not return.
pub(super) fn sleep(cpu: usize, tick: u64, hz: u32, slack: NonZeroU64) -> Option<Sleep> {
    let hog = Hog::new(cpu)?;
    let before = timer_slack();
    let _slack = rustix::thread::set_current_timer_slack(Some(slack));
    // Warm-up: the first time is not counted.
    let once = || {
        let due = work::now() + 500_000;
        let _slept = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &work::timespec(due));
        Some(work::now().saturating_sub(due))
    };
    once();
    let (began, own, worked) = (work::now(), work::cpu_time(), hog.worked.load(Ordering::Relaxed));
    let times = sample(SLEEPS, once);
    // The hog has recorded its work whenever it has the CPU, as at the end of a sleep.
    let (passed, own) = (work::now() - began, work::cpu_time() - own);
    let worked = hog.worked.load(Ordering::Relaxed) - worked;
    let _before = rustix::thread::set_current_timer_slack(before);
    let count = times.len() as u64;
    let ticks = passed * u64::from(hz) / 1_000_000_000 * tick;
    let times = lower(times);
    let least_late = *times.get(times.len() / 10)?;
    Some(Sleep {
        least_late,
        mean_late: mean(&times).max(least_late),
        own: own / count,
        other: passed.saturating_sub(worked + own + ticks) / count,
    })
}

/// Median lateness of an idle CPU's sleep without slack. None if one never returns.
pub(super) fn idle_sleep(cpu: usize, asleep: u64) -> Option<u64> {
    /// Budget in nanoseconds, and the most sleeps.
    const WITHIN: (u64, usize) = (400_000_000, 200);
    pin(cpu);
    let before = timer_slack();
    let _slack = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
    let times = sample_within(WITHIN.0, WITHIN.1, || {
        let due = work::now() + asleep;
        let _slept = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &work::timespec(due));
        Some(work::now().saturating_sub(due))
    });
    let _before = rustix::thread::set_current_timer_slack(before);
    (!times.is_empty()).then(|| median(times))
}

/// Cost of a tick: the median of its periods' longest gaps.
pub(super) fn tick(cpu: usize, hz: u32) -> Option<u64> {
    const PERIODS: usize = 200;
    pin(cpu);
    let period = 1_000_000_000 / u64::from(hz.max(1));
    let (periods, _) = effort(PERIODS, BUDGET);
    let mut longest = vec![0; periods];
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
    // Below this it is the loop itself: with one thread the CPU has no tick (NO_HZ_FULL).
    (gap > 200).then_some(gap)
}

/// Computes on `cpus` for `spin`. Returns gaps above `least` nanoseconds without a preemption.
pub(super) fn stalls(cpus: &[usize], spin: Duration, least: u64) -> Option<Stalls> {
    let watch = |cpu: usize| {
        spawn(move || {
            pin(cpu);
            let began = work::now();
            let (mut last, mut switches) = (began, own_switches());
            let (mut count, mut total_ns) = (0, 0);
            while last - began < spin.as_nanos() as u64 {
                let now = work::now();
                if now - last > least {
                    let before = std::mem::replace(&mut switches, own_switches());
                    if switches == before {
                        count += 1;
                        total_ns += now - last;
                    }
                    // Do not count the query itself.
                    last = work::now();
                } else {
                    last = now;
                }
            }
            Stalls { count, total_ns, watched_ns: last - began }
        })
    };
    let threads: Vec<_> = cpus.iter().map(|&cpu| watch(cpu)).collect();
    let all = threads.into_iter().filter_map(|thread| thread.ok()?.join().ok()).fold(
        Stalls { count: 0, total_ns: 0, watched_ns: 0 },
        |sum, one| Stalls {
            count: sum.count + one.count,
            total_ns: sum.total_ns + one.total_ns,
            watched_ns: sum.watched_ns + one.watched_ns,
        },
    );
    (all.count > 0).then_some(all)
}

/// Medians of reading `bytes`: extra time on another CPU than the last reader's, and of a repetition.
pub(super) fn migration(one: usize, other: usize, bytes: usize) -> (u64, u64) {
    let buffer = vec![1_u8; bytes];
    let read = || {
        let began = work::now();
        let sum = buffer.iter().step_by(64).fold(0_u64, |sum, &byte| sum + u64::from(byte));
        std::hint::black_box(sum);
        work::now() - began
    };
    let mut here = false;
    let mut again = Vec::new();
    let extra = sample_within(MIGRATION_BUDGET, 200, || {
        here = !here;
        pin(if here { one } else { other });
        let cold = read();
        let warm = read();
        again.push(warm);
        Some(cold.saturating_sub(warm))
    });
    pin(one);
    (median(extra), median(again))
}

/// Median CPU time to create a thread after a sleep, with cold caches and, as in runs, a new stack.
pub(super) fn fork() -> u64 {
    let mut made = Vec::with_capacity(FORKS);
    let times = sample(FORKS, || {
        thread::sleep(BETWEEN_FORKS);
        let began = work::cpu_time();
        let child = thread::Builder::new().stack_size(STACK).spawn(|| {});
        let took = work::cpu_time() - began;
        made.push(child.ok()?);
        Some(took)
    });
    for child in made {
        let _ended = child.join();
    }
    median(times)
}

/// Nanoseconds to write a KiB of memory in order.
pub(super) fn memory() -> u64 {
    const KIB: u64 = 4096;
    let mut buffer = vec![0_u8; (KIB << 10) as usize];
    let mut value = 0_u8;
    let times = sample(50, || {
        value = value.wrapping_add(1);
        let began = work::now();
        buffer.fill(value);
        std::hint::black_box(&mut buffer);
        Some(work::now() - began)
    });
    median(times) / KIB
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wakes before the waiter sleeps, as where threads get the CPU late.
    #[test]
    fn no_wakeup_is_lost() {
        let waiter = Waiter::new(allowed()[0]).unwrap();
        for _ in 0..20_000 {
            waiter.round().expect("it answers");
        }
    }
}

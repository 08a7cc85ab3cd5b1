//! Measures the simulator's costs: switches, wakeups, interrupts, ticks, migrations.
//!
//! Each figure is the mean of many rounds' lower nine tenths, or their median, without rare other work. Inseparable
//! costs are divided by a rule stated in place.

mod kthreads;
mod probes;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use vruntime_workload::resident::Resident;

use crate::error::Error;
use crate::host::{self, Host};
use crate::others::Look;
use kthreads::Account;

/// One cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredCost {
    /// The simulator's name, as in `--set`.
    pub name: &'static str,
    /// Nanoseconds.
    pub ns: u64,
    /// How it was measured, for display.
    pub how: &'static str,
}

/// Migration cost of a working set of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MigrationCost {
    /// Bytes.
    pub bytes: usize,
    /// Extra time to read it away from its last reader's CPU, nanoseconds.
    pub extra_ns: u64,
    /// Time to read it again, nanoseconds.
    pub again_ns: u64,
}

/// The cost of leaving a long idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleExit {
    /// The least idle time, nanoseconds.
    pub after_ns: u64,
    /// Nanoseconds beyond `idle_exit_ns`.
    pub extra_ns: u64,
}

/// Stalls of computing threads without a preemption, by long interrupts or a virtual machine's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalls {
    /// Number of stalls, at least 1.
    pub count: u64,
    /// Their sum, nanoseconds.
    pub total_ns: u64,
    /// Observed time, summed over CPUs, nanoseconds.
    pub watched_ns: u64,
}

/// Lateness of sleeps with a timer slack, on a busy CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerSlack {
    /// The slack, nanoseconds.
    pub ns: u64,
    /// The lowest tenth, nanoseconds.
    pub least_late_ns: u64,
    /// The mean of the lower nine tenths, nanoseconds.
    pub mean_late_ns: u64,
}

/// A machine, in the simulator's terms.
#[derive(Clone, Debug, Default)]
pub struct Calibration {
    /// What the kernel reports.
    pub host: Host,
    /// The measured costs.
    pub costs: Vec<MeasuredCost>,
    /// Migration costs by increasing working set; empty with one CPU.
    pub migrations: Vec<MigrationCost>,
    /// Costs of leaving idleness, by idle time, where above shorter times'.
    pub idle_exits: Vec<IdleExit>,
    /// Lateness with the slack of this process (`PR_GET_TIMERSLACK`), and with the shortest. Empty if sleeps did not
    /// return.
    pub timer_slacks: Vec<TimerSlack>,
    /// Stalls of the CPUs, if there were any.
    pub stalls: Option<Stalls>,
    /// Other tasks without load, by decreasing CPU time. None without kernel accounts.
    pub residents: Option<Vec<Resident>>,
    /// What could not be measured, and why.
    pub notes: Vec<String>,
}

/// From a core's smallest cache to beyond most caches.
const WORKING_SETS: [usize; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Sleeps for measuring an idle CPU's lateness, nanoseconds.
const IDLE_FOR: [u64; 6] = [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000];
/// Smaller differences are noise, nanoseconds.
const IDLE_NOISE: u64 = 2000;
/// A message through a socket, as hackbench's, bytes.
const MESSAGE: usize = 100;
/// Sockets of a crowd, as of a hackbench sender, each three quarters full.
const SOCKETS: usize = 20;
const UNREAD: usize = 200;
/// The working set of the simulator's cost.
const SIMULATED_SET: usize = 64 << 10;

/// Rounds between a CPU's two threads, in repeated measurements.
const NEIGHBOURS: usize = 500;

/// How long computing CPUs are observed for stalls.
const SPIN: Duration = Duration::from_millis(2500);
/// Minimum stall, in tick costs and in nanoseconds.
const STALL_TICKS: u64 = 4;
const STALL_LEAST: u64 = 100_000;
/// How long other tasks are observed.
const WATCH: Duration = Duration::from_secs(5);
/// Other tasks' CPUs above which a machine is busy; daemons take a few percent.
const BUSY: f64 = 0.1;
const ASK: Duration = Duration::from_secs(1);

/// Measures for about 15 seconds. Calls `stop` between measurements, and ends if it returns true.
///
/// # Errors
/// If threads or pipes are refused, or `stop` returns true.
pub fn calibrate(stop: &dyn Fn() -> bool) -> Result<Calibration, Error> {
    let host = host::describe();
    let cpus = Cpus::take();
    let mut this = Measuring::new(stop);
    let path = probes::beside_a_thread(|| this.one_cpu(cpus.first))?;
    match cpus.other {
        Some(other) => this.two_cpus(cpus.first, other, path, host.preempt.as_deref() == Some("lazy"))?,
        None => this.notes.push("there is one CPU: interrupts to another CPU were not measured".to_owned()),
    }
    this.time(cpus.first, host.hz, path)?;
    this.memory(cpus.first, cpus.other, &WORKING_SETS)?;
    let stalls = this.stalls(&cpus)?;
    drop(cpus);
    let residents = this.besides()?;
    let Measuring { costs, migrations, idle_exits, timer_slacks, notes, .. } = this;
    Ok(Calibration { host, costs, migrations, idle_exits, timer_slacks, stalls, residents, notes })
}

/// Measures for half a second: an eighth of the rounds, one working set, no stalls, idle states or other tasks.
///
/// # Errors
/// As [`calibrate`].
pub fn calibrate_briefly(stop: &dyn Fn() -> bool) -> Result<Calibration, Error> {
    let host = host::describe_all();
    let cpus = Cpus::take();
    let mut this = Measuring::new(stop);
    probes::briefly(|| {
        let path = probes::beside_a_thread(|| this.one_cpu(cpus.first))?;
        if let Some(other) = cpus.other {
            this.two_cpus(cpus.first, other, path, host.preempt.as_deref() == Some("lazy"))?;
        }
        this.timers(cpus.first, host.hz, path)?;
        this.memory(cpus.first, cpus.other, &[SIMULATED_SET])
    })?;
    let Measuring { costs, migrations, timer_slacks, notes, .. } = this;
    Ok(Calibration { host, costs, migrations, timer_slacks, notes, ..Calibration::default() })
}

/// Returns the CPU of [`messages_to_a_neighbour`].
pub(crate) fn first_cpu() -> usize {
    probes::allowed().first().copied().unwrap_or(0)
}

/// Sends messages to another thread of the first CPU, before all other tasks if that is permitted. Returns the time of
/// each, switch included, nanoseconds; two messages have one time.
pub(crate) fn messages_to_a_neighbour() -> Result<Vec<u64>, Error> {
    let cpus = Cpus::take();
    probes::hops(&[cpus.first; 2], NEIGHBOURS, probes::Priority::Urgent)
}

/// Returns the mean of the fastest tenth.
pub(crate) fn fastest(times: Vec<u64>) -> u64 {
    probes::mean(&probes::lowest(times, 10))
}

/// The measured CPUs. Dropping it restores the calling thread's affinity.
struct Cpus {
    all: Vec<usize>,
    first: usize,
    other: Option<usize>,
}

impl Cpus {
    fn take() -> Self {
        let all = probes::allowed();
        let first = all.first().copied().unwrap_or(0);
        let other = all.iter().copied().find(|&cpu| cpu != first);
        probes::pin(first);
        Self { all, first, other }
    }
}

impl Drop for Cpus {
    fn drop(&mut self) {
        probes::unpin(&self.all);
    }
}

/// The parts of a wakeup on one CPU, nanoseconds.
#[derive(Clone, Copy)]
struct Path {
    syscall: u64,
    back: u64,
    wakeup: u64,
    switch: u64,
}

impl Path {
    /// From the wakeup's end to the woken thread's first instruction.
    fn woken(self) -> u64 {
        self.wakeup + self.switch + self.back
    }
}

struct Measuring<'a> {
    stop: &'a dyn Fn() -> bool,
    costs: Vec<MeasuredCost>,
    migrations: Vec<MigrationCost>,
    idle_exits: Vec<IdleExit>,
    timer_slacks: Vec<TimerSlack>,
    notes: Vec<String>,
}

impl<'a> Measuring<'a> {
    fn new(stop: &'a dyn Fn() -> bool) -> Self {
        Self {
            stop,
            costs: Vec::new(),
            migrations: Vec::new(),
            idle_exits: Vec::new(),
            timer_slacks: Vec::new(),
            notes: crate::clean(),
        }
    }

    fn cost(&mut self, name: &'static str, ns: u64, how: &'static str) {
        self.costs.push(MeasuredCost { name, ns, how });
    }

    fn go_on(&self) -> Result<(), Error> {
        if (self.stop)() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn one_cpu(&mut self, cpu: usize) -> Result<Path, Error> {
        let pipe = probes::Pipe::new()?;
        let small = pipe.to_myself(1);
        let large = pipe.to_myself(32 << 10);
        let syscall = small / 2;
        let per_kib = large.saturating_sub(small) / 64;
        self.cost("syscall_ns", syscall, "half of writing a byte to a pipe and reading it back");
        self.cost("pipe_ns_per_kib", per_kib, "the same with 32 KiB, less the calls, for each KiB moved");
        let sockets: Vec<_> = (0..SOCKETS).map(|_| probes::Pipe::socket()).collect::<Result<_, _>>()?;
        let socket = sockets[0].to_myself(MESSAGE);
        self.cost(
            "socket_ns",
            socket.saturating_sub(pipe.to_myself(MESSAGE)) / 2,
            "half of the time to write and read a message of hackbench with a socket, beyond the time with a pipe",
        );
        self.cost(
            "cold_socket_ns",
            probes::crowded(&sockets, MESSAGE, UNREAD).saturating_sub(socket) / 2,
            "the same with 200 messages in each of 20 sockets, beyond one message in one socket",
        );
        // The way back cannot be measured: two thirds of the way in, as in the simulator's profiles.
        let back = syscall * 2 / 3;
        self.cost("syscall_return_ns", back, "two thirds of syscall_ns, by assumption");
        self.go_on()?;
        // A message to the same CPU costs, beyond the calls, wakeup and switch; only their sum matters.
        let to_thread = probes::ring(&[cpu; 2])?;
        let rest = to_thread.saturating_sub(2 * syscall + back);
        self.go_on()?;
        match probes::ping_pong_process(cpu) {
            Some(to_process) => self.cost(
                "mm_switch_ns",
                to_process.saturating_sub(to_thread),
                "a message to a process (cat) on the same CPU, beyond one to a thread there",
            ),
            None => self.notes.push("there is no `cat`: mm_switch_ns keeps its value".to_owned()),
        }
        self.go_on()?;
        self.cost(
            "cold_switch_ns",
            probes::ring(&[cpu; 8])?.saturating_sub(to_thread),
            "a hop of a message round eight threads on one CPU, beyond one between two",
        );
        self.go_on()?;
        let wakeup = probes::wakeup(cpu, cpu).map_or(rest / 2, |wakeup| wakeup.min(rest / 2));
        self.cost(
            "wakeup_ns",
            wakeup,
            "waking 32 sleeping SCHED_BATCH threads with one futex call, for each; at most half of the next's total",
        );
        let switch = rest - wakeup;
        self.cost(
            "switch_ns",
            switch,
            "a message to a thread on the same CPU and a switch to it, less two calls, return and wakeup",
        );
        self.go_on()?;
        Ok(Path { syscall, back, wakeup, switch })
    }

    fn two_cpus(&mut self, here: usize, there: usize, path: Path, lazy: bool) -> Result<(), Error> {
        match (probes::wakeup(here, here), probes::wakeup(here, there)) {
            (Some(near), Some(far)) => {
                self.cost("wakeup_far_ns", far.saturating_sub(near), "waking threads of another CPU, beyond wakeup_ns");
            }
            _ => {
                self.notes.push("threads that were to be woken never slept: wakeup_far_ns keeps its value".to_owned());
            }
        }
        self.go_on()?;
        // Beside other tasks, the message's reader would preempt instead of waking the CPU.
        let idle = if probes::is_free(there) { Some(probes::ring(&[here, there])?) } else { None };
        self.go_on()?;
        let Some(busy) = probes::wake_busy(here, there, lazy) else {
            self.notes.push(
                "preemption is lazy, and no real-time thread may be created: interrupts to another CPU were not measured"
                    .to_owned(),
            );
            return self.go_on();
        };
        let ipi = busy.saturating_sub(path.syscall + path.woken());
        self.cost(
            "ipi_latency_ns",
            ipi * 2 / 3,
            "two thirds of waking a thread that preempts another on another CPU, less the rest",
        );
        self.cost("ipi_ns", ipi / 3, "the other third");
        match idle {
            Some(idle) => self.cost(
                "idle_exit_ns",
                idle.saturating_sub(2 * path.syscall + path.woken() + ipi),
                "waking a thread of another CPU that is idle, beyond waking it where it preempts",
            ),
            None => self.notes.push(format!("CPU {there} was not idle: idle_exit_ns was not measured")),
        }
        self.go_on()
    }

    fn time(&mut self, cpu: usize, hz: u32, path: Path) -> Result<(), Error> {
        match self.timers(cpu, hz, path)? {
            Some(busy) => self.idle_exits(cpu, busy),
            None => Ok(()),
        }
    }

    /// Measures a busy CPU's ticks and sleeps. Returns mean lateness.
    fn timers(&mut self, cpu: usize, hz: u32, path: Path) -> Result<Option<u64>, Error> {
        let tick = probes::tick(cpu, hz);
        match tick {
            Some(tick) => self.cost("tick_ns", tick, "time that a computing thread loses at each tick"),
            None => self.notes.push("no ticks were detected: tick_ns keeps its value".to_owned()),
        }
        self.go_on()?;
        let measured = |slack| probes::sleep(cpu, tick.unwrap_or(0), hz, slack);
        let own = probes::timer_slack().and_then(|slack| Some((slack, measured(slack)?)));
        self.go_on()?;
        let Some(sleep) = measured(NonZeroU64::MIN) else {
            self.notes.push("sleeps did not return: timers were not measured".to_owned());
            return self.go_on().map(|()| None);
        };
        self.timer_slacks = own
            .into_iter()
            .chain([(NonZeroU64::MIN, sleep)])
            .map(|(slack, sleep)| TimerSlack {
                ns: slack.get(),
                least_late_ns: sleep.least_late,
                mean_late_ns: sleep.mean_late,
            })
            .collect();
        self.cost(
            "timer_arm_ns",
            sleep.own.saturating_sub(path.syscall + path.switch + path.back),
            "cost of a sleep on the sleeper's CPU clock, beyond call, switch and return",
        );
        // The interrupt with the wakeup, and the switch back.
        let timer = sleep.other.saturating_sub(path.switch);
        self.cost("timer_ns", timer, "cost for the thread that has the CPU meanwhile, less a switch");
        self.cost(
            "irq_latency_ns",
            sleep.least_late.saturating_sub(timer + path.switch + path.back),
            "how late it returns at least, beyond interrupt, switch and return",
        );
        self.cost("irq_jitter_ns", sleep.mean_late - sleep.least_late, "how much later it returns on average");
        self.go_on()?;
        Ok(Some(sleep.mean_late))
    }

    /// Measures an idle CPU's sleeps, later than a busy one's by `idle_exit_ns` or more.
    fn idle_exits(&mut self, cpu: usize, busy: u64) -> Result<(), Error> {
        let Some(shallow) = self.costs.iter().find(|cost| cost.name == "idle_exit_ns").map(|cost| cost.ns) else {
            return Ok(());
        };
        for after_ns in IDLE_FOR {
            let Some(late) = probes::idle_sleep(cpu, after_ns) else { continue };
            let extra_ns = late.saturating_sub(busy + shallow);
            let before = self.idle_exits.last().map_or(0, |exit| exit.extra_ns);
            if extra_ns >= before + IDLE_NOISE {
                self.idle_exits.push(IdleExit { after_ns, extra_ns });
            }
            self.go_on()?;
        }
        Ok(())
    }

    fn stalls(&self, cpus: &Cpus) -> Result<Option<Stalls>, Error> {
        let tick = self.costs.iter().find(|cost| cost.name == "tick_ns").map_or(0, |cost| cost.ns);
        let watched: Vec<usize> = [Some(cpus.first), cpus.other].into_iter().flatten().collect();
        let found = probes::stalls(&watched, SPIN, STALL_LEAST.max(STALL_TICKS * tick));
        self.go_on()?;
        Ok(found)
    }

    /// Observes other tasks while this process sleeps.
    fn besides(&mut self) -> Result<Option<Vec<Resident>>, Error> {
        let before = Look::now();
        let begun = Instant::now();
        while let Some(left) = WATCH.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            std::thread::sleep(left.min(ASK));
            self.go_on()?;
        }
        let this = std::process::id() as i32;
        let found = before.since(&|process, _| process == this);
        if found.residents.is_none() {
            self.notes
                .push("the kernel keeps no accounts of tasks (schedstats): its other work was not measured".to_owned());
        }
        let named: f64 = found.residents.iter().flatten().map(Resident::taken).sum();
        self.notes.extend(too_busy(named + found.unseen(0).unwrap_or(0.0)));
        Ok(found.residents)
    }

    fn memory(&mut self, cpu: usize, other: Option<usize>, sets: &[usize]) -> Result<(), Error> {
        if let Some(other) = other {
            for &bytes in sets {
                let (extra_ns, again_ns) = probes::migration(cpu, other, bytes);
                self.migrations.push(MigrationCost { bytes, extra_ns, again_ns });
                if bytes == SIMULATED_SET {
                    self.cost(
                        "migration_ns",
                        extra_ns,
                        "reading 64 KiB on another CPU than the last time, beyond reading them again",
                    );
                }
                self.go_on()?;
            }
        }
        let before = Account::read();
        self.cost("fork_ns", probes::fork(), "making a thread, after a sleep");
        match before.zip(Account::read()).and_then(|(before, after)| after.each_ns(before)) {
            Some(ns) => {
                self.cost("rcu_ns", ns, "CPU time of `rcu_preempt` each time that it ran while threads were made");
            }
            None => self.notes.push("`rcu_preempt` used no CPU time: rcu_ns keeps its value".to_owned()),
        }
        self.cost("mem_ns_per_kib", probes::memory(), "writing 4 MiB of memory");
        self.go_on()
    }
}

/// Returns a note if other tasks used too much CPU (1.0: one CPU) meanwhile.
fn too_busy(taken: f64) -> Option<String> {
    (taken > BUSY).then(|| {
        format!(
            "other tasks used {:.0} % of a CPU during the measurement: the figures may include their work; calibrate again on an idle machine",
            100.0 * taken
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip;

    #[test]
    fn a_machine_that_others_use_is_distinguished_from_an_idle_one() {
        assert_eq!(too_busy(0.03), None, "daemons");
        let note = too_busy(1.2).expect("a compilation");
        assert!(note.starts_with("other tasks used 120 % of a CPU") && note.contains("calibrate again"), "{note}");
    }

    #[test]
    fn costs_are_those_of_a_machine() {
        let calibration = calibrate(&|| false).expect("threads and pipes can be made");
        let of = |name: &str| calibration.costs.iter().find(|cost| cost.name == name).map(|cost| cost.ns);
        // Bounds for anything from a workstation to an emulator that shares its CPU with a compiler.
        for name in ["syscall_ns", "wakeup_ns", "fork_ns", "mem_ns_per_kib"] {
            let ns = of(name).unwrap_or_else(|| panic!("{name}: {calibration:?}"));
            assert!(ns < 100_000_000, "{name} {ns}");
        }
        assert!(of("syscall_ns") > Some(10), "{calibration:?}");
        let (migrations, slacks) = (&calibration.migrations, &calibration.timer_slacks);
        if probes::allowed().len() > 1 {
            assert_eq!(migrations.iter().map(|cost| cost.bytes).collect::<Vec<_>>(), WORKING_SETS);
            let simulated = migrations.iter().find(|cost| cost.bytes == SIMULATED_SET).map(|cost| cost.extra_ns);
            assert_eq!(simulated, of("migration_ns"));
            // Reading a thousand times as much takes longer even on a busy machine.
            assert!(migrations[5].again_ns > migrations[0].again_ns, "{migrations:?}");
        } else {
            skip::skip("one CPU: there are no migrations to measure");
        }
        if let Some(slack) = probes::timer_slack() {
            assert_eq!(slacks.iter().map(|slack| slack.ns).collect::<Vec<_>>(), [slack.get(), 1]);
            assert!(slacks.iter().all(|slack| slack.least_late_ns <= slack.mean_late_ns), "{slacks:?}");
        } else {
            skip::skip("this process has no timer slack: a real-time one has none");
        }
    }

    #[test]
    fn it_stops_when_asked() {
        assert!(matches!(calibrate(&|| true), Err(Error::Interrupted)));
    }
}

//! The kernel's time: switches, interrupts and system calls.

use std::fmt;

use vruntime_sched::kernels::nearest;

use crate::idle::IdleDepth;
use crate::stalls::Stall;

macro_rules! costs {
    ($($(#[$doc:meta])* $name:ident: $zero:expr, $default:expr, $vm:expr, $emulated:expr;)*) => {
        /// The kernel's costs, in nanoseconds unless the name says otherwise. `COSTS.md` beside the crate's manifest
        /// has their sources. No profile is fitted to a scenario.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Costs {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Costs {
            /// The names that [`Costs::set`] knows.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// No costs: only the scheduler's effects remain.
            pub const ZERO: Self = Self { $($name: $zero),* };
            /// A modern server without virtualisation.
            pub const BARE_METAL: Self = Self { $($name: $default),* };
            /// A virtual machine with hardware support (the recordings of Linux 6.18).
            pub const VM: Self = Self { $($name: $vm),* };
            /// A machine emulated in software, QEMU's TCG (the recordings of Linux 6.1 and 6.12).
            pub const EMULATED: Self = Self { $($name: $emulated),* };

            /// Sets the cost `name`, at most to a second.
            ///
            /// # Errors
            ///
            /// If no cost has that name. The error has the nearest.
            ///
            /// ```
            /// let mut costs = vruntime_sim::Costs::default();
            /// costs.set("switch_ns", 1500).unwrap();
            /// assert_eq!(costs.set("swich_ns", 0).unwrap_err().nearest, Some("switch_ns"));
            /// ```
            pub fn set(&mut self, name: &str, value: u64) -> Result<(), UnknownCost> {
                match name {
                    $(stringify!($name) => self.$name = value.min(MAX_COST),)*
                    _ => return Err(UnknownCost::new("cost", name, Self::NAMES)),
                }
                Ok(())
            }

            /// Returns all costs by name, in order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

/// Larger costs are mistakes, and sums never overflow.
const MAX_COST: u64 = 1_000_000_000;

// COSTS.md has the source of the last two columns.
//                          zero  bare metal    vm  emulated
costs! {
    /// From leaving a task to the next one's first instruction: `schedule()`.
    switch_ns:                 0,     900,   700,   4_000;
    /// Additional, with TLB misses, for a switch to another address space. Kernel threads and the idle task have none.
    mm_switch_ns:              0,     300,     130,  34_000;
    /// Additional for a displaced task, whose data has left the first-level cache: whole after three or more other
    /// tasks, half after two.
    cold_switch_ns:            0,       0,       1_150,       0;
    /// The tick: interrupt, accounting, exit.
    tick_ns:                   0,   1_500,  17_000,  95_000;
    /// A high-resolution timer's interrupt that wakes a task.
    timer_ns:                  0,   1_500,   11_500,  70_000;
    /// The shortest time from a timer's expiry to its interrupt.
    irq_latency_ns:            0,       0,       1_200,       0;
    /// The mean additional delay, exponentially distributed.
    irq_jitter_ns:             0,     500,   950,  40_000;
    /// From sending an interrupt to another CPU to its arrival.
    ipi_latency_ns:            0,   1_000,   6_500,  25_000;
    /// Handling an interrupt of another CPU.
    ipi_ns:                    0,     500,   3_300,  12_000;
    /// Leaving the idle state, before an idle CPU handles an interrupt.
    idle_exit_ns:              0,   2_000,   10_500,  32_000;
    /// A system call's entry and work, charged before the task leaves the CPU or wakes another.
    syscall_ns:                0,     300,     260,   2_500;
    /// Additional for a timed sleep: programming the CPU's timer, for which a virtual machine leaves the guest.
    timer_arm_ns:              0,       0,   11_700,  52_000;
    /// Return of a system call that slept, charged when the task has the CPU again.
    syscall_return_ns:         0,     200,   180,   1_800;
    /// `try_to_wake_up`, charged to the waker.
    wakeup_ns:                 0,     500,     610,   3_000;
    /// Additional if the task was last on another CPU: transferring the data of task and queue.
    wakeup_far_ns:             0,       0,       1_260,       0;
    /// Creating a task.
    fork_ns:                   0,  20_000,  23_500, 600_000;
    /// `execve`.
    exec_ns:                   0, 200_000, 400_000, 5_000_000;
    /// Refilling caches in the first run after a migration.
    migration_ns:              0,   5_000,  30,   1_000;
    /// Searching a scheduling domain for tasks to pull.
    balance_ns:                0,     400,     800,   8_000;
    /// Computing the load of a visited group on a CPU. 3.10 visits all groups before it pulls.
    h_load_ns:                 0,      20,      20,     400;
    /// The highest cost of newly-idle balancing in a domain (`max_newidle_lb_cost`). CPUs with shorter idle times skip
    /// it.
    newidle_max_ns:            0,   5_000,  20_000, 300_000;
    /// Initial chance, of 1024, of newly-idle balancing under `NI_RANDOM`: 512 after boot, later the success rate. From
    /// 1024: always.
    newidle_ratio:           512,     512,     237,     512;
    /// Time that an emulator's thread on a host CPU needs for a timer interrupt.
    host_io_ns:                0,       0,     0,  18_000;
    /// Thousandths of the time in which a virtual CPU holds its emulator's lock (QEMU: reads of the time stamp
    /// counter). While the host preempts the holder, all others stop.
    host_lock_permille:        0,       0,     0,     220;
    /// Thousandths that a virtual machine's clock gains on its host's.
    host_drift_permille:       0,       0,     0,      40;
    /// Work of a kernel thread on each CPU, once a second; 0: no such thread.
    kworker_ns:                0,       0,  30_000, 300_000;
    /// Work of `rcu_preempt` at each wakeup for a grace period; 0: no such thread.
    rcu_ns:                    0,       0,  8_800, 130_000;
    /// Moving a KiB through a pipe.
    pipe_ns_per_kib:           0,     100,     66,   4_500;
    /// Additional for a message through a stream socket: the kernel allocates and frees a buffer.
    socket_ns:                 0,       0,       585,       0;
    /// Additional with a thousand unread socket messages, whose buffers have left the second-level cache. Fewer cost a
    /// part.
    cold_socket_ns:            0,       0,       0,       0;
    /// Writing a KiB of memory in order (rt-app `mem`): about 10 GB/s.
    mem_ns_per_kib:          100,     100,     8,   2_900;
    /// An access that hits a cache (rt-app `memrun` with a stride below 64 or a buffer up to 1 MiB).
    mem_hit_ns:                2,       2,       2,      20;
    /// An access that misses every cache (rt-app `memrun` otherwise).
    mem_miss_ns:              80,      80,      80,     100;
    /// CPU time of writing a KiB to a device (rt-app `iorun`): the copy into the page cache.
    io_ns_per_kib:           100,     100,     100,   1_000;
    /// Sleep while the device works on a KiB. 0: `/dev/null`, or a page cache that does not fill, as rt-app's default
    /// `io_device`.
    io_device_ns_per_kib:      0,       0,       0,       0;
}

impl Default for Costs {
    fn default() -> Self {
        Self::BARE_METAL
    }
}

/// Medians of three calibrations (COSTS.md).
const VM_IDLE: &[IdleDepth] = &[
    IdleDepth { after_ns: 300_000, extra_ns: 7_000 },
    IdleDepth { after_ns: 1_000_000, extra_ns: 27_000 },
    IdleDepth { after_ns: 3_000_000, extra_ns: 68_000 },
    IdleDepth { after_ns: 10_000_000, extra_ns: 81_000 },
];

/// Medians of seven calibrations (COSTS.md).
const EMULATED_IDLE: &[IdleDepth] = &[
    IdleDepth { after_ns: 1_000_000, extra_ns: 14_000 },
    IdleDepth { after_ns: 3_000_000, extra_ns: 95_000 },
    IdleDepth { after_ns: 10_000_000, extra_ns: 380_000 },
    IdleDepth { after_ns: 30_000_000, extra_ns: 450_000 },
];

/// From each recording's longest delay (COSTS.md).
const EMULATED_STALLS: Stall = Stall { length_ns: 4_000_000, every_ns: 500_000_000 };

/// The costs of a kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The profile's name.
    pub name: &'static str,
    /// The kernel's costs.
    pub costs: Costs,
    /// See [`MachineSpec::idle_depths`](crate::MachineSpec::idle_depths).
    pub idle_depths: &'static [IdleDepth],
    /// See [`MachineSpec::stalls`](crate::MachineSpec::stalls).
    pub stalls: Option<Stall>,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 4] = [
        Self { name: "zero", costs: Costs::ZERO, idle_depths: &[], stalls: None },
        Self { name: "default", costs: Costs::BARE_METAL, idle_depths: &[], stalls: None },
        Self { name: "vm", costs: Costs::VM, idle_depths: VM_IDLE, stalls: None },
        Self { name: "emulated", costs: Costs::EMULATED, idle_depths: EMULATED_IDLE, stalls: Some(EMULATED_STALLS) },
    ];

    /// Returns the profile `name`.
    ///
    /// # Errors
    ///
    /// If there is none. The error has the nearest.
    pub fn named(name: &str) -> Result<Self, UnknownCost> {
        let found = Self::ALL.into_iter().find(|profile| profile.name == name);
        found.ok_or_else(|| UnknownCost::new("cost profile", name, Costs::PROFILES))
    }
}

impl Costs {
    /// Names of the profiles.
    pub const PROFILES: &'static [&'static str] = &["zero", "default", "vm", "emulated"];

    /// Returns the costs of switches and wakeups.
    pub fn of_switches(&self) -> SwitchCosts {
        let &Self { switch_ns, cold_switch_ns, wakeup_ns, wakeup_far_ns, .. } = self;
        SwitchCosts { switch_ns, cold_switch_ns, wakeup_ns, wakeup_far_ns }
    }

    /// Returns the costs of replays: those of `switches`, which recorded work lacks, latencies of interrupts and idle
    /// states, and values that control the balancer. Recorded work contains the rest.
    ///
    /// The work of an interrupted task contains the handling of another CPU's interrupt, after which the CPU switches.
    /// So a switch is later by [`Self::ipi_ns`]. An idle CPU has that within [`Self::idle_exit_ns`].
    #[must_use]
    pub fn of_replay(&self, switches: SwitchCosts) -> Self {
        let SwitchCosts { switch_ns, cold_switch_ns, wakeup_ns, wakeup_far_ns } = switches;
        Self {
            switch_ns,
            cold_switch_ns,
            wakeup_ns,
            wakeup_far_ns,
            irq_latency_ns: self.irq_latency_ns,
            irq_jitter_ns: self.irq_jitter_ns,
            ipi_latency_ns: self.ipi_latency_ns.saturating_add(self.ipi_ns),
            idle_exit_ns: self.idle_exit_ns.saturating_sub(self.ipi_ns),
            newidle_max_ns: self.newidle_max_ns,
            newidle_ratio: self.newidle_ratio,
            host_lock_permille: self.host_lock_permille,
            host_drift_permille: self.host_drift_permille,
            // For workloads that run beside a recording.
            pipe_ns_per_kib: self.pipe_ns_per_kib,
            mem_ns_per_kib: self.mem_ns_per_kib,
            mem_hit_ns: self.mem_hit_ns,
            mem_miss_ns: self.mem_miss_ns,
            io_ns_per_kib: self.io_ns_per_kib,
            io_device_ns_per_kib: self.io_device_ns_per_kib,
            ..Self::ZERO
        }
    }

    /// Returns the costs of the profile `name`.
    ///
    /// # Errors
    ///
    /// See [`Profile::named`].
    pub fn profile(name: &str) -> Result<Self, UnknownCost> {
        Profile::named(name).map(|profile| profile.costs)
    }
}

/// [`Costs`] of switches and wakeups, nanoseconds. A replay may subtract them from recorded CPU times, and charge them
/// for its own switches and wakeups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCosts {
    /// [`Costs::switch_ns`].
    pub switch_ns: u64,
    /// [`Costs::cold_switch_ns`].
    pub cold_switch_ns: u64,
    /// [`Costs::wakeup_ns`].
    pub wakeup_ns: u64,
    /// [`Costs::wakeup_far_ns`].
    pub wakeup_far_ns: u64,
}

impl SwitchCosts {
    /// Returns the cost of a switch to a task of whose data the cache has [lost](crate::Recent::touch) that many
    /// halves.
    pub fn switch(&self, lost: u64) -> u64 {
        self.switch_ns + self.cold_switch_ns * lost / 2
    }

    /// Returns the cost of a wakeup of a task, which last was on this CPU or `elsewhere`.
    pub fn wakeup(&self, elsewhere: bool) -> u64 {
        self.wakeup_ns + if elsewhere { self.wakeup_far_ns } else { 0 }
    }
}

/// An unknown name of a cost or profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCost {
    /// "cost" or "cost profile".
    pub kind: &'static str,
    /// The name given.
    pub name: String,
    /// The most similar name.
    pub nearest: Option<&'static str>,
    /// All names.
    pub known: &'static [&'static str],
}

impl UnknownCost {
    fn new(kind: &'static str, name: &str, known: &'static [&'static str]) -> Self {
        let nearest = nearest(name, known);
        Self { kind, name: name.to_owned(), nearest, known }
    }
}

impl fmt::Display for UnknownCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no {} `{}`", self.kind, self.name)?;
        self.nearest.map_or(Ok(()), |nearest| write!(f, "; did you mean `{nearest}`?"))
    }
}

impl std::error::Error for UnknownCost {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_can_be_set_and_read_back() {
        let mut costs = Costs::ZERO;
        for (index, name) in Costs::NAMES.iter().enumerate() {
            costs.set(name, 1000 + index as u64).unwrap();
        }
        for (index, (name, value)) in costs.iter().enumerate() {
            assert_eq!((name, value), (Costs::NAMES[index], 1000 + index as u64));
        }
    }

    /// A wakeup of a busy CPU takes what the calibration measured for it, one of an idle CPU no longer.
    #[test]
    fn replays_switch_after_the_handling_of_the_interrupt() {
        let of = |ipi_ns, idle_exit_ns| {
            let costs = Costs { ipi_latency_ns: 7_000, ipi_ns, idle_exit_ns, ..Costs::ZERO };
            let replay = costs.of_replay(SwitchCosts::default());
            (replay.ipi_latency_ns, replay.ipi_ns, replay.idle_exit_ns)
        };
        assert_eq!([of(3_000, 10_000), of(3_000, 0)], [(10_000, 0, 7_000), (10_000, 0, 0)]);
    }

    #[test]
    fn a_wrong_name_gets_the_nearest_right_one() {
        assert_eq!(Costs::profile("emulate").unwrap_err().nearest, Some("emulated"));
        assert_eq!(Costs::profile("qqqqqqqqqqqqqqqq").unwrap_err().nearest, None);
        assert!(Costs::profile("vmm").unwrap_err().to_string().contains("did you mean `vm`?"));
        assert_eq!(Profile::ALL.map(|profile| profile.name), Costs::PROFILES);
    }

    #[test]
    fn an_absurd_cost_is_cut_to_a_second() {
        let mut costs = Costs::ZERO;
        costs.set("tick_ns", u64::MAX).unwrap();
        assert_eq!(costs.tick_ns, 1_000_000_000);
    }
}

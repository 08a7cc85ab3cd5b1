//! What the kernel itself takes: the time that switches, interrupts and system calls keep from the tasks.

use std::fmt;

use vruntime_sched::kernels::nearest;

use crate::idle::IdleDepth;
use crate::stalls::Stall;

macro_rules! costs {
    ($($(#[$doc:meta])* $name:ident: $zero:expr, $default:expr, $vm:expr, $emulated:expr;)*) => {
        /// The kernel's costs. Nanoseconds unless the name says otherwise. [`Costs::set`] sets each field by its name.
        ///
        /// The profiles are estimated or measured once for a kind of machine, never for a scenario. `COSTS.md` beside
        /// the crate's manifest has the source of each figure.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Costs {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Costs {
            /// The names [`Costs::set`] knows.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Nothing costs anything: what remains is the scheduler's own doing.
            pub const ZERO: Self = Self { $($name: $zero),* };
            /// A modern server without virtualisation.
            pub const BARE_METAL: Self = Self { $($name: $default),* };
            /// A virtual machine with hardware support (the recordings of Linux 6.18).
            pub const VM: Self = Self { $($name: $vm),* };
            /// A machine emulated in software, QEMU's TCG (the recordings of Linux 6.1 and 6.12).
            pub const EMULATED: Self = Self { $($name: $emulated),* };

            /// Sets one by its name.
            ///
            /// # Errors
            ///
            /// When nothing has that name; the error holds the nearest one.
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

            /// Every cost by name, in the order of declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

/// A cost above a second is a mistake; sums of costs then never overflow.
const MAX_COST: u64 = 1_000_000_000;

// Where the last two columns come from is in COSTS.md.
//                          zero  bare metal    vm  emulated
costs! {
    /// From leaving one task to the first instruction of the next: `schedule()`.
    switch_ns:                 0,     900,   700,   4_000;
    /// The additional cost of a switch to another address space than the CPU had last, with the TLB misses. Threads of
    /// one process share an address space; kernel threads and the idle task do not change it.
    mm_switch_ns:              0,     300,     130,  34_000;
    /// The additional cost of a switch if at least three other tasks had the CPU since the next one, and half of it if
    /// two had: its data has left the first-level cache.
    cold_switch_ns:            0,       0,       1_150,       0;
    /// The scheduler's tick: interrupt, accounting, exit.
    tick_ns:                   0,   1_500,  17_000,  95_000;
    /// A high-resolution timer's interrupt that wakes a task.
    timer_ns:                  0,   1_500,   11_500,  70_000;
    /// From the moment a timer is due until its interrupt arrives, at least.
    irq_latency_ns:            0,       0,       1_200,       0;
    /// The mean additional delay, exponentially distributed, drawn from the run's seed.
    irq_jitter_ns:             0,     500,   950,  40_000;
    /// From sending an interrupt to another CPU until it arrives.
    ipi_latency_ns:            0,   1_000,   6_500,  25_000;
    /// Handling an interrupt from another CPU.
    ipi_ns:                    0,     500,   3_300,  12_000;
    /// From the arrival of an interrupt at an idle CPU until it handles it: leaving the idle state.
    idle_exit_ns:              0,   2_000,   10_500,  32_000;
    /// A system call's way in and its work, charged before the task leaves the CPU or wakes another.
    syscall_ns:                0,     300,     260,   2_500;
    /// What a sleep until a time takes on top: programming the CPU's timer, for which a virtual machine leaves the
    /// guest.
    timer_arm_ns:              0,       0,   11_700,  52_000;
    /// The way back out of a system call that slept, charged when the task has the CPU again.
    syscall_return_ns:         0,     200,   180,   1_800;
    /// Waking a task: `try_to_wake_up`, charged to the waker.
    wakeup_ns:                 0,     500,     610,   3_000;
    /// The additional cost if the task was last on another CPU: data of the task and of that CPU's queue has to be
    /// transferred.
    wakeup_far_ns:             0,       0,       1_260,       0;
    /// Creating a task.
    fork_ns:                   0,  20_000,  23_500, 600_000;
    /// Loading another program into a task (`execve`).
    exec_ns:                   0, 200_000, 400_000, 5_000_000;
    /// Refilling caches: extra time on the first run after a migration.
    migration_ns:              0,   5_000,  30,   1_000;
    /// Looking for work to pull, for each scheduling domain searched.
    balance_ns:                0,     400,     800,   8_000;
    /// The cost of computing the load of a group on a CPU, for each visited group (3.10 visits all before it pulls):
    /// the cache lines of its queue and its entity, and a division.
    h_load_ns:                 0,      20,      20,     400;
    /// The highest cost of newly-idle balancing in a domain. The kernel skips it on CPUs with shorter idle times
    /// (`max_newidle_lb_cost`).
    newidle_max_ns:            0,   5_000,  20_000, 300_000;
    /// The initial chance of newly-idle balancing under `NI_RANDOM`, of 1024: 512 after boot, later the success rate of
    /// the machine's work; 1024 and more: always.
    newidle_ratio:           512,     512,     237,     512;
    /// What a thread of the emulator's on a CPU of the host's takes for each interrupt of a timer.
    host_io_ns:                0,       0,     0,  18_000;
    /// The thousandths of its time in which a virtual CPU holds a lock of its emulator (QEMU: reads of the time stamp
    /// counter). If the host preempts such a virtual CPU, all others stop until it runs again.
    host_lock_permille:        0,       0,     0,     220;
    /// Thousandths that the clock of a virtual machine gains on its host's.
    host_drift_permille:       0,       0,     0,      40;
    /// What a kernel thread on each CPU works once a second; 0: there is none.
    kworker_ns:                0,       0,  30_000, 300_000;
    /// What `rcu_preempt` works each time that it wakes for a grace period; 0: there is none.
    rcu_ns:                    0,       0,  8_800, 130_000;
    /// Moving a KiB through a pipe.
    pipe_ns_per_kib:           0,     100,     66,   4_500;
    /// The additional cost of a message through a stream socket, relative to a pipe: the kernel allocates and frees a
    /// buffer for each message.
    socket_ns:                 0,       0,       585,       0;
    /// The additional cost while at least a thousand messages in sockets are unread, and a part of it with fewer: their
    /// buffers have left the second-level cache.
    cold_socket_ns:            0,       0,       0,       0;
    /// Writing a KiB of memory in order (rt-app `mem`): about 10 GB/s.
    mem_ns_per_kib:          100,     100,     8,   2_900;
    /// An access that hits a cache (rt-app `memrun` with a stride below 64 or a buffer up to 1 MiB).
    mem_hit_ns:                2,       2,       2,      20;
    /// An access that misses every cache (rt-app `memrun` otherwise).
    mem_miss_ns:              80,      80,      80,     100;
    /// CPU time of writing a KiB to a device (rt-app `iorun`): the copy into the page cache.
    io_ns_per_kib:           100,     100,     100,   1_000;
    /// Time the task sleeps while the device works on a KiB. 0: the device is `/dev/null` or a page cache that does
    /// not fill, as with rt-app's default `io_device`.
    io_device_ns_per_kib:      0,       0,       0,       0;
}

impl Default for Costs {
    fn default() -> Self {
        Self::BARE_METAL
    }
}

/// Medians of three calibrations of the machine of the 6.18 recordings (COSTS.md).
const VM_IDLE: &[IdleDepth] = &[
    IdleDepth { after_ns: 300_000, extra_ns: 7_000 },
    IdleDepth { after_ns: 1_000_000, extra_ns: 27_000 },
    IdleDepth { after_ns: 3_000_000, extra_ns: 68_000 },
    IdleDepth { after_ns: 10_000_000, extra_ns: 81_000 },
];

/// Medians of seven calibrations inside emulated machines of two CPUs (COSTS.md).
const EMULATED_IDLE: &[IdleDepth] = &[
    IdleDepth { after_ns: 1_000_000, extra_ns: 14_000 },
    IdleDepth { after_ns: 3_000_000, extra_ns: 95_000 },
    IdleDepth { after_ns: 10_000_000, extra_ns: 380_000 },
    IdleDepth { after_ns: 30_000_000, extra_ns: 450_000 },
];

/// What the host of the recorded emulated machines took: from the longest delay in each recording (COSTS.md).
const EMULATED_STALLS: Stall = Stall { length_ns: 4_000_000, every_ns: 500_000_000 };

/// What a kind of machine costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// What things cost there.
    pub costs: Costs,
    /// How much longer its CPUs take to leave idleness by how long they have been idle.
    pub idle_depths: &'static [IdleDepth],
    /// How its host keeps CPUs from it now and then, if it does.
    pub stalls: Option<Stall>,
}

impl Profile {
    /// All there are.
    pub const ALL: [Self; 4] = [
        Self { name: "zero", costs: Costs::ZERO, idle_depths: &[], stalls: None },
        Self { name: "default", costs: Costs::BARE_METAL, idle_depths: &[], stalls: None },
        Self { name: "vm", costs: Costs::VM, idle_depths: VM_IDLE, stalls: None },
        Self { name: "emulated", costs: Costs::EMULATED, idle_depths: EMULATED_IDLE, stalls: Some(EMULATED_STALLS) },
    ];

    /// The profile called `name`.
    ///
    /// # Errors
    ///
    /// When there is none; the error holds the nearest one.
    pub fn named(name: &str) -> Result<Self, UnknownCost> {
        let found = Self::ALL.into_iter().find(|profile| profile.name == name);
        found.ok_or_else(|| UnknownCost::new("cost profile", name, Costs::PROFILES))
    }
}

impl Costs {
    /// Names of the profiles.
    pub const PROFILES: &'static [&'static str] = &["zero", "default", "vm", "emulated"];

    /// Returns the costs that a replay charges. Recorded CPU times already contain the kernel's time for switches,
    /// interrupts, system calls, forks and cold caches. What remains is the latency of interrupts and idle states,
    /// which no task's CPU time contains, and values that control the balancer.
    #[must_use]
    pub fn of_replay(&self) -> Self {
        Self {
            irq_latency_ns: self.irq_latency_ns,
            irq_jitter_ns: self.irq_jitter_ns,
            ipi_latency_ns: self.ipi_latency_ns,
            idle_exit_ns: self.idle_exit_ns,
            newidle_max_ns: self.newidle_max_ns,
            newidle_ratio: self.newidle_ratio,
            host_lock_permille: self.host_lock_permille,
            host_drift_permille: self.host_drift_permille,
            // These are of workloads that run beside a recording.
            pipe_ns_per_kib: self.pipe_ns_per_kib,
            mem_ns_per_kib: self.mem_ns_per_kib,
            mem_hit_ns: self.mem_hit_ns,
            mem_miss_ns: self.mem_miss_ns,
            io_ns_per_kib: self.io_ns_per_kib,
            io_device_ns_per_kib: self.io_device_ns_per_kib,
            ..Self::ZERO
        }
    }

    /// The costs of the profile called `name`.
    ///
    /// # Errors
    ///
    /// See [`Profile::named`].
    pub fn profile(name: &str) -> Result<Self, UnknownCost> {
        Profile::named(name).map(|profile| profile.costs)
    }
}

/// A name that no cost, or no profile, has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCost {
    /// "cost" or "cost profile".
    pub kind: &'static str,
    /// The name given.
    pub name: String,
    /// The most similar profile, if there is one.
    pub nearest: Option<&'static str>,
    /// Every name there is.
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

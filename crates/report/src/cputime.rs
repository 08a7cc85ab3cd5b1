//! CPU time by kind, in the terms of `/proc/stat` and `cpu.stat` (`cputime.c`, `cpuacct.c`).
//!
//! As in a kernel with `VIRT_CPU_ACCOUNTING_GEN` and without `IRQ_TIME_ACCOUNTING`, times are exact and not sampled at
//! ticks. An interrupt counts as system time of the interrupted task, and as `irq` of the CPU.

use vruntime_trace::OverheadKind;

/// What a CPU did with its time: nanoseconds that add up to the length of the run. `/proc/stat` shows them in
/// hundredths of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// The work of tasks, and refilling caches for it.
    pub user: u64,
    /// The same, of tasks with a nice value above 0.
    pub nice: u64,
    /// In the kernel: system calls, switches, the stopper.
    pub system: u64,
    /// Nothing to do.
    pub idle: u64,
    /// Nothing to do while a task that blocked here waits for a device.
    pub iowait: u64,
    /// Interrupts: ticks, timers, those of other CPUs.
    pub irq: u64,
    /// Balancing after a tick or for idle CPUs (`SCHED_SOFTIRQ`).
    pub softirq: u64,
    /// A virtual CPU that had something to do waited for a CPU of its host's. The guest's scheduler does not know:
    /// `cpu_s` of tasks and `usage_usec` of groups have this time, too.
    pub steal: u64,
}

impl CpuTimes {
    /// Every field with its name, in the order of `/proc/stat`.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("user", self.user),
            ("nice", self.nice),
            ("system", self.system),
            ("idle", self.idle),
            ("iowait", self.iowait),
            ("irq", self.irq),
            ("softirq", self.softirq),
            ("steal", self.steal),
        ]
        .into_iter()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.user += other.user;
        self.nice += other.nice;
        self.system += other.system;
        self.idle += other.idle;
        self.iowait += other.iowait;
        self.irq += other.irq;
        self.softirq += other.softirq;
        self.steal += other.steal;
    }

    /// Where an overhead is counted.
    #[inline]
    pub(crate) fn field(&mut self, spent: Spent) -> &mut u64 {
        match spent {
            Spent::User => &mut self.user,
            Spent::Nice => &mut self.nice,
            Spent::System => &mut self.system,
            Spent::Irq => &mut self.irq,
            Spent::SoftIrq => &mut self.softirq,
        }
    }

    /// Time that overheads, the last of them `last`, were announced for but that the run did not last for.
    pub(crate) fn give_back(&mut self, mut ns: u64, last: Spent) {
        for spent in [last, Spent::System, Spent::Irq, Spent::SoftIrq, Spent::User, Spent::Nice] {
            let field = self.field(spent);
            let part = ns.min(*field);
            *field -= part;
            ns -= part;
        }
    }
}

/// The account of an overhead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Spent {
    User,
    Nice,
    #[default]
    System,
    Irq,
    SoftIrq,
}

impl Spent {
    /// `balanced`: a search for work has just been made. `niced`: the running task has a nice value above 0.
    pub(crate) fn on(kind: OverheadKind, balanced: bool, niced: bool) -> Self {
        match kind {
            // A cold cache makes the task's own work longer.
            OverheadKind::Migration if niced => Self::Nice,
            OverheadKind::Migration => Self::User,
            OverheadKind::Switch | OverheadKind::Syscall => Self::System,
            OverheadKind::Tick | OverheadKind::Ipi if balanced => Self::SoftIrq,
            OverheadKind::Tick | OverheadKind::Timer | OverheadKind::Ipi => Self::Irq,
        }
    }
}

//! CPU time by kind, as in `/proc/stat` and `cpu.stat` (`cputime.c`, `cpuacct.c`).
//!
//! As with `VIRT_CPU_ACCOUNTING_GEN` and without `IRQ_TIME_ACCOUNTING`, times are exact. An interrupt is system time of
//! the interrupted task, and `irq` of the CPU.

use vruntime_trace::OverheadKind;

/// A CPU's times in nanoseconds, whose sum is the length of the run. `/proc/stat` has hundredths of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Work of tasks, with refilling caches.
    pub user: u64,
    /// `user` of tasks with a positive nice value.
    pub nice: u64,
    /// Kernel: system calls, switches, the stopper.
    pub system: u64,
    /// Idle time.
    pub idle: u64,
    /// Idle time while a task that blocked here waits for a device.
    pub iowait: u64,
    /// Interrupts: ticks, timers, interprocessor interrupts.
    pub irq: u64,
    /// Balancing after a tick or for idle CPUs (`SCHED_SOFTIRQ`).
    pub softirq: u64,
    /// A busy virtual CPU waited for its host. The guest's scheduler does not know: `cpu_s` of tasks and `usage_usec`
    /// of groups include it.
    pub steal: u64,
}

impl CpuTimes {
    /// Returns fields with names, in the order of `/proc/stat`.
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

    /// Returns announced overhead beyond the run, `last` first.
    pub(crate) fn give_back(&mut self, mut ns: u64, last: Spent) {
        for spent in [last, Spent::System, Spent::Irq, Spent::SoftIrq, Spent::User, Spent::Nice] {
            let field = self.field(spent);
            let part = ns.min(*field);
            *field -= part;
            ns -= part;
        }
    }
}

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
    /// `balanced`: the CPU has just balanced. `niced`: the running task has a positive nice value.
    pub(crate) fn on(kind: OverheadKind, balanced: bool, niced: bool) -> Self {
        match kind {
            // A cold cache prolongs the task's work.
            OverheadKind::Migration if niced => Self::Nice,
            OverheadKind::Migration => Self::User,
            OverheadKind::Switch | OverheadKind::Syscall => Self::System,
            OverheadKind::Tick | OverheadKind::Ipi if balanced => Self::SoftIrq,
            OverheadKind::Tick | OverheadKind::Timer | OverheadKind::Ipi => Self::Irq,
        }
    }
}

//! CPUs that lend each other real-time runtime (feature RT_RUNTIME_SHARE, off since 5.10; `do_balance_runtime`).
//!
//! Of n CPUs, one without runtime takes the n-th part of each other's unused runtime, up to a whole period. It keeps
//! this until a CPU goes offline. Online CPUs' runtimes add up to the limit times their number.

use alloc::vec::Vec;

use spin::Mutex;

use crate::cpumask::CpuMask;
use crate::ids::CpuId;

/// Runtime of an offline CPU, which neither lends nor borrows.
const DISABLED: u64 = u64::MAX;

/// Runtime of a CPU under one limit, and its use in this period, nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Account {
    runtime: u64,
    time: u64,
}

/// The accounts of all CPUs under one limit: the machine's, or a group's.
#[derive(Debug)]
pub(super) struct Lending(Mutex<Vec<Account>>);

impl Lending {
    /// Creates accounts with `runtime` each; offline CPUs do not take part.
    pub(super) fn new(nr_cpus: usize, runtime: u64, online: &CpuMask) -> Self {
        let account =
            |cpu: u32| Account { runtime: if online.contains(CpuId(cpu)) { runtime } else { DISABLED }, time: 0 };
        Self(Mutex::new((0..nr_cpus as u32).map(account).collect()))
    }

    /// Returns the runtime of `cpu` in a period; `None` if it is offline.
    pub(super) fn runtime(&self, cpu: CpuId) -> Option<u64> {
        let runtime = self.0.lock()[cpu.index()].runtime;
        (runtime != DISABLED).then_some(runtime)
    }

    /// Notes that `cpu` has used `time` of the period.
    pub(super) fn note(&self, cpu: CpuId, time: u64) {
        self.0.lock()[cpu.index()].time = time;
    }

    /// As [`Self::note`]. Returns whether the use exceeds the runtime, even after borrowing from `span`.
    pub(super) fn exceeded(&self, cpu: CpuId, time: u64, period: u64, span: &CpuMask) -> bool {
        let mut accounts = self.0.lock();
        accounts[cpu.index()].time = time;
        let own = accounts[cpu.index()].runtime;
        if own >= period {
            return false;
        }
        if time > own {
            borrow(&mut accounts, cpu, period, span);
        }
        time > accounts[cpu.index()].runtime
    }

    /// As [`Self::exceeded`], for a throttled CPU: others may now have runtime to lend.
    pub(super) fn balance(&self, cpu: CpuId, time: u64, period: u64, span: &CpuMask) {
        let mut accounts = self.0.lock();
        accounts[cpu.index()].time = time;
        if time > accounts[cpu.index()].runtime {
            borrow(&mut accounts, cpu, period, span);
        }
    }

    /// Ends lending for `cpu`, which goes offline: takes back, or returns. `runtime` is each CPU's initial one,
    /// `span` the remaining CPUs.
    pub(super) fn disable(&self, cpu: CpuId, runtime: u64, span: &CpuMask) {
        let mut accounts = self.0.lock();
        let own = core::mem::replace(&mut accounts[cpu.index()], Account { runtime: DISABLED, time: 0 }).runtime;
        if own == DISABLED {
            return;
        }
        let (mut lent, mut borrowed) = (runtime.saturating_sub(own), own.saturating_sub(runtime));
        for other in span.iter().filter(|&other| other != cpu) {
            let account = &mut accounts[other.index()];
            if account.runtime == DISABLED {
                continue;
            }
            let back = account.runtime.min(lent);
            account.runtime = account.runtime - back + core::mem::take(&mut borrowed);
            lent -= back;
            if lent == 0 {
                break;
            }
        }
    }

    pub(super) fn reset(&self, cpu: CpuId, runtime: u64) {
        self.0.lock()[cpu.index()].runtime = runtime;
    }

    pub(super) fn enable(&self, cpu: CpuId, runtime: u64) {
        self.0.lock()[cpu.index()] = Account { runtime, time: 0 };
    }
}

fn borrow(accounts: &mut [Account], cpu: CpuId, period: u64, span: &CpuMask) {
    let parts = (span.count() as u64).max(1);
    for other in span.iter().filter(|&other| other != cpu) {
        let Account { runtime, time } = accounts[other.index()];
        if runtime == DISABLED || runtime <= time {
            continue;
        }
        let part = ((runtime - time) / parts).min(period.saturating_sub(accounts[cpu.index()].runtime));
        accounts[other.index()].runtime -= part;
        accounts[cpu.index()].runtime += part;
        if accounts[cpu.index()].runtime == period {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(cpus: u32) -> CpuMask {
        (0..cpus).map(CpuId).collect()
    }

    fn runtimes(lending: &Lending) -> Vec<u64> {
        lending.0.lock().iter().map(|account| account.runtime).collect()
    }

    #[test]
    fn an_nth_of_what_each_has_left_up_to_a_period() {
        let lending = Lending::new(4, 950, &span(4));
        lending.note(CpuId(1), 150);
        lending.note(CpuId(2), 950);
        // 800 / 4 = 200 of CPU 1, but 50 fill a period. CPU 2 has nothing, and CPU 3 is not needed.
        assert!(!lending.exceeded(CpuId(0), 951, 1000, &span(4)));
        assert_eq!(runtimes(&lending), [1000, 900, 950, 950]);
        // A whole period means no limit.
        assert!(!lending.exceeded(CpuId(0), 1200, 1000, &span(4)));
        // Too late for a whole share: (900 - 890) / 4, (950 - 930) / 4 and nothing of CPU 0.
        lending.note(CpuId(0), 1000);
        lending.note(CpuId(1), 890);
        lending.note(CpuId(3), 930);
        assert!(lending.exceeded(CpuId(2), 960, 1000, &span(4)));
        assert_eq!(runtimes(&lending), [1000, 898, 957, 945]);
    }

    #[test]
    fn an_offline_cpu_takes_back_its_loans_and_returns_what_it_borrowed() {
        let lending = Lending::new(3, 400, &span(3));
        assert!(!lending.exceeded(CpuId(0), 500, 1000, &span(3)));
        // 400 / 3 of each other CPU.
        assert_eq!(runtimes(&lending), [666, 267, 267]);
        lending.disable(CpuId(1), 400, &span(3));
        assert_eq!(runtimes(&lending), [533, DISABLED, 267]);
        assert_eq!(lending.runtime(CpuId(1)), None);
        lending.disable(CpuId(0), 400, &span(3));
        assert_eq!(runtimes(&lending), [DISABLED, DISABLED, 400]);
        // An offline CPU neither lends nor borrows.
        assert!(lending.exceeded(CpuId(2), 401, 1000, &span(3)));
        lending.enable(CpuId(1), 400);
        assert_eq!(runtimes(&lending), [DISABLED, 400, 400]);
    }
}

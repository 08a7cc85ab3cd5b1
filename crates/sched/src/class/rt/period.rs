//! A period of real-time bandwidth, and the runtimes in it: of the machine, or of a group.

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use once_cell::race::OnceBox;

use super::share::Lending;
use crate::cpumask::CpuMask;
use crate::ids::CpuId;
use crate::sync::{AtomicBool, AtomicU64};

/// The machine's period of real-time bandwidth (`def_rt_bandwidth`).
#[derive(Debug, Default)]
pub(crate) struct RtBandwidth {
    /// Whether the timer is armed.
    pub(super) active: AtomicBool,
    /// End of the period, nanoseconds.
    pub(super) ends: AtomicU64,
    /// Whether deadline tasks have run while the timer was not armed.
    pub(super) unseen: AtomicBool,
    /// Runtimes of the CPUs, if they lend.
    pub(super) lending: OnceBox<Lending>,
}

impl RtBandwidth {
    /// Whether deadline tasks' time counts on a CPU that has used `time` of `runtime`. While the timer is off, the sum
    /// is bounded (`sched_rt_bandwidth_account`).
    pub(super) fn counts_deadline(&self, time: u64, runtime: u64) -> bool {
        let active = self.active.load(Relaxed);
        if !active {
            self.unseen.store(true, Relaxed);
        }
        active || time < runtime
    }

    /// Returns the number of periods that have ended: the timer may be late.
    pub(super) fn overrun(&self, now: u64, period: u64) -> u64 {
        now.saturating_sub(self.ends.load(Relaxed)) / period + 1
    }

    /// Ends the timer's work. Returns its next time, if it is needed.
    pub(super) fn next(&self, overrun: u64, period: u64, needed: bool) -> Option<u64> {
        let ends = self.ends.load(Relaxed) + overrun * period;
        self.ends.store(ends, Relaxed);
        if !needed {
            self.active.store(false, Relaxed);
        }
        needed.then_some(ends)
    }

    /// Stops the lending of an offline CPU. Each CPU has `runtime`.
    pub(super) fn disable(&self, cpu: CpuId, runtime: u64, span: &CpuMask) {
        if let Some(lending) = self.lending.get() {
            lending.disable(cpu, runtime, span);
        }
    }

    pub(super) fn enable(&self, cpu: CpuId, runtime: u64) {
        if let Some(lending) = self.lending.get() {
            lending.enable(cpu, runtime);
        }
    }

    /// Resets a CPU to `runtime`, whatever it has lent or borrowed.
    pub(super) fn reset(&self, cpu: CpuId, runtime: u64) {
        if let Some(lending) = self.lending.get() {
            lending.reset(cpu, runtime);
        }
    }
}

/// A group's limit, created when it is set.
#[derive(Debug, Default)]
pub(crate) struct GroupRt(pub(super) OnceBox<Own>);

#[derive(Debug)]
pub(super) struct Own {
    pub(super) runtime: AtomicU64,
    pub(super) period: AtomicU64,
    pub(super) bandwidth: RtBandwidth,
    /// Set for an autogroup, whose tasks are the root's.
    pub(super) redirected: AtomicBool,
}

impl GroupRt {
    pub(super) fn own(&self, period: u64) -> &Own {
        self.0.get_or_init(|| {
            Box::new(Own {
                runtime: AtomicU64::new(0),
                period: AtomicU64::new(period),
                bandwidth: RtBandwidth::default(),
                redirected: AtomicBool::new(false),
            })
        })
    }

    pub(crate) fn redirect(&self) {
        self.own(0).redirected.store(true, Relaxed);
    }

    pub(super) fn is_redirected(&self) -> bool {
        self.0.get().is_some_and(|own| own.redirected.load(Relaxed))
    }
}

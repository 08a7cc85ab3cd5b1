//! Reclaiming: a task with SCHED_FLAG_RECLAIM uses up its runtime more slowly while other tasks leave bandwidth
//! unused.
//!
//! Lipari & Baruah, "Greedy reclamation of unused bandwidth in constant-bandwidth servers" (ECRTS 2000). For several
//! CPUs: Abeni, Lipari, Parri & Sun, "Multicore CPU reclaiming: parallel or sequential?" (SAC 2016). Kernel:
//! Documentation/scheduler/sched-deadline, section 2.3.

use super::bandwidth::{RATIO_SHIFT, Reclaim};
use super::ratio::{BW_SHIFT, BW_UNIT};

/// The equation of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Grub {
    /// Before 6.5: dq = -max{u / Umax, 1 - Uinact - Uextra} dt. A task can have more than Umax of a CPU.
    Unbounded,
    /// 6.5+: dq = -(max{u, Umax - Uinact - Uextra} / Umax) dt.
    #[default]
    Bounded,
}

impl Grub {
    /// Returns the runtime that bandwidth `bw` uses up in `delta` ns. `inactive`: bandwidth of the run queue's tasks
    /// past their 0-lag times (`this_bw - running_bw`).
    pub fn used(self, delta: u64, bw: u64, inactive: u64, reclaim: Reclaim) -> u64 {
        let Reclaim { max_bw, extra_bw, bw_ratio } = reclaim;
        let free = i128::from(inactive) + i128::from(extra_bw);
        let rate = match self {
            Self::Unbounded => {
                let least = (bw * bw_ratio) >> RATIO_SHIFT;
                let whole = i128::from(BW_UNIT);
                if free > whole - i128::from(least) { least } else { (whole - free) as u64 }
            }
            Self::Bounded => {
                let max = i128::from(max_bw);
                let rate = if free > max - i128::from(bw) { bw } else { (max - free) as u64 };
                (rate * bw_ratio) >> RATIO_SHIFT
            }
        };
        ((u128::from(delta) * u128::from(rate)) >> BW_SHIFT) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const HALF: u64 = BW_UNIT / 2;
    /// All of the CPU can be reserved (`sched_rt_runtime_us` is -1), and is.
    const ALL_TAKEN: Reclaim = Reclaim { max_bw: BW_UNIT, extra_bw: 0, bw_ratio: 1 << RATIO_SHIFT };

    /// Example of sched-deadline.rst, section 2.3: two tasks of 1/2. If one is inactive, the other's runtime decreases
    /// half as fast.
    #[test]
    fn the_kernel_documents_example() {
        for grub in [Grub::Unbounded, Grub::Bounded] {
            assert_eq!(grub.used(4 * MS, HALF, 0, ALL_TAKEN), 4 * MS);
            assert_eq!(grub.used(4 * MS, HALF, HALF, ALL_TAKEN), 2 * MS);
        }
    }

    /// 6.5+: with the default limit, a task alone gets 95 % of its CPU: 4 ms of 10 last for 9.5. Earlier it got more:
    /// its runtime decreased at u / Umax = 0.42, but the limit was subtracted only once.
    #[test]
    fn a_task_alone_reclaims_up_to_the_limit() {
        let alone = Reclaim { max_bw: 996_147, extra_bw: 996_147 - 419_430, bw_ratio: 269 };
        let used = Grub::Bounded.used(9_500_000, 419_430, 0, alone);
        assert!((3_990_000..4_000_000).contains(&used), "{used}");
        let used = Grub::Unbounded.used(9_500_000, 419_430, 0, alone);
        assert!((4_270_000..4_280_000).contains(&used), "{used}");
    }

    #[test]
    fn no_task_pays_less_than_its_own_share() {
        // More is inactive than there is: the least rate is u / Umax.
        let reclaim = Reclaim { max_bw: 996_147, extra_bw: 0, bw_ratio: 269 };
        let used = Grub::Bounded.used(10 * MS, 104_857, 2 * BW_UNIT, reclaim);
        let least = (104_857 * 269) >> 8;
        assert_eq!(used, (10 * MS * least) >> 20);
    }
}

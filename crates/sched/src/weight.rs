//! Weights: nice values and cgroup weights as shares of a CPU.
//!
//! As on 64-bit kernels, an internal weight has ten more bits than the user's number (nice 0: 1024 << 10). So a group's
//! weight can be divided over many CPUs without loss.

/// Weight of nice 0 in the user's scale.
pub const NICE_0_WEIGHT: u64 = 1024;
/// Extra bits of the scheduler's scale.
pub const SHIFT: u32 = 10;
/// Weight of nice 0 in the scheduler's scale.
pub const NICE_0_LOAD: u64 = NICE_0_WEIGHT << SHIFT;
/// Weight of a SCHED_IDLE task or an idle group, in the user's scale.
pub const IDLE_WEIGHT: u64 = 3;
/// The least weight of a group's entity on a CPU, in the scheduler's scale.
pub const MIN_SHARES: u64 = 2;
/// The highest `cpu.shares`, in the scheduler's scale.
pub const MAX_SHARES: u64 = 1 << (18 + SHIFT);

/// Weights of nice -20..=19, in steps of about 1.25, or 10 % of a CPU between two tasks
/// (`Documentation/scheduler/sched-nice-design.rst`). They are ABI, visible in /proc.
const NICE_TO_WEIGHT: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// Returns the scheduler's weight of a nice value, -20..=19 (clamped).
#[inline]
pub fn of_nice(nice: i8) -> u64 {
    u64::from(NICE_TO_WEIGHT[(nice.clamp(-20, 19) + 20) as usize]) << SHIFT
}

/// Returns the scheduler's shares of a `cpu.weight` of cgroup v2, 1..=10000 (100 is 1024 shares, rounded to nearest).
pub fn of_cgroup(weight: u32) -> u64 {
    let shares = (u64::from(weight.clamp(1, 10_000)) * NICE_0_WEIGHT + 50) / 100;
    (shares << SHIFT).clamp(MIN_SHARES << SHIFT, MAX_SHARES)
}

/// Scales a weight down to the user's scale, to at least 2, for use as a divisor.
#[inline]
pub fn down(weight: u64) -> u64 {
    if weight == 0 { 0 } else { (weight >> SHIFT).max(2) }
}

/// Returns the virtual time of `delta` nanoseconds at `weight`: `delta` x 1024 / weight.
#[inline]
pub fn to_virtual(delta: u64, weight: u64) -> u64 {
    if weight == NICE_0_LOAD {
        return delta;
    }
    scale(delta, NICE_0_WEIGHT, down(weight).max(1))
}

/// Returns the real time of a virtual time at `weight`, nanoseconds.
#[inline]
pub fn to_real(virtual_ns: u64, weight: u64) -> u64 {
    scale(virtual_ns, down(weight), NICE_0_WEIGHT)
}

/// `value` x `numerator` / `denominator` without overflow of the product.
#[inline]
pub fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    match value.checked_mul(numerator) {
        Some(product) => product / denominator,
        None => (u128::from(value) * u128::from(numerator) / u128::from(denominator)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nice_step_is_a_quarter() {
        for nice in -20..19 {
            let ratio = of_nice(nice) as f64 / of_nice(nice + 1) as f64;
            assert!((1.17..1.31).contains(&ratio), "nice {nice}: {ratio}");
        }
        assert_eq!(of_nice(0), NICE_0_LOAD);
    }

    #[test]
    fn virtual_time_runs_slower_for_the_heavy() {
        assert_eq!(to_virtual(1000, NICE_0_LOAD), 1000);
        assert_eq!(to_virtual(1000, 2 * NICE_0_LOAD), 500);
        assert_eq!(to_real(500, 2 * NICE_0_LOAD), 1000);
        assert_eq!(to_virtual(u64::MAX / 2, NICE_0_LOAD * 1024), u64::MAX / 2 / 1024);
        assert_eq!(of_cgroup(100), NICE_0_LOAD);
        assert_eq!(of_cgroup(300), 3072 << SHIFT);
    }
}

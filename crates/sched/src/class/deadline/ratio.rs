//! Bandwidths in fixed point.

/// Bits after the point.
pub const BW_SHIFT: u32 = 20;
/// A whole CPU.
pub const BW_UNIT: u64 = 1 << BW_SHIFT;

/// `runtime` of every `period` as a bandwidth, rounded down.
pub fn to_ratio(period: u64, runtime: u64) -> u64 {
    if period == 0 {
        return 0;
    }
    ((u128::from(runtime) << BW_SHIFT) / u128::from(period)) as u64
}

//! Comparisons of utilisations and capacities.

/// Whether a utilisation leaves a fifth of a capacity free.
#[inline]
pub(crate) fn fits_capacity(util: u64, capacity: u32) -> bool {
    util * 1280 < u64::from(capacity) * 1024
}

/// Whether a capacity is greater by more than the error of measurement, 5 %.
#[inline]
pub(crate) fn capacity_greater(one: u64, other: u64) -> bool {
    one * 1024 > other * 1078
}

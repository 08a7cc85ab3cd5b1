//! Entitlements of groups: weighted max-min fairness, level by level.

/// A share in a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The weight. 1024 is a task of nice 0 and a group of `cpu.weight` 100.
    pub(crate) weight: u64,
    /// The most it can use.
    pub(crate) demand: u64,
}

/// Divides `capacity` by weight. What a claim cannot use is divided among the others. The sum is the smaller of
/// `capacity` and total demand, up to rounding (one unit per claim).
pub(crate) fn divide(capacity: u64, claims: &[Claim]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    // The smallest demand per weight is first. Cross products avoid rounding.
    order.sort_by(|&a, &b| {
        let (a, b) = (claims[a], claims[b]);
        (u128::from(a.demand) * u128::from(b.weight)).cmp(&(u128::from(b.demand) * u128::from(a.weight)))
    });
    let mut capacity = u128::from(capacity);
    let mut weight: u128 = claims.iter().map(|claim| u128::from(claim.weight)).sum();
    let mut parts = vec![0; claims.len()];
    for index in order {
        let claim = claims[index];
        let fair = (capacity * u128::from(claim.weight)).checked_div(weight).unwrap_or(0);
        let part = fair.min(u128::from(claim.demand));
        parts[index] = part as u64;
        capacity -= part;
        weight -= u128::from(claim.weight);
    }
    parts
}

/// Returns a task's [`Claim::weight`]. Each nice step is a factor of 1.25, as in sched(7).
pub(crate) fn nice_weight(nice: i8) -> u64 {
    (1024.0 * 1.25_f64.powi(-i32::from(nice))).round() as u64
}

/// [`Claim::weight`] of an idle group and of a SCHED_IDLE task.
pub(crate) const IDLE_WEIGHT: u64 = 3;

/// Returns the [`Claim::weight`] of a group.
pub(crate) const fn group_weight(weight: u32) -> u64 {
    weight as u64 * 1024 / 100
}

/// Returns the weight of a guarantee beside others: above 0 even for 0 %.
pub(crate) const fn guaranteed_weight(percent: u32) -> u64 {
    percent as u64 * 1024 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn claim(weight: u64, demand: u64) -> Claim {
        Claim { weight, demand }
    }

    #[test]
    fn by_weight_when_all_want_more() {
        assert_eq!(divide(1200, &[claim(3, 9999), claim(1, 9999), claim(2, 9999)]), [600, 200, 400]);
    }

    #[test]
    fn the_others_share_unused_capacity_by_weight() {
        assert_eq!(divide(1000, &[claim(10, 100), claim(1, 9999), claim(2, 9999)]), [100, 300, 600]);
    }

    #[test]
    fn no_claim_gets_more_than_its_demand() {
        assert_eq!(divide(1000, &[claim(1, 100), claim(1, 200)]), [100, 200]);
        assert_eq!(divide(1000, &[]), [] as [u64; 0]);
        assert_eq!(divide(1000, &[claim(0, 10)]), [0]);
    }

    #[test]
    fn nice_weights_are_those_of_the_kernel_within_two_percent() {
        for (nice, kernel) in [(-20, 88761_u64), (-10, 9548), (-5, 3121), (0, 1024), (5, 335), (10, 110), (19, 15)] {
            let ours = nice_weight(nice);
            assert!(ours.abs_diff(kernel) * 50 <= kernel, "nice {nice}: {ours} for {kernel}");
        }
        assert_eq!(group_weight(100), 1024);
    }

    proptest! {
        #[test]
        fn capacity_is_conserved(
            capacity in 0_u64..1 << 50,
            claims in prop::collection::vec((1_u64..90_000, 0_u64..1 << 50), 1..20),
        ) {
            let claims: Vec<Claim> = claims.into_iter().map(|(weight, demand)| claim(weight, demand)).collect();
            let parts = divide(capacity, &claims);
            let demand: u64 = claims.iter().map(|claim| claim.demand).sum();
            let given: u64 = parts.iter().sum();
            prop_assert!(given <= capacity.min(demand));
            prop_assert!(capacity.min(demand) - given <= claims.len() as u64);
            for (part, claim) in parts.iter().zip(&claims) {
                prop_assert!(*part <= claim.demand);
            }
        }
    }
}

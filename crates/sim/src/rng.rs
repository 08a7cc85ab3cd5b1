//! The machine's only randomness: xoshiro256++ (Blackman and Vigna, 2019), seeded through SplitMix64.
//!
//! A library's generator may change, and every digest with it. This one draws delays of interrupts and, unless the seed
//! is 0, starts of tasks and ticks.

/// xoshiro256++.
#[derive(Clone, Debug)]
pub(crate) struct Rng([u64; 4]);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        let mut z = seed;
        Self(std::array::from_fn(|_| {
            z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = z;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        }))
    }

    pub(crate) fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns an exponentially distributed number, at most 44 times the mean, and equal on every machine. A uniform
    /// number's -log2 is its leading zeros plus the logarithm of the rest, which a parabola approximates within 1 %.
    pub(crate) fn exponential(&mut self, mean: u64) -> u64 {
        /// ln 2 x 2^32.
        const LN_2: u128 = 2_977_044_472;
        let draw = self.next() | 1;
        let zeros = u64::from(draw.leading_zeros());
        // The bits after the leading one, as a fraction of 2^32.
        let fraction = (draw << zeros << 1) >> 32;
        let bend = ((u128::from(fraction) * u128::from((1 << 32) - fraction)) >> 32) * 3431 / 10_000;
        let log2 = u128::from((zeros + 1) << 32) - (u128::from(fraction) + bend);
        ((u128::from(mean) * log2 * LN_2) >> 64) as u64
    }

    /// Returns a uniform number in `0..bound`, or 0 if `bound` is 0. The bias is below `bound` / 2^64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation's first outputs from state 1, 2, 3, 4.
    #[test]
    fn agrees_with_the_reference() {
        let mut rng = Rng([1, 2, 3, 4]);
        let first: Vec<u64> = (0..5).map(|_| rng.next()).collect();
        assert_eq!(
            first,
            [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386, 9_228_616_714_210_784_205]
        );
    }

    #[test]
    fn exponential_has_its_mean_and_tail() {
        let mut rng = Rng::new(1);
        let mut draws: Vec<u64> = (0..100_000).map(|_| rng.exponential(1000)).collect();
        draws.sort_unstable();
        let mean = draws.iter().sum::<u64>() / 100_000;
        assert!((980..1020).contains(&mean), "{mean}");
        assert!((675..712).contains(&draws[50_000]), "median {}", draws[50_000]);
        assert!((2250..2360).contains(&draws[90_000]), "p90 {}", draws[90_000]);
        assert!((4450..4760).contains(&draws[99_000]), "p99 {}", draws[99_000]);
    }

    #[test]
    fn stays_below_its_bound() {
        let mut rng = Rng::new(7);
        assert!((0..1000).all(|_| rng.below(10) < 10));
        assert_eq!(rng.below(0), 0);
    }
}

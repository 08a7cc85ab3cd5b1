//! A span of unknown length in at most 1024 bins. When full, pairs are joined. Sums and maxima are exact at any width.

pub(crate) const MOST: usize = 1024;
const FINEST_NS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bin {
    /// Runnable tasks × nanoseconds.
    pub(crate) area: u64,
    /// Nanoseconds with a running task.
    pub(crate) busy: u64,
    /// Nanoseconds of unknown state.
    pub(crate) unknown: u64,
    /// Most runnable tasks.
    pub(crate) max: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) runnable: u32,
    pub(crate) busy: bool,
    pub(crate) known: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Bins {
    pub(crate) width: u64,
    pub(crate) rows: Vec<Vec<Bin>>,
}

impl Default for Bins {
    fn default() -> Self {
        Self { width: FINEST_NS, rows: Vec::new() }
    }
}

impl Bins {
    /// Adds the load of a CPU from `begin` to `end`, nanoseconds since the start.
    pub(crate) fn add(&mut self, cpu: usize, begin: u64, end: u64, load: Load) {
        if cpu >= self.rows.len() {
            self.rows.resize(cpu + 1, Vec::new());
        }
        if end <= begin {
            return;
        }
        while (end - 1) / self.width >= MOST as u64 {
            self.halve();
        }
        let (width, row) = (self.width, &mut self.rows[cpu]);
        let last = ((end - 1) / width) as usize;
        if last >= row.len() {
            row.resize(last + 1, Bin::default());
        }
        for (index, bin) in row.iter_mut().enumerate().take(last + 1).skip((begin / width) as usize) {
            let from = index as u64 * width;
            let ns = end.min(from.saturating_add(width)) - begin.max(from);
            bin.area = bin.area.saturating_add(ns.saturating_mul(u64::from(load.runnable)));
            bin.busy += if load.busy { ns } else { 0 };
            bin.unknown += if load.known { 0 } else { ns };
            bin.max = bin.max.max(load.runnable);
        }
    }

    /// Widens the bins until a CPU has at most `most`, or one.
    pub(crate) fn widen(&mut self, most: usize) {
        while self.len() > most.max(1) {
            self.halve();
        }
    }

    fn halve(&mut self) {
        self.width = self.width.saturating_mul(2);
        for row in &mut self.rows {
            let merged = row.chunks(2).map(|pair| {
                pair.iter().fold(Bin::default(), |sum, bin| Bin {
                    area: sum.area.saturating_add(bin.area),
                    busy: sum.busy + bin.busy,
                    unknown: sum.unknown + bin.unknown,
                    max: sum.max.max(bin.max),
                })
            });
            *row = merged.collect();
        }
    }

    /// Bins of the longest row.
    pub(crate) fn len(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_interval_is_split_where_bins_meet() {
        let mut bins = Bins::default();
        bins.add(0, 500_000, 2_250_000, Load { runnable: 2, busy: true, known: true });
        let busy: Vec<u64> = bins.rows[0].iter().map(|bin| bin.busy).collect();
        assert_eq!(busy, [500_000, 1_000_000, 250_000]);
        assert_eq!(bins.rows[0][1].area, 2_000_000);
    }

    #[test]
    fn wider_bins_hold_the_same() {
        let mut bins = Bins::default();
        bins.add(0, 0, 999_500_000, Load { runnable: 2, busy: true, known: true });
        bins.add(1, 0, 500_000, Load { runnable: 9, busy: false, known: false });
        bins.widen(100);
        assert_eq!((bins.len(), bins.width), (63, 16_000_000));
        assert_eq!(bins.rows[0].iter().map(|bin| bin.busy).sum::<u64>(), 999_500_000);
        assert_eq!(bins.rows[1], [Bin { area: 4_500_000, busy: 0, unknown: 500_000, max: 9 }]);
        bins.widen(0);
        assert_eq!(bins.len(), 1);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_however_long_it_gets(parts in prop::collection::vec((0_u64..1 << 40, 1_u64..1 << 38), 1..30)) {
            let mut bins = Bins::default();
            let mut busy = 0;
            for &(begin, length) in &parts {
                bins.add(1, begin, begin + length, Load { runnable: 1, busy: true, known: true });
                busy += length;
            }
            prop_assert!(bins.len() <= MOST);
            prop_assert_eq!(bins.rows[1].iter().map(|bin| bin.busy).sum::<u64>(), busy);
            prop_assert_eq!(bins.rows[1].iter().map(|bin| bin.area).sum::<u64>(), busy);
        }
    }
}

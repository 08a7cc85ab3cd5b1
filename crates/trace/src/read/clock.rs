//! The times of a trace, with jumps and strays.

/// The longest time to the next event of a CPU: an hour.
const PLAUSIBLE_NS: i64 = 3_600_000_000_000;
const MAX_STRETCHES: usize = 1000;

/// Follows the times of all CPUs.
///
/// An event far from the others of its CPU is a stray, and not part of the span. If the following events stay there,
/// the clock has jumped: a new stretch begins. The span is the sum of the lengths of stretches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    cpus: Vec<Cpu>,
    stretches: Vec<(i64, i64)>,
    /// Number of jumps before each stretch.
    begun: Vec<u64>,
    latest: i64,
    unordered: u64,
    jumps: u64,
    strays: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cpu {
    /// Its stretch, and the time of its latest event there.
    at: Option<(usize, i64)>,
    /// An event that fits no earlier one.
    odd: Option<i64>,
    /// The number of its jumps. The CPUs share one clock, and each reaches the jump.
    jumps: u64,
}

fn follows(before: i64, at: i64) -> bool {
    at >= before && at.saturating_sub(before) <= PLAUSIBLE_NS
}

impl Clock {
    #[inline]
    pub(super) fn add(&mut self, cpu: usize, at: i64) {
        if cpu >= self.cpus.len() {
            self.cpus.resize(cpu + 1, Cpu::default());
        }
        self.unordered += u64::from(at < self.latest && !self.stretches.is_empty());
        self.latest = at;
        let row = self.cpus[cpu];
        match row.at {
            Some((stretch, before)) if row.odd.is_none() && follows(before, at) => {
                self.cpus[cpu].at = Some((stretch, at));
                let end = &mut self.stretches[stretch].1;
                *end = (*end).max(at);
            }
            _ => self.odd(cpu, at),
        }
    }

    /// Handles any event but one that follows the CPU's previous one.
    #[cold]
    fn odd(&mut self, cpu: usize, at: i64) {
        let row = self.cpus[cpu];
        if let Some((stretch, before)) = row.at
            && follows(before, at)
        {
            self.strays += u64::from(row.odd.is_some());
            self.extend(stretch, at);
            self.cpus[cpu] = Cpu { at: Some((stretch, at)), odd: None, ..row };
            return;
        }
        if let Some(odd) = row.odd {
            if follows(odd, at) {
                self.jumps += u64::from(row.at.is_some() && row.jumps == self.jumps);
                let stretch = self.stretch_at(odd);
                self.extend(stretch, at);
                self.cpus[cpu] = Cpu { at: Some((stretch, at)), odd: None, jumps: self.jumps };
                return;
            }
            self.strays += 1;
        } else if row.at.is_none() {
            // The first event of this CPU: near the others', or the first of all.
            let near =
                |&(start, end): &(i64, i64)| follows(at, start) || follows(start, at) && at <= end || follows(end, at);
            if self.stretches.is_empty() || self.stretches.last().is_some_and(near) {
                let stretch = self.stretch_at(at);
                self.cpus[cpu] = Cpu { at: Some((stretch, at)), jumps: self.begun[stretch], ..row };
                return;
            }
        }
        self.cpus[cpu].odd = Some(at);
    }

    /// Returns the latest stretch near `at`, or a new one.
    fn stretch_at(&mut self, at: i64) -> usize {
        let near = |&(start, end): &(i64, i64)| {
            at >= start.saturating_sub(PLAUSIBLE_NS) && at <= end.saturating_add(PLAUSIBLE_NS)
        };
        let found = self.stretches.iter().rposition(near);
        let full = self.stretches.len() >= MAX_STRETCHES;
        if let Some(stretch) = found {
            self.extend(stretch, at);
        } else if !full {
            self.stretches.push((at, at));
            self.begun.push(self.jumps);
        }
        found.unwrap_or(self.stretches.len() - 1)
    }

    fn extend(&mut self, stretch: usize, at: i64) {
        let (start, end) = &mut self.stretches[stretch];
        (*start, *end) = ((*start).min(at), (*end).max(at));
    }

    /// Times of the first and last event of each stretch, nanoseconds; one stretch unless the clock jumped.
    pub fn stretches(&self) -> &[(i64, i64)] {
        &self.stretches
    }

    /// Returns the span, nanoseconds.
    pub fn span_ns(&self) -> u64 {
        let lengths = self.stretches.iter().map(|&(start, end)| end.abs_diff(start));
        lengths.fold(0, u64::saturating_add)
    }

    /// Events earlier than their predecessor in the file.
    pub fn unordered(&self) -> u64 {
        self.unordered
    }

    /// Jumps back, or by an hour or more ahead; one on several CPUs counts once.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }

    /// Strays.
    pub fn strays(&self) -> u64 {
        self.strays + self.cpus.iter().filter(|cpu| cpu.odd.is_some()).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn clock(times: &[(usize, i64)]) -> Clock {
        let mut clock = Clock::default();
        for &(cpu, at) in times {
            clock.add(cpu, at);
        }
        clock
    }

    fn counts(clock: &Clock) -> (u64, u64, u64, u64) {
        (clock.span_ns() / S as u64, clock.unordered(), clock.jumps(), clock.strays())
    }

    #[test]
    fn a_plain_trace() {
        assert_eq!(counts(&clock(&[(0, 5 * S), (1, 6 * S), (0, 7 * S)])), (2, 0, 0, 0));
        assert_eq!(counts(&clock(&[])), (0, 0, 0, 0));
        assert_eq!(counts(&clock(&[(0, -S), (0, S)])), (2, 0, 0, 0));
    }

    #[test]
    fn cpus_one_after_the_other_are_out_of_order_but_no_jump() {
        assert_eq!(counts(&clock(&[(0, 5 * S), (0, 9 * S), (1, 4 * S), (1, 8 * S)])), (5, 1, 0, 0));
    }

    #[test]
    fn a_stray_is_left_out() {
        let times =
            [(0, 50_000 * S), (0, 50_001 * S), (0, 0), (0, 50_002 * S), (1, 0), (1, 50_002 * S), (1, 50_003 * S)];
        assert_eq!(counts(&clock(&times)), (3, 2, 0, 2));
    }

    #[test]
    fn a_jump_begins_a_new_stretch() {
        let back = [(0, 90_000 * S), (0, 90_005 * S), (1, 90_006 * S), (0, S), (0, 3 * S), (1, 2 * S), (1, 4 * S)];
        let clock = clock(&back);
        assert_eq!(counts(&clock), (9, 2, 1, 0), "of both CPUs it is one jump");
        assert_eq!(clock.stretches(), [(90_000 * S, 90_006 * S), (S, 4 * S)]);
    }

    #[test]
    fn a_jump_counts_once_whenever_each_cpu_reaches_it() {
        // The clock jumps ahead. One CPU is late, and one starts after the jump.
        let ahead =
            [(0, S), (1, S), (0, 5001 * S), (0, 5002 * S), (1, 5002 * S), (1, 5003 * S), (2, 5003 * S), (2, 5004 * S)];
        assert_eq!(counts(&clock(&ahead)), (3, 0, 1, 0));
        // The file has one CPU after the other.
        let distant = [(0, S), (0, 5001 * S), (0, 5002 * S), (1, S), (1, 5001 * S), (1, 5002 * S)];
        assert_eq!(counts(&clock(&distant)).2, 1);
        // The clock jumps back twice, by less than an hour.
        let back = [
            (0, 90 * S),
            (1, 90 * S),
            (0, 50 * S),
            (0, 51 * S),
            (1, 51 * S),
            (1, 52 * S),
            (0, 9 * S),
            (1, 9 * S),
            (0, 10 * S),
            (1, 10 * S),
        ];
        assert_eq!(counts(&clock(&back)).2, 2);
    }

    #[test]
    fn extreme_times_are_only_numbers() {
        let mut clock = Clock::default();
        for round in 0..5000 {
            clock.add(0, if round % 2 == 0 { i64::MIN } else { i64::MAX });
            clock.add(0, i64::from(round) * PLAUSIBLE_NS * 3 / 2);
            clock.add(0, i64::from(round) * PLAUSIBLE_NS * 3 / 2);
        }
        assert!(clock.stretches().len() <= MAX_STRETCHES);
    }
}

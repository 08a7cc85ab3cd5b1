//! Positions of time, CPU and thread in a record, which depend on the options of the recording.

use std::collections::BTreeMap;

use crate::read::format::number;

/// Bits of `PERF_SAMPLE_*`.
mod has {
    pub(super) const IP: u64 = 1 << 0;
    pub(super) const TID: u64 = 1 << 1;
    pub(super) const TIME: u64 = 1 << 2;
    pub(super) const ADDR: u64 = 1 << 3;
    pub(super) const READ: u64 = 1 << 4;
    pub(super) const CALLCHAIN: u64 = 1 << 5;
    pub(super) const ID: u64 = 1 << 6;
    pub(super) const CPU: u64 = 1 << 7;
    pub(super) const PERIOD: u64 = 1 << 8;
    pub(super) const STREAM_ID: u64 = 1 << 9;
    pub(super) const RAW: u64 = 1 << 10;
    pub(super) const IDENTIFIER: u64 = 1 << 16;
}

/// The layout of an event's records, from its `perf_event_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    /// Set if records that are no samples end with their ids, too.
    pub(super) sample_id_all: bool,
}

/// Ids of a record; -1 if missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Found {
    pub(super) time: u64,
    pub(super) cpu: u32,
    pub(super) pid: i32,
    pub(super) tid: i32,
    /// Range of the tracepoint's own record.
    pub(super) raw: (usize, usize),
}

impl Default for Found {
    fn default() -> Self {
        Self { time: 0, cpu: 0, pid: -1, tid: -1, raw: (0, 0) }
    }
}

struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
    big_endian: bool,
}

impl Words<'_> {
    fn next(&mut self) -> Option<u64> {
        self.skip(1)?;
        number(self.bytes, self.at - 8, 8, self.big_endian)
    }

    /// Reads two numbers of 32 bits.
    fn pair(&mut self) -> Option<(u32, u32)> {
        self.skip(1)?;
        let half = |at| number(self.bytes, at, 4, self.big_endian).map(|value| value as u32);
        Some((half(self.at - 8)?, half(self.at - 4)?))
    }

    fn skip(&mut self, words: u64) -> Option<()> {
        let at = usize::try_from(words).ok()?.checked_mul(8)?.checked_add(self.at)?;
        (at <= self.bytes.len()).then(|| self.at = at)
    }
}

/// Returns the layout of a sample by its id, which has the same position in all.
fn layout_of<'a>(id: Option<u64>, layouts: &'a [Layout], by_id: &BTreeMap<u64, usize>) -> Option<&'a Layout> {
    let index = id.and_then(|id| by_id.get(&id)).copied().unwrap_or(0);
    layouts.get(index)
}

pub(super) fn sample(
    bytes: &[u8],
    layouts: &[Layout],
    by_id: &BTreeMap<u64, usize>,
    big_endian: bool,
) -> Option<Found> {
    let first = layouts.first()?;
    // Events that were recorded together have an identifier if they differ.
    let id = (first.sample_type & has::IDENTIFIER != 0).then(|| number(bytes, 0, 8, big_endian)).flatten();
    let Layout { sample_type, read_format, .. } = *layout_of(id, layouts, by_id)?;
    let has = |bit: u64| sample_type & bit != 0;
    let mut words = Words { bytes, at: 0, big_endian };
    let mut found = Found::default();
    for bit in [has::IDENTIFIER, has::IP] {
        if has(bit) {
            words.next()?;
        }
    }
    if has(has::TID) {
        let (pid, tid) = words.pair()?;
        (found.pid, found.tid) = (pid as i32, tid as i32);
    }
    if has(has::TIME) {
        found.time = words.next()?;
    }
    for bit in [has::ADDR, has::ID, has::STREAM_ID] {
        if has(bit) {
            words.next()?;
        }
    }
    if has(has::CPU) {
        found.cpu = words.pair()?.0;
    }
    if has(has::PERIOD) {
        words.next()?;
    }
    if has(has::READ) {
        read(&mut words, read_format)?;
    }
    if has(has::CALLCHAIN) {
        let depth = words.next()?;
        words.skip(depth)?;
    }
    if has(has::RAW) {
        let size = number(bytes, words.at, 4, big_endian)? as usize;
        let start = words.at + 4;
        let end = start.checked_add(size).filter(|&end| end <= bytes.len())?;
        found.raw = (start, end);
    }
    Some(found)
}

/// Skips the counters' values.
fn read(words: &mut Words<'_>, format: u64) -> Option<()> {
    let times = u64::from((format & 3).count_ones());
    // An id, and the number of lost events, for each value.
    let each = 1 + u64::from((format & 4 != 0) as u8) + u64::from((format & 16 != 0) as u8);
    if format & 8 != 0 {
        let values = words.next()?;
        words.skip(times.checked_add(values.checked_mul(each)?)?)
    } else {
        words.skip(times + each)
    }
}

/// Parses the end of a record that is no sample.
pub(super) fn trailer(
    bytes: &[u8],
    layouts: &[Layout],
    by_id: &BTreeMap<u64, usize>,
    big_endian: bool,
) -> Option<Found> {
    let first = layouts.first()?;
    let id = (first.sample_type & has::IDENTIFIER != 0)
        .then(|| number(bytes, bytes.len().checked_sub(8)?, 8, big_endian))
        .flatten();
    let Layout { sample_type, sample_id_all, .. } = *layout_of(id, layouts, by_id)?;
    let mut found = Found::default();
    if !sample_id_all {
        return Some(found);
    }
    let has = |bit: u64| sample_type & bit != 0;
    let fields = [has::TID, has::TIME, has::ID, has::STREAM_ID, has::CPU, has::IDENTIFIER];
    let size = fields.iter().filter(|&&bit| has(bit)).count() * 8;
    let mut words = Words { bytes, at: bytes.len().checked_sub(size)?, big_endian };
    if has(has::TID) {
        let (pid, tid) = words.pair()?;
        (found.pid, found.tid) = (pid as i32, tid as i32);
    }
    if has(has::TIME) {
        found.time = words.next()?;
    }
    for bit in [has::ID, has::STREAM_ID] {
        if has(bit) {
            words.next()?;
        }
    }
    if has(has::CPU) {
        found.cpu = words.pair()?.0;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_before_the_raw_data_is_passed_over() {
        let sample_type = 0b111_1111_1111 | has::IDENTIFIER;
        let mut bytes = Vec::new();
        let mut word = |value: u64| bytes.extend_from_slice(&value.to_le_bytes());
        word(77); // identifier
        word(0xffff); // ip
        word(5 | 6 << 32); // pid, tid
        word(123); // time
        word(0); // addr
        word(77); // id
        word(0); // stream
        word(3); // cpu
        word(1); // period
        [2, 10, 11, 1, 2, 3, 4].into_iter().for_each(&mut word); // a group of two, with times and ids
        [2, 8, 9].into_iter().for_each(&mut word); // a call chain
        bytes.extend_from_slice(&4_u32.to_le_bytes());
        bytes.extend_from_slice(b"abcd");
        let layouts = [
            Layout { sample_type: has::IDENTIFIER, read_format: 0, sample_id_all: true },
            Layout { sample_type, read_format: 0b1111, sample_id_all: true },
        ];
        let by_id = BTreeMap::from([(77, 1)]);
        let found = sample(&bytes, &layouts, &by_id, false).unwrap();
        assert_eq!((found.time, found.cpu, found.pid, found.tid), (123, 3, 5, 6));
        assert_eq!(&bytes[found.raw.0..found.raw.1], b"abcd");
        for end in 0..bytes.len() {
            // Without an identifier it counts as the first event's, which is complete.
            assert!(sample(&bytes[..end], &layouts, &by_id, false).is_none(), "{end}");
        }
    }
}

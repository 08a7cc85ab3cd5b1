//! Pages of the kernel's ring buffer, from `trace_pipe_raw` or `trace.dat`.
//!
//! A page begins with its time and the length of its content. Records follow, each with a header of 32 bits: the
//! length in words or another type, and the time since the previous record.

use std::ops::Range;

use memchr::memmem;

use super::format::number;
use super::scan::{digits, trim_start};

/// The layout of a page, from the kernel's `events/header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) big_endian: bool,
    /// Bytes of the kernel's `long`, the size of `commit`.
    long: usize,
    commit: usize,
    data: usize,
}

impl Layout {
    pub(super) fn parse(text: &[u8], big_endian: bool) -> Option<Self> {
        let field = |name: &[u8]| -> Option<(usize, usize)> {
            let line = text.split(|&byte| byte == b'\n').find(|line| memmem::find(line, name).is_some())?;
            let value = |key: &[u8]| {
                let at = memmem::find(line, key)?;
                digits(trim_start(&line[at + key.len()..])).map(|(value, _)| value as usize)
            };
            Some((value(b"offset:")?, value(b"size:")?))
        };
        let (commit, long) = field(b" commit;")?;
        let (data, _) = field(b" data;")?;
        let fits = matches!(long, 4 | 8) && (8..=64).contains(&commit) && (commit + long..=256).contains(&data);
        fits.then_some(Self { big_endian, long, commit, data })
    }
}

/// Flags in `commit`: events were lost before this page, and their number follows the page's last event.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const COMMIT: u64 = (1 << 27) - 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    at: usize,
    end: usize,
    time: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    Nothing,
    /// Lost events, with their number if counted.
    Some(Option<u64>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// An event; `record` is a range of the page.
    Event { at: u64, record: Range<usize> },
    /// End of the page.
    End,
    /// Invalid data: the rest of the page is lost.
    Damaged(usize),
}

/// Begins a page. Returns also what was lost before it. None if it is damaged. A page of the kernel has a time or
/// content, so a page with neither was overwritten with zeros.
pub(super) fn begin(page: &[u8], layout: Layout) -> Option<(Page, Missed)> {
    let time = number(page, 0, 8, layout.big_endian)?;
    let commit = number(page, layout.commit, layout.long, layout.big_endian)?;
    let end = layout.data + (commit & COMMIT) as usize;
    if end > page.len() || (time == 0 && commit == 0) {
        return None;
    }
    let lost = match commit & (MISSED | MISSED_STORED) {
        flags if flags & MISSED == 0 => Missed::Nothing,
        MISSED => Missed::Some(None),
        _ => Missed::Some(number(page, end, layout.long, layout.big_endian)),
    };
    Some((Page { at: layout.data, end, time }, lost))
}

impl Page {
    pub(super) fn time(&self) -> u64 {
        self.time
    }

    /// Returns an empty page at the time of this one's last event.
    pub(super) fn without_rest(self) -> Self {
        Self { at: 0, end: 0, time: self.time }
    }

    pub(super) fn at(self, time: u64) -> Self {
        Self { time, ..self }
    }

    #[inline]
    pub(super) fn next(&mut self, page: &[u8], layout: Layout) -> Item {
        let page = &page[..self.end];
        let word = |at: usize| number(page, at, 4, layout.big_endian);
        loop {
            let at = self.at;
            if at + 4 > self.end {
                return Item::End;
            }
            let Some(header) = word(at) else { return self.damaged(at) };
            let (kind, delta) =
                if layout.big_endian { (header >> 27, header & ((1 << 27) - 1)) } else { (header & 31, header >> 5) };
            let (record, next) = match kind {
                // Padding: the whole rest, or a discarded event.
                29 if delta == 0 => {
                    self.at = self.end;
                    return Item::End;
                }
                29 => {
                    let Some(length) = word(at + 4) else { return self.damaged(at) };
                    (None, at + 4 + (length as usize).next_multiple_of(4).max(4))
                }
                // A time beyond the header: a difference, or an absolute time without the uppermost bits.
                30 | 31 => {
                    let Some(upper) = word(at + 4) else { return self.damaged(at) };
                    let time = (upper << 27).wrapping_add(delta);
                    self.time = if kind == 30 { self.time.wrapping_add(time) } else { time | self.time & (0x1f << 59) };
                    self.at = at + 8;
                    continue;
                }
                0 => {
                    let Some(length) = word(at + 4) else { return self.damaged(at) };
                    let length = length as usize;
                    if length < 4 {
                        return self.damaged(at);
                    }
                    (Some(at + 8..at + 4 + length), at + 4 + length.next_multiple_of(4))
                }
                words => {
                    let end = at + 4 + words as usize * 4;
                    (Some(at + 4..end), end)
                }
            };
            if next > self.end {
                return self.damaged(at);
            }
            self.time = self.time.wrapping_add(delta);
            self.at = next;
            if let Some(record) = record {
                return Item::Event { at: self.time, record };
            }
        }
    }

    fn damaged(&mut self, at: usize) -> Item {
        self.at = self.end;
        Item::Damaged(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn layout(big_endian: bool) -> Layout {
        Layout::parse(HEADER, big_endian).unwrap()
    }

    fn page(big_endian: bool, time: u64, words: &[u32], flags: u64) -> Vec<u8> {
        let long = |value: u64| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut page = [long(time), long((words.len() as u64 * 4) | flags)].concat();
        for word in words {
            page.extend_from_slice(&if big_endian { word.to_be_bytes() } else { word.to_le_bytes() });
        }
        page.resize(4096, 0);
        page
    }

    fn header(big_endian: bool, kind: u32, delta: u32) -> u32 {
        if big_endian { kind << 27 | delta } else { kind | delta << 5 }
    }

    fn items(bytes: &[u8], layout: Layout) -> Vec<Item> {
        let (mut page, _) = begin(bytes, layout).unwrap();
        let mut items = Vec::new();
        loop {
            items.push(page.next(bytes, layout));
            if !matches!(items.last(), Some(Item::Event { .. })) {
                return items;
            }
        }
    }

    #[test]
    fn every_kind_of_record() {
        for big in [false, true] {
            let words = [
                header(big, 2, 10),
                1,
                2,
                header(big, 30, 3),
                1,
                header(big, 29, 5),
                8,
                0,
                header(big, 0, 1),
                7,
                9,
                header(big, 31, 100),
                1 << 28,
                header(big, 1, 1),
                3,
                header(big, 29, 0),
            ];
            let bytes = page(big, 1 << 60, &words, 0);
            let start = 1_u64 << 60;
            let extended = start + 10 + (1 << 27) + 3 + 5 + 1;
            let absolute = (1_u64 << 60 | 1 << 55) + 100 + 1;
            let expected = [
                Item::Event { at: start + 10, record: 20..28 },
                Item::Event { at: extended, record: 56..59 },
                Item::Event { at: absolute, record: 72..76 },
                Item::End,
            ];
            let found = items(&bytes, layout(big));
            assert_eq!(found[0], expected[0]);
            assert_eq!(found[1], Item::Event { at: extended, record: 56..59 });
            assert_eq!(found[2..], expected[2..]);
        }
    }

    #[test]
    fn losses_are_reported_before_a_page() {
        let mut bytes = page(false, 5, &[header(false, 1, 0), 0], MISSED | MISSED_STORED);
        bytes[24..32].copy_from_slice(&77_u64.to_le_bytes());
        assert_eq!(begin(&bytes, layout(false)).unwrap().1, Missed::Some(Some(77)));
        let bytes = page(false, 5, &[header(false, 1, 0), 0], MISSED);
        assert_eq!(begin(&bytes, layout(false)).unwrap().1, Missed::Some(None));
        let bytes = page(false, 5, &[], 0);
        assert_eq!(begin(&bytes, layout(false)).unwrap().1, Missed::Nothing);
    }

    #[test]
    fn damage_ends_a_page_and_nothing_else() {
        for words in [
            &[header(false, 28, 0), 1][..],
            &[header(false, 0, 0), 3],
            &[header(false, 0, 0), 4000],
            &[header(false, 0, 0)],
            &[header(false, 30, 0)],
            &[header(false, 29, 1), u32::MAX],
        ] {
            assert_eq!(items(&page(false, 5, words, 0), layout(false)), [Item::Damaged(16)], "{words:?}");
        }
        assert!(begin(&page(false, 5, &[], 5000), layout(false)).is_none());
        assert!(begin(&[0; 10], layout(false)).is_none());
        assert!(begin(&[0; 4096], layout(false)).is_none(), "no page of the kernel is all zeros");
    }
}

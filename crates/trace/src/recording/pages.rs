//! Writes pages of the kernel's ring buffer, for events that came without them.

use std::io::{self, Write};

/// Offsets of `commit` and of the first record.
const COMMIT: usize = 8;
const DATA: usize = 16;
/// Types of records with a time instead of an event.
const TIME_EXTEND: u32 = 30;
/// Bits of a time in a record's header.
const DELTA_BITS: u32 = 27;
/// The longest record, bytes, whose length is its type.
const SHORT: usize = 28 * 4;
/// Flags of `commit`: events were lost before the page, and their number is behind its last record.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Writes the pages of one CPU, in order of time.
///
/// [`header_page`](Self::header_page) and [`HEADER_EVENT`](Self::HEADER_EVENT) describe these pages.
///
/// ```
/// use vruntime_trace::recording::PageWriter;
///
/// let mut pages = PageWriter::new(4096);
/// let mut out = Vec::new();
/// pages.event(1_000, &[7, 0, 0, 0, 1, 0, 0, 0], &mut out)?;
/// pages.finish(&mut out)?;
/// assert_eq!(out.len(), 4096);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PageWriter {
    size: usize,
    page: Vec<u8>,
    /// Time of the last event, nanoseconds.
    last: u64,
    /// Events lost before this page, and before the next one.
    lost_before: u64,
    lost_after: u64,
}

impl PageWriter {
    /// The text of `events/header_event`.
    pub const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\t\
        array       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\ttime_stamp : type == 31\n\t\
        data max type_len  == 28\n";

    /// Begins with an empty page of `size` bytes, at least 256.
    pub fn new(size: usize) -> Self {
        Self { size: size.max(256), page: Vec::new(), last: 0, lost_before: 0, lost_after: 0 }
    }

    /// Returns the text of `events/header_page` for pages of `size` bytes.
    pub fn header_page(size: usize) -> String {
        let data = size.saturating_sub(DATA);
        format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:{COMMIT};\tsize:8;\tsigned:1;\n\
             \tfield: int overwrite;\toffset:{COMMIT};\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:{DATA};\tsize:{data};\tsigned:0;\n"
        )
    }

    /// Adds an event: its time in nanoseconds, and its record as the kernel's format describes it. An event before its
    /// predecessor gets the predecessor's time. A record that fits in no page counts as lost.
    ///
    /// # Errors
    /// If writing fails.
    pub fn event(&mut self, time: u64, record: &[u8], out: &mut impl Write) -> io::Result<()> {
        let words = record.len().div_ceil(4);
        let (short, header) = if words > 0 && words * 4 <= SHORT { (true, 4) } else { (false, 8) };
        let length = header + words * 4;
        if DATA + length > self.size {
            self.lost(1);
            return Ok(());
        }
        let time = time.max(self.last);
        let mut delta = time - self.last;
        let extend = if delta >> DELTA_BITS == 0 { 0 } else { 8 };
        // Lost events are noted at the begin of a page.
        if self.lost_after > 0 || self.page.len() + extend + length > self.size {
            self.flush(out)?;
        }
        if self.page.is_empty() {
            self.page.extend_from_slice(&time.to_ne_bytes());
            self.page.extend_from_slice(&[0; DATA - COMMIT]);
            delta = 0;
        }
        if delta >> DELTA_BITS != 0 {
            let upper = u32::try_from(delta >> DELTA_BITS).unwrap_or(u32::MAX);
            self.header(TIME_EXTEND, delta as u32 & ((1 << DELTA_BITS) - 1));
            self.page.extend_from_slice(&upper.to_ne_bytes());
            delta = 0;
        }
        if short {
            self.header(words as u32, delta as u32);
        } else {
            self.header(0, delta as u32);
            self.page.extend_from_slice(&((words * 4 + 4) as u32).to_ne_bytes());
        }
        self.page.extend_from_slice(record);
        self.page.resize(self.page.len() + words * 4 - record.len(), 0);
        self.last = time;
        Ok(())
    }

    /// Notes that events were lost after the last one.
    pub fn lost(&mut self, events: u64) {
        self.lost_after = self.lost_after.saturating_add(events);
    }

    /// Writes the last page.
    ///
    /// # Errors
    /// If writing fails.
    pub fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.flush(out)?;
        if self.lost_before > 0 {
            // An empty page for losses at the end.
            self.page.extend_from_slice(&self.last.to_ne_bytes());
            self.page.extend_from_slice(&[0; DATA - COMMIT]);
            self.flush(out)?;
        }
        Ok(())
    }

    fn header(&mut self, kind: u32, delta: u32) {
        let word = if cfg!(target_endian = "big") { kind << DELTA_BITS | delta } else { kind | delta << 5 };
        self.page.extend_from_slice(&word.to_ne_bytes());
    }

    fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        if !self.page.is_empty() {
            let mut commit = (self.page.len() - DATA) as u64;
            if self.lost_before > 0 {
                commit |= MISSED;
                if self.page.len() + 8 <= self.size {
                    commit |= MISSED_STORED;
                    self.page.extend_from_slice(&self.lost_before.to_ne_bytes());
                }
                self.lost_before = 0;
            }
            self.page[COMMIT..DATA].copy_from_slice(&commit.to_ne_bytes());
            self.page.resize(self.size, 0);
            out.write_all(&self.page)?;
            self.page.clear();
        }
        self.lost_before = self.lost_before.saturating_add(std::mem::take(&mut self.lost_after));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Formats, Recording, TraceDatFile};
    use super::*;
    use crate::event::Tracepoint;
    use crate::read::TraceDat;

    const SIZE: usize = 4096;
    const FORMAT: &str = "name: print\nID: 5\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char buf[];\toffset:8;\tsize:0;\tsigned:0;\n\nprint fmt: \"%s\", REC->buf\n";

    fn record(text: &[u8]) -> Vec<u8> {
        let mut record = [5_u16.to_ne_bytes(), [0; 2]].concat();
        record.extend_from_slice(&7_i32.to_ne_bytes());
        record.extend_from_slice(text);
        record.push(0);
        record
    }

    /// Times and lengths of events, or losses, of one CPU's pages.
    fn read(pages: &[u8]) -> Vec<(i64, Result<usize, Option<u64>>)> {
        let formats = Formats {
            header_page: PageWriter::header_page(SIZE).into_bytes(),
            header_event: PageWriter::HEADER_EVENT.as_bytes().to_vec(),
            ftrace: Vec::new(),
            systems: vec![("ftrace".to_owned(), vec![FORMAT.as_bytes().to_vec()])],
        };
        let file =
            TraceDatFile { page_size: SIZE as u32, formats, recording: Recording::default(), ..Default::default() };
        let mut bytes = Vec::new();
        file.head(&mut bytes, &[pages.len() as u64]).unwrap();
        bytes.extend_from_slice(pages);
        let mut dat = TraceDat::new(std::io::Cursor::new(bytes)).unwrap();
        let mut all = Vec::new();
        while let Some(record) = dat.next_record().unwrap() {
            all.push(match record.point {
                Tracepoint::Print { text } => (record.at, Ok(text.len())),
                Tracepoint::Lost { events } => (record.at, Err(events)),
                other => panic!("{other:?}"),
            });
        }
        assert_eq!((dat.notes().malformed.count, dat.notes().not_understood.count), (0, 0));
        all
    }

    /// Lengths around the limit of short records, and times around the limit of the header.
    #[test]
    fn what_is_written_is_read_back() {
        let limit = 1 << DELTA_BITS;
        let deltas = [0, 1, limit - 1, limit, limit + 1, 5, 40 * limit + 7, 1 << 40];
        let (mut pages, mut out) = (PageWriter::new(SIZE), Vec::new());
        let (mut at, mut expected) = (1_000_000, Vec::new());
        for length in (1..300).chain([3000, 4000]) {
            at += deltas[length % deltas.len()];
            pages.event(at, &record(&vec![b'x'; length]), &mut out).unwrap();
            expected.push((at as i64, Ok(length)));
        }
        pages.finish(&mut out).unwrap();
        assert_eq!(out.len() % SIZE, 0);
        assert!(out.len() / SIZE > 10, "{}", out.len());
        assert_eq!(read(&out), expected);
    }

    #[test]
    fn losses_have_a_place_and_a_number() {
        let (mut pages, mut out) = (PageWriter::new(SIZE), Vec::new());
        pages.event(10, &record(b"a"), &mut out).unwrap();
        pages.lost(3);
        pages.lost(4);
        pages.event(20, &record(b"bc"), &mut out).unwrap();
        // Longer than a page.
        pages.event(25, &record(&[b'x'; SIZE]), &mut out).unwrap();
        pages.event(30, &record(b"d"), &mut out).unwrap();
        pages.lost(2);
        pages.finish(&mut out).unwrap();
        let events = read(&out);
        let numbers: Vec<_> = events.iter().map(|(_, what)| *what).collect();
        assert_eq!(numbers, [Ok(1), Err(Some(7)), Ok(2), Err(Some(1)), Ok(1), Err(Some(2))], "{events:?}");
    }

    #[test]
    fn no_event_is_before_its_predecessor() {
        let (mut pages, mut out) = (PageWriter::new(SIZE), Vec::new());
        for at in [50, 40, 60] {
            pages.event(at, &record(b"a"), &mut out).unwrap();
        }
        pages.finish(&mut out).unwrap();
        assert_eq!(read(&out).iter().map(|(at, _)| *at).collect::<Vec<_>>(), [50, 50, 60]);
        let mut none = Vec::new();
        PageWriter::new(SIZE).finish(&mut none).unwrap();
        assert!(none.is_empty());
    }
}

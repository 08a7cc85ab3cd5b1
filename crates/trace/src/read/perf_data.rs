//! `perf.data`: samples of tracepoints, from `perf record` and `perf sched record`.
//!
//! The file has the kernel's descriptions of its events, as `trace.dat` does. Its records are in the order in which
//! perf emptied the CPUs' buffers. Rounds bound the disorder: no record after a round is earlier than the records
//! before the previous round. (The crate linux-perf-data trusts every length in a file, and rejects truncated files.)

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::ops::Range;

use super::events::Events;
use super::format::{Decoded, Formats, number, until_nul};
use super::head::MAX_CPUS;
use super::input::Input;
use super::notes::{Error, Kind, Notes, Place};
use crate::event::{Named, Record, Tracepoint};

mod header;
mod sample;

use self::header::Header;
use self::sample::{Found, Layout};

pub(super) const MAGIC: &[u8] = b"PERFILE2";
pub(super) const MAGIC_SWAPPED: &[u8] = b"2ELIFREP";

/// The most bytes of records held for the end of their round.
const MAX_HELD: usize = 64 << 20;
/// The most remembered names of threads.
const MAX_COMMS: usize = 1 << 20;

/// `PERF_RECORD_*`.
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const FORK: u32 = 7;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const FINISHED_ROUND: u32 = 68;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// Reads `perf.data` in order of time.
#[derive(Debug)]
pub struct PerfData<R> {
    input: Input<R>,
    end: u64,
    layouts: Vec<Layout>,
    /// The layout of each sample id.
    by_id: BTreeMap<u64, usize>,
    formats: Formats,
    comms: BTreeMap<i32, Vec<u8>>,
    buffer: Buffer,
    /// Set after a sample.
    began: bool,
    /// Set after a sample or a loss.
    any: bool,
    notes: Notes,
}

/// Records held until the end of their round.
#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    /// Number of sorted rows, and of returned ones.
    ready: usize,
    given: usize,
    /// The latest time before the present round, and of all.
    before: u64,
    latest: u64,
}

/// A held record, sorted by time and place in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    time: u64,
    place: u64,
    kind: u32,
    start: usize,
    size: usize,
    found: Found,
}

impl Buffer {
    fn release(&mut self, limit: u64) {
        self.rows.sort_unstable();
        self.ready = self.rows.partition_point(|row| row.time <= limit);
        self.given = 0;
    }

    /// Drops the returned rows.
    fn forget(&mut self) {
        self.rows.drain(..self.given);
        (self.ready, self.given) = (0, 0);
        let mut kept = Vec::with_capacity(self.rows.iter().map(|row| row.size).sum());
        for row in &mut self.rows {
            let start = kept.len();
            kept.extend_from_slice(&self.bytes[row.start..row.start + row.size]);
            row.start = start;
        }
        self.bytes = kept;
    }
}

impl<R: Read + Seek> PerfData<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// If reading fails, the header is damaged or unfinished, or the samples are compressed.
    pub fn new(reader: R) -> Result<Self, Error> {
        let mut input = Input::new(reader)?;
        let Header { layouts, by_id, formats, data, machine_cpus, release } = Header::read(&mut input)?;
        let mut notes = Notes { kind: Some(Kind::PerfData), cpus: machine_cpus, release, ..Notes::default() };
        if data.end > input.len() {
            notes.unterminated = Some(Place::Byte(input.len()));
        }
        input.seek(data.start)?;
        let end = data.end.min(input.len());
        Ok(Self {
            input,
            end,
            layouts,
            by_id,
            formats,
            comms: BTreeMap::new(),
            buffer: Buffer::default(),
            began: false,
            any: false,
            notes,
        })
    }

    /// Reads to the end of a round; returns false at the end of the file.
    fn fill(&mut self) -> Result<bool, Error> {
        self.buffer.forget();
        while self.buffer.ready == 0 {
            if self.input.at() + 8 > self.end {
                if self.buffer.rows.is_empty() {
                    return Ok(false);
                }
                self.buffer.release(u64::MAX);
                return Ok(true);
            }
            self.record()?;
            if self.buffer.bytes.len() > MAX_HELD {
                // No perf makes such rounds. Records are nearly in order, so the earlier half is released.
                self.buffer.rows.sort_unstable();
                let limit = self.buffer.rows[self.buffer.rows.len() / 2].time;
                self.buffer.release(limit);
            }
        }
        Ok(true)
    }

    fn record(&mut self) -> Result<(), Error> {
        let place = self.input.at();
        let mut header = [0; 8];
        self.input.exact(&mut header, "a record")?;
        let word = |offset, size| number(&header, offset, size, self.input.big_endian).unwrap_or(0);
        let (kind, size) = (word(0, 4) as u32, word(6, 2) as usize);
        if size < 8 || place + size as u64 > self.end {
            // The next record cannot be found.
            self.notes.not_understood.add(Place::Byte(place));
            if size < 8 || self.notes.unterminated.is_none() {
                self.notes.abandoned = Some(Place::Byte(place));
            } else {
                self.notes.unterminated = Some(Place::Byte(place));
            }
            return self.input.seek(self.end);
        }
        let size = size - 8;
        let buffer = &mut self.buffer;
        match kind {
            kind::FINISHED_ROUND => {
                self.input.skip(size as u64)?;
                let limit = buffer.before;
                buffer.before = buffer.latest;
                buffer.release(limit);
            }
            kind::COMPRESSED | kind::COMPRESSED2 => {
                return Err(Error::NotRead {
                    what: "perf.data with compressed samples (perf record -z)".to_owned(),
                    help: "`perf script --ns -i FILE > trace.txt` prints it as text, which is read",
                });
            }
            kind::AUXTRACE => {
                // Its data follow the record.
                let data = self.input.number(8, "the size of AUX data")?;
                self.input.skip(
                    (size as u64).saturating_sub(8).saturating_add(data).min(self.end.saturating_sub(self.input.at())),
                )?;
            }
            kind::SAMPLE | kind::COMM | kind::FORK | kind::LOST | kind::LOST_SAMPLES => {
                let start = buffer.bytes.len();
                self.input.append(&mut buffer.bytes, size, "a record")?;
                let bytes = &buffer.bytes[start..];
                let big_endian = self.input.big_endian;
                let found = if kind == kind::SAMPLE {
                    sample::sample(bytes, &self.layouts, &self.by_id, big_endian)
                } else {
                    sample::trailer(bytes, &self.layouts, &self.by_id, big_endian)
                };
                let Some(found) = found.filter(|found| found.cpu < MAX_CPUS) else {
                    buffer.bytes.truncate(start);
                    self.notes.malformed.add(Place::Byte(place));
                    return Ok(());
                };
                let time = found.time;
                buffer.latest = buffer.latest.max(time);
                buffer.rows.push(Row { time, place, kind, start, size, found });
            }
            _ => self.input.skip(size as u64)?,
        }
        Ok(())
    }

    /// Returns the next event; none at the end.
    ///
    /// # Errors
    /// If reading fails, or the samples are compressed.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        let row = loop {
            if self.buffer.given == self.buffer.ready && !self.fill()? {
                if self.any || self.notes.unterminated.is_some() || self.notes.not_understood.count > 0 {
                    return Ok(None);
                }
                return Err(Error::WithoutEvents { kind: Kind::PerfData });
            }
            let row = self.buffer.rows[self.buffer.given];
            self.buffer.given += 1;
            if row.kind != kind::FORK {
                break row;
            }
            self.forked(row);
        };
        if row.kind == kind::COMM {
            self.renamed(row);
        }
        self.began |= row.kind == kind::SAMPLE;
        self.any |= row.kind != kind::COMM;
        let bytes = &self.buffer.bytes[row.start..row.start + row.size];
        let big_endian = self.input.big_endian;
        let int = |offset: usize| number(bytes, offset, 4, big_endian).map_or(-1, |value| value as u32 as i32);
        let Found { time, cpu, pid, mut tid, raw } = row.found;
        let mut context = None;
        let (name, point): (&[u8], _) = match row.kind {
            kind::LOST => (b"PERF_RECORD_LOST", Tracepoint::Lost { events: number(bytes, 8, 8, big_endian) }),
            kind::LOST_SAMPLES => {
                (b"PERF_RECORD_LOST_SAMPLES", Tracepoint::Lost { events: number(bytes, 0, 8, big_endian) })
            }
            kind::COMM => {
                let task = Named { comm: until_nul(bytes.get(8..).unwrap_or_default()), pid: int(4) };
                (b"PERF_RECORD_COMM", Tracepoint::TaskRename { task, tgid: Some(int(0)) })
            }
            _ => {
                let decoded = decode(&self.formats, bytes, raw.0..raw.1);
                context = decoded.context;
                // For exiting tasks perf has no id (-1), but the event has.
                tid = if tid < 0 { decoded.pid } else { tid };
                (decoded.name, decoded.point)
            }
        };
        if matches!(point, Tracepoint::Malformed { .. }) {
            self.notes.malformed.add(Place::Byte(row.place));
        }
        let comm = if tid == 0 { b"swapper" } else { self.comms.get(&tid).map_or(&b""[..], Vec::as_slice) };
        let at = i64::try_from(time).unwrap_or(i64::MAX);
        Ok(Some(Record { at, cpu, pid: tid, tgid: (pid >= 0).then_some(pid), comm, context, name, point }))
    }

    /// A new thread has its parent's name.
    fn forked(&mut self, row: Row) {
        let bytes = &self.buffer.bytes[row.start..row.start + row.size];
        let int = |offset: usize| number(bytes, offset, 4, self.input.big_endian).map(|value| value as u32 as i32);
        let (Some(process), Some(child), Some(parent)) = (int(0), int(8), int(12)) else { return };
        if !self.began {
            self.notes.was_forked(process, child, parent);
        }
        if let Some(comm) = self.comms.get(&parent).cloned()
            && self.comms.len() < MAX_COMMS
        {
            self.comms.insert(child, comm);
        }
    }

    fn renamed(&mut self, row: Row) {
        let bytes = &self.buffer.bytes[row.start..row.start + row.size];
        if let Some(tid) = number(bytes, 4, 4, self.input.big_endian)
            && self.comms.len() < MAX_COMMS
        {
            let comm = until_nul(bytes.get(8..).unwrap_or_default());
            self.comms.insert(tid as u32 as i32, comm[..comm.len().min(16)].to_vec());
        }
    }

    /// Returns what is known of the file so far.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }
}

/// Decodes the tracepoint in a sample's raw data; other samples have none.
fn decode<'a>(formats: &'a Formats, bytes: &'a [u8], raw: Range<usize>) -> Decoded<'a> {
    let nothing = Decoded { pid: -1, context: None, name: b"(sample)", point: Tracepoint::Other { fields: b"" } };
    bytes.get(raw).filter(|raw| !raw.is_empty()).and_then(|raw| formats.decode(raw)).unwrap_or(nothing)
}

impl<R: Read + Seek> Events for PerfData<R> {
    fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        PerfData::next_record(self)
    }

    fn notes(&self) -> &Notes {
        PerfData::notes(self)
    }
}

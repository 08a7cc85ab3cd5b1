//! `trace.dat` of trace-cmd, versions 6 and 7, after trace-cmd.dat(5).
//!
//! The file has the kernel's descriptions of its records (`format.rs`), and the pages of each CPU's ring buffer
//! (`ring.rs`). One page of each CPU is in memory. The earliest of their events is next.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{Read, Seek};
use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;

use super::events::Events;
use super::format::{Decoded, Formats};
use super::head::MAX_CPUS;
use super::notes::{Error, Kind, Notes, Place};
use super::ring::{Item, Layout, Missed, Page, begin};
use super::scan::{digits, signed, word};
use super::text::LOST;
use crate::event::{Record, Tracepoint};

mod header;
mod pages;

pub(crate) use self::header::MAGIC;
use self::header::{Buffer, Header};
use self::pages::Pages;
use super::input::Input;

/// Reads `trace.dat` in order of time.
#[derive(Debug)]
pub struct TraceDat<R> {
    input: Input<R>,
    layout: Layout,
    formats: Formats,
    comms: Comms,
    clock: Clock,
    cpus: Vec<Cpu>,
    /// CPUs with further events, earliest first.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    /// The CPU of the last returned event.
    taken: Option<usize>,
    /// Number of returned events.
    events: u64,
    notes: Notes,
}

/// The recording of one CPU.
#[derive(Debug)]
struct Cpu {
    id: u32,
    pages: Pages,
    page: Page,
    now: Now,
    /// Set until the reader has reported that the file ends before the CPU's data.
    cut: bool,
    /// Set if the CPU has data that is not in the file.
    unread: bool,
}

#[derive(Clone, Debug)]
enum Now {
    Lost(Option<u64>),
    Event(Range<usize>),
    Nothing,
}

/// Names of threads, as saved by the kernel.
#[derive(Debug, Default)]
struct Comms {
    text: Vec<u8>,
    by_pid: BTreeMap<i32, Range<usize>>,
}

impl Comms {
    fn parse(text: Vec<u8>) -> Self {
        let mut by_pid = BTreeMap::new();
        let mut start = 0;
        for line in text.split(|&byte| byte == b'\n') {
            let (pid, comm) = word(line);
            if let Some(pid) = signed(pid)
                && comm.len() > 1
            {
                by_pid.insert(pid, start + line.len() - comm.len() + 1..start + line.len());
            }
            start += line.len() + 1;
        }
        Self { text, by_pid }
    }

    fn get(&self, pid: i32) -> &[u8] {
        if pid == 0 {
            return b"<idle>";
        }
        self.by_pid.get(&pid).map_or(b"", |range| &self.text[range.clone()])
    }
}

/// The conversion of the buffer's times to nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// Offset, nanoseconds.
    pub(super) offset: i64,
    /// For cycles: factor, shift, and offset.
    pub(super) cycles: Option<(u32, u32, u64)>,
}

impl Clock {
    #[inline]
    fn nanoseconds(self, at: u64) -> i64 {
        let at = match self.cycles {
            None => at,
            Some((factor, shift, offset)) => {
                let scaled = (u128::from(at) * u128::from(factor)) >> shift.min(127);
                u64::try_from(scaled).unwrap_or(u64::MAX).saturating_sub(offset)
            }
        };
        i64::try_from(at).unwrap_or(i64::MAX).saturating_add(self.offset)
    }
}

impl<R: Read + Seek> TraceDat<R> {
    /// Reads the header, and the first page of each CPU.
    ///
    /// # Errors
    /// If reading fails, the header is damaged, there is no event, or the content is unsupported: text of the latency
    /// tracers, compression other than zstd.
    pub fn new(reader: R) -> Result<Self, Error> {
        let mut input = Input::new(reader)?;
        let Header { layout, formats, comms, clock, buffer, overrun, machine_cpus, release, recording } =
            Header::read(&mut input)?;
        let mut notes = Notes {
            kind: Some(Kind::TraceDat),
            cpus: machine_cpus.or(u32::try_from(buffer.cpus.len()).ok()),
            overwritten: overrun,
            release,
            recording: recording.map(Arc::new),
            ..Notes::default()
        };
        notes.counts_for_time = buffer.counts && clock.cycles.is_none();
        let Buffer { page_size, compressed, cpus: found, .. } = buffer;
        if found.iter().any(|cpu| cpu.size > 0 && cpu.offset.saturating_add(cpu.size) > input.len()) {
            notes.unterminated = Some(Place::Byte(input.len()));
        }
        let unread = found.iter().map(|cpu| cpu.size).fold(0, u64::saturating_add);
        if unread > input.len() && notes.unterminated.is_none() {
            // Each CPU's page is in memory, so CPUs must not share pages.
            return Err(input.damaged("pages of each CPU apart from the others'"));
        }
        // One page each, or several for few CPUs.
        let at_once = if found.len() <= 64 { (64 * 1024 / page_size).max(1) } else { 1 };
        let mut cpus = Vec::new();
        for cpu in found {
            if cpu.id >= MAX_CPUS {
                notes.not_understood.add(Place::Byte(cpu.offset));
                continue;
            }
            let cut = cpu.size > 0 && cpu.offset.saturating_add(cpu.size) > input.len();
            let pages = if compressed {
                Pages::chunks(&mut input, cpu.offset, cpu.size, page_size)?
            } else {
                Pages::plain(&input, cpu.offset, cpu.size, page_size, at_once)
            };
            cpus.push(Cpu { id: cpu.id, pages, page: Page::default(), now: Now::Nothing, cut, unread: cut });
        }
        let comms = Comms::parse(comms);
        let next = BinaryHeap::with_capacity(cpus.len());
        let mut trace = Self { input, layout, formats, comms, clock, cpus, next, taken: None, events: 0, notes };
        for cpu in 0..trace.cpus.len() {
            trace.advance(cpu)?;
        }
        // A CPU without data in the file is unknown from the first event on.
        if let Some(&Reverse((first, _))) = trace.next.peek() {
            for cpu in 0..trace.cpus.len() {
                let row = &mut trace.cpus[cpu];
                if matches!(row.now, Now::Nothing) && row.unread {
                    row.page = row.page.at(first);
                    trace.lose(cpu);
                }
            }
        }
        if trace.next.is_empty() && trace.notes.unterminated.is_none() && trace.notes.not_understood.count == 0 {
            return Err(Error::WithoutEvents { kind: Kind::TraceDat });
        }
        Ok(trace)
    }

    /// Puts `cpu` with its next event among the others.
    fn advance(&mut self, cpu: usize) -> Result<(), Error> {
        let row = &mut self.cpus[cpu];
        // Reports a loss once if no event is in between.
        let already_lost = matches!(row.now, Now::Lost(None));
        // Set after a damaged page without a time before it.
        let mut beginning_lost = false;
        loop {
            match row.page.next(row.pages.page(), self.layout) {
                Item::Event { at, record } => {
                    row.now = Now::Event(record);
                    self.next.push(Reverse((at, cpu as u32)));
                    return Ok(());
                }
                Item::Damaged(at) => {
                    self.notes.not_understood.add(Place::Byte(row.pages.offset() + at as u64));
                    self.lose(cpu);
                    return Ok(());
                }
                Item::End => {}
            }
            let unread = self.notes.not_understood.count;
            if !row.pages.next(&mut self.input, &mut self.notes)? {
                // The CPU's further events are unknown.
                let ends_early = std::mem::take(&mut row.cut) || self.notes.not_understood.count > unread;
                row.page = row.page.without_rest();
                if ends_early && row.page.time() > 0 && !already_lost {
                    self.lose(cpu);
                } else {
                    row.now = Now::Nothing;
                }
                return Ok(());
            }
            let Some((page, lost)) = begin(row.pages.page(), self.layout) else {
                self.notes.not_understood.add(Place::Byte(row.pages.offset()));
                row.page = row.page.without_rest();
                row.unread = true;
                // A CPU without events has no time for a loss.
                if row.page.time() > 0 && !already_lost {
                    self.lose(cpu);
                    return Ok(());
                }
                beginning_lost |= !already_lost;
                continue;
            };
            row.page = page;
            let lost = if beginning_lost && lost == Missed::Nothing { Missed::Some(None) } else { lost };
            if let Missed::Some(events) = lost {
                row.now = Now::Lost(events);
                self.next.push(Reverse((page.time(), cpu as u32)));
                return Ok(());
            }
        }
    }

    /// Puts a loss of `cpu`, at its last event's time, among the next events.
    fn lose(&mut self, cpu: usize) {
        let row = &mut self.cpus[cpu];
        row.now = Now::Lost(None);
        self.next.push(Reverse((row.page.time(), cpu as u32)));
    }

    /// Returns the next event; none at the end.
    ///
    /// # Errors
    /// If reading fails.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        if let Some(cpu) = self.taken.take() {
            self.advance(cpu)?;
        }
        let Some(Reverse((at, cpu))) = self.next.pop() else {
            let recorded = self.notes.recording.as_ref().and_then(|recording| recording.events());
            self.notes.incomplete = recorded.filter(|&events| events > self.events).map(|events| (self.events, events));
            return Ok(None);
        };
        let cpu = cpu as usize;
        self.taken = Some(cpu);
        let at = self.clock.nanoseconds(at);
        let Self { cpus, formats, comms, notes, .. } = self;
        let Cpu { id, pages, now, .. } = &cpus[cpu];
        let range = match now {
            Now::Event(range) => range.clone(),
            Now::Lost(events) => {
                let point = Tracepoint::Lost { events: *events };
                return Ok(Some(Record {
                    at,
                    cpu: *id,
                    pid: -1,
                    tgid: None,
                    comm: b"",
                    context: None,
                    name: LOST,
                    point,
                }));
            }
            Now::Nothing => return Ok(None),
        };
        self.events += 1;
        let start = range.start as u64;
        let nothing =
            Decoded { pid: -1, context: None, name: b"(unknown)", point: Tracepoint::Malformed { fields: b"" } };
        let Decoded { pid, context, name, point } = formats.decode(&pages.page()[range]).unwrap_or(nothing);
        if matches!(point, Tracepoint::Malformed { .. }) {
            notes.malformed.add(Place::Byte(pages.offset() + start));
        }
        Ok(Some(Record { at, cpu: *id, pid, tgid: None, comm: comms.get(pid), context, name, point }))
    }

    /// Returns what is known of the file so far.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }
}

impl<R: Read + Seek> Events for TraceDat<R> {
    fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        TraceDat::next_record(self)
    }

    fn notes(&self) -> &Notes {
        TraceDat::notes(self)
    }
}

/// Returns the overwritten and dropped events in the text of `per_cpu/cpuN/stats`.
fn overrun(stats: &[u8]) -> Option<u64> {
    let mut sum = None;
    for key in [&b"\noverrun: "[..], b"\ndropped events: "] {
        if let Some(at) = memmem::find(stats, key)
            && let Some((count, _)) = digits(&stats[at + key.len()..])
        {
            sum = Some(sum.unwrap_or(0_u64).saturating_add(count));
        }
    }
    sum
}

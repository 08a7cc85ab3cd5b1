//! Perfetto's protobuf traces, of simulated and real machines.
//!
//! A file is a sequence of packets; those with events are bundles of one CPU. Several data sources can record a CPU,
//! each with its own writer (`trusted_packet_sequence_id`), flushed at different times. Only bundles of one CPU and
//! writer, a *lane*, are in order. The file is read twice: to find each lane's bundles, and to merge lanes, with one
//! bundle each in memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{Read, Seek};

use super::events::Events;
use super::head::MAX_CPUS;
use super::input::Input;
use super::notes::{self, Error, Kind, Notes, Place};
use super::text::LOST;
use super::wire::{Few, Message, varint};
use crate::event::{Named, Record, StateBits, Tracepoint};
use crate::perfetto::NO_RELEASE;

mod bundle;

use self::bundle::{Bundle, Entry, Names};

/// The longest packet; Perfetto's own buffers are smaller.
const MAX_PACKET: u64 = 16 << 20;
/// Number of threads with remembered names.
const MAX_THREADS: usize = 1 << 22;

/// Fields of a packet (`TracePacket`) and its content.
mod field {
    /// `Trace.packet`, with its wire type.
    pub(super) const PACKET_KEY: u8 = 0x0a;
    pub(super) const FTRACE_EVENTS: u64 = 1;
    pub(super) const PROCESS_TREE: u64 = 2;
    pub(super) const SEQUENCE_ID: u64 = 10;
    pub(super) const SYSTEM_INFO: u64 = 45;
    pub(super) const COMPRESSED_PACKETS: u64 = 50;
}

/// Reads a Perfetto trace in order of time.
#[derive(Debug)]
pub struct PerfettoTrace<R> {
    input: Input<R>,
    lanes: Vec<Lane>,
    /// Lanes with further events, earliest first.
    next: BinaryHeap<Reverse<(i64, u32)>>,
    /// The lane of the last returned event.
    taken: Option<usize>,
    /// Running task (-1: unknown) and name, by CPU with events.
    runs: Vec<(i32, Vec<u8>)>,
    threads: BTreeMap<i32, Thread>,
    bits: StateBits,
    names: Names,
    notes: Notes,
}

/// Offsets and lengths of lanes' bundles, by CPU and sequence.
type Positions = BTreeMap<(u32, u32), Vec<(u64, u32)>>;

/// One CPU's events from one data source.
#[derive(Debug)]
struct Lane {
    cpu: u32,
    runs: usize,
    /// Its bundles' offsets and lengths, and the number read.
    positions: Vec<(u64, u32)>,
    read: usize,
    bundle: Bundle,
}

/// A thread in the process tree.
#[derive(Clone, Debug, Default)]
struct Thread {
    comm: Vec<u8>,
    tgid: i32,
}

impl<R: Read + Seek> PerfettoTrace<R> {
    /// Finds the bundles of all lanes.
    ///
    /// # Errors
    /// If reading fails, no packet has events, or packets are compressed.
    pub fn new(reader: R) -> Result<Self, Error> {
        let mut trace = Self {
            input: Input::new(reader)?,
            lanes: Vec::new(),
            next: BinaryHeap::new(),
            taken: None,
            runs: Vec::new(),
            threads: BTreeMap::new(),
            bits: StateBits::default(),
            names: Names::new(),
            notes: Notes { kind: Some(Kind::Perfetto), ..Notes::default() },
        };
        let mut positions = Positions::new();
        let mut packet = Vec::new();
        while let Some((place, size)) = trace.packet()? {
            packet.resize(size as usize, 0);
            trace.input.seek(place)?;
            trace.input.exact(&mut packet, "a packet")?;
            trace.index(place, &packet, &mut positions)?;
        }
        if positions.is_empty() {
            return Err(trace.without_events());
        }
        for ((cpu, _), positions) in positions {
            if trace.lanes.last().is_none_or(|last| last.cpu != cpu) {
                trace.runs.push((-1, Vec::new()));
            }
            let runs = trace.runs.len() - 1;
            trace.lanes.push(Lane { cpu, runs, positions, read: 0, bundle: Bundle::default() });
        }
        for lane in 0..trace.lanes.len() {
            trace.advance(lane)?;
        }
        Ok(trace)
    }

    fn without_events(&self) -> Error {
        match self.notes.unterminated {
            Some(_) => Error::NotRead {
                what: "a Perfetto trace that is cut off before its first events of ftrace".to_owned(),
                help: "a trace is complete when its recording has ended: copy it again, or record again",
            },
            None => Error::NotRead {
                what: "a Perfetto trace without events of ftrace".to_owned(),
                help: "record with the data source linux.ftrace: `perfetto -o FILE -t 10s sched freq idle`",
            },
        }
    }

    /// Returns the next packet's offset and length; none at the end.
    fn packet(&mut self) -> Result<Option<(u64, u32)>, Error> {
        let start = self.input.at();
        if start == self.input.len() {
            return Ok(None);
        }
        let mut size = 0_u64;
        let mut whole = self.input.number(1, "a packet")? as u8 == field::PACKET_KEY;
        for shift in (0..35).step_by(7) {
            // A truncated length ends the file.
            if !whole || self.input.at() == self.input.len() {
                whole = false;
                break;
            }
            let byte = self.input.number(1, "the size of a packet")?;
            size |= (byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
            whole = shift < 28;
        }
        let place = self.input.at();
        if !whole || size > MAX_PACKET || place + size > self.input.len() {
            self.notes.unterminated = Some(Place::Byte(start));
            return Ok(None);
        }
        Ok(Some((place, size as u32)))
    }

    /// Indexes a packet.
    fn index(&mut self, place: u64, packet: &[u8], positions: &mut Positions) -> Result<(), Error> {
        // The id may follow the events.
        let (mut sequence, mut bundles) = (0, Vec::new());
        let mut fields = Message::new(packet);
        for (tag, value) in &mut fields {
            if let (field::SEQUENCE_ID, Some(id)) = (tag, value.number()) {
                sequence = id as u32;
            }
            let Some(bytes) = value.bytes() else { continue };
            match tag {
                field::FTRACE_EVENTS => {
                    let cpu = Message::new(bytes).find_map(|(tag, value)| value.number().filter(|_| tag == 1));
                    let offset = bytes.as_ptr() as usize - packet.as_ptr() as usize;
                    match u32::try_from(cpu.unwrap_or(0)).ok().filter(|&cpu| cpu < MAX_CPUS) {
                        Some(cpu) => bundles.push((cpu, (place + offset as u64, bytes.len() as u32))),
                        None => self.notes.not_understood.add(Place::Byte(place)),
                    }
                }
                field::PROCESS_TREE => self.threads(bytes),
                field::SYSTEM_INFO => {
                    let Some(info) = Few::read(bytes) else { continue };
                    if let Some(cpus) = info.number(8) {
                        self.notes.cpus = u32::try_from(cpus).ok().filter(|&cpus| cpus > 0);
                    }
                    if let Some(utsname) = Few::read(info.text(1)) {
                        self.notes.release = notes::release(utsname.text(3)).filter(|release| release != NO_RELEASE);
                    }
                }
                field::COMPRESSED_PACKETS => {
                    return Err(Error::NotRead {
                        what: "a Perfetto trace with compressed packets".to_owned(),
                        help: "Perfetto's `traceconv decompress_packets IN OUT` makes one that is read",
                    });
                }
                _ => {}
            }
        }
        if fields.damaged() {
            self.notes.not_understood.add(Place::Byte(place));
        }
        for (cpu, bundle) in bundles {
            positions.entry((cpu, sequence)).or_default().push(bundle);
        }
        Ok(())
    }

    fn threads(&mut self, tree: &[u8]) {
        for (tag, value) in Message::new(tree) {
            let Some(row) = value.bytes().and_then(Few::read) else { continue };
            if self.threads.len() >= MAX_THREADS {
                return;
            }
            match tag {
                1 => {
                    let pid = row.i32(1);
                    self.threads.entry(pid).or_default().tgid = pid;
                }
                2 => {
                    let (tid, tgid) = (row.i32(1), row.i32(3));
                    self.threads.insert(tid, Thread { comm: row.text(2).to_vec(), tgid });
                }
                _ => {}
            }
        }
    }

    /// Requeues a lane with its next event.
    fn advance(&mut self, lane: usize) -> Result<(), Error> {
        let row = &mut self.lanes[lane];
        loop {
            if let Some(at) = row.bundle.next() {
                self.next.push(Reverse((at, lane as u32)));
                return Ok(());
            }
            let Some(&(place, size)) = row.positions.get(row.read) else { return Ok(()) };
            row.read += 1;
            self.input.seek(place)?;
            let input = &mut self.input;
            if !row.bundle.load(size as usize, |bytes| input.exact(bytes, "a bundle of events"))? {
                self.notes.not_understood.add(Place::Byte(place));
            }
        }
    }

    /// Skips other data sources' copies of the next event, of `lane`.
    fn pass_over_copies(&mut self, at: i64, lane: usize) -> Result<(), Error> {
        while let Some(&Reverse((time, other))) = self.next.peek() {
            let (of, copy) = (&self.lanes[lane], &self.lanes[other as usize]);
            // The lanes of a CPU are neighbours.
            if time != at || of.cpu != copy.cpu || of.bundle.entry() != copy.bundle.entry() {
                break;
            }
            self.next.pop();
            self.advance(other as usize)?;
        }
        Ok(())
    }

    /// Returns the next event; none at the end.
    ///
    /// # Errors
    /// If reading fails.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        if let Some(lane) = self.taken.take() {
            self.advance(lane)?;
        }
        let Some(Reverse((at, lane))) = self.next.pop() else { return Ok(None) };
        self.taken = Some(lane as usize);
        self.pass_over_copies(at, lane as usize)?;
        let Lane { cpu, runs, bundle, positions, read } = &mut self.lanes[lane as usize];
        let (cpu, runs) = (*cpu, &mut self.runs[*runs]);
        let (pid, context, name, point) = match bundle.entry() {
            Entry::Lost => {
                let point = Tracepoint::Lost { events: None };
                return Ok(Some(Record { at, cpu, pid: -1, tgid: None, comm: b"", context: None, name: LOST, point }));
            }
            // Compact wakeups lack the running task. The switches of the CPU have it, from any source.
            Entry::Event { pid: -1, context, name, point: point @ Tracepoint::Waking(_) } => {
                (runs.0, context, name, point)
            }
            Entry::Event { pid, context, name, point } => (pid, context, name, point),
            Entry::Numeric { pid, context, tag, message } => {
                let (name, point) = bundle::decode(&self.names, tag, message, &mut self.bits);
                (pid, context, name, point)
            }
        };
        if matches!(point, Tracepoint::Malformed { .. }) {
            self.notes.malformed.add(Place::Byte(positions[read.saturating_sub(1)].0));
        }
        let thread = self.threads.get(&pid);
        // The process tree has one name per thread; events have those of their time.
        match point {
            Tracepoint::Switch { next, .. } => named(runs, next),
            Tracepoint::TaskRename { task, .. } if task.pid == pid => named(runs, task),
            _ => {}
        }
        let last = thread.map_or(&b""[..], |thread| &thread.comm);
        let comm: &[u8] = match &point {
            _ if pid == 0 => b"<idle>",
            Tracepoint::Switch { prev, .. } if prev.pid == pid => then(prev.comm, last),
            _ if runs.0 == pid => then(&runs.1, last),
            _ => last,
        };
        let tgid = thread.map(|thread| thread.tgid).filter(|&tgid| tgid > 0);
        Ok(Some(Record { at, cpu, pid, tgid, comm, context, name, point }))
    }

    /// Returns what is known of the file so far.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }
}

impl<R: Read + Seek> Events for PerfettoTrace<R> {
    fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        PerfettoTrace::next_record(self)
    }

    fn notes(&self) -> &Notes {
        PerfettoTrace::notes(self)
    }
}

fn named((pid, comm): &mut (i32, Vec<u8>), task: Named<'_>) {
    *pid = task.pid;
    comm.clear();
    comm.extend_from_slice(task.comm);
}

/// Returns the recorded name of a thread last named `last`. `/proc` appends kernel workers' work
/// (`kworker/0:1-events`).
fn then<'a>(comm: &'a [u8], last: &'a [u8]) -> &'a [u8] {
    let works_at = last.strip_prefix(comm).is_some_and(|rest| matches!(rest.first(), Some(b'-' | b'+')));
    if works_at && comm.starts_with(b"kworker/") { last } else { comm }
}

/// Whether a file begins with a packet, not an empty line.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(&[field::PACKET_KEY]) else { return false };
    let text = rest.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    let key = varint(rest).and_then(|(size, packet)| varint(packet).filter(|_| size > 0));
    key.is_some_and(|(key, _)| !text && key >> 3 != 0 && matches!(key & 7, 0 | 1 | 2 | 5))
}

#[cfg(test)]
mod tests {
    use super::then;

    #[test]
    fn what_a_worker_works_at_is_no_other_name() {
        for (comm, last, expected) in [
            ("kworker/0:1", "kworker/0:1-events", "kworker/0:1-events"),
            ("kworker/0:1", "kworker/0:1+events", "kworker/0:1+events"),
            ("kworker/0:1", "kworker/0:1H", "kworker/0:1"),
            ("bash", "bash-child", "bash"),
            ("bash", "", "bash"),
        ] {
            assert_eq!(then(comm.as_bytes(), last.as_bytes()), expected.as_bytes(), "{comm} {last}");
        }
    }
}

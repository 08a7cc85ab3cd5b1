//! A bundle: events of one CPU that left its buffer together (`FtraceEventBundle`).
//!
//! Each event is a message. The two most frequent ones can be columns (`CompactSched`) instead: times, threads and
//! names of switches. The task that leaves a CPU is then the one that the previous switch brought.

use std::ops::Range;

use crate::event::{Context, Named, StateBits, Tracepoint, Wakeup};
use crate::read::format::context;
use crate::read::payload::tracepoint;
use crate::read::wire::{Few, Message, Value, varint};

/// The most events of columns; bundles are far smaller.
const MAX_COLUMN: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Bundle {
    bytes: Vec<u8>,
    /// Its events by time, and the number of returned ones.
    rows: Vec<Row>,
    returned: usize,
    compact: Compact,
    /// The last task in columns. It belongs to the CPU's stream, and outlives a bundle.
    last_incoming: Option<Incoming>,
}

#[derive(Clone, Debug)]
struct Row {
    at: i64,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Lost,
    Message { pid: i32, flags: Option<u64>, tag: u64, place: Range<usize> },
    Switch { prev: Option<Incoming>, state: u64, next: Incoming },
    Waking { pid: i32, prio: i32, cpu: u32, comm: usize, by: i32, flags: Option<u64> },
}

/// A task in columns, with its name from this or an earlier bundle's table.
#[derive(Clone, Debug, Default)]
struct Incoming {
    pid: i32,
    prio: i32,
    comm: Vec<u8>,
}

#[derive(Debug, Default)]
struct Compact {
    names: Vec<Range<usize>>,
}

#[derive(Debug, PartialEq)]
pub(super) enum Entry<'a> {
    Lost,
    Event {
        pid: i32,
        context: Option<Context>,
        name: &'a [u8],
        point: Tracepoint<'a>,
    },
    /// A message to be [decoded](decode).
    Numeric {
        pid: i32,
        context: Option<Context>,
        tag: u64,
        message: &'a [u8],
    },
}

impl Bundle {
    /// Reads a bundle of `size` bytes by `fill`. Returns false if it is damaged, and keeps its readable part.
    pub(super) fn load<E>(&mut self, size: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<bool, E> {
        self.rows.clear();
        self.returned = 0;
        self.compact.names.clear();
        self.bytes.resize(size, 0);
        fill(&mut self.bytes)?;
        let bytes = std::mem::take(&mut self.bytes);
        let mut runs = self.last_incoming.as_ref().map_or(-1, |last| last.pid);
        let whole = self.parse(&bytes);
        self.bytes = bytes;
        // A CPU's times do not decrease, but columns are separate.
        self.rows.sort_by_key(|row| row.at);
        for row in &mut self.rows {
            match &mut row.what {
                What::Switch { next, .. } => runs = next.pid,
                What::Waking { by, .. } => *by = runs,
                What::Lost | What::Message { .. } => {}
            }
        }
        Ok(whole)
    }

    fn parse(&mut self, bytes: &[u8]) -> bool {
        let place = |part: &[u8]| {
            let start = part.as_ptr() as usize - bytes.as_ptr() as usize;
            start..start + part.len()
        };
        let (mut lost, mut whole) = (false, true);
        let mut fields = Message::new(bytes);
        for (tag, value) in &mut fields {
            match (tag, value) {
                (2, Value::Bytes(event)) => match message(event) {
                    Some(Header { at, pid, flags, message: Some((tag, inner)) }) => {
                        let what = What::Message { pid, flags, tag, place: place(inner) };
                        self.rows.push(Row { at, what });
                    }
                    Some(_) => {}
                    None => whole = false,
                },
                (3, Value::Varint(flag)) => lost = flag != 0,
                (4, Value::Bytes(columns)) => {
                    whole &= self.columns(bytes, columns, &place).is_some();
                }
                _ => {}
            }
        }
        if lost {
            let at = self.rows.iter().map(|row| row.at).min().unwrap_or(0);
            self.rows.insert(0, Row { at, what: What::Lost });
        }
        whole && !fields.damaged()
    }

    /// Reads columns in `all`.
    fn columns(&mut self, all: &[u8], bytes: &[u8], place: &impl Fn(&[u8]) -> Range<usize>) -> Option<()> {
        // Each has its own table of names.
        let first = self.compact.names.len();
        let mut columns = [&b""[..]; 13];
        let mut fields = Message::new(bytes);
        for (tag, value) in &mut fields {
            let Some(part) = value.bytes() else { continue };
            match tag {
                5 => self.compact.names.push(place(part)),
                tag => {
                    if let Some(column) = columns.get_mut(tag as usize) {
                        *column = part;
                    }
                }
            }
        }
        let name = |index: u64, names: &[Range<usize>]| {
            let index = first.checked_add(usize::try_from(index).ok()?)?;
            Some((index, all.get(names.get(index)?.clone())?))
        };
        let [
            _,
            at,
            states,
            pids,
            prios,
            _,
            comms,
            waking_at,
            waking_pids,
            cpus,
            waking_prios,
            waking_comms,
            mut waking_flags,
        ] = columns;
        let (mut time, mut rest) = (0_i64, [at, states, pids, prios, comms]);
        while !rest[0].is_empty() && self.rows.len() < MAX_COLUMN {
            let [delta, state, pid, prio, comm] = take(&mut rest)?;
            time = time.wrapping_add(delta as i64);
            let comm = name(comm, &self.compact.names)?.1.to_vec();
            let next = Incoming { pid: pid as i32, prio: prio as i32, comm };
            let prev = self.last_incoming.replace(next.clone());
            self.rows.push(Row { at: time, what: What::Switch { prev, state, next } });
        }
        let (mut time, mut rest) = (0_i64, [waking_at, waking_pids, cpus, waking_prios, waking_comms]);
        while !rest[0].is_empty() && self.rows.len() < MAX_COLUMN {
            let [delta, pid, cpu, prio, comm] = take(&mut rest)?;
            time = time.wrapping_add(delta as i64);
            let (comm, _) = name(comm, &self.compact.names)?;
            // Some versions lack this column.
            let flags = varint(waking_flags).map(|(flags, rest)| {
                waking_flags = rest;
                flags
            });
            let what = What::Waking { pid: pid as i32, prio: prio as i32, cpu: cpu as u32, comm, by: -1, flags };
            self.rows.push(Row { at: time, what });
        }
        (!fields.damaged()).then_some(())
    }

    /// Advances to the next event, and returns its time.
    #[inline]
    pub(super) fn next(&mut self) -> Option<i64> {
        let row = self.rows.get(self.returned)?;
        self.returned += 1;
        Some(row.at)
    }

    /// Returns the event of [`next`](Self::next).
    #[inline]
    pub(super) fn entry(&self) -> Entry<'_> {
        match &self.rows[self.returned.saturating_sub(1)].what {
            What::Lost => Entry::Lost,
            What::Message { pid, flags, tag, place } => Entry::Numeric {
                pid: *pid,
                context: flags.and_then(context),
                tag: *tag,
                message: &self.bytes[place.clone()],
            },
            What::Switch { prev, state, next } => {
                let (prev, prev_prio) = prev.as_ref().map_or((Named { comm: b"", pid: -1 }, 0), |prev| {
                    (Named { comm: &prev.comm, pid: prev.pid }, prev.prio)
                });
                let point = Tracepoint::Switch {
                    prev,
                    prev_prio,
                    prev_state: StateBits::Report.state(*state),
                    next: Named { comm: &next.comm, pid: next.pid },
                    next_prio: next.prio,
                };
                Entry::Event { pid: prev.pid, context: None, name: b"sched_switch", point }
            }
            What::Waking { pid, prio, cpu, comm, by, flags } => {
                let comm = &self.bytes[self.compact.names[*comm].clone()];
                let wakeup =
                    Wakeup { task: Named { comm, pid: *pid }, prio: *prio, success: true, target_cpu: Some(*cpu) };
                let context = flags.and_then(context);
                Entry::Event { pid: *by, context, name: b"sched_waking", point: Tracepoint::Waking(wakeup) }
            }
        }
    }
}

/// Reads a number from each column.
fn take<const N: usize>(columns: &mut [&[u8]; N]) -> Option<[u64; N]> {
    let mut row = [0; N];
    for (value, column) in row.iter_mut().zip(columns) {
        (*value, *column) = varint(column)?;
    }
    Some(row)
}

/// The common part of events: time, running task, flags; and the event's message.
struct Header<'a> {
    at: i64,
    pid: i32,
    flags: Option<u64>,
    message: Option<(u64, &'a [u8])>,
}

fn message(event: &[u8]) -> Option<Header<'_>> {
    let mut header = Header { at: 0, pid: -1, flags: None, message: None };
    let mut fields = Message::new(event);
    for (tag, value) in &mut fields {
        match (tag, value) {
            (1, Value::Varint(value)) => header.at = i64::try_from(value).unwrap_or(i64::MAX),
            (2, Value::Varint(value)) => header.pid = value as i32,
            (5, Value::Varint(value)) => header.flags = Some(value),
            (tag, Value::Bytes(bytes)) => header.message = Some((tag, bytes)),
            _ => {}
        }
    }
    (!fields.damaged()).then_some(header)
}

/// `FtraceEvent.generic`.
const GENERIC: u64 = 327;

/// Parses a `GenericFtraceEvent`; none if it is damaged. `sched_stat_runtime` is decoded, since Perfetto has no
/// message for it. Others have the text of [`RecordedPerfetto`](crate::RecordedPerfetto).
fn generic(message: &[u8]) -> Option<(&[u8], Tracepoint<'_>)> {
    let mut name = &b""[..];
    let (mut comm, mut pid, mut runtime, mut vruntime, mut text) = (None, None, None, None, None);
    let mut fields = Message::new(message);
    for (tag, value) in &mut fields {
        match (tag, value) {
            (1, Value::Bytes(bytes)) => name = bytes,
            (2, Value::Bytes(bytes)) => {
                let field = Few::read(bytes)?;
                let number = || field.number(4).or(field.number(5));
                match field.text(1) {
                    b"comm" => comm = Some(field.text(3)),
                    b"pid" => pid = number().map(|pid| pid as i32),
                    b"runtime" => runtime = number(),
                    b"vruntime" => vruntime = number(),
                    b"fields" => text = Some(field.text(3)),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    let point = match (name, comm, pid, runtime) {
        (b"sched_stat_runtime", Some(comm), Some(pid), Some(runtime_ns)) => {
            Tracepoint::StatRuntime { task: Named { comm, pid }, runtime_ns, vruntime_ns: vruntime }
        }
        (b"sched_stat_runtime" | b"", ..) => return None,
        (b"sock_send_length" | b"sock_recv_length" | b"inet_sock_set_state", ..) => {
            tracepoint(name, text?, &mut StateBits::default())
        }
        _ => Tracepoint::Other { fields: text.unwrap_or_default() },
    };
    (!fields.damaged()).then_some((name, point))
}

/// Decodes a field of `FtraceEvent`.
#[inline]
pub(super) fn decode<'a>(
    names: &Names,
    tag: u64,
    message: &'a [u8],
    bits: &mut StateBits,
) -> (&'a [u8], Tracepoint<'a>) {
    let name = names.get(tag);
    let point = match tag {
        GENERIC => return generic(message).unwrap_or((name, Tracepoint::Malformed { fields: b"" })),
        3 | 4 | 11 | 13 | 17 | 20 | 67 | 114 | 235..=239 | 345 | 491 => {
            Few::read(message).map_or(Tracepoint::Malformed { fields: b"" }, |fields| point(tag, &fields, bits))
        }
        _ => Tracepoint::Other { fields: b"" },
    };
    (name, point)
}

fn point<'a>(tag: u64, fields: &Few<'a>, bits: &mut StateBits) -> Tracepoint<'a> {
    let named = |comm: usize, pid: usize| Named { comm: fields.text(comm), pid: fields.i32(pid) };
    let wakeup = || Wakeup {
        task: named(1, 2),
        prio: fields.i32(3),
        success: fields.number(4) != Some(0),
        target_cpu: fields.number(5).map(|cpu| cpu as u32),
    };
    match tag {
        3 => {
            let text = fields.text(2);
            Tracepoint::Print { text: text.strip_suffix(b"\n").unwrap_or(text) }
        }
        // Some vendors' traces have another event's message here. A single missing number may be 0.
        4 if fields.number(2).is_none() && fields.number(6).is_none() => Tracepoint::Malformed { fields: b"" },
        4 => Tracepoint::Switch {
            prev: named(1, 2),
            prev_prio: fields.i32(3),
            prev_state: bits.state(fields.number(4).unwrap_or(0)),
            next: named(5, 6),
            next_prio: fields.i32(7),
        },
        11 => Tracepoint::CpuFrequency { khz: fields.u32(1), cpu_id: fields.u32(2) },
        13 => Tracepoint::CpuIdle { state: fields.u32(1), cpu_id: fields.u32(2) },
        17 => Tracepoint::Wakeup(wakeup()),
        20 => Tracepoint::Waking(wakeup()),
        67 => Tracepoint::CgroupAttach {
            task: named(4, 3),
            dst_root: fields.i32(1),
            dst_id: fields.number(2).unwrap_or(0),
            dst_level: fields.i32(6),
            dst_path: fields.text(7),
        },
        114 => Tracepoint::WakeupNew(wakeup()),
        235 => Tracepoint::TaskNew {
            task: named(2, 1),
            clone_flags: fields.number(3).unwrap_or(0),
            oom_score_adj: fields.i32(4),
        },
        236 => Tracepoint::TaskRename { task: named(3, 1), tgid: None },
        237 => Tracepoint::ProcessExec { filename: fields.text(1), pid: fields.i32(2), old_pid: fields.i32(3) },
        238 => Tracepoint::ProcessExit { task: named(1, 2), prio: fields.i32(4), group_dead: None },
        239 => Tracepoint::ProcessFork { parent: named(1, 2), child: named(3, 4) },
        345 => {
            Tracepoint::CpuhpEnter { cpu_id: fields.u32(1), target: fields.i32(4), step: fields.i32(3), function: b"" }
        }
        _ => Tracepoint::MigrateTask {
            task: named(1, 2),
            prio: fields.i32(3),
            orig_cpu: fields.u32(4),
            dest_cpu: fields.u32(5),
        },
    }
}

/// The kernel's names of the fields of `FtraceEvent`.
#[derive(Debug)]
pub(super) struct Names(Vec<&'static [u8]>);

impl Names {
    pub(super) fn new() -> Self {
        let mut names = Vec::new();
        for line in include_str!("events.txt").lines() {
            if let Some((tag, name)) = line.split_once(' ')
                && let Ok(tag) = tag.parse::<usize>()
            {
                names.resize(names.len().max(tag + 1), &b""[..]);
                names[tag] = name.as_bytes();
            }
        }
        Self(names)
    }

    #[inline]
    fn get(&self, tag: u64) -> &'static [u8] {
        match self.0.get(tag as usize) {
            Some(&name) if !name.is_empty() => name,
            _ => b"(unknown)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_kernels_names() {
        let names = Names::new();
        for (tag, name) in [(3, "print"), (4, "sched_switch"), (114, "sched_wakeup_new"), (491, "sched_migrate_task")] {
            assert_eq!(names.get(tag), name.as_bytes());
        }
        assert_eq!(names.get(1), b"(unknown)");
        assert_eq!(names.get(u64::MAX), b"(unknown)");
    }

    /// A vendor's Perfetto has another event's message as field 4.
    #[test]
    fn a_switch_without_tasks_is_malformed() {
        fn point(message: &[u8]) -> Tracepoint<'_> {
            decode(&Names::new(), 4, message, &mut StateBits::default()).1
        }
        assert!(matches!(point(b"\x08\x01\x12\x01a\x18\x07"), Tracepoint::Malformed { .. }));
        let whole = [0x10, 5, 0x18, 120, 0x20, 1, 0x30, 6, 0x38, 120];
        assert!(matches!(point(&whole), Tracepoint::Switch { next: Named { pid: 6, .. }, .. }));
        assert!(matches!(point(&whole[2..]), Tracepoint::Switch { next: Named { pid: 6, .. }, .. }), "prev_pid is 0");
    }
}

//! A kernel's descriptions of events (`events/SYSTEM/NAME/format`), in `trace.dat` and `perf.data`, and decoding by
//! them. Fields are found by name, so records of any kernel can be read.

use std::collections::BTreeMap;

use memchr::{memchr, memmem};

use super::scan::{digits, trim_end, trim_start};
use crate::event::{Context, Named, SocketState, StateBits, TaskState, Tracepoint, Transfer, Wakeup};

/// The most fields of our tracepoints.
const SLOTS: usize = 7;

/// The position of a field in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Slot {
    #[default]
    Absent,
    Int {
        offset: usize,
        size: usize,
        signed: bool,
    },
    /// Characters in place; `size` 0: to the end of the record.
    Chars {
        offset: usize,
        size: usize,
    },
    /// The position of offset and length of the characters. `relative`: to the following byte, not to the record.
    DataLoc {
        offset: usize,
        relative: bool,
    },
}

/// The tracepoint, which gives the slots a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Migrate,
    Runtime,
    Fork,
    New,
    Exec,
    Exit,
    Rename,
    Attach,
    Idle,
    Frequency,
    Hotplug,
    SocketSend,
    SocketReceive,
    SocketState,
    Print,
    Other,
}

#[derive(Clone, Debug)]
struct Format {
    name: Vec<u8>,
    point: Point,
    slots: [Slot; SLOTS],
    pid: Slot,
    flags: Slot,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Formats {
    big_endian: bool,
    by_id: BTreeMap<u64, usize>,
    all: Vec<Format>,
    bits: StateBits,
}

/// A decoded record; its format may be unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoded<'a> {
    pub(super) pid: i32,
    pub(super) context: Option<Context>,
    pub(super) name: &'a [u8],
    pub(super) point: Tracepoint<'a>,
}

impl Formats {
    pub(super) fn new(big_endian: bool) -> Self {
        Self { big_endian, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds a format; returns false if `text` is none.
    pub(super) fn add(&mut self, text: &[u8]) -> bool {
        let Some((id, format)) = parse(text) else { return false };
        if format.point == Point::Switch && self.bits == StateBits::Unknown {
            // The old table has `K`, the new one `I`.
            if memmem::find(text, b"\"K\"").is_some() {
                self.bits = StateBits::TaskState;
            } else if memmem::find(text, b"\"I\"").is_some() {
                self.bits = StateBits::Report;
            }
        }
        self.by_id.insert(id, self.all.len());
        self.all.push(format);
        true
    }

    /// Decodes a record; none if it is too short to have a type.
    #[inline]
    pub(super) fn decode<'a>(&'a self, record: &'a [u8]) -> Option<Decoded<'a>> {
        let id = number(record, 0, 2, self.big_endian)?;
        let Some(&index) = self.by_id.get(&id) else {
            return Some(Decoded {
                pid: -1,
                context: None,
                name: b"(unknown)",
                point: Tracepoint::Other { fields: b"" },
            });
        };
        let format = &self.all[index];
        let read = Read { record, big_endian: self.big_endian, format };
        let pid = read.int(format.pid).map_or(-1, |pid| pid as i32);
        let point = if format.point == Point::Other {
            Tracepoint::Other { fields: b"" }
        } else {
            read.point(self.bits).unwrap_or(Tracepoint::Malformed { fields: b"" })
        };
        let context = read.int(format.flags).and_then(|flags| context(flags as u64));
        Some(Decoded { pid, context, name: &format.name, point })
    }
}

/// Returns the context in `common_flags` (the kernel's `trace_flag_type`); none if the architecture lacks it.
#[inline]
pub(super) fn context(flags: u64) -> Option<Context> {
    /// Set by architectures without such flags.
    const NO_IRQ_INFO: u64 = 0x02;
    const HARDIRQ: u64 = 0x08;
    const SOFTIRQ: u64 = 0x10;
    const NMI: u64 = 0x40;
    if flags & NO_IRQ_INFO != 0 {
        return None;
    }
    Some(if flags & (HARDIRQ | NMI) != 0 {
        Context::Hardirq
    } else if flags & SOFTIRQ != 0 {
        Context::Softirq
    } else {
        Context::Task
    })
}

#[inline]
pub(super) fn number(bytes: &[u8], offset: usize, size: usize, big_endian: bool) -> Option<u64> {
    let bytes = bytes.get(offset..offset.checked_add(size)?)?;
    Some(match (bytes, big_endian) {
        ([byte], _) => u64::from(*byte),
        (&[a, b], false) => u64::from(u16::from_le_bytes([a, b])),
        (&[a, b], true) => u64::from(u16::from_be_bytes([a, b])),
        (&[a, b, c, d], false) => u64::from(u32::from_le_bytes([a, b, c, d])),
        (&[a, b, c, d], true) => u64::from(u32::from_be_bytes([a, b, c, d])),
        (eight, false) => u64::from_le_bytes(eight.try_into().ok()?),
        (eight, true) => u64::from_be_bytes(eight.try_into().ok()?),
    })
}

#[inline]
pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr(0, bytes).unwrap_or(bytes.len())]
}

struct Read<'a> {
    record: &'a [u8],
    big_endian: bool,
    format: &'a Format,
}

impl<'a> Read<'a> {
    #[inline]
    fn int(&self, slot: Slot) -> Option<i64> {
        let Slot::Int { offset, size, signed } = slot else { return None };
        let value = number(self.record, offset, size, self.big_endian)?;
        Some(match (size, signed) {
            (1, true) => i64::from(value as u8 as i8),
            (2, true) => i64::from(value as u16 as i16),
            (4, true) => i64::from(value as u32 as i32),
            _ => value as i64,
        })
    }

    #[inline]
    fn chars(&self, slot: Slot) -> Option<&'a [u8]> {
        match slot {
            Slot::Chars { offset, size: 0 } => self.record.get(offset..).map(until_nul),
            Slot::Chars { offset, size } => self.record.get(offset..offset.checked_add(size)?).map(until_nul),
            Slot::DataLoc { offset, relative } => {
                let value = number(self.record, offset, 4, self.big_endian)? as usize;
                let base = if relative { offset + 4 } else { 0 };
                let start = base + (value & 0xffff);
                self.record.get(start..start + (value >> 16)).map(until_nul)
            }
            Slot::Int { .. } | Slot::Absent => None,
        }
    }

    #[inline]
    fn i32(&self, slot: usize) -> Option<i32> {
        self.int(self.format.slots[slot]).map(|value| value as i32)
    }

    #[inline]
    fn u32(&self, slot: usize) -> Option<u32> {
        self.int(self.format.slots[slot]).map(|value| value as u32)
    }

    #[inline]
    fn named(&self, comm: usize, pid: usize) -> Option<Named<'a>> {
        Some(Named { comm: self.chars(self.format.slots[comm])?, pid: self.i32(pid)? })
    }

    fn wakeup(&self) -> Option<Wakeup<'a>> {
        Some(Wakeup {
            task: self.named(0, 1)?,
            prio: self.i32(2)?,
            success: self.i32(3).is_none_or(|success| success != 0),
            target_cpu: self.u32(4),
        })
    }

    fn transfer(&self) -> Option<Transfer> {
        Some(Transfer { socket: self.int(self.format.slots[0])? as u64, length: self.i32(1)?, flags: self.i32(2)? })
    }

    #[inline]
    fn point(&self, mut bits: StateBits) -> Option<Tracepoint<'a>> {
        let slots = &self.format.slots;
        Some(match self.format.point {
            Point::Switch => Tracepoint::Switch {
                prev: self.named(0, 1)?,
                prev_prio: self.i32(2)?,
                prev_state: self.int(slots[3]).map_or(TaskState::Unknown, |state| bits.state(state as u64)),
                next: self.named(4, 5)?,
                next_prio: self.i32(6)?,
            },
            Point::Waking => Tracepoint::Waking(self.wakeup()?),
            Point::Wakeup => Tracepoint::Wakeup(self.wakeup()?),
            Point::WakeupNew => Tracepoint::WakeupNew(self.wakeup()?),
            Point::Migrate => Tracepoint::MigrateTask {
                task: self.named(0, 1)?,
                prio: self.i32(2)?,
                orig_cpu: self.u32(3)?,
                dest_cpu: self.u32(4)?,
            },
            Point::Runtime => Tracepoint::StatRuntime {
                task: self.named(0, 1)?,
                runtime_ns: self.int(slots[2])? as u64,
                vruntime_ns: self.int(slots[3]).map(|vruntime| vruntime as u64),
            },
            Point::Fork => Tracepoint::ProcessFork { parent: self.named(0, 1)?, child: self.named(2, 3)? },
            Point::New => Tracepoint::TaskNew {
                task: self.named(1, 0)?,
                clone_flags: self.int(slots[2])? as u64,
                // `vruntime record` does not know it without tracefs.
                oom_score_adj: self.i32(3).unwrap_or(0),
            },
            Point::Exec => {
                Tracepoint::ProcessExec { filename: self.chars(slots[0])?, pid: self.i32(1)?, old_pid: self.i32(2)? }
            }
            Point::Exit => Tracepoint::ProcessExit {
                task: self.named(0, 1)?,
                prio: self.i32(2)?,
                group_dead: self.int(slots[3]).map(|dead| dead != 0),
            },
            Point::Rename => Tracepoint::TaskRename { task: self.named(1, 0)?, tgid: None },
            Point::Attach => Tracepoint::CgroupAttach {
                task: self.named(0, 1)?,
                dst_root: self.i32(2)?,
                dst_id: self.int(slots[3])? as u64,
                dst_level: self.i32(4)?,
                dst_path: self.chars(slots[5])?,
            },
            Point::Idle => Tracepoint::CpuIdle { state: self.u32(0)?, cpu_id: self.u32(1)? },
            Point::Frequency => Tracepoint::CpuFrequency { khz: self.u32(0)?, cpu_id: self.u32(1)? },
            Point::Hotplug => {
                Tracepoint::CpuhpEnter { cpu_id: self.u32(0)?, target: self.i32(1)?, step: self.i32(2)?, function: b"" }
            }
            Point::SocketSend => Tracepoint::SocketSend(self.transfer()?),
            Point::SocketReceive => Tracepoint::SocketReceive(self.transfer()?),
            Point::SocketState => Tracepoint::SocketState(SocketState {
                socket: self.int(slots[0])? as u64,
                state: self.i32(1)?,
                port: self.u32(2)? as u16,
                peer_port: self.u32(3)? as u16,
            }),
            Point::Print => {
                let text = self.chars(slots[0])?;
                Tracepoint::Print { text: text.strip_suffix(b"\n").unwrap_or(text) }
            }
            Point::Other => return None,
        })
    }
}

fn point(name: &[u8]) -> (Point, &'static [&'static [u8]]) {
    const WAKEUP: &[&[u8]] = &[b"comm", b"pid", b"prio", b"success", b"target_cpu"];
    const TRANSFER: &[&[u8]] = &[b"sk", b"ret", b"flags"];
    match name {
        b"sched_switch" => (
            Point::Switch,
            &[b"prev_comm", b"prev_pid", b"prev_prio", b"prev_state", b"next_comm", b"next_pid", b"next_prio"],
        ),
        b"sched_waking" => (Point::Waking, WAKEUP),
        b"sched_wakeup" => (Point::Wakeup, WAKEUP),
        b"sched_wakeup_new" => (Point::WakeupNew, WAKEUP),
        b"sched_migrate_task" => (Point::Migrate, &[b"comm", b"pid", b"prio", b"orig_cpu", b"dest_cpu"]),
        b"sched_stat_runtime" => (Point::Runtime, &[b"comm", b"pid", b"runtime", b"vruntime"]),
        b"sched_process_fork" => (Point::Fork, &[b"parent_comm", b"parent_pid", b"child_comm", b"child_pid"]),
        b"sched_process_exec" => (Point::Exec, &[b"filename", b"pid", b"old_pid"]),
        b"sched_process_exit" => (Point::Exit, &[b"comm", b"pid", b"prio", b"group_dead"]),
        b"task_newtask" => (Point::New, &[b"pid", b"comm", b"clone_flags", b"oom_score_adj"]),
        b"task_rename" => (Point::Rename, &[b"pid", b"newcomm"]),
        b"cgroup_attach_task" => (Point::Attach, &[b"comm", b"pid", b"dst_root", b"dst_id", b"dst_level", b"dst_path"]),
        b"cpu_idle" => (Point::Idle, &[b"state", b"cpu_id"]),
        b"cpu_frequency" => (Point::Frequency, &[b"state", b"cpu_id"]),
        b"cpuhp_enter" => (Point::Hotplug, &[b"cpu", b"target", b"idx"]),
        b"sock_send_length" => (Point::SocketSend, TRANSFER),
        b"sock_recv_length" => (Point::SocketReceive, TRANSFER),
        b"inet_sock_set_state" => (Point::SocketState, &[b"skaddr", b"newstate", b"sport", b"dport"]),
        b"print" => (Point::Print, &[b"buf"]),
        _ => (Point::Other, &[]),
    }
}

/// Parses the id and the format in `text`.
fn parse(text: &[u8]) -> Option<(u64, Format)> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let name = trim_end(trim_start(lines.next()?.strip_prefix(b"name:")?)).to_vec();
    let mut id = None;
    let (kind, names) = point(&name);
    let mut format = Format { name, point: kind, slots: [Slot::Absent; SLOTS], pid: Slot::Absent, flags: Slot::Absent };
    for line in lines {
        let line = trim_start(line);
        if let Some(rest) = line.strip_prefix(b"ID:") {
            id = digits(trim_start(rest)).map(|(id, _)| id);
        } else if let Some(rest) = line.strip_prefix(b"field:").or_else(|| line.strip_prefix(b"field special:")) {
            let Some((name, slot)) = field(rest) else { continue };
            if name == b"common_pid" {
                format.pid = slot;
            } else if name == b"common_flags" {
                format.flags = slot;
            } else if let Some(index) = names.iter().position(|&known| known == name) {
                format.slots[index] = slot;
            }
        }
    }
    Some((id?, format))
}

/// Parses `char prev_comm[16]; offset:8; size:16; signed:0;`, with tabs between.
fn field(text: &[u8]) -> Option<(&[u8], Slot)> {
    let mut parts = text.split(|&byte| byte == b';').map(trim_start);
    let declaration = trim_end(parts.next()?);
    let mut value =
        |key: &[u8]| parts.next().and_then(|part| digits(part.strip_prefix(key)?)).map(|(value, _)| value as usize);
    let (offset, size) = (value(b"offset:")?, value(b"size:")?);
    let signed = value(b"signed:").unwrap_or(0) != 0;
    if offset > 1 << 16 || size > 1 << 16 {
        return None;
    }
    let space = declaration.iter().rposition(|&byte| byte == b' ')?;
    let (kind, name) = (&declaration[..space], &declaration[space + 1..]);
    if kind.starts_with(b"__data_loc") || kind.starts_with(b"__rel_loc") {
        return Some((name, Slot::DataLoc { offset, relative: kind.starts_with(b"__rel_loc") }));
    }
    if let Some(bracket) = memchr(b'[', name) {
        return Some((&name[..bracket], Slot::Chars { offset, size }));
    }
    if size == 0 && kind == b"char" {
        // `char buf` to the record's end, without brackets up to 4.x.
        return Some((name, Slot::Chars { offset, size }));
    }
    matches!(size, 1 | 2 | 4 | 8).then_some((name, Slot::Int { offset, size, signed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORK: &[u8] = b"name: sched_process_fork\nID: 366\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
        \tfield:__rel_loc char[] child_comm;\toffset:16;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";

    fn record(big_endian: bool) -> Vec<u8> {
        let words = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let id = if big_endian { 366_u16.to_be_bytes() } else { 366_u16.to_le_bytes() };
        let mut bytes = [&id[..], &[0, 0]].concat();
        for value in [5, 0x4_0018, 7, 0x2_0008, 8] {
            bytes.extend_from_slice(&words(value));
        }
        bytes.extend_from_slice(b"abc\0z\0");
        bytes
    }

    #[test]
    fn fields_are_found_by_their_names_in_either_order_of_bytes() {
        for big_endian in [false, true] {
            let mut formats = Formats::new(big_endian);
            assert!(formats.add(FORK));
            let bytes = record(big_endian);
            let decoded = formats.decode(&bytes).unwrap();
            assert_eq!((decoded.pid, decoded.name), (5, &b"sched_process_fork"[..]));
            let expected =
                Tracepoint::ProcessFork { parent: Named { comm: b"abc", pid: 7 }, child: Named { comm: b"z", pid: 8 } };
            assert_eq!(decoded.point, expected);
        }
    }

    #[test]
    fn records_cut_short_are_malformed() {
        let mut formats = Formats::new(false);
        assert!(formats.add(FORK));
        let bytes = record(false);
        assert!(formats.decode(&bytes[..1]).is_none());
        for end in 2..bytes.len() {
            assert_eq!(formats.decode(&bytes[..end]).unwrap().point, Tracepoint::Malformed { fields: b"" }, "{end}");
        }
    }

    #[test]
    fn descriptions_that_are_none() {
        let mut formats = Formats::new(false);
        for text in [&b""[..], b"name: x", b"ID: 5\nname: x", b"name: x\nID: y\n"] {
            assert!(!formats.add(text));
        }
        assert!(formats.add(b"name: x\nID: 9\n\tfield:int common_pid;\toffset:99999999;\tsize:4;\n"));
        assert_eq!(formats.decode(&[9, 0]).unwrap().pid, -1);
        assert_eq!(formats.decode(&[8, 0]).unwrap().name, b"(unknown)");
    }
}

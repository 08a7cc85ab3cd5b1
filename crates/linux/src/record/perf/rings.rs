//! perf's ring buffers: what they record, and their records.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use perf_event::events::{Software, Tracepoint};
use perf_event::{Builder, Clock, Record, SampleFlag, Sampler};

use super::super::events::Event;
use super::Source;
use super::switches::{Noted, comm};

/// The smallest ring, bytes, and that of a rare event.
const LEAST: u64 = 32 << 10;
const RARE: u64 = 128 << 10;
/// The most of the kernel's default for a user and CPU (`perf_event_mlock_kb`), a power of two.
const OF_A_USER: u64 = 512 << 10;
/// Tracepoints that come with each switch or wakeup.
const FREQUENT: [&str; 4] =
    ["sched/sched_switch", "sched/sched_waking", "sched/sched_wakeup", "sched/sched_stat_runtime"];

/// `PERF_RECORD_*`.
mod kind {
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const EXIT: u32 = 4;
    pub(super) const FORK: u32 = 7;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const SWITCH: u32 = 14;
    pub(super) const SWITCH_CPU_WIDE: u32 = 15;
}
/// `PERF_RECORD_MISC_SWITCH_OUT` and `_OUT_PREEMPT` (4.17+).
const OUT: u16 = 1 << 13;
const OUT_PREEMPT: u16 = 1 << 14;
/// Bytes of thread, time and CPU at the end of a record that is no sample.
const IDS: usize = 24;
/// Position of the tracepoint's record and its size in a sample, behind ids and period.
const RAW: usize = IDS + 8;

/// What a ring had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A tracepoint's own record.
    Raw(Vec<u8>),
    Noted(Noted),
    Lost(u64),
    /// Nothing of use here.
    Other,
}

/// A record, sorted by time, CPU and order in its ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) time: u64,
    pub(super) cpu: u32,
    pub(super) what: What,
}

/// The rings of a CPU.
#[derive(Debug)]
struct Cpu {
    cpu: u32,
    rings: Mutex<Vec<Ring>>,
}

struct Ring {
    sampler: Sampler,
    bytes: u64,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The rings of all CPUs.
#[derive(Debug)]
pub(super) struct Rings {
    cpus: Vec<Cpu>,
    /// Bytes of a CPU's rings.
    pub(super) bytes: u64,
}

impl Rings {
    /// Opens rings for `cpus`, switched off. `thread` is the one whose descendants are recorded, 0 for the calling one.
    /// `most` is the size of a CPU's rings, bytes.
    pub(super) fn open(
        source: Source,
        tracefs: &Path,
        events: &[Event],
        cpus: &[u32],
        thread: i32,
        most: u64,
    ) -> io::Result<Self> {
        let mut all = Vec::new();
        let mut bytes = 0;
        for &cpu in cpus {
            match Self::of_cpu(source, tracefs, events, cpu, thread, most) {
                Ok((rings, size)) => {
                    bytes = size;
                    all.push(Cpu { cpu, rings: Mutex::new(rings) });
                }
                // It went offline.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { cpus: all, bytes })
    }

    fn of_cpu(
        source: Source,
        tracefs: &Path,
        events: &[Event],
        cpu: u32,
        thread: i32,
        most: u64,
    ) -> io::Result<(Vec<Ring>, u64)> {
        let most = 1 << most.max(LEAST).ilog2();
        if source != Source::PerfTracepoints {
            let most = if source == Source::PerfCommand { most.min(OF_A_USER) } else { most };
            let ring = ring(&switches(source, cpu, thread), most)?;
            let bytes = ring.bytes;
            return Ok((vec![ring], bytes));
        }
        let (mut rings, mut total) = (Vec::new(), 0);
        for event in events {
            let size = if FREQUENT.contains(&event.name) { most / 8 } else { (most / 64).min(RARE) };
            let ring = ring(&tracepoint(tracefs, event.name, cpu)?, size)?;
            total += ring.bytes;
            rings.push(ring);
        }
        Ok((rings, total))
    }

    /// Returns the CPUs, in order.
    pub(super) fn cpus(&self) -> Vec<u32> {
        self.cpus.iter().map(|cpu| cpu.cpu).collect()
    }

    /// Switches recording on or off.
    pub(super) fn enable(&self, on: bool) -> io::Result<()> {
        for cpu in &self.cpus {
            for ring in lock(&cpu.rings).iter_mut() {
                let counter = ring.sampler.as_counter_mut();
                if on { counter.enable() } else { counter.disable() }?;
            }
        }
        Ok(())
    }

    /// Moves all records of the CPUs at these positions to `items`. Returns how full the fullest ring was, in
    /// thousandths, and the number of records that made no sense.
    pub(super) fn drain(&self, positions: std::ops::Range<usize>, items: &mut Vec<Item>) -> (u64, u64) {
        let (mut fullest, mut strange) = (0, 0);
        for cpu in self.cpus.get(positions).unwrap_or_default() {
            for ring in lock(&cpu.rings).iter_mut() {
                let mut bytes = 0;
                // New records of this round wait for the next one.
                while bytes < ring.bytes
                    && let Some(record) = ring.sampler.next_record()
                {
                    bytes += record.len() as u64 + 8;
                    match parse(cpu.cpu, &record) {
                        Some(item) => items.push(item),
                        None => strange += 1,
                    }
                }
                fullest = fullest.max(bytes * 1000 / ring.bytes.max(1));
            }
        }
        (fullest, strange)
    }

    pub(super) fn len(&self) -> usize {
        self.cpus.len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a ring of `most` bytes, or of fewer if the kernel refuses that much locked memory.
fn ring(builder: &Builder<'_>, most: u64) -> io::Result<Ring> {
    let mut size = most.max(LEAST);
    loop {
        match builder.build()?.sampled(size as usize) {
            Ok(sampler) => return Ok(Ring { sampler, bytes: size }),
            Err(error) if size / 2 >= LEAST && refuses(&error) => size /= 2,
            Err(error) => return Err(error),
        }
    }
}

fn refuses(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::OutOfMemory)
}

fn tracepoint(tracefs: &Path, name: &str, cpu: u32) -> io::Result<Builder<'static>> {
    let path = tracefs.join("events").join(name).join("id");
    let wrong = |why: String| io::Error::other(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    let id = text.trim().parse().map_err(|_| wrong(format!("expected a number, and it has {:?}", text.trim())))?;
    let mut builder = Builder::new(Tracepoint::with_id(id));
    // Without the period in the sample, the kernel repeats samples of sched_stat_runtime, which counts nanoseconds.
    ids(&mut builder, cpu).any_pid().include_kernel().sample(SampleFlag::RAW | SampleFlag::PERIOD).sample_period(1);
    Ok(builder)
}

fn switches(source: Source, cpu: u32, thread: i32) -> Builder<'static> {
    let mut builder = Builder::new(Software::DUMMY);
    ids(&mut builder, cpu).context_switch(true).task(true).comm(true);
    match source {
        // Other users' kernel code is not recorded, only the switches.
        Source::PerfCommand if thread == 0 => builder.observe_self().inherit(true),
        Source::PerfCommand => builder.observe_pid(thread).inherit(true),
        _ => builder.any_pid(),
    };
    builder
}

/// Sets what all records have.
fn ids<'a, 'b>(builder: &'a mut Builder<'b>, cpu: u32) -> &'a mut Builder<'b> {
    let flags = SampleFlag::TID | SampleFlag::TIME | SampleFlag::CPU;
    builder.one_cpu(cpu as usize).sample(flags).sample_id_all(true).clockid(Clock::MONOTONIC)
}

/// Checks whether the kernel permits such recordings.
pub(super) fn may(source: Source, tracefs: &Path, cpu: u32) -> io::Result<()> {
    let builder = match source {
        Source::PerfTracepoints => tracepoint(tracefs, FREQUENT[0], cpu)?,
        _ => switches(source, cpu, 0),
    };
    ring(&builder, LEAST).map(drop)
}

/// Parses a record. None if it makes no sense.
fn parse(cpu: u32, record: &Record<'_>) -> Option<Item> {
    parse_bytes(cpu, record.ty(), record.misc(), &record.to_contiguous())
}

fn parse_bytes(cpu: u32, ty: u32, misc: u16, bytes: &[u8]) -> Option<Item> {
    let int = |at: usize| Some(i32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?));
    if ty == kind::SAMPLE {
        let size = usize::try_from(int(RAW)?).ok()?;
        let raw = bytes.get(RAW + 4..(RAW + 4).checked_add(size)?)?.to_vec();
        return Some(Item { time: long(8)?, cpu, what: What::Raw(raw) });
    }
    // The ids are at the end.
    let ids = bytes.len().checked_sub(IDS)?;
    let (tid, time) = (int(ids + 4)?, long(ids + 8)?);
    let what = match ty {
        kind::LOST => What::Lost(long(8)?),
        kind::COMM => What::Noted(Noted::Name { tid: int(4)?, comm: comm(bytes.get(8..ids)?) }),
        kind::FORK => What::Noted(Noted::Fork { pid: int(0)?, parent_pid: int(4)?, tid: int(8)?, parent: int(12)? }),
        kind::EXIT => What::Noted(Noted::Exit { tid: int(8)? }),
        kind::SWITCH | kind::SWITCH_CPU_WIDE => {
            let other = if ty == kind::SWITCH_CPU_WIDE { Some(int(4)?) } else { None };
            What::Noted(if misc & OUT == 0 {
                Noted::In { tid, prev: other }
            } else {
                Noted::Out { tid, next: other, preempted: misc & OUT_PREEMPT != 0 }
            })
        }
        _ => What::Other,
    };
    Some(Item { time, cpu, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of 32 bits, a time, and the CPU.
    fn bytes(words: &[i32], tid: i32, time: u64) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for word in [tid, tid] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.extend_from_slice(&time.to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes
    }

    #[test]
    fn records_are_parsed() {
        let noted = |ty, misc, words: &[i32]| match parse_bytes(3, ty, misc, &bytes(words, 7, 99)) {
            Some(Item { time: 99, cpu: 3, what: What::Noted(noted) }) => noted,
            other => panic!("{other:?}"),
        };
        assert_eq!(noted(kind::SWITCH, OUT, &[]), Noted::Out { tid: 7, next: None, preempted: false });
        let preempted = noted(kind::SWITCH_CPU_WIDE, OUT | OUT_PREEMPT, &[8, 9]);
        assert_eq!(preempted, Noted::Out { tid: 7, next: Some(9), preempted: true });
        assert_eq!(noted(kind::SWITCH_CPU_WIDE, 0, &[8, 9]), Noted::In { tid: 7, prev: Some(9) });
        // Process, its parent, thread, its parent, and a time.
        let fork = Noted::Fork { pid: 10, parent_pid: 20, tid: 11, parent: 21 };
        assert_eq!(noted(kind::FORK, 0, &[10, 20, 11, 21, 0, 0]), fork);
        assert_eq!(noted(kind::EXIT, 0, &[10, 20, 11, 21, 0, 0]), Noted::Exit { tid: 11 });
        let name = i32::from_ne_bytes(*b"cat\0");
        assert_eq!(noted(kind::COMM, 0, &[10, 11, name, 0]), Noted::Name { tid: 11, comm: comm(b"cat") });
        let lost = parse_bytes(3, kind::LOST, 0, &bytes(&[1, 0, 5, 0], 7, 99));
        assert_eq!(lost.map(|item| item.what), Some(What::Lost(5)));
        let other = parse_bytes(3, 4711, 0, &bytes(&[], 7, 99));
        assert_eq!(other.map(|item| item.what), Some(What::Other));
    }

    #[test]
    fn samples_have_the_record_of_their_tracepoint() {
        let mut sample = bytes(&[], 7, 99);
        sample.extend_from_slice(&1_u64.to_ne_bytes());
        sample.extend_from_slice(&4_u32.to_ne_bytes());
        sample.extend_from_slice(b"abcd");
        let item = parse_bytes(1, kind::SAMPLE, 0, &sample);
        assert_eq!(item, Some(Item { time: 99, cpu: 1, what: What::Raw(b"abcd".to_vec()) }));
    }

    #[test]
    fn records_cut_short_make_no_sense() {
        let mut sample = bytes(&[], 7, 99);
        sample.extend_from_slice(&[0; 8]);
        sample.extend_from_slice(&4_u32.to_ne_bytes());
        sample.extend_from_slice(&[1, 2, 3, 4]);
        for end in 0..sample.len() {
            assert_eq!(parse_bytes(1, kind::SAMPLE, 0, &sample[..end]), None, "{end}");
        }
        for ty in [kind::LOST, kind::COMM, kind::FORK, kind::EXIT, kind::SWITCH, kind::SWITCH_CPU_WIDE] {
            for end in 0..IDS {
                assert_eq!(parse_bytes(1, ty, 0, &sample[..end]), None, "{ty} {end}");
            }
        }
    }
}

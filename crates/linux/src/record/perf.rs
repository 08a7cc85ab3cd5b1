//! Records by `perf_event_open` where tracefs is not permitted.
//!
//! perf's records become events and pages as tracefs has them, so that the file is the same.

mod readers;
mod rings;
mod switches;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use vruntime_trace::recording::{Formats, PageWriter, Recording, TraceDatFile};

use self::readers::{Done, Readers};
use self::rings::{Rings, What};
use self::switches::Switches;
use super::command::Starter;
use super::cost::{self, EventCost};
use super::events::{self, Event};
use super::snapshot::Snapshot;
use super::tracefs;
use super::{RecordError, RecordOptions, RecordedEvents, Source, io_error};
use crate::urgent::Urgent;
use crate::work;

const PAGE: usize = 4096;

/// What perf may record.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) source: Source,
    tracefs: PathBuf,
    events: Vec<Event>,
    /// Why not more.
    pub(super) why: Vec<String>,
}

impl Access {
    /// Finds the source with the most events. `command`: whether there is a command to record.
    pub(super) fn find(command: bool) -> Result<Self, Vec<String>> {
        let cpu = online().first().copied().unwrap_or(0);
        let tracefs = tracefs::readable();
        let mut why = Vec::new();
        let mut sources = vec![Source::PerfTracepoints, Source::PerfSwitches];
        sources.extend(command.then_some(Source::PerfCommand));
        for source in sources {
            let checked = match (&tracefs, source) {
                (Err(error), Source::PerfTracepoints) => Err(io::Error::new(error.kind(), error.to_string())),
                (tracefs, _) => rings::may(source, tracefs.as_deref().unwrap_or(Path::new("")), cpu),
            };
            match checked {
                Ok(()) => {
                    let tracefs = tracefs.unwrap_or_default();
                    let events = if source == Source::PerfTracepoints { events::there(&tracefs) } else { Vec::new() };
                    return Ok(Self { source, tracefs, events, why });
                }
                Err(error) => why.push(format!("{}: {error}", source.what())),
            }
        }
        Err(why)
    }

    fn open(&self, thread: i32, most: u64) -> Result<Rings, RecordError> {
        Rings::open(self.source, &self.tracefs, &self.events, &online(), thread, most)
            .map_err(io_error("perf_event_open failed"))
    }

    fn formats(&self) -> io::Result<Formats> {
        let pages = Formats {
            header_page: PageWriter::header_page(PAGE).into_bytes(),
            header_event: PageWriter::HEADER_EVENT.as_bytes().to_vec(),
            ..Formats::default()
        };
        Ok(if self.source == Source::PerfTracepoints {
            Formats { systems: events::systems(&self.tracefs, &self.events)?, ..pages }
        } else {
            Formats { systems: switches::formats(), ..pages }
        })
    }
}

/// Records as [`record`](super::record) does.
pub(super) fn record(
    access: &Access,
    options: &RecordOptions,
    stop: &dyn Fn() -> bool,
) -> Result<RecordedEvents, RecordError> {
    let mut notes = crate::clean();
    let cpus = online().last().map_or(1, |last| last + 1);
    // A ring and a file descriptor for each tracepoint and CPU.
    raise_files();
    let most = super::buffer(cpus);
    if access.source == Source::PerfTracepoints {
        events::note_missing(&access.events, &mut notes);
    }
    let formats = access.formats().map_err(io_error("cannot read the formats of events"))?;
    let cost = if options.measure_cost { measure(access, cpus, most)? } else { None };
    // The command inherits this thread's present priority, and perf's counters.
    let starter = Starter::new(&options.command).map_err(io_error("cannot make a thread"))?;
    let rings = access.open(starter.tid(), most)?;
    let buffer_bytes = rings.bytes;
    let mut before = Snapshot::take();
    let reserve = super::reserve(&options.folder, &before);
    let cannot_keep = format!("cannot keep events in {}", options.folder.display());
    let readers =
        Readers::start(access.source, rings, cpus, &options.folder, &before).map_err(io_error(&cannot_keep))?;
    let mut recorder = readers.tids.clone();
    recorder.extend([std::process::id() as i32, starter.tid()]);
    let urgent = Urgent::take();
    before.complete();
    readers.rings.enable(true).map_err(io_error("perf_event_open's events cannot be enabled"))?;
    let began_ns = work::now();
    let mut running = starter.start()?;
    let stopped = super::wait(options, stop, running.as_mut(), &readers.shared, began_ns);
    readers.rings.enable(false).map_err(io_error("perf_event_open's events cannot be disabled"))?;
    let ended_ns = work::now();
    let after = Snapshot::take();
    let done = readers.finish();
    drop(urgent);
    let done = done.map_err(io_error(&cannot_keep))?;
    let strange: u64 = done.iter().map(|cpu| cpu.strange).sum();
    if strange > 0 {
        notes.push(format!("{strange} records of perf are left out, because they are shorter than they should be"));
    }
    let events = done.iter().map(|cpu| cpu.events).sum();
    let lost = done.iter().map(|cpu| cpu.lost).sum();
    let stats: Vec<_> = done.iter().map(Done::stats).collect();
    let pages = done.into_iter().map(|cpu| (cpu.file, cpu.bytes)).collect();
    let file = TraceDatFile {
        page_size: PAGE as u32,
        formats,
        names: super::names(&access.tracefs, &before, &after),
        clock: "[mono]".to_owned(),
        uname: super::uname(),
        version: format!("vruntime {}", env!("CARGO_PKG_VERSION")),
        stats,
        recording: Recording::default(),
    };
    let command = running.map(|running| running.end(&mut notes));
    let event_names = match access.source {
        Source::PerfTracepoints => access.events.iter().map(|event| event.name.to_owned()).collect(),
        _ => switches::names(),
    };
    let (source, why) = (access.source, access.why.clone());
    Ok(RecordedEvents {
        source,
        why,
        stopped,
        command,
        began_ns,
        ended_ns,
        events,
        lost,
        cpus,
        buffer_bytes,
        event_names,
        cost,
        recorder,
        before,
        after,
        notes,
        file,
        pages,
        reserve,
    })
}

/// Measures an event's cost with rings of the calling thread, or of all.
fn measure(access: &Access, cpus: u32, most: u64) -> Result<Option<EventCost>, RecordError> {
    let rings = access.open(0, most)?;
    let switches = std::cell::RefCell::new(Switches::new(cpus, access.source != Source::PerfCommand));
    let total = std::cell::Cell::new(0);
    let seen = |cpu: usize| {
        let mut items = Vec::new();
        let (_, strange) = rings.drain(0..rings.len(), &mut items);
        items.sort_by_key(|item| item.time);
        let mut events = strange;
        for item in items.into_iter().filter(|item| item.cpu as usize == cpu) {
            match item.what {
                What::Raw(_) => events += 1,
                What::Lost(lost) => events += lost,
                What::Other => {}
                What::Noted(noted) => switches.borrow_mut().convert(item.cpu, &noted, &mut |_| events += 1),
            }
        }
        total.set(total.get() + events);
        total.get()
    };
    let enable = |on| {
        // A failed round has no events, so the least count is taken.
        let _enabled = rings.enable(on);
    };
    Ok(cost::measure(&seen, &enable)?)
}

/// Returns the CPUs that are online.
fn online() -> Vec<u32> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            cpus.extend((first..=last).take(vruntime_trace::MAX_CPUS as usize));
        }
    }
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// Raises the limit of open files as far as is permitted.
fn raise_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    // If this fails, opening reports it.
    let _refused = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use vruntime_trace::Tracepoint;

    use super::*;

    /// Whatever the kernel permits here, it records a program with its switches.
    #[test]
    fn a_command_is_recorded_by_every_permitted_source() {
        let found = match Access::find(true) {
            Ok(found) => found,
            Err(why) => {
                crate::skip::skip(&format!("perf_event_open is not permitted ({})", why.join("; ")));
                return;
            }
        };
        let all = [Source::PerfTracepoints, Source::PerfSwitches, Source::PerfCommand];
        let best = all.iter().position(|source| *source == found.source).unwrap();
        // What needs fewer privileges is permitted, too.
        for source in &all[best..] {
            let access = Access { source: *source, ..found.clone() };
            let folder = tempfile::tempdir().unwrap();
            let command = ["sh", "-c", "yes | head -c 2000000 > /dev/null"].map(Into::into).to_vec();
            let options = RecordOptions {
                command,
                max_bytes: 1 << 30,
                folder: folder.path().to_owned(),
                ..RecordOptions::default()
            };
            let recorded = record(&access, &options, &|| false).unwrap();
            assert_eq!((recorded.source, recorded.lost), (*source, 0));
            assert!(recorded.recorder.iter().all(|&tid| tid > 0), "{:?}", recorded.recorder);
            let path = folder.path().join("r.dat");
            recorded.write(&mut std::fs::File::create(&path).unwrap(), Recording::default()).unwrap();
            let mut dat = vruntime_trace::read::TraceDat::new(fs::File::open(&path).unwrap()).unwrap();
            let (mut switches, mut ends, mut last) = (BTreeMap::<Vec<u8>, u64>::new(), BTreeSet::new(), i64::MIN);
            while let Some(record) = dat.next_record().unwrap() {
                assert!(record.at >= last, "the events are in order");
                last = record.at;
                match record.point {
                    Tracepoint::Switch { prev, .. } => *switches.entry(prev.comm.to_vec()).or_default() += 1,
                    Tracepoint::ProcessExit { task, .. } => drop(ends.insert(task.comm.to_vec())),
                    Tracepoint::Malformed { .. } => panic!("{source:?}: {record:?}"),
                    _ => {}
                }
            }
            for name in [&b"sh"[..], b"yes", b"head"] {
                assert!(switches.get(name) > Some(&0) && ends.contains(name), "{source:?} {switches:?} {ends:?}");
            }
        }
    }
}

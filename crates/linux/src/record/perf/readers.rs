//! Threads that move perf's rings into files, as pages of the kernel's tracing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Seek};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use vruntime_trace::recording::PageWriter;

use super::super::readers::{Shared, scratch};
use super::rings::{Item, Rings, What};
use super::switches::Switches;
use super::{PAGE, Snapshot, Source};
use crate::urgent::Urgent;
use crate::work;

/// A thread's CPUs.
const CPUS: usize = 8;
/// Time between two looks, and while a ring is fuller than this, in thousandths.
const LOOK: Duration = Duration::from_millis(20);
const SHORT_LOOK: Duration = Duration::from_millis(2);
const FULL: u64 = 100;

/// The recorded events of a CPU.
#[derive(Debug)]
pub(super) struct Done {
    cpu: u32,
    pub(super) file: File,
    pub(super) bytes: u64,
    pub(super) events: u64,
    pub(super) lost: u64,
    /// Records that made no sense.
    pub(super) strange: u64,
}

impl Done {
    /// Returns the counts as `per_cpu/cpuN/stats` has them.
    pub(super) fn stats(&self) -> Vec<u8> {
        let Self { cpu, lost, events, .. } = self;
        format!("CPU: {cpu}\nentries: 0\noverrun: {lost}\nread events: {events}\n").into_bytes()
    }
}

/// The threads.
#[derive(Debug)]
pub(super) struct Readers {
    pub(super) rings: Arc<Rings>,
    pub(super) shared: Arc<Shared>,
    pub(super) tids: Vec<i32>,
    threads: Vec<JoinHandle<io::Result<Vec<Done>>>>,
}

impl Readers {
    /// Starts to empty the rings into nameless files in `folder`.
    pub(super) fn start(source: Source, rings: Rings, cpus: u32, folder: &Path, before: &Snapshot) -> io::Result<Self> {
        let mut outs = (0..cpus).map(|cpu| Ok((cpu, Out::new(folder)?))).collect::<io::Result<BTreeMap<u32, Out>>>()?;
        let of_rings = rings.cpus();
        let shared = Arc::new(Shared::default());
        let mut this = Self { rings: Arc::new(rings), shared, tids: Vec::new(), threads: Vec::new() };
        // Switches need the records of all CPUs in order.
        let each = if source == Source::PerfTracepoints { CPUS } else { of_rings.len().max(1) };
        let mut begin = 0;
        while begin < of_rings.len() || begin == 0 {
            let range = begin..of_rings.len().min(begin + each);
            begin += each;
            // The last thread also has the CPUs without rings.
            let last = begin >= of_rings.len();
            let mine: Vec<u32> = of_rings.get(range.clone()).unwrap_or_default().to_vec();
            let (files, rest) = outs.into_iter().partition(|(cpu, _)| last || mine.contains(cpu));
            outs = rest;
            let switches = (source != Source::PerfTracepoints).then(|| {
                let mut switches = Switches::new(cpus, source == Source::PerfSwitches);
                switches.know(before);
                switches
            });
            let body = Body { rings: this.rings.clone(), range, shared: this.shared.clone(), outs: files, switches };
            let (sender, receiver) = std::sync::mpsc::channel();
            let shared = this.shared.clone();
            let body = move || {
                let _sent = sender.send(rustix::thread::gettid().as_raw_nonzero().get());
                let _urgent = Urgent::take();
                let done = body.read();
                if done.is_err() {
                    shared.has_failed();
                }
                done
            };
            this.threads.push(thread::Builder::new().name("vruntime-reader".to_owned()).spawn(body)?);
            this.tids.extend(receiver.recv());
        }
        Ok(this)
    }

    /// Reads the rest. Returns the CPUs in order.
    pub(super) fn finish(mut self) -> io::Result<Vec<Done>> {
        let mut all = Vec::new();
        for done in self.end() {
            all.extend(done?);
        }
        all.sort_by_key(|done| done.cpu);
        Ok(all)
    }

    fn end(&mut self) -> Vec<io::Result<Vec<Done>>> {
        self.shared.is_over();
        let threads = std::mem::take(&mut self.threads);
        let end = |thread: JoinHandle<io::Result<Vec<Done>>>| {
            thread.thread().unpark();
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a reader ended early")))
        };
        threads.into_iter().map(end).collect()
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let _ended = self.end();
    }
}

#[derive(Debug)]
struct Out {
    pages: PageWriter,
    file: BufWriter<File>,
    events: u64,
    lost: u64,
}

impl Out {
    fn new(folder: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(16 * PAGE, scratch(folder)?);
        Ok(Self { pages: PageWriter::new(PAGE), file, events: 0, lost: 0 })
    }
}

struct Body {
    rings: Arc<Rings>,
    range: Range<usize>,
    shared: Arc<Shared>,
    outs: BTreeMap<u32, Out>,
    switches: Option<Switches>,
}

impl Body {
    fn read(mut self) -> io::Result<Vec<Done>> {
        let (mut held, mut strange, mut limit): (Vec<Item>, u64, u64) = (Vec::new(), 0, 0);
        loop {
            // Read first, so that later events are read below.
            let over = self.shared.over();
            let began = work::now();
            let (fullest, senseless) = self.rings.drain(self.range.clone(), &mut held);
            strange += senseless;
            // A stable sort: the order in a ring counts.
            held.sort_by_key(|item| item.time);
            // Rings are read one after another, so a later record of this round may be followed by an earlier one.
            let ready = if over { held.len() } else { held.partition_point(|item| item.time <= limit) };
            let mut bytes = 0;
            for item in held.drain(..ready) {
                bytes += self.write(&item)?;
            }
            self.shared.add(bytes);
            limit = began;
            if over {
                break;
            }
            thread::park_timeout(if fullest > FULL { SHORT_LOOK } else { LOOK });
        }
        let mut all = Vec::new();
        for (cpu, mut out) in self.outs {
            out.pages.finish(&mut out.file)?;
            let Out { file, events, lost, .. } = out;
            let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            let bytes = file.stream_position()?;
            file.rewind()?;
            all.push(Done { cpu, file, bytes, events, lost, strange: std::mem::take(&mut strange) });
        }
        Ok(all)
    }

    /// Returns about how many bytes the record takes.
    fn write(&mut self, item: &Item) -> io::Result<u64> {
        let Some(out) = self.outs.get_mut(&item.cpu) else { return Ok(0) };
        let mut bytes = 0;
        let mut failed = Ok(());
        let mut event = |record: &[u8]| {
            bytes += record.len() as u64 + 8;
            out.events += 1;
            if failed.is_ok() {
                failed = out.pages.event(item.time, record, &mut out.file);
            }
        };
        match &item.what {
            What::Raw(record) => event(record),
            What::Noted(noted) => {
                if let Some(switches) = &mut self.switches {
                    switches.convert(item.cpu, noted, &mut event);
                }
            }
            What::Lost(events) => {
                out.lost += events;
                out.pages.lost(*events);
                if let Some(switches) = &mut self.switches {
                    switches.lost(item.cpu);
                }
            }
            What::Other => {}
        }
        failed.map(|()| bytes)
    }
}

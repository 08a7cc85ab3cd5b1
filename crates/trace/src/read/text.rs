//! Text traces: of the kernel, trace-cmd and perf script, and in systrace's pages.

use std::collections::{BTreeSet, VecDeque};
use std::io::Read;

use memchr::{memchr2, memmem};

use super::foreign::{self, Foreign};
use super::head::{Dress, Head, head};
use super::lines::Lines;
use super::notes::{self, Error, Kind, Notes, Place};
use super::payload::tracepoint;
use super::scan::{digits, signed, trim_start, word};
use super::script::Script;
use crate::event::{Named, Record, StateBits, Tracepoint};

/// Reads text by lines, in a fixed buffer of 256 KiB. Lines of several tools may be mixed.
#[derive(Debug)]
pub struct TextReader<R> {
    lines: Lines<R>,
    notes: Notes,
    bits: StateBits,
    page: Page,
    /// Kind by the header.
    header: Option<Kind>,
    events: u64,
    latest: i64,
    /// Set if [`Notes::kind`] is final.
    kind_known: bool,
    script: Script,
    foreign: Foreign,
    /// Lines already found: an event by [`begin`](Self::begin), or losses and the next event.
    found: VecDeque<Found>,
    /// Set after an event that is not perf's own.
    began: bool,
    /// CPUs with events, by number.
    seen: Vec<bool>,
    /// Unreadable lines since the last event.
    torn: Torn,
}

/// The CPUs whose events unreadable lines may have been.
#[derive(Debug)]
enum Torn {
    Nothing,
    Of(BTreeSet<u32>),
    Any,
}

/// An event or a loss, and its line in the buffer.
#[derive(Debug)]
struct Found {
    line: Line,
    start: usize,
    end: usize,
}

/// The position in a page of HTML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    /// Not a page.
    Plain,
    /// Outside the trace.
    Outside,
    /// At the beginning of data, whose first line has its kind.
    Begins,
    Inside,
}

#[derive(Debug)]
enum Line {
    Event(Head),
    Lost {
        cpu: u32,
        events: Option<u64>,
    },
    /// Unreadable lines after `at`.
    Torn {
        cpu: u32,
        at: i64,
    },
}

impl<R: Read> TextReader<R> {
    /// Reads from `reader`, without a further buffer.
    pub fn new(reader: R) -> Self {
        Self {
            lines: Lines::new(reader),
            notes: Notes::default(),
            bits: StateBits::default(),
            page: Page::Plain,
            header: None,
            events: 0,
            latest: 0,
            kind_known: false,
            script: Script::default(),
            foreign: Foreign::default(),
            found: VecDeque::new(),
            began: false,
            seen: Vec::new(),
            torn: Torn::Nothing,
        }
    }

    /// Returns what is known of the file so far.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    /// Reads up to the first event, so that [`notes`](Self::notes) have the header.
    ///
    /// # Errors
    /// As [`next_record`](Self::next_record).
    pub fn begin(&mut self) -> Result<(), Error> {
        if self.events == 0
            && self.found.is_empty()
            && let Some(found) = self.find()?
        {
            self.add(found);
        }
        Ok(())
    }

    /// Adds what was found to the list. Losses precede the first event after unreadable lines.
    fn add(&mut self, found: Found) {
        if let Line::Event(head) = &found.line {
            let cpu = head.cpu;
            self.tell_torn();
            self.has_event(cpu);
        }
        self.found.push_back(found);
    }

    /// Adds the losses of unreadable lines.
    fn tell_torn(&mut self) {
        let at = self.latest;
        let loss = |cpu| Found { line: Line::Torn { cpu, at }, start: 0, end: 0 };
        match std::mem::replace(&mut self.torn, Torn::Nothing) {
            Torn::Nothing => {}
            Torn::Of(cpus) => {
                let seen = |cpu: &u32| self.seen.get(*cpu as usize) == Some(&true);
                self.found.extend(cpus.into_iter().filter(seen).map(loss));
            }
            Torn::Any => {
                self.found.extend(self.seen.iter().zip(0..).filter(|(seen, _)| **seen).map(|(_, cpu)| loss(cpu)));
            }
        }
    }

    #[inline]
    fn has_event(&mut self, cpu: u32) {
        let cpu = cpu as usize;
        if cpu >= self.seen.len() {
            self.seen.resize(cpu + 1, false);
        }
        self.seen[cpu] = true;
    }

    /// Notes an unreadable line. `cpu`: whose event it was; without it, it may have been any CPU's.
    fn tear(&mut self, cpu: Option<u32>) {
        match (&mut self.torn, cpu) {
            (Torn::Any, _) => {}
            (torn, None) => *torn = Torn::Any,
            (Torn::Of(cpus), Some(cpu)) => {
                cpus.insert(cpu);
            }
            (torn, Some(cpu)) => *torn = Torn::Of(BTreeSet::from([cpu])),
        }
    }

    /// Returns the next event or loss.
    #[inline]
    fn find(&mut self) -> Result<Option<Found>, Error> {
        loop {
            if self.script.watches() {
                self.script.judge(false)?;
            }
            let Some(found) = self.lines.next()? else {
                self.script.judge(true)?;
                if self.events == 0 {
                    return Err(self.without_events());
                }
                return Ok(None);
            };
            let place = Place::Line(self.lines.number());
            if found.unterminated {
                self.notes.unterminated = Some(place);
            }
            let mut range = found.range;
            // Old pages have the text as one JavaScript string.
            if self.page == Page::Inside && self.lines.bytes()[range.clone()].ends_with(b"\\n\\") {
                range.end -= 3;
            }
            let start = range.start;
            match self.line(start, range.end) {
                None => {
                    // A page's own scripts may be long.
                    if found.cut && self.page != Page::Outside {
                        self.notes.cut_lines.add(place);
                    }
                }
                Some(line) => {
                    if found.cut {
                        self.notes.cut_lines.add(place);
                    }
                    // The kernel and perf pad names, so that no line of theirs begins with a mark.
                    if self.events == 0 && self.lines.bytes()[start..].starts_with(b">") {
                        return Err(foreign::quoted());
                    }
                    return Ok(Some(Found { line, start, end: range.end }));
                }
            }
        }
    }

    fn without_events(&self) -> Error {
        let lines = self.lines.number();
        if let Some(error) = self.foreign.error() {
            return error;
        }
        match self.header {
            _ if lines == 0 => Error::Empty,
            // Any page of HTML counts as systrace's.
            Some(kind) if kind != Kind::Systrace => Error::WithoutEvents { kind },
            _ => Error::NoEvents { lines },
        }
    }

    /// Returns the next event, in the order of the file; none at its end.
    ///
    /// # Errors
    /// If reading fails, the file has no event, or `perf script` printed it with other columns.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        if self.found.is_empty() {
            match self.find()? {
                Some(found) => self.add(found),
                None => self.tell_torn(),
            }
        }
        let Some(Found { line, start, end }) = self.found.pop_front() else { return Ok(None) };
        self.events += 1;
        if matches!(line, Line::Lost { .. }) {
            self.look_ahead()?;
        }
        let text = &self.lines.bytes()[start..end];
        Ok(Some(match line {
            Line::Event(head) => {
                if self.script.watches() {
                    self.script.event(&head, &text[head.name.clone()]);
                }
                let record = record(text, &head, &mut self.bits);
                self.notes.counts_for_time |= head.counts;
                if matches!(record.point, Tracepoint::Malformed { .. }) {
                    self.notes.malformed.add(Place::Line(self.lines.number()));
                }
                if !self.began {
                    self.began = !record.name.starts_with(b"PERF_RECORD_");
                    if record.name == b"PERF_RECORD_FORK"
                        && let Tracepoint::Other { fields } = record.point
                        && let Some([process, thread, parent]) = forked(fields)
                    {
                        self.notes.was_forked(process, thread, parent);
                    }
                }
                if !self.kind_known {
                    let kind = kind(self.header, &head, text, &record);
                    self.notes.kind = Some(kind);
                    self.kind_known = kind != Kind::TraceCmdReport || matches!(record.point, Tracepoint::Switch { .. });
                }
                self.latest = record.at;
                record
            }
            Line::Lost { cpu, events } => {
                let at = match self.found.back() {
                    Some(Found { line: Line::Event(head), .. }) => head.at,
                    _ => self.latest,
                };
                lost_record(at, cpu, events)
            }
            Line::Torn { cpu, at } => lost_record(at, cpu, None),
        }))
    }

    /// Finds the event behind a loss, which has the time. At most as many losses as CPUs precede it. Only the last
    /// line is read from the buffer again.
    fn look_ahead(&mut self) -> Result<(), Error> {
        const MOST: usize = 8192;
        while self.found.len() < MOST && !matches!(self.found.back(), Some(Found { line: Line::Event(_), .. })) {
            match self.find()? {
                Some(found) => self.add(found),
                None => break,
            }
        }
        Ok(())
    }

    /// Parses the line at this place of the buffer, and applies headers.
    #[inline]
    fn line(&mut self, start: usize, end: usize) -> Option<Line> {
        let text = &self.lines.bytes()[start..end];
        // No text has these bytes. Disks and copies leave them in place of lost blocks.
        let overwritten = memchr2(0, 0xff, text).is_some();
        if !overwritten
            && matches!(self.page, Page::Plain | Page::Inside)
            && let Some(head) = head(text)
            && is_name(&text[head.name.clone()])
        {
            return Some(Line::Event(head));
        }
        self.no_event(start, end, overwritten)
    }

    #[cold]
    fn no_event(&mut self, start: usize, end: usize, overwritten: bool) -> Option<Line> {
        let text = &self.lines.bytes()[start..end];
        if self.page != Page::Plain || text.starts_with(b"<") {
            self.page = page(self.page, text);
            if self.page != Page::Plain {
                self.header = Some(Kind::Systrace);
            }
            if self.page != Page::Inside && self.page != Page::Plain {
                return None;
            }
        }
        let trimmed = trim_start(text);
        if trimmed.is_empty() {
            return None;
        }
        if self.events == 0 && self.page == Page::Plain {
            self.foreign.line(trimmed);
        }
        if overwritten {
            self.notes.not_understood.add(Place::Line(self.lines.number()));
            // The hole may have had several lines.
            self.tear(None);
            return None;
        }
        if let Some((cpu, events)) = lost(trimmed) {
            return Some(Line::Lost { cpu, events });
        }
        match header(trimmed) {
            Some(Header::Ftrace) => self.header = self.header.or(Some(Kind::Ftrace)),
            Some(Header::Buffer { kept, written }) => {
                self.header = self.header.or(Some(Kind::Ftrace));
                let before = self.notes.overwritten.unwrap_or(0);
                self.notes.overwritten = Some(before.saturating_add(written.saturating_sub(kept)));
                if let Some(cpus) = text_cpus(trimmed) {
                    self.notes.cpus = Some(cpus);
                }
            }
            Some(Header::Cpus(cpus)) => {
                self.header = Some(Kind::TraceCmdReport);
                // Written by programs that do not know the number.
                self.notes.cpus = Some(cpus).filter(|&cpus| cpus > 0);
            }
            Some(Header::Release(release)) => self.notes.release = Some(release),
            Some(Header::TraceCmd) => self.header = Some(Kind::TraceCmdReport),
            Some(Header::Other) => {}
            None if self.page == Page::Inside => {}
            None => {
                if self.script.watches() {
                    self.script.no_event(trimmed);
                }
                let place = Place::Line(self.lines.number());
                self.notes.not_understood.add(place);
                if let Some(cpu) = cpu_of_part(trimmed) {
                    self.tear(Some(cpu));
                }
            }
        }
        None
    }
}

/// Returns the CPU of a part of an event's line: `bash-20662 [001] d..2. 455`.
fn cpu_of_part(text: &[u8]) -> Option<u32> {
    let mut words = text.split(|byte| *byte == b' ').filter_map(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
    let number = words.find_map(|word| digits(word).filter(|(_, length)| *length == word.len() && *length >= 3));
    number.and_then(|(cpu, _)| u32::try_from(cpu).ok())
}

fn lost_record(at: i64, cpu: u32, events: Option<u64>) -> Record<'static> {
    let point = Tracepoint::Lost { events };
    Record { at, cpu, pid: -1, tgid: None, comm: b"", context: None, name: LOST, point }
}

/// Whether `name` can be an event's: an identifier, perhaps with perf's separators. Function tracers print none.
#[inline]
fn is_name(name: &[u8]) -> bool {
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.:-/@,=+*%$~".contains(byte))
}

/// The name of [`Tracepoint::Lost`].
pub(super) const LOST: &[u8] = b"lost_events";

/// A line that is no event.
enum Header {
    Ftrace,
    Buffer { kept: u64, written: u64 },
    Cpus(u32),
    Release(String),
    TraceCmd,
    Other,
}

fn header(text: &[u8]) -> Option<Header> {
    if let Some(rest) = text.strip_prefix(b"# entries-in-buffer/entries-written: ") {
        let (kept, length) = digits(rest)?;
        let (written, _) = digits(rest[length..].strip_prefix(b"/")?)?;
        return Some(Header::Buffer { kept, written });
    }
    // `perf script --header`
    if let Some(rest) = text.strip_prefix(b"# os release : ") {
        return Some(notes::release(rest).map_or(Header::Other, Header::Release));
    }
    if text.starts_with(b"#") {
        return Some(if text.starts_with(b"# tracer:") { Header::Ftrace } else { Header::Other });
    }
    if let Some(rest) = text.strip_prefix(b"cpus=") {
        return digits(rest).and_then(|(cpus, _)| u32::try_from(cpus).ok()).map(Header::Cpus);
    }
    if text.starts_with(b"version = ") || text.starts_with(b"CPU ") && text.ends_with(b" is empty") {
        return Some(Header::TraceCmd);
    }
    // Stacks of the kernel (` => schedule+0x3a/0x90`, `<stack trace>`) and of perf (an address, then a symbol).
    // Addresses of programs may be short: `993 main (/root/noploop)`.
    let address = word(text).0;
    let stack = text.starts_with(b"=> ")
        || text.starts_with(b"<stack trace>")
        || text.starts_with(b"<user stack trace>")
        || address.iter().all(u8::is_ascii_hexdigit) && (address.len() >= 5 || text.ends_with(b")"));
    // atrace prints these lines before the trace.
    let atrace = matches!(text, b"TRACE:" | b"capturing trace... done");
    (stack || atrace).then_some(Header::Other)
}

/// `#P:8` at the end of a header's line.
fn text_cpus(text: &[u8]) -> Option<u32> {
    let at = memmem::find(text, b"#P:")?;
    u32::try_from(digits(&text[at + 3..])?.0).ok()
}

/// `CPU:1 [LOST 12 EVENTS]` of the kernel, `CPU:1 [12 EVENTS DROPPED]` of trace-cmd; the number is optional.
fn lost(text: &[u8]) -> Option<(u32, Option<u64>)> {
    let rest = text.strip_prefix(b"CPU:")?;
    let (cpu, length) = digits(rest)?;
    let inside = trim_start(&rest[length..]).strip_prefix(b"[")?;
    let kernel = inside.strip_prefix(b"LOST ");
    if kernel.is_none() && memmem::find(inside, b"EVENTS DROPPED]").is_none() {
        return None;
    }
    let cpu = u32::try_from(cpu).ok().filter(|&cpu| cpu < super::head::MAX_CPUS)?;
    Some((cpu, digits(kernel.unwrap_or(inside)).map(|(count, _)| count)))
}

/// Returns the position in a page after this line.
fn page(page: Page, text: &[u8]) -> Page {
    match page {
        Page::Plain => {
            let lower = text.get(..5).map(<[u8]>::to_ascii_lowercase);
            if matches!(lower.as_deref(), Some(b"<!doc" | b"<html")) { Page::Outside } else { Page::Plain }
        }
        Page::Outside if opens(text) => Page::Begins,
        Page::Begins if text.is_empty() => Page::Begins,
        Page::Begins if text.starts_with(b"#") => Page::Inside,
        Page::Inside if memmem::find(text, b"</script>").is_none() && !text.starts_with(b"\";") => Page::Inside,
        // Other data, such as the state of processes or Chrome's events.
        Page::Outside | Page::Begins | Page::Inside => Page::Outside,
    }
}

fn opens(text: &[u8]) -> bool {
    memmem::find(text, b"class=\"trace-data\"").is_some() || memmem::find(text, b"linuxPerfData = \"").is_some()
}

fn kind(header: Option<Kind>, head: &Head, text: &[u8], record: &Record<'_>) -> Kind {
    if head.dress == Dress::Perf {
        return Kind::PerfScript;
    }
    match header {
        // Without `==>` the fields are raw.
        Some(Kind::TraceCmdReport)
            if matches!(record.point, Tracepoint::Switch { .. })
                && memmem::find(&text[head.fields.clone()], b" ==> ").is_none() =>
        {
            Kind::TraceCmdRaw
        }
        Some(kind) => kind,
        None => Kind::Ftrace,
    }
}

#[inline]
fn record<'a>(text: &'a [u8], head: &Head, bits: &mut StateBits) -> Record<'a> {
    let fields = &text[head.fields.clone()];
    let name = &text[head.name.clone()];
    let (name, point) = if name.is_empty() {
        (&b"function"[..], Tracepoint::Other { fields })
    } else if head.dress == Dress::Perf && name.starts_with(b"PERF_RECORD_") {
        (name, perf_record(name, fields))
    } else {
        (name, tracepoint(name, fields, bits))
    };
    let comm = &text[head.comm.clone()];
    // The idle task always has its name; `RecordedText` writes this for an unknown task.
    let unknown = head.pid == 0 && comm == b"<...>";
    Record {
        at: head.at,
        cpu: head.cpu,
        pid: if unknown { -1 } else { head.pid },
        tgid: head.tgid,
        comm: if unknown { b"" } else { comm },
        context: head.context,
        name,
        point,
    }
}

/// Process, thread and parent of `(5238:5247):(5238:5238)`.
fn forked(fields: &[u8]) -> Option<[i32; 3]> {
    let mut numbers = fields.split(|byte| matches!(byte, b'(' | b')' | b':')).filter(|number| !number.is_empty());
    let mut next = || signed(numbers.next()?);
    let (process, thread, _, parent) = (next()?, next()?, next()?, next()?);
    Some([process, thread, parent])
}

/// Parses the lines of `perf script` with --show-task-events, --show-lost-events and --show-switch-events.
fn perf_record<'a>(name: &[u8], fields: &'a [u8]) -> Tracepoint<'a> {
    let read = || match name {
        b"PERF_RECORD_LOST" => {
            let events = digits(fields.strip_prefix(b"lost ")?).map(|(count, _)| count);
            Some(Tracepoint::Lost { events })
        }
        b"PERF_RECORD_COMM" => {
            // `comm:pid/tid`, perhaps after `exec: `.
            let text = fields.strip_prefix(b"exec: ").unwrap_or(fields);
            let colon = text.iter().rposition(|&byte| byte == b':')?;
            let slash = colon + memchr::memchr(b'/', &text[colon..])?;
            let (tgid, pid) = (signed(&text[colon + 1..slash])?, signed(&text[slash + 1..])?);
            Some(Tracepoint::TaskRename { task: Named { comm: &text[..colon], pid }, tgid: Some(tgid) })
        }
        _ => None,
    };
    read().unwrap_or(Tracepoint::Other { fields })
}

//! Everything before the pages: formats, names of threads, options, and offsets of the pages.

use std::io::{Read, Seek};

use super::{Clock, overrun};
use crate::read::descriptions::{event_formats, ftrace_formats, header_info};
use crate::read::format::{Formats, number, until_nul};
use crate::read::input::Input;
use crate::read::notes::{self, Error, Kind};
use crate::read::ring::Layout;
use crate::read::scan::digits;
use crate::recording::{MAX_BYTES, OPTION, Recording};

pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

const HELP: &str = "`trace-cmd report -t -N FILE > trace.txt` converts it to readable text";

/// The largest page; the largest sub-buffers of a kernel have 64 pages.
const MAX_PAGE: u64 = 256 * 1024;

/// Numbers of options, of versions 6 and 7.
mod option {
    pub(super) const CPUSTAT: u64 = 2;
    pub(super) const BUFFER: u64 = 3;
    pub(super) const TRACECLOCK: u64 = 4;
    pub(super) const UNAME: u64 = 5;
    pub(super) const OFFSET: u64 = 7;
    pub(super) const CPUCOUNT: u64 = 8;
    pub(super) const TSC2NSEC: u64 = 14;
    pub(super) const HEADER_INFO: u64 = 16;
    pub(super) const FTRACE_EVENTS: u64 = 17;
    pub(super) const EVENT_FORMATS: u64 = 18;
    pub(super) const CMDLINES: u64 = 21;
    pub(super) const BUFFER_TEXT: u64 = 22;
}

#[derive(Debug)]
pub(super) struct Header {
    pub(super) layout: Layout,
    pub(super) formats: Formats,
    pub(super) comms: Vec<u8>,
    pub(super) clock: Clock,
    pub(super) buffer: Buffer,
    pub(super) overrun: Option<u64>,
    pub(super) machine_cpus: Option<u32>,
    pub(super) release: Option<String>,
    pub(super) recording: Option<Recording>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    pub(super) page_size: usize,
    pub(super) compressed: bool,
    /// Set if the clock does not count time.
    pub(super) counts: bool,
    pub(super) cpus: Vec<CpuData>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CpuData {
    pub(super) id: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// Data gathered while reading.
#[derive(Default)]
struct Found {
    layout: Option<Layout>,
    formats: Formats,
    comms: Vec<u8>,
    clock: Clock,
    buffer: Buffer,
    /// Set after the machine's own buffer, or an instance's.
    has_buffer: bool,
    overrun: Option<u64>,
    machine_cpus: Option<u32>,
    release: Option<String>,
    recording: Section,
}

/// The section of a recording, joined from its options.
#[derive(Default)]
struct Section {
    text: Vec<u8>,
    /// Offset of the first option.
    at: Option<u64>,
}

impl Header {
    pub(super) fn read<R: Read + Seek>(input: &mut Input<R>) -> Result<Self, Error> {
        let mut magic = [0; 10];
        input.exact(&mut magic, "the header of trace.dat")?;
        if magic != MAGIC {
            return Err(input.damaged("the header of trace.dat"));
        }
        let version = input.text("the version of the file")?;
        input.big_endian = input.number(1, "the order of bytes")? == 1;
        // The size of `long` in user space, which is not used.
        input.number(1, "the size of long")?;
        let page_size = page_size(input)?;
        let mut found = Found { formats: Formats::new(input.big_endian), ..Found::default() };
        found.buffer.page_size = page_size;
        match version.as_slice() {
            b"6" => version_6(input, &mut found)?,
            b"7" => version_7(input, &mut found)?,
            _ => {
                let version = String::from_utf8_lossy(&version).into_owned();
                return Err(Error::NotRead { what: format!("trace.dat of version {version:?}"), help: HELP });
            }
        }
        if found.buffer.cpus.is_empty() {
            // Version 7 leaves out CPUs without pages.
            let empty = Error::WithoutEvents { kind: Kind::TraceDat };
            return Err(if found.has_buffer { empty } else { input.damaged("pages of at least one CPU") });
        }
        if found.formats.len() == 0 {
            return Err(input.damaged("the format of at least one event"));
        }
        let layout = found.layout.ok_or_else(|| input.damaged("the format of pages (header_page)"))?;
        let Found { formats, comms, clock, buffer, overrun, machine_cpus, release, recording: section, .. } = found;
        let recording = section.at.map(|at| Recording::parse(&section.text, at)).transpose()?;
        Ok(Self { layout, formats, comms, clock, buffer, overrun, machine_cpus, release, recording })
    }
}

fn page_size<R: Read + Seek>(input: &mut Input<R>) -> Result<usize, Error> {
    let size = input.number(4, "the size of pages")?;
    if !size.is_power_of_two() || !(1024..=MAX_PAGE).contains(&size) {
        return Err(input.damaged(format!("the size of pages, a power of two from 1024 to {MAX_PAGE}, not {size}")));
    }
    Ok(size as usize)
}

fn version_6<R: Read + Seek>(input: &mut Input<R>, found: &mut Found) -> Result<(), Error> {
    found.layout = Some(header_info(input)?);
    ftrace_formats(input, &mut found.formats)?;
    event_formats(input, &mut found.formats)?;
    for what in ["/proc/kallsyms", "printk_formats"] {
        let size = input.number(4, what)?;
        input.skip(size)?;
    }
    command_lines(input, found)?;
    let cpus = input.number(4, "a count of CPUs")?;
    loop {
        let mut word = [0; 10];
        input.exact(&mut word, "options, latency or flyrecord")?;
        match &word {
            b"options  \0" => options_6(input, found)?,
            b"flyrecord\0" => break,
            b"latency  \0" => return Err(latency()),
            _ => return Err(input.damaged("options, latency or flyrecord")),
        }
    }
    for id in 0..cpus {
        let offset = input.number(8, "where pages of a CPU are")?;
        let size = input.number(8, "how large pages of a CPU are")?;
        let id = u32::try_from(id).unwrap_or(u32::MAX);
        found.buffer.cpus.push(CpuData { id, offset, size });
    }
    Ok(())
}

fn latency() -> Error {
    Error::NotRead { what: "text of a latency tracer in trace.dat".to_owned(), help: HELP }
}

fn command_lines<R: Read + Seek>(input: &mut Input<R>, found: &mut Found) -> Result<(), Error> {
    let size = input.number(8, "the size of the threads' names")?;
    found.comms = input.piece(size, "the threads' names")?;
    Ok(())
}

fn options_6<R: Read + Seek>(input: &mut Input<R>, found: &mut Found) -> Result<(), Error> {
    loop {
        let id = input.number(2, "an option")?;
        if id == 0 {
            return Ok(());
        }
        let size = input.number(4, "the size of an option")?;
        let at = input.at();
        let data = input.piece(size, "an option")?;
        if id == u64::from(OPTION) {
            section_of_recording(input, at, &data, found)?;
        }
        option_of_both(id, &data, input.big_endian, found);
    }
}

fn section_of_recording<R: Read + Seek>(
    input: &Input<R>,
    at: u64,
    data: &[u8],
    found: &mut Found,
) -> Result<(), Error> {
    let Section { text, at: first } = &mut found.recording;
    first.get_or_insert(at);
    if text.len() + data.len() > MAX_BYTES {
        return Err(input.damaged(format!("a recording's section of at most {MAX_BYTES} bytes")));
    }
    text.extend_from_slice(data);
    Ok(())
}

/// Handles options that both versions share.
fn option_of_both(id: u64, data: &[u8], big_endian: bool, found: &mut Found) {
    match id {
        option::CPUSTAT => {
            if let Some(count) = overrun(data) {
                found.overrun = Some(found.overrun.unwrap_or(0).saturating_add(count));
            }
        }
        // System, host, release, machine.
        option::UNAME => found.release = data.splitn(3, |&byte| byte == b' ').nth(2).and_then(notes::release),
        option::TRACECLOCK => found.buffer.counts |= counts(until_nul(data)),
        option::OFFSET => {
            let text = until_nul(data);
            let (sign, text) = text.strip_prefix(b"-").map_or((1, text), |rest| (-1, rest));
            let offset = digits(text).and_then(|(value, _)| i64::try_from(value).ok());
            found.clock.offset = sign * offset.unwrap_or(0);
        }
        option::CPUCOUNT => found.machine_cpus = number(data, 0, 4, big_endian).map(|cpus| cpus as u32),
        option::TSC2NSEC => {
            let value = |offset, size| number(data, offset, size, big_endian);
            if let (Some(factor), Some(shift), Some(offset)) = (value(0, 4), value(4, 4), value(8, 8)) {
                found.clock.cycles = Some((factor as u32, shift as u32, offset));
            }
        }
        _ => {}
    }
}

/// Whether a clock does not count time. Of several, the one in brackets is in use.
fn counts(clocks: &[u8]) -> bool {
    let inside = clocks.split(|&byte| byte == b'[').nth(1).and_then(|rest| rest.split(|&byte| byte == b']').next());
    matches!(inside.unwrap_or(clocks).trim_ascii(), b"counter" | b"x86-tsc")
}

fn version_7<R: Read + Seek>(input: &mut Input<R>, found: &mut Found) -> Result<(), Error> {
    let compression = input.text("the name of a compression")?;
    input.text("the version of a compression")?;
    if !matches!(compression.as_slice(), b"none" | b"zstd") {
        let name = String::from_utf8_lossy(&compression).into_owned();
        return Err(Error::NotRead { what: format!("trace.dat compressed with {name}"), help: HELP });
    }
    let mut next = input.number(8, "where the options are")?;
    let mut sections = Vec::new();
    // Each section of options has the offset of the next; one further back would loop.
    while next > 0 {
        let before = next;
        section(input, next, 0, "options")?;
        next = options_7(input, found, &mut sections)?;
        if next != 0 && next <= before {
            return Err(input.damaged("the next options behind these"));
        }
    }
    // Formats come first, in any order of the file.
    sections.sort_unstable();
    for (id, offset) in sections {
        section(input, offset, id, "a section")?;
        match id {
            option::HEADER_INFO => found.layout = Some(header_info(input)?),
            option::FTRACE_EVENTS => ftrace_formats(input, &mut found.formats)?,
            option::EVENT_FORMATS => event_formats(input, &mut found.formats)?,
            _ => command_lines(input, found)?,
        }
    }
    Ok(())
}

/// Seeks the content of a section. Returns whether it is compressed.
fn section<R: Read + Seek>(input: &mut Input<R>, offset: u64, id: u64, what: &str) -> Result<bool, Error> {
    input.seek(offset)?;
    if input.number(2, what)? != id {
        return Err(input.damaged(format!("the section {id} ({what})")));
    }
    let compressed = input.number(2, what)? & 1 != 0;
    input.number(4, what)?;
    input.number(8, what)?;
    // Pages have their own compression.
    if compressed && id != option::BUFFER {
        input.decompress()?;
    }
    Ok(compressed)
}

/// Reads options; returns the offset of the next ones, or 0.
fn options_7<R: Read + Seek>(
    input: &mut Input<R>,
    found: &mut Found,
    sections: &mut Vec<(u64, u64)>,
) -> Result<u64, Error> {
    let mut buffers = Vec::new();
    let next = loop {
        let id = input.number(2, "an option")?;
        let size = input.number(4, "the size of an option")?;
        let data = input.piece(size, "an option")?;
        let offset = || number(&data, 0, 8, input.big_endian).ok_or_else(|| input.damaged("where a section is"));
        match id {
            0 => break offset()?,
            option::HEADER_INFO | option::FTRACE_EVENTS | option::EVENT_FORMATS | option::CMDLINES => {
                sections.push((id, offset()?));
            }
            option::BUFFER => buffers.push(data),
            option::BUFFER_TEXT => return Err(latency()),
            _ => option_of_both(id, &data, input.big_endian, found),
        }
    };
    for data in buffers {
        // The instance without a name is the machine's own.
        let buffer = buffer_7(input, &data)?;
        found.has_buffer = true;
        if let Some((buffer, offset, top)) = buffer
            && (top || found.buffer.cpus.is_empty())
        {
            let compressed = section(input, offset, option::BUFFER, "pages")?;
            found.buffer = Buffer { compressed, counts: found.buffer.counts | buffer.counts, ..buffer };
        }
    }
    Ok(next)
}

/// Parses the option of a buffer: its pages, its section, and whether it is the machine's own.
fn buffer_7<R: Read + Seek>(input: &Input<R>, data: &[u8]) -> Result<Option<(Buffer, u64, bool)>, Error> {
    let damaged = || input.damaged("where the pages of an instance are");
    let at = |offset: usize, size: usize| number(data, offset, size, input.big_endian).ok_or_else(damaged);
    let offset = at(0, 8)?;
    let rest = data.get(8..).ok_or_else(damaged)?;
    let name = until_nul(rest);
    let clock = until_nul(rest.get(name.len() + 1..).ok_or_else(damaged)?);
    let mut here = 8 + name.len() + 1 + clock.len() + 1;
    let page_size = at(here, 4)?;
    let count = at(here + 4, 4)?;
    here += 8;
    if !page_size.is_power_of_two() || !(1024..=MAX_PAGE).contains(&page_size) {
        return Err(
            input.damaged(format!("the size of pages, a power of two from 1024 to {MAX_PAGE}, not {page_size}"))
        );
    }
    let mut cpus = Vec::new();
    for _ in 0..count {
        cpus.push(CpuData { id: at(here, 4)? as u32, offset: at(here + 4, 8)?, size: at(here + 12, 8)? });
        here += 20;
    }
    let buffer = Buffer { page_size: page_size as usize, compressed: false, counts: counts(clock), cpus };
    Ok((!buffer.cpus.is_empty()).then_some((buffer, offset, name.is_empty())))
}

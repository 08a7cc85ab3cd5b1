//! Everything except the records: their layouts, and the kernel's descriptions of its events.

use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::ops::Range;

use super::sample::Layout;
use super::{MAGIC, MAGIC_SWAPPED};
use crate::read::descriptions::{event_formats, ftrace_formats, header_info};
use crate::read::format::{Formats, number};
use crate::read::input::Input;
use crate::read::notes::{self, Error};

/// The most events recorded together. perf describes an event once for all CPUs.
const MAX_EVENTS: u64 = 65_536;
const MAX_IDS: usize = 1 << 22;

/// Bits of the features that are read.
const TRACING_DATA: usize = 1;
const OSRELEASE: usize = 4;
const NRCPUS: usize = 7;

/// Bytes of a release that are read; perf pads it to a multiple of 64.
const RELEASE: u64 = 256;

#[derive(Debug)]
pub(super) struct Header {
    pub(super) layouts: Vec<Layout>,
    pub(super) by_id: BTreeMap<u64, usize>,
    pub(super) formats: Formats,
    /// Offsets of the records.
    pub(super) data: Range<u64>,
    pub(super) machine_cpus: Option<u32>,
    pub(super) release: Option<String>,
}

impl Header {
    pub(super) fn read<R: Read + Seek>(input: &mut Input<R>) -> Result<Self, Error> {
        let mut magic = [0; 8];
        input.exact(&mut magic, "the header of perf.data")?;
        input.big_endian = magic == MAGIC_SWAPPED;
        if magic != MAGIC && !input.big_endian {
            return Err(input.damaged("the header of perf.data"));
        }
        let size = input.number(8, "the size of the header")?;
        if size == 16 {
            return Err(Error::NotRead {
                what: "perf.data written to a pipe".to_owned(),
                help: "`perf record -o FILE` writes a readable file; `perf script --ns < FILE > trace.txt` converts this one to text",
            });
        }
        let attr_size = input.number(8, "the size of an event's description")?;
        let attrs = section(input)?;
        let data = section(input)?;
        section(input)?;
        let mut features = [0; 4];
        for word in &mut features {
            *word = input.number(8, "features")?;
        }
        let (layouts, by_id) = layouts(input, &attrs, attr_size)?;
        if data.is_empty() {
            return Err(Error::NotRead {
                what: "perf.data that perf did not finish".to_owned(),
                help: "perf writes the descriptions of its events at its end: let it end by itself, or stop it with Ctrl-C",
            });
        }
        let has = |bit: usize| features[bit / 64] >> (bit % 64) & 1 != 0;
        let (mut machine_cpus, mut release) = (None, None);
        let mut formats = Formats::new(input.big_endian);
        input.seek(data.end)?;
        for bit in (0..=NRCPUS).filter(|&bit| has(bit)) {
            let place = section(input)?;
            let next = input.at();
            match bit {
                TRACING_DATA => {
                    input.seek(place.start)?;
                    descriptions(input, &mut formats)?;
                }
                OSRELEASE => {
                    // Optional, so damage is no error.
                    release = osrelease(input, place.start).unwrap_or(None);
                }
                NRCPUS => {
                    input.seek(place.start)?;
                    machine_cpus = Some(input.number(4, "a count of CPUs")? as u32);
                }
                _ => continue,
            }
            input.seek(next)?;
        }
        if formats.len() == 0 {
            return Err(Error::NotRead {
                what: "a perf.data without tracepoints".to_owned(),
                help: "samples of other events have no data on the scheduler; record its events: perf record -a -e 'sched:*' (or perf sched record)",
            });
        }
        Ok(Self { layouts, by_id, formats, data, machine_cpus, release })
    }
}

fn osrelease<R: Read + Seek>(input: &mut Input<R>, start: u64) -> Result<Option<String>, Error> {
    input.seek(start)?;
    let size = input.number(4, "the size of a kernel's release")?;
    Ok(notes::release(&input.piece(size.min(RELEASE), "a kernel's release")?))
}

/// Reads the range of a section.
fn section<R: Read + Seek>(input: &mut Input<R>) -> Result<Range<u64>, Error> {
    let start = input.number(8, "where a section is")?;
    let size = input.number(8, "the size of a section")?;
    Ok(start..start.saturating_add(size))
}

type Layouts = (Vec<Layout>, BTreeMap<u64, usize>);

/// Reads the layouts of events, and their ids.
fn layouts<R: Read + Seek>(input: &mut Input<R>, attrs: &Range<u64>, attr_size: u64) -> Result<Layouts, Error> {
    // At least up to the flags, with the position of the ids behind.
    if !(64..=4096).contains(&attr_size) || attrs.is_empty() {
        return Err(input.damaged("the description of at least one event"));
    }
    let count = (attrs.end - attrs.start) / attr_size;
    if count > MAX_EVENTS {
        return Err(input.damaged(format!("the descriptions of at most {MAX_EVENTS} events")));
    }
    let (mut layouts, mut by_id) = (Vec::new(), BTreeMap::new());
    for index in 0..count {
        input.seek(attrs.start + index * attr_size)?;
        let attr = input.piece(attr_size, "the description of an event")?;
        let word = |offset: usize| number(&attr, offset, 8, input.big_endian).unwrap_or(0);
        // The flags are bits of a C structure, in the machine's order.
        let flags = if input.big_endian { word(40).reverse_bits() } else { word(40) };
        layouts.push(Layout { sample_type: word(24), read_format: word(32), sample_id_all: flags >> 18 & 1 != 0 });
        let ids = attr_size as usize - 16;
        let (start, size) = (word(ids), word(ids + 8));
        if size > 0 {
            input.seek(start)?;
            for id in input.piece(size, "the ids of an event")?.chunks_exact(8) {
                if by_id.len() < MAX_IDS {
                    by_id.insert(number(id, 0, 8, input.big_endian).unwrap_or(0), layouts.len() - 1);
                }
            }
        }
    }
    Ok((layouts, by_id))
}

/// Reads the descriptions, which begin like `trace.dat`.
fn descriptions<R: Read + Seek>(input: &mut Input<R>, formats: &mut Formats) -> Result<(), Error> {
    let mut magic = [0; 10];
    input.exact(&mut magic, "the kernel's descriptions of its events")?;
    if magic != crate::read::trace_dat::MAGIC {
        return Err(input.damaged("the kernel's descriptions of its events"));
    }
    input.text("their version")?;
    // Byte order, size of long, size of pages.
    input.skip(6)?;
    header_info(input)?;
    ftrace_formats(input, formats)?;
    event_formats(input, formats)
}

//! A kernel's descriptions of its events, in `trace.dat` and `perf.data`.

use std::io::{Read, Seek};

use super::format::Formats;
use super::input::Input;
use super::notes::Error;
use super::ring::Layout;

/// Reads the layout of pages.
pub(super) fn header_info<R: Read + Seek>(input: &mut Input<R>) -> Result<Layout, Error> {
    let mut layout = None;
    for (word, what) in [(&b"header_page\0"[..], "header_page"), (b"header_event\0", "header_event")] {
        let mut read = vec![0; word.len()];
        input.exact(&mut read, what)?;
        if read != word {
            return Err(input.damaged(what));
        }
        let size = input.number(8, what)?;
        let text = input.piece(size, what)?;
        if what == "header_page" {
            layout = Layout::parse(&text, input.big_endian);
        }
    }
    layout.ok_or_else(|| input.damaged("fields of header_page"))
}

pub(super) fn ftrace_formats<R: Read + Seek>(input: &mut Input<R>, formats: &mut Formats) -> Result<(), Error> {
    let count = input.number(4, "a count of ftrace's formats")?;
    for _ in 0..count {
        format(input, formats)?;
    }
    Ok(())
}

pub(super) fn event_formats<R: Read + Seek>(input: &mut Input<R>, formats: &mut Formats) -> Result<(), Error> {
    let systems = input.number(4, "a count of systems of events")?;
    for _ in 0..systems {
        input.text("the name of a system of events")?;
        let count = input.number(4, "a count of formats")?;
        for _ in 0..count {
            format(input, formats)?;
        }
    }
    Ok(())
}

fn format<R: Read + Seek>(input: &mut Input<R>, formats: &mut Formats) -> Result<(), Error> {
    let size = input.number(8, "the size of a format")?;
    let text = input.piece(size, "the format of an event")?;
    // An invalid format makes its records unknown.
    formats.add(&text);
    Ok(())
}

//! What all readers are, and which of them reads a file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::foreign;
use super::notes::{Error, Kind, Notes};
use super::perf_data::{self, PerfData};
use super::perfetto::{self, PerfettoTrace};
use super::text::TextReader;
use super::trace_dat::{MAGIC, TraceDat};
use crate::event::Record;

/// A trace being read, of whatever kind.
pub trait Events {
    /// Returns the next event; None at the end of the file. Text is in the order of the file, binary traces are in
    /// order of time.
    ///
    /// # Errors
    /// If reading fails, or the file is no trace.
    fn next_record(&mut self) -> Result<Option<Record<'_>>, Error>;

    /// What is known of the file so far.
    fn notes(&self) -> &Notes;

    /// Reads what is before the first event, so that [`notes`](Self::notes) has what a header says. Binary traces have
    /// read it when they are opened.
    ///
    /// # Errors
    /// As [`next_record`](Self::next_record).
    fn begin(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl<R: Read> Events for TextReader<R> {
    fn next_record(&mut self) -> Result<Option<Record<'_>>, Error> {
        TextReader::next_record(self)
    }

    fn notes(&self) -> &Notes {
        TextReader::notes(self)
    }

    fn begin(&mut self) -> Result<(), Error> {
        TextReader::begin(self)
    }
}

/// What a file that begins with `bytes` (16 are enough) is read as; text of all kinds is none.
pub fn detect(bytes: &[u8]) -> Option<Kind> {
    if bytes.starts_with(MAGIC) {
        Some(Kind::TraceDat)
    } else if bytes.starts_with(perf_data::MAGIC) || bytes.starts_with(perf_data::MAGIC_SWAPPED) {
        Some(Kind::PerfData)
    } else if perfetto::looks_like(bytes) {
        Some(Kind::Perfetto)
    } else {
        None
    }
}

/// Whether a file that begins with `bytes` (16 are enough) is read as text, from its beginning to its end. Others are
/// read to and fro, or refused.
pub fn is_text(bytes: &[u8]) -> bool {
    detect(bytes).is_none() && foreign::binary(bytes).is_none()
}

/// Opens the trace at `path`. What kind it is, its content says.
///
/// # Errors
/// If it cannot be opened, or its header is damaged, or of a kind that is recognised and not read.
pub fn open(path: &Path) -> Result<Box<dyn Events>, Error> {
    if path.is_dir() {
        return Err(foreign::directory(|name| path.join(name).is_file()));
    }
    from_reader(File::open(path)?)
}

/// Reads a trace from a file, or from bytes in memory (`Cursor`).
///
/// # Errors
/// As [`open`].
pub fn from_reader<R: Read + Seek + 'static>(mut reader: R) -> Result<Box<dyn Events>, Error> {
    let mut first = Vec::new();
    reader.by_ref().take(16).read_to_end(&mut first)?;
    reader.seek(SeekFrom::Start(0))?;
    if let Some(error) = foreign::binary(&first) {
        return Err(error);
    }
    Ok(match detect(&first) {
        Some(Kind::TraceDat) => Box::new(TraceDat::new(reader)?),
        Some(Kind::PerfData) => Box::new(PerfData::new(reader)?),
        Some(Kind::Perfetto) => Box::new(PerfettoTrace::new(reader)?),
        _ => Box::new(TextReader::new(reader)),
    })
}

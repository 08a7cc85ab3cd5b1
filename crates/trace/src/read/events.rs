//! The common interface of readers, and the selection of a reader.

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

/// An open trace of any kind.
pub trait Events {
    /// Returns the next event; none at the end. Text is in the order of the file, binary traces in order of time.
    ///
    /// # Errors
    /// If reading fails, or the file is no trace.
    fn next_record(&mut self) -> Result<Option<Record<'_>>, Error>;

    /// Returns what is known of the file so far.
    fn notes(&self) -> &Notes;

    /// Reads up to the first event, so that [`notes`](Self::notes) have the header. Binary traces have read it when
    /// opened.
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

/// Returns the kind of a binary trace that begins with `bytes` (16 are enough); none for text.
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

/// Whether a file that begins with `bytes` (512 are enough) is read as text, sequentially. Others need seeking, or are
/// rejected.
pub fn is_text(bytes: &[u8]) -> bool {
    detect(bytes).is_none() && foreign::binary(bytes).is_none()
}

/// Opens the trace at `path`, by its content.
///
/// # Errors
/// If opening fails, the header is damaged, or the kind is known and unsupported.
pub fn open(path: &Path) -> Result<Box<dyn Events>, Error> {
    if path.is_dir() {
        return Err(foreign::directory(|name| path.join(name).is_file()));
    }
    from_reader(File::open(path)?)
}

/// Reads a trace from a file, or from memory (`Cursor`).
///
/// # Errors
/// As [`open`].
pub fn from_reader<R: Read + Seek + 'static>(mut reader: R) -> Result<Box<dyn Events>, Error> {
    let mut first = Vec::new();
    reader.by_ref().take(512).read_to_end(&mut first)?;
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

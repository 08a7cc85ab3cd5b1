//! What all readers are, and which of them reads a file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::notes::{Error, Kind, Notes};
use super::perf_data::{self, PerfData};
use super::perfetto::{self, PerfettoTrace};
use super::text::TextReader;
use super::trace_dat::{MAGIC, TraceDat};
use crate::event::Record;

/// A trace being read, of whatever kind.
pub trait Events {
    /// The next event; none at the end of the file. Text comes in the order of the file, binary traces in the order of
    /// time.
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

/// What compressed files begin with, what they are called, and what makes a trace of them.
const COMPRESSED: [(&[u8], &str, &str); 3] = [
    (b"\x1f\x8b", "a file compressed by gzip", "uncompress it: gunzip FILE"),
    (b"\x28\xb5\x2f\xfd", "a file compressed by zstd", "uncompress it: unzstd FILE"),
    (b"\xfd7zXZ\0", "a file compressed by xz", "uncompress it: unxz FILE"),
];

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
    detect(bytes).is_none() && compressed(bytes).is_none()
}

/// What a compressed file is called, and what makes a trace of it.
fn compressed(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    COMPRESSED.iter().find(|(magic, ..)| bytes.starts_with(magic)).map(|&(_, what, help)| (what, help))
}

/// Opens the trace at `path`. What kind it is, its content says.
///
/// # Errors
/// If it cannot be opened, or its header is damaged, or of a kind that is recognised and not read.
pub fn open(path: &Path) -> Result<Box<dyn Events>, Error> {
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
    if let Some((what, help)) = compressed(&first) {
        return Err(Error::NotRead { what: what.to_owned(), help });
    }
    Ok(match detect(&first) {
        Some(Kind::TraceDat) => Box::new(TraceDat::new(reader)?),
        Some(Kind::PerfData) => Box::new(PerfData::new(reader)?),
        Some(Kind::Perfetto) => Box::new(PerfettoTrace::new(reader)?),
        _ => Box::new(TextReader::new(reader)),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn compressed_files_are_told_from_text() {
        let told =
            |bytes: &'static [u8]| from_reader(Cursor::new(bytes)).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(told(b"\x1f\x8b\x08\0rest"), Err("a file compressed by gzip is not read".to_owned()));
        assert_eq!(told(b"\x28\xb5\x2f\xfdrest"), Err("a file compressed by zstd is not read".to_owned()));
        assert_eq!(told(b"\xfd7zXZ\0rest"), Err("a file compressed by xz is not read".to_owned()));
        assert_eq!(told(b"\x1f"), Ok(()));
    }
}

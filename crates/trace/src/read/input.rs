//! The bytes of a binary file. Nothing is allocated for a length that the file cannot have.

use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};

use ruzstd::decoding::FrameDecoder;

use super::format::number;
use super::notes::{Error, Place};

const CAPACITY: usize = 128 * 1024;
/// The longest piece of a header. A kernel's descriptions of events are a few kilobytes each.
const MAX_PIECE: u64 = 16 << 20;
/// The longest decompressed section or chunk. trace-cmd makes chunks of some pages.
const MAX_CHUNK: usize = 64 << 20;

#[derive(Debug)]
pub(super) struct Input<R> {
    reader: BufReader<R>,
    at: u64,
    len: u64,
    pub(super) big_endian: bool,
    /// A decompressed section with its position; reads are from here.
    section: Option<(Vec<u8>, usize)>,
}

impl<R: Read + Seek> Input<R> {
    pub(super) fn new(mut reader: R) -> Result<Self, Error> {
        let len = reader.seek(SeekFrom::End(0))?;
        reader.seek(SeekFrom::Start(0))?;
        Ok(Self { reader: BufReader::with_capacity(CAPACITY, reader), at: 0, len, big_endian: false, section: None })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn damaged(&self, expected: impl Into<String>) -> Error {
        Error::Damaged { place: Place::Byte(self.at), expected: expected.into() }
    }

    pub(super) fn seek(&mut self, at: u64) -> Result<(), Error> {
        self.section = None;
        if at > self.len {
            return Err(self.damaged(format!("something at byte {at}, but the file ends at {}", self.len)));
        }
        // Unlike `seek`, this keeps the buffer.
        self.reader.seek_relative(at as i64 - self.at as i64)?;
        self.at = at;
        Ok(())
    }

    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), Error> {
        if let Some((data, at)) = &mut self.section {
            *at = (*at).saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX)).min(data.len());
            return Ok(());
        }
        self.seek(self.at.saturating_add(bytes))
    }

    /// Fills `out`, or fails with `expected`.
    pub(super) fn exact(&mut self, out: &mut [u8], expected: &str) -> Result<(), Error> {
        if let Some((data, at)) = &mut self.section {
            let Some(found) = data.get(*at..*at + out.len()) else {
                return Err(self.damaged(format!("{expected}, but the section ends")));
            };
            out.copy_from_slice(found);
            *at += out.len();
            return Ok(());
        }
        match self.reader.read_exact(out) {
            Ok(()) => {
                self.at += out.len() as u64;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(self.damaged(format!("{expected}, but the file ends at byte {}", self.len)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Appends the next `size` bytes to `out`. After an error, `out` may have a part of them.
    pub(super) fn append(&mut self, out: &mut Vec<u8>, size: usize, expected: &str) -> Result<(), Error> {
        if self.section.is_some() {
            let start = out.len();
            out.resize(start + size, 0);
            return self.exact(&mut out[start..], expected);
        }
        let mut left = size;
        while left > 0 {
            let buffered = match self.reader.fill_buf() {
                Ok([]) => return Err(self.damaged(format!("{expected}, but the file ends at byte {}", self.len))),
                Ok(buffered) => buffered,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let part = buffered.len().min(left);
            out.extend_from_slice(&buffered[..part]);
            self.reader.consume(part);
            left -= part;
        }
        self.at += size as u64;
        Ok(())
    }

    /// Reads a piece of a header.
    pub(super) fn piece(&mut self, size: u64, expected: &str) -> Result<Vec<u8>, Error> {
        // Nothing is allocated for a length that the file cannot have.
        let left =
            self.section.as_ref().map_or(self.len.saturating_sub(self.at), |(data, at)| (data.len() - at) as u64);
        if size > MAX_PIECE || size > left {
            return Err(self.damaged(format!("{expected}: of {size} bytes, and {left} are left")));
        }
        let mut piece = vec![0; size as usize];
        self.exact(&mut piece, expected)?;
        Ok(piece)
    }

    /// Reads a number of `size` bytes, at most 8.
    pub(super) fn number(&mut self, size: usize, expected: &str) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.exact(&mut bytes[..size], expected)?;
        Ok(number(&bytes, 0, size, self.big_endian).unwrap_or(0))
    }

    /// Reads text up to a NUL.
    pub(super) fn text(&mut self, expected: &str) -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        loop {
            let byte = self.number(1, expected)? as u8;
            if byte == 0 {
                return Ok(text);
            }
            if text.len() >= 4096 {
                return Err(self.damaged(format!("{expected}: text of at most 4096 bytes")));
            }
            text.push(byte);
        }
    }

    /// Reads a compressed section, up to the next [`seek`](Self::seek).
    pub(super) fn decompress(&mut self) -> Result<(), Error> {
        let data = self.chunk()?;
        self.section = Some((data, 0));
        Ok(())
    }

    /// Reads a compressed chunk: its two sizes and its data.
    pub(super) fn chunk(&mut self) -> Result<Vec<u8>, Error> {
        let expected = "compressed data";
        let compressed = self.number(4, expected)?;
        let size = self.number(4, expected)? as usize;
        if size > MAX_CHUNK {
            return Err(self.damaged(format!("a compressed piece of at most {MAX_CHUNK} bytes")));
        }
        let piece = self.piece(compressed, expected)?;
        let mut data = Vec::with_capacity(size);
        // The decoder's error adds nothing to this place.
        match FrameDecoder::new().decode_all_to_vec(&piece, &mut data) {
            Ok(()) => Ok(data),
            Err(error) => Err(self.damaged(format!("data compressed with zstd ({error})"))),
        }
    }
}

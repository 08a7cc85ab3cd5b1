//! The bytes of the file: its header piece by piece, and the pages of each CPU.

use std::io::{ErrorKind, Read, Seek, SeekFrom};

use ruzstd::decoding::FrameDecoder;

use crate::read::format::number;
use crate::read::notes::{Error, Notes, Place};

/// The longest piece of a header that is read at once. A kernel's descriptions of events are a few kilobytes each.
const MAX_PIECE: u64 = 16 << 20;
/// The longest section of a header, or chunk of data, once it is decompressed. trace-cmd makes chunks of some pages.
const MAX_CHUNK: usize = 64 << 20;

/// The file, with the place it is read at.
#[derive(Debug)]
pub(super) struct Input<R> {
    reader: R,
    at: u64,
    len: u64,
    pub(super) big_endian: bool,
    /// A section that was decompressed: read from here, instead.
    section: Option<(Vec<u8>, usize)>,
}

impl<R: Read + Seek> Input<R> {
    pub(super) fn new(mut reader: R) -> Result<Self, Error> {
        let len = reader.seek(SeekFrom::End(0))?;
        reader.seek(SeekFrom::Start(0))?;
        Ok(Self { reader, at: 0, len, big_endian: false, section: None })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// What is wrong here.
    pub(super) fn damaged(&self, expected: impl Into<String>) -> Error {
        Error::Damaged { place: Place::Byte(self.at), expected: expected.into() }
    }

    pub(super) fn seek(&mut self, at: u64) -> Result<(), Error> {
        self.section = None;
        if at > self.len {
            return Err(self.damaged(format!("something at byte {at}, but the file ends at {}", self.len)));
        }
        self.reader.seek(SeekFrom::Start(at))?;
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

    /// Fills `out`, or fails and says what was `expected`.
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

    /// A piece of the header.
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

    /// A number of `size` bytes.
    pub(super) fn number(&mut self, size: usize, expected: &str) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        self.exact(&mut bytes[..size], expected)?;
        Ok(number(&bytes, 0, size, self.big_endian).unwrap_or(0))
    }

    /// Text up to a NUL.
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

    /// Reads from what a compressed section holds, until the next [`seek`](Self::seek).
    pub(super) fn decompress(&mut self) -> Result<(), Error> {
        let data = self.chunk()?;
        self.section = Some((data, 0));
        Ok(())
    }

    /// A compressed chunk: its two sizes and its data.
    fn chunk(&mut self) -> Result<Vec<u8>, Error> {
        let expected = "compressed data";
        let compressed = self.number(4, expected)?;
        let size = self.number(4, expected)? as usize;
        if size > MAX_CHUNK {
            return Err(self.damaged(format!("a compressed piece of at most {MAX_CHUNK} bytes")));
        }
        let piece = self.piece(compressed, expected)?;
        let mut data = Vec::with_capacity(size);
        // Errors of the decoder say nothing about the file that this place does not.
        match FrameDecoder::new().decode_all_to_vec(&piece, &mut data) {
            Ok(()) => Ok(data),
            Err(error) => Err(self.damaged(format!("data compressed with zstd ({error})"))),
        }
    }
}

/// The pages of one CPU, some at a time.
#[derive(Debug)]
pub(super) struct Pages {
    page_size: usize,
    /// What has been read, and the page in it that is looked at.
    buffer: Vec<u8>,
    current: usize,
    /// Where the buffer's first byte is in the file.
    start: u64,
    /// Where what has not been read begins and ends.
    next: u64,
    end: u64,
    at_once: usize,
    /// So many compressed chunks are left; none if the pages are plain.
    chunks: Option<u64>,
}

impl Pages {
    /// Pages as they are.
    pub(super) fn plain<R: Read + Seek>(
        input: &Input<R>,
        offset: u64,
        size: u64,
        page_size: usize,
        at_once: usize,
    ) -> Self {
        let end = offset.saturating_add(size).min(input.len());
        Self { page_size, buffer: Vec::new(), current: 0, start: offset, next: offset, end, at_once, chunks: None }
    }

    /// Pages in compressed chunks.
    pub(super) fn chunks<R: Read + Seek>(
        input: &mut Input<R>,
        offset: u64,
        size: u64,
        page_size: usize,
    ) -> Result<Self, Error> {
        let mut pages = Self::plain(input, offset, size, page_size, 0);
        pages.chunks = Some(0);
        // Where the file is cut off, the other CPUs are still there.
        if size >= 4 && offset.saturating_add(4) <= input.len() {
            input.seek(offset)?;
            pages.chunks = Some(input.number(4, "a count of compressed chunks")?);
            pages.next = input.at();
        }
        Ok(pages)
    }

    /// The page looked at; empty before the first.
    #[inline]
    pub(super) fn page(&self) -> &[u8] {
        let end = (self.current + self.page_size).min(self.buffer.len());
        &self.buffer[self.current.min(end)..end]
    }

    /// Where it is in the file, or the chunk it is in.
    pub(super) fn offset(&self) -> u64 {
        if self.chunks.is_some() { self.start } else { self.start + self.current as u64 }
    }

    /// Goes on to the next page; false after the last.
    pub(super) fn next<R: Read + Seek>(&mut self, input: &mut Input<R>, notes: &mut Notes) -> Result<bool, Error> {
        self.current += self.page_size;
        if self.current < self.buffer.len() {
            return Ok(true);
        }
        self.current = 0;
        self.buffer.clear();
        self.start = self.next;
        match self.chunks {
            Some(0) => Ok(false),
            Some(left) => {
                input.seek(self.next)?;
                match input.chunk() {
                    Ok(data) => {
                        (self.buffer, self.next, self.chunks) = (data, input.at(), Some(left - 1));
                        // An empty chunk would have nothing to look at.
                        if self.buffer.is_empty() { self.next(input, notes) } else { Ok(true) }
                    }
                    Err(Error::Io(error)) => Err(error.into()),
                    Err(_) => {
                        // Without its end the next chunk cannot be found.
                        notes.not_understood.add(Place::Byte(self.start));
                        self.chunks = Some(0);
                        Ok(false)
                    }
                }
            }
            None => {
                let size = (self.end.saturating_sub(self.next)).min((self.page_size * self.at_once) as u64) as usize;
                if size == 0 {
                    return Ok(false);
                }
                input.seek(self.next)?;
                self.buffer.resize(size, 0);
                input.exact(&mut self.buffer, "pages of a CPU")?;
                self.next += size as u64;
                Ok(true)
            }
        }
    }
}

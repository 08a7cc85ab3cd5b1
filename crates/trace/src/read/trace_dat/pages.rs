//! The pages of each CPU, plain or in compressed chunks.

use std::io::{Read, Seek};

use crate::read::input::Input;
use crate::read::notes::{Error, Notes, Place};

#[derive(Debug)]
pub(super) struct Pages {
    page_size: usize,
    /// Data read so far, and the current page in it.
    buffer: Vec<u8>,
    current: usize,
    /// Offset of the buffer in the file.
    start: u64,
    /// Range of unread data.
    next: u64,
    end: u64,
    at_once: usize,
    /// Remaining compressed chunks; none if not compressed.
    chunks: Option<u64>,
}

impl Pages {
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

    pub(super) fn chunks<R: Read + Seek>(
        input: &mut Input<R>,
        offset: u64,
        size: u64,
        page_size: usize,
    ) -> Result<Self, Error> {
        let mut pages = Self::plain(input, offset, size, page_size, 0);
        pages.chunks = Some(0);
        // If the file is cut off here, the other CPUs are still complete.
        if size >= 4 && offset.saturating_add(4) <= input.len() {
            input.seek(offset)?;
            pages.chunks = Some(input.number(4, "a count of compressed chunks")?);
            pages.next = input.at();
        }
        Ok(pages)
    }

    /// Returns the current page; empty before the first.
    #[inline]
    pub(super) fn page(&self) -> &[u8] {
        let end = (self.current + self.page_size).min(self.buffer.len());
        &self.buffer[self.current.min(end)..end]
    }

    /// Offset of the page, or of its chunk.
    pub(super) fn offset(&self) -> u64 {
        if self.chunks.is_some() { self.start } else { self.start + self.current as u64 }
    }

    /// Advances to the next page. Returns false after the last.
    pub(super) fn next<R: Read + Seek>(&mut self, input: &mut Input<R>, notes: &mut Notes) -> Result<bool, Error> {
        self.current += self.page_size;
        if self.current < self.buffer.len() {
            return Ok(true);
        }
        self.current = 0;
        self.buffer.clear();
        self.start = self.next;
        match self.chunks {
            Some(0) => {
                // The chunks fill the CPU's data, so a rest means that their number is damaged.
                if self.next + 4 <= self.end {
                    notes.not_understood.add(Place::Byte(self.next));
                    self.next = self.end;
                }
                Ok(false)
            }
            Some(left) => {
                input.seek(self.next)?;
                match input.chunk() {
                    // trace-cmd writes no empty chunk.
                    Ok(data) if !data.is_empty() => {
                        (self.buffer, self.next, self.chunks) = (data, input.at(), Some(left - 1));
                        Ok(true)
                    }
                    Err(Error::Io(error)) => Err(error.into()),
                    Ok(_) | Err(_) => {
                        // Without its end the next chunk cannot be found.
                        notes.not_understood.add(Place::Byte(self.start));
                        (self.chunks, self.next) = (Some(0), self.end);
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

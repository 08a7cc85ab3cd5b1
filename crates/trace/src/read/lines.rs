//! Lines of bytes from a reader, in a buffer of fixed size.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;

use memchr::memchr;

/// The longest line; the rest is skipped. Markers are at most a page long.
const MAX_LINE: usize = 64 * 1024;
const CAPACITY: usize = 256 * 1024;

#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Range of [`Lines::bytes`], without the line's end.
    pub(super) range: Range<usize>,
    /// Set if it was longer than [`MAX_LINE`].
    pub(super) cut: bool,
    /// Set if the file ended within the line.
    pub(super) unterminated: bool,
}

#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Unread part of the buffer.
    start: usize,
    end: usize,
    ended: bool,
    /// Set if the last line continues, and its rest is skipped.
    skipping: bool,
    count: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: vec![0; CAPACITY], start: 0, end: 0, ended: false, skipping: false, count: 0 }
    }

    /// Returns the number of the last line, from 1.
    pub(super) fn number(&self) -> u64 {
        self.count
    }

    /// Returns the bytes of [`Line::range`], until the next line is read.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    #[inline]
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        if self.skipping && !self.skip()? {
            return Ok(None);
        }
        let mut searched = 0;
        loop {
            let pending = &self.buffer[self.start..self.end];
            let (length, step, cut) = match memchr(b'\n', &pending[searched..]) {
                Some(at) if searched + at <= MAX_LINE => (searched + at, searched + at + 1, false),
                None if pending.len() <= MAX_LINE => {
                    searched = pending.len();
                    if !self.ended {
                        self.fill()?;
                        continue;
                    }
                    if searched == 0 {
                        return Ok(None);
                    }
                    let range = self.start..self.end;
                    self.start = self.end;
                    self.count += 1;
                    return Ok(Some(Line { range, cut: false, unterminated: true }));
                }
                _ => (MAX_LINE, MAX_LINE, true),
            };
            let mut range = self.start..self.start + length;
            self.start += step;
            self.skipping = cut;
            self.count += 1;
            if !cut && self.buffer[range.clone()].ends_with(b"\r") {
                range.end -= 1;
            }
            return Ok(Some(Line { range, cut, unterminated: false }));
        }
    }

    /// Skips the rest of a line; returns false at the end of the file.
    fn skip(&mut self) -> io::Result<bool> {
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[self.start..self.end]) {
                self.start += at + 1;
                self.skipping = false;
                return Ok(true);
            }
            self.start = self.end;
            if self.ended {
                return Ok(false);
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.end += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(out.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn all(bytes: &[u8], at_once: usize) -> io::Result<Vec<(Vec<u8>, bool, bool)>> {
        let mut lines = Lines::new(Dribble(bytes, at_once));
        let mut found = Vec::new();
        while let Some(line) = lines.next()? {
            found.push((lines.bytes()[line.range].to_vec(), line.cut, line.unterminated));
        }
        assert_eq!(lines.number(), found.len() as u64);
        Ok(found)
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() -> io::Result<()> {
        let text = b"one\n\ntwo three\r\nlast";
        let expected = [(&b"one"[..], false), (b"", false), (b"two three", false), (b"last", true)]
            .map(|(line, unterminated)| (line.to_vec(), false, unterminated));
        for at_once in [1, 2, 3, 7, 100] {
            assert_eq!(all(text, at_once)?, expected);
        }
        Ok(())
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_is_whole() -> io::Result<()> {
        for length in [MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, CAPACITY, 3 * CAPACITY] {
            let mut text = vec![b'x'; length];
            text.extend_from_slice(b"\nnext\n");
            for at_once in [1000, usize::MAX] {
                let found = all(&text, at_once)?;
                let cut = length > MAX_LINE;
                assert_eq!(found[0], (vec![b'x'; length.min(MAX_LINE)], cut, false), "{length}");
                assert_eq!(found[1..], [(b"next".to_vec(), false, false)], "{length}");
            }
        }
        Ok(())
    }

    #[test]
    fn a_line_without_end_is_bounded() -> io::Result<()> {
        let mut lines = Lines::new(io::repeat(b'x').take(50_000_000));
        let line = lines.next()?.map(|line| (line.range.len(), line.cut));
        assert_eq!(line, Some((MAX_LINE, true)));
        assert!(lines.next()?.is_none());
        assert_eq!(lines.buffer.len(), CAPACITY);
        Ok(())
    }
}

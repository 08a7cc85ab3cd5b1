//! A buffered output that keeps the first error.

use std::io::{self, Write};

/// Size of the buffer, which makes a `BufWriter` around a `File` unnecessary.
const CAPACITY: usize = 64 * 1024;

/// A buffered writer for sinks, which cannot return errors. After the first one, all output is dropped.
#[derive(Debug)]
pub(crate) struct Output<W> {
    writer: W,
    buffer: Vec<u8>,
    error: Option<io::Error>,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self { writer, buffer: Vec::with_capacity(CAPACITY), error: None }
    }

    /// Appends to the buffer by `fill`.
    #[inline]
    pub(crate) fn write(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        if self.error.is_some() {
            return;
        }
        fill(&mut self.buffer);
        if self.buffer.len() >= CAPACITY {
            self.drain();
        }
    }

    fn drain(&mut self) {
        if self.error.is_none()
            && let Err(error) = self.writer.write_all(&self.buffer)
        {
            self.error = Some(error);
        }
        self.buffer.clear();
    }

    /// Keeps the first error.
    pub(crate) fn fail(&mut self, error: io::Error) {
        self.error.get_or_insert(error);
    }

    pub(crate) fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Writes the buffer, so that readers of the file see it.
    pub(crate) fn flush(&mut self) {
        self.drain();
        if self.error.is_none()
            && let Err(error) = self.writer.flush()
        {
            self.error = Some(error);
        }
    }

    /// Flushes, and returns the writer or the first error.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.flush();
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.writer),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Takes `room` bytes before an error.
    #[derive(Debug)]
    pub(crate) struct FullDisk {
        pub(crate) room: usize,
    }

    impl Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_first_error_is_kept_and_the_rest_dropped() {
        let mut output = Output::new(FullDisk { room: 10 });
        output.write(|buffer| buffer.resize(CAPACITY, 0));
        assert_eq!(output.error().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
        output.fail(io::Error::from(io::ErrorKind::InvalidInput));
        output.write(|_| unreachable!("nothing is formatted for a dead writer"));
        assert_eq!(output.finish().map(|_| ()).map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
    }

    #[test]
    fn everything_arrives_in_order() -> io::Result<()> {
        let mut output = Output::new(Vec::new());
        for byte in 0..=255 {
            output.write(|buffer| buffer.resize(buffer.len() + 1000, byte));
        }
        let bytes = output.finish()?;
        assert_eq!(bytes.len(), 256_000);
        assert!(bytes.is_sorted());
        Ok(())
    }
}

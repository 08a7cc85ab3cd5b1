//! The section of a recording that `vruntime record` adds to the events' file.
//!
//! A recording is a `trace.dat` of version 6 with one more option, [`OPTION`]. trace-cmd and KernelShark ignore
//! unknown options. The option holds text: a first line with the version, then named parts.
//!
//! ```text
//! vruntime-recording 1
//! @machine 24
//! [machine]
//! topology = "2"
//!
//! @cgroups 28
//! /proc/7/task/7/cgroup:0::/a
//!
//! ```
//!
//! The number is the length of a part in bytes. A line feed follows each part. This module knows the format, and
//! [`TraceDatFile`] that of the file. The content of a part is for its reader.

mod file;
mod pages;

use std::fmt;

pub use file::{Formats, TraceDatFile};
pub use pages::PageWriter;

use crate::read::{Error, Place};

/// Number of the option. trace-cmd's own count up from 1 to 22.
pub const OPTION: u16 = 0x5652;

/// The longest text in one option; further options continue it.
const PIECE: usize = 16 << 20;
/// The longest text: 200,000 threads and their groups.
pub(crate) const MAX_BYTES: usize = 64 << 20;
const MAX_PARTS: usize = 64;

const MAGIC: &str = "vruntime-recording ";
const VERSION: u32 = 1;

/// Named parts of text, in order.
///
/// ```
/// use vruntime_trace::recording::Recording;
///
/// let mut recording = Recording::default();
/// recording.add("machine", "[machine]\ntopology = \"2\"\n".to_owned());
/// let read = Recording::parse(&recording.to_bytes(), 0)?;
/// assert_eq!(read.part("machine"), Some("[machine]\ntopology = \"2\"\n"));
/// assert_eq!(read.part("cgroups"), None);
/// # Ok::<(), vruntime_trace::read::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    name: String,
    text: String,
    /// Offset of the text in the file, bytes; 0 without a file.
    at: u64,
}

impl Recording {
    /// Adds a part, or replaces one with its name.
    pub fn add(&mut self, name: &str, text: String) {
        debug_assert!(is_name(name), "{name:?} is no name of a part");
        self.parts.retain(|part| part.name != name);
        self.parts.push(Part { name: name.to_owned(), text, at: 0 });
    }

    /// Returns the text of a part.
    pub fn part(&self, name: &str) -> Option<&str> {
        self.parts.iter().find(|part| part.name == name).map(|part| part.text.as_str())
    }

    /// Returns the number of recorded events, of the part `recording`, if the part has it.
    pub(crate) fn events(&self) -> Option<u64> {
        let (_, rest) = self.part("recording")?.split_once("\"events\":")?;
        let rest = rest.trim_start();
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    }

    /// Returns the offset of a part in the file, bytes.
    pub fn offset(&self, name: &str) -> Option<u64> {
        self.parts.iter().find(|part| part.name == name).map(|part| part.at)
    }

    /// Returns names and lengths (bytes) of all parts.
    pub fn parts(&self) -> impl Iterator<Item = (&str, usize)> {
        self.parts.iter().map(|part| (part.name.as_str(), part.text.len()))
    }

    /// Returns the section's text.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{MAGIC}{VERSION}\n").into_bytes();
        for part in &self.parts {
            text.extend_from_slice(format!("@{} {}\n", part.name, part.text.len()).as_bytes());
            text.extend_from_slice(part.text.as_bytes());
            text.push(b'\n');
        }
        text
    }

    pub(crate) fn options(&self) -> Vec<Vec<u8>> {
        self.to_bytes().chunks(PIECE).map(<[u8]>::to_vec).collect()
    }

    /// Parses a section that begins at byte `start` of its file.
    ///
    /// # Errors
    /// If the text is not a section, ends early, has a part twice, or has an unsupported version.
    pub fn parse(bytes: &[u8], start: u64) -> Result<Self, Error> {
        Reader { bytes, at: 0, start }.recording()
    }
}

impl fmt::Display for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.to_bytes()))
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    start: u64,
}

impl<'a> Reader<'a> {
    fn recording(mut self) -> Result<Recording, Error> {
        let line = self.line("the first line of a recording's section")?;
        let version = line.strip_prefix(MAGIC.as_bytes()).and_then(|rest| std::str::from_utf8(rest).ok()?.parse().ok());
        match version {
            Some(VERSION) => {}
            Some(other) => {
                let what = format!("a recording's section of version {other} (this program reads version {VERSION})");
                return Err(Error::NotRead { what, help: "a newer vruntime reads it" });
            }
            None => return Err(self.damaged_at(0, "the first line of a recording's section")),
        }
        let mut recording = Recording::default();
        while self.at < self.bytes.len() {
            let begin = self.at;
            let part = self.part()?;
            if recording.part(&part.name).is_some() {
                return Err(self.damaged_at(begin, &format!("one part `{}`, and this is the second", part.name)));
            }
            if recording.parts.len() == MAX_PARTS {
                return Err(self.damaged_at(begin, &format!("at most {MAX_PARTS} parts")));
            }
            recording.parts.push(part);
        }
        Ok(recording)
    }

    fn part(&mut self) -> Result<Part, Error> {
        const HEAD: &str = "the head of a part, such as `@cgroups 123`";
        let begin = self.at;
        let line = self.line(HEAD)?;
        let parsed = std::str::from_utf8(line).ok().and_then(|line| {
            let (name, length) = line.strip_prefix('@')?.split_once(' ')?;
            let plain = length.bytes().all(|byte| byte.is_ascii_digit());
            Some((name, length.parse::<usize>().ok().filter(|_| plain)?))
        });
        let Some((name, length)) = parsed.filter(|(name, _)| is_name(name)) else {
            return Err(self.damaged_at(begin, HEAD));
        };
        let at = self.at;
        // The part and its line feed.
        let left = self.bytes.len() - at;
        let Some(text) = at.checked_add(length).and_then(|end| self.bytes.get(at..end)).filter(|_| length < left)
        else {
            let expected = format!("the part `{name}` of {length} bytes and a line feed, and {left} bytes are left");
            return Err(self.damaged_at(at, &expected));
        };
        if self.bytes[at + length] != b'\n' {
            return Err(self.damaged_at(at + length, &format!("a line feed behind the part `{name}`")));
        }
        let text = match std::str::from_utf8(text) {
            Ok(text) => text.to_owned(),
            Err(error) => {
                return Err(self.damaged_at(at + error.valid_up_to(), &format!("UTF-8 in the part `{name}`")));
            }
        };
        self.at = at + length + 1;
        Ok(Part { name: name.to_owned(), text, at: self.place(at) })
    }

    fn line(&mut self, expected: &str) -> Result<&'a [u8], Error> {
        let rest: &'a [u8] = &self.bytes[self.at..];
        let Some(length) = rest.iter().take(128).position(|&byte| byte == b'\n') else {
            return Err(self.damaged_at(self.at, expected));
        };
        self.at += length + 1;
        Ok(&rest[..length])
    }

    fn place(&self, at: usize) -> u64 {
        self.start.saturating_add(at as u64)
    }

    fn damaged_at(&self, at: usize, expected: &str) -> Error {
        Error::Damaged { place: Place::Byte(self.place(at)), expected: expected.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> Recording {
        let mut recording = Recording::default();
        recording.add("machine", "[machine]\n".to_owned());
        recording.add("empty", String::new());
        recording.add("cgroups", "@machine 9\n/proc/1/cgroup:0::/ä\n".to_owned());
        recording
    }

    #[test]
    fn what_is_written_is_read_back() {
        let read = Recording::parse(&recording().to_bytes(), 100).unwrap();
        let names: Vec<_> = read.parts().collect();
        assert_eq!(names, [("machine", 10), ("empty", 0), ("cgroups", 33)]);
        assert_eq!(read.part("cgroups"), recording().part("cgroups"));
        // `vruntime-recording 1`, `@machine 10` and their line feeds.
        assert_eq!(read.offset("machine"), Some(100 + 21 + 12));
        assert_eq!(Recording::parse(&read.to_bytes(), 100).unwrap(), read);
    }

    #[test]
    fn a_part_is_added_once() {
        let mut recording = recording();
        recording.add("machine", "new".to_owned());
        assert_eq!((recording.part("machine"), recording.parts().count()), (Some("new"), 3));
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        for (text, place, expected) in [
            ("", 7, "the first line of a recording's section"),
            ("vruntime-recording x\n", 7, "the first line of a recording's section"),
            ("vruntime-recording 1\n@a 1\nxy", 34, "a line feed behind the part `a`"),
            ("vruntime-recording 1\n@a 5\nxy\n", 33, "the part `a` of 5 bytes and a line feed, and 3 bytes are left"),
            ("vruntime-recording 1\n@a 3\nxy\n", 33, "the part `a` of 3 bytes and a line feed, and 3 bytes are left"),
            ("vruntime-recording 1\n@a +1\nx\n", 28, "the head of a part, such as `@cgroups 123`"),
            ("vruntime-recording 1\n@A 1\nx\n", 28, "the head of a part, such as `@cgroups 123`"),
            ("vruntime-recording 1\n@a 1\nx\n@a 1\nx\n", 35, "one part `a`, and this is the second"),
        ] {
            let error = Recording::parse(text.as_bytes(), 7).expect_err(text).to_string();
            assert_eq!(error, format!("it is damaged at byte {place}: expected {expected}"), "{text:?}");
        }
        let error = Recording::parse(b"vruntime-recording 1\n@a 2\n\xc3\x28\n", 0).unwrap_err().to_string();
        assert_eq!(error, "it is damaged at byte 26: expected UTF-8 in the part `a`");
        let error = Recording::parse(b"vruntime-recording 2\n", 0).unwrap_err().to_string();
        assert!(error.contains("version 2 (this program reads version 1) is not read"), "{error}");
        let length = usize::MAX;
        assert!(Recording::parse(format!("vruntime-recording 1\n@a {length}\nx\n").as_bytes(), 0).is_err());
    }

    /// At any cut, the result is complete parts or an error.
    #[test]
    fn a_section_cut_short_is_no_surprise() {
        let bytes = recording().to_bytes();
        let whole: Vec<usize> = (0..bytes.len()).filter(|&end| Recording::parse(&bytes[..end], 0).is_ok()).collect();
        // After the first line and after each part but the last.
        assert_eq!(whole.len(), 3, "{whole:?}");
    }
}

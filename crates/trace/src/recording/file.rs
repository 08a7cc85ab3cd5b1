//! `trace.dat` of version 6, by trace-cmd.dat.v6(5).

use std::io::{self, Write};

use super::{OPTION, Recording};
use crate::read::TRACE_DAT_MAGIC;

mod option {
    pub(super) const CPUSTAT: u16 = 2;
    pub(super) const TRACECLOCK: u16 = 4;
    pub(super) const UNAME: u16 = 5;
    pub(super) const CPUCOUNT: u16 = 8;
    pub(super) const VERSION: u16 = 9;
}

/// The kernel's descriptions of pages and events, from tracefs.
#[derive(Clone, Debug, Default)]
pub struct Formats {
    /// `events/header_page`.
    pub header_page: Vec<u8>,
    /// `events/header_event`.
    pub header_event: Vec<u8>,
    /// `events/ftrace/*/format`.
    pub ftrace: Vec<Vec<u8>>,
    /// `events/SYSTEM/*/format` of all recorded events, by system.
    pub systems: Vec<(String, Vec<Vec<u8>>)>,
}

/// A file without the pages of the CPUs, which follow [`head`](Self::head) in order of CPU.
#[derive(Clone, Debug, Default)]
pub struct TraceDatFile {
    /// Size of a page, bytes.
    pub page_size: u32,
    /// Descriptions of pages and events.
    pub formats: Formats,
    /// Names of threads, in lines `PID NAME`.
    pub names: Vec<u8>,
    /// Content of `trace_clock`: all clocks, the current one in brackets.
    pub clock: String,
    /// `Linux HOST RELEASE MACHINE`.
    pub uname: String,
    /// The writing program.
    pub version: String,
    /// `per_cpu/cpuN/stats` of each CPU.
    pub stats: Vec<Vec<u8>>,
    /// Section of the recording.
    pub recording: Recording,
}

impl TraceDatFile {
    /// Writes everything before the pages. `sizes` are the bytes of each CPU's whole pages, which come next. Returns
    /// the number of written bytes.
    ///
    /// # Errors
    /// If writing fails.
    pub fn head(&self, out: &mut impl Write, sizes: &[u64]) -> io::Result<u64> {
        let mut head = Vec::new();
        head.extend_from_slice(TRACE_DAT_MAGIC);
        head.extend_from_slice(b"6\0");
        head.push(u8::from(cfg!(target_endian = "big")));
        head.push(size_of::<usize>() as u8);
        head.extend_from_slice(&self.page_size.to_ne_bytes());
        let long = |head: &mut Vec<u8>, bytes: &[u8]| {
            head.extend_from_slice(&(bytes.len() as u64).to_ne_bytes());
            head.extend_from_slice(bytes);
        };
        let count = |head: &mut Vec<u8>, count: usize| head.extend_from_slice(&(count as u32).to_ne_bytes());
        head.extend_from_slice(b"header_page\0");
        long(&mut head, &self.formats.header_page);
        head.extend_from_slice(b"header_event\0");
        long(&mut head, &self.formats.header_event);
        count(&mut head, self.formats.ftrace.len());
        for format in &self.formats.ftrace {
            long(&mut head, format);
        }
        count(&mut head, self.formats.systems.len());
        for (system, formats) in &self.formats.systems {
            head.extend_from_slice(system.as_bytes());
            head.push(0);
            count(&mut head, formats.len());
            for format in formats {
                long(&mut head, format);
            }
        }
        // Recorded events need neither symbols nor formats of printk.
        count(&mut head, 0);
        count(&mut head, 0);
        long(&mut head, &self.names);
        count(&mut head, sizes.len());
        head.extend_from_slice(b"options  \0");
        self.options(&mut head, sizes.len());
        head.extend_from_slice(b"flyrecord\0");
        let page = u64::from(self.page_size.max(1));
        let begin = (head.len() as u64 + sizes.len() as u64 * 16).next_multiple_of(page);
        let mut at = begin;
        for size in sizes {
            head.extend_from_slice(&at.to_ne_bytes());
            head.extend_from_slice(&size.to_ne_bytes());
            at += size;
        }
        head.resize(begin as usize, 0);
        out.write_all(&head)?;
        Ok(begin)
    }

    fn options(&self, head: &mut Vec<u8>, cpus: usize) {
        let mut option = |id: u16, data: &[u8]| {
            head.extend_from_slice(&id.to_ne_bytes());
            head.extend_from_slice(&(data.len() as u32).to_ne_bytes());
            head.extend_from_slice(data);
        };
        let text = |text: &str| [text.as_bytes(), b"\0"].concat();
        option(option::TRACECLOCK, &text(&self.clock));
        option(option::UNAME, &text(&self.uname));
        option(option::VERSION, &text(&self.version));
        for stats in &self.stats {
            option(option::CPUSTAT, &[stats, &b"\0"[..]].concat());
        }
        option(option::CPUCOUNT, &(cpus as u32).to_ne_bytes());
        for piece in self.recording.options() {
            option(OPTION, &piece);
        }
        head.extend_from_slice(&0_u16.to_ne_bytes());
    }
}

//! A small file of trace-cmd, and its equivalent of `vruntime record`.

use std::fs;
use std::path::Path;

use vruntime_trace::recording::{Formats, Recording, TraceDatFile};

/// A file of trace-cmd, in pieces.
struct Pieces<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Pieces<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        self.at += length;
        &self.bytes[self.at - length..self.at]
    }

    fn number(&mut self, bytes: usize) -> usize {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(self.take(bytes));
        u64::from_le_bytes(number) as usize
    }

    fn long(&mut self) -> Vec<u8> {
        let length = self.number(8);
        self.take(length).to_vec()
    }

    fn text(&mut self) -> String {
        let length = self.bytes[self.at..].iter().position(|&byte| byte == 0).unwrap();
        String::from_utf8(self.take(length + 1)[..length].to_vec()).unwrap()
    }

    fn file(mut self) -> (TraceDatFile, Vec<Vec<u8>>) {
        self.take(10 + 2 + 2);
        let page_size = self.number(4) as u32;
        self.take(12);
        let header_page = self.long();
        self.take(13);
        let header_event = self.long();
        let ftrace = (0..self.number(4)).map(|_| self.long()).collect();
        let mut systems = Vec::new();
        for _ in 0..self.number(4) {
            let name = self.text();
            systems.push((name, (0..self.number(4)).map(|_| self.long()).collect()));
        }
        for _ in 0..2 {
            let size = self.number(4);
            self.take(size);
        }
        let names = self.long();
        let cpus = self.number(4);
        assert_eq!(self.take(10), b"options  \0");
        while self.number(2) != 0 {
            let size = self.number(4);
            self.take(size);
        }
        assert_eq!(self.take(10), b"flyrecord\0");
        let pages = (0..cpus).map(|_| {
            let (at, size) = (self.number(8), self.number(8));
            self.bytes[at..at + size].to_vec()
        });
        let pages = pages.collect();
        let file = TraceDatFile {
            page_size,
            formats: Formats { header_page, header_event, ftrace, systems },
            names,
            clock: "local global [mono]".to_owned(),
            uname: "Linux host 6.12.3 x86_64".to_owned(),
            version: "vruntime".to_owned(),
            stats: vec![b"entries: 1\noverrun: 3\n".to_vec(); cpus],
            recording: Recording::default(),
        };
        (file, pages)
    }
}

/// The file of trace-cmd, written again with a section.
pub(crate) fn written(section: Recording) -> Vec<u8> {
    let original = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/data/trace-v6.dat")).unwrap();
    let (mut file, pages) = Pieces { bytes: &original, at: 0 }.file();
    file.recording = section;
    let sizes: Vec<u64> = pages.iter().map(|pages| pages.len() as u64).collect();
    let mut out = Vec::new();
    let length = file.head(&mut out, &sizes).unwrap();
    assert_eq!(length, out.len() as u64);
    for pages in &pages {
        out.extend_from_slice(pages);
    }
    out
}

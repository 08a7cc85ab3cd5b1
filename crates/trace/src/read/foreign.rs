//! Recognizes unsupported files, and says how to get a supported trace.

use memchr::memmem;

use super::notes::Error;
use super::scan::{digits, trim_start, word};

/// Magic bytes of binary files, their names, and how to get a supported trace.
const BINARY: [(&[u8], &str, &str); 22] = [
    (b"\x1f\x8b", "a file compressed by gzip", "uncompress it: gunzip FILE"),
    (b"\x28\xb5\x2f\xfd", "a file compressed by zstd", "uncompress it: unzstd FILE"),
    (b"\xfd7zXZ\0", "a file compressed by xz", "uncompress it: unxz FILE"),
    (b"BZh", "a file compressed by bzip2", "uncompress it: bunzip2 FILE"),
    (b"\x04\x22\x4d\x18", "a file compressed by lz4", "uncompress it: unlz4 FILE"),
    (b"PK\x03\x04", "a ZIP archive", "unpack it, and name the trace that it contains"),
    (b"/* CTF ", CTF, CTF_HELP),
    // Metadata in packets, and packets of a stream, in both byte orders.
    (b"\x57\x1d\xd1\x75", CTF, CTF_HELP),
    (b"\x75\xd1\x1d\x57", CTF, CTF_HELP),
    (b"\xc1\x1f\xfc\xc1", CTF, CTF_HELP),
    (b"\xc1\xfc\x1f\xc1", CTF, CTF_HELP),
    // Byte order marks, as PowerShell's `>` writes them.
    (b"\xff\xfe", UTF_16, UTF_16_HELP),
    (b"\xfe\xff", UTF_16, UTF_16_HELP),
    (b"\x78\x9c", ZLIB, ZLIB_HELP),
    (b"\x78\xda", ZLIB, ZLIB_HELP),
    (b"SIMPLEPERF", "a profile of simpleperf (report-sample)", SIMPLEPERF_HELP),
    (b"PERFFILE", "a perf.data of the first version", "convert it to text: perf script --ns -i FILE > trace.txt"),
    (b"SQLite format 3\0", "an SQLite database", MADE_FROM),
    (b"\x7fELF", "a program or library (ELF)", "`vruntime record -- PROGRAM` records what a program does"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", MADE_FROM),
    (b"%PDF-", "a PDF document", MADE_FROM),
    (b"\x00\x05\x16\x07", "a file of macOS (AppleDouble) with another file's attributes", "name the file beside it"),
];

/// The mark of a tar archive, and its place.
const TAR: (usize, &[u8]) = (257, b"ustar");

const CTF: &str = "a CTF trace (Common Trace Format: LTTng, `perf data convert --to-ctf`)";
const CTF_HELP: &str = "if it was made from a perf.data, name that file; else record with trace-cmd, perf or Perfetto: \
                        trace-cmd record -e sched -o trace.dat COMMAND";
const UTF_16: &str = "a text in UTF-16";
const UTF_16_HELP: &str = "convert it to UTF-8: iconv -f UTF-16 -t UTF-8 FILE > trace.txt";
const ZLIB: &str = "a file compressed by zlib";
const ZLIB_HELP: &str = "uncompress it: zlib-flate -uncompress < FILE > trace.txt";
const ATRACE: &str = "what `atrace -z` prints";
const ATRACE_HELP: &str = "capture without -z (atrace sched freq idle > trace.txt), or uncompress it: \
    python3 -c 'import sys, zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read().split(b\"TRACE:\\n\", 1)[1]))' \
    < FILE > trace.txt";
const SIMPLEPERF_HELP: &str =
    "record the scheduler's events on the device with Perfetto: perfetto -o FILE -t 10s sched freq idle";
const SAMPLES: &str = "what perf script prints of samples, which are no events of the scheduler,";
const SAMPLES_HELP: &str = "record its events: perf record -a -e 'sched:*' (or perf sched record)";
const PROTO: &str = "a Perfetto trace in text (textproto)";
const PROTO_HELP: &str = "encode it: protoc --encode=perfetto.protos.Trace protos/perfetto/trace/trace.proto < FILE \
                          > trace.pftrace";
const MADE_FROM: &str = "name the trace from which it was made: trace.dat, perf.data, a Perfetto trace or ftrace text";
const UNQUOTE: &str = "remove the marks: sed -E 's/^(> ?)+//' FILE > trace.txt";
const HTML: &str = "an HTML page";
const XML: &str = "an XML file";
const XML_HELP: &str = "`--machine FILE` reads the XML of lstopo; for others, name the trace from which it was made";
const TABLE_HELP: &str =
    "perf made it from a perf.data: name that file, or what `perf script --ns -i perf.data` prints";
const JSON: &str = "a trace in Chrome's JSON format";
const JSON_HELP: &str =
    "record the scheduler's events with Perfetto, trace-cmd or perf instead: perfetto -o FILE -t 10s sched freq idle";

/// Returns the error for a file of an unsupported kind that begins with `start`, if the kind is known. 64 KiB are
/// enough. Files without a known kind have none, also if they are no traces.
pub fn unsupported(start: &[u8]) -> Option<Error> {
    if let Some(error) = binary(start) {
        return Some(error);
    }
    if start.first() == Some(&b'>') {
        return Some(not_read("a text quoted in a mail", UNQUOTE));
    }
    let mut foreign = Foreign::default();
    for line in start.split(|&byte| byte == b'\n').map(trim_start).filter(|line| !line.is_empty()) {
        foreign.line(line.strip_suffix(b"\r").unwrap_or(line));
    }
    foreign.error()
}

/// Returns the error for a trace that was quoted in a mail: each line begins with `>`.
pub(super) fn quoted() -> Error {
    not_read("a trace quoted in a mail", UNQUOTE)
}

/// Returns the error for an unsupported binary file that begins with `bytes` (512 are enough).
pub(super) fn binary(bytes: &[u8]) -> Option<Error> {
    let is_tar = bytes.get(TAR.0..).is_some_and(|rest| rest.starts_with(TAR.1));
    if is_tar {
        return Some(not_read("a tar archive", "unpack it, and name the trace that it contains: tar -xf FILE"));
    }
    let &(_, what, help) = BINARY.iter().find(|(magic, ..)| bytes.starts_with(magic))?;
    Some(not_read(what, help))
}

/// Returns the error for a directory, which may be a CTF trace. `has`: whether the directory has such a file.
pub(super) fn directory(has: impl Fn(&str) -> bool) -> Error {
    // LTTng has the metadata of each domain in a subdirectory.
    if ["metadata", "kernel/metadata", "ust/metadata"].into_iter().any(&has) {
        return not_read(CTF, CTF_HELP);
    }
    if has("data") || has("data.0") {
        let help = "record into one file: perf record without --threads and --switch-output; or name one file of it";
        return not_read("a directory of perf.data", help);
    }
    not_read("a directory", "name the trace in it: trace.dat, perf.data, a Perfetto trace or ftrace text")
}

fn not_read(what: &str, help: &'static str) -> Error {
    Error::NotRead { what: what.to_owned(), help }
}

/// Recognizes other tools' output in lines that are no events.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    /// Kind of the text, and help.
    found: Option<(&'static str, &'static str)>,
    lines: u32,
    /// Set after the line `TRACE:`.
    atrace: bool,
    /// Set if the first line begins JSON.
    json: bool,
}

/// The most lines that are examined.
const LINES: u32 = 256;

impl Foreign {
    /// Examines the next line that is no event, without leading blanks.
    #[cold]
    pub(super) fn line(&mut self, text: &[u8]) {
        let compressed = self.atrace && matches!(text, [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..]);
        self.atrace = text == b"TRACE:";
        self.lines += 1;
        self.json |= self.lines == 1 && matches!(text.first(), Some(b'{' | b'['));
        if self.found.is_some() || self.lines > LINES {
            return;
        }
        self.found = if compressed {
            Some((ATRACE, ATRACE_HELP))
        } else if self.lines == 1 && text.first() == Some(&b'<') {
            markup(text)
        } else if self.json && is_chrome(text) {
            Some((JSON, JSON_HELP))
        } else if is_sample(text) {
            Some((SAMPLES, SAMPLES_HELP))
        } else if text == b"packet {" {
            Some((PROTO, PROTO_HELP))
        } else {
            table(text).map(|what| (what, TABLE_HELP))
        };
    }

    pub(super) fn error(&self) -> Option<Error> {
        self.found.map(|(what, help)| not_read(what, help))
    }
}

/// Returns the kind of a text that begins with such a line, and help.
fn markup(text: &[u8]) -> Option<(&'static str, &'static str)> {
    let begins = |with: &str| text.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with.as_bytes()));
    if begins("<!DOCTYPE html") || begins("<html") {
        Some((HTML, MADE_FROM))
    } else if begins("<?xml") || begins("<!DOCTYPE") || begins("<topology") {
        Some((XML, XML_HELP))
    } else {
        None
    }
}

/// Returns the table of perf that has such a line.
fn table(text: &[u8]) -> Option<&'static str> {
    let has = |words: &[&[u8]]| words.iter().all(|word| memmem::find(text, word).is_some());
    if has(&[b"task name", b"wait time", b"run time"]) || is_timehist(text) {
        Some("what `perf sched timehist` prints")
    } else if has(&[b"sched-in", b"run-time", b"min-run"]) {
        Some("what `perf sched timehist --summary` prints")
    } else if has(&[b"Task ", b"Runtime ms", b"delay ms"]) {
        Some("what `perf sched latency` prints")
    } else if is_map(text) {
        Some("what `perf sched map` prints")
    } else if text.starts_with(b"# Overhead ") || text.starts_with(b"# Children ") && has(&[b"Self", b"Command"]) {
        Some("what `perf report` prints")
    } else {
        None
    }
}

/// Whether a line of JSON is in Chrome's format: an object with all events, or a list, in one line or several.
fn is_chrome(text: &[u8]) -> bool {
    let has = |word: &[u8]| memmem::find(text, word).is_some();
    has(b"\"traceEvents\"") || has(b"\"ph\"") && (has(b"\"ts\"") || has(b"\"pid\""))
}

/// `6064.602899 [0000]  perf[1300]  0.000  0.006  0.027`
fn is_timehist(text: &[u8]) -> bool {
    let (time, rest) = word(text);
    let (cpu, rest) = word(trim_start(rest));
    let cpu = cpu.strip_prefix(b"[").and_then(|cpu| cpu.strip_suffix(b"]"));
    let columns = rest.split(u8::is_ascii_whitespace).rev().filter(|column| !column.is_empty()).take(3);
    is_decimal(time, 6) && cpu.is_some_and(is_number) && columns.filter(|column| is_decimal(column, 3)).count() == 3
}

/// `gzip 83220/83220 36556.170907:          1 cycles:`, a sample without the CPU
fn is_sample(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).rev();
    let Some(event) = words.next().and_then(|word| word.strip_suffix(b":")) else { return false };
    let starts = event.first().is_some_and(u8::is_ascii_alphabetic);
    let mut time = words.next();
    if time.is_some_and(is_number) {
        time = words.next();
    }
    let is_time = |word: &[u8]| word.strip_suffix(b":").is_some_and(|time| is_decimal(time, 6) || is_decimal(time, 9));
    let is_thread = |word: &[u8]| word.split(|&byte| byte == b'/').all(is_number);
    starts && time.is_some_and(is_time) && words.next().is_some_and(is_thread)
}

/// `*A0        6064.602899 secs A0 => migration/0:18`
fn is_map(text: &[u8]) -> bool {
    let mut before: &[u8] = b"";
    for word in text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
        if word == b"secs" && is_decimal(before, 6) {
            return true;
        }
        before = word;
    }
    false
}

fn is_number(text: &[u8]) -> bool {
    digits(text).is_some_and(|(_, length)| length == text.len())
}

fn is_decimal(text: &[u8], decimals: usize) -> bool {
    let mut parts = text.splitn(2, |&byte| byte == b'.');
    parts.next().is_some_and(is_number) && parts.next().is_some_and(|part| part.len() == decimals && is_number(part))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::read::{TextReader, from_reader};

    fn message_of(bytes: &[u8]) -> String {
        let complaint = |error: Error| format!("{error}; {}", error.help().unwrap_or_default());
        match from_reader(Cursor::new(bytes.to_vec())) {
            Err(error) => complaint(error),
            Ok(mut events) => match events.next_record() {
                Err(error) => complaint(error),
                Ok(record) => format!("{record:?}"),
            },
        }
    }

    #[test]
    fn compressed_files_are_distinguished_from_text() {
        for (bytes, what, help) in [
            (&b"\x1f\x8b\x08\0rest"[..], "a file compressed by gzip is not read", "gunzip"),
            (b"\x28\xb5\x2f\xfdrest", "a file compressed by zstd is not read", "unzstd"),
            (b"\xfd7zXZ\0rest", "a file compressed by xz is not read", "unxz"),
            (b"BZh9rest", "a file compressed by bzip2 is not read", "bunzip2"),
            (b"\x04\x22\x4d\x18rest", "a file compressed by lz4 is not read", "unlz4"),
            (b"PK\x03\x04rest", "a ZIP archive is not read", "unpack"),
            (b"\x78\x9crest", "a file compressed by zlib is not read", "zlib-flate"),
        ] {
            let message_of = message_of(bytes);
            assert!(message_of.starts_with(what) && message_of.contains(help), "{message_of}");
        }
        assert!(message_of(b"\x1f").starts_with("it has no events in 1 line;"));
        assert!(message_of(b"x\n").starts_with("it has no events in 1 line;"));
    }

    #[test]
    fn ctf_has_a_name_and_a_remedy() {
        for bytes in [
            &b"/* CTF 1.8 */\ntypealias integer"[..],
            b"\x57\x1d\xd1\x75rest",
            b"\x75\xd1\x1d\x57rest",
            b"\xc1\x1f\xfc\xc1rest",
            b"\xc1\xfc\x1f\xc1rest",
        ] {
            let message_of = message_of(bytes);
            assert!(message_of.starts_with("a CTF trace") && message_of.contains("trace-cmd record"), "{message_of}");
        }
        let of = |file: &'static str| directory(move |name| name == file).to_string();
        assert!(of("metadata").starts_with("a CTF trace"));
        assert!(of("kernel/metadata").starts_with("a CTF trace"));
        assert_eq!(of("data.0"), "a directory of perf.data is not read");
        assert_eq!(of("x"), "a directory is not read");
    }

    /// Headers, and lines without a header, of perf 6.1.
    #[test]
    fn tables_of_perf_have_a_name_and_a_remedy() {
        for (text, what) in [
            (
                "           time    cpu  task name                       wait time  sch delay   run time\n\
                 \x20                       [tid/pid]                          (msec)     (msec)     (msec)\n\
                 --------------- ------  ------------------------------  ---------  ---------  ---------\n",
                "timehist`",
            ),
            ("    6064.611449 [0000]  lto cgu.14[1310/353]                0.000      0.000      8.522 \n", "timehist`"),
            ("    6064.611449 [0000]  <idle>                              0.000      0.000      8.522\n", "timehist`"),
            (
                "Runtime summary\n                          comm  parent   sched-in     run-time    min-run     avg-run\n",
                "timehist --summary`",
            ),
            ("  *A0        6064.602899 secs A0 => migration/0:18\n", "map`"),
            ("  *B0  D0    6064.613440 secs \n", "map`"),
            (
                " ------------------------------\n  Task                  |   Runtime ms  | Switches | Avg delay ms    |\n",
                "latency`",
            ),
            ("# To display the header\n#\n# Overhead  Command  Shared Object  Symbol\n", "perf report`"),
        ] {
            let message_of = message_of(text.as_bytes());
            assert!(message_of.contains(what) && message_of.contains("perf script --ns"), "{message_of}");
        }
    }

    #[test]
    fn files_of_other_tools_have_a_name() {
        let mut tar = [0; 512];
        tar[..8].copy_from_slice(b"formats/");
        tar[257..262].copy_from_slice(b"ustar");
        for (bytes, what, help) in [
            (&tar[..], "a tar archive is not read", "tar -xf"),
            (b"SIMPLEPERF\x01\0rest", "a profile of simpleperf", "perfetto"),
            (b"PERFFILErest", "a perf.data of the first version is not read", "perf script"),
            (b"\x00\x05\x16\x07\0\x02rest", "a file of macOS", "beside it"),
            (b"packet {\n  ftrace_events {\n    cpu: 0\n", "a Perfetto trace in text", "protoc --encode"),
            (
                b"gzip 83220/83220 36556.170907:          1 cycles: \n\tffff5 a (b)\n",
                "what perf script prints of samples",
                "sched",
            ),
            (b"gzip-a b  9 198791.127353123: cpu-clock:u: \n", "what perf script prints of samples", "sched"),
            (b"# Children      Self  Command  Shared Object\n", "what `perf report` prints", "perf script"),
        ] {
            let message_of = message_of(bytes);
            assert!(message_of.starts_with(what) && message_of.contains(help), "{message_of}");
        }
        for other in ["a 9 1.5: cycles:\n", "a b 198791.127353: cycles:\n", "a 9 198791.127353: cycles\n"] {
            assert!(message_of(other.as_bytes()).starts_with("it has no events"), "{other}");
        }
    }

    #[test]
    fn atrace_compresses_behind_a_line() {
        for head in ["capturing trace... done\nTRACE:\n", "TRACE:\n", "TRACE:\r\n"] {
            for flags in [0x01, 0x5e, 0x9c, 0xda] {
                let bytes = [head.as_bytes(), &[0x78, flags, 0xa5, b'\n', 0x8d]].concat();
                let message_of = message_of(&bytes);
                assert!(
                    message_of.starts_with("what `atrace -z` prints is not read") && message_of.contains("zlib"),
                    "{message_of}"
                );
            }
        }
        let event =
            "TRACE:\n# tracer: nop\n a-1 [000] d..2. 1.000001: sched_waking: comm=b pid=2 prio=120 target_cpu=001\n";
        let mut reader = TextReader::new(event.as_bytes());
        assert!(reader.next_record().unwrap().is_some(), "without -z it is text");
    }

    #[test]
    fn quoted_mail_has_a_name_and_a_remedy() {
        let event = "a-1 [000] d..2. 1.000001: sched_waking: comm=b pid=2 prio=120 target_cpu=001\n";
        for head in ["", "> # tracer: nop\n>\n", "On Monday, somebody wrote:\n"] {
            for mark in [">  ", ">> ", "> > "] {
                let message_of = message_of(format!("{head}{mark}{event}").as_bytes());
                assert!(
                    message_of.starts_with("a trace quoted in a mail is not read; remove the marks: sed"),
                    "{message_of}"
                );
            }
        }
        let mut reader = TextReader::new(event.as_bytes());
        assert!(reader.next_record().unwrap().is_some());
    }

    #[test]
    fn a_beginning_shows_the_kind() {
        let message_of = |start: &[u8]| unsupported(start).map(|error| error.to_string()).unwrap_or_default();
        assert!(message_of(b"\x1f\x8b\x08\0").contains("gzip"));
        assert!(message_of(b"\n{\"traceEvents\":[").contains("Chrome"));
        assert!(message_of(b"TRACE:\r\n\x78\x9cx").contains("atrace -z"));
        assert!(message_of(b"  *A0        6064.602899 secs A0 => migration/0:18\n").contains("sched map"));
        for (start, what) in [
            (&b"SQLite format 3\0"[..], "an SQLite database"),
            (b"\x7fELF\x02\x01\x01", "a program or library"),
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "a PNG image"),
            (b"%PDF-1.7\n", "a PDF document"),
            (
                b" Task                  |   Runtime ms  |  Count   | Avg delay ms    | Max delay ms    |",
                "what `perf sched",
            ),
            (b"  Task        |   Runtime ms  | Switches | Average delay ms | Maximum delay ms |", "what `perf sched"),
            (b"\n<!doctype html>\n<html>", "an HTML page"),
            (b"<html lang='en'>", "an HTML page"),
            (b"<?xml version=\"1.0\"?>\n<!DOCTYPE topology>", "an XML file"),
            (b"<topology version=\"2.0\">", "an XML file"),
            (b"> a-1 [000] d..2. 1.000001: sched_waking: comm=b\n", "a text quoted in a mail"),
        ] {
            assert!(message_of(start).starts_with(&format!("{what} ")), "{}", message_of(start));
        }
        for other in [&b""[..], b"[[task]]\nname = 'a'\n", b"{\"tasks\": {}}", b"<idle>-0 [000] d..2. 1.0: x"] {
            assert_eq!(message_of(other), "");
        }
    }

    #[test]
    fn json_of_chrome_has_a_name_and_a_remedy() {
        for text in [
            "{\"traceEvents\":[{\"name\":\"x\",\"ph\":\"X\"}]}",
            "{\n  \"traceEvents\": [\n",
            "[{\"name\":\"x\",\"ph\":\"X\",\"ts\":1}]",
            "[\n{\"pid\":1,\"ph\":\"B\",\"name\":\"x\"},\n",
        ] {
            let message_of = message_of(text.as_bytes());
            assert!(message_of.starts_with("a trace in Chrome's JSON format is not read"), "{text}: {message_of}");
            assert!(message_of.contains("perfetto"), "{message_of}");
        }
    }

    #[test]
    fn files_without_events_say_what_they_are() {
        assert!(message_of(b"").starts_with("the file is empty; the recording"), "{}", message_of(b""));
        let header = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n#\n";
        let message_of_text = |text: &str| message_of(text.as_bytes());
        assert!(
            message_of_text(header).starts_with("there is no event in this ftrace text; "),
            "{}",
            message_of_text(header)
        );
        assert!(message_of_text(header).contains("trace-cmd record"));
        assert!(message_of_text("cpus=2\n").starts_with("there is no event in this text of trace-cmd report; "));
    }
}

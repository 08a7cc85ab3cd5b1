//! `vruntime trace convert`: a recorded trace in another format.

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;

use miette::{IntoDiagnostic, miette};
use vruntime_trace::{Record, RecordedPerfetto, RecordedText, Tracepoint};

use super::{stopped_early, thousands};
use crate::args::{TraceConvert, TraceFormat};
use crate::output_file::OutputFile;
use crate::output_paths::OutputPaths;
use crate::trace_file::{Stopped, each_event, explain, open};
use crate::{Ended, output};

enum Out {
    File(OutputFile),
    Stdout(Box<dyn Write>),
}

impl Out {
    fn create(out: &Path) -> miette::Result<Self> {
        if out == Path::new("-") {
            let stdout = output::stdout().map_err(|error| output::cannot_print(&error))?;
            return Ok(Self::Stdout(Box::new(stdout)));
        }
        let file = OutputFile::create(out).into_diagnostic()?;
        Ok(Self::File(file))
    }

    /// Whether an incomplete output stays: in a pipe or a device, it is already read.
    fn stays(&self) -> bool {
        match self {
            Self::File(file) => !file.is_temporary(),
            Self::Stdout(_) => true,
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(bytes),
            Self::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.flush(),
            Self::Stdout(stdout) => stdout.flush(),
        }
    }
}

enum Writer {
    Text(RecordedText<Out>),
    Perfetto(Box<RecordedPerfetto<Out>>),
}

impl Writer {
    fn new(format: TraceFormat, out: Out, cpus: u32, release: Option<&str>) -> Self {
        match format {
            TraceFormat::Text => {
                let writer = RecordedText::new(out, cpus);
                Self::Text(match release {
                    Some(release) => writer.with_release(release),
                    None => writer,
                })
            }
            TraceFormat::Perfetto => Self::Perfetto(Box::new(RecordedPerfetto::with_release(out, cpus, release))),
        }
    }

    fn record(&mut self, record: &Record<'_>) {
        match self {
            Self::Text(writer) => writer.record(record),
            Self::Perfetto(writer) => writer.record(record),
        }
    }

    fn failed(&self) -> bool {
        match self {
            Self::Text(writer) => writer.error().is_some(),
            Self::Perfetto(writer) => writer.error().is_some(),
        }
    }

    /// Returns the kernel's release in the header.
    fn release(&self) -> Option<&str> {
        match self {
            Self::Text(writer) => writer.release(),
            Self::Perfetto(writer) => writer.release(),
        }
    }

    /// Returns the number and kind of things that the format omits.
    fn omitted(&self) -> (u64, &'static str) {
        match self {
            Self::Text(writer) => {
                (writer.omitted(), "threads whose process is not written, because they have no event")
            }
            Self::Perfetto(writer) => (
                writer.omitted(),
                "events left out: their fields are unexpected, or Perfetto would reject the file for their CPU or time",
            ),
        }
    }

    fn finish(self) -> io::Result<()> {
        let out = match self {
            Self::Text(writer) => writer.finish_writing()?,
            Self::Perfetto(writer) => writer.finish_writing()?,
        };
        if let Out::File(file) = out { file.keep() } else { Ok(()) }
    }
}

/// Returns the format by a file's name.
fn format(out: &Path) -> miette::Result<TraceFormat> {
    match out.extension().and_then(|extension| extension.to_str()) {
        Some("txt" | "ftrace" | "log") => Ok(TraceFormat::Text),
        Some("perfetto-trace" | "pftrace" | "pb") => Ok(TraceFormat::Perfetto),
        _ => Err(miette!(
            help = "end its name with .txt or .pftrace, or say --to text or --to perfetto",
            "the format of {} is unknown: its name has no known extension",
            out.display()
        )),
    }
}

/// Notes that Ctrl-C ended the conversion, and what that means for the output.
fn note_stopped(out: &Path, stopped: &Stopped, stays: bool) {
    let effect = if stays {
        "the output lacks the rest of the trace".to_owned()
    } else {
        format!("{} is not written", out.display())
    };
    output::note(&format!("{}: {effect}", stopped_early(stopped)));
}

pub(super) fn convert(arguments: &TraceConvert) -> miette::Result<Ended> {
    let TraceConvert { from, out, to } = arguments;
    let format = to.map_or_else(|| format(out), Ok)?;
    // `-` is no file.
    let file = Some(out.as_path()).filter(|&out| out != Path::new("-"));
    OutputPaths::default().reads([from]).file("OUT", file).check()?;
    let mut events = open(from)?;
    events.begin().map_err(|error| explain(from, &error))?;
    // Writers take 0 for unknown.
    let cpus = events.notes().cpus.unwrap_or(0);
    let release = events.notes().release.clone();
    let output = Out::create(out)?;
    let stays = output.stays();
    let mut writer = Writer::new(format, output, cpus, release.as_deref());
    let (mut bare, mut flags, mut begun) = (0, 0, false);
    let stopped = each_event(from, &mut *events, |record| {
        begun |= !record.name.starts_with(b"PERF_RECORD_");
        // perf's names before the first event are no events, and do not start the recording.
        let early = !begun && record.is_perf_rename();
        writer.record(&if early { Record { at: 0, ..*record } } else { *record });
        bare += u64::from(record.point == Tracepoint::Other { fields: b"" });
        flags += u64::from(record.context.is_some());
        if writer.failed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if let Some(stopped) = &stopped {
        note_stopped(out, stopped, stays);
        if !stays {
            return Ok(Ended::Interrupted);
        }
    }
    let ended = if stopped.is_some() { Ended::Interrupted } else { Ended::Well };
    let omitted = writer.omitted();
    let written = writer.release().map(str::to_owned);
    match writer.finish() {
        Ok(()) => {}
        // A closed pipe is no error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe && out == Path::new("-") => return Ok(ended),
        Err(error) if out == Path::new("-") => return Err(output::cannot_print(&error)),
        Err(error) => return Err(error).into_diagnostic(),
    }
    let notes = events.notes();
    // Our traces have no other flags.
    let ours = notes.release.as_deref().is_some_and(|release| release.ends_with("-vruntime"));
    let flags = if ours { 0 } else { flags };
    let losses = [
        omitted,
        (bare, "events with only their name written: their fields are unknown"),
        (flags, "events with flags (only the flag of an interrupt handler is written)"),
        (notes.not_understood.count, "lines or records of the trace that were not understood"),
        (notes.malformed.count, "events with unexpected fields"),
    ];
    for (count, what) in losses.into_iter().filter(|&(count, _)| count > 0) {
        output::note(&format!("{what}: {}", thousands(count)));
    }
    // In a text, the release can follow the written header.
    if let Some(release) = notes.release.as_ref().filter(|&release| written.as_ref() != Some(release)) {
        output::note(&format!(
            "the release of its kernel, {release}, is not in {}: a replay needs --recorded-kernel",
            out.display()
        ));
    }
    for damage in notes.hidden().into_iter().chain(notes.missing_events()) {
        output::note(&damage);
    }
    if let Some(place) = notes.unterminated {
        output::note(&format!("{} ends within {place}: it may have been cut off", from.display()));
    }
    Ok(ended)
}

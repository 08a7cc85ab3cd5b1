//! Reads workloads: rt-app files, scenarios and recordings.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use miette::{IntoDiagnostic, WrapErr, miette};
use vruntime_report::{counted, is_saved_results, printable};
use vruntime_sim::plan;
use vruntime_trace::read::{Error as TraceError, Kind as TraceKind, TextReader, detect, open, unsupported};
use vruntime_workload::program::Workload;
use vruntime_workload::recording::{self, Recording};
use vruntime_workload::rtapp::{self, Global, Options};
use vruntime_workload::scenario::{self, Scenario};
use vruntime_workload::{Error, Severity, SourceMap, check, nearest};

use crate::examples::{self, Example};
use crate::{foreign, inputs, interrupt};

/// Larger files, in bytes, are rejected, so that reading does not fill the memory.
const MAX_BYTES: u64 = 256 << 20;

/// A workload, and everything else in its file.
#[derive(Debug)]
pub(crate) struct Input {
    /// The file's stem, or the scenario's name.
    pub(crate) name: String,
    /// The embedded example, if it is no file.
    pub(crate) example: Option<&'static Example>,
    /// The file's folder, which paths in the file are relative to.
    pub(crate) folder: PathBuf,
    pub(crate) workload: Workload,
    /// Places of the workload's parts in the file.
    pub(crate) source_map: SourceMap,
    pub(crate) kind: InputKind,
}

impl Input {
    /// Returns the name for the head of the results.
    pub(crate) fn title(&self) -> String {
        let embedded = if self.example.is_some() { " (embedded example)" } else { "" };
        format!("{}{embedded}", self.name)
    }
}

/// The rest of a file, besides its tasks.
#[derive(Debug)]
pub(crate) enum InputKind {
    RtApp(Box<Global>),
    Scenario(Box<Scenario>),
    Recording(Box<Recording>),
    /// A trace, and its recorded machine if the file describes it.
    Trace(plan::Trace, Option<Box<plan::Machine>>),
}

impl InputKind {
    /// Returns the input of a plan.
    pub(crate) fn planned(&self) -> plan::Input<'_> {
        match self {
            Self::RtApp(_) => plan::Input::Tasks,
            Self::Scenario(scenario) => plan::Input::Scenario(scenario),
            Self::Recording(recording) => plan::Input::Recording(recording),
            Self::Trace(trace, _) => plan::Input::Trace(trace),
        }
    }

    /// Returns the machine of a run: the requested one, completed by that of a recording.
    pub(crate) fn machine(&self, requested: Option<plan::Machine>) -> Option<plan::Machine> {
        match (requested, self) {
            (Some(machine), Self::Trace(_, Some(recorded))) => Some(machine.completed_by(recorded)),
            (None, Self::Trace(_, Some(recorded))) => Some(plan::Machine::clone(recorded)),
            (requested, _) => requested,
        }
    }
}

/// Whether a file is a workload and no trace, by its name or first byte. Unreadable files count as workloads.
pub(crate) fn is_workload(path: &Path) -> bool {
    let known = path.extension().and_then(|extension| extension.to_str());
    if path == Path::new("-") || matches!(known, Some("toml" | "json")) {
        return true;
    }
    first_mark(path).is_none_or(|first| first == b'{')
}

/// Whether a file begins with nothing but spaces and empty lines.
pub(crate) fn is_blank(path: &Path) -> bool {
    first_mark(path).is_none()
}

/// Returns the first byte of a file's beginning that is no white space.
fn first_mark(path: &Path) -> Option<u8> {
    let mut start = [0; 64];
    let read = fs::File::open(path).and_then(|mut file| file.read(&mut start));
    read.ok().and_then(|count| start[..count].iter().copied().find(|byte| !byte.is_ascii_whitespace()))
}

/// Reads a workload from a file, or from standard input for `-`. Prints warnings; with `strict` they are errors.
pub(crate) fn read(path: &Path, duration: Option<u64>, strict: bool) -> miette::Result<Input> {
    let (mut input, warnings) = load(path, duration, strict)?;
    // The simulator itself rejects endless workloads; beside a trace they end with it.
    let ends = input.workload.duration;
    input.workload.duration.get_or_insert(u64::MAX);
    let found = check::check(&input.workload, &input.source_map);
    input.workload.duration = ends;
    checked(input, warnings, found, strict)
}

/// Reads as [`read`], for real threads: endless loops are warnings.
#[cfg(target_os = "linux")]
pub(crate) fn read_real(path: &Path, duration: Option<u64>, strict: bool) -> miette::Result<Input> {
    let (input, warnings) = load(path, duration, strict)?;
    let found = check::check(&input.workload, &input.source_map);
    checked(input, warnings, found, strict)
}

/// Returns the input if it has no errors, and prints its warnings.
fn checked(input: Input, warnings: Vec<Error>, mut found: Vec<Error>, strict: bool) -> miette::Result<Input> {
    if found.iter().any(|problem| strict || problem.severity() == Severity::Error) {
        found.retain(|problem| strict || problem.severity() == Severity::Error);
        return Err(first_of(found));
    }
    warn(warnings.into_iter().chain(found));
    Ok(input)
}

fn load(path: &Path, duration: Option<u64>, strict: bool) -> miette::Result<Loaded> {
    let from_stdin = path == Path::new("-");
    let example = Example::at(path);
    let name = match example {
        Some(example) => format!("example {}", example.name),
        None if from_stdin => "standard input".to_owned(),
        None => path.display().to_string(),
    };
    // Before the file is read: traces may be larger than any workload.
    if let Some(kind) = start_of(path).filter(|_| !from_stdin).and_then(|start| trace_in(path, &start)) {
        return Err(is_trace(path, &name, kind));
    }
    let bytes = if from_stdin {
        inputs::record(path);
        bounded(io::stdin().lock()).into_diagnostic().wrap_err("cannot read standard input")?
    } else if let Some(example) = example {
        example.text().into_bytes()
    } else {
        workload(path)?
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        let help = "write an rt-app file (JSON) or a scenario (TOML); `vruntime init` writes one to begin with";
        return Err(miette!(help = help, "{name} is empty"));
    }
    let start = &bytes[..bytes.len().min(START)];
    if let Some(kind) = trace_in(path, start) {
        return Err(is_trace(path, &name, kind));
    }
    let may_be_rtapp = start.windows(7).any(|window| window == b"\"tasks\"");
    let may_be_scenario = path.extension().is_some_and(|extension| extension == "toml");
    // A program gets its answer below.
    let is_program = start.starts_with(b"\x7fELF");
    if let Some(error) = unsupported(start).filter(|_| !may_be_rtapp && !may_be_scenario && !is_program) {
        let help = error.help().unwrap_or_default();
        return Err(miette!(help = help, "{name} is no workload: {error}"));
    }
    // Scenarios and rt-app files never begin like these.
    if let Some((what, help)) = foreign::recognized(start).filter(|_| !may_be_scenario && !may_be_rtapp) {
        return Err(miette!(help = help, "{name} is {what}, and no workload"));
    }
    if is_saved_results(&bytes) {
        let file = path.display();
        let help = format!("`vruntime compare {file} FILE` compares them with a workload, or with other results");
        return Err(miette!(help = help, "{name} has the results of a run, and no workload"));
    }
    if let Some(what) = binary(&bytes) {
        // A trace may have a workload's name.
        if let Some(kind) = trace_at(start) {
            return Err(is_trace(path, &name, kind));
        }
        let help = "name an rt-app file (JSON) or a scenario (TOML); `vruntime replay` reads recorded traces";
        return Err(miette!(help = help, "{name} is {what}, and no workload"));
    }
    let stem = if from_stdin { "stdin" } else { path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("workload") };
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let options = Options { strict, ..Options::default() };
    let extension = path.extension().and_then(|extension| extension.to_str());
    let input = match kind(extension, &bytes) {
        Kind::Scenario => scenario_file(&name, &bytes, folder, &options),
        Kind::Recording => recording_file(&name, &bytes, folder),
        Kind::RtApp => rtapp_file(&name, &bytes, stem, folder, &options),
    };
    let (mut input, warnings) = input.map_err(|error| match misnamed(extension, &bytes) {
        Some(why) => error.wrap_err(format!("{name}: {why}")),
        None => trace_at(start).map_or(error, |kind| is_trace(path, &name, kind)),
    })?;
    input.name = printable(&input.name);
    input.example = example;
    // The command line takes precedence: with a duration, nothing is endless.
    input.workload.duration = duration.or(input.workload.duration);
    Ok((input, warnings))
}

/// The bytes at the beginning of a file that show whether it is a trace.
const START: usize = 64 << 10;

/// Reads the first bytes of a file, but not of a pipe, which would lose them.
fn start_of(path: &Path) -> Option<Vec<u8>> {
    let mut start = Vec::new();
    let file = fs::File::open(path).ok().filter(|_| path.is_file())?;
    file.take(START as u64).read_to_end(&mut start).ok()?;
    Some(start)
}

/// Returns the kind of the trace that begins with `start`.
fn trace_in(path: &Path, start: &[u8]) -> Option<TraceKind> {
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace())?;
    let named = path.extension().is_some_and(|extension| extension == "toml" || extension == "json");
    if named || matches!(first, b'{' | b'/') { None } else { trace_at(start) }
}

/// Returns the kind of the trace that begins with `start`, whatever its name.
fn trace_at(start: &[u8]) -> Option<TraceKind> {
    let known = detect(start);
    known.or_else(|| {
        let mut text = TextReader::new(start);
        text.next_record().ok()??;
        Some(text.notes().kind.unwrap_or(TraceKind::Ftrace))
    })
}

/// Describes a file that is no text. UTF-16 is text: its error says how to convert it.
fn binary(bytes: &[u8]) -> Option<&'static str> {
    let (is_utf16, is_text) = (bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff"), !bytes.contains(&0));
    match bytes {
        _ if is_utf16 || is_text => None,
        [0x7f, b'E', b'L', b'F', ..] => Some("a program (ELF)"),
        _ => Some("a binary file"),
    }
}

fn is_trace(path: &Path, name: &str, kind: TraceKind) -> miette::Report {
    let file = path.display();
    let help = format!("`vruntime replay {file}` replays the recording; `vruntime trace info {file}` describes it");
    miette!(help = help, "{name} is a recorded trace ({kind}), no workload")
}

/// Reads an embedded scenario, which names no other files.
pub(crate) fn scenario(name: &str, text: &str) -> miette::Result<Input> {
    let (input, warnings) = scenario_file(name, text.as_bytes(), PathBuf::new(), &Options::default())?;
    warn(warnings.into_iter());
    Ok(input)
}

/// Reads a scenario whose text mixes `path` and another file. `None`: it has errors.
pub(crate) fn variant(path: &Path, text: &str, duration: Option<u64>) -> Option<Input> {
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    let (mut input, _) =
        scenario_file(&path.display().to_string(), text.as_bytes(), folder, &Options::default()).ok()?;
    input.workload.duration = duration.or(input.workload.duration);
    let ends = input.workload.duration;
    input.workload.duration.get_or_insert(u64::MAX);
    let found = check::check(&input.workload, &input.source_map);
    input.workload.duration = ends;
    found.iter().all(|problem| problem.severity() != Severity::Error).then_some(input)
}

/// Prints probable mistakes as warnings; with `strict`, the first is an error.
pub(crate) fn suspect(found: Vec<Error>, strict: bool) -> miette::Result<()> {
    if strict && !found.is_empty() {
        return Err(first_of(found));
    }
    warn(found.into_iter().map(Error::warning));
    Ok(())
}

fn first_of(mut found: Vec<Error>) -> miette::Report {
    let rest = found.len() - 1;
    let report = miette::Report::new(found.remove(0));
    if rest > 0 { report.wrap_err(format!("{} problems; the first", rest + 1)) } else { report }
}

enum Kind {
    RtApp,
    Scenario,
    Recording,
}

/// Returns the kind by the extension, or else by the first character: no TOML begins with `{` or `/`.
fn kind(extension: Option<&str>, bytes: &[u8]) -> Kind {
    let first = bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace());
    match extension {
        Some("toml") => Kind::Scenario,
        _ if matches!(first, Some(b'{' | b'/')) || extension == Some("json") => {
            let has = |key: &[u8]| bytes.windows(key.len()).any(|window| window == key);
            if has(b"\"observed\"") && has(b"\"workload\"") { Kind::Recording } else { Kind::RtApp }
        }
        _ => Kind::Scenario,
    }
}

/// Describes a file whose extension contradicts its beginning.
fn misnamed(extension: Option<&str>, bytes: &[u8]) -> Option<&'static str> {
    match (extension?, bytes.iter().find(|byte| !byte.is_ascii_whitespace())?) {
        ("json", _) if begins_as_toml(bytes) => Some("it looks like a scenario; their names end with .toml"),
        ("toml", b'{' | b'/') => Some("it looks like an rt-app file; their names end with .json"),
        _ => None,
    }
}

/// Whether the first line, comments aside, is `[table]`, `[[table]]` or `key = value`.
fn begins_as_toml(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let Some(line) = lines.next() else { return false };
    let is_key = |key: &str| {
        let letter = |c: char| c.is_ascii_alphanumeric() || "_-.\"/ ".contains(c);
        key.starts_with(|c: char| c.is_ascii_alphabetic()) && key.chars().all(letter)
    };
    // JSON lists contain these.
    let is_value = |key: &str| ["true", "false", "null"].contains(&key);
    match line.strip_prefix('[') {
        Some(table) => table
            .trim_start_matches('[')
            .split_once(']')
            .is_some_and(|(key, _)| is_key(key.trim()) && !is_value(key.trim())),
        None => line.split_once('=').is_some_and(|(key, _)| is_key(key.trim())),
    }
}

/// An input, and its warnings.
type Loaded = (Input, Vec<Error>);

fn rtapp_file(name: &str, bytes: &[u8], stem: &str, folder: PathBuf, options: &Options) -> miette::Result<Loaded> {
    let file = rtapp::parse(name, bytes, options)?;
    if file.workload.tasks.is_empty() {
        // Valid as a part of a scenario, but not alone: this gives the error.
        rtapp::parse(name, bytes, &Options { strict: true, ..options.clone() })?;
    }
    let kind = InputKind::RtApp(Box::new(file.global));
    let input = Input {
        name: stem.to_owned(),
        example: None,
        folder,
        workload: file.workload,
        source_map: file.source_map,
        kind,
    };
    Ok((input, file.warnings))
}

fn scenario_file(name: &str, bytes: &[u8], folder: PathBuf, options: &Options) -> miette::Result<Loaded> {
    let mut loader = |path: &Path| read_file(&folder.join(path));
    let mut scenario = scenario::parse(name, bytes, options, &mut loader)?;
    let workload = std::mem::take(&mut scenario.workload);
    let (source_map, warnings) = (std::mem::take(&mut scenario.source_map), std::mem::take(&mut scenario.warnings));
    let name = scenario.name.clone();
    Ok((
        Input { name, example: None, folder, workload, source_map, kind: InputKind::Scenario(Box::new(scenario)) },
        warnings,
    ))
}

fn recording_file(name: &str, bytes: &[u8], folder: PathBuf) -> miette::Result<Loaded> {
    let mut recording = recording::parse(name, bytes)?;
    let workload = std::mem::take(&mut recording.workload);
    let name = recording.name.clone();
    let kind = InputKind::Recording(Box::new(recording));
    Ok((Input { name, example: None, folder, workload, source_map: SourceMap::default(), kind }, Vec::new()))
}

/// Reads a workload's file. If it does not exist, the help suggests an example.
fn workload(path: &Path) -> miette::Result<Vec<u8>> {
    let wanted = "name an rt-app file (JSON) or a scenario (TOML); `-` reads standard input";
    read_file(path).map_err(|error| {
        let mut help = help_with(path, &error, wanted);
        if error.kind() == io::ErrorKind::IsADirectory
            && let Err(found) = open(path)
            && let TraceError::NotRead { what, help } = &found
            && what != "a directory"
        {
            return miette!(help = *help, "{} is no workload: {found}", path.display());
        }
        if error.kind() == io::ErrorKind::NotFound {
            help = examples::suggestion(path, &help);
        }
        miette!(help = help, "{error}").wrap_err(format!("cannot read {}", path.display()))
    })
}

/// Reads a file that the user named. `wanted` is help: what the file must be.
pub(crate) fn contents(path: &Path, wanted: &str) -> miette::Result<Vec<u8>> {
    read_file(path).map_err(|error| {
        let name = path.display();
        let help = help_with(path, &error, wanted);
        miette!(help = help, "{error}").wrap_err(format!("cannot read {name}"))
    })
}

/// Returns help for an unreadable file or folder, with the nearest existing name.
pub(crate) fn help_with(path: &Path, error: &io::Error, wanted: &str) -> String {
    match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => "it is a link to a missing file".to_owned(),
        io::ErrorKind::NotFound => {
            // The first missing part of the path.
            let named = path.ancestors().take_while(|part| !part.as_os_str().is_empty());
            let missing = named.take_while(|part| !part.exists()).last().unwrap_or(path);
            let meant = there_is(missing).map(|instead| {
                let rest = path.strip_prefix(missing).unwrap_or(Path::new(""));
                let whole: PathBuf = instead.components().chain(rest.components()).collect();
                format!("did you mean {}?", if whole.exists() { whole } else { instead }.display())
            });
            if missing == path {
                return meant.unwrap_or_else(|| wanted.to_owned());
            }
            let nothing = format!("there is no folder {}", missing.display());
            meant.map_or(nothing.clone(), |meant| format!("{nothing}; {meant}"))
        }
        io::ErrorKind::IsADirectory => format!("it is a folder: {wanted}"),
        _ => wanted.to_owned(),
    }
}

/// Returns the existing path in the folder whose name is nearest.
fn there_is(path: &Path) -> Option<PathBuf> {
    let names = names_in(folder_of(path));
    let instead = nearest(path.file_name()?.to_str()?, names.iter().map(String::as_str))?;
    Some(path.with_file_name(instead))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the sorted names in a folder; none if it cannot be read.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    inputs::record(path);
    bounded(interrupt::reading(|| fs::File::open(path))?)
}

fn bounded(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    interrupt::reading(|| reader.take(MAX_BYTES + 1).read_to_end(&mut bytes))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {} MiB", MAX_BYTES >> 20)));
    }
    Ok(bytes)
}

/// The most warnings printed; others are counted.
const WARNINGS: usize = 10;

fn warn(warnings: impl Iterator<Item = Error>) {
    let mut more = 0;
    for (index, warning) in warnings.enumerate() {
        if index < WARNINGS {
            crate::output::complain(&miette::Report::new(warning));
        } else {
            more += 1;
        }
    }
    if more > 0 {
        let more = counted(more, "more warning", "more warnings");
        crate::output::complain(&miette!(severity = miette::Severity::Warning, "and {more}"));
    }
}

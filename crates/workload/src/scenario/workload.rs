//! `[[workload]]`: an rt-app file or a benchmark.

use std::ops::Range;
use std::path::Path;

use super::Loader;
use super::fields::{Fields, Value};
use super::session;
use super::task::group_path;
use crate::error::{Error, Problems};
use crate::groups::normalize_path;
use crate::merge::{GROUP_EXTENT, Merged, Placement};
use crate::model;
use crate::place::{ClassSite, SourceMap};
use crate::program::Workload;
use crate::rtapp::{self, Options, RtApp};

/// The most copies of a workload.
const MAX_COPIES: i64 = 1 << 20;

/// The most operations and objects of all copies, against wrong values of `copies`.
const MAX_EXTENT: u64 = 1 << 24;

pub(super) struct Added {
    /// The duration of its rt-app file, ns.
    pub(super) duration: Option<u64>,
    pub(super) warnings: Vec<Error>,
}

/// Reads a `[[workload]]` and adds its tasks. An error in the workload's file refers to that file's text.
pub(super) fn parse(
    problems: &mut Problems,
    value: &Value<'_>,
    loader: &mut Loader<'_>,
    options: &Options,
    merged: &mut Merged,
    several: bool,
) -> Result<Option<Added>, Error> {
    let mut fields = Fields::new(problems, "[[workload]]", value);
    let span = fields.span.clone();
    let file = fields.string("rtapp", "the path of an rt-app file");
    let inline = fields.string("rtapp_inline", "the text of an rt-app file");
    let model = fields.string("model", "a benchmark's command line, such as \"hackbench 10\"");
    let name = fields.string("name", "a name");
    let copies = fields.integer("copies", 1..=MAX_COPIES, "a number of copies").unwrap_or(1);
    let group = group_path(&mut fields);
    let session = session::name(&mut fields);
    let start = fields.duration("start").unwrap_or(0);
    let start_place = fields.get("start").map(Value::span);
    let background = fields.boolean("background").unwrap_or(false);
    let mut built = None;
    if let Some((command, span)) = &model {
        match model::parse(command) {
            Ok(workload) => built = Some((workload, span.clone())),
            Err(error) => fields.bad(span.clone(), error.message, "expected a benchmark's command line", error.help),
        }
    }
    let given = usize::from(file.is_some()) + usize::from(inline.is_some()) + usize::from(model.is_some());
    if given != 1 {
        let (message, label) = if given == 0 {
            ("a [[workload]] without content", "expected `rtapp`, `rtapp_inline` or `model`")
        } else {
            ("a [[workload]] with several contents", "expected one of `rtapp`, `rtapp_inline` and `model`")
        };
        fields.bad(span.clone(), message.to_owned(), label, "write rtapp = \"file.json\"; one [[workload]] for each");
    }
    fields.finish();
    if problems.has_errors() {
        return Ok(None);
    }
    let content = match (&file, &inline, built) {
        (Some((path, span)), ..) => Content::File(path, span.clone()),
        (None, Some((text, _)), _) => Content::Inline(text),
        (None, None, Some((workload, span))) => Content::Model(Box::new(workload), span),
        (None, None, None) => return Ok(None),
    };
    let Some(mut read) = content.read(problems, loader, options)? else { return Ok(None) };
    if let Some(span) = start_place {
        let here = (problems.source.clone(), span);
        read.source_map.sites.iter_mut().for_each(|site| site.start = site.start.take().or_else(|| Some(here.clone())));
    }
    let depth = group.as_deref().map_or(0, |path| path.matches('/').count() as u64);
    if !has_room(problems, merged, &read.workload, copies as u64, depth, options.max_tasks, span) {
        return Ok(None);
    }
    let stem = match (file, model) {
        (Some((path, _)), _) => Path::new(path).file_stem().and_then(|stem| stem.to_str()),
        (None, model) => model.and_then(|(command, _)| command.split_whitespace().next()),
    };
    let name = match (name, several || copies > 1) {
        (Some((name, _)), _) => Some(name),
        (None, true) => Some(stem.unwrap_or("workload")),
        (None, false) => None,
    };
    let place = Place { group: group.as_deref(), session: session.as_deref(), start, background };
    add_copies(merged, &read, name, copies, &place);
    Ok(Some(Added { duration: read.workload.duration, warnings: read.warnings }))
}

enum Content<'a> {
    /// The path of a file, with its place.
    File(&'a str, Range<usize>),
    /// Text of an rt-app file.
    Inline(&'a str),
    /// A benchmark, with the place of its command line.
    Model(Box<Workload>, Range<usize>),
}

impl Content<'_> {
    /// Reads the content. None after reporting an unreadable file.
    fn read(self, problems: &mut Problems, loader: &mut Loader<'_>, options: &Options) -> Result<Option<Read>, Error> {
        Ok(Some(match self {
            Self::File(path, span) => match loader(Path::new(path)) {
                Ok(bytes) => Read::from(rtapp::parse(path, &bytes, options)?),
                Err(reason) => {
                    let error = problems
                        .new_error(span, format!("cannot read `{path}`: {reason}"), "named here")
                        .with_help("the path is relative to the scenario's folder");
                    problems.error(error);
                    return Ok(None);
                }
            },
            Self::Inline(text) => {
                let name = format!("{} (rtapp_inline)", problems.source.name());
                Read::from(rtapp::parse(&name, text.as_bytes(), options)?)
            }
            Self::Model(workload, span) => {
                let tasks = 0..workload.tasks.len();
                let site = ClassSite { tasks, source: problems.source.clone(), span, start: None, phases: [].into() };
                Read { workload: *workload, source_map: SourceMap { sites: vec![site] }, warnings: Vec::new() }
            }
        }))
    }
}

/// Whether copies of a workload, in a group `depth` levels below the root, fit. Counts them, or reports a problem.
fn has_room(
    problems: &mut Problems,
    merged: &mut Merged,
    workload: &Workload,
    copies: u64,
    depth: u64,
    max_tasks: u64,
    span: Range<usize>,
) -> bool {
    let extent = 1 + workload.extent() + GROUP_EXTENT * (depth + workload.groups.len() as u64);
    merged.extent = merged.extent.saturating_add(extent.saturating_mul(copies));
    let tasks = merged.workload.tasks.len() as u64 + (workload.tasks.len() as u64).saturating_mul(copies);
    let (message, help) = if merged.extent > MAX_EXTENT {
        let help = format!("copies times events and objects must stay below {MAX_EXTENT}; lower `copies`");
        ("too many copies of so large a workload".to_owned(), help)
    } else if tasks > max_tasks {
        (format!("more than {max_tasks} tasks"), "lower `copies`".to_owned())
    } else {
        return true;
    };
    let error = problems.new_error(span, message, "the limit is passed here").with_help(help);
    problems.error(error);
    false
}

/// The placement of copies. `{copy}` in a name is the copy's number.
struct Place<'a> {
    group: Option<&'a str>,
    session: Option<&'a str>,
    start: u64,
    background: bool,
}

struct Read {
    workload: Workload,
    source_map: SourceMap,
    warnings: Vec<Error>,
}

impl From<RtApp> for Read {
    fn from(RtApp { workload, source_map, warnings, .. }: RtApp) -> Self {
        Self { workload, source_map, warnings }
    }
}

fn add_copies(merged: &mut Merged, read: &Read, name: Option<&str>, copies: i64, place: &Place<'_>) {
    for copy in 0..copies {
        let task_prefix = match name {
            Some(name) if copies > 1 => format!("{name}-{copy}/"),
            Some(name) => format!("{name}/"),
            None => String::new(),
        };
        let class_prefix = name.map_or_else(String::new, |name| format!("{name}/"));
        // The path is normalized, and a number keeps it so.
        let numbered = |name: &str| name.replace("{copy}", &copy.to_string());
        let group = place.group.and_then(|path| normalize_path(&numbered(path)).ok());
        let session = place.session.map(numbered);
        let placement =
            Placement { task_prefix, class_prefix, group, session, start: place.start, background: place.background };
        merged.add(&read.workload, read.source_map.clone(), &placement);
    }
}

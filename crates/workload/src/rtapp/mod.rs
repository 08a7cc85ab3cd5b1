//! rt-app workload files.
//!
//! Accepts the grammar of rt-app and its front end workgen, with comments, trailing commas, repeated keys and a bare
//! `"suspend",`. With [`Options::strict`], these are errors. `docs/rt-app.md` has the grammar, and the differences
//! between rt-app's versions.
//!
//! ```
//! use vruntime_workload::program::Op;
//! use vruntime_workload::rtapp::{self, Options};
//!
//! let file = br#"{ "tasks" : { "web" : { "instance" : 2, "run" : 3000, "sleep" : 5000 } } }"#;
//! let read = rtapp::parse("web.json", file, &Options::default())?;
//! assert_eq!(read.workload.tasks[1].name, "web-1");
//! assert_eq!(read.workload.tasks[1].phases[0].ops, [Op::Run { work: 3_000_000 }, Op::Sleep { time: 5_000_000 }]);
//! # Ok::<(), vruntime_workload::Error>(())
//! ```

mod event;
mod global;
mod json;
mod lower;
mod names;
mod read;
mod settings;
mod task;

pub use global::{Calibration, FtraceCategory, Global, LogSize, PolicyName};
pub use read::MAX_TIME_US;

use crate::error::{Error, Problems, Source};
use crate::groups::GroupTree;
use crate::place::SourceMap;
use crate::program::Workload;
use crate::suggest::did_you_mean;
use json::{Kind, Member, Value};
use names::Names;
use task::Reader;

/// Options for reading.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether deviations from JSON, and warnings, are errors.
    pub strict: bool,
    /// The most tasks of a file, against a wrong `instance`.
    pub max_tasks: u64,
}

/// The default limit: two million tasks.
pub const MAX_TASKS: u64 = 2 << 20;

impl Default for Options {
    fn default() -> Self {
        Self { strict: false, max_tasks: MAX_TASKS }
    }
}

/// The content of a file.
#[derive(Clone, Debug)]
pub struct RtApp {
    /// The tasks and their objects.
    pub workload: Workload,
    /// The `global` object.
    pub global: Global,
    /// The places of all parts.
    pub source_map: SourceMap,
    /// Probable mistakes.
    pub warnings: Vec<Error>,
}

const TOP_KEYS: &[&str] = &["tasks", "global", "resources"];

/// Reads a file. `name` is for messages.
///
/// # Errors
///
/// If the text is not UTF-8, JSON, or rt-app's grammar, a number is out of range, or tasks exceed
/// `options.max_tasks`. It has the first 100 problems ([`Error::related`]).
pub fn parse(name: &str, bytes: &[u8], options: &Options) -> Result<RtApp, Error> {
    let mut problems = Problems::new(Source::decode(name, bytes)?, options.strict);
    let root = match json::parse(&mut problems) {
        Ok(root) => root,
        Err(error) => {
            problems.error(error);
            json::Value { span: 0..0, kind: Kind::Null }
        }
    };
    let empty = (Workload::default(), Global::default(), SourceMap::default());
    let (workload, global, source_map) =
        if problems.has_errors() { empty } else { file(&mut problems, &root, options).unwrap_or(empty) };
    let warnings = problems.finish()?;
    Ok(RtApp { workload, global, source_map, warnings })
}

fn file(problems: &mut Problems, root: &Value, options: &Options) -> Option<(Workload, Global, SourceMap)> {
    let members = read::object(problems, read::FILE, root, "an object with `tasks`")?;
    for (index, member) in members.iter().enumerate() {
        if !TOP_KEYS.contains(&member.key.as_str()) {
            read::unknown_key(problems, member, "the top level", TOP_KEYS);
        } else if members[index.saturating_sub(256)..index].iter().any(|earlier| earlier.key == member.key) {
            read::repeated_key(problems, &member.key, member.key_span.clone());
        }
    }
    let global = top(problems, members, "global").map_or_else(Global::default, |value| global::parse(problems, value));
    let Some(tasks) = top(problems, members, "tasks") else {
        no_tasks(problems, root, members);
        return None;
    };
    let tasks = read::object(problems, "tasks", tasks, "an object of tasks")?;
    let mut names = Names::default();
    let mut groups = GroupTree::new();
    if let Some(resources) = top(problems, members, "resources") {
        legacy_resources(problems, resources, &mut names);
    }
    if tasks.is_empty() {
        let span = top(problems, members, "tasks").map_or(0..0, |value| value.span.clone());
        let error = problems.new_error(span, "there are no tasks", "expected \"a name\" : { ... }");
        problems.warn(error.with_help("write one: \"tasks\" : { \"a\" : { \"run\" : 1000, \"sleep\" : 1000 } }"));
    }
    let mut classes = Vec::new();
    for (index, member) in tasks.iter().enumerate() {
        // Compares only near keys, for linear time. Names are made unique later.
        if tasks[index.saturating_sub(256)..index].iter().any(|earlier| earlier.key == member.key) {
            let message = format!("task `{}` is given twice", member.key);
            let error = problems
                .new_error(member.key_span.clone(), message, "each is run; a number is added to the name of this one")
                .with_help("give it a name of its own, or say `instance` : 2");
            problems.warn(error);
        }
        let mut reader =
            Reader { problems, names: &mut names, groups: &mut groups, global: &global, max_tasks: options.max_tasks };
        classes.extend(reader.class(member));
    }
    let (mut workload, source_map) = lower::lower(problems, &classes, names, groups, &global, options.max_tasks)?;
    workload.duration = global.duration_s.map(|seconds| seconds * 1_000_000_000);
    Some((workload, global, source_map))
}

/// Returns the last member called `key`, as in rt-app.
fn top<'a>(problems: &mut Problems, members: &'a [Member], key: &str) -> Option<&'a Value> {
    members.iter().rev().find(|member| member.key == key)?.value(problems)
}

fn no_tasks(problems: &mut Problems, root: &Value, members: &[Member]) {
    let part = members.iter().any(|member| matches!(member.key.as_str(), "global" | "resources"));
    let help = if members.iter().any(|member| member.key == "threads") {
        "`threads` is a key of rt-muse, a fork of rt-app: write `tasks`, and durations in us instead of loops"
            .to_owned()
    } else if part {
        "this looks like a part for rt-app's merge.py: give it with a file that has `tasks`".to_owned()
    } else {
        members.iter().find(|member| did_you_mean(&member.key, ["tasks"]).contains("did")).map_or_else(
            || "a workload is { \"tasks\" : { \"name\" : { \"run\" : 1000, \"sleep\" : 9000 } } }".to_owned(),
            |member| format!("did you mean `tasks` by `{}`?", member.key),
        )
    };
    let end = root.span.end;
    let error = problems.new_error(end.saturating_sub(1)..end, "there is no `tasks` object", "expected it before here");
    problems.error(error.with_help(help));
}

/// Old files declare objects in `resources`. Now mentions create objects.
fn legacy_resources(problems: &mut Problems, value: &Value, names: &mut Names) {
    const TYPES: &[&str] = &[
        "mutex",
        "timer",
        "wait",
        "signal",
        "broadcast",
        "sync",
        "barrier",
        "sem",
        "run",
        "sleep",
        "mem",
        "iorun",
        "suspend",
        "resume",
        "yield",
        "fork",
    ];
    let Some(members) = read::object(problems, "resources", value, "an object of resources") else { return };
    for member in members {
        let Some(value) = member.value(problems) else { continue };
        let Some(parts) = read::object(problems, &member.key, value, "an object with a `type`") else { continue };
        let Some(kind) = parts.iter().rev().find(|part| part.key == "type").and_then(|part| part.value.as_ref()) else {
            let message = format!("resource `{}` has no type", member.key);
            let error = problems.new_error(value.span.clone(), message, "expected \"type\" : \"mutex\" or another");
            problems.error(error.with_help("`resources` may be left out: objects that events mention are created"));
            continue;
        };
        let Some(text) = read::string(problems, "type", kind, "the name of a type") else { continue };
        match text {
            "mutex" => _ = names.mutexes.number(&member.key),
            "timer" if !member.key.starts_with("unique") => _ = names.timers.number(&member.key),
            "wait" => _ = names.conditions.number(&member.key),
            "barrier" => _ = names.barrier(&member.key, 0),
            "sem" => _ = names.semaphores.number(&member.key),
            known if TYPES.contains(&known) => {}
            _ => {
                let error = problems
                    .new_error(kind.span.clone(), format!("unknown type of resource `{text}`"), "it is ignored")
                    .with_help(did_you_mean(text, TYPES.iter().copied()));
                problems.warn(error);
            }
        }
    }
}

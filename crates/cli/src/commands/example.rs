//! `vruntime example` and `vruntime init`.

use std::io::{self, Write};
use std::path::Path;

use miette::miette;
use serde_json::json;
use vruntime_report::grid;

use crate::args::{ExampleOf, Init};
use crate::examples::{self, EXAMPLES, Example};
use crate::output_file::OutputFile;
use crate::output_paths::OutputPaths;
use crate::{Ended, output};

#[expect(clippy::unnecessary_wraps, reason = "every command has the same shape")]
pub(crate) fn example(asked: &ExampleOf) -> miette::Result<Ended> {
    if let Some(example) = asked.name.as_deref().and_then(Example::named) {
        output::print(&example.text());
    } else if asked.json {
        let row = |example: &Example| {
            let file = format!("scenarios/{}", example.file);
            json!({"example": example.name, "description": example.description(), "file": file})
        };
        output::print_json(&EXAMPLES.iter().map(row).collect());
    } else {
        let lines = EXAMPLES.iter().map(|example| vec![example.name.to_owned(), example.description()]);
        output::print(&format!("{}\n{HOW}", grid(&["name", "what it shows"], 2, lines)));
    }
    Ok(Ended::Well)
}

const HOW: &str = "\
Each is a scenario that runs by its name:

  vruntime run web                   runs one
  vruntime compare demo              runs it under each kernel that it names
  vruntime example web > web.toml    a copy to change
  vruntime init                      a scenario to begin with, in scenario.toml
";

pub(crate) fn init(init: &Init) -> miette::Result<Ended> {
    let path = init.file.as_path();
    if path == Path::new("-") {
        output::print(examples::start());
        return Ok(Ended::Well);
    }
    let name = path.display();
    if path.extension().is_some_and(|extension| extension != "toml") {
        let help = format!("name {}", path.with_extension("toml").display());
        return Err(miette!(help = help, "cannot write {name}: the name of a scenario ends with .toml"));
    }
    if !init.force && path.symlink_metadata().is_ok() {
        return Err(is_taken(path));
    }
    OutputPaths::default().file("FILE", Some(path)).check()?;
    let written = OutputFile::create(path).and_then(|mut file| {
        file.write_all(examples::start().as_bytes())?;
        // Another program may have created the file since the check.
        if init.force { file.keep() } else { file.keep_new() }
    });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => is_taken(path),
        _ => miette::Report::from_err(error),
    })?;
    let quoted = quoted(&name.to_string());
    output::print(&format!("wrote {name}; run it: vruntime run {quoted}\n"));
    Ok(Ended::Well)
}

fn is_taken(path: &Path) -> miette::Report {
    let help = "name another file, or replace this one with --force";
    miette!(help = help, "{} exists already", path.display())
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+/".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

//! The layout of recordings: one line for each task, so that long files stay readable.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

/// Deeper levels are on one line: file, `observed`, run, `tasks`, and then the task.
const LINES_TO: usize = 4;

pub(super) fn text(file: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    let layout = Layout { pretty: PrettyFormatter::new(), depth: 0 };
    file.serialize(&mut Serializer::with_formatter(&mut bytes, layout))?;
    bytes.push(b'\n');
    // serde_json writes UTF-8.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct Layout {
    pretty: PrettyFormatter<'static>,
    depth: usize,
}

impl Layout {
    const fn inline(&self) -> bool {
        self.depth > LINES_TO
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        if self.inline() { CompactFormatter.begin_array(writer) } else { self.pretty.begin_array(writer) }
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.depth >= LINES_TO { CompactFormatter.end_array(writer) } else { self.pretty.end_array(writer) }
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if self.inline() { separate(writer, first) } else { self.pretty.begin_array_value(writer, first) }
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.inline() { Ok(()) } else { self.pretty.end_array_value(writer) }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth += 1;
        if self.inline() { CompactFormatter.begin_object(writer) } else { self.pretty.begin_object(writer) }
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.depth -= 1;
        if self.depth >= LINES_TO { CompactFormatter.end_object(writer) } else { self.pretty.end_object(writer) }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if self.inline() { separate(writer, first) } else { self.pretty.begin_object_key(writer, first) }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.inline() { Ok(()) } else { self.pretty.end_object_value(writer) }
    }
}

fn separate<W: ?Sized + Write>(writer: &mut W, first: bool) -> io::Result<()> {
    if first { Ok(()) } else { writer.write_all(b", ") }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_task_is_a_line() {
        let file = json!({ "name": "x", "observed": [{ "groups": {}, "tasks": { "a": { "cpu_s": 1.5, "l": { "p": [1, 2] } }, "b": {} } }] });
        let text = text(&file).unwrap();
        let expected = "{\n  \"name\": \"x\",\n  \"observed\": [\n    {\n      \"groups\": {},\n      \"tasks\": {\n        \
            \"a\": {\"cpu_s\": 1.5, \"l\": {\"p\": [1, 2]}},\n        \"b\": {}\n      }\n    }\n  ]\n}\n";
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), file);
    }
}

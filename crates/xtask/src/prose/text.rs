//! Texts: pages, documentation and comments in Rust, its messages, the command's help, the report's page, Python,
//! comments of scenarios.

mod code;

use std::ops::Range;
use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A paragraph, or an item of a list.
    Prose,
    /// A heading of a page.
    Heading,
    /// A field of a table.
    Cell,
    /// A comment that is no documentation, or a name.
    Comment,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub(crate) kind: Kind,
    /// The words, with each piece of code as one character.
    pub(crate) text: String,
    /// The start of each line in `text`, and its number.
    marks: Vec<(usize, usize)>,
}

impl Block {
    /// A piece of code, which counts as a word.
    pub(crate) const CODE: char = '\u{fffc}';

    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, text: String::new(), marks: Vec::new() }
    }

    pub(super) fn push(&mut self, text: &str, line: usize) {
        self.marks.push((self.text.len(), line));
        self.text.push_str(text);
    }

    /// Returns the file's line of a position in the text.
    pub(crate) fn line(&self, at: usize) -> usize {
        let mark = self.marks.iter().take_while(|(start, _)| *start <= at).last();
        mark.or(self.marks.first()).map_or(1, |(_, line)| *line)
    }
}

pub(crate) fn is(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

#[derive(Debug)]
pub(crate) struct Source<'a> {
    /// Relative to the project's root.
    pub(crate) path: &'a str,
    /// The unit of the allowed numbers.
    pub(crate) unit: String,
    /// The group of the measures. None for comments.
    pub(crate) group: Option<&'static str>,
    pub(crate) blocks: Vec<Block>,
    /// Lines whose length is checked, by number.
    pub(crate) lines: Vec<(usize, &'a str)>,
}

impl<'a> Source<'a> {
    pub(crate) fn of(path: &'a str, text: &'a str) -> Vec<Self> {
        let source = |unit: String, group, blocks| Self { path, unit, group, blocks, lines: Vec::new() };
        if is(path, "snap") {
            return vec![source("help".to_owned(), Some("help"), help(text))];
        }
        if is(path, "md") {
            let group = match path {
                "README.md" | "ARCHITECTURE.md" | "CONTRIBUTING.md" => Some("front"),
                _ if path.starts_with("docs/") => Some("docs"),
                _ => None,
            };
            let (blocks, breakable) = markdown(text, 1);
            let mut page = source(path.to_owned(), group, blocks);
            page.lines = text.lines().enumerate().map(|(index, line)| (index + 1, line)).collect();
            page.lines.retain(|(number, _)| breakable.iter().any(|lines| lines.contains(number)));
            return vec![page];
        }
        if is(path, "toml") {
            return vec![source("scenarios comments".to_owned(), None, code::toml(text))];
        }
        let name = path.split('/').take(2).collect::<Vec<_>>().join("/");
        if is(path, "py") {
            let python = code::python(text);
            return vec![
                source(format!("{name} docstrings"), None, python.docstrings),
                source(format!("{name} comments"), None, python.comments),
                source(format!("{name} messages"), None, python.messages),
            ];
        }
        if path.contains("/assets/") {
            return vec![source(format!("{name} page"), None, code::page(text))];
        }
        // The rules of this check are words to avoid.
        let is_test = ["/tests", "/benches/", "/examples/", "/xtask/src/prose/"].iter().any(|part| path.contains(part));
        let messages = if is_test { Vec::new() } else { code::messages(text) };
        vec![
            source(format!("{name} rustdoc"), Some("rustdoc"), documentation(text)),
            source(format!("{name} comments"), None, comments(text)),
            source(format!("{name} names of tests"), None, names_of_tests(text)),
            source(format!("{name} messages"), None, messages),
        ]
    }
}

/// Returns the blocks of Markdown from line `first` on, and the line ranges of paragraphs and lists.
fn markdown(text: &str, first: usize) -> (Vec<Block>, Vec<Range<usize>>) {
    let starts: Vec<usize> = [0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let line = |at: usize| starts.partition_point(|start| *start <= at) - 1 + first;
    let (mut blocks, mut breakable) = (Vec::new(), Vec::new());
    // An item of a list ends where a nested list begins.
    let mut open: Option<Block> = None;
    let mut in_code = false;
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Paragraph | Tag::Item) => {
                blocks.extend(open.replace(Block::new(Kind::Prose)));
                if matches!(event, Event::Start(Tag::Paragraph)) {
                    breakable.push(line(range.start)..line(range.end));
                }
            }
            Event::Start(Tag::Heading { .. }) => blocks.extend(open.replace(Block::new(Kind::Heading))),
            Event::Start(Tag::TableCell) => blocks.extend(open.replace(Block::new(Kind::Cell))),
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::Heading(_) | TagEnd::TableCell) => {
                blocks.extend(open.take());
            }
            Event::Text(text) if !in_code => {
                if let Some(block) = &mut open {
                    block.push(&text, line(range.start));
                }
            }
            Event::Code(_) => {
                if let Some(block) = &mut open {
                    block.push(&Block::CODE.to_string(), line(range.start));
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some(block) = &mut open {
                    block.push("\n", line(range.start));
                }
            }
            _ => {}
        }
    }
    blocks.retain(|block| !block.text.trim().is_empty());
    // A list without empty lines has no paragraphs, only its items' lines.
    for block in blocks.iter().filter(|block| block.kind == Kind::Prose) {
        breakable.extend(block.marks.iter().map(|(_, line)| *line..*line + 1));
    }
    (blocks, breakable)
}

/// Returns the documentation (`///`, `//!`) of a Rust file, each run of lines as Markdown.
fn documentation(text: &str) -> Vec<Block> {
    let of = |line: &'_ str| {
        let line = line.trim_start();
        let rest =
            line.strip_prefix("//!").or_else(|| line.strip_prefix("///").filter(|rest| !rest.starts_with('/')))?;
        Some(rest.strip_prefix(' ').unwrap_or(rest).to_owned())
    };
    runs(text, of).into_iter().flat_map(|(first, run)| markdown(&run, first).0).collect()
}

/// Other comments of a Rust file that have their own line, also in the examples of its documentation.
fn comments(text: &str) -> Vec<Block> {
    let of = |line: &'_ str| {
        let line = line.trim_start();
        let example = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let rest = example.unwrap_or(line).trim_start().strip_prefix("//")?;
        // An example can have documentation, too.
        let rest = if example.is_some() { rest.trim_start_matches(['/', '!']) } else { rest };
        (!rest.starts_with(['/', '!'])).then(|| rest.trim_start().to_owned())
    };
    runs(text, of).into_iter().map(|(first, run)| plain(Kind::Comment, first, &run)).collect()
}

fn names_of_tests(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut is_test = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with("#[test]") {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ").filter(|_| is_test) {
            let name = rest.split('(').next().unwrap_or_default().replace('_', " ");
            found.push(plain(Kind::Comment, index + 1, &name));
            is_test = false;
        }
    }
    found
}

/// Runs of lines for which `of` returns text, with the first one's number.
fn runs(text: &str, of: impl Fn(&str) -> Option<String>) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (index, line) in text.lines().enumerate() {
        let part = of(line);
        match (&part, found.last_mut().filter(|_| goes_on)) {
            (Some(part), Some((_, run))) => {
                run.push('\n');
                run.push_str(part);
            }
            (Some(part), None) => found.push((index + 1, part.clone())),
            (None, _) => {}
        }
        goes_on = part.is_some();
    }
    found
}

fn plain(kind: Kind, first: usize, text: &str) -> Block {
    let mut block = Block::new(kind);
    for (index, line) in text.lines().enumerate() {
        block.push(line, first + index);
        block.text.push('\n');
    }
    block
}

/// Returns the paragraphs of a help text in the tests' snapshots, without command lines. Each row of columns is a text.
fn help(text: &str) -> Vec<Block> {
    let head = text.lines().skip(1).position(|line| line == "---").map_or(0, |at| at + 2);
    let is_command =
        |line: &str| ["vruntime ", "sudo ", "perf ", "generate-"].iter().any(|start| line.starts_with(start));
    let of = |line: &'_ str| {
        let line = line.trim();
        let is_form =
            line.starts_with('-') || line.starts_with('<') || line.starts_with("Usage:") || line.ends_with(':');
        (!line.is_empty() && !is_form && !is_command(line) && !line.contains("  ")).then(|| line.to_owned())
    };
    let body: String = text.lines().skip(head).flat_map(|line| [line, "\n"]).collect();
    let paragraphs = runs(&body, of).into_iter().map(|(first, run)| plain(Kind::Prose, first + head, &run));
    let rows = text.lines().enumerate().skip(head).filter_map(|(index, line)| {
        let (_, last) = line.trim().rsplit_once("  ")?;
        Some(plain(Kind::Prose, index + 1, last))
    });
    paragraphs.chain(rows).collect()
}

//! Formats all errors and warnings. Shortens quoted lines of files, and escapes control characters.

use std::error::Error;
use std::fmt;

use miette::{Diagnostic, LabeledSpan, MietteDiagnostic, MietteHandlerOpts, ReportHandler, Severity, SourceCode};
use serde::Serialize;
use vruntime_workload::plain;

pub(crate) fn with_help(wrong: impl fmt::Display, help: Option<&str>) -> miette::Report {
    MietteDiagnostic { help: help.map(str::to_owned), ..MietteDiagnostic::new(wrong.to_string()) }.into()
}

/// A message for programs.
#[derive(Debug, Serialize)]
pub(crate) struct Complaint {
    /// `error`, `warning` or `note`.
    pub(crate) level: &'static str,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) help: Option<String>,
    #[serde(flatten)]
    pub(crate) place: Option<Place>,
    /// The whole message, as printed.
    pub(crate) text: String,
}

/// A place in a file. Line and column count from 1, columns in characters.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Place {
    file: String,
    line: usize,
    column: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

impl Complaint {
    /// Returns a message without causes and place.
    pub(crate) fn new(level: &'static str, message: &str) -> Self {
        let text = format!("{level}: {message}");
        Self { level, message: message.to_owned(), causes: Vec::new(), help: None, place: None, text }
    }

    fn of(one: &dyn Diagnostic, text: String) -> Self {
        let level = match one.severity() {
            None | Some(Severity::Error) => "error",
            Some(Severity::Warning) => "warning",
            Some(Severity::Advice) => "note",
        };
        let message_parts = Plain::of(one);
        let mut chain = vec![one];
        chain.extend(std::iter::successors(one.diagnostic_source(), |cause| cause.diagnostic_source()));
        Self {
            level,
            causes: message_parts.causes(),
            message: message_parts.message,
            help: chain.iter().find_map(|one| one.help()).map(|help| plain(&help.to_string())),
            place: chain.iter().find_map(|one| Place::of(*one)),
            text,
        }
    }
}

impl Place {
    fn of(one: &dyn Diagnostic) -> Option<Self> {
        let label = one.labels()?.next()?;
        let contents = one.source_code()?.read_span(label.inner(), 0, 0).ok()?;
        Some(Self {
            file: contents.name()?.to_owned(),
            line: contents.line() + 1,
            column: contents.column() + 1,
            label: label.label().map(plain),
        })
    }
}

/// Returns options that break lines only at spaces, so that no literal such as `cgroup=/app` or `what-if` is broken.
fn options() -> MietteHandlerOpts {
    let at_spaces = MietteHandlerOpts::new().word_separator(textwrap::WordSeparator::AsciiSpace);
    at_spaces.word_splitter(textwrap::WordSplitter::NoHyphenation)
}

/// Returns the report and all [related](Diagnostic::related) ones, for programs.
pub(crate) fn messages(report: &miette::Report) -> Vec<Complaint> {
    // Without colours, since other programs show it.
    let handler = options().color(false).unicode(true).terminal_links(false).build();
    every(report).into_iter().map(|one| Complaint::of(one, shown(one, &handler))).collect()
}

/// Formats the report and all [related](Diagnostic::related) ones, each alone: miette adds a line `Error:` before each.
pub(crate) fn text(report: &miette::Report) -> String {
    let handler = options().build();
    let texts: Vec<String> = every(report).into_iter().map(|one| shown(one, &handler)).collect();
    texts.join("\n")
}

fn shown(one: &dyn Diagnostic, handler: &dyn ReportHandler) -> String {
    struct Printed<'a>(Plain<'a>, &'a dyn ReportHandler);
    impl fmt::Display for Printed<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.1.debug(&self.0, f)
        }
    }
    Printed(Plain::of(one), handler).to_string()
}

fn every(report: &miette::Report) -> Vec<&dyn Diagnostic> {
    std::iter::once(report.as_ref()).chain(related(report.as_ref())).collect()
}

/// Returns all diagnostics that are related to it or to its source, recursively.
fn related(of: &dyn Diagnostic) -> Vec<&dyn Diagnostic> {
    match of.related() {
        Some(all) => all.flat_map(|one| std::iter::once(one).chain(related(one))).collect(),
        None => of.diagnostic_source().map(related).unwrap_or_default(),
    }
}

/// A diagnostic without control characters.
#[derive(Debug)]
struct Plain<'a> {
    of: &'a dyn Diagnostic,
    message: String,
    cause: Option<Box<Plain<'a>>>,
    source: Option<Box<PlainError>>,
}

/// An error without a place.
#[derive(Debug)]
struct PlainError {
    message: String,
    source: Option<Box<PlainError>>,
}

impl<'a> Plain<'a> {
    fn of(of: &'a dyn Diagnostic) -> Self {
        let cause = of.diagnostic_source().map(|cause| Box::new(Self::of(cause)));
        let source = if cause.is_none() { of.source().map(PlainError::of).map(Box::new) } else { None };
        Self { of, message: plain(&of.to_string()), cause, source }
    }

    fn causes(&self) -> Vec<String> {
        let inner = self.cause.as_ref().map(|cause| [vec![cause.message.clone()], cause.causes()].concat());
        let plain = std::iter::successors(self.source.as_ref(), |error| error.source.as_ref());
        inner.unwrap_or_else(|| plain.map(|error| error.message.clone()).collect())
    }
}

impl PlainError {
    fn of(error: &dyn Error) -> Self {
        Self { message: plain(&error.to_string()), source: error.source().map(Self::of).map(Box::new) }
    }
}

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Plain<'_> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &dyn Error)
    }
}

impl Diagnostic for Plain<'_> {
    fn severity(&self) -> Option<Severity> {
        self.of.severity()
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.of.help().map(|help| Box::new(plain(&help.to_string())) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.of.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.of.labels()
    }

    fn diagnostic_source(&self) -> Option<&dyn Diagnostic> {
        self.cause.as_ref().map(|cause| &**cause as &dyn Diagnostic)
    }
}

impl fmt::Display for PlainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for PlainError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &dyn Error)
    }
}

//! Errors and warnings about an input, with place, expectation and fix.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use miette::{LabeledSpan, SourceCode};

use crate::excerpt::Excerpt;
use crate::plain::plain;

/// A text and its name. Cheap to clone.
#[derive(Clone)]
pub struct Source {
    name: Arc<str>,
    text: Arc<str>,
}

impl Source {
    /// Returns a source called `name`, usually a path.
    pub fn new(name: &str, text: &str) -> Self {
        Self { name: plain(name).into(), text: text.into() }
    }

    /// Returns the source of a file's text.
    ///
    /// # Errors
    /// If the file is not UTF-8.
    pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(name, text)),
            Err(wrong) => {
                // The lossy text has the same bytes up to here.
                let at = wrong.valid_up_to();
                let source = Self::new(name, &String::from_utf8_lossy(bytes));
                Err(Error::new(&source, "the file is not UTF-8 text")
                    .at(at..at + 1, "this byte cannot be there")
                    .with_help("is it compressed, or saved in another encoding? convert it to UTF-8"))
            }
        }
    }

    /// Returns the name, without control characters.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the whole text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns an error at these bytes of the text.
    ///
    /// ```
    /// let source = vruntime_workload::Source::new("machine.toml", "hz = 0\n");
    /// let error = source.error_at(5..6, "no ticks at all", "expected 1 to 10000", "write hz = 250");
    /// assert_eq!(error.location(), Some((1, 6)));
    /// ```
    pub fn error_at(&self, span: Range<usize>, message: &str, label: &str, help: &str) -> Error {
        Error::new(self, message).at(span, label).with_help(help)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text may have megabytes.
        f.debug_tuple("Source").field(&self.name()).finish()
    }
}

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The input is used, but has a probable mistake.
    Warning,
    /// The input cannot be used.
    Error,
}

/// A problem of an input, with its place and related problems.
///
/// Printed as a [`miette::Diagnostic`], it shows file, line and caret. Others use [`location`](Self::location),
/// [`message`](Self::message), [`label`](Self::label) and [`help`](Self::help).
///
/// ```
/// let error = vruntime_workload::rtapp::parse("web.json", b"{ \"tasks\" : 3 }", &Default::default()).unwrap_err();
/// assert_eq!(error.location(), Some((1, 13)));
/// assert_eq!(error.to_string(), "`tasks` is a number");
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.message)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    severity: Severity,
    source: Source,
    span: Option<Range<usize>>,
    /// Made when first shown.
    excerpt: OnceLock<Excerpt>,
    message: String,
    label: String,
    help: Option<String>,
    related: Vec<Error>,
}

impl Error {
    /// Returns an error without a place, which [`at`](Self::at) adds.
    pub fn new(source: &Source, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            severity: Severity::Error,
            source: source.clone(),
            span: None,
            excerpt: OnceLock::new(),
            message: plain(&message.into()),
            label: String::new(),
            help: None,
            related: Vec::new(),
        }))
    }

    /// Adds the place in bytes, and what was expected there.
    #[must_use]
    pub fn at(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        // A printer must be able to slice any span.
        let text = self.0.source.text();
        let mut start = span.start.min(text.len());
        let mut end = span.end.clamp(start, text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        while !text.is_char_boundary(end) {
            end += 1;
        }
        self.0.span = Some(start..end);
        self.0.excerpt = OnceLock::new();
        self.0.label = plain(&label.into());
        self
    }

    /// Adds how to fix it.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(plain(&help.into()));
        self
    }

    /// Makes it a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.0.severity = Severity::Warning;
        self
    }

    /// Returns the first error, with the others as its [`related`](Self::related).
    pub(crate) fn bundle(errors: Vec<Self>) -> Option<Self> {
        let mut errors = errors.into_iter();
        let mut first = errors.next()?;
        first.0.related.extend(errors);
        Some(first)
    }

    /// Returns the severity.
    pub fn severity(&self) -> Severity {
        self.0.severity
    }

    /// Returns what was found.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns what was expected there, or nothing.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// Returns how to fix it.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// Returns the source.
    pub fn source_text(&self) -> &Source {
        &self.0.source
    }

    /// Returns the place, in bytes of the text.
    pub fn span(&self) -> Option<Range<usize>> {
        self.0.span.clone()
    }

    /// Returns line and column, both from 1, columns in characters.
    pub fn location(&self) -> Option<(usize, usize)> {
        let before = &self.0.source.text()[..self.0.span.as_ref()?.start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
        Some((line, column))
    }

    fn excerpt(&self) -> Option<&Excerpt> {
        let span = self.0.span.as_ref()?;
        Some(self.0.excerpt.get_or_init(|| Excerpt::new(self.0.source.name(), self.0.source.text(), span)))
    }

    /// Returns other problems of the same input.
    pub fn related(&self) -> &[Error] {
        &self.0.related
    }

    /// Returns this problem and the related ones.
    pub fn all(&self) -> impl Iterator<Item = &Error> {
        std::iter::once(self).chain(&self.0.related)
    }
}

impl miette::Diagnostic for Error {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.0.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.0.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.excerpt().map(|excerpt| excerpt as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = Some(self.0.label.clone()).filter(|label| !label.is_empty());
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(label, self.excerpt()?.mark()))))
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        let related = self.0.related.iter().map(|error| error as &dyn miette::Diagnostic);
        (!self.0.related.is_empty()).then(|| Box::new(related) as Box<dyn Iterator<Item = _>>)
    }
}

/// Errors, and warnings, kept of a file. Hostile files may have one per byte.
const KEPT: usize = 100;

/// The problems of a text.
#[derive(Debug)]
pub(crate) struct Problems {
    pub(crate) source: Source,
    strict: bool,
    errors: Vec<Error>,
    warnings: Vec<Error>,
}

impl Problems {
    pub(crate) fn new(source: Source, strict: bool) -> Self {
        Self { source, strict, errors: Vec::new(), warnings: Vec::new() }
    }

    pub(crate) fn new_error(&self, span: Range<usize>, message: impl Into<String>, label: impl Into<String>) -> Error {
        Error::new(&self.source, message).at(span, label)
    }

    pub(crate) fn error(&mut self, error: Error) {
        if self.errors.len() < KEPT {
            self.errors.push(error);
        }
    }

    /// Adds a warning, or an error if strict.
    pub(crate) fn warn(&mut self, error: Error) {
        if self.strict {
            self.error(error);
        } else if self.warnings.len() < KEPT {
            self.warnings.push(error.warning());
        }
    }

    /// If strict, builds and adds an error. Otherwise does nothing.
    pub(crate) fn tolerate(&mut self, build: impl FnOnce(&Self) -> Error) {
        if self.strict {
            let error = build(self);
            self.error(error);
        }
    }

    /// Whether another warning would be dropped.
    pub(crate) fn is_full(&self) -> bool {
        (if self.strict { &self.errors } else { &self.warnings }).len() >= KEPT
    }

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns the warnings in the order of the text, or the errors.
    pub(crate) fn finish(mut self) -> Result<Vec<Error>, Error> {
        let place = |error: &Error| error.0.span.as_ref().map_or(0, |span| span.start);
        self.errors.sort_by_key(place);
        self.warnings.sort_by_key(place);
        match Error::bundle(self.errors) {
            Some(error) => Err(error),
            None => Ok(self.warnings),
        }
    }
}

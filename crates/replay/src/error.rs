//! Errors of replays.

use std::fmt;

use miette::{Diagnostic, LabeledSpan, SourceCode};
use vruntime_sim::plan;
use vruntime_trace::read;

/// Why a recording cannot be replayed. [`help`](Self::help) says how to fix it. Errors in a text (rules, groups, a
/// machine's description) have their [place](Self::in_text).
///
/// Printed as a [`miette::Diagnostic`], it shows file, line and caret.
///
/// ```
/// let error = vruntime_replay::Recording::open("no-such-trace.dat", &Default::default()).unwrap_err();
/// assert!(error.to_string().starts_with("cannot read no-such-trace.dat: "));
/// ```
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
enum Inner {
    /// A message.
    Plain { message: String, help: Option<String> },
    /// An unreadable trace.
    Read { name: String, error: read::Error },
    /// A run cannot be planned. Has the place in a text.
    Plan(plan::Error, Option<vruntime_workload::Error>),
    /// An error in a text.
    Text(vruntime_workload::Error),
    /// The machine rejects the programs. Has the place of the rule.
    Refused(vruntime_sim::Error, Option<vruntime_workload::Error>),
}

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(Box::new(Inner::Plain { message: message.into(), help: None }))
    }

    pub(crate) fn with_help(mut self, text: impl Into<String>) -> Self {
        if let Inner::Plain { help, .. } = &mut *self.0 {
            *help = Some(text.into());
        }
        self
    }

    pub(crate) fn read(name: &str, error: read::Error) -> Self {
        Self(Box::new(Inner::Read { name: name.to_owned(), error }))
    }

    /// `rule`: the error at the rule that causes it.
    pub(crate) fn refused(error: vruntime_sim::Error, rule: Option<vruntime_workload::Error>) -> Self {
        Self(Box::new(Inner::Refused(error, rule)))
    }

    /// Returns how to fix it.
    pub fn help(&self) -> Option<String> {
        if let Some(error) = self.in_text() {
            return error.help().map(str::to_owned);
        }
        match &*self.0 {
            Inner::Plain { help, .. } => help.clone(),
            Inner::Read { error, .. } => error.help().map(str::to_owned),
            Inner::Plan(error, _) => Some(error.help()),
            Inner::Refused(error, _) => error.help(),
            Inner::Text(_) => None,
        }
    }

    /// Returns the error with its place in a text.
    pub fn in_text(&self) -> Option<&vruntime_workload::Error> {
        match &*self.0 {
            Inner::Text(error) | Inner::Plan(_, Some(error)) | Inner::Refused(_, Some(error)) => Some(error),
            _ => None,
        }
    }

    /// Returns the error of a plan.
    pub fn plan(&self) -> Option<&plan::Error> {
        if let Inner::Plan(error, _) = &*self.0 { Some(error) } else { None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Inner::Plain { message, .. } => f.write_str(message),
            Inner::Read { name, error } => write!(f, "cannot read {name}: {error}"),
            Inner::Text(error) | Inner::Refused(_, Some(error)) => error.fmt(f),
            Inner::Plan(error, _) => error.fmt(f),
            Inner::Refused(error, None) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<vruntime_workload::Error> for Error {
    fn from(error: vruntime_workload::Error) -> Self {
        Self(Box::new(Inner::Text(error)))
    }
}

impl From<plan::Error> for Error {
    fn from(error: plan::Error) -> Self {
        let text = error
            .place()
            .map(|place| place.source.error_at(place.span.clone(), &error.to_string(), place.label, &error.help()));
        Self(Box::new(Inner::Plan(error, text)))
    }
}

impl Diagnostic for Error {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.in_text()?.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.in_text()?.labels()
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Diagnostic::related(self.in_text()?)
    }
}

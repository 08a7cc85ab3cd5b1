//! Errors and warnings as they are shown: every one passes here, whoever made it, and what it quotes of a file is fit
//! for a terminal and not longer than people read.

use std::error::Error;
use std::fmt;

use miette::{Diagnostic, LabeledSpan, MietteHandlerOpts, ReportHandler, Severity, SourceCode};
use vruntime_workload::plain;

/// The report as it is printed.
pub(crate) fn text(report: &miette::Report) -> String {
    struct Printed<'a>(Plain<'a>, Box<dyn ReportHandler>);
    impl fmt::Display for Printed<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.1.debug(&self.0, f)
        }
    }
    Printed(Plain::of(report.as_ref()), Box::new(MietteHandlerOpts::new().build())).to_string()
}

/// A diagnostic whose words are plain.
#[derive(Debug)]
struct Plain<'a> {
    of: &'a dyn Diagnostic,
    message: String,
    cause: Option<Box<Plain<'a>>>,
    source: Option<Box<PlainError>>,
    related: Vec<Plain<'a>>,
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
        let related = of.related().into_iter().flatten().map(Self::of).collect();
        Self { of, message: plain(&of.to_string()), cause, source, related }
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

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        (!self.related.is_empty()).then(|| Box::new(self.related.iter().map(|one| one as &dyn Diagnostic)) as Box<_>)
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

//! Errors and warnings as they are shown: every one passes here, whoever made it, and what it quotes of a file is fit
//! for a terminal and not longer than people read.

use std::error::Error;
use std::fmt;

use miette::{Diagnostic, LabeledSpan, MietteDiagnostic, MietteHandlerOpts, ReportHandler, Severity, SourceCode};
use vruntime_workload::plain;

/// What is wrong, and what mends it, if anything is known that does.
pub(crate) fn with_help(wrong: impl fmt::Display, help: Option<&str>) -> miette::Report {
    MietteDiagnostic { help: help.map(str::to_owned), ..MietteDiagnostic::new(wrong.to_string()) }.into()
}

/// The report as it is printed, and all that are [related](Diagnostic::related) to it below it, each as if it were
/// alone: miette would put `Error:` on a line of its own before each of them.
pub(crate) fn text(report: &miette::Report) -> String {
    struct Printed<'a>(Plain<'a>, &'a dyn ReportHandler);
    impl fmt::Display for Printed<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.1.debug(&self.0, f)
        }
    }
    let handler = MietteHandlerOpts::new().build();
    let mut all = vec![report.as_ref()];
    all.extend(related(report.as_ref()));
    let texts: Vec<String> = all.into_iter().map(|one| Printed(Plain::of(one), &handler).to_string()).collect();
    texts.join("\n")
}

/// All that are related to it, or to what it wraps, and to those in turn.
fn related(of: &dyn Diagnostic) -> Vec<&dyn Diagnostic> {
    match of.related() {
        Some(all) => all.flat_map(|one| std::iter::once(one).chain(related(one))).collect(),
        None => of.diagnostic_source().map(related).unwrap_or_default(),
    }
}

/// A diagnostic whose words are plain.
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

//! `--html FILE`: pages of results.

use std::path::Path;

use vruntime_report::{
    Analyses, AnalysisKind, AnalysisOptions, Comparison, Page, ReplayCheck, ReplayRun, Results, TableGroup,
};

use super::compared_trace::Checked;
use super::notes::Notes;
use crate::output_paths;
use crate::simulate::Done;

/// Adds the analyses of pages to the requested ones.
pub(crate) fn watch(asked: Option<(Vec<AnalysisKind>, AnalysisOptions)>) -> (Vec<AnalysisKind>, AnalysisOptions) {
    let (mut kinds, options) = asked.unwrap_or_default();
    kinds.extend(AnalysisKind::USUAL);
    kinds.retain(|kind| *kind != AnalysisKind::TimeHist);
    (kinds, options)
}

/// Returns [`watch`] for a replay.
pub(crate) fn watch_replayed() -> (Vec<AnalysisKind>, AnalysisOptions) {
    let (kinds, options) = watch(None);
    (kinds, AnalysisOptions { replayed: true, ..options })
}

/// Returns a file's name without folders.
pub(crate) fn short(file: &Path) -> String {
    file.file_name().map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The most notes in a summary; others are folded.
const MOST_NOTES: usize = 3;

pub(crate) fn write(page: &Page, path: &Path) -> miette::Result<()> {
    output_paths::write(path, &page.html())
}

fn charts(page: &mut Page, runs: &[(String, &Analyses)]) {
    for (label, analyses) in runs {
        page.run(label, analyses);
    }
}

/// Returns the page of a run; of several seeds, the first.
pub(crate) fn run_page(name: &str, lead: &str, done: &Done) -> Page {
    let mut page = Page::new(name, lead.trim().replace('\n', ", "));
    let analyses = done.analyses.as_deref();
    let groups = done.results.group_sentences();
    let waits = analyses.map_or_else(Vec::new, Analyses::sentences);
    for sentence in groups.into_iter().chain(waits).chain(done.results.busy_sentence()) {
        page.say(sentence);
    }
    if let Some(detected) = &done.detected {
        for violation in detected.violations.iter().take(8) {
            page.say(violation.to_string());
        }
    }
    for note in done.outcome.notes.iter().cloned().chain(analyses.map_or_else(Vec::new, Analyses::notes)) {
        page.say(note);
    }
    page.bars(done.results.share_bars());
    let runs: Vec<(String, &Analyses)> = analyses.map(|analyses| (name.to_owned(), analyses)).into_iter().collect();
    charts(&mut page, &runs);
    if let Some(series) = &done.series {
        let table = series.table();
        let title = table.title.clone();
        let sub = "The state of the machine at regular times (--every).".to_owned();
        page.tables(TableGroup { title, sub, tables: vec![(String::new(), table)] });
    }
    results(&mut page, &[(String::new(), &done.results)]);
    page.analyses(&runs);
    page
}

/// Adds the tables of several runs, grouped by kind.
fn results(page: &mut Page, runs: &[(String, &Results)]) {
    let mut groups: Vec<TableGroup> = Vec::new();
    for (label, results) in runs {
        for table in results.tables() {
            match groups.iter_mut().find(|group| group.title == table.title) {
                Some(group) => group.tables.push((label.clone(), table)),
                None => groups.push(TableGroup {
                    title: table.title.clone(),
                    sub: String::new(),
                    tables: vec![(label.clone(), table)],
                }),
            }
        }
    }
    for group in groups {
        page.tables(group);
    }
}

/// Returns the page of a comparison of all seeds, with the first run of each side.
pub(crate) fn compare_page(
    lead: &str,
    comparison: &Comparison,
    runs: &[(String, &Done)],
    checks: &[Checked<'_>],
) -> Page {
    let labels: Vec<&str> = comparison.variants().iter().map(|variant| variant.label.as_str()).collect();
    let mut page = Page::new(labels.join(" against "), lead);
    comparison.sentences().into_iter().for_each(|sentence| page.say(sentence));
    for check in checks {
        page.say(check.summary_of(&short(check.file())));
        check.damage().into_iter().for_each(|what| page.say(what));
    }
    for (label, done) in runs {
        say_of(&mut page, label, done.results.busy_sentence(), done.analyses.as_deref());
        done.outcome.notes.iter().for_each(|note| page.fold(format!("{label}: {note}")));
    }
    let watched: Vec<(String, &Analyses)> =
        runs.iter().filter_map(|(label, done)| Some((label.clone(), done.analyses.as_deref()?))).collect();
    for (label, done) in runs {
        let mut bars = done.results.share_bars();
        bars.label.clone_from(label);
        page.bars(bars);
    }
    charts(&mut page, &watched);
    let sub = "Means over the seeds, with half the range. Tasks that differ are first, ordered by CPU time.".to_owned();
    page.tables(TableGroup {
        title: "What differs".to_owned(),
        sub,
        tables: vec![(String::new(), comparison.page_table())],
    });
    let all: Vec<(String, &Results)> = runs.iter().map(|(label, done)| (label.clone(), &done.results)).collect();
    results(&mut page, &all);
    page.analyses(&watched);
    page
}

/// Adds a run's CPU use, and the first sentence of its analyses.
fn say_of(page: &mut Page, label: &str, busy: Option<String>, analyses: Option<&Analyses>) {
    let first = analyses.and_then(|analyses| analyses.sentences().into_iter().next());
    for sentence in busy.into_iter().chain(first) {
        page.say(format!("{label}: {sentence}"));
    }
}

/// The runs of a replay, and their labels.
const REPLAYED: [(ReplayRun, &str); 3] =
    [(ReplayRun::Recorded, "recorded"), (ReplayRun::Replayed, "replayed"), (ReplayRun::WhatIf, "what if")];

/// `watched`: the recording, and each run.
pub(crate) fn replay_page(
    title: &str,
    lead: &str,
    check: &ReplayCheck,
    notes: &Notes,
    watched: [Option<&Analyses>; 3],
) -> Page {
    let mut page = Page::new(title, lead);
    page.say(check.verdict_line());
    if let Some(sentence) = check.what_if_sentence() {
        page.say(sentence.replacen("stands out", "stands out in the what-if", 1));
    }
    if check.what_if_cpus.is_none() {
        check.group_sentences().into_iter().for_each(|sentence| page.say(sentence));
    }
    page.say(check.summary());
    for ((run, label), analyses) in REPLAYED.into_iter().zip(watched) {
        say_of(&mut page, label, check.busy_sentence(run), analyses);
    }
    let called = REPLAYED.into_iter().zip(watched);
    let watched: Vec<(String, &Analyses)> =
        called.filter_map(|((_, label), analyses)| Some((label.to_owned(), analyses?))).collect();
    let (grave, rest) = notes.all.split_at(notes.grave.min(MOST_NOTES));
    for note in grave {
        page.say(note.as_str());
    }
    for note in rest {
        page.fold(note.as_str());
    }
    for bars in check.share_bars() {
        page.bars(bars);
    }
    charts(&mut page, &watched);
    for table in check.page_tables() {
        let title = table.title.clone();
        page.tables(TableGroup { title, sub: String::new(), tables: vec![(String::new(), table)] });
    }
    page.analyses(&watched);
    page
}

pub(crate) fn trace_page(file: &Path, analyses: &Analyses) -> Page {
    let mut page = Page::new(short(file), "Analyses of the events of this trace.");
    for sentence in analyses.busy_sentence().into_iter().chain(analyses.sentences()) {
        page.say(sentence);
    }
    for (index, note) in analyses.notes().into_iter().enumerate() {
        let note = format!("Note: {note}.");
        if index < MOST_NOTES { page.say(note) } else { page.fold(note) }
    }
    let runs = [(short(file), analyses)];
    charts(&mut page, &runs);
    page.analyses(&runs);
    page
}

//! `vruntime man`: a man page for each command, from its help.

use std::io;
use std::path::Path;

use clap::CommandFactory;
use miette::IntoDiagnostic;

use crate::Ended;
use crate::args::{Arguments, Man};
use crate::output_file;

pub(crate) fn man(man: &Man) -> miette::Result<Ended> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    pages(&command, &man.folder).into_diagnostic()?;
    Ok(Ended::Well)
}

/// Writes the page of a command, and those of its subcommands.
fn pages(command: &clap::Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        pages(below, folder)?;
    }
    let page = clap_mangen::Man::new(command.clone()).source(concat!("vruntime ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    output_file::write(&folder.join(page.get_filename()), laid_out(&String::from_utf8_lossy(&text)).as_bytes())
}

/// Lays out indented lines of the help, which man would join and fill.
///
/// `  NAME  TEXT` becomes a tagged paragraph. At the end of the page, a line with a colon before such lines becomes the
/// heading of a section.
fn laid_out(page: &str) -> String {
    const EXTRA: &str = ".SH EXTRA";
    let lines: Vec<&str> = page.lines().collect();
    let is_indented = |at: usize| lines.get(at).is_some_and(|line: &&str| line.starts_with("  "));
    // A heading is made upper-case. Options must keep their case, so a line that starts with one is no heading.
    let is_word = |line: &str| line.starts_with(|first: char| first.is_ascii_uppercase());
    let is_head = |at: usize| lines[at].ends_with(':') && is_word(lines[at]) && is_indented(at + 1);
    let start = lines.iter().position(|line| *line == EXTRA).unwrap_or(lines.len());
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let next = at + 1;
        if *line == EXTRA {
            if next < lines.len() && !is_head(next) {
                text.push_str(".SH NOTES\n");
            }
        } else if at > start && is_head(at) {
            text.extend([".SH ", &line.trim_end_matches(':').to_uppercase(), "\n"]);
        } else if let Some(entry) = line.strip_prefix("  ").filter(|entry| !entry.starts_with(' ')) {
            let (tag, rest) = entry.split_once("  ").unwrap_or((entry, ""));
            let escape = if tag.starts_with(['.', '\'']) { "\\&" } else { "" };
            text.extend([".TP\n", escape, tag, "\n"]);
            if !rest.is_empty() {
                text.extend([rest.trim_start(), "\n"]);
            }
        } else if is_indented(at) {
            // A continuation of the entry above.
            text.extend([line.trim_start(), "\n"]);
        } else if line.is_empty() {
            // `.SH` and `.TP` make an empty line themselves.
            if next < lines.len() && !is_indented(next) && !lines[next].starts_with('.') && !is_head(next) {
                text.push_str(".PP\n");
            }
        } else {
            if at > 0 && is_indented(at - 1) && !line.starts_with('.') {
                text.push_str(".PP\n");
            }
            text.extend([*line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_help_are_tagged_paragraphs() {
        let page = ".SH DESCRIPTION\nPrints this.\n.PP\n  CPU %  time on a CPU\n  wait %  time without\n         a CPU\nAnd more.\n\
                    .SH EXTRA\nExamples:\n  vruntime run web.json\n  .hidden  a file\n\nExit status:\n  0    success\n.SH VERSION\n1\n";
        let expected = ".SH DESCRIPTION\nPrints this.\n.PP\n.TP\nCPU %\ntime on a CPU\n.TP\nwait %\ntime without\na CPU\n.PP\nAnd more.\n\
                        .SH EXAMPLES\n.TP\nvruntime run web.json\n.TP\n\\&.hidden\na file\n.SH EXIT STATUS\n.TP\n0\nsuccess\n.SH VERSION\n1\n";
        assert_eq!(laid_out(page), expected);
        assert_eq!(laid_out(".SH EXTRA\nSee the page.\n"), ".SH NOTES\nSee the page.\n");
        let option = laid_out(".SH EXTRA\nExamples:\n  vruntime\n\n\\-\\-out DIR writes:\n  digest  a digest\n");
        assert_eq!(option, ".SH EXAMPLES\n.TP\nvruntime\n.PP\n\\-\\-out DIR writes:\n.TP\ndigest\na digest\n");
    }

    /// Each command has a page, and no page has lines that man would fill.
    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        man(&Man { folder: folder.path().join("new") }).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join("new").join(name)).unwrap();
        for name in ["vruntime.1", "vruntime-run.1", "vruntime-trace-analyse.1"] {
            let page = read(name);
            assert!(page.contains("\n.SH NAME\n") && page.contains("\"vruntime "), "{page}");
            assert!(!page.lines().any(|line| line.starts_with("  ")) && !page.contains("EXTRA"), "{page}");
        }
        assert!(read("vruntime.1").contains("\n.SH EXIT STATUS\n.TP\n0\nsuccess\n"), "{}", read("vruntime.1"));
        // Hidden commands have none.
        assert!(!folder.path().join("new/vruntime-man.1").exists());
        let file = folder.path().join("new/vruntime.1");
        let error = man(&Man { folder: file }).unwrap_err();
        assert!(error.to_string().starts_with("cannot write ") && error.to_string().ends_with(".1"), "{error}");
    }
}

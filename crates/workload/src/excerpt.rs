//! The lines shown around an error. Long lines are cut: a file without line breaks must not fill the screen, nor exceed
//! miette's columns (65535).

use std::ops::Range;

use miette::{MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents};

use crate::plain::visible;

/// Lines of at most this number of characters are shown whole.
const LONGEST: usize = 200;

/// Of a longer line, at most these numbers of characters are shown: before the mark, of the mark, and in total.
const BEFORE: usize = 40;
const MARK: usize = 60;
const ALL: usize = 120;

/// If the mark has more lines, only the first is shown.
const LINES: usize = 12;

/// Replaces omitted parts of a line.
const MORE: &str = "\u{2026}";

#[derive(Clone, Debug)]
pub(crate) struct Excerpt {
    name: String,
    shown: String,
    /// In bytes of `shown`.
    mark: Range<usize>,
    /// Numbers of the first shown line and of the mark's line, from 0.
    first: usize,
    line: usize,
    /// In characters from 0.
    column: usize,
}

impl Excerpt {
    /// `span` is on character boundaries.
    pub(crate) fn new(name: &str, text: &str, span: &Range<usize>) -> Self {
        let start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let line = text[..start].bytes().filter(|byte| *byte == b'\n').count();
        let mut excerpt = Self {
            name: name.to_owned(),
            shown: String::new(),
            mark: 0..0,
            first: line,
            line,
            column: text[start..span.start].chars().count(),
        };
        if start > 0 {
            excerpt.first -= 1;
            let before = &text[..start - 1];
            excerpt.context(&before[before.rfind('\n').map_or(0, |at| at + 1)..]);
            excerpt.shown.push('\n');
        }
        let end = if let Some(end) = end_of_lines(text, start, span) {
            excerpt.whole(text, start..end, span.clone());
            end
        } else {
            let end = text[span.start..].find('\n').map_or(text.len(), |at| span.start + at);
            excerpt.window(text, start..end, span.start..span.end.min(end));
            end
        };
        if let Some(after) = text[end..].strip_prefix('\n').filter(|after| !after.is_empty()) {
            excerpt.shown.push('\n');
            excerpt.context(after.split('\n').next().unwrap_or(after));
        }
        if excerpt.mark.start == excerpt.shown.len() {
            // Printers only mark positions in a line, with its line break.
            excerpt.shown.push('\n');
        }
        excerpt
    }

    pub(crate) fn mark(&self) -> SourceSpan {
        (self.mark.start, self.mark.len()).into()
    }

    /// Adds a neighbouring line.
    fn context(&mut self, line: &str) {
        let whole = line.char_indices().nth(LONGEST).is_none();
        let end = line.char_indices().nth(ALL).filter(|_| !whole).map_or(line.len(), |(at, _)| at);
        self.push(&line[..end]);
        if end < line.len() {
            self.shown.push_str(MORE);
        }
    }

    /// Adds lines that are short enough.
    fn whole(&mut self, text: &str, lines: Range<usize>, mark: Range<usize>) {
        self.push(&text[lines.start..mark.start]);
        self.push_mark(&text[mark.clone()]);
        self.push(&text[mark.end..lines.end]);
    }

    /// Adds the part of a long line near the mark.
    fn window(&mut self, text: &str, line: Range<usize>, mark: Range<usize>) {
        let (before, marked, after) = (&text[line.start..mark.start], &text[mark.clone()], &text[mark.end..line.end]);
        let from = before.char_indices().rev().nth(BEFORE - 1).map_or(0, |(at, _)| at);
        if from > 0 {
            self.shown.push_str(MORE);
        }
        self.push(&before[from..]);
        let to = marked.char_indices().nth(MARK).map_or(marked.len(), |(at, _)| at);
        self.push_mark(&marked[..to]);
        let used = before[from..].chars().count() + marked[..to].chars().count();
        let rest = if to < marked.len() { "" } else { after };
        let end = rest.char_indices().nth(ALL - used).map_or(rest.len(), |(at, _)| at);
        self.push(&rest[..end]);
        if to < marked.len() || end < after.len() {
            self.shown.push_str(MORE);
        }
    }

    fn push_mark(&mut self, text: &str) {
        let start = self.shown.len();
        self.push(text);
        self.mark = start..self.shown.len();
    }

    /// Neutralises control characters of hostile files.
    fn push(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n");
        let text = text.strip_suffix('\r').unwrap_or(&text);
        self.shown.extend(text.chars().map(|c| if c == '\n' || c == '\t' { c } else { visible(c) }));
    }
}

/// Returns the end of the span's last line, if all its lines can be shown whole.
fn end_of_lines(text: &str, start: usize, span: &Range<usize>) -> Option<usize> {
    // A trailing line break does not begin another line.
    let last = if text[span.clone()].ends_with('\n') { span.end - 1 } else { span.end };
    let short = |line: &str| line.char_indices().nth(LONGEST).is_none();
    let mut end = start;
    for _ in 0..LINES {
        let line = text[end..].split('\n').next()?;
        if !short(line) {
            return None;
        }
        end += line.len();
        if end >= last {
            return Some(end.max(span.end));
        }
        end += 1;
    }
    None
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        _after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let marked = self.shown.as_bytes().get(span.offset()..span.offset() + span.len());
        let marked = marked.ok_or(MietteError::OutOfBounds)?;
        let (name, lines) = (self.name.clone(), self.shown.matches('\n').count());
        // With 0 lines of context, miette requests a span's position. There is one mark.
        let contents = if before == 0 {
            MietteSpanContents::new_named(name, marked, *span, self.line, self.column, lines)
        } else {
            MietteSpanContents::new_named(
                name,
                self.shown.as_bytes(),
                (0, self.shown.len()).into(),
                self.first,
                0,
                lines,
            )
        };
        Ok(Box::new(contents))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shown lines, with the mark in angle brackets.
    fn shown(text: &str, span: Range<usize>) -> String {
        let excerpt = Excerpt::new("x", text, &span);
        let (before, rest) = excerpt.shown.split_at(excerpt.mark.start);
        let (mark, after) = rest.split_at(excerpt.mark.len());
        format!("{before}<{mark}>{after}")
    }

    #[test]
    fn short_lines_are_shown_with_their_neighbours() {
        assert_eq!(shown("one\r\ntwo\r\nthree\nfour", 6..7), "one\nt<w>o\nthree");
        assert_eq!(shown("one", 0..3), "<one>");
        assert_eq!(shown("", 0..0), "<>\n");
        assert_eq!(shown("one\n", 3..3), "one<>\n");
        assert_eq!(shown("one\n", 4..4), "one\n<>\n");
        assert_eq!(shown("a = [\n1,\n2]\nb", 4..11), "a = <[\n1,\n2]>\nb");
    }

    #[test]
    fn long_lines_are_shown_near_the_mark() {
        let line = "x".repeat(50_000) + "MARK" + &"y".repeat(50_000);
        assert_eq!(shown(&line, 50_000..50_004), format!("…{}<MARK>{}…", "x".repeat(40), "y".repeat(76)));
        assert_eq!(shown(&line, 0..1), format!("<x>{}…", "x".repeat(119)));
        assert_eq!(shown(&line, 40..41), format!("{}<x>{}…", "x".repeat(40), "x".repeat(79)));
        assert_eq!(shown(&line, 100_003..100_004), format!("…{}<y>", "y".repeat(40)));
        assert_eq!(shown(&line, 100_004..100_004), format!("…{}<>\n", "y".repeat(40)));
        assert_eq!(shown(&line, 10..90_000), format!("{}<{}>…", "x".repeat(10), "x".repeat(60)));
        // Long neighbouring lines are cut, too.
        let beside = format!("{line}\nshort\n{line}");
        assert_eq!(shown(&beside, 100_005..100_006), format!("{0}…\n<s>hort\n{0}…", "x".repeat(120)));
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let line = "\u{e9}\u{20ac}\u{1f600}".repeat(20_000);
        for at in (0..line.len()).step_by(9) {
            let shown = shown(&line, at..at + 5);
            assert!(shown.contains("<\u{e9}\u{20ac}>") && shown.chars().count() <= 124, "{at}: {shown}");
        }
    }

    #[test]
    fn many_marked_lines_are_shown_by_the_first() {
        let text = format!("a = [\n{}]\n", "1,\n".repeat(100));
        assert_eq!(shown(&text, 4..text.len()), "a = <[>\n1,");
        let long = format!("a = [\n{}]\n", "1,".repeat(1000));
        assert_eq!(shown(&long, 4..long.len()), format!("a = <[>\n{}…", "1,".repeat(60)));
    }

    #[test]
    fn the_place_is_that_of_the_text() {
        let text = format!("{{\n{}\u{1f600}x", " ".repeat(100_000));
        let excerpt = Excerpt::new("x", &text, &(text.len() - 1..text.len()));
        let place = excerpt.read_span(&excerpt.mark(), 0, 0).expect("it is in there");
        assert_eq!((place.line() + 1, place.column() + 1, place.data()), (2, 100_002, &b"x"[..]));
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(shown("a\u{1b}[31m\n\tb\u{9b}c\u{7}\rd\u{202e}\u{e4}", 0..1), "<a>?[31m\n\tb\u{bf}c??d\u{bf}\u{e4}");
    }
}

//! The rules: words to avoid, and lengths.

use std::fmt;

use super::text::{Block, Kind, Source};

/// Most words of a sentence.
const SENTENCE: usize = 25;
/// Most words of a table's cell.
const CELL: usize = 20;
/// Most columns of a line of Markdown, except for table rows, headings, code, and single words.
const COLUMNS: usize = 100;
/// The measures count longer sentences.
const LONG: usize = 35;

/// Words to avoid, and advice. A space is any space.
const WORDS: &[(&str, &str)] = &[
    ("who", "name the subject"),
    ("whoever", "name the subject"),
    ("whom", "name the subject"),
    ("whomever", "name the subject"),
    ("somebody", "name the subject"),
    ("someone", "name the subject"),
    ("anybody", "name the subject"),
    ("anyone", "name the subject"),
    ("nobody", "name the subject"),
    ("everybody", "name the subject"),
    ("he", "name the subject"),
    ("him", "name the subject"),
    ("his", "name the subject"),
    ("told", "use an active verb with its subject: prints, reports, passes"),
    ("is said", "use an active verb with its subject"),
    ("is asked", "use an active verb with its subject"),
    ("are asked", "use an active verb with its subject"),
    ("is looked", "use an active verb with its subject"),
    ("are looked", "use an active verb with its subject"),
    ("held back", "the kernel says throttled"),
    ("holds back", "the kernel says throttled"),
    ("let go", "name the event: released, unthrottled, dequeued"),
    ("lets go", "name the event: releases, unthrottles, dequeues"),
    ("tied", "the kernel says pinned"),
    ("comes", "name the event: starts, wakes, arrives, is"),
    ("goes", "name the event: sleeps, ends, moves, is"),
    ("so many", "give the number: N, at most N"),
    ("so much", "give the number: N, at most N"),
    ("so long", "give the number: N ms"),
    ("if any", "write the condition first"),
    ("if at all", "write the condition first"),
    ("as it is", "say what is unchanged"),
    ("anew", "again"),
];

/// Phrases with such words that are right.
const EXCEPTIONS: &[&str] = &[
    // CPU hotplug has these words: `cpuhp_set_state`, /sys/devices/system/cpu/online.
    "goes offline",
    "goes online",
    "comes online",
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    /// The unit of the allowed numbers.
    pub(crate) unit: String,
    /// Relative to the project's root.
    pub(crate) path: String,
    /// From 1.
    pub(crate) line: usize,
    /// The violation, with advice.
    pub(crate) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

impl Source<'_> {
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut found: Vec<(usize, String)> = Vec::new();
        for block in &self.blocks {
            found.extend(words(block));
            if block.kind != Kind::Comment {
                found.extend(lengths(block));
            }
        }
        let lines = self.lines.iter().filter(|(_, line)| line.chars().count() > COLUMNS && line.trim().contains(' '));
        found.extend(lines.map(|(number, line)| {
            (*number, format!("{} columns, the most is {COLUMNS}: break the line", line.chars().count()))
        }));
        found.sort_by_key(|(line, _)| *line);
        let finding = |(line, what)| Finding { unit: self.unit.clone(), path: self.path.to_owned(), line, what };
        found.into_iter().map(finding).collect()
    }
}

/// By line.
fn words(block: &Block) -> Vec<(usize, String)> {
    let lower: String =
        block.text.chars().map(|c| if c.is_whitespace() { ' ' } else { c.to_ascii_lowercase() }).collect();
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '-');
    let mut found = Vec::new();
    for (word, advice) in WORDS {
        for (at, _) in lower.match_indices(word) {
            let after = lower[at + word.len()..].chars().next();
            let is_exception = EXCEPTIONS.iter().any(|phrase| lower[at..].starts_with(phrase));
            if !is_word(lower[..at].chars().next_back()) && !is_word(after) && !is_exception {
                found.push((block.line(at), format!("\"{word}\": {advice}")));
            }
        }
    }
    found
}

/// By line.
fn lengths(block: &Block) -> Vec<(usize, String)> {
    if block.kind == Kind::Cell {
        let words = count(&block.text);
        let cell = format!("{words} words in a cell, the most is {CELL}: move the rest below the table");
        return if words > CELL { vec![(block.line(0), cell)] } else { Vec::new() };
    }
    let sentences = sentences(&block.text).filter(|(_, sentence)| count(sentence) > SENTENCE);
    sentences
        .map(|(at, sentence)| {
            let start: Vec<&str> = sentence.split_whitespace().take(5).collect();
            let words = count(sentence);
            let what = format!("{words} words in \"{} …\", the most is {SENTENCE}: split it", start.join(" "));
            (block.line(at), what)
        })
        .collect()
}

fn count(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(|c: char| c.is_alphanumeric() || c == Block::CODE)).count()
}

/// With their positions.
fn sentences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut starts = vec![0];
    let mut before = None;
    let mut end = None;
    for (at, c) in text.char_indices() {
        match c {
            '.' if ends_abbreviation(&text[..at]) => end = None,
            '.' | '!' | '?' => end = Some(at),
            // Quotes and brackets follow the mark.
            ')' | '"' | '\'' | '”' | '*' if end.is_some() => {}
            c if c.is_whitespace() => {}
            c => {
                if end.is_some() && before.is_some_and(char::is_whitespace) && begins_sentence(c) {
                    starts.push(at);
                }
                end = None;
            }
        }
        before = Some(c);
    }
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([text.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| (start, &text[start..end])).filter(|(_, text)| count(text) > 0)
}

fn ends_abbreviation(before: &str) -> bool {
    ["e.g", "i.e", "vs", "cf", " No"].iter().any(|short| before.ends_with(short))
}

fn begins_sentence(c: char) -> bool {
    c.is_uppercase() || c.is_numeric() || matches!(c, Block::CODE | '(' | '[' | '"' | '“' | '`')
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Measure {
    words: usize,
    sentences: usize,
    in_sentences: usize,
    long: usize,
}

impl Measure {
    pub(crate) const HEAD: &'static str = "group     words  sentences  words/sentence  over 35 words";

    /// Adds a document's blocks. Tables and headings have words, but no sentences.
    pub(crate) fn add(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.words += count(&block.text);
            if block.kind != Kind::Prose {
                continue;
            }
            for (_, sentence) in sentences(&block.text) {
                let words = count(sentence);
                self.sentences += 1;
                self.in_sentences += words;
                self.long += usize::from(words > LONG);
            }
        }
    }

    pub(crate) fn row(&self, group: &str) -> String {
        let of = |part: usize| part as f64 / self.sentences.max(1) as f64;
        format!(
            "{group:8}{:7}  {:9}  {:14.1}  {:11.1} %",
            self.words,
            self.sentences,
            of(self.in_sentences),
            100.0 * of(self.long)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        Source::of(path, text).iter().flat_map(Source::findings).map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn words_are_found_with_their_line() {
        let text = "# Title\n\nThe task sleeps. Somebody\nwakes it, *if\nany*; `who` is code, and so is:\n\n```\nnobody\n```\n";
        assert_eq!(
            findings("docs/a.md", text),
            ["docs/a.md:3: \"somebody\": name the subject", "docs/a.md:4: \"if any\": write the condition first"]
        );
        assert_eq!(findings("docs/a.md", "A CPU goes offline."), [""; 0]);
        // An apostrophe is a quote, or the rest of the word is short for another.
        assert_eq!(findings("docs/a.md", "The rule 'who: what' is he's.").len(), 2);
        // Parts of words are other words.
        assert_eq!(findings("docs/a.md", "The whole theory untied his-story; the heat."), [""; 0]);
    }

    #[test]
    fn lengths_are_checked_at_their_edges() {
        let words = |count: usize| vec!["word"; count].join("\n");
        assert_eq!(findings("docs/a.md", &format!("{}. {}.", words(25), words(25).replacen('w', "W", 1))), [""; 0]);
        assert_eq!(
            findings("docs/a.md", &words(26)),
            ["docs/a.md:1: 26 words in \"word word word word word …\", the most is 25: split it"]
        );
        let cell = |count: usize| format!("| a | b |\n|---|---|\n| 1 | {} |\n", vec!["w"; count].join(" "));
        assert_eq!(findings("docs/a.md", &cell(20)), [""; 0]);
        assert_eq!(
            findings("docs/a.md", &cell(21)),
            ["docs/a.md:3: 21 words in a cell, the most is 20: move the rest below the table"]
        );
        let line = |count: usize| format!("Start.\n{} b\n", "a".repeat(count - 2));
        assert_eq!(findings("docs/a.md", &line(100)), [""; 0]);
        assert_eq!(findings("docs/a.md", &line(101)), ["docs/a.md:2: 101 columns, the most is 100: break the line"]);
        // Unbreakable lines may be longer.
        for long in
            [format!("# {}", "a ".repeat(20) + &"b".repeat(80)), "a".repeat(101), format!("```\n{}\n```", line(101))]
        {
            assert_eq!(findings("docs/a.md", &long), [""; 0], "{long}");
        }
    }

    /// Documentation, comments and names of tests are separate texts.
    #[test]
    fn rust_is_read() {
        let text = "\
//! Who runs.

/// Returns the task. `nobody`
/// is told.
fn get() {
    // Nobody waits.
    let text = \"somebody\";
}

#[test]
#[ignore]
fn whoever_wakes_is_told() {}
";
        assert_eq!(
            findings("crates/a/src/b.rs", text),
            [
                "crates/a/src/b.rs:1: \"who\": name the subject",
                "crates/a/src/b.rs:4: \"told\": use an active verb with its subject: prints, reports, passes",
                "crates/a/src/b.rs:6: \"nobody\": name the subject",
                "crates/a/src/b.rs:12: \"whoever\": name the subject",
                "crates/a/src/b.rs:12: \"told\": use an active verb with its subject: prints, reports, passes",
            ]
        );
        let units: Vec<String> = Source::of("crates/a/src/b.rs", text).into_iter().map(|source| source.unit).collect();
        assert_eq!(units, ["crates/a rustdoc", "crates/a comments", "crates/a names of tests", "crates/a messages"]);
    }

    /// Messages are string literals with three words in a row, outside tests. Their length is free.
    #[test]
    fn messages_are_read() {
        let text = r##"//! "who is it" in documentation is documentation.
fn get<'a>(c: char) -> &'a str {
    let quote = '"';
    let raw = r#"the task "who" waits"#;
    let names = "who";
    let long = "the task that \
                nobody wakes, `told` \"or\" not";
    "then somebody wakes it"
}

#[cfg(test)]
mod tests {
    const TEXT: &str = "nobody reads this text";
}
"##;
        let expected = [(1, "who"), (6, "nobody"), (8, "somebody")];
        assert_eq!(
            findings("crates/a/src/b.rs", text),
            expected.map(|(line, word)| format!("crates/a/src/b.rs:{line}: \"{word}\": name the subject"))
        );
        assert_eq!(findings("crates/a/src/b/tests.rs", "fn a() { b(\"somebody wakes it here\") }"), [""; 0]);
    }

    /// Comments of examples in documentation are comments.
    #[test]
    fn examples_are_read() {
        let text = "/// Returns it.\n///\n/// ```\n/// // Nobody waits.\n/// let a = 1;\n/// /// Whoever runs.\n/// ```\nfn a() {}\n";
        let expected = [(4, "nobody"), (6, "whoever")];
        assert_eq!(
            findings("crates/a/src/b.rs", text),
            expected.map(|(line, word)| format!("crates/a/src/b.rs:{line}: \"{word}\": name the subject"))
        );
    }

    #[test]
    fn python_and_pages_are_read() {
        let long = vec!["word"; 26].join(" ");
        let quotes = "\"\"\"";
        let text = format!(
            "{quotes}Who runs.{quotes}\n\n# Nobody waits.\ndef a():\n    {quotes}Returns ``who`` of it.\n\n    {long}\n    \
             {quotes}\n    raise E(\"of others nobody knows\")\n"
        );
        let found = findings("python/vruntime/_a.py", &text);
        let lines: Vec<&str> = found.iter().filter_map(|line| line.split(':').nth(1)).collect();
        assert_eq!(lines, ["1", "7", "3", "9"], "{found:?}");
        let units: Vec<String> =
            Source::of("python/vruntime/_a.py", &text).into_iter().map(|source| source.unit).collect();
        assert_eq!(units, ["docstrings", "comments", "messages"].map(|kind| format!("python/vruntime {kind}")));
        let script = "// Who runs.\nlet a = 'tasks that somebody wakes'; // nobody\nlet b = 'http://who';\n";
        assert_eq!(findings("crates/a/assets/page.js", script).len(), 3);
    }

    #[test]
    fn scenarios_are_read() {
        let text = "# Who runs.\nname = \"nobody\"\nrun = \"4ms\" # then somebody waits\n";
        let path = "scenarios/a.toml";
        let expected = [(1, "who"), (3, "somebody")];
        assert_eq!(
            findings(path, text),
            expected.map(|(line, word)| format!("{path}:{line}: \"{word}\": name the subject"))
        );
        assert_eq!(Source::of(path, text)[0].unit, "scenarios comments");
        // Other pages are no part of the measures.
        assert_eq!(Source::of("crates/sim/COSTS.md", "Text.")[0].group, None);
        assert_eq!(Source::of("docs/a.md", "Text.")[0].group, Some("docs"));
    }

    #[test]
    fn help_is_read() {
        let text = "---\nsource: he\n---\nRuns a\nworkload.\n\nOptions:\n      --seed <WHO>\n          Who draws\n\nUsage: he\n\
                    \n  run   Runs\n  stop  Nobody\n  vruntime run him\n";
        let path = "crates/cli/tests/snapshots/cli__help-run.snap";
        let expected = [(9, "who"), (14, "nobody")];
        assert_eq!(
            findings(path, text),
            expected.map(|(line, word)| format!("{path}:{line}: \"{word}\": name the subject"))
        );
    }

    #[test]
    fn sentences_are_counted() {
        let text = "# No sentence. None\n\nOne (two.) Three? 4 e.g. Five: six; 3.10 `x.y`. `code` ends.\n\n- An item\n";
        let split: Vec<&str> =
            sentences("One (two.) Three? 4 e.g. Five 3.10. \u{fffc} ends.").map(|(_, text)| text).collect();
        assert_eq!(split, ["One (two.) ", "Three? ", "4 e.g. Five 3.10. ", "\u{fffc} ends."]);
        let mut measure = Measure::default();
        measure.add(&Source::of("docs/a.md", text)[0].blocks);
        assert_eq!((measure.words, measure.sentences, measure.in_sentences, measure.long), (16, 5, 13, 0));
        measure.add(&Source::of("docs/a.md", &vec!["word"; 36].join(" "))[0].blocks);
        assert_eq!((measure.words, measure.sentences, measure.long), (52, 6, 1));
        assert_eq!(measure.row("docs"), "docs         52          6             8.2         16.7 %");
    }
}

//! Texts within code: messages of the command, the report's page, docstrings and comments of Python.

use super::{Block, Kind, plain, runs};

/// Returns the string literals of a Rust file that are sentences or phrases, up to its tests.
pub(super) fn messages(text: &str) -> Vec<Block> {
    let end = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let literals = literals(&text[..end], "//", &['"']);
    literals.into_iter().filter(|(_, literal)| is_prose(literal)).map(|(line, literal)| block(line, &literal)).collect()
}

/// Returns the comments and phrases of a page's HTML, style or script.
pub(super) fn page(text: &str) -> Vec<Block> {
    let of = |line: &'_ str| {
        let script = line.split_once("//").filter(|(before, _)| !before.ends_with(':'));
        let (_, comment) = script.or_else(|| line.split_once("/*")).or_else(|| line.split_once("<!--"))?;
        Some(comment.trim_end_matches("*/").trim_end_matches("-->").trim().to_owned())
    };
    let comments = runs(text, of).into_iter().map(|(first, run)| plain(Kind::Comment, first, &run));
    let inside = literals(text, "//", &['"', '\'', '`']).into_iter().filter(|(_, literal)| is_prose(literal));
    comments.chain(inside.map(|(line, literal)| block(line, &literal))).collect()
}

/// Returns the comments of a scenario.
pub(super) fn toml(text: &str) -> Vec<Block> {
    let of = |line: &'_ str| {
        let whole = line.trim_start().strip_prefix('#');
        Some(whole.or_else(|| line.split_once(" # ").map(|(_, comment)| comment))?.trim().to_owned())
    };
    runs(text, of).into_iter().map(|(first, run)| plain(Kind::Comment, first, &run)).collect()
}

#[derive(Default)]
pub(super) struct Python {
    pub(super) docstrings: Vec<Block>,
    pub(super) comments: Vec<Block>,
    pub(super) messages: Vec<Block>,
}

pub(super) fn python(text: &str) -> Python {
    let of = |line: &'_ str| {
        let rest = line.trim_start().strip_prefix('#')?;
        Some(rest.trim_start_matches([':', ' ']).to_owned())
    };
    let comments = runs(text, of).into_iter().map(|(first, run)| plain(Kind::Comment, first, &run)).collect();
    let mut found = Python { comments, ..Python::default() };
    // Docstrings have three quotes, and paragraphs.
    let mut code = String::new();
    for (index, part) in text.split("\"\"\"").enumerate() {
        if index % 2 == 0 {
            code.push_str(part);
            continue;
        }
        let first = code.matches('\n').count() + 1;
        // Keeps the lines' numbers for the other literals.
        code.extend(part.chars().filter(|c| *c == '\n'));
        found.docstrings.extend(paragraphs(part, first));
    }
    let literals = literals(&code, "#", &['"']).into_iter().filter(|(_, literal)| is_prose(literal));
    found.messages = literals.map(|(line, literal)| block(line, &literal)).collect();
    found
}

/// Returns the paragraphs and fields of a docstring that begins in line `first`, without its examples.
fn paragraphs(docstring: &str, first: usize) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    // The paragraph that a line continues, and whether the line is in an example.
    let (mut goes_on, mut in_example) = (false, false);
    for (index, line) in docstring.lines().map(str::trim).enumerate() {
        in_example = !line.is_empty() && (in_example || line.starts_with(">>>"));
        if line.is_empty() || in_example {
            goes_on = false;
            continue;
        }
        // `:param workload: an rt-app file` is a text of its own.
        let field =
            line.strip_prefix(':').and_then(|field| field.split_once(": ")).filter(|(name, _)| !name.contains('`'));
        if !goes_on || field.is_some() {
            found.push(Block::new(Kind::Prose));
        }
        if let Some(block) = found.last_mut() {
            block.push(&without_code(field.map_or(line, |(_, text)| text)), first + index);
            block.text.push('\n');
        }
        goes_on = true;
    }
    found
}

/// Returns a line with each ``piece of code`` and each :func:`reference` as one character.
fn without_code(line: &str) -> String {
    let line = line.replace("``", "`");
    let mut text = String::new();
    for (index, part) in line.split('`').enumerate() {
        if index % 2 == 1 {
            text.push(Block::CODE);
            continue;
        }
        // `:func:` precedes the name.
        let role = part.strip_suffix(':').and_then(|before| before.rsplit_once(':'));
        text.push_str(
            role.filter(|(_, role)| role.chars().all(char::is_alphabetic)).map_or(part, |(before, _)| before),
        );
    }
    text
}

fn block(line: usize, literal: &str) -> Block {
    let (mut block, mut text) = (Block::new(Kind::Comment), String::new());
    // A piece of code is a word, and so is a value.
    let (mut in_code, mut braces) = (false, 0_u32);
    for c in literal.chars() {
        match c {
            '`' => in_code = !in_code,
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            _ if in_code || braces > 0 => {}
            c => {
                text.push(c);
                continue;
            }
        }
        if !text.ends_with(Block::CODE) {
            text.push(Block::CODE);
        }
    }
    block.push(&text, line);
    block
}

/// Whether a literal has three words in a row.
fn is_prose(literal: &str) -> bool {
    let is_word = |word: &&str| word.len() > 1 && word.chars().all(|c| c.is_alphabetic() || "'-,.:;".contains(c));
    literal.split_whitespace().collect::<Vec<_>>().windows(3).any(|words| words.iter().all(is_word))
}

/// Returns the string literals of code with these quotes, and their lines. A backslash at the end of a line continues
/// it.
fn literals(text: &str, comment: &str, quotes: &[char]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut line, mut rest) = (1, text);
    while let Some(first) = rest.chars().next() {
        if rest.starts_with(comment) {
            rest = rest.find('\n').map_or("", |at| &rest[at..]);
        } else if quotes.contains(&first) {
            let (literal, length) = literal(&rest[1..], first);
            let whole = &rest[..(length + 2).min(rest.len())];
            found.push((line, literal));
            line += whole.matches('\n').count();
            rest = &rest[whole.len()..];
        } else if let Some(length) = raw(rest).or_else(|| character(rest)) {
            line += rest[..length].matches('\n').count();
            rest = &rest[length..];
        } else {
            line += usize::from(first == '\n');
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

/// Returns the text of a literal up to its closing quote, and its length in the source.
fn literal(source: &str, quote: char) -> (String, usize) {
    let mut text = String::new();
    let mut letters = source.char_indices();
    while let Some((at, c)) = letters.next() {
        match c {
            c if c == quote => return (text, at),
            '\\' => match letters.next() {
                Some((_, '\n')) => {
                    let skipped = letters.as_str().len() - letters.as_str().trim_start().len();
                    if skipped > 0 {
                        letters.nth(skipped - 1);
                    }
                }
                Some((_, 'n')) => text.push('\n'),
                Some((_, other)) => text.push(other),
                None => {}
            },
            c => text.push(c),
        }
    }
    (text, source.len())
}

/// Returns the length of a raw string at the start of the code.
fn raw(code: &str) -> Option<usize> {
    let hashes = code.strip_prefix('r')?;
    let count = hashes.len() - hashes.trim_start_matches('#').len();
    let body = hashes[count..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(count));
    Some(1 + count + 1 + body.find(&close)? + close.len())
}

/// Returns the length of a character at the start of the code, in contrast to a lifetime.
fn character(code: &str) -> Option<usize> {
    let body = code.strip_prefix('\'')?;
    let escaped = body.strip_prefix('\\');
    let letter = escaped.unwrap_or(body).chars().next()?;
    let length = usize::from(escaped.is_some()) + letter.len_utf8();
    body[length..].starts_with('\'').then_some(length + 2)
}

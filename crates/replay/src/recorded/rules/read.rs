//! Reads rules from a line or a TOML file.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::values::{self, LIMITS, SELECTORS, WHAT, Wrong};
use super::{GroupRule, Limits, Rule, Rules, Selector, What};
use vruntime_workload::groups::normalize_path;
use vruntime_workload::{Error, Source};
use vruntime_workload::{did_you_mean, limit_by_other_name, nearest};

const FORM: &str =
    "a rule is TASKS: CHANGE, such as 'batch-*: group=/batch weight=50'; docs/replay.md lists all changes";

/// A key, its value, and their places.
struct Entry<'a> {
    key: &'a str,
    key_span: Range<usize>,
    value: String,
    span: Range<usize>,
}

impl Rules {
    /// Adds a rule from a line `TASKS: CHANGE`. TASKS is a pattern of names, or one or more of `comm=`, `regex=`,
    /// `pid=`, `tgid=`, `tree=`, `cgroup=`, which must all match. CHANGE is `key=value`, once or more.
    ///
    /// # Errors
    /// It is not of that form, a key is not known, or a value is none of its key's.
    pub fn add(&mut self, text: &str) -> Result<(), Error> {
        let source = Source::new("the rule", text);
        let error = |span: Range<usize>, message: String, label: &str| Error::new(&source, message).at(span, label);
        let colon = colon(text).ok_or_else(|| {
            let has_equals = text.rsplit_once('=').and_then(|(selector, what)| Some((selector, what.split_once(':')?)));
            let help = match has_equals {
                Some((selector, (key, value))) if WHAT.contains(&key) => format!("write '{selector}: {key}={value}'"),
                _ => FORM.to_owned(),
            };
            error(0..text.len(), "there is no `:` between the tasks and the change".to_owned(), "this rule")
                .with_help(help)
        })?;
        let (selector_text, what_text) = (&text[..colon], &text[colon + 1..]);
        let selector_span = trimmed(text, 0..colon);
        let words = conditions(text, words(text, 0..colon));
        let keyed_first =
            words.first().and_then(|word| pair(text, word)).is_some_and(|entry| SELECTORS.contains(&entry.key));
        let keyed = words.iter().all(|word| pair(text, word).is_some_and(|entry| SELECTORS.contains(&entry.key)));
        let mut rule = Rule {
            selector: Selector::default(),
            what: What::default(),
            source: source.clone(),
            span: selector_span.clone(),
            spans: Vec::new(),
            text: text.trim().to_owned(),
        };
        if words.is_empty() {
            return Err(error(
                0..colon.max(1).min(text.len()),
                "no tasks are named".to_owned(),
                "expected a name here",
            )
            .with_help(FORM));
        }
        if keyed {
            for entry in words.iter().filter_map(|word| pair(text, word)) {
                rule.say(&entry, false)?;
            }
        } else if let Some(entry) = mistaken(text, &words) {
            let message = format!("unknown selector `{}`", entry.key);
            let mut help =
                nearest(entry.key, SELECTORS).map_or_else(String::new, |name| format!("did you mean `{name}`? "));
            if !keyed_first {
                help.push_str("a name that has a = in it is written comm=");
                help.push_str(selector_text.trim());
            }
            let selectors = format!("selectors are {}", SELECTORS.join(", "));
            return Err(error(entry.key_span, message, &selectors).with_help(help.trim_end()));
        } else {
            let glob = values::glob(selector_text.trim());
            rule.selector.comm = Some(glob.map_err(|wrong| rule.wrong(wrong, selector_span))?);
        }
        let actions = self::words(text, colon + 1..text.len());
        if actions.is_empty() {
            let at = text.len().saturating_sub(1)..text.len();
            return Err(error(at, "it changes nothing".to_owned(), "expected key=value here").with_help(FORM));
        }
        // Where a value has a space in it (`max=20000 100000`), the next word has no `=`.
        let mut index = 0;
        let mut keys: Vec<&str> = Vec::new();
        while index < actions.len() {
            let mut word = actions[index].clone();
            index += 1;
            let by_comma = |next: &Range<usize>| text[word.clone()].ends_with(',') && text[next.clone()].contains('=');
            if actions.get(index).is_some_and(by_comma) {
                let comma = word.end - 1..word.end;
                let help = format!("separate changes by spaces: {}", what_text.replace(", ", " ").trim());
                return Err(error(comma, "a comma between two changes".to_owned(), "this comma").with_help(help));
            }
            let is_limit = ["max=", "cpu.max="].iter().any(|key| text[word.clone()].starts_with(key));
            if let Some(next) = actions.get(index).filter(|next| is_limit && is_period(&text[(*next).clone()])) {
                word.end = next.end;
                index += 1;
            }
            let entry = if &text[word.clone()] == "remove" {
                Entry { key: "remove", key_span: word.clone(), value: "true".to_owned(), span: word }
            } else if let value @ ("closed" | "open") = &text[word.clone()] {
                Entry { key: "loop", key_span: word.clone(), value: value.to_owned(), span: word }
            } else {
                let entry = pair(text, &word).ok_or_else(|| {
                    error(word.clone(), format!("`{}` is not key=value", &text[word.clone()]), "this word")
                        .with_help(FORM)
                })?;
                if is_limit { unquoted(entry) } else { entry }
            };
            let key = values::of_file(entry.key);
            if keys.contains(&key) {
                let message = format!("`{}` is given twice", entry.key);
                return Err(error(entry.key_span, message, "the second").with_help("leave one out"));
            }
            rule.say(&entry, true)?;
            keys.push(key);
        }
        debug_assert!(!what_text.is_empty());
        self.push(rule)
    }

    /// Adds the rules of a TOML file: `[[rule]]` tables with the same keys; `[groups."/path"]` with `weight`, `max`,
    /// `burst` and `idle`.
    ///
    /// # Errors
    /// It is not UTF-8 or not TOML, or a rule is wrong as in [`Rules::add`].
    pub fn add_file(&mut self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let source = Source::decode(name, bytes)?;
        let text = source.text();
        let wrong = |span: Range<usize>, message: String, label: &str| Error::new(&source, message).at(span, label);
        let table = DeTable::parse(text).map_err(|error| {
            let message = error.message().trim_end().replace('\n', "; ");
            wrong(error.span().unwrap_or(0..0), message, "not TOML here")
                .with_help("docs/replay.md shows the file's form")
        })?;
        if table.get_ref().is_empty() {
            let help = "docs/replay.md shows the file's form";
            return Err(
                wrong(0..text.len().min(1), "there is no rule in it".to_owned(), "expected [[rule]]").with_help(help)
            );
        }
        for (key, value) in table.get_ref() {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("rule", DeValue::Array(rules)) => {
                    for rule in rules {
                        self.table(&source, rule)?;
                    }
                }
                ("groups", DeValue::Table(groups)) => {
                    for (path, limits) in groups {
                        self.group(&source, path, limits)?;
                    }
                }
                ("rule" | "groups", _) => {
                    let help = "write each rule below a line [[rule]], each group below [groups.\"/path\"]";
                    return Err(wrong(value.span(), "tables were expected here".to_owned(), "this").with_help(help));
                }
                (other, _) => {
                    let help = did_you_mean(other, ["rule", "groups"]);
                    return Err(
                        wrong(key.span(), format!("unknown key `{other}`"), "not at the top level").with_help(help)
                    );
                }
            }
        }
        Ok(())
    }

    fn table(&mut self, source: &Source, value: &toml::Spanned<DeValue<'_>>) -> Result<(), Error> {
        let DeValue::Table(table) = value.get_ref() else {
            let error = Error::new(source, "a rule is a table").at(value.span(), "this is none");
            return Err(error.with_help("write [[rule]] on a line of its own, and its keys below it"));
        };
        let span = value.span();
        let mut rule = Rule {
            selector: Selector::default(),
            what: What::default(),
            source: source.clone(),
            span,
            spans: Vec::new(),
            text: String::new(),
        };
        let (mut selectors, mut what) = (Vec::new(), Vec::new());
        for (key, value) in table {
            let entry = entry(source, key, value)?;
            if SELECTORS.contains(&entry.key) {
                rule.span = entry.span.clone();
            }
            rule.say(&entry, true)?;
            let of = if SELECTORS.contains(&entry.key) { &mut selectors } else { &mut what };
            of.push(format!("{}={}", entry.key, entry.value));
        }
        if selectors.is_empty() {
            let error = Error::new(source, "no tasks are named").at(rule.span, "this rule");
            return Err(error.with_help(format!("add one of {}", SELECTORS.join(", "))));
        }
        rule.text = format!("{}: {}", selectors.join(" "), what.join(" "));
        self.push(rule)
    }

    fn group(
        &mut self,
        source: &Source,
        key: &toml::Spanned<std::borrow::Cow<'_, str>>,
        value: &toml::Spanned<DeValue<'_>>,
    ) -> Result<(), Error> {
        let wrong = |span: Range<usize>, message: String, label: &str| Error::new(source, message).at(span, label);
        let path = normalize_path(key.get_ref()).map_err(|why| {
            wrong(key.span(), format!("`{}` is not a group's path", key.get_ref()), "expected \"/name\"").with_help(why)
        })?;
        if path == "/" {
            let help = "cgroup v2 has these files only below the root";
            return Err(
                wrong(key.span(), "the root group has no weight and no limit".to_owned(), "this table").with_help(help)
            );
        }
        let DeValue::Table(table) = value.get_ref() else {
            return Err(wrong(value.span(), "a group is a table".to_owned(), "this is none")
                .with_help("write [groups.\"/path\"]"));
        };
        let mut limits = Limits::default();
        let mut text = format!("[groups.\"{path}\"]");
        for (key, value) in table {
            let entry = entry(source, key, value)?;
            let limit = values::of_file(entry.key);
            if !LIMITS.contains(&limit) {
                let help = limit_by_other_name(entry.key).map(str::to_owned);
                let help = help.unwrap_or_else(|| did_you_mean(entry.key, LIMITS));
                return Err(wrong(entry.key_span, format!("unknown key `{}`", entry.key), "groups have no such key")
                    .with_help(help));
            }
            values::limits(&mut limits, limit, &entry.value)
                .map_err(|(why, expected)| wrong(entry.span.clone(), why, expected))?;
            text.extend([" ", entry.key, "=", &entry.value]);
        }
        self.groups.push(GroupRule { path, limits, source: source.clone(), span: key.span(), text });
        Ok(())
    }

    /// Adds a complete rule.
    fn push(&mut self, mut rule: Rule) -> Result<(), Error> {
        let key = if rule.what.policy.is_some() { "policy" } else { "priority" };
        let priority = rule.what.priority.take();
        rule.what.policy =
            values::with_priority(rule.what.policy, priority).map_err(|wrong| rule.wrong(wrong, rule.span_of(key)))?;
        let What { group, limits, remove, .. } = &rule.what;
        let error = |message: &str| Error::new(&rule.source, message).at(rule.span.clone(), "this rule");
        let names_groups = match group.as_deref() {
            Some(path) => path != "/",
            None => rule.selector.cgroup.is_some(),
        };
        if *limits != Limits::default() && !names_groups {
            let message = "`weight`, `max`, `burst` and `idle` are a group's, and it names none";
            return Err(error(message).with_help(
                "add group=/name to put these tasks in a group, or cgroup=/name to change an existing group; nice= changes one task",
            ));
        }
        if *remove && rule.what != (What { remove: true, ..What::default() }) {
            return Err(error("it removes tasks and also changes them").with_help("leave the rest out"));
        }
        if rule.what == What::default() {
            return Err(error("it changes nothing").with_help(format!("add one of {}", WHAT.join(", "))));
        }
        self.rules.push(rule);
        Ok(())
    }
}

impl Rule {
    fn wrong(&self, (why, expected): Wrong, span: Range<usize>) -> Error {
        Error::new(&self.source, why).at(span, format!("expected {expected}"))
    }

    /// Applies an entry to selectors, or if `also_what` to changes.
    fn say(&mut self, entry: &Entry<'_>, also_what: bool) -> Result<(), Error> {
        let what = values::of_file(entry.key);
        let result = if SELECTORS.contains(&entry.key) {
            values::select(&mut self.selector, entry.key, &entry.value)
        } else if also_what && WHAT.contains(&what) {
            values::what(&mut self.what, what, &entry.value)
        } else {
            let help = limit_by_other_name(entry.key).map(str::to_owned);
            let help = help.unwrap_or_else(|| did_you_mean(entry.key, WHAT.into_iter().chain(SELECTORS)));
            let error = Error::new(&self.source, format!("unknown key `{}`", entry.key));
            return Err(error.at(entry.key_span.clone(), "rules have no such key").with_help(help));
        };
        self.spans.push((what.to_owned(), entry.span.clone()));
        result.map_err(|wrong| self.wrong(wrong, entry.span.clone()))
    }
}

/// Returns a table's key with its value as text.
fn entry<'a>(
    source: &Source,
    key: &'a toml::Spanned<std::borrow::Cow<'_, str>>,
    value: &toml::Spanned<DeValue<'_>>,
) -> Result<Entry<'a>, Error> {
    let plain = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    };
    let text = match value.get_ref() {
        DeValue::Array(list) => {
            list.iter().map(|entry| plain(entry.get_ref())).collect::<Option<Vec<_>>>().map(|all| all.join(","))
        }
        other => plain(other),
    };
    let text = text.ok_or_else(|| {
        let error = Error::new(source, format!("`{}` takes no such value", key.get_ref())).at(value.span(), "this");
        error.with_help("expected a string, a whole number, true or false, or a list of numbers")
    })?;
    Ok(Entry { key: key.get_ref(), key_span: key.span(), value: text, span: value.span() })
}

/// Returns the colon between tasks and change: the last before a known key, else the last before a space.
fn colon(text: &str) -> Option<usize> {
    let colons: Vec<usize> = text.match_indices(':').map(|(at, _)| at).collect();
    let begins = |at: usize| {
        let rest = text[at + 1..].trim_start();
        let key = rest.split(|c: char| c == '=' || c.is_whitespace()).next().unwrap_or_default();
        WHAT.contains(&values::of_file(key))
    };
    let spaced = |at: usize| text[at + 1..].is_empty() || text[at + 1..].starts_with(char::is_whitespace);
    let last = |which: &dyn Fn(usize) -> bool| colons.iter().rev().copied().find(|&at| which(at));
    last(&begins).or_else(|| last(&spaced))
}

/// Returns the words of a part of `text`.
fn words(text: &str, part: Range<usize>) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut start = None;
    for (at, c) in text[part.clone()].char_indices().map(|(at, c)| (part.start + at, c)).chain([(part.end, ' ')]) {
        match (c.is_whitespace(), start) {
            (false, None) => start = Some(at),
            (true, Some(from)) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    words
}

/// Returns the selectors' words. It joins words of one value, since names contain spaces (`comm=opt cgu.0`).
fn conditions(text: &str, words: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let keyed = words.first().and_then(|word| pair(text, word)).is_some_and(|entry| SELECTORS.contains(&entry.key));
    let mut joined: Vec<Range<usize>> = Vec::new();
    for word in words {
        match joined.last_mut() {
            Some(last) if keyed && !text[word.clone()].contains('=') => last.end = word.end,
            _ => joined.push(word),
        }
    }
    joined
}

/// Returns the first word that looks like a selector and is none: a misspelling, or a change. Other names with a =
/// (`*=*`, `my prog=1`) are valid.
fn mistaken<'a>(text: &'a str, words: &[Range<usize>]) -> Option<Entry<'a>> {
    let is_word = |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let first = words.first().and_then(|word| pair(text, word))?;
    let entry = words.iter().filter_map(|word| pair(text, word)).find(|entry| !SELECTORS.contains(&entry.key))?;
    (is_word(first.key) && is_word(entry.key)).then_some(entry)
}

fn trimmed(text: &str, part: Range<usize>) -> Range<usize> {
    let words = words(text, part.clone());
    match (words.first(), words.last()) {
        (Some(first), Some(last)) => first.start..last.end,
        _ => part,
    }
}

/// Whether a word is the second half of a limit: a whole number, and the quote after it.
fn is_period(word: &str) -> bool {
    word.strip_suffix('"').unwrap_or(word).bytes().all(|byte| byte.is_ascii_digit())
}

/// Removes the quotes of a value, as scenarios have them: `max="50000 100000"`.
fn unquoted(entry: Entry<'_>) -> Entry<'_> {
    match entry.value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
        Some(value) => Entry { value: value.to_owned(), span: entry.span.start + 1..entry.span.end - 1, ..entry },
        None => entry,
    }
}

fn pair<'a>(text: &'a str, word: &Range<usize>) -> Option<Entry<'a>> {
    let (key, value) = text[word.clone()].split_once('=')?;
    let split = word.start + key.len();
    Some(Entry { key, key_span: word.start..split, value: value.to_owned(), span: (split + 1).min(word.end)..word.end })
}

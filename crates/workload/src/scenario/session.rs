//! `session = "name"` and `[sessions."name"]`: the session of a task, and its autogroup's nice value.

use toml::de::DeValue;

use super::fields::{Fields, Value};
use crate::error::Problems;
use crate::program::Session;
use crate::suggest::did_you_mean;

pub(super) fn name(fields: &mut Fields<'_, '_>) -> Option<String> {
    let (name, span) = fields.string("session", "a session's name, such as \"desktop\"")?;
    if name.is_empty() || name.contains('/') || name.chars().any(char::is_control) {
        let help = "its autogroup is called /autogroup-NAME; leave `session` out for the default one";
        fields.bad(span, format!("`{name}` is not a session's name"), "expected a name without `/`", help);
        return None;
    }
    Some(name.to_owned())
}

pub(super) fn parse_all(problems: &mut Problems, value: &Value<'_>, sessions: &mut [Session]) {
    let DeValue::Table(table) = value.get_ref() else {
        Fields::new(problems, "[sessions.\"name\"]", value).finish();
        return;
    };
    for (key, value) in table {
        let name = key.get_ref();
        let mut fields = Fields::new(problems, format!("[sessions.\"{name}\"]"), value);
        let nice = fields.integer("nice", -20..=19, "a nice value");
        fields.finish();
        let Some(session) = sessions.iter_mut().find(|session| session.name == *name) else {
            let help = if sessions.is_empty() {
                format!("write session = \"{name}\" in a [[task]] or a [[workload]], or remove this table")
            } else {
                did_you_mean(name, sessions.iter().map(|session| session.name.as_str()))
            };
            let message = format!("no task is in session `{name}`");
            let error = problems.new_error(key.span(), message, "expected the session of a task or workload");
            problems.error(error.with_help(help));
            continue;
        };
        session.nice = nice.unwrap_or(0) as i8;
    }
}

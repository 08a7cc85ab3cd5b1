//! Kernels by name, and settings of kernels and costs.

use vruntime_sched::kernels::{Behaviour, SettingError, TUNABLES, bare_feature, negative};
use vruntime_sched::{Kernel, kernel};
use vruntime_workload::scenario::Scenario;

use super::error::{Error, ErrorKind};
use super::note::{self, Given, Note};
use crate::costs::Costs;

pub(super) fn without_no(name: &str) -> &str {
    bare_feature(name).0
}

/// Returns the name of the feature or tunable in a part of a kernel's name.
fn part_name(part: &str) -> &str {
    part.split_once('=').map_or_else(|| without_no(part), |(name, _)| name)
}

pub use vruntime_sched::kernels::series;

/// Splits a release (`uname -r`) from parts behind it, as in `6.18.44-fc-v657+NO_RUN_TO_PARITY`. In
/// `6.12.117+deb13-amd64` the `+` is the release's.
fn release<'a>(name: &'a str, parts: &'a [&'a str]) -> Option<(String, &'a [&'a str])> {
    let mut numbers = name.split('-').next().unwrap_or_default().split('.');
    // A release candidate has no third number (6.18-rc4).
    let least = if name.contains("-rc") { 2 } else { 3 };
    let numbered = numbers.clone().count() >= least && numbers.all(|number| number.parse::<u32>().is_ok());
    if !numbered {
        return None;
    }
    match parts.split_first() {
        // A tree with changes (5.10.0-rc3+).
        Some((&"", rest)) if rest.is_empty() => Some((format!("{name}+"), rest)),
        Some((first, rest)) if !first.contains('=') && first.contains(|letter: char| letter.is_ascii_lowercase()) => {
            Some((format!("{name}+{first}"), rest))
        }
        _ => Some((name.to_owned(), parts)),
    }
}

/// Returns the kernel whose series is part of another name: `6.12-rc1`, `linux-6.12`, `v6.12`.
fn within(name: &str) -> Option<&'static str> {
    let number = name.find(|letter: char| letter.is_ascii_digit()).map(|start| &name[start..])?;
    let number = number.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next()?;
    kernel(&series(number)).ok().map(|kernel| kernel.name)
}

/// Parses a kernel: its name or a release, with features and tunables, on which it returns notes.
///
/// ```
/// use vruntime_sim::plan::parse_kernel;
///
/// let (kernel, notes) = parse_kernel("6.12+NO_RUN_TO_PARITY+base_slice_ns=3000000")?;
/// assert_eq!((kernel.name, notes.len()), ("6.12", 0));
/// // As `uname -r` has it; where releases of one kernel are known to differ, it is that one ([`Kernel::as_of`]).
/// assert_eq!(parse_kernel("6.12.117+deb13-amd64+NO_PLACE_LAG")?.0.name, "6.12");
/// assert_eq!(parse_kernel("6.6.87.2-microsoft-standard-WSL2")?.0.name, "6.6");
/// assert_eq!(parse_kernel("5.10.0-rc3+")?.0.name, "5.10");
/// assert_eq!(parse_kernel("6.18-rc4")?.0.name, "6.18");
/// let error = parse_kernel("6.12+base_slice=3").unwrap_err();
/// assert_eq!(error.to_string(), "there is no tunable `base_slice`");
/// # Ok::<(), vruntime_sim::plan::Error>(())
/// ```
///
/// # Errors
///
/// If a kernel, feature or tunable does not exist, or the kernel refuses the value.
pub fn parse_kernel(text: &str) -> Result<(Kernel, Vec<Note>), Error> {
    let parts: Vec<&str> = text.split('+').map(str::trim).collect();
    let (name, parts) = parts.split_first().map_or(("", &[][..]), |(name, parts)| (*name, parts));
    let mut notes = Vec::new();
    let (mut parsed, parts) = match kernel(name) {
        Ok(parsed) => (parsed, parts),
        Err(mut unknown) => {
            if unknown.nearest.is_none() && unknown.neighbours.is_none() {
                unknown.nearest = within(name);
            }
            let mut of_series = || {
                let (release, parts) = release(name, parts)?;
                let mut parsed = kernel(&series(&release)).ok()?;
                parsed.as_of(&release);
                notes.extend(note::of_distribution(&release));
                Some((parsed, parts))
            };
            of_series().ok_or(ErrorKind::Unknown(unknown))?
        }
    };
    let given = |part: &&str| Given::PartOf { part: (*part).to_owned(), kernel: text.to_owned() };
    note::overridden(parts, |part| part_name(part), given, &mut notes);
    for &part in parts {
        match part.split_once('=') {
            None if part.is_empty() => return Err(ErrorKind::NoPart(text.to_owned()).into()),
            None => {
                notes.extend(note::of_unchanged(part, &parsed));
                parsed.feature(part).map_err(|unknown| {
                    let is_tunable = TUNABLES.iter().any(|(name, _)| *name == part);
                    if is_tunable { ErrorKind::NoValue(part.to_owned()) } else { ErrorKind::Unknown(unknown) }
                })?;
            }
            Some((name, value)) => {
                let digits = value.replace('_', "");
                let below = || digits.parse().ok().and_then(|value| negative(name, value));
                let number = digits.parse().ok().or_else(below);
                let number = number.ok_or_else(|| ErrorKind::NotANumber(value.to_owned()))?;
                set_tunable(name, number, &mut parsed).map_err(ErrorKind::from)?;
            }
        }
    }
    checked(&parsed)?;
    Ok((parsed, notes))
}

/// Checks the behaviours that were added or removed by hand.
pub(super) fn checked(kernel: &Kernel) -> Result<(), Error> {
    let forced = || kernel.forced().to_vec();
    kernel.check().map_err(|wrong| ErrorKind::Impossible { wrong, forced: forced() }.into())
}

const RT_RUNTIME: &str = "sched_rt_runtime_us";

/// Checks the machine's limit of real-time tasks, as the kernel does (EINVAL): -1, or at most the period.
pub(super) fn check_realtime(kernel: &Kernel) -> Result<(), Error> {
    const US: u64 = 1000;
    // Neither value depends on the CPUs.
    let knobs = kernel.tunables(1, 1000);
    let (runtime, period) = (knobs.rt_runtime_ns, knobs.rt_period_ns);
    if runtime <= period || runtime == u64::MAX {
        return Ok(());
    }
    let (name, range) = (RT_RUNTIME.to_owned(), 0..=period / US);
    Err(ErrorKind::Setting(SettingError::OutOfRange { name, value: runtime / US, range }).into())
}

pub(super) fn set_as_in(scenario: &Scenario, kernel: &mut Kernel, costs: &mut Costs) -> Result<(), Error> {
    let source = &scenario.source;
    for feature in &scenario.features {
        let switched = kernel.feature(feature).map_err(ErrorKind::Unknown);
        switched.map_err(|error| Error::from(error).at(source, &feature.span, "this feature"))?;
    }
    for setting in &scenario.set {
        let given = setting.value.value;
        let value = u64::try_from(given).ok().or_else(|| negative(&setting.name, given));
        let negative = || Error::from(ErrorKind::Negative).at(source, &setting.value.span, "expected 0 or more");
        let value = value.ok_or_else(negative)?;
        let known = is_autogroup(&setting.name) && kernel.behaviours.has(Behaviour::Autogroups);
        let set = if known { autogroup_set_to(value).map(drop) } else { set(&setting.name, value, kernel, costs) };
        set.map_err(|error| {
            let (span, label) = match error.kind() {
                ErrorKind::Setting(SettingError::OutOfRange { .. }) => (&setting.value.span, "out of its range"),
                ErrorKind::Setting(SettingError::NotHere { .. }) => (&setting.name.span, "not under this kernel"),
                _ => (&setting.name.span, "this name"),
            };
            error.at(source, span, label)
        })?;
    }
    for setting in scenario.costs.iter().flat_map(|costs| &costs.values) {
        let set = costs.set(&setting.name, setting.value.value.unsigned_abs()).map_err(ErrorKind::Cost);
        set.map_err(|error| Error::from(error).at(source, &setting.name.span, "this cost"))?;
    }
    Ok(())
}

/// Whether a setting is `/proc/sys/kernel/sched_autogroup_enabled`.
pub(super) fn is_autogroup(name: &str) -> bool {
    name.strip_prefix("kernel.").unwrap_or(name) == "sched_autogroup_enabled"
}

pub(super) fn autogroup_set_to(value: u64) -> Result<bool, Error> {
    let range = 0..=1;
    if range.contains(&value) {
        return Ok(value == 1);
    }
    Err(ErrorKind::Setting(SettingError::OutOfRange { name: "sched_autogroup_enabled".to_owned(), value, range })
        .into())
}

pub(super) fn set(name: &str, value: u64, kernel: &mut Kernel, costs: &mut Costs) -> Result<(), Error> {
    let tunable = match set_tunable(name, value, kernel) {
        Err(SettingError::Unknown(unknown)) => unknown,
        Err(error) => return Err(ErrorKind::from(error).into()),
        Ok(()) => return Ok(()),
    };
    costs.set(name, value).map_err(|cost| ErrorKind::UnknownSetting { tunable, cost }.into())
}

fn set_tunable(name: &str, value: u64, kernel: &mut Kernel) -> Result<(), SettingError> {
    kernel.accepts(name, value)?;
    // The kernel reads an `int`. The largest value stands for -1.
    let range = 0..=i32::MAX as u64;
    if name.strip_prefix("kernel.").unwrap_or(name) == RT_RUNTIME && value != u64::MAX && !range.contains(&value) {
        return Err(SettingError::OutOfRange { name: RT_RUNTIME.to_owned(), value, range });
    }
    kernel.set(name, value).map_err(SettingError::Unknown)
}

//! The preemption model.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// The model, if known, and its source, or why it is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) model: Option<String>,
    pub(super) how: String,
}

pub(super) fn found(model: &str, how: impl Into<String>) -> Found {
    Found { model: Some(model.to_owned()), how: how.into() }
}

/// Finds the preemption model in the most reliable source: debugfs, the version line, the boot command line, the
/// configuration. `root` is the folder of the file systems.
pub(super) fn preempt(root: &Path) -> Found {
    let read = |path: &str| fs::read_to_string(root.join(path));
    let debug = read("sys/kernel/debug/sched/preempt");
    if let Ok(Some(model)) = debug.as_deref().map(chosen) {
        return found(&model, "/sys/kernel/debug/sched/preempt");
    }
    let version = read("proc/sys/kernel/version").unwrap_or_default();
    let built = |word: &str| version.split_whitespace().any(|found| found == word);
    if built("PREEMPT_RT") {
        return found("full", "the version line has PREEMPT_RT");
    }
    let dynamic = built("PREEMPT_DYNAMIC");
    // Later changes in debugfs are not visible below.
    let unless = if dynamic { ", unless it was changed since" } else { "" };
    let words = read("proc/cmdline").unwrap_or_default();
    let asked = words.split_whitespace().filter_map(|word| word.strip_prefix("preempt=")).next_back();
    if let (true, Some(model @ ("none" | "voluntary" | "full" | "lazy"))) = (dynamic, asked) {
        return found(model, format!("the kernel was booted with preempt={model}{unless}"));
    }
    let release = read("proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let config = configuration(root, &release);
    if let Some((model, path)) = config.as_ref().and_then(|(text, path)| Some((configured(text)?, path))) {
        return found(model, format!("as configured ({path}){unless}"));
    }
    let could_be = match (dynamic, built("PREEMPT")) {
        (true, _) => "the version line has PREEMPT_DYNAMIC, which allows every model",
        (false, true) => "the version line has PREEMPT, which means full or lazy",
        (false, false) if version.trim().is_empty() => "there is no version line",
        (false, false) => "the version line has no model, so it is none or voluntary",
    };
    let refused = debug.err().map_or_else(|| "has none marked".to_owned(), |error| format!("cannot be read ({error})"));
    let how = format!(
        "{could_be}; /sys/kernel/debug/sched/preempt {refused}, and there is no configuration in /proc/config.gz or /boot/config-{release}"
    );
    Found { model: None, how }
}

/// Returns the model in parentheses in debugfs's `sched/preempt`.
pub(super) fn chosen(text: &str) -> Option<String> {
    text.split_whitespace().find_map(|word| Some(word.strip_prefix('(')?.strip_suffix(')')?.to_owned()))
}

/// Returns the kernel's configuration, and its path.
fn configuration(root: &Path, release: &str) -> Option<(String, String)> {
    let packed = |path: &str| -> io::Result<String> {
        let mut text = String::new();
        flate2::read::GzDecoder::new(fs::File::open(root.join(path))?).read_to_string(&mut text)?;
        Ok(text)
    };
    if let Ok(text) = packed("proc/config.gz") {
        return Some((text, "/proc/config.gz".to_owned()));
    }
    let paths = [format!("boot/config-{release}"), format!("lib/modules/{release}/config")];
    paths.into_iter().find_map(|path| Some((fs::read_to_string(root.join(&path)).ok()?, format!("/{path}"))))
}

fn configured(text: &str) -> Option<&'static str> {
    const MODELS: [(&str, &str); 5] = [
        ("CONFIG_PREEMPT_RT=y", "full"),
        ("CONFIG_PREEMPT_NONE=y", "none"),
        ("CONFIG_PREEMPT_VOLUNTARY=y", "voluntary"),
        ("CONFIG_PREEMPT_LAZY=y", "lazy"),
        ("CONFIG_PREEMPT=y", "full"),
    ];
    MODELS.iter().find(|(line, _)| text.lines().any(|found| found.trim() == *line)).map(|(_, model)| *model)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn with(files: Files<'_>) -> Found {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if path.extension().is_some_and(|extension| extension == "gz") {
                let mut packed =
                    flate2::write::GzEncoder::new(fs::File::create(path).unwrap(), flate2::Compression::default());
                packed.write_all(text.as_bytes()).unwrap();
                packed.finish().unwrap();
            } else {
                fs::write(path, text).unwrap();
            }
        }
        preempt(root.path())
    }

    /// Files by path and text.
    type Files<'a> = &'a [(&'a str, &'a str)];

    const DEBUG: &str = "sys/kernel/debug/sched/preempt";
    const VERSION: &str = "proc/sys/kernel/version";
    const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.1.0-9-amd64\n");
    const DYNAMIC: (&str, &str) = (VERSION, "#1 SMP PREEMPT_DYNAMIC @0\n");
    const PLAIN: (&str, &str) = (VERSION, "#1 SMP Debian 6.1.27-1\n");

    #[test]
    fn the_surest_place_counts() {
        let config = (
            "proc/config.gz",
            "# CONFIG_PREEMPT_VOLUNTARY is not set\nCONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT_COUNT=y\n",
        );
        let boot = ("boot/config-6.1.0-9-amd64", "CONFIG_PREEMPT_VOLUNTARY=y\n");
        let modules = ("lib/modules/6.1.0-9-amd64/config", "CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT=y\n");
        let debug = (DEBUG, "none voluntary full (lazy) \n");
        let cases: [(Files<'_>, &str, &str); 9] = [
            (&[debug, DYNAMIC, config], "lazy", "debug"),
            (&[DYNAMIC, config], "none", "/proc/config.gz), unless it was changed since"),
            (
                &[DYNAMIC, config, ("proc/cmdline", "quiet preempt=none preempt=full ro\n")],
                "full",
                "booted with preempt=full",
            ),
            (&[DYNAMIC, config, ("proc/cmdline", "preempt=yes\n")], "none", "config.gz"),
            (&[PLAIN, config, ("proc/cmdline", "preempt=full\n")], "none", "config.gz)"),
            (&[PLAIN, RELEASE, boot, modules], "voluntary", "/boot/config-6.1.0-9-amd64"),
            (&[PLAIN, RELEASE, modules], "full", "/lib/modules/6.1.0-9-amd64/config"),
            (&[(VERSION, "#1 SMP PREEMPT_RT Debian\n")], "full", "PREEMPT_RT"),
            (&[(DEBUG, "none voluntary\n"), PLAIN, config], "none", "config.gz"),
        ];
        for (files, model, how) in cases {
            let found = with(files);
            assert_eq!(found.model.as_deref(), Some(model), "{files:?}");
            assert!(found.how.contains(how), "{files:?}: {}", found.how);
        }
    }

    /// Without preemption, the version line may mean two models; of a dynamic kernel, any.
    #[test]
    fn what_is_not_reported_stays_unknown() {
        let cases: [(Files<'_>, &str); 5] = [
            (&[], "no version line"),
            (&[PLAIN, RELEASE], "none or voluntary"),
            (&[(VERSION, "#1 SMP PREEMPT Debian\n")], "full or lazy"),
            (&[DYNAMIC, RELEASE, ("boot/config-6.1.0", "CONFIG_PREEMPT=y\n")], "allows every model"),
            (&[PLAIN, ("proc/config.gz", "CONFIG_HZ=250\n")], "none or voluntary"),
        ];
        for (files, how) in cases {
            let found = with(files);
            assert_eq!(found.model, None, "{files:?}");
            assert!(found.how.contains(how) && found.how.contains("cannot be read"), "{files:?}: {}", found.how);
        }
    }
}

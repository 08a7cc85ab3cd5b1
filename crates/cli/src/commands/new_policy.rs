//! `vruntime new-policy`: a crate with a policy of the user.

use std::fs;
use std::path::{Path, PathBuf};

use miette::{IntoDiagnostic, WrapErr, miette};

use crate::args::NewPolicy;
use crate::{Ended, output, output_file, policies};

const MANIFEST: &str = include_str!("../../embedded/policy/Cargo.toml.template");
const MAIN: &str = include_str!("../../embedded/policy/main.rs");
const POLICY: &str = include_str!("../../embedded/policy/policy.rs");
const SCENARIO: &str = include_str!("../../embedded/policy/scenario.toml");

/// Names that Cargo or the template has for other things.
const TAKEN: [&str; 12] = [
    "alloc",
    "build",
    "core",
    "deps",
    "examples",
    "policy",
    "proc-macro",
    "proc_macro",
    "self",
    "std",
    "super",
    "test",
];
/// Keywords of Rust, which Cargo rejects.
const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else enum extern false \
                        final fn for gen if impl in let loop macro match mod move mut override priv pub ref return \
                        static struct trait true try type typeof unsafe unsized use virtual where while yield";

pub(crate) fn new_policy(asked: &NewPolicy) -> miette::Result<Ended> {
    let name = asked.name.as_str();
    check_name(name)?;
    let checkout = checkout(asked.vruntime.as_deref())?;
    let folder = asked.folder.clone().unwrap_or_else(|| PathBuf::from(name));
    if folder.symlink_metadata().is_ok() {
        let help = "name another folder with --folder";
        return Err(miette!(help = help, "{} exists already", folder.display()));
    }
    let manifest = manifest(name, &checkout)?;
    let files = [
        ("Cargo.toml", manifest),
        ("src/main.rs", MAIN.replace("{{name}}", name)),
        ("src/policy.rs", POLICY.to_owned()),
        ("scenario.toml", SCENARIO.to_owned()),
        (".gitignore", "/target\n".to_owned()),
    ];
    // The versions that vruntime was tested with.
    let lock = fs::read_to_string(checkout.join("Cargo.lock")).ok().map(|lock| ("Cargo.lock", lock));
    let written = files.into_iter().chain(lock).try_for_each(|(file, text)| write(&folder.join(file), &text));
    if let Err(error) = written {
        // An incomplete crate would look complete. The first error is the cause.
        let _removed = fs::remove_dir_all(&folder);
        return Err(error);
    }
    let folder = folder.display();
    output::print(&format!(
        "wrote {folder}; the policy is in {folder}/src/policy.rs\n\n  \
         cd {folder}\n  \
         cargo test\n  \
         cargo run -- compare scenario.toml --kernel 6.18 --kernel {name}\n"
    ));
    Ok(Ended::Well)
}

fn write(path: &Path, text: &str) -> miette::Result<()> {
    output_file::write(path, text.as_bytes()).into_diagnostic()
}

fn check_name(name: &str) -> miette::Result<()> {
    if !policies::is_name(name) {
        let help = "begin the name with a letter, and use letters, digits, `-` and `_`";
        return Err(miette!(help = help, "`{name}` is not a name of a policy"));
    }
    let is_keyword = KEYWORDS.split_whitespace().any(|keyword| keyword == name);
    if is_keyword || TAKEN.contains(&name) || name.starts_with("vruntime") {
        return Err(miette!(help = "choose another name", "a crate cannot be called `{name}`"));
    }
    Ok(())
}

/// Returns the folder of vruntime's sources.
fn checkout(named: Option<&Path>) -> miette::Result<PathBuf> {
    let is_one = |folder: &Path| ["cli", "sched", "sim"].iter().all(|of| folder.join("crates").join(of).is_dir());
    let whole = |folder: &Path| {
        let whole = fs::canonicalize(folder).into_diagnostic();
        whole.wrap_err_with(|| format!("cannot read {}", folder.display()))
    };
    let repository = env!("CARGO_PKG_REPOSITORY");
    if let Some(folder) = named {
        if !is_one(folder) {
            let help = format!("name the folder of its sources: git clone {repository}");
            return Err(miette!(help = help, "{} is no checkout of vruntime", folder.display()));
        }
        return whole(folder);
    }
    let here = std::env::current_dir().into_diagnostic().wrap_err("cannot read the current folder")?;
    if let Some(folder) = here.ancestors().find(|above| is_one(above)) {
        return whole(folder);
    }
    let help = format!("git clone {repository}, and name the folder with --vruntime");
    Err(miette!(help = help, "a policy needs vruntime's sources, and the current folder is in no checkout"))
}

fn manifest(name: &str, checkout: &Path) -> miette::Result<String> {
    let Some(path) = checkout.to_str() else {
        let help = "move the checkout to a folder with a name in UTF-8";
        return Err(miette!(help = help, "Cargo cannot name {}", checkout.display()));
    };
    // The template continues the string.
    let quoted = toml::Value::String(path.to_owned()).to_string();
    let is_plain = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).filter(|text| *text == path);
    let Some(plain) = is_plain else {
        let help = "move the checkout to a folder without quotes and backslashes in its name";
        return Err(miette!(help = help, "Cargo.toml cannot name {path}"));
    };
    Ok(MANIFEST.replace("{{name}}", name).replace("{{checkout}}", &format!("\"{plain}")))
}

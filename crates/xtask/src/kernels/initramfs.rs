//! The content of a booted machine: busybox, `vruntime` and other programs with their libraries, and a first process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use miette::{IntoDiagnostic, WrapErr, miette};

use super::debian::config_of;
use crate::command::{command, output};

pub(crate) struct Suite<'a> {
    /// `vruntime fidelity --suite`.
    pub(crate) extent: &'a str,
    /// `vruntime fidelity --scenario`.
    pub(crate) scenario: Option<&'a str>,
}

/// What a machine runs.
pub(crate) struct Content {
    /// Commands of busybox's shell, which leave files in `/out`.
    pub(crate) run: String,
    /// More files, by their paths here and there. Programs and libraries come with the libraries that they need.
    pub(crate) files: Vec<(PathBuf, PathBuf)>,
}

/// The console shows it after the suite.
pub(crate) const DONE: &str = "xtask: done";

/// Makes the archive below `work`.
pub(crate) fn make(work: &Path, vruntime: &Path, kernel: &Path, content: &Content) -> miette::Result<PathBuf> {
    let root = work.join("root");
    if root.exists() {
        fs::remove_dir_all(&root).into_diagnostic().wrap_err_with(|| format!("cannot remove {}", root.display()))?;
    }
    for folder in ["bin", "dev", "out", "proc", "sys", "tmp"] {
        super::make(&root.join(folder))?;
    }
    copy(Path::new("/bin/busybox"), &root.join("bin/busybox"))
        .wrap_err("busybox is needed; on Debian: apt-get install busybox-static")?;
    let bin = root.join("bin/vruntime");
    copy(vruntime, &bin)?;
    // Most of it is debug information, which the emulated machine would decompress.
    output(command("strip", ["--strip-all".as_ref(), bin.as_os_str()]), "binutils")?;
    // Has the preemption model, if debugfs and version do not.
    if let Some(config) = config_of(kernel) {
        super::make(&root.join("boot"))?;
        copy(&config, &root.join("boot").join(config.file_name().unwrap_or_default()))?;
    }
    let mut files: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    let own = |library: String| (PathBuf::from(&library), PathBuf::from(library));
    files.extend(libraries(vruntime)?.into_iter().map(own).map(|(from, to)| (to, from)));
    for (from, to) in &content.files {
        files.insert(to.clone(), from.clone());
        if is_elf(from) {
            // A static program has none, and neither has an object file.
            let libraries = libraries(from).unwrap_or_default();
            files.extend(libraries.into_iter().map(own).map(|(from, to)| (to, from)));
        }
    }
    for (to, from) in &files {
        let inside = root.join(to.strip_prefix("/").unwrap_or(to));
        super::make(inside.parent().unwrap_or(&root))?;
        copy(from, &inside)?;
    }
    let init = root.join("init");
    let written = fs::write(&init, script(&content.run)).into_diagnostic();
    written.wrap_err_with(|| format!("cannot write {}", init.display()))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))
        .into_diagnostic()
        .wrap_err("cannot make init executable")?;
    let archive = work.join("initramfs.gz");
    let mut pack =
        command("sh", ["-c", "cd \"$1\" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > \"$2\"", "sh"]);
    pack.arg(&root).arg(&archive);
    output(pack, "busybox-static gzip")?;
    Ok(archive)
}

/// Whether a file is a program or a library.
fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

fn copy(from: &Path, to: &Path) -> miette::Result<()> {
    fs::copy(from, to).into_diagnostic().wrap_err_with(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Returns the libraries of a program, with the loader.
fn libraries(program: &Path) -> miette::Result<Vec<String>> {
    let listed = output(command("ldd", [program]), "libc-bin")?;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let found = paths(&listed);
    if found.is_empty() {
        return Err(miette!("ldd knows no libraries of {}: {listed}", program.display()));
    }
    Ok(found)
}

/// Returns the paths in `ldd`'s output: `libc.so.6 => /lib/x/libc.so.6 (0x...)`, and the loader without an arrow.
fn paths(listed: &str) -> Vec<String> {
    listed.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect()
}

impl Suite<'_> {
    /// Returns the commands that record it.
    pub(crate) fn script(&self) -> String {
        let scenario =
            self.scenario.map_or_else(String::new, |part| format!(" --scenario '{}'", part.replace('\'', "")));
        format!(
            "vruntime calibrate --out /out/machine.toml\n\
             vruntime fidelity --record /out --suite {extent}{scenario}\n",
            extent = self.extent,
        )
    }
}

/// Returns the first process, which runs the commands `run`.
fn script(run: &str) -> String {
    format!(
        "#!/bin/busybox sh\n\
         /bin/busybox --install -s /bin\n\
         export PATH=/bin:/usr/bin HOME=/tmp NO_COLOR=1\n\
         mount -t proc proc /proc\n\
         mount -t sysfs sys /sys\n\
         mount -t devtmpfs dev /dev\n\
         mount -t cgroup2 cgroup /sys/fs/cgroup\n\
         mount -t tracefs tracefs /sys/kernel/tracing\n\
         mount -t debugfs debugfs /sys/kernel/debug\n\
         stty -F /dev/ttyS1 raw\n\
         cat /proc/version\n\
         {run}\
         tar -C /out -c . | gzip > /dev/ttyS1\n\
         echo '{DONE}'\n\
         poweroff -f\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_in_what_ldd_prints() {
        let listed = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        assert_eq!(paths(listed), ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"]);
    }

    #[test]
    fn a_scenario_stays_one_word() {
        let script = script(&Suite { extent: "quick", scenario: Some("a'; rm b") }.script());
        assert!(script.contains("--suite quick --scenario 'a; rm b'\n"), "{script}");
    }
}

//! Recognizes text of other tools in place of a workload, and says what to write instead.

/// Returns what a text without a workload is, and help. None if unknown.
pub(crate) fn recognized(text: &[u8]) -> Option<(&'static str, &'static str)> {
    if text.starts_with(b"#!") {
        return Some((
            "a script",
            "`vruntime record -- COMMAND` records what a command does, and `vruntime replay` repeats it",
        ));
    }
    let text = String::from_utf8_lossy(text);
    let lines =
        || text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#')).take(LINES);
    let has = |keys: &[&str]| lines().any(|line| keys.iter().any(|key| is_key(line, key)));
    // JSON of both has the keys in quotes.
    if has(&["apiVersion"]) && has(&["kind"]) {
        return Some(("a manifest of Kubernetes", KUBERNETES));
    }
    if lines().any(|line| UNIT.contains(&line)) {
        return Some(("a unit of systemd", SYSTEMD));
    }
    if has(&["services"]) {
        return Some(("a file of Docker Compose", COMPOSE));
    }
    if has(&["tasks"]) {
        return Some(("YAML", YAML));
    }
    if lines().next().is_some_and(is_membership) {
        return Some(("the list of a process's cgroups", CGROUPS));
    }
    None
}

/// Lines that are examined.
const LINES: usize = 1000;
const UNIT: [&str; 4] = ["[Unit]", "[Service]", "[Slice]", "[Scope]"];
const KUBERNETES: &str = "describe the pods' work in a scenario, with requests as `weight` and limits as `max` \
                          (docs/how-to/kubernetes.md has one): [groups.\"/pod\"] weight = 20, max = \"1000m\"";
const SYSTEMD: &str = "describe the work in a scenario, with CPUWeight as `weight`, CPUQuota as `max` (50% is \"500m\") and \
                       AllowedCPUs as `cpus`: [groups.\"/system.slice/web.service\"] max = \"500m\"";
const COMPOSE: &str = "describe the work in a scenario, with cpus as `max` (0.5 is \"500m\"), cpu_shares as `weight` (1024 are \
                       100) and cpuset as `cpus`: [groups.\"/web\"] max = \"500m\"";
const YAML: &str = "rt-app reads JSON: python3 -c 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)' \
                    < FILE > workload.json";
const CGROUPS: &str = "it has no work; `vruntime replay TRACE --cgroups FILE` reads groups of a recording";

/// Whether a line begins with a key of YAML without indentation: `kind: Pod`.
fn is_key(line: &str, key: &str) -> bool {
    line.strip_prefix(key).is_some_and(|rest| rest == ":" || rest.starts_with(": "))
}

/// `12:blkio:/azure.slice`, `0::/user.slice`
fn is_membership(line: &str) -> bool {
    let mut parts = line.splitn(3, ':');
    let number = parts.next().is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    number && parts.next().is_some() && parts.next().is_some_and(|path| path.starts_with('/'))
}

//! Policies of the user beside the built-in kernels: `--kernel NAME`.

use std::sync::OnceLock;

use miette::miette;
use vruntime_sched::Policy;
use vruntime_sched::tunables::Knobs;
use vruntime_sim::{Config, Error, Outcome, Watch, run_policy_watched};
use vruntime_trace::Sink;
use vruntime_workload::program::Workload;

/// A scheduling policy with a name for `--kernel`.
///
/// `--kernel NAME+base_slice_ns=1000000` sets a tunable, as for a built-in kernel.
#[derive(Clone, Copy, Debug)]
pub struct UserPolicy {
    name: &'static str,
    kernel: &'static str,
    run: Run,
}

type Run = fn(&Workload, &Config, &mut dyn Sink, &mut Watch<'_>) -> Result<Outcome, Error>;

/// The default of [`UserPolicy::on`].
const KERNEL: &str = "6.12";

impl UserPolicy {
    /// Names a policy. The name begins with a letter, and has letters, digits, `-` and `_`.
    pub fn new<P: Policy<Tunables = Knobs> + 'static>(name: &'static str) -> Self {
        Self { name, kernel: KERNEL, run: run::<P> }
    }

    /// Sets the kernel that supplies load balancing, real-time tasks, tunables and features. The default is 6.12.
    #[must_use]
    pub fn on(self, kernel: &'static str) -> Self {
        Self { kernel, ..self }
    }

    /// Runs a workload under the policy.
    pub(crate) fn run(
        &self,
        workload: &Workload,
        config: &Config,
        sink: &mut dyn Sink,
        watch: &mut Watch<'_>,
    ) -> Result<Outcome, Error> {
        (self.run)(workload, config, sink, watch)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn kernel(&self) -> &'static str {
        self.kernel
    }
}

fn run<P: Policy<Tunables = Knobs>>(
    workload: &Workload,
    config: &Config,
    mut sink: &mut dyn Sink,
    watch: &mut Watch<'_>,
) -> Result<Outcome, Error> {
    run_policy_watched::<P, &mut dyn Sink>(workload, config, &mut sink, watch)
}

static POLICIES: OnceLock<Vec<UserPolicy>> = OnceLock::new();

/// Adds policies to the kernels of this process, once.
pub(crate) fn add(policies: Vec<UserPolicy>) -> miette::Result<()> {
    for (index, policy) in policies.iter().enumerate() {
        check(policy)?;
        if policies[..index].iter().any(|earlier| earlier.name == policy.name) {
            let help = "give each policy a name of its own";
            return Err(miette!(help = help, "two policies have the name `{}`", policy.name));
        }
    }
    // The command begins once.
    let _first = POLICIES.set(policies);
    Ok(())
}

fn check(policy: &UserPolicy) -> miette::Result<()> {
    let UserPolicy { name, kernel, .. } = policy;
    if !is_name(name) {
        let help = "begin the name with a letter, and use letters, digits, `-` and `_`";
        return Err(miette!(help = help, "`{name}` is not a name of a policy"));
    }
    if vruntime_sched::kernel(kernel).is_err() {
        let help = "name a kernel that `vruntime kernels` lists";
        return Err(miette!(help = help, "policy `{name}` is on an unknown kernel, {kernel}"));
    }
    Ok(())
}

/// Whether a policy may have that name. No kernel has such a name.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

/// Returns the policies of this process.
pub(crate) fn all() -> &'static [UserPolicy] {
    POLICIES.get().map_or(&[], Vec::as_slice)
}

/// Finds the policy that `--kernel` names. The second part has features and tunables: `+base_slice_ns=1000000`.
pub(crate) fn named(kernel: &str) -> Option<(&'static UserPolicy, &str)> {
    let (name, changes) = kernel.split_at(kernel.find('+').unwrap_or(kernel.len()));
    Some((all().iter().find(|policy| policy.name == name)?, changes))
}

/// Returns the kernel that is simulated for `--kernel`: that of the policy, with its changes, or the kernel itself.
pub(crate) fn simulated_kernel(kernel: &str) -> String {
    named(kernel).map_or_else(|| kernel.to_owned(), |(policy, changes)| format!("{}{changes}", policy.kernel()))
}

/// Sets the name of a plan's kernel if `--kernel` names a policy. Jobs find the policy by this name.
pub(crate) fn name_plan(planned: &mut String, kernel: Option<&str>) {
    if let Some(name) = kernel.filter(|name| named(name).is_some()) {
        name.clone_into(planned);
    }
}

/// Returns a kernel in words: `Linux 6.12`, or `policy mine on Linux 6.12`.
pub(crate) fn words(kernel: &str) -> String {
    match named(kernel) {
        Some((policy, _)) => format!("policy {kernel} on Linux {}", policy.kernel),
        None => format!("Linux {kernel}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never(_: &Workload, _: &Config, _: &mut dyn Sink, _: &mut Watch<'_>) -> Result<Outcome, Error> {
        panic!("it is not run")
    }

    fn policy(name: &'static str, kernel: &'static str) -> UserPolicy {
        UserPolicy { name, kernel, run: never }
    }

    #[test]
    fn names_and_kernels_are_checked() {
        let message_of =
            |policies: Vec<UserPolicy>| add(policies).map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(message_of(vec![policy("6.12", KERNEL)]), "`6.12` is not a name of a policy");
        assert_eq!(message_of(vec![policy("a b", KERNEL)]), "`a b` is not a name of a policy");
        assert_eq!(message_of(vec![policy("a", "1.0")]), "policy `a` is on an unknown kernel, 1.0");
        assert_eq!(message_of(vec![policy("a", KERNEL), policy("a", KERNEL)]), "two policies have the name `a`");
    }

    #[test]
    fn no_kernel_has_the_name_of_a_policy() {
        assert!(vruntime_sched::kernels().iter().all(|row| !is_name(row.name)));
        assert!(is_name("fcfs-2") && is_name("Mine_"));
    }
}

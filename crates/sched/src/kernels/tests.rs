use super::*;

#[test]
fn features_that_are_on_are_those_of_the_kernel() {
    for row in kernels() {
        for feature in FEATURES {
            let on = row.features.has(feature.feature);
            assert!(!on || has_feature(row.name, feature.feature), "{} under {}", feature.name, row.name);
        }
    }
    for row in FEATURES.iter().filter(|row| row.of != Of::Vruntime) {
        assert!(with_feature(row.feature).is_some(), "{}", row.name);
    }
}

#[test]
fn behaviours_are_introduced_before_they_are_removed() {
    for (index, row) in behaviours::BEHAVIOURS.iter().enumerate() {
        assert_eq!(row.behaviour as usize, index, "{}", row.name);
        assert_eq!(Behaviour::named(row.name), Some(row.behaviour));
        assert!(!FEATURES.iter().any(|feature| feature.name == row.name), "{} is a feature, too", row.name);
        let since = row.since.map(|version| versions::version(version).expect(row.name));
        let until = row.until.map(|version| versions::version(version).expect(row.name));
        assert!(until.is_none_or(|until| since.is_some_and(|since| since < until)), "{}", row.name);
        if let Some((again, end)) = row.again {
            let [again, end] = [again, end].map(|version| versions::version(version).expect(row.name));
            assert!(until.is_some_and(|until| until < again) && again < end, "{}", row.name);
        }
        assert!(row.what.len() <= 110 && !row.what.ends_with('.'), "{}", row.name);
    }
}

/// 3.16 broke the expiry of slices, and 4.18 repaired it.
#[test]
fn slices_expire_in_two_ranges_of_releases() {
    let row = Behaviour::SlicesExpire.row();
    assert_eq!(row.releases().to_string(), "3.2 to before 3.16, 4.18 to before 5.4");
    assert!(row.source().contains("de53fd7aedb1"), "{}", row.source());
    let having = ["3.1", "3.2", "3.15", "3.16", "4.17", "4.18", "5.3", "5.4", "6.1"];
    let has = having.map(|release| Behaviours::at(release).has(Behaviour::SlicesExpire));
    assert_eq!(has, [false, true, true, false, false, true, true, false, false]);
    // Stable releases of 4.19 removed it.
    let of = |name: &str| kernel(name).unwrap().behaviours.has(Behaviour::SlicesExpire);
    assert_eq!(["3.12", "3.18", "4.18-el8", "4.19", "5.4"].map(of), [true, false, true, false, false]);
}

/// RHEL 8.0 is `4.18.0-80.el8` or `4.18.0-80.11.2.el8_0`. 8.1, which is build 147, removed the expiry.
#[test]
fn slices_of_rhel_8_expire_in_8_0_only() {
    for (release, expire) in [
        ("4.18.0-80.el8.x86_64", true),
        ("4.18.0-80.11.2.el8_0.x86_64", true),
        ("4.18.0-80.7.1.el8_0.aarch64", true),
        ("4.18.0-147.el8.x86_64", false),
        ("4.18.0-147.5.1.el8_1.x86_64", false),
        ("4.18.0-193.el8.x86_64", false),
        ("4.18.0-305.el8.x86_64", false),
        ("4.18.0-348.el8.x86_64", false),
        ("4.18.0-372.9.1.el8.x86_64", false),
        ("4.18.0-425.3.1.el8.x86_64", false),
        ("4.18.0-553.6.1.el8.x86_64", false),
        ("4.18.0-553.5.1.an8.x86_64", false),
        ("4.18.0-553.16.1.el8_10.x86_64", false),
    ] {
        let mut kernel = kernel(&series(release)).unwrap();
        kernel.as_of(release);
        assert_eq!(kernel.behaviours.has(Behaviour::SlicesExpire), expire, "{release}");
    }
}

/// Stable releases have NI_RANDOM since January 2026.
#[test]
fn stable_releases_before_2026_have_no_random_newidle_balancing() {
    let has = |release: &str| {
        let mut kernel = kernel(&series(release)).unwrap();
        kernel.as_of(release);
        (kernel.features.has(Feature::NiRandom), kernel.behaviours.has(Behaviour::NewidleCostRises))
    };
    for release in ["6.12.8-arch1-1", "6.1.102", "6.6.30", "6.12.64", "6.6.87.2-microsoft-standard-WSL2"] {
        assert!(!has(release).0, "{release}");
    }
    for release in
        ["6.1.0-56-cloud-amd64", "6.1.160", "6.6.120", "6.12.65", "6.12.117+deb13-amd64", "6.18.5", "6.18.44", "6.12"]
    {
        assert!(has(release).0, "{release}");
    }
    assert_eq!([has("6.18.3"), has("6.18.5"), has("6.18")], [(false, true), (true, false), (true, false)]);
}

/// A source names commits by 12 hexadecimal digits, and has no full stop at its end.
#[test]
fn sources_name_commits() {
    let ids = |row: &behaviours::BehaviourRow| {
        let parts = row.origin.split("commit ").skip(1);
        parts.map(|part| part.chars().take_while(char::is_ascii_alphanumeric).collect()).collect::<Vec<String>>()
    };
    for row in behaviours::BEHAVIOURS {
        for id in ids(row) {
            let hex = id.chars().all(|digit| matches!(digit, '0'..='9' | 'a'..='f'));
            assert!(hex && id.len() == 12, "{}: {id}", row.name);
        }
        assert!(!row.origin.contains("  ") && !row.origin.ends_with(['.', ';']), "{}: {}", row.name, row.origin);
    }
    assert_eq!(ids(Behaviour::AnyLoaded.row()), ["caeb178c60f4", "0b0695f2b34a"]);
    let without = behaviours::BEHAVIOURS.iter().filter(|row| ids(row).is_empty()).count();
    assert!(without <= 12, "{without} rows name no commit");
}

/// A behaviour of all kernels, or of none, could not be tested.
#[test]
fn each_behaviour_separates_two_kernels() {
    for row in behaviours::BEHAVIOURS.iter().filter(|row| row.since.is_some()) {
        let having = kernels().iter().filter(|kernel| kernel.behaviours.has(row.behaviour)).count();
        assert!((1..kernels().len()).contains(&having), "{} is of {having} kernels", row.name);
    }
}

#[test]
fn kernels_have_possible_behaviours() {
    for row in kernels() {
        let behaviours = row.behaviours;
        assert_eq!(behaviours.check(row.policy), Ok(()), "{}", row.name);
        let eevdf = row.policy == PolicyKind::Eevdf;
        assert_eq!(behaviours.has(Behaviour::Eevdf), eevdf, "{}", row.name);
        let release = Behaviours::at(row.release);
        for &behaviour in row.plus {
            assert!(!release.has(behaviour), "{} has {} of its release", row.name, behaviour.name());
        }
        for &behaviour in row.minus {
            assert!(release.has(behaviour), "the release of {} has no {}", row.name, behaviour.name());
        }
    }
}

#[test]
fn impossible_combinations_are_found() {
    let of = |release: &str, behaviour: Behaviour, on: bool| Behaviours::at(release).with(behaviour, on);
    assert_eq!(
        of("6.17", Behaviour::ShortOvertakes, true).check(PolicyKind::Eevdf).unwrap_err().to_string(),
        "PROTECTS_SHORTEST_SLICE excludes SHORT_OVERTAKES"
    );
    assert_eq!(
        of("7.0", Behaviour::Vprot, false).check(PolicyKind::Eevdf).unwrap_err().to_string(),
        "WAKEUP_SHORTENS_PROTECTION needs PROTECTS_SHORTEST_SLICE"
    );
    assert!(of("6.12", Behaviour::Early, true).check(PolicyKind::Eevdf).is_err());
    assert!(of("6.12", Behaviour::TaskThrottle, true).check(PolicyKind::Eevdf).is_ok());
}

/// A behaviour without an effect beside the kernel's others is an error. With the behaviour or feature that uses it, it
/// is accepted.
#[test]
fn additions_without_an_effect_are_errors() {
    let check = |name: &str, parts: &str| {
        let mut kernel = kernel(name).unwrap();
        for part in parts.split(' ') {
            kernel.feature(part).unwrap();
        }
        kernel.check().map_err(|error| error.to_string())
    };
    let of_types = "FULLY_BUSY_SPARES_SMT FIRST_OF_EQUAL_MISFITS SPARE_CORE_FIRST SMT_BALANCE SIBLINGS_BY_CORES SIBLING_OF_BUSIEST \
                    NUMA_ALLOWS_PAIR NUMA_ALLOWS_QUARTER NUMA_IMBALANCE_BY_CACHES SPARES_BIG_CPUS MISFIT_DOES_NOT_COUNT";
    let of_search = "WAKE_SEARCHES_ONCE WAKE_CLUSTER_FIRST WAKE_AGES_IDLE WAKE_RECENT_CPU";
    for (kernel, names, needs) in [("4.19", of_types, "BALANCE_BY_TYPE"), ("3.10", of_search, "WAKE_IDLE_CORES")] {
        for name in names.split(' ') {
            assert_eq!(check(kernel, name), Err(alloc::format!("{name} needs {needs}")), "{kernel}");
        }
    }
    for (name, release, feature) in [
        ("WAKE_AGES_IDLE", "6.4", "SIS_PROP"),
        ("SLICE_ENDS_AT_DEADLINE", "6.12", "HRTICK"),
        ("HRTICK_ONCE", "6.12", "HRTICK"),
    ] {
        assert_eq!(check(release, &alloc::format!("-{name} +{name}")), Err(alloc::format!("{name} needs {feature}")));
        assert_eq!(check(release, &alloc::format!("{feature} {name}")), Ok(()));
    }
    for name in ["SMT_BALANCE", "MISFIT_DOES_NOT_COUNT", "WAKE_CLUSTER_FIRST"] {
        assert_eq!(check("6.1", name), Ok(()));
    }
    assert_eq!(check("4.19", "WAKE_SEARCHES_ONCE"), Ok(()));
    assert_eq!(check("6.12", "HRTICK_DL HRTICK_ONCE"), Ok(()));
}

/// As `/sys/kernel/debug/sched/features` of the recorded machines.
#[test]
fn features_are_those_the_recorded_kernels_print() {
    let eevdf = "PLACE_LAG PLACE_DEADLINE_INITIAL PLACE_REL_DEADLINE RUN_TO_PARITY PREEMPT_SHORT NO_NEXT_BUDDY PICK_BUDDY \
                 CACHE_HOT_BUDDY DELAY_DEQUEUE DELAY_ZERO WAKEUP_PREEMPTION NO_HRTICK NO_HRTICK_DL NO_DOUBLE_TICK \
                 NONTASK_CAPACITY TTWU_QUEUE SIS_UTIL NO_WARN_DOUBLE_CLOCK NO_RT_PUSH_IPI NO_RT_RUNTIME_SHARE NO_LB_MIN \
                 ATTACH_AGE_LOAD WA_IDLE WA_WEIGHT WA_BIAS UTIL_EST NO_LATENCY_WARN NI_RANDOM";
    let cfs = "GENTLE_FAIR_SLEEPERS START_DEBIT NO_NEXT_BUDDY LAST_BUDDY CACHE_HOT_BUDDY WAKEUP_PREEMPTION NO_HRTICK NO_HRTICK_DL \
               NO_DOUBLE_TICK NONTASK_CAPACITY TTWU_QUEUE NO_SIS_PROP SIS_UTIL NO_WARN_DOUBLE_CLOCK NO_RT_PUSH_IPI \
               NO_RT_RUNTIME_SHARE NO_LB_MIN ATTACH_AGE_LOAD WA_IDLE WA_WEIGHT WA_BIAS UTIL_EST UTIL_EST_FASTUP \
               NO_LATENCY_WARN NI_RANDOM ALT_PERIOD BASE_SLICE";
    // From `features.h`: the recorded machine with 6.18.15 did not allow the file to be read.
    let since_6_18 = eevdf.replace("NO_DOUBLE_TICK ", "").replace("NO_RT_PUSH_IPI", "RT_PUSH_IPI");
    // From `kernel/sched_features.h` and `sched/features.h` with CONFIG_NUMA_BALANCING; 2.6.23 has bits of
    // `sched_features`.
    let cfs_2007 = "FAIR_SLEEPERS SLEEPER_AVG SLEEPER_LOAD_AVG PRECISE_CPU_LOAD START_DEBIT NO_SKIP_INITIAL";
    let common = "GENTLE_FAIR_SLEEPERS START_DEBIT NO_NEXT_BUDDY LAST_BUDDY CACHE_HOT_BUDDY WAKEUP_PREEMPTION NO_HRTICK \
                  NO_DOUBLE_TICK LB_BIAS TTWU_QUEUE NO_FORCE_SD_OVERLAP RT_RUNTIME_SHARE NO_LB_MIN NO_NUMA";
    let power = alloc::format!("{common} ARCH_POWER NONTASK_POWER NO_NUMA_FORCE");
    let capacity = alloc::format!("{common} ARCH_CAPACITY NONTASK_CAPACITY NUMA_FAVOUR_HIGHER NO_NUMA_RESIST_LOWER");
    let old = [("2.6.23", cfs_2007), ("3.10", &power), ("3.12", &power), ("3.17", &capacity), ("3.18", &capacity)];
    // As a booted Debian 7.1.13 prints them.
    let since_7_1 = eevdf
        .replace("DELAY_ZERO", "DELAY_ZERO NO_PARANOID_AVG")
        .replace("NO_HRTICK NO_HRTICK_DL NO_DOUBLE_TICK", "HRTICK HRTICK_DL");
    let since_7_1 = alloc::format!("{since_7_1} NI_RATE");
    let eevdfs = [("6.12", eevdf), ("6.18", &since_6_18), ("7.0", &since_6_18), ("7.1", &since_7_1)];
    for (name, printed) in old.into_iter().chain([("6.1", cfs)]).chain(eevdfs) {
        let kernel = kernel(name).unwrap();
        let mut printed: Vec<&str> = printed.split(' ').collect();
        let show = |row: &crate::features::FeatureRow| {
            let no = if kernel.features.has(row.feature) { "" } else { "NO_" };
            alloc::format!("{no}{}", row.name)
        };
        let mut ours: Vec<String> = FEATURES.iter().filter(|row| has_feature(name, row.feature)).map(show).collect();
        printed.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, printed, "{name}");
    }
}

#[test]
fn tunables_are_those_the_recorded_kernels_print() {
    let eevdf = kernel("6.12").unwrap();
    assert_eq!(eevdf.tunables(2, 250).base_slice_ns, 1_400_000);
    assert_eq!(eevdf.tunables(4, 250).base_slice_ns, 2_100_000);
    assert_eq!(eevdf.tunables(8, 250).base_slice_ns, 2_800_000);
    let cfs = kernel("6.1").unwrap().tunables(4, 250);
    assert_eq!((cfs.latency_ns, cfs.base_slice_ns, cfs.wakeup_granularity_ns), (18_000_000, 2_250_000, 3_000_000));
}

#[test]
fn slices_of_rr_are_ticks() {
    let slice = |value: u64, hz: u32| {
        let mut kernel = kernel("6.1").unwrap();
        kernel.set("sched_rr_timeslice_ms", value).unwrap();
        let knobs = kernel.tunables(1, hz);
        knobs.rr_timeslice_ns / knobs.tick_ns
    };
    // As msecs_to_jiffies: 1 ms is a tick of any length, 7 ms are two of 4 ms, 10 ms are three of 3.33 ms.
    assert_eq!([slice(1, 250), slice(7, 250), slice(8, 250), slice(9, 250)], [1, 2, 2, 3]);
    assert_eq!(
        [slice(10, 300), slice(10, 1000), slice(0, 250), slice(u64::MAX, 250)],
        [3, 10, 25, u64::MAX / 4_000_000]
    );
    assert_eq!(slice(negative("sched_rr_timeslice_ms", -5).unwrap(), 1000), 100);
}

#[test]
fn a_wrong_name_gets_the_nearest_right_one() {
    let mut kernel = kernel("6.12").unwrap();
    assert_eq!(kernel.feature("NO_RUN_TO_PARTY").unwrap_err().nearest, Some("RUN_TO_PARITY"));
    assert_eq!(kernel.set("base_slice", 1).unwrap_err().nearest, Some("base_slice_ns"));
    assert!(super::kernel("xyzzyxyzzy").unwrap_err().nearest.is_none());
    assert!(kernel.features.has(Feature::RunToParity));
    kernel.feature("NO_RUN_TO_PARITY").unwrap();
    assert!(!kernel.features.has(Feature::RunToParity));
}

//! Who may use whom: the drawing in ARCHITECTURE.md, as data.
//!
//! Manifests are read line by line: the workspace writes one dependency a line, and a form that
//! is not understood shows up as a name that is not allowed.

/// Which of our crates each may use. What is missing here may use none.
const EDGES: [(&str, &[&str]); 9] = [
    ("iotrace-model", &[]),
    ("iotrace-capture", &["iotrace-model"]),
    ("iotrace-parse", &["iotrace-model"]),
    ("iotrace-requests", &["iotrace-model"]),
    ("iotrace-dataset", &["iotrace-model"]),
    ("iotrace-metrics", &["iotrace-model", "iotrace-dataset"]),
    ("iotrace-report", &["iotrace-model"]),
    ("iotrace-sim", &["iotrace-model"]),
    (
        "iotrace-cli",
        &[
            "iotrace-model",
            "iotrace-capture",
            "iotrace-parse",
            "iotrace-requests",
            "iotrace-dataset",
            "iotrace-metrics",
            "iotrace-report",
            "iotrace-sim",
        ],
    ),
];
/// These stand outside the drawing and may use any of ours.
const OUTSIDE: [&str; 2] = ["iotrace-testkit", "xtask"];

/// The homes of outside crates.
const HOMES: [(&str, &[&str]); 27] = [
    ("anyhow", &["iotrace-cli", "xtask"]),
    ("arrow", &["iotrace-dataset"]),
    ("bytes", &["iotrace-dataset"]),
    ("clap", &["iotrace-cli", "xtask"]),
    ("clap_complete", &["iotrace-cli"]),
    ("clap_mangen", &["iotrace-cli"]),
    ("comfy-table", &["iotrace-report"]),
    ("flate2", &["iotrace-parse"]),
    ("hdrhistogram", &["iotrace-metrics"]),
    ("indicatif", &["iotrace-cli"]),
    ("jiff", &["iotrace-cli"]),
    ("libc", &["iotrace-capture"]),
    ("liblzma", &["iotrace-parse"]),
    ("maud", &["iotrace-report"]),
    ("memchr", &["iotrace-parse"]),
    ("nom", &["iotrace-parse"]),
    ("parquet", &["iotrace-dataset"]),
    ("perf-event-open", &["iotrace-capture"]),
    ("plotters", &["iotrace-report"]),
    ("polars", &["iotrace-metrics"]),
    ("serde", &["iotrace-dataset", "iotrace-report"]),
    ("serde_json", &["iotrace-dataset", "iotrace-report", "iotrace-cli", "xtask"]),
    ("sha2", &["iotrace-dataset"]),
    ("signal-hook", &["iotrace-cli"]),
    ("statrs", &["iotrace-metrics"]),
    ("tempfile", &["iotrace-parse", "iotrace-testkit", "xtask"]),
    ("zstd", &["iotrace-dataset", "iotrace-parse", "iotrace-testkit"]),
];
/// The outside crate that any crate may use.
const EVERYWHERE: &str = "thiserror";

/// What is wrong with the `[dependencies]` of a crate's manifest, one sentence each.
pub(super) fn problems(krate: &str, manifest: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !EDGES.iter().any(|(name, _)| *name == krate) && !OUTSIDE.contains(&krate) {
        problems.push(format!("crates/{krate}: not in the drawing of ARCHITECTURE.md"));
    }
    for dependency in dependencies(manifest) {
        if !may_use(krate, dependency) {
            problems.push(format!("crates/{krate}/Cargo.toml: must not use {dependency}"));
        }
    }
    problems
}

fn may_use(krate: &str, dependency: &str) -> bool {
    if dependency.starts_with("iotrace-") {
        let allowed = EDGES.iter().find(|(name, _)| *name == krate).map(|(_, allowed)| *allowed);
        return OUTSIDE.contains(&krate) || allowed.is_some_and(|list| list.contains(&dependency));
    }
    let home = HOMES.iter().find(|(name, _)| *name == dependency);
    match home {
        Some((_, homes)) => homes.contains(&krate),
        None => dependency == EVERYWHERE,
    }
}

/// The names under `[dependencies]`, in any of its forms, also for a target or for building.
/// Dependencies of tests are free.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut is_inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.split(']').next().unwrap_or(section);
            is_inside = section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
            if let Some((kind, name)) = section.rsplit_once("dependencies.")
                && !kind.ends_with("dev-")
            {
                names.push(name);
            }
        } else if is_inside && !line.is_empty() && !line.starts_with('#') {
            names.push(line.split(['.', '=', ' ']).next().unwrap_or(line));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_moves_to_the_right_only() {
        check(
            "iotrace-metrics",
            "iotrace-model.workspace = true\niotrace-dataset.workspace = true",
            0,
        );
        check("iotrace-report", "iotrace-metrics.workspace = true", 1);
        check("iotrace-model", "serde = { version = \"1\" }", 1);
        check("iotrace-model", "thiserror.workspace = true", 0);
        check("xtask", "iotrace-testkit.workspace = true\ntempfile.workspace = true", 0);
        check("iotrace-cli", "iotrace-testkit.workspace = true", 1);
        check("iotrace-new", "", 1);
    }

    #[test]
    fn outside_crate_has_one_home() {
        check("iotrace-dataset", "arrow.workspace = true", 0);
        check("iotrace-metrics", "arrow.workspace = true", 1);
        check("iotrace-parse", "rand = \"0.9\"", 1);
        check("iotrace-metrics", "tempfile.workspace = true", 1);
    }

    #[test]
    fn every_form_of_a_dependency_is_seen() {
        let manifest = "[package]\nname = \"a\"\n[dependencies]\n# why\na.workspace = true\n\
                        b = \"1\"\n[dependencies.c]\nversion = \"1\"\n\
                        [target.'cfg(unix)'.dependencies]\nd = \"1\"\n\
                        [dev-dependencies]\ne = \"1\"\n[dev-dependencies.f]\nversion = \"1\"\n\
                        [build-dependencies]\ng = \"1\"\n[lints]\nworkspace = true\n";
        assert_eq!(dependencies(manifest), ["a", "b", "c", "d", "g"]);
    }

    #[track_caller]
    fn check(krate: &str, dependencies: &str, expected: usize) {
        let manifest = format!("[dependencies]\n{dependencies}\n");
        let found = problems(krate, &manifest);
        assert_eq!(found.len(), expected, "{found:?}");
    }
}

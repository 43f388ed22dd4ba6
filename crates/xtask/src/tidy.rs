//! `cargo xtask tidy`: the rules of the source tree that no compiler checks. Also a test.
//!
//! File headers and sizes, who depends on whom, one home for each outside crate, and documents
//! that say what they are.

mod edges;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

/// Longest source file, in lines.
const MOST_LINES: usize = 600;

/// Prints every problem; whether there was none.
pub(crate) fn run() -> anyhow::Result<bool> {
    let problems = problems(crate::root())?;
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        println!("tidy");
    } else {
        println!("{} problems", problems.len());
    }
    Ok(problems.is_empty())
}

/// What is wrong in a workspace, one sentence each, beginning with the path.
fn problems(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    let crates = folders(&root.join("crates"))?;
    let mut sources = Vec::new();
    for folder in crates.iter().flat_map(|krate| ["src", "tests", "benches"].map(|f| krate.join(f)))
    {
        collect(&folder, "rs", &mut sources)?;
    }
    collect(&root.join("tests"), "rs", &mut sources)?;
    for path in sources {
        problems.extend(source_problems(&shown(root, &path), &read(&path)?));
    }
    for krate in crates {
        let path = krate.join("Cargo.toml");
        if path.is_file() {
            let name = krate.file_name().unwrap_or_default().to_string_lossy();
            problems.extend(edges::problems(&name, &read(&path)?));
        }
    }
    let mut schemas = Vec::new();
    collect(&root.join("schemas"), "json", &mut schemas)?;
    for path in schemas {
        problems.extend(schema_problem(&shown(root, &path), &read(&path)?));
    }
    for dataset in folders(&root.join("datasets"))? {
        problems.extend(dataset_problems(&shown(root, &dataset), &dataset));
    }
    Ok(problems)
}

fn source_problems(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !text.starts_with("//!") {
        problems.push(format!("{path}: does not open with `//!`: say what the file holds"));
    }
    let lines = text.lines().count();
    if lines > MOST_LINES {
        problems.push(format!("{path}: {lines} lines, at most {MOST_LINES}: split it by ideas"));
    }
    problems
}

/// Where a schema may name what it describes: a table's own form, JSON Schema, or its identity.
const NAMES: [&str; 3] = ["/schema", "/properties/schema/const", "/$id"];

/// A schema is JSON and names table or document and version as its file does: `events-1.json`
/// describes `iotrace/events/1`.
fn schema_problem(path: &str, text: &str) -> Option<String> {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => return Some(format!("{path}: not JSON: {error}")),
    };
    let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    let (table, version) = stem.rsplit_once('-').unwrap_or((&stem, ""));
    let name = format!("iotrace/{table}/{version}");
    let mut names = NAMES.iter().filter_map(|place| value.pointer(place).and_then(Value::as_str));
    (!names.any(|found| found == name))
        .then(|| format!("{path}: names itself `{name}` in none of {}", NAMES.join(", ")))
}

/// A dataset says where it is from, and is finished: it or the dataset inside has a manifest.
fn dataset_problems(path: &str, folder: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    if !folder.join("README.md").is_file() {
        problems.push(format!("{path}: has no README.md"));
    }
    let is_finished = |folder: &Path| folder.join("manifest.json").is_file();
    let inside = folders(folder).unwrap_or_default();
    if !is_finished(folder) && !inside.iter().any(|folder| is_finished(folder)) {
        problems.push(format!("{path}: has no manifest.json"));
    }
    problems
}

/// The folders in a folder, sorted; none when it is missing.
fn folders(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    Ok(entries(folder)?.into_iter().filter(|path| path.is_dir()).collect())
}

/// Every file below a folder with this extension, sorted.
fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for path in entries(folder)? {
        if path.is_dir() {
            collect(&path, extension, files)?;
        } else if path.extension().is_some_and(|found| found == extension) {
            files.push(path);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>())
        .with_context(|| format!("cannot list {}", folder.display()))?;
    paths.sort();
    Ok(paths)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspace_is_tidy() {
        assert_eq!(problems(crate::root()).unwrap(), <[String; 0]>::default());
    }

    #[test]
    fn source_has_a_header_and_is_short() {
        assert_eq!(source_problems("a.rs", "//! A.\n").len(), 0);
        assert_eq!(source_problems("a.rs", "use b;\n").len(), 1);
        assert_eq!(source_problems("a.rs", &"//! A.\n".repeat(600)).len(), 0);
        assert_eq!(source_problems("a.rs", &"//! A.\n".repeat(601)).len(), 1);
    }

    #[test]
    fn schema_names_itself() {
        check_schema(r#"{"schema": "iotrace/events/1"}"#, true);
        check_schema(r#"{"$id": "iotrace/events/1"}"#, true);
        check_schema(r#"{"properties": {"schema": {"const": "iotrace/events/1"}}}"#, true);
        check_schema(r#"{"schema": "iotrace/events/2"}"#, false);
        check_schema("{}", false);
        check_schema("{", false);
    }

    #[track_caller]
    fn check_schema(text: &str, good: bool) {
        assert_eq!(schema_problem("schemas/events-1.json", text).is_none(), good);
    }

    #[test]
    fn dataset_has_a_readme_and_a_manifest() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(dataset_problems("d", folder.path()).len(), 2);
        fs::write(folder.path().join("README.md"), "").unwrap();
        fs::create_dir(folder.path().join("a.iotrace")).unwrap();
        assert_eq!(dataset_problems("d", folder.path()).len(), 1);
        fs::write(folder.path().join("a.iotrace/manifest.json"), "{}").unwrap();
        assert_eq!(dataset_problems("d", folder.path()).len(), 0);
    }
}

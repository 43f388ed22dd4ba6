//! The folder of a dataset: making it, finishing it, opening it.
//!
//! ```text
//! OUT/manifest.json                  in place last: without it the dataset is unfinished
//! OUT/runs/ncq=on/rep=0/run.json     measured runs, Hive-style, only keys that vary
//! OUT/warmup/ncq=on/rep=0/run.json   warm-ups, out of the way of runs/**
//! ```

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use iotrace_model::Configuration;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::checksum::hex;
use crate::{Error, MANIFEST_SCHEMA, Manifest, RUN_SCHEMA, RunDocument, checksum};

const MANIFEST: &str = "manifest.json";
const RUN: &str = "run.json";
/// What is known of a run while it is being recorded; `run.json` takes its place.
pub const DRAFT: &str = "run.unfinished.json";
const RUNS: &str = "runs";
const WARMUP: &str = "warmup";

/// A finished dataset, its tables unread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Its folder.
    pub root: PathBuf,
    /// What it holds.
    pub manifest: Manifest,
    /// Its runs in the order of the manifest, warm-ups included.
    pub runs: Vec<Run>,
}

/// One run of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its folder, relative to the dataset.
    pub folder: PathBuf,
    /// What is known of it.
    pub document: RunDocument,
}

impl Dataset {
    /// Opens a finished dataset. Fails when there is none, it is unfinished, it is of a version
    /// that this one cannot read, or a document is missing or broken.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let path = root.join(MANIFEST);
        if !path.is_file() {
            return Err(why_not(root)?);
        }
        let manifest: Manifest = read_json(&path, MANIFEST_SCHEMA)?;
        let mut runs = Vec::new();
        for entry in &manifest.runs {
            let folder = PathBuf::from(&entry.folder);
            if !folder.components().all(|part| matches!(part, Component::Normal(_))) {
                return Err(Error::OutsideFolder { path, folder: entry.folder.clone() });
            }
            let document = read_json(&root.join(&folder).join(RUN), RUN_SCHEMA)?;
            runs.push(Run { folder, document });
        }
        Ok(Self { root: root.to_owned(), manifest, runs })
    }
}

/// A run as its recorder left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// Its folder, relative to the dataset.
    pub folder: PathBuf,
    /// `run.json`: the run is whole.
    pub document: Option<RunDocument>,
    /// What was known when it started.
    pub draft: Option<RunDocument>,
}

/// The runs of a dataset whose recorder was stopped, warm-ups included, in the order in which they
/// ran. Fails when the dataset is finished, or is none.
pub fn remains(root: &Path) -> Result<Vec<Remains>, Error> {
    if root.join(MANIFEST).is_file() {
        return Err(Error::Finished { path: root.to_owned() });
    }
    let error = why_not(root)?;
    if !matches!(error, Error::Unfinished { .. }) {
        return Err(error);
    }
    let mut folders = BTreeSet::new();
    for top in [WARMUP, RUNS] {
        let top = root.join(top);
        let files = if top.is_dir() { checksum::files(&top)? } else { Vec::new() };
        let folders_of =
            files.iter().filter_map(|file| top.join(file).parent().map(Path::to_owned));
        folders.extend(folders_of);
    }
    let mut remains = Vec::new();
    for path in folders {
        let read = |name: &str| {
            let path = path.join(name);
            path.is_file().then(|| read_json::<RunDocument>(&path, RUN_SCHEMA)).transpose()
        };
        let folder = path.strip_prefix(root).unwrap_or(&path).to_owned();
        // A draft is renamed into place whole; one that cannot be read is as good as none.
        let draft = read(DRAFT).unwrap_or_default();
        remains.push(Remains { folder, document: read(RUN)?, draft });
    }
    remains.sort_by_key(|run| {
        let order = run.document.as_ref().or(run.draft.as_ref()).map(|run| run.order);
        (order.unwrap_or(u32::MAX), run.folder.clone())
    });
    Ok(remains)
}

/// Makes the folder of a new dataset; the one above it must exist, it itself must not.
pub fn create(root: &Path) -> Result<(), Error> {
    std::fs::create_dir(root).map_err(|source| {
        if source.kind() == io::ErrorKind::AlreadyExists {
            return Error::OutputExists { path: root.to_owned() };
        }
        Error::write(root, source)
    })
}

/// The folder of a run, relative to the dataset. Bytes that a Hive-style name cannot hold are
/// percent-encoded, as readers of such folders expect.
pub fn run_folder(configuration: &Configuration, repetition: u32, warmup: bool) -> PathBuf {
    let mut folder = PathBuf::from(if warmup { WARMUP } else { RUNS });
    for (key, value) in &configuration.settings {
        folder.push(format!("{}={}", encode(key), encode(value)));
    }
    folder.push(format!("rep={repetition}"));
    folder
}

/// Takes the checksum of every file and puts the manifest in place: the dataset is finished.
/// Costs one pass over all files.
pub fn finish(root: &Path, mut manifest: Manifest) -> Result<(), Error> {
    MANIFEST_SCHEMA.clone_into(&mut manifest.schema);
    manifest.checksums = checksum::seal(root)?;
    write_json(&root.join(MANIFEST), &manifest)
}

/// Writes a document beside its place, brings it to the disk and renames it, so that no reader
/// sees half of one, not even after a power loss.
pub fn write_json(path: &Path, document: &impl Serialize) -> Result<(), Error> {
    let mut text =
        serde_json::to_vec_pretty(document).map_err(|source| Error::document(path, source))?;
    text.push(b'\n');
    let beside = path.with_added_extension("new");
    replace(path, &beside, &text).map_err(|source| {
        // The first failure is the one to tell; what is left of the file may stay.
        drop(std::fs::remove_file(&beside));
        Error::write(path, source)
    })
}

fn replace(path: &Path, beside: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = File::create(beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(beside, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Why a folder without a manifest cannot be opened.
fn why_not(root: &Path) -> Result<Error, Error> {
    let path = root.to_owned();
    match std::fs::metadata(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Error::NotFound { path });
        }
        Err(source) => return Ok(Error::Read { path, source }),
        Ok(_) => {}
    }
    let runs = root.join(RUNS);
    if !runs.is_dir() && !root.join(WARMUP).is_dir() {
        return Ok(Error::NotADataset { path });
    }
    let files = if runs.is_dir() { checksum::files(&runs)? } else { Vec::new() };
    let finished = files.iter().filter(|file| file.ends_with(RUN)).count();
    Ok(Error::Unfinished { path, finished })
}

/// Reads a document once its schema is known to be `expected`.
fn read_json<T: DeserializeOwned>(path: &Path, expected: &'static str) -> Result<T, Error> {
    let text = std::fs::read(path).map_err(|source| Error::read(path, source))?;
    let broken = |source| Error::document(path, source);
    let value: serde_json::Value = serde_json::from_slice(&text).map_err(broken)?;
    let found = value.get("schema").and_then(serde_json::Value::as_str).unwrap_or("none");
    if found != expected {
        return Err(Error::Version { path: path.to_owned(), found: found.to_owned(), expected });
    }
    serde_json::from_slice(&text).map_err(broken)
}

fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.,:+".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.extend(hex(byte).map(|digit| digit.to_ascii_uppercase()));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_folders_are_hive_style_and_warm_ups_lie_apart() {
        check(&[], 0, false, "runs/rep=0");
        check(&[("ncq", "on")], 2, false, "runs/ncq=on/rep=2");
        check(&[("ncq", "off"), ("scheduler", "mq-deadline")], 0, true, {
            "warmup/ncq=off/scheduler=mq-deadline/rep=0"
        });
        check(&[("file", "../a=b")], 0, false, "runs/file=..%2Fa%3Db/rep=0");
    }

    #[track_caller]
    fn check(settings: &[(&str, &str)], repetition: u32, warmup: bool, expected: &str) {
        let settings =
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let folder = run_folder(&Configuration { settings }, repetition, warmup);
        assert_eq!(folder, Path::new(expected));
    }
}

//! The folder of a dataset: making it, finishing it, opening it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use iotrace_model::Configuration;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::{Error, MANIFEST_SCHEMA, Manifest, RUN_SCHEMA, RunDocument};

/// A finished dataset, its tables unread.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Its folder.
    pub root: PathBuf,
    /// What it holds.
    pub manifest: Manifest,
    /// Its runs in the order of the manifest.
    pub runs: Vec<Run>,
}

/// One run of a dataset.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its folder, relative to the dataset.
    pub folder: PathBuf,
    /// What is known of it.
    pub document: RunDocument,
}

impl Dataset {
    /// Opens a finished dataset.
    ///
    /// # Errors
    /// When the folder is none, is unfinished, or is of a version that this one cannot read.
    pub fn open(root: &Path) -> Result<Self, Error> {
        std::fs::metadata(root).map_err(|source| Error::read(root, source))?;
        let path = root.join("manifest.json");
        if !path.is_file() {
            if !root.join("runs").is_dir() {
                return Err(Error::NotADataset { path: root.to_owned() });
            }
            let finished = files(root)?.iter().filter(|file| file.ends_with("run.json")).count();
            return Err(Error::Unfinished { path: root.to_owned(), finished });
        }
        let manifest: Manifest = read_json(&path, MANIFEST_SCHEMA)?;
        let mut runs = Vec::new();
        for entry in &manifest.runs {
            let folder = PathBuf::from(&entry.folder);
            let document = read_json(&root.join(&folder).join("run.json"), RUN_SCHEMA)?;
            runs.push(Run { folder, document });
        }
        Ok(Self { root: root.to_owned(), manifest, runs })
    }
}

/// Makes the folder of a new dataset.
///
/// # Errors
/// When something is there already, or it cannot be made.
pub fn create(root: &Path) -> Result<(), Error> {
    match std::fs::create_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::Exists { path: root.to_owned() })
        }
        Err(source) => Err(Error::write(root, source)),
        Ok(()) => Ok(()),
    }
}

/// The folder of a run. Warm-ups lie apart, so that `runs/**` finds measured runs only.
pub fn run_folder(configuration: &Configuration, repetition: u32, warmup: bool) -> PathBuf {
    let mut folder = PathBuf::from(if warmup { "warmup" } else { "runs" });
    for (key, value) in &configuration.settings {
        folder.push(format!("{key}={value}"));
    }
    folder.push(format!("rep={repetition}"));
    folder
}

/// Takes the checksum of every file, then puts the manifest in place: the dataset is finished.
///
/// # Errors
/// When a file cannot be read, or the manifest cannot be written.
pub fn finish(root: &Path, mut manifest: Manifest) -> Result<(), Error> {
    for relative in files(root)? {
        let path = root.join(&relative);
        manifest.checksums.insert(relative.display().to_string(), checksum(&path)?);
    }
    write_json(&root.join("manifest.json"), &manifest)
}

/// Writes a document beside its place and renames it, so that no reader sees half of one.
///
/// # Errors
/// When the document cannot be written.
pub fn write_json(path: &Path, document: &impl Serialize) -> Result<(), Error> {
    let mut text = serde_json::to_string_pretty(document)
        .map_err(|source| Error::Document { path: path.to_owned(), source })?;
    text.push('\n');
    let beside = path.with_extension("json.new");
    let write = || -> io::Result<()> {
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|source| Error::write(path, source))
}

fn read_json<T: DeserializeOwned>(path: &Path, expected: &'static str) -> Result<T, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::read(path, source))?;
    let document = |source| Error::Document { path: path.to_owned(), source };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(document)?;
    let found = value.get("schema").and_then(serde_json::Value::as_str).unwrap_or("none");
    if found != expected {
        return Err(Error::Version { path: path.to_owned(), found: found.to_owned(), expected });
    }
    serde_json::from_value(value).map_err(document)
}

/// Every file below a folder, relative to it, sorted.
fn files(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|source| Error::read(&folder, source))?;
        for entry in entries {
            let entry = entry.map_err(|source| Error::read(&folder, source))?;
            let kind = entry.file_type().map_err(|source| Error::read(entry.path(), source))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if let Ok(relative) = entry.path().strip_prefix(root) {
                found.push(relative.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn checksum(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(|source| Error::read(path, source))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer).map_err(|source| Error::read(path, source))?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        hasher.update(bytes);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

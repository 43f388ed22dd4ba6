//! SHA-256 of the files of a dataset.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::Error;

/// SHA-256 of a file in lower-case hexadecimal, reading it once.
pub fn checksum(path: &Path) -> Result<String, Error> {
    let file = File::open(path).map_err(|source| Error::read(path, source))?;
    digest(file, path)
}

/// The checksum of every file below `root` but the manifest, by its path with `/` in it. Each
/// file is brought to the disk first, so that a manifest never outlives what it vouches for.
pub(crate) fn seal(root: &Path) -> Result<BTreeMap<String, String>, Error> {
    let mut checksums = BTreeMap::new();
    for relative in files(root)? {
        if relative == Path::new("manifest.json") || relative == Path::new("manifest.json.new") {
            continue;
        }
        let path = root.join(&relative);
        let file = File::open(&path).map_err(|source| Error::read(&path, source))?;
        file.sync_all().map_err(|source| Error::write(&path, source))?;
        checksums.insert(relative.display().to_string(), digest(file, &path)?);
    }
    Ok(checksums)
}

/// Every regular file below a folder, relative to it. Links are not followed.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|source| Error::read(&folder, source))?;
        for entry in entries {
            let entry = entry.map_err(|source| Error::read(&folder, source))?;
            let kind = entry.file_type().map_err(|source| Error::read(entry.path(), source))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file()
                && let Ok(relative) = entry.path().strip_prefix(root)
            {
                found.push(relative.to_owned());
            }
        }
    }
    Ok(found)
}

fn digest(mut file: File, path: &Path) -> Result<String, Error> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = file.read(&mut buffer).map_err(|source| Error::read(path, source))?;
        let Some(bytes) = buffer.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        hasher.update(bytes);
    }
    Ok(hasher.finalize().iter().flat_map(|byte| hex(*byte)).collect())
}

/// The two digits of a byte, in lower case.
pub(crate) fn hex(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 0xf]
        .map(|digit| char::from_digit(u32::from(digit), 16).expect("a digit is below 16"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_that_of_sha256sum() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(checksum(&path).unwrap(), expected);
    }
}

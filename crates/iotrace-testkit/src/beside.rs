//! Test input that is kept beside the repository and is no part of it.

use std::path::{Path, PathBuf};

/// A path below the folder `shared` beside the repository, or, where `IOTRACE_SHARED` names another
/// folder, below that. `None`, with a word on stderr, when it is not there: the test is skipped.
pub fn beside(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("IOTRACE_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let found = root.join(path);
    if found.exists() {
        return Some(found);
    }
    eprintln!("skipped: {} is not there", found.display());
    None
}

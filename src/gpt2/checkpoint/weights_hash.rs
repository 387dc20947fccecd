//! The SHA-256 that names weights in records.

use std::mem;

use sha2::{Digest, Sha256};

/// The SHA-256 of weights, from the bytes of their files: of one file, its own. Of several, that of the lines
/// `sha256sum` prints for them in the order of their names, which does not depend on the order they came in.
#[derive(Default)]
pub struct WeightsHash {
    open: Sha256,
    /// Names and digests of the files that have ended.
    files: Vec<(String, String)>,
}

impl WeightsHash {
    /// Takes the next bytes of a file.
    pub fn push(&mut self, bytes: &[u8]) {
        self.open.update(bytes);
    }

    /// The file that was taken has ended, and is called `name`.
    pub fn end_file(&mut self, name: &str) {
        self.files.push((name.to_owned(), hex(mem::take(&mut self.open))));
    }

    /// In hexadecimal.
    pub fn finish(mut self) -> String {
        self.files.sort();
        match self.files.as_slice() {
            [(_, digest)] => digest.clone(),
            several => {
                let lines = several.iter().map(|(name, digest)| format!("{digest}  {name}\n"));
                hex(lines.fold(Sha256::new(), |all, line| all.chain_update(line)))
            }
        }
    }
}

fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

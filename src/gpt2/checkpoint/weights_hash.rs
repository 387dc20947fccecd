//! The SHA-256 that names weights in records.

use std::mem;

use sha2::{Digest, Sha256};

/// The SHA-256 of weights. For one file it is the file's. For several it is that of the lines that `sha256sum` prints for
/// them in the order of their names, so it does not depend on the order of loading.
#[derive(Default)]
pub struct WeightsHash {
    open: Sha256,
    /// Names and digests of the finished files.
    files: Vec<(String, String)>,
}

impl WeightsHash {
    /// Takes the next bytes of a file.
    pub fn push(&mut self, bytes: &[u8]) {
        self.open.update(bytes);
    }

    /// Ends the current file, which is called `name`.
    pub fn end_file(&mut self, name: &str) {
        self.files.push((name.to_owned(), hex(mem::take(&mut self.open))));
    }

    /// The digest in hexadecimal.
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

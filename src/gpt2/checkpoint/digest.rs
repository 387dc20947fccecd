//! The SHA-256 that names weights in records.

use sha2::{Digest, Sha256};

/// In hexadecimal.
pub(super) fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of one file, its own. Of several, that of the lines `sha256sum` prints for them in the order of their names, which
/// does not depend on the order they came in.
pub(super) fn of_all(digests: &[(&String, &String)]) -> String {
    match digests {
        [(_, digest)] => (*digest).clone(),
        several => {
            let mut lines: Vec<_> =
                several.iter().map(|(name, digest)| (name, format!("{digest}  {name}\n"))).collect();
            lines.sort();
            hex(lines.iter().fold(Sha256::new(), |digest, (_, line)| digest.chain_update(line)))
        }
    }
}

//! Full verification: every file of a cache against its digest.

use crate::cache::Cache;
use crate::checksum::digest_file;
use crate::error::StoreError;
use crate::format::{BLOCKS_FILE, INDEX_FILE, METADATA_FILE, shard_file};

impl Cache {
    /// Names of all files but the manifest, each with its BLAKE3 digest.
    #[must_use]
    pub fn digests(&self) -> Vec<(String, &str)> {
        let manifest = self.manifest();
        let mut digests = vec![
            (INDEX_FILE.to_owned(), manifest.index.blake3.as_str()),
            (METADATA_FILE.to_owned(), manifest.metadata.blake3.as_str()),
            (BLOCKS_FILE.to_owned(), manifest.blocks.blake3.as_str()),
        ];
        for (number, shard) in manifest.shards.iter().enumerate() {
            digests.push((shard_file(number), shard.blake3.as_str()));
        }
        digests
    }

    /// Reads one file whole and compares its digest; `file` and `expected` come from `digests`.
    pub fn validate_file(&self, file: &str, expected: &str) -> Result<(), StoreError> {
        let path = self.path().join(file);
        let found = digest_file(&path)?.blake3;
        if found == expected {
            return Ok(());
        }
        Err(StoreError::FileDigest {
            path,
            expected: expected.to_owned(),
            found,
        })
    }
}

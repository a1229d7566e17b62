//! Full verification: every file of a cache against its digest, every record against its checksum.

use std::fs::File;
use std::io::{self, Read};

use crossbeam_channel::bounded;

use crate::cache::Cache;
use crate::error::StoreError;
use crate::format::{BLOCKS_FILE, DICTIONARY_FILE, INDEX_FILE, METADATA_FILE, shard_file};
use crate::record::Destination;

/// A file is read in pieces of this size, which several threads can hash at once.
const PIECE_BYTES: usize = 4 << 20;
/// Pieces that exist at once.
const PIECES: usize = 3;

impl Cache {
    /// Names of all files but the manifest, each with its length and its BLAKE3 digest.
    #[must_use]
    pub fn digests(&self) -> Vec<(String, u64, &str)> {
        let manifest = self.manifest();
        let mut digests = vec![
            (INDEX_FILE.to_owned(), &manifest.index),
            (METADATA_FILE.to_owned(), &manifest.metadata),
            (BLOCKS_FILE.to_owned(), &manifest.blocks),
        ];
        if let Some(dictionary) = &manifest.dictionary {
            digests.push((DICTIONARY_FILE.to_owned(), dictionary));
        }
        let files = digests
            .into_iter()
            .map(|(file, entry)| (file, entry.bytes, entry.blake3.as_str()));
        let shards = manifest
            .shards
            .iter()
            .enumerate()
            .map(|(number, shard)| (shard_file(number), shard.bytes, shard.blake3.as_str()));
        files.chain(shards).collect()
    }

    /// Reads one file whole and compares its digest; `file` and `expected` come from `digests`.
    ///
    /// `progress` is called with the number of bytes after each piece; an error of it ends the
    /// reading. Hashing is spread over the thread pool that this is called in.
    pub fn validate_file<E: From<StoreError>>(
        &self,
        file: &str,
        expected: &str,
        mut progress: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = self.path().join(file);
        let mut reader = File::open(&path).map_err(StoreError::io("open", &path))?;
        let mut hasher = blake3::Hasher::new();
        // One piece is read while the one before it is hashed. A side that ends early, with an error
        // or called off, closes its channel, and then the other ends as well.
        let (full, pieces) = bounded::<io::Result<(Vec<u8>, usize)>>(1);
        let (spare, used) = bounded(PIECES);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                loop {
                    let mut piece: Vec<u8> =
                        used.try_recv().unwrap_or_else(|_| vec![0; PIECE_BYTES]);
                    let read = read_full(&mut reader, &mut piece).map(|bytes| (piece, bytes));
                    let is_end = !matches!(read, Ok((_, bytes)) if bytes > 0);
                    if full.send(read).is_err() || is_end {
                        return;
                    }
                }
            });
            for read in pieces {
                let (piece, bytes) = read.map_err(StoreError::io("read", &path))?;
                hasher.update_rayon(&piece[..bytes]);
                if bytes > 0 {
                    progress(bytes as u64)?;
                }
                // The reader has gone when the file has ended.
                let _ = spare.send(piece);
            }
            Ok::<_, E>(())
        })?;
        let found = hasher.finalize().to_hex();
        if found.as_str() == expected {
            return Ok(());
        }
        Err(StoreError::FileDigest {
            path,
            expected: expected.to_owned(),
            found: found.to_string(),
        }
        .into())
    }

    /// Reads one record and checks all that can be checked of it: index, checksum, codec, metadata.
    pub fn validate_sample(&self, sample: u64, scratch: &mut Vec<u8>) -> Result<(), StoreError> {
        let location = self.locate(sample)?;
        match self.in_place(&location) {
            Some(record) => record.verify(record.payload)?,
            None => {
                scratch.clear();
                scratch
                    .try_reserve_exact(location.payload_bytes())
                    .map_err(|_| StoreError::RecordCodec {
                        path: self.shard_path(&location).to_owned(),
                        sample,
                        algorithm: self.manifest().compression,
                        reason: format!("no memory for {} bytes", location.payload_bytes()),
                    })?;
                scratch.resize(location.payload_bytes(), 0);
                self.read_into(&location, scratch, true, Destination::Cached)?;
            }
        }
        let row = self.metadata().row(sample)?;
        for column in 0..self.metadata().columns().len() {
            row.value(column)?;
        }
        self.metadata().check()
    }
}

/// Fills the buffer as far as the file goes.
fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

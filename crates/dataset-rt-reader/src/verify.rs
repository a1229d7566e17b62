//! A full scan of one cache: every file against its digest, every record against its checksum.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use dataset_rt_store::{Backend, Cache, StoreError};
use rayon::prelude::*;

use crate::error::ReaderError;
use crate::pool::Pool;

/// How far a scan is; other threads may look.
#[derive(Debug, Default)]
pub struct VerifyProgress {
    /// Bytes of all files.
    pub total_bytes: AtomicU64,
    /// Bytes read so far.
    pub bytes: AtomicU64,
    /// Setting this calls the scan off.
    pub cancelled: AtomicBool,
}

/// What a scan found.
#[derive(Debug)]
pub struct Verification {
    /// Name of the source.
    pub name: String,
    /// Number of samples, all of which were looked at.
    pub samples: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Everything that is not as it was written, files first, samples in order.
    pub damages: Vec<Damage>,
}

/// One thing that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The sample, if it is one.
    pub sample: Option<u64>,
    /// What is wrong, with the file.
    pub message: String,
}

impl VerifyProgress {
    fn go_on(&self) -> Result<(), ReaderError> {
        if self.cancelled.load(Ordering::Acquire) {
            return Err(ReaderError::Cancelled);
        }
        Ok(())
    }
}

/// Reads everything in a cache and compares it with what was written.
///
/// Shards are taken one after another, each by all threads, so that its samples are looked at while
/// the pages that were hashed are still in memory.
pub fn verify_cache(
    path: &Path,
    pool: &Pool,
    progress: &VerifyProgress,
) -> Result<Verification, ReaderError> {
    let cache = Cache::open(path, Backend::Map)?;
    let files = cache.digests();
    let bytes = files.iter().map(|(_, bytes, _)| bytes).sum();
    progress.total_bytes.store(bytes, Ordering::Release);
    let damages = Mutex::new(Vec::new());
    let report = |sample: Option<u64>, error: &StoreError| {
        let message = error.to_string();
        damages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Damage { sample, message });
    };
    let shards = &cache.manifest().shards;
    let others = files.len() - shards.len();
    pool.threads()?.install(|| {
        for (number, (file, _, digest)) in files.iter().enumerate() {
            let checked = cache.validate_file(file, digest, |bytes| {
                progress.bytes.fetch_add(bytes, Ordering::AcqRel);
                progress.go_on()
            });
            match checked {
                Err(ReaderError::Store(error)) => report(None, &error),
                other => other?,
            }
            let Some(shard) = number.checked_sub(others).map(|shard| &shards[shard]) else {
                continue;
            };
            // Ranges of usize can be divided evenly among threads, those of u64 cannot.
            (0..shard.samples as usize)
                .into_par_iter()
                .with_min_len(64)
                .try_for_each_init(Vec::new, |scratch, place| {
                    progress.go_on()?;
                    let sample = shard.first_sample + place as u64;
                    if let Err(error) = cache.validate_sample(sample, scratch) {
                        report(Some(sample), &error);
                    }
                    Ok::<_, ReaderError>(())
                })?;
        }
        Ok::<_, ReaderError>(())
    })?;
    let mut damages = damages.into_inner().unwrap_or_else(PoisonError::into_inner);
    damages.sort_by_key(|damage| damage.sample);
    Ok(Verification {
        name: cache.name().to_owned(),
        samples: cache.len(),
        bytes,
        damages,
    })
}

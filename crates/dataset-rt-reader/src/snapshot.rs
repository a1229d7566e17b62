//! A dataset exported for other processes: a small description and flat arrays that they map.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use dataset_rt_sampler::{Flat, SharedBytes, Stream, WeightTable};
use dataset_rt_store::Map;
use serde::{Deserialize, Serialize};

use crate::active_table::ActiveTable;
use crate::caches::CacheSet;
use crate::error::ReaderError;
use crate::options::{DrawOptions, ReadOptions};
use crate::parallel::{PoolExecutor, StopFlag};
use crate::pool::Pool;
use crate::view::View;

const DESCRIPTION_FILE: &str = "snapshot.json";
const ROWS_FILE: &str = "rows.bin";
const WEIGHTS_FILE: &str = "weights.bin";
const ELIGIBLE_FILE: &str = "eligible.bin";
const SNAPSHOT_VERSION: u32 = 1;

/// Bytes that are written between two looks at the stop flag.
const WRITTEN_BYTES: usize = 4 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    version: u32,
    caches: Vec<CacheEntry>,
    rows: u64,
    lists_rows: bool,
    has_weights: bool,
    has_eligible: bool,
    draw: DrawOptions,
    read: ReadOptions,
    fingerprint: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CacheEntry {
    path: PathBuf,
    /// Digest of the manifest: a cache that was built anew is another cache.
    digest: String,
}

impl View {
    /// Writes what another process needs to draw and read the same rows.
    pub fn export_snapshot(
        &self,
        directory: &Path,
        draw: DrawOptions,
        stop: &StopFlag,
    ) -> Result<(), ReaderError> {
        let stream = self.stream_for(draw, stop)?;
        let fingerprint = self.fingerprint(stop)?.to_owned();
        fs::create_dir_all(directory).map_err(ReaderError::io("create", directory))?;
        let rows = match &self.table {
            ActiveTable::Whole { .. } => None,
            ActiveTable::Listed(rows) => Some(rows.as_bytes()),
        };
        let weights = stream.weight_table().map(|table| table.as_bytes());
        let eligible = stream.eligible_rows().map(Flat::as_bytes);
        for (file, bytes) in [
            (ROWS_FILE, rows),
            (WEIGHTS_FILE, weights),
            (ELIGIBLE_FILE, eligible),
        ] {
            if let Some(bytes) = bytes {
                write(&directory.join(file), bytes, stop)?;
            }
        }
        let cache_entry = |cache: &dataset_rt_store::Cache| CacheEntry {
            path: cache.path().to_owned(),
            digest: cache.manifest().digest.clone(),
        };
        let description = Description {
            version: SNAPSHOT_VERSION,
            caches: self.caches.caches().iter().map(cache_entry).collect(),
            rows: self.num_rows(),
            lists_rows: rows.is_some(),
            has_weights: weights.is_some(),
            has_eligible: eligible.is_some(),
            draw,
            read: self.read,
            fingerprint,
        };
        let path = directory.join(DESCRIPTION_FILE);
        let text = serde_json::to_vec_pretty(&description)
            .map_err(|error| ReaderError::io("encode", &path)(error.into()))?;
        write(&path, &text, stop)
    }

    /// The stream of other draw options; a weight table that is there already is shared.
    fn stream_for(&self, draw: DrawOptions, stop: &StopFlag) -> Result<Stream, ReaderError> {
        let order = draw.order();
        if order == self.stream.kind() {
            let (table, eligible) = (self.stream.weight_table(), self.stream.eligible_rows());
            let rows = self.num_rows();
            return Ok(Stream::new(
                order,
                draw.seed,
                rows,
                table.cloned(),
                eligible.cloned(),
            )?);
        }
        let pool = &self.pool;
        let weights = self.weights.as_ref().map(Flat::as_slice);
        Self::stream_of(draw, self.num_rows(), weights, &PoolExecutor { pool, stop })
    }

    /// Opens an exported snapshot by mapping, to be drawn with its own seed or another.
    ///
    /// No table of a snapshot depends on the seed, so another one costs nothing.
    pub(crate) fn open_snapshot(
        directory: &Path,
        pool: Arc<Pool>,
        seed: Option<u64>,
    ) -> Result<Self, ReaderError> {
        let path = directory.join(DESCRIPTION_FILE);
        let bad = |reason: String| ReaderError::BadSnapshot {
            path: directory.to_owned(),
            reason,
        };
        let text = fs::read(&path).map_err(ReaderError::io("read", &path))?;
        let description: Description =
            serde_json::from_slice(&text).map_err(|error| bad(error.to_string()))?;
        if description.version != SNAPSHOT_VERSION {
            return Err(bad(format!("version {}", description.version)));
        }
        let paths: Vec<_> = description.caches.iter().map(|entry| &entry.path).collect();
        let caches = CacheSet::open(&paths, description.read.schema, description.read.backend)?;
        for (cache, entry) in caches.caches().iter().zip(&description.caches) {
            if cache.manifest().digest != entry.digest {
                return Err(bad(format!(
                    "{} was built anew since the snapshot was taken\nhint: build a new loader",
                    cache.path().display()
                )));
            }
        }
        let table = if description.lists_rows {
            ActiveTable::Listed(Flat::from_shared(map(&directory.join(ROWS_FILE))?)?)
        } else {
            ActiveTable::Whole {
                records: caches.len(),
            }
        };
        if table.len() != description.rows {
            return Err(bad(format!(
                "{} rows, expected {}",
                table.len(),
                description.rows
            )));
        }
        let weights = if description.has_weights {
            let entries = Flat::from_shared(map(&directory.join(WEIGHTS_FILE))?)?;
            Some(Arc::new(WeightTable::from_entries(entries)?))
        } else {
            None
        };
        let eligible = if description.has_eligible {
            Some(Flat::from_shared(map(&directory.join(ELIGIBLE_FILE))?)?)
        } else {
            None
        };
        let draw = DrawOptions {
            seed: seed.unwrap_or(description.draw.seed),
            ..description.draw
        };
        let stream = Stream::new(draw.order(), draw.seed, description.rows, weights, eligible)?;
        Ok(Self {
            caches: Arc::new(caches),
            table,
            weights: None,
            edited: None,
            stream,
            draw,
            read: description.read,
            pool,
            fingerprint: OnceLock::from(description.fingerprint),
            latest_use: Arc::default(),
        })
    }
}

fn write(path: &Path, bytes: &[u8], stop: &StopFlag) -> Result<(), ReaderError> {
    let mut file = File::create(path).map_err(ReaderError::io("create", path))?;
    for part in bytes.chunks(WRITTEN_BYTES) {
        stop.check()?;
        file.write_all(part)
            .map_err(ReaderError::io("write", path))?;
    }
    Ok(())
}

fn map(path: &Path) -> Result<SharedBytes, ReaderError> {
    Ok(Arc::new(Map::open_any_length(path)?))
}

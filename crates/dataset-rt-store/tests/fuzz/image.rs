//! The files of a cache in memory, and how to make their checksums and digests right again.

use std::ops::Range;
use std::path::{Path, PathBuf};

use dataset_rt_store::format::{
    BLOCK_BYTES, BLOCKS_FILE, DICTIONARY_FILE, INDEX_FILE, MANIFEST_FILE, METADATA_FILE,
};
use dataset_rt_store::{Algorithm, FileEntry, Manifest, Value, WriterOptions, record_checksum};

use crate::building::{build, compressions, options};
use crate::changed_metadata::widen_text;
use crate::reading::shown;

/// What stands for the digest of a manifest while it is computed.
pub(crate) const NO_DIGEST: &str = concat!(
    "00000000000000000000000000000000",
    "00000000000000000000000000000000"
);

/// One cache.
#[derive(Clone)]
pub(crate) struct CacheImage {
    pub(crate) manifest: Manifest,
    pub(crate) index: Vec<u8>,
    pub(crate) metadata: Vec<u8>,
    pub(crate) blocks: Vec<u8>,
    pub(crate) dictionary: Option<Vec<u8>>,
    pub(crate) shards: Vec<Vec<u8>>,
    /// The metadata that was written.
    pub(crate) rows: Vec<Vec<String>>,
}

/// One cache of each kind, with columns of each type, text with offsets of either width, several
/// shards, and records of both forms.
pub(crate) fn images() -> Vec<CacheImage> {
    let base = tempfile::tempdir().unwrap();
    compressions()
        .into_iter()
        .map(|compression| {
            let records = if compression.dictionary { 120 } else { 10 };
            let payloads: Vec<Vec<u8>> = (0..records).map(payload).collect();
            let rows: Vec<_> = payloads
                .iter()
                .zip(0_i64..)
                .map(|(payload, row)| (payload.as_slice(), values(row)))
                .collect();
            let options = WriterOptions {
                compression,
                ..options(if compression.dictionary { 1_500 } else { 250 })
            };
            let columns = ["truth", "number", "half", "text", "wide", "nothing"];
            let path = build(base.path(), "image", options, &columns, &rows).unwrap();
            widen_text(&path, "wide");
            let rows = rows
                .iter()
                .map(|(_, values)| values.iter().map(shown).collect());
            let image = CacheImage::read(&path, rows.collect());
            assert!(image.shards.len() > 1);
            assert_eq!(image.dictionary.is_some(), compression.dictionary);
            std::fs::remove_dir_all(path).unwrap();
            image
        })
        .collect()
}

fn payload(number: u64) -> Vec<u8> {
    match number % 5 {
        0 => Vec::new(),
        1 => b"the same again and ".repeat(12),
        // Nothing that a codec could make smaller.
        2 => (0..60)
            .map(|place| record_checksum(number, &[place]) as u8)
            .collect(),
        _ => format!(
            "{{\"number\": {number}, \"category\": \"kind {}\", \"text\": \"{:x}\"}}",
            number % 7,
            number * 7_919
        )
        .into_bytes(),
    }
}

fn values(row: i64) -> Vec<Value<'static>> {
    let texts = ["", "text", "größer als 字", "x"];
    let some = |value| if row % 3 == 2 { Value::Null } else { value };
    vec![
        some(Value::Boolean(row % 2 == 0)),
        Value::Integer(i64::MAX - row),
        some(Value::Float(-0.0)),
        some(Value::String(texts[row as usize % texts.len()])),
        Value::String(texts[row as usize / 2 % texts.len()]),
        Value::Null,
    ]
}

impl CacheImage {
    fn read(path: &Path, rows: Vec<Vec<String>>) -> Self {
        let file = |name: &str| std::fs::read(path.join(name)).unwrap();
        let manifest = Manifest::read(path).unwrap();
        let shards = (0..manifest.shards.len())
            .map(|shard| file(&shard_name(shard)))
            .collect();
        Self {
            index: file(INDEX_FILE),
            metadata: file(METADATA_FILE),
            blocks: file(BLOCKS_FILE),
            dictionary: manifest.dictionary.as_ref().map(|_| file(DICTIONARY_FILE)),
            shards,
            rows,
            manifest,
        }
    }

    /// Makes everything that is computed from the files agree with them, record checksums included.
    pub(crate) fn seal(&mut self) {
        for (entry, shard) in self.manifest.shards.iter_mut().zip(&self.shards) {
            let file = entry_of(shard);
            (entry.bytes, entry.blake3) = (file.bytes, file.blake3);
        }
        self.manifest.stored_bytes = self.manifest.shards.iter().map(|shard| shard.bytes).sum();
        for sample in 0..self.manifest.samples {
            if let Some(stored) = self.stored(sample) {
                let checksum = record_checksum(sample, stored);
                let place = self.checksum_place(sample);
                if let Some(place) = self.index.get_mut(place) {
                    place.copy_from_slice(&checksum.to_le_bytes());
                }
            }
        }
        self.blocks = [&self.index, &self.metadata]
            .into_iter()
            .flat_map(|file| file.chunks(BLOCK_BYTES as usize).zip(0..))
            .flat_map(|(block, number)| record_checksum(number, block).to_le_bytes())
            .collect();
        self.manifest.index = entry_of(&self.index);
        self.manifest.metadata = entry_of(&self.metadata);
        self.manifest.blocks = entry_of(&self.blocks);
        self.manifest.dictionary = self.dictionary.as_deref().map(entry_of);
    }

    /// The text of the manifest, with its digest.
    pub(crate) fn manifest_text(&self) -> String {
        let mut manifest = self.manifest.clone();
        NO_DIGEST.clone_into(&mut manifest.digest);
        with_digest(serde_json::to_string_pretty(&manifest).unwrap() + "\n")
    }

    /// Writes all files, the manifest with this text.
    pub(crate) fn write(&self, folder: &Path, manifest: &[u8]) -> PathBuf {
        let path = folder.join("cache");
        // Left by the last case.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("shards")).unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(path.join(name), bytes).unwrap();
        write(MANIFEST_FILE, manifest);
        write(INDEX_FILE, &self.index);
        write(METADATA_FILE, &self.metadata);
        write(BLOCKS_FILE, &self.blocks);
        if let Some(dictionary) = &self.dictionary {
            write(DICTIONARY_FILE, dictionary);
        }
        for (number, shard) in self.shards.iter().enumerate() {
            write(&shard_name(number), shard);
        }
        path
    }

    pub(crate) fn is_compressed(&self) -> bool {
        self.manifest.compression != Algorithm::None
    }

    /// The stored bytes of a record, as `docs/format.md` says; `None` if its shard does not have them.
    pub(crate) fn stored(&self, sample: u64) -> Option<&[u8]> {
        let (start, stop) = self.addresses(0, sample)?;
        let mut first_address = 0;
        for (entry, shard) in self.manifest.shards.iter().zip(&self.shards) {
            if sample < entry.first_sample + entry.samples {
                let start = usize::try_from(start.checked_sub(first_address)?).ok()?;
                let stop = usize::try_from(stop.checked_sub(first_address)?).ok()?;
                return shard.get(start..stop);
            }
            first_address += shard.len() as u64;
        }
        None
    }

    /// The length that the index gives a payload; `None` if its addresses are not in order.
    pub(crate) fn payload_bytes(&self, sample: u64) -> Option<u64> {
        let (start, stop) = self.addresses(u64::from(self.is_compressed()), sample)?;
        stop.checked_sub(start)
    }

    /// Two neighbours in one of the lists of addresses.
    fn addresses(&self, list: u64, sample: u64) -> Option<(u64, u64)> {
        let place = ((list * (self.manifest.samples + 1) + sample) * 8) as usize;
        let word = |place: usize| {
            Some(u64::from_le_bytes(
                self.index.get(place..place + 8)?.try_into().ok()?,
            ))
        };
        Some((word(place)?, word(place + 8)?))
    }

    fn checksum_place(&self, sample: u64) -> Range<usize> {
        let lists = 1 + u64::from(self.is_compressed());
        let place = (lists * (self.manifest.samples + 1) * 8 + sample * 4) as usize;
        place..place + 4
    }
}

/// Puts the digest of a manifest in its place, if there is one.
pub(crate) fn with_digest(mut text: String) -> String {
    if let Some(place) = text.rfind(NO_DIGEST) {
        let digest = blake3::hash(text.as_bytes()).to_hex();
        text.replace_range(place..place + NO_DIGEST.len(), &digest);
    }
    text
}

fn entry_of(bytes: &[u8]) -> FileEntry {
    FileEntry {
        bytes: bytes.len() as u64,
        blake3: blake3::hash(bytes).to_hex().to_string(),
    }
}

fn shard_name(number: usize) -> String {
    format!("shards/{number:06}.bin")
}

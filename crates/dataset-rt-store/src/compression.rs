//! Compression of single records: LZ4 blocks and zstd frames, the latter with a dictionary if one helps.
//!
//! A record whose compressed form would not be smaller is stored as it is. Which of the two it is
//! follows from its lengths, so there is no header: a record with as many stored bytes as payload
//! bytes is the payload.

use std::cell::RefCell;
use std::fmt;

use serde::{Deserialize, Serialize};
use zstd::zstd_safe::{CCtx, CDict, CParameter, DCtx, DDict, compress_bound, get_error_name};

/// The codec of the records of one cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// Payloads are stored as they are.
    None,
    /// One LZ4 block a record.
    Lz4,
    /// One zstd frame a record.
    Zstd,
}

impl Algorithm {
    /// The name in manifests and configurations.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How a build compresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compression {
    /// The codec.
    pub algorithm: Algorithm,
    /// Level of zstd; the other codecs have none.
    pub level: Option<i32>,
    /// Whether to look for a dictionary that helps; zstd only.
    pub dictionary: bool,
}

impl Compression {
    /// No compression.
    pub const NONE: Self = Self {
        algorithm: Algorithm::None,
        level: None,
        dictionary: false,
    };
}

/// An LZ4 block cannot hold more; larger records are stored as they are.
const MAX_LZ4_BYTES: usize = 0x7E00_0000;
/// No LZ4 block grows more than this many times when it is decompressed.
const MAX_LZ4_RATIO: usize = 255;
/// No zstd frame grows more than this many times: four bytes give 128 KiB at most.
const MAX_ZSTD_RATIO: usize = 1 << 15;

/// Records that a dictionary is trained on end at this many bytes.
pub(crate) const TRAINING_BYTES: usize = 4 << 20;
/// Earlier, where shards are small, but not before this many.
pub(crate) const MIN_TRAINING_BYTES: usize = 256 << 10;
/// Or at this many records.
pub(crate) const TRAINING_RECORDS: usize = 1 << 16;
/// Dictionaries are for records up to this mean size; larger ones find repetitions in themselves.
const MAX_MEAN_BYTES: usize = 8 << 10;
/// Fewer records than this are no sample to train on.
const MIN_TRAINING_RECORDS: usize = 64;
/// The size that zstd's own tool trains to.
const DICTIONARY_BYTES: usize = 112_640;
/// One record in this many is kept from the training, to see what the dictionary is worth.
const HELD_BACK: usize = 8;
/// A dictionary must save this share of the compressed bytes, in percent.
const MIN_SAVED_PERCENT: usize = 5;

/// Compresses records one after another.
pub(crate) enum Encoder {
    None,
    Lz4,
    Zstd {
        context: Box<CCtx<'static>>,
        dictionary: Option<CDict<'static>>,
    },
}

impl Encoder {
    pub(crate) fn new(compression: Compression, dictionary: Option<&[u8]>) -> Result<Self, String> {
        Ok(match compression.algorithm {
            Algorithm::None => Self::None,
            Algorithm::Lz4 => Self::Lz4,
            Algorithm::Zstd => {
                let level = compression.level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
                let mut context = CCtx::try_create().ok_or("no memory for a zstd context")?;
                for parameter in [
                    CParameter::CompressionLevel(level),
                    CParameter::ContentSizeFlag(true),
                    CParameter::ChecksumFlag(false),
                    CParameter::DictIdFlag(false),
                ] {
                    context.set_parameter(parameter).map_err(zstd_error)?;
                }
                let dictionary = dictionary
                    .map(|bytes| {
                        CDict::try_create(bytes, level).ok_or("no memory for a dictionary")
                    })
                    .transpose()?;
                Self::Zstd {
                    context: Box::new(context),
                    dictionary,
                }
            }
        })
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Adds the stored form of one payload to `stored`.
    pub(crate) fn append(&mut self, payload: &[u8], stored: &mut Vec<u8>) -> Result<(), String> {
        let start = stored.len();
        let compressed_bytes = match self {
            Self::None => None,
            Self::Lz4 if payload.len() > MAX_LZ4_BYTES => None,
            Self::Lz4 => {
                let bound = lz4_flex::block::get_maximum_output_size(payload.len());
                stored.resize(start + bound, 0);
                let written = lz4_flex::block::compress_into(payload, &mut stored[start..])
                    .map_err(|error| error.to_string())?;
                Some(written)
            }
            Self::Zstd {
                context,
                dictionary,
            } => {
                stored.resize(start + compress_bound(payload.len()), 0);
                let place = &mut stored[start..];
                if let Some(dictionary) = dictionary {
                    context.ref_cdict(dictionary).map_err(zstd_error)?;
                }
                Some(context.compress2(place, payload).map_err(zstd_error)?)
            }
        };
        match compressed_bytes {
            Some(bytes) if bytes < payload.len() => stored.truncate(start + bytes),
            _ => {
                stored.truncate(start);
                stored.extend_from_slice(payload);
            }
        }
        Ok(())
    }
}

thread_local! {
    /// Decompression contexts are large; each thread makes one at its first zstd record.
    static DECOMPRESSION: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Decompresses the records of one cache, in any number of threads.
pub(crate) enum Decoder {
    None,
    Lz4,
    Zstd(Option<DDict<'static>>),
}

impl fmt::Debug for Decoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "None",
            Self::Lz4 => "Lz4",
            Self::Zstd(_) => "Zstd",
        })
    }
}

impl Decoder {
    pub(crate) fn new(algorithm: Algorithm, dictionary: Option<&[u8]>) -> Result<Self, String> {
        Ok(match algorithm {
            Algorithm::None => Self::None,
            Algorithm::Lz4 => Self::Lz4,
            Algorithm::Zstd => Self::Zstd(
                dictionary
                    .map(|bytes| DDict::try_create(bytes).ok_or("zstd cannot use it"))
                    .transpose()?,
            ),
        })
    }

    /// Says whether a record of these lengths can exist, before memory is taken for it.
    pub(crate) fn is_possible(&self, stored_bytes: usize, payload_bytes: usize) -> bool {
        let max_ratio = match self {
            Self::None => 1,
            Self::Lz4 => MAX_LZ4_RATIO,
            Self::Zstd(_) => MAX_ZSTD_RATIO,
        };
        stored_bytes <= payload_bytes && payload_bytes <= stored_bytes.saturating_mul(max_ratio)
    }

    /// Fills `payload`, which has exactly the length of the payload.
    pub(crate) fn decode(&self, stored: &[u8], payload: &mut [u8]) -> Result<(), String> {
        let expected = payload.len();
        if stored.len() == expected {
            payload.copy_from_slice(stored);
            return Ok(());
        }
        let written = match self {
            Self::None => return Err(format!("{} stored bytes", stored.len())),
            Self::Lz4 => lz4_flex::block::decompress_into(stored, payload)
                .map_err(|error| error.to_string())?,
            Self::Zstd(dictionary) => DECOMPRESSION.with_borrow_mut(|context| {
                let context = match context {
                    Some(context) => context,
                    empty => {
                        empty.insert(DCtx::try_create().ok_or("no memory for a zstd context")?)
                    }
                };
                match dictionary {
                    Some(dictionary) => context.decompress_using_ddict(payload, stored, dictionary),
                    None => context.decompress(payload, stored),
                }
                .map_err(zstd_error)
            })?,
        };
        if written == expected {
            return Ok(());
        }
        Err(format!("it gives {written} bytes, expected {expected}"))
    }
}

fn zstd_error(code: usize) -> String {
    get_error_name(code).to_owned()
}

/// Trains a dictionary on the first records, and gives it if it saves enough on records that it has not seen.
///
/// The result depends on the records alone. Training is ZDICT's fast cover search.
pub(crate) fn train_dictionary<'a>(
    compression: Compression,
    records: impl Iterator<Item = &'a [u8]>,
) -> Result<Option<Vec<u8>>, String> {
    let mut training = Vec::new();
    let mut sizes = Vec::new();
    let mut held_back: Vec<&[u8]> = Vec::new();
    let mut total = 0;
    for (number, record) in records.enumerate() {
        total += record.len();
        if number % HELD_BACK == HELD_BACK - 1 {
            held_back.push(record);
        } else {
            training.extend_from_slice(record);
            sizes.push(record.len());
        }
    }
    let count = sizes.len() + held_back.len();
    if count < MIN_TRAINING_RECORDS || total / count > MAX_MEAN_BYTES {
        return Ok(None);
    }
    // Too little variety to train on is an error of the trainer, and means no dictionary.
    let Ok(dictionary) = zstd::dict::from_continuous(&training, &sizes, DICTIONARY_BYTES) else {
        return Ok(None);
    };
    let compressed_bytes = |dictionary: Option<&[u8]>| -> Result<usize, String> {
        let mut encoder = Encoder::new(compression, dictionary)?;
        let mut stored = Vec::new();
        for record in &held_back {
            encoder.append(record, &mut stored)?;
        }
        Ok(stored.len())
    };
    let plain = compressed_bytes(None)?;
    let with_dictionary = compressed_bytes(Some(&dictionary))?;
    let enough = plain - plain * MIN_SAVED_PERCENT / 100;
    Ok((with_dictionary < enough).then_some(dictionary))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compression(algorithm: Algorithm, level: Option<i32>) -> Compression {
        Compression {
            algorithm,
            level,
            dictionary: false,
        }
    }

    #[test]
    fn the_most_that_a_codec_can_save_is_possible_and_more_is_not() {
        let payload = vec![0; 64 << 20];
        for compression in [
            compression(Algorithm::Lz4, None),
            compression(Algorithm::Zstd, Some(-7)),
            compression(Algorithm::Zstd, Some(3)),
            compression(Algorithm::Zstd, Some(22)),
        ] {
            let mut stored = Vec::new();
            let mut encoder = Encoder::new(compression, None).expect("an encoder");
            encoder.append(&payload, &mut stored).expect("a record");
            let decoder = Decoder::new(compression.algorithm, None).expect("a decoder");
            assert!(
                decoder.is_possible(stored.len(), payload.len()),
                "{compression:?}"
            );
            let too_many = stored.len() * MAX_ZSTD_RATIO + 1;
            assert!(!decoder.is_possible(stored.len(), too_many));
            assert!(!decoder.is_possible(stored.len(), stored.len() - 1));
        }
    }
}

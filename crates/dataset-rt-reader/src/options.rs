//! How to read and how to draw.

use dataset_rt_sampler::OrderKind;
use dataset_rt_store::Backend;
use serde::{Deserialize, Serialize};

/// What to do with caches whose metadata columns differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchemaRule {
    /// All caches must have the same columns with the same types.
    Strict,
    /// A column that a cache lacks is null there.
    Union,
}

/// How to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadOptions {
    /// Samples read ahead of an iterator.
    pub prefetch_size: usize,
    /// Compare the checksum of every record that is read.
    pub verify_reads: bool,
    /// What to do with caches whose metadata columns differ.
    pub schema: SchemaRule,
    /// How payloads are read.
    pub backend: Backend,
}

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawOptions {
    /// Seed of the stream.
    pub seed: u64,
    /// Draw at random instead of in table order.
    pub shuffle: bool,
    /// Draw by weight with replacement, or every row once per pass.
    pub replacement: bool,
}

impl DrawOptions {
    /// The order that these options name.
    #[must_use]
    pub fn order(&self) -> OrderKind {
        match (self.shuffle, self.replacement) {
            (false, _) => OrderKind::Sequential,
            (true, true) => OrderKind::Weighted,
            (true, false) => OrderKind::Permutation,
        }
    }
}

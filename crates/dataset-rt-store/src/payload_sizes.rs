//! How large the payloads of a cache are, from its index alone.

use crate::cache::Cache;
use crate::error::StoreError;

/// Payloads by size, in powers of two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadSizes {
    /// The first counts empty payloads, number `i` those from 2^(i-1) up to 2^i - 1 bytes; the last
    /// is not zero.
    pub counts: Vec<u64>,
    /// Bytes of the smallest payload.
    pub smallest_bytes: u64,
    /// Bytes of the largest payload.
    pub largest_bytes: u64,
    /// How many records are stored as they are: all without compression, otherwise those that it
    /// would not have made smaller.
    pub stored_as_is: u64,
}

impl Cache {
    /// Looks up the size of every payload, and reads none.
    pub fn payload_sizes(&self) -> Result<PayloadSizes, StoreError> {
        let mut sizes = PayloadSizes {
            counts: Vec::new(),
            smallest_bytes: u64::MAX,
            largest_bytes: 0,
            stored_as_is: 0,
        };
        for sample in 0..self.len() {
            let location = self.locate(sample)?;
            let bytes = location.payload_bytes() as u64;
            let power = (u64::BITS - bytes.leading_zeros()) as usize;
            if power >= sizes.counts.len() {
                sizes.counts.resize(power + 1, 0);
            }
            sizes.counts[power] += 1;
            sizes.smallest_bytes = sizes.smallest_bytes.min(bytes);
            sizes.largest_bytes = sizes.largest_bytes.max(bytes);
            if location.stored_bytes() == location.payload_bytes() {
                sizes.stored_as_is += 1;
            }
        }
        Ok(sizes)
    }
}

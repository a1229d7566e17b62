//! Source names: one safe path segment, and the identity that follows from it.

use unicode_normalization::UnicodeNormalization;

use crate::error::StoreError;

const MAX_NAME_BYTES: usize = 255;
/// Device names that some file systems and operating systems reserve, in any case and with any suffix.
const RESERVED_STEMS: [&str; 22] = [
    "con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8",
    "com9", "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
];

/// A checked source name in Unicode normalisation form C.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceName(String);

impl SourceName {
    /// Normalises a name and checks that it can be a directory of its own.
    pub fn new(name: &str) -> Result<Self, StoreError> {
        let normalised: String = name.nfc().collect();
        let refuse = |reason| {
            Err(StoreError::InvalidName {
                name: name.to_owned(),
                reason,
            })
        };
        if normalised.is_empty() {
            return refuse("is empty");
        }
        if normalised.len() > MAX_NAME_BYTES {
            return refuse("is longer than 255 bytes of UTF-8");
        }
        if normalised.starts_with('.') {
            return refuse("begins with a dot; such names are reserved");
        }
        if normalised.contains(['/', '\\']) {
            return refuse("contains a path separator");
        }
        if normalised.chars().any(char::is_control) {
            return refuse("contains a control character");
        }
        if normalised.contains(['<', '>', ':', '"', '|', '?', '*']) {
            return refuse("contains one of < > : \" | ? *, which some file systems refuse");
        }
        if normalised.trim() != normalised || normalised.ends_with('.') {
            return refuse("begins or ends with white space, or ends with a dot");
        }
        let stem = normalised
            .split('.')
            .next()
            .unwrap_or_default()
            .trim_end()
            .to_lowercase();
        if RESERVED_STEMS.contains(&stem.as_str()) {
            return refuse("is a reserved device name");
        }
        Ok(Self(normalised))
    }

    /// The normalised name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Identity of the cache of this source.
    #[must_use]
    pub fn cache_id(&self) -> u64 {
        cache_id_of_name(&self.0)
    }
}

/// Positive 63-bit identity: the first 8 bytes of BLAKE3 of the name, little-endian, without the top bit.
#[must_use]
pub fn cache_id_of_name(normalised_name: &str) -> u64 {
    let digest = blake3::hash(normalised_name.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_bytes()[..8]);
    (u64::from_le_bytes(first) & (u64::MAX >> 1)).max(1)
}

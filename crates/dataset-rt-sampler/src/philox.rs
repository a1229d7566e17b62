//! The counter-based random generator Philox4x32-10 and how its counter is spent.
//!
//! Philox turns a 128-bit counter and a 64-bit key into 128 random bits without any state (Salmon,
//! Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011). Everything random in
//! this crate comes from it:
//!
//! | word | content |
//! | --- | --- |
//! | key 0, key 1 | low and high 32 bits of the seed |
//! | counter 0, counter 1 | low and high 32 bits of the position, or of the pass |
//! | counter 2 | the purpose, one of [`Purpose`], so that two purposes never share bits |
//! | counter 3 | number of the block where one position needs several, else 0 |
//!
//! Of the four output words, 0 and 1 make the first 64-bit number (low word first), 2 and 3 the
//! second.

const MULTIPLIER_0: u32 = 0xD251_1F53;
const MULTIPLIER_1: u32 = 0xCD9E_8D57;
const WEYL_0: u32 = 0x9E37_79B9;
const WEYL_1: u32 = 0xBB67_AE85;
const ROUNDS: usize = 10;

/// Blocks computed side by side: enough for the compiler to use vector registers.
pub(crate) const LANES: usize = 16;

/// What a block of random bits is for: counter word 2. The numbers are part of the algorithm version.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Purpose {
    WeightedDraw = 1,
    PermutationRoundKeys = 2,
    PermutationShuffle = 3,
}

/// One block of Philox4x32-10.
///
/// ```
/// use dataset_rt_sampler::philox4x32_10;
///
/// let block = philox4x32_10([0; 4], [0; 2]);
/// assert_eq!(block, [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]);
/// ```
#[inline]
#[must_use]
pub fn philox4x32_10(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut key_0, mut key_1] = key;
    for _ in 0..ROUNDS {
        let product_0 = u64::from(MULTIPLIER_0) * u64::from(c0);
        let product_1 = u64::from(MULTIPLIER_1) * u64::from(c2);
        c0 = high(product_1) ^ c1 ^ key_0;
        c1 = product_1 as u32;
        c2 = high(product_0) ^ c3 ^ key_1;
        c3 = product_0 as u32;
        key_0 = key_0.wrapping_add(WEYL_0);
        key_1 = key_1.wrapping_add(WEYL_1);
    }
    [c0, c1, c2, c3]
}

/// [`LANES`] blocks at once, word by word: `counters[word][lane]`.
#[inline]
pub(crate) fn philox4x32_10_lanes(counters: [[u32; LANES]; 4], key: [u32; 2]) -> [[u32; LANES]; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counters;
    let [mut key_0, mut key_1] = key;
    for _ in 0..ROUNDS {
        for lane in 0..LANES {
            let product_0 = u64::from(MULTIPLIER_0) * u64::from(c0[lane]);
            let product_1 = u64::from(MULTIPLIER_1) * u64::from(c2[lane]);
            c0[lane] = high(product_1) ^ c1[lane] ^ key_0;
            c1[lane] = product_1 as u32;
            c2[lane] = high(product_0) ^ c3[lane] ^ key_1;
            c3[lane] = product_0 as u32;
        }
        key_0 = key_0.wrapping_add(WEYL_0);
        key_1 = key_1.wrapping_add(WEYL_1);
    }
    [c0, c1, c2, c3]
}

/// The counter of one block.
#[inline]
pub(crate) fn counter(position: u64, purpose: Purpose, block: u32) -> [u32; 4] {
    [position as u32, high(position), purpose as u32, block]
}

/// The key that a seed stands for.
#[inline]
pub(crate) fn key(seed: u64) -> [u32; 2] {
    [seed as u32, high(seed)]
}

/// The two 64-bit numbers of one block.
#[inline]
pub(crate) fn pair([word_0, word_1, word_2, word_3]: [u32; 4]) -> [u64; 2] {
    [join(word_0, word_1), join(word_2, word_3)]
}

/// Maps 64 random bits to `[0, bound)`; no value is off its fair share by more than 1 / 2^64.
#[inline]
pub(crate) fn scale_to(bits: u64, bound: u64) -> u64 {
    ((u128::from(bits) * u128::from(bound)) >> 64) as u64
}

#[inline]
pub(crate) fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | (u64::from(high) << 32)
}

#[inline]
fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

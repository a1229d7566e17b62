//! XXH3 of long inputs, 64 bits and seeded, computed while the input is being copied.
//!
//! Each vector that is loaded to be hashed is also stored, and the bytes of the next block are on
//! their way from memory meanwhile. Hashing then takes the time that the copy would have spent
//! waiting, and a verified copy about as long as a plain one.
//!
//! Source: the XXH3 specification in the xxHash repository, `doc/xxhash_spec.md`, for inputs of more
//! than 240 bytes. `twox-hash` computes the same value, shorter inputs, and all inputs where there
//! is no AVX2.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi64, _mm256_mul_epu32, _mm256_shuffle_epi32, _mm256_slli_epi64,
    _mm256_srli_epi64, _mm256_xor_si256,
};
use std::mem::MaybeUninit;

use crate::mmap::{Line, Row, prefetch, stream_line};

/// What is hashed at a time, 16 times the length of a line.
pub(crate) const BLOCK_BYTES: usize = 1 << 10;
const BLOCK_ROWS: usize = BLOCK_BYTES / size_of::<Row>();
/// Shorter inputs are hashed in other ways.
const SHORT_BYTES: usize = 240;

const PRIME32: [u64; 3] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D];
const PRIME64: [u64; 5] = [
    0x9E37_79B1_85EB_CA87,
    0xC2B2_AE3D_27D4_EB4F,
    0x1656_67B1_9E37_79F9,
    0x85EB_CA77_C2B2_AE63,
    0x27D4_EB2F_1656_67C5,
];
const PRIME_MX1: u64 = 0x1656_6791_9E37_79F9;
const ACCUMULATORS: [u64; 8] = [
    PRIME32[2], PRIME64[0], PRIME64[1], PRIME64[2], PRIME64[3], PRIME32[1], PRIME64[4], PRIME32[0],
];

const SECRET_BYTES: usize = 192;
type Secret = [u8; SECRET_BYTES];
const SECRET: Secret = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];
/// Where the secret begins that the last bytes, the accumulators after a block, and the result meet.
const LAST_SECRET: usize = SECRET_BYTES - size_of::<Row>() - 7;
const SCRAMBLING_SECRET: usize = SECRET_BYTES - size_of::<Row>();
const MERGING_SECRET: usize = 11;

/// One block of an input, and the bytes behind it, up to a block's length.
#[derive(Clone, Copy)]
pub(crate) struct BlockAhead<'a> {
    rows: &'a [Row; BLOCK_ROWS],
    ahead: &'a [u8],
}

impl<'a> BlockAhead<'a> {
    /// The block that begins at `start`, if the input has all of it.
    #[inline]
    pub(crate) fn at(input: &'a [u8], start: usize) -> Option<Self> {
        let (rows, _) = input.get(start..start + BLOCK_BYTES)?.as_chunks();
        let ahead = &input[start + BLOCK_BYTES..input.len().min(start + 2 * BLOCK_BYTES)];
        Some(Self {
            rows: rows.try_into().ok()?,
            ahead,
        })
    }
}

/// Where a block is copied to.
pub(crate) enum Target<'a> {
    Nowhere,
    /// To be read soon.
    Cached(&'a mut [MaybeUninit<Row>; BLOCK_ROWS]),
    /// Past the caches.
    Streamed(&'a mut [MaybeUninit<Line>; BLOCK_ROWS]),
}

type Vectors = [__m256i; 2];

/// How many blocks of an input are absorbed; the rest, at least one byte, is for `finish`.
pub(crate) const fn whole_blocks(input_bytes: usize) -> usize {
    input_bytes.saturating_sub(1) / BLOCK_BYTES
}

/// The hash of one input of more than 240 bytes.
pub(crate) struct LongHasher {
    accumulators: Vectors,
    secret: Secret,
}

impl LongHasher {
    #[inline]
    pub(crate) fn new(seed: u64) -> Self {
        let mut secret = SECRET;
        for words in secret.as_chunks_mut::<16>().0 {
            let [low, high]: [u64; 2] = bytemuck::cast(*words);
            *words = bytemuck::cast([low.wrapping_add(seed), high.wrapping_sub(seed)]);
        }
        Self {
            accumulators: bytemuck::cast(ACCUMULATORS),
            secret,
        }
    }

    /// Hashes the next block, and copies it meanwhile.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn absorb(&mut self, block: BlockAhead<'_>, target: Target<'_>) {
        let mut accumulators = self.accumulators;
        each_row(block, target, |number, vectors| {
            accumulators = accumulate(accumulators, vectors, vectors_of(&self.secret, 8 * number));
        });
        self.accumulators = scramble(accumulators, vectors_of(&self.secret, SCRAMBLING_SECRET));
    }

    /// The hash of the whole input, whose whole blocks were absorbed.
    #[target_feature(enable = "avx2")]
    pub(crate) fn finish(self, input: &[u8]) -> u64 {
        debug_assert!(input.len() > SHORT_BYTES, "a long input");
        let mut accumulators = self.accumulators;
        let rest = &input[whole_blocks(input.len()) * BLOCK_BYTES..];
        let (rows, _) = rest[..rest.len() - 1].as_chunks();
        for (number, row) in rows.iter().enumerate() {
            let secret = vectors_of(&self.secret, 8 * number);
            accumulators = accumulate(accumulators, bytemuck::cast::<Row, _>(*row), secret);
        }
        if let Some(last) = input.last_chunk::<{ size_of::<Row>() }>() {
            let secret = vectors_of(&self.secret, LAST_SECRET);
            accumulators = accumulate(accumulators, bytemuck::cast(*last), secret);
        }
        let accumulators: [u64; 8] = bytemuck::cast(accumulators);
        let secret: [u64; 8] = bytemuck::cast(vectors_of(&self.secret, MERGING_SECRET));
        let mut hash = (input.len() as u64).wrapping_mul(PRIME64[0]);
        for pair in 0..4 {
            let [one, other] = [2 * pair, 2 * pair + 1].map(|n| accumulators[n] ^ secret[n]);
            let product = u128::from(one) * u128::from(other);
            hash = hash.wrapping_add(product as u64 ^ (product >> 64) as u64);
        }
        hash ^= hash >> 37;
        hash = hash.wrapping_mul(PRIME_MX1);
        hash ^ (hash >> 32)
    }
}

/// The hash of an input of more than 240 bytes.
#[target_feature(enable = "avx2")]
pub(crate) fn hash(seed: u64, input: &[u8]) -> u64 {
    let mut hasher = LongHasher::new(seed);
    for number in 0..whole_blocks(input.len()) {
        if let Some(block) = BlockAhead::at(input, number * BLOCK_BYTES) {
            hasher.absorb(block, Target::Nowhere);
        }
    }
    hasher.finish(input)
}

/// Copies a block without hashing it.
#[target_feature(enable = "avx2")]
pub(crate) fn copy_block(block: BlockAhead<'_>, target: Target<'_>) {
    each_row(block, target, |_, _| ());
}

/// Copies rows to as many lines, past the caches.
#[target_feature(enable = "avx2")]
pub(crate) fn stream_all(rows: &[Row], lines: &mut [MaybeUninit<Line>]) {
    for (row, line) in rows.iter().zip(lines) {
        stream_line(line, bytemuck::cast(*row));
    }
}

/// Loads, stores and visits each row of a block, and has the next block loaded.
///
/// Closures are called from here alone: a function that is not made for AVX2, such as those of
/// `Option`, could not have them inlined.
#[inline]
#[target_feature(enable = "avx2")]
fn each_row(block: BlockAhead<'_>, target: Target<'_>, mut visit: impl FnMut(usize, Vectors)) {
    let mut load = |number: usize, row: &Row| {
        let ahead = number * size_of::<Row>();
        if ahead < block.ahead.len() {
            prefetch(&block.ahead[ahead..=ahead]);
        }
        let vectors = bytemuck::cast(*row);
        visit(number, vectors);
        vectors
    };
    match target {
        Target::Nowhere => {
            for (number, row) in block.rows.iter().enumerate() {
                load(number, row);
            }
        }
        Target::Cached(places) => {
            for (number, (row, place)) in block.rows.iter().zip(places).enumerate() {
                place.write(bytemuck::cast::<Vectors, Row>(load(number, row)));
            }
        }
        Target::Streamed(lines) => {
            for (number, (row, line)) in block.rows.iter().zip(lines).enumerate() {
                stream_line(line, load(number, row));
            }
        }
    }
}

#[inline]
fn vectors_of(secret: &Secret, start: usize) -> Vectors {
    let mut bytes = [0; size_of::<Row>()];
    bytes.copy_from_slice(&secret[start..start + size_of::<Row>()]);
    bytemuck::cast(bytes)
}

#[inline]
#[target_feature(enable = "avx2")]
fn accumulate(accumulators: Vectors, input: Vectors, secret: Vectors) -> Vectors {
    let mut result = accumulators;
    for (half, accumulator) in result.iter_mut().enumerate() {
        let keyed = _mm256_xor_si256(input[half], secret[half]);
        let product = _mm256_mul_epu32(keyed, _mm256_srli_epi64::<32>(keyed));
        // The words of each pair change places.
        let swapped = _mm256_shuffle_epi32::<0b0100_1110>(input[half]);
        *accumulator = _mm256_add_epi64(*accumulator, _mm256_add_epi64(swapped, product));
    }
    result
}

#[inline]
#[target_feature(enable = "avx2")]
fn scramble(accumulators: Vectors, secret: Vectors) -> Vectors {
    let prime: __m256i = bytemuck::cast([PRIME32[0]; 4]);
    let mut result = accumulators;
    for (half, accumulator) in result.iter_mut().enumerate() {
        let shifted = _mm256_xor_si256(*accumulator, _mm256_srli_epi64::<47>(*accumulator));
        let keyed = _mm256_xor_si256(shifted, secret[half]);
        // 64 bits times 32, of which the lower 64 bits are wanted.
        let low = _mm256_mul_epu32(keyed, prime);
        let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(keyed), prime);
        *accumulator = _mm256_add_epi64(low, _mm256_slli_epi64::<32>(high));
    }
    result
}

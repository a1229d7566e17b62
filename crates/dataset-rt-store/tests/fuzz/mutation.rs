//! Changes of bytes that parsers dislike: bits, lengths, repeated and misplaced pieces.

use std::ops::Range;

use crate::random::Random;

/// A number that code likes to get wrong.
pub(crate) fn interesting_number(random: &mut Random, length: u64) -> u64 {
    let number = match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << random.below(64),
        3 => i64::MAX as u64,
        4 => u64::from(u32::MAX),
        5 => length,
        6 => random.word() >> random.below(64),
        _ => random.word() % (length + 1),
    };
    match random.below(3) {
        0 => number.wrapping_add(1),
        1 => number.wrapping_sub(1),
        _ => number,
    }
}

/// Makes up to four changes; without `can_resize` the length stays.
pub(crate) fn mutate(bytes: &mut Vec<u8>, random: &mut Random, can_resize: bool) {
    for _ in 0..=random.below(4) {
        let kinds = if can_resize { 10 } else { 6 };
        mutate_once(bytes, random, kinds);
    }
}

fn mutate_once(bytes: &mut Vec<u8>, random: &mut Random, kinds: usize) {
    if bytes.is_empty() {
        if kinds > 6 {
            bytes.push(random.word() as u8);
        }
        return;
    }
    let length = bytes.len();
    let place = random.below(length);
    match random.below(kinds) {
        0 => bytes[place] ^= 1 << random.below(8),
        1 => bytes[place] = random.word() as u8,
        2 => {
            // A word of one of the usual sizes, mostly where such words lie.
            let size = 1 << random.below(4);
            let start = if random.one_in(4) {
                place
            } else {
                place & !(size - 1)
            };
            let stop = length.min(start + size);
            let mut word = [0; 8];
            word[..stop - start].copy_from_slice(&bytes[start..stop]);
            let number = match random.below(3) {
                0 => u64::from_le_bytes(word)
                    .wrapping_add(random.below(17) as u64)
                    .wrapping_sub(8),
                _ => interesting_number(random, length as u64),
            };
            bytes[start..stop].copy_from_slice(&number.to_le_bytes()[..stop - start]);
        }
        3 => {
            let piece = range(random, length);
            bytes[piece].fill([0, 0xff, b'0'][random.below(3)]);
        }
        4 => {
            let piece = range(random, length);
            let target = random.below(length - piece.len() + 1);
            bytes.copy_within(piece, target);
        }
        5 => {
            let piece = range(random, length);
            bytes[piece].reverse();
        }
        6 => bytes.truncate(place),
        7 => {
            bytes.drain(range(random, length));
        }
        8 => {
            let piece = bytes[range(random, length)].to_vec();
            bytes.splice(place..place, piece);
        }
        _ => {
            let more: Vec<u8> = (0..=random.below(20))
                .map(|_| random.word() as u8)
                .collect();
            bytes.splice(place..place, more);
        }
    }
}

/// A piece of at least one byte, mostly short.
pub(crate) fn range(random: &mut Random, length: usize) -> Range<usize> {
    let start = random.below(length);
    let longest = if random.one_in(4) { length } else { 16 };
    let stop = length.min(start + 1 + random.below(longest));
    start..stop
}

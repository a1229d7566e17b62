//! Copying a long payload while its checksum is computed, each byte loaded from memory once.

use std::ops::Range;

use crate::checksum::RecordHasher;
use crate::mmap::prefetch;
use crate::record::{Destination, Part};

/// Bytes that are hashed and then copied, where both are not one: small enough to stay in the first
/// cache in between, and to let the copy of one piece overlap with the loading of the next.
const PIECE_BYTES: usize = 2 << 10;

/// Copies parts of a payload, which are given in their order and do not overlap. With a seed it gives
/// the checksum of the whole payload.
pub(crate) fn copy_long(
    seed: Option<u64>,
    payload: &[u8],
    parts: &mut [Part<'_>],
    destination: Destination,
) -> Option<u32> {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(avx2) = crate::mmap::Avx2::detect() {
        return avx2
            .copy_blocks(seed, payload, parts, destination)
            .map(crate::checksum::low_half);
    }
    let _ = destination;
    copy_pieces(seed, payload, parts)
}

/// Loads, hashes and copies piece by piece.
fn copy_pieces(seed: Option<u64>, payload: &[u8], parts: &mut [Part<'_>]) -> Option<u32> {
    let mut hasher = seed.map(RecordHasher::new);
    let mut cursor = Cursor::default();
    for (number, piece) in payload.chunks(PIECE_BYTES).enumerate() {
        let stop = number * PIECE_BYTES + piece.len();
        prefetch(&payload[stop..payload.len().min(stop + PIECE_BYTES)]);
        if let Some(hasher) = &mut hasher {
            hasher.update(piece);
        }
        while let Some((part, range)) = cursor.next(parts, |part| part.reached(stop)) {
            let source = part.start + range.start..part.start + range.end;
            part.place.write(range.start, &payload[source]);
        }
    }
    hasher.map(|hasher| hasher.finish())
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use blocks::copy_blocks;

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod blocks {
    use super::{Cursor, Destination, Part};
    use crate::mmap::{LINE_BYTES, Unwritten, order_streams};
    use crate::xxh3::{
        BLOCK_BYTES, BlockAhead, LongHasher, Target, copy_block, stream_all, whole_blocks,
    };

    /// Loads, hashes and stores in one go, block by block; gives the hash if there is a seed.
    #[target_feature(enable = "avx2")]
    pub(crate) fn copy_blocks(
        seed: Option<u64>,
        payload: &[u8],
        parts: &mut [Part<'_>],
        destination: Destination,
    ) -> Option<u64> {
        let mut hasher = seed.map(LongHasher::new);
        let mut cursor = Cursor::default();
        for number in 0..whole_blocks(payload.len()) {
            let start = number * BLOCK_BYTES;
            let Some(block) = BlockAhead::at(payload, start) else {
                break;
            };
            let target = target_of(&mut cursor, parts, start, destination);
            let target = target.unwrap_or(Target::Nowhere);
            let is_stored = !matches!(target, Target::Nowhere);
            match &mut hasher {
                Some(hasher) => hasher.absorb(block, target),
                None => copy_block(block, target),
            }
            if is_stored {
                continue;
            }
            // What could not be stored as it was loaded is in the first cache.
            let stop = start + BLOCK_BYTES;
            while let Some((part, range)) = cursor.next(parts, |part| match destination {
                Destination::Cached => part.reached(stop),
                Destination::Memory => part.reached_lines(stop),
            }) {
                let source = &payload[part.start + range.start..part.start + range.end];
                match destination {
                    Destination::Cached => part.place.write(range.start, source),
                    Destination::Memory => stream_part(&mut part.place, range.start, source),
                }
            }
        }
        while let Some((part, range)) = cursor.next(parts, |part| part.place.len()) {
            let source = part.start + range.start..part.start + range.end;
            part.place.write(range.start, &payload[source]);
        }
        if destination == Destination::Memory {
            order_streams();
        }
        hasher.map(|hasher| hasher.finish(payload))
    }

    /// The place of a block, if all of it goes to one that it can be stored to as it is loaded.
    #[inline]
    fn target_of<'a>(
        cursor: &mut Cursor,
        parts: &'a mut [Part<'_>],
        start: usize,
        destination: Destination,
    ) -> Option<Target<'a>> {
        let (part, done) = cursor.current(parts)?;
        if part.start + *done != start || part.place.len() - *done < BLOCK_BYTES {
            return None;
        }
        let count = BLOCK_BYTES / LINE_BYTES;
        let target = match destination {
            Destination::Cached => Target::Cached(part.place.rows(*done, count).try_into().ok()?),
            Destination::Memory if part.place.bytes_to_line(*done) == 0 => {
                Target::Streamed(part.place.lines(*done, count).try_into().ok()?)
            }
            Destination::Memory => return None,
        };
        *done += BLOCK_BYTES;
        Some(target)
    }

    /// Copies whole lines past the caches, and what is in front of them and behind them as usual.
    #[target_feature(enable = "avx2")]
    fn stream_part(place: &mut Unwritten<'_>, start: usize, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(place.bytes_to_line(start).min(bytes.len()));
        let (rows, tail) = rest.as_chunks();
        place.write(start, head);
        let lines = start + head.len();
        stream_all(rows, place.lines(lines, rows.len()));
        place.write(lines + rows.as_flattened().len(), tail);
    }
}

impl Part<'_> {
    /// How many bytes of the place can be written once the payload is there up to `stop`.
    fn reached(&self, stop: usize) -> usize {
        stop.saturating_sub(self.start).min(self.place.len())
    }

    /// The same, but no line in part unless it is the last.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn reached_lines(&self, stop: usize) -> usize {
        let reached = self.reached(stop);
        if reached == self.place.len() {
            return reached;
        }
        let to_line = self.place.bytes_to_line(reached);
        reached.saturating_sub((crate::mmap::LINE_BYTES - to_line) % crate::mmap::LINE_BYTES)
    }
}

/// How far parts have been copied.
#[derive(Default)]
struct Cursor {
    /// Number of the part that is being copied.
    part: usize,
    /// Bytes of it that are done.
    done: usize,
}

impl Cursor {
    /// The first part that is not done, and how much of it is.
    fn current<'a, 'b>(
        &mut self,
        parts: &'a mut [Part<'b>],
    ) -> Option<(&'a mut Part<'b>, &mut usize)> {
        while parts.get(self.part)?.place.len() <= self.done {
            *self = Self {
                part: self.part + 1,
                done: 0,
            };
        }
        Some((parts.get_mut(self.part)?, &mut self.done))
    }

    /// What is to be copied next, of the part that is not done, up to what `reached` gives for it.
    fn next<'a, 'b>(
        &mut self,
        parts: &'a mut [Part<'b>],
        reached: impl Fn(&Part<'b>) -> usize,
    ) -> Option<(&'a mut Part<'b>, Range<usize>)> {
        let (part, done) = self.current(parts)?;
        let range = *done..reached(part);
        if range.is_empty() {
            return None;
        }
        *done = range.end;
        Some((part, range))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use twox_hash::XxHash3_64;

    use super::*;
    use crate::checksum::low_half;
    use crate::mmap::Unwritten;

    type Copy = fn(Option<u64>, &[u8], &mut [Part<'_>], Destination) -> Option<u32>;
    const COPIES: [Copy; 2] = [copy_long, |seed, payload, parts, _| {
        copy_pieces(seed, payload, parts)
    }];

    proptest! {
        #[test]
        fn parts_anywhere_are_copied_and_the_whole_is_hashed(
            length in 241_usize..20_000,
            mut bounds in prop::collection::vec(0_usize..20_000, 0..8),
            shift in 0_usize..64,
            seed in any::<u64>(),
            verify in any::<bool>(),
            destination in prop::sample::select(&[Destination::Cached, Destination::Memory]),
        ) {
            let payload: Vec<u8> = (0..length).map(|byte| ((byte * 31) ^ (byte >> 8)) as u8).collect();
            bounds.iter_mut().for_each(|bound| *bound %= length + 1);
            bounds.sort_unstable();
            let ranges: Vec<_> = bounds.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
            for copy in COPIES {
                let mut places: Vec<_> = ranges.iter().map(|range| vec![0xA5; shift + range.len() + 1]).collect();
                let mut parts: Vec<_> = ranges
                    .iter()
                    .zip(&mut places)
                    .map(|(range, place)| Part {
                        start: range.start,
                        place: Unwritten::from(&mut place[shift..shift + range.len()]),
                    })
                    .collect();
                let found = copy(verify.then_some(seed), &payload, &mut parts, destination);
                // The library's own value.
                let expected = verify.then(|| low_half(XxHash3_64::oneshot_with_seed(seed, &payload)));
                prop_assert_eq!(found, expected);
                for (range, place) in ranges.iter().zip(&places) {
                    prop_assert_eq!(&place[shift..shift + range.len()], &payload[range.clone()]);
                    prop_assert!(place[..shift].iter().chain(&place[shift + range.len()..]).all(|&byte| byte == 0xA5));
                }
            }
        }
    }
}

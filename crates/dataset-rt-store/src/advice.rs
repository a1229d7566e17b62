//! Advice to the system: which stored bytes are read soon, so that a disk works on many at once.

use crate::cache::{Cache, Location};
use crate::shard::Payloads;

/// What one piece of advice covers: of more, Linux may read only its read-ahead size, and that is
/// 128 KiB on most machines.
const PIECE_BYTES: usize = 128 << 10;

/// No page is smaller than this, and advice is about whole pages.
const PAGE_BYTES: usize = 4 << 10;

/// Neighbouring stored bytes of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    shard: usize,
    start: usize,
    stop: usize,
}

impl Stretch {
    /// The stored bytes of one record.
    #[must_use]
    pub fn of(location: &Location) -> Self {
        let stored = location.stored();
        Self {
            shard: location.shard(),
            start: stored.start,
            stop: stored.end,
        }
    }

    /// The stretch with a record that begins where it ends; `None` for any other record.
    #[must_use]
    pub fn joined(&self, location: &Location) -> Option<Self> {
        let next = Self::of(location);
        (next.shard == self.shard && next.start == self.stop).then_some(Self {
            stop: next.stop,
            ..*self
        })
    }

    /// Offsets and lengths of what is advised at a time.
    fn pieces(&self) -> impl Iterator<Item = (usize, usize)> {
        let start = self.start - self.start % PAGE_BYTES;
        // Nothing is advised for no bytes: a length of zero would mean the rest of the file.
        let stop = if self.start < self.stop {
            self.stop
        } else {
            start
        };
        (start..stop)
            .step_by(PIECE_BYTES)
            .map(move |offset| (offset, PIECE_BYTES.min(stop - offset)))
    }
}

impl Cache {
    /// Asks the system to begin reading these bytes, without waiting for them.
    ///
    /// It is only advice: where the system refuses it nothing is lost, and whatever is wrong with
    /// the file is for the read to find.
    pub fn advise(&self, stretch: Stretch) {
        for (offset, bytes) in stretch.pieces() {
            match &self.payloads(stretch.shard) {
                Payloads::Map(map) => map.advise(offset, bytes),
                Payloads::File(file) => file.advise(offset as u64, bytes as u64),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn stretch(start: usize, stop: usize) -> Stretch {
        Stretch {
            shard: 0,
            start,
            stop,
        }
    }

    #[test]
    fn pieces_cover_whole_pages_and_are_small_enough_to_be_read() {
        let pieces: Vec<_> = stretch(5000, 300_000).pieces().collect();
        assert_eq!(
            pieces,
            [
                (4096, PIECE_BYTES),
                (4096 + PIECE_BYTES, PIECE_BYTES),
                (4096 + 2 * PIECE_BYTES, 300_000 - 4096 - 2 * PIECE_BYTES),
            ]
        );
    }

    #[test]
    fn no_bytes_need_no_advice() {
        assert_eq!(stretch(5000, 5000).pieces().count(), 0);
        assert_eq!(stretch(0, 0).pieces().count(), 0);
    }
}

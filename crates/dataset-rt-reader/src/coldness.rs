//! Whether the payloads of a dataset come from the disk, judged by what recent reads did.
//!
//! Advice makes many reads of a disk go on at once, and costs a system call a record, which is time
//! lost where the bytes are in memory already. So it is given while it makes the disk read, and
//! stops after a number of records for which nothing was read. From then on a sample of the reads
//! is watched, and the first that had to wait for the disk switches advice on again.

use std::sync::atomic::{AtomicU64, Ordering};

use dataset_rt_store::{Backend, Cache};
use nix::sys::resource::{UsageWho, getrusage};

/// Advice ends when so many records in a row needed none.
const RECORDS_WITHOUT_DISK: u64 = 1024;
/// Of reads without advice, one in about so many bytes is watched: looking at the counters of a
/// thread costs as much as copying a kilobyte or two, twice.
const BYTES_BETWEEN_LOOKS: u64 = 4 << 20;

/// The switch between reading with advice and without; on at first, as nothing is known.
#[derive(Debug)]
pub(crate) struct Coldness {
    /// Records that still get advice, if none of them makes the disk read.
    remaining: AtomicU64,
    /// Records read without advice since reads were watched last.
    unwatched: AtomicU64,
    mean_record_bytes: u64,
    backend: Backend,
}

impl Coldness {
    pub(crate) fn new(caches: &[Cache], backend: Backend) -> Self {
        let bytes: u64 = caches
            .iter()
            .map(|cache| cache.manifest().stored_bytes)
            .sum();
        let records: u64 = caches.iter().map(Cache::len).sum();
        Self {
            remaining: AtomicU64::new(RECORDS_WITHOUT_DISK),
            unwatched: AtomicU64::new(0),
            mean_record_bytes: (bytes / records.max(1)).max(1),
            backend,
        }
    }

    /// Says whether to give advice.
    #[inline]
    pub(crate) fn is_cold(&self) -> bool {
        self.remaining.load(Ordering::Relaxed) > 0
    }

    /// Stored bytes of a record, on average; at least one.
    pub(crate) fn mean_record_bytes(&self) -> u64 {
        self.mean_record_bytes
    }

    /// Gives advice on some records, and notes whether any of them had to be read from the disk.
    pub(crate) fn advise(&self, records: u64, advise: impl FnOnce()) {
        let before = DiskUse::of_thread();
        advise();
        let has_read = before.zip(DiskUse::of_thread());
        self.note(
            records,
            has_read.is_some_and(|(before, after)| after.has_read_since(before)),
        );
    }

    /// Reads some records, and notes whether they had to be waited for, if it is time to look.
    #[inline]
    pub(crate) fn watch<T>(&self, records: u64, read: impl FnOnce() -> T) -> T {
        let look = self.look(records);
        let result = read();
        if let Some(look) = look {
            self.compare(look);
        }
        result
    }

    /// Begins to watch the reads of this thread, if it is time to look.
    #[inline]
    pub(crate) fn look(&self, records: u64) -> Option<DiskUse> {
        if self.is_cold() {
            // Advice itself says whether the disk reads.
            return None;
        }
        let unwatched = self.unwatched.fetch_add(records, Ordering::Relaxed) + records;
        if unwatched.saturating_mul(self.mean_record_bytes) < BYTES_BETWEEN_LOOKS {
            return None;
        }
        self.unwatched.store(0, Ordering::Relaxed);
        DiskUse::of_thread()
    }

    /// Notes whether the reads of this thread since the look had to wait for a disk.
    #[cold]
    pub(crate) fn compare(&self, look: DiskUse) {
        let has_waited =
            DiskUse::of_thread().is_some_and(|now| now.has_waited_since(look, self.backend));
        self.note(0, has_waited);
    }

    fn note(&self, records: u64, from_disk: bool) {
        if from_disk {
            self.remaining
                .store(RECORDS_WITHOUT_DISK, Ordering::Relaxed);
        } else {
            // A race with another thread makes advice end a little sooner or later.
            let remaining = self.remaining.load(Ordering::Relaxed);
            self.remaining
                .store(remaining.saturating_sub(records), Ordering::Relaxed);
        }
    }
}

/// What the system counted for one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskUse {
    blocks_read: i64,
    major_faults: i64,
    waits: i64,
}

impl DiskUse {
    fn of_thread() -> Option<Self> {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
        Some(Self {
            blocks_read: usage.block_reads(),
            major_faults: usage.major_page_faults(),
            waits: usage.voluntary_context_switches(),
        })
    }

    fn has_read_since(self, before: Self) -> bool {
        self.blocks_read > before.blocks_read || self.major_faults > before.major_faults
    }

    /// Some file systems count no blocks for the reader. A positioned read that gave up the
    /// processor has waited for its bytes all the same; a read of the map may have waited for the
    /// memory that it was copied to.
    fn has_waited_since(self, before: Self, backend: Backend) -> bool {
        self.has_read_since(before)
            || (backend == Backend::PositionedRead && self.waits > before.waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warm() -> Coldness {
        let coldness = Coldness::new(&[], Backend::Map);
        coldness.advise(RECORDS_WITHOUT_DISK, || {});
        coldness
    }

    #[test]
    fn advice_is_given_until_enough_records_in_a_row_needed_none() {
        let coldness = Coldness::new(&[], Backend::Map);
        assert!(coldness.is_cold());
        coldness.note(RECORDS_WITHOUT_DISK - 1, false);
        assert!(coldness.is_cold());
        coldness.note(RECORDS_WITHOUT_DISK - 1, true);
        coldness.note(RECORDS_WITHOUT_DISK - 1, false);
        assert!(coldness.is_cold());
        coldness.note(1, false);
        assert!(!coldness.is_cold());
    }

    #[test]
    fn one_read_of_the_disk_brings_advice_back() {
        let coldness = warm();
        assert!(!coldness.is_cold());
        coldness.note(0, false);
        assert!(!coldness.is_cold());
        coldness.note(0, true);
        assert!(coldness.is_cold());
    }

    #[test]
    fn reads_without_advice_are_looked_at_once_in_so_many_bytes() {
        let coldness = warm();
        let looks = (0..4 * BYTES_BETWEEN_LOOKS)
            .step_by(1024)
            .filter(|_| coldness.look(1024).is_some())
            .count();
        assert_eq!(looks, 4);
    }

    #[test]
    fn reads_with_advice_are_not_looked_at() {
        let coldness = Coldness::new(&[], Backend::Map);
        assert_eq!(coldness.look(BYTES_BETWEEN_LOOKS), None);
    }

    #[test]
    fn what_counts_as_waiting_depends_on_the_way_of_reading() {
        let before = DiskUse {
            blocks_read: 8,
            major_faults: 2,
            waits: 5,
        };
        let read = DiskUse {
            blocks_read: 16,
            ..before
        };
        let faulted = DiskUse {
            major_faults: 3,
            ..before
        };
        let waited = DiskUse { waits: 6, ..before };
        for backend in [Backend::Map, Backend::PositionedRead] {
            assert!(read.has_waited_since(before, backend));
            assert!(faulted.has_waited_since(before, backend));
            assert!(!before.has_waited_since(before, backend));
        }
        assert!(waited.has_waited_since(before, Backend::PositionedRead));
        assert!(!waited.has_waited_since(before, Backend::Map));
    }
}

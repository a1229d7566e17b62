//! Batch buffers that are used again: fresh memory would cost a page fault every 4 KiB.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use crate::error::ReaderError;
use crate::huge::HugeArray;

/// Buffers that may wait for their next use.
const KEPT_BUFFERS: usize = 64;
/// Bytes of all waiting buffers: a single one as large as all that is read ahead may take is kept.
const KEPT_BYTES: usize = 320 << 20;
/// Buffers begin at a multiple of this. Large allocations lie 16 bytes past the start of a page, and
/// records often begin at one: at that distance the `rep movsb` of AMD Zen 3 copies at a quarter of
/// its speed (measured at 100 KiB: 45 against 11 µs).
const ALIGNMENT_BYTES: usize = 64;

/// How often a lock is tried that is never held for long.
const TRIES: usize = 1000;

/// Where buffers wait between two batches.
#[derive(Debug, Default)]
pub struct BufferStore {
    waiting: Mutex<Vec<HugeArray<u8>>>,
}

impl BufferStore {
    /// A buffer of this length; what is in it does not matter, as it is overwritten whole.
    pub(crate) fn take(self: &Arc<Self>, length: usize) -> Result<Buffer, ReaderError> {
        let needed = length.saturating_add(ALIGNMENT_BYTES);
        let fits = |buffer: &HugeArray<u8>| {
            // A buffer much larger than needed would keep its memory from everybody else.
            let bytes = buffer.as_slice().len();
            bytes >= needed && bytes / 4 <= needed
        };
        let kept = self.lock().and_then(|mut waiting| {
            let place = waiting.iter().position(fits)?;
            Some(waiting.swap_remove(place))
        });
        let bytes = match kept {
            Some(bytes) => bytes,
            None => HugeArray::zeroed(needed, "the payloads of a batch")?,
        };
        let address = bytes.as_slice().as_ptr().addr();
        let start = address.next_multiple_of(ALIGNMENT_BYTES) - address;
        Ok(Buffer {
            bytes: Some(bytes),
            range: start..start + length,
            store: Arc::clone(self),
        })
    }

    /// The waiting buffers, unless another thread stays with them: one of a parent process, at whose
    /// fork it was there, stays for ever.
    fn lock(&self) -> Option<MutexGuard<'_, Vec<HugeArray<u8>>>> {
        for _ in 0..TRIES {
            match self.waiting.try_lock() {
                Ok(waiting) => return Some(waiting),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }

    fn give_back(&self, bytes: HugeArray<u8>) {
        if bytes.as_slice().len() > KEPT_BYTES {
            return;
        }
        let Some(mut waiting) = self.lock() else {
            return;
        };
        waiting.push(bytes);
        // The oldest makes room, so that sizes nobody asks for any more disappear.
        let total = |waiting: &[HugeArray<u8>]| -> usize {
            waiting.iter().map(|bytes| bytes.as_slice().len()).sum()
        };
        while waiting.len() > KEPT_BUFFERS || total(&waiting) > KEPT_BYTES {
            waiting.remove(0);
        }
    }
}

/// Memory of one batch; goes back to its store when dropped.
#[derive(Debug)]
pub struct Buffer {
    /// There until it is dropped.
    bytes: Option<HugeArray<u8>>,
    /// The part that is in use.
    range: Range<usize>,
    store: Arc<BufferStore>,
}

impl Buffer {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Some(bytes) => &bytes.as_slice()[self.range.clone()],
            None => &[],
        }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            Some(bytes) => &mut bytes.as_mut_slice()[self.range.clone()],
            None => &mut [],
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(bytes) = self.bytes.take() {
            self.store.give_back(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_few_are_kept() {
        let store = Arc::new(BufferStore::default());
        let first = store.take(1_000).expect("memory");
        let address = first.bytes().as_ptr();
        drop(first);
        assert_eq!(store.take(900).expect("memory").bytes().as_ptr(), address);
        let many: Vec<_> = (0..2 * KEPT_BUFFERS)
            .map(|_| store.take(1_000).expect("memory"))
            .collect();
        drop(many);
        assert_eq!(store.waiting.lock().expect("a lock").len(), KEPT_BUFFERS);
    }

    #[test]
    fn buffers_are_aligned_and_as_long_as_asked_for() {
        let store = Arc::new(BufferStore::default());
        for length in [0, 1, 1_000, 1 << 20] {
            let mut buffer = store.take(length).expect("memory");
            assert_eq!(buffer.bytes_mut().len(), length);
            assert_eq!(buffer.bytes().as_ptr().addr() % ALIGNMENT_BYTES, 0);
        }
    }

    #[test]
    fn a_small_batch_does_not_hold_a_large_buffer() {
        let store = Arc::new(BufferStore::default());
        drop(store.take(1_000_000).expect("memory"));
        assert_eq!(store.take(10).expect("memory").bytes().len(), 10);
        assert_eq!(store.waiting.lock().expect("a lock").len(), 2);
    }
}

//! Memory for arrays with a value per row, in huge pages where the system has them.
//!
//! Fresh memory costs a page fault for every 4 KiB, which takes longer than most of what is done to
//! the values, and looking up rows at random costs a walk through the page table each. A page of
//! 2 MiB makes both 512 times as rare.

use std::fmt;

use arrow_buffer::{ArrowNativeType, Buffer};
use bytemuck::{Pod, Zeroable};
use bytes::Bytes;
use dataset_rt_sampler::Flat;
use memmap2::MmapMut;

use crate::error::ReaderError;

/// From this size on memory is mapped; below it, a few pages more or less make no difference.
const MAPPED_BYTES: usize = 4 << 20;

/// An array that begins as zeros.
pub struct HugeArray<T: Pod> {
    memory: Memory<T>,
}

enum Memory<T> {
    Vector(Vec<T>),
    Map(MmapMut),
}

impl<T: Pod + Send + Sync> HugeArray<T> {
    /// Makes room for `length` values; the pages come when they are first written.
    ///
    /// # Errors
    /// [`ReaderError::OutOfMemory`], which says that the memory was for `what`.
    pub fn zeroed(length: usize, what: &'static str) -> Result<Self, ReaderError> {
        let out_of_memory = |bytes: usize| ReaderError::OutOfMemory {
            what,
            bytes: bytes as u64,
        };
        let bytes = length
            .checked_mul(size_of::<T>())
            .ok_or_else(|| out_of_memory(usize::MAX))?;
        let memory = if bytes < MAPPED_BYTES {
            let vector = bytemuck::try_zeroed_vec(length).map_err(|()| out_of_memory(bytes))?;
            Memory::Vector(vector)
        } else {
            let map = MmapMut::map_anon(bytes).map_err(|_| out_of_memory(bytes))?;
            // Systems without huge pages refuse the advice, and lose nothing but speed.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            Memory::Map(map)
        };
        Ok(Self { memory })
    }

    /// The values.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        match &self.memory {
            Memory::Vector(vector) => vector,
            Memory::Map(map) => bytemuck::cast_slice(map),
        }
    }

    /// The values, to be written.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match &mut self.memory {
            Memory::Vector(vector) => vector,
            // A map begins at a page, and its length is a multiple of the value's.
            Memory::Map(map) => bytemuck::cast_slice_mut(map),
        }
    }

    /// Freezes the values.
    ///
    /// # Errors
    /// None for maps made here; the type of the shared form allows for others.
    pub fn into_flat(self) -> Result<Flat<T>, ReaderError> {
        match self.memory {
            Memory::Vector(vector) => Ok(Flat::from(vector)),
            Memory::Map(map) => Ok(Flat::from_shared(std::sync::Arc::new(map))?),
        }
    }
}

impl<T: Pod + ArrowNativeType> HugeArray<T> {
    /// Freezes the values for Arrow.
    pub(crate) fn into_buffer(self) -> Buffer {
        match self.memory {
            Memory::Vector(vector) => Buffer::from_vec(vector),
            Memory::Map(map) => Buffer::from(Bytes::from_owner(map)),
        }
    }
}

impl<T: Pod + Zeroable> fmt::Debug for HugeArray<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match &self.memory {
            Memory::Vector(vector) => size_of_val(vector.as_slice()),
            Memory::Map(map) => map.len(),
        };
        formatter
            .debug_struct("HugeArray")
            .field("bytes", &bytes)
            .finish()
    }
}

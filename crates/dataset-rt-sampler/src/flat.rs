//! A flat array of plain values that is either owned or borrowed from bytes somebody else mapped.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;

use crate::SamplerError;

/// Bytes that live as long as anyone holds them: a memory map, a file read whole, a vector.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// An immutable array of `T` without a copy of what it is made from; cloning shares it.
///
/// Length and alignment are checked once. The *values* of borrowed bytes are not: a damaged file
/// may hold any bit pattern, so whoever looks up by such a value checks it first.
///
/// ```
/// use std::sync::Arc;
/// use dataset_rt_sampler::Flat;
///
/// let owned = Flat::from(vec![3_u64, 5]);
/// let bytes = Arc::new(owned.as_bytes().to_vec());
/// let borrowed = Flat::<u64>::from_shared(bytes)?;
/// assert_eq!(borrowed.as_slice(), [3, 5]);
/// # Ok::<(), dataset_rt_sampler::SamplerError>(())
/// ```
#[derive(Clone)]
pub struct Flat<T: Pod> {
    storage: Storage<T>,
}

#[derive(Clone)]
enum Storage<T> {
    Owned(Arc<Vec<T>>),
    Shared {
        bytes: SharedBytes,
        range_bytes: Range<usize>,
        element: PhantomData<T>,
    },
}

impl<T: Pod> Flat<T> {
    /// Borrows all of `bytes`.
    ///
    /// # Errors
    /// [`SamplerError::FlatLength`] or [`SamplerError::FlatAlignment`] if the bytes are no array of `T`.
    pub fn from_shared(bytes: SharedBytes) -> Result<Self, SamplerError> {
        let length_bytes = (*bytes).as_ref().len();
        Self::from_shared_range(bytes, 0..length_bytes)
    }

    /// Borrows a part of `bytes`, given in bytes.
    ///
    /// # Errors
    /// As [`Flat::from_shared`], and [`SamplerError::FlatRange`] if there is no such part.
    pub fn from_shared_range(
        bytes: SharedBytes,
        range_bytes: Range<usize>,
    ) -> Result<Self, SamplerError> {
        let available = (*bytes).as_ref();
        let Some(part) = available.get(range_bytes.clone()) else {
            return Err(SamplerError::FlatRange {
                start_bytes: range_bytes.start as u64,
                stop_bytes: range_bytes.end as u64,
                available_bytes: available.len() as u64,
            });
        };
        let element_bytes = size_of::<T>();
        if element_bytes == 0 || part.len() % element_bytes != 0 {
            return Err(SamplerError::FlatLength {
                length_bytes: part.len() as u64,
                element_bytes: element_bytes as u64,
            });
        }
        let misaligned_bytes = part.as_ptr().addr() % align_of::<T>();
        if misaligned_bytes != 0 && !part.is_empty() {
            return Err(SamplerError::FlatAlignment {
                misaligned_bytes: misaligned_bytes as u64,
                alignment_bytes: align_of::<T>() as u64,
            });
        }
        Ok(Self {
            storage: Storage::Shared {
                bytes,
                range_bytes,
                element: PhantomData,
            },
        })
    }

    /// The values. Costs a few instructions; take it once per batch, not once per value.
    ///
    /// Empty if the shared bytes were replaced by others that no longer fit, which only a
    /// misbehaving `AsRef` can bring about.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        match &self.storage {
            Storage::Owned(values) => values,
            Storage::Shared { .. } => bytemuck::try_cast_slice(self.as_bytes()).unwrap_or_default(),
        }
    }

    /// The values as the bytes to write to a file.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Owned(values) => bytemuck::cast_slice(values),
            Storage::Shared {
                bytes, range_bytes, ..
            } => (**bytes)
                .as_ref()
                .get(range_bytes.clone())
                .unwrap_or_default(),
        }
    }

    /// How many values there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Pod> From<Vec<T>> for Flat<T> {
    fn from(values: Vec<T>) -> Self {
        Self {
            storage: Storage::Owned(Arc::new(values)),
        }
    }
}

impl<T: Pod> fmt::Debug for Flat<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let storage = match self.storage {
            Storage::Owned(_) => "owned",
            Storage::Shared { .. } => "shared",
        };
        formatter
            .debug_struct("Flat")
            .field("storage", &storage)
            .field("len", &self.len())
            .finish()
    }
}

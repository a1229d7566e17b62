//! The window plan: which stream positions belong to which epoch, batch and rank.

use crate::SamplerError;

/// The last position of a stream, 2^63 - 2: ends of windows, one past their last position, also have
/// to fit signed 64-bit integers.
pub const LAST_POSITION: u64 = i64::MAX as u64 - 1;

/// The positions of one batch on one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    /// First position.
    pub start: u64,
    /// First position no longer in the window.
    pub stop: u64,
    /// First padding position: those from here to `stop` lie past the epoch. `stop` if there are none.
    pub padding_from: u64,
}

/// How epochs are cut into batches, the same on every rank up to the rank's own number.
///
/// Epoch `e` of budget `N` is the positions `[e * N, (e + 1) * N)`. With batch size `B` and `R`
/// ranks, global batch `g` covers `B * R` positions in a row, and rank `r` takes the `r`-th `B` of them.
///
/// | | samples per rank | the last, partial global batch of `M` samples |
/// | --- | --- | --- |
/// | keep | `ceil(N / R)` | rank `r` takes the `r`-th `ceil(M / R)`; those past the epoch are padding |
/// | drop | `B * floor(N / (R * B))` | left out |
///
/// So all ranks have equally many batches, equally long; true samples come before padding; and
/// together the ranks draw the same positions as a single rank with batch size `B * R`.
///
/// ```
/// use dataset_rt_sampler::{Window, WindowPlan};
///
/// let plan = WindowPlan::new(10, 4, 1, 2, false)?;
/// assert_eq!((plan.num_batches(), plan.samples_per_rank()), (2, 5));
/// assert_eq!(plan.window(0, 0)?, Window { start: 4, stop: 8, padding_from: 8 });
/// assert_eq!(plan.window(0, 1)?, Window { start: 9, stop: 10, padding_from: 10 });
/// # Ok::<(), dataset_rt_sampler::SamplerError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowPlan {
    budget: u64,
    batch_size: u64,
    rank: u64,
    world_size: u64,
    full_batches: u64,
    /// Samples of the epoch behind its full global batches.
    remainder: u64,
    drop_last: bool,
}

impl WindowPlan {
    /// The plan of one rank.
    ///
    /// # Errors
    /// A budget, batch size or world size of 0 or past 2^63 - 1, or a rank that does not exist.
    pub fn new(
        budget: u64,
        batch_size: u64,
        rank: u64,
        world_size: u64,
        drop_last: bool,
    ) -> Result<Self, SamplerError> {
        let numbers = [
            ("budget", budget),
            ("batch size", batch_size),
            ("world size", world_size),
        ];
        for (name, found) in numbers {
            if found == 0 {
                return Err(SamplerError::ZeroPlanNumber { name });
            }
            if found > LAST_POSITION + 1 {
                return Err(SamplerError::PlanNumberTooLarge { name, found });
            }
        }
        if rank >= world_size {
            return Err(SamplerError::RankOutOfRange { rank, world_size });
        }
        // Both quotient and remainder are at most the budget, so they fit again.
        let global_batch = u128::from(batch_size) * u128::from(world_size);
        let full_batches = (u128::from(budget) / global_batch) as u64;
        let remainder = (u128::from(budget) % global_batch) as u64;
        Ok(Self {
            budget,
            batch_size,
            rank,
            world_size,
            full_batches,
            remainder,
            drop_last,
        })
    }

    /// Batches per epoch, on every rank.
    #[must_use]
    pub fn num_batches(&self) -> u64 {
        self.full_batches + u64::from(self.has_partial_batch())
    }

    /// Samples per epoch, on every rank, padding included.
    #[must_use]
    pub fn samples_per_rank(&self) -> u64 {
        let partial = if self.drop_last {
            0
        } else {
            self.partial_batch_size()
        };
        self.full_batches * self.batch_size + partial
    }

    /// Samples that all ranks together draw in an epoch beyond the budget.
    #[must_use]
    pub fn padded_samples(&self) -> u64 {
        if self.drop_last {
            return 0;
        }
        self.partial_batch_size() * self.world_size - self.remainder
    }

    /// Samples of the budget that no rank draws in an epoch.
    #[must_use]
    pub fn dropped_samples(&self) -> u64 {
        if self.drop_last { self.remainder } else { 0 }
    }

    /// The positions of one batch.
    ///
    /// # Errors
    /// [`SamplerError::BatchOutOfRange`], or [`SamplerError::PositionOverflow`] past the end of the
    /// stream.
    pub fn window(&self, epoch: u64, batch: u64) -> Result<Window, SamplerError> {
        let num_batches = self.num_batches();
        if batch >= num_batches {
            return Err(SamplerError::BatchOutOfRange { batch, num_batches });
        }
        self.checked_window(epoch, batch)
            .ok_or(SamplerError::PositionOverflow {
                epoch,
                batch,
                budget: self.budget,
            })
    }

    fn checked_window(&self, epoch: u64, batch: u64) -> Option<Window> {
        let epoch_start = epoch.checked_mul(self.budget)?;
        let epoch_stop = epoch_start.checked_add(self.budget)?;
        // Full batches lie within the budget, so only the last, partial one can reach past it.
        let size = if batch < self.full_batches {
            self.batch_size
        } else {
            self.partial_batch_size()
        };
        let before = if batch == 0 {
            0
        } else {
            batch * self.batch_size * self.world_size
        };
        let start = epoch_start
            .checked_add(before)?
            .checked_add(self.rank.checked_mul(size)?)?;
        let stop = start.checked_add(size)?;
        if stop > LAST_POSITION + 1 || epoch_stop > LAST_POSITION + 1 {
            return None;
        }
        Some(Window {
            start,
            stop,
            padding_from: epoch_stop.clamp(start, stop),
        })
    }

    fn has_partial_batch(&self) -> bool {
        self.remainder > 0 && !self.drop_last
    }

    /// Samples per rank of the last global batch, if that is partial.
    fn partial_batch_size(&self) -> u64 {
        self.remainder.div_ceil(self.world_size)
    }
}

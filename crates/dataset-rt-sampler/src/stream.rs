//! The stream of draws: positions to active rows, whatever the order.

use std::fmt;
use std::sync::Arc;

use crate::{Flat, Permutation, SamplerError, Sequential, WeightTable, Weighted};

/// Version of the mapping from (seed, table, position) to rows. Any change of a draw raises it.
pub const ALGORITHM_VERSION: u32 = 1;

/// What a row becomes that a damaged table fails to name: never a valid row.
const NO_ROW: u64 = u64::MAX;

/// A pure mapping from positions to rows.
///
/// Implementations keep no state between calls: `fill` equals `row` for each position, in any
/// split and any order, on any thread. All 2^64 positions work; after the last one comes position 0.
pub trait Order: Send + Sync + fmt::Debug {
    /// How many rows there are to draw; at least 1.
    fn population(&self) -> u64;

    /// The row at one position.
    ///
    /// Below [`Order::population`], unless a table that the order looks up in is damaged; then it
    /// may be anything, and whoever follows it checks it against the population first.
    fn row(&self, position: u64) -> u64;

    /// The rows at the positions from `start` on, much faster than one by one.
    fn fill(&self, start: u64, rows: &mut [u64]);
}

/// Which order a stream follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderKind {
    /// In table order: [`Sequential`].
    Sequential,
    /// By weight with replacement: [`Weighted`].
    Weighted,
    /// Every row once per pass: [`Permutation`].
    Permutation,
}

impl OrderKind {
    /// The name that states and messages use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Weighted => "weighted",
            Self::Permutation => "permutation",
        }
    }
}

impl fmt::Display for OrderKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The draws of one seed over one active table; cloning shares the tables.
///
/// Tables may be mapped from files that nobody has checked. A damaged one never makes a call panic:
/// it makes `row` and `fill` give rows at or past [`Stream::population`] at worst, so callers check
/// rows before they follow them. [`Stream::verify`] reads the tables whole and names the damage.
///
/// ```
/// use dataset_rt_sampler::{OrderKind, Stream};
///
/// let stream = Stream::new(OrderKind::Permutation, 7, 1_000, None, None)?;
/// let mut pass = vec![0; 1_000];
/// stream.fill(0, &mut pass);
/// pass.sort_unstable();
/// assert!(pass.into_iter().eq(0..1_000));
/// # Ok::<(), dataset_rt_sampler::SamplerError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stream {
    kind: OrderKind,
    seed: u64,
    population: u64,
    order: Arc<dyn Order>,
    weight_table: Option<Arc<WeightTable>>,
    eligible_rows: Option<Flat<u64>>,
}

impl Stream {
    /// The stream over `population` active rows.
    ///
    /// `weight_table` belongs to the weighted order and is `None` when all weights are equal.
    /// `eligible_rows` belongs to the other two: the active rows that they draw from, in table
    /// order, `None` when these are all rows (see [`crate::eligible_rows`]).
    ///
    /// # Errors
    /// An empty population, a table of another length, or a table that the order would ignore.
    pub fn new(
        kind: OrderKind,
        seed: u64,
        population: u64,
        weight_table: Option<Arc<WeightTable>>,
        eligible_rows: Option<Flat<u64>>,
    ) -> Result<Self, SamplerError> {
        if population == 0 {
            return Err(SamplerError::EmptyPopulation);
        }
        if kind != OrderKind::Weighted && weight_table.is_some() {
            return Err(SamplerError::UnusedWeightTable { kind });
        }
        let mut drawable = population;
        if let Some(eligible) = &eligible_rows {
            let eligible_rows = eligible.len() as u64;
            if kind == OrderKind::Weighted {
                return Err(SamplerError::UnusedEligibleRows { eligible_rows });
            }
            if eligible_rows == 0 {
                return Err(SamplerError::NoEligibleRows);
            }
            if eligible_rows > population {
                return Err(SamplerError::TooManyEligibleRows {
                    eligible_rows,
                    population,
                });
            }
            drawable = eligible_rows;
        }
        let order: Arc<dyn Order> = match kind {
            OrderKind::Sequential => Arc::new(Sequential::new(drawable)?),
            OrderKind::Weighted => Arc::new(Weighted::new(seed, drawable, weight_table.clone())?),
            OrderKind::Permutation => Arc::new(Permutation::new(seed, drawable)?),
        };
        Ok(Self {
            kind,
            seed,
            population,
            order,
            weight_table,
            eligible_rows,
        })
    }

    /// The active row at one position.
    #[must_use]
    pub fn row(&self, position: u64) -> u64 {
        let row = self.order.row(position);
        match &self.eligible_rows {
            Some(eligible) => eligible_row(eligible.as_slice(), row),
            None => row,
        }
    }

    /// The active rows at the positions from `start` on.
    pub fn fill(&self, start: u64, rows: &mut [u64]) {
        self.order.fill(start, rows);
        if let Some(eligible) = &self.eligible_rows {
            let eligible = eligible.as_slice();
            for row in rows {
                *row = eligible_row(eligible, *row);
            }
        }
    }

    /// Reads the tables whole and checks every row that they name; O(rows).
    ///
    /// # Errors
    /// [`SamplerError::DamagedTable`] for the first entry that names a row outside the population.
    pub fn verify(&self) -> Result<(), SamplerError> {
        if let Some(table) = &self.weight_table {
            table.verify()?;
        }
        let eligible = self.eligible_rows.as_ref().map_or(&[][..], Flat::as_slice);
        match eligible.iter().position(|&row| row >= self.population) {
            Some(entry) => Err(SamplerError::DamagedTable {
                table: "list of eligible rows",
                entry: entry as u64,
                found: eligible[entry],
                population: self.population,
            }),
            None => Ok(()),
        }
    }

    /// The order.
    #[must_use]
    pub fn kind(&self) -> OrderKind {
        self.kind
    }

    /// The seed; the sequential order keeps it without using it.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Number of active rows, drawable or not.
    #[must_use]
    pub fn population(&self) -> u64 {
        self.population
    }

    /// The table of the weighted order, for export.
    #[must_use]
    pub fn weight_table(&self) -> Option<&Arc<WeightTable>> {
        self.weight_table.as_ref()
    }

    /// The filter of the other orders, for export.
    #[must_use]
    pub fn eligible_rows(&self) -> Option<&Flat<u64>> {
        self.eligible_rows.as_ref()
    }
}

#[inline]
fn eligible_row(eligible: &[u64], row: u64) -> u64 {
    usize::try_from(row)
        .ok()
        .and_then(|row| eligible.get(row))
        .copied()
        .unwrap_or(NO_ROW)
}

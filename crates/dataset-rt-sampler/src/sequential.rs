//! The sequential order: rows as they stand in the table, over and over.

use crate::{Order, SamplerError};

/// Row `position mod population`.
#[derive(Debug, Clone)]
pub struct Sequential {
    population: u64,
}

impl Sequential {
    /// The order over `population` rows.
    ///
    /// # Errors
    /// [`SamplerError::EmptyPopulation`] for 0 rows.
    pub fn new(population: u64) -> Result<Self, SamplerError> {
        if population == 0 {
            return Err(SamplerError::EmptyPopulation);
        }
        Ok(Self { population })
    }
}

impl Order for Sequential {
    fn population(&self) -> u64 {
        self.population
    }

    fn row(&self, position: u64) -> u64 {
        position % self.population
    }

    fn fill(&self, start: u64, rows: &mut [u64]) {
        let mut position = start;
        let mut row = start % self.population;
        for slot in rows {
            *slot = row;
            position = position.wrapping_add(1);
            row += 1;
            // Past the last position of 64 bits the count starts anew at position 0, so at row 0.
            if row == self.population || position == 0 {
                row = 0;
            }
        }
    }
}

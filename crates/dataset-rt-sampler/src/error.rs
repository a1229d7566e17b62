//! The one error type of this crate: refused weights, tables that do not fit, impossible plans.

use std::fmt::Write as _;

use thiserror::Error;

use crate::OrderKind;

/// Why a set of weights cannot be drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidWeightsKind {
    /// There is no weight at all.
    Empty,
    /// Some weights are negative, NaN or infinite.
    NotFiniteNonNegative,
    /// Every weight is 0, so no row could ever be drawn.
    AllZero,
}

/// What this crate refuses.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum SamplerError {
    /// The weights cannot be drawn from; nothing was built.
    #[error("{}", describe_invalid_weights(*kind, rows, values, *total_offending))]
    InvalidWeights {
        /// What is wrong.
        kind: InvalidWeightsKind,
        /// The first offending rows, five at most.
        rows: Vec<u64>,
        /// The weights of `rows`.
        values: Vec<f64>,
        /// How many rows offend in all.
        total_offending: u64,
    },

    /// The order would ignore weights that differ.
    #[error(
        "weights differ: row {first_row} has {first_weight:?} and row {other_row} has {other_weight:?}, \
         but a permutation gives every row once per pass; expected one common weight, and 0 for rows \
         to leave out\nhint: draw with replacement to sample by weight"
    )]
    UnequalWeights {
        /// The first row with a positive weight.
        first_row: u64,
        /// Its weight.
        first_weight: f64,
        /// The first row whose positive weight is another one.
        other_row: u64,
        /// Its weight.
        other_weight: f64,
    },

    /// The executor left parts of a computation out.
    #[error("the computation was stopped before its end")]
    Stopped,

    /// There is no row to draw.
    #[error("the population has 0 rows; expected at least 1")]
    EmptyPopulation,

    /// The list of eligible rows is empty.
    #[error("the list of eligible rows is empty; expected at least 1 row")]
    NoEligibleRows,

    /// The weight table belongs to another number of rows.
    #[error("the weight table has {table_rows} rows; expected {population}, one per active row")]
    WeightTableLength {
        /// Rows of the table.
        table_rows: u64,
        /// Rows of the population.
        population: u64,
    },

    /// The order draws without weights, but got a weight table.
    #[error("the {kind} order got a weight table; expected one only for the weighted order")]
    UnusedWeightTable {
        /// The order.
        kind: OrderKind,
    },

    /// The weighted order filters by its table, but got a list of eligible rows.
    #[error(
        "the weighted order got a list of {eligible_rows} eligible rows; expected rows to be left \
         out by a weight of 0"
    )]
    UnusedEligibleRows {
        /// Length of the list.
        eligible_rows: u64,
    },

    /// More eligible rows than rows.
    #[error(
        "{eligible_rows} rows are eligible in a population of {population}; expected at most as many"
    )]
    TooManyEligibleRows {
        /// Length of the list.
        eligible_rows: u64,
        /// Rows of the population.
        population: u64,
    },

    /// A table names a row that does not exist: its bytes are damaged or belong elsewhere.
    #[error(
        "the {table} names row {found} at entry {entry}; expected a row below {population}, so the \
         table is damaged"
    )]
    DamagedTable {
        /// Which table: "weight table" or "list of eligible rows".
        table: &'static str,
        /// Where in the table.
        entry: u64,
        /// The row that it names.
        found: u64,
        /// Rows of the population.
        population: u64,
    },

    /// Bytes that are no whole number of elements.
    #[error(
        "a flat array has {length_bytes} bytes; expected a multiple of its {element_bytes}-byte element"
    )]
    FlatLength {
        /// Bytes offered.
        length_bytes: u64,
        /// Bytes of one element.
        element_bytes: u64,
    },

    /// A part of shared bytes that does not exist.
    #[error(
        "a flat array at bytes {start_bytes}..{stop_bytes} lies outside its file of {available_bytes} bytes"
    )]
    FlatRange {
        /// First byte wanted.
        start_bytes: u64,
        /// First byte no longer wanted.
        stop_bytes: u64,
        /// Bytes there are.
        available_bytes: u64,
    },

    /// Bytes that begin at an address where an element cannot lie.
    #[error(
        "a flat array begins {misaligned_bytes} bytes past a multiple of {alignment_bytes}; expected \
         an aligned start"
    )]
    FlatAlignment {
        /// Address modulo the alignment.
        misaligned_bytes: u64,
        /// Alignment of the element.
        alignment_bytes: u64,
    },

    /// A plan number that must be at least 1 is 0.
    #[error("{name} is 0; expected at least 1")]
    ZeroPlanNumber {
        /// Which number.
        name: &'static str,
    },

    /// A plan number beyond the end of the stream.
    #[error("{name} is {found}; expected at most 2^63 - 1")]
    PlanNumberTooLarge {
        /// Which number.
        name: &'static str,
        /// Its value.
        found: u64,
    },

    /// A rank that does not exist.
    #[error("rank is {rank}; expected a rank below the world size of {world_size}")]
    RankOutOfRange {
        /// The rank.
        rank: u64,
        /// Number of ranks.
        world_size: u64,
    },

    /// A batch that the epoch does not have.
    #[error(
        "batch {batch} was asked for; expected a batch below {num_batches}, the batches of an epoch"
    )]
    BatchOutOfRange {
        /// The batch.
        batch: u64,
        /// Batches of one epoch.
        num_batches: u64,
    },

    /// A window that would pass the end of the stream.
    #[error(
        "batch {batch} of epoch {epoch} with a budget of {budget} ends past position 2^63 - 2, the last \
         of the stream"
    )]
    PositionOverflow {
        /// The epoch.
        epoch: u64,
        /// The batch.
        batch: u64,
        /// Samples per epoch.
        budget: u64,
    },
}

fn describe_invalid_weights(
    kind: InvalidWeightsKind,
    rows: &[u64],
    values: &[f64],
    total_offending: u64,
) -> String {
    match kind {
        InvalidWeightsKind::Empty => "there are no weights; expected one per row".to_owned(),
        InvalidWeightsKind::AllZero => format!(
            "all {total_offending} weights are 0; expected at least one positive weight, as rows of \
             weight 0 are never drawn"
        ),
        InvalidWeightsKind::NotFiniteNonNegative => {
            let mut message = match total_offending {
                1 => "1 weight cannot be drawn by: ".to_owned(),
                total => format!("{total} weights cannot be drawn by: "),
            };
            for (nth, (row, value)) in rows.iter().zip(values).enumerate() {
                let separator = if nth == 0 { "" } else { ", " };
                // Debug keeps 1e300 short, where Display writes 301 digits. Writing to a String cannot fail.
                let _ = write!(message, "{separator}row {row} has {value:?}");
            }
            if (rows.len() as u64) < total_offending {
                message.push_str(", and more");
            }
            message.push_str("; expected finite numbers of at least 0");
            message
        }
    }
}

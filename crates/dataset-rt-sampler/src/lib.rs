//! Pure arithmetic from stream positions to rows: a draw is a function of the seed, the active
//! table and the position, and of nothing else.
//!
//! - [`Stream`] is what a reader holds: one of the three orders ([`Sequential`], [`Weighted`],
//!   [`Permutation`]) over a population of rows.
//! - [`WeightTable`] makes a weighted draw one table look-up; [`eligible_rows`] is the filter that
//!   zero weights put on the two orders that do not draw by weight.
//! - [`WindowPlan`] says which positions belong to which epoch, batch and rank.
//! - [`Executor`] is how a caller lends its threads to the building of a table.
//! - [`Flat`] lets tables live in a vector or in a memory map that the caller opened.
//!
//! There is no I/O, no thread and no global state here. The mapping from positions to rows is
//! frozen per [`ALGORITHM_VERSION`]; golden vectors in the tests pin it.
//!
//! ```
//! use std::sync::Arc;
//! use dataset_rt_sampler::{OrderKind, Stream, WeightTable};
//!
//! let table = WeightTable::build(&[1.0, 0.0, 3.0])?.map(Arc::new);
//! let stream = Stream::new(OrderKind::Weighted, 42, 3, table, None)?;
//! let mut rows = [0; 4];
//! stream.fill(1_000, &mut rows);
//! assert_eq!(rows[2], stream.row(1_002));
//! assert!(!rows.contains(&1));
//! # Ok::<(), dataset_rt_sampler::SamplerError>(())
//! ```

#[cfg(not(target_endian = "little"))]
compile_error!(
    "dataset-rt maps little-endian tables as they are: big-endian hosts cannot read them"
);

mod error;
mod executor;
mod flat;
mod permutation;
mod philox;
mod plan;
mod quantize;
mod sequential;
mod stream;
mod stretches;
mod sweep;
mod weight_table;
mod weighted;
mod weights;

pub use error::{InvalidWeightsKind, SamplerError};
pub use executor::{Executor, InOrder};
pub use flat::{Flat, SharedBytes};
pub use permutation::Permutation;
pub use philox::philox4x32_10;
pub use plan::{LAST_POSITION, Window, WindowPlan};
pub use sequential::Sequential;
pub use stream::{ALGORITHM_VERSION, Order, OrderKind, Stream};
pub use weight_table::{AliasEntry, WeightTable};
pub use weighted::Weighted;
pub use weights::eligible_rows;

//! Which weights are refused, with which words, and what zero weights leave to draw from.

use dataset_rt_sampler::{
    AliasEntry, InOrder, InvalidWeightsKind, OrderKind, SamplerError, Stream, WeightTable,
    eligible_rows,
};

const KINDS: [OrderKind; 3] = [
    OrderKind::Sequential,
    OrderKind::Weighted,
    OrderKind::Permutation,
];

const EMPTY: AliasEntry = AliasEntry {
    threshold: 0,
    alias: 0,
};

/// The error of each function that takes weights; they have to agree.
fn refusal(weights: &[f64]) -> SamplerError {
    let error = WeightTable::build(weights).unwrap_err();
    // NaN differs from itself, so errors are compared as text.
    let text = format!("{error:?}");
    assert_eq!(
        format!("{:?}", WeightTable::build_always(weights).unwrap_err()),
        text
    );
    let mut entries = vec![EMPTY; weights.len()];
    let build_into = WeightTable::build_into(weights, &mut entries, &InOrder);
    assert_eq!(format!("{:?}", build_into.unwrap_err()), text);
    for kind in KINDS {
        assert_eq!(
            format!("{:?}", eligible_rows(weights, kind).unwrap_err()),
            text
        );
    }
    error
}

#[test]
fn unusable_weights_are_refused_naming_the_first_rows() {
    let mut weights = vec![1.0; 100];
    weights[7] = -2.5;
    assert_eq!(
        refusal(&weights).to_string(),
        "1 weight cannot be drawn by: row 7 has -2.5; expected finite numbers of at least 0"
    );
    weights[90] = f64::NAN;
    weights[91] = f64::INFINITY;
    weights[92] = f64::NEG_INFINITY;
    assert_eq!(
        refusal(&weights).to_string(),
        "4 weights cannot be drawn by: row 7 has -2.5, row 90 has NaN, row 91 has inf, \
         row 92 has -inf; expected finite numbers of at least 0"
    );
    weights[95..].fill(-1.0);
    let error = refusal(&weights);
    assert_eq!(
        error.to_string(),
        "9 weights cannot be drawn by: row 7 has -2.5, row 90 has NaN, row 91 has inf, \
         row 92 has -inf, row 95 has -1.0, and more; expected finite numbers of at least 0"
    );
    let SamplerError::InvalidWeights {
        kind,
        rows,
        values,
        total_offending,
    } = error
    else {
        panic!("another error: {error}");
    };
    assert_eq!(kind, InvalidWeightsKind::NotFiniteNonNegative);
    assert_eq!(
        (rows, values.len(), total_offending),
        (vec![7, 90, 91, 92, 95], 5, 9)
    );
}

#[test]
fn every_unusable_value_is_found_at_every_place() {
    for value in [
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1e-320,
        -1e300,
    ] {
        for length in 1..20 {
            for row in 0..length {
                let mut weights = vec![1.0; length];
                weights[row] = value;
                let SamplerError::InvalidWeights {
                    rows,
                    total_offending,
                    ..
                } = refusal(&weights)
                else {
                    panic!("{value} at row {row} of {length} was not refused as a weight");
                };
                assert_eq!((rows, total_offending), (vec![row as u64], 1));
            }
        }
    }
}

#[test]
fn weights_of_nothing_but_zero_are_refused() {
    assert_eq!(
        refusal(&[0.0, -0.0, 0.0]).to_string(),
        "all 3 weights are 0; expected at least one positive weight, as rows of weight 0 are never \
         drawn"
    );
}

#[test]
fn no_weights_are_refused() {
    assert_eq!(
        refusal(&[]).to_string(),
        "there are no weights; expected one per row"
    );
}

#[test]
fn equal_weights_need_neither_table_nor_list() {
    for weights in [&[3.0; 5][..], &[1e-320; 2], &[f64::MAX; 9], &[1.0]] {
        assert!(WeightTable::build(weights).unwrap().is_none());
        let mut entries = vec![EMPTY; weights.len()];
        assert_eq!(
            WeightTable::build_into(weights, &mut entries, &InOrder),
            Ok(false)
        );
        for kind in KINDS {
            assert_eq!(eligible_rows(weights, kind), Ok(None));
        }
    }
}

#[test]
fn zero_weights_filter_the_orders_that_ignore_weights() {
    let weights = [0.0, 2.0, -0.0, 2.0, 2.0];
    assert_eq!(
        eligible_rows(&weights, OrderKind::Sequential),
        Ok(Some(vec![1, 3, 4]))
    );
    assert_eq!(
        eligible_rows(&weights, OrderKind::Permutation),
        Ok(Some(vec![1, 3, 4]))
    );
    assert_eq!(eligible_rows(&weights, OrderKind::Weighted), Ok(None));
}

#[test]
fn the_sequential_order_ignores_how_positive_weights_differ() {
    assert_eq!(eligible_rows(&[1.0, 2.0], OrderKind::Sequential), Ok(None));
    assert_eq!(
        eligible_rows(&[1.0, 0.0, 2.0], OrderKind::Sequential),
        Ok(Some(vec![0, 2]))
    );
}

#[test]
fn a_permutation_refuses_weights_that_differ() {
    let error = eligible_rows(&[0.0, 1.5, 1.5, 0.0, 4.0, 5.0], OrderKind::Permutation).unwrap_err();
    assert_eq!(
        error.to_string(),
        "weights differ: row 1 has 1.5 and row 4 has 4.0, but a permutation gives every row once per \
         pass; expected one common weight, and 0 for rows to leave out\n\
         hint: draw with replacement to sample by weight"
    );
}

#[test]
fn a_table_must_match_the_memory_it_is_built_into() {
    let mut entries = vec![EMPTY; 3];
    assert_eq!(
        WeightTable::build_into(&[1.0, 2.0], &mut entries, &InOrder)
            .unwrap_err()
            .to_string(),
        "the weight table has 3 rows; expected 2, one per active row"
    );
}

#[test]
fn a_table_built_in_place_is_the_table() {
    let weights: Vec<f64> = (0..2_000).map(|row| f64::from(row % 77)).collect();
    let mut entries = vec![EMPTY; weights.len()];
    assert_eq!(
        WeightTable::build_into(&weights, &mut entries, &InOrder),
        Ok(true)
    );
    assert_eq!(
        entries,
        WeightTable::build(&weights).unwrap().unwrap().entries()
    );
}

#[test]
fn streams_refuse_what_their_order_would_ignore() {
    let table = || {
        WeightTable::build(&[1.0, 2.0])
            .unwrap()
            .map(std::sync::Arc::new)
    };
    let error = |kind, population, table, eligible: Option<Vec<u64>>| {
        let eligible = eligible.map(Into::into);
        Stream::new(kind, 0, population, table, eligible)
            .unwrap_err()
            .to_string()
    };
    for kind in KINDS {
        assert_eq!(
            error(kind, 0, None, None),
            "the population has 0 rows; expected at least 1"
        );
    }
    assert_eq!(
        error(OrderKind::Weighted, 3, table(), None),
        "the weight table has 2 rows; expected 3, one per active row"
    );
    assert_eq!(
        error(OrderKind::Sequential, 2, table(), None),
        "the sequential order got a weight table; expected one only for the weighted order"
    );
    assert_eq!(
        error(OrderKind::Permutation, 2, table(), None),
        "the permutation order got a weight table; expected one only for the weighted order"
    );
    assert_eq!(
        error(OrderKind::Weighted, 2, None, Some(vec![1])),
        "the weighted order got a list of 1 eligible rows; expected rows to be left out by a weight \
         of 0"
    );
    assert_eq!(
        error(OrderKind::Sequential, 2, None, Some(vec![])),
        "the list of eligible rows is empty; expected at least 1 row"
    );
    assert_eq!(
        error(OrderKind::Permutation, 2, None, Some(vec![0, 1, 1])),
        "3 rows are eligible in a population of 2; expected at most as many"
    );
}

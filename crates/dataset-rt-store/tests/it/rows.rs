use dataset_rt_store::{StoreError, Value};

use crate::building::{build, options, read_all};

fn column_of(first: Value<'_>, second: Value<'_>) -> Result<Vec<String>, StoreError> {
    let base = tempfile::tempdir().unwrap();
    let rows = [(&b""[..], vec![first]), (&b""[..], vec![second])];
    let path = build(base.path(), "column", options(100), &["x"], &rows)?;
    Ok(read_all(&path)?
        .into_iter()
        .map(|(_, values)| values[0].clone())
        .collect())
}

#[test]
fn a_value_of_another_type_is_refused_with_sample_and_column() {
    let others = [
        (Value::Integer(1), Value::Float(1.5)),
        (Value::Integer(1), Value::Boolean(true)),
        (Value::Boolean(true), Value::Integer(1)),
        (Value::Float(1.0), Value::Boolean(true)),
        (Value::Float(1.0), Value::String("1.0")),
        (Value::String("a"), Value::Integer(1)),
    ];
    for (first, second) in others {
        let error = column_of(first, second).unwrap_err();
        let message = error.to_string();
        assert!(
            matches!(error, StoreError::ColumnType { sample: 1, .. }),
            "{message}"
        );
        assert!(
            message.contains("\"x\"") && message.contains(&second.to_string()),
            "{message}"
        );
    }
}

#[test]
fn an_integer_enters_a_float_column_only_if_it_is_exact() {
    let exact = [0, 1 << 53, -(1 << 53), (1 << 53) + 2, i64::MIN, 3 << 60];
    for value in exact {
        let found = column_of(Value::Float(0.5), Value::Integer(value)).unwrap();
        assert_eq!(found[1], format!("float {:#x}", (value as f64).to_bits()));
    }
    for value in [(1 << 53) + 1, -(1 << 53) - 1, i64::MAX] {
        let error = column_of(Value::Float(0.5), Value::Integer(value)).unwrap_err();
        assert!(
            matches!(error, StoreError::ColumnType { .. }),
            "{value}: {error}"
        );
    }
}

#[test]
fn reserved_and_empty_column_names_are_refused() {
    for name in ["", "cache_id", "sample_id", "weight"] {
        let base = tempfile::tempdir().unwrap();
        let built = build(
            base.path(),
            "s",
            options(100),
            &[name],
            &[(b"", vec![Value::Null])],
        );
        assert!(
            matches!(built, Err(StoreError::InvalidColumn { .. })),
            "{name:?}"
        );
    }
}

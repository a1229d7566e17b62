//! Column types of the metadata table and single values of them.

use std::fmt;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

/// What a metadata column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnType {
    /// No row has a value.
    Null,
    /// `bool`.
    Boolean,
    /// 64-bit signed integer.
    Integer,
    /// IEEE 754 double.
    Float,
    /// UTF-8 text.
    String,
}

impl ColumnType {
    /// The Arrow type in tables, which is the same whatever cache the values come from.
    #[must_use]
    pub fn arrow(self) -> DataType {
        match self {
            Self::Null => DataType::Null,
            Self::Boolean => DataType::Boolean,
            Self::Integer => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::String => DataType::LargeUtf8,
        }
    }

    /// The Arrow type in the file of a cache.
    pub(crate) fn stored(self, offsets: TextOffsets) -> DataType {
        match (self, offsets) {
            (Self::String, TextOffsets::Bits32) => DataType::Utf8,
            _ => self.arrow(),
        }
    }

    /// The Python type, as messages name it.
    #[must_use]
    pub fn python_name(self) -> &'static str {
        match self {
            Self::Null => "None",
            Self::Boolean => "bool",
            Self::Integer => "int",
            Self::Float => "float",
            Self::String => "str",
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.python_name())
    }
}

/// How wide the offsets of a text column are in the file of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextOffsets {
    /// For columns whose text is within reach of them in every record batch.
    Bits32,
    /// For all others.
    Bits64,
}

/// Name and type of one metadata column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Any non-empty text.
    pub name: String,
    /// What it holds.
    #[serde(rename = "type")]
    pub column_type: ColumnType,
}

/// One metadata value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A null.
    Null,
    /// `bool`.
    Boolean(bool),
    /// 64-bit signed integer.
    Integer(i64),
    /// IEEE 754 double.
    Float(f64),
    /// UTF-8 text.
    String(&'a str),
}

impl Value<'_> {
    /// The type of the value.
    #[must_use]
    pub fn column_type(&self) -> ColumnType {
        match self {
            Self::Null => ColumnType::Null,
            Self::Boolean(_) => ColumnType::Boolean,
            Self::Integer(_) => ColumnType::Integer,
            Self::Float(_) => ColumnType::Float,
            Self::String(_) => ColumnType::String,
        }
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("None"),
            Self::Boolean(value) => write!(formatter, "bool {value}"),
            Self::Integer(value) => write!(formatter, "int {value}"),
            Self::Float(value) => write!(formatter, "float {value:?}"),
            Self::String(value) => {
                let mut shown: String = value.chars().take(40).collect();
                if shown.len() < value.len() {
                    shown.push('…');
                }
                write!(formatter, "str {shown:?}")
            }
        }
    }
}

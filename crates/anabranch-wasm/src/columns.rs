//! Columns of traces as a page reads them, by their places in memory.

use anabranch::trace::{Column, Table};
use indexmap::{IndexMap, IndexSet};
use serde::Serialize;

/// A table's columns. They stay in memory as long as this exists.
pub(crate) struct Columns {
    name: &'static str,
    columns: Vec<(&'static str, Lying)>,
}

/// A column in memory.
enum Lying {
    Flags(Vec<u8>),
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    /// The index of each row's word.
    Text {
        rows: Vec<u32>,
        words: IndexSet<String>,
    },
}

/// Where a column's values are in memory.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Place<'a> {
    Flags { pointer: usize, length: usize },
    Integers { pointer: usize, length: usize },
    Numbers { pointer: usize, length: usize },
    Text { pointer: usize, length: usize, words: Vec<&'a str> },
}

impl Columns {
    /// The table's name.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The place of each column.
    pub(crate) fn places(&self) -> IndexMap<&'static str, Place<'_>> {
        self.columns.iter().map(|(name, column)| (*name, column.place())).collect()
    }
}

impl From<Table> for Columns {
    fn from(Table { name, columns }: Table) -> Self {
        Self { name, columns: columns.into_iter().map(|(name, column)| (name, column.into())).collect() }
    }
}

impl From<Column> for Lying {
    fn from(column: Column) -> Self {
        match column {
            Column::Flags(values) => Self::Flags(values.into_iter().map(u8::from).collect()),
            Column::Integers(values) => Self::Integers(values),
            Column::Numbers(values) => Self::Numbers(values),
            Column::Text(values) => {
                let mut words: IndexSet<String> = IndexSet::new();
                let number = |value: &str| match words.get_index_of(value) {
                    Some(number) => number as u32,
                    None => words.insert_full(value.to_owned()).0 as u32,
                };
                let rows = values.iter().map(AsRef::as_ref).map(number).collect();
                Self::Text { rows, words }
            }
        }
    }
}

impl Lying {
    fn place(&self) -> Place<'_> {
        match self {
            Self::Flags(values) => Place::Flags { pointer: values.as_ptr() as usize, length: values.len() },
            Self::Integers(values) => {
                Place::Integers { pointer: values.as_ptr() as usize, length: values.len() }
            }
            Self::Numbers(values) => {
                Place::Numbers { pointer: values.as_ptr() as usize, length: values.len() }
            }
            Self::Text { rows, words } => Place::Text {
                pointer: rows.as_ptr() as usize,
                length: rows.len(),
                words: words.iter().map(String::as_str).collect(),
            },
        }
    }
}

//! A table of a plan whose entries are read one by one.

use super::parameter::{Literal, Parameter, ParameterError, Surroundings};
use std::collections::BTreeMap;

/// The entries of a table, each read at its place.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    table: &'a BTreeMap<String, Literal>,
    surroundings: &'a dyn Surroundings,
}

impl<'a> Fields<'a> {
    pub(super) fn of(
        literal: &'a Literal,
        surroundings: &'a dyn Surroundings,
    ) -> Result<Self, ParameterError> {
        match literal {
            Literal::Table(table) => Ok(Fields { table, surroundings }),
            _ => Err(ParameterError::Expected("a table".to_string())),
        }
    }

    /// Rejects any other key.
    pub(super) fn only(&self, known: &'static [&'static str]) -> Result<(), ParameterError> {
        match self.table.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(ParameterError::UnknownInside(key.clone(), known)),
            None => Ok(()),
        }
    }

    /// A value, if it is given.
    pub(super) fn get<T: Parameter>(&self, key: &str) -> Result<Option<T>, ParameterError> {
        let read = |literal| T::read(literal, self.surroundings).map_err(|error| error.within(key));
        self.table.get(key).map(read).transpose()
    }

    /// A value or its default.
    pub(super) fn or<T: Parameter>(&self, key: &str, default: T) -> Result<T, ParameterError> {
        Ok(self.get(key)?.unwrap_or(default))
    }

    /// A value that must be given.
    pub(super) fn required<T: Parameter>(&self, key: &'static str) -> Result<T, ParameterError> {
        let missing = || ParameterError::Expected(format!("a table with '{key}'"));
        self.get(key)?.ok_or_else(missing)
    }

    /// Sets a value if it is given.
    pub(super) fn set<T: Parameter>(&self, key: &str, value: &mut T) -> Result<(), ParameterError> {
        if let Some(given) = self.get(key)? {
            *value = given;
        }
        Ok(())
    }
}

//! Values inside of a flow's tables, read with the place of whatever is wrong.

use crate::units::Size;
use crate::workload::parameter::{Inside, Literal, Parameter, ParameterError, Surroundings};

/// A share, 0 to 1: `0.8` or `"80%"`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share(pub(super) f64);

impl Parameter for Share {
    fn read(literal: &Literal, _: &dyn Surroundings) -> Result<Self, ParameterError> {
        let share = match literal {
            Literal::Text(text) => match text.parse() {
                Ok(Size::Percent(percent)) => Some(percent / 100.0),
                _ => None,
            },
            Literal::Float(share) => Some(*share),
            Literal::Integer(share) => Some(*share as f64),
            _ => None,
        };
        let sensible = share.filter(|share| (0.0..=1.0).contains(share));
        let expected = || ParameterError::Expected("a share from 0 to 1, such as 0.8 or \"80%\"".to_string());
        sensible.map(Share).ok_or_else(expected)
    }

    fn written(&self) -> String {
        percent(self.0)
    }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    let rounded = (share * 1e4).round() / 1e2;
    format!("{rounded}%")
}

/// A name of a file set, of an open file or of a flow, which is also that of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FlowWord(pub(super) String);

const LONGEST_WORD: usize = 24;

impl Parameter for FlowWord {
    fn read(literal: &Literal, _: &dyn Surroundings) -> Result<Self, ParameterError> {
        let expected = format!(
            "a name of lower-case letters, digits and hyphens that begins with a letter, at most \
             {LONGEST_WORD} long"
        );
        match literal {
            Literal::Text(text) if is_word(text) => Ok(FlowWord(text.clone())),
            _ => Err(ParameterError::Expected(expected)),
        }
    }

    fn written(&self) -> String {
        self.0.clone()
    }
}

fn is_word(text: &str) -> bool {
    let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.len() <= LONGEST_WORD
        && text.bytes().all(valid)
}

/// A table of tables by name: those of the plan change the ones that are there already, or are new.
pub(super) fn amend_by_name<T>(
    all: &mut Vec<T>,
    literal: &Literal,
    name_of: impl Fn(&T) -> &str,
    mut fresh: impl FnMut(&str) -> Result<T, ParameterError>,
    mut amend: impl FnMut(&mut T, &Literal) -> Result<(), ParameterError>,
) -> Result<(), ParameterError> {
    let Literal::Table(table) = literal else {
        return Err(ParameterError::Expected("a table of tables, one for each name".to_string()));
    };
    for (name, literal) in table {
        let within = |error: ParameterError| error.within(name);
        match all.iter_mut().find(|one| name_of(one) == name) {
            Some(one) => amend(one, literal).map_err(within)?,
            None => {
                let mut one = fresh(name).map_err(within)?;
                amend(&mut one, literal).map_err(within)?;
                all.push(one);
            }
        }
    }
    all.sort_by(|one, other| name_of(one).cmp(name_of(other)));
    Ok(())
}

/// The place of a step: the position in each list of steps, from the outermost to the step itself.
pub(super) fn place_of_step(role: &str, list: &'static str, positions: &[usize]) -> Vec<Inside> {
    let mut place = vec![Inside::Key(role.to_string()), Inside::Key(list.to_string())];
    for (depth, position) in positions.iter().enumerate() {
        if depth > 0 {
            place.push(Inside::Key("steps".to_string()));
        }
        place.push(Inside::Item(*position));
    }
    place
}

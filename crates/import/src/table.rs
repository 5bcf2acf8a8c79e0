//! A table of anybody's measurements: one row for each trial.
//!
//! The heading of a column says what it holds: `filesystem`, `workload`, `configuration` (a name), `block` or
//! `repetition`, figures (`value`, those of [`TableOptions::measures`], and whatever has a unit in its
//! heading); every other column is a setting. Rows of one block ran together, so comparisons are made within
//! it. Without such a column, the nth row of a configuration belongs to block n. An empty cell and `default`
//! mean that the setting has its default.

use crate::{Draft, File, ImportError, LONGEST_NAME, record, warning};
use csv::StringRecord;
use fsdyno_core::axis::DEFAULT;
use fsdyno_core::measure::{Column, Direction, Measure, MeasureError};
use fsdyno_core::workload::Table;
use fsdyno_core::{Configuration, TrialRecord, Workload, figures};
use std::collections::{BTreeMap, HashMap};

/// More rows than any sweep has trials: each is stored as a trial of its own.
const MOST_ROWS: usize = 50_000;
/// More cells than any sweep has settings of trials: each takes memory of its own.
const MOST_CELLS: usize = 2_000_000;
/// More columns than any sweep has axes.
const MOST_COLUMNS: usize = 256;
/// The column of the figures, unless another is named.
const VALUE: &str = "value";
/// The filesystem, unless there is a column for it.
const UNKNOWN: &str = "unknown";
/// What separates the columns: the first of these that the line of headings contains.
const SEPARATORS: [char; 3] = ['\t', ';', ','];

/// What a table does not say itself.
#[derive(Debug, Clone, Default)]
pub struct TableOptions {
    /// Headings of columns with figures; the first one ranks. If empty, `value` or the first one with a unit.
    pub measures: Vec<String>,
    /// The unit of figures whose heading has none.
    pub unit: Option<String>,
    /// Which way is better for them; if absent, the unit says it.
    pub better: Option<Direction>,
}

/// The trials of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// In the order of the rows.
    pub trials: Vec<TrialRecord>,
    /// What ranks them.
    pub measure: Measure,
}

/// What a column holds.
enum Holds {
    Setting,
    Filesystem,
    Workload,
    Configuration,
    Block,
    Figure(Column),
}

/// A row that was read.
struct Row {
    draft: Draft,
    /// As written.
    block: Option<String>,
    columns: BTreeMap<String, f64>,
    line: usize,
}

/// The position of a cell, for errors.
struct CellPosition<'a> {
    file: &'a File,
    /// Where its row begins in the text, or blank lines before it.
    begin: usize,
    /// The line of that.
    line: usize,
    separator: char,
}

impl CellPosition<'_> {
    fn error(&self, cell: usize, problem: impl Into<String>) -> ImportError {
        let (line, column) = self.of(cell);
        ImportError::at(self.file, line, column, problem)
    }

    /// Line and column of a cell: what separates cells does not count within quotes.
    fn of(&self, cell: usize) -> (usize, usize) {
        let rest = &self.file.text[self.begin..];
        let mut begin = self.begin + rest.len() - rest.trim_start_matches(['\r', '\n']).len();
        let (mut quoted, mut left) = (false, cell);
        for (at, letter) in self.file.text[begin..].char_indices() {
            match letter {
                '"' => quoted = !quoted,
                '\n' if !quoted => break,
                _ if letter == self.separator && !quoted && left > 0 => {
                    left -= 1;
                    if left == 0 {
                        begin += at + 1;
                        break;
                    }
                }
                _ => {}
            }
        }
        let before = &self.file.text[..begin];
        let line = self.line + before[self.begin..].matches('\n').count();
        let of_line = before.rsplit('\n').next().unwrap_or_default().trim_start_matches('\u{feff}');
        (line, of_line.chars().count() + 1)
    }
}

/// Imports a table with a line of headings, separated by commas, semicolons or tabs.
///
/// # Errors
/// [`ImportError::Syntax`] at the first cell that cannot be understood; [`ImportError::NoResult`] if it is
/// empty.
pub fn table(file: &File, options: &TableOptions) -> Result<Imported, ImportError> {
    let first = file.text.lines().next().unwrap_or_default();
    let separator = SEPARATORS.into_iter().find(|one| first.contains(*one)).unwrap_or(',');
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator as u8)
        .flexible(true)
        .has_headers(false)
        .from_reader(file.text.as_bytes());
    let mut records = reader.records();
    let mut next = || -> Result<Option<(StringRecord, CellPosition<'_>)>, ImportError> {
        let Some(read) = records.next() else { return Ok(None) };
        let cells = read.map_err(|error| no_result(file, error.to_string()))?;
        let (begin, line) = cells.position().map_or((0, 1), |at| (at.byte() as usize, at.line() as usize));
        Ok(Some((cells, CellPosition { file, begin, line, separator })))
    };
    let Some((headings, at)) = next()? else {
        return Err(no_result(file, "it is empty"));
    };
    let headings = words(&headings, &at)?;
    let holds = columns(&headings, &at, options)?;
    let mut rows = Vec::new();
    while let Some((cells, at)) = next()? {
        if rows.len() == MOST_ROWS {
            return Err(at.error(0, format!("a table has at most {MOST_ROWS} rows")));
        }
        if rows.len() * headings.len() > MOST_CELLS {
            return Err(at.error(0, format!("a table has at most {MOST_CELLS} cells")));
        }
        rows.push(row(file, &headings, &holds, &cells, &at)?);
    }
    if rows.is_empty() {
        return Err(no_result(file, "it has headings and no rows"));
    }
    if !holds.iter().any(|one| matches!(one, Holds::Configuration)) {
        let mut drafts: Vec<&mut Draft> = rows.iter_mut().map(|row| &mut row.draft).collect();
        crate::name(&mut drafts);
        for draft in drafts.into_iter().filter(|draft| draft.configuration.name == UNKNOWN) {
            draft.configuration.name = DEFAULT.to_string();
        }
    }
    let ranks = holds.iter().filter_map(|one| match one {
        Holds::Figure(column) => Some(&column.measure),
        _ => None,
    });
    // Columns may come in any order; the first that was named ranks.
    let wanted = options.measures.first().map_or(VALUE, String::as_str);
    let measure = ranks.clone().find(|measure| is_named(measure.name(), wanted)).or(ranks.clone().next());
    let measure = measure.cloned().ok_or_else(|| no_result(file, "it has no column of figures"))?;
    Ok(Imported { trials: trials(file, rows)?, measure })
}

fn no_result(file: &File, problem: impl Into<String>) -> ImportError {
    ImportError::NoResult { file: file.path.clone(), problem: problem.into() }
}

/// The cells of a row, without white space around them. None steers a terminal or is longer than a name.
fn words(cells: &StringRecord, at: &CellPosition<'_>) -> Result<Vec<String>, ImportError> {
    let word = |(index, cell): (usize, &str)| {
        let cell = if index == 0 { cell.trim_start_matches('\u{feff}') } else { cell }.trim();
        if cell.len() > LONGEST_NAME {
            let begin: String = cell.chars().take(20).filter(|letter| !letter.is_control()).collect();
            let problem = format!("'{begin}...' has {} bytes; the limit is {LONGEST_NAME}", cell.len());
            return Err(at.error(index, problem));
        }
        if let Some(letter) = cell.chars().find(|letter| letter.is_control()) {
            let problem = format!("a table cannot contain the control character U+{:04X}", u32::from(letter));
            return Err(at.error(index, problem));
        }
        Ok(cell.to_string())
    };
    cells.iter().enumerate().map(word).collect()
}

/// What each column holds.
fn columns(
    headings: &[String],
    at: &CellPosition<'_>,
    options: &TableOptions,
) -> Result<Vec<Holds>, ImportError> {
    if headings.len() > MOST_COLUMNS {
        return Err(at.error(MOST_COLUMNS, format!("more than {MOST_COLUMNS} columns")));
    }
    let has_unit = |heading: &&String| {
        Column::name_of(heading) != heading.as_str() && Column::new(heading, None, None).is_ok()
    };
    // Without `value`, the first figure ranks.
    let first = headings.iter().find(|heading| is_named(heading, VALUE)).or(headings.iter().find(has_unit));
    let first: Vec<String> = vec![first.map_or(VALUE, String::as_str).to_string()];
    let wanted = if options.measures.is_empty() { &first } else { &options.measures };
    let is_wanted = |heading: &str| wanted.iter().any(|name| is_named(heading, name));
    let is_unknown = |heading: &String| {
        let has_other = Column::unit_of(heading).is_some() && !has_unit(&heading);
        has_other && options.better.is_none() && !is_wanted(heading)
    };
    if let Some((index, heading)) = headings.iter().enumerate().find(|(_, heading)| is_unknown(heading)) {
        let unit = Column::unit_of(heading).unwrap_or_default();
        let problem = format!(
            "'{unit}' is no unit that says which way is better: write ({unit}, more) or ({unit}, less), or \
             add --better more|less; if it is a setting, drop the parentheses"
        );
        return Err(at.error(index, problem));
    }
    let missing = wanted.iter().find(|name| !headings.iter().any(|heading| is_named(heading, name)));
    if let Some(name) = missing {
        let columns = headings.iter().map(|heading| format!("'{heading}'")).collect::<Vec<_>>().join(", ");
        let problem =
            format!("no column '{name}', only {columns}; --measure COLUMN names the one to rank by");
        return Err(at.error(0, problem));
    }
    let mut holds = Vec::new();
    for (index, heading) in headings.iter().enumerate() {
        if heading.is_empty() {
            return Err(at.error(index, "a column needs a heading"));
        }
        if headings[..index].contains(heading) {
            return Err(at.error(index, format!("there is another column '{heading}'")));
        }
        let is_figure =
            has_unit(&heading) || (options.better.is_some() && Column::unit_of(heading).is_some());
        if is_figure || is_wanted(heading) {
            let column = figure(heading, options).map_err(|error| {
                let hint = "--unit UNIT and --better more|less say it for the whole table";
                at.error(index, format!("{error}; {hint}"))
            })?;
            holds.push(Holds::Figure(column));
            continue;
        }
        let held = match heading.to_ascii_lowercase().as_str() {
            "filesystem" => Holds::Filesystem,
            "workload" => Holds::Workload,
            "configuration" => Holds::Configuration,
            "block" | "repetition" => Holds::Block,
            _ => Holds::Setting,
        };
        if matches!(held, Holds::Block) && holds.iter().any(|one| matches!(one, Holds::Block)) {
            return Err(at.error(index, "a table has one column 'block' or 'repetition'"));
        }
        holds.push(held);
    }
    Ok(holds)
}

/// The column of figures of a heading; options count where it says nothing itself.
fn figure(heading: &str, options: &TableOptions) -> Result<Column, MeasureError> {
    match Column::new(heading, None, None) {
        Ok(column) if Column::name_of(heading) != heading => Ok(column),
        _ => Column::new(heading, options.unit.as_deref(), options.better),
    }
}

/// Whether a user who writes this means that heading, with or without its unit.
fn is_named(heading: &str, name: &str) -> bool {
    heading == name.trim() || Column::name_of(heading) == name.trim()
}

fn row(
    file: &File,
    headings: &[String],
    holds: &[Holds],
    cells: &StringRecord,
    at: &CellPosition<'_>,
) -> Result<Row, ImportError> {
    if cells.len() != headings.len() {
        let least = cells.len().min(headings.len());
        let problem = format!("a row of {} cells under {} headings", cells.len(), headings.len());
        return Err(at.error(least.saturating_sub(usize::from(cells.len() < headings.len())), problem));
    }
    let cells = words(cells, at)?;
    let mut configuration =
        Configuration { name: String::new(), filesystem: UNKNOWN.to_string(), settings: BTreeMap::new() };
    let (mut load, mut block, mut columns) = (String::new(), None, BTreeMap::new());
    for (index, ((heading, holds), cell)) in headings.iter().zip(holds).zip(cells).enumerate() {
        let unset = cell.is_empty() || cell == DEFAULT;
        match holds {
            Holds::Setting if unset => {}
            Holds::Setting => drop(configuration.settings.insert(heading.clone(), cell)),
            Holds::Filesystem if unset => {}
            Holds::Filesystem => configuration.filesystem = cell,
            Holds::Workload => load = cell,
            Holds::Configuration if cell.is_empty() => {
                return Err(at.error(index, "a configuration needs a name"));
            }
            Holds::Configuration => configuration.name = cell,
            Holds::Block if cell.is_empty() => return Err(at.error(index, "a block needs a name")),
            Holds::Block => block = Some(cell),
            Holds::Figure(column) => {
                columns.insert(column.measure.name().to_string(), number(&cell, column, index, at)?);
            }
        }
    }
    let unknown = "device, machine, kernel, stalls or processor time";
    let draft = Draft {
        configuration,
        workload: Workload::Table(Table { load }),
        environment: Default::default(),
        scheduler: String::new(),
        phases: Vec::new(),
        columns: BTreeMap::new(),
        warnings: vec![warning(file, "a table", unknown)],
        finished: String::new(),
    };
    Ok(Row { draft, block, columns, line: at.of(0).0 })
}

/// A figure in its base unit.
fn number(cell: &str, column: &Column, index: usize, at: &CellPosition<'_>) -> Result<f64, ImportError> {
    let number = cell.parse::<f64>().ok().filter(|number| number.is_finite());
    let Some(number) = number else {
        return Err(at.error(index, format!("expected a number, found '{cell}'")));
    };
    let value = number * column.factor;
    if number < 0.0 || !figures::is_possible(value) {
        return Err(at.error(index, format!("no measurement of {} is {cell}", column.measure)));
    }
    Ok(value)
}

/// The trials, with their cases and blocks.
fn trials(file: &File, rows: Vec<Row>) -> Result<Vec<TrialRecord>, ImportError> {
    let mut cases: HashMap<String, u32> = HashMap::new();
    let mut named: HashMap<String, (Configuration, usize)> = HashMap::new();
    let mut seen: HashMap<(u32, String), usize> = HashMap::new();
    let mut blocks = Blocks::of(&rows);
    let mut trials = Vec::with_capacity(rows.len());
    for (trial, Row { draft, block, columns, line }) in (0..).zip(rows) {
        let Configuration { name, filesystem, settings } = &draft.configuration;
        let other = named.entry(name.clone()).or_insert_with(|| (draft.configuration.clone(), line));
        if other.0 != draft.configuration {
            let problem = format!("'{name}' has other settings on line {}", other.1);
            return Err(ImportError::at(file, line, 1, problem));
        }
        let identity = format!("{:?} {filesystem:?} {settings:?} {name:?}", draft.workload);
        let next = u32::try_from(cases.len()).unwrap_or(u32::MAX);
        let case = *cases.entry(identity).or_insert(next);
        let number = match block {
            None => blocks.next_of(case),
            Some(block) => {
                if let Some(before) = seen.insert((case, block.clone()), line) {
                    let problem = format!("'{name}' is in block '{block}' twice, first on line {before}");
                    return Err(ImportError::at(file, line, 1, problem));
                }
                blocks.number(block)
            }
        };
        trials.push(TrialRecord { block: number, columns, ..record(trial, case, draft) });
    }
    Ok(trials)
}

/// The numbers of blocks: those of the table if it numbers them, else the order in which they appear.
struct Blocks {
    numbered: bool,
    known: HashMap<String, u32>,
    rows: HashMap<u32, u32>,
}

impl Blocks {
    fn of(rows: &[Row]) -> Blocks {
        // 01 and 1 are two blocks.
        let is_number =
            |block: &String| block.parse::<u32>().is_ok_and(|number| number.to_string() == *block);
        let numbered = rows.iter().filter_map(|row| row.block.as_ref()).all(is_number);
        Blocks { numbered, known: HashMap::new(), rows: HashMap::new() }
    }

    fn number(&mut self, block: String) -> u32 {
        if let (true, Ok(number)) = (self.numbered, block.parse()) {
            return number;
        }
        let next = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        *self.known.entry(block).or_insert(next)
    }

    /// The block of the next row of a case, in a table without a column for it.
    fn next_of(&mut self, case: u32) -> u32 {
        let rows = self.rows.entry(case).or_insert(0);
        *rows += 1;
        *rows - 1
    }
}

#[cfg(test)]
mod tests;

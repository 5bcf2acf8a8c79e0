//! A table of anybody's measurements: one row for each trial.
//!
//! The heading of a column says what it holds: `filesystem`, `workload`, `configuration` (a name), `block`,
//! `run` or any other word for what tells runs apart, or figures (`value`, those of
//! [`TableOptions::measures`], and whatever has a unit in its heading). Every other column is a setting,
//! unless it plainly is none ([`heading`]): when a row was measured, and figures whose unit nobody knows.
//! These are left out, and a note says so. Rows of one block ran together, so comparisons are made within it.
//! Without such a column, the nth row of a configuration belongs to block n. An empty cell and `default` mean
//! that the setting has its default; a row without the figure that ranks is a trial that failed.

mod heading;
mod number;

use crate::import::{Draft, File, ImportError, LONGEST_NAME, record, warning};
use csv::StringRecord;
use fsdyno_core::axis::DEFAULT;
use fsdyno_core::measure::{Column, Direction, Measure, Unit};
use fsdyno_core::outcome::{Failure, Outcome};
use fsdyno_core::workload::Table;
use fsdyno_core::{Configuration, TrialRecord, Workload, figures};
use heading::Heading;
use number::Style;
use std::collections::{BTreeMap, HashMap};

/// More rows than any sweep has trials: each is stored as a trial of its own.
const MOST_ROWS: usize = 50_000;
/// More cells than any sweep has settings of trials: each takes memory of its own.
const MOST_CELLS: usize = 1_000_000;
/// More columns than any sweep has axes.
const MOST_COLUMNS: usize = 256;
/// The column of the figures, unless another is named.
const VALUE: &str = "value";
/// The filesystem, unless there is a column for it.
const UNKNOWN: &str = "unknown";
/// The contents of a cell without a figure.
const NO_FIGURE: [&str; 4] = ["", "-", "NA", "N/A"];
/// The characters that may separate columns; the first of these that the line of headings contains does.
const SEPARATORS: [char; 3] = ['\t', ';', ','];

/// The facts about a table that it does not state itself.
#[derive(Debug, Clone, Default)]
pub struct TableOptions {
    /// Headings of columns with figures; the first one ranks. If empty, `value` or the first one with a unit.
    pub measures: Vec<String>,
    /// The unit of these figures, if their heading has none.
    pub unit: Option<String>,
    /// Which way is better for these; if absent, the unit says it.
    pub better: Option<Direction>,
}

/// The trials of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// In the order of the rows.
    pub trials: Vec<TrialRecord>,
    /// The measure that ranks the trials.
    pub measure: Measure,
    /// Which columns were left out, and why.
    pub notes: Vec<String>,
}

/// The contents of a column.
enum Holds {
    Setting,
    Filesystem,
    Workload,
    Configuration,
    Block,
    Figure(Column, Style),
    /// A column that is left out.
    Nothing,
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
#[derive(Clone, Copy)]
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
        let of_line = before.rsplit('\n').next().unwrap_or_default();
        (line, of_line.chars().count() + 1)
    }
}

/// Imports a table with a line of headings, separated by commas, semicolons or tabs.
///
/// # Errors
/// [`ImportError::Syntax`] at the first cell that cannot be understood; [`ImportError::NoResult`] if it is
/// empty.
pub fn table(file: &File, options: &TableOptions) -> Result<Imported, ImportError> {
    let Grid { headings, at, rows } = grid(file)?;
    let parsed: Vec<Heading<'_>> = headings.iter().map(|heading| Heading::new(heading)).collect();
    let cells = |index: usize| rows.iter().map(|(cells, _)| cells[index].as_str()).collect::<Vec<_>>();
    let styles = Style::of_columns((0..headings.len()).map(cells), at.separator);
    if let [only] = &parsed[..]
        && only.own_column().is_none()
        && ![VALUE]
            .into_iter()
            .chain(options.measures.iter().map(String::as_str))
            .any(|name| only.is_named(name))
    {
        return Err(at.error(0, "this line has no columns, which commas, semicolons or tabs separate"));
    }
    let spreads: Vec<bool> = parsed
        .iter()
        .enumerate()
        .map(|(index, heading)| {
            let is_wanted = options.measures.iter().any(|name| heading.is_named(name));
            !is_wanted && heading.is_spread(&cells(index))
        })
        .collect();
    let ranking = ranking(&parsed, &spreads, &at, options)?;
    let work = work(&parsed, &cells);
    let mut notes = Vec::new();
    let mut holds = Vec::new();
    for (index, (heading, style)) in parsed.iter().zip(styles).enumerate() {
        let is_wanted = is_wanted(heading, &ranking, options);
        let (held, note) = match is_wanted {
            false if spreads[index] => (Holds::Nothing, Some(of_spread(heading))),
            false if work == Some(index) => (Holds::Workload, Some(of_work(heading))),
            _ => {
                let held = held(heading, style, is_wanted, &cells(index), options);
                held.map_err(|problem| at.error(index, problem))?
            }
        };
        let is_same = |one: &Holds| matches!((one, &held), (Holds::Figure(one, _), Holds::Figure(other, _)) if one.measure == other.measure);
        if headings[..index].contains(&headings[index]) || holds.iter().any(is_same) {
            return Err(at.error(index, format!("there is another column '{}'", heading.text)));
        }
        if matches!(held, Holds::Block) && holds.iter().any(|one| matches!(one, Holds::Block)) {
            return Err(
                at.error(index, "a table has one column 'block' or another that tells runs apart, not two")
            );
        }
        notes.extend(note);
        holds.push(held);
    }
    let mut drafts = rows
        .iter()
        .map(|(cells, at)| row(file, &headings, &holds, cells, at))
        .collect::<Result<Vec<_>, _>>()?;
    if !holds.iter().any(|one| matches!(one, Holds::Configuration)) {
        let mut drafts: Vec<&mut Draft> = drafts.iter_mut().map(|row| &mut row.draft).collect();
        crate::import::name(&mut drafts);
        for draft in drafts.into_iter().filter(|draft| draft.configuration.name == UNKNOWN) {
            draft.configuration.name = DEFAULT.to_string();
        }
    }
    let measure = parsed.iter().zip(&holds).find_map(|(heading, held)| match held {
        Holds::Figure(column, _) if heading.is_named(&ranking) => Some(column.measure.clone()),
        _ => None,
    });
    let measure = measure.ok_or_else(|| no_result(file, "it has no column of figures"))?;
    if drafts.iter().all(|row| !row.columns.contains_key(measure.name())) {
        return Err(no_result(file, format!("no row has a figure in its column '{ranking}'")));
    }
    Ok(Imported { trials: trials(file, drafts, &measure)?, measure, notes })
}

/// A table as it is written: headings and rows of as many cells.
struct Grid<'a> {
    headings: Vec<String>,
    at: CellPosition<'a>,
    rows: Vec<(Vec<String>, CellPosition<'a>)>,
}

/// Reads the cells, without comments, blank rows, and the column that commas at the ends of lines make.
fn grid(file: &File) -> Result<Grid<'_>, ImportError> {
    let is_comment = |line: &&str| line.starts_with('#');
    let mut lines = file.text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.clone().find(|line| !is_comment(line)).or(lines.next()).unwrap_or_default();
    let separator = SEPARATORS.into_iter().find(|one| first.contains(*one)).unwrap_or(',');
    verify_columns(file, separator)?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(separator as u8)
        .flexible(true)
        .has_headers(false)
        .from_reader(file.text.as_bytes());
    let mut headings: Option<(Vec<String>, CellPosition<'_>)> = None;
    let mut comment: Option<(StringRecord, CellPosition<'_>)> = None;
    let mut rows: Vec<(Vec<String>, CellPosition<'_>)> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| no_result(file, error.to_string()))?;
        let (begin, line) = record.position().map_or((0, 1), |at| (at.byte() as usize, at.line() as usize));
        let at = CellPosition { file, begin, line, separator };
        if file.text[begin..].trim_start_matches(['\r', '\n']).starts_with('#') {
            comment = Some((record, at));
            continue;
        }
        if record.iter().all(|cell| cell.trim().is_empty()) {
            continue;
        }
        if headings.is_none() {
            headings = match comment.take().filter(|(comment, _)| names(comment, &record)) {
                Some((comment, at)) => Some((uncommented(words(&comment, &at)?), at)),
                None => Some((words(&record, &at)?, at)),
            };
            if headings.as_ref().is_some_and(|(_, of)| of.begin == begin) {
                continue;
            }
        }
        let Some((headings, _)) = &headings else { continue };
        if rows.len() == MOST_ROWS {
            return Err(at.error(0, format!("a table has at most {MOST_ROWS} rows")));
        }
        if rows.len() * headings.len() > MOST_CELLS {
            return Err(at.error(0, format!("a table has at most {MOST_CELLS} cells")));
        }
        rows.push((full_row(headings.len(), record, &at)?, at));
    }
    let Some((mut headings, at)) = headings else { return Err(no_result(file, "it is empty")) };
    let blank = |rows: &[(Vec<String>, CellPosition<'_>)]| {
        rows.iter().all(|(cells, _)| cells.last().is_some_and(String::is_empty))
    };
    while headings.len() > 1 && headings.last().is_some_and(String::is_empty) && blank(&rows) {
        headings.pop();
        rows.iter_mut().for_each(|(cells, _)| drop(cells.pop()));
    }
    if headings.len() > MOST_COLUMNS {
        return Err(too_wide(&at));
    }
    if let Some(index) = headings.iter().position(String::is_empty) {
        return Err(at.error(index, "a column needs a heading"));
    }
    if rows.is_empty() {
        return Err(no_result(file, "it has headings and no rows"));
    }
    Ok(Grid { headings, at, rows })
}

/// Refuses a row of too many cells before any of them takes memory of its own. Quotes count where the parser
/// sees them: at the beginning of a cell.
fn verify_columns(file: &File, separator: char) -> Result<(), ImportError> {
    let mut at = CellPosition { file, begin: 0, line: 1, separator };
    let (mut line, mut columns, mut starts, mut quoted) = (1, 1, true, false);
    for (index, byte) in file.text.bytes().enumerate() {
        let starts_cell = std::mem::take(&mut starts);
        match byte {
            // A doubled quote closes the cell and opens it again.
            b'"' if quoted || starts_cell => (quoted, starts) = (!quoted, quoted),
            b'\n' => {
                line += 1;
                if !quoted {
                    at = CellPosition { begin: index + 1, line, ..at };
                    (columns, starts) = (1, true);
                }
            }
            _ if char::from(byte) == separator && !quoted => (columns, starts) = (columns + 1, true),
            _ => {}
        }
        // Commas at the ends of lines make one more.
        if columns > MOST_COLUMNS + 1 {
            return Err(too_wide(&at));
        }
    }
    Ok(())
}

fn too_wide(at: &CellPosition<'_>) -> ImportError {
    at.error(MOST_COLUMNS, format!("more than {MOST_COLUMNS} columns"))
}

/// Returns whether a comment ahead of the first row has the headings, as in files for gnuplot: it has as many
/// cells as the row, and the row has a number.
fn names(comment: &StringRecord, first: &StringRecord) -> bool {
    let has_number = first.iter().any(|cell| cell.trim().parse::<f64>().is_ok());
    has_number && comment.len() > 1 && comment.len() == first.len()
}

/// Headings without the mark of a comment, unless `#` is the name of the first column.
fn uncommented(mut headings: Vec<String>) -> Vec<String> {
    if let Some(first) = headings.first_mut() {
        let name = first.trim_start_matches('#').trim();
        *first = if name.is_empty() { "#".to_string() } else { name.to_string() };
    }
    headings
}

/// A row of as many cells as there are headings. A comma at its end adds no cell.
fn full_row(
    headings: usize,
    mut record: StringRecord,
    at: &CellPosition<'_>,
) -> Result<Vec<String>, ImportError> {
    if record.len() == headings + 1 && record.iter().next_back().is_some_and(|last| last.trim().is_empty()) {
        record.truncate(headings);
    }
    if record.len() != headings {
        let least = record.len().min(headings);
        let problem = format!("a row of {} cells under {headings} headings", record.len());
        return Err(at.error(least.saturating_sub(usize::from(record.len() < headings)), problem));
    }
    words(&record, at)
}

fn no_result(file: &File, problem: impl Into<String>) -> ImportError {
    ImportError::NoResult { file: file.path.clone(), problem: problem.into() }
}

/// The cells of a row, without white space around them. None steers a terminal or is longer than a name.
fn words(cells: &StringRecord, at: &CellPosition<'_>) -> Result<Vec<String>, ImportError> {
    let word = |(index, cell): (usize, &str)| {
        let cell = cell.trim();
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

/// The column that says what was done, if none is called `workload`: figures of unlike work are not compared.
fn work<'a>(headings: &[Heading<'_>], cells: &impl Fn(usize) -> Vec<&'a str>) -> Option<usize> {
    let is_named = |heading: &Heading<'_>| heading.text.eq_ignore_ascii_case("workload");
    if headings.iter().any(is_named) {
        return None;
    }
    let varies = |index: &usize| {
        let cells = cells(*index);
        cells.iter().any(|cell| *cell != cells[0])
    };
    let mut found = (0..headings.len()).filter(|index| headings[*index].is_work()).filter(varies);
    // Of several, nothing says which one it is.
    found.next().filter(|_| found.next().is_none())
}

fn of_work(heading: &Heading<'_>) -> String {
    let text = heading.text;
    format!(
        "the column '{text}' is taken for the workload, so its rows are compared only with those that did the \
         same; if it is a setting, call it 'setting {text}'"
    )
}

fn of_spread(heading: &Heading<'_>) -> String {
    format!(
        "the column '{}' says how much a figure varies, and is left out: fsdyno takes that from the trials, \
         each of which needs a row of its own",
        heading.text
    )
}

/// The column that ranks: the first that was named, else `value`, else the first with a unit.
fn ranking(
    headings: &[Heading<'_>],
    spreads: &[bool],
    at: &CellPosition<'_>,
    options: &TableOptions,
) -> Result<String, ImportError> {
    let is_wanted = |heading: &Heading<'_>| options.measures.iter().any(|name| heading.is_named(name));
    for (index, heading) in headings.iter().enumerate() {
        let Some(unit) = heading.unknown_unit() else { continue };
        if is_wanted(heading) || heading.is_run() || spreads[index] {
            continue;
        }
        let more = if heading.is_latency() { String::new() } else { format!("({unit}, more) or ") };
        let problem = format!(
            "'{unit}' is no unit that says which way is better: write {more}({unit}, less); if it is a setting, \
             drop the parentheses"
        );
        return Err(at.error(index, problem));
    }
    let orders: [fn(&Heading<'_>) -> bool; 4] = [
        |heading| heading.is_named(VALUE),
        |heading| heading.is_certain(),
        |heading| heading.is_rate(),
        |heading| heading.own_column().is_some(),
    ];
    let usual = || {
        let figures = || headings.iter().zip(spreads).filter(|(_, is_spread)| !*is_spread);
        let first = orders.into_iter().find_map(|order| figures().find(|(heading, _)| order(heading)));
        first.map_or(VALUE, |(heading, _)| heading.text).to_string()
    };
    let wanted = options.measures.first().cloned().unwrap_or_else(usual);
    let all = std::iter::once(&wanted).chain(&options.measures);
    let missing = all.clone().find(|name| !headings.iter().any(|heading| heading.is_named(name)));
    if let Some(name) = missing {
        let columns = headings.iter().map(|heading| format!("'{}'", heading.text)).collect::<Vec<_>>();
        let problem = format!(
            "no column '{name}', only {}; --measure COLUMN names the one to rank by",
            columns.join(", ")
        );
        return Err(at.error(0, problem));
    }
    Ok(wanted)
}

fn is_wanted(heading: &Heading<'_>, ranking: &str, options: &TableOptions) -> bool {
    heading.is_named(ranking) || options.measures.iter().any(|name| heading.is_named(name))
}

/// Returns the contents of a column, and a note if the column is left out.
fn held(
    heading: &Heading<'_>,
    style: Style,
    is_wanted: bool,
    cells: &[&str],
    options: &TableOptions,
) -> Result<(Holds, Option<String>), String> {
    let text = heading.text;
    if is_wanted {
        let column = heading.column(options.unit.as_deref(), options.better).map_err(|error| {
            format!("{error}; --unit UNIT and --better more|less say it for the columns of --measure")
        })?;
        if heading.is_latency()
            && heading.own_column().is_none()
            && column.measure.direction() == Direction::HigherIsBetter
        {
            return Err(format!(
                "'{text}' is a latency, of which less is better: write its unit, '{text} (ms)'"
            ));
        }
        return Ok((Holds::Figure(column, style), None));
    }
    if heading.is_run() {
        return Ok((Holds::Block, None));
    }
    match text.to_ascii_lowercase().as_str() {
        "filesystem" => return Ok((Holds::Filesystem, None)),
        "workload" => return Ok((Holds::Workload, None)),
        "configuration" => return Ok((Holds::Configuration, None)),
        _ => {}
    }
    let own = heading.own_column();
    if let Some(column) = own.filter(|_| heading.is_certain() || heading.is_measured(cells, style)) {
        return Ok((Holds::Figure(column, style), None));
    }
    if heading.is_moment() || cells.iter().any(|cell| is_moment(cell)) {
        let note = format!("the column '{text}' says when, and is left out");
        return Ok((Holds::Nothing, Some(note)));
    }
    if heading.is_measured(cells, style) {
        let note = format!(
            "the column '{text}' has figures whose unit is not known, and is left out; name them '{text} (UNIT)' \
             or '{text} (UNIT, less)', or in --measure"
        );
        return Ok((Holds::Nothing, Some(note)));
    }
    Ok((Holds::Setting, None))
}

/// A date with a time of day: `2026-01-01T10:00:00`.
fn is_moment(cell: &str) -> bool {
    let shape: String = cell.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    ["T", " "].iter().any(|between| shape.starts_with(&format!("0000-00-00{between}00:00")))
}

fn row(
    file: &File,
    headings: &[String],
    holds: &[Holds],
    cells: &[String],
    at: &CellPosition<'_>,
) -> Result<Row, ImportError> {
    let mut configuration =
        Configuration { name: String::new(), filesystem: UNKNOWN.to_string(), settings: BTreeMap::new() };
    let (mut load, mut block, mut columns) = (String::new(), None, BTreeMap::new());
    for (index, ((heading, holds), cell)) in headings.iter().zip(holds).zip(cells).enumerate() {
        let unset = cell.is_empty() || cell == DEFAULT;
        match holds {
            Holds::Setting if unset => {}
            Holds::Setting => drop(configuration.settings.insert(heading.clone(), cell.clone())),
            Holds::Filesystem if unset => {}
            Holds::Filesystem => configuration.filesystem.clone_from(cell),
            Holds::Workload => load.clone_from(cell),
            Holds::Configuration if cell.is_empty() => {
                return Err(at.error(index, "a configuration needs a name"));
            }
            Holds::Configuration => configuration.name.clone_from(cell),
            Holds::Block if cell.is_empty() => return Err(at.error(index, "a block needs a name")),
            Holds::Block => block = Some(cell.clone()),
            Holds::Figure(..) if NO_FIGURE.iter().any(|none| cell.eq_ignore_ascii_case(none)) => {}
            Holds::Figure(column, style) => {
                let value = number(cell, column, *style, index, at)?;
                // Nothing takes no time: it was not measured.
                if value > 0.0 || column.measure.unit() != Unit::Nanoseconds {
                    columns.insert(column.measure.name().to_string(), value);
                }
            }
            Holds::Nothing => {}
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
fn number(
    cell: &str,
    column: &Column,
    style: Style,
    index: usize,
    at: &CellPosition<'_>,
) -> Result<f64, ImportError> {
    let Some(number) = style.parse(cell) else {
        let may_be_two = style == Style::Unclear && Style::Point.parse(cell).is_some();
        let problem = match may_be_two {
            true => format!("'{cell}' may be one number with a decimal comma or another with thousands"),
            false => format!("expected a number, found '{cell}'"),
        };
        return Err(at.error(index, problem));
    };
    let value = number * column.factor;
    if number < 0.0 || !figures::is_possible(value) {
        return Err(at.error(index, format!("no measurement of {} is {cell}", column.measure)));
    }
    Ok(value)
}

/// The trials, with their cases and blocks. Those without the figure that ranks have failed.
fn trials(file: &File, rows: Vec<Row>, measure: &Measure) -> Result<Vec<TrialRecord>, ImportError> {
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
        let outcome = match columns.contains_key(measure.name()) {
            true => Outcome::Measured,
            false => Outcome::Failed {
                error: Failure::new("table", format!("line {line} has no figure in '{}'", measure.name())),
            },
        };
        trials.push(TrialRecord { block: number, columns, outcome, ..record(trial, case, draft) });
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

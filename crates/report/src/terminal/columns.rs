//! Columns of the tables in which configurations stand side by side, and which of them fit a terminal.

/// Marks what weakens what survives a power cut, or may.
pub(crate) const WEAKENS: &str = "!";
/// The meaning of the mark.
pub(crate) const WEAKENS_LEGEND: &str =
    "weakens what survives a power cut, or may; never wins if a safe one was measured";

/// One column of the table: the lines of its heading, and a cell for each row.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) head: Vec<String>,
    pub(crate) cells: Vec<String>,
    /// Makes room after all others.
    pub(crate) is_vital: bool,
}

/// A name, marked if it weakens durability; if some are marked, the others are indented to match.
pub(crate) fn marked(name: &str, durable: bool, some_weaken: bool) -> String {
    match (durable, some_weaken) {
        (false, _) => format!("{WEAKENS} {name}"),
        (true, true) => format!("  {name}"),
        (true, false) => name.to_string(),
    }
}

/// Returns the meaning of the mark, to follow the other notes on a table; empty if nothing is marked.
pub(super) fn weakens(some_weaken: bool) -> String {
    if some_weaken { format!("; {WEAKENS}: {WEAKENS_LEGEND}") } else { String::new() }
}

impl Column {
    pub(super) fn width(&self) -> usize {
        let lines = self.head.iter().chain(&self.cells).flat_map(|text| text.lines());
        lines.map(|line| line.chars().count()).max().unwrap_or(0)
    }
}

/// The columns that fit, and the names of the others. The last ones make room first, vital ones after all
/// others; one stays in any case.
pub(super) fn fitting(
    mut columns: Vec<Column>,
    width: usize,
    name_width: usize,
) -> (Vec<Column>, Vec<String>) {
    let mut left_out = Vec::new();
    let needed =
        |columns: &[Column]| name_width + columns.iter().map(|column| 1 + column.width()).sum::<usize>();
    while columns.len() > 1 && needed(&columns) > width {
        let last = columns.iter().rposition(|column| !column.is_vital).unwrap_or(columns.len() - 1);
        left_out.push(columns.remove(last).name);
    }
    left_out.reverse();
    (columns, left_out)
}

/// Names the columns that a terminal is too narrow for.
pub(super) fn no_room_for<T: AsRef<str>>(left_out: &[T]) -> Option<String> {
    let names: Vec<&str> = left_out.iter().map(AsRef::as_ref).collect();
    let names = names.join(", ");
    (!left_out.is_empty()).then(|| format!("(no room for {names}; try COLUMNS=120)"))
}

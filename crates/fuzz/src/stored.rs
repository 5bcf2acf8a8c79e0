//! The store: records, modified fields, modified contents of compressed fields, and a damaged file.

use crate::{journal, lot, sample, show};
use fsdyno_core::TrialRecord;
use fsdyno_store::{NewSweep, Store};
use rusqlite::Connection;
use rusqlite::types::Value;
use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

const TABLES: &[&str] = &["sweeps", "trials"];

/// A store with a sweep, and a second connection that modifies it.
struct Bench {
    store: Store,
    editor: Connection,
    /// The columns of all tables.
    columns: Vec<Column>,
    /// The contents of the file of a current store.
    whole: Vec<u8>,
    /// Where modified files are written.
    directory: TempDir,
}

#[derive(Debug, PartialEq, Eq)]
struct Column {
    table: &'static str,
    name: String,
}

thread_local! {
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

/// The first byte selects a record (`r`), the decompressed contents of a document (`j`) or of bulk data
/// (`k`), damage (`d`), or a field. A field is its type, its name (any other text stands for some column) up
/// to the end of the line, and its value.
pub fn stored(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    BENCH.with_borrow_mut(|bench| {
        let bench = bench.get_or_insert_with(Bench::new);
        match kind {
            b'r' => bench.record(rest),
            b'j' => bench.set(&bench.columns[bench.named("document")], &compressed(rest), rest),
            b'k' => bench.set(&bench.columns[bench.named("bulk")], &compressed(rest), rest),
            b'd' => bench.damage(rest),
            kind => bench.change(*kind, rest),
        }
    });
}

impl Bench {
    fn new() -> Self {
        let directory = journal::scratch();
        let path = directory.path().join("whole.db");
        let mut store = Store::open(&path).expect("a store");
        store.import_sweep(&sweep(), &sample::repeated()).expect("a sweep");
        drop(store);
        let whole = fs::read(&path).expect("its file");

        let name = directory.path().join("edited.db");
        let mut store = Store::open(&name).expect("a store");
        store.import_sweep(&sweep(), &sample::repeated()).expect("a sweep");
        let editor = Connection::open(&name).expect("a connection");
        forget_types(&editor);
        let columns = TABLES.iter().flat_map(|table| columns(&editor, table)).collect();
        for table in TABLES {
            let copy = format!("CREATE TEMP TABLE kept_{table} AS SELECT * FROM {table}");
            editor.execute_batch(&copy).expect("a copy");
        }
        // It has not read the schema yet, so it gets the one without types.
        let store = Store::open(&name).expect("a store");
        Bench { store, editor, columns, whole, directory }
    }

    /// Whatever the store accepts, it returns unchanged, and all of it can be shown.
    fn record(&mut self, json: &[u8]) {
        let Ok(record) = serde_json::from_slice::<TrialRecord>(json) else { return };
        // Shares of unwatched workers are not written.
        let json = serde_json::to_vec(&record).expect("a record is JSON");
        let record = serde_json::from_slice::<TrialRecord>(&json).expect("what was written is read");
        let Ok(id) = self.store.import_sweep(&sweep(), std::slice::from_ref(&record)) else { return };
        let read = self.store.trials(id).expect("what was just stored");
        let away = format!(
            "PRAGMA foreign_keys = on; DELETE FROM sweeps WHERE id = {id}; PRAGMA foreign_keys = off"
        );
        self.editor.execute_batch(&away).expect("delete the sweep");
        assert_eq!(read, [record]);
        show::some(&read, lot(&json, u64::MAX));
    }

    /// Sets a field of every row to a value: text, bytes, an integer, a number or nothing.
    fn change(&self, kind: u8, data: &[u8]) {
        let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
        let (name, value) = (&data[..end], data.get(end + 1..).unwrap_or_default());
        let text = String::from_utf8_lossy(value);
        let value = match kind {
            b'b' => Value::Blob(value.to_vec()),
            b'i' => text.trim().parse().map_or(Value::Null, Value::Integer),
            b'f' => text.trim().parse().map_or(Value::Null, Value::Real),
            b'n' => Value::Null,
            _ => Value::Text(text.into_owned()),
        };
        self.set(self.column(name), &value, data);
    }

    fn set(&self, column: &Column, value: &Value, data: &[u8]) {
        let Column { table, name } = column;
        let sql = format!("UPDATE {table} SET {name} = ?");
        if self.editor.execute(&sql, [value]).is_ok() {
            read(&self.store, lot(data, u64::MAX));
        }
        // If the value must be unique, nothing was changed.
        let whole = format!("DELETE FROM {table}; INSERT INTO {table} SELECT * FROM temp.kept_{table}");
        self.editor.execute_batch(&whole).expect("what was there before");
    }

    /// Writes a file and removes all others from the directory.
    fn fresh(&self, name: &str, bytes: &[u8]) -> PathBuf {
        for old in fs::read_dir(self.directory.path()).expect("a directory") {
            fs::remove_file(old.expect("an entry").path()).expect("remove a file");
        }
        let path = self.directory.path().join(name);
        fs::write(&path, bytes).expect("memory");
        path
    }

    fn named(&self, name: &str) -> usize {
        self.columns.iter().position(|column| column.name == name).expect("a column of trials")
    }

    /// The column of this name. Any other text selects some column, so that no input is wasted.
    fn column(&self, name: &[u8]) -> &Column {
        let named = |column: &&Column| format!("{}.{}", column.table, column.name).as_bytes() == name;
        let any = || &self.columns[lot(name, self.columns.len() as u64) as usize];
        self.columns.iter().find(named).unwrap_or_else(any)
    }

    /// Overwrites bytes of the file. A patch is three bytes for a position, one for a length, and that many
    /// bytes.
    fn damage(&self, mut patches: &[u8]) {
        let seed = lot(patches, u64::MAX);
        let mut file = self.whole.clone();
        while let [a, b, c, length, rest @ ..] = patches {
            let place = u32::from_be_bytes([0, *a, *b, *c]) as usize % file.len();
            let length = usize::from(*length).min(rest.len()).min(file.len() - place);
            file[place..place + length].copy_from_slice(&rest[..length]);
            patches = &rest[length..];
        }
        let path = self.fresh("damaged.db", &file);
        if let Ok(store) = Store::open(&path) {
            read(&store, seed);
        }
    }
}

fn sweep() -> NewSweep {
    NewSweep {
        name: "sample".to_string(),
        plan_toml: String::new(),
        overrides: Vec::new(),
        seed: 1,
        measure: "read".to_string(),
        environment: None,
        cases: 1,
        trials: 3,
    }
}

/// Removes types and checks from the schema: a store from elsewhere may have any value in any column.
fn forget_types(editor: &Connection) {
    let schema = "PRAGMA foreign_keys = off;
        PRAGMA ignore_check_constraints = on;
        PRAGMA writable_schema = on;
        UPDATE sqlite_schema SET sql = replace(replace(sql, 'STRICT, ', ''), 'STRICT', '')
            WHERE type = 'table';
        UPDATE sqlite_schema SET sql = replace(sql, ' NOT NULL', '') WHERE type = 'table';
        PRAGMA writable_schema = reset;";
    editor.execute_batch(schema).expect("another schema");
}

fn compressed(bytes: &[u8]) -> Value {
    Value::Blob(zstd::encode_all(bytes, 1).expect("memory"))
}

fn columns(editor: &Connection, table: &'static str) -> Vec<Column> {
    let sql = format!("SELECT name FROM pragma_table_info('{table}') WHERE name NOT LIKE '%id'");
    let mut statement = editor.prepare(&sql).expect("a statement");
    let names = statement.query_map([], |row| row.get(0)).expect("its columns");
    names.map(|name| Column { table, name: name.expect("a name") }).collect()
}

/// Reads everything in a store, and shows it. Damage is an error.
fn read(store: &Store, lot: u64) {
    let Ok(sweeps) = store.sweeps() else { return };
    for summary in sweeps.into_iter().take(2) {
        let trials =
            if lot.is_multiple_of(3) { store.outlines(summary.id) } else { store.trials(summary.id) };
        let (Ok(sweep), Ok(trials)) = (store.sweep(summary.id), trials) else { continue };
        let mut header = show::header("read");
        header.name = summary.name;
        header.measure = sweep.measure.parse().unwrap_or(header.measure);
        let _ = fsdyno_sweep::study(&sweep.plan_toml, &sweep.overrides);
        show::with_header(&trials, &header, lot / 3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed is named after the column that it changes. After the column is renamed, the seed would be
    /// wasted.
    #[test]
    fn each_seed_names_a_column() {
        let bench = Bench::new();
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/stored");
        for entry in fs::read_dir(corpus).expect("a corpus") {
            let path = entry.expect("an entry").path();
            let seed = path.file_name().and_then(|name| name.to_str()?.strip_prefix("seed-"));
            let Some((table, column)) = seed.and_then(|name| name.split_once('-')) else { continue };
            let name = format!("{table}.{column}");
            assert!(
                bench.columns.iter().any(|known| (known.table, known.name.as_str()) == (table, column)),
                "{name}"
            );
            assert!(fs::read(&path).expect("a seed")[1..].starts_with(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_changed_field_is_read_and_put_back() {
        let mut bench = Bench::new();
        let sweep = bench.store.sweeps().expect("a list")[0].id;
        let before = bench.store.trials(sweep).expect("trials");
        assert_eq!(before, sample::repeated());
        bench.change(b't', b"trials.outcome\nnone");
        bench.change(b'b', b"trials.document\n\xff");
        for (column, bytes) in [("document", &b"{}"[..]), ("bulk", b"\x01")] {
            let column = &bench.columns[bench.named(column)];
            bench.set(column, &compressed(bytes), bytes);
        }
        bench.record(include_bytes!("sample.json"));
        bench.damage(b"\0\0\x10\x04\xff\xff\xff\xff");
        assert_eq!(bench.store.trials(sweep).expect("trials"), before);
        assert_eq!(bench.store.sweeps().expect("a list").len(), 1);
    }
}

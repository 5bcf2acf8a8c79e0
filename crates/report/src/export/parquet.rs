//! A table as Parquet, for data frames that are too large for text: typed columns, null for missing figures.
//!
//! Whole numbers are unsigned 64-bit integers. Columns are not compressed, which would need more libraries;
//! repeated words are stored once (the format's writer uses dictionaries by default).

use super::{Cell, ExportTable, Type};
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type as SchemaType;
use std::io::{self, Write};
use std::sync::Arc;

/// Rows that are collected in memory before they are written.
const ROWS_OF_A_GROUP: usize = 65_536;

type Output<'o> = &'o mut (dyn Write + Send);

pub(super) fn write(table: &ExportTable<'_>, out: Output<'_>) -> io::Result<()> {
    let schema = Arc::new(schema(table).map_err(output_error)?);
    let properties = Arc::new(WriterProperties::default());
    let mut writer = SerializedFileWriter::new(out, schema, properties).map_err(output_error)?;
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    table.each(&mut |cells| {
        rows.push(cells.to_vec());
        if rows.len() == ROWS_OF_A_GROUP {
            write_group(&mut writer, table, &rows).map_err(output_error)?;
            rows.clear();
        }
        Ok(())
    })?;
    if !rows.is_empty() {
        write_group(&mut writer, table, &rows).map_err(output_error)?;
    }
    writer.close().map(drop).map_err(output_error)
}

/// The I/O error of the output itself, if there is one, so that a closed pipe is recognised.
fn output_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

fn schema(table: &ExportTable<'_>) -> Result<SchemaType> {
    let field = |name: &str, value_type: Type| {
        let (physical, logical) = match value_type {
            Type::Whole => (PhysicalType::INT64, Some(LogicalType::integer(64, false))),
            Type::Number => (PhysicalType::DOUBLE, None),
            Type::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            Type::Truth => (PhysicalType::BOOLEAN, None),
        };
        let field = SchemaType::primitive_type_builder(name, physical);
        field.with_repetition(Repetition::OPTIONAL).with_logical_type(logical).build().map(Arc::new)
    };
    let fields = table.columns.iter().map(|column| field(&column.name, column.value_type));
    let fields = fields.collect::<Result<_>>()?;
    SchemaType::group_type_builder(table.kind.name()).with_fields(fields).build()
}

fn write_group(
    writer: &mut SerializedFileWriter<Output<'_>>,
    table: &ExportTable<'_>,
    rows: &[Vec<Cell>],
) -> Result<()> {
    let mut group = writer.next_row_group()?;
    for (index, column) in table.columns.iter().enumerate() {
        let cells: Vec<&Cell> = rows.iter().map(|row| &row[index]).collect();
        match column.value_type {
            Type::Whole => write_column::<Int64Type>(&mut group, &cells, |cell| match cell {
                // The same 64 bits: the schema declares them unsigned.
                Cell::Whole(value) => Some(value.cast_signed()),
                _ => None,
            }),
            Type::Number => write_column::<DoubleType>(&mut group, &cells, |cell| match cell {
                Cell::Number(value) => Some(*value),
                _ => None,
            }),
            Type::Text => write_column::<ByteArrayType>(&mut group, &cells, |cell| match cell {
                Cell::Text(value) => Some(ByteArray::from(value.as_str())),
                _ => None,
            }),
            Type::Truth => write_column::<BoolType>(&mut group, &cells, |cell| match cell {
                Cell::Truth(value) => Some(*value),
                _ => None,
            }),
        }?;
    }
    group.close().map(drop)
}

/// Writes the next column: which cells have a value, and the values.
fn write_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Output<'_>>,
    cells: &[&Cell],
    value: fn(&Cell) -> Option<T::T>,
) -> Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let present: Vec<i16> = cells.iter().map(|cell| i16::from(**cell != Cell::Absent)).collect();
    let values: Vec<T::T> = cells.iter().filter_map(|cell| value(cell)).collect();
    column.typed::<T>().write_batch(&values, Some(&present), None)?;
    column.close()
}

#[cfg(test)]
mod tests {
    use crate::export::{Cell, ExportFormat, ExportKind, ExportTable};
    use crate::fixture;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    fn cell(field: &Field) -> Cell {
        match field {
            Field::Null => Cell::Absent,
            Field::ULong(value) => Cell::Whole(*value),
            Field::Double(value) => Cell::Number(*value),
            Field::Str(value) => Cell::Text(value.clone()),
            Field::Bool(value) => Cell::Truth(*value),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_table_survives_a_round_trip() {
        let (header, trials) = (fixture::header("read"), fixture::with_telemetry(fixture::trials()));
        for kind in ExportKind::ALL {
            let table = ExportTable::new(*kind, &header, &trials);
            let mut expected = Vec::new();
            table
                .each(&mut |cells| {
                    expected.push(cells.to_vec());
                    Ok(())
                })
                .unwrap();
            assert!(!expected.is_empty(), "{kind:?}");
            let mut out = Vec::new();
            table.write(&mut out, ExportFormat::Parquet).unwrap();
            let reader = SerializedFileReader::new(bytes::Bytes::from(out)).unwrap();
            let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
            assert_eq!(rows.len(), expected.len(), "{kind:?}");
            for (row, expected) in rows.iter().zip(&expected) {
                let names: Vec<&String> = row.get_column_iter().map(|(name, _)| name).collect();
                assert_eq!(names, table.columns.iter().map(|column| &column.name).collect::<Vec<_>>());
                let found: Vec<Cell> = row.get_column_iter().map(|(_, field)| cell(field)).collect();
                assert_eq!(&found, expected);
            }
        }
    }

    #[test]
    fn a_closed_pipe_is_recognised() {
        let (header, trials) = (fixture::header("read"), fixture::trials());
        let error = ExportTable::new(ExportKind::Trials, &header, &trials)
            .write(&mut fixture::Closed, ExportFormat::Parquet);
        assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    }
}

//! `fsdyno plan --fix`: the plan itself, with sizes with which its sweep would answer.

use super::source::PlanText;
use super::trouble::{of_plan, refused};
use super::{Result, Surroundings};
use crate::exit::Status;
use crate::out;
use crate::say;
use anyhow::anyhow;
use fsdyno_core::workload::rereads::Amount;
use fsdyno_sweep::{Fix, Plan, dry_run, fixes};
use std::io::Write;
use toml_edit::{DocumentMut, Item, Value};

/// Prints a plan with what it takes for an answer.
pub fn print(surroundings: &Surroundings, source: &PlanText) -> Result {
    let parse = |text: &str, set: &[String]| Plan::parse(text, &source.file, set);
    let (mut host, mut guests) = (surroundings.host()?, surroundings.guests()?);
    let found = fixes(&|set| parse(&source.text, set), &mut host, &mut guests).map_err(of_plan)?;
    let text = changed(&source.text, &found)?;
    write!(out::plain(), "{text}")?;
    for Fix { path, value, why } in &found {
        say::note(&format!("{path} = {}: {why}", in_toml(*value)));
    }
    let run = dry_run(&parse(&text, &[]).map_err(of_plan)?, &mut host, &mut guests);
    match (found.is_empty(), run.refusals.as_slice()) {
        (_, refusals @ [_, ..]) => {
            say::note(&format!("a sweep would still be refused:\n{}", refused(refusals)));
            return Ok(Status::Refused);
        }
        (true, []) => say::note("nothing is changed: no size is in the way of an answer"),
        (false, []) => {}
    }
    for warning in &run.warnings {
        say::note(&format!("{}: {warning}", warning.kind));
    }
    Ok(Status::Well)
}

/// The text of a plan with other values; everything else stays as it was written.
fn changed(text: &str, fixes: &[Fix]) -> anyhow::Result<String> {
    let mut document: DocumentMut = text.parse()?;
    for Fix { path, value, .. } in fixes {
        set(document.as_item_mut(), path, in_toml(*value))
            .ok_or_else(|| anyhow!("the plan has no place for '{path}'"))?;
    }
    Ok(document.to_string())
}

fn in_toml(amount: Amount) -> Value {
    match amount {
        Amount::Size(size) => size.to_string().into(),
        Amount::Number(number) => i64::try_from(number).unwrap_or(i64::MAX).into(),
    }
}

/// Sets a key below a table, where the number of a table stands for one of an array. A comment behind the
/// value before stays.
fn set(root: &mut Item, path: &str, mut value: Value) -> Option<()> {
    let (above, last) = path.rsplit_once('.').unwrap_or(("", path));
    let table = above.split('.').filter(|key| !key.is_empty()).try_fold(root, |item, key| {
        match key.parse::<usize>() {
            Ok(position) => item.get_mut(position),
            Err(_) => item.get_mut(key),
        }
    })?;
    match table.get_mut(last) {
        Some(Item::Value(before)) => {
            *value.decor_mut() = before.decor().clone();
            *before = value;
        }
        _ => {
            table.as_table_like_mut()?.insert(last, Item::Value(value));
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Bytes;

    #[test]
    fn comments_and_order_stay_as_they_were_written() {
        let plan = "# What for.\nname = \"a\"  # short\n\n[device]\nsize = \"1G\"  # enough\nimage = \"/x\"\n\
                    \n# The load.\n[[workloads]]\nkind = \"null\"\n[[workloads]]\nkind = \"fileserver\"\n";
        let fix = |path: &str, size| Fix {
            path: path.into(),
            value: Amount::Size(Bytes(size)),
            why: String::new(),
        };
        let fixes =
            [fix("device.size", 4 << 30), fix("memory", 64 << 20), fix("workloads.1.tree_size", 1 << 30)];
        let expected = "# What for.\nname = \"a\"  # short\nmemory = \"64M\"\n\n[device]\nsize = \"4G\"  # \
                        enough\nimage = \"/x\"\n\n# The load.\n[[workloads]]\nkind = \"null\"\n\
                        [[workloads]]\nkind = \"fileserver\"\ntree_size = \"1G\"\n";
        assert_eq!(changed(plan, &fixes).unwrap(), expected);
        assert_eq!(changed(plan, &[]).unwrap(), plan);
        assert!(changed(plan, &[fix("workloads.2.tree_size", 1)]).is_err());
    }

    #[test]
    fn workloads_may_be_tables_within_a_line() {
        let plan = "workloads = [{ kind = \"fileserver\", tree_size = \"1M\" }]\n";
        let fix = Fix {
            path: "workloads.0.tree_size".into(),
            value: Amount::Size(Bytes(2 << 20)),
            why: String::new(),
        };
        assert_eq!(changed(plan, &[fix]).unwrap(), plan.replace("1M", "2M"));
        let number = Fix { path: "workloads.0.readers".into(), value: Amount::Number(4), why: String::new() };
        assert!(changed(plan, &[number]).unwrap().contains("readers = 4"));
    }
}

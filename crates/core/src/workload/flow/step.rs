//! The steps of a flow as a plan writes them: a word, or a table with the word as its first key.

use super::act::{Act, Choice, Flags, FlowStep};
use super::value::{FlowWord, Share};
use crate::units::Bytes;
use crate::workload::fields::Fields;
use crate::workload::parameter::{Literal, Parameter, ParameterError, Surroundings};

/// The open file that a step is about unless it names another one.
const USUAL: &str = "file";
/// The buffer of whole reads and writes unless a step sets another one.
const BUFFER: Bytes = Bytes(Bytes::MIB);
/// The skew of `zipf` unless a step sets another one.
const SKEW: f64 = 1.0;

impl Parameter for Choice {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        const WORDS: [&str; 5] = ["uniform", "zipf", "newest", "oldest", "next"];
        match literal {
            Literal::Text(word) => Ok(match word.as_str() {
                "uniform" => Choice::Uniform,
                "zipf" => Choice::Zipf(SKEW),
                "newest" => Choice::Newest,
                "oldest" => Choice::Oldest,
                "next" => Choice::Next,
                _ => return Err(ParameterError::UnknownWord("choice", word.clone(), WORDS.to_vec())),
            }),
            Literal::Table(table) if table.contains_key("hot") => {
                let fields = Fields::of(literal, surroundings)?;
                fields.only(&["hot", "share"])?;
                let (Share(files), Share(choices)) = (fields.required("hot")?, fields.required("share")?);
                Ok(Choice::Hot { files, choices })
            }
            Literal::Table(_) => {
                let fields = Fields::of(literal, surroundings)?;
                fields.only(&["zipf", "hot", "share"])?;
                let skew = fields.required::<f64>("zipf")?;
                let expected = || ParameterError::Expected("a number greater than zero".to_string());
                let sensible = skew > 0.0 && skew.is_finite();
                if sensible { Ok(Choice::Zipf(skew)) } else { Err(expected().within("zipf")) }
            }
            _ => Err(ParameterError::Expected(
                "\"uniform\", \"zipf\", \"newest\", \"oldest\", \"next\", { zipf = 1.2 } or { hot = \"10%\", \
                 share = \"90%\" }"
                    .to_string(),
            )),
        }
    }

    fn written(&self) -> String {
        String::new()
    }
}

/// Every step with the keys that it takes besides its own, `probability` and `of`.
const KNOWN: &[(&str, &[&str])] = &[
    ("open", &["open", "choose", "as", "direct", "dsync", "append", "probability"]),
    ("create", &["create", "choose", "as", "direct", "dsync", "append", "probability"]),
    ("read", &["read", "size", "buffer", "of", "probability"]),
    ("write", &["write", "buffer", "of", "probability"]),
    ("append", &["append", "of", "probability"]),
    ("overwrite", &["overwrite", "choose", "of", "probability"]),
    ("fsync", &["fsync", "probability"]),
    ("fdatasync", &["fdatasync", "probability"]),
    ("close", &["close", "probability"]),
    ("fsync_directory", &["fsync_directory", "probability"]),
    ("rename", &["rename", "choose", "to", "over", "probability"]),
    ("link", &["link", "choose", "to", "probability"]),
    ("unlink", &["unlink", "choose", "probability"]),
    ("stat", &["stat", "choose", "probability"]),
    ("readdir", &["readdir", "choose", "probability"]),
    ("setxattr", &["setxattr", "of", "probability"]),
    ("mmap_read", &["mmap_read", "of", "probability"]),
    ("mmap_write", &["mmap_write", "sync", "of", "probability"]),
    ("copy_file_range", &["copy_file_range", "to", "probability"]),
    ("fallocate", &["fallocate", "of", "probability"]),
    ("truncate", &["truncate", "of", "probability"]),
    ("think", &["think", "probability"]),
    ("post", &["post", "limit", "probability"]),
    ("await", &["await", "count", "probability"]),
    ("repeat", &["repeat", "steps", "probability"]),
];

/// The names of all steps.
pub(super) fn words() -> Vec<&'static str> {
    KNOWN.iter().map(|(word, _)| *word).collect()
}

/// The steps that are complete as a word.
const ALONE: &[&str] = &["fsync", "fdatasync", "close"];

impl Parameter for FlowStep {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        match literal {
            Literal::Text(word) => {
                let handle = || USUAL.to_string();
                let act = match word.as_str() {
                    "fsync" => Act::Fsync { handle: handle() },
                    "fdatasync" => Act::Fdatasync { handle: handle() },
                    "close" => Act::Close { handle: handle() },
                    known if words().contains(&known) => {
                        let alone = ALONE.join(", ");
                        let expected = format!(
                            "a table, such as {{ {known} = ... }}; only {alone} can be written as a word"
                        );
                        return Err(ParameterError::Expected(expected));
                    }
                    _ => return Err(ParameterError::UnknownWord("step", word.clone(), words())),
                };
                Ok(FlowStep { act, probability: 1.0 })
            }
            Literal::Table(table) => {
                let found = KNOWN.iter().filter(|(word, _)| table.contains_key(*word));
                let (word, known) = match found.collect::<Vec<_>>()[..] {
                    [(word, known)] => (*word, *known),
                    // `append` is also how a file is opened.
                    [(first, known), (second, _)]
                        if *second == "append" && ["open", "create"].contains(first) =>
                    {
                        (*first, *known)
                    }
                    [] => return Err(no_step(table.keys().map(String::as_str))),
                    [(one, _), (other, _), ..] => {
                        let expected = format!("one step; this has '{one}' and '{other}'");
                        return Err(ParameterError::Expected(expected));
                    }
                };
                let fields = Fields::of(literal, surroundings)?;
                fields.only(known)?;
                let Share(probability) = fields.or("probability", Share(1.0))?;
                if probability <= 0.0 {
                    let expected = "a share greater than 0, at most 1".to_string();
                    return Err(ParameterError::Expected(expected).within("probability"));
                }
                Ok(FlowStep { act: Act::of(word, &fields)?, probability })
            }
            _ => Err(ParameterError::Expected("a step: a word or a table".to_string())),
        }
    }

    fn written(&self) -> String {
        super::words::step(self)
    }
}

/// The error for a table that has no step among its keys: most likely, one of them is mistyped.
fn no_step<'a>(keys: impl Iterator<Item = &'a str>) -> ParameterError {
    let is_option = |key: &&str| KNOWN.iter().any(|(_, known)| known.contains(key));
    match keys.filter(|key| !is_option(key)).map(str::to_string).next() {
        Some(key) => ParameterError::UnknownWord("step", key.clone(), words()).within(&key),
        None => ParameterError::Expected(format!("a step, one of {}", words().join(", "))),
    }
}

impl Act {
    fn of(word: &'static str, fields: &Fields<'_>) -> Result<Act, ParameterError> {
        let name = |FlowWord(name): FlowWord| name;
        let handle = |key: &str| fields.or(key, FlowWord(USUAL.to_string())).map(name);
        let own = || fields.required(word).map(name);
        let size = || fields.required::<Bytes>(word);
        let choose = || fields.or("choose", Choice::Uniform);
        let in_order = || match fields.or("choose", Choice::Uniform)? {
            Choice::Uniform => Ok(false),
            Choice::Next => Ok(true),
            _ => Err(ParameterError::Expected("\"uniform\" or \"next\"".to_string()).within("choose")),
        };
        let flags = || -> Result<Flags, ParameterError> {
            let flag = |key| fields.or(key, false);
            Ok(Flags { direct: flag("direct")?, dsync: flag("dsync")?, append: flag("append")? })
        };
        Ok(match word {
            "open" => Act::Open { set: own()?, choose: choose()?, handle: handle("as")?, flags: flags()? },
            "create" => {
                Act::Create { set: own()?, in_order: in_order()?, handle: handle("as")?, flags: flags()? }
            }
            "read" => read(fields, handle("of")?)?,
            "write" => match fields.required::<String>(word)?.as_str() {
                "whole" => Act::WriteWhole { handle: handle("of")?, buffer: fields.or("buffer", BUFFER)? },
                other => return Err(unknown("write", other, &["whole"])),
            },
            "append" => Act::Append { handle: handle("of")?, size: fields.required(word)? },
            "overwrite" => Act::Overwrite { handle: handle("of")?, size: size()?, in_order: in_order()? },
            "fsync" => Act::Fsync { handle: own()? },
            "fdatasync" => Act::Fdatasync { handle: own()? },
            "close" => Act::Close { handle: own()? },
            "fsync_directory" => Act::FsyncDirectory { set: own()? },
            "rename" => {
                let to = match fields.get("to")? {
                    Some(FlowWord(to)) => to,
                    None => own()?,
                };
                Act::Rename { set: own()?, choose: choose()?, to, over: fields.or("over", false)? }
            }
            "link" => Act::Link { set: own()?, choose: choose()?, to: fields.required("to").map(name)? },
            "unlink" => Act::Unlink { set: own()?, choose: choose()? },
            "stat" => Act::Stat { set: own()?, choose: choose()? },
            "readdir" => Act::Readdir { set: own()?, choose: choose()? },
            "setxattr" => Act::Setxattr { handle: handle("of")?, size: size()? },
            "mmap_read" => Act::MmapRead { handle: handle("of")?, size: size()? },
            "mmap_write" => {
                Act::MmapWrite { handle: handle("of")?, size: size()?, sync: fields.or("sync", false)? }
            }
            "copy_file_range" => Act::CopyFileRange { from: own()?, to: fields.required("to").map(name)? },
            "fallocate" => Act::Fallocate { handle: handle("of")?, size: size()? },
            "truncate" => Act::Truncate { handle: handle("of")?, size: size()? },
            "think" => Act::Think { time: fields.required(word)? },
            "post" => Act::Post { signal: own()?, limit: fields.or("limit", u64::MAX)? },
            "await" => Act::Await { signal: own()?, count: fields.or("count", 1)? },
            _ => Act::Repeat { times: fields.required(word)?, steps: fields.required("steps")? },
        })
    }
}

/// `read = "whole"`, `"next"` or `"random"`.
fn read(fields: &Fields<'_>, handle: String) -> Result<Act, ParameterError> {
    Ok(match fields.required::<String>("read")?.as_str() {
        "whole" => Act::ReadWhole { handle, buffer: fields.or("buffer", BUFFER)? },
        "next" => Act::ReadNext { handle, size: fields.required("size")? },
        "random" => Act::ReadRandom { handle, size: fields.required("size")? },
        other => return Err(unknown("read", other, &["whole", "next", "random"])),
    })
}

fn unknown(step: &'static str, word: &str, known: &[&'static str]) -> ParameterError {
    ParameterError::UnknownWord("manner", word.to_string(), known.to_vec()).within(step)
}

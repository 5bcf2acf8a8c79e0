//! Every command line that a page, a help text, or the header of a plan shows is valid. `tests/documents`
//! runs those that are safe to run.

#[path = "../../tests/documents/pages.rs"]
mod pages;

use super::Cli;
use crate::ready;
use clap::{CommandFactory, Parser};
use pages::{pages, root, simple_commands};

/// Programs other than fsdyno that examples use; a misspelt `fsdyno` is not among them.
const OTHERS: &[&str] = &[
    "apt-get",
    "bon_csv2html",
    "cargo",
    "cat",
    "echo",
    "git",
    "install",
    "jq",
    "make",
    "sqlite3",
    "ssh",
    "systemctl",
];

/// Returns the problem with a line of shell, if it has one.
fn problem(line: &str) -> Option<String> {
    let Some(commands) = simple_commands(line) else { return Some("quotes do not match".to_string()) };
    commands.iter().find_map(|command| {
        let (program, arguments) = command.split_first()?;
        match program.as_str() {
            "fsdyno" => Cli::try_parse_from(command).err().map(|error| error.to_string()),
            "make" if arguments.first().is_some_and(|word| word == "-C") => None,
            "make" => {
                arguments.iter().find(|word| !is_target(word)).map(|word| format!("no target '{word}'"))
            }
            other if OTHERS.contains(&other) => None,
            other => Some(format!("unknown program '{other}'")),
        }
    })
}

/// Returns whether make knows a word: a target of the Makefile, or a variable.
fn is_target(word: &str) -> bool {
    let text = std::fs::read_to_string(root().join("Makefile")).expect("the Makefile");
    let mut rules = text.lines().filter_map(|line| line.split_once(':'));
    word.contains('=') || rules.any(|(targets, _)| targets.split_whitespace().any(|target| target == word))
}

fn assert_valid(lines: impl Iterator<Item = (String, String)>, least: usize) {
    let mut checked = 0;
    let wrong: Vec<String> = lines
        .filter_map(|(at, line)| {
            checked += 1;
            Some(format!("{at}: {line}\n    {}", problem(&line)?))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked >= least, "only {checked} examples were found");
}

#[test]
fn the_commands_of_every_page_are_valid() {
    let blocks = pages().into_iter().flat_map(|page| page.blocks());
    let consoles = blocks.filter(|block| block.language == "console");
    let commands = consoles.flat_map(|block| {
        let with_place = |command| (block.at.clone(), command);
        block.commands().into_iter().map(with_place).collect::<Vec<_>>()
    });
    assert_valid(commands, 40);
}

/// A block is an example of a known kind, or shows output and contains no command.
#[test]
fn no_example_hides_in_a_block_of_another_kind() {
    for block in pages().into_iter().flat_map(|page| page.blocks()) {
        let known = ["console", "toml", "json", ""].contains(&block.language.as_str());
        assert!(known, "{}: what is a block of '{}'?", block.at, block.language);
        let command = |line: &str| ["$ ", "fsdyno ", "sudo "].iter().any(|begin| line.starts_with(begin));
        let hidden = block.language != "console" && block.text.lines().any(command);
        // `fsdyno reference` shows the examples of the help.
        assert!(!hidden || block.at.starts_with("docs/reference/"), "{}: write ```console", block.at);
    }
}

/// Commands in running text. A single word is the name of a command; words in brackets are optional.
#[test]
fn the_commands_in_running_text_are_valid() {
    let root = Cli::command();
    let is_command = |name: &str| root.get_subcommands().any(|command| command.get_name() == name);
    let mut lines = Vec::new();
    for page in pages().into_iter().filter(|page| !page.path.starts_with("docs/reference")) {
        // Every second part of a text that is split at backticks is code.
        for code in page.prose().split('`').skip(1).step_by(2) {
            let line = code.replace('\n', " ").replace("[=", "=").replace(['[', ']'], "");
            let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "sudo").collect();
            match words[..] {
                ["fsdyno", name] if is_command(name) => {}
                ["fsdyno", _, ..] => lines.push((page.path.clone(), line)),
                _ => {}
            }
        }
    }
    assert_valid(lines.into_iter(), 20);
}

/// Examples in the help: two spaces end a command and begin its explanation.
#[test]
fn the_examples_of_the_help_are_valid() {
    let root = Cli::command();
    let helps = root
        .get_subcommands()
        .chain([&root])
        .filter_map(|command| Some((command.get_name().to_string(), command.get_after_help()?.to_string())));
    let examples = helps.flat_map(|(name, help)| {
        let lines: Vec<String> =
            help.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_string).collect();
        let command = |line: String| line.split("  ").next().unwrap_or_default().to_string();
        lines.into_iter().map(move |line| (name.clone(), command(line))).collect::<Vec<_>>()
    });
    // Those of the overview end in `;` and a remark.
    let examples =
        examples.map(|(name, line)| (name, line.split(';').next().unwrap_or_default().to_string()));
    let every_command_has_one = root.get_subcommands().filter(|command| !command.is_hide_set());
    for command in every_command_has_one.filter(|command| command.get_name() != "help") {
        assert!(command.get_after_help().is_some(), "fsdyno {} --help shows no example", command.get_name());
    }
    assert_valid(examples, 20);
}

/// The headers of plans show how to scale them down, among others.
#[test]
fn the_commands_in_the_headers_of_plans_are_valid() {
    let mut lines: Vec<(String, String)> = Vec::new();
    for plan in ready::all() {
        let mut goes_on = false;
        for line in plan.text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim) {
            let words = line.trim_end_matches('\\');
            match lines.last_mut() {
                Some((_, command)) if goes_on => command.push_str(words),
                _ if line.starts_with("fsdyno ") => {
                    // A remark in brackets may follow.
                    let command = words.split("   ").next().unwrap_or_default();
                    lines.push((plan.name.to_string(), command.to_string()));
                }
                _ => {
                    goes_on = false;
                    continue;
                }
            }
            goes_on = line.ends_with('\\');
        }
    }
    assert_valid(lines.into_iter(), 12);
}

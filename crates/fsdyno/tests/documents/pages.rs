//! The examples of the documentation: what its code blocks contain. Shared by the test that parses every
//! command line and the one that runs them.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page with its text.
pub struct Page {
    /// Relative to the root of the repository.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// A fenced block of code.
pub struct Block {
    /// Page and line, for messages.
    pub at: String,
    /// The word after the fence.
    pub language: String,
    /// The text between the fences.
    pub text: String,
}

/// Every page that a person wrote.
pub fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from).into();
    collect(Path::new("docs"), &mut paths);
    paths.sort();
    let page = |path: PathBuf| {
        let text = fs::read_to_string(root().join(&path)).expect("a page");
        Page { path: path.display().to_string(), text }
    };
    paths.into_iter().map(page).collect()
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root().join(directory)).expect("a directory").flatten() {
        let path = directory.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => collect(&path, paths),
            false if path.extension().is_some_and(|extension| extension == "md") => paths.push(path),
            false => {}
        }
    }
}

impl Page {
    /// Its fenced blocks.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        let mut open = false;
        for (number, line) in (1..).zip(self.text.lines()) {
            match (line.trim_start().strip_prefix("```"), open) {
                (Some(language), false) => {
                    let (at, language) = (format!("{}:{number}", self.path), language.to_string());
                    blocks.push(Block { at, language, text: String::new() });
                    open = true;
                }
                (Some(_), true) => open = false,
                (None, true) => {
                    if let Some(block) = blocks.last_mut() {
                        block.text.push_str(line);
                        block.text.push('\n');
                    }
                }
                (None, false) => {}
            }
        }
        blocks
    }

    /// Its text without fenced blocks.
    pub fn prose(&self) -> String {
        let mut open = false;
        let outside = |line: &&str| {
            let fence = line.trim_start().starts_with("```");
            open ^= fence;
            !open && !fence
        };
        self.text.lines().filter(outside).collect::<Vec<_>>().join("\n")
    }
}

impl Block {
    /// The lines after `$ `, each with its continuation lines.
    pub fn commands(&self) -> Vec<String> {
        let mut commands: Vec<String> = Vec::new();
        let mut goes_on = false;
        for line in self.text.lines() {
            let continued = line.trim_end().ends_with('\\');
            let words = line.trim_end().trim_end_matches('\\');
            match line.strip_prefix("$ ") {
                Some(_) => commands.push(words.trim_start_matches("$ ").to_string()),
                None if goes_on => {
                    if let Some(command) = commands.last_mut() {
                        command.push_str(words);
                    }
                }
                None => {}
            }
            goes_on = continued && (goes_on || line.starts_with("$ "));
        }
        commands
    }
}

/// The simple commands of a line of shell, without `sudo` and variables: those between `|`, `&&`, `||` and
/// `;`, up to a redirection. A comment ends the line.
pub fn simple_commands(line: &str) -> Option<Vec<Vec<String>>> {
    let mut commands = vec![Vec::new()];
    let mut redirected = false;
    for word in shlex::split(line)? {
        match word.as_str() {
            "|" | "&&" | "||" | ";" => {
                redirected = false;
                commands.push(Vec::new());
            }
            ">" | ">>" | "<" => redirected = true,
            _ if redirected => {}
            _ => commands.last_mut()?.push(word),
        }
    }
    for command in &mut commands {
        let prefix = command.iter().take_while(|word| *word == "sudo" || is_variable(word)).count();
        command.drain(..prefix);
    }
    Some(commands)
}

fn is_variable(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

//! The commands that a plan runs around its trials: `[hooks]` and `monitor`.
//!
//! A command is split into words as a shell would split it, but no shell runs it: what a plan shows is what
//! is executed, and a path in place of `{out}` needs no quoting. Whoever wants a shell writes `sh -c '...'`.
//! Anything that only a shell understands is refused, so that nothing is passed to a program as a word by
//! mistake.

use super::document::{Document, Node, Origin, Section, Value};
use super::keys::{self, names};
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::Nanos;
use fsdyno_core::result::CommandKind;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The time that a hook may run, unless the plan sets it.
pub(super) const DEFAULT_TIMEOUT: Nanos = Nanos::from_secs(60);
/// The maximum number of monitors.
const MAX_MONITORS: usize = 16;
/// A description of the commands that are accepted.
const COMMAND: &str = "a command: a program and its arguments, quoted as in a shell";
/// The placeholder for the file that a monitor may write.
const OUT: &str = "{out}";

/// The commands of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hooks {
    /// All of them, hooks first.
    pub commands: Vec<PlanCommand>,
    /// The time that a hook may run.
    pub timeout: Nanos,
}

/// A command of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCommand {
    /// When it runs.
    pub kind: CommandKind,
    /// As written.
    pub text: String,
    /// The program and its arguments.
    pub words: Vec<String>,
}

impl Hooks {
    /// Returns whether the plan has no command.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The commands of a kind.
    pub(crate) fn of(&self, kind: CommandKind) -> impl Iterator<Item = &PlanCommand> {
        self.commands.iter().filter(move |command| command.kind == kind)
    }

    /// The first command that runs at phases.
    pub(crate) fn at_phases(&self) -> Option<&PlanCommand> {
        self.of(CommandKind::BeforePhase).chain(self.of(CommandKind::Monitor)).next()
    }

    /// The same with relative paths of programs from `base`.
    pub(super) fn relative_to(mut self, base: &Path) -> Self {
        for program in self.commands.iter_mut().filter_map(|command| command.words.first_mut()) {
            if program.contains('/')
                && let Ok(path) = std::path::absolute(base.join(&*program))
            {
                *program = path.to_string_lossy().into_owned();
            }
        }
        self
    }
}

impl PlanCommand {
    /// Its words, with a path for each `{out}`.
    pub(crate) fn writing_to(&self, path: &Path) -> Vec<String> {
        self.words.iter().map(|word| word.replace(OUT, &path.to_string_lossy())).collect()
    }

    /// Returns whether the command has a placeholder for a file to write.
    pub(crate) fn writes(&self) -> bool {
        self.words.iter().any(|word| word.contains(OUT))
    }

    /// A line for whoever has to decide whether it may run.
    pub fn line(&self) -> String {
        format!("{}: {}", self.kind, self.text)
    }
}

/// The commands as written.
pub(super) fn hooks(document: &Document, plan: &Section<'_>) -> Result<Hooks, PlanError> {
    let (mut commands, mut timeout) = (Vec::new(), DEFAULT_TIMEOUT);
    if let Some(node) = plan.get("hooks") {
        let table = Section::new(document, node, "[hooks]")?;
        table.only(&names(&[keys::HOOKS]))?;
        timeout = match table.unit("timeout")? {
            Some(Nanos(0)) => return Err(table.refuse("timeout", "greater than zero")),
            timeout => timeout.unwrap_or(DEFAULT_TIMEOUT),
        };
        for kind in [CommandKind::BeforeTrial, CommandKind::BeforePhase, CommandKind::AfterTrial] {
            if let Some(node) = table.get(kind.name()) {
                commands.push(command(document, kind, node)?);
            }
        }
    }
    if let Some(node) = plan.get("monitor") {
        let nodes = match &node.value {
            Value::Array(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        if nodes.len() > MAX_MONITORS {
            return Err(plan.refuse("monitor", format!("at most {MAX_MONITORS} commands")));
        }
        for node in nodes {
            commands.push(command(document, CommandKind::Monitor, node)?);
        }
    }
    Ok(Hooks { commands, timeout })
}

fn command(document: &Document, kind: CommandKind, node: &Node) -> Result<PlanCommand, PlanError> {
    let refuse = |expected: &str| {
        let (key, found) = (kind.name().to_string(), node.describe());
        document.error(&node.origin, PlanProblem::Value { key, expected: expected.to_string(), found })
    };
    let Value::String(text) = &node.value else { return Err(refuse(COMMAND)) };
    let words = words(text).ok_or_else(|| refuse(COMMAND))?;
    if words.iter().any(|word| is_for_a_shell(word)) {
        return Err(refuse("a command that needs no shell; for a shell, write sh -c '...'"));
    }
    if kind != CommandKind::Monitor && words.iter().any(|word| word.contains(OUT)) {
        return Err(refuse("a command without {out}, which only a monitor has"));
    }
    Ok(PlanCommand { kind, text: text.trim().to_string(), words })
}

/// The words of a command, at least one.
fn words(text: &str) -> Option<Vec<String>> {
    // A word that follows is one of its own, unless the text ends with a comment, which would be left out
    // silently, or within quotes.
    const NEXT: &str = ".";
    let mut words = shlex::split(&format!("{text} {NEXT}")).filter(|_| !text.contains('\n'))?;
    (words.pop().as_deref() == Some(NEXT) && !words.is_empty()).then_some(words)
}

/// A word that has a meaning for a shell wherever it stands.
fn is_for_a_shell(word: &str) -> bool {
    let redirects = word.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(['<', '>']);
    redirects || ["|", "||", "&", "&&", ";"].contains(&word)
}

/// Where the plan names the first command that runs at phases.
pub(super) fn place_of(plan: &Section<'_>, kind: CommandKind) -> Origin {
    let key = if kind == CommandKind::Monitor { "monitor" } else { "hooks" };
    plan.at(key).clone()
}

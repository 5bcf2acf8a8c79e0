//! The commands that a plan runs around its trials: `[hooks]` and `monitor`.
//!
//! A command is split into words as a shell would split it, but no shell runs it: what a plan shows is what
//! is executed, and a path in place of `{out}` needs no quoting. Whoever wants a shell writes `sh -c '...'`.
//! Anything that only a shell understands is refused, so that nothing is passed to a program as a word by
//! mistake.

use super::document::{Document, Node, Section, Value};
use super::keys::table;
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::Nanos;
use fsdyno_core::result::CommandKind;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The time that a hook may run, unless the plan sets it.
const TIMEOUT: Nanos = Nanos::from_secs(60);
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
    /// Those of `[hooks]`, and the monitors.
    pub(super) fn of_plan(hooks: Option<&HookKeys>, monitors: &[PlanCommand]) -> Hooks {
        let own =
            hooks.into_iter().flat_map(|keys| [&keys.before_trial, &keys.before_phase, &keys.after_trial]);
        Hooks {
            commands: own.flatten().chain(monitors).cloned().collect(),
            timeout: hooks.map_or(TIMEOUT, |keys| keys.timeout),
        }
    }

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

table! {
    "[hooks]", "Commands of your own around trials and phases. A sweep refuses them without `--allow-hooks`.";
    /// `[hooks]`.
    #[derive(Debug, Clone)]
    pub(super) struct HookKeys {
        before_trial: PlanCommand, |table, key| hook(table, key, CommandKind::BeforeTrial),
            "runs before anything of a trial is built";
        before_phase: PlanCommand, |table, key| hook(table, key, CommandKind::BeforePhase),
            "runs when the workers of a phase are ready, before its ramp";
        after_trial: PlanCommand, |table, key| hook(table, key, CommandKind::AfterTrial),
            "runs after everything of a trial was taken down, also if the trial failed";
        timeout: Nanos = TIMEOUT, |table, key| table.time(key, Nanos(1), "greater than zero"),
            "how long each of them may run before it is killed and the trial fails";
    }
}

fn hook(table: &Section<'_>, key: &str, kind: CommandKind) -> Result<Option<PlanCommand>, PlanError> {
    table.get(key).map(|node| command(table.document(), kind, node)).transpose()
}

/// Reads `monitor`: a command, or several.
pub(super) fn monitor(plan: &Section<'_>, key: &'static str) -> Result<Option<Vec<PlanCommand>>, PlanError> {
    let Some(node) = plan.get(key) else { return Ok(None) };
    let nodes = match &node.value {
        Value::Array(nodes) => nodes.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if nodes.len() > MAX_MONITORS {
        return Err(plan.refuse(key, format!("at most {MAX_MONITORS} commands")));
    }
    let commands = nodes.iter().map(|node| command(plan.document(), CommandKind::Monitor, node));
    commands.collect::<Result<_, _>>().map(Some)
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

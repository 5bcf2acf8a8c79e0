//! The top of the page: the answer, the commands for it, and everything to know before believing it.

use super::elements::{sentence, with_code};
use fsdyno_verdict::recommendation::{RecipeStep, RecipeText};
use fsdyno_verdict::text;
use fsdyno_verdict::view::View;
use maud::{Markup, html};

/// The section.
pub fn section(view: &View) -> Markup {
    let answers = &view.recommendation.answers;
    html! {
        section #answer aria-labelledby="answer-title" {
            h2 #answer-title { "The answer" }
            @if answers.is_empty() {
                p.answer { "No configuration was measured." }
            }
            @for answer in answers {
                @if answers.len() > 1 { h3 { (answer.title) } }
                p.answer { (answer.judgement.headline) }
                @for sentence in &answer.sentences { p { (with_code(sentence)) } }
                @if !answer.doubts.is_empty() || answer.judgement.next.is_some() {
                    ul.doubts {
                        @for doubt in &answer.doubts {
                            li.doubt { strong { "doubt" } " " (with_code(doubt)) }
                        }
                        @if let Some(next) = &answer.judgement.next {
                            li.next { strong { "next" } " " (with_code(next)) }
                        }
                    }
                }
            }
            (notes(view))
            @for answer in answers {
                @if let Some(recipe) = answer.recipe.as_ref().or(answer.default_recipe.as_ref()) {
                    h3 {
                        "How to build " @if answer.recipe.is_none() { "the " (answer.default_called) ", " } (recipe.name)
                        @if answers.len() > 1 { ": " (answer.title) }
                    }
                    (recipe_to_copy(recipe))
                }
            }
        }
    }
}

/// The commands for the recommended configuration. Each step is copied on its own: the first destroys data,
/// and some are lines of files.
fn recipe_to_copy(recipe: &RecipeText) -> Markup {
    html! {
        ol.recipe {
            @for RecipeStep { title, file, lines } in &recipe.steps {
                li {
                    p { (title) @if let Some(file) = file { ", in " code { (file) } } }
                    div.copied {
                        pre tabindex="0" role="region" aria-label=(title) { code { (lines.join("\n")) } }
                        button type="button" data-copy aria-label={ "Copy: " (title) } { "Copy" }
                    }
                }
            }
        }
        @for note in &recipe.notes { p.note { (sentence(note)) } }
    }
}

/// Renders the notes: skipped and failed trials, and every warning.
fn notes(view: &View) -> Markup {
    let mut notes = view.notes();
    for note in view.recommendation.answers.iter().flat_map(|answer| &answer.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    // They are above.
    let doubts: Vec<&String> = view.recommendation.answers.iter().flat_map(|answer| &answer.doubts).collect();
    notes.retain(|note| !doubts.contains(&note));
    html! {
        ul.notes {
            @for note in notes {
                li.note { strong { "note" } " " (with_code(&note)) }
            }
            @for group in &view.warnings {
                @let word = if group.is_note(view.measured) { "note" } else { "warning" };
                li class=(word) {
                    strong { (word) } " " (group.kind) " (" (text::plural(group.trials as u64, "trial")) "): " (with_code(&group.example.to_string()))
                }
            }
            @for group in &view.recommendation.skipped {
                li.skipped { strong { "skipped" } " " (group.names.join(", ")) ": " (group.unmet.join("; ")) }
            }
            @for failed in &view.recommendation.failed {
                li.failed {
                    strong { "failed" } " "
                    @if failed.trials.len() == 1 { "trial " } @else { "trials " }
                    (text::numbers(failed.trials.iter().copied())) ", " (failed.name) ": " (failed.error)
                    @if !failed.error.details.trim().is_empty() {
                        details { summary { "output" } pre { (failed.error.details) } }
                    }
                    @if let Some(hint) = &failed.error.hint { br; "hint: " (with_code(hint)) }
                }
            }
        }
    }
}

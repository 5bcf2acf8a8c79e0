//! Lines of the terminal as sentences of a page.

/// What stands as a line of its own in the terminal, as a sentence.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect::<String>() + ".")
}

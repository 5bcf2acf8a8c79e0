//! Charts: what the script in the page draws with plotly.js, and the tables behind it.
//!
//! A chart is plain JSON in plotly's own terms; tests in a browser check it against plotly's schema. Three
//! things are ours. A colour is the name of a custom property of the style sheet (`--c1`), so that one place
//! defines the colours of the light, the dark and the printed page. Untrusted text passes [`plain`], because
//! plotly interprets some markup in names. And each chart carries its figures as tables, for readers who
//! cannot see it.
//!
//! Charts are compressed and only drawn when they are unfolded, so a page of many cases stays small. Those
//! that are not folded up are drawn before the page is loaded, so that whatever prints it shows them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{Markup, PreEscaped, html};
use serde::Serialize;
use serde_json::{Value, json};
use std::io::Write;

/// A chart and its figures.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Chart {
    /// Traces.
    pub data: Vec<Value>,
    /// The part of the layout that only this chart has; the script adds what all charts share.
    pub layout: Value,
    /// The same figures as text.
    pub tables: Vec<ChartTable>,
}

/// A table behind a chart. The first cell of a row names it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ChartTable {
    /// The caption.
    pub caption: String,
    /// Columns.
    pub head: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<String>>,
}

/// Gives each chart element of a page a unique name.
#[derive(Debug, Default)]
pub struct Names {
    given: usize,
}

impl Names {
    /// A name that no other element has.
    pub fn next(&mut self) -> String {
        self.given += 1;
        format!("chart-{}", self.given)
    }
}

/// A figure of this height in pixels with its caption; the label is for readers who cannot see it.
pub fn figure(name: &str, chart: &Chart, height: u32, label: &str, caption: &Markup) -> Markup {
    html! {
        figure class="chart" data-chart=(name) {
            figcaption { (caption) }
            div class="plot" role="img" aria-label=(label) style={ "min-height:" (height) "px" } {}
        }
        (data(name, chart))
    }
}

/// The same for a chart that scrolls sideways if there is no room for its width. The size is width and height
/// in pixels.
pub fn wide_figure(name: &str, chart: &Chart, size: (usize, u32), label: &str, caption: &Markup) -> Markup {
    html! {
        figure class="chart" data-chart=(name) {
            figcaption { (caption) }
            div class="scroll" tabindex="0" role="region" aria-label=(label) {
                div class="plot" role="img" aria-label=(label) style={ "min-width:" (size.0) "px;min-height:" (size.1) "px" } {}
            }
        }
        (data(name, chart))
    }
}

/// The data of a [`figure`] that is elsewhere on the page.
pub fn data(name: &str, chart: &Chart) -> Markup {
    let json = serde_json::to_string(chart).unwrap_or_default();
    script(name, &pack(&json))
}

/// Packed text that the script finds under this name.
pub fn script(name: &str, packed: &str) -> Markup {
    // Base64 has no character that ends an element.
    html! { script type="application/gzip" id=(name) { (PreEscaped(packed)) } }
}

/// Text compressed, in base64.
pub fn pack(text: &str) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail.
    let written = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    BASE64_STANDARD.encode(written.unwrap_or_default())
}

/// Escapes untrusted text for plotly, which interprets tags and links in names and labels.
pub fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A number with as many digits as a reader can see, so that the page stays small.
pub fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    // Dividing by a power of ten gives exactly the number that the digits denote; multiplying by its inverse
    // does not.
    if scale.is_finite() && scale >= 1.0 { (value * scale).round() / scale } else { value.round() }
}

/// Seconds, rounded for charts.
pub fn seconds(ns: u64) -> f64 {
    rounded(ns as f64 / 1e9)
}

/// An axis of times from 1 ns to hours, with a tick at each power of ten in its own unit.
pub fn time_axis(least_ns: u64, most_ns: u64) -> Value {
    let exponent = |ns: u64| (ns.max(1) as f64 / 1e9).log10();
    let (low, high) = (exponent(least_ns).floor(), exponent(most_ns));
    let ticks: Vec<i32> = (-9..=4).filter(|tick| f64::from(*tick) >= low).collect();
    json!({
        "type": "log",
        "range": [low - 0.05, high.max(low + 1.0) + 0.15],
        "tickvals": ticks.iter().map(|tick| 10f64.powi(*tick)).collect::<Vec<_>>(),
        "ticktext": ticks.iter().map(|tick| tick_label(1, *tick)).collect::<Vec<_>>(),
    })
}

/// The same for a narrow range of values, with more ticks: 1, 2 and 5 times each power of ten, or as many as
/// it takes to see two.
pub fn close_time_axis(least_ns: f64, most_ns: f64) -> Value {
    let (low, high) = ((least_ns / 1e9).log10() - 0.12, (most_ns / 1e9).log10() + 0.16);
    let value = |(number, power): (u64, i32)| number as f64 * 10f64.powi(power);
    let ticks_at = |numbers: &[u64]| -> Vec<(u64, i32)> {
        let places = (-9..=4).flat_map(|power| numbers.iter().map(move |number| (*number, power)));
        places.filter(|place| (low..=high).contains(&value(*place).log10())).collect()
    };
    let finer: [&[u64]; 3] =
        [&[1, 2, 5], &[1, 2, 3, 4, 5, 6, 7, 8, 9], &[10, 12, 14, 16, 18, 20, 25, 30, 35]];
    let ticks = finer.into_iter().map(ticks_at).find(|ticks| ticks.len() > 1).unwrap_or_default();
    json!({
        "type": "log",
        "range": [low, high],
        "tickvals": ticks.iter().map(|tick| value(*tick)).collect::<Vec<_>>(),
        "ticktext": ticks.iter().map(|(number, power)| tick_label(*number, *power)).collect::<Vec<_>>(),
    })
}

/// A number times a power of ten of a second, in its own unit.
fn tick_label(number: u64, power: i32) -> String {
    let (unit, of_unit) = match power {
        ..=-7 => ("ns", -9),
        -6..=-4 => ("us", -6),
        -3..=-1 => ("ms", -3),
        0.. => ("s", 0),
    };
    format!("{} {unit}", number * 10u64.pow((power - of_unit).max(0) as u32))
}

/// A heading above the part of a chart whose upper edge is at this share of the chart's height.
pub fn row_title(text: &str, top: f64) -> Value {
    json!({
        "text": text, "x": 0, "xref": "paper", "xanchor": "left", "xshift": -2,
        "y": top, "yref": "paper", "yanchor": "bottom", "showarrow": false, "align": "left",
    })
}

/// Number of colours, which colour-blind readers can distinguish, too; each has its own symbol or dash.
pub const COLOURS: usize = 7;

/// The colour of the nth of several things.
pub fn colour(index: usize) -> String {
    format!("--c{}", index % COLOURS + 1)
}

/// The symbol of the nth of several things: an open one when the colours repeat.
pub fn symbol(index: usize) -> String {
    const SYMBOLS: [&str; COLOURS] =
        ["circle", "square", "triangle-up", "cross", "x", "triangle-down", "star"];
    opened(SYMBOLS[index % COLOURS], index)
}

/// A symbol of the nth of several things: open when the colours repeat.
pub fn opened(symbol: &str, index: usize) -> String {
    if (index / COLOURS).is_multiple_of(2) { symbol.to_string() } else { format!("{symbol}-open") }
}

/// The dash of the nth of several lines: a new one each time the colours repeat.
pub fn dash(index: usize) -> &'static str {
    const DASHES: [&str; 4] = ["solid", "dash", "dot", "dashdot"];
    DASHES[index / COLOURS % DASHES.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn packed_text_can_be_unpacked() {
        let bytes = BASE64_STANDARD.decode(pack("{\"a\":\"</script>\"}")).unwrap();
        let mut text = String::new();
        GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        assert_eq!(text, "{\"a\":\"</script>\"}");
    }

    #[test]
    fn numbers_keep_four_digits_and_all_digits_before_the_point() {
        for (value, kept) in
            [(0.0, "0.0"), (1234567.4, "1234567.0"), (0.000123456, "0.0001235"), (12.0, "12.0")]
        {
            assert_eq!(serde_json::to_string(&rounded(value)).unwrap(), kept);
        }
        assert_eq!(rounded(f64::NAN), 0.0);
    }

    #[test]
    fn markup_in_names_is_shown_as_text() {
        assert_eq!(plain("<a href='x'>&b"), "&lt;a href='x'&gt;&amp;b");
    }

    #[test]
    fn a_time_axis_names_each_power_of_ten() {
        let axis = time_axis(2_000, 3_000_000_000);
        let text: Vec<&str> = axis["ticktext"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(text[..4], ["1 us", "10 us", "100 us", "1 ms"]);
        assert_eq!(axis["tickvals"][3], 0.001);
    }

    #[test]
    fn even_a_very_narrow_time_axis_has_two_ticks() {
        let ticks = |least, most| {
            let axis = close_time_axis(least, most);
            axis["ticktext"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        };
        assert_eq!(ticks(1e6, 1e8), "1 ms, 2 ms, 5 ms, 10 ms, 20 ms, 50 ms, 100 ms");
        assert_eq!(ticks(7e6, 7.1e6), "6 ms, 7 ms, 8 ms, 9 ms, 10 ms");
        assert_eq!(ticks(1.4e6, 1.41e6), "1200 us, 1400 us, 1600 us, 1800 us, 2000 us");
        // From anything to anything.
        for least in (1..=99).map(|number| f64::from(number) * 1e5) {
            assert!(ticks(least, least * 1.01).contains(", "), "{least}: {}", ticks(least, least * 1.01));
        }
    }
}

//! The report as a page: one self-contained HTML file, to mail, print and keep.
//!
//! From top to bottom it goes from the answer to the evidence: what to use and what to know before believing
//! it, every configuration with every measure, the effect of each setting, each case over time, the
//! trade-offs, and how all of it was measured. Wording and rounding are the terminal's.
//!
//! The page makes no requests: its policy (`Content-Security-Policy`) forbids them, and it only lets the
//! three scripts run whose digests it names, so that a name that some tool printed could do no harm even if
//! it were not escaped. Text is escaped by the templates ([`maud`]), and for the charts by
//! [`chart::plain`].
//!
//! The chart library is the published cartesian bundle of plotly.js, next to this file. The plotly crate only
//! offers the whole library with MathJax: 6.8 MB, with the addresses of two dozen map servers.

mod answer;
mod capacity;
mod case;
mod cases;
mod chart;
mod configurations;
mod distribution;
mod effects;
mod elements;
mod faults;
mod lines;
mod losses;
mod method;
mod pareto;
mod scaling;
mod timeline;

use crate::visible::{Spelling, spelt};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cases::Cases;
use chart::Names;
use fsdyno_core::SweepHeader;
use fsdyno_core::TrialRecord;
use fsdyno_verdict::text;
use fsdyno_verdict::{UnreadableHistogram, View};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::error::Error;
use std::sync::LazyLock;
use std::thread;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("page.js");
/// From the package pako 2.1.0 of the npm registry, without the address in its first line: a page contains
/// none.
static INFLATE: LazyLock<String> = LazyLock::new(|| PAKO.replacen("https://", "", 1));
const PAKO: &str = include_str!("pako/pako-inflate-2.1.0.min.js");
/// From the package plotly.js-cartesian-dist-min 3.7.0 of the npm registry, unchanged.
const PLOTLY: &str = include_str!("plotly/plotly-cartesian-3.7.0.min.js");

/// The compressed library, shared by all pages: compressing it takes longer than making the rest of a page.
static PACKED: LazyLock<String> = LazyLock::new(|| chart::pack(PLOTLY));
/// The policy of every page.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let scripts = [SCRIPT, &INFLATE, PLOTLY]
        .map(|script| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(script))));
    format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; \
         form-action 'none'",
        scripts.join(" ")
    )
});

/// The data from which a page is made.
pub struct Sources<'a> {
    /// The sweep.
    pub header: SweepHeader,
    /// All of its trials; their timelines, histograms and samples of telemetry are not used.
    pub trials: &'a [TrialRecord],
    /// The complete trials of a case.
    pub details: &'a dyn Fn(u32) -> Result<Vec<TrialRecord>, ReportError>,
}

/// Why a page could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A stored histogram is invalid or cannot be merged with the others.
    #[error(transparent)]
    Histogram(#[from] UnreadableHistogram),
    /// The trials cannot be loaded.
    #[error(transparent)]
    Trials(Box<dyn Error + Send + Sync>),
}

/// The page.
///
/// # Errors
/// Those of [`Sources::details`]; [`ReportError::Histogram`] when a stored histogram cannot be read.
pub fn page(sources: &Sources<'_>) -> Result<String, ReportError> {
    // Meanwhile, on another processor; without a thread it is compressed where it is needed.
    let _ = thread::Builder::new().spawn(|| LazyLock::force(&PACKED));
    let view = View::without_cases(&sources.header, sources.trials);
    let mut names = Names::default();
    let cases = Cases::read(sources, &view, &mut names)?;
    let capacity = capacity::section(&view.rankings, sources.trials, &mut names);
    let scaling = scaling::section(&view.rankings, sources.trials, &mut names);
    let is_left_out = |anchor: &str| match anchor {
        capacity::ANCHOR => capacity.0.is_empty(),
        scaling::ANCHOR => scaling.0.is_empty(),
        _ => false,
    };
    let sections: Vec<(&str, &str)> =
        SECTIONS.iter().copied().filter(|(anchor, _)| !is_left_out(anchor)).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&view.header))
            body {
                a.skip href="#answer" { "Skip to the answer" }
                (title(&view, sources.trials, &sections))
                main {
                    (answer::section(&view))
                    (configurations::section(&view, sources.trials, &cases, &mut names))
                    (capacity)
                    (scaling)
                    (effects::section(&view.recommendation, &mut names))
                    (cases.section(&view.rankings, &mut names))
                    (pareto::section(&view.recommendation, &mut names))
                    (method::section(&view.header, sources.trials))
                }
                footer {
                    p {
                        "Made by fsdyno " (env!("CARGO_PKG_VERSION")) ". Charts by plotly.js 3.7.0 (MIT \
                         licence), unpacked "
                        "by pako 2.1.0 (MIT and Zlib licences), both part of this file."
                    }
                }
                div.unseen role="status" id="said" {}
                (chart::script("plotly", &PACKED))
                script { (PreEscaped(&*INFLATE)) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    // Templates escape HTML. Characters that reverse or hide text are made visible here.
    Ok(spelt(&page.into_string(), Spelling::Page).into_owned())
}

fn head(header: &SweepHeader) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(*POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (header.name) " · fsdyno report" }
            style { (PreEscaped(STYLE)) }
        }
    }
}

/// The top of the page: which sweep, when, and on what, and links to these sections.
fn title(view: &View, trials: &[TrialRecord], sections: &[(&str, &str)]) -> Markup {
    let header = &view.header;
    let machine =
        trials.iter().map(|trial| &trial.environment).find(|environment| !environment.kernel.is_empty());
    let models: BTreeSet<&str> =
        trials.iter().filter_map(|trial| Some(&*trial.configuration.device.model()?.name)).collect();
    let models: Vec<&str> = models.into_iter().collect();
    html! {
        header {
            p.kicker { "fsdyno · sweep " (header.id) }
            h1 { (header.name) }
            p.facts {
                (text::plural(trials.len() as u64, "trial")) ", " (header.started)
                @if header.finished.is_none() { " (not finished)" }
                @if let Some(environment) = machine {
                    " · " @if !environment.hostname.is_empty() { (environment.hostname) ", " }
                    "Linux " (environment.kernel.split_whitespace().next().unwrap_or_default())
                    @if !environment.cpu_model.is_empty() { " · " (environment.cpus) " x " (environment.cpu_model) }
                    ", " (text::size(fsdyno_core::Bytes(environment.memory_bytes)))
                }
                @if !models.is_empty() { " · modelled: " (models.join(", ")) }
            }
            nav aria-label="Sections" {
                @for (anchor, name) in sections {
                    a href={ "#" (anchor) } { (name) }
                }
            }
            noscript { p.alert { "Charts need JavaScript; the tables have the same figures." } }
        }
    }
}

/// The sections, in the order of a reader's questions; those about flows may be left out.
const SECTIONS: &[(&str, &str)] = &[
    ("answer", "Answer"),
    ("configurations", "Configurations"),
    (capacity::ANCHOR, capacity::TITLE),
    (scaling::ANCHOR, scaling::TITLE),
    ("effects", "What each setting does"),
    ("cases", "Case by case"),
    ("pareto", "Trade-offs"),
    ("method", "How it was measured"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use fsdyno_core::device::{DiskModelText, Image};
    use fsdyno_core::result::Quantile;
    use fsdyno_core::{Bytes, DeviceSpec};

    fn page_of(measure: &str, trials: &[TrialRecord]) -> String {
        let details = |case| Ok(trials.iter().filter(|trial| trial.case == case).cloned().collect());
        page(&Sources { header: fixture::header(measure), trials, details: &details }).unwrap()
    }

    #[test]
    fn hostile_names_cannot_reverse_text() {
        let mut trials = fixture::trials();
        for trial in &mut trials {
            trial.configuration.name = "<b>a\u{202e}b\x1b\u{200b}".to_string();
        }
        let page = page_of("read", &trials);
        assert!(page.contains("&lt;b&gt;a\\u{202e}b\\x1b\\u{200b}"));
        assert!(!page.contains(['\u{202e}', '\x1b', '\u{200b}']));
    }

    #[test]
    fn the_same_trials_give_the_same_page() {
        let trials = fixture::with_telemetry(fixture::trials());
        assert_eq!(page_of("read-under-write", &trials), page_of("read-under-write", &trials));
    }

    /// FsOpBench printed no quantile above the median; bonnie++ prints no rate for tests that are too quick.
    #[test]
    fn figures_that_a_program_did_not_print_are_not_shown() {
        let mut trials = fixture::trials();
        trials.truncate(1);
        for phase in &mut trials[0].phases {
            phase.window_ns = fsdyno_core::Nanos(0);
            for latency in phase.roles.iter_mut().flat_map(|role| &mut role.operations) {
                let lat_ns = &mut latency.lat_ns;
                (
                    lat_ns.quantiles[Quantile::P90],
                    lat_ns.quantiles[Quantile::P99],
                    lat_ns.quantiles[Quantile::P999],
                    lat_ns.quantiles[Quantile::P9999],
                ) = (0, 0, 0, 0);
                latency.histogram = fsdyno_verdict::Distribution::empty().encode().unwrap();
            }
        }
        let page = page_of("read", &trials);
        assert!(!page.contains("<td>0ns</td>"));
        let too_short = "time not reported";
        assert!(page.contains(&format!("1 reader <span class=\"unit\">{too_short}</span>")));
        assert!(page.contains(&format!("ramp 30 s, window {too_short}, drain 12.0 ms in trial 1")));
        let case = &fsdyno_verdict::view::cases(&trials).unwrap()[0];
        let curves = distribution::curves(case, &trials).unwrap();
        let chart = distribution::chart(&curves[0].subject, &[&curves[0]]);
        assert_eq!(chart.tables[0].rows[0][3..7], ["-"; 4]);
    }

    #[test]
    fn sections_are_in_the_order_of_a_readers_questions() {
        let page = page_of("read-under-write", &fixture::with_telemetry(fixture::trials()));
        let searched = page_of("flow-capacity", &fixture::searched_trials());
        let scaled = page_of("flow-iterations", &fixture::scaled_trials());
        let optional = [capacity::ANCHOR, scaling::ANCHOR];
        for (page, has) in [(&page, ""), (&searched, capacity::ANCHOR), (&scaled, scaling::ANCHOR)] {
            let sections = SECTIONS.iter().filter(|(anchor, _)| !optional.contains(anchor) || *anchor == has);
            let places: Vec<usize> = sections
                .map(|(anchor, _)| {
                    assert!(page.contains(&format!("href=\"#{anchor}\"")), "no link to {anchor}");
                    page.find(&format!("<section id=\"{anchor}\"")).expect("a section")
                })
                .collect();
            assert!(places.is_sorted(), "{places:?}");
            for anchor in optional {
                assert_eq!(page.contains(&format!("#{anchor}")), anchor == has);
            }
        }
        for wanted in [
            "btrfs bfq: program &#39;mkfs.btrfs&#39; is not installed; the kernel has no btrfs",
            "tree-smaller-than-memory",
            "no space left on device (ENOSPC)",
            "make the image larger",
            "0 completed, 1 operation &gt;= 30 s",
            "mkfs.ext4 /proc/self/fd/7",
        ] {
            let wanted = wanted.replace("&#39;", "'");
            assert!(page.contains(&wanted), "{wanted}");
        }
    }

    #[test]
    fn the_top_of_the_page_says_that_a_disk_is_modelled() {
        let mut trials = fixture::trials();
        assert!(!page_of("read", &trials).contains("modelled:"));
        let model = DiskModelText { name: "ebs-gp3".to_string(), text: String::new() };
        let image = Image { model: Some(model), ..Image::new("/i", Bytes(1 << 30)) };
        for trial in &mut trials {
            trial.configuration.device = DeviceSpec::Image(image.clone());
        }
        let page = page_of("read", &trials);
        let top = page.split("</header>").next().unwrap_or_default();
        assert!(top.contains(" · modelled: ebs-gp3"), "{top}");
    }

    #[test]
    fn untrusted_text_is_escaped_everywhere() {
        let evil = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
        let mut trials = fixture::with_telemetry(fixture::trials());
        for trial in &mut trials {
            trial.configuration.name = evil.to_string();
            trial.configuration.settings.insert("mount".to_string(), evil.to_string());
            trial.configuration.built.mkfs_command = evil.to_string();
            trial.configuration.built.mount_command = evil.to_string();
            trial.configuration.built.mount_options_in_force = evil.to_string();
            trial.environment.cpu_model = evil.to_string();
            trial.environment.geometry = evil.to_string();
            trial.environment.tools.insert(evil.to_string(), evil.to_string());
            trial.warnings.iter_mut().for_each(|warning| warning.text = evil.to_string());
            match &mut trial.outcome {
                fsdyno_core::Outcome::Skipped { unmet } => unmet.fill(evil.to_string()),
                fsdyno_core::Outcome::Failed { error } => error.message = evil.to_string(),
                fsdyno_core::Outcome::Measured => {}
            }
        }
        let mut sources =
            Sources { header: fixture::header("read"), trials: &trials, details: &|_| Ok(Vec::new()) };
        sources.header.name = evil.to_string();
        sources.header.plan_toml = evil.to_string();
        sources.header.overrides = vec![evil.to_string()];
        let details = |case| Ok(trials.iter().filter(|trial| trial.case == case).cloned().collect());
        let page = page(&Sources { details: &details, ..sources }).unwrap();
        assert!(
            !page.contains("<img") && !page.contains("<script>alert") && !page.contains(">alert(1)</script>")
        );
        assert!(page.matches("&lt;img src=x").count() > 20);
    }

    #[test]
    fn a_sweep_without_measured_trials_has_a_page() {
        let page = page_of("read", &fixture::trials()[2..3]);
        assert!(
            page.contains("No configuration was measured.") && page.contains("mkfs.btrfs"),
            "{}",
            page.len()
        );
        assert!(page_of("read", &[]).contains("No configuration was measured."));
    }

    /// A trial as large as real ones: 300 intervals and 64 slow operations, all of them different.
    fn large(case: u32) -> TrialRecord {
        let name = format!("ext4 number={case}");
        let mut trial =
            fixture::trial(case, 0, case, fixture::configuration("ext4", "bfq"), f64::from(case + 1));
        trial.configuration.name = name;
        let mut state = u64::from(case) + 1;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 40
        };
        for operation in
            trial.phases.iter_mut().flat_map(|phase| &mut phase.roles).flat_map(|role| &mut role.operations)
        {
            let mut values = || (0..300).map(|_| random()).collect::<Vec<u64>>();
            operation.timeline = fsdyno_core::result::Timeline {
                interval_ns: fsdyno_core::Nanos::from_millis(100),
                count: values(),
                sum_ns: values(),
                max_ns: values(),
                bytes: values(),
            };
            operation.slowest = (0..64)
                .map(|index| fsdyno_core::result::SlowOperation {
                    start_ns: random() * 1000,
                    duration_ns: random(),
                    path: format!("w{index}/d{}/f{}", random(), random()),
                })
                .collect();
        }
        trial
    }

    #[test]
    fn a_page_of_many_cases_is_small_and_says_what_it_leaves_out() {
        let outlines: Vec<TrialRecord> = (0..200)
            .map(|case| {
                fixture::trial(case, 0, case, fixture::configuration("ext4", "bfq"), f64::from(case + 1))
            })
            .collect();
        let details = |case| Ok(vec![large(case)]);
        let page =
            page(&Sources { header: fixture::header("read"), trials: &outlines, details: &details }).unwrap();
        let shown = page.matches("<details class=\"case\"").count();
        assert!((40..200).contains(&shown), "{shown}");
        assert!(page.contains(&format!("Shown in full: {shown} of 200 cases")));
        assert_eq!(page.matches("<tr data-text=").count(), 200);
        assert!(page.len() < 8_000_000, "{}", page.len());
    }

    #[test]
    fn an_empty_page_is_smaller_than_the_uncompressed_library() {
        assert!(page_of("read", &[]).len() < PLOTLY.len());
    }
}

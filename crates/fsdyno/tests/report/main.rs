//! `fsdyno report` in a real browser: the charts and their points, sorting and filtering with mouse and
//! keyboard, phones, dark mode and print. The page must also be quiet: no complaint, no request, and foreign
//! text is never executed.
//!
//! Needs no root. Without the browser, each test says so and counts as ignored, as in the machine suite.

mod browser;
mod sweep;

use browser::{Browser, PROGRAM};
use fsdyno_testkit::Requirement;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, OnceLock};
use sweep::{CONFIGURATIONS, EVIL, LINK, Report};

/// The requirements of every test.
const REQUIRES: &[Requirement] = &[Requirement::Program(PROGRAM)];

type Test = (&'static str, fn(&mut Browser, &Report));

const TESTS: &[Test] = &[
    ("charts_have_every_point_that_was_measured", charts_have_every_point_that_was_measured),
    ("plotly_finds_no_fault_with_a_chart", plotly_finds_no_fault_with_a_chart),
    ("a_click_and_a_key_sort_the_table", a_click_and_a_key_sort_the_table),
    ("typing_filters_the_table", typing_filters_the_table),
    ("the_chosen_operation_is_drawn", the_chosen_operation_is_drawn),
    ("a_link_unfolds_its_case_and_draws_it", a_link_unfolds_its_case_and_draws_it),
    ("the_page_is_quiet_and_makes_no_requests", the_page_is_quiet_and_makes_no_requests),
    ("foreign_text_is_not_executed", foreign_text_is_not_executed),
    ("the_page_never_scrolls_sideways", the_page_never_scrolls_sideways),
    ("charts_are_drawn_when_the_page_is_loaded", charts_are_drawn_when_the_page_is_loaded),
    ("the_page_is_accessible_to_screen_readers", the_page_is_accessible_to_screen_readers),
    ("charts_are_printed_on_white", charts_are_printed_on_white),
    ("the_recipe_is_copied", the_recipe_is_copied),
];

fn main() {
    let mut arguments = Arguments::from_args();
    // One after the other in the same browser, which takes seconds to start.
    arguments.test_threads = Some(1);
    let report = Arc::new(OnceLock::new());
    let browser = Arc::new(Mutex::new(None));
    let unmet: Vec<String> = REQUIRES.iter().filter_map(|requirement| requirement.unmet()).collect();
    let trials = TESTS.iter().map(|(name, body)| {
        if !unmet.is_empty() {
            eprintln!("skipped report::{name}: requires {}", unmet.join(", "));
        }
        let (report, browser) = (Arc::clone(&report), Arc::clone(&browser));
        Trial::test(format!("report::{name}"), move || guarded(*body, &report, &browser))
            .with_ignored_flag(!unmet.is_empty())
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    // An exit drops nothing.
    drop((report, browser));
    conclusion.exit();
}

/// A browser in which a test failed is not used again.
fn guarded(
    body: fn(&mut Browser, &Report),
    report: &OnceLock<Report>,
    browser: &Mutex<Option<Browser>>,
) -> Result<(), Failed> {
    let result = std::panic::catch_unwind(|| {
        let report = report.get_or_init(Report::new);
        let kept = browser.lock().expect("it is not held while a test runs").take();
        let mut own = kept.unwrap_or_else(Browser::new);
        own.call("Emulation.setEmulatedMedia", json!({ "media": "" }));
        own.emulate(1280, 900, "light");
        own.open(&report.page);
        body(&mut own, report);
        *browser.lock().expect("it is not held while a test runs") = Some(own);
    });
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_string())).unwrap_or_default().into()
    })
}

/// The number of points drawn, in the traces that `filter` keeps of the chart under `selector`.
fn points(browser: &mut Browser, selector: &str, filter: &str) -> f64 {
    let selector = Value::from(selector);
    browser.number(&format!(
        "document.querySelector({selector}).data.filter((trace) => {filter})\
         .flatMap((trace) => [...trace.y]).filter((y) => y !== null && y !== undefined).length"
    ))
}

fn charts_have_every_point_that_was_measured(browser: &mut Browser, report: &Report) {
    let phase = report.trial.phases.last().expect("a phase");
    let operations = || phase.roles.iter().flat_map(|role| &role.operations);
    let chart = ".case[open] .phase[open] .plot";
    let measured =
        operations().flat_map(|operation| &operation.timeline.max_ns).filter(|ns| **ns > 0).count();
    assert_eq!(points(browser, chart, "trace.mode === 'markers'"), measured as f64);
    let slowest: usize = phase
        .roles
        .iter()
        .map(|role| role.operations.iter().map(|operation| operation.slowest.len()).sum::<usize>().min(24))
        .sum();
    assert_eq!(points(browser, chart, "trace.meta === 'slowest'"), 2.0 * slowest as f64);
    assert_eq!(
        browser.number(&format!(
            "document.querySelector('{chart}').data.filter((t) => t.meta === 'rate').length"
        )),
        2.0
    );
    // A reader who points at a slow operation sees its path.
    let path = &operations().find_map(|operation| operation.slowest.first()).expect("a slow operation").path;
    let hover = browser.text(&format!(
        "document.querySelector('{chart}').data.filter((t) => t.meta === 'slowest').flatMap((t) => \
         t.hovertext).join('|')"
    ));
    assert!(hover.contains(path.as_str()), "expected {path} in {hover}");

    let heat = "document.querySelector('#configurations .plot').data[0].z";
    assert_eq!(browser.number(&format!("{heat}.length")), CONFIGURATIONS.len() as f64);
    let columns = browser.number("document.querySelectorAll('#table-0 thead th[scope=col] button').length");
    // Besides the measures, the table has columns for the name, the trials and the warnings.
    assert_eq!(browser.number(&format!("{heat}[0].length")), columns - 3.0);
    let curves = "document.querySelector('#distribution-0 .plot').data";
    assert_eq!(browser.number(&format!("{curves}.length")), CONFIGURATIONS.len() as f64);
    assert!(browser.number(&format!("{curves}[0].y.length")) > 10.0);
    if phase
        .telemetry
        .as_ref()
        .is_some_and(|telemetry| telemetry.samples.iter().any(|sample| sample.cpu.is_some()))
    {
        assert!(points(browser, chart, "trace.meta === 'telemetry'") > 1.0);
    }
}

fn plotly_finds_no_fault_with_a_chart(browser: &mut Browser, _: &Report) {
    unfold_everything(browser);
    let faults = browser.evaluate(
        "[...document.querySelectorAll('.js-plotly-plot')].flatMap((plot) => Plotly.validate(plot.data, \
         plot.layout) ?? [])\
         .filter((fault) => fault.code !== 'unused').map((fault) => fault.msg)",
    );
    assert_eq!(faults, json!([]));
    let drawn = browser.number("document.querySelectorAll('.js-plotly-plot .main-svg').length");
    assert!(drawn > 3.0 * CONFIGURATIONS.len() as f64, "{drawn}");
}

/// Expands everything that is collapsed and waits until it is drawn.
fn unfold_everything(browser: &mut Browser) {
    browser.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })");
    browser.wait_for(
        "[...document.querySelectorAll('figure[data-chart]')].every((figure) => figure.dataset.done === \
        figure.dataset.chart)",
    );
}

/// The names in the table, without the mark that they are in memory and so weaken what survives a power cut.
fn names(browser: &mut Browser) -> Vec<String> {
    let names = browser.evaluate(
        "[...document.querySelectorAll('#table-0 tbody tr:not([hidden]) th')].map((th) => \
        th.textContent.replace(/!$/, '').trim())",
    );
    names.as_array().expect("names").iter().filter_map(|name| name.as_str().map(str::to_string)).collect()
}

fn a_click_and_a_key_sort_the_table(browser: &mut Browser, _: &Report) {
    assert_eq!(names(browser), ["xfs bfq", "xfs none", "ext4 bfq", EVIL], "best first");
    let first = "#table-0 thead th:nth-child(2)";
    let sorted = |browser: &mut Browser, head: &str| {
        browser.evaluate(&format!("document.querySelector('{head}').getAttribute('aria-sort')"))
    };
    assert_eq!(sorted(browser, first), "descending");
    browser.click(&format!("{first} button"));
    assert_eq!(names(browser), [EVIL, "ext4 bfq", "xfs none", "xfs bfq"]);
    assert_eq!(sorted(browser, first), "ascending");

    browser.evaluate("document.querySelector('#table-0 thead th button').focus()");
    browser.press("Enter");
    assert_eq!(names(browser), [EVIL, "ext4 bfq", "xfs bfq", "xfs none"], "by name");
    assert_eq!(sorted(browser, first), Value::Null);
    assert_eq!(sorted(browser, "#table-0 thead th"), "ascending");
    browser.press("Enter");
    assert_eq!(names(browser)[0], "xfs none");
    assert!(
        browser
            .text("document.getElementById('said').textContent")
            .contains("sorted by configuration, descending")
    );
}

fn typing_filters_the_table(browser: &mut Browser, _: &Report) {
    browser.click("#filter-0");
    browser.write("XFS ");
    assert_eq!(names(browser), ["xfs bfq", "xfs none"]);
    browser.write("none");
    assert_eq!(names(browser), ["xfs none"]);
    assert_eq!(browser.text("document.querySelector('[data-count]').textContent"), "1 of 4 configurations");
}

fn the_chosen_operation_is_drawn(browser: &mut Browser, report: &Report) {
    let drawn = "document.querySelector('#distribution-0').dataset.done";
    let before = browser.text(drawn);
    let curves = "JSON.stringify(document.querySelector('#distribution-0 .plot').data.map(line => line.y))";
    let first_byte = browser.text(curves);
    browser.evaluate("document.querySelector('select[data-chooses]').focus()");
    browser.press("ArrowDown");
    browser.wait_for(&format!("{drawn} !== '{before}'"));
    assert_ne!(browser.text(curves), first_byte);
    // The chosen one is drawn, with its figures.
    let chosen = "document.querySelector('select[data-chooses] option:checked')";
    let phase = browser.text(&format!("{chosen}.parentElement.label"));
    let (role, operation) = {
        let words = browser.text(&format!("{chosen}.textContent"));
        words
            .split_once(": ")
            .map(|(role, name)| (role.to_string(), name.to_string()))
            .expect("role: operation")
    };
    let caption = browser.text("document.querySelector('#distribution-0 table caption').textContent");
    assert_eq!(caption, format!("{phase}, {role} {operation}"));
    let stored = report.trial.phases.iter().filter(|of| of.name == phase).flat_map(|of| &of.roles);
    let stored = stored.filter(|of| of.role.name() == role).flat_map(|of| &of.operations);
    let latency =
        &stored.into_iter().find(|of| of.operation.name() == operation).expect("the chosen operation").lat_ns;
    for line in 0..CONFIGURATIONS.len() {
        let count = "tr:nth-child(ROW) td".replace("ROW", &(line + 1).to_string());
        let count = browser.number(&format!(
            "Number(document.querySelector('#distribution-0 table tbody {count}').textContent)"
        ));
        // Each configuration has two trials.
        assert_eq!(count, 2.0 * latency.count as f64);
        let drawn = |of: &str| {
            format!("{of}(...document.querySelector('#distribution-0 .plot').data[{line}].y) * 1e9")
        };
        let least = browser.number(&drawn("Math.min")) / latency.min as f64;
        assert!((least - 1.0).abs() < 0.002, "{least} of {latency:?}");
        let most = browser.number(&drawn("Math.max"));
        assert!(most > latency.median() as f64 && most < latency.max as f64 * 1.002, "{most} of {latency:?}");
    }
    let choices = browser.number("document.querySelectorAll('select[data-chooses] option').length");
    let roles = report.trial.phases.iter().flat_map(|phase| &phase.roles);
    let measured =
        roles.flat_map(|role| &role.operations).filter(|operation| operation.lat_ns.count > 0).count();
    assert_eq!(choices, measured as f64);
    // The table behind the chart shows the operation that is drawn.
    assert_eq!(
        browser.number("document.querySelectorAll('#distribution-0 table tbody tr').length"),
        CONFIGURATIONS.len() as f64
    );
}

fn a_link_unfolds_its_case_and_draws_it(browser: &mut Browser, _: &Report) {
    assert_eq!(browser.evaluate("document.querySelector('#case-3').open"), false);
    browser.click("#table-0 a[href='#case-3']");
    browser.wait_for("document.querySelector('#case-3 .phase[open] .js-plotly-plot .main-svg')");
    assert_eq!(browser.evaluate("document.querySelector('#case-3').open"), true);
}

fn the_page_is_quiet_and_makes_no_requests(browser: &mut Browser, report: &Report) {
    unfold_everything(browser);
    browser.emulate(1280, 900, "dark");
    browser.click("#table-0 thead th:nth-child(3) button, #table-0 thead th:nth-child(4) button");
    browser.click("#filter-0");
    browser.write("xfs");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let page = format!("file://{}", report.page.display());
    let elsewhere: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|address| *address != page && !address.starts_with("data:") && !address.starts_with("blob:"))
        .collect();
    assert_eq!(elsewhere, Vec::<String>::new());
    // The policy would also have stopped it.
    let fetched =
        browser.evaluate("fetch('https://example.invalid/').then(() => 'fetched', () => 'refused')");
    assert_eq!(fetched, "refused");
    assert!(browser.complaints().iter().any(|complaint| complaint.contains("Content Security Policy")));
}

fn foreign_text_is_not_executed(browser: &mut Browser, report: &Report) {
    unfold_everything(browser);
    assert_eq!(browser.text("document.title"), format!("a {LINK} sweep · fsdyno report"));
    for selector in
        ["a[href*='example.invalid']", "img", "th script, td script, li script, svg script, svg a"]
    {
        assert_eq!(
            browser.number(&format!("document.querySelectorAll(\"{selector}\").length")),
            0.0,
            "{selector}"
        );
    }
    let shown = browser.text("document.body.innerText");
    assert!(shown.contains(EVIL) && shown.contains(LINK));
    // Also in charts.
    let legend = browser.text("document.querySelector('#distribution-0 .legend').textContent");
    assert!(legend.contains(EVIL), "{legend}");
    let page = std::fs::read_to_string(&report.page).expect("the page");
    assert!(!page.contains(EVIL) && !page.contains("<a href=\"https:"));
    // It contains no address except in the text that we put there ourselves.
    let addresses = page
        .match_indices("://")
        .filter(|(at, _)| !page[..*at].ends_with("https") || !page[*at..].starts_with("://example.invalid"));
    assert_eq!(addresses.count(), 0);
}

fn the_page_never_scrolls_sideways(browser: &mut Browser, report: &Report) {
    let mut papers = Vec::new();
    for (width, scheme) in [(320, "light"), (390, "dark"), (768, "light"), (1280, "dark")] {
        browser.emulate(width, 800, scheme);
        browser.open(&report.page);
        if width < 500 {
            unfold_everything(browser);
        }
        let whole = browser.number("document.documentElement.scrollWidth");
        assert!(whole <= f64::from(width), "{whole} pixels at a width of {width}");
        // Charts are as wide as the space allows.
        let chart = browser
            .number("document.querySelector('#distribution-0 .main-svg').getBoundingClientRect().right");
        assert!(chart <= f64::from(width), "a chart reaches to {chart} at a width of {width}");
        if width < 500 {
            let right = "Math.max(...[...document.querySelectorAll('.main-svg')].map((svg) => \
                svg.getBoundingClientRect().right))";
            let right = browser.number(right);
            assert!(right <= f64::from(width), "a chart reaches to {right} on a phone of {width}");
        }
        let ink = "getComputedStyle(document.querySelector('#distribution-0 .xtick text')).fill";
        papers.push((browser.text("getComputedStyle(document.body).backgroundColor"), browser.text(ink)));
    }
    assert_eq!((&papers[0], &papers[1]), (&papers[2], &papers[3]));
    assert_ne!(papers[0].0, papers[1].0);
    assert_ne!(papers[0].1, papers[1].1, "charts follow the scheme");
}

/// Whoever prints or photographs the page as soon as it is loaded gets its charts, at the size of the paper.
fn charts_are_drawn_when_the_page_is_loaded(browser: &mut Browser, report: &Report) {
    let count =
        "[...document.querySelectorAll('figure[data-chart]')].filter((figure) => figure.checkVisibility())";
    let drawn = format!(
        "addEventListener('load', () => {{ window.atLoad = {count}.map((f) => \
         f.querySelectorAll('.main-svg').length) }})"
    );
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": drawn }));
    browser.open(&report.page);
    // The browser may answer before the listener has run.
    let at_load = browser.evaluate(
        "new Promise((done) => { const look = () => window.atLoad ? done(window.atLoad) : setTimeout(look, 10); \
         look() })",
    );
    let at_load: Vec<u64> = at_load.as_array().expect("counts").iter().filter_map(Value::as_u64).collect();
    assert!(at_load.len() >= 3 && at_load.iter().all(|drawn| *drawn > 0), "{at_load:?}");
    // A frame after the window has another width, so have the charts.
    browser.emulate(390, 800, "light");
    let right = "new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(\
                 document.querySelector('#distribution-0 .main-svg').getBoundingClientRect().right))))";
    let right = browser.number(right);
    assert!(right <= 390.0, "a chart reaches to {right}");
}

fn the_page_is_accessible_to_screen_readers(browser: &mut Browser, _: &Report) {
    unfold_everything(browser);
    assert_eq!(browser.text("document.documentElement.lang"), "en");
    let levels = browser.evaluate(
        "[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map((heading) => Number(heading.tagName[1]))",
    );
    let levels: Vec<u64> = levels.as_array().expect("levels").iter().filter_map(Value::as_u64).collect();
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "no level is skipped: {levels:?}");
    let wanting = |selector: &str, what: &str| {
        format!(
            "[...document.querySelectorAll('{selector}')].filter((e) => !({what})).map((e) => \
             e.outerHTML.slice(0, 200))"
        )
    };
    for (selector, what) in [
        ("th:not([aria-hidden])", "e.scope"),
        (".plot", "e.getAttribute(\"aria-label\") && e.getAttribute(\"role\") === \"img\""),
        ("figure", "e.querySelector(\"figcaption\")"),
        ("input, select", "e.labels.length === 1"),
        ("button", "e.textContent.trim()"),
        // Nothing inside an image can get the focus.
        (".plot a, .plot button, .plot [tabindex]", "false"),
        (".scroll", "e.tabIndex === 0 && e.getAttribute(\"aria-label\")"),
        // The table is below the heat map; every other chart has its tables inside the figure.
        ("#cases figure", "e.querySelector(\"details table tbody tr\")"),
    ] {
        assert_eq!(browser.evaluate(&wanting(selector, what)), json!([]), "{selector}: {what}");
    }
    let twice = browser.evaluate(
        "(() => { const ids = [...document.querySelectorAll('[id]')].filter((e) => \
        !e.closest('svg')).map((e) => e.id); return ids.filter((id, at) => ids.indexOf(id) !== at); })()",
    );
    assert_eq!(twice, json!([]));
    // The first key press leads to the answer, past everything else.
    browser.evaluate("document.activeElement.blur(); scrollTo(0, 0)");
    browser.press("Tab");
    assert_eq!(browser.text("document.activeElement.textContent"), "Skip to the answer");
    assert_ne!(browser.text("getComputedStyle(document.activeElement).outlineStyle"), "none");
}

fn charts_are_printed_on_white(browser: &mut Browser, report: &Report) {
    browser.emulate(1280, 900, "dark");
    browser.open(&report.page);
    browser.evaluate(
        "addEventListener('beforeprint', () => { const svg = document.querySelector('#distribution-0 \
         .main-svg'); window.printed = [svg.getBoundingClientRect().width, \
         getComputedStyle(svg.querySelector('.xtick text')).fill, getComputedStyle(document.body).color]; })",
    );
    let pdf = browser.call("Page.printToPDF", json!({ "printBackground": true }));
    assert!(pdf["data"].as_str().is_some_and(|data| data.len() > 20_000));
    let printed = browser.evaluate("window.printed");
    assert!(printed[0].as_f64().is_some_and(|width| (400.0..=680.0).contains(&width)), "{printed}");
    assert_eq!((&printed[1], &printed[2]), (&json!("rgb(92, 92, 87)"), &json!("rgb(28, 28, 26)")));
    // Afterwards the screen is as before.
    browser
        .wait_for("document.querySelector('#distribution-0 .main-svg').getBoundingClientRect().width > 800");
}

fn the_recipe_is_copied(browser: &mut Browser, _: &Report) {
    browser.click("[data-copy]");
    browser.wait_for("document.querySelector('[data-copy]').textContent === 'Copied'");
}

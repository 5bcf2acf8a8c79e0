// Draws the charts that are visible, sorts and filters tables, copies the recipe. Makes no requests: everything is
// in the page, compressed. Without this script the page still has its tables.
"use strict";
(() => {
  const root = document.documentElement;
  const drawn = new Map();

  // Text that the page carries compressed. Not the browser's DecompressionStream: it answers later, so that
  // whoever prints or photographs the page as soon as it is loaded would find it without charts.
  const unpacked = (name) => {
    const bytes = Uint8Array.from(atob(document.getElementById(name).textContent), (c) => c.charCodeAt(0));
    return window.pako.inflate(bytes, { to: "string" });
  };

  const plotly = () => {
    if (window.Plotly) return;
    const script = document.createElement("script");
    script.textContent = unpacked("plotly");
    document.head.append(script);
  };

  // Charts name colours as the style sheet does.
  const coloured = (value, style) => {
    if (typeof value === "string" && value.startsWith("--")) return style.getPropertyValue(value).trim();
    if (Array.isArray(value)) return value.map((item) => coloured(item, style));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, style)]));
    }
    return value;
  };

  // What all charts share.
  const complete = (layout, width) => {
    const style = getComputedStyle(root);
    const own = coloured(layout, style);
    const colour = (name) => style.getPropertyValue(name).trim();
    const narrow = width < 520;
    const axis = {
      gridcolor: colour("--grid"), linecolor: colour("--rule"), zeroline: false, ticks: "outside", ticklen: 3,
      tickcolor: colour("--rule"), automargin: true, title: { standoff: 8 },
    };
    const whole = {
      ...own,
      width,
      autosize: false,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow ? 11 : 12, color: colour("--soft") },
      hoverlabel: { align: "left", bgcolor: colour("--raised"), bordercolor: colour("--rule"), font: { color: colour("--ink") } },
      margin: { l: narrow ? 44 : 56, r: narrow ? 6 : 16, t: 8, b: 48, ...own.margin },
      // On touch screens, dragging scrolls the page.
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    };
    for (const key of Object.keys(whole)) {
      if (/^[xy]axis\d*$/.test(key)) {
        const title = { ...axis.title, ...whole[key].title };
        // On two lines, where one would be cut off.
        if (narrow && title.text) title.text = title.text.replace(/^(.{18,34}) (?=.{8})/, "$1<br>");
        whole[key] = { ...axis, ...whole[key], title };
      }
    }
    for (const annotation of whole.annotations ?? []) {
      annotation.font = { color: colour("--ink"), size: narrow ? 10.5 : 13, ...annotation.font };
    }
    return whole;
  };

  // On a phone a heat map has room for its colours, and its headings for one line each. The table has the figures.
  const fitted = (chart) => {
    if (chart.data[0]?.meta !== "heat" || !matchMedia("(max-width: 40rem)").matches) return chart;
    const { layout } = chart;
    const short = (name) => name.length > 20 ? `${name.slice(0, 19)}\u2026` : name;
    const heads = layout.xaxis.ticktext.map((text) => text.replace("<br>", ""));
    const room = 12 + 6.2 * Math.max(...heads.map((text) => text.length));
    return {
      ...chart,
      data: chart.data.filter((trace) => trace.meta !== "figures"),
      layout: {
        ...layout,
        height: layout.height - layout.margin.t + room,
        margin: { ...layout.margin, t: room },
        xaxis: { ...layout.xaxis, ticktext: heads, tickangle: -90 },
        yaxis: { ...layout.yaxis, ticktext: layout.yaxis.ticktext.map(short) },
      },
    };
  };

  const render = (plot) => {
    drawn.get(plot).width = plot.clientWidth;
    const chart = fitted(drawn.get(plot));
    const style = getComputedStyle(root);
    const width = Math.floor(root.classList.contains("printing") ? Math.min(plot.clientWidth, 680) : plot.clientWidth);
    return window.Plotly.react(plot, coloured(chart.data, style), complete(chart.layout, width), {
      // Buttons within an image are not accessible. Dragging zooms, a double click goes back.
      displayModeBar: false,
    });
  };

  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  // The tables behind a chart, for readers who cannot see it.
  const tables = (figure, chart) => {
    figure.querySelector(":scope > details")?.remove();
    if (!chart.tables.length) return;
    const details = element("details");
    details.append(element("summary", chart.tables.length > 1 ? "Figures as tables" : "Figures as a table"));
    for (const table of chart.tables) {
      const made = element("table", undefined, { class: "figures" });
      made.append(element("caption", table.caption));
      const head = element("tr");
      head.append(...table.head.map((text) => element("th", text, { scope: "col" })));
      made.append(element("thead"), element("tbody"));
      made.tHead.append(head);
      for (const cells of table.rows) {
        const row = element("tr");
        row.append(element("th", cells[0], { scope: "row" }), ...cells.slice(1).map((text) => element("td", text)));
        made.tBodies[0].append(row);
      }
      const scroll = element("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": table.caption });
      scroll.append(made);
      details.append(scroll);
    }
    figure.append(details);
  };

  // Resolves when the chart is complete; it is visible before.
  const draw = (figure) => {
    const plot = figure.querySelector(".plot");
    const name = figure.dataset.chart;
    if (figure.dataset.drawn === name) return Promise.resolve();
    figure.dataset.drawn = name;
    const broken = (error) => {
      plot.replaceChildren(element("p", `This browser could not draw the chart: ${error.message}`, { class: "broken" }));
      console.error(error);
    };
    try {
      plotly();
      const chart = JSON.parse(unpacked(name));
      drawn.set(plot, chart);
      resized.observe(plot);
      tables(figure, chart);
      return render(plot).then(() => { figure.dataset.done = name; }, broken);
    } catch (error) {
      broken(error);
      return Promise.resolve();
    }
  };

  // Charts that are folded up are drawn when unfolded.
  const drawVisible = (within) => {
    const figures = [...within.querySelectorAll("figure[data-chart]")];
    return Promise.all(figures.filter((figure) => figure.checkVisibility?.() ?? figure.offsetParent).map(draw));
  };

  const again = () => {
    for (const plot of drawn.keys()) {
      if (plot.clientWidth && plot.classList.contains("js-plotly-plot")) render(plot);
    }
  };

  // A phone that is turned, a window that gets its size late, a scroll bar that takes some of the width: observers
  // run before the next frame is painted, so no reader sees a chart of another width.
  const resized = new ResizeObserver((entries) => {
    if (root.classList.contains("printing")) return;
    for (const { target } of entries) {
      if (target.clientWidth && target.clientWidth !== drawn.get(target).width) render(target);
    }
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  window.addEventListener("beforeprint", () => { root.classList.add("printing"); again(); });
  window.addEventListener("afterprint", () => { root.classList.remove("printing"); again(); });
  document.addEventListener("toggle", (event) => {
    if (!event.target.open) return;
    for (const plot of event.target.querySelectorAll(".js-plotly-plot")) if (plot.clientWidth) render(plot);
    drawVisible(event.target);
  }, true);

  for (const choice of document.querySelectorAll("select[data-chooses]")) {
    choice.addEventListener("change", () => {
      const figure = document.getElementById(choice.dataset.chooses);
      figure.dataset.chart = choice.value;
      drawVisible(figure.parentElement);
    });
  }

  // Unfolds what a link points into.
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", unfold);

  const say = (text) => { document.getElementById("said").textContent = text; };

  const value = (row, column) => {
    const text = row.cells[column]?.dataset.value;
    const number = Number(text);
    return text === undefined ? null : Number.isNaN(number) ? text : number;
  };
  const order = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
  for (const button of document.querySelectorAll("button[data-sort]")) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const body = head.closest("table").tBodies[0];
      const column = head.cellIndex;
      const now = head.getAttribute("aria-sort");
      const next = now ? (now === "ascending" ? "descending" : "ascending") : button.dataset.sort;
      for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", next);
      const turn = next === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => [value(row, column), row]);
      // Rows without a figure come last in either order.
      rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : turn * order(a, b));
      body.append(...rows.map(([, row]) => row));
      say(`sorted by ${button.textContent.trim()}, ${next}`);
    });
  }

  for (const input of document.querySelectorAll("input[data-filter]")) {
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const rows = [...document.getElementById(input.dataset.filter).tBodies[0].rows];
      for (const row of rows) {
        const text = row.dataset.text.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
      const shown = rows.filter((row) => !row.hidden).length;
      document.querySelector(`[data-count="${input.dataset.filter}"]`).textContent =
        words.length ? `${shown} of ${rows.length} configurations` : `${rows.length} configurations`;
    });
  }

  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = button.parentElement.querySelector("code");
      try {
        await navigator.clipboard.writeText(source.textContent);
      } catch {
        getSelection().selectAllChildren(source);
        document.execCommand("copy");
      }
      const label = button.textContent;
      button.textContent = "Copied";
      say("copied");
      setTimeout(() => { button.textContent = label; }, 1500);
    });
  }

  unfold();
  drawVisible(document).then(() => { root.dataset.ready = "yes"; });
})();

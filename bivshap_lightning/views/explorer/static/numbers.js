// Every number of the record with its sentence, interval and control; ours beside the other explainers; the verdict.

import { count, el, format, svg } from "./dom.js";

const OURS = "ours";

/** @param {import("./index.js").Context} context */
export function drawNumbers(context) {
  const { record } = context;
  const compared = new Map();
  for (const number of record.numbers.filter((entry) => entry.explainer !== null)) {
    if (!compared.has(number.family)) compared.set(number.family, []);
    compared.get(number.family).push(number);
  }
  const others = record.numbers.filter((entry) => entry.explainer === null);
  const rows = [["number", "explainer", "value", "standard_error", "lower", "upper", "control", "better", "meaning"]];
  for (const n of record.numbers) rows.push([n.tag, n.explainer ?? "", n.value, n.standard_error, n.lower ?? "", n.upper ?? "", n.control?.value ?? "", n.better, n.meaning]);
  const skipped = Object.entries(record.skipped);
  return {
    node: el("div", {},
      verdictOf(record.verdict),
      compared.size ? el("h3", {}, "Our ranking beside those of other explainers") : null,
      compared.size ? el("p", { class: "note" }, evaluationsOf(record)) : null,
      el("div", { class: "families" }, [...compared.values()].map((entries) => familyOf(entries, record.evaluations))),
      skipped.length ? el("p", { class: "note" }, `Left out: ${skipped.map(([name, reason]) => `${name} (${reason})`).join("; ")}.`) : null,
      el("h3", {}, `All other numbers, over ${count(record.n_samples, "sample")}`),
      tableOf(others)),
    rows,
  };
}

function evaluationsOf(record) {
  const counts = Object.entries(record.evaluations).map(([name, n]) => `${name} ${Math.round(n).toLocaleString("en")}`);
  return counts.length ? `Model rows per sample that each explainer spent: ${counts.join(", ")}.` : "";
}

function verdictOf(verdict) {
  if (!verdict) return el("p", { class: "note" }, "No verdict: this record was not judged. The callback RedundancyGate and the command bivshap gate --keep put one beside it.");
  const signs = { pass: "✓", fail: "✗", warn: "!" };
  return el("div", { class: `verdict ${verdict.passed ? "pass" : "fail"}` },
    el("b", {}, verdict.error ? "The gate could not judge" : verdict.passed ? "✓ The gate passed" : "✗ The gate failed"),
    verdict.error ? el("p", {}, verdict.error) : null,
    el("ul", {}, verdict.rules.map((rule) => el("li", {}, `${signs[rule.status]} ${rule.name}: ${rule.reason}`))));
}

/** One number of all explainers as bars with intervals. */
function familyOf(entries, evaluations) {
  const sign = entries[0].better.startsWith("lower") ? -1 : 1;
  const sorted = [...entries].sort((a, b) => sign * (b.value - a.value));
  const [width, row, left] = [430, 24, 160];
  const right = width - 74;
  const values = sorted.flatMap((n) => [n.value, n.lower ?? n.value, n.upper ?? n.value, 0]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (value) => left + ((value - low) / (high - low || 1)) * (right - left);
  const height = row * sorted.length + 8;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${entries[0].title}: ${sorted.map((n) => `${n.explainer} ${format(n.value)}`).join(", ")}` });
  sorted.forEach((n, k) => {
    const y = 4 + row * (k + 0.5);
    const spent = evaluations[n.explainer];
    picture.append(svg("g", { class: n.explainer === OURS ? "bar ours" : "bar" }, svg("title", {}, `${n.explainer}: ${format(n.value)}${spent ? ` at ${Math.round(spent)} model rows per sample` : ""}`),
      svg("text", { x: left - 8, y: y + 4.5, "text-anchor": "end", class: "label" }, n.explainer),
      svg("rect", { x: Math.min(x(0), x(n.value)), y: y - 7, width: Math.abs(x(n.value) - x(0)), height: 14 }),
      n.lower === null || n.upper === null ? "" : svg("line", { x1: x(n.lower), x2: x(n.upper), y1: y, y2: y, class: "whisker" }),
      svg("text", { x: right + 8, y: y + 4.5, class: "label" }, format(n.value))));
  });
  return el("figure", {}, el("h4", {}, entries[0].title, " ", el("small", {}, entries[0].better)), picture, el("figcaption", {}, `${sentence(entries[0].meaning)} Lines are 95 % intervals.`));
}

function tableOf(numbers) {
  const head = ["number", "value", "95 % interval", "control"];
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "All other numbers" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, numbers.map((n) => el("tr", {},
      el("th", { scope: "row" }, n.title, el("small", {}, [sentence(n.meaning), n.better ? `${sentence(n.better)}` : ""].join(" ")), el("code", {}, n.tag)),
      el("td", { "data-label": head[1] }, format(n.value)),
      el("td", { "data-label": head[2], title: n.interval }, n.lower === null || n.upper === null ? "unknown" : n.lower === n.upper ? "–" : `${format(n.lower)} to ${format(n.upper)}`),
      el("td", { "data-label": head[3] }, n.control ? `${format(n.control.value)} at random` : "–"))))));
}

function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "";
}

// The controls above the views: run, epoch, class or sample, gamma, search, views, export.

import { el, format, replace } from "./dom.js";
import { withoutSharedStart } from "./names.js";
import { exportCsv, exportPng, exportSvg } from "./export.js";

const POSITIONS = 400;
const MAX_SUGGESTIONS = 400;

/**
 * Builds the controls.
 * @param {import("./index.js").Explorer} explorer
 */
export function buildControls(explorer) {
  const { store } = explorer;
  const run = el("select", { "aria-label": "Run", change: () => store.set({ run: run.value, step: null, tag: null }) });
  const epoch = el("input", { type: "range", min: 0, step: 1, "aria-label": "Epoch", input: () => explorer.chooseMoment(Number(epoch.value)) });
  const epochName = el("output", {});
  const subject = el("select", { "aria-label": "Class or sample", change: () => store.set({ subject: subject.value }) });
  const suggestions = el("datalist", { id: "bivshap-features" });
  const search = el("input", { type: "search", placeholder: "Search a feature", "aria-label": "Search a feature", list: "bivshap-features", input: () => explorer.search(search.value) });
  const node = el("div", { class: "controls" },
    el("label", {}, el("span", {}, "Run"), run),
    el("label", { class: "grow" }, el("span", {}, "Audit: ", epochName), epoch),
    el("label", {}, el("span", {}, "Class or sample"), subject),
    el("label", {}, el("span", {}, "Feature"), search, suggestions));
  const update = () => {
    const { runs, moments, record, graph } = explorer;
    const brief = withoutSharedStart(runs, ["/"]);
    options(run, runs.map((name, k) => [name, brief[k] || name]), store.state.run);
    run.title = store.state.run ?? "";
    run.parentElement.hidden = runs.length < 2;
    epoch.max = String(Math.max(0, moments.length - 1));
    epoch.value = String(moments.indexOf(explorer.moment));
    epoch.hidden = moments.length < 2;
    epochName.textContent = explorer.moment ? explorer.momentName(explorer.moment) : "";
    if (record) fillSubjects(subject, record.subjects, store.state.subject);
    if (graph) replace(suggestions, graph.names.slice(0, MAX_SUGGESTIONS).map((_, player) => el("option", { value: explorer.label(player) })));
  };
  return { node, update };
}

function options(select, pairs, chosen) {
  replace(select, pairs.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
}

function fillSubjects(select, subjects, chosen) {
  const text = (subject) => {
    if (subject.kind === "class") return `class “${subject.name}” (mean over ${subject.n_samples})`;
    const label = subject.label === null || subject.label === subject.target ? "" : `, labelled “${subject.label}”`;
    return `sample ${subject.name}: “${subject.target}”${label}${subject.text ? `: ${subject.text}` : ""}`;
  };
  const group = (kind, title) => {
    const found = subjects.filter((subject) => subject.kind === kind && subject.is_here !== false);
    return found.length ? el("optgroup", { label: title }, found.map((subject) => el("option", { value: subject.id, selected: subject.id === chosen }, text(subject)))) : null;
  };
  replace(select, group("class", "Classes"), group("sample", "Samples, hardest first"));
}

/**
 * The slider of gamma: zero, then logarithmic up to the largest weight, so that every step is visible.
 * @param {import("./index.js").Explorer} explorer
 */
export function buildGamma(explorer) {
  const { store } = explorer;
  let range = { low: 1e-6, high: 1 };
  const slider = el("input", { type: "range", min: 0, max: POSITIONS, step: 1, "aria-label": "Gamma, logarithmic", input: () => store.set({ gamma: toGamma(Number(slider.value), range) }) });
  const exact = el("input", { type: "number", min: 0, step: "any", "aria-label": "Gamma as a number", change: () => {
    const value = Number(exact.value);
    if (exact.value !== "" && value >= 0 && Number.isFinite(value)) store.set({ gamma: value });
  } });
  const preset = (text, title, value) => el("button", { type: "button", title, click: () => store.set({ gamma: value() }) }, text);
  const rule = el("input", { type: "checkbox", change: () => store.set({ rule: rule.checked ? "paper" : "noise" }) });
  const ruleLabel = el("label", { class: "check", title: "The paper's rule: a pair is redundant if its weight is at most γ, whatever its standard error. Roles always take errors into account." }, rule, "ignore noise in H");
  const node = el("div", { class: "gamma" },
    el("label", { class: "grow" }, el("span", {}, "γ: the largest importance that counts as redundant"), slider),
    exact,
    preset("default", "The smaller of 1 % and 15 % / F of what there is to explain in this class or sample alone", () => null),
    preset("as audited", "The gamma at which the audit decided this class or sample", () => explorer.subject.gamma),
    ruleLabel);
  const update = () => {
    const { graph } = explorer;
    if (!graph) return;
    range = rangeOf(graph);
    slider.value = String(toPosition(explorer.gamma, range));
    slider.setAttribute("aria-valuetext", format(explorer.gamma));
    if (document.activeElement !== exact) exact.value = String(Number(explorer.gamma.toPrecision(6)));
    rule.checked = store.state.rule === "paper";
    ruleLabel.hidden = !graph.error;
  };
  return { node, update };
}

const ranges = new WeakMap();

function rangeOf(graph) {
  if (!ranges.has(graph)) {
    let high = 0;
    for (let k = 0; k < graph.size.length; k += 1) high = Math.max(high, Math.abs(graph.size[k]));
    high = high || 1;
    ranges.set(graph, { low: Math.min(graph.defaultGamma || high, high) * 1e-3, high });
  }
  return ranges.get(graph);
}

function toGamma(position, { low, high }) {
  return position === 0 ? 0 : low * (high / low) ** ((position - 1) / (POSITIONS - 1));
}

function toPosition(gamma, { low, high }) {
  if (gamma < low) return gamma > 0 ? 1 : 0;
  return Math.round(1 + ((POSITIONS - 1) * Math.log(gamma / low)) / Math.log(high / low));
}

/**
 * Tabs of the views, what stands beside, the order of features, and export.
 * @param {import("./index.js").Explorer} explorer
 * @param {Object<string, {title: string}>} views
 */
export function buildTabs(explorer, views) {
  const { store } = explorer;
  const names = Object.keys(views);
  const tabs = names.map((name) => el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "main-view", click: () => store.set({ view: name }) }, views[name].title));
  const list = el("div", { class: "tabs", role: "tablist", "aria-label": "Views", keydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = names[(names.indexOf(store.state.view) + step + names.length) % names.length];
    store.set({ view: next });
    tabs[names.indexOf(next)].focus();
  } }, tabs);
  const beside = el("select", { "aria-label": "Second view", change: () => store.set({ beside: beside.value }) });
  const ranking = el("select", { "aria-label": "Order of features", change: () => store.set({ ranking: ranking.value }) });
  const file = () => ["bivshap", explorer.moment.run, explorer.moment.step, explorer.subject.id, store.state.view].join("-").replace(/[^\w.-]+/g, "_");
  const save = el("div", { class: "export", role: "group", "aria-label": "Export what is seen" },
    el("button", { type: "button", click: () => exportPng(file(), explorer.mainView) }, "PNG"),
    el("button", { type: "button", click: () => exportSvg(file(), explorer.mainView) }, "SVG"),
    el("button", { type: "button", click: () => exportCsv(file(), explorer.drawing.rows) }, "CSV"));
  const node = el("div", { class: "bar-of-tabs" }, list, el("label", {}, "order", ranking), el("label", {}, "beside", beside), save);
  const update = () => {
    beside.parentElement.hidden = !explorer.hasRoomBeside;
    tabs.forEach((tab, k) => {
      tab.setAttribute("aria-selected", String(names[k] === store.state.view));
      tab.tabIndex = names[k] === store.state.view ? 0 : -1;
    });
    options(beside, [["", "nothing"], ...names.filter((name) => name !== store.state.view).map((name) => [name, views[name].title])], store.state.beside);
    const known = explorer.graph ? explorer.rankings() : [];
    options(ranking, known, store.state.ranking);
  };
  return { node, update };
}

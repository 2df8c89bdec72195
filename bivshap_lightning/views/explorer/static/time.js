// Features over the epochs of a run, and two epochs or runs side by side with what changed.

import { GROUP_COLOURS, ROLES, el, format, replace, svg, ticks } from "./dom.js";
import { decide } from "./decide.js";
import { shortName, shortenAll, withoutSharedStart } from "./names.js";

const MAX_LINES = 10;
const MAX_CHANGES = 15;
const SURE = 1.96;

/** @param {import("./index.js").Context} context */
export function drawTime(context) {
  const history = el("div", {}, el("p", { class: "note" }, "Reading the records of this run …"));
  const change = el("div", {});
  const rows = [];
  const ready = Promise.all([fillHistory(context, history, rows), fillChange(context, change)]);
  return { node: el("div", {}, el("h3", {}, "Over the run"), history, el("h3", {}, "Two audits side by side"), change), rows, ready };
}

async function fillHistory(context, node, rows) {
  let series;
  try {
    series = await context.source.series({ ...context.moment, last: context.moments.length }, context.subject.id);
  } catch (error) {
    replace(node, el("p", { class: "empty" }, `The run cannot be read: ${error.message}`));
    return;
  }
  const points = series.points.filter((point) => point.importance);
  rows.push(["step", "epoch", "feature", "rank", "importance", "standard_error", "role"]);
  for (const point of points) {
    ranked(point).forEach((player, rank) => rows.push([point.step, point.epoch ?? "", point.names[player], rank + 1, point.importance[player], point.error[player], point.roles[player]]));
  }
  const missing = series.n_missing ? ` ${series.n_missing} audits are left out: their record is gone, damaged, or about other samples.` : "";
  if (points.length < 2) {
    replace(node, el("p", { class: "empty" }, `There is only one audit of ${context.subjectName} so far.${missing}`));
    return;
  }
  const byRank = context.store.state.time !== "importance";
  const button = (name, text) => el("button", { type: "button", "aria-pressed": String(byRank === (name === "rank")), click: () => context.store.set({ time: name }) }, text);
  const note = `Signs are roles at each audit's own default γ; a label at the right shows the last role.${byRank ? " Place 1 has the largest Shapley value." : " Bands are 95 % intervals."}${missing}`;
  replace(node, el("div", { class: "choice", role: "group", "aria-label": "What the lines show" }, button("rank", "Place"), button("importance", "Importance")), chart(context, points, byRank), el("p", { class: "note" }, note));
}

/** Players of a point by importance, the largest first. */
function ranked(point) {
  return point.importance.map((_, player) => player).sort((a, b) => point.importance[b] - point.importance[a] || a - b);
}

function chart(context, points, byRank) {
  const last = points[points.length - 1];
  const names = ranked(last).slice(0, MAX_LINES).map((player) => last.names[player]);
  const chosen = context.selected >= 0 ? context.graph.names[context.selected] : null;
  if (chosen && !names.includes(chosen)) names.push(chosen);
  const short = shortenAll(names, 16);
  const lines = names.map((name, k) => ({ name, short: short[k], at: points.map((point) => valueAt(point, name, byRank)) }));
  const known = lines.flatMap((line) => line.at.filter(Boolean));
  const most = byRank ? Math.max(...known.map((at) => at.y)) : Math.max(...known.map((at) => at.y + at.half), 1e-300);
  const width = Math.max(380, Math.min(context.width, 900));
  const height = byRank ? Math.max(200, 40 + 26 * Math.min(most, 18)) : 340;
  const [left, right, top, bottom] = [54, width - 170, 14, height - 36];
  const x = (k) => left + ((right - left) * k) / (points.length - 1);
  const y = (value) => (byRank ? top + ((value - 1) / Math.max(most - 1, 1)) * (bottom - top) : bottom - (value / most) * (bottom - top));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": byRank ? "Place of features over the run" : "Importance of features over the run" });
  const stride = Math.ceil(points.length / 12);
  points.forEach((point, k) => {
    if (k % stride && k !== points.length - 1) return;
    picture.append(svg("text", { x: x(k), y: height - 14, class: "tick", "text-anchor": "middle" }, point.epoch === null ? `step ${point.step}` : `epoch ${point.epoch}`));
  });
  for (const value of byRank ? [1, Math.ceil(most)] : ticks(0, most, 4)) picture.append(svg("text", { x: left - 14, y: y(value) + 4, class: "tick", "text-anchor": "end" }, byRank ? `${value}.` : format(value)));
  picture.append(svg("line", { x1: x(context.position(points)), x2: x(context.position(points)), y1: top - 6, y2: bottom + 6, class: "now" }));
  spreadLabels(lines.map((line) => ({ line, y: y((line.at[line.at.length - 1] ?? line.at.filter(Boolean).pop()).y) })), 16).forEach(({ line, y: labelY }, k) => {
    picture.append(lineOf(context, line, GROUP_COLOURS[k % GROUP_COLOURS.length], { x, y, byRank, labelX: right + 14, labelY }));
  });
  return picture;
}

function valueAt(point, name, byRank) {
  const player = point.names.indexOf(name);
  if (player < 0) return null;
  const y = byRank ? ranked(point).indexOf(player) + 1 : point.importance[player];
  return { y, half: byRank ? 0 : SURE * point.error[player], role: point.roles[player] };
}

/** Labels at least so far apart, in the order of their lines. */
function spreadLabels(labels, least) {
  labels.sort((a, b) => a.y - b.y);
  for (let k = 1; k < labels.length; k += 1) labels[k].y = Math.max(labels[k].y, labels[k - 1].y + least);
  return labels;
}

function lineOf(context, line, colour, { x, y, byRank, labelX, labelY }) {
  const player = context.graph.names.indexOf(line.name);
  const found = line.at.map((at, k) => (at ? { ...at, k } : null)).filter(Boolean);
  const end = found[found.length - 1];
  const node = svg("g", { class: "series", ...(player >= 0 ? context.mark(player, `${line.name}, last ${end.role}`) : {}) });
  if (!byRank && found.some((at) => at.half)) {
    const upper = found.map((at) => `${x(at.k)},${y(at.y + at.half)}`);
    const lower = found.map((at) => `${x(at.k)},${y(Math.max(0, at.y - at.half))}`).reverse();
    node.append(svg("polygon", { points: [...upper, ...lower].join(" "), style: { fill: colour, opacity: 0.13 } }));
  }
  node.append(svg("polyline", { points: found.map((at) => `${x(at.k)},${y(at.y)}`).join(" "), style: { stroke: colour }, class: "series-line" }));
  found.forEach((at, place) => {
    if (found.length > 14 && place && at.role === found[place - 1].role && at !== end) return;
    node.append(svg("circle", { cx: x(at.k), cy: y(at.y), r: 8, class: "sign-back" }), svg("text", { x: x(at.k), y: y(at.y) + 4.5, "text-anchor": "middle", class: "sign", style: { fill: textColour(colour) } }, ROLES[at.role].sign, svg("title", {}, `${line.name}: ${at.role}`)));
  });
  node.append(svg("text", { x: labelX, y: labelY + 4, class: "label", style: { fill: textColour(colour) } }, `${ROLES[end.role].sign} ${line.short}`));
  return node;
}

/** A colour of a line as a colour of text: nearer to that of all text, so that it can be read on the page. */
function textColour(colour) {
  return `color-mix(in srgb, ${colour} 50%, var(--ink))`;
}

async function fillChange(context, node) {
  const { source, store } = context;
  const runs = await source.runs();
  const [wantedRun, wantedTag, wantedStep] = JSON.parse(store.state.with || "[]");
  const run = runs.includes(wantedRun) ? wantedRun : context.moments.length > 1 ? context.moment.run : runs.find((name) => name !== context.moment.run);
  if (!run) {
    replace(node, el("p", { class: "empty" }, "There is no other audit to compare with."));
    return;
  }
  const moments = await source.steps(run);
  const other = moments.find((m) => m.tag === wantedTag && m.step === wantedStep) ?? moments.find((m) => m.run !== context.moment.run || m.step !== context.moment.step || m.tag !== context.moment.tag);
  const option = (value, text, selected) => el("option", { value, selected }, text);
  const choose = (moment) => store.set({ with: JSON.stringify([moment.run, moment.tag, moment.step]) });
  const brief = withoutSharedStart(runs, ["/"]);
  const runPicker = el("select", { "aria-label": "Run to compare with", change: (event) => store.set({ with: JSON.stringify([event.target.value]) }) }, runs.map((name, k) => option(name, brief[k] || name, name === run)));
  const pickers = el("p", { class: "pickers" }, "Compare with ", runs.length > 1 && runPicker,
    el("select", { "aria-label": "Epoch to compare with", change: (event) => choose(moments[event.target.selectedIndex]) }, moments.map((m, k) => option(k, context.momentName(m), m === other))));
  const content = el("div", {});
  replace(node, pickers, content);
  if (!other) {
    replace(content, el("p", { class: "empty" }, "This run has no other audit."));
    return;
  }
  try {
    const before = await source.graph(other, context.subject.id);
    replace(content, changePicture(context, before, other));
  } catch (error) {
    replace(content, el("p", { class: "empty" }, `That audit cannot be shown: ${error.message}`));
  }
}

/** A change with its standard error; where there is little room, with as many decimals as the largest one needs. */
function changeText({ by, error }, largest) {
  const sign = by >= 0 ? "+" : "−";
  if (largest === null) return `${sign}${Number(Math.abs(by).toPrecision(3))} ± ${Number(error.toPrecision(2))}`;
  const decimals = 1 - Math.floor(Math.log10(largest || 1));
  const brief = (value) => (value === 0 ? "0" : decimals > 3 || largest >= 1e4 ? value.toExponential(0) : value.toFixed(Math.max(0, decimals)));
  return `${sign}${brief(Math.abs(by))} ± ${brief(error)}`;
}

function changePicture(context, before, other) {
  const { graph, decision } = context;
  if (!graph.axis || !before.axis) return el("p", { class: "empty" }, "Without Shapley values there is nothing to compare.");
  const isBefore = other.run === context.moment.run && other.tag === context.moment.tag && other.stage === context.moment.stage && other.step === graph.change?.step;
  const known = isBefore ? graph.change : null;
  const then = decide(before, decision.gamma, context.ignoreErrors);
  const changes = graph.names.flatMap((name, now) => {
    const old = before.names.indexOf(name);
    if (old < 0) return [];
    const [from, to] = [before.shapleySize[old], graph.shapleySize[now]];
    const by = known ? known.values[now] : to - from;
    const error = known ? known.errors[now] : Math.hypot(before.shapleyError[old], graph.shapleyError[now]);
    return [{ now, from, to, by, error, roles: [then.roles[old], decision.roles[now]] }];
  });
  if (!changes.length) return el("p", { class: "empty" }, "The two audits have no feature in common.");
  const shown = [...changes].sort((a, b) => Math.abs(b.by) - Math.abs(a.by)).slice(0, MAX_CHANGES);
  const width = Math.max(330, Math.min(context.width, 920));
  const roomy = width > 640;
  const row = 26;
  const height = 30 + row * shown.length + 30;
  const [left, right] = roomy ? [204, width - 352] : [118, width - 172];
  const roleX = right + (roomy ? 186 : 128);
  const high = Math.max(...shown.map((c) => Math.max(c.from, c.to)), 1e-300);
  const x = (value) => left + (value / high) * (right - left);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "What changed between two audits" });
  for (const value of ticks(0, high, Math.max(1, Math.min(4, (right - left) / 55)))) picture.append(svg("line", { x1: x(value), x2: x(value), y1: 24, y2: height - 26, class: "grid" }), svg("text", { x: x(value), y: height - 8, class: "tick", "text-anchor": "middle" }, format(value)));
  picture.append(svg("text", { x: right + 16, y: 14, class: "tick" }, roomy ? "change ± standard error" : "change ± error"), svg("text", { x: roleX, y: 14, class: "tick" }, "role"));
  shown.forEach((c, k) => {
    const y = 30 + row * (k + 0.5);
    const isSure = Math.abs(c.by) > SURE * c.error;
    const said = `${context.label(c.now)}: ${format(c.from)} then, ${format(c.to)} now, ${isSure ? "beyond noise" : "within noise"}`;
    const [was, is] = c.roles;
    picture.append(svg("g", { class: isSure ? "row" : "row unsure", ...context.mark(c.now, said) }, svg("title", {}, said),
      svg("rect", { x: 0, y: y - row / 2, width, height: row, class: "row-back" }),
      svg("text", { x: left - 14, y: y + 4.5, "text-anchor": "end", class: "label" }, shortName(graph, c.now, roomy ? 22 : 11)),
      svg("line", { x1: x(c.from), x2: x(c.to), y1: y, y2: y, class: "lost" }),
      svg("circle", { cx: x(c.from), cy: y, r: 5, class: "ring" }), svg("circle", { cx: x(c.to), cy: y, r: 5, class: "dot" }),
      svg("text", { x: right + 16, y: y + 4.5, class: "label" }, changeText(c, roomy ? null : Math.abs(shown[0].by))),
      svg("text", { x: roleX, y: y + 4.5, class: "label" }, [was === is ? ROLES[is].sign : `${ROLES[was].sign} → ${ROLES[is].sign}`, roomy ? is : ""].join(" "))));
  });
  const note = `Ring: ${context.momentName(other)}${other.run === context.moment.run ? "" : ` of ${other.run}`}. Dot: ${context.momentName(context.moment)}. Sizes of Shapley values, both at this γ; ${known ? "the error is that of the change: both audits drew the same coalitions" : "the error takes the two audits as independent"}. Faint rows are within noise. ${shown.length} of ${changes.length} features, the largest changes first.`;
  return el("div", {}, picture, el("p", { class: "note" }, note));
}

// The first view: one row per feature, a dot for its Shapley value, a ring for what is left once the others are there.

import { ROLES, el, format, svg, ticks } from "./dom.js";
import { shortName } from "./names.js";

const MAX_ROWS = 30;
const ROW = 26;
const MAX_ARCS = 10;
const ONE_SIDED = 2; // as in the figures

/**
 * @param {import("./index.js").Context} context
 * @returns {import("./index.js").Drawing}
 */
export function drawAxis(context) {
  const { graph, decision, selected } = context;
  if (!graph.axis) {
    return { node: el("p", {}, "The record holds no Shapley values, which this picture needs. See Graph or Matrix."), rows: [] };
  }
  const order = context.order;
  const shown = order.slice(0, order.length > MAX_ROWS ? MAX_ROWS - 1 : MAX_ROWS);
  if (selected >= 0 && !shown.includes(selected)) shown[shown.length - 1] = selected;
  const rest = order.filter((player) => !shown.includes(player));
  const arcs = chosenArcs(context, new Set(shown));
  const width = Math.max(380, Math.min(context.width, 920));
  const narrow = width < 560;
  const longest = Math.max(...shown.map((player) => [...context.label(player)].length), rest.length ? 18 : 0);
  const most = Math.max(13, Math.min(28, Math.floor(width / 24)));
  const left = 36 + 8 * Math.min(longest, most);
  const right = width - (arcs.length ? (narrow ? 70 : 130) : 24);
  const top = 14;
  const bottom = top + ROW * (shown.length + (rest.length ? 1 : 0));
  const place = scaleOf(graph.axis, shown, left + 8, right - 12);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${bottom + 44}`, width, height: bottom + 44, role: "group",
    "aria-label": "One row per feature: Shapley value and what is left of it once the others are present",
  });
  picture.append(...gridLines(place, top, bottom));
  const centres = new Map(shown.map((player, row) => [player, top + ROW * (row + 0.5)]));
  for (const player of shown) picture.append(rowOf(context, player, centres.get(player), place, { left, right, most }));
  if (rest.length) picture.append(restRow(graph.axis, rest, top + ROW * (shown.length + 0.5), place, { left, narrow }));
  picture.append(arcLayer(arcs, centres, right, width - 8));
  const title = `importance (${context.record.configuration.behavior}${graph.axis.kind === "class" ? ", mean size over samples" : ""})`;
  const middle = Math.min((left + right) / 2, width - 3.4 * title.length); // so that it ends inside the picture
  picture.append(svg("text", { x: middle, y: bottom + 38, class: "axis-title", "text-anchor": "middle" }, title));
  return {
    node: el("div", {}, legend(graph.axis, arcs), picture, el("p", { class: "note" }, message(context, arcs))),
    rows: [
      ["feature", "role", "shapley", "late_importance_2R"],
      ...order.map((i) => [context.label(i), decision.roles?.[i] ?? "", graph.axis.shapley[i], graph.axis.late[i]]),
    ],
  };
}

/** The strongest pairs between shown rows; of a selected feature, its own. */
function chosenArcs(context, shown) {
  const { graph, selected } = context;
  let arcs = graph.axis.arcs;
  if (selected >= 0) arcs = strongestOf(graph, selected);
  return arcs.filter(([i, j]) => shown.has(i) && shown.has(j)).slice(0, MAX_ARCS);
}

/** Pair terms of one feature, the largest first: [i, j, C]. Those below 2 % of the largest Shapley value are left out. */
export function strongestOf(graph, player) {
  const least = 0.02 * graph.axis.shapley.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const found = [];
  for (let other = 0; other < graph.n; other += 1) {
    const term = graph.axis.pairs[player * graph.n + other];
    if (other !== player && Math.abs(term) > least) found.push([player, other, term]);
  }
  return found.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
}

function scaleOf(axis, shown, left, right) {
  const values = [0];
  for (const player of shown) {
    values.push(axis.shapley[player], axis.late[player]);
    for (const whiskers of [axis.shapleyWhiskers, axis.lateWhiskers]) {
      if (whiskers) values.push(whiskers[2 * player], whiskers[2 * player + 1]);
    }
  }
  const low = Math.min(...values);
  const high = Math.max(...values);
  const span = high - low || 1;
  const place = (value) => left + Math.min(Math.max((value - low) / span, 0), 1) * (right - left);
  place.low = low;
  place.high = high;
  return place;
}

function gridLines(place, top, bottom) {
  return ticks(place.low, place.high).flatMap((value) => [
    svg("line", { x1: place(value), x2: place(value), y1: top, y2: bottom, class: value === 0 ? "zero" : "grid" }),
    svg("text", { x: place(value), y: bottom + 18, class: "tick", "text-anchor": "middle" }, format(value)),
  ]);
}

function rowOf(context, player, y, place, { left, right, most }) {
  const { axis } = context.graph;
  const role = ROLES[context.decision.roles?.[player]] ?? ROLES.essential;
  const shapley = axis.shapley[player];
  const late = axis.late[player];
  const name = context.label(player);
  const said = `${name}: ${context.decision.roles?.[player] ?? "no role"}, Shapley value ${format(shapley)}, ${format(late)} once the others are present`;
  const row = svg("g", { class: "row", ...context.mark(player, said) });
  row.append(
    svg("title", {}, said),
    svg("rect", { x: 0, y: y - ROW / 2, width: right, height: ROW, class: "row-back" }),
    svg("text", { x: left - 26, y: y + 4.5, "text-anchor": "end", class: "label" }, shortName(context.graph, player, most)),
    svg("text", { x: left - 12, y: y + 4.5, "text-anchor": "middle", class: "sign", style: { fill: role.colour } }, role.sign),
  );
  for (const [whiskers, offset] of [[axis.shapleyWhiskers, -3], [axis.lateWhiskers, 3]]) {
    if (!whiskers) continue;
    row.append(svg("line", { x1: place(whiskers[2 * player]), x2: place(whiskers[2 * player + 1]), y1: y + offset, y2: y + offset, class: "whisker" }));
  }
  row.append(
    svg("line", { x1: place(shapley), x2: place(late), y1: y, y2: y, class: "lost" }),
    svg("circle", { cx: place(shapley), cy: y, r: 5, class: "dot" }),
    svg("circle", { cx: place(late), cy: y, r: 6.2, class: "ring" }),
  );
  return row;
}

/** All other features in one row; their sum is said in numbers where it is beyond the scale. */
function restRow(axis, rest, y, place, { left, narrow }) {
  const name = narrow ? `${rest.length} others` : `${rest.length} more, summed`;
  const [shapley, late] = [sum(axis.shapley, rest), sum(axis.late, rest)];
  if (Math.max(shapley, late) > place.high || Math.min(shapley, late) < place.low) {
    return svg("g", { class: "row rest" },
      svg("text", { x: left - 26, y: y + 4.5, "text-anchor": "end", class: "label" }, name),
      svg("text", { x: left + 8, y: y + 4.5, class: "label" }, narrow ? `dots ${format(shapley)}, rings ${format(late)}` : `${format(shapley)} on average, ${format(late)} once the others are there`));
  }
  return svg("g", { class: "row rest" },
    svg("title", {}, `${rest.length} more features together`),
    svg("text", { x: left - 26, y: y + 4.5, "text-anchor": "end", class: "label" }, name),
    svg("line", { x1: place(shapley), x2: place(late), y1: y, y2: y, class: "lost" }),
    svg("circle", { cx: place(shapley), cy: y, r: 4, class: "dot" }),
    svg("circle", { cx: place(late), cy: y, r: 5, class: "ring" }),
  );
}

function arcLayer(arcs, centres, left, right) {
  const layer = svg("g", {});
  if (!arcs.length) return layer;
  const furthest = Math.max(...arcs.map(([i, j]) => Math.abs(centres.get(i) - centres.get(j))));
  const strongest = Math.max(...arcs.map(([, , term]) => Math.abs(term)));
  for (const [i, j, term] of [...arcs].reverse()) {
    const [y0, y1] = [centres.get(i), centres.get(j)].sort((a, b) => a - b);
    const reach = (right - left - 10) * (0.25 + 0.75 * ((y1 - y0) / furthest) ** 0.8) * (4 / 3);
    layer.append(
      svg("path", {
        d: `M${left} ${y0} C${left + reach} ${y0} ${left + reach} ${y1} ${left} ${y1}`,
        class: term < 0 ? "arc stand-in" : "arc partner", "stroke-width": 1.2 + (3.6 * Math.abs(term)) / strongest,
        "data-players": `${i} ${j}`,
      }, svg("title", {}, `C = ${format(term)}`)),
    );
  }
  for (const player of new Set(arcs.flatMap(([i, j]) => [i, j]))) {
    layer.append(svg("circle", { cx: left, cy: centres.get(player), r: 3, class: "arc-end" }));
  }
  return layer;
}

function legend(axis, arcs) {
  const entries = [
    el("span", {}, el("i", { class: "key dot-key" }), axis.kind === "class" ? "size of the Shapley value, mean over samples" : "importance on average (Shapley value)"),
    el("span", {}, el("i", { class: "key ring-key" }), "what is left once the others are there (2R)"),
  ];
  if (axis.shapleyWhiskers) {
    entries.push(el("span", {}, el("i", { class: "key whisker-key" }), axis.kind === "class" ? "10th to 90th percentile of the samples" : "95 % interval"));
  }
  if (arcs.some(([, , term]) => term < 0)) entries.push(el("span", {}, el("i", { class: "key stand-in-key" }), "replace each other"));
  if (arcs.some(([, , term]) => term > 0)) entries.push(el("span", {}, el("i", { class: "key partner-key" }), "need each other"));
  return el("p", { class: "legend" }, entries);
}

/** The strongest pair in a sentence, with its direction. */
function message(context, arcs) {
  const direction = "Of two substitutes, the one with the larger ring leaves less of the other.";
  if (!arcs.length) return "No pair of these features interacts noticeably: the line between dot and ring is what many small overlaps take away.";
  const [i, j, term] = arcs[0];
  const { late } = context.graph.axis;
  const [first, second] = Math.abs(late[i]) >= Math.abs(late[j]) ? [i, j] : [j, i];
  const alike = Math.abs(late[first]) <= ONE_SIDED * Math.abs(late[second]);
  if (alike && term < 0) return `Strongest pair: ${context.label(i)} and ${context.label(j)} replace each other. ${direction}`;
  if (term > 0) return `Strongest pair: ${context.label(i)} and ${context.label(j)} need each other. ${direction}`;
  return `Strongest pair: ${context.label(first)} replaces ${context.label(second)} more than the reverse. ${direction}`;
}

function sum(values, players) {
  return players.reduce((total, player) => total + values[player], 0);
}

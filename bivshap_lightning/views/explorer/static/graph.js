// Two graphs side by side: the quotient of H, with a box for every group, and G, with the strongest importances.

import { GROUP_COLOURS, ROLES, count, el, format, listing, svg } from "./dom.js";
import { alikePlayers, quotient } from "./decide.js";
import { shortName } from "./names.js";

const MAX_BOXES = 28;
const MIN_ALIKE = 3;
const MAX_ALL = 24;
const MAX_NODES = 20;
const MAX_EDGES = 40;
const CHARACTER = 8.4; // widest mean width of a character of a label, in pixels
const LABEL_GAP = 20;
const LINE = 15;
const LEAST_SCALE = 0.8; // of H on narrow pages, which scroll instead of shrinking it further

/** Features that were drawn in G first, by run and subject: they keep their places when the epoch changes. */
const places = new Map();

/** @param {import("./index.js").Context} context */
export function drawGraph(context) {
  const width = context.width > 1050 ? context.width / 2 - 12 : context.width;
  const h = drawQuotient(context, width);
  const g = drawImportances(context, width);
  /** @type {import("./index.js").Row[]} */
  const rows = [["from", "to", "importance_of_to_given_from", "standard_error", "redundant"]];
  const { graph, decision } = context;
  const answers = ["no", "yes", "undecided"];
  for (const [i, j] of g.pairs) {
    const k = i * graph.n + j;
    rows.push([context.label(i), context.label(j), graph.weights[k], graph.error?.[k] ?? 0, answers[decision.redundant[k]]]);
  }
  return { node: el("div", { class: "pair" }, h, g.node), rows };
}

function drawQuotient(context, width) {
  const { decision } = context;
  const degree = new Map(decision.components.map((members) => [members, decision.links[members[0]]]));
  const alike = new Set(alikePlayers(decision, MIN_ALIKE));
  const merged = new Set([...alike].flat());
  const linked = [...alike, ...decision.components.filter((members) => members.length > 1 || (degree.get(members) > 0 && !merged.has(members[0])))];
  for (const players of alike) degree.set(players, players.length);
  linked.sort((a, b) => b.length - a.length || degree.get(b) - degree.get(a) || a[0] - b[0]);
  let shown = linked.slice(0, MAX_BOXES);
  const chosen = context.selected >= 0 && linked.find((members) => members.includes(context.selected));
  if (chosen && !shown.includes(chosen)) shown = [...shown.slice(0, -1), chosen];
  shown = [...shown].sort((a, b) => a[0] - b[0]);
  const title = el("h3", {}, "H: what makes what redundant");
  const nAlone = decision.components.filter((members) => members.length === 1 && degree.get(members) === 0).length;
  const notes = [`An arrow a → b says: once a is present, b adds at most γ. A box holds features that make each other redundant.`];
  if (shown.some((members) => isWeak(context, members))) notes.push("Dashed: features that are irrelevant or may be, which add at most γ whatever is present.");
  if (shown.some((members) => alike.has(members))) notes.push("A box with “each of” holds features that have the same arrows, and none among them.");
  if (linked.length > shown.length) notes.push(`${linked.length - shown.length} smaller boxes are left out.`);
  if (nAlone) notes.push(`${count(nAlone, "feature")} without such a pair ${nAlone === 1 ? "is" : "are"} not drawn.`);
  if (!shown.length) {
    const open = decision.nUndecided ? ` is shown to make another redundant, and ${count(decision.nUndecided, "pair")} ${decision.nUndecided === 1 ? "is" : "are"} undecided.` : " makes another redundant.";
    const none = `At γ = ${format(decision.gamma)} no feature${open} Move γ to the right to see what is nearly redundant.`;
    return el("figure", {}, title, el("p", { class: "empty" }, none));
  }
  const { edges, layers } = quotient(decision, shown);
  const boxes = layOut(context, shown, layers, width, alike);
  const scaled = boxes.width * Math.min(1, Math.max(LEAST_SCALE, width / boxes.width));
  const picture = svg("svg", { viewBox: `0 0 ${boxes.width} ${boxes.height}`, width: scaled, height: scaled * (boxes.height / boxes.width), style: { minWidth: `${scaled}px` }, class: "zoomable", role: "group", "aria-label": "Quotient of the redundancy graph" });
  picture.append(arrowHead("h-arrow"));
  for (const [i, j] of edges) picture.append(arrowBetween(boxes, layers, [i, j], shown[i], shown[j]));
  shown.forEach((members, k) => picture.append(boxOf(context, members, boxes.of[k], alike.has(members))));
  return el("figure", {}, title, panZoom(picture), el("figcaption", {}, notes.join(" ")));
}

/** Whether a group or feature of H is there for its weakness: irrelevant, or in a group with no interchangeable member. */
function isWeak({ decision }, members) {
  const weak = members.length > 1 ? ["irrelevant", "undecided"] : ["irrelevant"];
  return decision.roles !== null && members.every((player) => weak.includes(decision.roles[player])) && decision.component[members[0]] === decision.component[members[members.length - 1]];
}

/** Boxes in columns by layer, sources at the left; within a column in the order of the features, whatever the epoch. */
function layOut(context, shown, layers, width, alike) {
  const columns = [];
  layers.forEach((layer, k) => (columns[layer] ??= []).push(k));
  const boxWidth = Math.max(96, Math.min(190, (width - 16) / columns.length - 36));
  const most = Math.floor((boxWidth - 16) / CHARACTER);
  const of = [];
  let x = 8;
  let height = 0;
  for (const column of columns) {
    let y = 8;
    for (const k of column) {
      const lines = linesOf(context, shown[k], most);
      if (alike.has(shown[k])) lines.unshift(`each of ${shown[k].length}:`);
      of[k] = { x, y, width: boxWidth, height: 12 + 16 * lines.length, lines };
      y += of[k].height + 14;
    }
    height = Math.max(height, y);
    x += boxWidth + 52;
  }
  for (const column of columns) { // columns are centred against each other
    const last = of[column[column.length - 1]];
    const shift = (height - 14 - (last.y + last.height)) / 2;
    for (const k of column) of[k].y += Math.max(0, shift);
  }
  return { of, columns, width: x - 44, height };
}

function linesOf(context, members, most) {
  const lines = members.slice(0, members.length > 4 ? 3 : 4).map((player) => shortName(context.graph, player, most));
  if (members.length > 4) lines.push(`and ${members.length - 3} more`);
  return lines;
}

function boxOf(context, members, box, isEach) {
  const isGroup = members.length > 1 && !isEach;
  const number = context.decision.groups.indexOf(members);
  const role = ROLES[context.decision.roles?.[members[0]]] ?? ROLES.essential;
  const isIrrelevant = isWeak(context, members);
  const colour = isIrrelevant ? ROLES.irrelevant.colour : isGroup ? GROUP_COLOURS[number % GROUP_COLOURS.length] : role.colour;
  const names = listing(members.map(context.label), 12);
  const first = isEach ? 1 : 0;
  const said = isEach ? `Each of ${names}` : isGroup ? `Group of ${members.length}: ${names}` : names;
  const node = svg("g", { class: "box", ...context.mark(members[0], said, members) });
  node.append(
    svg("title", {}, said),
    svg("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 7, class: "sign-back" }),
    svg("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 7, style: { stroke: colour, fill: colour }, class: isIrrelevant ? "box-back irrelevant" : isGroup ? "box-back group" : "box-back" }),
    ...box.lines.map((line, k) => svg("text", { x: box.x + 8, y: box.y + 17 + 16 * k, class: "label", "data-players": k >= first && k < Math.min(members.length, members.length > 4 ? 3 : 4) + first ? members[k - first] : null }, line)),
  );
  return node;
}

/** An arrow from the right of a box to the left of another; in the columns between, it passes where there is no box. */
function arrowBetween({ of, columns }, layers, [i, j], source, target) {
  const [from, to] = [of[i], of[j]];
  let [x, y] = [from.x + from.width, from.y + from.height / 2];
  const end = { x: to.x - 5, y: to.y + to.height / 2 };
  let path = `M${x} ${y}`;
  const goTo = (nextX, nextY) => {
    const bend = Math.max(24, (nextX - x) / 2);
    path += ` C${x + bend} ${y} ${nextX - bend} ${nextY} ${nextX} ${nextY}`;
    [x, y] = [nextX, nextY];
  };
  for (let layer = layers[i] + 1; layer < layers[j]; layer += 1) {
    const boxes = columns[layer].map((k) => of[k]);
    const straight = y + ((end.y - y) * (boxes[0].x + boxes[0].width / 2 - x)) / (end.x - x);
    const gaps = [boxes[0].y - 6, ...boxes.map((box) => box.y + box.height + 6)];
    const free = gaps.reduce((best, gap) => (Math.abs(gap - straight) < Math.abs(best - straight) ? gap : best));
    const isFree = free > straight ? straight < boxes[0].y - 6 : straight > gaps[gaps.length - 1];
    goTo(boxes[0].x, isFree ? straight : free);
    x += boxes[0].width;
    path += ` H${x}`;
  }
  goTo(end.x, end.y);
  return svg("path", {
    d: path, class: "edge h-edge", "marker-end": "url(#h-arrow)",
    "data-players": [...source.slice(0, 40), ...target.slice(0, 40)].join(" "), "data-edge": true,
  });
}

function drawImportances(context, width) {
  const { graph, selected } = context;
  const shown = nodesOf(context);
  const pairs = strongestPairs(graph, shown, selected);
  const size = Math.max(320, Math.min(width, 620));
  const most = size < 450 ? 11 : size < 560 ? 14 : 16;
  const longest = Math.max(...shown.map((player) => Math.min(most, [...context.label(player)].length)));
  const radius = size / 2 - LABEL_GAP - 8 - CHARACTER * longest;
  const [centre, middle] = [size / 2, radius + 36];
  const at = new Map(shown.map((player, k) => {
    const angle = (2 * Math.PI * k) / shown.length - Math.PI / 2;
    return [player, { x: centre + radius * Math.cos(angle), y: middle + radius * Math.sin(angle), angle, most }];
  }));
  const top = placeLabels([...at.values()], centre, middle, radius + LABEL_GAP);
  const height = 2 * (middle - top);
  const picture = svg("svg", { viewBox: `0 ${top} ${size} ${height}`, width: size, height, class: "zoomable", role: "group", "aria-label": "Explanation graph G" });
  picture.append(arrowHead("g-arrow"), arrowHead("g-arrow-negative"));
  const strongest = Math.max(...pairs.map(([i, j]) => Math.abs(graph.weights[i * graph.n + j])), 1e-300);
  for (const [i, j] of [...pairs].reverse()) {
    const weight = graph.weights[i * graph.n + j];
    picture.append(chord(at.get(i), at.get(j), weight, strongest, { x: centre, y: middle }, `${i} ${j}`, `${context.label(j)} given ${context.label(i)}: ${format(weight)}`));
  }
  const largest = graph.axis ? Math.max(...shown.map((player) => Math.abs(graph.axis.shapley[player])), 1e-300) : 1;
  for (const player of shown) picture.append(nodeOf(context, player, at.get(player), largest));
  const about = shown.length < graph.n ? ` ${shown.length} of ${graph.n} features: the most important ones when this was opened, so that epochs can be compared.` : "";
  const again = shown.length < graph.n && el("button", { type: "button", click: () => { places.delete(placeKey(context)); context.redraw(); } }, "Choose them again for this epoch");
  const caption = `An arrow a → b is the importance of b once a is present: the wider, the more${selected >= 0 ? `; all of ${context.label(selected)}` : ""}. Orange: positive, blue and dashed: negative. Larger discs: larger Shapley values.${about} `;
  return { pairs, node: el("figure", {}, el("h3", {}, "G: what is important once what is there"), panZoom(picture), el("figcaption", {}, caption, again)) };
}

/** Labels at the sides of a circle, at least a line apart: above the middle they move up, below it down. Returns the top. */
function placeLabels(nodes, centre, middle, reach) {
  let furthest = reach;
  for (const side of [1, -1]) {
    const ofSide = nodes.filter((node) => (node.x - centre >= -0.5) === (side > 0));
    for (const half of [1, -1]) {
      let next = -Infinity;
      const ofHalf = ofSide.filter((node) => (node.y >= middle) === (half > 0)).sort((a, b) => half * (a.y - b.y));
      for (const node of ofHalf) {
        const away = Math.max(Math.abs(reach * Math.sin(node.angle)), next);
        next = away + LINE;
        furthest = Math.max(furthest, away);
        const across = Math.sqrt(Math.max(0, reach * reach - away * away));
        Object.assign(node, { side, labelX: centre + side * Math.max(across, Math.abs(node.x - centre) * 0.5 + 4), labelY: middle + half * away });
      }
    }
  }
  return middle - furthest - 16;
}

function placeKey(context) {
  return `${context.moment.run} ${context.subject.id}`;
}

/** Nodes of G in the order of the features: all of few, otherwise the first ones that were seen, and the selected. */
function nodesOf(context) {
  const { graph } = context;
  if (graph.n <= MAX_ALL) return Array.from({ length: graph.n }, (_, player) => player);
  const key = placeKey(context);
  if (!places.has(key)) places.set(key, context.order.slice(0, MAX_NODES).map((player) => graph.names[player]));
  const known = new Set(places.get(key));
  const shown = graph.names.flatMap((name, player) => (known.has(name) || player === context.selected ? [player] : []));
  return shown.length > 1 ? shown : context.order.slice(0, MAX_NODES).sort((a, b) => a - b);
}

function strongestPairs(graph, shown, selected) {
  const pairs = [];
  for (const i of shown) {
    for (const j of shown) {
      if (i !== j && (selected < 0 || !shown.includes(selected) || i === selected || j === selected)) pairs.push([i, j]);
    }
  }
  /** @param {number[]} pair */
  const size = ([i, j]) => Math.abs(graph.weights[i * graph.n + j]);
  return pairs.filter((pair) => size(pair) > 0).sort((a, b) => size(b) - size(a)).slice(0, MAX_EDGES);
}

function chord(from, to, weight, strongest, centre, players, said) {
  // Bent towards the centre and to one side, so that a → b and b → a stay apart.
  const mx = (from.x + to.x) / 2;
  const my = (from.y + to.y) / 2;
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const cx = mx + (centre.x - mx) * 0.35 - dy * 0.12;
  const cy = my + (centre.y - my) * 0.35 + dx * 0.12;
  const length = Math.hypot(to.x - cx, to.y - cy) || 1;
  const end = { x: to.x - ((to.x - cx) / length) * 15, y: to.y - ((to.y - cy) / length) * 15 };
  const share = Math.abs(weight) / strongest;
  return svg("path", {
    d: `M${from.x} ${from.y} Q${cx} ${cy} ${end.x} ${end.y}`, class: weight < 0 ? "edge g-edge negative" : "edge g-edge",
    "stroke-width": 0.6 + 3.8 * share, "marker-end": weight < 0 ? "url(#g-arrow-negative)" : "url(#g-arrow)",
    style: { opacity: 0.25 + 0.65 * share }, "data-players": players, "data-edge": true,
  }, svg("title", {}, said));
}

function nodeOf(context, player, place, largest) {
  const role = ROLES[context.decision.roles?.[player]] ?? ROLES.essential;
  const name = context.label(player);
  const said = `${name}${context.decision.roles ? `: ${context.decision.roles[player]}` : ""}`;
  const importance = context.graph.axis ? Math.abs(context.graph.axis.shapley[player]) / largest : 0.5;
  return svg("g", { class: "node", ...context.mark(player, said) },
    svg("title", {}, said),
    svg("circle", { cx: place.x, cy: place.y, r: 5 + 7 * importance, class: "disc", style: { stroke: role.colour, fill: role.colour } }),
    svg("text", { x: place.labelX, y: place.labelY + 4, "text-anchor": place.side > 0 ? "start" : "end", class: "label" }, shortName(context.graph, player, place.most)),
  );
}

function arrowHead(id) {
  return svg("defs", {}, svg("marker", { id, viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M0 0 L8 4 L0 8 Z", class: `head ${id}` })));
}

/** A picture that the wheel with Ctrl, dragging, the keys + - 0 and buttons zoom and move. */
function panZoom(picture) {
  const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
  let view = { x: 0, y: 0, width, height };
  const show = () => picture.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
  const zoom = (factor, cx = view.x + view.width / 2, cy = view.y + view.height / 2) => {
    const next = Math.min(Math.max(view.width * factor, width / 12), width * 1.5);
    const share = next / view.width;
    view = { x: cx - (cx - view.x) * share, y: cy - (cy - view.y) * share, width: next, height: view.height * share };
    show();
  };
  const reset = () => { view = { x: 0, y: 0, width, height }; show(); };
  picture.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = picture.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, view.x + ((event.clientX - box.left) / box.width) * view.width, view.y + ((event.clientY - box.top) / box.height) * view.height);
  }, { passive: false });
  let start = null;
  picture.addEventListener("pointerdown", (event) => {
    if (event.target.closest("[data-player]")) return;
    start = { x: event.clientX, y: event.clientY, view };
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener("pointermove", (event) => {
    if (!start) return;
    const scale = view.width / picture.getBoundingClientRect().width;
    view = { ...view, x: start.view.x - (event.clientX - start.x) * scale, y: start.view.y - (event.clientY - start.y) * scale };
    show();
  });
  picture.addEventListener("pointerup", () => (start = null));
  picture.addEventListener("keydown", (event) => {
    const action = { "+": () => zoom(1 / 1.25), "-": () => zoom(1.25), 0: reset }[event.key];
    if (action) { event.preventDefault(); action(); }
  });
  const button = (sign, label, action) => el("button", { type: "button", "aria-label": label, title: label, click: action }, sign);
  return el("div", { class: "zoom" }, el("div", { class: "zoom-buttons" },
    button("+", "Zoom in", () => zoom(1 / 1.25)), button("−", "Zoom out", () => zoom(1.25)), button("⤢", "Show all", reset)), picture);
}

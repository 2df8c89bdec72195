// What gamma decides in words: counts of roles and groups, and everything about the selected feature.

import { ROLES, count, el, format, roleMark } from "./dom.js";
import { strongestOf } from "./axis.js";

const MAX_NAMES = 12;

/**
 * The counts that change with gamma.
 * @param {import("./index.js").Context} context
 */
export function summaryOf(context) {
  const { decision, graph } = context;
  const fact = (name, value, words, title) => el("span", { class: "fact", title, "data-count": name, "data-value": value }, el("b", {}, value), ` ${words}`);
  const roles = Object.keys(ROLES).flatMap((role) => {
    const n = decision.roles?.filter((found) => found === role).length ?? 0;
    return n ? [el("span", { class: "fact", "data-count": role, "data-value": n, title: ROLES[role].words }, el("b", { style: { color: ROLES[role].colour } }, `${ROLES[role].sign} ${n}`), ` ${role}`)] : [];
  });
  return el("div", { class: "summary", role: "group", "aria-label": "What this gamma decides" },
    roles,
    fact("groups", decision.groups.length, decision.groups.length === 1 ? "group in H" : "groups in H", "features that make each other redundant, whether or not they matter"),
    fact("redundant-pairs", decision.nRedundant, `redundant pairs of ${(graph.n * (graph.n - 1)).toLocaleString("en")}`),
    graph.error ? fact("undecided-pairs", decision.nUndecided, "undecided pairs") : null,
    fact("sources", decision.sources.length, decision.sources.length === 1 ? "source" : "sources", "features that make others redundant, and that none makes redundant"),
    fact("sinks", decision.sinks.length, decision.sinks.length === 1 ? "sink" : "sinks", "features that others make redundant, and that make none redundant"));
}

/** What the panel says about the selected feature, or about the groups if none is selected. */
export function drawDetails(context) {
  return context.selected >= 0 ? aboutPlayer(context) : aboutGroups(context);
}

function aboutGroups(context) {
  const { decision } = context;
  const groups = decision.roles ? decision.roleGroups : decision.groups;
  const intro = groups.length
    ? "Groups of interchangeable features: they matter, and any one of a group will do."
    : "No features are interchangeable at this γ.";
  return [
    el("h3", {}, "Click a feature to ask about it"),
    el("p", {}, intro),
    groups.slice(0, 8).map((members) => el("p", { class: "group-line" }, names(context, members, " = "))),
    groups.length > 8 ? el("p", { class: "note" }, `and ${groups.length - 8} more groups`) : null,
    el("ul", { class: "roles" }, Object.entries(ROLES).map(([role, { words }]) => el("li", {}, roleMark(role), `: ${words}`))),
  ];
}

function aboutPlayer(context) {
  const { graph, decision, selected } = context;
  const n = graph.n;
  const makes = [];
  const isMadeBy = [];
  for (let other = 0; other < n; other += 1) {
    if (decision.redundant[selected * n + other] === 1) makes.push(other);
    if (decision.redundant[other * n + selected] === 1) isMadeBy.push(other);
  }
  const parts = [el("h3", {}, broken(context.label(selected)), " ", el("button", { type: "button", class: "quiet", click: () => context.select(selected) }, "let go"))];
  if (decision.roles) parts.push(el("p", {}, roleMark(decision.roles[selected]), `: ${ROLES[decision.roles[selected]].words}.`));
  if (graph.axis) {
    const rank = context.order.indexOf(selected) + 1;
    parts.push(el("p", {}, `Shapley value ${format(graph.axis.shapley[selected])}`, graph.shapleyError?.[selected] ? ` ± ${format(graph.shapleyError[selected])}` : "",
      `, ${format(graph.axis.late[selected])} once the others are present. Place ${rank} of ${n}.`));
  }
  parts.push(list(context, "Makes redundant", makes), list(context, "Is made redundant by", isMadeBy));
  if (graph.axis) {
    const terms = strongestOf(graph, selected);
    parts.push(
      list(context, "Strongest substitutes", terms.filter(([, , term]) => term < 0).slice(0, 5).map(([, other]) => other)),
      list(context, "Strongest partners", terms.filter(([, , term]) => term > 0).slice(0, 5).map(([, other]) => other)),
    );
  }
  return parts;
}

function list(context, title, players) {
  const said = players.length ? names(context, players, ", ") : ["none"];
  return el("p", {}, el("b", {}, `${title}${players.length > 1 ? ` (${count(players.length, "feature")})` : ""}: `), said);
}

/** A name that may break after the signs that join its words. */
function broken(name) {
  return name.split(/(?<=[_/.])/).flatMap((part) => [part, el("wbr", {})]);
}

/** Names as buttons that select. */
function names(context, players, between) {
  const shown = players.slice(0, MAX_NAMES);
  const found = shown.flatMap((player, k) => [
    el("span", { class: "one" },
      el("button", { type: "button", class: "name", "data-players": player, click: () => context.select(player) }, broken(context.label(player))),
      k < shown.length - 1 ? between.trimEnd() : ""),
    " ",
  ]);
  return players.length > shown.length ? [...found, ` and ${players.length - shown.length} more`] : found;
}

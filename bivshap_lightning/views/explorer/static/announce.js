// What a screen reader hears when the picture changes.

import { count, el, format } from "./dom.js";

const PAUSE = 400; // milliseconds after the last change: a slider that moves is not read out on its way

/** A hidden line that says what has changed: of several statements, those that are not as they were. */
export function buildAnnouncer() {
  const node = el("p", { class: "unseen", role: "status", "aria-live": "polite" });
  let said = {};
  let timer = 0;
  const update = (statements) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      const changed = Object.keys(statements).filter((key) => statements[key] && statements[key] !== said[key]);
      said = statements;
      if (changed.length) node.textContent = changed.map((key) => statements[key]).join(" ");
    }, PAUSE);
  };
  return { node, update };
}

/**
 * What is shown, in sentences.
 * @param {import("./index.js").Context} context
 * @param {string} title of the view
 */
export function statementsOf(context, title) {
  const { decision, moment, selected } = context;
  const roles = new Map();
  for (const role of decision.roles ?? []) roles.set(role, (roles.get(role) ?? 0) + 1);
  const decided = [...[...roles].map(([role, n]) => `${n} ${role}`), count(decision.groups.length, "group"), `${count(decision.nRedundant, "redundant pair")}`];
  return {
    moment: `Run ${moment.run}, ${context.momentName(moment)}.`,
    title: `${title}.`,
    gamma: `At gamma ${format(decision.gamma)}: ${decided.join(", ")}.`,
    selected: selected < 0 ? "No feature is selected." : `${context.label(selected)} is selected${decision.roles ? `: ${decision.roles[selected]}` : ""}.`,
  };
}

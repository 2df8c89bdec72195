// The explorer: reads a run, an epoch and a class or sample, decides at gamma, and draws the chosen views.
// TensorBoard calls `render`; the HTML page calls `renderEmbedded`.

import { closest, el, replace } from "./dom.js";
import { decide } from "./decide.js";
import { EmbeddedSource, TensorBoardSource } from "./source.js";
import { Store, readAddress, writeAddress } from "./state.js";
import { buildAnnouncer, statementsOf } from "./announce.js";
import { drawAxis } from "./axis.js";
import { drawDetails, summaryOf } from "./details.js";
import { drawGraph } from "./graph.js";
import { drawMatrix } from "./matrix.js";
import { drawInput } from "./input.js";
import { drawTime } from "./time.js";
import { drawNumbers } from "./numbers.js";
import { buildControls, buildGamma, buildTabs } from "./controls.js";
import { followDarkMode } from "./dark.js";

const VIEWS = {
  axis: { title: "Axis", draw: drawAxis },
  graph: { title: "Graph", draw: drawGraph },
  matrix: { title: "Matrix", draw: drawMatrix },
  input: { title: "On the input", draw: drawInput },
  time: { title: "Over time", draw: drawTime },
  numbers: { title: "Numbers", draw: drawNumbers },
};
const RANKINGS = { size: "size of the Shapley value", keep: "best to keep first", remove: "most damaging removal first", pagerank: "PageRank" };
const REFRESH = 20_000;
const DEFAULTS = { run: null, tag: null, step: null, subject: null, gamma: null, rule: "noise", view: "axis", beside: null, selected: null, ranking: "size", with: "", matrix: "E2", time: "rank" };

/**
 * What a view draws from.
 * @typedef {Object} Context
 * @property {import("./source.js").Graph} graph
 * @property {import("./decide.js").Decision} decision
 * @property {any} record description of the record
 * @property {import("./state.js").Store} store
 * @property {any} source
 * @property {any} moment the step that is shown
 * @property {any[]} moments all steps of the run
 * @property {any} subject the class or sample
 * @property {string} subjectName
 * @property {boolean} ignoreErrors whether edges are decided as in the paper
 * @property {number} largest absolute Shapley value
 * @property {(which: any) => string} momentName
 * @property {(points: any[]) => number} position of the step among points
 * @property {() => void} redraw
 * @property {number[]} order features in the chosen order
 * @property {number} selected the selected feature, -1 for none
 * @property {number} width room in pixels
 * @property {(player: number) => string} label
 * @property {(player: number) => void} select selects, or lets go
 * @property {(players: number[]) => void} hover
 * @property {((players: number[]) => void)[]} onHover called when features are hovered anywhere
 * @property {(player: number, said: string, players?: number[]) => Object} mark attributes that link an element to features
 *
 * What a view returns: its element, and the rows of its CSV file.
 * @typedef {Array<string|number>} Row
 * @typedef {{node: HTMLElement, rows: Row[], ready?: Promise<any>}} Drawing
 */

/** One explorer inside one element. */
export class Explorer {
  /**
   * @param {HTMLElement} root
   * @param {TensorBoardSource|EmbeddedSource} source
   * @param {string} tab what the address calls the place of the explorer
   */
  constructor(root, source, tab) {
    this.root = root;
    this.source = source;
    this.tab = tab;
    this.runs = [];
    this.moments = [];
    this.moment = this.record = this.graph = this.decision = this.drawing = null;
    this.hoverListeners = [];
    this.store = new Store({ ...DEFAULTS, ...readAddress() });
    if (!VIEWS[this.store.state.view]) this.store.state.view = "axis";
    this.build();
    this.store.subscribe((changed) => this.update(changed));
  }

  build() {
    this.controls = buildControls(this);
    this.gammaControl = buildGamma(this);
    this.tabs = buildTabs(this, VIEWS);
    this.message = el("div", { class: "message", role: "status" });
    this.announcer = buildAnnouncer();
    this.summary = el("div", {});
    this.mainView = el("section", { class: "view", id: "main-view", role: "tabpanel" });
    this.besideView = el("section", { class: "view" });
    this.details = el("aside", { class: "details", "aria-label": "Selected feature" });
    this.views = el("div", { class: "views" }, this.mainView, this.besideView, this.details);
    this.body = el("div", {}, this.gammaControl.node, this.summary, this.tabs.node, this.views);
    replace(this.root, this.announcer.node, this.controls.node, this.message, this.body);
    this.link();
    new ResizeObserver(() => {
      if (this.graph && Math.abs(this.root.clientWidth - (this.drawnWidth ?? 0)) > 8) this.draw();
    }).observe(this.root);
  }

  /** Hover, click and keys on every element that is linked to features, in all views at once. */
  link() {
    const playersOf = (event) => {
      const found = closest(event, "[data-players]");
      return found ? found.dataset.players.split(" ").map(Number) : [];
    };
    for (const name of ["pointerover", "focusin"]) this.root.addEventListener(name, (event) => {
      if (closest(event, "[data-players]")) this.hover(playersOf(event));
    });
    for (const name of ["pointerout", "focusout"]) this.root.addEventListener(name, (event) => {
      if (closest(event, "[data-players]")) this.hover([]);
    });
    const choose = (event) => {
      const found = closest(event, "[data-player]");
      if (found) this.select(Number(found.dataset.player));
    };
    this.root.addEventListener("click", choose);
    this.root.addEventListener("keydown", (event) => {
      if ((event.key === "Enter" || event.key === " ") && closest(event, "[data-player]") === event.target) {
        event.preventDefault();
        choose(event);
      } else if (event.key === "Escape" && this.store.state.selected) this.store.set({ selected: null });
    });
  }

  /** Reads what there is, and shows the chosen or the last audit. */
  async start() {
    this.say("Reading the runs …");
    await this.guard(async () => {
      this.runs = await this.source.runs();
      if (!this.runs.length) {
        this.say("No audits were found in these logs.", "Add BivShapCallback() to the Trainer's callbacks, with a TensorBoardLogger and write_record=True. Each audit then appears here. Logs of other projects are not changed or needed.");
        return;
      }
      const run = this.runs.includes(this.store.state.run) ? this.store.state.run : this.source.latest;
      this.store.state.run = run;
      await this.openRun();
    });
  }

  /** Looks for audits that a running training has added; what is shown stays. */
  async refresh() {
    if (document.hidden) return;
    if (!this.moment) {
      await this.start();
      return;
    }
    const { run } = this.moment;
    const [runs, moments] = await Promise.all([this.source.runs(), this.source.steps(run)]);
    if (run !== this.moment.run || (moments.length === this.moments.length && runs.length === this.runs.length)) return;
    this.runs = runs;
    this.moments = moments;
    this.moment = moments.find((m) => m.step === this.moment.step && m.tag === this.moment.tag) ?? this.moment;
    this.controls.update();
  }

  async openRun() {
    const { run, tag, step } = this.store.state;
    const token = (this.token = {});
    const moments = await this.source.steps(run);
    if (token !== this.token) return;
    this.moments = moments;
    const chosen = moments.find((m) => m.step === step && (m.tag === tag || !tag)) ?? moments[moments.length - 1];
    if (!chosen) {
      this.say(`Run ${run} has no audits.`);
      return;
    }
    await this.openMoment(chosen);
  }

  async openMoment(moment) {
    const token = (this.token = {});
    this.moment = moment;
    Object.assign(this.store.state, { tag: moment.tag, step: moment.step });
    this.controls.update();
    const record = await this.source.record(moment);
    if (token !== this.token) return;
    this.record = record;
    const here = record.subjects.filter((subject) => subject.is_here !== false);
    if (!here.some((subject) => subject.id === this.store.state.subject)) {
      this.store.state.subject = (here[0].kind === "class" && !here.some((subject) => subject.text) ? here[0] : here[here.length - 1]).id; // of texts and pictures the clearest sample
    }
    await this.openSubject();
  }

  async openSubject() {
    const token = (this.token = {});
    const { subject } = this.store.state;
    const graph = await this.source.graph(this.moment, subject);
    if (token !== this.token) return;
    this.graph = graph;
    this.subject = this.record.subjects.find((entry) => entry.id === subject);
    if (!this.rankings().some(([name]) => name === this.store.state.ranking)) this.store.state.ranking = this.rankings()[0][0];
    if (this.store.state.beside === null) this.store.state.beside = graph.picture || graph.words ? "input" : "graph";
    this.say("");
    this.controls.update();
    this.redecide();
  }

  /** Runs something that reads; a failure is shown, and the controls stay. */
  async guard(read) {
    try {
      await read();
    } catch (error) {
      this.say("This audit cannot be shown.", error.message);
    }
  }

  /** What a change of the state needs: reading, deciding, or only drawing. */
  update(changed) {
    if (changed.has("run")) this.guard(() => this.openRun());
    else if (changed.has("subject")) this.guard(() => this.openSubject());
    else if (!this.graph) return;
    else if (changed.has("gamma") || changed.has("rule")) {
      cancelAnimationFrame(this.frame);
      this.frame = requestAnimationFrame(() => this.redecide());
    } else this.draw();
  }

  chooseMoment(position) {
    const moment = this.moments[position];
    if (moment && moment !== this.moment) this.guard(() => this.openMoment(moment));
  }

  get gamma() {
    const { gamma } = this.store.state;
    return gamma === null || gamma === undefined || !(gamma >= 0) ? this.graph.defaultGamma : gamma;
  }

  redecide() {
    this.decision = decide(this.graph, this.gamma, this.store.state.rule === "paper");
    this.draw();
  }

  get hasRoomBeside() {
    return this.root.clientWidth >= 1150;
  }

  draw() {
    this.gammaControl.update();
    this.tabs.update();
    this.hoverListeners = [];
    this.drawnWidth = this.root.clientWidth;
    const state = this.store.state;
    const beside = this.hasRoomBeside && VIEWS[state.beside] && state.beside !== state.view ? state.beside : null;
    this.views.className = beside ? "views two" : "views";
    this.besideView.hidden = !beside;
    replace(this.summary, summaryOf(this.context(0)));
    this.drawing = VIEWS[state.view].draw(this.context(this.mainView.clientWidth - 26));
    this.mainView.setAttribute("aria-labelledby", `tab-${state.view}`);
    this.redrawInto(this.mainView, el("h2", {}, this.titleOf(state.view)), this.drawing.node);
    if (beside) this.besideView.setAttribute("aria-label", `Beside: ${VIEWS[beside].title}`);
    if (beside) this.redrawInto(this.besideView, el("h2", {}, VIEWS[beside].title), VIEWS[beside].draw(this.context(this.besideView.clientWidth - 26)).node);
    this.redrawInto(this.details, drawDetails(this.context(0)));
    this.announcer.update(statementsOf(this.context(0), this.titleOf(state.view)));
    this.hover([]);
    clearTimeout(this.addressTimer); // browsers limit how often an address may change
    this.addressTimer = setTimeout(() => writeAddress(this.store.state, this.tab), 200);
  }

  /** Replaces a view; what had the focus, a feature or a control, gets it again, or else the view. */
  redrawInto(view, ...children) {
    const key = (node) => node.getAttribute("data-player") ?? node.getAttribute("aria-label") ?? node.textContent;
    const wanted = view.contains(document.activeElement) ? key(document.activeElement) : null;
    replace(view, ...children);
    if (wanted === null) return;
    view.tabIndex = -1;
    view.focus({ preventScroll: true });
    const again = () => document.activeElement === view && [...view.querySelectorAll("[data-player], button, select")].find((node) => key(node) === wanted)?.focus();
    again();
    if (view === this.mainView) this.drawing.ready?.then(again); // views that read first
  }

  titleOf(view) {
    if (view === "numbers") return "What the audit measured";
    return view === "axis" ? `What ${this.subjectName} leans on` : `${VIEWS[view].title}: ${this.subjectName}`;
  }

  get subjectName() {
    const isValue = this.record.configuration.task === "regression";
    if (this.subject.kind === "class") return `${isValue ? "the output" : "class"} “${this.subject.name}”`;
    if (isValue) return `the output “${this.subject.target}” for sample ${this.subject.name}`;
    return `the decision “${this.subject.target}” for sample ${this.subject.name}`;
  }

  /** @returns {Context} */
  context(width) {
    const { graph, decision, record, store, source, moment, moments, subject } = this;
    const shapley = graph.axis?.shapley;
    return {
      graph, decision, record, store, source, moment, moments, subject, width: Math.max(width, 280), // also before the style sheet is there
      subjectName: this.subjectName,
      ignoreErrors: store.state.rule === "paper",
      order: this.order(),
      largest: shapley ? shapley.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-300) : 1,
      selected: store.state.selected === null ? -1 : graph.names.indexOf(store.state.selected),
      label: (player) => this.label(player),
      momentName: (which) => this.momentName(which),
      position: (points) => Math.max(0, points.findIndex((point) => point.step === moment.step)),
      select: (player) => this.select(player),
      hover: (players) => this.hover(players),
      redraw: () => this.draw(),
      onHover: this.hoverListeners,
      mark: (player, said, players = [player]) => ({
        "data-player": player, "data-players": players.join(" "), tabindex: 0, role: "button", "aria-label": said,
        "aria-pressed": String(players.some((one) => graph.names[one] === store.state.selected)),
      }),
    };
  }

  label(player) {
    return this.graph.names[player];
  }

  /** Features in the chosen order; by size unless another ranking is chosen. */
  order() {
    const { graph } = this;
    const ranking = this.store.state.ranking;
    if (ranking !== "size") return graph.orders[ranking];
    const { shapley, late } = graph.axis;
    return Array.from({ length: graph.n }, (_, i) => i).sort((a, b) => Math.abs(shapley[b]) - Math.abs(shapley[a]) || Math.abs(late[b]) - Math.abs(late[a]) || a - b);
  }

  rankings() {
    return Object.entries(RANKINGS).filter(([name]) => (name === "size" ? this.graph.axis : this.graph.orders[name]));
  }

  momentName({ epoch, step, stage }) {
    return [epoch === null || epoch === undefined ? null : `epoch ${epoch}`, `step ${step}`, stage || null].filter(Boolean).join(", ");
  }

  select(player) {
    const name = this.graph.names[player];
    this.store.set({ selected: this.store.state.selected === name ? null : name });
  }

  search(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted || !this.graph) return this.hover([]);
    const exact = this.graph.names.findIndex((name) => name.toLowerCase() === wanted);
    const found = this.graph.names.flatMap((name, player) => (name.toLowerCase().includes(wanted) ? [player] : []));
    if (exact >= 0) this.store.set({ selected: this.graph.names[exact] });
    else if (found.length === 1) this.store.set({ selected: this.graph.names[found[0]] });
    return this.hover(found);
  }

  /** Highlights features in all views. */
  hover(players) {
    const chosen = new Set(players);
    const { selected } = this.store.state;
    this.root.classList.toggle("is-hovering", chosen.size > 0);
    for (const node of /** @type {NodeListOf<HTMLElement>} */ (this.root.querySelectorAll("[data-players]"))) {
      const own = node.dataset.players.split(" ").map(Number);
      const meets = "edge" in node.dataset && chosen.size > 1 ? own.every((one) => chosen.has(one)) : own.some((one) => chosen.has(one));
      node.classList.toggle("is-hovered", meets);
      node.classList.toggle("is-selected", selected !== null && own.some((one) => this.graph?.names[one] === selected));
    }
    for (const listener of this.hoverListeners) listener(players);
  }

  /** Shows a message instead of the views; an empty one shows the views. */
  say(title, hint = "") {
    replace(this.message, title ? [el("h2", {}, title), hint ? el("p", {}, hint) : null] : []);
    this.message.hidden = !title;
    this.body.hidden = Boolean(title);
  }
}

/** TensorBoard's entry point. */
export async function render() {
  const style = el("link", { rel: "stylesheet", href: "./style.css" });
  const root = el("div", {});
  const page = el("main", { class: "bivshap-explorer", lang: "en" }, el("h1", { class: "unseen" }, "Bivariate Shapley audits"), root);
  document.head.append(style);
  document.documentElement.lang = "en";
  document.body.replaceChildren(page);
  followDarkMode(page);
  const explorer = new Explorer(root, new TensorBoardSource(), "bivshap");
  await new Promise((resolve) => {
    style.addEventListener("load", resolve);
    style.addEventListener("error", resolve);
  });
  await explorer.start();
  setInterval(() => explorer.refresh().catch(() => {}), REFRESH); // a server that was stopped is asked again
}

/** The HTML page's entry point: data and place are elements of the page. */
export async function renderEmbedded() {
  const root = document.getElementById("bivshap-explorer");
  const data = document.getElementById("bivshap-data");
  if (!root || !data) return;
  root.hidden = false;
  const unfold = () => document.getElementById(window.location.hash.slice(1))?.querySelector(":scope > details")?.setAttribute("open", "");
  window.addEventListener("hashchange", unfold); // links to sections of the page open them
  unfold();
  await new Explorer(root, new EmbeddedSource(JSON.parse(data.textContent)), "explore").start();
}

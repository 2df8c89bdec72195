// Where the explorer reads from: TensorBoard's plugin routes, or data embedded in an HTML page.

/**
 * @typedef {Object} Graph
 * @property {number} n number of players
 * @property {string[]} names
 * @property {string[]|null} words
 * @property {number|null} nGraphs samples of a mean graph
 * @property {Float32Array|Float64Array} weights n * n: importance of j once i is present, signed
 * @property {Float32Array|Float64Array} size what gamma is compared with: of a mean graph the mean absolute weights
 * @property {Float32Array|Float64Array|null} error standard errors; null if the weights are exact
 * @property {Float32Array|Float64Array|null} shapley
 * @property {Float32Array|Float64Array|null} shapleySize
 * @property {Float32Array|Float64Array|null} shapleyError
 * @property {{step: number, values: Float32Array|Float64Array, errors: Float32Array|Float64Array}|null} change of shapleySize
 *   since the audit at that step, if the record knows it
 * @property {Float32Array|Float64Array|null} lateSize
 * @property {Float32Array|Float64Array|null} lateError
 * @property {boolean} isExact whether neither weights nor Shapley values have an error
 * @property {number} defaultGamma
 * @property {Object<string, number>} quantiles
 * @property {Object<string, number[]>} orders players by each ranking
 * @property {{kind: string, shapley: Float64Array, late: Float64Array, shapleyWhiskers: Float64Array|null,
 *   lateWhiskers: Float64Array|null, pairs: Float32Array, arcs: number[][]}|null} axis
 * @property {{pixels: Uint8Array, segments: Int32Array, height: number, width: number, channels: number}|null} picture
 *
 * @typedef {{run: string, tag: string, step: number, stage: string, epoch: number|null}} Moment
 */

const ARRAY_TYPES = { float32: Float32Array, float64: Float64Array, uint8: Uint8Array, int32: Int32Array };
const MAGIC = "BVSG";
const MAX_KEPT = 12;

/**
 * Reads one graph from the bytes that payload.py writes.
 * @param {ArrayBuffer} buffer
 * @returns {Graph}
 */
export function parseGraph(buffer) {
  const start = new Uint8Array(buffer, 0, 4);
  if (String.fromCharCode(...start) !== MAGIC) throw new Error("These bytes are no graph.");
  const length = new DataView(buffer).getUint32(4, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const read = (name) => {
    const place = header.arrays[name];
    if (!place) return null;
    const size = place.shape.reduce((product, part) => product * part, 1);
    return new ARRAY_TYPES[place.dtype](buffer, 8 + length + place.offset, size);
  };
  const weights = read("weights");
  const error = read("standard_error");
  const shapleyError = read("shapley_error");
  const segments = header.arrays.segments;
  return {
    n: header.names.length,
    names: header.names,
    words: header.words,
    nGraphs: header.n_graphs ?? null,
    weights,
    size: read("absolute_weights") ?? weights,
    error,
    shapley: read("shapley"),
    shapleySize: read("shapley_size"),
    shapleyError,
    change: typeof header.changed_since === "number" ? { step: header.changed_since, values: read("size_change"), errors: read("size_change_error") } : null,
    lateSize: read("late_size"),
    lateError: read("late_error"),
    isExact: !error && !(shapleyError ?? []).some((value) => value > 0),
    defaultGamma: header.default_gamma ?? 1e-5,
    quantiles: header.quantiles,
    orders: header.orders,
    axis: header.axis_kind && {
      kind: header.axis_kind,
      shapley: read("axis_shapley"),
      late: read("axis_late"),
      shapleyWhiskers: read("axis_shapley_whiskers"),
      lateWhiskers: read("axis_late_whiskers"),
      pairs: read("pairs"),
      arcs: header.arcs,
    },
    picture: segments
      ? {
          pixels: read("image"),
          segments: read("segments"),
          height: segments.shape[0],
          width: segments.shape[1],
          channels: header.arrays.image.shape.length === 3 ? 3 : 1,
        }
      : null,
  };
}

/** Reads through the routes of the TensorBoard plugin. The last graphs and records are kept. */
export class TensorBoardSource {
  constructor() {
    this.kept = new Map();
    this.latest = null;
  }

  async runs() {
    const { runs } = await this.ask("runs", {});
    this.latest = runs.reduce((last, entry) => (!last || entry.last_time > last.last_time ? entry : last), null)?.run;
    return runs.map((entry) => entry.run);
  }

  /** @returns {Promise<Moment[]>} */
  async steps(run) {
    const { steps } = await this.ask("index", { run });
    return steps.map(({ tag, step, stage, epoch }) => ({ run, tag, step, stage, epoch }));
  }

  record(moment) {
    return this.keep("record", { run: moment.run, tag: moment.tag, step: moment.step });
  }

  /** @returns {Promise<Graph>} */
  graph(moment, subject) {
    return this.keep("graph", { run: moment.run, tag: moment.tag, step: moment.step, subject });
  }

  series(moment, subject) {
    return this.keep("series", { run: moment.run, tag: moment.tag, subject, upto: moment.last });
  }

  keep(route, query) {
    const key = `${route} ${JSON.stringify(query)}`;
    if (!this.kept.has(key)) {
      const answer = this.ask(route, query);
      answer.catch(() => this.kept.delete(key));
      this.kept.set(key, answer);
      if (this.kept.size > MAX_KEPT) this.kept.delete(this.kept.keys().next().value);
    }
    return this.kept.get(key);
  }

  async ask(route, query) {
    const response = await fetch(`./${route}?${new URLSearchParams(query)}`);
    if (!response.ok) {
      const said = await response.json().catch(() => ({ error: response.statusText }));
      throw new Error(said.error);
    }
    return route === "graph" ? parseGraph(await response.arrayBuffer()) : response.json();
  }
}

/** Reads what an HTML page holds: records with their descriptions, and graphs as compressed bytes in base64. */
export class EmbeddedSource {
  constructor(data) {
    this.records = data.records;
    this.kept = new Map();
    this.latest = data.records[0]?.run;
  }

  async runs() {
    return this.records.map((record) => record.run);
  }

  async steps(run) {
    return this.records.filter((record) => record.run === run).map(({ moment }) => ({ run, ...moment }));
  }

  async record(moment) {
    return this.find(moment).description;
  }

  async graph(moment, subject) {
    const key = `${moment.run} ${subject}`;
    if (!this.kept.has(key)) this.kept.set(key, this.unpack(this.find(moment).graphs[subject]));
    return this.kept.get(key);
  }

  async series(moment, subject) {
    const points = this.records
      .filter((record) => record.points[subject])
      .map((record) => ({ ...record.points[subject], step: record.moment.step, epoch: record.moment.epoch }));
    return { points: points.reverse(), n_missing: 0, n_steps: points.length };
  }

  find(moment) {
    return this.records.find((record) => record.run === moment.run);
  }

  async unpack(text) {
    if (!text) throw new Error("This page does not hold that graph. The record does.");
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return parseGraph(await new Response(stream).arrayBuffer());
  }
}

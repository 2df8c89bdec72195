// What gamma decides: redundant pairs, groups, sources and sinks of H, and the role of every feature.
//
// The same comparisons in the same arithmetic as bivshap_lightning.graph (threshold.py, redundancy_graph.py, roles.py),
// so the answers are those of Python. W[i * n + j] is the importance of j once i is present, so a small entry says that
// i makes j redundant.

/**
 * @typedef {import("./source.js").Graph} Graph
 * @typedef {Object} Decision
 * @property {number} gamma
 * @property {Uint8Array} redundant n * n: 1 where i makes j redundant, 2 where the noise leaves it open
 * @property {number} nRedundant
 * @property {number} nUndecided
 * @property {number} density redundant pairs / ordered pairs
 * @property {Int32Array} component the smallest member of each player's strongly connected component
 * @property {number[][]} components the largest first, then by smallest member
 * @property {number[][]} groups components of two or more
 * @property {Int32Array} links by the smallest member of a component: edges between it and other components
 * @property {number[]} sources players of components that make others redundant and are not made so
 * @property {number[]} sinks players of components that are made redundant and make none so
 * @property {string[]|null} roles one per player; null without Shapley values
 * @property {number[][]} roleGroups interchangeable players
 */

const REDUNDANT = 1;
const UNDECIDED = 2;

/**
 * Decides everything at one gamma.
 * @param {Graph} graph
 * @param {number} gamma
 * @param {boolean} ignoreErrors whether weights count as exact, as in the paper
 * @returns {Decision}
 */
export function decide(graph, gamma, ignoreErrors = false) {
  const n = graph.n;
  const redundant = redundantPairs(graph, gamma, ignoreErrors);
  let nRedundant = 0;
  let nUndecided = 0;
  for (let k = 0; k < redundant.length; k += 1) {
    if (redundant[k] === REDUNDANT) nRedundant += 1;
    else if (redundant[k] === UNDECIDED) nUndecided += 1;
  }
  const component = strongComponents(redundant, n);
  const components = membersOf(component);
  const roles = graph.shapleySize ? rolesOf(graph, gamma) : { roles: null, groups: [] };
  return {
    gamma,
    redundant,
    nRedundant,
    nUndecided,
    density: nRedundant / Math.max(n * (n - 1), 1),
    component,
    components,
    groups: components.filter((members) => members.length > 1),
    ...linksBetween(redundant, component, n),
    roles: roles.roles,
    roleGroups: roles.groups,
  };
}

function redundantPairs(graph, gamma, ignoreErrors) {
  const { n, size, error } = graph;
  const found = new Uint8Array(n * n);
  const z = graph.quantiles.edge;
  if (!error || ignoreErrors) {
    for (let k = 0; k < found.length; k += 1) found[k] = Math.abs(size[k]) <= gamma ? REDUNDANT : 0;
  } else {
    for (let k = 0; k < found.length; k += 1) {
      const magnitude = Math.abs(size[k]);
      const half = z * error[k];
      if (magnitude + half <= gamma) found[k] = REDUNDANT;
      else if (magnitude - half <= gamma) found[k] = UNDECIDED;
    }
  }
  for (let i = 0; i < n; i += 1) found[i * n + i] = 0;
  return found;
}

/**
 * Strongly connected components by Tarjan's algorithm without recursion; edges are entries equal to 1.
 * @param {Uint8Array} edges n * n
 * @param {number} n
 * @returns {Int32Array} the smallest member of each player's component
 */
export function strongComponents(edges, n) {
  const index = new Int32Array(n).fill(-1);
  const low = new Int32Array(n);
  const next = new Int32Array(n);
  const onStack = new Uint8Array(n);
  const component = new Int32Array(n);
  const stack = [];
  const calls = [];
  let counter = 0;
  for (let root = 0; root < n; root += 1) {
    if (index[root] >= 0) continue;
    calls.push(root);
    while (calls.length) {
      const node = calls[calls.length - 1];
      if (index[node] < 0) {
        index[node] = low[node] = counter;
        counter += 1;
        stack.push(node);
        onStack[node] = 1;
      }
      let child = -1;
      const row = node * n;
      let k = next[node];
      for (; k < n; k += 1) {
        if (edges[row + k] !== 1) continue;
        if (index[k] < 0) {
          child = k;
          break;
        }
        if (onStack[k] && low[k] < low[node]) low[node] = low[k];
      }
      next[node] = k; // a child is looked at again after it returned
      if (child >= 0) {
        calls.push(child);
        continue;
      }
      calls.pop();
      if (low[node] === index[node]) {
        const members = [];
        let member;
        do {
          member = stack.pop();
          onStack[member] = 0;
          members.push(member);
        } while (member !== node);
        const smallest = members.reduce((least, other) => Math.min(least, other));
        for (const one of members) component[one] = smallest;
      } else if (calls.length) {
        const parent = calls[calls.length - 1];
        if (low[node] < low[parent]) low[parent] = low[node];
      }
    }
  }
  return component;
}

/** Members of each component: the largest first, then by smallest member; members ascending. */
export function membersOf(component) {
  const members = new Map();
  component.forEach((smallest, player) => {
    if (!members.has(smallest)) members.set(smallest, []);
    members.get(smallest).push(player);
  });
  return [...members.values()].sort((a, b) => b.length - a.length || a[0] - b[0]);
}

/** How many edges join each component with others, and which players have them in one direction only. */
function linksBetween(edges, component, n) {
  const isLeft = new Uint8Array(n);
  const isEntered = new Uint8Array(n);
  const links = new Int32Array(n);
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < n; j += 1) {
      if (edges[i * n + j] === 1 && component[i] !== component[j]) {
        isLeft[component[i]] = 1;
        isEntered[component[j]] = 1;
        links[component[i]] += 1;
        links[component[j]] += 1;
      }
    }
  }
  const sources = [];
  const sinks = [];
  for (let i = 0; i < n; i += 1) {
    const left = isLeft[component[i]];
    const entered = isEntered[component[i]];
    if (left && !entered) sources.push(i);
    if (entered && !left) sinks.push(i);
  }
  return { links, sources, sinks };
}

/** Roles at gamma: decided with as few and with as many edges as the noise allows; undecided where the two differ. */
function rolesOf(graph, gamma) {
  const n = graph.n;
  const relevance = relevantPlayers(graph, gamma);
  const isExact = graph.isExact;
  const z = graph.quantiles.edge;
  const smallest = new Float64Array(n);
  const largest = new Float64Array(n);
  for (let i = 0; i < n; i += 1) {
    const late = graph.lateSize[i];
    const half = isExact ? 0 : z * graph.lateError[i];
    smallest[i] = Math.min(gamma, Math.max(late - half, 0) / 2);
    largest[i] = Math.min(gamma, (late + half) / 2);
  }
  const fewest = rolesOfEdges(graph, relevance.certain, smallest, isExact ? 0 : z);
  if (isExact) return { roles: fewest.roles, groups: fewest.groups };
  const most = rolesOfEdges(graph, relevance.possible, largest, -z);
  return {
    roles: fewest.roles.map((role, i) => (role === most.roles[i] ? role : "undecided")),
    groups: fewest.groups,
  };
}

function relevantPlayers(graph, gamma) {
  const { n, size, error, shapleySize, shapleyError, quantiles } = graph;
  const certain = new Uint8Array(n);
  const possible = new Uint8Array(n);
  if (graph.isExact) {
    for (let i = 0; i < n; i += 1) certain[i] = shapleySize[i] > 2 * gamma ? 1 : 0;
    for (let j = 0; j < n; j += 1) {
      for (let i = 0; i < n; i += 1) if (Math.abs(size[j * n + i]) > gamma) certain[i] = 1;
    }
    return { certain, possible: certain };
  }
  for (let i = 0; i < n; i += 1) {
    possible[i] = shapleySize[i] + quantiles.edge * shapleyError[i] <= 2 * gamma ? 0 : 1;
    certain[i] = shapleySize[i] - quantiles.relevant_player * shapleyError[i] > 2 * gamma ? 1 : 0;
  }
  for (let j = 0; j < n; j += 1) {
    for (let i = 0; i < n; i += 1) {
      const magnitude = Math.abs(size[j * n + i]);
      const noise = error ? error[j * n + i] : 0;
      if (!(magnitude + quantiles.edge * noise <= gamma)) possible[i] = 1;
      if (magnitude - quantiles.relevant_pair * noise > gamma) certain[i] = 1;
    }
  }
  return { certain, possible };
}

/** Roles if j makes i redundant where |W[j, i]| + z * error is at most the bound of i, and both are relevant. */
function rolesOfEdges(graph, isRelevant, bound, z) {
  const { n, size, error } = graph;
  const edges = new Uint8Array(n * n);
  const isMadeRedundant = new Uint8Array(n);
  for (let j = 0; j < n; j += 1) {
    if (!isRelevant[j]) continue;
    for (let i = 0; i < n; i += 1) {
      if (i === j || !isRelevant[i]) continue;
      const k = j * n + i;
      if (Math.abs(size[k]) + (error ? z * error[k] : 0) <= bound[i]) {
        edges[k] = 1;
        isMadeRedundant[i] = 1;
      }
    }
  }
  const component = strongComponents(edges, n);
  const groups = membersOf(component).filter((members) => members.length > 1);
  const isGrouped = new Uint8Array(n);
  for (const group of groups) for (const player of group) isGrouped[player] = 1;
  const roles = [];
  for (let i = 0; i < n; i += 1) {
    if (!isRelevant[i]) roles.push("irrelevant");
    else if (isGrouped[i]) roles.push("interchangeable");
    else roles.push(isMadeRedundant[i] ? "redundant" : "essential");
  }
  return { roles, groups };
}

/**
 * Single players that make the same others redundant and are made so by the same: a drawing shows them as one.
 * There are no edges among them, because no player has an edge to itself.
 * @param {Decision} decision
 * @param {number} least how many there must be
 * @returns {number[][]}
 */
export function alikePlayers(decision, least) {
  const n = decision.component.length;
  const [out, into] = [new Float64Array(n), new Float64Array(n)];
  // Each player has a random number; sums of them over neighbours tell sets apart.
  let seed = 1;
  const mark = Float64Array.from({ length: n }, () => (seed = (seed * 48271) % 2147483647));
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < n; j += 1) {
      if (decision.redundant[i * n + j] !== 1) continue;
      out[i] += mark[j];
      into[j] += mark[i];
    }
  }
  const found = new Map();
  for (const [player, ...others] of decision.components) {
    const key = `${out[player]} ${into[player]}`;
    if (others.length || key === "0 0") continue;
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(player);
  }
  return [...found.values()].filter((players) => players.length >= least);
}

/**
 * The condensation of H between some components, without edges that a longer path implies.
 * @param {Decision} decision
 * @param {number[][]} shown components; the others are left out
 * @returns {{edges: number[][], layers: number[]}} pairs of positions in `shown`, and the layer of each
 */
export function quotient(decision, shown) {
  const n = decision.component.length;
  const place = new Int32Array(n).fill(-1);
  shown.forEach((members, position) => members.forEach((player) => (place[player] = position)));
  const m = shown.length;
  const reaches = Array.from({ length: m }, () => new Uint8Array(m));
  for (let i = 0; i < n; i += 1) {
    if (place[i] < 0) continue;
    for (let j = 0; j < n; j += 1) {
      if (decision.redundant[i * n + j] === 1 && place[j] >= 0 && place[j] !== place[i]) reaches[place[i]][place[j]] = 1;
    }
  }
  const direct = reaches.map((row) => row.slice());
  for (let k = 0; k < m; k += 1) {
    for (let i = 0; i < m; i += 1) {
      if (reaches[i][k]) for (let j = 0; j < m; j += 1) if (reaches[k][j]) reaches[i][j] = 1;
    }
  }
  const edges = [];
  for (let i = 0; i < m; i += 1) {
    for (let j = 0; j < m; j += 1) {
      if (!direct[i][j]) continue;
      let implied = false;
      for (let k = 0; k < m && !implied; k += 1) implied = k !== i && k !== j && reaches[i][k] === 1 && reaches[k][j] === 1;
      if (!implied) edges.push([i, j]);
    }
  }
  // The layer is the length of the longest path from a source; components form no cycles.
  const layers = new Array(m).fill(0);
  for (let round = 0; round < m; round += 1) {
    let changed = false;
    for (const [i, j] of edges) {
      if (layers[j] <= layers[i]) {
        layers[j] = layers[i] + 1;
        changed = true;
      }
    }
    if (!changed) break;
  }
  return { edges, layers };
}

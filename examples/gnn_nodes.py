"""A graph network explained by bivariate Shapley values: first its nodes, then its edges are the players.

A network learns on a random graph whether any neighbour of a node is marked. Where two neighbours are marked, either of
them is enough: each is redundant once the other is there, and so are the edges that lead to them. A marked node
elsewhere in the graph plays no part. GNNExplainer, which looks for few edges that are enough, prefers one of the two
and cannot say that the other would do. Needs PyTorch Geometric: `pip install bivshap-lightning[gnn]`.
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.nn import GraphConv
from torch_geometric.utils import erdos_renyi_graph

from bivshap_lightning import BivariateShapley, ExplanationGraph
from bivshap_lightning.views import draw_graphs, render_png

N_NODES = 40


class Neighbours(nn.Module):
    """Whether any neighbour is marked: scores (nodes, 2) of one graph, or of several that share no node."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = GraphConv(1, 16)
        self.layers = nn.Sequential(nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        return self.layers(self.convolution(x, edge_index, edge_weight))


def copies_of(edges: Tensor, n: int) -> Tensor:
    """The edges of n copies of the graph side by side."""
    shift = N_NODES * torch.arange(n).repeat_interleave(edges.shape[1])
    return edges.repeat(1, n) + shift


def train(edges: Tensor, generator: torch.Generator) -> Neighbours:
    model = Neighbours()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(300):
        marks = (torch.rand(16 * N_NODES, 1, generator=generator) < 0.15).float()
        source, target = copies_of(edges, 16)
        labels = torch.zeros(len(marks)).index_add(0, target, marks[source, 0]).gt(0).long()
        loss = nn.functional.cross_entropy(model(marks, torch.stack([source, target])), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def tell(kind: str, names: list[str], explainer: BivariateShapley, inputs: Tensor) -> ExplanationGraph:
    """Print which players count, and which stand in for one another; the graph."""
    graph = explainer.attribute(inputs, target=1).graph(0, names=names)
    print(f"\n{kind} as players")
    for k in graph.shapley.argsort()[::-1]:
        if abs(graph.shapley[k]) > 0.01:
            print(f"  {names[k]:<12} Shapley value {graph.shapley[k]:.2f}")
    # Players of no importance are redundant whatever is present; the groups that matter are of the others.
    for group in graph.redundancy(gamma=0.02).groups:
        important = [names[k] for k in group if graph.shapley[k] > 0.1]
        if len(important) > 1:
            print(f"  {' and '.join(important)} stand in for one another")
    return graph


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("gnn_nodes"), help="folder of the picture")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    edges = erdos_renyi_graph(N_NODES, 0.1)
    model = train(edges, generator)

    node = int(torch.bincount(edges[1]).argmax())
    incoming = (edges[1] == node).nonzero()[:, 0]
    neighbours = edges[0, incoming].tolist()
    elsewhere = next(k for k in range(N_NODES) if k not in [*neighbours, node])
    marks = torch.zeros(1, N_NODES)
    marks[0, [*neighbours[:2], elsewhere]] = 1
    print(f"Node {node} has {len(neighbours)} neighbours, of which {neighbours[0]} and {neighbours[1]} are marked.")
    print(f"Node {elsewhere}, which is none of them, is marked too.")

    def by_nodes(x: Tensor) -> Tensor:
        """Scores of the node for graphs with other marks (N, nodes)."""
        scores = model(x.reshape(-1, 1), copies_of(edges, len(x)))
        return scores.view(len(x), N_NODES, 2)[:, node]

    def by_edges(weights: Tensor) -> Tensor:
        """Scores of the node for graphs with other weights of its incoming edges (N, incoming edges)."""
        every = torch.ones(len(weights), edges.shape[1])
        every[:, incoming] = weights
        x = marks.repeat(len(weights), 1).reshape(-1, 1)
        return model(x, copies_of(edges, len(weights)), every.flatten()).view(len(weights), N_NODES, 2)[:, node]

    tell("Nodes", [f"node {k}" for k in range(N_NODES)], BivariateShapley(by_nodes), marks)
    names = [f"{k} -> {node}" for k in neighbours]
    graph = tell("Edges", names, BivariateShapley(by_edges), torch.ones(1, len(incoming)))
    figure = draw_graphs(graph, graph.redundancy(gamma=0.02), title=f"Which edges decide about node {node}")
    (folder / "gnn_nodes.png").write_bytes(render_png(figure)[0])

    explainer = Explainer(
        model,
        algorithm=GNNExplainer(epochs=100),
        explanation_type="model",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )
    importance = explainer(marks.T, edges, index=node).edge_mask[incoming]
    print("\nGNNExplainer's importance of the same edges")
    for k in importance.argsort(descending=True)[:4].tolist():
        print(f"  {names[k]:<12} {importance[k]:.2f}")
    print(f"\nThe picture: {folder / 'gnn_nodes.png'}")


if __name__ == "__main__":
    main()

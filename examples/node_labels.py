"""Which edges make a node what it is? Labels on the nodes of one graph, and their explanation.

python examples/node_labels.py            # a minute
python examples/node_labels.py --fast     # some seconds, to see that it runs
"""

import argparse

import networkx as nx
import torch

import gsat
from gsat.draw import draw_explanation
from gsat.graphs import from_networkx

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--fast", action="store_true", help="few epochs: the answers mean nothing")
parser.add_argument("--out", default="node.svg", help="the picture (.svg, .png or .pdf)")
arguments = parser.parse_args()
torch.set_num_threads(1)  # the graph is small

# One graph: houses on a base. What is predicted is each node's place (base, middle, bottom, roof).
# The split is over nodes: messages flow through the whole graph, the loss is taken on some nodes.
data = gsat.load_dataset("ba-shapes", seed=0)
print(data)

model = gsat.GSAT(gsat.GIN.for_data(data, hidden=64, layers=3, seed=0), seed=0)
run = gsat.fit(model, data, seed=0, epochs=5 if arguments.fast else 200)
print(f"accuracy on test nodes: {run.test['accuracy']:.3f}")
print(f"explanation AUC, test nodes in houses: {run.test['explanation_auc']:.3f}")
everywhere = gsat.evaluate(model, data.split("all"))
print(f"explanation AUC, all nodes in houses: {everywhere['explanation_auc']:.3f}")

# One pass scores every edge of the graph; each node is then explained within what it can see: as
# many hops as the network has layers.
explained = model.explain(data.store[0])
roof = int((data.store[0].node_y == 3).nonzero()[0, 0])
one = explained.of_node(roof)
print(f"node {roof} sees {one.num_nodes} nodes; predicted class {int(one.prediction)}, best edges:")
best = one.top(6)  # numbers of the whole graph are in node_id
for source, target in best.node_id[best.edge_index].T.tolist():
    if source < target:
        print(f"  {source} – {target}")
draw_explanation(one, arguments.out, top=6, class_names=data.store.meta["classes"])
print(f"picture: {arguments.out}")

# A graph of your own: the attribute `x` on nodes, `weight` on edges if messages differ in strength.
own = nx.karate_club_graph()
nx.set_node_attributes(own, [1.0], "x")
print(f"a graph of your own: {from_networkx([own])}")
answers = model.predict(from_networkx([own]))
print(f"predicted classes of its nodes: {answers.labels.tolist()}")

"""Ask a running service for predictions and explanations, with the standard library alone.

gsat serve runs/mols                                                  # in another terminal
python examples/serve_client.py mols --smiles "CCO" "c1ccccc1N"       # molecules
python examples/serve_client.py motifs --graph graph.json             # or a graph of your own
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("run", help="the name of a run, as GET /api/runs lists it")
parser.add_argument("--url", default="http://127.0.0.1:8000", help="where the service is")
parser.add_argument("--smiles", nargs="+", help="molecules")
parser.add_argument("--graph", type=argparse.FileType(), help="a file with a graph as JSON")
parser.add_argument("--top", type=int, default=5, help="how many edges to print")
arguments = parser.parse_args()

if arguments.smiles:
    question = {"smiles": arguments.smiles}
elif arguments.graph:
    question = {"graph": json.load(arguments.graph)}
else:
    # A triangle with a tail, for a network that takes ten numbers per node.
    edges = [[0, 1], [1, 2], [2, 0], [2, 3]]
    both = edges + [[v, u] for u, v in edges]  # each direction is an edge of its own
    question = {"graph": {"edges": both, "x": [[0.1] * 10] * 4}}

request = urllib.request.Request(
    f"{arguments.url}/api/runs/{arguments.run}/explanations",
    data=json.dumps(question).encode(),
    headers={"Content-Type": "application/json"},
)
# A service that others can reach asks for a token.
if os.environ.get("GSAT_TOKEN"):
    request.add_header("Authorization", f"Bearer {os.environ['GSAT_TOKEN']}")

try:
    with urllib.request.urlopen(request, timeout=60) as answer:
        results = json.load(answer)["results"]
except urllib.error.HTTPError as problem:
    # Errors are JSON, too: what was needed and what came.
    sys.exit(f"{problem.code}: {json.load(problem)['error']}")

for number, result in enumerate(results):
    if "error" in result:  # one of several could not be used
        print(f"{number}: {result['error']}")
        continue
    print(f"{number}: {result['answer']}; {result['message']}")
    best = sorted(result["edges"], key=lambda edge: -edge["score"])[: arguments.top]
    for edge in best:
        print(f"   {edge['source']:>4} → {edge['target']:<4} {edge['score']:.3f}")

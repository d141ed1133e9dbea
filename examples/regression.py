"""A number per graph, and the edges it comes from: how many houses hang on a tree?

python examples/regression.py            # a minute or two
python examples/regression.py --fast     # some seconds, to see that it runs
"""

import argparse

import torch

import gsat
from gsat.draw import draw_grid

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--fast", action="store_true", help="few graphs and epochs")
parser.add_argument("--out", default="houses.png", help="the picture (.svg, .png or .pdf)")
arguments = parser.parse_args()
torch.set_num_threads(1)  # the graphs are small

# Each graph has 0 to 4 houses (they count) and 0 to 4 five-cycles (they don't).
data = gsat.load_dataset("motif-count", seed=0, graphs=60 if arguments.fast else 1000)
print(data)

# The task carries the centre and the scale of the numbers: the network predicts in units of their
# spread, so that the loss is comparable with the information loss. Answers are in houses again.
print(f"task: {data.task.kind}, numbers around {data.task.centre:g} ± {data.task.scale:.2f}")

model = gsat.GSAT(gsat.GIN.for_data(data, layers=3, dropout=0.0, seed=0), seed=0)
run = gsat.fit(model, data, seed=0, epochs=3 if arguments.fast else 60)
print(f"R² {run.test['r2']:.3f}, mean absolute error {run.test['mae']:.3f} houses")
print(f"explanation AUC {run.test['explanation_auc']:.3f}")

answers = model.predict(data.test)
print("predicted:", [round(number, 2) for number in answers.labels[:6].tolist()])
print("true:     ", data.test.labels("graph")[:6, 0].tolist())
draw_grid(model.explain(data.test.select(range(4))), arguments.out)
print(f"picture: {arguments.out}")

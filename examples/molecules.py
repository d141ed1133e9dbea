"""From a table of SMILES to the substructures behind the answers.

python examples/molecules.py                   # a table made here; two minutes
python examples/molecules.py --fast            # some seconds, to see that it runs
python examples/molecules.py --table my.csv    # your own: SMILES and label columns are found
"""

import argparse
import csv
import itertools
from pathlib import Path

import torch

import gsat

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--table", type=Path, help="a table of molecules")
parser.add_argument("--fast", action="store_true", help="few molecules and epochs")
parser.add_argument("--out", type=Path, default=Path("molecules"), help="a folder for the pages")
arguments = parser.parse_args()
torch.set_num_threads(1)  # molecules are small

arguments.out.mkdir(parents=True, exist_ok=True)
table = arguments.table
if table is None:
    # Rings with two substituents each: "alert" if one of them is nitro or an aromatic amine.
    rings = ["c1ccc({a})cc1{b}", "c1cc({a})ncc1{b}", "c1cc({a})sc1{b}", "c1ccc2c(c1)cc({a})cc2{b}"]
    parts = ["C", "CC", "OC", "F", "Cl", "C(=O)O", "C(=O)NC", "C#N", "CO", "N", "[N+](=O)[O-]"]
    parts = parts[:6] + parts[-2:] if arguments.fast else parts
    table = arguments.out / "alerts.csv"
    with table.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "smiles", "alert"])
        for number, (ring, a, b) in enumerate(itertools.product(rings, parts, parts)):
            alert = bool({a, b} & {"N", "[N+](=O)[O-]"})
            rows.writerow([f"M{number}", ring.format(a=a, b=b), "yes" if alert else "no"])

# Columns and the kind of task are found; rows that can't be used are listed in data.rejected.
data = gsat.read_molecules(table)
print(data)

recipe = gsat.make_recipe(str(table), settings={"epochs": 3 if arguments.fast else 40})
run = gsat.train(recipe)  # out="runs/mols" would keep it for gsat.open_run
print({name: value for name, value in run.test.items() if value is not None})

# One molecule: its fragments, the highest score first, and what taking each out would change.
report = run.explain_molecules(smiles="Nc1ccc(C(=O)O)cc1")
(molecule,) = report.molecules
print(molecule.explanation)
for fragment in molecule.fragments:
    effect = molecule.effect(fragment)
    print(f"  {fragment.name:24} score {fragment.score:.2f}  effect {effect:+.2f}")
report.save(arguments.out / "molecule.svg")

# All test molecules on one page, and the patterns in their explanations.
run.explain_molecules().save(arguments.out / "report.html")
patterns = run.patterns(split="all")
for group in patterns.groups:
    first = [p.name for p in group.patterns if p.odds_ratio > 1][:3]
    print(f"patterns of {group.name}: {', '.join(first) or 'none'}")
patterns.save(arguments.out / "patterns.html")
print(f"pages: {arguments.out / 'report.html'}, {arguments.out / 'patterns.html'}")

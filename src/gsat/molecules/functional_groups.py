"""Names of functional groups, ring systems and chains.

Functional groups are SMARTS, specific ones first. All matched atoms belong to the group; conditions
on neighbouring atoms are recursive SMARTS, ``$(…)``. No SMARTS matches aromatic atoms, because
aromatic rings are never divided.
"""

from __future__ import annotations

from typing import Final

_ACYL: Final = "[CX3](=[OX1])"
_HALIDES: Final = (("F", "fluoride"), ("Cl", "chloride"), ("Br", "bromide"), ("I", "iodide"))

# fmt: off
GROUPS: Final[tuple[tuple[str, str], ...]] = (
    # nitrogen with oxygen or nitrogen
    ("nitrate ester", "[OX2]-[$([NX3+](=O)[O-]),$([NX3](=O)=O)](~[OX1])~[OX1]"),
    ("nitro", "[$([NX3+](=O)[O-]),$([NX3](=O)=O)](~[OX1])~[OX1]"),
    ("nitrosamine", "[NX3;!a]-[NX2]=[OX1]"),
    ("nitroso", "[NX2;!a]=[OX1]"),
    ("azide", "[NX2]~[NX2]~[NX1]"),
    ("diazo", "[CX3]=[NX2+]=[NX1-]"),
    ("diazonium", "[NX2+]#[NX1]"),
    ("azoxy", "[NX2]=[NX3+]-[OX1-]"),
    ("triazene", "[NX2]=[NX2]-[NX3;!a]"),
    ("azo", "[NX2;!a]=[NX2;!a]"),
    # cumulated and triple bonds to nitrogen
    ("isocyanate", "[NX2]=[CX2]=[OX1]"),
    ("isothiocyanate", "[NX2]=[CX2]=[SX1]"),
    ("carbodiimide", "[NX2]=[CX2]=[NX2]"),
    ("thiocyanate", "[SX2]-[CX2]#[NX1]"),
    ("isonitrile", "[CX1-]#[NX2+]"),
    ("nitrile", "[CX2]#[NX1]"),
    # sulfur and phosphorus with oxygen
    ("sulfonylurea", f"[SX4](=O)(=O)-[NX3]-{_ACYL}-[NX3]"),
    ("sulfonyl halide", "[SX4](=O)(=O)-[F,Cl,Br,I]"),
    ("sulfonamide", "[SX4](=O)(=O)-[NX3,NX2-;!a]"),
    ("sulfate", "[SX4](=O)(=O)(-[OX2,OX1-])-[OX2,OX1-]"),
    ("sulfonic acid", "[SX4](=O)(=O)-[OX2H,OX1-]"),
    ("sulfonate ester", "[SX4](=O)(=O)-[OX2]"),
    ("sulfone", "[SX4](=O)=O"),
    ("sulfoxide", "[SX3]=[OX1]"),
    ("sulfoxide", "[SX3+]-[OX1-]"),
    ("phosphate", "[PX4](=O)(-[OX2,OX1-])(-[OX2,OX1-])-[OX2,OX1-]"),
    ("phosphorothioate", "[PX4](=S)(-[OX2,SX2,NX3])-[OX2,SX2,NX3]"),
    ("phosphonate", "[PX4](=O)(-[OX2,OX1-])-[OX2,OX1-]"),
    ("phosphoramide", "[PX4](=O)-[NX3]"),
    ("phosphine oxide", "[PX4]=[OX1]"),
    # acids and their derivatives
    ("anhydride", f"{_ACYL}-[OX2]-{_ACYL}"),
    ("imide", f"{_ACYL}-[NX3;!a]-{_ACYL}"),
    ("carbamate", f"[NX3;!a]-{_ACYL}-[OX2,OX1-]"),
    ("thiocarbamate", "[NX3;!a]-[CX3](=[OX1,SX1])-[OX2,SX2]"),
    ("urea", f"[NX3;!a]-{_ACYL}-[NX3;!a]"),
    ("thiourea", "[NX3;!a]-[CX3](=[SX1])-[NX3;!a]"),
    ("carbonate", f"[OX2]-{_ACYL}-[OX2]"),
    ("hydroxamic acid", f"{_ACYL}-[NX3]-[OX2H,OX1-]"),
    ("hydrazide", f"{_ACYL}-[NX3;!a]-[N;!a]"),
    ("acyl halide", f"{_ACYL}-[F,Cl,Br,I]"),
    ("carboxylic acid", f"{_ACYL}-[OX2H,OX1-]"),
    ("ester", f"{_ACYL}-[OX2]"),
    ("thioester", f"{_ACYL}-[SX2]"),
    ("amide", f"{_ACYL}-[NX3,NX2-;!a]"),
    ("thioamide", "[CX3](=[SX1])-[NX3;!a]"),
    ("guanidine", "[NX3;!a]-[CX3](=[N;!a])-[NX3;!a]"),
    ("guanidine", "[NX3;!a]-[CX3](=[NX3+])-[NX3;!a]"),
    ("amidine", "[CX3](=[N;!a])-[NX3;!a]"),
    # carbonyls, imines
    ("aldehyde", "[CX3;H1,H2]=[OX1]"),
    ("ketone", "[CX3]=[OX1]"),
    ("thioketone", "[CX3]=[SX1]"),
    ("oxime", "[CX3]=[NX2]-[OX2]"),
    ("hydrazone", "[CX3]=[NX2]-[NX3;!a]"),
    ("imine", "[CX3]=[N;!a]"),
    # nitrogen, oxygen and sulfur with single bonds
    ("epoxide", "[CX4]1-[OX2]-[CX4]1"),
    ("aziridine", "[CX4]1-[N;!a]-[CX4]1"),
    ("thiirane", "[CX4]1-[SX2]-[CX4]1"),
    ("N-oxide", "[NX4+]-[OX1-]"),
    ("hydroxylamine", "[NX3;!a]-[OX2]"),
    ("hydrazine", "[NX3;!a]-[NX3;!a]"),
    ("peroxide", "[OX2]-[OX2]"),
    ("boronic acid", "[BX3](-[OX2,OX1-])-[OX2,OX1-]"),
    ("disulfide", "[SX2]-[SX2]"),
    ("acetal", "[OX2]-[CX4]-[OX2]"),
    ("primary aromatic amine", "[$([NX3H2,NX4H3+]-a)]"),
    ("secondary aromatic amine", "[$([NX3H1,NX4H2+]-a)]"),
    ("tertiary aromatic amine", "[$([NX3H0,NX4H1+]-a)]"),
    ("quaternary ammonium", "[NX4+;H0]"),
    ("primary amine", "[NX3H2,NX4H3+]"),
    ("secondary amine", "[NX3H1,NX4H2+]"),
    ("tertiary amine", "[NX3H0,NX4H1+]"),
    ("phenol", "[$([OX2H,OX1-]-a)]"),
    ("enol", "[$([OX2H,OX1-]-C=C)]"),
    ("alcohol", "[$([OX2H,OX1-]-[CX4])]"),
    ("aryl ether", "[$([OX2](-[#6])-a)]"),
    ("ether", "[$([OX2](-[#6])-[#6])]"),
    ("thiol", "[SX2H,SX1-]"),
    ("thioether", "[$([SX2](-[#6])-[#6])]"),
    # halogens
    ("trifluoromethyl", "[CX4](-F)(-F)-F"),
    ("trichloromethyl", "[CX4](-Cl)(-Cl)-Cl"),
    *(
        (f"{kind} {name}", f"[$([{symbol}X1]-{neighbour})]")
        for symbol, name in _HALIDES
        for kind, neighbour in (("aryl", "a"), ("vinyl", "C=C"), ("alkyl", "[CX4]"))
    ),
    # carbon
    ("allene", "[CX3]=[CX2]=[CX3]"),
    ("alkyne", "[CX2]#[CX2]"),
    ("alkene", "[CX3]=[CX3]"),
)
# fmt: on
"""Names and SMARTS; an atom belongs to the first group that matches it."""

RINGS: Final[dict[str, str]] = {
    "c1ccccc1": "benzene",
    "c1ccncc1": "pyridine",
    "c1cncnc1": "pyrimidine",
    "c1cnccn1": "pyrazine",
    "c1ccnnc1": "pyridazine",
    "c1ncncn1": "1,3,5-triazine",
    "c1cc[nH]c1": "pyrrole",
    "c1ccoc1": "furan",
    "c1ccsc1": "thiophene",
    "c1c[nH]cn1": "imidazole",
    "c1cn[nH]c1": "pyrazole",
    "c1cocn1": "oxazole",
    "c1cnoc1": "isoxazole",
    "c1cscn1": "thiazole",
    "c1nc[nH]n1": "1,2,4-triazole",
    "c1c[nH]nn1": "1,2,3-triazole",
    "c1nnn[nH]1": "tetrazole",
    "c1ccc2ccccc2c1": "naphthalene",
    "c1ccc2cc3ccccc3cc2c1": "anthracene",
    "c1ccc2c(c1)ccc1ccccc12": "phenanthrene",
    "c1cc2ccc3cccc4ccc(c1)c2c34": "pyrene",
    "c1ccc2[nH]ccc2c1": "indole",
    "c1ccc2[nH]cnc2c1": "benzimidazole",
    "c1ccc2[nH]ncc2c1": "indazole",
    "c1ccc2ncccc2c1": "quinoline",
    "c1ccc2cnccc2c1": "isoquinoline",
    "c1ccc2ncncc2c1": "quinazoline",
    "c1ccc2nccnc2c1": "quinoxaline",
    "c1ccc2occc2c1": "benzofuran",
    "c1ccc2sccc2c1": "benzothiophene",
    "c1ccc2ocnc2c1": "benzoxazole",
    "c1ccc2scnc2c1": "benzothiazole",
    "c1ccc2c(c1)OCO2": "1,3-benzodioxole",
    "c1ccc2c(c1)[nH]c1ccccc12": "carbazole",
    "c1ccc2nc3ccccc3cc2c1": "acridine",
    "c1ncc2nc[nH]c2n1": "purine",
    "c1ccc2c(c1)Nc1ccccc1S2": "phenothiazine",
    "O=c1ccc2ccccc2o1": "coumarin",
    "O=C1C=CC(=O)C=C1": "benzoquinone",
    "O=C1c2ccccc2C(=O)c2ccccc21": "anthraquinone",
    "C1CC1": "cyclopropane",
    "C1CCC1": "cyclobutane",
    "C1CCCC1": "cyclopentane",
    "C1CCCCC1": "cyclohexane",
    "C1CNC1": "azetidine",
    "C1CCNC1": "pyrrolidine",
    "C1CCNCC1": "piperidine",
    "C1CNCCN1": "piperazine",
    "C1COCCN1": "morpholine",
    "C1CCOC1": "tetrahydrofuran",
    "C1CCOCC1": "tetrahydropyran",
    "O=C1CCCN1": "2-pyrrolidone",
    "O=C1CCN1": "beta-lactam",
    "O=C1CC2SCCN12": "penam",
    "O=C1CC2SCC=CN12": "cephem",
    "O=c1ccoc2ccccc12": "chromone",
    "O=C1CNC(=O)N1": "hydantoin",
    "O=C1CC(=O)NC(=O)N1": "barbiturate",
    "O=c1cc[nH]c(=O)[nH]1": "uracil",
    "O=c1[nH]c(=O)c2[nH]cnc2[nH]1": "xanthine",
    "O=C1CN=Cc2ccccc2N1": "1,4-benzodiazepin-2-one",
    "C1=CNC=CC1": "1,4-dihydropyridine",
    "C1C2CC3CC1CC(C2)C3": "adamantane",
}
"""Names of ring systems by canonical SMILES."""

CHAINS: Final[dict[str, str]] = {
    "*C": "methyl",
    "*C*": "methylene",
    "*CC": "ethyl",
    "*CC*": "ethylene",
    "*CCC": "propyl",
    "*C(C)C": "isopropyl",
    "*C(C)(C)C": "tert-butyl",
}
"""Names of alkyl groups by SMILES, with ``*`` at the bonds to the rest of the molecule."""

"""The raw files of OGBG-Mol and what is known of them. Imports nothing heavy."""

from __future__ import annotations

from typing import Final

from gsat.datasets.fetch.raw_files import RawFile

# What is read of a set, in the order of :func:`raw_files`; each lies there as NAME.csv.gz.
PARTS: Final = (
    "raw/num-node-list",
    "raw/num-edge-list",
    "raw/edge",
    "raw/node-feat",
    "raw/graph-label",
    "mapping/mol",
    "split/scaffold/train",
    "split/scaffold/valid",
    "split/scaffold/test",
)

# OGB publishes no checksums; these are of its own bytes, as far as they are known to us.
SHA256: Final[dict[str, dict[str, str]]] = {
    "molhiv": {
        "raw/num-node-list": "e26f7e29de4a3985c7f47482838c62f870c90c4d01871c57bfeae1b8d993a24b",
        "raw/num-edge-list": "fa058f23514328fd69bc9c4c31fd8f5938c4ce18726855489d0c0e2dfeaddd37",
        "raw/edge": "d279b2d408f553cdc6e8ff9712e8eb52ee8831e6f63d29431812e27bca119389",
        "raw/graph-label": "88f950d08c606556cca1c1ffef05229f46d64043ad7fa617e8938a3ae9779993",
        "mapping/mol": "306c4ad8d54fc6cd40c71da4d0561fdcc73e1188662e6992bae0dda8f65bf6d0",
        "split/scaffold/train": "9f1e46e77897b3de3d19452cbd47c312e2844a0ec664c1c9dc897c10d12e42f0",
        "split/scaffold/valid": "eaf4d6b4630f9e689d2b203669674d0dc309673319e8ac32daa9e9ca90e2e1fa",
        "split/scaffold/test": "27485729d83edd6f47eb3b8daff69fdb32c9df6b36b17204ef87f8dc1a30eab1",
    },
    "molbace": {
        "raw/num-node-list": "ca6e661f0d4323c90543e9539971ba8695a763aac0df2e8e1c6d141985a9a2fa",
        "raw/num-edge-list": "78e201ed1abfd581096a3e5ba32a18ccca8e872f89c05bec1f9e52f25a7a5f76",
        "raw/edge": "014e9475134c9c20300fda5d8115bd0c5f192185cd74c6f8921afc28f6359ce7",
        "raw/node-feat": "bd031b6fd3d699c2ee4527e778e298bc0ae52439b9b720311789f83803a6025a",
        "raw/graph-label": "a93fed4e7bf6ef1fe8b6bd79e5a4eb984d9a5ccaa4f51d6cb1accecff836b632",
        "mapping/mol": "7a7aed697887bbd1ddcca1aa9e83d069d39e09d800e5961d20b80f1704ba86b5",
        "split/scaffold/train": "5f20fb296650872fc91d8af37ed3afdd6d4cd32b52e53763d543bf1b6aa89b26",
        "split/scaffold/valid": "f06cb03da9a5f5609c4600f1e01148eb54779351086aede3305643335657bd66",
        "split/scaffold/test": "8e6ede054b28f5953912996c1d59c0d8b0c7ef252b3f2679c251d205c8438755",
    },
    "molbbbp": {
        "raw/num-node-list": "859b4d14247fc8d03b50661d17b453a23d966e3bfa22b66edb46d2e54acf36d6",
        "raw/num-edge-list": "552429af844e8d806155bb5e8bd59308528dc8d7d34d6a3f19a27e0d910fc87f",
        "raw/edge": "1b5843cd8221fda188809da6e60c1c27b4831cc01c568ecbe362e3532b1ccb25",
        "raw/node-feat": "90b47004f3ce80a6495c8add546ae360d4c6e7356f5360664c0b041eac07df34",
        "raw/graph-label": "99ae33f3f36ac7fed4a755c4912a170c0f1810e0688e6fba76d75831d4686f4f",
        "mapping/mol": "7ec2b3b15450d30547e0f9ce2e17d1ba88f43f71e2a5a4e9df69bbb03c34c5c7",
        "split/scaffold/train": "e1ae77b817d05b63af3ec5aa7ab1e170ebebc0849cb7712fe11b29a48999cc75",
        "split/scaffold/valid": "0b20d30453c99a703a672e0c023bea9e198315db3c92c094cfc610b9853b8ca6",
        "split/scaffold/test": "2561d4164f8e33163d6484bcce005578b7a3de3b00b4630c072bf56219a21451",
    },
}

# Atom features made again from the SMILES by OGB's rules; these are not OGB's own bytes.
REBUILT: Final = frozenset(
    {
        "7fdfe12899b99fdf628fa18097234457616bd2e691e8256ff29cff80c05d653d",  # molhiv
        "3d52bc2f1017ee4cc6c8633cbf45070aef551cb8e61c07b7775cb1f0ad4313f8",  # molclintox
        "a60252895f7abafd27c9262f706d6b2635871155e93b5b465a593abd6914c095",  # moltox21
        "baef327021295bf2f1eb5aa4265f52009aed71fb05975394fcefc34656f2d933",  # molsider
    }
)


def raw_files(name: str) -> tuple[RawFile, ...]:
    """The files of ``molhiv``, ``molbace``, …: one for each of :data:`PARTS`."""
    short, known = name.removeprefix("mol"), SHA256.get(name, {})
    return tuple(
        RawFile(
            f"ogbg_mol/ogbg_{name}/{part}.csv.gz",
            known.get(part, ""),
            "the Open Graph Benchmark",
            url=f"https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/{short}.zip",
            member=f"{short}/{part}.csv.gz",
        )
        for part in PARTS
    )

"""Results of the campaign, as a section of docs/security.md."""

from __future__ import annotations

from typing import Any


def campaign_section(record: dict[str, Any]) -> str:
    """Write the record of a campaign, ``results/campaign.json``, as Markdown."""
    faults, hostile, fuzzing = record["faults"], record["hostile"], record["fuzzing"]
    kinds = ", ".join(f"{count} {kind}" for kind, count in faults["by_kind"].items())
    operations = faults["operations_of_a_run"].values()
    found = len(faults["findings"]) + len(hostile["findings"])
    found += sum(len(part["findings"]) for part in fuzzing)
    lines = [
        f"The last recorded campaign ({record['system']}) had {found} findings.",
        "",
        f"- **Faults while saving.** {faults['trials']} trials over {len(faults['methods'])} "
        f"methods, each at one of the {min(operations)} to {max(operations)} operations on files "
        f"of a short run ({kinds}): {faults['resumed']} runs resumed to the same bytes, "
        f"{faults['refused']} were refused with one line.",
        f"- **Hostile files.** {hostile['files']} files made by rule, given to `train`, `resume`, "
        "`evaluate`, `predict`, `explain`, `audit` and the API: "
        f"{hostile['refused']} refused with one line and exit code 2 (status 4xx by the API), "
        f"{hostile['harmless']} with a change that does no harm. The slowest took "
        f"{hostile['slowest_cpu_seconds']} s of CPU time, the largest {hostile['most_memory_mib']} "
        "MiB more than the program at rest. No file outside was touched.",
        *_web(record.get("web")),
        "- **Fuzzing** by coverage (atheris), every parser by itself:",
        "",
        "| parser | CPU seconds | inputs | slowest input (s) | findings |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {part['parser']} | {part['cpu_seconds']:.0f} | {part['inputs']} | "
        f"{part['slowest_seconds']:.2f} | {len(part['findings'])} |"
        for part in fuzzing
    ]
    if record.get("note"):
        lines += ["", record["note"]]
    return "\n".join([*lines, ""])


def _web(web: dict[str, Any] | None) -> list[str]:
    if web is None:
        return []
    statuses = ", ".join(f"{count} × {status}" for status, count in web["by_status"].items())
    return [
        f"- **The API.** {web['requests']} requests, right ones and wrong ones, made from its own "
        f"description (schemathesis, `make campaign-web`) and answered with: {statuses}."
    ]

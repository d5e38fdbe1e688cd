"""Metrics as a table."""

from __future__ import annotations

import html
from typing import Any, Dict, List

COLUMNS = ("name", "step", "value", "time")


class MetricTable(List[Dict[str, Any]]):
    """The values that a job reported, in the order in which they came: a list of
    {"name", "step", "value", "time"}. `pandas.DataFrame(table)` reads it; it prints as a table."""

    def __str__(self) -> str:
        if not self:
            return "no metrics"
        rows = [COLUMNS, *(tuple(_text(row[column]) for column in COLUMNS) for row in self)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        head = "".join(f"<th>{column}</th>" for column in COLUMNS)
        rows = ("".join(f"<td>{html.escape(_text(row[column]))}</td>" for column in COLUMNS) for row in self)
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"

    def names(self) -> List[str]:
        """The names of the metrics, each once."""
        return list(dict.fromkeys(row["name"] for row in self))

    def last(self, name: str) -> float:
        """The newest value of a metric. Throws KeyError when there is none."""
        for row in reversed(self):
            if row["name"] == name:
                return float("nan") if row["value"] is None else float(row["value"])
        raise KeyError(f"the job has not reported '{name}', only: {', '.join(self.names()) or 'nothing'}")


def _text(value: object) -> str:
    return format(value, ".6g") if isinstance(value, float) else "" if value is None else str(value)

"""What the dashboards and rules ask of Prometheus."""

import json
import re

# Windows of the dashboards that a test has no time for.
VARIABLES = {"$__rate_interval": "10s", "$__interval": "5s", "[5m]": "[10m]",
             "$__range": "10m", "[1m]": "[10m]", "[1h]": "[10m]",
             "$stage": ".*"}


def filled(expression, run):
    for name, value in {**VARIABLES, "$run": run}.items():
        expression = expression.replace(name, value)
    return expression


def panels_of(board):
    """Panels at any depth."""
    for panel in board.get("panels", []):
        yield panel
        yield from panels_of(panel)


def queries(folder, run):
    """(where, expression) of every panel query, variable and annotation."""
    for path in sorted(folder.glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        for panel in panels_of(board):
            for target in panel.get("targets", []):
                yield (f"{path.name}: {panel['title']} {target['refId']}",
                       filled(target["expr"], run))
        for variable in board["templating"]["list"]:
            metric, label = re.fullmatch(r"label_values\((.*), (.*)\)",
                                         variable["query"]).groups()
            yield (f"{path.name}: ${variable['name']}",
                   f'{metric}{{{label}=~".+"}}')
        for note in board["annotations"]["list"]:
            yield (f"{path.name}: annotation {note['name']}",
                   filled(note["expr"], run))

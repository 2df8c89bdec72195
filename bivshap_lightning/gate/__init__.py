"""The release gate: rules over an audit record, judged without torch and without the model.

    from bivshap_lightning.gate import judge, load_rules

    verdict = judge("validate_epoch0019_step0000119.json", load_rules("gate.toml"))
    verdict.passed; verdict.reason; verdict.to_markdown()

`bivshap gate` does the same on the command line, `RedundancyGate` in the training loop.
"""

from bivshap_lightning.gate.evidence import Evidence
from bivshap_lightning.gate.judging import assert_gate, judge
from bivshap_lightning.gate.measures import Interval
from bivshap_lightning.gate.rules import GateError, Rule, load_rules
from bivshap_lightning.gate.verdict import Check, Outcome, Verdict

__all__ = [
    "Check",
    "Evidence",
    "GateError",
    "Interval",
    "Outcome",
    "Rule",
    "Verdict",
    "assert_gate",
    "judge",
    "load_rules",
]

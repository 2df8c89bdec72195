"""The release gate: rules that an audit record must meet, judged without torch and without the model.

    from bivshap_lightning.gate import judge, load_rules

    verdict = judge("validate_epoch0019_step0000119.json", load_rules("gate.toml"))
    verdict.passed; verdict.reason; verdict.to_markdown()

`bivshap gate` does the same on the command line, `RedundancyGate` in the training loop.
"""

from bivshap_lightning.audit.errors import RecordError
from bivshap_lightning.gate.calibration import Calibration, calibrate
from bivshap_lightning.gate.history import History, make_history
from bivshap_lightning.gate.judging import assert_gate, judge
from bivshap_lightning.gate.measuring import measure
from bivshap_lightning.gate.reference import Reference
from bivshap_lightning.gate.rules import GateError, Rule
from bivshap_lightning.gate.rules_file import GateFile, load_gate, load_rules
from bivshap_lightning.gate.verdict import Check, RuleResult, Verdict
from bivshap_lightning.gate.writing import STARTER, save_calibration
from bivshap_lightning.metrics.intervals import Interval

__all__ = [
    "STARTER",
    "Calibration",
    "Check",
    "GateError",
    "GateFile",
    "History",
    "Interval",
    "RecordError",
    "Reference",
    "Rule",
    "RuleResult",
    "Verdict",
    "assert_gate",
    "calibrate",
    "judge",
    "load_gate",
    "load_rules",
    "make_history",
    "measure",
    "save_calibration",
]

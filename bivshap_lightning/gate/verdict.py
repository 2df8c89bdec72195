"""The verdict of the gate as an object and as text, JSON, Markdown and JUnit XML.

Names in a record come from data. Every form removes control characters from them and escapes them by its own rules.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass
from typing import Any, Literal

from bivshap_lightning.gate.rules import GateError, Rule
from bivshap_lightning.gate.thresholds import THRESHOLDS
from bivshap_lightning.text import printable

KIND = "bivshap_lightning.Verdict"
VERDICT_VERSION = 1
# ASCII signs with a meaning in Markdown, except where they stand within words and numbers.
SIGN = re.compile(r"(?<![^\W_])_|_(?![^\W_])|(?<!\d)\.|\.(?!\d)|[^\w ,=/()%.\x80-\U0010ffff-]")
MARKS = {"pass": "✅ pass", "fail": "❌ fail", "warn": "⚠️ warn"}


@dataclass(frozen=True)
class Check:
    """One threshold compared with one number.

    Attributes:
        threshold_name: "min", "max_absolute_change" and so on.
        threshold: its value.
        value: the number, or the change; None if it does not exist (a relative change from 0).
        bound: its confidence bound on the unfavourable side; None if unknown.
        previous: for changes, the number in the previous record.
        class_name: the class it is a number of, or "all".
        point_met: whether the number itself meets the threshold.
        met: whether what the rule compares meets it.
    """

    threshold_name: str
    threshold: float
    value: float | None
    bound: float | None
    previous: float | None
    class_name: str
    point_met: bool
    met: bool


@dataclass(frozen=True)
class RuleResult:
    """The result of one rule.

    Attributes:
        rule: the rule.
        status: "pass", "fail" or "warn".
        check: the threshold that decided.
        inconclusive: the number meets the threshold but its bound does not.
        evidence: worst samples and largest groups by name, if the rule is not met.
    """

    rule: Rule
    status: Literal["pass", "fail", "warn"]
    check: Check
    inconclusive: bool
    evidence: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The number, and the feature and class that it is a number of."""
        feature = "" if self.rule.feature is None else f" of {self.rule.feature}"
        return (
            self.rule.metric
            + feature
            + ("" if self.check.class_name == "all" else f" of class {self.check.class_name}")
        )

    @property
    def reason(self) -> str:
        """Value, bound and threshold in one sentence."""
        c = self.check
        what = self.subject
        kind = THRESHOLDS[c.threshold_name]
        if kind.needs_previous:
            what = f"{kind.words}{what} (previous {number(c.previous)})"
        bound = f"{self.rule.confidence:.0%} bound {number(c.bound)}"
        compared = bound if self.rule.compare == "bound" else "compared by its value"
        if self.rule.is_record_drift:  # a distance of two records as it is; calibration knows how far it varies
            return f"{what} is {number(c.value)}, {c.threshold_name} {number(c.threshold)}"
        text = f"{what} is {number(c.value)} ({compared}), {c.threshold_name} {number(c.threshold)}"
        if not self.inconclusive:
            return text
        # Bounds of class graphs and of drift come from the noise of the estimate, not from the choice of samples.
        of_graphs = self.rule.is_about_class_graphs
        more = 'a larger evaluation budget, or compare = "point",' if of_graphs else "more samples"
        return f"{text}: inconclusive, the value meets it but its bound does not ({more} may decide)"


@dataclass(frozen=True)
class Verdict:
    """The results of all rules, or the reason why they could not be judged.

    Attributes:
        results: in order of the rules.
        record: what was judged.
        against: what it was compared with, if anything.
        n_samples: explained samples in the record.
        error: why nothing was judged; such a verdict never passes.
        notes: what to know before the results, such as samples that the records do not share.

    Example:
        >>> verdict = Verdict(error="record.json: No such file")
        >>> verdict.passed
        False
        >>> Verdict.from_json(verdict.to_json()) == verdict
        True
    """

    results: tuple[RuleResult, ...] = ()
    record: str = ""
    against: str | None = None
    n_samples: int = 0
    error: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether something was judged and no rule of severity "fail" is broken."""
        return self.error is None and bool(self.results) and self._count("fail") == 0

    @property
    def reason(self) -> str:
        """One line per broken rule, or the error; empty if there is none."""
        return self.error or "\n".join(o.reason for o in self.results if o.status != "pass")

    def _count(self, status: str) -> int:
        return sum(o.status == status for o in self.results)

    @property
    def headline(self) -> str:
        """The verdict in one line."""
        if self.error is not None:
            return f"gate NOT JUDGED: {self.error}"
        counts = f"{self._count('pass')} passed, {self._count('fail')} failed, {self._count('warn')} warned"
        return f"gate {'passed' if self.passed else 'FAILED'}: {counts}; {self.n_samples} samples"

    def to_json(self) -> str:
        """Everything, for machines; :meth:`from_json` reads it back."""
        return json.dumps({"kind": KIND, "version": VERDICT_VERSION, "passed": self.passed, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        """Read what :meth:`to_json` wrote.

        Raises:
            GateError: The text is no verdict, or one of a later version.
        """
        try:
            fields: dict[str, Any] = json.loads(text)
            if (fields.pop("kind"), fields.pop("version")) != (KIND, VERDICT_VERSION):
                raise ValueError("another kind or version")
            passed = fields.pop("passed")
            results = tuple(
                RuleResult(
                    **o | {"rule": Rule(**o["rule"]), "check": Check(**o["check"]), "evidence": tuple(o["evidence"])}
                )
                for o in fields.pop("results")
            )
            verdict = cls(results=results, **{**fields, "notes": tuple(fields.get("notes", ()))})
            if verdict.passed is not passed:
                raise ValueError("`passed` contradicts the results")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise GateError(f"`text` must be a verdict of version {VERDICT_VERSION}, got another ({error}).") from error
        return verdict

    def to_text(self) -> str:
        """A table for the terminal, and below it what broke each rule.

        Example:
            >>> print(Verdict(error="no record").to_text())
            gate NOT JUDGED: no record
        """
        lines = [printable(self.headline), *(printable(f"note: {note}") for note in self.notes)]
        rows = [("", "value", "bound", "threshold", "rule")]
        for o in self.results:
            c = o.check
            limit = f"{c.threshold_name} {number(c.threshold)}"
            feature = "" if o.rule.feature is None else f" of {o.rule.feature}"
            whose = o.rule.metric + feature + ("" if c.class_name == "all" else f" [{c.class_name}]")
            rows.append((o.status, number(c.value), number(c.bound), limit, printable(whose)))
        if self.results:
            widths = [max(len(row[k]) for row in rows) for k in range(4)]
            lines += ["  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[4]]) for row in rows]
        for o in self.results:
            if o.status != "pass":
                lines += ["", printable(f"{o.status}: {o.reason}"), *(f"  {printable(e)}" for e in o.evidence)]
        return "\n".join(line.rstrip() for line in lines)

    def to_markdown(self) -> str:
        """A comment for a pull request, in which names from data have no effect.

        Example:
            >>> print(Verdict(error="<b>no</b> record").to_markdown())
            ### bivshap gate: not judged
            <BLANKLINE>
            <code>&#60;b&#62;no&#60;/b&#62; record</code>
            <BLANKLINE>
        """
        if self.error is not None:
            return f"### bivshap gate: not judged\n\n{markdown(self.error)}\n"
        lines = [f"### bivshap gate: {'passed' if self.passed else 'failed'}", ""]
        lines += [f"{markdown(self.record)}, {self.n_samples} samples", ""]
        if self.against is not None:
            lines[-1:] = ["", f"compared with {markdown(self.against)}", ""]
        lines += [line for note in self.notes for line in (f"⚠️ {markdown(note)}", "")]
        lines += ["| | rule | value | bound | threshold |", "| --- | --- | ---: | ---: | --- |"]
        for o in self.results:
            c = o.check
            limit = f"{c.threshold_name} {number(c.threshold)}".replace("_", " ")
            lines.append(
                f"| {MARKS[o.status]} | {markdown(o.subject)} | {number(c.value)} | {number(c.bound)} | {limit} |"
            )
        for o in self.results:
            if o.status != "pass":
                lines += ["", f"{MARKS[o.status]}: {markdown(o.reason)}", ""]
                lines += [f"- {markdown(e)}" for e in o.evidence]
        return "\n".join(lines) + "\n"

    def to_junit(self) -> str:
        """A JUnit XML report with one test case per rule; broken rules of severity "warn" pass, with a message.

        Example:
            >>> "<error" in Verdict(error="no record").to_junit()
            True
        """
        n_errors = int(self.error is not None)
        counts = {"tests": len(self.results) + n_errors, "failures": self._count("fail"), "errors": n_errors}
        attributes = {"name": "bivshap gate", **{k: str(v) for k, v in counts.items()}, "skipped": "0"}
        suites = ET.Element("testsuites")
        suite = ET.SubElement(suites, "testsuite", attributes)
        for o in self.results:
            case = ET.SubElement(suite, "testcase", {"classname": "bivshap.gate", "name": printable(o.rule.name)})
            text = "\n".join(printable(line) for line in (o.reason, *o.evidence))
            if o.status == "fail":
                failure = ET.SubElement(
                    case, "failure", {"message": printable(o.reason), "type": o.check.threshold_name}
                )
                failure.text = text
            else:
                ET.SubElement(case, "system-out").text = f"{o.status}: {text}"
        if self.error is not None:
            case = ET.SubElement(suite, "testcase", {"classname": "bivshap.gate", "name": "record"})
            ET.SubElement(case, "error", {"message": printable(self.error), "type": "record"}).text = printable(
                self.error
            )
        return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode") + "\n"


def number(value: float | None) -> str:
    """A number for readers.

    Example:
        >>> number(0.123456), number(None), number(2.0)
        ('0.1235', 'unknown', '2')
    """
    return "unknown" if value is None else f"{value:.4g}"


def markdown(text: str) -> str:
    """Text as inline code; signs with a meaning in Markdown or HTML become character references.

    Example:
        >>> markdown("a|b @user")
        '<code>a&#124;b &#64;user</code>'
    """
    return f"<code>{SIGN.sub(lambda sign: f'&#{ord(sign[0])};', printable(text))}</code>"

"""The ideas ledger: what is legal when, and that a verdict rests on an evaluation that is there."""

import itertools
import tempfile
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, rule
from pydantic import ValidationError
from run_results import begun, record

from hawkeye_mcp.runs import idea as rules
from hawkeye_mcp.runs import ideas, store
from hawkeye_mcp.runs.idea import Proposal

# What must be; written out here, not taken from the code.
LEGAL = {
    ("proposed", "adopt"): "adopted",
    ("proposed", "drop"): "dropped",
    ("adopted", "confirm"): "confirmed",
    ("adopted", "refute"): "refuted",
    ("adopted", "drop"): "dropped",
}
PATHS = {
    "proposed": [],
    "adopted": ["adopt"],
    "confirmed": ["adopt", "confirm"],
    "refuted": ["adopt", "refute"],
    "dropped": ["drop"],
}
STATUSES, ACTIONS = get_args(rules.Status), get_args(rules.Action)


@pytest.fixture
def run(tmp_path: Path) -> store.Run:
    run = begun(tmp_path / "run")
    record(run, "good", 50.0)
    record(run, "bad")
    record(run, "fault", status="harness_error")
    return run


def proposal(claim: str = "Keep the row block in VMEM", **changed: object) -> Proposal:
    given = {"claim": claim, "evidence": "rms.cu:14", "kind": "STRUCTURAL", "falsifiable_as": "no lower candidate_us"}
    return Proposal(**(given | changed))


def act(run: store.Run, id: str, action: str) -> rules.Idea:
    given = {"confirm": {"evaluation_id": "good"}, "refute": {"evaluation_id": "bad"}, "drop": {"reason": "no time"}}
    return ideas.act(run, id, action, **given.get(action, {}))


def brought_to(run: store.Run, status: str, **changed: object) -> str:
    id = ideas.propose(run, proposal(**changed)).id
    for action in PATHS[status]:
        act(run, id, action)
    return id


@pytest.mark.parametrize(("status", "action"), list(itertools.product(STATUSES, ACTIONS)))
def test_every_action_from_every_status(run, status, action):
    id = brought_to(run, status)
    if (status, action) in LEGAL:
        assert act(run, id, action).status == LEGAL[status, action]
        return
    before = (run.folder / "events.jsonl").read_bytes()
    with pytest.raises(rules.IllegalTransition) as refused:
        act(run, id, action)
    legal = [name for (of, name) in LEGAL if of == status]
    assert (f"Legal for it now: {', '.join(legal)}." if legal else "It is final") in str(refused.value)
    assert (run.folder / "events.jsonl").read_bytes() == before


@pytest.mark.parametrize("action", ACTIONS)
def test_what_is_not_portable_is_never_adopted(run, action):
    id = brought_to(run, "proposed", kind="NON_PORTABLE")
    if action == "drop":
        assert act(run, id, action).status == "dropped"
        return
    with pytest.raises(rules.IllegalTransition, match="Legal for it now: drop"):
        act(run, id, action)


SAME = [
    "keep the row block in vmem",
    "  Keep the row-block in VMEM!! ",
    "KEEP THE ROW_BLOCK, in: vmem.",
    "\uff2beep the row block in VMEM",
    "Ke\u200bep the row\u2060 block in VMEM",
]


@pytest.mark.parametrize("claim", SAME)
def test_a_refuted_claim_does_not_come_back(run, claim):
    first = brought_to(run, "refuted")
    with pytest.raises(rules.RefutedBefore, match=f"{first} claims the same and was refuted by evaluation bad"):
        ideas.propose(run, proposal(claim, kind="ALGORITHMIC"))
    assert ideas.propose(run, proposal("Keep two row blocks in VMEM")).id == "idea-2"


def test_the_opposite_is_another_claim(run):
    brought_to(run, "refuted", claim="A block with M > N is faster")
    assert ideas.propose(run, proposal("A block with M < N is faster")).id == "idea-2"


@pytest.mark.parametrize("status", STATUSES)
def test_the_same_claim_again(run, status):
    brought_to(run, status)
    if status == "dropped":
        assert ideas.propose(run, proposal()).id == "idea-2"
        return
    with pytest.raises(rules.RefutedBefore if status == "refuted" else rules.AlreadyThere):
        ideas.propose(run, proposal())


def test_dropped_and_proposed_again_then_refuted_stays_refuted(run):
    brought_to(run, "dropped")
    brought_to(run, "refuted")
    with pytest.raises(rules.RefutedBefore, match="idea-2"):
        ideas.propose(run, proposal())


def test_nothing_from_a_rejected_reference_is_adopted(run):
    id = brought_to(run, "proposed", reference="refs/../refs/flash.cu")
    own = brought_to(run, "proposed", claim="From nowhere")
    ideas.trust(run, "refs/flash.cu", "rejected", "another operation")
    with pytest.raises(rules.ReferenceRejected, match="another operation"):
        act(run, id, "adopt")
    assert act(run, own, "adopt").status == "adopted"
    ideas.trust(run, "refs/flash.cu", "partial", "the same after all, but for masks")
    assert act(run, id, "adopt").status == "adopted"


@pytest.mark.parametrize(
    ("action", "evidence", "why"),
    [
        ("confirm", None, "needs the id"),
        ("refute", "", "needs the id"),
        ("confirm", "nope", "holds no evaluation 'nope'"),
        ("refute", "../state", "holds no evaluation"),
        ("confirm", "bad", "confirms nothing"),
        ("confirm", "fault", "says nothing of the kernel"),
        ("refute", "fault", "says nothing of the kernel"),
        ("drop", "good", "takes no evaluation"),
    ],
)
def test_a_verdict_rests_on_an_evaluation_of_the_run(run, action, evidence, why):
    id = brought_to(run, "adopted")
    with pytest.raises(rules.BadEvidence, match=why):
        ideas.act(run, id, action, evaluation_id=evidence, reason="because")
    assert store.read(run).ideas[0].status == "adopted"


def test_an_evaluation_whose_file_is_gone_bears_no_verdict(run):
    id = brought_to(run, "adopted")
    (run.folder / "evaluations" / "good.json").unlink()
    with pytest.raises(rules.BadEvidence, match="missing or damaged"):
        act(run, id, "confirm")


def test_what_an_idea_needs(run):
    for name in ("claim", "evidence", "falsifiable_as"):
        with pytest.raises(rules.Incomplete, match=name):
            ideas.propose(run, proposal().model_copy(update={name: " ?! "}))
    with pytest.raises(ValidationError):
        proposal("x" * 2_001)
    with pytest.raises(ValidationError):
        proposal(kind="MAGIC")
    with pytest.raises(rules.UnknownIdea, match="propose one first"):
        ideas.act(run, "idea-1", "adopt")
    with pytest.raises(rules.Incomplete, match="reason"):
        ideas.act(run, brought_to(run, "proposed"), "drop", reason=" ")
    with pytest.raises(rules.Incomplete):
        ideas.trust(run, "a.cu", "well", "because")


def test_the_whole_history_is_kept(run):
    id = brought_to(run, "refuted")
    (found,) = store.read(run).ideas
    assert [(step.action, step.evaluation_id) for step in found.history] == [
        ("propose", None),
        ("adopt", None),
        ("refute", "bad"),
    ]
    (run.folder / "state.json").unlink()
    assert store.read(run).ledger.find(id) == found


def test_an_id_is_never_given_twice(run):
    for claim in ("first", "second", "third"):
        ideas.propose(run, proposal(claim))
    events = run.folder / "events.jsonl"
    events.write_text("".join(line for line in events.read_text().splitlines(True) if '"second"' not in line))
    assert ideas.propose(run, proposal("fourth")).id == "idea-4"
    assert [idea.id for idea in store.read(run).ideas] == ["idea-1", "idea-3", "idea-4"]


def test_an_illegal_step_in_the_events_is_damage(run):
    brought_to(run, "refuted")
    store.append(run, "idea", action="adopt", id="idea-1")
    state = store.read(run)
    assert (state.ideas[0].status, state.damaged_lines) == ("refuted", 1)


class Ledger(RuleBasedStateMachine):
    """The ledger against a model of it: a dict of statuses, and the set of refuted claims."""

    found = Bundle("found")

    @initialize()
    def begin(self) -> None:
        self.temporary = tempfile.TemporaryDirectory()
        self.run = begun(Path(self.temporary.name) / "run")
        record(self.run, "good", 50.0)
        record(self.run, "bad")
        self.status: dict[str, str] = {}
        self.claims: dict[str, str] = {}

    @rule(target=found, claim=st.sampled_from(["a b", "A  B!", "c", "d"]))
    def propose(self, claim: str) -> str:
        key = claim.lower().replace("!", "").replace("  ", " ")
        taken = [id for id, of in self.claims.items() if of == key and self.status[id] != "dropped"]
        if taken:
            refused = rules.RefutedBefore if self.status[taken[0]] == "refuted" else rules.AlreadyThere
            with pytest.raises(refused):
                ideas.propose(self.run, proposal(claim))
            return taken[0]
        id = ideas.propose(self.run, proposal(claim)).id
        self.status[id], self.claims[id] = "proposed", key
        return id

    @rule(id=found, action=st.sampled_from(ACTIONS))
    def act(self, id: str, action: str) -> None:
        wanted = LEGAL.get((self.status[id], action))
        if wanted is None:
            with pytest.raises(rules.IllegalTransition):
                act(self.run, id, action)
            return
        act(self.run, id, action)
        self.status[id] = wanted

    def teardown(self) -> None:
        if hasattr(self, "run"):
            assert {idea.id: idea.status for idea in store.read(self.run).ideas} == self.status
            self.temporary.cleanup()


Ledger.TestCase.settings = settings(
    max_examples=15, stateful_step_count=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
TestLedger = Ledger.TestCase

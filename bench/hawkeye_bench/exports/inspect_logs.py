"""The results of a folder as logs of Inspect (inspect_ai): one for each condition, read by its own readers and viewer.

Written in the JSON form of its log format, version 2, which its `EvalLog` reads, so that an export needs nothing of it.
A workload is a sample, a repeat is an epoch. What the records do not tell is left out rather than filled in:
- no model event, as what was sent to the model is not recorded; what it answered is in the messages, and every call of a
  tool is an event with its arguments;
- no score "speedup_..." of a run without a correct kernel whose time is known, and no score at all on a workload that is
  in no aggregate, so that Inspect's own count of scored samples is ours;
- no usage where the client told no tokens: Inspect has no unknown there, only 0.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from hawkeye_bench import pairs as pairing
from hawkeye_bench import runs as records
from hawkeye_bench.budget import Budget
from hawkeye_bench.exports import inspect_transcript
from hawkeye_bench.exports.paper import geomeans
from hawkeye_bench.results import Results, RunRow
from hawkeye_bench.runs import Run

Json = dict[str, Any]

_VERSION = 2
_RECOMPUTED = {"correct": "accuracy"}
_OF_SPEEDUP = (
    "speedup_interval",
    "indistinguishable",
    "candidate_us",
    "baseline_us",
    "baseline_method",
    "baseline_lower_bound",
    "algebraic",
)
_USAGE = "input_tokens are all prompt tokens, cached or not: the records do not part them"


def logs(out: Path, found: Results, runs: Sequence[Run]) -> dict[str, str]:
    """File name to text. runs: the records of the folder `out` behind `found.runs`, in the same order."""
    texts = {}
    run_id = _id(found.plan.agent, found.plan.model, found.plan.tpu, min(run.started for run in runs))
    for condition in dict.fromkeys(run.condition for run in runs):
        mine = [(run, row) for run, row in zip(runs, found.runs, strict=True) if run.condition == condition]
        log = _log(out, condition, run_id, found, mine)
        # The name as Inspect itself makes it, by which its lists know a log.
        stamp = log["eval"]["created"].replace(":", "-")
        name = f"{stamp}_{log['eval']['task']}_{log['eval']['task_id']}.json"
        # Half of a pair of surrogates, which a program may print, is no text in UTF-8 and no JSON for Inspect.
        whole = json.dumps(log, indent=1, ensure_ascii=False).encode("utf-8", "replace")
        texts[name] = whole.decode("utf-8") + "\n"
    return texts


def _log(out: Path, condition: str, run_id: str, found: Results, mine: list[tuple[Run, RunRow]]) -> Json:
    plan, runs = found.plan, [run for run, _ in mine]
    started = min(run.started for run in runs)
    names = [records.name_of(workload) for workload in plan.workloads]
    planned = len(names) * plan.reps
    task_id = _id(run_id, condition)
    results = _results(condition, found, runs, planned)
    samples = [_sample(out, run, row, plan.budget, task_id) for run, row in mine]
    return {
        "version": _VERSION,
        "status": "success" if len(runs) == planned else "started",
        "eval": {
            "run_id": run_id,
            "eval_id": task_id,
            "created": started,
            "task": f"hawkeye-bench-{condition}",
            "task_id": task_id,
            "task_version": plan.judge or 0,
            "dataset": {"name": "workloads", "samples": len(names), "sample_ids": names, "shuffled": False},
            "model": runs[0].model,
            "model_base_url": plan.base_url or None,
            "solver": plan.agent,
            "config": _config(plan.budget, plan.reps),
            "packages": runs[-1].versions.model_dump() if runs[-1].versions else {},
            "metadata": {
                "condition": condition,
                "plan": plan.model_dump(mode="json"),
                "paired_effect": found.effect.model_dump(mode="json"),
                "preregistered": found.preregistered and found.preregistered.model_dump(mode="json"),
                "remarks": found.remarks,
                "model_usage": _USAGE,
            },
            # What Inspect computes when it is asked to score again. It has no geometric mean, and where nothing is
            # declared it takes the arithmetic one and calls it accuracy.
            "scorers": [
                {"name": score["name"], "metrics": [{"name": _RECOMPUTED.get(score["name"], "mean")}]}
                for score in results["scores"]
            ],
        },
        "plan": {"steps": [{"solver": plan.agent, "params": {}}]},
        "results": results,
        "stats": {"started_at": started, "model_usage": _summed([sample["model_usage"] for sample in samples])},
        "samples": samples,
    }


def _config(budget: Budget, epochs: int) -> Json:
    return {
        "epochs": epochs,
        "epochs_reducer": ["mean"],
        "turn_limit": budget.turns,
        "token_limit": budget.tokens,
        "cost_limit": budget.cost_usd,
        "time_limit": round(budget.minutes * 60),
    }


def _results(condition: str, found: Results, runs: list[Run], planned: int) -> Json:
    """Samples are counted as Inspect counts them when repeats are reduced to one: by workload."""
    workloads = {run.workload for run in runs}
    scores = []
    if success := found.success.get(condition):
        # The mean over workloads of the share of correct repeats: what Inspect's accuracy makes of the samples too.
        interval = {"low": success.low, "high": success.high, "confidence": found.choices.confidence}
        scored = len({run.workload for run in pairing.counted(runs)})
        scores.append(_score("correct", scored, len(workloads), "accuracy", success.share, interval))
    means = geomeans(runs)
    for source in dict.fromkeys(source for _, source in means):
        logs_of_means = [math.log(of[condition]) for (_, its), of in means.items() if its == source]
        about = {"workloads": len(logs_of_means), "of": "correct kernels alone, so blind to failures"}
        mean = math.exp(fmean(logs_of_means))
        scores.append(_score(f"speedup_{source}", len(logs_of_means), len(workloads), "geomean", mean, about))
    return {"total_samples": planned, "completed_samples": len(runs), "scores": scores}


def _score(name: str, scored: int, samples: int, metric: str, value: float, about: Json) -> Json:
    return {
        "name": name,
        "scorer": name,
        "reducer": "mean" if metric == "accuracy" else None,
        "scored_samples": scored,
        "unscored_samples": samples - scored,
        "metrics": {metric: {"name": metric, "value": value, "metadata": about}},
    }


def _sample(out: Path, run: Run, row: RunRow, budget: Budget, task_id: str) -> Json:
    folder = records.folder(out, run.workload, run.condition, run.repeat)
    transcript = inspect_transcript.read(folder / "transcript.jsonl", run.started)
    return {
        "id": run.workload,
        "epoch": run.repeat,
        "input": transcript.prompt or f"Workload {run.workload} on TPU {run.tpu}; the prompt is not in the record.",
        "target": "",
        "messages": transcript.messages,
        "scores": _scores(run, folder),
        "metadata": {**run.model_dump(mode="json"), "tokens": row.tokens},
        "events": transcript.events,
        "model_usage": _usage(run),
        "started_at": run.started,
        "total_time": run.seconds,
        "uuid": _id(task_id, run.workload, str(run.repeat), run.started),
        "limit": _limit(run, budget),
        "turn_count": row.turns,
    }


def _is_timed(run: Run) -> bool:
    return pairing.succeeded(run) and bool(run.speedup) and run.source is not None and not run.lower_bound


def _scores(run: Run, folder: Path) -> Json:
    if not pairing.counts(run):
        return {}
    kernel = folder / "kernels" / f"{run.kernel_sha256}.py"
    answer = kernel.read_text(encoding="utf-8", errors="replace") if run.kernel_sha256 and kernel.exists() else None
    said = f"{run.status}; {run.error}" if run.error else run.status
    scores: Json = {"correct": {"value": "C" if pairing.succeeded(run) else "I", "answer": answer, "explanation": said}}
    if _is_timed(run):
        scores[f"speedup_{run.source}"] = {
            "value": run.speedup,
            "explanation": f"{run.speedup:.3f}x as fast as XLA, {run.source}, of the best kernel judged again from scratch",
            "metadata": {name: getattr(run, name) for name in _OF_SPEEDUP},
        }
    return scores


def _usage(run: Run) -> Json:
    if run.prompt_tokens is None or run.completion_tokens is None:
        return {}
    return {
        run.model: {
            "input_tokens": run.prompt_tokens,
            "output_tokens": run.completion_tokens,
            "total_tokens": run.prompt_tokens + run.completion_tokens,
            "total_cost": run.cost_usd,
        }
    }


def _summed(usages: list[Json]) -> Json:
    """Of all samples; nothing where one of them does not tell, as a part would pass for the whole."""
    if not all(usages):
        return {}
    found: Json = {}
    for usage in usages:
        for model, one in usage.items():
            before = found.get(model)
            found[model] = {name: _plus(before[name], one[name]) for name in one} if before else one
    return found


def _plus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _limit(run: Run, budget: Budget) -> Json | None:
    """What ended the run, if it was a limit; Inspect knows no productive turns."""
    limits: dict[str, tuple[str, float | None]] = {
        "productive_turn_limit": ("custom", budget.productive_turns),
        "turn_limit": ("turn", budget.turns),
        "token_limit": ("token", budget.tokens),
        "cost_limit": ("cost", budget.cost_usd),
        "time_limit": ("time", budget.minutes * 60),
    }
    kind, limit = limits.get(run.stop, ("", None))
    return None if limit is None else {"type": kind, "limit": limit, "reason": run.stop}


def _id(*parts: str) -> str:
    """The same for the same parts, so that an export again replaces its file; letters and digits, as Inspect's are."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:22]

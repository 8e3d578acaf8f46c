"""Run by an interpreter that has inspect_ai: what its own reader finds in the logs of a folder, as JSON."""

import json
import sys

from inspect_ai.log import list_eval_logs, read_eval_log, recompute_metrics, write_eval_log


def metrics(log):
    return {score.name: {name: one.value for name, one in score.metrics.items()} for score in log.results.scores}


found = []
for info in list_eval_logs(sys.argv[1], descending=False):
    log = read_eval_log(info.name)
    said = {
        "task": info.task,
        "status": log.status,
        "model": log.eval.model,
        "metrics": metrics(log),
        "header": metrics(read_eval_log(info.name, header_only=True)),
        "usage": {name: one.model_dump() for name, one in log.stats.model_usage.items()},
        "samples": [
            {
                "id": sample.id,
                "epoch": sample.epoch,
                "scores": {name: one.value for name, one in (sample.scores or {}).items()},
                "roles": [message.role for message in sample.messages],
                "events": [event.event for event in sample.events],
                "limit": sample.limit and sample.limit.type,
                "timestamps": [event.timestamp.isoformat() for event in sample.events],
            }
            for sample in log.samples
        ],
    }
    recompute_metrics(log)
    said["recomputed"] = metrics(log)
    # Its own compressed form too.
    write_eval_log(log, sys.argv[2])
    said["rewritten"] = len(read_eval_log(sys.argv[2]).samples)
    found.append(said)
json.dump(found, sys.stdout)

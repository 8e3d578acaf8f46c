"""Small functions compiled for a named TPU by a worker, as the judge does it."""

import base64

from exporting import tpu_bytes

from hawkeye_mcp.judge.workers import WorkerPool


async def optimised(function, inputs, tpu="v5e"):
    """The operations of the compiled program."""
    pool = WorkerPool("compiler")
    try:
        reply = await pool.call(
            "compile", 600, artifact_b64=base64.b64encode(tpu_bytes(function, inputs)).decode(), tpu=tpu
        )
    finally:
        await pool.close()
    return reply["ops"]
